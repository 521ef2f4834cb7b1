# SPDX-License-Identifier: Apache-2.0
"""The table that netperf's omni tests print with ``-O``: a name in up to four lines stands above each value."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base

_WORD: Final = re.compile(r"\S+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?")
_INTERIM: Final = "Interim result"
#: Lines of a name.
_MOST_LINES: Final = 4
_MOST_COLUMNS: Final = 40
#: Ways to put lines that have lost their blanks above the columns.
_MOST_WAYS: Final = 4096
#: Words of a head, by which a table is one of omni's though its columns cannot be told.
_OF_OMNI: Final = frozenset(("Latency", "Percentile", "Throughput", "Transaction"))

#: Lines of a text that may be of a head, and are of none that fits.
_MOST_TRIES: Final = 8
#: Words that no other tool has above its columns.
_OF_OMNI_ALONE: Final = frozenset(("Microseconds", "Tran/s", "usec/tran"))


@dataclasses.dataclass(frozen=True, slots=True)
class OmniTable:
    """A table as it was found.

    :ivar columns: name as ``-o`` prints it, in small letters, or the selector of the command -> value;
        empty: the head does not fit the values, as where blanks were lost.
    :ivar count: how many values it has.
    :ivar begin: the first line of its head; :ivar row: that of its values.
    """

    columns: dict[str, str]
    count: int
    begin: int
    row: int


def read(
    lines: Sequence[str], names: frozenset[str], numbers: frozenset[str], asked: Sequence[str]
) -> OmniTable | None:
    """Return the table of a test; None: there is none.

    Blanks before a line are lost in a paste, so that it may begin at any column. It is put where all
    names are known, if there is one way alone; else the command says the names.

    :param lines: those below the banner; :param names: all that are known.
    :param numbers: names whose values are numbers; :param asked: selectors of the command.
    """
    head: list[str] = []
    row = begin = 0
    for row, line in enumerate(lines):
        values = [word[0] for word in _WORD.finditer(line)]
        if any(_NUMBER.fullmatch(value) for value in values) and not line.startswith(_INTERIM):
            break
        if line and not line.startswith(_INTERIM):
            if not head:
                begin = row
            head.append(line)
    else:
        return None
    words = {word for part in head for word in part.split()}
    if not 1 <= len(head) <= _MOST_LINES or not words & _OF_OMNI or not _fits(head, values):
        return None
    starts = tuple(word.start() for word in _WORD.finditer(line))
    found = _named(tuple(head), starts, tuple(values), names, numbers)
    if not found and len(asked) == len(values):
        found = dict(zip(asked, values, strict=True))
    return OmniTable(found, len(values), begin, row)


def find(
    lines: Sequence[str], names: frozenset[str], numbers: frozenset[str], asked: Sequence[str]
) -> list[OmniTable]:
    """Return the tables of a text that has no banner, wherever they begin; parameters as of :func:`read`.

    Those whose head does not fit are among them where its words are those of omni alone.
    """
    tables: list[OmniTable] = []
    vocabulary = {word for name in names for word in name.split()}
    end = tries = 0
    for at, line in enumerate(lines):
        words = line.split()
        if (
            at < end
            or not _OF_OMNI & set(words)
            or not vocabulary.issuperset(map(str.lower, words))
        ):
            continue
        found = _around(lines, at, end, names, numbers, asked)
        if found is not None:
            tables.append(found)
            end = found.row + 1
        if found is None or not found.columns:
            tries += 1
        if tries > _MOST_TRIES or len(tables) > base.MOST_RUNS:
            break
    return tables


def _around(
    lines: Sequence[str],
    at: int,
    end: int,
    names: frozenset[str],
    numbers: frozenset[str],
    asked: Sequence[str],
) -> OmniTable | None:
    """Return the table that has line ``at`` in its head, which begins behind line ``end``; None: there is none."""
    begin = at
    while begin > max(end, at - _MOST_LINES + 1) and lines[begin - 1]:
        if _has_number(lines[begin - 1]):
            break
        begin -= 1
    within = lines[: at + 2 * _MOST_LINES]
    for selectors in ((), asked):
        for start in range(begin, at + 1):
            found = read(within[start:], names, numbers, selectors)
            if found is not None and found.columns:
                return dataclasses.replace(found, begin=start, row=start + found.row)
    found = read(within[begin:], names, numbers, ())
    if found is None:
        return None
    words = {word for line in within[begin : begin + found.row] for word in line.split()}
    if found.row < 2 or not words & _OF_OMNI_ALONE:
        return None
    return dataclasses.replace(found, begin=begin, row=begin + found.row)


def is_row(line: str, count: int) -> bool:
    """Return whether a line has so many values, and begins with a number."""
    values = line.split()
    return len(values) == count and _NUMBER.fullmatch(values[0]) is not None


def _has_number(line: str) -> bool:
    return any(_NUMBER.fullmatch(word) for word in line.split())


def _fits(head: Sequence[str], values: Sequence[str]) -> bool:
    """Return whether lines may be the head of omni's table: those of classic tests name sockets first."""
    classic = head[0].startswith(("Recv ", "Socket ", "Local /Remote"))
    return not classic and len(values) <= _MOST_COLUMNS


# Every reader of netperf's outputs looks for the same tables.
@functools.lru_cache(maxsize=128)
def _named(
    head: tuple[str, ...],
    starts: tuple[int, ...],
    values: tuple[str, ...],
    names: frozenset[str],
    numbers: frozenset[str],
) -> dict[str, str]:
    """Return name -> value; empty: the lines of the head fit in no way, or in several."""
    ways = [[_cells(head[0], starts, 0)]]
    for line in head[1:]:
        ways.append([_cells(line, starts, shift) for shift in range(len(starts))])
    fitting = [[cells for cells in way if cells is not None] for way in ways]
    count = 1
    for way in fitting:
        count *= len(way)
    if not 1 <= count <= _MOST_WAYS:
        return {}
    best: list[dict[str, str]] = []
    for chosen in itertools.product(*fitting):
        columns: dict[str, str] = {}
        for at, value in enumerate(values):
            name = " ".join(cells[at] for cells in chosen if cells[at]).lower()
            columns[name] = value
        if len(columns) == len(values) and _is_known(columns, names, numbers):
            best.append(columns)
    if len(best) != 1:
        return {}
    return best[0]


def _cells(line: str, starts: Sequence[int], shift: int) -> list[str] | None:
    """Return the part of a line above each column; None: a word stands across the begin of one.

    :param shift: the column above which the line begins.
    """
    moved = " " * starts[shift] + line
    cells: list[str] = []
    for begin, end in itertools.zip_longest(starts, starts[1:]):
        if begin and begin < len(moved) and moved[begin - 1] != " ":
            return None
        cells.append(" ".join(moved[begin:end].split()))
    return cells


def _is_known(columns: dict[str, str], names: frozenset[str], numbers: frozenset[str]) -> bool:
    """Return whether all names are known, and have values of their kind."""
    for name, value in columns.items():
        is_number = _NUMBER.fullmatch(value) is not None
        if name not in names or is_number != (name in numbers):
            return False
    return True


def unfit(tool: base.Benchmark, table: OmniTable) -> base.BenchmarkOutputError:
    """Return the refusal of a table whose head does not fit its values."""
    return tool.fault(
        f"its columns are those of -O, and the head does not fit the {table.count} values"
        " below it, or has names that are not known: blanks may be lost; give it -o or -k"
        " with the names of figures"
    )
