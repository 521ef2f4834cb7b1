# SPDX-License-Identifier: Apache-2.0
"""Judges recorded results against overhead budgets.

PASS: the whole interval lies inside the budget; FAIL: wholly outside; INCONCLUSIVE: the limit lies
within it, or there are too few boots for an interval; INVALID: what was measured cannot answer the
question.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from nova_perf_tuning.guest import probe
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import (
    budget_file,
    gates,
    limits,
    noise,
    statistics,
    trial_filter,
)
from nova_perf_tuning.validation.judge.budget_file import Budget as Budget
from nova_perf_tuning.validation.judge.gates import Verdict as Verdict
from nova_perf_tuning.validation.judge.gates import worst as worst
from nova_perf_tuning.validation.measure import overhead
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import RecordedArm
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one budget.

    :ivar loss, cpu: ``1 - ratio``, and seconds per :attr:`unit`, with intervals; None: no limit,
        or not measured.
    :ivar value: the figure itself in :attr:`value_unit`, for absolute limits; of a maximum that of
        the worst run, without an interval.
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
    value: statistics.Estimate | None = None
    value_unit: str = ""

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
        codes = {why.code for why in self.reasons}
        if self.verdict is Verdict.PASS:  # a later run may still be beyond a limit on a maximum
            return _C.NO_RUN_BEYOND in codes
        if self.verdict is Verdict.INVALID:
            return _C.TOO_MANY_LOST in codes
        return self.verdict is Verdict.INCONCLUSIVE


def judge_all(
    results: model.Results,
    budgets: Sequence[Budget],
    unjudgeable: Reason | None = None,
) -> list[Judgement]:
    """Return the verdict on every budget that applies to these results.

    Several figures under one gate are several chances of a wrong FAIL: those that fail by
    themselves are put to Holm's test, and what does not pass it is INCONCLUSIVE. Several limits
    on one figure are one chance. PASS as a whole needs every figure to pass, so that it needs no
    correction (intersection-union test, Berger 1982).

    :param unjudgeable: why these results cannot answer any budget; None: they can.
    """
    return Measured(results, unjudgeable).judge(budgets)


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the one verdict on all budgets.

    A budget that is broken for certain counts first, then what could not be judged.
    """
    return worst(judgement.verdict for judgement in judgements)


@dataclasses.dataclass(slots=True)
class _Case:
    """One budget with what was measured for it.

    :ivar ratio: confidence -> ratio of the arms; :ivar cpu: boot -> service CPU per unit of work.
    :ivar unit: of work; :ivar notes: what failed and what was excluded.
    :ivar fault: why nothing can be judged; :ivar cpu_fault: why service CPU cannot.
    :ivar compare_fault: why neither loss nor service CPU can be.
    :ivar level: the figure itself, for absolute limits; None: there are none.
    """

    budget: Budget
    fault: Reason | None = None
    metric: str = ""
    ratio: Callable[[float], statistics.Estimate | None] | None = None
    notes: tuple[Reason, ...] = ()
    pairs_excluded: int = 0
    unit: str = ""
    cpu: Mapping[int, Sequence[float]] = dataclasses.field(default_factory=dict)
    cpu_fault: Reason | None = None
    compare_fault: Reason | None = None
    level: limits.ArmFigure | None = None
    level_fault: Reason | None = None

    def judge(self, looks: Sequence[int], boots: int) -> list[gates.Gate]:
        """Hold what can be judged against its limits.

        :param looks, boots: as for :func:`.statistics.interim_confidence`.
        """
        if self.fault is not None:
            return []
        promised = self.budget.confidence
        level = statistics.interim_confidence(promised, looks, boots)
        notes = self.notes
        judged = self._compared(level)
        if self.level is not None:
            levels, self.level_fault = self.level.judge(level)
            if not judged:
                notes = self.level.notes
            judged += levels
        if level != promised:
            interim = reason(_C.INTERIM, confidence=level, promised=promised)
            for gate in judged:
                if not gate.certain:
                    gate.reason = gate.reason.noting(interim)
        if judged:
            judged[0].reason = judged[0].reason.noting(*notes)
        return judged

    def _compared(self, level: float) -> list[gates.Gate]:
        """Hold loss and service CPU against their limits; :param level: of the intervals."""
        if self.compare_fault is not None:
            return []
        budget = self.budget
        figure = (budget.benchmark, self.metric, budget.arm, budget.baseline)
        judged: list[gates.Gate] = []
        if budget.max_loss is not None:
            judged.append(
                gates.Gate((*figure, "loss"), self._loss, level, budget.max_loss, unit="")
            )
        limit = budget.max_host_cpu_per_unit
        if limit is not None and self.cpu_fault is None:
            cost = functools.partial(statistics.estimate, self.cpu, positive=True)
            judged.append(gates.Gate((*figure, "cpu"), cost, level, limit, unit=self.unit))
        return judged

    def judgement(self, judged: Sequence[gates.Gate]) -> Judgement:
        verdicts: list[Verdict] = []
        why: list[Reason] = []
        estimates: dict[str, statistics.Estimate | None] = {}
        for gate in judged:
            verdicts.append(gate.verdict)
            why.append(gate.reason)
            estimates[gate.figure[-1]] = gate.estimate
        compare_fault = self.fault or self.compare_fault or self.cpu_fault
        for fault in (compare_fault, self.level_fault):
            if fault is not None and fault not in why:
                verdicts.append(Verdict.INVALID)
                why.append(fault)
        value_unit = ""
        if "value" in estimates and self.level is not None:
            value_unit = self.level.unit
        return Judgement(
            budget=self.budget,
            verdict=worst(verdicts),
            loss=estimates.get("loss"),
            cpu=estimates.get("cpu"),
            unit=self.unit,
            reasons=tuple(why),
            verdicts=tuple(verdicts),
            pairs_excluded=self.pairs_excluded,
            value=estimates.get("value"),
            value_unit=value_unit,
        )

    def _loss(self, confidence: float) -> statistics.Estimate | None:
        if self.ratio is None:
            return None
        ratio = self.ratio(confidence)
        if ratio is None:
            return None
        low = high = None
        if ratio.low is not None and ratio.high is not None:
            low, high = 1 - ratio.high, 1 - ratio.low
        return dataclasses.replace(ratio, value=1 - ratio.value, low=low, high=high)


