"""Judges recorded results against overhead budgets.

PASS: the whole interval lies inside the budget; FAIL: wholly outside; INCONCLUSIVE: the limit lies within it, or
there are too few pairs for an interval; INVALID: what was measured cannot answer the question.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.budget import (
    definitions,
    guards,
    model,
    noise,
    overhead,
    pooling,
    presence,
    sequential,
    statistics,
)
from nova_perf_tuning.budget.budget_file import Budget as Budget
from nova_perf_tuning.budget.budget_file import applicable, for_measured
from nova_perf_tuning.budget.budget_file import load as load
from nova_perf_tuning.guest import truth

_Show = Callable[[float], str]

#: More trials than this share of a judged arm that failed, are missing or do not count, and what is left is a
#: selection, not a sample.
MAX_FAILED = 0.2

#: Beyond this median gain the figures of two arms cannot be of one benchmark in one unit. A loss may be as large:
#: a guest whose network stands still has one.
MAX_GAIN = 10_000.0

#: One boot shows nothing of how boots differ, so its interval supports no verdict. That stands where the spread of
#: boots is pooled over hosts too: nothing would show then whether this host differs from them.
MIN_BOOTS = 2


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> errors.ExitCode:
        """Return what ``evaluate`` and ``validate`` exit with."""
        return {
            Verdict.PASS: errors.ExitCode.PASS,
            Verdict.FAIL: errors.ExitCode.FAIL,
            Verdict.INCONCLUSIVE: errors.ExitCode.INCONCLUSIVE,
            Verdict.INVALID: errors.ExitCode.ERROR,
        }[self]


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one budget.

    :ivar loss: ``1 - ratio`` with its interval; None without a pair.
    :ivar cpu: service CPU seconds per :attr:`unit`; None when no limit was set or nothing was measured.
    :ivar reasons: one line each, in words, with the figures.
    """

    budget: Budget
    verdict: Verdict
    loss: statistics.Estimate | None
    cpu: statistics.Estimate | None
    unit: str
    reasons: tuple[str, ...]


def judge_all(results: model.Results, budgets: Sequence[Budget]) -> list[Judgement]:
    """Return the verdict on every budget that applies to these results.

    Several figures under one gate are several chances of a wrong FAIL: those that fail by themselves are put to
    Holm's test, and what does not pass it is INCONCLUSIVE. PASS as a whole needs every figure to pass, so that it
    needs no correction (intersection-union test, Berger 1982).
    """
    return judge_hosts({"": results}, budgets)[""]


def judge_hosts(hosts: Mapping[str, model.Results], budgets: Sequence[Budget]) -> dict[str, list[Judgement]]:
    """Return for every host what :func:`judge_all` says of it, but with what all of them show of how boots differ.

    :param hosts: host -> its results, all of one run and of hosts of one kind; a boot has the same group wherever
        it occurs. One host alone gets just what :func:`judge_all` says. Holm's test is over the figures of a host.
    """
    measured = {one.benchmark for results in hosts.values() for one in results.trials}
    cases = {host: _cases(results, budgets, measured) for host, results in hosts.items()}
    alike: dict[Budget, dict[str, _Case]] = {}
    for host, some in cases.items():
        for one in some:
            alike.setdefault(one.budget, {})[host] = one
    for of_host in alike.values():
        loss = pooling.pool({host: one.logs for host, one in of_host.items()})
        cpu = pooling.pool({host: one.cpu_logs for host, one in of_host.items()})
        for host, one in of_host.items():
            one.place(_Known(loss, host), _Known(cpu, host))
    for some in cases.values():
        _correct([gate for case in some for gate in case.gates])
    return {host: [case.judgement() for case in some] for host, some in cases.items()}


def _cases(results: model.Results, budgets: Sequence[Budget], measured: Collection[str]) -> list[_Case]:
    """Return a case for every budget that applies to these results, each once.

    :param measured: benchmarks that some host has. One that was asked for and that none has was not left out, it
        failed; of a host whose peers have it nothing was asked.
    """
    environment = results.environment
    planned = {label: str(one.get("kind", "")) for label, one in environment.get("benchmarks", {}).items()}
    kinds = {one.benchmark: planned.get(one.benchmark, "") for one in results.trials}
    kinds |= {label: kind for label, kind in planned.items() if label not in measured}
    arms = list({one.arm for one in results.trials})
    chosen = for_measured(budgets, kinds, arms, str(environment.get("accelerator", "unknown")))
    return [_Case(results, one) for one in applicable(chosen, environment)]


