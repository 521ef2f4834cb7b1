"""What results say, worked out once for the terminal, for JSON and for the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import model, overhead, statistics

HOST = "host"


@dataclasses.dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm in one benchmark.

    :ivar median: of the primary figure, with its interval.
    :ivar failed: trials without a figure.
    :ivar total_per_unit, service_per_unit, full_per_unit: CPU seconds per unit of work; None: not measured
        or not valid.
    :ivar cpus: class -> CPU seconds per second, medians over trials (no ``total``); for the host's own arm
        ``total`` and ``softirq``. :ivar guest_busy: the same of what the guest says itself.
    :ivar wait_share: median share of the time wanted that vCPUs waited.
    :ivar full_invalid: why full overhead is not shown.
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
    full_invalid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """``arm`` / ``baseline``, more than 1 is a gain; None: no pair."""

    arm: str
    baseline: str
    ratio: statistics.Estimate | None


@dataclasses.dataclass(frozen=True, slots=True)
class Secondary:
    """Medians per arm of a figure that is shown, not judged."""

    metric: str
    unit: str
    better: str
    medians: dict[str, float]


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


def summarise(results: model.Results, confidence: float = 0.95) -> list[BenchmarkSummary]:
    """Return one summary per benchmark, in the order in which they were first run."""
    places = {arm: place for place, arm in enumerate(arm_order(results))}
    trials = _by(results.trials, lambda one: one.benchmark)
    return [_benchmark(label, mine, places, confidence) for label, mine in trials.items()]


def _by(trials: Iterable[model.Trial], key: Callable[[model.Trial], str]) -> dict[str, list[model.Trial]]:
    """Return trials by a text of theirs, in the order in which each came first."""
    found: dict[str, list[model.Trial]] = {}
    for one in trials:
        found.setdefault(key(one), []).append(one)
    return found


def arm_order(results: model.Results) -> list[str]:
    """Return the arms: the host, then guests as the plan names them, then any other."""
    seen = {one.arm for one in results.trials}
    planned = dict.fromkeys([HOST, *results.environment.get("arms", {})])
    return [arm for arm in planned if arm in seen] + sorted(seen - planned.keys())


def to_dict(summaries: Sequence[BenchmarkSummary]) -> list[dict[str, Any]]:
    """Return summaries as plain data for JSON."""
    return [dataclasses.asdict(one) for one in summaries]


def _benchmark(
    label: str, trials: Sequence[model.Trial], places: Mapping[str, int], confidence: float
) -> BenchmarkSummary:
    """:param places: arm -> its place among all arms."""
    primary = [one for one in trials if one.primary]
    first = primary[0] if primary else trials[0]
    chosen = [one for one in primary if one.metric == first.metric]
    of_arm = _by(chosen, lambda one: one.arm)
    here = sorted(of_arm, key=lambda arm: places[arm])
    blocks = statistics.Blocks(chosen)
    return BenchmarkSummary(
        label=label,
        metric=first.metric,
        unit=first.unit,
        better=first.better,
        work_unit=next((one.work_unit for one in chosen if one.work_unit), ""),
        arms=tuple(_arm(arm, of_arm[arm], confidence) for arm in here),
        comparisons=tuple(
            Comparison(arm, baseline, statistics.ratio_of(blocks.log_ratios(arm, baseline), confidence))
            for arm, baseline in _pairs(here)
        ),
        secondary=_secondary([one for one in trials if not one.primary], here),
    )


def _pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Return what is compared: guests with the first guest, then every guest with the host."""
    guests = [arm for arm in arms if arm != HOST]
    pairs = [(arm, guests[0]) for arm in guests[1:]]
    return pairs + [(arm, HOST) for arm in guests if HOST in arms]


def _arm(arm: str, trials: list[model.Trial], confidence: float) -> ArmSummary:
    good = [one for one in trials if one.value is not None]
    costs = {id(one): overhead.cost(one) for one in good}

    def over(figure: Callable[[model.Trial], float | None]) -> statistics.Estimate | None:
        samples: dict[int, list[float]] = {}
        for one in good:
            value = figure(one)
            if value is not None:
                samples.setdefault(one.group, []).append(value)
        return statistics.estimate(samples, confidence, positive=True)

    def full(one: model.Trial) -> float | None:
        return costs[id(one)].full_s

    # Full overhead of the few trials in which the vCPUs happened not to wait would be a selection.
    invalid = next((cost.invalid for cost in costs.values() if cost.invalid), "")
    waits = [cost.wait_share for cost in costs.values() if cost.wait_share is not None]
    busy = [value for one in good if (value := overhead.per_second(one.guest_cpu_s, one)) is not None]
    return ArmSummary(
        arm=arm,
        n=len(good),
        failed=len(trials) - len(good),
        median=over(lambda one: one.value),
        values=tuple((one.group, one.block, one.value) for one in good if one.value is not None),
        total_per_unit=over(lambda one: overhead.per_unit(costs[id(one)].total_s, one)),
        service_per_unit=over(lambda one: overhead.per_unit(costs[id(one)].service_s, one)),
        full_per_unit=None if invalid else over(lambda one: overhead.per_unit(full(one), one)),
        service_per_second=over(lambda one: overhead.per_second(costs[id(one)].service_s, one)),
        full_per_second=None if invalid else over(lambda one: overhead.per_second(full(one), one)),
        cpus=_cpus(good),
        guest_busy=statistics.median(busy),
        wait_share=statistics.median(waits),
        full_invalid=_wait_text(waits) if "waited" in invalid else invalid,
    )


def _wait_text(waits: Sequence[float]) -> str:
    over = sum(wait > overhead.MAX_WAIT for wait in waits)
    return f"vCPUs waited in {over} of {len(waits)} trials, up to {max(waits):.0%} of the time they wanted to run"


def _cpus(trials: Sequence[model.Trial]) -> dict[str, float]:
    names = sorted({name for one in trials for name in one.host_cpu_s})
    if "vcpu" in names:  # of a guest: all classes but softirq are parts of the total
        names = [name for name in names if name != "total"]
    found = {}
    for name in names:
        rates = [overhead.per_second(one.host_cpu_s.get(name, 0.0), one) for one in trials]
        middle = statistics.median([rate for rate in rates if rate is not None])
        if middle is not None:
            found[name] = middle
    return found


def _secondary(trials: Sequence[model.Trial], arms: Sequence[str]) -> tuple[Secondary, ...]:
    found = []
    places = {arm: place for place, arm in enumerate(arms)}
    for metric, mine in _by(trials, lambda one: one.metric).items():
        medians = {}
        of_arm = _by((one for one in mine if one.arm in places), lambda one: one.arm)
        for arm in sorted(of_arm, key=lambda arm: places[arm]):
            middle = statistics.median([one.value for one in of_arm[arm] if one.value is not None])
            if middle is not None:
                medians[arm] = middle
        found.append(Secondary(metric, mine[0].unit, mine[0].better, medians))
    return tuple(found)
