# SPDX-License-Identifier: Apache-2.0
"""``openstack perf flavor check``."""

import argparse

from nova_perf_tuning import errors
from nova_perf_tuning.cli import cloud_command, cloud_flavor
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.placement import flavor_hosts, flavors
from nova_perf_tuning.specs import crosscheck, flavor_rules, profiles


class FlavorCheck(cloud_command.CloudLister):
    """Check flavors for unknown keys, contradictions and specs that cost CPU.

    For one FLAVOR and with admin rights, it also says whether any host could take a guest now, and
    what excludes the others. To check a flavor together with an image, use 'openstack perf image check
    IMAGE --flavor FLAVOR'.

    Exit code: 0 no findings, 1 findings at the level of --fail-on or above, 3 error.
    """

    nothing = "no findings"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("flavor", metavar="FLAVOR", nargs="?", help="name or id")
        which.add_argument("--all", action="store_true", help="check all flavors of the cloud")
        cloud_flavor.add_check_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        known = profiles.load(parsed_args.profile_dir)
        if parsed_args.all:
            checked = flavors.list_flavors(self.connection)
        else:
            checked = [flavors.find(self.connection, parsed_args.flavor)]
        findings = []
        unjudged = None
        for flavor in checked:
            found = flavor_rules.findings(flavor.vcpus, flavor.extra_specs, known)
            for finding in flavor_options.combinations(flavor.extra_specs, flavor.vcpus):
                if finding.rule == flavor_options.UNJUDGED:
                    unjudged = crosscheck.message(finding)
                else:
                    found.append(finding)
            for finding in found:
                findings.append((flavor.name, finding))
        if unjudged and parsed_args.formatter == "table":  # programs read what was found
            self.warn(unjudged)
        if not parsed_args.all:
            [flavor] = checked
            try:
                for finding in flavor_hosts.findings(self.connection, flavor):
                    findings.append((flavor.name, finding))
            except errors.CloudError as error:
                self.warn(f"hosts were not looked at: {error}")
        return cloud_flavor.findings_table(self, "Flavor", findings, parsed_args.fail_on)
