# SPDX-License-Identifier: Apache-2.0
"""Where guests and the threads that serve them are, against nodes, NICs and each other."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import base, configuration, guest_threads
from nova_perf_tuning.host.audit.base import LEAVE, GuestRule, HostRule, devices_elsewhere
from nova_perf_tuning.host.audit.guest_threads import Placed
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.owners import Owner
from nova_perf_tuning.host.plan import napi
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, known, named, need

_ORACLE = (
    "Oracle, 10GbE network performance tuning (2013): pin the guest's vCPUs to the socket of dom0"
)
_CERN = "CERN (2016): one guest of 32 vCPUs lost 20.4 %, two of 16 lost 16 %, four of 8 lost 7.8 %"
_BALANCING: Final = "kernel.numa_balancing"
_CONNECTIONS: Final = ("libvirt", "live_migration_parallel_connections")
#: Findings of a rule about as many guests; the last one counts the others.
_SHOWN: Final = 3


def _vcpus(guest: Guest) -> str:
    return counted(guest.domain.vcpus, "vCPU")


def _too_much(host: Host, guest: Guest) -> list[str]:
    """Return what of a guest no node of the host can hold."""
    cpus, memory = host.largest_node
    much: list[str] = []
    if guest.domain.vcpus > cpus:
        much.append(f"{_vcpus(guest)} (a node has {counted(cpus, 'CPU')})")
    if memory and guest.inventory.memory_kib > memory:
        much.append(f"{guest.inventory.memory_kib >> 20} GiB (a node has {memory >> 20} GiB)")
    return much


def _more(guests: int, so: str) -> str:
    """Return the words on further guests: only the first few have findings of their own."""
    if guests <= _SHOWN:
        return ""
    return f"; {so} {counted(guests - _SHOWN, 'more guest')}"


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
    plain = "<vcpu cpuset='CPUs of a node'> and <numatune> of that node"
    source = f"{_ORACLE}; {_CERN}"

    def check(self, host: Host) -> Iterator[Finding]:
        floating = list(super().check(host))
        more = _more(len(floating), "so may")
        for finding in floating[:_SHOWN]:
            yield dataclasses.replace(finding, why=finding.why + more)

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        cpus = host.cpus_of(guest)
        nodes = len(host.nodes_of(cpus))
        if nodes > 1 and guest.inventory.cells <= 1 and not _too_much(host, guest):
            yield self.of(
                guest,
                [f"{_vcpus(guest)} on {cpulist.named(cpus)}"],
                f"{guest.name} with {_vcpus(guest)} fits into a node of {host.largest_node[0]} CPUs, but may "
                f"run on {nodes} nodes",
            )


class FloatsOnIsolated(HostRule):
    """Floating vCPUs run on CPUs that the scheduler balances."""

    id = "guest-floats-on-isolated"
    why = (
        "The scheduler moves no thread between isolated CPUs: all floating vCPUs pile up on the "
        "first one."
    )
    remedy = "hw:cpu_policy=dedicated in the flavor, or take the CPUs out of isolcpus= or the isolated partition"
    plain = "<vcpupin> of each vCPU to a CPU of its own; or take the CPUs out of isolcpus=, or make the guest's "
    plain += "slice a partition of type root"
    source = "sched(7); kernel documentation of isolcpus; seapath/ansible #908: four vCPUs seen on one CPU"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.guests or host.facts.guests, "no guests")
        host.need_isolation()
        claims = host.sets.owners
        isolated = claims.cpus(Owner.ISOLATED) - claims.cpus(Owner.SLICE)
        need(isolated, "no isolated CPUs")
        vcpus: dict[str, list[Placed]] = {}
        for thread in _vcpu_threads(host):
            vcpus.setdefault(thread.guest, []).append(thread)
        unknown = [name for name, own in vcpus.items() if any(vcpu.cpus is None for vcpu in own)]
        floating: dict[str, list[Placed]] = {}
        for name, own in vcpus.items():
            there = [vcpu for vcpu in own if _floats_over(host, vcpu, isolated)]
            if there:
                floating[name] = there
        number = sum(len(own) for own in floating.values())
        if number > 1:  # one alone has its CPU to itself
            yield from self._about(host, floating, isolated)
        need(not unknown, f"threads unknown: {named(unknown)}", NoDataError)

    def _about(
        self, host: Host, floating: Mapping[str, Sequence[Placed]], isolated: frozenset[int]
    ) -> Iterator[Finding]:
        more = _more(len(floating), "so do those of")
        for name, own in list(floating.items())[:_SHOWN]:
            cpus = cpulist.union(vcpu.cpus or "" for vcpu in own)
            there = cpulist.named(cpus & isolated)
            level = None
            if cpus <= isolated:
                happens = f"all pile up on CPU {min(cpus)}"
            else:
                happens = "one that gets there stays there"
                level = Level.INFO
            yield self.finding(
                [own[0].evidence, *configuration.isolation(host)],
                f"{counted(len(own), 'vCPU')} of {name} may float over {there}, isolated: {happens}{more}",
                subject=name,
                level=level,
            )


def _vcpu_threads(host: Host) -> Iterator[Placed]:
    """Yield where vCPUs of all guests may run, also of those whose XML is not known."""
    for guest in host.guests:
        threads = list(guest_threads.placed(host, guest, ("vcpu",)))
        yield from threads
        if not threads and guest.process is None:  # it is off: its pins say where they will be
            for text in guest.domain.vcpu_pins.values():
                element = "vcpu" if text == guest.domain.cpuset else "vcpupin"
                yield Placed(guest.name, (guest.path, f"<{element} cpuset='{text}'>"), text)
    judged = {guest.name for guest in host.guests}
    for process in host.facts.guests:
        if process.name not in judged:
            yield from guest_threads.of_process(process.name, process, ("vcpu",))


def _floats_over(host: Host, vcpu: Placed, isolated: frozenset[int]) -> bool:
    """Whether a vCPU that somebody confined to several CPUs may use isolated ones.

    One that may use every CPU was confined by nobody: it begins on a CPU that is balanced, and
    balancing moves it to no other.
    """
    cpus = cpulist.parse(vcpu.cpus or "")
    return len(cpus) > 1 and bool(cpus & isolated) and not cpus >= host.sets.online


class FarFromNic(_OnNodes):
    """A guest is on the node of the NIC that carries its traffic."""

    id = "guest-far-from-nic"
    why = (
        "Every packet is copied over the interconnect; Nova's specification reports losses of up "
        "to 50 %."
    )
    remedy = (
        "[neutron_physnet_NAME] numa_nodes in nova.conf, for Nova to choose the node; then migrate the guest, a "
        "large one with [libvirt] live_migration_parallel_connections (Nova 33) and its emulator threads on the "
        "shared CPUs (hw:emulator_threads_policy=share)"
    )
    plain = "<vcpu cpuset='CPUs of the NIC's node'> and <numatune> of that node"
    source = "Nova: NUMA-aware vSwitches; " + _ORACLE

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        ways: list[host_model.Nic] = []
        for guest in host.guests:
            ways.extend(host.uplinks(guest))
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(ways, "no NIC is known that carries guests' traffic")
        need(
            any(nic.node is not None for nic in ways), "the nodes of NICs are unknown", NoDataError
        )

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        cpus = host.cpus_of(guest)
        nodes = host.nodes_of(cpus)
        if len(nodes) != 1:
            return
        evidence: list[tuple[str, object]] = []
        names: list[str] = []
        for nic in host.uplinks(guest):
            if nic.node in nodes:
                return
            if nic.node is not None:
                evidence.append(host.node_file(nic))
                names.append(f"{nic.name} (node {nic.node})")
        if names:
            evidence.append((guest.path, f"vCPUs on {cpulist.named(cpus)}"))
            yield self.finding(
                evidence,
                f"{guest.name} runs on node {min(nodes)}, its traffic leaves through {', '.join(names)}",
                subject=guest.name,
            )


class LargerThanNode(_OnNodes):
    """A guest larger than a host node has NUMA nodes of its own."""

    id = "guest-larger-than-node"
    why = (
        "Without them its kernel assumes that all memory is equally near, and spreads work over "
        "the interconnect."
    )
    remedy = (
        "set hw:numa_nodes in the flavor so that each of them fits into a host node, or use a "
        "smaller flavor"
    )
    plain = "<cpu><numa> with cells that fit, each with its <memnode>"
    source = _CERN

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        need(host.largest_node[1], "the memory of nodes is unknown", NoDataError)

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        much = _too_much(host, guest)
        if guest.inventory.cells > 1 or not much:
            return
        cpus, memory = host.largest_node
        vcpus, remedy = (
            guest.domain.vcpus,
            "resize to a smaller flavor: however it is split, it does not fit here",
        )
        for count in range(
            len(host.nodes_of(host.sets.online)), 1, -1
        ):  # Nova splits vCPUs evenly, or not at all
            fits = not memory or guest.inventory.memory_kib <= memory * count
            if fits and vcpus % count == 0 and vcpus <= cpus * count:
                remedy = f"resize to a flavor with hw:numa_nodes={count}, or to a smaller one"
        why = f"{guest.name} has {' and '.join(much)} and no NUMA nodes of its own"
        yield self.of(guest, ["; ".join(much)], why, remedy)


class BalancedBeyondNode(_OnNodes):
    """Automatic NUMA balancing is off on a host where a guest larger than a node floats."""

    id = "numa-balancing-beyond-node"
    why = (
        "The kernel unmaps the guest's pages and moves them after vCPUs that wander between nodes, "
        "and KVM must map each page again."
    )
    remedy = (
        "hw:numa_nodes in the flavor, enough that each fits into a node of the host; or else measure "
        "what sysctl -w kernel.numa_balancing=0 gains"
    )
    plain = "<cpu><numa> with cells that fit, each with its <memnode>"
    source = "cloud-hypervisor #7574: thousands of kvm_unmap_hva_range a second until kernel.numa_balancing=0"

    def guests(self, host: Host) -> Sequence[Guest]:
        guests = super().guests(host)
        host.need_parameters("kernel.")
        value = known(host.facts.sysctls.get(_BALANCING), "no NUMA balancing in this kernel")
        need(value != "0", "NUMA balancing is off")
        return guests

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        need(host.largest_node[1], "the memory of nodes is unknown", NoDataError)

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        much = _too_much(host, guest)
        nodes = host.nodes_of(host.cpus_of(guest))
        if much and guest.inventory.cells <= 1 and not guest.domain.dedicated and len(nodes) > 1:
            evidence = [
                (base.sysctl_path(_BALANCING), host.facts.sysctls[_BALANCING]),
                (guest.path, "; ".join(much)),
            ]
            why = f"{guest.name} has {' and '.join(much)} and floats over {len(nodes)} nodes, which balancing follows"
            yield self.finding(evidence, why, subject=guest.name)


class _ThreadsOnDedicated(HostRule):
    """A rule on threads of one kind that may run on dedicated CPUs."""

    kinds: ClassVar[tuple[str, ...]]
    threads: ClassVar[str]

    def check(self, host: Host) -> Iterator[Finding]:
        placed: list[Placed] = []
        for guest in host.guests:
            placed.extend(guest_threads.placed(host, guest, self.kinds))
        need(placed, "no guest with such threads")
        need(host.sets.reserved, "no dedicated CPUs")
        disturbing: dict[str, list[Placed]] = {}  # guest -> its threads that do
        unknown: set[str] = set()
        for thread in placed:
            if thread.cpus is None:
                unknown.add(thread.guest)
            elif cpulist.parse(thread.cpus) & host.sets.reserved:
                disturbing.setdefault(thread.guest, []).append(thread)
        need(disturbing or not unknown, f"threads unknown: {named(sorted(unknown))}", NoDataError)
        more = _more(len(disturbing), "so may those of")
        for name, threads in list(disturbing.items())[:_SHOWN]:
            both = cpulist.union(thread.cpus or "" for thread in threads) & host.sets.reserved
            evidence = _shown_once(threads)
            yield self.finding(
                [*evidence, *_free_beside(host, name)],
                f"{self.threads} of {name} may run on {cpulist.named(both)}, which vCPUs or polling "
                f"programs own{more}",
                subject=name,
                level=Level.INFO if both <= host.cpus_beside_nova else None,
            )


def _shown_once(threads: Sequence[Placed]) -> list[tuple[str, str]]:
    """Return the evidence of threads: of those of one kind on the same CPUs the first, and how many there are."""
    alike: dict[tuple[str, str | None], list[Placed]] = {}
    for thread in threads:
        alike.setdefault((thread.kind, thread.cpus), []).append(thread)
    evidence: list[tuple[str, str]] = []
    for first, *others in list(alike.values())[:_SHOWN]:
        path, value = first.evidence
        if others:
            value += f", and {counted(len(others), 'thread')} like it"
        evidence.append((path, value))
    return evidence


def _free_beside(host: Host, name: str) -> list[tuple[str, str]]:
    """Return as evidence the CPUs that nobody owns on the nodes where a guest's vCPUs may run."""
    for guest in host.guests:
        if guest.name == name:
            for node in sorted(host.nodes_of(host.cpus_of(guest)))[:_SHOWN]:
                free = host.cpus_by_node[node] & host.sets.housekeeping
                shown = (
                    f"{cpulist.named(free)} of node {node} are nobody's"
                    if free
                    else "none is free"
                )
                return [(f"/sys/devices/system/node/node{node}/cpulist", shown)]
    return []


