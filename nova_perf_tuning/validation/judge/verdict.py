# SPDX-License-Identifier: Apache-2.0
"""Judges recorded results against overhead budgets.

PASS: the whole interval lies inside the budget; FAIL: wholly outside; INCONCLUSIVE: the limit lies within it, or
there are too few boots for an interval; INVALID: what was measured cannot answer the question.
"""

import dataclasses
import enum
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.guest import probe
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import budget_file, noise, statistics, trial_filter
from nova_perf_tuning.validation.judge.budget_file import Budget as Budget
from nova_perf_tuning.validation.measure import model, overhead
from nova_perf_tuning.validation.measure.reasons import Reason, reason
from nova_perf_tuning.validation.measure.reasons import ReasonCode as _C


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> errors.ExitCode:
        return errors.ExitCode.ERROR if self is Verdict.INVALID else errors.ExitCode[self.value]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the one verdict on several things, INVALID on none: one that fails for certain counts first."""
    distinct = set(verdicts)
    order = (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.PASS)
    return next((verdict for verdict in order if verdict in distinct), Verdict.INVALID)


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one budget.

    :ivar loss, cpu: ``1 - ratio``, and seconds per :attr:`unit`, with intervals; None: no limit, or not measured.
    :ivar reasons: one for each limit, and what else is to be said; :ivar verdicts: on each of them alone.
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
    measured = _Measured(results)
    chosen = dict.fromkeys(budget_file.for_results(budgets, results))
    cases = [(case, case.gates(results.environment.looks, measured.boots)) for case in map(measured.case, chosen)]
    _correct([gate for _, gates in cases for gate in gates])
    return [case.judgement(gates) for case, gates in cases]


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the one verdict: a budget that is broken for certain counts first, then what could not be judged."""
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
        self.figure, self.level, self._estimate, self._limit = figure, level, estimate, limit
        self.estimate = estimate(level)
        if (known := self.estimate) is None:
            self.verdict, self.reason = Verdict.INCONCLUSIVE, reason(_C.NO_PAIRS, figure=figure[-1])
            return
        params = {"figure": figure[-1], "value": known.value, "low": known.low, "high": known.high}
        params |= {"confidence": known.confidence, "limit": limit, "unit": unit, "boots": known.boots}
        if known.low is None or known.high is None:
            self.verdict, code = Verdict.INCONCLUSIVE, _C.TOO_FEW_BOOTS
            params |= {"needed": statistics.MIN_BOOTS}
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
        held = {gate for gate in failing if gate not in broken and gate.fails_at(1 - (1 - gate.level) / count)}
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
        level = statistics.interim_confidence(budget.confidence, looks, boots)
        figure = (budget.benchmark, self.metric, budget.arm, budget.baseline)
        gates = []
        if budget.max_loss is not None and self.fault is None:
            gates.append(_Gate((*figure, "loss"), self._loss, level, budget.max_loss))
        if (limit := budget.max_host_cpu_per_unit) is not None and not (self.fault or self.cpu_fault):
            cost = functools.partial(statistics.estimate, self.cpu, positive=True)
            gates.append(_Gate((*figure, "cpu"), cost, level, limit, self.unit))
        for gate in gates if level != budget.confidence else ():
            gate.reason = gate.reason.noting(reason(_C.INTERIM, confidence=level, promised=budget.confidence))
        for gate in gates[:1]:
            gate.reason = gate.reason.noting(*self.notes)
        return gates

    def judgement(self, gates: Sequence[_Gate]) -> Judgement:
        judged = [(gate.verdict, gate.reason) for gate in gates]
        if (fault := self.fault or self.cpu_fault) is not None:
            judged.append((Verdict.INVALID, fault))
        verdicts, why = zip(*judged, strict=True)
        known = {gate.figure[-1]: gate.estimate for gate in gates}
        loss, cpu = known.get("loss"), known.get("cpu")
        return Judgement(self.budget, worst(verdicts), loss, cpu, self.unit, why, verdicts, self.pairs_excluded)

    def _loss(self, confidence: float) -> statistics.Estimate | None:
        ratio = statistics.ratio_of(self.logs, confidence)
        if ratio is None:
            return None
        low, high = (None if end is None else 1 - end for end in (ratio.high, ratio.low))
        return dataclasses.replace(ratio, value=1 - ratio.value, low=low, high=high)


