"""Which knob of a request paid: the tuned guests beside guests with one knob left out at a time.

A knob is one ``perf:`` extra spec. Its effect is the ratio of the tuned arm to the arm without it: more than 1
where it pays. That no effect was found does not show that there is none, so that both have a test of their own:

* *pays* and *harms*: the interval excludes 1. These intervals are Bonferroni-corrected for their number (knobs
  times benchmarks), since a dozen knobs looked at 95 % each would show one that pays by chance in every other run.
* *removable*: two one-sided tests (Schuirmann 1987) place the effect within a margin around 1 in every benchmark.
  They are corrected for the knobs only: "in every benchmark" errs no more often than in any one
  (intersection-union test, Berger 1982).

Both share the error with the looks of the session (:mod:`nova_perf_tuning.budget.sequential`), which goes on
while a knob is undecided.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import counted, model, sequential, statistics, steps, verdict, wording
from nova_perf_tuning.launch import base as launch
from nova_perf_tuning.specs import request as request_module

#: The arm that has every knob.
FULL = "tuned"

#: Not knobs: the profile is spelled out by its specs, the budget only judges.
_NO_KNOBS = ("perf:profile", "perf:budget")

_ARM_LENGTH = 40

#: An effect smaller than this, either way, is no reason to keep a spec: boots of a quiet host differ by as much.
MARGIN = 0.02
#: Where the noise floor of the host is larger it is the margin, since nothing smaller shows there, but no more
#: than this: noise is no reason to give up a gain that matters.
WIDEST_MARGIN = 0.05

#: No advice is given for more boots than this.
_MOST_BOOTS = 100


class Call(enum.StrEnum):
    """What an ablation says of a knob."""

    PAYS = "pays"
    HARMS = "harms"
    MIXED = "mixed"
    NEEDED = "needed"
    REMOVABLE = "removable"
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What a knob does in one benchmark.

    :ivar call: pays, harms, removable or undecided.
    :ivar margin: effects up to this share do not matter.
    :ivar near: the effect with the interval of the two one-sided tests; None without one.
    :ivar decide: what would decide it, in words; empty where it is decided.
    """

    call: Call
    margin: float
    near: statistics.Estimate | None
    decide: str


@dataclasses.dataclass(frozen=True, slots=True)
class Knob:
    """One knob judged.

    :ivar spec, value: the extra spec; :ivar arm: the arm without it.
    :ivar effects: benchmark -> tuned / without; more than 1 is a gain by the knob.
    :ivar findings: benchmark -> what that says, also of benchmarks without an effect.
    :ivar call: ``pays`` where it pays in one benchmark and harms in none, ``harms`` the other way round, ``mixed``
        where it does both, ``removable`` where no effect matters in any and budgets are met as well without it,
        ``needed`` where no effect matters, but the budgets pass with it and fail without it; else ``undecided``.
    :ivar met_without: verdict of the budgets on the guests without it; None without a budget.
    :ivar left_out: benchmark -> how much guards left out and why, or why there is no effect for it.
    """

    spec: str
    value: str
    arm: str
    effects: Mapping[str, statistics.Estimate]
    findings: Mapping[str, Finding]
    call: Call
    met_without: verdict.Verdict | None
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)


def knobs(wanted: request_module.Request) -> dict[str, str]:
    """Return extra spec -> value of every knob of a request."""
    return {spec: value for spec, value in wanted.extra_specs().items() if spec not in _NO_KNOBS}


def without(wanted: request_module.Request, spec: str) -> request_module.Request:
    """Return ``wanted`` with one knob left out."""
    field, _, feature = spec.removeprefix("perf:").partition(".")
    left: dict[str, Any] = {field: None}
    if feature:
        left[field] = {name: on for name, on in getattr(wanted, field).items() if name != feature}
    return dataclasses.replace(wanted, **left)


def arm_name(spec: str) -> str:
    """Return the name of the arm without ``spec``."""
    return f"no-{re.sub('[^a-z0-9_]+', '-', spec.removeprefix('perf:').lower())}"[:_ARM_LENGTH]


