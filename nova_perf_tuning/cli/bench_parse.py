# SPDX-License-Identifier: Apache-2.0
"""``nova-perf bench parse``."""

import argparse

from nova_perf_tuning.cli import bench, command, options
from nova_perf_tuning.validation.bench import base, pasted, recognition


class BenchParse(command.PerfCommand):
    """Read a benchmark's output from a file (- is stdin) and show its figures."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "kind",
            metavar="KIND",
            nargs="?",
            help="benchmark that printed the output, see 'nova-perf bench list' (default: "
            "detected)",
        )
        options.add(
            parser, "file", "FILE", "file with the standard output of the benchmark; - is stdin"
        )

    def take_action(self, args: argparse.Namespace) -> None:
        named = None
        if args.kind is not None:
            named = recognition.load_reader(args.kind)
        output = pasted.decode(options.read(args.file, base.MAX_CHARACTERS))
        if named is None:
            benchmark = recognition.recognise(output)
            report = recognition.report(benchmark, output)
        else:
            benchmark = named.reader(output)
            report = recognition.report_as_named(benchmark, output)
        bench.show(args, benchmark, {}, report.readings, report=report)
        if benchmark is not named and args.format != "json":
            command.say(f"read as the output of '{benchmark.kind}'", prefix="note: ")