class Measured:
    """Results, read once for all budgets that are held against them."""

    def __init__(self, results: model.Results, unjudgeable: Reason | None = None) -> None:
        self._unjudgeable = unjudgeable
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
        cases: list[tuple[_Case, list[gates.Gate]]] = []
        all_gates: list[gates.Gate] = []
        for budget in dict.fromkeys(self._coverage.applicable(budgets)):
            case = self._case(budget)
            judged = case.judge(looks, self._boots)
            cases.append((case, judged))
            all_gates += judged
        gates.correct(all_gates)
        return [case.judgement(judged) for case, judged in cases]

    def _case(self, budget: Budget) -> _Case:
        """Return a budget with what it limits, or why it cannot be judged."""
        metric = budget.metric or self._judged_by(budget.benchmark)
        # What an arm costs or reaches needs no other to compare with.
        baseline = budget.baseline
        if budget.max_loss is None:
            baseline = budget.arm
        trials, figure = self._figure(budget.benchmark, metric)
        fault = self._other_guests(budget)
        if fault is None:
            fault = self._absent(budget, metric, budget.arm, trials)
        if fault is None:
            fault = self._unjudgeable
        if fault is not None:
            return _Case(budget, fault)
        case = _Case(budget=budget, metric=metric)
        if budget.limits:
            case.level = limits.ArmFigure.of(budget, metric, figure, self._gaps, self._environment)
        if not budget.is_absolute:
            case.compare_fault = self._absent(budget, metric, baseline, trials)
            if case.compare_fault is None:
                self._compare(case, figure, baseline)
        return case

    def _compare(self, case: _Case, figure: trial_filter.Figure, baseline: str) -> None:
        """Add to a case what its arm loses against the baseline and what it costs."""
        budget = case.budget
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
        case.compare_fault = picked.invalid
        if case.compare_fault is None:
            floor = self._environment.noise_floor
            case.compare_fault = noise.refusal(
                floor, budget.benchmark, case.metric, budget.max_loss
            )
        if case.compare_fault is not None:
            return
        worst_blocks = _failed_blocks(picked, arm, baseline, self._gaps.unpaired)
        case.pairs_excluded = picked.pairs_excluded
        case.notes = picked.notes
        if self._gaps.unpaired:
            logs: Mapping[int, Sequence[float]] = statistics.signed_logs(picked.trials, arm)
            others = statistics.signed_logs(picked.trials, baseline)
            logs_with_worst = statistics.with_worst(logs, min, worst_blocks)
            case.ratio = functools.partial(statistics.unpaired_ratio, logs_with_worst, others)
        else:
            logs = statistics.log_ratios(picked.trials, arm, baseline)
            logs_with_worst = statistics.with_worst(logs, min, worst_blocks)
            case.ratio = functools.partial(statistics.ratio_of, logs_with_worst)
        if worst_blocks and logs:
            what = "blocks"
            if self._gaps.unpaired:
                what = "files"
            note = reason(_C.WORST, arm=arm, count=len(worst_blocks), what=what)
            case.notes = (*case.notes, note)
        if budget.max_host_cpu_per_unit is not None:
            of_arm = [trial for trial in picked.trials if trial.arm == arm]
            _add_service_cpu(case, of_arm, worst_blocks)

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
        arm: str,
        trials: Sequence[model.Trial],
    ) -> Reason | None:
        """Return what of a budget was not measured in one of its arms.

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
        if arm not in measured:
            code = _C.NO_ARM if arm == budget.arm else _C.NO_BASELINE
            return reason(code, arm=arm, known=sorted(arms))
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
        for arm in budget.arms:
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


def _failed_blocks(
    picked: trial_filter.Selection, arm: str, baseline: str, unpaired: bool
) -> list[int]:
    """Return the boot of each block in which ``arm`` alone has no figure.

    A slow trial is likelier to fail: what is left may be the better part. What a guard excluded
    is not here.
    """
    failed = picked.lost[0].blocks  # of the arm, which comes before its baseline
    if arm != baseline and not unpaired:
        with_figure: set[trial_filter.Block] = set()
        for trial in picked.trials:
            if trial.arm == baseline and not trial_filter.failed(trial):
                with_figure.add((trial.boot, trial.block))
        failed &= with_figure
    return [boot for boot, _ in sorted(failed)]


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
    case.cpu = statistics.with_worst(costs, max, worst)
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
