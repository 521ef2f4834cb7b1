"""``nova-perf bench list``, ``bench run`` and ``bench parse``."""

from __future__ import annotations

import argparse
import dataclasses
import os
import socket
from typing import Any

from nova_perf_tuning import bounded_read, errors
from nova_perf_tuning.cli import command
from nova_perf_tuning.validation.bench import base, plugins
from nova_perf_tuning.validation.bench import parameter as parameters
from nova_perf_tuning.validation.launch import local, programs
from nova_perf_tuning.validation.measure import host_environment, trial
from nova_perf_tuning.validation.report import text


class BenchList(command.PerfCommand):
    """List the benchmarks, what they measure and their parameters."""

    def run_command(self, args: argparse.Namespace) -> int:
        found = plugins.load_all()
        if args.format == "json":
            command.print_json({"benchmarks": [_describe(one) for one in found]})
            return int(errors.ExitCode.PASS)
        rows = []
        for one in found:
            there = f"no: {plugins.how_to_get(one)}" if plugins.missing(one) else "yes"
            rows.append((one.kind, one.primary[1], there, one.summary))
        command.print_table(("benchmark", "unit", "installed", "what it measures"), rows)
        for one in found:
            print(f"\n{one.kind}")
            command.print_table(
                ("  parameter", "default", "meaning"),
                [(f"  {parameter.name}", parameter.default, parameter.help) for parameter in one.parameters],
            )
        return int(errors.ExitCode.PASS)


class BenchRun(command.PerfCommand):
    """Run one benchmark once on this host, over loopback and in a temporary folder, and show its figures.

    One run is no comparison; 'nova-perf validate' makes one, with guests.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "kind",
            metavar="KIND[:KEY=VALUE,...]",
            help="benchmark, see 'nova-perf bench list'; with parameters as 'nova-perf validate' takes them",
        )

    def run_command(self, args: argparse.Namespace) -> int:
        kind, _, given = args.kind.partition(":")
        chosen = parameters.split(given.split(",") if given else ())
        benchmark = plugins.load(kind)
        plugins.check_installed(benchmark, chosen)
        if benchmark.paired and "port" in benchmark.defaults:
            chosen.setdefault("port", str(_free_port()))
        merged = parameters.merge(benchmark.kind, benchmark.defaults, chosen)
        job = plugins.Job(benchmark.kind, benchmark, merged)
        steps = benchmark.steps(merged, "127.0.0.1" if benchmark.paired else None)
        environment = {**host_environment.read(), "benchmarks": {benchmark.kind: {"parameters": merged}}}
        with local.LocalLauncher() as launcher:
            launcher.require(*plugins.needs([job]))
            launcher.prepare()
            outcome = trial.run(job, launcher.host_pair(), sum(step.timeout_s for step in steps))
            environment |= launcher.environment()
        if outcome.error:
            raise base.OutputError(outcome.error)
        if os.path.isabs(merged.get("directory", "")) and not benchmark.files(merged):
            environment["scratch_filesystem"] = programs.filesystem(merged["directory"])
        _show(args, benchmark, merged, outcome.readings, environment)
        return int(errors.ExitCode.PASS)


class BenchParse(command.PerfCommand):
    """Read a benchmark's output from a file (- is stdin) and show its figures."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kind", metavar="KIND", help="benchmark that printed it, see 'nova-perf bench list'")
        parser.add_argument("file", metavar="FILE", help="what it printed on standard output; - is stdin")

    def run_command(self, args: argparse.Namespace) -> int:
        benchmark = plugins.load(args.kind)
        try:
            data = bounded_read.read_argument(args.file, base.MAX_CHARACTERS)
        except OSError as error:
            raise base.OutputError(f"{args.file}: {error.strerror}") from None
        _show(args, benchmark, {}, benchmark.parse(data.decode("utf-8", "replace")))
        return int(errors.ExitCode.PASS)


def _show(
    args: argparse.Namespace,
    benchmark: base.Benchmark,
    used: dict[str, str],
    readings: list[base.Reading],
    environment: dict[str, Any] | None = None,
) -> None:
    warnings = text.environment_warnings(environment) if environment else []
    if args.format == "json":
        told: dict[str, Any] = {"benchmark": benchmark.kind, "parameters": used}
        told["readings"] = [dataclasses.asdict(one) for one in readings]
        if environment is not None:
            told |= {"environment": environment, "warnings": warnings}
        command.print_json(told)
        return
    rows = [
        (
            one.metric,
            text.number(one.value),
            one.unit,
            f"{one.better} is better",
            "judged" if one.primary else "",
        )
        for one in readings
    ]
    command.print_table(("figure", "value", "unit", "", ""), rows)
    command.say(*warnings, prefix="warning: ")


def _describe(benchmark: base.Benchmark) -> dict[str, Any]:
    metric, unit, better = benchmark.primary
    described: dict[str, Any] = {
        "kind": benchmark.kind,
        "summary": benchmark.summary,
        "metric": metric,
        "unit": unit,
    }
    described |= {"better": better, "packages": list(benchmark.packages), "programs": list(benchmark.programs)}
    return {**described, "paired": benchmark.paired, "parameters": dict(benchmark.defaults)}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