def arms(wanted: request_module.Request) -> dict[str, launch.Arm]:
    """Return extra spec -> arm without it."""
    return {spec: launch.Arm(arm_name(spec), without(wanted, spec)) for spec in knobs(wanted)}


def judge(results: model.Results, budgets: Sequence[verdict.Budget] = (), confidence: float = 0.95) -> list[Knob]:
    """Return every knob of an ablation run (its environment has ``ablation``: arm -> spec and value), judged.

    :param budgets: of the tuned arm; they are applied to each arm without a knob too.
    """
    left_out = results.environment.get("ablation", {})
    if not left_out:
        return []
    trials: dict[str, list[model.Trial]] = {}
    for one_trial in results.trials:
        mine = trials.setdefault(one_trial.benchmark, [])
        if one_trial.primary:
            mine.append(one_trial)
    levels = _levels(results, confidence, len(left_out), len(trials))
    of_tuned = [budget for budget in budgets if budget.arm == FULL]
    met_with = _met(results, of_tuned, FULL)
    found = []
    for arm, one in left_out.items():
        effects: dict[str, statistics.Estimate] = {}
        findings: dict[str, Finding] = {}
        left_out_of: dict[str, str] = {}
        for label, mine in trials.items():
            picked = counted.select(results, mine, FULL, arm, counted.limits(budgets))
            if picked.left_out:
                left_out_of[label] = picked.invalid or picked.remark
            logs = {} if picked.invalid else statistics.log_ratios(picked.trials, FULL, arm)
            blur = steps.blur(picked.trials, FULL, arm)
            ratio, near = (statistics.ratio_of(logs, level, blur=blur) for level in levels)
            if ratio is not None:
                effects[label] = ratio
            findings[label] = _finding(ratio, near, margin(results.environment, label, mine))
        met = _met(results, of_tuned, arm)
        call = _call([finding.call for finding in findings.values()], met_with, met)
        found.append(Knob(one["spec"], one["value"], arm, effects, findings, call, met, left_out_of))
    return found


def _levels(results: model.Results, confidence: float, knobs: int, benchmarks: int) -> tuple[float, float]:
    """Return the confidence of intervals that show an effect, and of those that show that none matters.

    The second is that of two one-sided tests, each with all of the error, but never below what was asked for:
    Student's t over boots is safe up to an error of 5 % on both sides.
    """
    error = 1 - sequential.confidence(confidence, results.environment, len({one.group for one in results.trials}))
    return 1 - error / max(1, knobs * benchmarks), max(confidence, 1 - 2 * error / max(1, knobs))


def margin(environment: Mapping[str, Any], benchmark: str, trials: Sequence[model.Trial]) -> float:
    """Return how large an effect in ``benchmark``, whose ``trials`` these are, does not matter on this host."""
    floors = (environment.get("noise_floor") or {}).get("losses", {}).get(benchmark, {})
    floor = max((floors.get(metric, 0.0) for metric in {one.metric for one in trials}), default=0.0)
    return min(max(MARGIN, floor), WIDEST_MARGIN)


def _met(results: model.Results, budgets: Sequence[verdict.Budget], arm: str) -> verdict.Verdict | None:
    """Return the verdict of budgets on an arm, None where none applies."""
    judged = verdict.judge_all(results, [dataclasses.replace(budget, arm=arm) for budget in budgets])
    return verdict.overall(judged) if judged else None


def _finding(effect: statistics.Estimate | None, near: statistics.Estimate | None, margin: float) -> Finding:
    """Return what an effect says.

    :param near: the same with the interval of the two one-sided tests.
    """
    if effect is None or near is None:
        return Finding(Call.UNDECIDED, margin, None, "no pair of trials: see the errors")
    if effect.low is None or effect.high is None or near.low is None or near.high is None or effect.groups < 2:
        return Finding(Call.UNDECIDED, margin, None, f"more boots: {effect.groups} so far")
    call = Call.UNDECIDED
    if effect.low > 1:
        call = Call.PAYS
    elif effect.high < 1:
        call = Call.HARMS
    elif near.low >= 1 - margin and near.high <= 1 / (1 - margin):
        call = Call.REMOVABLE
    return Finding(call, margin, near, _more(effect, near, margin) if call is Call.UNDECIDED else "")


