"""Judges recorded results against overhead budgets.

PASS: the whole interval lies inside the budget; FAIL: wholly outside; INCONCLUSIVE: the limit lies within it, or
there are too few boots for an interval; INVALID: what was measured cannot answer the question.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.validation.judge import budget_data, budget_file, statistics
from nova_perf_tuning.validation.judge.budget_file import Budget as Budget
from nova_perf_tuning.validation.judge.budget_file import load as load
from nova_perf_tuning.validation.measure import model
from nova_perf_tuning.validation.measure.reasons import Reason, reason
from nova_perf_tuning.validation.measure.reasons import ReasonCode as _C


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> errors.ExitCode:
        """Return what ``evaluate`` and ``validate`` exit with."""
        return errors.ExitCode.ERROR if self is Verdict.INVALID else errors.ExitCode[self.value]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the one verdict on several things, INVALID on none: one that fails for certain counts first."""
    found = set(verdicts)
    order = (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.PASS)
    return next((verdict for verdict in order if verdict in found), Verdict.INVALID)


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one budget.

    :ivar loss: ``1 - ratio`` with its interval; None when no limit was set, or without a pair.
    :ivar cpu: service CPU seconds per :attr:`unit`; None when no limit was set or nothing was measured.
    :ivar reasons: one for each limit, and what else is to be said.
    :ivar verdicts: on each of them alone.
    :ivar pairs_left_out: pairs of which a guard rejected a trial.
    """

    budget: Budget
    verdict: Verdict
    loss: statistics.Estimate | None
    cpu: statistics.Estimate | None
    unit: str
    reasons: tuple[Reason, ...]
    verdicts: tuple[Verdict, ...] = ()
    pairs_left_out: int = 0

    @property
    def verdicts_and_reasons(self) -> list[tuple[Verdict, Reason]]:
        """Return every reason with the verdict on it alone."""
        return list(zip(self.verdicts, self.reasons, strict=True))

    @property
    def deciding(self) -> Reason | None:
        """Return the first reason that the verdict comes from."""
        return next((why for word, why in self.verdicts_and_reasons if word is self.verdict), None)

    @property
    def by_cpu(self) -> bool:
        """Return whether the verdict comes from the service CPU and not from the loss."""
        first = self.deciding
        return first is not None and self.verdict is not Verdict.PASS and first.params.get("figure") == "cpu"

    @property
    def open(self) -> bool:
        """Return whether more boots may bring another verdict."""
        lost = any(why.code is _C.TOO_MANY_LOST for why in self.reasons)
        return self.verdict is Verdict.INCONCLUSIVE or (self.verdict is Verdict.INVALID and lost)


def judge_all(results: model.Results, budgets: Sequence[Budget]) -> list[Judgement]:
    """Return the verdict on every budget that applies to these results.

    Several figures under one gate are several chances of a wrong FAIL: those that fail by themselves are put to
    Holm's test, and what does not pass it is INCONCLUSIVE. Several limits on one figure are one chance. PASS as a
    whole needs every figure to pass, so that it needs no correction (intersection-union test, Berger 1982).
    """
    data = budget_data.Measured(results)
    cases = [_Case(data, budget) for budget in _applicable(results, budgets)]
    _correct([gate for case in cases for gate in case.gates])
    return [case.judgement() for case in cases]


def _applicable(results: model.Results, budgets: Sequence[Budget]) -> dict[Budget, None]:
    environment = results.environment
    chosen = budget_file.for_measured(budgets, *_asked(results), budget_file.accelerator(environment))
    return dict.fromkeys(budget_file.applicable(chosen, environment.places, _primary(results)))


def left_out(results: model.Results, budgets: Sequence[Budget]) -> list[Reason]:
    """Return which budgets were left out although their benchmark was measured, a reason for each cause."""
    return budget_file.left_out(budgets, results.environment, *_asked(results))


def _primary(results: model.Results) -> dict[str, str]:
    """Return benchmark -> the metric that it is judged by."""
    return {trial.benchmark: trial.metric for trial in reversed(results.trials) if trial.primary}


def _asked(results: model.Results) -> tuple[dict[str, str], list[str]]:
    """Return label -> kind of the benchmarks, and the arms, that were measured or ought to be.

    An arm whose guests never booted was not left out.
    """
    environment = results.environment
    planned = {label: job.kind for label, job in environment.benchmarks.items()}
    kinds = {trial.benchmark: planned.get(trial.benchmark, "") for trial in results.trials}
    kinds |= planned
    failed = [incident.arm for incident in environment.errors if incident.arm]
    return kinds, list({trial.arm for trial in results.trials} | set(environment.arms) | set(failed))


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the one verdict: a budget that is broken for certain counts first, then what could not be judged."""
    return worst(judgement.verdict for judgement in judgements)


