# SPDX-License-Identifier: Apache-2.0
"""``nova-perf record``: this host as a file for ``--sysroot``."""

import argparse

from nova_perf_tuning.cli import command
from nova_perf_tuning.host.input import record


class Record(command.PerfCommand):
    """Record this host in a file that other commands can read with --sysroot on any machine.

    The file describes CPUs, NUMA nodes, PCI and network devices, queues and interrupts. It also contains the CPU sets
    of nova.conf, the options of the kernel's command line that isolate CPUs, and the names, pins, devices, perf:
    requests and threads of guests.

    It does not contain command lines of processes, environments, MAC or IP addresses, UUIDs, serial numbers, disks, or
    titles and owners of guests. Names of network devices and libvirt's names of guests are kept.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file",
            metavar="FILE.tar.xz",
            help="file to write; it is written completely or not at all",
        )

    def take_action(self, args: argparse.Namespace) -> None:
        size = record.record(args.file)
        if args.format == "json":
            command.print_json({"file": args.file, "bytes": size})
        else:
            command.say(
                f"{args.file}: {size} bytes; show it with: nova-perf topology --sysroot {args.file}"
            )
