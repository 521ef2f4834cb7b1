"""``nova-perf restore``."""

from __future__ import annotations

import argparse
import sys

from nova_perf_tuning import errors, interrupt
from nova_perf_tuning.cli import command, state
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.settings import registry
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import restore as restore_module


class Restore(command.PerfCommand):
    """Put back everything that apply has changed.

    Goes through the journal from the last write to the first. A value that somebody else has changed since
    is left alone and reported, unless --force. After a reboot there is nothing to put back: that is said, and
    the journal cleared. Works after a crash in the middle of apply or of restore, and where the disk is full
    or read-only (then the journal stays for a later restore to clear); a second restore does nothing. Exit code
    0 all is as it was, 1 something was left alone or failed or the journal was not cleared, 3 error; 129, 130 or
    143 ended by SIGHUP, Ctrl-C or SIGTERM: the next restore puts back the rest.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        state.add_state_options(parser)
        parser.add_argument(
            "--force",
            action="store_true",
            help="also put back what somebody else has changed since it was applied",
        )

    def run_command(self, args: argparse.Namespace) -> int:
        privileged.require(args.sysroot)
        uncleared = ""
        try:
            with interrupt.Guard(), state.open_journal(args, writer=True, undo=True) as journal:
                done = restore_module.restore(
                    journal, registry.Kinds(args.sysroot), apply_module.boot_id(args.sysroot), force=args.force
                )
        except restore_module.NotClearedError as error:
            done, uncleared = error.done, str(error)
        except interrupt.Interrupted as error:
            print(f"nova-perf restore: {error}; another restore puts back the rest", file=sys.stderr)
            return error.exit_code
        counts = state.count(one.result for one in done)
        if args.format == "json":
            command.print_json({"settings": [_as_json(one) for one in done], "counts": counts})
        else:
            plain = (restore_module.Undone.RESTORED, restore_module.Undone.ALREADY, restore_module.Undone.STALE)
            rows = [
                (one.result.value, one.entry.kind, one.entry.target, one.entry.original, one.current, one.detail)
                for one in done
                if one.result not in plain
            ]
            state.print_table(("result", "kind", "target", "original", "found", "detail"), rows)
            if restore_module.Undone.STALE.value in counts:
                print("the host has booted since some of it was applied: those originals are back by themselves")
            print(state.summary(counts, "setting") if done else "nothing is applied, nothing to restore")
        if uncleared:
            print(f"nova-perf restore: {uncleared}", file=sys.stderr)
        kept = uncleared or any(one.result in restore_module.KEPT for one in done)
        return int(errors.ExitCode.FAIL if kept else errors.ExitCode.PASS)


def _as_json(one: restore_module.Restoration) -> dict[str, object]:
    return {
        "kind": one.entry.kind,
        "target": one.entry.target,
        "original": one.entry.original,
        "value": one.entry.wanted,
        "current": one.current,
        "result": one.result.value,
        "detail": one.detail,
    }
