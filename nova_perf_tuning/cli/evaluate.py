# SPDX-License-Identifier: Apache-2.0
"""``nova-perf evaluate``: a verdict from recorded samples alone."""

import argparse
import dataclasses
from collections.abc import Sequence

from nova_perf_tuning.cli import command, options, result_tables
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.validation.cloud import fleet
from nova_perf_tuning.validation.judge import ablation, budget_file, verdict
from nova_perf_tuning.validation.measure import store
from nova_perf_tuning.validation.measure.reasons import Reason
from nova_perf_tuning.validation.report import data, text


class Evaluate(command.PerfCommand):
    """Judge recorded results by overhead budgets; nothing is run.

    Results of a run over many hosts are judged host by host, as the run itself did.

    Exit code: 0 PASS (all intervals inside their budgets), 1 FAIL (one wholly outside), 2 INCONCLUSIVE (more
    trials are needed), 3 INVALID or error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(parser, "results", "RESULTS.json", "what 'nova-perf validate' wrote")
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
        with result_options.JunitFile(args.junit, args.results) as junit_file:
            return self._judge(args, junit_file)

    def _judge(self, args: argparse.Namespace, junit_file: result_options.JunitFile) -> int:
        budgets = budget_file.load(args.budget)
        results = store.load(args.results)
        results.environment = results.environment.placed(args.host_group, args.flavor)
        left_out = budget_file.left_out(results, budgets)
        hosts, knobs = None, list[ablation.Knob]()
        no_verdict: Reason | None = None
        if results.environment.fleet is not None:
            results, many = fleet.judge(results, budgets)
            judged: Sequence[verdict.Judgement] = many.judgements
            whole, hosts = many.whole or verdict.Verdict.INVALID, many.hosts
        else:
            judged = verdict.judge_all(results, budgets)
            whole, knobs = verdict.overall(judged), ablation.judge(results, budgets)
            no_verdict = None if judged else budget_file.why_none(results)
        why = text.lines([no_verdict] if no_verdict else [])
        junit_file.write(results, judged, args.budget, why)
        if args.format == "json":
            shown = {"verdict": whole.value, **data.verdicts(results, judged, knobs)}
            shown |= data.lines("left_out", left_out) | data.line("why", [no_verdict])
            shown |= {} if hosts is None else {"hosts": list(map(dataclasses.asdict, hosts))}
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
        command.say(*map(text.of, left_out), prefix="note: ")
        result_tables.print_diagnosis(results, judged)
        command.say("", f"{whole.value}")
        return int(whole.exit_code)
