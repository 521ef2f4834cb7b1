"""Figures that come in whole steps: a program prints whole microseconds, or two digits, or divides by them.

Where values repeat, the medians of all boots tie, and an interval made of them has no width although each figure
is only known to half a step. The step is found in the figures: the largest one that all of them are multiples of.
A rate of work in whole seconds has its steps in the time, so that the figures' reciprocals are looked at, too; and
arms that did other amounts of work have steps of their own. Where a figure moves over many steps by itself its
roundings cancel, so that only figures that repeat much are looked at.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from nova_perf_tuning.budget import model

#: Figures repeat much where at most this share of them are distinct.
_DISTINCT = 0.5
#: Fewer figures show nothing of how they repeat.
_LEAST = 6
#: A step that is a smaller share of the figures decides nothing.
_SMALL = 1e-5
#: Share of a figure that computing with it loses.
_EXACT = 1e-10
_MAX_DIGITS = 6
#: Two neighbouring values are neighbours among the reciprocals as well: up to this factor it is the figure's step.
_ALIKE = 1.1


@dataclasses.dataclass(frozen=True, slots=True)
class Blur:
    """How far the logarithm of a ratio may be off since its figures are rounded.

    :ivar log: half a step of both arms; :ivar note: in words, empty where there is none.
    """

    log: float
    note: str


SHARP = Blur(0.0, "")


def blur(trials: Sequence[model.Trial], arm: str, baseline: str) -> Blur:
    """Return how far ``arm`` / ``baseline`` may be off.

    :param trials: of one benchmark and one metric.
    """
    arms = [[one.value for one in trials if one.arm == name and one.value] for name in (arm, baseline)]
    if not all(arms):
        return SHARP
    found, widths = _off(arms)
    times, _ = _off([[1 / value for value in some] for some in arms], decimal=False)
    if max(found, times) == 0:
        return SHARP
    if times > _ALIKE * found:
        return Blur(
            times, f"figures are of a coarse time, half a step of both arms ({times:.2g}) is in the interval"
        )
    told = " and ".join(f"{one:.4g}" for one in dict.fromkeys(filter(None, widths)))
    return Blur(found, f"figures come in steps of {told}, half a step of both arms is in the interval")


def _off(arms: Sequence[Sequence[float]], *, decimal: bool = True) -> tuple[float, list[float]]:
    """Return how far the logarithm of a ratio of two arms may be off by steps in their values, and the steps.

    :param decimal: as :func:`step` has it.
    """
    common = step(arms[0], arms[1], decimal=decimal)
    widths = [max(common, step(some, ()) if len(set(some)) > 1 else 0.0) for some in arms]
    middles = [statistics.median(some) for some in arms]
    # A figure of one step or less may be any number: its ratio has no end.
    off = [
        -math.log1p(-width / 2 / middle) if width < middle else math.inf
        for width, middle in zip(widths, middles, strict=True)
    ]
    return math.fsum(off), widths


def step(first: Sequence[float], second: Sequence[float], *, decimal: bool = True) -> float:
    """Return the step of the figures of two arms, 0 where they come in none that matters.

    :param decimal: figures that never vary have the step of their last digit; reciprocals have no such.
    """
    distinct = set(first) | set(second)
    if len(first) + len(second) < _LEAST or len(distinct) > _DISTINCT * (len(first) + len(second)):
        return 0.0
    # Arms that never vary show no step of their own: then it is that of the last digit, where there are few.
    varies = len(set(first)) > 1 or len(set(second)) > 1 or (not decimal and len(distinct) > 1)
    found = _last_digit(distinct) if decimal and not varies else 0.0
    if not varies and not found:
        return 0.0
    largest = max(distinct)
    for value in sorted(distinct):
        found = _common(found, value, _EXACT * largest)
    return found if found > _SMALL * largest else 0.0


def _common(one: float, other: float, exact: float) -> float:
    """Return the largest step that both are multiples of (Euclid); what is below ``exact`` is nothing."""
    while other > exact:
        rest = math.fmod(one, other)
        one, other = other, 0.0 if other - rest <= exact else rest
    return one


def _last_digit(values: set[float]) -> float:
    """Return the place of the last digit that any of them has after the point."""
    for digits in range(_MAX_DIGITS):
        if all(math.isclose(value, round(value, digits), rel_tol=1e-12) for value in values):
            return 10.0**-digits
    return 0.0
