# SPDX-License-Identifier: Apache-2.0
"""``nova-perf status``."""

import argparse
import dataclasses
import datetime
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.agent import forecast, state
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.input.facts import writers
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.transaction import apply, verify
from nova_perf_tuning.host.transaction.journal import JOURNAL, Entry, ForbiddenError
from nova_perf_tuning.printing import counted

_DAY_S: Final = 86400.0
#: From that many seconds of observation on, a rate is shown.
_RATE_S: Final = 3600.0


class Status(command.PerfCommand):
    """Show what has drifted, how many settings are applied, and what the agent is doing.

    If settings have drifted, it names running programs that are known to write such values, such
    as irqbalance and TuneD. Then it shows the state of nova-perf-agent, in full with
    -f json. If the agent only observes, --since lists what it would have written, when and why.

    Exit code: 0, even if nothing is applied; 2 if only root may read the journal (the rest is
    shown); 3 error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        journal_options.add_journal(parser)
        parser.add_argument(
            "--all",
            action="store_true",
            help="list every setting with its original, its rule and when it was applied; with "
            "--since also list every change",
        )
        parser.add_argument(
            "--since",
            metavar="TIME",
            type=options.duration(60),
            help="also list what an observing agent would have written in the last TIME, such as 8h "
            "or 7d",
        )

    def take_action(self, args: argparse.Namespace) -> int:
        journal = _journal(args)
        agent: state.AgentState | None = None
        unreadable: state.UnreadableError | None = None
        try:
            agent = agent_state(args)
        except state.UnreadableError as error:
            unreadable = error
        past: _Past | None = None
        if args.since is not None:
            past = _past(args)
        if args.format == "json":
            document = {**journal, "agent": _agent_as_json(agent, unreadable)}
            if past is not None:
                document["forecast"] = [_change_as_json(change) for change in past.changes]
            command.print_json(document)
        else:
            _print_journal(journal, args.all)
            if unreadable is not None:
                command.say(f"agent: its state cannot be read: {unreadable}")
            else:
                command.say(*agent_lines(agent))
            if past is not None:
                _print_past(past, args.all)
        if journal["journal_fault"]:
            return int(errors.ExitCode.INCONCLUSIVE)
        return int(errors.ExitCode.PASS)


@dataclasses.dataclass(frozen=True, slots=True)
class _Past:
    """What an observer would have written in the time that was asked for.

    :ivar begin: when that time began, or when the observer made its first pass, if later; :ivar
        seconds: since then.
    """

    changes: Sequence[forecast.DueChange]
    begin: float
    seconds: float


def _past(args: argparse.Namespace) -> _Past:
    inside = ""
    if args.sysroot != "/":
        inside = os.path.realpath(args.sysroot)
    path = os.path.join(journal_options.directory(args), forecast.FILE)
    now = time.time()
    begin = now - args.since
    everything = forecast.read(path, inside)
    chosen: list[forecast.DueChange] = []
    for change in everything:
        if change.until is None or change.until >= begin:
            chosen.append(change)
    first = min((change.since for change in everything), default=now)
    begin = max(begin, first)
    return _Past(chosen, begin, now - begin)


def _print_past(past: _Past, everything: bool) -> None:
    """Print the rules first, with how often and since when, then the changes that are still due.

    :param everything: print all changes, not the first few.
    """
    if not past.changes:
        command.say("forecast: nothing would have been written in that time")
        return
    by_rule: dict[str, list[forecast.DueChange]] = {}
    for change in past.changes:
        by_rule.setdefault(change.rule, []).append(change)
    rows: list[dict[str, object]] = []
    for rule, members in sorted(by_rule.items()):
        due = [change.since for change in members if change.until is None]
        oldest = ""
        if due:
            oldest = _local(min(due))
        # What the first pass found is no news, and a rate needs some time.
        a_day: str | None = None
        if past.seconds >= _RATE_S:
            new = [change for change in members if change.since > past.begin]
            a_day = f"{len(new) / past.seconds * _DAY_S:.1f}"
        rows.append(
            {
                "rule": rule,
                "due": len(due),
                "in all": len(members),
                "new a day": a_day,
                "oldest due since": oldest,
            }
        )
    command.say("forecast: what the agent would write")
    command.print_rows(("rule", "due", "in all", "new a day", "oldest due since"), rows)
    head = ("rule", "kind", "target", "held", "value", "since", "until")
    most = None
    if not everything:
        most = journal_options.SHOWN
    command.print_rows(head, [_change_as_json(change) for change in past.changes], most=most)


def _change_as_json(change: forecast.DueChange) -> dict[str, object]:
    until = None
    if change.until is not None:
        until = _local(change.until)
    return {**dataclasses.asdict(change), "since": _local(change.since), "until": until}


def _local(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


def agent_state(args: argparse.Namespace) -> state.AgentState | None:
    """Return what the agent of the host that the options name says of itself; None where none runs or ran."""
    if args.sysroot == "/":
        return state.read(opts.load(opts.default_files("/")).agent.run_dir)
    root = os.path.realpath(args.sysroot)
    return state.read(os.path.join(root, state.RUN_DIR.lstrip("/")), root)


def _journal(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the journal says, compared with what the host holds; who may not read it gets no settings."""
    try:
        with journal_options.open_journal(args) as journal:
            entries, path = journal.entries(), journal.path
    except ForbiddenError as error:
        directory = os.path.abspath(journal_options.directory(args))
        return {
            "settings": None,
            "counts": None,
            "stale": None,
            "competing_daemons": None,
            "journal": os.path.join(directory, JOURNAL),
            "journal_fault": str(error),
            "journal_fault_code": errors.code(error),
        }
    boot, kinds = apply.boot_id(args.sysroot), registry.kinds(args.sysroot)
    current = [entry for entry in entries if not verify.is_ended(entry, boot, kinds)]
    observations = verify.verify([entry.setting() for entry in current], kinds)
    daemons: dict[str, int] = {}
    files: list[writers.Writer] = []
    if any(observation.state is base.State.DRIFTED for observation in observations):
        daemons = verify.running_daemons(args.sysroot)
        files = verify.file_writers(args.sysroot)
    rows = []
    for entry, observation in zip(current, observations, strict=True):
        row = _as_json(entry, observation, daemons, files)
        if row["applied"] or row["state"] != "holds":
            rows.append(row)
    return {
        "settings": rows,
        "counts": command.count(observation.state for observation in observations),
        "stale": len(entries) - len(current),
        "competing_daemons": daemons,
        "journal": path,
        "journal_fault": None,
        "journal_fault_code": None,
    }


