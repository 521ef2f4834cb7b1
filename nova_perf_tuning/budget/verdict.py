"""Judges recorded results against overhead budgets.

PASS: the whole interval lies inside the budget; FAIL: wholly outside; INCONCLUSIVE: the limit lies within it, or
there are too few pairs for an interval; INVALID: what was measured cannot answer the question.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence, Set

from nova_perf_tuning.budget import (
    budget_file,
    gating,
    model,
    noise,
    pooling,
    selection,
    sequential,
    statistics,
    wording,
)
from nova_perf_tuning.budget.budget_file import Budget as Budget
from nova_perf_tuning.budget.budget_file import load as load
from nova_perf_tuning.budget.gating import Verdict as Verdict
from nova_perf_tuning.budget.gating import worst as worst

#: Beyond this median gain the figures of two arms are rather in two units than of a tuning that good, unless a
#: budget says otherwise. A loss may be as large: a guest whose network stands still has one.
MAX_GAIN = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one budget.

    :ivar loss: ``1 - ratio`` with its interval; None when no limit was set, or without a pair.
    :ivar cpu: service CPU seconds per :attr:`unit`; None when no limit was set or nothing was measured.
    :ivar reasons: one line each, in words, with the figures and what was left out of them.
    :ivar verdicts: on each of them alone; PASS of a remark, which decides nothing.
    :ivar pairs_left_out: pairs of which a guard rejected a trial.
    :ivar by_cpu: whether the verdict comes from the service CPU and not from the loss.
    :ivar failed: how many trials of which arm failed, in words; empty: none.
    :ivar open: whether more boots may bring another verdict.
    """

    budget: Budget
    verdict: Verdict
    loss: statistics.Estimate | None
    cpu: statistics.Estimate | None
    unit: str
    reasons: tuple[str, ...]
    verdicts: tuple[Verdict, ...] = ()
    pairs_left_out: int = 0
    by_cpu: bool = False
    failed: str = ""
    open: bool = False

    @property
    def told(self) -> list[tuple[Verdict, str]]:
        """Return every reason with the verdict on it alone."""
        return list(zip(self.verdicts or (self.verdict,) * len(self.reasons), self.reasons, strict=True))

    @property
    def deciding(self) -> str:
        """Return the first reason that the verdict comes from."""
        return next((reason for word, reason in self.told if word is self.verdict), "".join(self.reasons[:1]))


def judge_all(results: model.Results, budgets: Sequence[Budget]) -> list[Judgement]:
    """Return the verdict on every budget that applies to these results.

    Several figures under one gate are several chances of a wrong FAIL: those that fail by themselves are put to
    Holm's test, and what does not pass it is INCONCLUSIVE. Several limits on one figure are one chance: they are
    broken by one interval, or not. PASS as a whole needs every figure to pass, so that it
    needs no correction (intersection-union test, Berger 1982).
    """
    return judge_hosts({"": results}, budgets)[""]


def judge_hosts(
    hosts: Mapping[str, model.Results],
    budgets: Sequence[Budget],
    cpu_unknown: Mapping[str, Collection[tuple[str, int]]] | None = None,
) -> dict[str, list[Judgement]]:
    """Return for every host what :func:`judge_all` says of it, but with what all of them show of how boots differ.

    :param hosts: host -> its results, all of one run and of hosts of one kind; a boot has the same group wherever
        it occurs. One host alone gets just what :func:`judge_all` says. Holm's test is over the figures of a host.
    :param cpu_unknown: host -> (benchmark, group) whose service CPU is left out.
    :raises schema.InputError: there would be far too many verdicts.
    """
    measured = {one.benchmark for results in hosts.values() for one in results.trials}
    cases: dict[str, list[_Case]] = {}
    count = 0
    for host, results in hosts.items():
        without = frozenset((cpu_unknown or {}).get(host, ()))
        cases[host] = _cases(noise.of_host(results, host), budgets, measured, without)
        count += len(cases[host])
        budget_file.check_number(count)
    alike: dict[Budget, dict[str, _Case]] = {}
    for host, some in cases.items():
        for one in some:
            alike.setdefault(one.budget, {})[host] = one
    for of_host in alike.values():
        loss = pooling.pool({host: one.logs for host, one in of_host.items()})
        cpu = pooling.pool({host: one.cpu_logs for host, one in of_host.items()})
        for host, one in of_host.items():
            one.place(gating.Known(loss, host), gating.Known(cpu, host))
    for some in cases.values():
        gating.correct([gate for case in some for gate in case.gates])
    return {host: [case.judgement() for case in some] for host, some in cases.items()}


