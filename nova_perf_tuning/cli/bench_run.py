# SPDX-License-Identifier: Apache-2.0
"""``nova-perf bench run``."""

import argparse
import dataclasses
import os
import socket

from nova_perf_tuning import cpulist
from nova_perf_tuning.cli import bench, command, options
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.cli.options import validate as validate_options
from nova_perf_tuning.validation.bench import base, plugins, rt_tests
from nova_perf_tuning.validation.judge import workloads
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import host_environment, trial
from nova_perf_tuning.validation.results import messages, model
from nova_perf_tuning.validation.results.environment import RecordedBenchmark


class BenchRun(command.PerfCommand):
    """Run one benchmark once on this host, over loopback and in a temporary directory, and show its figures.

    A single run compares nothing; 'nova-perf validate' compares guests.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(
            parser,
            "kind",
            "KIND[:KEY=VALUE,...]",
            "benchmark and its parameters, see 'nova-perf bench list'",
            options.benchmark,
        )
        validate_options.add_beside(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        kind, chosen = args.kind
        benchmark = plugins.load(kind)
        plugins.check_installed(benchmark, chosen)
        if benchmark.paired and "port" in benchmark.defaults:
            chosen.setdefault("port", _free_port())
        merged = benchmark.merged(chosen)
        if merged.get("cpus") == rt_tests.PLANNED:
            merged["cpus"] = cpulist.format(host_options.quiet_cpus()).replace(",", "+")
        job = plugins.Job(benchmark.kind, benchmark, merged)
        job = plugins.beside(job, args.beside, os.cpu_count() or 1)
        loads = []
        for load in job.beside:
            parameters = load.parameters
            if load.benchmark.paired:
                parameters = {**load.parameters, "port": _free_port()}
            loads.append(dataclasses.replace(load, parameters=parameters))
        job = dataclasses.replace(job, beside=tuple(loads))
        plugins.check_job(job)
        server = None
        if benchmark.paired:
            server = "127.0.0.1"
        steps = benchmark.steps(merged, server)
        environment = host_environment.read()
        asked = benchmark.asked(merged)
        environment.benchmarks = {
            benchmark.kind: RecordedBenchmark(parameters=job.recorded_parameters, asked=asked)
        }
        with local.LocalLauncher() as launcher:
            launcher.require(*plugins.needs([job]))
            launcher.prepare()
            outcome = trial.run(job, launcher.host_pair(), sum(step.timeout_s for step in steps))
            environment = environment.updated(launcher.environment())
        if not outcome.readings:
            raise base.BenchmarkOutputError(str(outcome.trial.error))
        recorded = environment.benchmarks[benchmark.kind]
        recorded.ran(model.HOST, outcome.workload)
        fault = workloads.fault(recorded, [model.HOST])
        if fault is not None:
            raise base.BenchmarkOutputError(f"{benchmark.kind}: {messages.of(fault)}")
        if os.path.isabs(merged.get("directory", "")):
            environment.scratch_filesystem = launch.filesystem(merged["directory"])
        report = base.BenchmarkReport(workload=dict(outcome.workload))
        used = job.recorded_parameters
        bench.show(args, benchmark, used, outcome.readings, environment, report)


def _free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])
