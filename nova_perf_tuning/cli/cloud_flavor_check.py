# SPDX-License-Identifier: Apache-2.0
"""``openstack perf flavor check``."""

import argparse

from nova_perf_tuning.cli import cloud_command, cloud_flavor
from nova_perf_tuning.specs import flavor_rules, profiles
from nova_perf_tuning.validation.cloud import flavors


class FlavorCheck(cloud_command.CloudLister):
    """Check what flavors state: unknown keys, contradictions, what costs CPU.

    Together with an image: openstack perf image check IMAGE --flavor FLAVOR.

    Exit code 0 without findings, 1 with them.
    """

    nothing = "no findings"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("flavor", metavar="FLAVOR", nargs="?", help="name or id")
        which.add_argument("--all", action="store_true", help="all flavors of the cloud")
        cloud_flavor.add_check_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        known = profiles.load(parsed_args.profile_dir)
        if parsed_args.all:
            checked = flavors.list_flavors(self.connection)
        else:
            checked = [flavors.find(self.connection, parsed_args.flavor)]
        findings = [
            (flavor.name, finding)
            for flavor in checked
            for finding in flavor_rules.findings(flavor.vcpus, flavor.extra_specs, known)
        ]
        return cloud_flavor.findings_table(self, "Flavor", findings, parsed_args.fail_on)
