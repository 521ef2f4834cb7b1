# SPDX-License-Identifier: Apache-2.0
"""Where guests and the threads that serve them are, against nodes, NICs and each other."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import guest_threads
from nova_perf_tuning.host.audit.base import GuestRule, HostRule
from nova_perf_tuning.host.audit.guest_threads import Placed
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.audit.irqbalance_options import IrqbalanceEnvironment
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import napi
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, named, need

_ORACLE = (
    "Oracle, 10GbE network performance tuning (2013): pin the guest's vCPUs to the socket of dom0"
)
_CERN = "CERN (2016): one guest of 32 vCPUs lost 20.4 %, two of 16 lost 16 %, four of 8 lost 7.8 %"
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


class FarFromNic(_OnNodes):
    """A guest is on the node of the NIC that carries its traffic."""

    id = "guest-far-from-nic"
    why = "Every packet is copied over the interconnect; Nova's specification counts up to 50 %."
    remedy = (
        "[neutron_physnet_NAME] numa_nodes in nova.conf, for Nova to choose the node; then migrate the guest, a "
        "large one with [libvirt] live_migration_parallel_connections (Nova 33)"
    )
    plain = "<vcpu cpuset='CPUs of the NIC's node'> and <numatune> of that node"
    source = "Nova: NUMA-aware vSwitches; " + _ORACLE

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        ways: list[host_model.Nic] = []
        for guest in host.guests:
            ways.extend(host.uplinks(guest))
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
    """A guest larger than a node has guest NUMA nodes."""

    id = "guest-larger-than-node"
    why = (
        "Its kernel takes all memory for equally near and spreads its work over the interconnect."
    )
    remedy = "hw:numa_nodes in the flavor, so many that each fits into a node, or a smaller flavor"
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
        disturbing: dict[str, Placed] = {}  # guest -> the first of its threads that does
        unknown: set[str] = set()
        for thread in placed:
            if thread.cpus is None:
                unknown.add(thread.guest)
            elif cpulist.parse(thread.cpus) & host.sets.reserved:
                disturbing.setdefault(thread.guest, thread)
        need(disturbing or not unknown, f"threads unknown: {named(sorted(unknown))}", NoDataError)
        more = _more(len(disturbing), "so may those of")
        for thread in list(disturbing.values())[:_SHOWN]:
            both = cpulist.parse(thread.cpus or "") & host.sets.reserved
            yield self.finding(
                [thread.evidence],
                f"{self.threads} of {thread.guest} may run on {cpulist.named(both)}, which vCPUs or polling "
                f"programs own{more}",
                subject=thread.guest,
            )


class EmulatorOnDedicated(_ThreadsOnDedicated):
    """Emulator and I/O threads are off the CPUs that guests own."""

    id = "emulator-on-dedicated"
    kinds = ("emulator", "iothread")
    threads = "emulator or I/O threads"
    why = "QEMU's own threads preempt vCPUs: packets are lost and latency has a tail."
    remedy = "hw:emulator_threads_policy=share with [compute] cpu_shared_set, or perf:emulator_placement=numa"
    plain = "<emulatorpin> and <iothreadpin> on CPUs that no guest owns"
    source = "Red Hat: strongly recommended in almost all NFV cases; Nova's documentation of emulator threads"


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
    why = "Such a thread does a NIC's receive work wherever the scheduler likes, on a vCPU's CPU, too."
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
        need(
            known,
            "nothing tells whether the NAPI of NICs is threaded (since Linux 5.12)",
            NoDataError,
        )
        need(not lost, f"NAPI threads of {named(lost)} are not in this record", NoDataError)
        need(by_nic, "no threaded NAPI")
        taken = host.sets.reserved | host.sets.quiet
        need(taken, "no dedicated or isolated CPUs")
        for name, threads in by_nic.items():
            yield from self._judge(host, name, threads, taken)

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


class Irqbalance(HostRule):
    """irqbalance leaves placed interrupts and guests' CPUs alone."""

    id = "irqbalance-unaware"
    why = "It knows nothing of guests and moves interrupts every ten seconds, also those that somebody placed."
    remedy = (
        "ban exactly the placed interrupts (--banirq=N, or a --policyscript that prints ban=true) and the guests' "
        "CPUs (IRQBALANCE_BANNED_CPULIST); systemctl disable --now irqbalance where all are placed by hand"
    )
    source = "irqbalance #199, #297; Oracle's step stops it; perftune.py bans exactly its own"

    def check(self, host: Host) -> Iterator[Finding]:
        need(
            host.programs or host.has("proc/1/comm"),
            "running programs are not in this record",
            NoDataError,
        )
        if "irqbalance" not in host.programs:
            return
        environment = IrqbalanceEnvironment.read(host)
        taken = host.sets.reserved | host.sets.quiet
        name = environment.banning
        banned = environment.banned
        level = None
        if (
            name
            and not banned
            and (host.sets.quiet or (environment.options[name] and host.runs_guests))
        ):
            why = f"{name} is empty or no list of CPUs: it bans none"
            if host.sets.quiet:
                cancelled = f"the automatic ban of {cpulist.named(host.sets.quiet)}, isolated"
                why, level = f"{why}, and cancels {cancelled}", Level.ERROR
        elif (
            not host.runs_guests
            or environment.leaves_interrupts_alone(host)
            or (taken and taken <= banned)
        ):
            return
        elif banned:
            why = (
                f"{name} leaves {cpulist.named(taken - banned)} open, owned by guests or isolated"
            )
        else:
            why = "irqbalance runs without a ban: what is placed by hand is moved again within ten seconds"
            if environment.exported:
                why = f"systemd passes over lines with export: {why}"
        evidence = [
            (f"/proc/{host.programs['irqbalance']}/comm", "irqbalance"),
            (f"/{environment.path}", environment.shown),
        ]
        yield self.finding(evidence, why, level=level)
