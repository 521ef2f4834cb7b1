# SPDX-License-Identifier: Apache-2.0
"""``nova-perf bench list``, ``bench run`` and ``bench parse``."""

import argparse
import dataclasses
import os
import socket

from nova_perf_tuning.cli import command, options
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import base, plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import host_environment, trial
from nova_perf_tuning.validation.report import summary, text


class BenchList(command.PerfCommand):
    """List the benchmarks, what they measure and their parameters."""

    def run_command(self, args: argparse.Namespace) -> None:
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
            print(f"\n{benchmark.kind}")
            parameters = [(f"  {known.name}", known.default, known.help) for known in benchmark.parameters]
            command.print_table(("  parameter", "default", "meaning"), parameters)


class BenchRun(command.PerfCommand):
    """Run one benchmark once on this host, over loopback and in a temporary directory, and show its figures.

    One run is no comparison; 'nova-perf validate' makes one, with guests.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        kind = "benchmark, see 'nova-perf bench list'; with parameters as 'nova-perf validate' takes them"
        options.add(parser, "kind", "KIND[:KEY=VALUE,...]", kind)

    def run_command(self, args: argparse.Namespace) -> None:
        kind, _, given = args.kind.partition(":")
        chosen = base.split(given)
        benchmark = plugins.load(kind)
        plugins.check_installed(benchmark, chosen)
        if benchmark.paired and "port" in benchmark.defaults:
            with socket.socket() as listener:  # for a port that is free
                listener.bind(("127.0.0.1", 0))
                chosen.setdefault("port", str(listener.getsockname()[1]))
        merged = benchmark.merged(chosen)
        job = plugins.Job(benchmark.kind, benchmark, merged)
        steps = benchmark.steps(merged, "127.0.0.1" if benchmark.paired else None)
        environment = host_environment.read()
        environment.benchmarks = {benchmark.kind: environments.Benchmark(parameters=merged)}
        with local.LocalLauncher() as launcher:
            launcher.require(*plugins.needs([job]))
            launcher.prepare()
            outcome = trial.run(job, launcher.host_pair(), sum(step.timeout_s for step in steps))
            environment = environment.updated(launcher.environment())
        if outcome.error:
            raise base.OutputError(outcome.error)
        if os.path.isabs(merged.get("directory", "")):
            environment.scratch_filesystem = launch.filesystem(merged["directory"])
        _show(args, benchmark, merged, outcome.readings, environment)


class BenchParse(command.PerfCommand):
    """Read a benchmark's output from a file (- is stdin) and show its figures."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(parser, "kind", "KIND", "benchmark that printed it, see 'nova-perf bench list'")
        options.add(parser, "file", "FILE", "what it printed on standard output; - is stdin")

    def run_command(self, args: argparse.Namespace) -> None:
        benchmark = plugins.load(args.kind)
        data = options.read(args.file, base.MAX_CHARACTERS)
        _show(args, benchmark, {}, benchmark.parse(data.decode("utf-8", "replace")))


def _show(
    args: argparse.Namespace,
    benchmark: base.Benchmark,
    used: dict[str, str],
    readings: list[base.Reading],
    environment: environments.Environment | None = None,
) -> None:
    warnings = [text.of(why) for why in summary.warnings(environment)] if environment else []
    if args.format == "json":
        shown: dict[str, object] = {
            "benchmark": benchmark.kind,
            "parameters": used,
            "readings": [dataclasses.asdict(reading) for reading in readings],
        }
        if environment is not None:
            shown |= {"environment": environments.to_dict(environment), "warnings": warnings}
        command.print_json(shown)
        return
    rows = []
    for reading in readings:
        better, judged = f"{reading.better} is better", "judged" if reading.primary else ""
        rows.append((reading.metric, text.number(reading.value), reading.unit, better, judged))
    command.print_table(("figure", "value", "unit", "", ""), rows)
    command.say(*warnings, prefix="warning: ")


def _describe(benchmark: base.Benchmark) -> dict[str, object]:
    return {
        **{name: getattr(benchmark, name) for name in ("kind", "summary")},
        **dict(zip(("metric", "unit", "better"), benchmark.primary, strict=True)),
        **{name: getattr(benchmark, name) for name in ("packages", "programs", "paired")},
        "parameters": benchmark.defaults,
    }
