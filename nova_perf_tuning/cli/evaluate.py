"""``nova-perf evaluate``: a verdict from recorded samples alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from nova_perf_tuning.budget import (
    ablation,
    budget_file,
    diagnosis,
    fleet_diagnosis,
    model,
    store,
    text,
    verdict,
)
from nova_perf_tuning.cli import budget_options, command, figures, junit_option
from nova_perf_tuning.cloud import fleet


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
        budget_options.add(parser)
        junit_option.add(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        junit_option.begin(args, args.results)
        budgets = budget_file.load(args.budget)
        results = budget_options.applied(store.load(args.results), args)
        left_out = verdict.left_out(results, budgets)
        if "fleet" in results.environment:
            return _judge_fleet(args, results, budgets, left_out)
        judged = verdict.judge_all(results, budgets)
        whole = verdict.overall(judged)
        why = "" if judged else budget_file.why_none(results)
        advice, knobs = diagnosis.diagnose(results, judged), ablation.judge(results, budgets)
        junit_option.write(args, results, judged, why)
        if args.format == "json":
            data = _as_data(results, judged, whole, advice, left_out)
            command.print_json(data | ({"knobs": list(map(text.knob, knobs))} if knobs else {}))
            return int(whole.exit_code)
        figures.print_findings(results)
        figures.print_verdicts(judged)
        figures.print_ablation(knobs)
        if why:
            command.say(why)
        figures.print_left_out(left_out)
        if advice is not None:
            figures.print_diagnosis(advice)
        print(f"\n{whole.value}")
        return int(whole.exit_code)


def _judge_fleet(
    args: argparse.Namespace, results: model.Results, budgets: list[budget_file.Budget], left_out: list[str]
) -> int:
    results, judged = fleet.judge(results, budgets)
    whole = judged.whole or verdict.Verdict.INVALID
    junit_option.write(args, results, judged.judgements)
    if args.format == "json":
        advice = fleet_diagnosis.diagnose(results.environment)
        data = _as_data(results, judged.judgements, whole, advice, left_out)
        command.print_json(data | {"hosts": [host.as_data() for host in judged.hosts]})
        return int(whole.exit_code)
    figures.print_findings(results)
    figures.print_hosts(judged.hosts, whole)
    figures.print_fleet_diagnosis(results)
    figures.print_left_out(left_out)
    return int(whole.exit_code)


def _as_data(
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    whole: verdict.Verdict,
    advice: diagnosis.Diagnosis | None,
    left_out: list[str],
) -> dict[str, Any]:
    return {
        "verdict": whole.value,
        "culprit": advice.culprit if advice else "",
        "judgements": list(map(text.judgement, judged)),
        "left_out": left_out,
        "findings": diagnosis.spoilt(results),
    }