def judge(results: model.Results, budget: Budget) -> Judgement:
    """Return the verdict on one budget, alone under its gate."""
    return judge_all(results, [dataclasses.replace(budget, optional=False)])[0]


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the one verdict: a budget that is broken for certain counts first, then what could not be judged."""
    return worst(one.verdict for one in judgements)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on several things at once, INVALID on none; see :func:`overall`."""
    found = set(verdicts)
    order = (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.PASS)
    return next((one for one in order if one in found), Verdict.INVALID)


class _Known:
    """What other hosts add to the figures of one."""

    def __init__(self, pool: pooling.Pool, host: str) -> None:
        self.spread = pool.spreads.get(host)
        self._apart = host in pool.apart

    def remark(self, found: statistics.Estimate | None) -> str:
        """Return what to say of the interval."""
        if self._apart:
            return "its boots differ more than those of other hosts (Cochran's test), so by them alone"
        return found.note if found is not None and self.spread is not None else ""


class _Gate:
    """One figure with one limit."""

    def __init__(
        self,
        estimate: Callable[[float], statistics.Estimate | None],
        level: float,
        limit: float,
        what: str,
        show: _Show,
        known: _Known,
    ) -> None:
        """:param estimate: confidence -> the figure with its interval at it."""
        self._estimate = estimate
        self.level = level
        self._limit = limit
        self.found = estimate(level)
        self.verdict, self.reason = _place(self.found, limit, what, show, known.remark(self.found))

    def fails_at(self, level: float) -> bool:
        """Return whether the whole interval is beyond the limit at another confidence too."""
        found = self._estimate(level)
        return found is not None and found.low is not None and found.low > self._limit

    def withdraw(self, figures: int) -> None:
        """Take FAIL back after the correction for several figures."""
        self.verdict = Verdict.INCONCLUSIVE
        self.reason += (
            f"; but {figures} figures are judged together, and after Holm's correction for them it is not certain"
        )


class _Case:
    """One budget with what was measured for it.

    :ivar logs: group -> log-ratios of its blocks; empty where a fault forbids a verdict.
    """

    def __init__(self, results: model.Results, budget: Budget) -> None:
        self.budget = budget
        self.logs: dict[int, list[float]] = {}
        self._cpu_samples: dict[int, list[float]] = {}
        self._unit = ""
        self._level = budget.confidence
        self._loss: _Gate | None = None
        self._cpu: _Gate | None = None
        chosen, self._fault = _select(results, budget)
        self._judged = not self._fault
        self._note = ""
        if self._fault:
            return
        metric = next((one.metric for one in chosen if one.value is not None), "")
        self._note = noise.unknown(results.environment, budget.benchmark, metric)
        groups = len({one.group for one in results.trials})
        self._level = sequential.confidence(budget.confidence, results.environment, groups)
        self.logs = statistics.log_ratios(chosen, budget.arm, budget.baseline)
        gain = statistics.median([one for some in self.logs.values() for one in some]) or 0.0
        if gain > math.log(MAX_GAIN):
            self._fault, self._judged = _no_gain(budget, gain), False
            self.logs = {}
            return
        if budget.max_host_cpu_per_unit is not None:
            self._cpu_samples, self._unit = _service_cpu(chosen, budget)
            self._fault = _uncounted(chosen, budget, sum(map(len, self._cpu_samples.values())))
            if self._fault:
                self._cpu_samples = {}

    @property
    def cpu_logs(self) -> dict[int, list[float]]:
        """Return the logarithms of service CPU, group by group; nothing where one of them has none."""
        samples = self._cpu_samples
        if any(value <= 0 for values in samples.values() for value in values):
            return {}
        return {group: [math.log(value) for value in values] for group, values in samples.items()}

    def place(self, loss: _Known, cpu: _Known) -> None:
        """Set the figures against their limits.

        :param loss, cpu: what other hosts show of how boots differ in them.
        """
        if not self._judged:
            return
        level, budget = self._level, self.budget
        self._loss = _Gate(
            lambda level: _loss(self.logs, level, loss.spread),
            level,
            budget.max_loss,
            "loss",
            "{:.1%}".format,
            loss,
        )
        if budget.max_host_cpu_per_unit is None or not self._cpu_samples:
            return
        self._cpu = _Gate(
            lambda level: statistics.estimate(self._cpu_samples, level, positive=True, spread=cpu.spread),
            level,
            budget.max_host_cpu_per_unit,
            f"service CPU per {self._unit or 'unit'}",
            "{:.4g} s".format,
            cpu,
        )

    @property
    def gates(self) -> list[_Gate]:
        return [one for one in (self._loss, self._cpu) if one is not None]

    def judgement(self) -> Judgement:
        gates = self.gates
        verdicts = [one.verdict for one in gates] + [Verdict.INVALID] * bool(self._fault)
        reasons = [one.reason for one in gates] + [self._fault] * bool(self._fault)
        reasons += [self._note] * bool(self._note)
        order = (Verdict.INVALID, Verdict.FAIL, Verdict.INCONCLUSIVE)
        worst = next((one for one in order if one in verdicts), Verdict.PASS)
        loss, cpu = (None if one is None else one.found for one in (self._loss, self._cpu))
        return Judgement(self.budget, worst, loss, cpu, self._unit, tuple(reasons))