class EmulatorOnDedicated(_ThreadsOnDedicated):
    """Emulator and I/O threads are off the CPUs that guests own."""

    id = "emulator-on-dedicated"
    kinds = ("emulator", "iothread")
    threads = "emulator or I/O threads"
    why = "QEMU's own threads preempt vCPUs: packets are lost and latency has outliers."
    remedy = "hw:emulator_threads_policy=share with [compute] cpu_shared_set, or perf:emulator_placement=numa"
    plain = "<emulatorpin> and <iothreadpin> on CPUs that no guest owns"
    source = "Red Hat: strongly recommended in almost all NFV cases; Nova's documentation of emulator threads"


class MigrationThreads(HostRule):
    """Threads of parallel live migrations are off the CPUs that guests own."""

    id = "migration-threads-on-dedicated"
    why = (
        "QEMU has a thread for each connection, which runs wherever its emulator threads may run."
    )
    remedy = (
        "hw:emulator_threads_policy=share with [compute] cpu_shared_set, or use a single "
        "connection"
    )
    plain = "<emulatorpin> on CPUs that no guest owns"
    source = "QEMU: migration/multifd.c; Nova 33: [libvirt] live_migration_parallel_connections"

    def check(self, host: Host) -> Iterator[Finding]:
        number = host.option(_CONNECTIONS[1], _CONNECTIONS[0])
        several = number.isascii() and number.isdecimal() and len(number) < 6 and int(number) > 1
        need(several, "live migrations have one connection")
        need(host.guests, "no guests")
        need(host.sets.reserved, "no dedicated CPUs")
        hit: list[tuple[Placed, frozenset[int]]] = []
        unknown: set[str] = set()
        for guest in host.guests:
            for thread in guest_threads.placed(host, guest, ("emulator",)):
                both = cpulist.parse(thread.cpus or "") & host.sets.reserved
                if thread.cpus is None:
                    unknown.add(guest.name)
                elif both and guest.domain.dedicated:
                    hit.append((thread, both))
                    break
        for thread, both in hit[:_SHOWN]:
            yield self.finding(
                [host.nova[_CONNECTIONS], thread.evidence],
                f"a migration of {thread.guest} has {number} threads on {cpulist.named(both)}, which vCPUs "
                f"own{_more(len(hit), 'so have those of')}",
                subject=thread.guest,
            )
        need(not unknown, f"threads unknown: {named(sorted(unknown))}", NoDataError)


