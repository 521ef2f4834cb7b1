# SPDX-License-Identifier: Apache-2.0
"""``openstack perf admit``: hosts are validated, admitted and quarantined by a policy."""

import argparse
from typing import Final

from nova_perf_tuning.cli import cloud_command, options

_INTERVAL_S: Final = 60.0


class Admit(cloud_command.CloudCommand):
    """Validate compute hosts according to a policy, and admit those that pass.

    A new host, which Nova registers as disabled, is put into an aggregate that only the guests of
    its trial can use. Then it is enabled and measured. After a PASS it is admitted; after a FAIL it
    is disabled again. A host is validated again when its fingerprint changes or its verdict gets
    old. Without --watch, the command ends once no host is being measured any more.

    Only one process at a time can admit hosts with a given database. --stop pauses it at its next
    step, on whatever machine it runs, until --go. The command needs admin rights.

    Exit code: 0 done, 1 if a host is in quarantine, 3 error.

    Example: openstack perf admit --policy admission.yaml --dry-run
    """

    has_format = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(parser, "--policy", "FILE", "admission policy (YAML)")
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--dry-run", action="store_true", help="print the next moves and change nothing"
        )
        what.add_argument(
            "--watch", action="store_true", help="keep running until a signal ends the command"
        )
        what.add_argument(
            "--stop", metavar="REASON", help="pause admission at its next step, and exit"
        )
        what.add_argument(
            "--go", action="store_true", help="let a paused admission continue, and exit"
        )
        what.add_argument(
            "--again",
            metavar="HOST",
            help="request that a known host be validated again, and exit",
        )
        what.add_argument(
            "--transitions",
            action="store_true",
            help="print all transitions as lines of JSON, and exit",
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
            "name (default: none; a host's fingerprint is then only QEMU and the budgets)",
        )
        options.add(
            parser,
            "--canary-flavor",
            "NAME",
            "flavor of the canary guest; a small one without traits",
            default="",
        )
        options.add(
            parser,
            "--canary-image",
            "NAME",
            "image of the canary guest (default: perf-guest)",
            default="perf-guest",
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
