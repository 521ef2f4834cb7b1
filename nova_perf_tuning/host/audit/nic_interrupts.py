# SPDX-License-Identifier: Apache-2.0
"""Where NICs' interrupts are, against nodes and the CPUs that guests own.

Settings come from the planner. Where nothing says which interrupts serve queues, a rule judges by
what is true of any of them.
"""

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import vectors
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import GIVEN, Finding, NoDataError, named, need

_NOWHERE: Final = "first leave it a housekeeping CPU (rule nova-cpu-sets); 'nova-perf plan{given}' says what stops it"


@dataclasses.dataclass(frozen=True, slots=True)
class Carriers:
    """The interrupts that carry a NIC's packets.

    :ivar irqs: of each queue one, or one for each direction; where the driver's names do not say
        which serve queues, all that have a handler.
    :ivar queues: how many queues they serve.
    :ivar others: how many of ``irqs`` may serve no queue.
    """

    irqs: Sequence[host_model.Irq]
    queues: int
    others: int = 0

    @classmethod
    def of(cls, host: Host, nic: host_model.Nic) -> "Carriers | None":
        """Return those of a NIC; None where it has no interrupts."""
        irqs = host.interrupts(nic)
        queues = vectors.classify(nic, irqs).queues
        if queues:
            return cls([irq for queue in queues.values() for irq in queue], len(queues))
        number = max(nic.rx_queues, nic.tx_queues)
        if not irqs or not number:
            return None
        return cls(irqs, min(number, len(irqs)), max(0, len(irqs) - number))


class NicInterruptRule(HostRule):
    """A rule on the interrupts of one NIC; the planner's own settings put them right.

    :cvar of_queues: what it finds is wrong of a queue's interrupt alone.
    """

    of_queues: ClassVar[bool] = True
    appliable = True
    safe = True
    remedy = (
        "nova-perf apply --rule with the rule's name; 'nova-perf plan --all{given}' shows where to"
    )

    @abc.abstractmethod
    def wrong(
        self, host: Host, nic: host_model.Nic, carriers: Carriers
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
            carriers = Carriers.of(host, nic)
            if carriers is None:
                unknown.append(nic.name)
                continue
            wrong, where = self.wrong(host, nic, carriers)
            if self.of_queues and 0 < len(wrong) <= carriers.others:
                unknown.append(nic.name)
                continue
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


class OnCpu0(NicInterruptRule):
    """No NIC queue interrupts CPU 0."""

    id = "nic-irq-on-cpu0"
    why = "CPU 0 serves timers and every device without an affinity; packets wait behind them."
    source = (
        "Oracle, 10GbE network performance tuning (2013): move the port's interrupts off CPU 0"
    )

    def wrong(
        self, host: Host, nic: host_model.Nic, carriers: Carriers
    ) -> tuple[list[host_model.Irq], str]:
        need(len(host.sets.online) > 1, "one CPU")
        there = [irq for irq in carriers.irqs if _cpus(irq) == {0}]
        # With more queues than CPUs some of them are there on purpose; with no other housekeeping
        # CPU all are.
        planned = 0
        for irq in carriers.irqs:
            setting = host.planned.get(("irq_affinity", f"irq:{irq.number}"))
            cpus = _cpus(irq)
            if setting is not None:
                cpus = cpulist.parse(setting.value)
            if cpus == {0}:
                planned += 1
        if planned >= len(there):
            return [], ""
        return there, "served by CPU 0, which also serves the timers of the whole host"


class RemoteNode(NicInterruptRule):
    """A NIC's interrupts are on CPUs of its own node."""

    id = "nic-irq-remote-node"
    why = (
        "Descriptors and packets are then read over the interconnect: up to twice as slow (ESnet)."
    )
    source = "ESnet fasterdata; bloomberg/chef-bcpc #2115: 10-20 % of application performance"

    def wrong(
        self, host: Host, nic: host_model.Nic, carriers: Carriers
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
        for irq in carriers.irqs:
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
    of_queues = False
    why = "Each interrupt preempts a vCPU on its dedicated CPU."
    source = "containers/nri-plugins #669, TuneD cpu-partitioning"

    def wrong(
        self, host: Host, nic: host_model.Nic, carriers: Carriers
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
        self, host: Host, nic: host_model.Nic, carriers: Carriers
    ) -> tuple[list[host_model.Irq], str]:
        pool = host.sets.interrupts(nic.node)
        if carriers.queues < 2 or pool is None or len(pool.cpus) < 2:
            return [], ""
        irqs = list(carriers.irqs)
        cpus: frozenset[int] = frozenset()
        for irq in irqs:
            its = _cpus(irq)
            if not its:  # where it is served is not known
                continue
            if len(its) > 1 or (cpus and its != cpus):
                return [], ""
            cpus = its
        if not cpus:
            return [], ""
        spare = f"{pool.where} has {counted(len(pool.cpus), 'housekeeping CPU')}"
        return irqs, f"of all {carriers.queues} queues served by CPU {min(cpus)}; {spare}"
