"""What of some results a budget is about, and why it cannot be judged by them.

Many budgets ask for the same trials: what depends on the trials alone is worked out once for all of them.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from nova_perf_tuning.budget import (
    budget_file,
    counted,
    definitions,
    gating,
    guards,
    model,
    noise,
    overhead,
    presence,
    statistics,
    steps,
    wording,
)
from nova_perf_tuning.guest import truth

#: Names that a message lists, and figures that are kept for further budgets.
_NAMES = 20
_KEPT = 256
#: An arm that loses trials in more boots than its baseline less likely than this by chance does not pass: the
#: others tell nothing of those. A median of blocks of which one in five is lost hardly moves. Two boots show no
#: less.
_CHANCE = 1 / 6 + 1e-9
#: Up to this share of trials lost, more of them may yet show that too many were so by chance.
_MAY_BE_CHANCE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceCpu:
    """Service CPU of an arm.

    :ivar samples: group -> service CPU per unit of work; :ivar units: of work, all that there are.
    :ivar fault: why it cannot be judged, or empty.
    """

    samples: Mapping[int, Sequence[float]]
    unit: str
    units: Set[str]
    fault: str

    def unfit(self, budget: budget_file.Budget) -> str:
        """Return why the limit of a budget cannot be held against it, or empty."""
        others = self.units - {budget.work_unit}
        if budget.work_unit is not None and others:
            return f"work was counted in {', '.join(sorted(others))}, the budget's limit is for {budget.work_unit}"
        return self.fault


class Chosen:
    """The trials that count for a figure of two arms.

    :ivar fault: why they cannot be judged; then there is nothing else.
    :ivar pairs_left_out: pairs of which a guard rejected a trial.
    """

    def __init__(
        self,
        metric: str,
        arm: str,
        baseline: str,
        trials: Sequence[model.Trial],
        fault: str,
        picked: counted.Selection | None = None,
        missing: Set[presence.Block] = frozenset(),
        everything: Sequence[model.Trial] = (),
        fails_more: str = "",
        may_be_chance: bool = False,
        cpu_unknown: Set[int] = frozenset(),
    ) -> None:
        """Keep what is given.

        :param missing: blocks in which ``arm`` ought to have trials and has none.
        :param everything: ``trials``, and those that guards reject.
        :param fails_more: that ``arm`` fails more often than by chance, in words; else empty.
        :param may_be_chance: ``fault`` is that too many trials are lost, and more of them might show otherwise.
        :param cpu_unknown: groups whose service CPU is left out.
        """
        self.metric = metric
        self.fault = fault
        self._picked = picked
        self._missing = missing
        self.pairs_left_out = picked.pairs_left_out if picked else 0
        self._trials = trials
        self.failed = picked.failed if picked else ""
        self.fails_more = fails_more
        self.may_be_chance = may_be_chance
        self._everything = everything if picked is not None and picked.pairs_left_out else ()
        self._cpu_unknown = cpu_unknown
        self._arm = arm
        self._baseline = baseline
        self.loss = functools.lru_cache(maxsize=_KEPT)(self._loss)
        self.cpu_per_unit = functools.lru_cache(maxsize=_KEPT)(self._cpu_per_unit)

    @functools.cached_property
    def logs(self) -> Mapping[int, Sequence[float]]:
        """Group -> log-ratios of its blocks."""
        return statistics.log_ratios(self._trials, self._arm, self._baseline)

    @functools.cached_property
    def remark(self) -> str:
        """What failed, what guards left out, and what of it is in the interval; empty: nothing."""
        told = self._picked.remark if self._picked else ""
        if self._everything:
            told += "; the interval holds with them, too"
        if not self._lost:
            return told
        return f"{told}; in the upper end what '{self._arm}' lacks counts as its worst"

    @functools.cached_property
    def _lost(self) -> list[int]:
        """The group of each block that failed in the judged arm alone.

        A slow trial is likelier to fail: what is left may be the better part. What a guard left out is not here.
        """
        failed = self._missing | {
            _block(one)
            for one in self._trials
            if one.arm == self._arm and counted.failed(one) and not counted.best(one)
        }
        if not failed or self._arm == self._baseline:
            return [group for group, _ in failed]
        good = [one for one in self._trials if not counted.failed(one) and _block(one) in failed]
        mine, others = ({_block(one) for one in good if one.arm == arm} for arm in (self._arm, self._baseline))
        return [group for group, _ in failed & others - mine]

    @functools.cached_property
    def blur(self) -> steps.Blur:
        """What figures in whole steps hide."""
        return steps.blur(self._trials, self._arm, self._baseline)

    @functools.cached_property
    def gain(self) -> float:
        """The median log-ratio, 0 of none."""
        return statistics.median([one for some in self.logs.values() for one in some]) or 0.0

    @functools.cached_property
    def cpu(self) -> ServiceCpu:
        """Service CPU of the arm."""
        trials = self._with_cpu(self._trials)
        samples, unit = _service_cpu(trials, self._arm)
        units = {one.work_unit for one in trials if one.arm == self._arm and one.work is not None}
        return ServiceCpu(samples, unit, units, _uncounted(trials, self._arm, sum(map(len, samples.values()))))

    def _with_cpu(self, trials: Sequence[model.Trial]) -> Sequence[model.Trial]:
        return [one for one in trials if one.group not in self._cpu_unknown] if self._cpu_unknown else trials

    def _loss(self, confidence: float, spread: statistics.Spread | None) -> statistics.Estimate | None:
        ratio = statistics.ratio_of(self.logs, confidence, spread=spread, blur=self.blur)
        if ratio is None:
            return None
        whole = [statistics.log_ratios(self._everything, self._arm, self._baseline)] if self._everything else []
        worst = [statistics.with_again(one, min, self._lost) for one in (self.logs, *whole) if self._lost]
        further = (statistics.ratio_of(one, confidence, spread=spread, blur=self.blur) for one in (*whole, *worst))
        return _hull(_as_loss(ratio), [_as_loss(one) for one in further if one is not None])

    def _cpu_per_unit(self, confidence: float, spread: statistics.Spread | None) -> statistics.Estimate | None:
        def estimate(samples: Mapping[int, Sequence[float]]) -> statistics.Estimate | None:
            return statistics.estimate(samples, confidence, positive=True, spread=spread)

        known = self.cpu.samples
        if (found := estimate(known)) is None:
            return None
        whole = [_service_cpu(self._with_cpu(self._everything), self._arm)[0]] if self._everything else []
        worst = [statistics.with_again(one, max, self._lost) for one in (known, *whole) if self._lost]
        return _hull(found, [one for one in map(estimate, (*whole, *worst)) if one is not None])


@dataclasses.dataclass(frozen=True, slots=True)
class _Arm:
    """:ivar trials: of a figure in an arm; :ivar lost: those without a ratio; :ivar fault: why it has too few."""

    trials: Sequence[model.Trial]
    lost: counted.Lost
    fault: str
    exceeded: str

    @property
    def may_be_chance(self) -> bool:
        """Whether the fault is that too many trials failed, and more of them might show otherwise."""
        return self.lost.too_many and self.lost.count < _MAY_BE_CHANCE * self.lost.whole


class Measured:
    """Results, looked up by many budgets.

    :ivar groups: how many boots they are of.
    """

    def __init__(self, results: model.Results, cpu_unknown: Set[tuple[str, int]] = frozenset()) -> None:
        """Keep what is given.

        :param cpu_unknown: (benchmark, group) whose service CPU is left out.
        """
        self._results = results
        self._cpu_unknown = cpu_unknown
        self.environment = results.environment
        self.groups = len({one.group for one in results.trials})
        self._capacity = overhead.Capacity(results.environment)
        self._trials: dict[str, list[model.Trial]] = collections.defaultdict(list)
        for one in results.trials:
            self._trials[one.benchmark].append(one)
        self._metrics = functools.cache(self._find_metrics)
        self._figure = functools.lru_cache(maxsize=_KEPT)(self._find_figure)
        self._contradiction = functools.lru_cache(maxsize=_KEPT)(self._find_contradiction)
        self._arm = functools.lru_cache(maxsize=_KEPT)(self._find_arm)
        self._pair = functools.lru_cache(maxsize=_KEPT)(self._find_pair)

    def choose(self, budget: budget_file.Budget) -> Chosen:
        """Return the trials that a budget is about, or why they cannot be judged."""
        metric = budget.metric or self._judged_by(budget.benchmark)
        fault = (
            _other_machine(self.environment, budget)
            or _other_guests(self.environment, budget)
            or self._absent(budget, metric)
        )
        if fault or metric is None:
            return Chosen("", budget.arm, budget.baseline, (), fault)
        # What an arm costs needs no other to compare with.
        baseline = budget.arm if budget.max_loss is None else budget.baseline
        arms = [self._arm(budget.benchmark, metric, arm) for arm in dict.fromkeys((budget.arm, baseline))]
        fault = next(filter(None, (one.fault for one in arms)), "")
        may_be_chance = bool(fault) and all(one.may_be_chance for one in arms if one.fault)
        fault = fault or next(filter(None, (one.exceeded for one in arms)), "")
        if budget.max_host_cpu_per_unit is not None:
            fault = fault or self._contradiction(budget.benchmark, metric)
        if fault:
            return Chosen(metric, budget.arm, baseline, (), fault, may_be_chance=may_be_chance)
        place = (budget.benchmark, metric, budget.arm, baseline)
        found = self._pair(*place, budget.guards, budget.min_link_mbps, budget.link)
        if not found.fault and (fault := self._refused(budget, metric, found)):
            return Chosen(metric, budget.arm, budget.baseline, (), fault)
        return found

    def _refused(self, budget: budget_file.Budget, metric: str, found: Chosen) -> str:
        """Return why this host's noise forbids a budget, with what was measured; empty: it does not."""
        if budget.max_loss is None:
            return ""
        told = noise.refusal(self.environment, budget.benchmark, metric, budget.max_loss)
        loss = found.loss(budget.confidence, None) if told else None
        if loss is None:
            return told
        told = f"{told}; measured: {wording.loss(loss.value)}"
        if loss.low is None or loss.high is None:
            return told
        told += f" ({wording.loss(loss.low)} to {wording.loss(loss.high)})"
        floor = noise.floor(self.environment, budget.benchmark, metric)
        return f"{told}, {noise.BEYOND}" if floor is not None and loss.low > floor else told

    def _absent(self, budget: budget_file.Budget, metric: str | None) -> str:
        """Return what of a budget was not measured."""
        if budget.benchmark not in self._trials:
            return f"benchmark '{budget.benchmark}' was not measured; the results have {_listed(self._trials)}"
        metrics = self._metrics(budget.benchmark)
        if metric in metrics:
            return ""
        if metric is None:
            which = f"{budget.benchmark} is not known here, and its results say of no metric that it is judged"
            return f"{which}; name one of them as the budget's metric: {_listed(metrics)}"
        hint = "" if budget.metric else "; name one of them as the budget's metric if that is what it is for"
        return f"metric '{metric}' was not measured; {budget.benchmark} has {_listed(metrics)}{hint}"

    def _judged_by(self, benchmark: str) -> str | None:
        """Return the metric of a budget that names none, as the benchmark defines it."""
        known = definitions.of_label(benchmark, self.environment)
        return (
            known.metric
            if known
            else next((one.metric for one in self._trials.get(benchmark, ()) if one.primary), None)
        )

    def _find_metrics(self, benchmark: str) -> frozenset[str]:
        return frozenset(one.metric for one in self._trials[benchmark])

    def _find_figure(self, benchmark: str, metric: str) -> Sequence[model.Trial]:
        """Return the trials of a metric, and those that failed."""
        return [one for one in self._trials[benchmark] if one.metric == metric or one.value is None]

    def _find_contradiction(self, benchmark: str, metric: str) -> str:
        """Return which CPU counters cannot be true, or empty."""
        return next(
            filter(None, (overhead.cost(one).contradiction for one in self._figure(benchmark, metric))), ""
        )

    def _find_arm(self, benchmark: str, metric: str, arm: str) -> _Arm:
        chosen = self._figure(benchmark, metric)
        mine = [one for one in chosen if one.arm == arm]
        lost = counted.lost(chosen, self.environment, arm)
        if not mine:
            names = {one.arm for one in self._trials[benchmark]}
            return _Arm((), lost, f"arm '{arm}' was not measured; the results have {_listed(names)}", "")
        fault = ""
        if lost.too_many and counted.zero_is_best(mine):
            fault = f"{metric} is 0 in {lost.zeros} of {lost.whole} trials of '{arm}', so no ratio can judge it: "
            fault += "name another metric in the budget"
        elif lost.too_many:
            fault = f"{lost.told(', which has no ratio')} (limit {counted.MAX_FAILED:.0%})"
        return _Arm(mine, lost, fault, next(filter(None, map(self._capacity.exceeded, mine)), ""))

    def _find_pair(
        self,
        benchmark: str,
        metric: str,
        arm: str,
        baseline: str,
        limits: guards.Limits,
        min_link_mbps: float | None,
        link: str | None,
    ) -> Chosen:
        """Return the trials of two arms that no guard rejects, or why too few are left."""
        arms = {name: self._arm(benchmark, metric, name) for name in (arm, baseline)}
        trials = [one for some in arms.values() for one in some.trials]
        lost = [one.lost for one in arms.values()]
        picked = counted.select(self._results, trials, arm, baseline, limits, min_link_mbps, link=link, known=lost)
        missing, told = arms[arm].lost.missing.blocks, _fails_more(arms[arm].lost, arms[baseline].lost)
        may_be_chance = picked.lost < _MAY_BE_CHANCE
        without = frozenset(group for name, group in self._cpu_unknown if name == benchmark)
        return Chosen(
            metric,
            arm,
            baseline,
            picked.trials,
            picked.invalid,
            picked,
            missing,
            trials,
            told,
            may_be_chance,
            without,
        )


