# SPDX-License-Identifier: Apache-2.0
"""``nova-perf restore``."""

import argparse

from nova_perf_tuning import errors
from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import restore as restore_module
from nova_perf_tuning.host.transaction import verify
from nova_perf_tuning.host.transaction.restore import RestoreResult

#: What a count of these results is called, where the result itself says too little.
_WORDS = {
    RestoreResult.ALREADY.value: "with the original already",
    RestoreResult.STALE.value: "of an earlier boot",
}


class Restore(command.PerfCommand):
    """Put back everything that apply has changed.

    Goes through the journal from the last write to the first. A value that another program has changed since is
    left alone and reported, unless --force. While nova-perf-agent runs, what it keeps stays; stop it first to undo
    everything. What a reboot has undone leaves the journal. It works after a crash in
    the middle of apply or of restore. A second restore does nothing.

    Exit code: 0 all is as it was, except what the agent keeps; 1 something was left alone or failed; 3 error.
    After Ctrl-C (130), SIGTERM or SIGHUP the next restore puts back the rest.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        journal_options.add_journal(parser)
        parser.add_argument(
            "--force",
            action="store_true",
            help="also put back what another program has changed since it was applied",
        )

    def take_action(self, args: argparse.Namespace) -> int:
        privileged.require(args.sysroot)
        with journal_options.open_journal(args, writer=True) as journal:
            boot, kinds = apply_module.boot_id(args.sysroot), registry.kinds(args.sysroot)
            agent = journal_module.running_agent(journal.state_dir)
            current = [entry for entry in journal.entries() if agent and not verify.is_ended(entry, boot, kinds)]
            # It would write these again.
            of_agent = [entry for entry in current if entry.rule in journal_module.AGENT_RULES]
            keys = {entry.key for entry in of_agent}
            done = restore_module.restore(
                journal, kinds, boot, force=args.force, only=lambda entry: entry.key not in keys
            )
        _show(args, done, agent, sum(entry.state != "held" for entry in of_agent))
        kept = any(restoration.result in restore_module.KEPT for restoration in done)
        return int(errors.ExitCode.FAIL if kept else errors.ExitCode.PASS)


def _show(args: argparse.Namespace, done: list[restore_module.Restoration], agent: str | None, kept: int) -> None:
    """:param kept: how many values stay with the agent."""
    counts = command.count(restoration.result for restoration in done)
    rows = [_as_json(restoration) for restoration in done]
    if args.format == "json":
        document = {"pid": agent, "left": kept} if agent else None
        command.print_json({"settings": rows, "counts": counts, "agent": document})
        return
    plain = {result.value for result in (RestoreResult.RESTORED, RestoreResult.ALREADY, RestoreResult.STALE)}
    head = ("result", "kind", "target", "original", "current", "detail")
    command.print_rows(head, (row for row in rows if row["result"] not in plain))
    if RestoreResult.STALE.value in counts:
        print("the host has booted since some of it was applied: nothing of that is left")
    nothing = "nothing else is applied" if kept else "nothing is applied, nothing to restore"
    counts = {_WORDS.get(result, result): number for result, number in counts.items()}
    command.say(command.summary(counts, "setting") if done else nothing)
    if kept:
        command.say(
            f"left to nova-perf-agent (process {agent}), which runs and would write them again: {kept}; to undo "
            "them too, stop it (systemctl stop nova-perf-agent) and restore again"
        )


def _as_json(restoration: restore_module.Restoration) -> dict[str, object]:
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
