# SPDX-License-Identifier: Apache-2.0
"""``nova-perf report``: the HTML report or a summary of recorded results."""

import argparse
import dataclasses
import os
from collections.abc import Sequence

from nova_perf_tuning.cli import command, options
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.validation.cloud import fleet
from nova_perf_tuning.validation.judge import ablation, budget_file, verdict
from nova_perf_tuning.validation.measure import schema, store
from nova_perf_tuning.validation.report import ndjson, report, summary

_MAX_AUDIT = 4 << 20


class Report(command.PerfCommand):
    """Make the report of recorded results: one HTML file that needs nothing else.

    With -f json the same figures are printed for programs. With -f json or --ndjson HTML is written only where -o
    is given.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("results", metavar="RESULTS.json", nargs="?", help="what 'nova-perf validate' wrote")
        parser.add_argument(
            "--audits",
            metavar="HOST.json",
            nargs="+",
            default=[],
            help="instead: what 'nova-perf audit -f json' printed on many hosts, each file called after its host",
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            help="HTML file (default: report.html beside the results)",
        )
        options.add(parser, "--budget", "FILE", "show the verdict by these overhead budgets (YAML)")
        options.add(
            parser, "--ndjson", "FILE", "write a JSON document a trial, one a line, for OpenSearch and the like"
        )

    def take_action(self, args: argparse.Namespace) -> None:
        if bool(args.audits) == bool(args.results):
            raise options.OptionError("give RESULTS.json or --audits, and not both")
        path = args.output
        if args.audits:
            _report_audits(args.audits, path or os.path.join(os.path.dirname(args.audits[0]), "report.html"))
            return
        if path is None and args.format != "json" and args.ndjson is None:
            path = os.path.join(os.path.dirname(args.results), "report.html")
        for output in filter(None, (path, args.ndjson)):
            result_options.check_output(output, args.results)
        budgets = budget_file.load(args.budget) if args.budget else []
        results = store.load(args.results)
        recorded, hosts = False, None
        judged, knobs = list[verdict.Judgement](), list[ablation.Knob]()
        if results.environment.fleet is None:
            judged, knobs = verdict.judge_all(results, budgets), ablation.judge(results, budgets)
        elif args.budget:  # judged again, host by host
            results, hosts = fleet.judge(results, budgets)
        else:
            recorded = True
        summaries = summary.summarise(results, limits=budget_file.limits(budgets))
        if args.format == "json":
            data = report.as_json(results, summaries, judged, knobs)
            if hosts is not None:
                data["verdict"] = hosts.whole and hosts.whole.value
                data["hosts"] = [dataclasses.asdict(host) for host in hosts.hosts]
            command.print_json(data)
        if path is not None:
            store.write_atomically(path, report.render(results, summaries, judged, knobs, recorded=recorded))
        if args.ndjson is not None:
            environment = results.environment
            hosts_of = (
                fleet.Places(environment).ran_on if environment.fleet else lambda _: (environment.host, None)
            )
            lines = ndjson.lines(results, summary.excluded(summaries), hosts_of)
            store.write_atomically(args.ndjson, "".join(lines))
        if args.format != "json":
            command.say(*filter(None, (path, args.ndjson)))


def _report_audits(files: Sequence[str], path: str) -> None:
    audits = {}
    for file in files:
        result_options.check_output(path, file)
        host = os.path.basename(file).removesuffix(".json")
        if host in audits:
            raise options.OptionError(f"--audits {file}: '{host}' is given twice; call each file after its host")
        audits[host] = schema.load_json(file, _MAX_AUDIT)
        schema.check("report", audits[host], file, "nova_perf_tuning.host.audit")
    store.write_atomically(path, report.render_audits(audits))
    command.say(path)
