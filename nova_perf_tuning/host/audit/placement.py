"""Where guests and the threads that serve them may run, against nodes, NICs and each other."""

from __future__ import annotations

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Guest, Host

_ORACLE = "Oracle, 10GbE network performance tuning (2013): pin the guest's vCPUs to the socket of dom0"
_CERN = "CERN (2016): one guest of 32 vCPUs lost 20.4 %, two of 16 lost 16 %, four of 8 lost 7.8 %"


def guests_of(host: Host) -> tuple[Guest, ...]:
    """Return the guests.

    :raises NotApplicableError: there are none.
    """
    if not host.guests:
        raise NotApplicableError("no guests")
    return host.guests


def _several_nodes(host: Host) -> None:
    if len(host.nodes_of(host.online)) < 2:
        raise NotApplicableError("one NUMA node, or none known")


class FloatsOverNodes(base.Rule):
    """vCPUs that may run on several nodes although they would fit into one."""

    id = "guest-floats-over-nodes"
    level = Level.WARNING
    title = "a guest that fits into one node stays there"
    reads = "domain XML, /proc/PID/task/*/status, /sys/devices/system/node"
    why = "The scheduler moves vCPUs away from their memory, their vhost workers and their NIC."
    remedy = (
        "resize to a flavor with hw:numa_nodes=1 (and hw:cpu_policy=dedicated for the ones that matter most); "
        "'nova-perf explain' shows what it means"
    )
    source = f"{_ORACLE}; {_CERN}"

    def check(self, host: Host) -> Iterator[Finding]:
        guests = guests_of(host)
        _several_nodes(host)
        largest = max(len(host.sets.online & cpulist.parse(node.cpus)) for node in host.facts.nodes)
        memory = max((node.memory_kib or 0 for node in host.facts.nodes), default=0)
        floating = []
        for guest in guests:
            nodes = host.nodes_of(host.cpus_of(guest))
            fits = guest.domain.vcpus <= largest and (not memory or guest.inventory.memory_kib <= memory)
            if len(nodes) > 1 and fits and guest.inventory.cells < 2:
                floating.append(guest)
        for guest in floating[:3]:
            cpus = host.cpus_of(guest)
            more = f"; {len(floating) - 3} more guests float like it" if len(floating) > 3 else ""
            yield self.finding(
                [(guest.path, f"{guest.domain.vcpus} vCPUs on CPUs {cpulist.format(cpus)}")],
                f"{guest.name} with {guest.domain.vcpus} vCPUs fits into a node of {largest} CPUs, but may run on "
                f"{len(host.nodes_of(cpus))} nodes{more}",
                subject=guest.name,
            )


class FarFromNic(base.Rule):
    """A guest on one node, its NIC on another."""

    id = "guest-far-from-nic"
    level = Level.WARNING
    title = "a guest is on the node of the NIC that carries its traffic"
    reads = "domain XML, /sys/class/net/*/master, /sys/class/net/*/device/numa_node"
    why = (
        "Every packet is copied over the interconnect; Nova's specification counts up to 50 % with a "
        "vSwitch far away."
    )
    remedy = (
        "[neutron_physnet_NAME] numa_nodes in nova.conf, so that Nova's scheduler chooses the node; then migrate "
        "the guest"
    )
    source = "Nova: NUMA-aware vSwitches; " + _ORACLE

    def check(self, host: Host) -> Iterator[Finding]:
        guests = guests_of(host)
        _several_nodes(host)
        for guest in guests:
            nodes = host.nodes_of(host.cpus_of(guest))
            uplinks = [nic for nic in host.uplinks(guest) if nic.node is not None]
            if len(nodes) != 1 or not uplinks or any(nic.node in nodes for nic in uplinks):
                continue
            (node,) = nodes
            names = ", ".join(f"{nic.name} (node {nic.node})" for nic in uplinks)
            yield self.finding(
                [(f"/sys/class/net/{nic.name}/device/numa_node", nic.node) for nic in uplinks]
                + [(guest.path, f"vCPUs on CPUs {cpulist.format(host.cpus_of(guest))}")],
                f"{guest.name} runs on node {node}, its traffic leaves through {names}",
                subject=guest.name,
            )


