# SPDX-License-Identifier: Apache-2.0
"""Judges recorded results against overhead budgets.

PASS: the whole interval lies inside the budget; FAIL: wholly outside; INCONCLUSIVE: the limit lies
within it, or there are too few boots for an interval; INVALID: what was measured cannot answer the
question.
"""

import dataclasses
import enum
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.guest import probe
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import budget_file, noise, statistics, trial_filter
from nova_perf_tuning.validation.judge.budget_file import Budget as Budget
from nova_perf_tuning.validation.measure import overhead
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import RecordedArm
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


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one budget.

    :ivar loss, cpu: ``1 - ratio``, and seconds per :attr:`unit`, with intervals; None: no limit,
        or not measured.
    :ivar reasons: one for each limit, and what else is to be said; :ivar verdicts: on each of them
        alone.
    :ivar pairs_excluded: pairs of which a guard rejected a trial.
    """

    budget: Budget
    verdict: Verdict
    loss: statistics.Estimate | None
    cpu: statistics.Estimate | None
    unit: str
    reasons: tuple[Reason, ...]
    verdicts: tuple[Verdict, ...] = ()
    pairs_excluded: int = 0

    @property
    def verdicts_and_reasons(self) -> list[tuple[Verdict, Reason]]:
        return list(zip(self.verdicts, self.reasons, strict=True))

    @property
    def deciding(self) -> Reason | None:
        for verdict, why in self.verdicts_and_reasons:
            if verdict is self.verdict:
                return why
        return None

    @property
    def by_cpu(self) -> bool:
        """Return whether the verdict comes from the service CPU and not from the loss."""
        first = self.deciding
        if first is None or self.verdict is Verdict.PASS:
            return False
        return first.params.get("figure") == "cpu"

    @property
    def open(self) -> bool:
        """Return whether more boots may bring another verdict."""
        lost = any(why.code is _C.TOO_MANY_LOST for why in self.reasons)
        return self.verdict is Verdict.INCONCLUSIVE or (self.verdict is Verdict.INVALID and lost)


def judge_all(results: model.Results, budgets: Sequence[Budget]) -> list[Judgement]:
    """Return the verdict on every budget that applies to these results.

    Several figures under one gate are several chances of a wrong FAIL: those that fail by
    themselves are put to Holm's test, and what does not pass it is INCONCLUSIVE. Several limits
    on one figure are one chance. PASS as a whole needs every figure to pass, so that it needs no
    correction (intersection-union test, Berger 1982).
    """
    return Measured(results).judge(budgets)


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the one verdict on all budgets.

    A budget that is broken for certain counts first, then what could not be judged.
    """
    return worst(judgement.verdict for judgement in judgements)


class _Gate:
    """One figure with one limit.

    :ivar figure: what is limited, its name last; several limits may be on the same.
    """

    def __init__(
        self,
        figure: tuple[str, ...],
        estimate: Callable[[float], statistics.Estimate | None],
        level: float,
        limit: float,
        unit: str = "",
    ) -> None:
        """Compare the interval with the limit.

        :param estimate: confidence -> the figure with its interval at it.
        """
        self.figure = figure
        self.level = level
        self._estimate = estimate
        self._limit = limit
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
            "unit": unit,
            "boots": known.boots,
        }
        if known.low is None or known.high is None:
            self.verdict, code = Verdict.INCONCLUSIVE, _C.TOO_FEW_BOOTS
            params["needed"] = statistics.MIN_BOOTS
        elif not _beyond(known.high, limit):
            self.verdict, code = Verdict.PASS, _C.WITHIN
        elif _beyond(known.low, limit):
            self.verdict, code = Verdict.FAIL, _C.BEYOND
        else:
            self.verdict, code = Verdict.INCONCLUSIVE, _C.UNDECIDED
        self.reason = Reason(code, params)

    def fails_at(self, level: float) -> bool:
        """Return whether the whole interval is beyond the limit at another confidence too."""
        other = self._estimate(level)
        return other is not None and other.low is not None and _beyond(other.low, self._limit)


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
        count = sum(not some <= broken for some in limits.values())
        held: set[_Gate] = set()
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


