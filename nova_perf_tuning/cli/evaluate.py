# SPDX-License-Identifier: Apache-2.0
"""``nova-perf evaluate``: a verdict from recorded samples alone."""

import argparse
import dataclasses
from collections.abc import Sequence

from nova_perf_tuning.cli import command, options, result_tables
from nova_perf_tuning.cli.options import output
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.validation.judge import ablation, budget_file, fleet, run_notes, verdict
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import data
from nova_perf_tuning.validation.results import messages
from nova_perf_tuning.validation.results.reasons import Reason


class Evaluate(command.PerfCommand):
    """Judge recorded results by overhead budgets; nothing is run.

    Results of a run over many hosts are judged host by host, as the run itself did.

    Exit code: 0 PASS (all intervals inside their budgets), 1 FAIL (one wholly outside), 2
    INCONCLUSIVE (more trials are needed), 3 INVALID or error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(
            parser, "results", "RESULTS.json", "results file written by 'nova-perf validate'"
        )
        options.add(
            parser,
            "--budget",
            "FILE",
            f"overhead budgets (YAML; default: '{budget_file.SHIPPED}', those shipped with this program)",
            default=budget_file.SHIPPED,
        )
        result_options.add_host_group(parser)
        result_options.add_flavor(parser)
        result_options.add_junit(parser)

    def take_action(self, args: argparse.Namespace) -> int:
        output.check([args.junit], [args.results, *result_options.budget_files(args.budget)])
        with result_options.JunitFile(args.junit) as junit_file:
            return self._judge(args, junit_file)

    def _judge(self, args: argparse.Namespace, junit_file: result_options.JunitFile) -> int:
        budgets = budget_file.load(args.budget)
        results = results_file.load(args.results)
        results.environment = results.environment.placed(args.host_group, args.flavor)
        left_out = budget_file.left_out(results, budgets)
        hosts, knobs = None, list[ablation.Knob]()
        no_verdict: Reason | None = None
        why = ""
        if results.environment.fleet is not None:
            results, many = fleet.judge(results, budgets)
            judged: Sequence[verdict.Judgement] = many.judgements
            whole, hosts = many.whole or verdict.Verdict.INVALID, many.hosts
        else:
            judged = verdict.judge_all(results, budgets)
            whole, knobs = verdict.overall(judged), ablation.judge(results, budgets)
            if not judged:
                no_verdict = budget_file.why_none(results)
                why = messages.of(no_verdict)
        junit_file.write(results, judged, args.budget, why)
        if args.format == "json":
            shown = {"verdict": whole.value, **data.verdicts(results, judged, knobs)}
            shown.update(data.lines("left_out", left_out))
            shown.update(data.lines("notes", run_notes.of(results)))
            shown.update(data.line("why", [no_verdict]))
            if hosts is not None:
                shown["hosts"] = [dataclasses.asdict(host) for host in hosts]
            command.print_json(shown)
            return int(whole.exit_code)
        result_tables.print_findings(results)
        if hosts is None:
            result_tables.print_verdicts(judged)
        else:
            result_tables.print_hosts(hosts)
        result_tables.print_ablation(knobs)
        if why:
            command.say(why)
        for reason in (*run_notes.of(results), *left_out):
            command.say(f"note: {messages.of(reason)}")
        result_tables.print_diagnosis(results, judged)
        command.say("", whole.value)
        return int(whole.exit_code)
