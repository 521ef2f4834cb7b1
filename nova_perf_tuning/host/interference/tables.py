# SPDX-License-Identifier: Apache-2.0
"""The kernel's tables of counters per CPU: interrupts, softirqs and packets, and how they grew.

Formats: proc_interrupts(5); fs/proc/softirqs.c; softnet_seq_show() in net/core/net-procfs.c.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

#: The counters are unsigned int, and begin again at 0 behind the last.
_WRAP: Final = 1 << 32
#: Characters of a count in /proc/interrupts as the kernel writes most lines: a blank, ten digits.
_WIDTH: Final = 11
#: Columns of /proc/net/softnet_stat. Before Linux 5.10 a line does not say which CPU it is of.
_RECEIVED_RPS: Final = 9
_CPU: Final = 12
#: Interrupt -> what it is, and CPU -> count.
_Counts = dict[str, tuple[str, dict[int, int]]]


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


def parse_counts(text: str, wanted: Collection[int] | None = None) -> _Counts:
    """Return interrupt -> what it is, and CPU -> count, without ``ERR``, which is of all CPUs.

    :param wanted: the CPUs whose counts are returned; None: all.
    """
    head, *lines = text.splitlines() or [""]
    cpus = table_cpus(head)
    columns: list[tuple[int, int]] = []
    for column, cpu in enumerate(cpus):
        if wanted is None or cpu in wanted:
            columns.append((column, cpu))
    table: _Counts = {}
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


class CounterChanges:
    """Follows interrupts and packets from one reading to the next: it parses what has changed.

    Most interrupts of a large host are silent on most CPUs. A line that is as it was before is
    compared, and neither kept twice nor parsed.
    """

    def __init__(self) -> None:
        self._head = b""
        self._lines: dict[bytes, bytes] = {}
        self._softnet = ""

    def read(
        self, interrupts: Iterable[bytes], softnet: str, cpus: Collection[int]
    ) -> tuple[CounterTables, CounterTables] | None:
        """Return the reading before and this one; None: this is the first.

        Of interrupts they have only the counts of these CPUs that are not the same in both.
        """
        rows = iter(interrupts)
        head = next(rows, b"")
        online = table_cpus(head.decode("ascii", "replace"))
        is_first = not self._head
        old: _Counts = {}
        new: _Counts = {}
        lines: dict[bytes, bytes] = {}
        for row in rows:
            name = row[: row.find(b":")]
            row_before = self._lines.get(name, b"")
            if row == row_before:
                lines[name] = row_before
                continue
            lines[name] = row
            if is_first:
                continue
            counts = None
            if head == self._head:
                counts = _changed(online, row_before, row, cpus)
            if counts is None:
                counts = _parse(self._head, row_before, cpus), _parse(head, row, cpus)
            old |= counts[0]
            new |= counts[1]
        before = _reading(self._head, old, self._softnet, cpus)
        after = _reading(head, new, softnet, cpus)
        self._head, self._lines, self._softnet = head, lines, softnet
        if is_first:
            return None
        return before, after


def _parse(head: bytes, row: bytes, cpus: Collection[int]) -> _Counts:
    return parse_counts((head + row).decode("ascii", "replace"), cpus)


def _reading(head: bytes, counts: _Counts, softnet: str, cpus: Collection[int]) -> CounterTables:
    texts = CounterTexts(head.decode("ascii", "replace"), softnet)
    return dataclasses.replace(texts.parse(cpus), interrupts=counts)


def _changed(
    cpus: Sequence[int], before: bytes, after: bytes, wanted: Collection[int]
) -> tuple[_Counts, _Counts] | None:
    """Return the counts that differ in two rows of a table; None: they are not of the usual form.

    :param cpus: those of the columns.
    """
    begin = after.find(b":") + 1
    columns = _changed_columns(before[begin:], after[begin:], len(cpus))
    if columns is None:
        return None
    old: dict[int, int] = {}
    new: dict[int, int] = {}
    for column, count_before, count_after in columns:
        cpu = cpus[column]
        if cpu in wanted:
            old[cpu] = count_before
            new[cpu] = count_after
    name = after[: begin - 1].decode("ascii", "replace").strip()
    words = after[begin + len(cpus) * _WIDTH :].decode("ascii", "replace").split()
    about = " ".join(words)
    return {name: (about, old)}, {name: (about, new)}


def _changed_columns(
    before: bytes, after: bytes, number: int
) -> list[tuple[int, int, int]] | None:
    """Return columns and their counts that differ, by halves; None: not as wide as they should be."""
    for row in (before, after):
        if row[: number * _WIDTH : _WIDTH] != b" " * number:
            return None
    found: list[tuple[int, int, int]] = []
    parts = [(0, number)]
    while parts:
        first, end = parts.pop()
        part_before = before[first * _WIDTH : end * _WIDTH]
        part_after = after[first * _WIDTH : end * _WIDTH]
        if part_before == part_after:
            continue
        if end - first > 1:
            middle = (first + end) // 2
            parts += (first, middle), (middle, end)
        elif part_before.strip().isdigit() and part_after.strip().isdigit():
            found.append((first, int(part_before), int(part_after)))
        else:
            return None
    return found


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