def _print_journal(journal: Mapping[str, Any], everything: bool) -> None:
    """Print what is not as it was applied, then how many settings are."""
    if journal["journal_fault"]:
        command.say(
            f"the applied settings are not known, since the journal was not read: {journal['journal_fault']}"
        )
        return
    news = [row for row in journal["settings"] if journal_options.is_news(row)]
    _print_news(news, everything)
    if everything and journal["settings"]:
        if news:
            print()
        head = ("state", "setting", "value", "original", "rule", "since")
        command.print_table(head, [_row(row) for row in journal["settings"]])
    if journal["stale"]:
        stale = counted(journal["stale"], "setting")
        command.say(f"no longer in force: {stale} of an earlier boot: run 'nova-perf restore'")
    if journal["counts"]:
        line = command.summary(journal["counts"], "setting", journal_options.NEWS)
        if not everything:
            line += "; --all lists them"
        command.say(line)
    else:
        command.say("nothing is applied")
    command.say(f"journal: {journal['journal']}")


def _print_news(news: Sequence[Mapping[str, Any]], everything: bool) -> None:
    """Print settings that are not as they were applied; a detail of several in turn is said once."""
    rows: list[list[object]] = []
    last_detail = ""
    for setting in news:
        detail = setting["detail"]
        if detail and detail == last_detail:
            detail = "as above"
        last_detail = setting["detail"]
        rows.append([setting[name] for name in ("state", "kind", "target", "value")] + [detail])
    most = None
    if not everything:
        most = journal_options.SHOWN
    head = ("state", "kind", "target", "value", "detail")
    command.print_table(head, rows, most=most, rest="--all")


