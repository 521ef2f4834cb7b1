"""Where guests and the threads that serve them may run, against nodes, NICs and each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import GuestRule, Rule
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.rules import Finding, need

_ORACLE = "Oracle, 10GbE network performance tuning (2013): pin the guest's vCPUs to the socket of dom0"
_CERN = "CERN (2016): one guest of 32 vCPUs lost 20.4 %, two of 16 lost 16 %, four of 8 lost 7.8 %"


def _largest_node(host: Host) -> tuple[int, int]:
    """Return the CPUs and the memory in KiB (0: unknown) of the largest node."""
    cpus = max(len(host.online & cpulist.parse(node.cpus)) for node in host.facts.nodes)
    return cpus, max(node.memory_kib or 0 for node in host.facts.nodes)


def _too_much(host: Host, guest: Guest) -> list[str]:
    """Return what of a guest no node of the host can hold."""
    cpus, memory = _largest_node(host)
    much = [f"{guest.domain.vcpus} vCPUs (a node has {cpus} CPUs)"] if guest.domain.vcpus > cpus else []
    if memory and guest.inventory.memory_kib > memory:
        much.append(f"{guest.inventory.memory_kib >> 20} GiB (a node has {memory >> 20} GiB)")
    return much


class _OnNodes(GuestRule):
    """A rule on guests of a host with several nodes."""

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        host.need_nodes()
        return host.guests


class FloatsOverNodes(_OnNodes):
    """A guest that fits into one node stays there."""

    id = "guest-floats-over-nodes"
    why = "The scheduler moves vCPUs away from their memory, their vhost workers and their NIC."
    remedy = "resize to a flavor with hw:numa_nodes=1 (and hw:cpu_policy=dedicated for those that matter most)"
    source = f"{_ORACLE}; {_CERN}"

    def check(self, host: Host) -> Iterator[Finding]:
        found = list(super().check(host))
        more = f"; {len(found) - 3} more guests float like it" if len(found) > 3 else ""
        yield from (dataclasses.replace(finding, why=finding.why + more) for finding in found[:3])

    def about(self, host: Host, guest: Guest) -> Finding | None:
        cpus = host.cpus_of(guest)
        nodes = len(host.nodes_of(cpus))
        if nodes < 2 or guest.inventory.cells > 1 or _too_much(host, guest):
            return None
        return self.of(
            guest,
            [f"{guest.domain.vcpus} vCPUs on CPUs {cpulist.format(cpus)}"],
            f"{guest.name} with {guest.domain.vcpus} vCPUs fits into a node of {_largest_node(host)[0]} CPUs, but "
            f"may run on {nodes} nodes",
        )


class FarFromNic(_OnNodes):
    """A guest is on the node of the NIC that carries its traffic."""

    id = "guest-far-from-nic"
    why = "Every packet is copied over the interconnect; Nova's specification counts up to 50 %."
    remedy = "[neutron_physnet_NAME] numa_nodes in nova.conf, for Nova to choose the node; then migrate the guest"
    source = "Nova: NUMA-aware vSwitches; " + _ORACLE

    def about(self, host: Host, guest: Guest) -> Finding | None:
        cpus = host.cpus_of(guest)
        nodes = host.nodes_of(cpus)
        uplinks = [nic for nic in host.uplinks(guest) if nic.node is not None]
        if len(nodes) != 1 or not uplinks or any(nic.node in nodes for nic in uplinks):
            return None
        names = ", ".join(f"{nic.name} (node {nic.node})" for nic in uplinks)
        return self.finding(
            [*map(host.node_file, uplinks), (guest.path, f"vCPUs on CPUs {cpulist.format(cpus)}")],
            f"{guest.name} runs on node {min(nodes)}, its traffic leaves through {names}",
            subject=guest.name,
        )


class LargerThanNode(_OnNodes):
    """A guest larger than a node has guest NUMA nodes."""

    id = "guest-larger-than-node"
    why = "Its kernel takes all memory for equally near and spreads its work over the interconnect."
    remedy = "hw:numa_nodes in the flavor, so many that each fits into a node, or a smaller flavor"
    source = _CERN

    def about(self, host: Host, guest: Guest) -> Finding | None:
        much = _too_much(host, guest)
        if guest.inventory.cells > 1 or not much:
            return None
        cpus, memory = _largest_node(host)
        vcpus, remedy = guest.domain.vcpus, "resize to a smaller flavor: however it is split, it does not fit here"
        for count in range(len(host.nodes_of(host.online)), 1, -1):  # Nova splits vCPUs evenly, or not at all
            fits = not memory or guest.inventory.memory_kib <= memory * count
            if fits and vcpus % count == 0 and vcpus <= cpus * count:
                remedy = f"resize to a flavor with hw:numa_nodes={count}, or to a smaller one"
        return self.of(
            guest, ["; ".join(much)], f"{guest.name} has {' and '.join(much)} and no NUMA nodes of its own", remedy
        )


class _ThreadsOnDedicated(Rule):
    """A rule on threads of one kind that may run on dedicated CPUs."""

    kinds: ClassVar[tuple[str, ...]]
    threads: ClassVar[str]

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.facts.guests, "no running guests")
        need(host.sets.dedicated, "no dedicated CPUs")
        found = []
        for guest in host.facts.guests:
            for thread in guest.threads:
                both = cpulist.parse(thread.affinity or "") & host.sets.dedicated
                if thread.kind in self.kinds and both:
                    found.append((guest.name, thread, both))
                    break
        for name, thread, both in found[:3]:
            more = f"; so may those of {len(found) - 3} more guests" if len(found) > 3 else ""
            yield self.finding(
                [(f"/proc/{thread.tid}/status Cpus_allowed_list", thread.affinity)],
                f"{self.threads} of {name} may run on CPUs {cpulist.format(both)}, which guests' vCPUs own{more}",
                subject=name,
            )


class EmulatorOnDedicated(_ThreadsOnDedicated):
    """Emulator and I/O threads are off the CPUs that guests own."""

    id = "emulator-on-dedicated"
    kinds = ("emulator", "iothread")
    threads = "emulator or I/O threads"
    why = "QEMU's own threads preempt vCPUs: packets are lost and latency has a tail."
    remedy = "hw:emulator_threads_policy=share with [compute] cpu_shared_set, or perf:emulator_placement=numa"
    source = "Red Hat: strongly recommended in almost all NFV cases; Nova's documentation of emulator threads"


class VhostOnDedicated(_ThreadsOnDedicated):
    """vhost workers are off the CPUs that guests own."""

    id = "vhost-on-dedicated"
    kinds = ("vhost",)
    threads = "vhost workers"
    why = "The worker that carries a guest's packets competes with a vCPU, its own or a neighbour's."
    remedy = "perf:vhost_placement=numa or spread in the flavor, then nova-perf apply"
    source = "KubeVirt VEP 374; Cloudpods: vhost threads without binding interfere with other guests"
