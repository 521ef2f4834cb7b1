# SPDX-License-Identifier: Apache-2.0
"""The host side of an arm: the planner's settings for these guests alone, applied and undone as a transaction.

The journal lies in the run's directory, so a killed run's settings are undone later. Only threads of the guests
given are touched, never a NIC or another guest.
"""

import os
from collections.abc import Sequence

from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model import host_model, owners
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import restore as restore_module
from nova_perf_tuning.host.transaction.journal import Journal
from nova_perf_tuning.validation.launch import base
from nova_perf_tuning.validation.launch.guest import GuestMachine
from nova_perf_tuning.validation.results.environment import RecordedSetting


def apply(
    directory: str, active: Sequence[GuestMachine], resting: Sequence[GuestMachine]
) -> list[RecordedSetting]:
    """Bring the host settings of ``active`` into force, and return each with what became of it.

    :param resting: paused guests, which the plan leaves out.
    :raises LaunchError: a setting could not be brought into force.
    """
    facts, thread = _facts(resting), host_model.ThreadTarget
    pids = {guest.process().pid for guest in active}
    settings = [
        setting
        for setting in planner.plan(facts, owners.CpuSets()).settings
        if setting.kind == thread.kind
        and thread.parse(setting.target, setting.identity).pid in pids
    ]
    if not settings:
        return []
    with Journal(directory, writer=True) as journal:
        outcomes = apply_module.apply(settings, registry.kinds(), journal, apply_module.boot_id())
    applied = []
    for outcome in outcomes:
        result, what = (
            outcome.result,
            (outcome.setting.kind, outcome.setting.target, outcome.setting.value),
        )
        # A thread that ended meanwhile needs no CPU.
        if result in apply_module.FAULTS and result is not apply_module.Result.STALE:
            raise base.LaunchError(
                f"host setting {' '.join(what)}: {result.value} {outcome.detail}"
            )
        applied.append(
            RecordedSetting(*what, outcome.previous, result.value, outcome.setting.reason)
        )
    return applied


def _facts(resting: Sequence[GuestMachine]) -> host_model.HostFacts:
    idle = {guest.process().pid for guest in resting}
    facts = reader.read_host()
    facts.guests = tuple(guest for guest in facts.guests if guest.pid not in idle)
    return facts


def picture(resting: Sequence[GuestMachine]) -> str:
    """Return where everything may run on this host now, but paused guests, as SVG."""
    facts = _facts(resting)
    return svg.draw(facts, owners.CpuOwners.of(facts, owners.CpuSets())).decode()


def restore(directory: str) -> None:
    if not os.path.exists(os.path.join(directory, "journal.sqlite")):
        return
    with Journal(directory, writer=True) as journal:
        restored = restore_module.restore(journal, registry.kinds(), apply_module.boot_id())
    for change in restored:
        if change.result is restore_module.RestoreResult.FAILED:
            setting = f"{change.entry.kind} {change.entry.target}"
            raise base.LaunchError(f"{setting} could not be restored: {change.detail}")
