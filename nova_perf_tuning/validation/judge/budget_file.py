# SPDX-License-Identifier: Apache-2.0
"""Overhead budgets: what one arm may lose against another, on which hosts and flavors, and why."""

import dataclasses
import fnmatch
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from typing import Any, Final

from nova_perf_tuning.specs import profiles
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import budget_check, quantities, trial_filter
from nova_perf_tuning.validation.judge.budget import Budget as Budget
from nova_perf_tuning.validation.results import model, schema
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.results.reasons import Reason, ReasonCode, reason

_MAX_BYTES: Final = 256 * 1024
#: What launchers write for what guests run on; ``none``: every arm is the host itself.
_ACCELERATORS: Final = ("kvm", "tcg", "xen", "none")
#: What stands for the budgets shipped with this program wherever a budget file is asked for.
SHIPPED: Final = "default"


def load(path: str) -> list[Budget]:
    """Read a budget file (YAML, see ``budget.schema.json``); ``default`` is the shipped one.

    :raises schema.InputError: unreadable, no YAML, or not of the schema: names the place.
    """
    if path == SHIPPED:
        path = "the shipped budgets"
        text = (resources.files(__package__) / "default_budgets.yaml").read_text(encoding="utf-8")
    else:
        text = schema.read_text(path, _MAX_BYTES)
    try:
        data = profiles.load_yaml(text, path)
    except profiles.ProfileError as error:
        raise schema.InputError(str(error)) from None
    _as_written(data)
    schema.check("budget", data, path)
    guards = trial_filter.Limits(**data.get("guards", {}))
    budgets = [Budget(**fields, guards=guards) for fields in data["budgets"]]
    faults: list[str] = []
    for index, budget in enumerate(budgets):
        for fault in budget_check.faults(budget):
            faults.append(f"budgets[{index}] ({budget.benchmark}): {fault}")
    faults += budget_check.contradictions(budgets)
    if faults:
        raise schema.InputError(f"{path}: {'; '.join(faults)}")
    return budgets


def _as_written(data: Any) -> None:
    """Turn limits that YAML reads as numbers into texts, whose unit is then found missing."""
    if not isinstance(data, dict) or not isinstance(data.get("budgets"), list):
        return
    for fields in data["budgets"]:
        if not isinstance(fields, dict):
            continue
        for name in ("max_value", "min_value", "min_duration"):
            value = fields.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                fields[name] = str(value)


def limits(budgets: Sequence[Budget]) -> trial_filter.Limits:
    """Return the limits of guards that budgets of one file set, the defaults without any."""
    if not budgets:
        return trial_filter.Limits()
    return budgets[0].guards


def applicable(
    budgets: Sequence[Budget],
    places: Mapping[str, str],
    primary: Mapping[str, str],
) -> list[Budget]:
    """Return the budgets for the host group and flavor that ``places`` has.

    Of several for the same figure the most specific ones count: those that name both, else all
    that name one, else those that name none.

    :param primary: benchmark -> metric.
    """

    def figure(budget: Budget) -> tuple[str | None, ...]:
        metric = budget.metric or primary.get(budget.benchmark)
        baseline = budget.baseline
        if budget.is_absolute:
            baseline = ""
        return budget.benchmark, metric, budget.arm, baseline

    matching = [budget for budget in budgets if budget.is_for(places)]
    most_named: dict[tuple[str | None, ...], int] = {}
    for budget in matching:
        named = len(budget.patterns)
        most_named[figure(budget)] = max(named, most_named.get(figure(budget), 0))
    return [budget for budget in matching if len(budget.patterns) == most_named[figure(budget)]]