class _Gate:
    """One figure with one limit.

    :ivar figure: what is limited; several limits may be on the same.
    """

    def __init__(
        self,
        figure: tuple[str, ...],
        estimate: Callable[[float], statistics.Estimate | None],
        level: float,
        limit: float,
        unit: str,
    ) -> None:
        """Place the figure; its last part is its name.

        :param estimate: confidence -> the figure with its interval at it.
        """
        self.figure = figure
        self._estimate = estimate
        self.level = level
        self._limit = limit
        self.found = estimate(level)
        self.verdict, self.reason = self._place(unit)

    def _place(self, unit: str) -> tuple[Verdict, Reason]:
        """Compare the interval with the limit."""
        found, limit, name = self.found, self._limit, self.figure[-1]
        if found is None:
            return Verdict.INCONCLUSIVE, reason(_C.NO_PAIRS, figure=name)
        params = {
            "figure": name,
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "confidence": found.confidence,
            "limit": limit,
            "unit": unit,
            "boots": found.boots,
        }
        if found.low is None or found.high is None:
            return Verdict.INCONCLUSIVE, reason(_C.TOO_FEW_BOOTS, **params, needed=statistics.MIN_BOOTS)
        if not _beyond(found.high, limit):
            return Verdict.PASS, reason(_C.WITHIN, **params)
        if _beyond(found.low, limit):
            return Verdict.FAIL, reason(_C.BEYOND, **params)
        return Verdict.INCONCLUSIVE, reason(_C.UNDECIDED, **params)

    def fails_at(self, level: float) -> bool:
        """Return whether the whole interval is beyond the limit at another confidence too."""
        found = self._estimate(level)
        return found is not None and found.low is not None and _beyond(found.low, self._limit)

    def withdraw(self, figures: int) -> None:
        """Take FAIL back after the correction for several figures."""
        self.verdict = Verdict.INCONCLUSIVE
        self.reason = self.reason.noting(reason(_C.HOLM, figures=figures))


def _beyond(value: float, limit: float) -> bool:
    """Return whether ``value`` is larger, and not by what computing it has lost."""
    return value > limit and not math.isclose(value, limit, abs_tol=1e-12)


def _correct(gates: Sequence[_Gate]) -> None:
    """Keep FAIL only where Holm's step-down test (1979) holds it, over all figures.

    A figure is out of the count once all its limits are broken: one that is not may hold.
    """
    limits: dict[tuple[str, ...], set[_Gate]] = {}
    for gate in gates:
        limits.setdefault(gate.figure, set()).add(gate)
    failing = [gate for gate in gates if gate.verdict is Verdict.FAIL]
    broken: set[_Gate] = set()
    while True:
        left = sum(not some <= broken for some in limits.values())
        held = {gate for gate in failing if gate not in broken and gate.fails_at(1 - (1 - gate.level) / left)}
        if not held:
            break
        broken |= held
    for gate in failing:
        if gate not in broken:
            gate.withdraw(len(limits))


class _Case:
    """One budget with what was measured for it."""

    def __init__(self, measured: budget_data.Measured, budget: Budget) -> None:
        self._budget = budget
        self._figures = figures = measured.figures(budget)
        self._loss: _Gate | None = None
        self._cpu: _Gate | None = None
        if figures.fault is not None:
            return
        level = statistics.interim_confidence(budget.confidence, measured.environment.looks, measured.boots)
        figure = (budget.benchmark, figures.metric, budget.arm, budget.baseline)
        if budget.max_loss is not None:
            self._loss = _Gate((*figure, "loss"), figures.loss, level, budget.max_loss, "")
        if budget.max_host_cpu_per_unit is not None and figures.cpu_fault is None:
            limit = budget.max_host_cpu_per_unit
            self._cpu = _Gate((*figure, "cpu"), figures.cpu_per_unit, level, limit, figures.unit)
        if level != budget.confidence:
            note = reason(_C.INTERIM, confidence=level, promised=budget.confidence)
            for gate in self.gates:
                gate.reason = gate.reason.noting(note)
        for gate in self.gates[:1]:
            gate.reason = gate.reason.noting(*figures.notes)

    @property
    def gates(self) -> list[_Gate]:
        return [gate for gate in (self._loss, self._cpu) if gate is not None]

    def judgement(self) -> Judgement:
        judged = [(gate.verdict, gate.reason) for gate in self.gates]
        if (fault := self._figures.fault or self._figures.cpu_fault) is not None:
            judged.append((Verdict.INVALID, fault))
        verdicts, why = zip(*judged, strict=True)
        loss, cpu = (None if gate is None else gate.found for gate in (self._loss, self._cpu))
        unit, excluded = self._figures.unit, self._figures.pairs_excluded
        return Judgement(self._budget, worst(verdicts), loss, cpu, unit, why, verdicts, excluded)
