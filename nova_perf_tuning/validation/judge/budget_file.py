# SPDX-License-Identifier: Apache-2.0
"""Overhead budgets: what one arm may lose against another, for which hosts and flavors, and why that much."""

import collections
import dataclasses
import fnmatch
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from typing import Final

from nova_perf_tuning.specs import profiles
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.environment import Environment
from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.measure import model, schema
from nova_perf_tuning.validation.measure.reasons import Reason, ReasonCode, reason

_MAX_BYTES: Final = 256 * 1024
#: What launchers write for what guests run on; ``none``: every arm is the host itself.
_ACCELERATORS: Final = ("kvm", "tcg", "xen", "none")
#: What a budget may be for.
_PLACES: Final = ("host_group", "flavor", "memory_encryption")
#: What stands for the budgets shipped with this program wherever a budget file is asked for.
SHIPPED: Final = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """What one arm may lose against another.

    :ivar metric: None: the benchmark's primary figure.
    :ivar max_loss: largest loss allowed, ``1 - arm/baseline`` (0.15 = 15 %); negative demands a gain; None: any,
        the service CPU alone is limited.
    :ivar max_host_cpu_per_unit: most service CPU in seconds per unit of work (Gbit, 1,000 IO, 1,000 events).
    :ivar accelerator: what the guests must have run on (``kvm``); None: anything.
    :ivar host_group, flavor: shell patterns of the host groups and flavors it is for; None: all.
    :ivar optional: left out where the benchmark was not asked for or an arm was not measured, instead of INVALID.
    :ivar reason: why this figure.
    """

    benchmark: str
    arm: str
    max_loss: float | None = None
    metric: str | None = None
    baseline: str = "host"
    max_host_cpu_per_unit: float | None = None
    confidence: float = 0.95
    accelerator: str | None = None
    host_group: str | None = None
    flavor: str | None = None
    memory_encryption: str | None = None
    optional: bool = False
    reason: str = ""
    guards: trial_filter.Limits = dataclasses.field(default_factory=trial_filter.Limits)

    @property
    def patterns(self) -> dict[str, str]:
        """Return those of host group and flavor that it names."""
        return {name: pattern for name in _PLACES if (pattern := getattr(self, name)) is not None}

    def is_for(self, places: Mapping[str, str]) -> bool:
        """Return whether it is for the host group and flavor that ``places`` has.

        Encrypted guests pay for each byte that devices see: theirs are only budgets that name their encryption.
        """
        if "memory_encryption" in places and self.memory_encryption is None:
            return False
        return all(fnmatch.fnmatchcase(places.get(name, ""), pattern) for name, pattern in self.patterns.items())