def for_run(
    budgets: Sequence[Budget],
    path: str,
    places: Mapping[str, str],
    jobs: Sequence[plugins.Job],
    arms: Sequence[str],
) -> list[Budget]:
    """Return the budgets of the file at ``path`` that a run is to be judged by.

    :raises schema.InputError: none is left, or one is for a benchmark or arm that the run does
        not have.
    """
    kinds: dict[str, str] = {}
    primary: dict[str, str] = {}
    for job in jobs:
        kinds[job.label] = job.benchmark.kind
        primary[job.label] = job.benchmark.primary[0]
    budgets = for_measured(budgets, kinds, arms, None)
    chosen = applicable(budgets, places, primary)
    if not chosen:
        why = "all are optional, and this run lacks their benchmarks or arms; run one of these"
        if budgets:
            wanted = ", ".join(f"{name} '{place}'" for name, place in places.items())
            why = f"none is for {wanted}; give --host-group or --flavor"
        raise schema.InputError(f"--budget {path}: no budget applies: {why}, or another file")
    lengths: dict[str, str] = {}
    for job in jobs:
        lengths[job.label] = job.parameters.get("seconds", "")
    for budget in chosen:
        named = [("benchmark", budget.benchmark, list(kinds)), ("arm", budget.arm, arms)]
        if not budget.is_absolute:
            named.append(("baseline", budget.baseline, arms))
        for what, name, known in named:
            if name not in known:
                text = f"{what} '{name[:80]}' is not in this run, which has {', '.join(known)}"
                raise schema.InputError(f"--budget: {text}")
        length, needed = lengths[budget.benchmark], budget.least_seconds
        if needed is not None and length.isdigit() and 0 < int(length) < needed:
            text = f"{budget.benchmark} runs for {length} s, min_duration is {budget.min_duration}"
            raise schema.InputError(f"--budget: {text}; give --seconds {needed:.0f}")
    return chosen


def why_none(results: model.Results) -> Reason:
    """Return what was measured, for which no budget applies."""
    environment = results.environment
    arms: dict[str, None] = {}
    benchmarks: dict[str, None] = {}
    for trial in results.trials:
        arms[trial.arm] = None
        benchmarks[trial.benchmark] = None
    return reason(
        ReasonCode.NO_BUDGET_APPLIES,
        arms=list(arms),
        benchmarks=list(benchmarks),
        accelerator=environment.accelerator or "",
        host_group=environment.host_group,
        flavor=environment.flavor,
        memory_encryption=environment.memory_encryption,
    )


def how_to_write(results: model.Results) -> Reason | None:
    """Return an example of a budget for what was measured; None: nothing was.

    It is against the first arm, or for a single arm of its level.
    """
    measured = [trial for trial in results.trials if trial.primary]
    if not measured:
        return None
    first = measured[0]
    arms = list(dict.fromkeys([*results.environment.arms, *(trial.arm for trial in measured)]))
    fields: dict[str, str] = {"benchmark": first.benchmark}
    if len(arms) > 1:
        fields |= {"baseline": arms[0], "arm": arms[1], "max_loss": "0.05"}
    else:
        fields["arm"] = arms[0]
        bound = "max_value"
        if first.better == "higher":
            bound = "min_value"
        fields[bound] = f"{_round(first.value or 1.0)} {first.unit}"
        if quantities.is_maximum(first.metric):
            fields["min_duration"] = "60s"
    return reason(ReasonCode.WRITE_BUDGET, fields=fields)


def _round(value: float) -> str:
    """Return the leading digit of a number, as an example of a limit."""
    return f"{float(f'{value:.0e}'):.15g}"


