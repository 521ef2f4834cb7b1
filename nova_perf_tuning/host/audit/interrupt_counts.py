# SPDX-License-Identifier: Apache-2.0
"""Which CPUs serve an interrupt: as the kernel says, else as it has counted in ``/proc/interrupts``.

Kernels before 4.15, and some architectures, do not say which of the CPUs in an interrupt's mask they
chose. Only then the counts are read: a large host must format millions of them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts import irq_counts
from nova_perf_tuning.host.model import host_model

_FILE: Final = "proc/interrupts"
#: An interrupt hardly fires with this share of the counts of another.
_SHARE: Final = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """Where an interrupt is delivered.

    :ivar cpus: the CPUs that serve it; where ``known`` is false, all that may.
    :ivar counted: it is known by counts alone, which go back to the boot.
    :ivar most: of ``cpus`` those that have served it nine times of ten, where it is counted.
    """

    cpus: frozenset[int]
    known: bool
    evidence: tuple[str, str]
    counted: bool = False
    most: frozenset[int] = frozenset()


class InterruptCounts:
    """The counts of one host, read when they are first asked for."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows: Mapping[int, irq_counts.CountRow] | None = None

    def of(self, irq: host_model.Irq) -> Mapping[int, int]:
        """Return CPU -> how often it has served an interrupt, without zeros."""
        return self._row(irq).counts

    def name_of(self, irq: host_model.Irq) -> str:
        """Return the names of an interrupt's handlers, of the file where its directory has none."""
        return irq.name or self._row(irq).name or "no handler"

    def _row(self, irq: host_model.Irq) -> irq_counts.CountRow:
        if self._rows is None:
            self._rows = irq_counts.parsed(self._host.content(_FILE) or "")
        return self._rows.get(irq.number, _NO_ROW)

    def served(self, irq: host_model.Irq) -> Served:
        """Return which CPUs serve an interrupt."""
        folder = f"/proc/irq/{irq.number}"
        name = irq.name or "no handler"
        if irq.effective:
            shown = (f"{folder}/effective_affinity_list", f"{irq.effective} ({name})")
            return Served(cpulist.parse(irq.effective), True, shown)
        allowed = cpulist.parse(irq.affinity or "")
        shown = (f"{folder}/smp_affinity_list", f"{irq.affinity or 'unknown'} ({name})")
        if len(allowed) == 1:
            return Served(allowed, True, shown)
        counts = self.of(irq)
        often = irq_counts.serving(counts)
        if irq.affinity is not None:
            often &= allowed
        if often:
            total = sum(counts.values())
            most = irq_counts.mostly_serving(counts) & often
            where = f"{irq.number}: {total} on {cpulist.named(often)} ({name})"
            if most and most != often:
                share = sum(counts[cpu] for cpu in most) / total
                where += f", {share:.0%} of them on {cpulist.named(most)}"
            return Served(often, True, (f"/{_FILE}", where), counted=True, most=most or often)
        return Served(allowed, False, shown)

    def busiest(self, irqs: Sequence[host_model.Irq], number: int) -> Sequence[host_model.Irq]:
        """Return the ``number`` interrupts that fire, where all others hardly ever do; else all of them."""
        if number >= len(irqs):
            return irqs
        totals = sorted((sum(self.of(irq).values()) for irq in irqs), reverse=True)
        least, next_one = totals[number - 1], totals[number]
        if least == 0 or next_one > least * _SHARE:
            return irqs
        return [irq for irq in irqs if sum(self.of(irq).values()) >= least]


_NO_ROW: Final = irq_counts.CountRow({}, "")
