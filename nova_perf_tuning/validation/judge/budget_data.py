"""What of some results a budget is about, and why it cannot be judged by them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from nova_perf_tuning.guest import probe
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import budget_file, noise, statistics, trial_filter
from nova_perf_tuning.validation.measure import model, overhead, reasons
from nova_perf_tuning.validation.measure.reasons import reason

_C = reasons.ReasonCode


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What a budget limits, as far as it can be judged.

    :ivar logs: boot -> log-ratios of its blocks; :ivar cpu: boot -> service CPU per unit of work.
    :ivar unit: of work; :ivar notes: what failed and what was excluded.
    :ivar fault: why nothing can be judged; :ivar cpu_fault: why service CPU cannot.
    """

    metric: str = ""
    logs: Mapping[int, Sequence[float]] = dataclasses.field(default_factory=dict)
    cpu: Mapping[int, Sequence[float]] = dataclasses.field(default_factory=dict)
    unit: str = ""
    notes: tuple[reasons.Reason, ...] = ()
    pairs_excluded: int = 0
    fault: reasons.Reason | None = None
    cpu_fault: reasons.Reason | None = None

    def loss(self, confidence: float) -> statistics.Estimate | None:
        """Return ``1 - ratio`` with its interval; None without a pair."""
        ratio = statistics.ratio_of(self.logs, confidence)
        if ratio is None:
            return None
        low, high = (None if end is None else 1 - end for end in (ratio.high, ratio.low))
        return dataclasses.replace(ratio, value=1 - ratio.value, low=low, high=high)

    def cpu_per_unit(self, confidence: float) -> statistics.Estimate | None:
        """Return service CPU seconds per unit of work; None where none is known."""
        return statistics.estimate(self.cpu, confidence, positive=True)


