"""``nova-perf status``."""

from __future__ import annotations

import argparse
import collections
import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.agent import guest_cpu
from nova_perf_tuning.agent import state as agent_module
from nova_perf_tuning.cli import command, state
from nova_perf_tuning.host.facts import guests as guests_module
from nova_perf_tuning.host.facts.root import Root
from nova_perf_tuning.host.settings import base, registry
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import rivals as rivals_module
from nova_perf_tuning.host.transaction import verify as verify_module
from nova_perf_tuning.printing import printable


class Status(command.PerfCommand):
    """Show what is applied, since when, by which rule, and what has drifted.

    For what has drifted it names the programs running on this host that are known to write such values
    (irqbalance, tuned, numad, bpftune). What nova-perf-agent says of itself follows, the same that it tells
    Prometheus: what it wrote, how long after events, and the host's CPU time of each guest by class. Exit code 0,
    also where nothing is applied; 2 where only root may read the journal and the rest is shown; 3 error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        state.add_state_options(parser)
        parser.add_argument("--all", action="store_true", help="also list what held already and was never written")

    def run_command(self, args: argparse.Namespace) -> int:
        journal = _journal(args)
        agent = _agent(args)
        guests = _guests(args.sysroot)
        if args.format == "json":
            command.print_json(_encodable({**journal, "agent": agent, "guests": guests}))
        else:
            _print_journal(journal)
            for line in _agent_lines(agent):
                print(line)
            state.print_table(("guest", *(f"{kind}, CPU s" for kind in guest_cpu.KINDS)), _guest_rows(guests))
        return int(errors.ExitCode.INCONCLUSIVE if journal["journal_fault"] else errors.ExitCode.PASS)


def _journal(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the journal says, compared with what the host holds; who may not read it gets no settings."""
    try:
        with state.open_journal(args) as journal:
            entries, path = journal.entries(), journal.path
    except journal_module.ForbiddenError as error:
        unknown = dict.fromkeys(("settings", "counts", "stale", "rivals"))
        path = os.path.join(os.path.abspath(state.where(args)[0]), journal_module.JOURNAL)
        return {**unknown, "journal": path, "journal_fault": str(error)}
    boot = apply_module.boot_id(args.sysroot)
    current = [entry for entry in entries if entry.is_current(boot)]
    found = verify_module.verify([entry.setting() for entry in current], registry.Kinds(args.sysroot))
    drifted = any(seen.state is base.State.DRIFTED for seen in found)
    rivals = rivals_module.running(args.sysroot) if drifted else {}
    rows = [_as_json(entry, seen, rivals) for entry, seen in zip(current, found, strict=True)]
    if not args.all:
        rows = [row for row in rows if row["applied"] or row["state"] != "holds"]
    return {
        "settings": rows,
        "counts": state.count(seen.state for seen in found),
        "stale": len(entries) - len(current),
        "rivals": rivals,
        "journal": path,
        "journal_fault": None,
    }


def _agent(args: argparse.Namespace) -> dict[str, Any] | None:
    try:
        return state.agent_state(args)
    except agent_module.UnreadableError as error:
        return {"running": None, "unreadable": str(error)}


