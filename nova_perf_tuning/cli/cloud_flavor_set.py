# SPDX-License-Identifier: Apache-2.0
"""``openstack perf flavor set``."""

import argparse

from nova_perf_tuning.cli import cloud_command, cloud_flavor, options
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.placement import flavors
from nova_perf_tuning.specs import crosscheck, flavor_rules, profiles


class FlavorSet(cloud_command.CloudShowOne):
    """Change the extra specs of a flavor; existing guests keep theirs.

    The specs of its profile are written out. A new profile replaces the values of the old one;
    values that were set in another way stay. Without options, the command writes the current values
    of the flavor's profile, and adds specs of Nova that these need and the flavor lacks.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("flavor", metavar="FLAVOR", help="name or id")
        flavor_options.add_flavor(parser)
        options.add_repeated(parser, "--remove", "KEY", "extra spec to remove")

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Shown:
        flavor = flavors.find(self.connection, parsed_args.flavor)
        given, removed_keys = flavor_options.flavor(parsed_args), frozenset(parsed_args.remove)
        known = profiles.load(parsed_args.profile_dir)
        specs, warnings = flavor_rules.changed(
            flavor.extra_specs, given, removed_keys, flavor.vcpus, known
        )
        for warning in warnings:
            self.warn(f"warning: {crosscheck.message(warning)}")
        done, removed = flavors.change(self.connection, flavor, specs)
        names, values = cloud_flavor.shown(flavors.find(self.connection, flavor.id))
        return (*names, "set", "removed"), (
            *values,
            cloud_command.lines(done),
            cloud_command.lines(removed),
        )
