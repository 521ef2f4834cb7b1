# SPDX-License-Identifier: Apache-2.0
"""Where NICs' interrupts are, against nodes and the CPUs that guests own.

Settings come from the planner. Where nothing says which interrupts serve queues, a rule judges by
what is true of any of them.
"""

import abc
import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import HostRule, need_none_left
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.audit.interrupt_counts import InterruptCounts
from nova_perf_tuning.host.input.facts import irq_counts
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import vectors
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import GIVEN, Finding, Level, NoDataError, named, need

#: NICs that are shown where a rule holds.
_SHOWN: Final = 8
_NOWHERE: Final = (
    "first leave the host a housekeeping CPU (rule nova-cpu-sets); 'nova-perf plan{given}' says "
    "what stops it"
)
#: The kernel accepts a mask at once and moves the interrupt when it fires.
_PENDING: Final = (
    "nothing to write: their masks are right, and each moves when it fires the next time"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Carriers:
    """The interrupts that carry a NIC's packets.

    :ivar queues: of each queue those that serve it, one or one for each direction; where the driver's
        names do not say which serve queues, each that may by itself.
    :ivar beside: those of XDP programs, which serve no queue.
    :ivar others: how many of ``queues`` may be none.
    """

    queues: Sequence[Sequence[host_model.Irq]]
    beside: Sequence[host_model.Irq] = ()
    others: int = 0

    @classmethod
    def of(cls, host: Host, nic: host_model.Nic, counts: InterruptCounts) -> "Carriers | None":
        """Return those of a NIC; None where it has no interrupts."""
        irqs = host.interrupts(nic)
        beside = [irq for irq in irqs if vectors.serves_xdp(irq)]
        queues = vectors.classify(nic, irqs).queues
        if queues:
            return cls(list(queues.values()), beside)
        number = max(nic.rx_queues, nic.tx_queues)
        rest = [irq for irq in irqs if irq not in beside and vectors.may_serve_queues(irq)]
        if not rest or not number:
            return None
        busy = counts.busiest(rest, number)
        return cls([[irq] for irq in busy], beside, max(0, len(busy) - number))

    @property
    def irqs(self) -> list[host_model.Irq]:
        """All of them."""
        every = list(self.beside)
        for queue in self.queues:
            every += queue
        return sorted(every, key=lambda irq: irq.number)


@dataclasses.dataclass(frozen=True, slots=True)
class InterruptJudgement:
    """What a rule says of the interrupts of one NIC.

    :ivar wrong: those on a wrong CPU; :ivar where: in words where they are.
    :ivar sure: false where it is not known which CPU serves one of the others, and some would be wrong.
    :ivar moved: those that the plan may move, where they are others than ``wrong``; a measurement should
        say whether it pays.
    :ivar by_hand: the remedy where the plan moves none of ``wrong``.
    """

    wrong: Sequence[host_model.Irq] = ()
    where: str = ""
    sure: bool = True
    level: Level | None = None
    moved: Sequence[host_model.Irq] = ()
    by_hand: str = _NOWHERE


class NicInterruptRule(HostRule):
    """A rule on the interrupts of one NIC; the planner's own settings put them right.

    :cvar of_queues: what it finds is wrong of a queue's interrupt alone.
    """

    of_queues: ClassVar[bool] = True
    appliable = True
    safe = True
    remedy = "nova-perf apply --rule with the rule's name; 'nova-perf plan --all{given}' shows the target CPUs"

    @abc.abstractmethod
    def judge(
        self, host: Host, nic: host_model.Nic, carriers: Carriers, counts: InterruptCounts
    ) -> InterruptJudgement:
        """Return what is wrong with a NIC's interrupts.

        :raises NotApplicableError: the rule cannot judge the host.
        """

    def evidence(
        self,
        host: Host,
        nic: host_model.Nic,
        irqs: Sequence[host_model.Irq],
        counts: InterruptCounts,
    ) -> list[tuple[str, object]]:
        """Return where ``irqs`` are."""
        shown: list[tuple[str, object]] = [counts.served(irq).evidence for irq in irqs[:3]]
        if len(irqs) > 3:
            more = cpulist.format(irq.number for irq in irqs[3:])
            shown.append(("/proc/irq/*/smp_affinity_list", f"and {len(irqs) - 3} more: {more}"))
        return shown

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(host.links, "no NIC that is up")
        counts = InterruptCounts(host)
        unknown: list[str] = []
        unserved: list[str] = []
        refused: set[int] = set()
        for nic in host.links:
            carriers = Carriers.of(host, nic, counts)
            if carriers is None:
                unknown.append(nic.name)
                continue
            judged = self.judge(host, nic, carriers, counts)
            if self.of_queues and 0 < len(judged.wrong) <= carriers.others:
                unknown.append(nic.name)
                continue
            irqs = [irq for irq in judged.wrong if not host.is_refused(nic, irq)]
            refused.update(irq.number for irq in judged.wrong if irq not in irqs)
            if irqs:
                yield self._about(host, nic, irqs, judged, counts)
            elif not judged.sure:
                unserved.append(nic.name)
        need(
            not unknown,
            f"which interrupts carry packets of {named(unknown)} is not known",
            NoDataError,
        )
        need(
            not unserved,
            f"which CPUs serve the interrupts of {named(unserved)} is not known: effective_affinity does not say "
            "it, and /proc/interrupts names none, or several",
            NoDataError,
        )
        need_none_left(refused & host.left)
        stuck = cpulist.format(refused - host.left)
        need(not stuck, f"the kernel does not let interrupts {stuck} move")

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        counts = InterruptCounts(host)
        for nic in host.links[:_SHOWN]:
            served: set[int] = set()
            numbers: list[int] = []
            carriers = Carriers.of(host, nic, counts)
            for irq in carriers.irqs if carriers else ():
                numbers.append(irq.number)
                served |= counts.served(irq).cpus
            if numbers:
                path = f"/proc/irq/{cpulist.format(numbers)}"
                yield path, f"{nic.name}, on {cpulist.named(served)}"
        if len(host.links) > _SHOWN:
            yield "NICs", f"{len(host.links) - _SHOWN} more"

    def _about(
        self,
        host: Host,
        nic: host_model.Nic,
        irqs: Sequence[host_model.Irq],
        judged: InterruptJudgement,
        counts: InterruptCounts,
    ) -> Finding:
        targets = [f"irq:{irq.number}" for irq in judged.moved or irqs]
        settings = host.planned_for("irq_affinity", targets, f"audit-{self.id}")
        wrong = {f"irq:{irq.number}" for irq in irqs}
        remedy = judged.by_hand
        if wrong.isdisjoint(setting.target for setting in settings):
            settings = []
        pending = host.has_planned("irq_affinity", wrong)
        if pending:
            remedy = _PENDING
        if settings:
            remedy = f"nova-perf apply --rule {self.id}{GIVEN}  # 'nova-perf plan --all{GIVEN}' shows the target CPUs"
        speed = f"{nic.speed_mbps} Mbit/s" if nic.speed_mbps else "speed unknown"
        found = self.finding(
            self.evidence(host, nic, irqs, counts),
            f"{counted(len(irqs), 'interrupt')} of {nic.name} ({speed}) {judged.where}",
            remedy,
            subject=nic.name,
            settings=settings,
            level=judged.level,
            safe=not judged.moved,
        )
        return dataclasses.replace(found, pending=pending and not settings)


class _AvoidingRule(NicInterruptRule):
    """A rule that wants interrupts kept off some CPUs."""

    @abc.abstractmethod
    def avoided(self, host: Host, nic: host_model.Nic, irq: host_model.Irq) -> frozenset[int]:
        """Return the CPUs that should not serve an interrupt."""

    @abc.abstractmethod
    def where(self, host: Host, nic: host_model.Nic, cpus: frozenset[int]) -> str:
        """Return in words where interrupts are that ``cpus`` serve."""

    def judged(
        self, host: Host, nic: host_model.Nic, carriers: Carriers
    ) -> Sequence[host_model.Irq]:
        """Return the interrupts that are judged."""
        return carriers.irqs

    def judge(
        self, host: Host, nic: host_model.Nic, carriers: Carriers, counts: InterruptCounts
    ) -> InterruptJudgement:
        wrong: list[host_model.Irq] = []
        cpus: set[int] = set()
        sure = True
        for irq in self.judged(host, nic, carriers):
            place = counts.served(irq)
            avoided = self.avoided(host, nic, irq)
            bad = place.cpus & avoided
            most = place.most or place.cpus
            if bad and most <= avoided:
                wrong.append(irq)
                cpus |= bad
            elif bad or not (place.known or place.cpus):
                # Of several CPUs that are named, nothing says which serves it now.
                sure = sure and place.known and not place.counted
        return InterruptJudgement(wrong, self.where(host, nic, frozenset(cpus)), sure)


class OnCpu0(_AvoidingRule):
    """No NIC queue interrupts CPU 0."""

    id = "nic-irq-on-cpu0"
    why = "CPU 0 serves timers and every device without an affinity; packets wait behind them."
    source = (
        "Oracle, 10GbE network performance tuning (2013): move the port's interrupts off CPU 0"
    )

    def avoided(self, host: Host, nic: host_model.Nic, irq: host_model.Irq) -> frozenset[int]:
        return frozenset([0])

    def where(self, host: Host, nic: host_model.Nic, cpus: frozenset[int]) -> str:
        return "served by CPU 0, which also serves the timers of the whole host"

    def judge(
        self, host: Host, nic: host_model.Nic, carriers: Carriers, counts: InterruptCounts
    ) -> InterruptJudgement:
        host.need_cpus()
        need(len(host.sets.online) > 1, "one CPU")
        taken = host.sets.reserved | host.sets.quiet
        judged = super().judge(host, nic, carriers, counts)
        need(
            not judged.wrong or host.runs_guests or taken,
            "not a host of guests, and no CPU is dedicated or isolated: CPU 0 is as good as the others",
        )
        # With more queues than CPUs some of them are there on purpose; with no other housekeeping
        # CPU all are.
        planned = 0
        left = [irq for irq in judged.wrong if irq.number in host.left]
        for irq in carriers.irqs:
            if irq.number in host.left:
                continue
            setting = host.planned.get(("irq_affinity", f"irq:{irq.number}"))
            cpus = counts.served(irq).cpus
            if setting is not None:
                cpus = cpulist.parse(setting.value)
            if cpus == {0}:
                planned += 1
        if planned >= len(judged.wrong) - len(left):
            return dataclasses.replace(judged, wrong=left)
        # The others have most packets; or every CPU has work of the host and of guests.
        few = 2 * len(judged.wrong) < len(carriers.irqs)
        if few or not taken:
            return dataclasses.replace(judged, level=Level.INFO)
        return judged


class RemoteNode(_AvoidingRule):
    """A NIC's interrupts are on CPUs of its own node."""

    id = "nic-irq-remote-node"
    why = (
        "Descriptors and packets are then read over the interconnect: up to twice as slow (ESnet)."
    )
    source = "ESnet fasterdata; bloomberg/chef-bcpc #2115: 10-20 % of application performance"

    def avoided(self, host: Host, nic: host_model.Nic, irq: host_model.Irq) -> frozenset[int]:
        near = host.cpus_by_node.get(vectors.node_of(nic, irq), frozenset())
        return host.sets.online - near - host.cpus_by_node.get(None, frozenset())

    def where(self, host: Host, nic: host_model.Nic, cpus: frozenset[int]) -> str:
        nodes = cpulist.format(host.nodes_of(cpus))
        return f"served on node {nodes}, but the NIC is on node {nic.node}"

    def judge(
        self, host: Host, nic: host_model.Nic, carriers: Carriers, counts: InterruptCounts
    ) -> InterruptJudgement:
        host.need_nodes()
        need(
            any(link.node is not None for link in host.links),
            "the nodes of NICs are unknown",
            NoDataError,
        )
        if nic.node not in host.nodes_of(host.sets.housekeeping):
            return InterruptJudgement()
        return super().judge(host, nic, carriers, counts)

    def evidence(
        self,
        host: Host,
        nic: host_model.Nic,
        irqs: Sequence[host_model.Irq],
        counts: InterruptCounts,
    ) -> list[tuple[str, object]]:
        shown = [host.node_file(nic)]
        shown += super().evidence(host, nic, irqs, counts)
        return shown


class OnDedicated(_AvoidingRule):
    """No NIC interrupts a CPU that belongs to a guest."""

    id = "nic-irq-on-dedicated"
    of_queues = False
    why = "Each interrupt preempts a vCPU on its dedicated CPU."
    source = "containers/nri-plugins #669, TuneD cpu-partitioning"

    def avoided(self, host: Host, nic: host_model.Nic, irq: host_model.Irq) -> frozenset[int]:
        return host.sets.reserved | host.sets.quiet

    def where(self, host: Host, nic: host_model.Nic, cpus: frozenset[int]) -> str:
        return f"on {cpulist.named(cpus)}, which are owned by guests or programs, or isolated for them"

    def judged(
        self, host: Host, nic: host_model.Nic, carriers: Carriers
    ) -> Sequence[host_model.Irq]:
        return host.interrupts(nic)

    def judge(
        self, host: Host, nic: host_model.Nic, carriers: Carriers, counts: InterruptCounts
    ) -> InterruptJudgement:
        host.need_taken()
        return super().judge(host, nic, carriers, counts)


class OneCpu(NicInterruptRule):
    """The queues of a NIC are spread over CPUs."""

    id = "nic-irq-one-cpu"
    why = "One CPU in softirq is the limit of the whole NIC, whatever its number of queues."
    source = "scylladb #10600: CPU 0 at 100 % softirq, the NIC dropping"

    def judge(
        self, host: Host, nic: host_model.Nic, carriers: Carriers, counts: InterruptCounts
    ) -> InterruptJudgement:
        pool = host.sets.interrupts(nic.node)
        number = len(carriers.queues) - carriers.others
        if number < 2 or pool is None or len(pool.cpus) < 2:
            return InterruptJudgement()
        on_cpus: list[frozenset[int]] = []
        sure = True
        for queue in carriers.queues:
            places = [counts.served(irq) for irq in queue]
            if all(place.known for place in places):
                on_cpus.append(frozenset().union(*(place.cpus for place in places)))
            else:
                sure = False
        serving = frozenset[int]().union(*on_cpus)
        if not sure and not carriers.others and _apart(carriers, counts):
            return InterruptJudgement()
        if len(serving) > 1:
            if not sure or carriers.others:
                return InterruptJudgement()
            cpu, share = _gathered(carriers, counts)
            if cpu:
                rest = f"{cpulist.named(pool.members - cpulist.parse(cpu))} served the rest"
                where = f"of {_of_queues(nic, number)} have {share:.0%} of their counts since boot"
                return InterruptJudgement(carriers.irqs, f"{where} on CPU {cpu}; {rest}")
            return self._uneven(carriers, on_cpus, pool.members - serving)
        if not sure or not serving:
            return InterruptJudgement(sure=False)
        spare = f"{pool.where} has {counted(len(pool.cpus), 'housekeeping CPU')}"
        where = f"of {_of_queues(nic, number)} served by CPU {min(serving)}; {spare}"
        return InterruptJudgement(carriers.irqs, where)

    def _uneven(
        self, carriers: Carriers, on_cpus: Sequence[frozenset[int]], idle: frozenset[int]
    ) -> InterruptJudgement:
        """Return that queues share a CPU while others serve none of the NIC's queues."""
        queues_of = collections.Counter(cpu for cpus in on_cpus for cpu in cpus)
        shared = {cpu for cpu, number in queues_of.items() if number > 1}
        crowded: list[host_model.Irq] = []
        for queue, cpus in zip(carriers.queues, on_cpus, strict=True):
            if cpus <= shared:
                crowded += queue
        if not crowded or not idle:
            return InterruptJudgement()
        where = (
            f"share {cpulist.named(shared)}, while {cpulist.named(idle)} serve none of its queues"
        )
        if len(idle) == 1:
            where = where.replace(" serve none", " serves none")
        by_hand = f"echo {min(idle)} > /proc/irq/{crowded[-1].number}/smp_affinity_list"
        return InterruptJudgement(
            crowded, where, level=Level.INFO, moved=carriers.irqs, by_hand=by_hand
        )


def _gathered(carriers: Carriers, counts: InterruptCounts) -> tuple[str, float]:
    """Return the CPU that has served most of what a NIC's queues had, by counts alone, and its share."""
    rows: list[Mapping[int, int]] = []
    for queue in carriers.queues:
        if not all(counts.served(irq).counted for irq in queue):
            return "", 0.0
        of_queue: collections.Counter[int] = collections.Counter()
        for irq in queue:
            of_queue.update(counts.of(irq))
        rows.append(of_queue)
    return irq_counts.gathered(rows, {})


def _apart(carriers: Carriers, counts: InterruptCounts) -> bool:
    """Whether no CPU may serve all queues: the masks alone say that they are on several."""
    masks: list[frozenset[int]] = []
    for queue in carriers.queues:
        masks += [counts.served(irq).cpus for irq in queue]
    some = [mask for mask in masks if mask]
    return bool(some) and not frozenset.intersection(*some)


def _of_queues(nic: host_model.Nic, seen: int) -> str:
    """Return how many queues are seen, of how many; where a NIC has no queues/ nobody knows of how many."""
    number = max(nic.rx_queues, nic.tx_queues)
    if not number:
        return f"the {seen} queues that are seen"
    if number > seen:
        return f"{seen} of its {number} queues"
    return f"all {seen} queues"
