# SPDX-License-Identifier: Apache-2.0
"""``openstack perf host list``."""

import argparse

from nova_perf_tuning import rules
from nova_perf_tuning.cli import cloud_command, cloud_host
from nova_perf_tuning.nova import traits
from nova_perf_tuning.placement import hosts


class HostList(cloud_command.CloudLister):
    """List compute hosts with state, traits, latest verdict, and why a host is disabled.

    The traits are CUSTOM_PERF_* in Placement. The verdict follows from the traits and the service:
    PASS, FAIL, or nothing. The command needs admin rights.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--validated", action="store_true", help="list only hosts with CUSTOM_PERF_VALIDATED"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        known = hosts.list_hosts(self.connection)
        for feature, older in hosts.mixed(known).items():
            self.warn(
                f"guests with {feature} do not migrate live to {rules.named(older)}: [libvirt] hw_machine_type "
                "must be one that the oldest QEMU has, everywhere"
            )
        head = (
            "Host",
            "Zone",
            "State",
            "Status",
            "Verdict",
            "Traits",
            "Set By",
            "Disabled Reason",
        )
        rows = []
        for host in known:
            if traits.VALIDATED in host.traits or not parsed_args.validated:
                rows.append(tuple(cloud_host.columns(host).values()))
        return head, rows
