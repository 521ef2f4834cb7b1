# SPDX-License-Identifier: Apache-2.0
"""``nova-perf evaluate``: a verdict from recorded samples alone."""

import argparse
import dataclasses
from collections.abc import Sequence

from nova_perf_tuning.cli import command, options, result_tables
from nova_perf_tuning.cli.options import output
from nova_perf_tuning.cli.options import outputs as output_options
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.validation.judge import (
    ablation,
    budget_file,
    fleet,
    outputs,
    run_notes,
    verdict,
)
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import data, reason_lines
from nova_perf_tuning.validation.results import messages
from nova_perf_tuning.validation.results.reasons import Reason


class Evaluate(command.PerfCommand):
    """Judge recorded results against overhead budgets, without running anything.

    Results of a run over many hosts are judged host by host, as in the run itself. With --arm it
    judges output files of a benchmark instead, for arms that were measured elsewhere.

    Exit code: 0 PASS (all intervals are inside their budgets); 1 FAIL (an interval is wholly outside
    its budget, or a run exceeds a limit on a maximum such as latency_max); 2 INCONCLUSIVE (more
    boots may decide; over many hosts, more trials); 3 INVALID or error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "results",
            metavar="RESULTS.json",
            nargs="?",
            help="results file written by 'nova-perf validate'",
        )
        output_options.add(parser)
        options.add(
            parser,
            "--budget",
            "FILE",
            f"overhead budgets (YAML, or '{budget_file.SHIPPED}': those shipped with this program; default: "
            f"'{budget_file.SHIPPED}' for RESULTS.json, none with --arm)",
        )
        result_options.add_host_group(parser)
        result_options.add_flavor(parser)
        result_options.add_junit(parser)

    def take_action(self, args: argparse.Namespace) -> int:
        output_options.check(args)
        arms = output_options.arms(args.arm)
        read = arms.files
        if args.budget is None and not args.arm:
            args.budget = budget_file.SHIPPED
        if args.results:
            read.append(args.results)
        output.check([args.junit], [*read, *result_options.budget_files(args.budget)])
        with result_options.JunitFile(args.junit) as junit_file:
            budgets = [] if args.budget is None else budget_file.load(args.budget)
            if args.arm:
                files = outputs.read(args.benchmark, arms.checked())
            else:
                files = outputs.Outputs(results_file.load(args.results))
            return _judge(args, budgets, files, junit_file)


def _judge(
    args: argparse.Namespace,
    budgets: Sequence[verdict.Budget],
    files: outputs.Outputs,
    junit_file: result_options.JunitFile,
) -> int:
    """Judge results, show the verdict and return its exit code."""
    results = files.results
    results.environment = results.environment.placed(args.host_group, args.flavor)
    left_out = budget_file.left_out(results, budgets)
    hosts, knobs = None, list[ablation.Knob]()
    no_verdict: Reason | None = None
    advice: Reason | None = None
    why = ""
    if results.environment.fleet is not None:
        results, many = fleet.judge(results, budgets)
        judged: Sequence[verdict.Judgement] = many.judgements
        whole, hosts = many.whole or verdict.Verdict.INVALID, many.hosts
    else:
        judged = verdict.judge_all(results, budgets, files.mixed)
        whole, knobs = verdict.overall(judged), ablation.judge(results, budgets)
        if not judged:
            no_verdict = budget_file.why_none(results)
            why = messages.of(no_verdict)
            advice = budget_file.how_to_write(results)
    junit_file.write(results, judged, args.budget, why)
    notes = [*run_notes.of(results), *files.notes]
    if args.format == "json":
        shown = {"verdict": whole.value, **data.verdicts(results, judged, knobs)}
        shown.update(reason_lines.lines("left_out", left_out))
        shown.update(reason_lines.lines("notes", notes))
        shown.update(reason_lines.line("why", [no_verdict]))
        if advice is not None:
            shown.update(reason_lines.lines("actions", [advice]))
        if hosts is not None:
            shown["hosts"] = [dataclasses.asdict(host) for host in hosts]
        if args.arm:
            shown["workload"] = files.workload
            shown["remarks"] = list(files.remarks)
        command.print_json(shown)
        return int(whole.exit_code)
    result_tables.print_findings(results)
    if hosts is None:
        result_tables.print_verdicts(judged)
    else:
        result_tables.print_hosts(hosts)
    result_tables.print_ablation(knobs)
    if files.workload:
        workload = [f"{name}: {value}" for name, value in files.workload.items()]
        command.say("; ".join(workload), prefix="workload: ")
    command.say(*files.remarks, prefix="warning: ")
    if why:
        command.say(why)
    for reason in (*notes, *left_out):
        command.say(f"note: {messages.of(reason)}")
    result_tables.print_diagnosis(results, judged)
    if advice is not None:
        command.say("", f"- {messages.of(advice)}")
    command.say("", whole.value)
    return int(whole.exit_code)
