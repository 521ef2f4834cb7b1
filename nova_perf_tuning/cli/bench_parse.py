# SPDX-License-Identifier: Apache-2.0
"""``nova-perf bench parse``."""

import argparse

from nova_perf_tuning.cli import bench, command, options
from nova_perf_tuning.validation.bench import base, plugins


class BenchParse(command.PerfCommand):
    """Read a benchmark's output from a file (- is stdin) and show its figures."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(parser, "kind", "KIND", "benchmark that printed it, see 'nova-perf bench list'")
        options.add(parser, "file", "FILE", "what it printed on standard output; - is stdin")

    def take_action(self, args: argparse.Namespace) -> None:
        benchmark = plugins.load(args.kind)
        data = options.read(args.file, base.MAX_CHARACTERS)
        output = base.decode(data)
        bench.show(args, benchmark, {}, benchmark.parse(output), remarks=benchmark.remarks(output))
