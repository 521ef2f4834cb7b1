# SPDX-License-Identifier: Apache-2.0
"""Where the interrupts of all devices are served: of storage and passed-through devices, too, and of NICs whose
queues or device are not known.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.audit.interrupt_counts import InterruptCounts
from nova_perf_tuning.host.input.facts import irq_counts
from nova_perf_tuning.host.model import cpu_interrupts, host_model
from nova_perf_tuning.host.plan import vectors
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, named, need

#: An interrupt fires with so many counts, and this share of those of the busiest one; two that share a
#: CPU matter from so many on. The rate cannot be seen in one reading.
_LEAST: Final = 100
_SHARE: Final = 0.001
_MANY: Final = 10_000
#: Interrupts whose masks alone spread them over so many CPUs are not counted: that is slow on large hosts.
_SPREAD: Final = 8
#: Interrupts that are named, and groups of them that are shown.
_NAMED: Final = 4
_GROUPS: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class _Busy:
    """The interrupts that are judged: those that fire where counts are known, else all with a handler.

    :ivar irqs: the busiest first; :ivar served: CPUs that serve each; where ``unknown`` has it, those that may.
    :ivar fire: whether counts say that they fire.
    """

    counts: InterruptCounts
    irqs: Sequence[host_model.Irq]
    served: Mapping[int, frozenset[int]]
    unknown: frozenset[int]
    fire: bool

    @classmethod
    def of(cls, host: Host, share: float) -> "_Busy":
        """Return those of a host; ``share``: of the counts of the busiest."""
        counts = InterruptCounts(host)
        every = []
        for irq in host.facts.irqs.values():
            of_device = not cpu_interrupts.is_of_cpus(irq.name)
            if irq.serving and of_device and irq.number not in host.left:
                every.append(irq)
        handled = [irq for irq in every if irq.name]
        totals: dict[int, int] = {}
        if wants_counts(host.facts):
            for irq in every:
                totals[irq.number] = sum(counts.of(irq).values())
        most = max(totals.values(), default=0)
        irqs = handled
        if most:
            enough = max(most * share, _LEAST)
            irqs = [irq for irq in every if totals[irq.number] >= enough]
            irqs.sort(key=lambda irq: -totals[irq.number])
        places = {irq.number: counts.served(irq) for irq in irqs}
        served = {number: place.cpus for number, place in places.items()}
        unknown = frozenset(number for number, place in places.items() if not place.known)
        return cls(counts, irqs, served, unknown, bool(most))

    def groups(self) -> Iterator[tuple[frozenset[int], list[host_model.Irq]]]:
        """Yield the interrupts that the same CPUs serve, in the order of their numbers."""
        ordered = sorted(self.irqs, key=lambda irq: irq.number)
        yield from grouped((self.served[irq.number], irq) for irq in ordered).items()

    def gathered(self, host: Host) -> tuple[str, float]:
        """Return the core on which most of all counts are, as :func:`.irq_counts.gathered` does.

        Where masks say of an interrupt that it is elsewhere now, the counts are of the past.
        """
        if not self.fire or not all(self.counts.served(irq).counted for irq in self.irqs):
            return "", 0.0
        cores = {cpu.id: cpu.siblings for cpu in host.facts.cpus}
        return irq_counts.gathered([self.counts.of(irq) for irq in self.irqs], cores)

    def names(self, irqs: Sequence[host_model.Irq]) -> str:
        """Return numbers with names: ``27 (mvneta), 88 (mwlwifi)``."""
        return named([f"{irq.number} ({self.counts.name_of(irq)})" for irq in irqs], _NAMED)


def wants_counts(facts: host_model.HostFacts) -> bool:
    """Whether the rule looks at counts: the kernel's choice of CPUs, or masks of one CPU, spread too few."""
    chosen: set[str] = set()
    for irq in facts.irqs.values():
        if irq.name and not cpu_interrupts.is_of_cpus(irq.name):
            chosen.add(irq.effective or irq.affinity or "")
    return len({text for text in chosen if text.isdecimal()}) <= _SPREAD