def _row(setting: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        setting["state"],
        f"{setting['kind']} {setting['target']}",
        setting["value"],
        setting["original"],
        setting["rule"],
        setting["since"][: len("2026-11-29T21:03")].replace("T", " "),
    )


def _agent_as_json(
    agent: state.AgentState | None, unreadable: state.UnreadableError | None
) -> dict[str, Any] | None:
    if unreadable is not None:
        return {
            "running": None,
            "unreadable": str(unreadable),
            "unreadable_code": errors.code(unreadable),
        }
    if agent is None:
        return None
    return vars(agent)


def agent_lines(agent: state.AgentState | None) -> list[str]:
    if agent is None:
        return ["agent: not running"]
    if not agent.running:
        return [
            f"agent: process {agent.pid} was killed; what it placed stays, and systemd starts it again"
        ]
    if agent.mode == "observe":
        named = ", ".join(f"{rule} {count}" for rule, count in sorted(agent.would_change.items()))
        due = sum(agent.would_change.values())
        lines = [
            f"agent: process {agent.pid} observes and writes nothing; it would change {due} of "
            f"{agent.settings} settings for {agent.guests} guests, as of {agent.age_s:.0f} s ago"
        ]
        if due:
            lines.append(f"agent: would change: {named}; --since 7d lists them")
        return lines + _agent_notes(agent)
    lines = [
        f"agent: process {agent.pid} manages {agent.settings} settings for {agent.guests} guests, "
        f"as of {agent.age_s:.0f} s ago",
    ]
    return lines + _agent_notes(agent)


def _agent_notes(agent: state.AgentState) -> list[str]:
    """Return what is to be said of a running agent in any mode, what is wrong first."""
    lines: list[str] = []
    if agent.error:
        lines.append(f"agent: cannot work: {agent.error}")
    for finding in agent.findings:
        lines.append(f"agent: {_finding_text(finding)}")
    more_findings = sum(agent.findings_total.values()) - len(agent.findings)
    if more_findings > 0:
        lines.append(f"agent: {more_findings} more findings")
    for condition in agent.conditions:
        since = condition["lastTransitionTime"]
        lines.append(
            f"agent: {condition['type']}: {condition['status']} since {since} "
            f"({condition['reason']}): {condition['message']}"
        )
    for warning in agent.warnings:
        lines.append(f"agent: warning: {warning}")
    more_warnings = agent.warnings_total - len(agent.warnings)
    if more_warnings > 0:
        lines.append(f"agent: {more_warnings} more warnings; 'nova-perf plan --all' shows all")
    if agent.skipped:
        lines.append(
            f"agent: {agent.skipped} passes postponed while a command was changing this host"
        )
    lines.append(f"agent: nova.conf: {', '.join(agent.nova_config) or 'none was found'}")
    return lines


def _finding_text(finding: Mapping[str, Any]) -> str:
    text = str(finding["text"])
    if "kind" in finding:
        text = f"{finding['kind']} {finding['target']}: {text}"
    if "current" in finding:
        text = f"{text}, holds {finding['current']}"
    return text


def _as_json(
    entry: Entry,
    observation: base.Observation,
    daemons: dict[str, int],
    files: Sequence[writers.Writer],
) -> dict[str, object]:
    detail = observation.detail
    if observation.state is base.State.DRIFTED:
        who = verify.likely_writer(entry.kind, daemons, files)
        detail = f"holds {observation.current}; may have been written by {who}"
        if observation.current == entry.original:
            detail = (
                f"holds its original, {entry.original}, again; put back by undo.sh or {who}; 'nova-perf"
                " restore' removes it from the journal"
            )
    elif entry.state == "intended":
        detail = detail or "apply was cut short here: apply again or restore"
    return {
        **journal_options.as_json(entry.setting(), observation),
        "original": entry.original,
        "applied": entry.state != "held",
        "interrupted": entry.state == "intended",
        "since": _local(entry.since),
        "reason": entry.reason,
        "detail": detail,
    }
