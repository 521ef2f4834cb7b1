# SPDX-License-Identifier: Apache-2.0
"""Where guests, the threads that serve them and NICs' interrupts are, against nodes, NICs and each
other.

Settings of interrupts come from the planner.
"""

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, TypeAlias

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import guest_threads
from nova_perf_tuning.host.audit.base import GuestRule, HostRule
from nova_perf_tuning.host.audit.guest_threads import Placed
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.audit.irqbalance_options import IrqbalanceEnvironment
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import napi, vectors
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import GIVEN, Finding, Level, NoDataError, named, need

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


#: The interrupts that carry packets: of each queue one, or one for each direction.
_Queues: TypeAlias = Sequence[Sequence[host_model.Irq]]
_NOWHERE: Final = "first leave it a housekeeping CPU (rule nova-cpu-sets); 'nova-perf plan{given}' says what stops it"


class NicInterruptRule(HostRule):
    """A rule on the interrupts of one NIC; the planner's own settings put them right."""

    appliable = True
    safe = True
    remedy = (
        "nova-perf apply --rule with the rule's name; 'nova-perf plan --all{given}' shows where to"
    )

    @abc.abstractmethod
    def wrong(
        self, host: Host, nic: host_model.Nic, queues: _Queues
    ) -> tuple[list[host_model.Irq], str]:
        """Return those of a NIC's interrupts that are wrong, and in words where they are.

        :raises NotApplicableError: the rule cannot judge the host.
        """

    def evidence(
        self, host: Host, nic: host_model.Nic, irqs: Sequence[host_model.Irq]
    ) -> list[tuple[str, object]]:
        """Return where ``irqs`` are."""
        shown: list[tuple[str, object]] = []
        for irq in irqs[:3]:
            name, cpus = "smp", irq.affinity
            if irq.effective:
                name, cpus = "effective", irq.effective
            path = f"/proc/irq/{irq.number}/{name}_affinity_list"
            shown.append((path, f"{cpus} ({irq.name or 'no handler'})"))
        if len(irqs) > 3:
            more = cpulist.format(irq.number for irq in irqs[3:])
            shown.append(("/proc/irq/*/smp_affinity_list", f"and {len(irqs) - 3} more: {more}"))
        return shown

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(host.links, "no NIC that is up")
        unknown: list[str] = []
        for nic in host.links:
            queues = list(vectors.classify(nic, host.interrupts(nic)).queues.values())
            if not queues:
                unknown.append(nic.name)
                continue
            wrong, where = self.wrong(host, nic, queues)
            irqs = [irq for irq in wrong if not host.is_refused(nic, irq)]
            if irqs:
                yield self._about(host, nic, irqs, where)
        need(
            not unknown,
            f"which interrupts carry packets of {named(unknown)} is not known",
            NoDataError,
        )

    def _about(
        self, host: Host, nic: host_model.Nic, irqs: Sequence[host_model.Irq], where: str
    ) -> Finding:
        targets = [f"irq:{irq.number}" for irq in irqs]
        settings = host.planned_for("irq_affinity", targets, f"audit-{self.id}")
        remedy = _NOWHERE
        if settings:
            remedy = f"nova-perf apply --rule {self.id}{GIVEN}  # 'nova-perf plan --all{GIVEN}' shows where to"
        speed = f"{nic.speed_mbps} Mbit/s" if nic.speed_mbps else "speed unknown"
        return self.finding(
            self.evidence(host, nic, irqs),
            f"{counted(len(irqs), 'interrupt')} of {nic.name} ({speed}) {where}",
            remedy,
            subject=nic.name,
            settings=settings,
        )


def _cpus(irq: host_model.Irq) -> frozenset[int]:
    """Return the CPU that serves an interrupt; all that may, where the kernel names none."""
    return cpulist.parse(irq.effective or irq.affinity or "")


def _flat(queues: _Queues) -> list[host_model.Irq]:
    """Return the interrupts of all queues."""
    return [irq for queue in queues for irq in queue]


