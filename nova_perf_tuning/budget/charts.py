"""Geometry of the report's charts: positions in percent of the width, so that text keeps its size everywhere."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Sequence

from nova_perf_tuning.budget import statistics

#: Beyond this ratio of largest to smallest value equal ratios get equal lengths.
_LOG_FROM = 4.0
_MARGIN = 3.0
#: So many dates have room beside each other.
_DATES = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """A line of the axis; :attr:`at` in percent."""

    at: float
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A horizontal axis.

    :ivar low, high: its ends, in the unit of the values.
    """

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[Tick, ...]

    def place(self, value: float) -> float:
        """Return the position of ``value`` in percent, kept on the axis."""
        return _place(value, self.low, self.high, self.logarithmic)


@dataclasses.dataclass(frozen=True, slots=True)
class Dot:
    """One trial or pair; :attr:`y` in percent of its row, :attr:`text` for the tooltip."""

    x: float
    y: float
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of a dot chart: every value, the median and the interval (None without one)."""

    dots: tuple[Dot, ...]
    median: float | None
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """One class of CPU time in a bar; positions in percent."""

    name: str
    x: float
    width: float
    value: float


def axis(values: Sequence[float], include: Sequence[float] = ()) -> Axis:
    """Return an axis for positive ``values``, logarithmic when they span more than a factor of four.

    :param include: further values that must be on it.
    """
    found = [value for value in (*values, *include) if value > 0] or [1.0]
    low, high = min(found), max(found)
    logarithmic = high / low > _LOG_FROM
    if logarithmic:
        low, high = low / 1.15, high * 1.15
    else:
        pad = (high - low) * 0.08 or high * 0.05
        low, high = max(0.0, low - pad), high + pad
    numbers = _log_ticks(low, high) if logarithmic else _linear_ticks(low, high)
    if len(numbers) < 2:  # one tick tells no scale
        numbers = [_rounded(low * (high / low) ** share, low, high) for share in (0.1, 0.5, 0.9)]
    ticks = tuple(Tick(_place(number, low, high, logarithmic), number) for number in numbers)
    return Axis(low, high, logarithmic, ticks)


@dataclasses.dataclass(frozen=True, slots=True)
class Track:
    """A history: a dot for each run, a level line for each stretch between changes; all in percent, 0 at the top.

    :ivar dots: (x, y, text); :ivar levels: (from x, to x, y); :ivar marks: x of the changes.
    :ivar ticks: values down the side; :ivar dates: (x, text) along the foot.
    """

    dots: tuple[tuple[float, float, str], ...]
    levels: tuple[tuple[float, float, float], ...]
    marks: tuple[float, ...]
    ticks: tuple[Tick, ...]
    dates: tuple[tuple[float, str], ...]


def track(
    values: Sequence[tuple[float, str]], changes: Sequence[int], times: Sequence[datetime.datetime]
) -> Track:
    """Return the history of positive values, in the order of time.

    :param changes: indexes of the first value after each change; :param times: of each value.
    """
    numbers = [value for value, _ in values]
    low, high = min(numbers), max(numbers)
    pad = (high - low) * 0.15 or high * 0.05
    low, high = max(0.0, low - pad), high + pad

    def across(index: float) -> float:
        return _MARGIN + (100 - 2 * _MARGIN) * (index + 0.5) / len(numbers)

    def down(value: float) -> float:
        return 100 - 100 * (value - low) / (high - low)

    ends = [0, *changes, len(numbers)]
    levels = [
        (across(begin - 0.4), across(end - 0.6), down(sorted(numbers[begin:end])[(end - begin) // 2]))
        for begin, end in zip(ends, ends[1:], strict=False)
    ]
    dots = tuple((across(index), down(value), text) for index, (value, text) in enumerate(values))
    steps = _linear_ticks(low, high)
    ticks = tuple(Tick(down(step), step) for step in steps)
    dates = tuple((across(index), text) for index, text in _dates(times))
    return Track(dots, tuple(levels), tuple(across(index - 0.5) for index in changes), ticks, dates)


def _dates(times: Sequence[datetime.datetime]) -> list[tuple[int, str]]:
    """Return (index, text) of some times, the first and the last among them; with the hour where days repeat."""
    parts = min(len(times), _DATES) - 1
    places = [round(part * (len(times) - 1) / parts) for part in range(parts + 1)] if parts else [0]
    days = {times[place].date() for place in places}
    form = "%Y-%m-%d" if len(days) == len(places) else "%Y-%m-%d %H:%M"
    return [(place, times[place].strftime(form)) for place in places]


def row(axis: Axis, values: Sequence[tuple[float, str]], estimate: statistics.Estimate | None) -> Row:
    """Return a chart row; dots are spread over three heights so that equal values stay visible."""
    dots = tuple(
        Dot(axis.place(value), 50 + (index % 3 - 1) * 16, text) for index, (value, text) in enumerate(values)
    )
    if estimate is None:
        return Row(dots, None, None, None)
    low = None if estimate.low is None else axis.place(estimate.low)
    high = None if estimate.high is None else axis.place(estimate.high)
    return Row(dots, axis.place(estimate.value), low, high)


def bar(parts: Sequence[tuple[str, float]], full: float) -> tuple[Segment, ...]:
    """Return a stacked bar of (name, value) on a scale that ends at ``full``."""
    segments = []
    x = 0.0
    for name, value in parts:
        width = 100 * max(0.0, value) / full if full > 0 else 0.0
        segments.append(Segment(name, x, width, value))
        x += width
    return tuple(segments)


def _place(value: float, low: float, high: float, logarithmic: bool) -> float:
    value = min(max(value, low), high)
    if logarithmic:
        share = math.log(value / low) / math.log(high / low)
    else:
        share = (value - low) / (high - low) if high > low else 0.5
    return _MARGIN + share * (100 - 2 * _MARGIN)


def _linear_ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    span = high - low
    step = 10.0 ** math.floor(math.log10(span / wanted))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= wanted + 1)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _rounded(value: float, low: float, high: float) -> float:
    """Return ``value`` with as few digits as keep it between ``low`` and ``high``."""
    for digits in range(1, 17):
        short = float(f"{value:.{digits}g}")
        if low <= short <= high and abs(short - value) <= (high - low) / 10:
            return short
    return value


def _log_ticks(low: float, high: float) -> list[float]:
    """Return 1-2-5 steps within the range, or fewer where it spans many decades."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < 1.7 else (1,)
    every = max(1, round(decades / 5))
    found = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        if len(steps) == 1 and power % every:
            continue
        found += [step * 10.0**power for step in steps]
    return [number for number in found if low <= number <= high]