def load(path: str) -> list[Budget]:
    """Read a budget file (YAML, see ``budget.schema.json``); ``default`` is the one that is shipped.

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
    schema.check("budget", data, path)
    guards = trial_filter.Limits(**data.get("guards", {}))
    budgets = [Budget(**budget, guards=guards) for budget in data["budgets"]]
    for index, budget in enumerate(budgets):
        place = f"{path}: budgets[{index}] ({budget.benchmark})"
        if budget.max_loss is None and budget.max_host_cpu_per_unit is None:
            raise schema.InputError(f"{place}: limits nothing; give max_loss, max_host_cpu_per_unit or both")
        if any(map(math.isnan, (budget.max_loss or 0, budget.max_host_cpu_per_unit or 0, budget.confidence))):
            raise schema.InputError(f"{place}: .nan is no limit")  # which every figure would keep
        if budget.arm == budget.baseline:
            raise schema.InputError(f"{place}: arm and baseline are both '{budget.arm}'; name two")
    return budgets


def limits(budgets: Sequence[Budget]) -> trial_filter.Limits:
    """Return the limits of guards that budgets of one file set, the defaults without any."""
    return budgets[0].guards if budgets else trial_filter.Limits()


def applicable(budgets: Sequence[Budget], places: Mapping[str, str], primary: Mapping[str, str]) -> list[Budget]:
    """Return the budgets for the host group and flavor that ``places`` has; ``primary``: benchmark -> metric.

    Of several for the same figure the most specific ones count: those that name both, else all that name one, else
    those that name none.
    """

    def figure(budget: Budget) -> tuple[str | None, ...]:
        return budget.benchmark, budget.metric or primary.get(budget.benchmark), budget.arm, budget.baseline

    matching = [budget for budget in budgets if budget.is_for(places)]
    by_specificity = sorted(matching, key=lambda budget: len(budget.patterns))
    best = {figure(budget): len(budget.patterns) for budget in by_specificity}  # the last one stays
    return [budget for budget in matching if len(budget.patterns) == best[figure(budget)]]


def for_run(
    budgets: Sequence[Budget],
    path: str,
    places: Mapping[str, str],
    jobs: Sequence[plugins.Job],
    arms: Sequence[str],
) -> list[Budget]:
    """Return the budgets of the file at ``path`` that a run is to be judged by.

    :raises schema.InputError: none is left, or one is for a benchmark or arm that the run does not have.
    """
    kinds = {job.label: job.benchmark.kind for job in jobs}
    budgets = for_measured(budgets, kinds, arms, None)
    chosen = applicable(budgets, places, {job.label: job.benchmark.primary[0] for job in jobs})
    if not chosen:
        why = "all are optional, and this run lacks their benchmarks or arms; run one of these"
        if budgets:
            named = ", ".join(f"{name} '{place}'" for name, place in places.items())
            why = f"none is for {named}; give --host-group or --flavor"
        raise schema.InputError(f"--budget {path}: no budget applies: {why}, or another file")
    measured = {"benchmark": list(kinds), "arm": arms, "baseline": arms}
    for budget, (what, known) in itertools.product(chosen, measured.items()):
        if (name := getattr(budget, what)) not in known:
            text = f"--budget: {what} '{name[:80]}' is not in this run, which has {', '.join(known)}"
            raise schema.InputError(text)
    return chosen


def why_none(results: model.Results) -> Reason:
    environment = results.environment
    return reason(
        ReasonCode.NO_BUDGET_APPLIES,
        arms=list(dict.fromkeys(trial.arm for trial in results.trials)),
        benchmarks=list(dict.fromkeys(trial.benchmark for trial in results.trials)),
        accelerator=environment.accelerator or "",
        **{name: getattr(environment, name) for name in _PLACES},
    )


def for_measured(
    budgets: Sequence[Budget], kinds: Mapping[str, str], arms: Collection[str], accelerator: str | None
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
        elif not _lacking(budget, arms, accelerator):
            labels = [label for label, kind in kinds.items() if budget.benchmark in (label, kind)]
            chosen += [dataclasses.replace(budget, benchmark=label) for label in labels]
    return chosen


def for_results(budgets: Sequence[Budget], results: model.Results) -> list[Budget]:
    environment = results.environment
    chosen = for_measured(budgets, *_measured(results), accelerator(environment))
    primary = {trial.benchmark: trial.metric for trial in reversed(results.trials) if trial.primary}
    return applicable(chosen, environment.places, primary)


def _measured(results: model.Results) -> tuple[dict[str, str], set[str]]:
    """Return label -> kind of the benchmarks, and the arms, that were measured or ought to be.

    An arm whose guests never booted was not left out.
    """
    environment = results.environment
    planned = {label: job.kind for label, job in environment.benchmarks.items()}
    kinds = {trial.benchmark: planned.get(trial.benchmark, "") for trial in results.trials}
    failed = {incident.arm for incident in environment.errors} - {""}
    return kinds | planned, {trial.arm for trial in results.trials} | {*environment.arms} | failed


def left_out(results: model.Results, budgets: Sequence[Budget]) -> list[Reason]:
    """Return which budgets for what was measured do not apply, a reason for each cause.

    Not those for another host group or flavor than that of the results.
    """
    environment, (kinds, arms) = results.environment, _measured(results)
    # What is unknown of their place, nothing where they were not measured -> names of the budgets.
    causes = collections.defaultdict[tuple[str, ...], dict[str, None]](dict)
    for budget in (budget for budget in budgets if budget.benchmark in {*kinds, *kinds.values()}):
        unknown = _unknown(budget, environment.places)
        optional = budget.optional and budget.is_for(environment.places)
        if unknown or (optional and _lacking(budget, arms, accelerator(environment))):
            causes[unknown][f"{budget.benchmark}, {budget.arm} against {budget.baseline}"] = None
    unmeasured = causes.pop((), None)
    place_reasons = [
        reason(ReasonCode.PLACE_UNKNOWN, unknown=list(unknown), budgets=list(names))
        for unknown, names in causes.items()
    ]
    return place_reasons + ([reason(ReasonCode.NOT_MEASURED, budgets=list(unmeasured))] if unmeasured else [])


def _unknown(budget: Budget, places: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of host group and flavor must be known before a budget can apply; nothing: none."""
    known = {name: pattern for name, pattern in budget.patterns.items() if places.get(name)}
    if ("memory_encryption" in places) is (budget.memory_encryption is not None) and all(
        fnmatch.fnmatchcase(places[name], pattern) for name, pattern in known.items()
    ):
        return tuple(name for name in budget.patterns if name not in known)
    return ()


def _lacking(budget: Budget, arms: Collection[str], accelerator: str | None) -> bool:
    compared = {budget.arm} if budget.max_loss is None else {budget.arm, budget.baseline}
    other = accelerator is not None and budget.accelerator not in (None, accelerator)
    return other or not compared <= {*arms}


def accelerator(environment: Environment) -> str | None:
    """Return what guests ran on, None where no known word says so.

    A cloud tells nobody: for its guests it is an empty text.
    """
    if environment.accelerator is None and environment.launcher == "heat":
        return ""
    return environment.accelerator if environment.accelerator in _ACCELERATORS else None
