# SPDX-License-Identifier: Apache-2.0
"""What ``nova-perf bench run`` and ``bench parse`` show."""

import argparse
import dataclasses

from nova_perf_tuning.cli import command
from nova_perf_tuning.validation.bench import base
from nova_perf_tuning.validation.report import reason_lines, summary, text
from nova_perf_tuning.validation.results import messages
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.results.reasons import Reason


def show(
    args: argparse.Namespace,
    benchmark: base.Benchmark,
    used: dict[str, str],
    readings: list[base.Reading],
    environment: Environment | None = None,
    report: base.BenchmarkReport | None = None,
) -> None:
    """Show a benchmark's figures as the option ``-f`` says, with warnings and all that a report says."""
    warnings: list[Reason] = []
    if environment is not None:
        warnings = summary.warnings(environment)
    if args.format == "json":
        shown: dict[str, object] = {
            "benchmark": benchmark.kind,
            "parameters": used,
            "readings": [dataclasses.asdict(reading) for reading in readings],
        }
        if report is not None:
            shown["workload"] = report.workload
            shown["remarks"] = [
                {"code": code, "text": remark} for code, remark in report.remarks.items()
            ]
            shown["left_out"] = report.left_out
        if environment is not None:
            shown["environment"] = environment.to_dict()
            shown.update(reason_lines.lines("warnings", warnings))
        command.print_json(shown)
        return
    rows = []
    for reading in readings:
        better, judged = f"{reading.better} is better", ""
        if reading.primary:
            judged = "judged"
        rows.append((reading.metric, text.number(reading.value), reading.unit, better, judged))
    command.print_table(("figure", "value", "unit", "", ""), rows)
    for warning in warnings:
        command.say(f"warning: {messages.of(warning)}")
    if report is None:
        return
    workload = [f"{name}: {value}" for name, value in report.workload.items()]
    if workload:
        command.say("; ".join(workload), prefix="workload: ")
    command.say(*report.remarks.values(), prefix="warning: ")
    command.say(*report.left_out, prefix="left out: ")
