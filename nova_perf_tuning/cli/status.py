"""``nova-perf status``."""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Mapping
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.agent import state as agent_module
from nova_perf_tuning.cli import command, journal_options
from nova_perf_tuning.host import guest_cpu
from nova_perf_tuning.host.facts import guests as guests_module
from nova_perf_tuning.host.facts.root import Root
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import rivals as rivals_module
from nova_perf_tuning.host.transaction import verify as verify_module


class Status(command.PerfCommand):
    """Show what is applied, since when, by which rule, and what has drifted.

    For what has drifted it names the programs running on this host that are known to write such values
    (irqbalance, tuned, numad, bpftune). What nova-perf-agent says of itself follows (with -f json all that it
    tells Prometheus: what it wrote, how long after events), and the host's CPU time of each guest by class. Exit
    code 0, also where nothing is applied; 2 where only root may read the journal and the rest is shown; 3 error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        journal_options.add_state_options(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        journal = _journal(args)
        agent = _agent(args)
        guests = _guests(args.sysroot)
        if args.format == "json":
            command.print_json({**journal, "agent": agent, "guests": guests})
        else:
            _print_journal(journal)
            command.say(*_agent_lines(agent))
            rows = [
                [guest["name"], *(f"{seconds:.1f}" for seconds in guest["cpu_s"].values())] for guest in guests
            ]
            command.print_table(("guest", *(f"{kind}, CPU s" for kind in guest_cpu.KINDS)), rows)
        return int(errors.ExitCode.INCONCLUSIVE if journal["journal_fault"] else errors.ExitCode.PASS)


def _journal(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the journal says, compared with what the host holds; who may not read it gets no settings."""
    try:
        with journal_options.open_journal(args) as journal:
            entries, path = journal.entries(), journal.path
    except journal_module.ForbiddenError as error:
        unknown = dict.fromkeys(("settings", "counts", "stale", "rivals"))
        path = os.path.join(os.path.abspath(journal_options.directory(args)), journal_module.JOURNAL)
        return {**unknown, "journal": path, "journal_fault": str(error)}
    boot = apply_module.boot_id(args.sysroot)
    current = [entry for entry in entries if entry.is_current(boot)]
    found = verify_module.verify([entry.setting() for entry in current], registry.kinds(args.sysroot))
    drifted = any(seen.state is base.State.DRIFTED for seen in found)
    rivals = rivals_module.running(args.sysroot) if drifted else {}
    rows = [_as_json(entry, seen, rivals) for entry, seen in zip(current, found, strict=True)]
    rows = [row for row in rows if row["applied"] or row["state"] != "holds"]
    return {
        "settings": rows,
        "counts": command.count(seen.state for seen in found),
        "stale": len(entries) - len(current),
        "rivals": rivals,
        "journal": path,
        "journal_fault": None,
    }


def _agent(args: argparse.Namespace) -> dict[str, Any] | None:
    try:
        return journal_options.agent_state(args)
    except agent_module.UnreadableError as error:
        return {"running": None, "unreadable": str(error)}


def _print_journal(journal: Mapping[str, Any]) -> None:
    if journal["journal_fault"]:
        command.say(f"what is applied is not known: the journal was not read: {journal['journal_fault']}")
        return
    head = ("state", "kind", "target", "value", "original", "since", "rule", "detail")
    command.print_rows(head, journal["settings"])
    if journal["stale"]:
        stale = journal["stale"]
        print(f"{stale} settings are of an earlier boot and in force no more: 'nova-perf restore' forgets them")
    print(command.summary(journal["counts"], "setting") if journal["counts"] else "nothing is applied")
    command.say(f"journal: {journal['journal']}")


def _agent_lines(agent: Mapping[str, Any] | None) -> list[str]:
    """Return what the agent says of itself, for people."""
    if agent is None:
        return ["agent: not running"]
    if "unreadable" in agent:
        return [f"agent: its state cannot be read: {agent['unreadable']}"]
    if not agent["running"]:
        return [f"agent: process {agent.get('pid')} was killed; what it placed stays, start it again"]
    lines = [
        f"agent: process {agent['pid']} keeps {agent.get('settings')} settings for {agent.get('guests')} guests, "
        f"state of {agent['age_s']:.0f} s ago"
    ]
    if agent.get("skipped"):
        lines.append(f"agent: {agent['skipped']} passes put off while a command was changing this host")
    if agent.get("error"):
        lines.append(f"agent: cannot work: {agent['error']}")
    findings = agent.get("findings") or []
    lines += [f"agent: {', '.join(f'{name} {value}' for name, value in one.items())}" for one in findings]
    if (more := sum((agent.get("findings_total") or {}).values()) - len(findings)) > 0:
        lines.append(f"agent: {more} more findings")
    return lines + [f"agent: warning: {one}" for one in agent.get("warnings") or []]


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
        "since": datetime.datetime.fromtimestamp(entry.since).astimezone().isoformat(timespec="seconds"),
        "rule": entry.rule,
        "reason": entry.reason,
        "detail": detail,
    }
