"""Whose an entry of the journal is: the agent's, or a person's who applied it. Neither takes the other's.

Its rule says so. A plan without a file is the agent's also where a command applied it: the agent makes the same.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import base
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import lock

Setting = setting_module.Setting

#: Rules of the planner and of the agent: what stands in the journal under another one was applied by a person.
AGENT_RULES: Final = frozenset(
    (
        "nic-irq-local",
        "nic-irq-nearest",
        "nic-xps",
        "nic-rps",
        "vhost-numa",
        "vhost-spread",
        "emulator-numa",
        "iothread-numa",
        "passthrough-numa",
        "passthrough-vcpu",
        "irqbalance-ban",
    )
)
#: Stands before the rule of what a person took from a plan file.
_FROM_FILE: Final = "file:"


def running_agent(state_dir: str) -> str | None:
    """Return the number of the agent that keeps the host of the journal in ``state_dir``, None where none runs."""
    return lock.holder(os.path.join(state_dir, journal_module.AGENT_LOCK))


def is_agents(entry: journal_module.Entry, boot: str) -> bool:
    """Whether an agent that runs keeps this entry's value: it would write it again after a restore."""
    return entry.rule in AGENT_RULES and entry.is_current(boot)


def from_file(settings: Iterable[Setting]) -> list[Setting]:
    """Return the settings of a plan file as those of the person who applies it: its rules may be the planner's."""
    return [
        dataclasses.replace(one, rule=_FROM_FILE + one.rule) if one.rule in AGENT_RULES else one
        for one in settings
    ]


def split(
    settings: Iterable[Setting],
    kinds: Mapping[str, base.SettingKind],
    entries: Iterable[journal_module.Entry],
    boot: str,
    agent: str,
) -> tuple[list[Setting], list[apply_module.Outcome]]:
    """Return what a person may apply beside the running ``agent``, and what became of the rest.

    What the agent keeps at the value asked for is as asked; at another value, or placed by a rule that is the
    agent's to follow, it is refused: the agent would undo it.
    """
    kept = {(one.kind, one.target): one for one in entries if is_agents(one, boot)}
    free, rest = [], []
    for one in settings:
        entry = kept.get((one.kind, one.target))
        if entry is not None and one.identity and entry.identity not in ("", one.identity):
            entry = None  # its number belongs to another object now
        same = entry is not None and _same(one, entry.wanted, kinds)
        if same and one.rule not in AGENT_RULES:
            detail = f"nova-perf-agent (process {agent}) keeps it so"
            rest.append(apply_module.Outcome(one, apply_module.Result.UNCHANGED, one.current, detail=detail))
        elif same or (entry is None and one.rule not in AGENT_RULES):
            free.append(one)
        else:
            keeps = f"keeps it at {entry.wanted}" if entry is not None else "places these and does not want it"
            stop = "stop it first (systemctl stop nova-perf-agent)"
            detail = f"nova-perf-agent (process {agent}) {keeps} and would undo this: {stop}"
            rest.append(apply_module.Outcome(one, apply_module.Result.OWNED, one.current, detail=detail))
    return free, rest


def _same(one: Setting, kept: str, kinds: Mapping[str, base.SettingKind]) -> bool:
    if one.value == kept:
        return True
    try:
        return one.kind in kinds and kinds[one.kind].holds(one.target, one.value, kept)
    except (errors.PerfTuningError, OSError, ValueError):
        return False  # apply says what is wrong with it
