"""``nova-perf history``: what hosts gave from run to run."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
from typing import TYPE_CHECKING, Any

from nova_perf_tuning import errors
from nova_perf_tuning.cli import command, spec_options

if TYPE_CHECKING:
    from nova_perf_tuning.budget import history


class History(command.PerfCommand):
    """Show what hosts gave from run to run: where they changed, and which differ from their equals.

    Only figures of the same benchmark with the same parameters, in the same arm, on hosts with the same CPU,
    memory, accelerator and guest size are compared. Runs get into the database with 'nova-perf validate
    --history', with --add from results at hand, and by validations of a cloud.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "host", metavar="HOST", nargs="?", help="only this host (its equals count all the same)"
        )
        parser.add_argument(
            "--add", metavar="RESULTS.json", action="append", default=[], help="keep these results"
        )
        parser.add_argument("--benchmark", metavar="NAME", help="only this benchmark")
        parser.add_argument("--arm", metavar="NAME", help="only this arm")
        parser.add_argument("--last", metavar="N", default="100", help="newest runs to look at (default: 100)")
        parser.add_argument(
            "--database",
            metavar="URL",
            help="SQLAlchemy URL (default: $NOVA_PERF_DATABASE, else results.db in the state directory)",
        )

    def run_command(self, args: argparse.Namespace) -> int:
        from nova_perf_tuning.budget import history, store
        from nova_perf_tuning.cli import validate

        last = validate.number("--last", args.last, 1, 100_000)
        loaded = [(path, store.load(path)) for path in args.add]
        for path, results in loaded:
            if "fleet" in results.environment:
                raise spec_options.OptionError(
                    f"--add {path}: these are results of many hosts, which the run itself keeps in its database;"
                    " give results of one host"
                )
        kept = history.History(args.database)
        try:
            for path, results in loaded:
                run_id, new = kept.add(results)
                if args.format != "json":
                    command.say(f"{path}: {'kept as' if new else 'was kept before as'} run {run_id}")
            found = kept.series(args.host, args.benchmark, args.arm, last)
        finally:
            kept.close()
        if args.format == "json":
            command.print_json({"series": [_plain(one) for one in found]})
        else:
            _print(found)
        return int(errors.ExitCode.PASS)


def _print(found: list[history.Series]) -> None:
    from nova_perf_tuning.budget import wording
    from nova_perf_tuning.cli import state

    if not found:
        print("no run of this kind is in the database; 'nova-perf history --add RESULTS.json' keeps one")
        return
    rows = []
    for one in found:
        newest = one.points[-1]
        equals = "-" if one.peers < 2 else f"like its {one.peers - 1} equals"
        if one.outlier is not None:
            word = "above" if one.outlier > 0 else "below"
            equals = f"{abs(one.outlier):.1f} MAD-sigmas {word} {one.peers - 1} equals"
        told = "; ".join(one.told(change) for change in one.changes) or "-"
        value = f"{wording.number(newest.value)} {one.unit}"
        rows.append([one.host, one.benchmark, one.arm, str(len(one.points)), value, told, equals])
    state.print_table(("host", "benchmark", "arm", "runs", "newest", "changes", "among equals"), rows)


def _plain(one: history.Series) -> dict[str, Any]:
    data = dataclasses.asdict(one)
    for point in data["points"]:
        at: datetime.datetime = point["at"]
        point["at"] = at.replace(tzinfo=datetime.UTC).isoformat(timespec="seconds")
    return data