def _cases(
    results: model.Results,
    budgets: Sequence[Budget],
    measured: Collection[str],
    cpu_unknown: Set[tuple[str, int]],
) -> list[_Case]:
    """Return a case for every budget that applies to these results, each once.

    :param measured: benchmarks that some host has. One that was asked for and that none has was not left out, it
        failed; of a host whose peers have it nothing was asked.
    """
    environment = results.environment
    asked = *_asked(results, measured), budget_file.accelerator(environment)
    chosen = budget_file.for_measured(budgets, *asked)
    measured_here = selection.Measured(results, cpu_unknown)
    applicable = budget_file.applicable(chosen, environment, _primary(results))
    cases: dict[Budget, _Case | None] = dict.fromkeys(applicable)
    for one in sorted(cases, key=lambda one: one.benchmark):  # what was looked up for one serves the next
        cases[one] = _Case(measured_here, one)
    return [one for one in cases.values() if one is not None]


def left_out(results: model.Results, budgets: Sequence[Budget]) -> list[str]:
    """Return which budgets were left out although their benchmark was measured, a line for each cause."""
    asked = (
        *_asked(results, {one.benchmark for one in results.trials}),
        budget_file.accelerator(results.environment),
    )
    environment, primary = results.environment, _primary(results)
    lines = budget_file.left_out(budget_file.applicable(budgets, environment, primary), *asked)
    return lines + budget_file.unplaced(budgets, environment, primary)


def _primary(results: model.Results) -> dict[str, str]:
    """Return benchmark -> the metric that it is judged by."""
    return {one.benchmark: one.metric for one in reversed(results.trials) if one.primary}


