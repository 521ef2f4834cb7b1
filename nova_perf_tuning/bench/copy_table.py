"""Figures of a file copy: the published rule (best and worst dropped, mean of the rest) and robust ones beside it.

The published rule: five runs, the fastest and the slowest are dropped, the mean of three counts. The
median and the spread are shown beside it, since a mean of three says nothing of how far runs lie apart.
"""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Mapping, Sequence

from nova_perf_tuning.bench import base, output

_SIZE = re.compile(r"^([0-9]{1,6})Mバイト\s*$", re.M)
_RUN = re.compile(r"^([1-9])((?:\s+[0-9]{1,3}(?:,[0-9]{3}){1,4})+)\s*$", re.M)
_MEAN = re.compile(r"^平均((?:\s+[0-9]{1,3}(?:,[0-9]{3}){1,4})+)\s*$", re.M)
_SHARE = re.compile(r"^比率((?:\s+[0-9]{1,6}(?:\.[0-9])?%)+)\s*$", re.M)


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the largest and the smallest value.

    :raises ValueError: fewer than three values.
    """
    if len(values) < 3:
        raise ValueError("a mean without the best and the worst needs at least three runs")
    kept = sorted(values)[1:-1]
    return math.fsum(kept) / len(kept)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the median absolute deviation from it."""
    median = statistics.median(values)
    return median, statistics.median(abs(one - median) for one in values)


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One configuration in a published table.

    :ivar kept: bytes per second of the runs that count; :ivar mean, share: as printed, bytes/s and %.
    """

    kept: tuple[float, ...]
    mean: float
    share: float

    @property
    def right_mean(self) -> float:
        """The mean worked out from the runs."""
        return math.fsum(self.kept) / len(self.kept)


def read(text: str) -> Mapping[int, tuple[Column, ...]]:
    """Return size in MB -> columns of the published table (configurations in the order of the text).

    :raises base.OutputError: no table, or one with rows of different lengths.
    """
    sizes = list(_SIZE.finditer(text))
    found: dict[int, tuple[Column, ...]] = {}
    for size, end in zip(sizes, [one.start() for one in sizes[1:]] + [len(text)], strict=True):
        part = text[size.end() : end]
        runs = [_numbers(one[2]) for one in _RUN.finditer(part)]
        mean, share = _MEAN.search(part), _SHARE.search(part)
        if not runs or mean is None or share is None:
            continue
        rows = [*runs, _numbers(mean[1]), _numbers(share[1])]
        if len({len(row) for row in rows}) != 1:
            raise base.OutputError(f"the table of {size[1]} MB has rows of different lengths")
        found[int(size[1])] = tuple(
            Column(tuple(column[:-2]), column[-2], column[-1]) for column in zip(*rows, strict=True)
        )
    if not found:
        raise base.OutputError(f"no table of file copies in '{output.printable(text, 60)}'")
    return found


def _numbers(text: str) -> list[float]:
    return [float(one.replace(",", "").rstrip("%")) for one in text.split()]