def for_measured(
    budgets: Sequence[Budget],
    kinds: Mapping[str, str],
    arms: Collection[str],
    accelerator: str | None,
) -> list[Budget]:
    """Return the budgets without the optional ones that nothing was measured for.

    An optional budget may name a kind of benchmark; it then stands for every label of that kind.

    :param kinds: label -> kind of what is measured; :param arms: arms that are.
    :param accelerator: what guests run on; None: not known, so that nothing is left out for it.
    """
    chosen = []
    for budget in budgets:
        if not budget.optional:
            chosen.append(budget)
            continue
        if _lacking(budget, arms, accelerator):
            continue
        for label, kind in kinds.items():
            if budget.benchmark in (label, kind):
                chosen.append(dataclasses.replace(budget, benchmark=label))
    return chosen


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    """What results cover, read once for all budgets.

    :ivar kinds: label -> kind of the benchmarks that were measured or ought to be.
    :ivar arms: those too; an arm whose guests never booted was not left out.
    :ivar primary: label -> metric.
    """

    environment: Environment
    kinds: Mapping[str, str]
    arms: Collection[str]
    primary: Mapping[str, str]

    @classmethod
    def of(cls, results: model.Results) -> "Coverage":
        environment = results.environment
        kinds: dict[str, str] = {}
        primary: dict[str, str] = {}
        arms = set(environment.arms)
        for trial in results.trials:
            kinds[trial.benchmark] = ""
            arms.add(trial.arm)
            if trial.primary:
                primary.setdefault(trial.benchmark, trial.metric)
        for label, run in environment.benchmarks.items():
            kinds[label] = run.kind
        for incident in environment.errors:
            if incident.arm:
                arms.add(incident.arm)
        return cls(environment, kinds, arms, primary)

    def applicable(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Return the budgets that the results are judged by."""
        known = accelerator(self.environment)
        chosen = for_measured(budgets, self.kinds, self.arms, known)
        return applicable(chosen, self.environment.places, self.primary)


def left_out(results: model.Results, budgets: Sequence[Budget]) -> list[Reason]:
    """Return which budgets for what was measured do not apply, a reason for each cause.

    Those for another host group or flavor than that of the results are not among them.
    """
    environment = results.environment
    coverage = Coverage.of(results)
    kinds, arms = coverage.kinds, coverage.arms
    measured = {*kinds, *kinds.values()}
    unplaced: dict[tuple[str, ...], dict[str, None]] = {}  # what is not known -> budgets
    unmeasured: dict[str, None] = {}
    for budget in budgets:
        if budget.benchmark not in measured:
            continue
        name = f"{budget.benchmark}, {budget.named_arms}"
        unknown = _unknown(budget, environment.places)
        if unknown:
            unplaced.setdefault(unknown, {})[name] = None
        elif budget.optional and budget.is_for(environment.places):
            if _lacking(budget, arms, accelerator(environment)):
                unmeasured[name] = None
    causes = []
    for unknown, names in unplaced.items():
        causes.append(reason(ReasonCode.PLACE_UNKNOWN, unknown=list(unknown), budgets=list(names)))
    if unmeasured:
        causes.append(reason(ReasonCode.NOT_MEASURED, budgets=list(unmeasured)))
    return causes


def _unknown(budget: Budget, places: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of host group and flavor must be known before a budget can apply.

    There are none where it applies already, or cannot.
    """
    encrypted = "memory_encryption" in places
    if encrypted is not (budget.memory_encryption is not None):
        return ()
    unknown = []
    for name, pattern in budget.patterns.items():
        place = places.get(name)
        if not place:
            unknown.append(name)
        elif not fnmatch.fnmatchcase(place, pattern):
            return ()
    return tuple(unknown)


def _lacking(budget: Budget, arms: Collection[str], accelerator: str | None) -> bool:
    """Return whether an arm of a budget, or its accelerator, was not measured."""
    if accelerator is not None and budget.accelerator not in (None, accelerator):
        return True
    if budget.max_loss is not None and budget.baseline not in arms:
        return True
    return budget.arm not in arms


def accelerator(environment: Environment) -> str | None:
    """Return what guests ran on, None where no known word says so.

    A cloud does not say it, nor do output files: for their guests it is an empty text.
    """
    known = environment.accelerator
    if known is None and (environment.launcher == "heat" or environment.unpaired):
        return ""
    if known not in _ACCELERATORS:
        return None
    return known