def _no_gain(budget: Budget, log: float) -> str:
    return (
        f"'{budget.arm}' is {math.exp(log):.3g} times as good as '{budget.baseline}': no tuning gains that much, "
        "these cannot be figures of one benchmark in one unit"
    )


def _correct(gates: Sequence[_Gate]) -> None:
    """Keep FAIL only where Holm's step-down test (1979) holds it, over all figures."""
    failing = [one for one in gates if one.verdict is Verdict.FAIL]
    if len(gates) < 2 or not failing:
        return
    left = len(gates)
    while True:
        held = [one for one in failing if one.fails_at(1 - (1 - one.level) / left)]
        if not held:
            break
        failing = [one for one in failing if one not in held]
        left -= len(held)
    for one in failing:
        one.withdraw(len(gates))


def _select(results: model.Results, budget: Budget) -> tuple[list[model.Trial], str]:
    """Return the trials a budget is about, and why they cannot be judged (or an empty text)."""
    if fault := _other_machine(results, budget):
        return [], fault
    known = sorted({one.benchmark for one in results.trials})
    trials = [one for one in results.trials if one.benchmark == budget.benchmark]
    if not trials:
        return (
            [],
            f"benchmark '{budget.benchmark}' was not measured; the results have {', '.join(known) or 'none'}",
        )
    metrics = sorted({one.metric for one in trials})
    metric = budget.metric or _judged_by(trials, results, budget)
    chosen = [one for one in trials if one.metric == metric or one.value is None]
    if metric not in metrics:
        hint = "" if budget.metric else "; name one of them as the budget's metric if that is what it is for"
        return [], f"metric '{metric}' was not measured; {budget.benchmark} has {', '.join(metrics)}{hint}"
    arms = (budget.arm, budget.baseline)
    missing = {arm: presence.missing(chosen, results.environment, arm) for arm in arms}
    for arm, absent in missing.items():
        mine = [one for one in chosen if one.arm == arm]
        if not mine:
            known = sorted({one.arm for one in trials})
            return [], f"arm '{arm}' was not measured; the results have {', '.join(known)}"
        failed = sum(not one.value for one in mine) + absent
        if failed > MAX_FAILED * (len(mine) + absent):
            what = "failed or are missing" if absent else "failed"
            what += " or gave 0, which has no ratio" if any(one.value == 0 for one in mine) else ""
            return [], f"{failed} of {len(mine) + absent} trials of '{arm}' {what} (limit {MAX_FAILED:.0%})"
    capacity = overhead.Capacity(results.environment)
    if exceeded := next((told for one in chosen if one.arm in arms and (told := capacity.exceeded(one))), ""):
        return [], exceeded
    if budget.max_host_cpu_per_unit is not None:
        costs = (overhead.cost(one).invalid for one in chosen)
        if contradiction := next((text for text in costs if text.startswith("counters")), ""):
            return [], contradiction
    if fault := noise.refusal(results.environment, budget.benchmark, str(metric), budget.max_loss):
        return [], fault
    return _guarded(results, budget, trials, chosen, missing)


def _judged_by(trials: Sequence[model.Trial], results: model.Results, budget: Budget) -> str | None:
    """Return the metric of a budget that names none: that of the benchmark's definition, whatever a file says."""
    known = definitions.of_label(budget.benchmark, results.environment)
    return known[0] if known else next((one.metric for one in trials if one.primary), None)


def _other_machine(results: model.Results, budget: Budget) -> str:
    """Return what the guests ran on if it is not what the budget is for."""
    accelerator = str(results.environment.get("accelerator", "unknown"))
    if budget.accelerator is not None and accelerator != budget.accelerator:
        return f"guests ran on {accelerator}, the budget is for {budget.accelerator}"
    arms = results.environment.get("arms", {})
    for arm in (budget.arm, budget.baseline):
        told = arms.get(arm, {}).get("virtualization")
        if fault := truth.contradiction(str(told or ""), accelerator):
            return f"guests of '{arm}': {fault}"
        if budget.virtualization is None:
            continue
        if arm != "host" and told != budget.virtualization:
            return (
                f"guests of '{arm}' found themselves on {told or 'nothing that was recorded'}, "
                f"the budget is for {budget.virtualization}"
            )
    return ""


