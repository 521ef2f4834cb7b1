# SPDX-License-Identifier: Apache-2.0
"""``nova-perf generate``: configuration that fits a host, for review."""

import argparse

from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.host.audit import generate
from nova_perf_tuning.host.input import novaconf

_WHAT = {"nova-conf": generate.nova_conf, "grub-args": generate.grub_args}


class Generate(command.PerfCommand):
    """Print configuration that fits this host or a recorded one, with comments, and write nothing.

    It uses the CPU sets in nova.conf, or proposes sets if there are none. On each NUMA node the
    host gets the first few cores, depending on the speed of its NICs, and guests get the rest.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "what",
            choices=tuple(_WHAT),
            help="nova-conf: CPU sets and NUMA nodes of networks for nova.conf; "
            "grub-args: arguments for the kernel's command line",
        )
        host_options.add_host(parser)
        host_options.add_path(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        host = host_options.view(args)
        novaconf.cpu_sets(host.nova_files)  # which refuses what is wrong
        text = _WHAT[args.what](host)
        if args.format == "json":
            command.print_json({"what": args.what, "text": text})
        else:
            command.say(*text.splitlines())
