# SPDX-License-Identifier: Apache-2.0
"""What results say, worked out once for the terminal, for JSON and for the report."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.validation.judge import run_notes, statistics, trial_filter
from nova_perf_tuning.validation.measure import overhead
from nova_perf_tuning.validation.results import model, reasons
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.results.reasons import reason

_C, _O = reasons.ReasonCode, reasons.ComparisonOutcome
_IN_MEMORY: Final = ("tmpfs", "ramfs")

#: Seconds of CPU of a trial -> the same per unit of work, or per second.
_Per = Callable[[float | None, model.Trial], float | None]


@dataclasses.dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm in one benchmark.

    :ivar n: trials that count; :ivar failed: those without a figure, or with 0, which has no
        ratio.
    :ivar values: boot, block and primary figure of each; :ivar median: the median of each boot,
        then the geometric mean of the boots.
    :ivar total_per_unit, service_per_unit, full_per_unit: CPU seconds per unit of work.
    :ivar cpus: class -> CPU seconds per second, medians over trials (no ``total``); for the host's
        own arm ``total`` and ``softirq``. :ivar guest_busy: the same of what the guest says
        itself.
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
    """:ivar ratio: ``arm`` / ``baseline``, more than 1 is a gain.

    It is None where there is no pair, or too few of them count.

    :ivar pairs_excluded: pairs of which a guard rejected a trial; :ivar notes: why, and how many
        trials failed.
    :ivar invalid: why there is no ratio although there are pairs.
    :ivar values: boot and ratio of each pair that counts; none where nothing pairs trials.
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
    """A figure that is shown, not judged; its ratios are made as those of the judged one.

    :ivar medians: arm -> its figure, made as :attr:`ArmSummary.median`.
    """

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


def summarise(
    results: model.Results,
    limits: trial_filter.Limits | None = None,
) -> list[BenchmarkSummary]:
    """Return one summary per benchmark, in the order in which they were first run."""
    guards = limits or trial_filter.Limits()
    rejected = trial_filter.alone(results, guards)
    chosen = _Chosen(results, guards, rejected, trial_filter.Gaps.of(results.environment))
    trials = grouped((trial.benchmark, trial) for trial in results.trials)
    order = arm_order(results)
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
    """Return run -> why it does not count, for all that do not."""
    found: dict[trial_filter.Run, reasons.Reason] = {}
    for benchmark in summaries:
        for arm in benchmark.arms:
            for order, why in arm.excluded:
                found[benchmark.label, arm.arm, order] = why
    return found


def _benchmark(
    label: str,
    trials: Sequence[model.Trial],
    order: Sequence[str],
    by: _Chosen,
) -> BenchmarkSummary:
    primary = [trial for trial in trials if trial.primary]
    first = trials[0]
    if primary:
        first = primary[0]
    chosen: list[model.Trial] = []
    of_arm: dict[str, list[model.Trial]] = {}
    work_unit = ""
    for trial in primary:
        if trial.metric == first.metric:
            chosen.append(trial)
            of_arm.setdefault(trial.arm, []).append(trial)
            work_unit = work_unit or trial.work_unit
    here = [arm for arm in order if arm in of_arm]
    return BenchmarkSummary(
        label=label,
        metric=first.metric,
        unit=first.unit,
        better=first.better,
        work_unit=work_unit,
        arms=tuple(_arm(arm, of_arm[arm], by.excluded) for arm in here),
        comparisons=_comparisons(chosen, here, by),
        secondary=_secondary(trials, here, by),
    )


def _comparison(figure: trial_filter.Figure, arm: str, baseline: str, by: _Chosen) -> Comparison:
    accelerator = by.results.environment.accelerator
    picked = trial_filter.select_of(figure, by.gaps, accelerator, arm, baseline, by.guards)
    logs: dict[int, list[float]] = {}
    ratio: statistics.Estimate | None = None
    if picked.invalid is None and by.gaps.unpaired:
        of_arm = statistics.signed_logs(picked.trials, arm)
        ratio = statistics.unpaired_ratio(of_arm, statistics.signed_logs(picked.trials, baseline))
    elif picked.invalid is None:
        logs = statistics.log_ratios(picked.trials, arm, baseline)
        ratio = statistics.ratio_of(logs)
    values: list[tuple[int, float]] = []
    for boot, boot_logs in logs.items():
        for log in boot_logs:
            values.append((boot, math.exp(log)))
    return Comparison(
        arm=arm,
        baseline=baseline,
        ratio=ratio,
        pairs_excluded=picked.pairs_excluded,
        notes=picked.notes,
        invalid=picked.invalid,
        values=tuple(values),
    )


def _comparisons(
    trials: Sequence[model.Trial],
    arms: Sequence[str],
    by: _Chosen,
) -> tuple[Comparison, ...]:
    """Return the guests over the first guest, then every guest over the host."""
    figure = trial_filter.Figure.of(trials)
    guests = [arm for arm in arms if arm in figure.arms]
    with_host = model.HOST in guests
    if with_host:
        guests.remove(model.HOST)
    compared = []
    for arm in guests[1:]:
        compared.append(_comparison(figure, arm, guests[0], by))
    if with_host:
        for arm in guests:
            compared.append(_comparison(figure, arm, model.HOST, by))
    return tuple(compared)