def _encodable(value: Any) -> Any:
    """Return it with what is no UTF-8 in names spelt out: JSON has no other way to say it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(name): _encodable(one) for name, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, list) else value


def _print_journal(journal: Mapping[str, Any]) -> None:
    if journal["journal_fault"]:
        command.say(f"what is applied is not known: the journal was not read: {journal['journal_fault']}")
        return
    head = ("state", "kind", "target", "value", "original", "since", "rule", "detail")
    rows = [[None if row[name] is None else str(row[name]) for name in head] for row in journal["settings"]]
    state.print_table(head, rows)
    if journal["stale"]:
        stale = journal["stale"]
        print(f"{stale} settings are of an earlier boot and in force no more: 'nova-perf restore' forgets them")
    print(state.summary(journal["counts"], "setting") if journal["counts"] else "nothing is applied")
    command.say(f"journal: {journal['journal']}")


def _agent_lines(agent: Mapping[str, Any] | None) -> list[str]:
    """Return what the agent says of itself, for people."""
    if agent is None:
        return ["agent: not running"]
    if "unreadable" in agent:
        return [printable(f"agent: its state cannot be read: {agent['unreadable']}")]
    if not agent["running"]:
        return [f"agent: process {agent.get('pid')} was killed; what it placed stays, start it again"]
    total = sum((agent.get("written") or {}).values())
    age = agent["age_s"]
    lines = [
        f"agent: process {agent['pid']} keeps {agent.get('settings')} settings for {agent.get('guests')} guests, "
        f"{total} writes so far, state of {age:.0f} s ago"
    ]
    if agent.get("late"):
        lines[0] = (
            f"agent: process {agent['pid']} has not reported for {age:.0f} s "
            f"(each {agent['told_within_s']:.0f} s at the latest): it hangs, or its run_dir cannot be written"
        )
    lines += _counted(agent)
    if agent.get("skipped"):
        lines.append(f"agent: {agent['skipped']} passes put off while a command was changing this host")
    if agent.get("error"):
        lines.append(f"agent: cannot work: {agent['error']}")
    if agent.get("libvirt"):
        lines.append(f"agent: libvirt: not connected: {agent['libvirt']}")
    for one in agent.get("findings") or []:
        words = [
            f"{name} {value}" for name, value in one.items() if name not in ("what", "detail", "kind", "target")
        ]
        place = f" {one['kind']} {one['target']}" if "target" in one else ""
        lines.append(f"agent: {one.get('what')}:{place} {one.get('detail', '')} {', '.join(words)}")
    lines += [f"agent: warning: {one}" for one in agent.get("warnings") or []]
    listed = collections.Counter(one.get("what") for one in agent.get("findings") or [])
    for what, number in (agent.get("findings_total") or {}).items():
        if number > listed[what]:
            lines.append(f"agent: {what}: {number - listed[what]} more")
    return [printable(" ".join(line.split())) for line in lines]


def _counted(agent: Mapping[str, Any]) -> list[str]:
    """Return what the agent has counted since its start."""
    placed = agent.get("event_to_placed")
    if placed is None:
        return []

    def by_kind(counts: Mapping[str, int]) -> str:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))
        return f"{sum(counts.values())}{f' ({kinds})' if kinds else ''}"

    lines = [
        f"agent: written {by_kind(agent['written'])}, found changed {by_kind(agent['drifted'])}, put back "
        f"{agent['withdrawn']}; {agent['passes']} passes, {agent['verifies']} full readings, "
        f"{agent['errors']} failed, {agent['cpu_s']:.1f} s of CPU"
    ]
    if placed["count"]:
        half, most = (_within(placed, share) for share in (0.5, 0.99))
        lines.append(
            f"agent: from an event to placed: half {half}, 99 % {most}, mean "
            f"{placed['sum_s'] / placed['count']:.3f} s, of {placed['count']}"
        )
    return lines


def _within(placed: Mapping[str, Any], share: float) -> str:
    for bound, number in placed["within_s"].items():
        if number >= share * placed["count"]:
            return f"within {bound} s"
    return f"later than {bound} s"


def _guests(sysroot: str) -> list[dict[str, Any]]:
    """Return the CPU time of this host's guests by class since they began; of a record's there is none."""
    if sysroot != "/":
        return []
    found = []
    for one in guests_module.read_guests(Root())[0]:
        seconds = guest_cpu.spent(one.pid, one.threads)
        if seconds:
            found.append({"name": one.name, "cpu_s": {kind: round(value, 3) for kind, value in seconds.items()}})
    return found


def _guest_rows(guests: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [[one["name"], *(f"{one['cpu_s'][kind]:.1f}" for kind in guest_cpu.KINDS)] for one in guests]


def _as_json(entry: journal_module.Entry, seen: base.Observation, rivals: dict[str, int]) -> dict[str, object]:
    detail = seen.detail
    if seen.state is base.State.DRIFTED:
        who = rivals_module.likely(entry.kind, rivals)
        detail = f"holds {seen.current}; may have been written by {who}"
    elif entry.state == "intended":
        detail = detail or "apply was cut short here: apply again or restore"
    return {
        "kind": entry.kind,
        "target": entry.target,
        "value": entry.wanted,
        "original": entry.original,
        "current": entry.wanted if seen is base.HELD else seen.current,
        "state": seen.state.value,
        "applied": entry.state != "held",
        "since": _time(entry.since),
        "rule": entry.rule,
        "reason": entry.reason,
        "detail": detail,
    }


def _time(seconds: float) -> str | None:
    """Return a time of the journal; None for what only a damaged one holds."""
    try:
        when = datetime.datetime.fromtimestamp(seconds).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    return when.isoformat(timespec="seconds") if seconds > 0 else None
