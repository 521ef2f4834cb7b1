"""``nova-perf evaluate``: a verdict from recorded samples alone."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nova_perf_tuning.cli import budget_options, command, export_options

if TYPE_CHECKING:
    from nova_perf_tuning.budget import budget_file, model

_SHIPPED = "default"


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
            default=_SHIPPED,
            help=f"overhead budgets (YAML); '{_SHIPPED}' (the default) takes those shipped with this program",
        )
        budget_options.add(parser)
        export_options.add(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        from nova_perf_tuning.budget import ablation, budget_file, diagnosis, noise, store, verdict
        from nova_perf_tuning.cli import figures

        export_options.check(args)
        budgets = budget_file.load(args.budget)
        loaded = store.load(args.results)
        given: dict[str, Any] = {
            name: getattr(args, name) for name in ("host_group", "flavor") if getattr(args, name) is not None
        }
        if args.noise_file is not None:
            given |= noise.for_results(loaded, args.noise_file)
        results = dataclasses.replace(loaded, environment={**loaded.environment, **given})
        if "fleet" in results.environment:
            return _judge_fleet(args, results, budgets)
        judged = verdict.judge_all(results, budgets)
        whole = verdict.overall(judged)
        told = diagnosis.diagnose(results, judged)
        export_options.write(args, results, judged)
        if args.format == "json":
            found = [dataclasses.asdict(one) for one in judged]
            knobs = [dataclasses.asdict(one) for one in ablation.judge(results, budgets)]
            summed = {"verdict": whole.value, "culprit": told.culprit if told else "", "judgements": found}
            command.print_json(summed | ({"knobs": knobs} if knobs else {}))
        else:
            figures.print_verdicts(judged)
            figures.print_ablation(ablation.judge(results, budgets))
            if not judged:
                print("no budget applies to what was measured on this host group and flavor")
            if told is not None:
                figures.print_diagnosis(told)
            print(f"\n{whole.value}")
        return int(whole.exit_code)


def _judge_fleet(args: argparse.Namespace, results: model.Results, budgets: Sequence[budget_file.Budget]) -> int:
    """Print the verdict on every host of a fleet and return the exit code."""
    from nova_perf_tuning.budget import verdict
    from nova_perf_tuning.cli import figures
    from nova_perf_tuning.cloud import fleet, fleet_file

    hosts = fleet_file.judge(results, budgets)
    judged = fleet.overall(hosts)
    whole = judged or verdict.Verdict.INVALID
    again = {
        **results.environment["fleet"],
        "verdict": whole.value,
        "hosts": [one.as_data() for one in hosts],
    }
    told = dataclasses.replace(results, environment={**results.environment, "fleet": again})
    export_options.write(args, told, [])
    if args.format == "json":
        found = [{**one.as_data(), "judgements": list(map(dataclasses.asdict, one.judgements))} for one in hosts]
        command.print_json({"verdict": again["verdict"], "culprit": "", "judgements": [], "hosts": found})
    else:
        figures.print_hosts(hosts, judged)
        if judged is None:
            print(f"no budget applies to what was measured, and too few hosts to compare\n\n{whole.value}")
    return int(whole.exit_code)
