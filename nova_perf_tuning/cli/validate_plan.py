"""The plan of a run over many hosts from the options of ``validate``."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import secrets
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from nova_perf_tuning.cli import spec_options, validate

if TYPE_CHECKING:
    from nova_perf_tuning.cloud import fleet_plan, model

#: What options are when they are not given.
PEERS: Final = 2
PARALLEL: Final = 4
RETRIES: Final = 1
MAX_LOSS: Final = "0.15"
PAIR_LIMIT: Final = "20m"
BOOT: Final = "60s"
_LEAST_SLOT_S = 5


def plan(args: argparse.Namespace, run_id: str) -> fleet_plan.FleetPlan:
    """Return the plan that the options ask for."""
    from nova_perf_tuning.bench import plugins
    from nova_perf_tuning.cloud import agent_metrics, campaign, fleet_plan, heat_pair, model

    default = heat_pair.Settings()
    guests = dataclasses.replace(
        default,
        image=args.image or default.image,
        external_network=args.external_network or "",
        vcpus=_number("--guest-vcpus", args.guest_vcpus or str(default.vcpus), 1, 1024),
        ram_mib=_number("--guest-ram", args.guest_ram or str(default.ram_mib), 128, 1 << 24),
        mtu=_number("--mtu", args.mtu or "0", 0, 65535),
        guest_tx_offload=not args.no_guest_tx_offload,
        slot_s=int(validate.duration("--slot-time", args.slot_time, _LEAST_SLOT_S)) if args.slot_time else 0,
        boot_s=validate.duration("--boot-time", args.boot_time or BOOT),
        agent_metrics=agent_metrics.option("--agent-metrics", args.agent_metrics),
    )
    seconds = _number("--seconds", args.seconds or "10", 1, 3600)
    jobs = plugins.jobs(args.benchmark or validate.DEFAULT_BENCHMARKS, seconds)
    limit_s = validate.duration("--pair-time-limit", args.pair_time_limit or PAIR_LIMIT)
    seed = secrets.randbelow(2**32) if args.seed is None else _number("--seed", args.seed, 0, 2**32 - 1)
    return fleet_plan.FleetPlan(
        arms=_arms(args, guests.vcpus),
        measure=model.MeasurePlan(run_id, tuple(jobs), _number("--blocks", args.blocks or "3", 1, 1000), limit_s),
        settings=campaign.Settings(
            peers=_number("--peers", args.peers or str(PEERS), 1, 1000),
            seed=seed,
            max_parallel=_number("--max-parallel", args.max_parallel or str(PARALLEL), 1, 1000),
            retries=_number("--retries", args.retries or str(RETRIES), 0, 10),
            time_limit_s=_time_limit(args),
        ),
        guests=guests,
        max_loss=_share("--max-loss", args.max_loss or MAX_LOSS),
    )


def _arms(args: argparse.Namespace, vcpus: int) -> tuple[model.Arm, ...]:
    from nova_perf_tuning.cloud import model

    if args.flavor:
        if args.profile or args.spec:
            raise spec_options.OptionError(
                "--flavor: an existing flavor has its specs; leave out --profile and --spec"
            )
        if len(set(args.flavor)) < len(args.flavor):
            raise spec_options.OptionError("--flavor: the same flavor is given twice; name it once")
        return tuple(model.Arm(name, flavor=name) for name in args.flavor)
    wanted, _ = validate.tuned_request(args, vcpus)
    specs = {**spec_options.extra_specs(args.spec), **wanted.extra_specs()}
    return model.Arm("untuned"), model.Arm("tuned", extra_specs={**_native(wanted, specs, vcpus), **specs})


def _native(wanted: Any, specs: dict[str, str], vcpus: int) -> dict[str, str]:
    from nova_perf_tuning.specs import crosscheck

    return crosscheck.needed_native(wanted, specs, {}, vcpus)


def environment(cloud: str, plan: fleet_plan.FleetPlan) -> dict[str, Any]:
    """Return what the results of a run rest on, as far as it is known when it begins."""
    from nova_perf_tuning.budget import session

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
    }


def _time_limit(args: argparse.Namespace) -> float | None:
    return validate.duration("--time-limit", args.time_limit) if args.time_limit else None


def _number(option: str, text: str, low: int, high: int) -> int:
    return validate.number(option, text, low, high)


def _share(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.01 <= value <= 0.9:
        raise spec_options.OptionError(f"{option} '{text[:40]}': give a share from 0.01 to 0.9, such as 0.15")
    return value
