# SPDX-License-Identifier: Apache-2.0
"""``nova-perf history``: what hosts gave from run to run."""

import argparse
import dataclasses
import datetime
from typing import TYPE_CHECKING, Any

from nova_perf_tuning.cli import command, options
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import reason_lines, text
from nova_perf_tuning.validation.results import messages

if TYPE_CHECKING:
    from nova_perf_tuning.validation.store import history


class History(command.PerfCommand):
    """Show how the figures of hosts changed from run to run.

    Figures are compared only if benchmark, parameters, arm, profile, extra specs, CPU, memory,
    accelerator, guest size and collectors are the same. --add and 'openstack perf validate' add
    runs to the database.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "host", metavar="HOST", nargs="?", help="host to show (default: all hosts)"
        )
        options.add_repeated(
            parser, "--add", "RESULTS.json", "results file to add to the database"
        )
        options.add(parser, "--benchmark", "NAME", "benchmark to show (default: all)")
        options.add(parser, "--arm", "NAME", "arm to show (default: all)")
        options.add_repeated(parser, "--tag", "KEY=VALUE", "tag of the runs to show")
        options.add(
            parser,
            "--database",
            "URL",
            "SQLAlchemy URL of the database (default: $NOVA_PERF_DATABASE, else results.db in the "
            "state directory)",
        )

    def take_action(self, args: argparse.Namespace) -> None:
        from nova_perf_tuning.validation.store import engine as database
        from nova_perf_tuning.validation.store import history  # brings SQLAlchemy

        loaded = [(path, results_file.load(path)) for path in args.add]
        for path, results in loaded:
            if results.environment.fleet is not None:
                raise options.OptionError(
                    f"--add {path}: these are results of many hosts, which the run itself keeps in its database;"
                    " give results of one host"
                )
        tags = options.tags(args)
        engine = database.connect(args.database, make=bool(args.add))
        try:
            for path, results in loaded:
                run_id, new = history.add(engine, results)
                if args.format != "json":
                    kept = "was kept before as"
                    if new:
                        kept = "kept as"
                    command.say(f"{path}: {kept} run {run_id}")
            series = history.series(engine, args.host, args.benchmark, args.arm, tags)
        finally:
            engine.dispose()
        if args.format == "json":
            command.print_json({"series": list(map(_plain, series))})
        else:
            _print(series)


def _print(series: "list[history.Series]") -> None:
    if not series:
        print(
            "no run of this kind is in the database; 'nova-perf history --add RESULTS.json' keeps one"
        )
    head = ("host", "benchmark", "arm", "tuning", "runs", "newest", "changes")
    rows = []
    for line in series:
        newest = f"{text.number(line.points[-1].value)} {line.unit}"
        changes = messages.lines(map(line.change, line.changes)) or None
        rows.append(
            (line.host, line.benchmark, line.arm, line.tuning, len(line.points), newest, changes)
        )
    command.print_table(head, rows, limit=200)


def _plain(series: "history.Series") -> dict[str, Any]:
    row = dataclasses.asdict(series)
    for point in row["points"]:
        at: datetime.datetime = point["at"]
        point["at"] = at.replace(tzinfo=datetime.UTC).isoformat(timespec="seconds")
    for shown, change in zip(row["changes"], series.changes, strict=True):
        shown |= reason_lines.line("text", [series.change(change)])
    return row
