# SPDX-License-Identifier: Apache-2.0
"""The kernel's tables of counters per CPU: interrupts, softirqs and packets, and how they grew.

Formats: proc_interrupts(5); fs/proc/softirqs.c; softnet_seq_show() in net/core/net-procfs.c.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

#: The counters are unsigned int, and begin again at 0 behind the last.
_WRAP: Final = 1 << 32
#: Columns of /proc/net/softnet_stat. Before Linux 5.10 a line does not say which CPU it is of.
_RECEIVED_RPS: Final = 9
_CPU: Final = 12


@dataclasses.dataclass(frozen=True, slots=True)
class CounterTables:
    """All tables at one time.

    :ivar interrupts, softirqs: as :func:`parse_counts` returns them.
    :ivar received_rps: CPU -> how often another CPU woke it for packets, for RPS or RFS.
    :ivar cpus: the CPUs that were online.
    """

    interrupts: Mapping[str, tuple[str, Mapping[int, int]]]
    softirqs: Mapping[str, tuple[str, Mapping[int, int]]]
    received_rps: Mapping[int, int]
    cpus: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class CounterTexts:
    """The tables as the kernel writes them; :ivar softirqs: empty where they were not read."""

    interrupts: str
    softnet: str
    softirqs: str = ""

    def parse(self, cpus: Collection[int]) -> CounterTables:
        """Return the counters of these CPUs, as far as they were online."""
        online = table_cpus(self.interrupts.partition("\n")[0])
        received = parse_received_rps(self.softnet, online)
        return CounterTables(
            parse_counts(self.interrupts, cpus),
            parse_counts(self.softirqs, cpus),
            {cpu: count for cpu, count in received.items() if cpu in cpus},
            frozenset(online) & frozenset(cpus),
        )


def parse_counts(
    text: str, wanted: Collection[int] | None = None
) -> dict[str, tuple[str, dict[int, int]]]:
    """Return interrupt -> what it is, and CPU -> count, without ``ERR``, which is of all CPUs.

    :param wanted: the CPUs whose counts are returned; None: all.
    """
    head, *lines = text.splitlines() or [""]
    cpus = table_cpus(head)
    columns: list[tuple[int, int]] = []
    for column, cpu in enumerate(cpus):
        if wanted is None or cpu in wanted:
            columns.append((column, cpu))
    table: dict[str, tuple[str, dict[int, int]]] = {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split(None, len(cpus))
        if len(words) < len(cpus):
            continue
        counts: dict[int, int] = {}
        for column, cpu in columns:
            word = words[column]
            if word.isascii() and word.isdigit():
                counts[cpu] = int(word)
        if len(counts) < len(columns):
            continue
        about = " ".join(" ".join(words[len(cpus) :]).split())
        table[name.strip()] = about, counts
    return table


def changed_lines(before: str, after: str) -> tuple[str, str]:
    """Return two readings of one table without the lines in which nothing changed.

    Most interrupts of a large host are silent, and to parse them costs the most.
    """
    head_before, *lines_before = before.splitlines() or [""]
    head_after, *lines_after = after.splitlines() or [""]
    if head_before != head_after:
        return before, after
    same = frozenset(lines_before)
    names: set[str] = set()
    kept_after = [head_after]
    for line in lines_after:
        if line not in same:
            kept_after.append(line)
            names.add(line.partition(":")[0])
    kept_before = [head_before]
    for line in lines_before:
        if line.partition(":")[0] in names:
            kept_before.append(line)
    return "\n".join(kept_before), "\n".join(kept_after)


def table_cpus(head: str) -> list[int]:
    """Return the CPUs of a table by its first line, ``CPU0 CPU2``."""
    cpus: list[int] = []
    for word in head.split():
        number = word.removeprefix("CPU")
        if number.isascii() and number.isdigit():
            cpus.append(int(number))
    return cpus


def parse_received_rps(text: str, online: Sequence[int]) -> dict[int, int]:
    """Return CPU -> ``received_rps`` of /proc/net/softnet_stat, without lines that are garbage.

    :param online: the CPUs that are online, ascending, which are those of the lines.
    """
    received: dict[int, int] = {}
    for index, line in enumerate(text.splitlines()):
        words = line.split()
        if len(words) <= _RECEIVED_RPS:
            continue
        try:
            count = int(words[_RECEIVED_RPS], 16)
            if len(words) > _CPU:
                cpu = int(words[_CPU], 16)
            else:
                cpu = online[index]
        except (ValueError, IndexError):
            continue
        received[cpu] = count
    return received


def growth(before: int, after: int) -> tuple[int, bool]:
    """Return by how much a counter grew, and whether it began again meanwhile.

    One that wrapped grew by less than half of what it can hold. One that began again at 0, as that
    of an interrupt which was freed, grew by at least what it has now.
    """
    if after >= before:
        return after - before, False
    wrapped = after - before + _WRAP
    if 0 <= wrapped < _WRAP // 2:
        return wrapped, False
    return after, True
