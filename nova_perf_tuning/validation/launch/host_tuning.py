"""The host side of an arm: the planner's settings for these guests alone, applied and undone as a transaction."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.plan import layout, planner
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import restore as restore_module
from nova_perf_tuning.validation.launch import base
from nova_perf_tuning.validation.launch.guest import Guest


class HostTuning:
    """Applies and restores; its journal lies in the run's folder, so a killed run's settings are undone later.

    Only threads of the guests given are touched, never a NIC or another guest.
    """

    def __init__(self, folder: str) -> None:
        """:param folder: of the journal."""
        self._folder = folder
        self._kinds = registry.kinds()

    def apply(self, active: Sequence[Guest], resting: Sequence[Guest]) -> list[dict[str, Any]]:
        """Bring the host settings of ``active`` into force; return each with what became of it.

        :param resting: guests of this run that are paused now: the plan does without them.
        :raises LaunchError: a setting could not be brought into force.
        """
        facts = reader.read_host()
        idle = {guest.process().pid for guest in resting}
        facts.guests = tuple(guest for guest in facts.guests if guest.pid not in idle)
        pids = {guest.process().pid for guest in active}
        plan = planner.plan(facts, layout.CpuSets())
        settings = [one for one in plan.settings if _belongs(one, pids)]
        if not settings:
            return []
        with journal_module.Journal(self._folder, writer=True) as journal:
            outcomes = apply_module.apply(settings, self._kinds, journal, apply_module.boot_id())
        for outcome in outcomes:
            # A thread that ended meanwhile needs no place.
            if outcome.result in apply_module.FAULTS and outcome.result is not apply_module.Result.STALE:
                one = outcome.setting
                raise base.LaunchError(
                    f"host setting {one.kind} {one.target}={one.value}: {outcome.result.value} {outcome.detail}"
                )
        return [
            {
                "kind": outcome.setting.kind,
                "target": outcome.setting.target,
                "value": outcome.setting.value,
                "previous": outcome.previous,
                "result": outcome.result.value,
                "reason": outcome.setting.reason,
            }
            for outcome in outcomes
        ]

    def restore(self) -> None:
        """Put back all that :meth:`apply` changed; nothing to do is no error.

        :raises LaunchError: naming the first setting that could not be put back.
        """
        if not os.path.exists(os.path.join(self._folder, "journal.sqlite")):
            return
        with journal_module.Journal(self._folder, writer=True) as journal:
            done = restore_module.restore(journal, self._kinds, apply_module.boot_id())
        for one in done:
            if one.result is restore_module.RestoreResult.FAILED:
                raise base.LaunchError(f"{one.entry.kind} {one.entry.target} could not be restored: {one.detail}")


def _belongs(one: model.Setting, pids: set[int]) -> bool:
    return one.kind == model.ThreadTarget.kind and model.ThreadTarget.parse(one.target, one.identity).pid in pids