def _fails_more(arm: counted.Lost, baseline: counted.Lost) -> str:
    """Return that an arm loses more trials than its baseline does; empty: that may be chance."""
    chance = counted.fails_more(arm, baseline)
    if chance > _CHANCE:
        return ""
    return (
        f"'{arm.arm}' {gating.FAILS_MORE} '{baseline.arm}' (in {arm.boots} of {arm.of} boots, {baseline.boots} of"
        f" {baseline.of}; by chance: {chance:.1%})"
    )


def _block(trial: model.Trial) -> presence.Block:
    return trial.group, trial.block


def _listed(names: Iterable[str]) -> str:
    """Return names in words, the first of very many."""
    found = sorted(names)
    more = f" and {len(found) - _NAMES} more" if len(found) > _NAMES else ""
    return f"{', '.join(found[:_NAMES]) or 'none'}{more}"


def _other_machine(environment: Mapping[str, Any], budget: budget_file.Budget) -> str:
    """Return what the guests ran on if it is not what the budget is for."""
    accelerator = str(environment.get("accelerator", "unknown"))
    if budget.accelerator is not None and accelerator != budget.accelerator:
        return f"guests ran on {accelerator}, the budget is for {budget.accelerator}"
    arms = environment.get("arms", {})
    for arm in (budget.arm, budget.baseline):
        told = arms.get(arm, {}).get("virtualization")
        if fault := truth.contradiction(str(told or ""), accelerator):
            return f"guests of '{arm}': {fault}"
        if told == "unknown" and budget.accelerator is not None:
            return f"what guests of '{arm}' run on could not be read, the budget is for {budget.accelerator}"
        if budget.virtualization is None:
            continue
        if arm != "host" and told != budget.virtualization:
            return (
                f"guests of '{arm}' found themselves on {told or 'nothing that was recorded'}, "
                f"the budget is for {budget.virtualization}"
            )
    return ""


