"""``nova-perf report``: the HTML report or a summary of recorded results."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.budget import (
    ablation,
    budget_file,
    model,
    report,
    store,
    summary,
    trial_filter,
    verdict,
)
from nova_perf_tuning.cli import command, junit_option
from nova_perf_tuning.cloud import fleet


class Report(command.PerfCommand):
    """Make the report of recorded results: one HTML file that needs nothing else.

    With -f json the same figures are printed for programs, and HTML is written only if -o is given.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("results", metavar="RESULTS.json", help="what 'nova-perf validate' wrote")
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            help="HTML file (default: report.html beside the results)",
        )
        parser.add_argument("--budget", metavar="FILE", help="show the verdict by these overhead budgets (YAML)")

    def run_command(self, args: argparse.Namespace) -> int:
        path = _output(args)
        if path is not None:
            junit_option.check_output(path, args.results)
        budgets = budget_file.load(args.budget) if args.budget else []
        results = store.load(args.results)
        summaries = summary.summarise(results, limits=trial_filter.limits(budgets))
        if "fleet" in results.environment:
            return _report_fleet(args, path, results, budgets)
        judged = verdict.judge_all(results, budgets)
        knobs = ablation.judge(results, budgets)
        if args.format == "json":
            command.print_json(report.as_json(results, summaries, judged, knobs))
        if path is not None:
            _write(args, path, report.render(results, summaries, judged, knobs))
        return int(errors.ExitCode.PASS)


def _report_fleet(
    args: argparse.Namespace, path: str | None, results: model.Results, budgets: Sequence[budget_file.Budget]
) -> int:
    """Report many hosts: judged again by budgets, host by host; without any, as the file has it."""
    recorded = not args.budget
    judged = None
    if not recorded:
        results, judged = fleet.judge(results, budgets)
    summaries = summary.summarise(results, limits=trial_filter.limits(budgets))
    if args.format == "json":
        data = report.as_json(results, summaries, [])
        if judged is not None:
            data["verdict"] = results.environment["fleet"]["verdict"]
            data["hosts"] = [host.as_data() for host in judged.hosts]
        command.print_json(data)
    if path is not None:
        _write(args, path, report.render(results, summaries, [], recorded=recorded))
    return int(errors.ExitCode.PASS)


def _write(args: argparse.Namespace, path: str, text: str) -> None:
    """Write the HTML and print its name, unless stdout has the JSON."""
    store.write_atomically(path, text)
    if args.format != "json":
        command.say(path)


def _output(args: argparse.Namespace) -> str | None:
    """Return the file for the HTML, None for none."""
    path: str | None = args.output
    if path is not None or args.format == "json":
        return path
    return os.path.join(os.path.dirname(args.results), "report.html")
