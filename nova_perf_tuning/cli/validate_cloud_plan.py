"""What ``validate`` measures on the hosts of a cloud: a new run, or one that goes on."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
from importlib import metadata
from typing import Any, Final

from nova_perf_tuning.budget import session
from nova_perf_tuning.cli import option_types, spec_options, validate_plan
from nova_perf_tuning.cli import validate_options as options
from nova_perf_tuning.cloud import agent_metrics, campaign, fleet_plan, heat_pair, model
from nova_perf_tuning.specs import crosscheck

#: Options that a run keeps as it was begun, since its pairs are compared with each other.
_KEPT: Final = (
    *("profile", "spec", "flavor", "benchmark", "seconds", "blocks", "seed", "peers", "hosts", "host_group"),
    *("image", "external_network", "guest_vcpus", "guest_ram", "mtu", "no_guest_tx_offload", "slot_time"),
)


def new(args: argparse.Namespace, run_id: str) -> fleet_plan.FleetPlan:
    """Return the plan that the options ask for."""
    default = heat_pair.Settings()
    guests = dataclasses.replace(
        default,
        image=args.image or default.image,
        external_network=args.external_network or "",
        vcpus=args.guest_vcpus or default.vcpus,
        ram_mib=args.guest_ram or default.ram_mib,
        mtu=args.mtu or 0,
        guest_tx_offload=not args.no_guest_tx_offload,
        slot_s=int(args.slot_time or 0),
        boot_s=args.boot_time or options.BOOT_S,
        agent_metrics=agent_metrics.checked("--agent-metrics", args.agent_metrics),
    )
    limit_s, blocks = args.pair_time_limit or options.PAIR_LIMIT_S, args.blocks or options.BLOCKS_OF_PAIR
    return fleet_plan.FleetPlan(
        arms=_arms(args, guests.vcpus),
        measure=model.MeasurePlan(run_id, validate_plan.jobs(args), blocks, limit_s),
        settings=campaign.Settings(
            peers=args.peers or options.PEERS,
            seed=validate_plan.seed(args),
            max_parallel=args.max_parallel or options.PARALLEL,
            retries=options.RETRIES if args.retries is None else args.retries,
            time_limit_s=args.time_limit,
        ),
        guests=guests,
        max_loss=args.max_loss or options.MAX_LOSS,
    )


def _arms(args: argparse.Namespace, vcpus: int) -> tuple[model.Arm, ...]:
    if args.flavor:
        if args.profile or args.spec:
            raise option_types.OptionError(
                "--flavor: an existing flavor has its specs; leave out --profile and --spec"
            )
        if len(set(args.flavor)) < len(args.flavor):
            raise option_types.OptionError("--flavor: the same flavor is given twice; name it once")
        return tuple(model.Arm(name, flavor=name) for name in args.flavor)
    wanted, _ = validate_plan.tuned_request(args, vcpus)
    specs = {**spec_options.extra_specs(args.spec), **wanted.extra_specs()}
    native = crosscheck.needed_native(wanted, specs, {}, vcpus)
    return model.Arm("untuned"), model.Arm("tuned", extra_specs={**native, **specs})


def resumed(args: argparse.Namespace, run: model.StoredRun) -> fleet_plan.FleetPlan:
    """Return the plan to go on with: the run's own, with the limits that the options give.

    :raises option_types.OptionError: an option says what is measured.
    """
    values = ((name, getattr(args, name)) for name in _KEPT)
    if given := [name for name, value in values if value not in (None, []) and value is not False]:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise option_types.OptionError(
            f"{named}: run {run.run_id} goes on as it was begun, since its pairs are compared with each other;"
            " leave it out or begin a new run"
        )
    before = fleet_plan.from_dict(run.plan, run.run_id)
    measure, settings, guests = before.measure, before.settings, before.guests
    return dataclasses.replace(
        before,
        measure=dataclasses.replace(measure, time_limit_s=args.pair_time_limit or measure.time_limit_s),
        settings=dataclasses.replace(
            settings,
            max_parallel=args.max_parallel or settings.max_parallel,
            retries=settings.retries if args.retries is None else args.retries,
            time_limit_s=args.time_limit,
        ),
        guests=dataclasses.replace(
            guests,
            boot_s=args.boot_time or guests.boot_s,
            agent_metrics=guests.agent_metrics  # empty: none any more
            if args.agent_metrics is None
            else agent_metrics.checked("--agent-metrics", args.agent_metrics),
        ),
        max_loss=args.max_loss or before.max_loss,
    )


def environment(cloud: str, plan: fleet_plan.FleetPlan, host_group: str | None) -> dict[str, Any]:
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