@dataclasses.dataclass(slots=True)
class _Case:
    """One budget with what was measured for it.

    :ivar logs: boot -> log-ratios of its blocks; :ivar cpu: boot -> service CPU per unit of work.
    :ivar unit: of work; :ivar notes: what failed and what was excluded.
    :ivar fault: why nothing can be judged; :ivar cpu_fault: why service CPU cannot.
    """

    budget: Budget
    fault: Reason | None = None
    metric: str = ""
    logs: Mapping[int, Sequence[float]] = dataclasses.field(default_factory=dict)
    notes: tuple[Reason, ...] = ()
    pairs_excluded: int = 0
    unit: str = ""
    cpu: Mapping[int, Sequence[float]] = dataclasses.field(default_factory=dict)
    cpu_fault: Reason | None = None

    def gates(self, looks: Sequence[int], boots: int) -> list[_Gate]:
        """Hold what can be judged against its limits.

        :param looks, boots: as for :func:`.statistics.interim_confidence`.
        """
        budget = self.budget
        promised = budget.confidence
        level = statistics.interim_confidence(promised, looks, boots)
        figure = (budget.benchmark, self.metric, budget.arm, budget.baseline)
        gates: list[_Gate] = []
        if budget.max_loss is not None and self.fault is None:
            gates.append(_Gate((*figure, "loss"), self._loss, level, budget.max_loss))
        limit = budget.max_host_cpu_per_unit
        if limit is not None and self.fault is None and self.cpu_fault is None:
            cost = functools.partial(statistics.estimate, self.cpu, positive=True)
            gates.append(_Gate((*figure, "cpu"), cost, level, limit, self.unit))
        if level != promised:
            interim = reason(_C.INTERIM, confidence=level, promised=promised)
            for gate in gates:
                gate.reason = gate.reason.noting(interim)
        if gates:
            gates[0].reason = gates[0].reason.noting(*self.notes)
        return gates

    def judgement(self, gates: Sequence[_Gate]) -> Judgement:
        verdicts: list[Verdict] = []
        why: list[Reason] = []
        estimates: dict[str, statistics.Estimate | None] = {}
        for gate in gates:
            verdicts.append(gate.verdict)
            why.append(gate.reason)
            estimates[gate.figure[-1]] = gate.estimate
        fault = self.fault or self.cpu_fault
        if fault is not None:
            verdicts.append(Verdict.INVALID)
            why.append(fault)
        return Judgement(
            budget=self.budget,
            verdict=worst(verdicts),
            loss=estimates.get("loss"),
            cpu=estimates.get("cpu"),
            unit=self.unit,
            reasons=tuple(why),
            verdicts=tuple(verdicts),
            pairs_excluded=self.pairs_excluded,
        )

    def _loss(self, confidence: float) -> statistics.Estimate | None:
        ratio = statistics.ratio_of(self.logs, confidence)
        if ratio is None:
            return None
        low = high = None
        if ratio.low is not None and ratio.high is not None:
            low, high = 1 - ratio.high, 1 - ratio.low
        return dataclasses.replace(ratio, value=1 - ratio.value, low=low, high=high)


