# SPDX-License-Identifier: Apache-2.0
"""``openstack perf host``: compute hosts with what their validation earned them."""

import argparse
from collections.abc import Sequence

from nova_perf_tuning.cli import cloud_command, cloud_flavor
from nova_perf_tuning.nova import traits
from nova_perf_tuning.validation.cloud import hosts


class HostList(cloud_command.CloudLister):
    """List compute hosts: state, CUSTOM_PERF_* traits in Placement, why a host is disabled, latest verdict.

    The verdict is what traits and service tell: PASS, FAIL, or nothing. Needs admin rights.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--validated", action="store_true", help="only hosts with CUSTOM_PERF_VALIDATED")

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_flavor.Rows:
        return ("Host", "Zone", "State", "Status", "Verdict", "Traits", "Set By", "Disabled Reason"), [
            tuple(_columns(host).values())
            for host in hosts.list_hosts(self.connection)
            if traits.VALIDATED in host.traits or not parsed_args.validated
        ]


class HostShow(cloud_command.CloudShowOne):
    """Show one compute host. Needs admin rights."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", metavar="HOST", help="host or hypervisor, with or without its domain")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        host = hosts.choose(hosts.list_hosts(self.connection), parsed_args.host)
        shown = {**_columns(host), "node": host.node}
        shown |= {"resource_provider": host.provider_id, "service_id": host.service_id}
        return tuple(shown), tuple(shown.values())


def _columns(host: hosts.Host) -> dict[str, object]:
    """Return what list and show tell of a host, in the order of the list's columns."""
    return {
        "host": host.name,
        **{name: getattr(host, name) for name in ("zone", "state", "status", "verdict")},
        "traits": cloud_flavor.Lines(sorted(host.earned)),
        "traits_set_by": "nova-compute" if host.managed else "API" if host.earned else "",
        "disabled_reason": host.disabled_reason,
    }