class VhostOnDedicated(_ThreadsOnDedicated):
    """vhost workers are off the CPUs that guests own."""

    id = "vhost-on-dedicated"
    kinds = ("vhost",)
    threads = "vhost workers"
    why = (
        "The worker that carries a guest's packets competes with a vCPU, its own or a neighbour's."
    )
    remedy = "perf:vhost_placement=numa or spread in the flavor, then nova-perf apply{given}"
    plain = "<emulatorpin> on CPUs that no guest owns: vhost workers have it, too"
    source = (
        "KubeVirt VEP 374; Cloudpods: vhost threads without binding interfere with other guests"
    )


class NapiOnDedicated(HostRule):
    """Threads of threaded NAPI are off the CPUs that guests own."""

    id = "napi-thread-on-dedicated"
    why = "Such a thread does a NIC's receive work on any CPU, including a vCPU's."
    remedy = "nova-perf apply --rule napi-thread-on-dedicated{given}  # to the CPUs that take interrupts"
    source = "kernel documentation of NAPI, threaded mode: pin each thread to the CPU that services its interrupt"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        known = False
        lost: list[str] = []
        by_nic: dict[str, list[host_model.Thread]] = {}
        for nic in host.facts.nics:
            if nic.threaded is None and not nic.napis:
                continue
            known = True
            threads = [thread for _napi, thread in napi.threads(nic)]
            if threads:
                by_nic[nic.name] = threads
            elif nic.threaded:
                lost.append(nic.name)
        if not known:
            host.need_collected("sys/class/net/*/threaded")
        need(
            known,
            "the kernel does not report whether the NAPI of NICs is threaded (it does since Linux 5.12)",
            NoDataError,
        )
        need(not lost, f"NAPI threads of {named(lost)} are not in this record", NoDataError)
        need(by_nic, "no threaded NAPI")
        taken = host.need_taken()
        left: list[str] = []
        for name, threads in by_nic.items():
            found = list(self._judge(host, name, threads, taken))
            if found and name in host.left_devices:
                left.append(name)
            else:
                yield from found
        need(not left, f"{LEAVE} names {named(left)}: their NAPI threads are left alone")

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        yield from devices_elsewhere(host)

    def _judge(
        self, host: Host, nic: str, threads: Sequence[host_model.Thread], taken: frozenset[int]
    ) -> Iterator[Finding]:
        evidence: list[tuple[str, str]] = []
        targets: list[str] = []
        both: frozenset[int] = frozenset()
        for thread in threads:
            affinity = thread.affinity or ""
            disturbed = cpulist.parse(affinity) & taken
            if disturbed:
                evidence.append((f"/proc/{thread.tid}/status Cpus_allowed_list", affinity))
                targets.append(f"tid:{thread.tid}")
                both |= disturbed
        if targets:
            threads_of = counted(len(targets), "NAPI thread")
            yield self.finding(
                evidence[:3],
                f"{threads_of} of {nic} may run on {cpulist.named(both)}: guests' or isolated",
                subject=nic,
                settings=host.planned_for("thread_affinity", targets, f"audit-{self.id}"),
            )
