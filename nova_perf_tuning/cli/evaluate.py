"""``nova-perf evaluate``: a verdict from recorded samples alone."""

from __future__ import annotations

import argparse
import dataclasses

from nova_perf_tuning.cli import command


class Evaluate(command.PerfCommand):
    """Judge recorded results by overhead budgets; nothing is run.

    Exit code: 0 PASS (all intervals inside their budgets), 1 FAIL (one wholly outside), 2 INCONCLUSIVE (more
    trials are needed), 3 INVALID or error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("results", metavar="RESULTS.json", help="what 'nova-perf validate' wrote")
        parser.add_argument("--budget", metavar="FILE", required=True, help="overhead budgets (YAML)")

    def run_command(self, args: argparse.Namespace) -> int:
        from nova_perf_tuning.budget import store, verdict
        from nova_perf_tuning.cli import figures

        budgets = verdict.load(args.budget)
        judged = verdict.judge_all(store.load(args.results), budgets)
        whole = verdict.overall(judged)
        if args.format == "json":
            found = [dataclasses.asdict(one) for one in judged]
            command.print_json({"verdict": whole.value, "judgements": found})
        else:
            figures.print_verdicts(judged)
            print(f"\n{whole.value}")
        return int(whole.exit_code)