def _arm(
    arm: str,
    trials: Sequence[model.Trial],
    excluded: Mapping[trial_filter.Run, reasons.Reason],
) -> ArmSummary:
    good: list[model.Trial] = []
    failed = 0
    rejected: list[tuple[int, reasons.Reason]] = []
    values: list[tuple[int, int, float]] = []
    samples: dict[int, list[float]] = {}
    for trial in trials:
        run = trial_filter.run(trial)
        if trial_filter.failed(trial) or trial.value is None:
            failed += 1
        elif run in excluded:
            rejected.append((trial.order, excluded[run]))
        else:
            good.append(trial)
            values.append((trial.boot, trial.block, trial.value))
            samples.setdefault(trial.boot, []).append(trial.value)
    used = _ArmCpu.of(arm, good)
    cpus: dict[str, float] = {}
    if used.invalid is None:
        cpus = _cpus(good)
    return ArmSummary(
        arm=arm,
        n=len(good),
        failed=failed,
        median=statistics.estimate(samples, positive=True),
        values=tuple(values),
        total_per_unit=used.estimate("total_s", overhead.per_unit),
        service_per_unit=used.estimate("service_s", overhead.per_unit),
        full_per_unit=used.estimate("full_s", overhead.per_unit),
        service_per_second=used.estimate("service_s", overhead.per_second),
        full_per_second=used.estimate("full_s", overhead.per_second),
        cpus=cpus,
        guest_busy=_rate(good, [trial.guest_cpu_s for trial in good]),
        wait_share=statistics.median(used.waits),
        full_invalid=used.full_invalid,
        excluded=tuple(rejected),
        uncounted=used.uncounted,
        cpu_invalid=used.invalid,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _ArmCpu:
    """The CPU of an arm.

    :ivar counted: trials that have counters, and the cost of each.
    :ivar waits: share of the time wanted that vCPUs waited, of each trial that has it.
    :ivar uncounted, invalid, full_invalid: as in :class:`ArmSummary`.
    """

    counted: Sequence[tuple[model.Trial, overhead.Cost]]
    waits: Sequence[float]
    uncounted: int
    invalid: reasons.Reason | None
    full_invalid: reasons.Reason | None

    @classmethod
    def of(cls, arm: str, trials: Sequence[model.Trial]) -> "_ArmCpu":
        """Return the CPU of the trials of an arm that count."""
        needed = {"total", "vcpu"}
        if arm == model.HOST:
            needed = {"total"}
        counted: list[tuple[model.Trial, overhead.Cost]] = []
        costs: list[overhead.Cost] = []
        waits: list[float] = []
        fault: reasons.Reason | None = None
        for trial in trials:
            cost = overhead.cost(trial)
            costs.append(cost)
            if needed <= trial.host_cpu_s.keys():
                counted.append((trial, cost))
            if cost.wait_share is not None:
                waits.append(cost.wait_share)
            if fault is None:
                fault = cost.invalid
        uncounted = 0
        if counted:
            uncounted = len(trials) - len(counted)
        invalid = _cpu_fault(costs, uncounted)
        # Full overhead of the few trials in which the vCPUs did not wait would be a selection.
        full_invalid = invalid or fault
        if invalid is None and fault is not None and fault.code is _C.VCPUS_WAITED:
            over = sum(wait > overhead.MAX_WAIT for wait in waits)
            full_invalid = reason(_C.OFTEN_WAITED, count=over, of=len(waits), most=max(waits))
        return cls(counted, waits, uncounted, invalid, full_invalid)

    def estimate(self, name: str, per: _Per) -> statistics.Estimate | None:
        """Return a figure of :class:`.overhead.Cost` per unit of work, or per second."""
        fault = self.invalid
        if name == "full_s":
            fault = self.full_invalid
        if fault is not None:
            return None
        samples: dict[int, list[float]] = {}
        for trial, cost in self.counted:
            value = per(getattr(cost, name), trial)
            if value is not None:
                samples.setdefault(trial.boot, []).append(value)
        return statistics.estimate(samples, positive=True)


def _cpu_fault(costs: Sequence[overhead.Cost], uncounted: int) -> reasons.Reason | None:
    """Return why no CPU of an arm is known; None if it is.

    :param uncounted: number of its trials that have no counters.
    """
    contradictions = [cost.contradiction for cost in costs if cost.contradiction]
    count, of = len(contradictions), len(costs)
    if contradictions:
        return reason(_C.CONTRADICTED, why=(contradictions[0],), count=count, of=of)
    limit = trial_filter.MAX_LOST
    if uncounted > limit * of:
        return reason(_C.FEW_COUNTERS, count=uncounted, of=of, limit=limit)
    return None


def _rate(trials: Sequence[model.Trial], seconds: Sequence[float | None]) -> float | None:
    """Return CPU seconds per second, the median of the trials that have any.

    :param seconds: of each trial.
    """
    rates: list[float] = []
    for trial, used in zip(trials, seconds, strict=True):
        rate = overhead.per_second(used, trial)
        if rate is not None:
            rates.append(rate)
    return statistics.median(rates)


def _cpus(trials: Sequence[model.Trial]) -> dict[str, float]:
    names: set[str] = set()
    for trial in trials:
        names.update(trial.host_cpu_s)
    if "vcpu" in names:  # of a guest: all classes but softirq are parts of the total
        names.discard("total")
    cpus: dict[str, float] = {}
    for name in sorted(names):
        rate = _rate(trials, [trial.host_cpu_s.get(name) for trial in trials])
        if rate is not None:
            cpus[name] = rate
    return cpus


def _secondary(
    trials: Sequence[model.Trial],
    arms: Sequence[str],
    by: _Chosen,
) -> tuple[Secondary, ...]:
    # A run that failed is one trial without a value, whatever metric it names.
    failed: list[model.Trial] = []
    of_metric: dict[str, list[model.Trial]] = {}
    values: dict[tuple[str, str], dict[int, list[float]]] = {}
    for trial in trials:
        if trial.value is None:
            failed.append(trial)
        elif not trial.primary:
            of_metric.setdefault(trial.metric, []).append(trial)
            if trial_filter.run(trial) not in by.excluded:
                boots = values.setdefault((trial.metric, trial.arm), {})
                boots.setdefault(trial.boot, []).append(trial.value)
    figures = []
    for metric, mine in of_metric.items():
        medians: dict[str, float] = {}
        for arm in arms:
            middle = statistics.estimate(values.get((metric, arm), {}), positive=True)
            if middle is not None:
                medians[arm] = middle.value
        compared = _comparisons(mine + failed, arms, by)
        figures.append(Secondary(metric, mine[0].unit, mine[0].better, medians, compared))
    return tuple(figures)


def headline(summaries: Sequence[BenchmarkSummary]) -> reasons.Reason:
    """Return what the first comparison of guests shows, benchmark by benchmark."""
    outcomes: list[dict[str, object]] = []
    arm = baseline = ""
    for benchmark in summaries:
        pair: Comparison | None = None
        for compared in benchmark.comparisons:
            if compared.baseline != model.HOST:
                pair = compared
                break
        outcome = _outcome(pair)
        ratio: float | None = None
        if pair is not None:
            arm, baseline = pair.arm, pair.baseline
        if pair is not None and pair.ratio is not None and outcome in (_O.GAIN, _O.LOSS):
            ratio = pair.ratio.value
            if (baseline, arm) == model.AA_ARMS:
                outcome = _O.NOISE
        outcomes.append({"benchmark": benchmark.label, "outcome": outcome, "ratio": ratio})
    if not outcomes:
        return reason(_C.NOTHING_MEASURED)
    return reason(_C.COMPARED, arm=arm, baseline=baseline, outcomes=outcomes)


def has_ratios(summaries: Sequence[BenchmarkSummary]) -> bool:
    """Return whether arms were compared; hosts that are compared with each other have one."""
    for benchmark in summaries:
        if any(pair.ratio is not None for pair in benchmark.comparisons):
            return True
    return False


def _outcome(pair: Comparison | None) -> reasons.ComparisonOutcome:
    if pair is None:
        return _O.NO_PAIR
    if pair.ratio is None:
        return _O.NO_PAIR if pair.invalid is None else _O.INVALID
    if pair.ratio.low is None or pair.ratio.high is None:
        return _O.TOO_FEW
    if pair.ratio.low > 1:
        return _O.GAIN
    if pair.ratio.high < 1:
        return _O.LOSS
    return _O.NO_DIFFERENCE


def notes(results: model.Results, summaries: Sequence[BenchmarkSummary]) -> list[reasons.Reason]:
    """Return what must be read before the figures.

    That is emulation, an early end, errors, and what has no figure.
    """
    remarks = run_notes.of(results)
    for benchmark in summaries:
        for pair in benchmark.comparisons:
            if pair.invalid is not None:
                about = {"benchmark": benchmark.label, "arm": pair.arm, "baseline": pair.baseline}
                remarks.append(reason(_C.NO_RATIO, **about, why=(pair.invalid,)))
    return remarks


def warnings(environment: Environment) -> list[reasons.Reason]:
    """Return what is wrong with the host that the figures come from.

    That is other work on it, or a part that is missing.
    """
    remarks = []
    load, cpus = environment.load_at_start, environment.cpus
    if load is not None and cpus is not None and 0 < cpus < load:
        remarks.append(reason(_C.OTHER_WORK, load=load, cpus=cpus))
    if environment.vhost_net is False:
        remarks.append(reason(_C.NO_VHOST_NET))
    writing: list[str] = []
    for label, run in environment.benchmarks.items():
        if "directory" in run.parameters:
            writing.append(label)
    filesystem = environment.scratch_filesystem
    if writing and filesystem in _IN_MEMORY:
        remarks.append(reason(_C.FILES_IN_MEMORY, benchmarks=writing, filesystem=filesystem))
    return remarks
