# SPDX-License-Identifier: Apache-2.0
"""``openstack perf flavor create``."""

import argparse
from typing import Final

from nova_perf_tuning.cli import cloud_command, cloud_flavor, options
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.placement import flavors
from nova_perf_tuning.specs import crosscheck, flavor_rules, profiles

#: Bound of the numbers on the command line; Nova's own is smaller still for some.
_NUMBER: Final = options.whole(1, 999_999_999)


class FlavorCreate(cloud_command.CloudShowOne):
    """Create a flavor with a profile's extra specs written out, Nova's own hw:* specs included.

    Specs that contradict each other are refused before anything is created. Then Nova checks every
    spec; if it refuses one, no half-made flavor is left behind.

    Example: openstack perf flavor create net.large --profile network-throughput --vcpus 4 --ram 8192
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="name of the new flavor")
        parser.add_argument("--vcpus", metavar="N", type=_NUMBER, required=True, help="vCPUs")
        parser.add_argument(
            "--ram", metavar="MIB", type=_NUMBER, required=True, help="memory in MiB"
        )
        options.add(
            parser,
            "--disk",
            "GIB",
            "root disk in GiB (default: 0, the size of the image)",
            options.whole(0, 999_999_999),
            default=0,
        )
        options.add(parser, "--id", "ID", "id of the flavor (default: a UUID)")
        parser.add_argument(
            "--private",
            action="store_true",
            help="make the flavor private; projects can be given access later",
        )
        flavor_options.add_flavor(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Shown:
        given = flavor_options.flavor(parsed_args)
        known = profiles.load(parsed_args.profile_dir)
        specs, warnings = flavor_rules.written(given, parsed_args.vcpus, known)
        for warning in warnings:
            self.warn(f"warning: {crosscheck.message(warning)}")
        fields = {
            "vcpus": parsed_args.vcpus,
            "ram": parsed_args.ram,
            "disk": parsed_args.disk,
            "is_public": not parsed_args.private,
        }
        if parsed_args.id:
            fields["id"] = parsed_args.id
        return cloud_flavor.shown(
            flavors.create(self.connection, parsed_args.name, specs, **fields)
        )
