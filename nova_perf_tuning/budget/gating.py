"""Figures with their limits: where an interval lies, and what is certain of several together."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.budget import pooling, statistics, wording

#: One boot shows nothing of how boots differ, so its interval supports no verdict. That stands where the spread of
#: boots is pooled over hosts too: nothing would show then whether this host differs from them.
MIN_BOOTS = 2


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> errors.ExitCode:
        """Return what ``evaluate`` and ``validate`` exit with."""
        return {
            Verdict.PASS: errors.ExitCode.PASS,
            Verdict.FAIL: errors.ExitCode.FAIL,
            Verdict.INCONCLUSIVE: errors.ExitCode.INCONCLUSIVE,
            Verdict.INVALID: errors.ExitCode.ERROR,
        }[self]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on several things at once, INVALID on none; see :func:`overall`."""
    found = set(verdicts)
    order = (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.PASS)
    return next((one for one in order if one in found), Verdict.INVALID)


#: What the reason of a figure says that would pass if trials did not fail in one arm.
FAILS_MORE = "fails more often than"

#: How the reason of a figure ends that fails alone and not among others.
WITHDRAWN = "it is not certain"


class Known:
    """What other hosts add to the figures of one."""

    def __init__(self, pool: pooling.Pool, host: str) -> None:
        self.spread = pool.spreads.get(host)
        self._apart = host in pool.apart

    def remark(self, found: statistics.Estimate | None) -> str:
        """Return what to say of the interval."""
        if self._apart:
            return "its boots differ more than those of other hosts (Cochran's test), so by them alone"
        return statistics.pooled_note(self.spread) if found is not None and self.spread is not None else ""


class Gate:
    """One figure with one limit.

    :ivar figure: what is limited; several limits may be on the same.
    """

    def __init__(
        self,
        figure: tuple[str, ...],
        estimate: Callable[[float], statistics.Estimate | None],
        level: float,
        limit: float,
        words: wording.Limited,
        remarks: Callable[[statistics.Estimate | None], Sequence[str]],
    ) -> None:
        """Place the figure.

        :param estimate: confidence -> the figure with its interval at it; :param remarks: on that interval.
        """
        self.figure = figure
        self._estimate = estimate
        self.level = level
        self._limit = limit
        self.found = estimate(level)
        self.verdict, self.reason = _place(self.found, limit, words, remarks(self.found))

    def fails_at(self, level: float) -> bool:
        """Return whether the whole interval is beyond the limit at another confidence too."""
        found = self._estimate(level)
        return found is not None and found.low is not None and _beyond(found.low, self._limit)

    def doubt(self, why: str) -> None:
        """Take PASS back."""
        if self.verdict is Verdict.PASS:
            self.verdict = Verdict.INCONCLUSIVE
            self.reason += f"; but {why}"

    def withdraw(self, figures: int) -> None:
        """Take FAIL back after the correction for several figures."""
        self.verdict = Verdict.INCONCLUSIVE
        self.reason += (
            f"; but {figures} figures are judged together, and after Holm's correction for them {WITHDRAWN}"
        )


def correct(gates: Sequence[Gate]) -> None:
    """Keep FAIL only where Holm's step-down test (1979) holds it, over all figures.

    A figure is out of the count once all its limits are broken: one that is not may hold.
    """
    limits: dict[tuple[str, ...], set[Gate]] = {}
    for one in gates:
        limits.setdefault(one.figure, set()).add(one)
    failing = [one for one in gates if one.verdict is Verdict.FAIL]
    broken: set[Gate] = set()
    while True:
        left = sum(not some <= broken for some in limits.values())
        held = {one for one in failing if one not in broken and one.fails_at(1 - (1 - one.level) / left)}
        if not held:
            break
        broken |= held
    for one in failing:
        if one not in broken:
            one.withdraw(len(limits))


def _beyond(value: float, limit: float) -> bool:
    """Whether ``value`` is larger, and not by what computing it has lost."""
    return value > limit and not math.isclose(value, limit, abs_tol=1e-12)


def _place(
    found: statistics.Estimate | None, limit: float, words: wording.Limited, remarks: Sequence[str]
) -> tuple[Verdict, str]:
    """Compare an interval with an upper limit.

    :param remarks: what is to be said of the interval; empty ones are left out.
    """
    if found is None:
        return Verdict.INCONCLUSIVE, f"{words.what}: no pair of trials"
    figure = words.figure(found.value)
    if found.low is None or found.high is None:
        return Verdict.INCONCLUSIVE, f"{figure}, limit {words.limit}: {found.note}"
    interval = f"{wording.confidence(found.confidence)} interval {words.span(found.low, found.high)}"
    place = f"{figure} ({'; '.join(filter(None, [interval, *remarks]))})"
    if found.groups < MIN_BOOTS:
        return (
            Verdict.INCONCLUSIVE,
            f"{place}, limit {words.limit}: {found.note}; at least {MIN_BOOTS} boots are needed",
        )
    if not _beyond(found.high, limit):
        return Verdict.PASS, f"{place} {words.within}"
    if _beyond(found.low, limit):
        return Verdict.FAIL, f"{place} {words.beyond}"
    return Verdict.INCONCLUSIVE, f"{place} includes the limit, {words.limit}; more blocks or groups may decide"
