# SPDX-License-Identifier: Apache-2.0
"""``openstack perf admit``: hosts are validated, admitted and quarantined by a policy."""

import argparse
from typing import Final

from nova_perf_tuning.cli import cloud_command, options

_INTERVAL_S: Final = 60.0


class Admit(cloud_command.CloudCommand):
    """Keep each compute host in the state that its validation has earned, by a policy.

    A host that Nova registered disabled is brought behind an aggregate that only guests of its
    trial pass, enabled, measured, and admitted after a PASS or disabled again after a FAIL. A host
    whose fingerprint changes or whose verdict gets old is validated again. Without --watch the
    command makes passes until nothing is measured any more.

    One process at a time admits hosts with a database. --stop holds it at its next step, wherever
    it runs, until --go. It needs admin rights.

    Exit code: 0, 1 if a host is in quarantine, 3 for an error.

    Example: openstack perf admit --policy admission.yaml --dry-run
    """

    has_format = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(parser, "--policy", "FILE", "policy of admission (YAML)")
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--dry-run", action="store_true", help="print the next moves and change nothing"
        )
        what.add_argument(
            "--watch", action="store_true", help="make passes until a signal ends the command"
        )
        what.add_argument(
            "--stop", metavar="REASON", help="stop admission at its next step, and end"
        )
        what.add_argument("--go", action="store_true", help="end a stop, and end")
        what.add_argument(
            "--again", metavar="HOST", help="have a known host validated again, and end"
        )
        what.add_argument(
            "--transitions",
            action="store_true",
            help="print all transitions as lines of JSON, and end",
        )
        options.add(
            parser,
            "--interval",
            "TIME",
            "time between two passes (default: 60s)",
            options.duration(1),
            _INTERVAL_S,
        )
        options.add(
            parser,
            "--agent-metrics",
            "URL",
            "URL of the metrics of each host's nova-perf-agent, with {host} for the hypervisor's "
            "name (default: none, so that a host's fingerprint is its QEMU alone)",
        )
        options.add(parser, "--canary-flavor", "NAME", "small flavor without traits", default="")
        options.add(
            parser, "--canary-image", "NAME", "image of the canary guest", default="perf-guest"
        )
        options.add(
            parser,
            "--metrics",
            "PORT",
            "port on 127.0.0.1 for metrics of --watch (default: none)",
            options.whole(1024, 65535),
        )
        options.add(
            parser,
            "--log",
            "FILE",
            "file to which --watch appends transitions as lines of JSON (default: none)",
        )
        options.add(
            parser, "--database", "URL", "database of runs, as for 'openstack perf validate'"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        # Every start of the openstack program imports this module, with the extra's packages and
        # without them.
        from nova_perf_tuning.cli import cloud_admit_run

        words = []
        if self.app.options.cloud:
            words = ["--os-cloud", self.app.options.cloud]
        run = cloud_admit_run.AdmitRun(parsed_args, lambda: self.connection, words, self.warn)
        return run.run()
