# SPDX-License-Identifier: Apache-2.0
"""``nova-perf status``."""

import argparse
import datetime
import os
from collections.abc import Mapping
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.agent import state as agent_module
from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import verify as verify_module
from nova_perf_tuning.printing import counted


class Status(command.PerfCommand):
    """Show what is applied, since when, by which rule, and what has drifted.

    For what has drifted it names the programs running on this host that are known to write such values
    (irqbalance, tuned, numad, bpftune). What nova-perf-agent says of itself follows (with -f json all of it). Exit
    code 0, also where nothing is applied; 2 where only root may read the journal and the rest is shown; 3 error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        journal_options.add_journal(parser)

    def take_action(self, args: argparse.Namespace) -> int:
        journal = _journal(args)
        agent, fault, code = None, "", ""
        try:
            agent = agent_state(args)
        except agent_module.UnreadableError as error:
            fault, code = str(error), errors.code(error)
        if args.format == "json":
            unreadable = {"running": None, "unreadable": fault, "unreadable_code": code}
            command.print_json({**journal, "agent": unreadable if fault else agent and vars(agent)})
        else:
            _print_journal(journal)
            command.say(*([f"agent: its state cannot be read: {fault}"] if fault else agent_lines(agent)))
        return int(errors.ExitCode.INCONCLUSIVE if journal["journal_fault"] else errors.ExitCode.PASS)


def agent_state(args: argparse.Namespace) -> agent_module.AgentState | None:
    """Return what the agent of the host that the options name says of itself; None where none runs or ran."""
    if args.sysroot == "/":
        return agent_module.read(opts.load(opts.default_files("/")).agent.run_dir)
    root = os.path.realpath(args.sysroot)
    return agent_module.read(os.path.join(root, agent_module.RUN_DIR.lstrip("/")), root)


def _journal(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the journal says, compared with what the host holds; who may not read it gets no settings."""
    try:
        with journal_options.open_journal(args) as journal:
            entries, path = journal.entries(), journal.path
    except journal_module.ForbiddenError as error:
        unknown = dict.fromkeys(("settings", "counts", "stale", "competing_daemons"))
        path = os.path.join(os.path.abspath(journal_options.directory(args)), journal_module.JOURNAL)
        return {**unknown, "journal": path, "journal_fault": str(error), "journal_fault_code": errors.code(error)}
    boot, kinds = apply_module.boot_id(args.sysroot), registry.kinds(args.sysroot)
    current = [entry for entry in entries if not verify_module.is_ended(entry, boot, kinds)]
    observations = verify_module.verify([entry.setting() for entry in current], kinds)
    drifted = any(observation.state is base.State.DRIFTED for observation in observations)
    daemons = verify_module.running_daemons(args.sysroot) if drifted else {}
    rows = [
        _as_json(entry, observation, daemons) for entry, observation in zip(current, observations, strict=True)
    ]
    rows = [row for row in rows if row["applied"] or row["state"] != "holds"]
    return {
        "settings": rows,
        "counts": command.count(observation.state for observation in observations),
        "stale": len(entries) - len(current),
        "competing_daemons": daemons,
        "journal": path,
        "journal_fault": None,
        "journal_fault_code": None,
    }


def _print_journal(journal: Mapping[str, Any]) -> None:
    if journal["journal_fault"]:
        command.say(f"what is applied is not known: the journal was not read: {journal['journal_fault']}")
        return
    head = ("state", "kind", "target", "value", "original", "since", "rule", "detail")
    command.print_rows(head, journal["settings"])
    if journal["stale"]:
        stale = counted(journal["stale"], "setting")
        command.say(f"no longer in force: {stale} of an earlier boot: run 'nova-perf restore'")
    command.say(command.summary(journal["counts"], "setting") if journal["counts"] else "nothing is applied")
    command.say(f"journal: {journal['journal']}")


def agent_lines(agent: agent_module.AgentState | None) -> list[str]:
    if agent is None:
        return ["agent: not running"]
    if not agent.running:
        return [f"agent: process {agent.pid} was killed; what it placed stays, and systemd starts it again"]
    lines = [
        f"agent: process {agent.pid} keeps {agent.settings} settings for {agent.guests} guests, "
        f"state of {agent.age_s:.0f} s ago"
    ]
    lines.append(f"agent: nova.conf: {', '.join(agent.nova_config) or 'none was found'}")
    if agent.skipped:
        lines.append(f"agent: {agent.skipped} passes put off while a command was changing this host")
    if agent.error:
        lines.append(f"agent: cannot work: {agent.error}")
    for finding in agent.findings:
        setting = f"{finding['kind']} {finding['target']}: " if "kind" in finding else ""
        holds = f", holds {finding['current']}" if "current" in finding else ""
        lines.append(f"agent: {setting}{finding['text']}{holds}")
    if (more := sum(agent.findings_total.values()) - len(agent.findings)) > 0:
        lines.append(f"agent: {more} more findings")
    lines += [f"agent: warning: {warning}" for warning in agent.warnings]
    if (more := agent.warnings_total - len(agent.warnings)) > 0:
        lines.append(f"agent: {more} more warnings; 'nova-perf plan --all' shows all")
    return lines


def _as_json(
    entry: journal_module.Entry, observation: base.Observation, daemons: dict[str, int]
) -> dict[str, object]:
    detail = observation.detail
    if observation.state is base.State.DRIFTED:
        who = verify_module.likely_writer(entry.kind, daemons)
        detail = f"holds {observation.current}; may have been written by {who}"
    elif entry.state == "intended":
        detail = detail or "apply was cut short here: apply again or restore"
    return {
        **journal_options.as_json(entry.setting(), observation),
        "original": entry.original,
        "applied": entry.state != "held",
        "interrupted": entry.state == "intended",
        "since": datetime.datetime.fromtimestamp(entry.since).astimezone().isoformat(timespec="seconds"),
        "reason": entry.reason,
        "detail": detail,
    }