class _Measured:
    """Results, looked up by many budgets; :ivar boots: how many boots they are of."""

    def __init__(self, results: model.Results) -> None:
        self._results, self._environment = results, results.environment
        self.boots = len({trial.boot for trial in results.trials})
        self._trials = grouped((trial.benchmark, trial) for trial in results.trials)

    def case(self, budget: Budget) -> _Case:
        """Return a budget with what it limits, or why it cannot be judged."""
        metric = budget.metric or self._judged_by(budget.benchmark)
        # What an arm costs needs no other to compare with.
        baseline = budget.arm if budget.max_loss is None else budget.baseline
        # A run that failed has none of its figures, and stands there under the judged one alone.
        mine = self._trials.get(budget.benchmark, [])
        trials = [trial for trial in mine if trial.metric == metric or trial.value is None]
        if (fault := self._other_guests(budget) or self._absent(budget, metric, baseline, trials)) is not None:
            return _Case(budget, fault)
        # All arms tell which blocks there ought to be.
        picked = trial_filter.select(self._results, trials, budget.arm, baseline, budget.guards)
        floor = self._environment.noise_floor
        fault = picked.invalid or noise.refusal(floor, budget.benchmark, metric, budget.max_loss)
        if fault is not None:
            return _Case(budget, fault)
        logs = statistics.log_ratios(picked.trials, budget.arm, baseline)
        worst = _failed_blocks(picked, budget.arm, baseline)
        notes = picked.notes
        if worst and logs:
            notes = (*notes, reason(_C.WORST, arm=budget.arm, count=len(worst)))
        case = _Case(budget, None, metric, _with_worst(logs, min, worst), notes, picked.pairs_excluded)
        if budget.max_host_cpu_per_unit is not None:
            mine = [trial for trial in picked.trials if trial.arm == budget.arm]
            cpu = statistics.by_boot(mine, lambda trial: overhead.per_unit(overhead.cost(trial).service_s, trial))
            case.unit = min((trial.work_unit for trial in mine if trial.work is not None), default="")
            case.cpu = _with_worst(cpu, max, worst)
            case.cpu_fault = _uncounted(mine, budget.arm, sum(map(len, cpu.values())))
        return case

    def _absent(self, budget: Budget, metric: str, baseline: str, trials: Sequence[model.Trial]) -> Reason | None:
        """Return what of a budget was not measured; ``trials``: of its figure, failed ones included."""
        benchmark = budget.benchmark
        if benchmark not in self._trials:
            return reason(_C.NO_BENCHMARK, benchmark=benchmark, known=sorted(self._trials))
        mine = self._trials[benchmark]
        metrics = sorted({trial.metric for trial in mine})
        if metric not in metrics:
            named = budget.metric is not None
            return reason(_C.NO_METRIC, benchmark=benchmark, metric=metric, known=metrics, named=named)
        for arm in (budget.arm, baseline):
            if all(trial.arm != arm for trial in trials):
                return reason(_C.NO_ARM, arm=arm, known=sorted({trial.arm for trial in mine}))
        return None

    def _judged_by(self, benchmark: str) -> str:
        """Return the metric of a budget that names none, as the benchmark defines it; empty: nobody knows it."""
        if known := plugins.of_label(benchmark, self._environment.benchmarks):
            return known.primary[0]
        return next((trial.metric for trial in self._trials.get(benchmark, ()) if trial.primary), "")

    def _other_guests(self, budget: Budget) -> Reason | None:
        """Return what the guests are, or ran on, if it is not what the budget is for or what was asked for."""
        accelerator, wanted = self._environment.accelerator or "unknown", budget.accelerator
        if wanted is not None and accelerator != wanted:
            return reason(_C.OTHER_ACCELERATOR, accelerator=accelerator, wanted=wanted)
        for arm in (budget.arm, budget.baseline):
            measured_arm = self._environment.arms.get(arm, environments.Arm())
            mode = measured_arm.virtualization
            if probe.contradiction(mode, accelerator):
                return reason(_C.ACCELERATOR_CONTRADICTED, arm=arm, accelerator=accelerator, found=mode)
            if mode == "unknown" and wanted is not None:
                return reason(_C.VIRTUALIZATION_UNREAD, arm=arm, wanted=wanted)
            if others := [finding for finding in measured_arm.findings if finding.code not in probe.HARMLESS]:
                return reason(_C.OTHER_GUESTS, arm=arm, finding=others[0].text, more=len(others) - 1)
        return None


def _failed_blocks(picked: trial_filter.Selection, arm: str, baseline: str) -> list[int]:
    """Return the boot of each block in which ``arm`` alone has no figure.

    A slow trial is likelier to fail: what is left may be the better part. What a guard excluded is not here.
    """
    failed = next(lost.blocks for lost in picked.lost if lost.arm == arm)
    if arm == baseline:
        return [boot for boot, _ in failed]
    good = (trial for trial in picked.trials if trial.arm == baseline and not trial_filter.failed(trial))
    return [boot for boot, _ in sorted(failed & trial_filter.blocks(good))]


def _with_worst(
    samples: Mapping[int, Sequence[float]], worst_of: Callable[[Iterable[float]], float], boots: Iterable[int]
) -> Mapping[int, Sequence[float]]:
    """Return samples with the worst of all once more for each of ``boots``: blocks that ended worse than any."""
    if not samples:
        return samples
    worst = worst_of(value for values in samples.values() for value in values)
    whole = {boot: list(values) for boot, values in samples.items()}
    for boot in boots:
        whole.setdefault(boot, []).append(worst)
    return whole


def _uncounted(trials: Sequence[model.Trial], arm: str, known: int) -> Reason | None:
    """Return why service CPU cannot be judged by the ``known`` trials of the arm that have it; None if it can."""
    if fault := next(filter(None, (overhead.cost(trial).contradiction for trial in trials)), None):
        return fault
    if not known:
        return reason(_C.NO_SERVICE_CPU, arm=arm)
    measured, limit = sum(not trial_filter.failed(trial) for trial in trials), trial_filter.MAX_LOST
    if (count := measured - known) <= limit * measured:
        return None
    return reason(_C.LITTLE_SERVICE_CPU, arm=arm, count=count, of=measured, limit=limit)
