# SPDX-License-Identifier: Apache-2.0
"""What results say, worked out once for the terminal, for JSON and for the report."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.validation.environment import Ended, Environment
from nova_perf_tuning.validation.judge import statistics, trial_filter
from nova_perf_tuning.validation.measure import model, overhead, reasons
from nova_perf_tuning.validation.measure.reasons import reason

_C, _O = reasons.ReasonCode, reasons.Outcome
_IN_MEMORY: Final = ("tmpfs", "ramfs")

#: Seconds of CPU of a trial -> the same per unit of work, or per second.
_Per = Callable[[float | None, model.Trial], float | None]


@dataclasses.dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm in one benchmark.

    :ivar n: trials that count; :ivar failed: those without a figure, or with 0, which has no ratio.
    :ivar values: boot, block and primary figure of each; :ivar median: of these.
    :ivar total_per_unit, service_per_unit, full_per_unit: CPU seconds per unit of work.
    :ivar cpus: class -> CPU seconds per second, medians over trials (no ``total``); for the host's own arm
        ``total`` and ``softirq``. :ivar guest_busy: the same of what the guest says itself.
    :ivar wait_share: median share of the time wanted that vCPUs waited.
    :ivar full_invalid, cpu_invalid: why full overhead, or any CPU, is not shown.
    :ivar excluded: number of the run and why, for each trial that does not count.
    :ivar uncounted: trials without CPU counters, where others have them.
    """

    arm: str
    n: int
    failed: int
    median: statistics.Estimate | None
    values: tuple[tuple[int, int, float], ...]
    total_per_unit: statistics.Estimate | None
    service_per_unit: statistics.Estimate | None
    full_per_unit: statistics.Estimate | None
    service_per_second: statistics.Estimate | None
    full_per_second: statistics.Estimate | None
    cpus: dict[str, float]
    guest_busy: float | None
    wait_share: float | None
    full_invalid: reasons.Reason | None
    excluded: tuple[tuple[int, reasons.Reason], ...]
    uncounted: int
    cpu_invalid: reasons.Reason | None


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """:ivar ratio: ``arm`` / ``baseline``, more than 1 is a gain; None: no pair, or too few that count.

    :ivar pairs_excluded: pairs of which a guard rejected a trial; :ivar notes: why, and how many trials failed.
    :ivar invalid: why there is no ratio although there are pairs.
    :ivar values: boot and ratio of each pair that counts.
    """

    arm: str
    baseline: str
    ratio: statistics.Estimate | None
    pairs_excluded: int
    notes: tuple[reasons.Reason, ...]
    invalid: reasons.Reason | None
    values: tuple[tuple[int, float], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Secondary:
    """A figure that is shown, not judged: medians per arm, and ratios made as those of the judged one."""

    metric: str
    unit: str
    better: str
    medians: dict[str, float]
    comparisons: tuple[Comparison, ...]

    @property
    def of_arms(self) -> Mapping[tuple[str, str], Comparison]:
        """Return arm and baseline -> their comparison."""
        return {(pair.arm, pair.baseline): pair for pair in self.comparisons}


@dataclasses.dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """One benchmark; :attr:`work_unit` is what CPU is counted per, empty if nothing is."""

    label: str
    metric: str
    unit: str
    better: str
    work_unit: str
    arms: tuple[ArmSummary, ...]
    comparisons: tuple[Comparison, ...]
    secondary: tuple[Secondary, ...]

    @property
    def of_arm(self) -> Mapping[str, Sequence[Comparison]]:
        """Return arm -> its comparisons."""
        return grouped((pair.arm, pair) for pair in self.comparisons)

    @property
    def figures(self) -> tuple[Secondary, ...]:
        """The judged figure and the others, as rows of one table."""
        medians = {arm.arm: arm.median.value for arm in self.arms if arm.median}
        judged = Secondary(self.metric, self.unit, self.better, medians, self.comparisons)
        return (judged, *self.secondary)


def summarise(results: model.Results, limits: trial_filter.Limits | None = None) -> list[BenchmarkSummary]:
    """Return one summary per benchmark, in the order in which they were first run."""
    limits = limits or trial_filter.Limits()
    chosen = _Chosen(
        results, limits, trial_filter.alone(results, limits), trial_filter.Gaps.of(results.environment)
    )
    trials, order = grouped((trial.benchmark, trial) for trial in results.trials), arm_order(results)
    return [_benchmark(label, mine, order, chosen) for label, mine in trials.items()]


class _Chosen(NamedTuple):
    """What all figures of some results go by; :ivar excluded: run -> why it does not count."""

    results: model.Results
    guards: trial_filter.Limits
    excluded: Mapping[trial_filter.Run, reasons.Reason]
    gaps: trial_filter.Gaps


def arm_order(results: model.Results) -> list[str]:
    """Return the arms: the host, then guests as the plan names them, then any other."""
    seen = {trial.arm for trial in results.trials}
    planned = dict.fromkeys([model.HOST, *results.environment.arms])
    return [arm for arm in planned if arm in seen] + sorted(seen - planned.keys())


def excluded(summaries: Sequence[BenchmarkSummary]) -> dict[trial_filter.Run, reasons.Reason]:
    return {
        (benchmark.label, arm.arm, order): why
        for benchmark in summaries
        for arm in benchmark.arms
        for order, why in arm.excluded
    }


def _benchmark(label: str, trials: Sequence[model.Trial], order: Sequence[str], by: _Chosen) -> BenchmarkSummary:
    primary = [trial for trial in trials if trial.primary]
    first = (primary or trials)[0]
    chosen = [trial for trial in primary if trial.metric == first.metric]
    of_arm = grouped((trial.arm, trial) for trial in chosen)
    here = [arm for arm in order if arm in of_arm]
    return BenchmarkSummary(
        label=label,
        metric=first.metric,
        unit=first.unit,
        better=first.better,
        work_unit=next((trial.work_unit for trial in chosen if trial.work_unit), ""),
        arms=tuple(_arm(arm, of_arm[arm], by.excluded) for arm in here),
        comparisons=_comparisons(chosen, here, by),
        secondary=_secondary(trials, here, by),
    )


def _comparison(figure: trial_filter.Figure, arm: str, baseline: str, by: _Chosen) -> Comparison:
    accelerator = by.results.environment.accelerator
    picked = trial_filter.select_of(figure, by.gaps, accelerator, arm, baseline, by.guards)
    logs = {} if picked.invalid else statistics.log_ratios(picked.trials, arm, baseline)
    values = tuple((boot, math.exp(log)) for boot, some in logs.items() for log in some)
    ratio = statistics.ratio_of(logs)
    return Comparison(arm, baseline, ratio, picked.pairs_excluded, picked.notes, picked.invalid, values)


def _comparisons(trials: Sequence[model.Trial], arms: Sequence[str], by: _Chosen) -> tuple[Comparison, ...]:
    """Return the guests over the first guest, then every guest over the host."""
    figure = trial_filter.Figure.of(trials)
    here = [arm for arm in arms if arm in figure.arms]
    guests = [arm for arm in here if arm != model.HOST]
    pairs = [(arm, guests[0]) for arm in guests[1:]]
    pairs += [(arm, model.HOST) for arm in guests if model.HOST in here]
    return tuple(_comparison(figure, *pair, by) for pair in pairs)


def _arm(arm: str, trials: list[model.Trial], excluded: Mapping[trial_filter.Run, reasons.Reason]) -> ArmSummary:
    measured = [trial for trial in trials if not trial_filter.failed(trial)]
    good = [trial for trial in measured if trial_filter.run(trial) not in excluded]
    costs = {id(trial): overhead.cost(trial) for trial in good}
    counted = {"total"} if arm == model.HOST else {"total", "vcpu"}
    with_cpu = [trial for trial in good if counted <= trial.host_cpu_s.keys()]
    uncounted = len(good) - len(with_cpu) if with_cpu else 0
    cpu_invalid = _cpu_fault(list(costs.values()), uncounted)
    # Full overhead of the few trials in which the vCPUs happened not to wait would be a selection.
    fault = next((cost.invalid for cost in costs.values() if cost.invalid), None)
    waits = [cost.wait_share for cost in costs.values() if cost.wait_share is not None]
    full_invalid = cpu_invalid or fault
    if not cpu_invalid and fault is not None and fault.code is _C.VCPUS_WAITED:
        over = sum(wait > overhead.MAX_WAIT for wait in waits)
        full_invalid = reason(_C.OFTEN_WAITED, count=over, of=len(waits), most=max(waits))

    def cpu(name: str, per: _Per) -> statistics.Estimate | None:
        if full_invalid if name == "full_s" else cpu_invalid:
            return None
        samples = statistics.by_boot(with_cpu, lambda trial: per(getattr(costs[id(trial)], name), trial))
        return statistics.estimate(samples, positive=True)

    return ArmSummary(
        arm=arm,
        n=len(good),
        failed=len(trials) - len(measured),
        median=statistics.estimate(statistics.by_boot(good, lambda trial: trial.value), positive=True),
        values=tuple((trial.boot, trial.block, trial.value) for trial in good if trial.value is not None),
        total_per_unit=cpu("total_s", overhead.per_unit),
        service_per_unit=cpu("service_s", overhead.per_unit),
        full_per_unit=cpu("full_s", overhead.per_unit),
        service_per_second=cpu("service_s", overhead.per_second),
        full_per_second=cpu("full_s", overhead.per_second),
        cpus={} if cpu_invalid else _cpus(good),
        guest_busy=_rate(good, lambda trial: trial.guest_cpu_s),
        wait_share=statistics.median(waits),
        full_invalid=full_invalid,
        excluded=tuple(
            (trial.order, excluded[trial_filter.run(trial)])
            for trial in measured
            if trial_filter.run(trial) in excluded
        ),
        uncounted=uncounted,
        cpu_invalid=cpu_invalid,
    )


def _cpu_fault(costs: Sequence[overhead.Cost], uncounted: int) -> reasons.Reason | None:
    """Return why no CPU is known of an arm, of which some trials have no counters; None if it can."""
    contradictions = [cost.contradiction for cost in costs if cost.contradiction]
    if contradictions:
        return reason(_C.CONTRADICTED, why=(contradictions[0],), count=len(contradictions), of=len(costs))
    if uncounted > trial_filter.MAX_LOST * len(costs):
        return reason(_C.FEW_COUNTERS, count=uncounted, of=len(costs), limit=trial_filter.MAX_LOST)
    return None


def _rate(trials: Iterable[model.Trial], seconds: Callable[[model.Trial], float | None]) -> float | None:
    """Return CPU seconds per second, the median of the trials that have any."""
    rates = [overhead.per_second(seconds(trial), trial) for trial in trials]
    return statistics.median([rate for rate in rates if rate is not None])


def _cpus(trials: Sequence[model.Trial]) -> dict[str, float]:
    names = sorted({name for trial in trials for name in trial.host_cpu_s})
    if "vcpu" in names:  # of a guest: all classes but softirq are parts of the total
        names = [name for name in names if name != "total"]
    rates = {name: _rate(trials, lambda trial: trial.host_cpu_s.get(name)) for name in names}  # noqa: B023
    return {name: rate for name, rate in rates.items() if rate is not None}


def _secondary(trials: Sequence[model.Trial], arms: Sequence[str], by: _Chosen) -> tuple[Secondary, ...]:
    figures = []
    # A run that failed has none of its figures, and stands there under the judged one alone.
    failed = [trial for trial in trials if trial.value is None]
    measured = [trial for trial in trials if not trial.primary and trial.value is not None]
    for metric, mine in grouped((trial.metric, trial) for trial in measured).items():
        values: dict[str, list[float]] = {}
        for trial in mine:
            if trial_filter.run(trial) not in by.excluded and trial.value is not None:
                values.setdefault(trial.arm, []).append(trial.value)
        medians = {arm: middle for arm in arms if (middle := statistics.median(values.get(arm, ()))) is not None}
        compared = _comparisons([*mine, *failed], arms, by)
        figures.append(Secondary(metric, mine[0].unit, mine[0].better, medians, compared))
    return tuple(figures)


def headline(summaries: Sequence[BenchmarkSummary]) -> reasons.Reason:
    """Return what the first comparison of guests shows, benchmark by benchmark."""
    outcomes, arms = list[dict[str, object]](), ("", "")
    for benchmark in summaries:
        pair = next((pair for pair in benchmark.comparisons if pair.baseline != model.HOST), None)
        outcome, ratio = _outcome(pair), None
        if pair is not None:
            arms = pair.arm, pair.baseline
        if pair is not None and pair.ratio is not None and outcome in (_O.GAIN, _O.LOSS):
            ratio = pair.ratio.value
            outcome = _O.NOISE if arms == model.AA_ARMS[::-1] else outcome
        outcomes.append({"benchmark": benchmark.label, "outcome": outcome, "ratio": ratio})
    if not outcomes:
        return reason(_C.NOTHING_MEASURED)
    return reason(_C.COMPARED, arm=arms[0], baseline=arms[1], outcomes=outcomes)


def _outcome(pair: Comparison | None) -> reasons.Outcome:
    if pair is None or pair.ratio is None:
        return _O.INVALID if pair and pair.invalid else _O.NO_PAIR
    if pair.ratio.low is None or pair.ratio.high is None:
        return _O.TOO_FEW
    if pair.ratio.low <= 1 <= pair.ratio.high:
        return _O.NO_DIFFERENCE
    return _O.GAIN if pair.ratio.low > 1 else _O.LOSS


def is_aa(environment: Environment) -> bool:
    """Whether the arms of guests are all the same, so that every difference between them is noise."""
    return environment.launcher == "host" or set(environment.arms) == set(model.AA_ARMS)


def notes(results: model.Results, summaries: Sequence[BenchmarkSummary]) -> list[reasons.Reason]:
    """Return what must be read before the figures: emulation, an early end, errors, what has no figure."""
    environment = results.environment
    orders = {trial.order for trial in results.trials}
    failed = {trial.order for trial in results.trials if trial.value is None}
    wide = {trial.order for trial in results.trials if trial.window == "execution"}
    remarks = [reason(_C.EMULATED)] if environment.accelerator == "tcg" else []
    if is_aa(environment):
        remarks.append(reason(_C.HOST_ALONE if environment.launcher == "host" else _C.SAME_GUESTS))
    if environment.ended not in ("", Ended.COMPLETE):
        remarks.append(reason(_C.ENDED_EARLY, ended=environment.ended))
    if failed:
        remarks.append(reason(_C.TRIALS_FAILED, count=len(failed), of=len(orders)))
    if wide:
        remarks.append(reason(_C.WIDE_WINDOWS, count=len(wide)))
    if watched := {trial.order for trial in results.trials if trial.collectors}:
        names = sorted({name for trial in results.trials for name in trial.collectors})
        remarks.append(reason(_C.WATCHED, count=len(watched), of=len(orders), collectors=names))
    return remarks + [
        reason(_C.NO_RATIO, benchmark=benchmark.label, arm=pair.arm, baseline=pair.baseline, why=(pair.invalid,))
        for benchmark in summaries
        for pair in benchmark.comparisons
        if pair.invalid
    ]


def warnings(environment: Environment) -> list[reasons.Reason]:
    """Return what is wrong with the host that the figures come from: other work on it, a part that is missing."""
    remarks = []
    load, cpus = environment.load_at_start, environment.cpus
    if load is not None and cpus is not None and 0 < cpus < load:
        remarks.append(reason(_C.OTHER_WORK, load=load, cpus=cpus))
    if environment.vhost_net is False:
        remarks.append(reason(_C.NO_VHOST_NET))
    writing = [label for label, run in environment.benchmarks.items() if "directory" in run.parameters]
    if writing and environment.scratch_filesystem in _IN_MEMORY:
        remarks.append(reason(_C.FILES_IN_MEMORY, benchmarks=writing, filesystem=environment.scratch_filesystem))
    return remarks
