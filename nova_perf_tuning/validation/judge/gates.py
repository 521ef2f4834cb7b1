# SPDX-License-Identifier: Apache-2.0
"""Figures against their limits, one verdict each, and the correction for several of them."""

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.validation.judge import statistics
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> errors.ExitCode:
        if self is Verdict.INVALID:
            return errors.ExitCode.ERROR
        return errors.ExitCode[self.value]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the one verdict on several things, INVALID on none.

    One that fails for certain counts first.
    """
    distinct = set(verdicts)
    for verdict in (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.PASS):
        if verdict in distinct:
            return verdict
    return Verdict.INVALID


class Gate:
    """One figure with one limit.

    :ivar figure: what is limited, its name last; several limits may be on the same.
    :ivar certain: the verdict is a plain fact and no estimate, so that no chance is in it.
    """

    certain = False

    def __init__(
        self,
        figure: tuple[str, ...],
        estimate: Callable[[float], statistics.Estimate | None],
        level: float,
        limit: float,
        *,
        least: bool = False,
        **about: Any,
    ) -> None:
        """Compare the interval with the limit.

        :param estimate: confidence -> the figure with its interval at it.
        :param least: less than the limit is beyond it, not more.
        :param about: further parameters of the reason.
        """
        self.figure = figure
        self.level = level
        self._estimate = estimate
        self._limit = limit
        self._least = least
        known = estimate(level)
        self.estimate = known
        if known is None:
            self.verdict = Verdict.INCONCLUSIVE
            self.reason = reason(_C.NO_PAIRS, figure=figure[-1])
            return
        params: dict[str, Any] = {
            "figure": figure[-1],
            "value": known.value,
            "low": known.low,
            "high": known.high,
            "confidence": known.confidence,
            "limit": limit,
            "boots": known.boots,
            **about,
        }
        if known.low is None or known.high is None:
            self.verdict, code = Verdict.INCONCLUSIVE, _C.TOO_FEW_BOOTS
            params["needed"] = statistics.MIN_BOOTS
        elif not self._beyond(known.low) and not self._beyond(known.high):
            self.verdict, code = Verdict.PASS, _C.WITHIN
        elif self._beyond(known.low) and self._beyond(known.high):
            self.verdict, code = Verdict.FAIL, _C.BEYOND
        else:
            self.verdict, code = Verdict.INCONCLUSIVE, _C.UNDECIDED
        self.reason = Reason(code, params)

    def fails_at(self, level: float) -> bool:
        """Return whether the whole interval is beyond the limit at another confidence too."""
        other = self._estimate(level)
        if other is None or other.low is None or other.high is None:
            return False
        return self._beyond(other.low) and self._beyond(other.high)

    def _beyond(self, value: float) -> bool:
        return beyond(value, self._limit, least=self._least)


def beyond(value: float, limit: float, *, least: bool = False) -> bool:
    """Return whether ``value`` is larger, and not by what computing it has lost.

    :param least: whether it is smaller.
    """
    if least:
        value, limit = limit, value
    return value > limit and not math.isclose(value, limit, abs_tol=1e-12)


class FactGate(Gate):
    """The figure of the worst run with one limit: one run beyond it breaks the limit."""

    certain = True

    def __init__(
        self,
        figure: tuple[str, ...],
        worst_run: statistics.Estimate,
        limit: float,
        *,
        least: bool = False,
        **about: Any,
    ) -> None:
        """Compare the worst run with the limit; :param worst_run: it has no interval."""
        self.figure = figure
        self.level = 1.0
        self.estimate = worst_run
        self.verdict, code = Verdict.PASS, _C.NO_RUN_BEYOND
        if beyond(worst_run.value, limit, least=least):
            self.verdict, code = Verdict.FAIL, _C.RUN_BEYOND
        params = {"figure": figure[-1], "value": worst_run.value, "limit": limit, **about}
        self.reason = Reason(code, params)

    def fails_at(self, level: float) -> bool:
        return self.verdict is Verdict.FAIL


def correct(gates: Sequence[Gate]) -> None:
    """Keep FAIL only where Holm's step-down test (1979) holds it, over all figures.

    A figure is out of the count once all its limits are broken: one that is not may hold. A plain
    fact is no chance of a wrong FAIL.
    """
    limits: dict[tuple[str, ...], set[Gate]] = {}
    failing: list[Gate] = []
    for gate in gates:
        if gate.certain:
            continue
        limits.setdefault(gate.figure, set()).add(gate)
        if gate.verdict is Verdict.FAIL:
            failing.append(gate)
    broken: set[Gate] = set()
    while True:
        count = sum(not some <= broken for some in limits.values())
        held: set[Gate] = set()
        for gate in failing:
            if gate in broken:
                continue
            corrected_level = 1 - (1 - gate.level) / count
            if gate.fails_at(corrected_level):
                held.add(gate)
        if not held:
            break
        broken |= held
    for gate in failing:
        if gate not in broken:
            gate.verdict = Verdict.INCONCLUSIVE
            gate.reason = gate.reason.noting(reason(_C.HOLM, figures=len(limits)))
