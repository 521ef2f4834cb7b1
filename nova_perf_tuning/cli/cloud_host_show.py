# SPDX-License-Identifier: Apache-2.0
"""``openstack perf host show``."""

import argparse

from nova_perf_tuning.cli import cloud_command, cloud_host
from nova_perf_tuning.placement import hosts


class HostShow(cloud_command.CloudShowOne):
    """Show one compute host; needs admin rights."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "host",
            metavar="HOST",
            help="name of a host or hypervisor, with or without its DNS domain",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Shown:
        host = hosts.choose(hosts.list_hosts(self.connection), parsed_args.host)
        shown = {**cloud_host.columns(host), "node": host.node}
        shown |= {"resource_provider": host.provider_id, "service_id": host.service_id}
        return tuple(shown), tuple(shown.values())