def _guarded(
    results: model.Results,
    budget: Budget,
    trials: Sequence[model.Trial],
    chosen: Sequence[model.Trial],
    missing: Mapping[str, int],
) -> tuple[list[model.Trial], str]:
    """Return the trials that no guard rejects, or why too few are left.

    :param missing: judged arm -> how many trials it lacks.
    """
    judged = sorted((one for one in chosen if one.arm in missing), key=lambda one: one.order)
    sender = {
        one.order: one.value
        for one in trials
        if one.metric == "client_cpu" and one.unit == "%" and one.value is not None
    }
    known = guards.context(judged, results.environment, budget.guards, budget.min_link_mbps, sender)
    faults = guards.faults(judged, known)
    for arm, absent in missing.items():
        mine = [one for one in judged if one.arm == arm]
        failed = sum(not one.value for one in mine) + absent
        told = [faults[one.order] for one in mine if one.value and one.order in faults]
        if told and failed + len(told) > MAX_FAILED * (len(mine) + absent):
            what = f"{'failed or ' if failed else ''}do not count (limit {MAX_FAILED:.0%}): {told[0]}"
            return [], f"{failed + len(told)} of {len(mine) + absent} trials of '{arm}' {what}"
    return [one for one in chosen if one.order not in faults], ""


def _loss(
    logs: Mapping[int, Sequence[float]], confidence: float, spread: statistics.Spread | None
) -> statistics.Estimate | None:
    ratio = statistics.ratio_of(logs, confidence, spread=spread)
    return None if ratio is None else _as_loss(ratio)


def _as_loss(ratio: statistics.Estimate) -> statistics.Estimate:
    return dataclasses.replace(
        ratio,
        value=1 - ratio.value,
        low=None if ratio.high is None else 1 - ratio.high,
        high=None if ratio.low is None else 1 - ratio.low,
        trimmed_mean=1 - ratio.trimmed_mean,
        hodges_lehmann=1 - ratio.hodges_lehmann,
    )


def _service_cpu(trials: Sequence[model.Trial], budget: Budget) -> tuple[dict[int, list[float]], str]:
    """Return group -> service CPU per unit of work in the budget's arm, and the unit."""
    samples: dict[int, list[float]] = {}
    unit = ""
    for one in trials:
        value = overhead.per_unit(overhead.cost(one).service_s, one) if one.arm == budget.arm else None
        if value is not None:
            unit = one.work_unit
            samples.setdefault(one.group, []).append(value)
    return samples, unit


def _uncounted(trials: Sequence[model.Trial], budget: Budget, known: int) -> str:
    """Return why service CPU cannot be judged by the trials that have it; empty if it can.

    :param known: how many of the arm have it.
    """
    measured = sum(one.arm == budget.arm and bool(one.value) for one in trials)
    if not known:
        return f"service CPU of '{budget.arm}' was not measured"
    if measured - known <= MAX_FAILED * measured:
        return ""
    return (
        f"{measured - known} of {measured} trials of '{budget.arm}' have no CPU counters or no count of work, so "
        f"its service CPU is not known (limit {MAX_FAILED:.0%})"
    )


def _place(
    found: statistics.Estimate | None, limit: float, what: str, show: _Show, remark: str
) -> tuple[Verdict, str]:
    """Compare an interval with an upper limit.

    :param remark: what is to be said of the interval.
    """
    if found is None:
        return Verdict.INCONCLUSIVE, f"{what}: no pair of trials"
    if found.low is None or found.high is None:
        return Verdict.INCONCLUSIVE, f"{what} {show(found.value)}, limit {show(limit)}: {found.note}"
    interval = f"{found.confidence * 100:.3g}% interval {show(found.low)} to {show(found.high)}"
    place = f"{what} {show(found.value)} ({interval}{f'; {remark}' if remark else ''})"
    if found.groups < MIN_BOOTS:
        return (
            Verdict.INCONCLUSIVE,
            f"{place}, limit {show(limit)}: {found.note}; at least {MIN_BOOTS} boots are needed",
        )
    if found.high <= limit:
        return Verdict.PASS, f"{place} is within {show(limit)}"
    if found.low > limit:
        return Verdict.FAIL, f"{place} is beyond {show(limit)}"
    return Verdict.INCONCLUSIVE, f"{place} includes the limit {show(limit)}; more blocks or groups may decide"