class OnCpu0(NicInterruptRule):
    """No NIC queue interrupts CPU 0."""

    id = "nic-irq-on-cpu0"
    why = "CPU 0 serves timers and every device without an affinity; packets wait behind them."
    source = (
        "Oracle, 10GbE network performance tuning (2013): move the port's interrupts off CPU 0"
    )

    def wrong(
        self, host: Host, nic: host_model.Nic, queues: _Queues
    ) -> tuple[list[host_model.Irq], str]:
        need(len(host.sets.online) > 1, "one CPU")
        there = [irq for irq in _flat(queues) if _cpus(irq) == {0}]
        # With more queues than CPUs one of them is there on purpose; with no other housekeeping
        # CPU all are. The planner leaves these, or binds them to CPU 0.
        for irq in there:
            setting = host.planned.get(("irq_affinity", f"irq:{irq.number}"))
            if setting is not None and cpulist.parse(setting.value) != {0}:
                return there, "served by CPU 0 beside the timers of the whole host"
        return [], ""


class RemoteNode(NicInterruptRule):
    """A NIC's interrupts are on CPUs of its own node."""

    id = "nic-irq-remote-node"
    why = (
        "Descriptors and packets are then read over the interconnect: up to twice as slow (ESnet)."
    )
    source = "ESnet fasterdata; bloomberg/chef-bcpc #2115: 10-20 % of application performance"

    def wrong(
        self, host: Host, nic: host_model.Nic, queues: _Queues
    ) -> tuple[list[host_model.Irq], str]:
        host.need_nodes()
        need(
            any(link.node is not None for link in host.links),
            "the nodes of NICs are unknown",
            NoDataError,
        )
        if nic.node not in host.nodes_of(host.sets.housekeeping):
            return [], ""
        far: list[host_model.Irq] = []
        others: set[int] = set()
        for irq in _flat(queues):
            nodes = host.nodes_of(_cpus(irq))
            if nodes and vectors.node_of(nic, irq) not in nodes:
                far.append(irq)
                others |= nodes
        return far, f"served on node {cpulist.format(others)}, the NIC is on node {nic.node}"

    def evidence(
        self, host: Host, nic: host_model.Nic, irqs: Sequence[host_model.Irq]
    ) -> list[tuple[str, object]]:
        shown = [host.node_file(nic)]
        shown += super().evidence(host, nic, irqs)
        return shown


class OnDedicated(NicInterruptRule):
    """No NIC interrupts a CPU that belongs to a guest."""

    id = "nic-irq-on-dedicated"
    why = "Each interrupt throws a vCPU out of the CPU that it has for itself."
    source = "containers/nri-plugins #669, TuneD cpu-partitioning"

    def wrong(
        self, host: Host, nic: host_model.Nic, queues: _Queues
    ) -> tuple[list[host_model.Irq], str]:
        taken = host.sets.reserved | host.sets.quiet
        need(taken, "no dedicated or isolated CPUs")
        there: list[host_model.Irq] = []
        cpus: set[int] = set()
        for irq in host.interrupts(nic):
            serving = _cpus(irq)
            if serving and serving <= taken:
                there.append(irq)
                cpus |= serving
        return (
            there,
            f"on {cpulist.named(cpus)}, owned by guests or programs, or isolated for them",
        )


class OneCpu(NicInterruptRule):
    """The queues of a NIC are spread over CPUs."""

    id = "nic-irq-one-cpu"
    why = "One CPU in softirq is the limit of the whole NIC, whatever its number of queues."
    source = "scylladb #10600: CPU 0 at 100 % softirq, the NIC dropping"

    def wrong(
        self, host: Host, nic: host_model.Nic, queues: _Queues
    ) -> tuple[list[host_model.Irq], str]:
        pool = host.sets.interrupts(nic.node)
        if len(queues) < 2 or pool is None or len(pool.cpus) < 2:
            return [], ""
        irqs = _flat(queues)
        used = {_cpus(irq) for irq in irqs}
        used.discard(frozenset())  # where an interrupt is served is not known
        if len(used) != 1:
            return [], ""
        cpus = used.pop()
        if len(cpus) != 1:
            return [], ""
        spare = f"{pool.where} has {counted(len(pool.cpus), 'housekeeping CPU')}"
        return irqs, f"of all {len(queues)} queues served by CPU {min(cpus)}; {spare}"


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
