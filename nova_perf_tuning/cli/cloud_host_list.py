# SPDX-License-Identifier: Apache-2.0
"""``openstack perf host list``."""

import argparse
from collections.abc import Sequence

from nova_perf_tuning import rules
from nova_perf_tuning.cli import cloud_command, cloud_host, options
from nova_perf_tuning.nova import traits
from nova_perf_tuning.placement import hosts


class HostList(cloud_command.CloudLister):
    """List compute hosts with state, traits, latest verdict, and why a host is disabled.

    The traits are CUSTOM_PERF_* in Placement. The verdict (PASS, FAIL or none) is derived from the
    traits and the service. With --policy, the last columns show the state of admission, its reason,
    and the next move. The command needs admin rights.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--validated", action="store_true", help="list only hosts with CUSTOM_PERF_VALIDATED"
        )
        options.add(
            parser,
            "--policy",
            "FILE",
            "admission policy; adds columns for state, reason and next move",
        )
        options.add(
            parser,
            "--agent-metrics",
            "URL",
            "URL of the agents' metrics, as for 'openstack perf admit'",
        )
        options.add(
            parser, "--database", "URL", "admission database, as for 'openstack perf admit'"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        known = hosts.list_hosts(self.connection)
        for feature, older in hosts.mixed(known).items():
            self.warn(
                f"guests with {feature} do not migrate live to {rules.named(older)}: [libvirt] hw_machine_type "
                "must be one that the oldest QEMU has, everywhere"
            )
        head: tuple[str, ...] = (
            "Host",
            "Zone",
            "State",
            "Status",
            "Verdict",
            "Traits",
            "Set By",
            "Disabled Reason",
        )
        admission: dict[str, Sequence[str]] = {}
        if parsed_args.policy:
            # Every start of the openstack program imports this module, with the extra's packages
            # and without them.
            from nova_perf_tuning.cli import cloud_admit_run

            admission = cloud_admit_run.columns(parsed_args, self.connection)
            head = (*head, "Admission", "Reason", "Next Move")
        rows = []
        for host in known:
            if traits.VALIDATED in host.traits or not parsed_args.validated:
                row: tuple[object, ...] = tuple(cloud_host.columns(host).values())
                if parsed_args.policy:
                    row = (*row, *admission.get(host.name, ("", "", "")))
                rows.append(row)
        return head, rows