class Measured:
    """Results, looked up by many budgets.

    :ivar boots: how many boots they are of.
    """

    def __init__(self, results: model.Results) -> None:
        self._results = results
        self.environment = results.environment
        self.boots = len({trial.boot for trial in results.trials})
        self._trials: dict[str, list[model.Trial]] = collections.defaultdict(list)
        for trial in results.trials:
            self._trials[trial.benchmark].append(trial)

    def figures(self, budget: budget_file.Budget) -> Figures:
        """Return what a budget limits, or why it cannot be judged."""
        metric = budget.metric or self._judged_by(budget.benchmark)
        # What an arm costs needs no other to compare with.
        baseline = budget.arm if budget.max_loss is None else budget.baseline
        # A run that failed has none of its figures, and stands there under the judged one alone.
        mine = self._trials.get(budget.benchmark, [])
        trials = [trial for trial in mine if trial.metric == metric or trial.value is None]
        fault = self._other_guests(budget) or self._absent(budget, metric)
        if fault is None and (lacking := {budget.arm, baseline} - {trial.arm for trial in trials}):
            known = sorted({trial.arm for trial in mine})
            fault = reason(_C.NO_ARM, arm=budget.arm if budget.arm in lacking else baseline, known=known)
        if fault is not None:
            return Figures(fault=fault)
        # All arms tell which blocks there ought to be.
        picked = trial_filter.select(self._results, trials, budget.arm, baseline, budget.guards)
        if picked.invalid is not None:
            return Figures(fault=picked.invalid)
        logs = statistics.log_ratios(picked.trials, budget.arm, baseline)
        worst = self._failed_blocks(picked, budget.arm, baseline)
        notes = picked.notes
        if worst and logs:
            notes = (*notes, reason(_C.WORST, arm=budget.arm, count=len(worst)))
        found = Figures(metric, _with_worst(logs, min, worst), notes=notes, pairs_excluded=picked.pairs_excluded)
        fault = noise.refusal(self.environment.noise_floor, budget.benchmark, metric, budget.max_loss)
        if fault is not None:
            return Figures(fault=fault)
        return found if budget.max_host_cpu_per_unit is None else self._with_cpu(found, budget.arm, picked, worst)

    def _absent(self, budget: budget_file.Budget, metric: str) -> reasons.Reason | None:
        """Return what of a budget was not measured."""
        benchmark = budget.benchmark
        if benchmark not in self._trials:
            return reason(_C.NO_BENCHMARK, benchmark=benchmark, known=sorted(self._trials))
        known = sorted({trial.metric for trial in self._trials[benchmark]})
        if metric in known:
            return None
        named = budget.metric is not None
        return reason(_C.NO_METRIC, benchmark=benchmark, metric=metric, known=known, named=named)

    def _judged_by(self, benchmark: str) -> str:
        """Return the metric of a budget that names none, as the benchmark defines it; empty: nobody knows it."""
        if known := plugins.of_label(benchmark, self.environment.benchmarks):
            return known.primary[0]
        return next((trial.metric for trial in self._trials.get(benchmark, ()) if trial.primary), "")

    def _other_guests(self, budget: budget_file.Budget) -> reasons.Reason | None:
        """Return what the guests are, or ran on, if it is not what the budget is for or what was asked for."""
        accelerator, wanted = self.environment.accelerator or "unknown", budget.accelerator
        if wanted is not None and accelerator != wanted:
            return reason(_C.OTHER_ACCELERATOR, accelerator=accelerator, wanted=wanted)
        for arm in (budget.arm, budget.baseline):
            measured_arm = self.environment.arms.get(arm, environments.Arm())
            found = measured_arm.virtualization
            if probe.contradiction(found, accelerator):
                return reason(_C.ACCELERATOR_CONTRADICTED, arm=arm, accelerator=accelerator, found=found)
            if found == "unknown" and wanted is not None:
                return reason(_C.VIRTUALIZATION_UNREAD, arm=arm, wanted=wanted)
            if others := [finding for finding in measured_arm.findings if finding.code not in probe.HARMLESS]:
                return reason(_C.OTHER_GUESTS, arm=arm, finding=others[0].text, more=len(others) - 1)
        return None

    def _failed_blocks(self, picked: trial_filter.Selection, arm: str, baseline: str) -> list[int]:
        """Return the boot of each block in which ``arm`` alone has no figure.

        A slow trial is likelier to fail: what is left may be the better part. What a guard excluded is not here.
        """
        failed = next(lost.blocks for lost in picked.lost if lost.arm == arm)
        if arm == baseline:
            return [boot for boot, _ in failed]
        others = {
            (trial.boot, trial.block)
            for trial in picked.trials
            if trial.arm == baseline and not trial_filter.failed(trial)
        }
        return [boot for boot, _ in sorted(failed & others)]

    def _with_cpu(self, found: Figures, arm: str, picked: trial_filter.Selection, worst: Sequence[int]) -> Figures:
        mine = [trial for trial in picked.trials if trial.arm == arm]
        samples = statistics.by_boot(mine, lambda trial: overhead.per_unit(overhead.cost(trial).service_s, trial))
        units = {trial.work_unit for trial in mine if trial.work is not None}
        fault = _uncounted(mine, arm, sum(map(len, samples.values())))
        unit = min(units, default="")
        if fault is not None:
            return dataclasses.replace(found, unit=unit, cpu_fault=fault)
        return dataclasses.replace(found, unit=unit, cpu=_with_worst(samples, max, worst))


def _with_worst(
    samples: Mapping[int, Sequence[float]], worst_of: Callable[[Iterable[float]], float], boots: Iterable[int]
) -> Mapping[int, Sequence[float]]:
    """Return samples with the worst of all once more for each of ``boots``: blocks that ended worse than any."""
    if not samples:
        return samples
    worst = worst_of(value for values in samples.values() for value in values)
    found = {boot: list(values) for boot, values in samples.items()}
    for boot in boots:
        found.setdefault(boot, []).append(worst)
    return found


def _uncounted(trials: Sequence[model.Trial], arm: str, known: int) -> reasons.Reason | None:
    """Return why service CPU cannot be judged by the trials that have it; None if it can.

    :param known: how many of the arm have it.
    """
    fault = next(filter(None, (overhead.cost(trial).contradiction for trial in trials)), None)
    if fault is not None:
        return fault
    measured = sum(not trial_filter.failed(trial) for trial in trials)
    if not known:
        return reason(_C.NO_SERVICE_CPU, arm=arm)
    if measured - known <= trial_filter.MAX_LOST * measured:
        return None
    count, limit = measured - known, trial_filter.MAX_LOST
    return reason(_C.LITTLE_SERVICE_CPU, arm=arm, count=count, of=measured, limit=limit)
