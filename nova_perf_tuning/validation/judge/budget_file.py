"""Overhead budgets: what one arm may lose against another, for which hosts and flavors, and why that much."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Final

from nova_perf_tuning.specs import profiles
from nova_perf_tuning.validation.environment import Environment
from nova_perf_tuning.validation.judge import guards
from nova_perf_tuning.validation.measure import model, schema
from nova_perf_tuning.validation.measure.reasons import Reason, ReasonCode, reason

_MAX_BYTES: Final = 256 * 1024

#: What launchers write for what guests run on; ``none``: every arm is the host itself.
ACCELERATORS: Final = ("kvm", "tcg", "xen", "none")

#: What a budget may be for.
_PLACES: Final = ("host_group", "flavor")

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
    optional: bool = False
    reason: str = ""
    guards: guards.Limits = dataclasses.field(default_factory=guards.Limits)

    @property
    def specificity(self) -> int:
        """Return how many of host group and flavor it names."""
        return (self.host_group is not None) + (self.flavor is not None)

    def is_for(self, places: Mapping[str, str], names: Iterable[str] = _PLACES) -> bool:
        """Return whether it is for the host group and flavor that ``places`` has, or those of them named."""
        wanted = {name: getattr(self, name) for name in names}
        return all(
            pattern is None or fnmatch.fnmatchcase(places.get(name, ""), pattern)
            for name, pattern in wanted.items()
        )

    def figure(self, primary: Mapping[str, str]) -> tuple[str | None, ...]:
        """Return what it limits.

        :param primary: benchmark -> its primary metric, which a budget may name or not.
        """
        return self.benchmark, self.metric or primary.get(self.benchmark), self.arm, self.baseline


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
    for part in (data.get("guards", {}), *data["budgets"]):
        # It is in every range of a schema, and nothing is beyond it: each budget would be met.
        if wrong := [name for name, value in part.items() if isinstance(value, float) and math.isnan(value)]:
            raise schema.InputError(f"{path}: {wrong[0]} is not a number")
    limits = guards.Limits(**data.get("guards", {}))
    budgets = [Budget(**budget, guards=limits) for budget in data["budgets"]]
    for index, budget in enumerate(budgets):
        place = f"{path}: budgets[{index}] ({budget.benchmark})"
        if budget.max_loss is None and budget.max_host_cpu_per_unit is None:
            raise schema.InputError(f"{place}: limits nothing; give max_loss, max_host_cpu_per_unit or both")
        if budget.arm == budget.baseline:
            raise schema.InputError(f"{place}: arm and baseline are both '{budget.arm}'; name two")
    return budgets


def applicable(budgets: Sequence[Budget], places: Mapping[str, str], primary: Mapping[str, str]) -> list[Budget]:
    """Return the budgets for the host group and flavor that ``places`` has.

    Of several for the same figure the most specific ones count: those that name both, else all that name one, else
    those that name none.

    :param primary: as for :meth:`Budget.figure`.
    """
    matching = [budget for budget in budgets if budget.is_for(places)]
    best: dict[tuple[str | None, ...], int] = {}
    for budget in matching:
        best[budget.figure(primary)] = max(best.get(budget.figure(primary), 0), budget.specificity)
    return [budget for budget in matching if budget.specificity == best[budget.figure(primary)]]


def why_none(results: model.Results) -> Reason:
    """Return that no budget applies to results, and what they have."""
    environment = results.environment
    return reason(
        ReasonCode.NO_BUDGET_APPLIES,
        arms=list(dict.fromkeys(trial.arm for trial in results.trials)),
        benchmarks=list(dict.fromkeys(trial.benchmark for trial in results.trials)),
        accelerator=environment.accelerator or "",
        **environment.places,
    )


def for_measured(
    budgets: Sequence[Budget], kinds: Mapping[str, str], arms: Sequence[str], accelerator: str | None
) -> list[Budget]:
    """Return the budgets without the optional ones that nothing was measured for.

    An optional budget may name a kind of benchmark; it then stands for every label of that kind.

    :param kinds: label -> kind of what is measured; :param arms: arms that are.
    :param accelerator: what guests run on; None: not known, so that nothing is left out for it.
    """
    found = []
    for budget in budgets:
        if not budget.optional:
            found.append(budget)
        elif not _lacking(budget, arms, accelerator):
            labels = [label for label, kind in kinds.items() if budget.benchmark in (label, kind)]
            found += [dataclasses.replace(budget, benchmark=label) for label in labels]
    return found


def left_out(
    budgets: Sequence[Budget], environment: Environment, kinds: Mapping[str, str], arms: Sequence[str]
) -> list[Reason]:
    """Return which budgets for what was measured do not apply, a reason for each cause.

    Not those for another host group or flavor than is told.

    :param kinds, arms: as for :func:`for_measured`.
    """
    unplaced: dict[tuple[str, ...], dict[str, None]] = {}
    lacking: dict[str, None] = {}
    for budget in (budget for budget in budgets if budget.benchmark in {*kinds, *kinds.values()}):
        name = f"{budget.benchmark}, {budget.arm} against {budget.baseline}"
        if unknown := _unknown(budget, environment.places):
            unplaced.setdefault(unknown, {})[name] = None
        elif budget.optional and budget.is_for(environment.places):
            if _lacking(budget, arms, accelerator(environment)):
                lacking[name] = None
    found = [
        reason(ReasonCode.PLACE_UNKNOWN, unknown=list(unknown), budgets=list(names))
        for unknown, names in unplaced.items()
    ]
    return found + [reason(ReasonCode.NOT_MEASURED, budgets=list(lacking))] * bool(lacking)


def _unknown(budget: Budget, places: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of host group and flavor must be known before a budget can apply; nothing: none."""
    unknown = tuple(name for name in _PLACES if getattr(budget, name) is not None and not places.get(name))
    return unknown if budget.is_for(places, [name for name in _PLACES if name not in unknown]) else ()


def _lacking(budget: Budget, arms: Sequence[str], accelerator: str | None) -> bool:
    """Return whether nothing was measured for an optional budget."""
    compared = {budget.arm} if budget.max_loss is None else {budget.arm, budget.baseline}
    other = accelerator is not None and budget.accelerator not in (None, accelerator)
    return other or not compared <= {*arms}


def accelerator(environment: Environment) -> str | None:
    """Return what guests ran on, None where that is not told in a word that is known.

    A cloud tells nobody: for its guests it is an empty text.
    """
    if environment.accelerator is None and environment.launcher == "heat":
        return ""
    return environment.accelerator if environment.accelerator in ACCELERATORS else None
