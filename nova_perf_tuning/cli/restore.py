# SPDX-License-Identifier: Apache-2.0
"""``nova-perf restore``."""

import argparse
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import errors, printing
from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.transaction import apply, restore, undo_script, verify
from nova_perf_tuning.host.transaction.journal import AGENT_RULES, Entry, Journal, running_agent
from nova_perf_tuning.host.transaction.restore import RestoreResult

#: What a count of these results is called, where the result itself says too little.
_WORDS = {
    RestoreResult.ALREADY.value: "already original",
    RestoreResult.STALE.value: "from an earlier boot",
}


#: Results that the table passes over.
_PLAIN: Final = (
    RestoreResult.RESTORED.value,
    RestoreResult.ALREADY.value,
    RestoreResult.STALE.value,
)


class Restore(command.PerfCommand):
    """Put back everything that apply has changed.

    It goes through the journal from the last write to the first. A value that another program has
    changed since is left alone and reported, unless --force is given. Settings that a running
    nova-perf-agent manages stay; stop the agent first to undo everything. Entries that a reboot has
    undone are removed from the journal. Restore also works after a crash in the middle of apply or
    restore. A second restore does nothing.

    --print changes nothing; it prints a POSIX shell script that does the same without this
    program. Before its first write, apply saves the same script next to the journal as undo.sh: if
    the package is gone, run it with sh.

    Exit code: 0 all is as it was, except what the agent manages; 1 something was left alone or
    failed; 3 error. After Ctrl-C (130), SIGTERM or SIGHUP the next restore puts back the rest.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        journal_options.add_journal(parser)
        parser.add_argument(
            "--print",
            action="store_true",
            dest="print_script",
            help="print a shell script that puts everything back without this program, and change "
            "nothing",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="also put back values that another program has changed since they were applied",
        )

    def take_action(self, args: argparse.Namespace) -> int:
        if args.print_script:
            return _print_script(args)
        privileged.require(args.sysroot)
        with journal_options.open_journal(args, writer=True) as journal:
            boot, kinds = apply.boot_id(args.sysroot), registry.kinds(args.sysroot)
            agent = running_agent(journal.state_dir)
            of_agent: list[Entry] = []
            if agent is not None:
                of_agent = _kept_by_agent(journal, kinds, boot)
            keys = {entry.key for entry in of_agent}
            done = restore.restore(
                journal, kinds, boot, force=args.force, only=lambda entry: entry.key not in keys
            )
        _show(args, done, agent, sum(entry.state != "held" for entry in of_agent))
        if any(restoration.result in restore.KEPT for restoration in done):
            return int(errors.ExitCode.FAIL)
        return int(errors.ExitCode.PASS)


def _print_script(args: argparse.Namespace) -> int:
    with journal_options.open_journal(args) as journal:
        kinds = registry.kinds(args.sysroot)
        text = undo_script.script(journal.entries(), kinds, journal.root, journal.state_dir)
    print(printing.printable(text, "\n\t"), end="")
    return int(errors.ExitCode.PASS)


def _kept_by_agent(
    journal: Journal, kinds: Mapping[str, base.SettingKind], boot: str
) -> list[Entry]:
    """Return the entries of this boot that a running agent would write again."""
    kept = []
    for entry in journal.entries():
        if entry.rule in AGENT_RULES and not verify.is_ended(entry, boot, kinds):
            kept.append(entry)
    return kept


def _show(
    args: argparse.Namespace, done: list[restore.Restoration], agent: str | None, kept: int
) -> None:
    """:param kept: how many values stay with the agent."""
    counts = command.count(restoration.result for restoration in done)
    rows = [_as_json(restoration) for restoration in done]
    if args.format == "json":
        of_agent = None
        if agent:
            of_agent = {"pid": agent, "left": kept}
        command.print_json({"settings": rows, "counts": counts, "agent": of_agent})
        return
    head = ("result", "kind", "target", "original", "current", "detail")
    command.print_rows(head, [row for row in rows if row["result"] not in _PLAIN])
    if RestoreResult.STALE.value in counts:
        print("the host has rebooted since some settings were applied: those settings are gone")
    if done:
        named = {_WORDS.get(result, result): number for result, number in counts.items()}
        command.say(command.summary(named, "setting"))
    elif kept:
        command.say("nothing else is applied")
    else:
        command.say("nothing is applied, nothing to restore")
    if kept:
        command.say(
            f"left to nova-perf-agent (process {agent}), which runs and would write them again: {kept}; to undo "
            "them too, stop it (systemctl stop nova-perf-agent) and restore again"
        )


def _as_json(restoration: restore.Restoration) -> dict[str, object]:
    return {
        "kind": restoration.entry.kind,
        "target": restoration.entry.target,
        "original": restoration.entry.original,
        "value": restoration.entry.wanted,
        "current": restoration.current,
        "result": restoration.result.value,
        "detail": restoration.detail,
        "code": restoration.code,
    }