def _other_guests(environment: Mapping[str, Any], budget: budget_file.Budget) -> str:
    """Return where guests of a judged arm are not what was asked for; empty: nowhere."""
    arms = environment.get("arms", {})
    for arm in (budget.arm, budget.baseline):
        if found := [line for line in arms.get(arm, {}).get("findings", ()) if truth.spoils(line)]:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return f"guests of '{arm}' are not what was asked for: {found[0]}{more}"
    return ""


def _hull(found: statistics.Estimate, further: Sequence[statistics.Estimate]) -> statistics.Estimate:
    """Return an estimate whose interval has those of ``further`` in it; it stays without one."""
    if found.low is None or found.high is None:
        return found
    lows = [one.low for one in further if one.low is not None]
    highs = [one.high for one in further if one.high is not None]
    return dataclasses.replace(found, low=min([found.low, *lows]), high=max([found.high, *highs]))


def _as_loss(ratio: statistics.Estimate) -> statistics.Estimate:
    return dataclasses.replace(
        ratio,
        value=1 - ratio.value,
        low=None if ratio.high is None else 1 - ratio.high,
        high=None if ratio.low is None else 1 - ratio.low,
        trimmed_mean=1 - ratio.trimmed_mean,
        hodges_lehmann=1 - ratio.hodges_lehmann,
    )


def _service_cpu(trials: Sequence[model.Trial], arm: str) -> tuple[dict[int, list[float]], str]:
    """Return group -> service CPU per unit of work in an arm, and the unit."""
    samples: dict[int, list[float]] = {}
    unit = ""
    for one in trials:
        value = overhead.per_unit(overhead.cost(one).service_s, one) if one.arm == arm else None
        if value is not None:
            unit = one.work_unit
            samples.setdefault(one.group, []).append(value)
    return samples, unit


def _uncounted(trials: Sequence[model.Trial], arm: str, known: int) -> str:
    """Return why service CPU cannot be judged by the trials that have it; empty if it can.

    :param known: how many of the arm have it.
    """
    mine = [one for one in trials if one.arm == arm]
    measured = sum(not counted.failed(one) for one in mine)
    if fault := overhead.contradiction(mine):
        return f"'{arm}': {fault}"
    if not known:
        return f"service CPU of '{arm}' was not measured"
    if measured - known <= counted.MAX_FAILED * measured:
        return ""
    return (
        f"{measured - known} of {measured} trials of '{arm}' have no CPU counters or no count of work, so "
        f"its service CPU is not known (limit {counted.MAX_FAILED:.0%})"
    )
