"""``nova-perf evaluate``: a verdict from recorded samples alone."""

import argparse
import dataclasses
from collections.abc import Sequence

from nova_perf_tuning.cli import command, judge_options, result_tables
from nova_perf_tuning.validation.cloud import fleet
from nova_perf_tuning.validation.judge import ablation, budget_file, verdict
from nova_perf_tuning.validation.measure import store
from nova_perf_tuning.validation.report import data, text


class Evaluate(command.PerfCommand):
    """Judge recorded results by overhead budgets; nothing is run.

    Results of a run over many hosts are judged host by host, as the run itself did.

    Exit code: 0 PASS (all intervals inside their budgets), 1 FAIL (one wholly outside), 2 INCONCLUSIVE (more
    trials are needed), 3 INVALID or error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("results", metavar="RESULTS.json", help="what 'nova-perf validate' wrote")
        parser.add_argument(
            "--budget",
            metavar="FILE",
            default=budget_file.SHIPPED,
            help=f"overhead budgets (YAML; default: '{budget_file.SHIPPED}', those shipped with this program)",
        )
        judge_options.add_places(parser)
        judge_options.add_junit(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        judge_options.begin_junit(args.junit, args.results)
        budgets = budget_file.load(args.budget)
        results = judge_options.with_places(store.load(args.results), args.host_group, args.flavor)
        left_out = budget_file.left_out(results, budgets)
        many: fleet.FleetVerdict | None = None
        why, knobs = "", []
        if results.environment.fleet is not None:
            results, many = fleet.judge(results, budgets)
            judged: Sequence[verdict.Judgement] = many.judgements
            whole = many.whole or verdict.Verdict.INVALID
        else:
            judged = verdict.judge_all(results, budgets)
            whole, knobs = verdict.overall(judged), ablation.judge(results, budgets)
            why = "" if judged else text.of(budget_file.why_none(results))
        judge_options.write_junit(args.junit, results, judged, args.budget, why)
        if args.format == "json":
            shown = {"verdict": whole.value, **data.verdicts(results, judged, knobs)}
            shown |= data.lines("left_out", left_out)
            shown |= {"hosts": [dataclasses.asdict(host) for host in many.hosts]} if many else {}
            command.print_json(shown)
            return int(whole.exit_code)
        result_tables.print_findings(results)
        if many is not None:
            result_tables.print_hosts(many.hosts)
        else:
            result_tables.print_verdicts(judged)
        result_tables.print_ablation(knobs)
        if why:
            command.say(why)
        command.say(*map(text.of, left_out), prefix="note: ")
        result_tables.print_diagnosis(results, judged)
        print(f"\n{whole.value}")
        return int(whole.exit_code)
