"""What the options of ``validate --resume`` change of a run over many hosts, and what they cannot."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from nova_perf_tuning.cli import spec_options, validate_plan

if TYPE_CHECKING:
    from nova_perf_tuning.cloud import fleet_plan, model

_ARMS: Final = ("profile", "spec", "flavor")
_JOBS: Final = ("benchmark", "seconds")


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """What the pairs of a run have in common, so that it stays what it was begun with.

    :ivar options: of the command, as argparse names them; :ivar value: what they make of a plan.
    """

    options: tuple[str, ...]
    value: Callable[[fleet_plan.FleetPlan], Any]


_KEPT: Final = (
    _Kept(("peers",), lambda plan: plan.settings.peers),
    _Kept(("seed",), lambda plan: plan.settings.seed),
    _Kept(("blocks",), lambda plan: plan.measure.trials),
    _Kept(_JOBS, lambda plan: [(job.label, dict(job.parameters)) for job in plan.measure.jobs]),
    _Kept(_ARMS, lambda plan: [(arm.name, arm.flavor, dict(arm.extra_specs)) for arm in plan.arms]),
    _Kept(("image",), lambda plan: plan.guests.image),
    _Kept(("external_network",), lambda plan: plan.guests.external_network),
    _Kept(("guest_vcpus",), lambda plan: plan.guests.vcpus),
    _Kept(("guest_ram",), lambda plan: plan.guests.ram_mib),
    _Kept(("mtu",), lambda plan: plan.guests.mtu),
    _Kept(("no_guest_tx_offload",), lambda plan: plan.guests.guest_tx_offload),
    _Kept(("slot_time",), lambda plan: plan.guests.slot_s),
)


def asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that say together what is compared, as they were given, for :func:`plan`."""
    return {name: getattr(args, name) for name in (*_ARMS, *_JOBS) if _is_given(args, name)}


def plan(args: argparse.Namespace, run: model.StoredRun) -> fleet_plan.FleetPlan:
    """Return the plan to go on with: the run's own, with the limits that the options give.

    :raises spec_options.OptionError: an option would change what is compared, or is no sound value.
    """
    from nova_perf_tuning.cloud import fleet_plan

    before = fleet_plan.from_dict(run.plan, run.run_id)
    filled = argparse.Namespace(**vars(args))
    filled.guest_vcpus = args.guest_vcpus or str(before.guests.vcpus)  # what fits a guest depends on it
    # What makes up arms or benchmarks together is compared together, whichever of it is given again.
    for name, value in run.plan.get("asked", {}).items():
        if not _is_given(args, name) and not (name in _ARMS and args.flavor):
            setattr(filled, name, value)
    if not any(_is_given(args, name) for name in _ARMS):
        filled.profile, filled.spec = args.profile, args.spec
        filled.flavor = ["any"]  # no profile, which these guests may be too small for
    wanted = validate_plan.plan(filled, run.run_id)
    for one in _KEPT:
        given = [name for name in one.options if _is_given(args, name)]
        if given and one.value(wanted) != one.value(before):
            raise _changed(given, run.run_id)
    if args.hosts and args.hosts != run.plan.get("hosts", args.hosts):  # an older version did not note them
        raise _changed(["hosts"], run.run_id)
    if args.host_group and args.host_group != run.environment.get("host_group"):
        raise _changed(["host_group"], run.run_id)
    return _with_limits(args, before, wanted)


def _with_limits(
    args: argparse.Namespace, before: fleet_plan.FleetPlan, wanted: fleet_plan.FleetPlan
) -> fleet_plan.FleetPlan:
    """Return a plan with the options that do not change what is measured."""
    settings = dataclasses.replace(
        before.settings,
        max_parallel=wanted.settings.max_parallel if args.max_parallel else before.settings.max_parallel,
        retries=wanted.settings.retries if args.retries else before.settings.retries,
        time_limit_s=wanted.settings.time_limit_s,
    )
    measure, guests, max_loss = before.measure, before.guests, before.max_loss
    if args.pair_time_limit:
        measure = dataclasses.replace(measure, time_limit_s=wanted.measure.time_limit_s)
    if args.boot_time:
        guests = dataclasses.replace(guests, boot_s=wanted.guests.boot_s)
    if args.agent_metrics is not None:  # empty: none any more
        guests = dataclasses.replace(guests, agent_metrics=wanted.guests.agent_metrics)
    if args.max_loss:
        max_loss = wanted.max_loss
    return dataclasses.replace(before, settings=settings, measure=measure, guests=guests, max_loss=max_loss)


def _is_given(args: argparse.Namespace, name: str) -> bool:
    return bool(getattr(args, name))


def _changed(names: list[str], run_id: str) -> spec_options.OptionError:
    options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
    return spec_options.OptionError(
        f"{options}: not what run {run_id} was begun with, and its pairs are compared with each other; "
        "leave it out or begin a new run"
    )


def check_cloud(run: model.StoredRun, here: str) -> str:
    """Return a warning where it is not certain that ``here`` is the cloud on which the run began.

    :raises nova_perf_tuning.cloud.run_store.RunError: it is another one.
    """
    from nova_perf_tuning.cloud import run_store

    if not run.cloud:
        return f"run {run.run_id} was begun without Keystone: make sure that it was on this cloud"
    if run.cloud != here:
        raise run_store.RunError(
            f"run {run.run_id} was begun on another cloud or project: {run.cloud}; "
            f"this is {here or 'one without Keystone'}"
        )
    return ""