class DevicesOnOneCpu(HostRule):
    """Interrupts that fire often are served by more than one core."""

    id = "device-irqs-one-cpu"
    why = (
        "Devices, and vectors of one device, wait for one another where one core serves them all."
    )
    remedy = "echo CPU > /proc/irq/N/smp_affinity_list for the busiest, each with a CPU of its own"
    source = "Irqbalance/irqbalance #71; kaloz/mwlwifi #34; kernel documentation: core-api/irq/irq-affinity"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.facts.irqs, "interrupts are not in this record", NoDataError)
        host.need_cpus()
        pool = self._pool(host)
        need(len(pool) > 1, "one CPU is left for interrupts")
        busy = _Busy.of(host, _SHARE)
        lacking = "no interrupt of a device fires"
        if host.left:
            lacking += " that is not left alone"
        need(busy.irqs, lacking)
        known = [irq for irq in busy.irqs if irq.number not in busy.unknown]
        serving = frozenset[int]().union(*(busy.served[irq.number] for irq in known))
        cores = {cpu.siblings for cpu in host.facts.cpus if cpu.id in serving}
        share = 1.0
        if len(cores) > 1:
            core, share = busy.gathered(host)
            if not core:
                return
            serving = cpulist.parse(core)
        often = [irq for irq in busy.irqs if sum(busy.counts.of(irq).values()) >= _MANY]
        several = len(self._devices(host, busy.irqs)) > 1
        if not several:
            often = _of_no_queue(host, often)
            need(len(often) > 1, self._alone(busy))
        need(not busy.unknown, self._unknown(busy), NoDataError)
        if several and busy.fire:
            need(
                len(self._devices(host, often)) > 1,
                f"devices hardly fire: {busy.names(busy.irqs)}",
            )
        idle = _on_other_cores(host, pool - serving, serving)
        need(idle, "one core is left for interrupts")
        level = None
        if not busy.fire or "irqbalance" in host.programs:
            level = Level.INFO  # they may be idle; irqbalance moves them when they are not
        # One device may do with one core, and two threads are more than one.
        if not several or len(serving) > 1:
            level = Level.INFO
        of_devices = f"{counted(len(busy.irqs), 'interrupt')} of {'several devices' if several else 'one device'}"
        others = f"{cpulist.named(idle)} serve{'s' if len(idle) == 1 else ''} no device"
        why = f"{of_devices} are served by {_of_core(serving)}, while {others}"
        if share < 1:
            why = (
                f"{of_devices} have {share:.0%} of their counts since boot on {_of_core(serving)}"
            )
            why += f", {cpulist.named(idle)} served the rest"
        yield self.finding(
            [busy.counts.served(irq).evidence for irq in busy.irqs[:_NAMED]],
            f"{why}: {busy.names(busy.irqs)}",
            self._commands(host, busy, idle),
            level=level,
        )

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        busy = _Busy.of(host, 0)
        groups = list(busy.groups())
        for cpus, irqs in groups[:_GROUPS]:
            numbers = cpulist.format(irq.number for irq in irqs)
            names = named([busy.counts.name_of(irq) for irq in irqs], _GROUPS)
            yield f"/proc/irq/{numbers}", f"{names}, on {cpulist.named(cpus)}"
        if len(groups) > _GROUPS:
            yield (
                "/proc/irq",
                f"{counted(len(groups) - _GROUPS, 'more set')} of CPUs that serve interrupts",
            )

    def _pool(self, host: Host) -> frozenset[int]:
        """Return the CPUs that may serve interrupts: irqaffinity= narrows them on purpose."""
        asked = host.cpus_of_parameter(host.boot.get("irqaffinity", ""))
        narrowed = host.sets.housekeeping & (asked or host.sets.housekeeping)
        return narrowed or host.sets.housekeeping

    def _devices(self, host: Host, irqs: Sequence[host_model.Irq]) -> frozenset[str]:
        """Return the devices that fire: a NIC or PCI device counts once, of others each name."""
        nic_of = {number: nic.name for nic in host.facts.nics for number in nic.irqs}
        devices: set[str] = set()
        for irq in irqs:
            devices.add(nic_of.get(irq.number) or irq.device or irq.name or str(irq.number))
        return frozenset(devices)

    def _alone(self, busy: _Busy) -> str:
        """Return which interrupts of one device there are; a NIC's queues are judged by nic-irq-one-cpu."""
        cpus = frozenset[int]().union(*busy.served.values())
        return f"one device fires: {busy.names(busy.irqs)}, on {cpulist.named(cpus)}"

    def _unknown(self, busy: _Busy) -> str:
        """Return which CPUs may serve the interrupts."""
        groups: list[str] = []
        every = list(busy.groups())
        for cpus, irqs in every[:_GROUPS]:
            numbers = cpulist.format(irq.number for irq in irqs)
            names = named(dict.fromkeys(busy.counts.name_of(irq) for irq in irqs), 2)
            groups.append(f"{numbers} ({names}) may be on {cpulist.named(cpus)}")
        if len(every) > _GROUPS:
            groups.append(f"{counted(len(every) - _GROUPS, 'more set')} of CPUs")
        return f"which CPUs serve interrupts is not known; {'; '.join(groups)}"

    def _commands(self, host: Host, busy: _Busy, idle: Sequence[int]) -> str:
        """Return commands that leave the busiest where it is, and give the next a core of their own each.

        CPUs of a device's node go first.
        """
        core_of = {cpu.id: cpu.siblings for cpu in host.facts.cpus}
        left = list(idle)
        commands: list[str] = []
        for irq in busy.irqs[1:_NAMED]:
            if not left:
                break
            near = [cpu for cpu in left if host.sets.node_of[cpu] == irq.node]
            cpu = (near or left)[0]
            left = [other for other in left if core_of[other] != core_of[cpu]]
            commands.append(f"echo {cpu} > /proc/irq/{irq.number}/smp_affinity_list")
        return "\n".join(commands)


def _of_no_queue(host: Host, irqs: Sequence[host_model.Irq]) -> list[host_model.Irq]:
    """Return those that are no queue's of a NIC, as far as that is known: nic-irq-one-cpu judges queues."""
    of_queues: set[int] = set()
    for nic in host.facts.nics:
        for queue in vectors.classify(nic, host.interrupts(nic)).queues.values():
            of_queues.update(irq.number for irq in queue)
    return [irq for irq in irqs if irq.number not in of_queues]


def _of_core(serving: frozenset[int]) -> str:
    """Return the CPUs that serve, which are those of one core."""
    named_cpus = cpulist.named(serving)
    return named_cpus if len(serving) == 1 else f"{named_cpus}, one core"


def _on_other_cores(host: Host, idle: frozenset[int], serving: frozenset[int]) -> list[int]:
    """Return the CPUs of ``idle`` whose core has no CPU of ``serving``."""
    shared = cpulist.union(cpu.siblings for cpu in host.facts.cpus if cpu.id in serving)
    return sorted(idle - shared)
