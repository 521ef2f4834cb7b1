# SPDX-License-Identifier: Apache-2.0
"""Axes of the report's charts: positions in percent of the width, so that text keeps its size."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

from nova_perf_tuning.validation.judge import statistics

#: Beyond this ratio of largest to smallest value equal ratios get equal lengths.
_LOG_FROM = 4.0
_MARGIN = 3.0
#: Dots of a chart's fullest line: those of a thousand hosts would be most of a report.
_DOTS = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    low: float
    high: float
    logarithmic: bool

    def place(self, value: float) -> float:
        """Return the position of ``value`` in percent, kept on the axis."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return _MARGIN + share * (100 - 2 * _MARGIN)

    @property
    def ticks(self) -> list[float]:
        if self.logarithmic:
            return _log_steps(self.low, self.high)
        return _linear_steps(self.low, self.high)


class ChartLine(NamedTuple):
    """A row of a dot chart: class of its colour, label, figure in words, values with tooltips."""

    colour: str
    label: str
    figure: str
    values: Sequence[tuple[float, str]]
    estimate: statistics.Estimate | None


class Chart(NamedTuple):
    """:ivar every: of so many dots one is drawn."""

    axis: Axis
    lines: Sequence[ChartLine]
    every: int


def axis(values: Sequence[float]) -> Axis:
    """Return an axis for positive ``values``, logarithmic beyond a factor of four."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive), max(positive)
    if high / low > _LOG_FROM:
        return Axis(low / 1.15, high * 1.15, True)
    pad = (high - low) * 0.08 or high * 0.05
    return Axis(max(0.0, low - pad), high + pad, False)


def chart(lines: Sequence[ChartLine], include: Sequence[float] = ()) -> Chart | None:
    """Return the chart of some lines, None without any value.

    :param include: what must be on its axis.
    """
    shown: list[float] = []
    fullest = 0
    for line in lines:
        shown += [value for value, _ in line.values]
        fullest = max(fullest, len(line.values))
        if line.estimate is not None:
            shown.append(line.estimate.value)
            if line.estimate.low is not None and line.estimate.high is not None:
                shown += [line.estimate.low, line.estimate.high]
    if not shown:
        return None
    every = math.ceil(fullest / _DOTS)
    if every > 1:
        lines = [line._replace(values=sorted(line.values)[::every]) for line in lines]
    shown += include
    return Chart(axis(shown), lines, every)


def _linear_steps(low: float, high: float) -> list[float]:
    """Return about four round numbers within the range."""
    decade = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = decade
    for factor in (1, 2, 5, 10):
        step = decade * factor
        if (high - low) / step <= 5:
            break
    first, last = math.ceil(low / step), math.floor(high / step)
    return [number * step for number in range(first, last + 1)]


def _log_steps(low: float, high: float) -> list[float]:
    """Return powers of ten within the range, or 1-2-5 steps where there are too few of them."""
    decades = math.log10(high / low)
    every = max(1, round(decades / 5))
    powers: list[float] = []
    finer: list[float] = []
    for exponent in range(math.floor(math.log10(low)), 1 + math.ceil(math.log10(high))):
        if exponent % every == 0:
            power = 10.0**exponent
            powers.append(power)
            finer += [power, 2 * power, 5 * power]
    steps = [step for step in powers if low <= step <= high]
    if decades >= 1.7 and len(steps) >= 2:
        return steps
    return [step for step in finer if low <= step <= high]
