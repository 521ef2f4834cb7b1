# SPDX-License-Identifier: Apache-2.0
"""``nova-perf bench list``."""

import argparse

from nova_perf_tuning.cli import command
from nova_perf_tuning.validation.bench import base, plugins


class BenchList(command.PerfCommand):
    """List the benchmarks, what they measure and their parameters."""

    def take_action(self, args: argparse.Namespace) -> None:
        benchmarks = plugins.load_all()
        if args.format == "json":
            command.print_json({"benchmarks": list(map(_describe, benchmarks))})
            return
        rows = []
        for benchmark in benchmarks:
            installed = "yes"
            try:
                plugins.check_installed(benchmark, {})
            except plugins.MissingProgramError as error:
                installed = f"no: {error}"
            rows.append((benchmark.kind, benchmark.primary[1], installed, benchmark.summary))
        command.print_table(("benchmark", "unit", "installed", "what it measures"), rows)
        for benchmark in benchmarks:
            command.say("", f"{benchmark.kind}")
            parameters = [
                (f"  {known.name}", known.default, known.help) for known in benchmark.parameters
            ]
            command.print_table(("  parameter", "default", "meaning"), parameters)


def _describe(benchmark: base.Benchmark) -> dict[str, object]:
    metric, unit, better = benchmark.primary
    return {
        "kind": benchmark.kind,
        "summary": benchmark.summary,
        "metric": metric,
        "unit": unit,
        "better": better,
        "packages": benchmark.packages,
        "programs": benchmark.programs,
        "paired": benchmark.paired,
        "parameters": benchmark.defaults,
    }