class Measured:
    """Results, read once for all budgets that are held against them."""

    def __init__(self, results: model.Results) -> None:
        self._environment = results.environment
        self._coverage = budget_file.Coverage.of(results)
        self._gaps = trial_filter.Gaps.of(results.environment)
        boots: set[int] = set()
        trials: dict[str, list[model.Trial]] = {}
        for trial in results.trials:
            boots.add(trial.boot)
            trials.setdefault(trial.benchmark, []).append(trial)
        self._boots = len(boots)
        self._trials = trials
        self._figures: dict[tuple[str, str], tuple[list[model.Trial], trial_filter.Figure]] = {}

    def judge(self, budgets: Sequence[Budget]) -> list[Judgement]:
        """Return the verdict on every budget that applies; see :func:`judge_all`."""
        looks = self._environment.looks
        cases: list[tuple[_Case, list[_Gate]]] = []
        all_gates: list[_Gate] = []
        for budget in dict.fromkeys(self._coverage.applicable(budgets)):
            case = self._case(budget)
            gates = case.gates(looks, self._boots)
            cases.append((case, gates))
            all_gates += gates
        _correct(all_gates)
        return [case.judgement(gates) for case, gates in cases]

    def _case(self, budget: Budget) -> _Case:
        """Return a budget with what it limits, or why it cannot be judged."""
        metric = budget.metric or self._judged_by(budget.benchmark)
        # What an arm costs needs no other to compare with.
        baseline = budget.baseline
        if budget.max_loss is None:
            baseline = budget.arm
        trials, figure = self._figure(budget.benchmark, metric)
        fault = self._other_guests(budget)
        if fault is None:
            fault = self._absent(budget, metric, baseline, trials)
        if fault is not None:
            return _Case(budget, fault)
        # All arms show which blocks there ought to be.
        arm = budget.arm
        picked = trial_filter.select_of(
            figure,
            self._gaps,
            self._environment.accelerator,
            arm,
            baseline,
            budget.guards,
        )
        fault = picked.invalid
        if fault is None:
            floor = self._environment.noise_floor
            fault = noise.refusal(floor, budget.benchmark, metric, budget.max_loss)
        if fault is not None:
            return _Case(budget, fault)
        logs = statistics.log_ratios(picked.trials, arm, baseline)
        worst = _failed_blocks(picked, arm, baseline)
        notes = picked.notes
        if worst and logs:
            notes = (*notes, reason(_C.WORST, arm=arm, count=len(worst)))
        case = _Case(
            budget=budget,
            metric=metric,
            logs=_with_worst(logs, min, worst),
            notes=notes,
            pairs_excluded=picked.pairs_excluded,
        )
        if budget.max_host_cpu_per_unit is not None:
            of_arm = [trial for trial in picked.trials if trial.arm == arm]
            _add_service_cpu(case, of_arm, worst)
        return case

    def _figure(
        self, benchmark: str, metric: str
    ) -> tuple[list[model.Trial], trial_filter.Figure]:
        """Return the trials of a figure, failed ones included, and the same by their arms.

        Budgets of many arms are of the same figures: each is looked up once.
        """
        known = self._figures.get((benchmark, metric))
        if known is None:
            # A run that failed is one trial without a value, whatever metric it names.
            mine = self._trials.get(benchmark, [])
            trials = [trial for trial in mine if trial.metric == metric or trial.value is None]
            known = trials, trial_filter.Figure.of(trials)
            self._figures[benchmark, metric] = known
        return known

    def _absent(
        self,
        budget: Budget,
        metric: str,
        baseline: str,
        trials: Sequence[model.Trial],
    ) -> Reason | None:
        """Return what of a budget was not measured.

        :param trials: of its figure, failed ones included.
        """
        benchmark = budget.benchmark
        if benchmark not in self._trials:
            return reason(_C.NO_BENCHMARK, benchmark=benchmark, known=sorted(self._trials))
        metrics: set[str] = set()
        arms: set[str] = set()
        for trial in self._trials[benchmark]:
            metrics.add(trial.metric)
            arms.add(trial.arm)
        if metric not in metrics:
            return reason(
                _C.NO_METRIC,
                benchmark=benchmark,
                metric=metric,
                known=sorted(metrics),
                named=budget.metric is not None,
            )
        measured = {trial.arm for trial in trials}
        for arm in (budget.arm, baseline):
            if arm not in measured:
                return reason(_C.NO_ARM, arm=arm, known=sorted(arms))
        return None

    def _judged_by(self, benchmark: str) -> str:
        """Return the metric of a budget that names none, as the benchmark defines it.

        It is empty where the metric is not known.
        """
        known = plugins.of_label(benchmark, self._environment.benchmarks)
        if known is not None:
            return known.primary[0]
        for trial in self._trials.get(benchmark, ()):
            if trial.primary:
                return trial.metric
        return ""

    def _other_guests(self, budget: Budget) -> Reason | None:
        """Return how the guests differ from what the budget or their request names."""
        accelerator = self._environment.accelerator or "unknown"
        wanted = budget.accelerator
        if wanted is not None and accelerator != wanted:
            return reason(_C.OTHER_ACCELERATOR, accelerator=accelerator, wanted=wanted)
        for arm in (budget.arm, budget.baseline):
            measured_arm = self._environment.arms.get(arm, RecordedArm())
            mode = measured_arm.virtualization
            if probe.contradiction(mode, accelerator):
                about = {"arm": arm, "accelerator": accelerator, "found": mode}
                return reason(_C.ACCELERATOR_CONTRADICTED, **about)
            if mode == "unknown" and wanted is not None:
                return reason(_C.VIRTUALIZATION_UNREAD, arm=arm, wanted=wanted)
            others: list[str] = []
            for finding in measured_arm.findings:
                if finding.code not in probe.HARMLESS:
                    others.append(finding.text)
            if others:
                return reason(_C.OTHER_GUESTS, arm=arm, finding=others[0], more=len(others) - 1)
        return None


