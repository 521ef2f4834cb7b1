# SPDX-License-Identifier: Apache-2.0
"""``nova-perf verify``."""

import argparse

from nova_perf_tuning import errors
from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.transaction import apply, verify
from nova_perf_tuning.printing import counted


class Verify(command.PerfCommand):
    """Check whether the applied settings still hold.

    States of a setting: holds, drifted, gone, pending, unreadable. A setting holds while it has the
    value that was applied. A drifted setting was changed by another program. A setting is gone if
    its object, such as a guest's thread, no longer exists. A pending interrupt moves the next time
    it fires.

    Exit code: 0 nothing has drifted (interrupts may be pending, and threads may have ended); 1
    drift, another object is gone, or settings of an earlier boot; 3 error, or a setting cannot be
    read.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        journal_options.add_journal(parser)
        parser.add_argument(
            "--all", action="store_true", help="also list settings that hold or are pending"
        )

    def take_action(self, args: argparse.Namespace) -> int:
        with journal_options.open_journal(args) as journal:
            entries = journal.entries()
        boot, kinds = apply.boot_id(args.sysroot), registry.kinds(args.sysroot)
        settings = []
        for entry in entries:
            if not verify.is_ended(entry, boot, kinds):
                settings.append(entry.setting())
        stale = len(entries) - len(settings)
        observations = verify.verify(settings, kinds)
        rows, drift, unreadable = [], False, False
        for setting, observation in zip(settings, observations, strict=True):
            rows.append(journal_options.as_json(setting, observation))
            drift = drift or verify.is_drift(setting, observation, kinds)
            unreadable = unreadable or observation.state is base.State.UNREADABLE
        counts = command.count(observation.state for observation in observations)
        if args.format == "json":
            command.print_json({"settings": rows, "counts": counts, "stale": stale})
        else:
            _show(rows, counts, stale, args.all)
        if unreadable:
            return int(errors.ExitCode.ERROR)
        if drift or stale:
            return int(errors.ExitCode.FAIL)
        return int(errors.ExitCode.PASS)


def _show(
    rows: list[dict[str, object]], counts: dict[str, int], stale: int, everything: bool
) -> None:
    """Print what does not hold, then how many settings there are of each state."""
    head = ("state", "kind", "target", "value", "current", "detail")
    news = [row for row in rows if journal_options.is_news(row)]
    shown, most = news, journal_options.SHOWN
    if everything:
        shown = news + [row for row in rows if row not in news]
        most = len(rows)
    table = [[row[name] for name in head] for row in shown]
    command.print_known(head, table, most, rest="--all")
    if stale:
        settings = counted(stale, "setting")
        command.say(f"no longer in force: {settings} of an earlier boot: run 'nova-perf restore'")
    if rows:
        command.say(command.summary(counts, "setting", journal_options.NEWS))
    else:
        command.say("nothing is applied")
