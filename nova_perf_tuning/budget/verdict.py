"""Judges recorded results against overhead budgets.

PASS: the whole interval lies inside the budget; FAIL: wholly outside; INCONCLUSIVE: the limit lies within it, or
there are too few pairs for an interval; INVALID: what was measured cannot answer the question.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.budget import model, overhead, schema, statistics
from nova_perf_tuning.specs import profile

_MAX_BYTES = 256 * 1024

#: More failed trials than this share in a judged arm, and what is left is a selection, not a sample.
MAX_FAILED = 0.2


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
class Budget:
    """What one arm may lose against another.

    :ivar metric: None: the benchmark's primary figure.
    :ivar max_loss: largest loss allowed, ``1 - arm/baseline`` (0.15 = 15 %); negative demands a gain.
    :ivar max_host_cpu_per_unit: most service CPU in seconds per unit of work (Gbit, 1,000 IO, 1,000 events).
    :ivar accelerator: what the guests must have run on (``kvm``); None: anything.
    """

    benchmark: str
    arm: str
    max_loss: float
    metric: str | None = None
    baseline: str = "host"
    max_host_cpu_per_unit: float | None = None
    confidence: float = 0.95
    accelerator: str | None = None


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


def load(path: str) -> list[Budget]:
    """Read a budget file (YAML, see ``budget.schema.json``).

    :raises schema.InputError: unreadable, no YAML, or not of the schema: names the place.
    """
    try:
        data = profile.load_yaml(schema.read_text(path, _MAX_BYTES), path)
    except profile.ProfileError as error:
        raise schema.InputError(str(error)) from None
    schema.check("budget", data, path)
    for index, one in enumerate(data["budgets"]):
        for key, value in one.items():
            if value != value:  # YAML's .nan passes every comparison of the schema
                raise schema.InputError(f"{path}: budgets[{index}].{key}: is no number")
    budgets = [Budget(**one) for one in data["budgets"]]
    for index, budget in enumerate(budgets):
        if budget.arm == budget.baseline:
            raise schema.InputError(
                f"{path}: budgets[{index}] ({budget.benchmark}): arm and baseline are both '{budget.arm}'; "
                "an arm loses nothing against itself, name another"
            )
    return budgets


def judge_all(results: model.Results, budgets: Sequence[Budget]) -> list[Judgement]:
    """Return the verdict on every budget."""
    return [judge(results, one) for one in budgets]


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the one verdict: a budget that is broken for certain counts first, then what could not be judged."""
    verdicts = {one.verdict for one in judgements}
    for one in (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE):
        if one in verdicts:
            return one
    return Verdict.PASS if verdicts else Verdict.INVALID


def judge(results: model.Results, budget: Budget) -> Judgement:
    """Return the verdict on one budget."""
    seed = int(results.environment.get("seed", 0))
    chosen, fault = _select(results, budget)
    if fault:
        return Judgement(budget, Verdict.INVALID, None, None, "", (fault,))
    ratio = statistics.ratio(chosen, budget.arm, budget.baseline, budget.confidence, seed)
    loss = None if ratio is None else _as_loss(ratio)
    verdict, reason = _place(loss, budget.max_loss, "loss", "{:.1%}".format)
    verdicts, reasons = [verdict], [reason]
    cpu, unit = None, ""
    if budget.max_host_cpu_per_unit is not None:
        cpu, unit = _service_cpu(chosen, budget, seed)
        limit = budget.max_host_cpu_per_unit
        verdict, reason = _place(cpu, limit, f"service CPU per {unit or 'unit'}", "{:.4g} s".format)
        if cpu is None:
            verdict, reason = Verdict.INVALID, f"service CPU of '{budget.arm}' was not measured"
        verdicts.append(verdict)
        reasons.append(reason)
    worst = next(
        (one for one in (Verdict.INVALID, Verdict.FAIL, Verdict.INCONCLUSIVE) if one in verdicts), Verdict.PASS
    )
    return Judgement(budget, worst, loss, cpu, unit, tuple(reasons))


def _select(results: model.Results, budget: Budget) -> tuple[list[model.Trial], str]:
    """Return the trials a budget is about, and why they cannot be judged (or an empty text)."""
    accelerator = str(results.environment.get("accelerator", "unknown"))
    if budget.accelerator is not None and accelerator != budget.accelerator:
        return [], f"guests ran on {accelerator}, the budget is for {budget.accelerator}"
    known = sorted({one.benchmark for one in results.trials})
    trials = [one for one in results.trials if one.benchmark == budget.benchmark]
    if not trials:
        return (
            [],
            f"benchmark '{budget.benchmark}' was not measured; the results have {', '.join(known) or 'none'}",
        )
    metrics = sorted({one.metric for one in trials})
    metric = budget.metric or next((one.metric for one in trials if one.primary), None)
    chosen = [one for one in trials if one.metric == metric or one.value is None]
    if metric not in metrics:
        return [], f"metric '{metric}' was not measured; {budget.benchmark} has {', '.join(metrics)}"
    for arm in (budget.arm, budget.baseline):
        mine = [one for one in chosen if one.arm == arm]
        if not mine:
            arms = ", ".join(sorted({one.arm for one in trials}))
            return [], f"arm '{arm}' was not measured; the results have {arms}"
        failed = sum(one.value is None for one in mine)
        if failed > MAX_FAILED * len(mine):
            return [], f"{failed} of {len(mine)} trials of '{arm}' failed (limit {MAX_FAILED:.0%})"
    contradicting = [one for one in chosen if overhead.cost(one).invalid.startswith("counters")]
    if contradicting and budget.max_host_cpu_per_unit is not None:
        return [], overhead.cost(contradicting[0]).invalid
    return chosen, ""


def _as_loss(ratio: statistics.Estimate) -> statistics.Estimate:
    return dataclasses.replace(
        ratio,
        value=1 - ratio.value,
        low=None if ratio.high is None else 1 - ratio.high,
        high=None if ratio.low is None else 1 - ratio.low,
        trimmed_mean=1 - ratio.trimmed_mean,
        hodges_lehmann=1 - ratio.hodges_lehmann,
    )


def _service_cpu(
    trials: Sequence[model.Trial], budget: Budget, seed: int
) -> tuple[statistics.Estimate | None, str]:
    samples: dict[int, list[float]] = {}
    unit = ""
    for one in trials:
        value = overhead.per_unit(overhead.cost(one).service_s, one) if one.arm == budget.arm else None
        if value is not None:
            unit = one.work_unit
            samples.setdefault(one.group, []).append(value)
    return statistics.estimate(samples, budget.confidence, seed), unit


def _place(
    found: statistics.Estimate | None, limit: float, what: str, show: Callable[[float], str]
) -> tuple[Verdict, str]:
    """Compare an interval with an upper limit."""
    if found is None:
        return Verdict.INCONCLUSIVE, f"{what}: no pair of trials"
    if found.low is None or found.high is None:
        return Verdict.INCONCLUSIVE, f"{what} {show(found.value)}, limit {show(limit)}: {found.note}"
    place = f"{what} {show(found.value)} ({found.confidence:.0%} interval {show(found.low)} to {show(found.high)})"
    if found.high <= limit:
        return Verdict.PASS, f"{place} is within {show(limit)}"
    if found.low > limit:
        return Verdict.FAIL, f"{place} is beyond {show(limit)}"
    return Verdict.INCONCLUSIVE, f"{place} includes the limit {show(limit)}; more blocks or groups may decide"