def _failed_blocks(picked: trial_filter.Selection, arm: str, baseline: str) -> list[int]:
    """Return the boot of each block in which ``arm`` alone has no figure.

    A slow trial is likelier to fail: what is left may be the better part. What a guard excluded
    is not here.
    """
    failed = picked.lost[0].blocks  # of the arm, which comes before its baseline
    if arm != baseline:
        with_figure: set[trial_filter.Block] = set()
        for trial in picked.trials:
            if trial.arm == baseline and not trial_filter.failed(trial):
                with_figure.add((trial.boot, trial.block))
        failed &= with_figure
    return [boot for boot, _ in sorted(failed)]


def _with_worst(
    samples: Mapping[int, Sequence[float]],
    worst_of: Callable[[Iterable[float]], float],
    boots: Iterable[int],
) -> Mapping[int, Sequence[float]]:
    """Return samples with the worst of all once more for each of ``boots``.

    These are of blocks that ended worse than any.
    """
    if not samples:
        return samples
    whole: dict[int, list[float]] = {}
    every_value: list[float] = []
    for boot, values in samples.items():
        whole[boot] = list(values)
        every_value += values
    worst_value = worst_of(every_value)
    for boot in boots:
        whole.setdefault(boot, []).append(worst_value)
    return whole


def _add_service_cpu(case: _Case, trials: Sequence[model.Trial], worst: Sequence[int]) -> None:
    """Add service CPU per unit of work to a case, or why it cannot be judged.

    :param trials: of its arm; :param worst: boot of each block that counts as the worst of all.
    """
    costs: dict[int, list[float]] = {}
    known = 0
    units: set[str] = set()
    for trial in trials:
        per_unit = overhead.per_unit(overhead.cost(trial).service_s, trial)
        if per_unit is not None:
            costs.setdefault(trial.boot, []).append(per_unit)
            known += 1
        if trial.work is not None:
            units.add(trial.work_unit)
    case.unit = min(units, default="")
    case.cpu = _with_worst(costs, max, worst)
    case.cpu_fault = _uncounted(trials, case.budget.arm, known)


def _uncounted(trials: Sequence[model.Trial], arm: str, known: int) -> Reason | None:
    """Return why service CPU of the arm cannot be judged; None if it can.

    :param known: how many of its trials have it.
    """
    measured = 0
    for trial in trials:
        contradiction = overhead.cost(trial).contradiction
        if contradiction is not None:
            return contradiction
        if not trial_filter.failed(trial):
            measured += 1
    if not known:
        return reason(_C.NO_SERVICE_CPU, arm=arm)
    count = measured - known
    limit = trial_filter.MAX_LOST
    if count <= limit * measured:
        return None
    return reason(_C.LITTLE_SERVICE_CPU, arm=arm, count=count, of=measured, limit=limit)