def _asked(results: model.Results, measured: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Return label -> kind of the benchmarks, and the arms, that were measured or ought to be."""
    environment = results.environment
    planned = {label: str(one.get("kind", "")) for label, one in environment.get("benchmarks", {}).items()}
    kinds = {one.benchmark: planned.get(one.benchmark, "") for one in results.trials}
    kinds |= {label: kind for label, kind in planned.items() if label not in measured}
    return kinds, list(_arms(results))


def _arms(results: model.Results) -> set[str]:
    """Return the arms that were measured or ought to be: one whose guests never booted was not left out."""
    environment = results.environment
    failed = {one["arm"] for one in environment.get("errors", ()) if "arm" in one}
    return {one.arm for one in results.trials} | set(environment.get("arms", ())) | failed


def judge(results: model.Results, budget: Budget) -> Judgement:
    """Return the verdict on one budget, alone under its gate."""
    return judge_all(results, [dataclasses.replace(budget, optional=False)])[0]


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the one verdict: a budget that is broken for certain counts first, then what could not be judged."""
    return worst(one.verdict for one in judgements)


class _Case:
    """One budget with what was measured for it.

    :ivar logs: group -> log-ratios of its blocks; empty where a fault forbids a verdict.
    """

    def __init__(self, measured: selection.Measured, budget: Budget) -> None:
        self.budget = budget
        self.logs: Mapping[int, Sequence[float]] = {}
        self._cpu_samples: Mapping[int, Sequence[float]] = {}
        self._unit = ""
        self._level = budget.confidence
        self._loss: gating.Gate | None = None
        self._cpu: gating.Gate | None = None
        self._chosen = chosen = measured.choose(budget)
        self._figure = (budget.benchmark, chosen.metric, budget.arm, budget.baseline)
        self._fault = chosen.fault
        self._judged = not self._fault
        self._note = ""
        if self._fault:
            return
        if budget.max_loss is not None:
            self._note = noise.unknown(measured.environment, budget.benchmark, chosen.metric)
        self._level = sequential.confidence(budget.confidence, measured.environment, measured.groups)
        self.logs = chosen.logs
        if chosen.gain > math.log(_most_gain(budget)):
            self._fault, self._judged = _no_gain(budget, chosen.gain), False
            self.logs = {}
            return
        if budget.max_host_cpu_per_unit is not None:
            self._unit = chosen.cpu.unit
            self._fault = chosen.cpu.unfit(budget)
            self._cpu_samples = {} if self._fault else chosen.cpu.samples

    @property
    def cpu_logs(self) -> dict[int, list[float]]:
        """Return the logarithms of service CPU, group by group; nothing where one of them has none."""
        samples = self._cpu_samples
        if any(value <= 0 for values in samples.values() for value in values):
            return {}
        return {group: [math.log(value) for value in values] for group, values in samples.items()}

    def place(self, loss: gating.Known, cpu: gating.Known) -> None:
        """Set the figures against their limits.

        :param loss, cpu: what other hosts show of how boots differ in them.
        """
        if not self._judged:
            return
        level, budget = self._level, self.budget
        if budget.max_loss is not None:
            self._loss = gating.Gate(
                (*self._figure, "loss"),
                lambda level: self._chosen.loss(level, loss.spread),
                level,
                budget.max_loss,
                wording.limited_loss(budget.max_loss),
                lambda found: [self._looks(), loss.remark(found), self._blurred(found)],
            )
        if budget.max_host_cpu_per_unit is not None and self._cpu_samples:
            self._cpu = self._cpu_gate(budget.max_host_cpu_per_unit, cpu)
        if self._chosen.remark and self.gates:
            self.gates[0].reason += f"; {self._chosen.remark}"
        if self._chosen.fails_more:
            for gate in self.gates:
                gate.doubt(self._chosen.fails_more)

    def _cpu_gate(self, limit: float, cpu: gating.Known) -> gating.Gate:
        return gating.Gate(
            (*self._figure, "cpu"),
            lambda level: self._chosen.cpu_per_unit(level, cpu.spread),
            self._level,
            limit,
            wording.limited_cpu(limit, self._unit),
            lambda found: [self._looks(), cpu.remark(found)],
        )

    def _looks(self) -> str:
        """Return why intervals have another confidence than the budget; empty where they have the same."""
        shown, promised = wording.confidence(self._level), wording.confidence(self.budget.confidence)
        if shown == promised:
            return ""
        return f"{shown} at this look, so that {promised} holds over all looks at the run"

    def _blurred(self, found: statistics.Estimate | None) -> str:
        """Return what the interval has for figures in whole steps; an interval of too few boots says enough."""
        return "" if found is not None and found.groups < gating.MIN_BOOTS else self._chosen.blur.note

    @property
    def gates(self) -> list[gating.Gate]:
        return [one for one in (self._loss, self._cpu) if one is not None]

    def judgement(self) -> Judgement:
        told = [(one.verdict, one.reason) for one in self.gates]
        if self._note:
            told.append((Verdict.PASS, self._note))
        if self._fault:
            told.append((Verdict.INVALID, self._fault))
        verdicts, reasons = zip(*told, strict=True)
        order = (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE)  # as in :func:`overall`
        whole = next((one for one in order if one in verdicts), Verdict.PASS)
        loss, cpu = (None if one is None else one.found for one in (self._loss, self._cpu))
        by_cpu = self._cpu is not None and self._cpu.verdict is whole and whole is not Verdict.PASS
        if self._loss is not None and self._loss.verdict is whole:
            by_cpu = False
        left_out = self._chosen.pairs_left_out
        may_change = whole is Verdict.INCONCLUSIVE or (
            whole is Verdict.INVALID and self._fault == self._chosen.fault and self._chosen.may_be_chance
        )
        failed = self._chosen.failed
        return Judgement(
            self.budget, whole, loss, cpu, self._unit, reasons, verdicts, left_out, by_cpu, failed, may_change
        )


def _no_gain(budget: Budget, log: float) -> str:
    return (
        f"'{budget.arm}' is {_times(math.exp(log))} times as good as '{budget.baseline}' (limit"
        f" {_most_gain(budget):g}): are both in one unit? If so, allow it with the budget's max_gain"
    )


def _times(factor: float) -> str:
    return f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"


def _most_gain(budget: Budget) -> float:
    """Return how many times as good an arm may be; a budget that demands a gain expects one."""
    if budget.max_gain is not None:
        return budget.max_gain
    return MAX_GAIN * max(1.0, 1 - (budget.max_loss or 0.0))
