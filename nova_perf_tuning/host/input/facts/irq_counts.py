# SPDX-License-Identifier: Apache-2.0
"""How often each CPU has served each interrupt: ``/proc/interrupts``.

A large host must format millions of counts: facts read them of hosts with few CPUs alone, where NICs
have to share a CPU, and of recorded hosts without the masks of interrupts; rules of the audit where
nothing else says which CPU serves an interrupt.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model import host_model

#: With so few CPUs a recorded host always has the file (see device_interrupts.wants_counts).
_FEW_CPUS: Final = 8
_LIMIT: Final = 4 << 20
#: More digits than a CPU's number has.
_DIGITS: Final = 6
#: A NIC is quiet beside one with so many times its counts; fewer than ``_MANY`` say nothing.
_TIMES: Final = 100
#: Of an interrupt's counts: what a CPU has less of is from before it was moved.
_SHARE: Final = 0.01
_MANY: Final = 10_000
#: Of counts: the rest is of no weight, or from before an interrupt was moved.
_MOST: Final = 0.9


@dataclasses.dataclass(frozen=True, slots=True)
class CountRow:
    """One interrupt: CPU -> count, without zeros, and the names behind chip and hardware number."""

    counts: Mapping[int, int]
    name: str


def columns(text: bytes) -> frozenset[int]:
    """Return the CPUs that the first line of the file names: those that are online."""
    head = text.partition(b"\n")[0].decode("utf-8", "replace")
    return frozenset(cpu for cpu in _columns(head) if cpu <= cpulist.MAX_CPU)


def _columns(head: str) -> list[int]:
    cpus: list[int] = []
    for word in head.split():
        number = word[3:]
        if word.startswith("CPU") and number.isdecimal() and len(number) < _DIGITS:
            cpus.append(int(number))
    return cpus


def parsed(text: str) -> dict[int, CountRow]:
    """Return number -> row of the lines of numbered interrupts."""
    head, *lines = text.splitlines() or [""]
    cpus = _columns(head)
    rows: dict[int, CountRow] = {}
    for line in lines:
        number, colon, rest = line.partition(":")
        words = rest.split(maxsplit=len(cpus))
        counts = words[: len(cpus)]
        if not colon or not number.strip().isdecimal() or len(counts) < len(cpus):
            continue
        if all(count.isdecimal() for count in counts):
            row = {cpu: int(count) for cpu, count in zip(cpus, counts, strict=True)}
            name = re.split(r"\s{2,}", words[-1].strip())[-1]
            if not name.isprintable() or len(words) == len(cpus):
                name = ""
            rows[int(number)] = CountRow({cpu: count for cpu, count in row.items() if count}, name)
    return rows


def serving(counts: Mapping[int, int]) -> frozenset[int]:
    """Return the CPUs that have served an interrupt, without those that hardly have; none where it never fired."""
    total = sum(counts.values())
    often: set[int] = set()
    for cpu, count in counts.items():
        if count and count >= total * _SHARE:
            often.add(cpu)
    return frozenset(often)


def mostly_serving(counts: Mapping[int, int]) -> frozenset[int]:
    """Return the fewest CPUs that have served an interrupt nine times of ten."""
    left = _MOST * sum(counts.values())
    most: set[int] = set()
    for cpu in sorted(counts, key=lambda cpu: (-counts[cpu], cpu)):
        if left <= 0:
            break
        most.add(cpu)
        left -= counts[cpu]
    return frozenset(most)


def gathered(rows: Sequence[Mapping[int, int]], cores: Mapping[int, str]) -> tuple[str, float]:
    """Return the core that has served interrupts nine times of ten, and its share of them.

    The same must be true without the busiest one: where that has most of all counts, its own CPU
    has them too, and the others may be spread well. Few counts say nothing.

    :param rows: CPU -> count, of each interrupt. :param cores: CPU -> its core's cpulist.
    :return: an empty cpulist where no core has.
    """
    busiest_last = sorted(rows, key=lambda row: sum(row.values()))
    core, share = _busiest_core(busiest_last, cores)
    rest = _busiest_core(busiest_last[:-1], cores)
    if share < _MOST or rest[0] != core or rest[1] < _MOST:
        return "", 0.0
    return core, share


def _busiest_core(
    rows: Iterable[Mapping[int, int]], cores: Mapping[int, str]
) -> tuple[str, float]:
    """Return the core with most of the counts, and its share of them; an empty one of few counts."""
    totals: dict[str, int] = {}
    for row in rows:
        for cpu, count in row.items():
            core = cores.get(cpu, str(cpu))
            totals[core] = totals.get(core, 0) + count
    total = sum(totals.values())
    if total < _MANY:
        return "", 0.0
    core = max(totals, key=lambda core: totals[core])
    return core, totals[core] / total


def find_fired(root: Root, irqs: Mapping[int, host_model.Irq]) -> None:
    """Note of the interrupts of a recorded host without masks which CPUs have served them."""
    lacking = [irq for irq in irqs.values() if irq.affinity is None and irq.effective is None]
    if root.live or not lacking:
        return
    data = root.read(root.directory("proc"), "interrupts", _LIMIT)
    rows = parsed((data or b"").decode("utf-8", "replace"))
    for irq in lacking:
        if irq.number in rows:
            irq.fired = cpulist.format(serving(rows[irq.number].counts)) or None


def find_quiet(root: Root, nics: Sequence[host_model.Nic], cpus: int) -> None:
    """Mark the NICs whose interrupts have hardly fired beside those of the busiest one.

    :param cpus: number of CPUs that are online; with more than eight nothing is read.
    """
    with_irqs = [nic for nic in nics if nic.irqs]
    if cpus > _FEW_CPUS or len(with_irqs) < 2:
        return
    data = root.read(root.directory("proc"), "interrupts", _LIMIT)
    rows = parsed((data or b"").decode("utf-8", "replace"))
    fired: dict[str, int] = {}
    for nic in with_irqs:
        its = [rows[number] for number in nic.irqs if number in rows]
        fired[nic.name] = sum(sum(row.counts.values()) for row in its)
    most = max(fired.values())
    for nic in with_irqs:
        nic.quiet = most >= _MANY and fired[nic.name] * _TIMES < most
