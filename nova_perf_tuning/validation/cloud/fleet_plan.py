"""What a run over many hosts does, in a form that the database keeps, so that it can go on with it later."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.cloud import campaign, heat_pair, model
from nova_perf_tuning.validation.measure import session


class PlanError(errors.PerfTuningError):
    """A stored plan is not one of this version."""


@dataclasses.dataclass(frozen=True, slots=True)
class FleetPlan:
    """Everything that a run needs beside its hosts.

    :ivar measure: of each pair. :ivar settings: of the run. :ivar guests: how the guests are made.
    :ivar max_loss: against the other hosts, from which a host is bad.
    """

    arms: tuple[model.Arm, ...]
    measure: model.MeasurePlan
    settings: campaign.Settings
    guests: heat_pair.Settings
    max_loss: float


def to_dict(plan: FleetPlan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    return {
        "arms": [
            {"name": arm.name, "flavor": arm.flavor, "extra_specs": dict(arm.extra_specs)} for arm in plan.arms
        ],
        "jobs": [
            {"label": job.label, "kind": job.benchmark.kind, "parameters": dict(job.parameters)}
            for job in plan.measure.jobs
        ],
        "trials": plan.measure.trials,
        "pair_time_limit_s": plan.measure.time_limit_s,
        "settings": dataclasses.asdict(plan.settings),
        "guests": dataclasses.asdict(plan.guests),
        "max_loss": plan.max_loss,
    }


def from_dict(data: Mapping[str, Any], run_id: str) -> FleetPlan:
    """Return the plan of a stored run.

    :raises PlanError: another version has written it.
    :raises plugins.UnknownBenchmarkError: a benchmark of it is not installed any more.
    """
    try:
        jobs = tuple(
            plugins.Job(one["label"], plugins.load(one["kind"]), one["parameters"]) for one in data["jobs"]
        )
        return FleetPlan(
            arms=tuple(model.Arm(**one) for one in data["arms"]),
            measure=model.MeasurePlan(run_id, jobs, int(data["trials"]), float(data["pair_time_limit_s"])),
            settings=campaign.Settings(**data["settings"]),
            guests=heat_pair.Settings(**data["guests"]),
            max_loss=float(data["max_loss"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(
            f"run {run_id}: another version wrote its plan ({type(error).__name__}: {error}); begin a new run"
        ) from None


def environment(plan: FleetPlan, cloud: str, host_group: str | None) -> dict[str, Any]:
    """Return what the results of a run rest on, as far as it is known when it begins."""
    return {
        "launcher": "heat",
        "host": f"cloud {cloud}".strip(),
        "nova_perf_tuning": metadata.version("nova-perf-tuning"),
        "begun": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seed": plan.settings.seed,
        "blocks": plan.measure.trials,
        "guest": {"vcpus": plan.guests.vcpus, "memory_mib": plan.guests.ram_mib},
        "arms": {
            arm.name: {"request": dict(arm.extra_specs) or ({"flavor": arm.flavor} if arm.flavor else {})}
            for arm in plan.arms
        },
        "benchmarks": {job.label: session.describe(job) for job in plan.measure.jobs},
        "settings": dataclasses.asdict(plan.settings),
        **({"host_group": host_group} if host_group else {}),
    }