class LargerThanNode(base.Rule):
    """A guest that no node can hold, and that does not know it."""

    id = "guest-larger-than-node"
    level = Level.WARNING
    title = "a guest larger than a node has guest NUMA nodes"
    reads = "domain XML, /sys/devices/system/node/*/meminfo"
    why = "Its kernel takes all memory for equally near and spreads its work over the interconnect."
    remedy = "hw:numa_nodes in the flavor, so many that each fits into a node, or a smaller flavor"
    source = _CERN

    def check(self, host: Host) -> Iterator[Finding]:
        guests = guests_of(host)
        _several_nodes(host)
        cpus = max(len(host.sets.online & cpulist.parse(node.cpus)) for node in host.facts.nodes)
        memory = max((node.memory_kib or 0 for node in host.facts.nodes), default=0)
        for guest in guests:
            if guest.inventory.cells > 1:
                continue
            much = [f"{guest.domain.vcpus} vCPUs (a node has {cpus} CPUs)"] if guest.domain.vcpus > cpus else []
            if memory and guest.inventory.memory_kib > memory:
                much.append(f"{guest.inventory.memory_kib >> 20} GiB (a node has {memory >> 20} GiB)")
            if much:
                yield self.finding(
                    [(guest.path, "; ".join(much))],
                    f"{guest.name} has {' and '.join(much)} and no NUMA nodes of its own",
                    self._fitting(guest, len(host.nodes_of(host.online)), cpus, memory),
                    subject=guest.name,
                )

    def _fitting(self, guest: Guest, nodes: int, cpus: int, memory_kib: int) -> str:
        """Return the least hw:numa_nodes whose cells fit into nodes; Nova splits vCPUs evenly, or not at all."""
        vcpus, whole_kib = guest.domain.vcpus, guest.inventory.memory_kib
        for count in range(2, nodes + 1):
            if (
                vcpus % count == 0
                and vcpus <= cpus * count
                and (not memory_kib or whole_kib <= memory_kib * count)
            ):
                return f"resize to a flavor with hw:numa_nodes={count}, or to a smaller one"
        return "resize to a smaller flavor: however it is split, it does not fit into the nodes of this host"


class _ThreadsOnDedicated(base.Rule):
    """Threads of one kind that may run on dedicated CPUs."""

    kinds: tuple[str, ...]
    called: str
    level = Level.WARNING
    reads = "/proc/PID/task/*/status, domain XML, /etc/nova/nova.conf"
    source = "Red Hat: strongly recommended in almost all NFV cases; Nova's documentation of emulator threads"

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.facts.guests:
            raise NotApplicableError("no running guests")
        if not host.sets.dedicated:
            raise NotApplicableError("no dedicated CPUs")
        found = []
        for guest in host.facts.guests:
            for thread in guest.threads:
                if thread.kind in self.kinds and thread.affinity:
                    both = cpulist.parse(thread.affinity) & host.sets.dedicated
                    if both:
                        found.append((guest.name, thread, both))
                        break
        for name, thread, both in found[:3]:
            more = f"; so may those of {len(found) - 3} more guests" if len(found) > 3 else ""
            yield self.finding(
                [(f"/proc/{thread.tid}/status Cpus_allowed_list", thread.affinity)],
                f"{self.called} of {name} may run on CPUs {cpulist.format(both)}, which guests' vCPUs own{more}",
                subject=name,
            )


class EmulatorOnDedicated(_ThreadsOnDedicated):
    """Emulator and I/O threads on vCPUs' CPUs."""

    id = "emulator-on-dedicated"
    kinds = ("emulator", "iothread")
    called = "emulator or I/O threads"
    title = "emulator and I/O threads are off the CPUs that guests own"
    why = "QEMU's own threads preempt vCPUs: packets are lost and latency has a tail."
    remedy = "hw:emulator_threads_policy=share with [compute] cpu_shared_set, or perf:emulator_placement=numa"


class VhostOnDedicated(_ThreadsOnDedicated):
    """vhost workers on vCPUs' CPUs."""

    id = "vhost-on-dedicated"
    kinds = ("vhost",)
    called = "vhost workers"
    title = "vhost workers are off the CPUs that guests own"
    why = "The worker that carries a guest's packets competes with a vCPU, its own or a neighbour's."
    remedy = "perf:vhost_placement=numa or spread in the flavor, then nova-perf apply"
    source = "KubeVirt VEP 374; Cloudpods: vhost threads without binding interfere with other guests"