def _more(effect: statistics.Estimate, near: statistics.Estimate, margin: float) -> str:
    """Return how many boots would decide an effect, if they spread as those that there are."""
    middle, edge = abs(math.log(effect.value)), -math.log(1 - margin)
    for boots in range(effect.groups + 1, _MOST_BOOTS + 1):
        if _reach(effect, boots) < middle or middle + _reach(near, boots) < edge:
            return f"more boots: {boots} or more in all"
    return f"more than {_MOST_BOOTS} boots, or a quieter host or longer trials"


def _reach(found: statistics.Estimate, boots: int) -> float:
    """Return half the width that an interval would have with so many boots, as a logarithm."""
    if found.low is None or found.high is None:
        return math.inf
    chance = (1 + found.confidence) / 2
    wider = statistics.student_t(chance, boots - 1) / statistics.student_t(chance, found.groups - 1)
    return math.log(found.high / found.low) / 2 * wider * math.sqrt(found.groups / boots)


def _call(calls: Sequence[Call], met_with: verdict.Verdict | None, met: verdict.Verdict | None) -> Call:
    if Call.PAYS in calls and Call.HARMS in calls:
        return Call.MIXED
    if Call.PAYS in calls or Call.HARMS in calls:
        return Call.PAYS if Call.PAYS in calls else Call.HARMS
    if not calls or Call.UNDECIDED in calls:
        return Call.UNDECIDED
    if met is None or met_with is None or verdict.worst([met, met_with]) is met_with:
        return Call.REMOVABLE
    certain = met is verdict.Verdict.FAIL and met_with is verdict.Verdict.PASS
    return Call.NEEDED if certain else Call.UNDECIDED


#: Columns of :func:`lines`.
HEAD = ("knob", "extra spec", "benchmark", "here", "tuned / without it", "budgets", "what would decide it")


def lines(judged: Sequence[Knob]) -> list[list[str]]:
    """Return a row per knob and benchmark, as :data:`HEAD` has it."""
    rows = []
    for one in judged:
        met = "" if one.met_without is None else f"without it: {one.met_without.value}"
        for label, finding in one.findings.items():
            told = finding.decide if one.call is Call.UNDECIDED else ""
            if one.call is Call.UNDECIDED and not told:
                told = "a verdict without it that is no worse: more boots"
            effect = wording.ratio(shown(one, label))
            if label in one.left_out:
                effect = f"{effect}; {one.left_out[label]}" if label in one.effects else one.left_out[label]
            rows.append([one.call.value, f"{one.spec}={one.value}", label, here(finding), effect, met, told])
    return rows


def here(finding: Finding) -> str:
    """Return in words what a knob does in one benchmark."""
    return "no effect" if finding.call is Call.REMOVABLE else finding.call.value


def shown(one: Knob, label: str) -> statistics.Estimate | None:
    """Return the effect in a benchmark with the interval that its call rests on."""
    finding = one.findings[label]
    return finding.near if finding.call is Call.REMOVABLE else one.effects.get(label)


def removable(judged: Sequence[Knob]) -> list[str]:
    """Return the extra specs that can be left out, each by itself."""
    return [one.spec for one in judged if one.call is Call.REMOVABLE]


def summary(judged: Sequence[Knob]) -> list[str]:
    """Return in sentences which extra specs can be left out and which are not decided; nothing without knobs."""
    if not judged:
        return []
    margins = sorted({finding.margin for one in judged for finding in one.findings.values()})
    within = " or ".join(f"{margin:.1%}" for margin in margins)
    found = [
        f"removable, each by itself (effect shown to be below {within} either way):"
        f" {', '.join(removable(judged)) or 'none'}"
    ]
    if undecided := [one.spec for one in judged if one.call is Call.UNDECIDED]:
        found.append(f"undecided (keep them, or measure more boots): {', '.join(undecided)}")
    return found
