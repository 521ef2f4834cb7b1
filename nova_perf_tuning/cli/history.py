"""``nova-perf history``: what hosts gave from run to run."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
from typing import TYPE_CHECKING, Any

from nova_perf_tuning import errors
from nova_perf_tuning.cli import command, rich_text, spec_options

if TYPE_CHECKING:
    from nova_perf_tuning.budget import history


class History(command.PerfCommand):
    """Show what hosts gave from run to run: where they changed, and which differ from their equals.

    Only figures of the same benchmark with the same parameters, in the same arm with the same profile and extra
    specs, on hosts with the same CPU, memory, accelerator and guest size are compared. Runs get into the database
    with 'nova-perf validate --history', with --add from results at hand, and by validations of a cloud.
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
        parser.add_argument(
            "--last", metavar="N", default="100", help="newest runs of each host to look at (default: 100)"
        )
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
    from rich import box, table, text

    from nova_perf_tuning.budget import history, wording

    if not found:
        print("no run of this kind is in the database; 'nova-perf history --add RESULTS.json' keeps one")
        return
    grid = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("host", "benchmark", "arm", "tuning", "runs", "newest", "changes", "among equals"):
        grid.add_column(name, overflow="fold")
    for one, tuning in zip(found, history.tunings(found), strict=True):
        newest = f"{wording.number(one.points[-1].value)} {one.unit}"
        told = "; ".join(wording.change(one, change) for change in one.changes) or "-"
        row = (one.host, one.benchmark, one.arm, tuning, str(len(one.points)), newest, told, _among_equals(one))
        grid.add_row(*(text.Text(command.plain(field)) for field in row))
    rich_text.show(grid)


def _among_equals(one: history.Series) -> str:
    from nova_perf_tuning.budget import trend

    equals = one.peers - 1
    if not one.compared:
        return f"too few equals to compare with: {equals} of at least {trend.LEAST_PEERS - 1}"
    if one.outlier is None:
        return f"like its {equals} equals"
    return f"{abs(one.outlier):.1f} MAD-sigmas {'above' if one.outlier > 0 else 'below'} {equals} equals"


def _plain(one: history.Series) -> dict[str, Any]:
    data = dataclasses.asdict(one)
    for point in data["points"]:
        at: datetime.datetime = point["at"]
        point["at"] = at.replace(tzinfo=datetime.UTC).isoformat(timespec="seconds")
    return data
