"""Which knob of a request paid: the tuned guests beside guests with one knob left out at a time.

A knob is one ``perf:`` extra spec. Its effect is the ratio of the tuned arm to the arm without it: more than 1
where it pays. All intervals of one ablation are Bonferroni-corrected for their number (knobs times benchmarks),
since a dozen knobs looked at 95 % each would show one that pays by chance in every other run.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import model, statistics, verdict
from nova_perf_tuning.launch import base as launch
from nova_perf_tuning.specs import request as request_module

#: The arm that has every knob.
FULL = "tuned"

#: Not knobs: the profile is spelled out by its specs, the budget only judges.
_NO_KNOBS = ("perf:profile", "perf:budget")

_ARM_LENGTH = 40


class Call(enum.StrEnum):
    """What an ablation says of a knob."""

    PAYS = "pays"
    REMOVABLE = "removable"
    HARMS = "harms"
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True, slots=True)
class Knob:
    """One knob judged.

    :ivar spec, value: the extra spec; :ivar arm: the arm without it.
    :ivar effects: benchmark -> tuned / without; more than 1 is a gain by the knob.
    :ivar call: ``pays`` where one interval lies above 1 and none below, ``harms`` the other way round,
        ``removable`` where all include 1 (or they contradict each other), ``undecided`` without intervals.
    :ivar met_without: verdict of the budgets on the guests without it; None without a budget.
    """

    spec: str
    value: str
    arm: str
    effects: Mapping[str, statistics.Estimate]
    call: Call
    met_without: verdict.Verdict | None


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
    labels = list(dict.fromkeys(one.benchmark for one in results.trials))
    tests = max(1, len(left_out) * len(labels))
    level = 1 - (1 - confidence) / tests
    found = []
    for arm, one in left_out.items():
        effects = {}
        for label in labels:
            trials = [trial for trial in results.trials if trial.benchmark == label and trial.primary]
            ratio = statistics.ratio(trials, FULL, arm, level)
            if ratio is not None:
                effects[label] = ratio
        judged = verdict.judge_all(
            results, [dataclasses.replace(budget, arm=arm) for budget in budgets if budget.arm == FULL]
        )
        met = verdict.overall(judged) if judged else None
        found.append(Knob(one["spec"], one["value"], arm, effects, _call(list(effects.values())), met))
    return found


def _call(effects: Sequence[statistics.Estimate]) -> Call:
    known = [one for one in effects if one.low is not None and one.high is not None and one.groups > 1]
    if not known or len(known) < len(effects):
        return Call.UNDECIDED
    gains = any(one.low is not None and one.low > 1 for one in known)
    losses = any(one.high is not None and one.high < 1 for one in known)
    if gains == losses:
        return Call.REMOVABLE
    return Call.PAYS if gains else Call.HARMS


def lines(judged: Sequence[Knob]) -> list[list[str]]:
    """Return a row per knob and benchmark: call, spec, benchmark, effect, whether the budget is met without it."""
    rows = []
    for one in judged:
        met = "" if one.met_without is None else f"without it: {one.met_without.value}"
        for label, effect in one.effects.items():
            if effect.low is None or effect.high is None:
                shown = f"{effect.value:.3f} (n={effect.n}: too few for an interval)"
            else:
                shown = f"{effect.value:.3f} ({effect.low:.3f} to {effect.high:.3f})"
            rows.append([one.call.value, f"{one.spec}={one.value}", label, shown, met])
    return rows


def removable(judged: Sequence[Knob]) -> list[str]:
    """Return the extra specs whose intervals all include no effect."""
    return [one.spec for one in judged if one.call is Call.REMOVABLE]
