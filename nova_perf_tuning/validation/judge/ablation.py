# SPDX-License-Identifier: Apache-2.0
"""Which knob of a request paid: tuned guests against guests with one knob left out at a time.

A knob is one ``perf:`` extra spec. Its effect is the ratio of the tuned arm to the arm without it:
more than 1 where it pays. That no effect was found does not show that there is none, so that both
have a test of their own; see doc/source/contributor/statistics.rst.
"""

import dataclasses
import enum
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nova_perf_tuning import printing
from nova_perf_tuning.specs.request import Request
from nova_perf_tuning.validation.judge import budget_file, statistics, trial_filter, verdict
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.results import model, reasons

#: The arm that has every knob.
FULL = "tuned"
#: Not knobs: the profile is spelled out by its specs, the budget only judges.
_NO_KNOBS = ("perf:profile", "perf:budget")
_ARM_LENGTH = 40
#: An effect smaller than this, either way, is no reason to keep a spec: boots of a quiet host
#: differ by as much.
MARGIN = 0.02
_CONFIDENCE = 0.95


class Call(enum.StrEnum):
    """What an ablation says of a knob."""

    PAYS = "pays"
    HARMS = "harms"
    MIXED = "mixed"
    NEEDED = "needed"
    REMOVABLE = "removable"
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True, slots=True)
class KnobEffect:
    """What a knob does in one benchmark: pays, harms, removable or undecided.

    :ivar effect: tuned / without it, more than 1 is a gain, with the interval of the call; None:
        no pair.
    :ivar notes: what failed or was excluded, or why there is no effect for it.
    """

    call: Call
    effect: statistics.Estimate | None
    notes: tuple[reasons.Reason, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Knob:
    """One knob judged, in each benchmark and as a whole.

    :ivar spec, value: the extra spec; :ivar arm: the arm without it.
    :ivar call: ``pays`` where it pays in one benchmark and harms in none, ``harms`` the other way
        round, ``mixed`` where it does both, ``removable`` where no effect matters in any and
        budgets are met as well without it, ``needed`` where no effect matters, but the budgets
        pass with it and fail without it; else ``undecided``.
    :ivar met_without: verdict of the budgets on the guests without it; None without a budget.
    """

    spec: str
    value: str
    arm: str
    findings: Mapping[str, KnobEffect]
    call: Call
    met_without: verdict.Verdict | None


def arms(wanted: Request) -> dict[str, launch.Arm]:
    """Return spec -> the arm without it.

    No two arms have the same name: results know an arm by its name.
    """
    found: dict[str, launch.Arm] = {}
    names: set[str] = set()
    for spec in wanted.extra_specs():
        if spec not in _NO_KNOBS:
            found[spec] = _without(wanted, spec, names)
            names.add(found[spec].name)
    return found


def _name(short: str, taken: Collection[str]) -> str:
    """Return the name of the arm without a spec, numbered where a name before it is the same."""
    whole = f"no-{re.sub('[^a-z0-9_]+', '-', short.lower())}"
    name, number = printing.key(whole, _ARM_LENGTH), 2
    while name in taken:
        name, number = printing.key(f"{whole}-{number}", _ARM_LENGTH), number + 1
    return name


def _without(wanted: Request, spec: str, taken: Collection[str]) -> launch.Arm:
    short = spec.removeprefix("perf:")
    field, _, feature = short.partition(".")
    others: dict[str, Any] = {field: None}
    if feature:
        features = dict(getattr(wanted, field))
        del features[feature]
        others[field] = features
    return launch.Arm(_name(short, taken), dataclasses.replace(wanted, **others))


def judge(results: model.Results, budgets: Sequence[verdict.Budget] = ()) -> list[Knob]:
    """Return every knob of an ablation run, judged.

    The environment of such a run has ``ablation``: arm -> spec and value.

    :param budgets: of the tuned arm; they are applied to each arm without a knob too.
    """
    without_knob = results.environment.ablation
    if not without_knob:
        return []
    trials: dict[str, list[model.Trial]] = {}
    for trial in results.trials:
        mine = trials.setdefault(trial.benchmark, [])
        if trial.primary:
            mine.append(trial)
    levels = _levels(results, len(without_knob), len(trials))
    limits = budget_file.limits(budgets)
    of_tuned = [budget for budget in budgets if budget.arm == FULL]
    measured = verdict.Measured(results)
    met_with = _met(measured, of_tuned, FULL)
    figures = {label: trial_filter.Figure.of(mine) for label, mine in trials.items()}
    gaps = trial_filter.Gaps.of(results.environment)
    accelerator = results.environment.accelerator
    judged = []
    for arm, left_out in without_knob.items():
        findings: dict[str, KnobEffect] = {}
        calls: list[Call] = []
        for label, figure in figures.items():
            picked = trial_filter.select_of(figure, gaps, accelerator, FULL, arm, limits)
            finding = _finding(picked, arm, levels)
            findings[label] = finding
            calls.append(finding.call)
        met = _met(measured, of_tuned, arm)
        call = _call(calls, met_with, met)
        judged.append(Knob(left_out.spec, left_out.value, arm, findings, call, met))
    return judged


def _levels(results: model.Results, knobs: int, benchmarks: int) -> tuple[float, float]:
    """Return the confidence of intervals that show an effect, and of those that show none matters.

    The first is corrected for the number of intervals (Bonferroni): a dozen at 95 % each would
    show an effect by chance in every other run. The second is that of two one-sided tests, each
    with all of the error (Schuirmann 1987), corrected for the knobs only: "in every benchmark"
    errs no more often than in any one (Berger 1982). It is never below 95 %: Student's t over
    boots is safe up to an error of 5 % on both sides.
    """
    boots = len({trial.boot for trial in results.trials})
    error = 1 - statistics.interim_confidence(_CONFIDENCE, results.environment.looks, boots)
    effect = 1 - error / max(1, knobs * benchmarks)
    no_effect = max(_CONFIDENCE, 1 - 2 * error / knobs)
    return effect, no_effect


def _met(
    measured: verdict.Measured,
    budgets: Sequence[verdict.Budget],
    arm: str,
) -> verdict.Verdict | None:
    of_arm = [dataclasses.replace(budget, arm=arm) for budget in budgets]
    judged = measured.judge(of_arm)
    if not judged:
        return None
    return verdict.overall(judged)


def _finding(picked: trial_filter.Selection, arm: str, levels: tuple[float, float]) -> KnobEffect:
    """Return what the trials of a benchmark say of the knob that ``arm`` lacks."""
    if picked.invalid is not None:
        return KnobEffect(Call.UNDECIDED, None, (picked.invalid,))
    for_effect, for_no_effect = levels
    logs = statistics.log_ratios(picked.trials, FULL, arm)
    effect = statistics.ratio_of(logs, for_effect)
    if effect is None or effect.low is None or effect.high is None:
        return KnobEffect(Call.UNDECIDED, effect, picked.notes)
    if effect.low > 1:
        return KnobEffect(Call.PAYS, effect, picked.notes)
    if effect.high < 1:
        return KnobEffect(Call.HARMS, effect, picked.notes)
    near = statistics.ratio_of(logs, for_no_effect)
    assert near is not None and near.low is not None and near.high is not None  # of the same boots
    if near.low >= 1 - MARGIN and near.high <= 1 / (1 - MARGIN):
        return KnobEffect(Call.REMOVABLE, near, picked.notes)
    return KnobEffect(Call.UNDECIDED, effect, picked.notes)


def _call(
    calls: Sequence[Call],
    met_with: verdict.Verdict | None,
    met: verdict.Verdict | None,
) -> Call:
    if Call.PAYS in calls and Call.HARMS in calls:
        return Call.MIXED
    for effect in (Call.PAYS, Call.HARMS):
        if effect in calls:
            return effect
    if not calls or Call.UNDECIDED in calls:
        return Call.UNDECIDED
    if met is None or met_with is None or verdict.worst([met, met_with]) is met_with:
        return Call.REMOVABLE
    if met is verdict.Verdict.FAIL and met_with is verdict.Verdict.PASS:
        return Call.NEEDED
    return Call.UNDECIDED


def undecided(results: model.Results, budgets: Sequence[verdict.Budget]) -> bool:
    """Return whether more boots may bring another verdict on a budget or on a knob."""
    if any(judgement.open for judgement in verdict.judge_all(results, budgets)):
        return True
    return any(knob.call is Call.UNDECIDED for knob in judge(results, budgets))


def removable(judged: Sequence[Knob]) -> list[str]:
    return [knob.spec for knob in judged if knob.call is Call.REMOVABLE]
