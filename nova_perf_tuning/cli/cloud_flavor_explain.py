# SPDX-License-Identifier: Apache-2.0
"""``openstack perf flavor explain``."""

import argparse
from collections.abc import Mapping

from osc_lib.cli import format_columns

from nova_perf_tuning.cli import cloud_command, explanation
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.placement import flavors
from nova_perf_tuning.specs import crosscheck, profiles


class FlavorExplain(cloud_command.CloudLister):
    """Show what a flavor's specs become: Nova's own specs, domain XML, settings of the host.

    It is 'nova-perf explain' for a flavor (and an image) of the cloud.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("flavor", metavar="FLAVOR", help="name or id")
        parser.add_argument("--image", metavar="IMAGE", help="name or id of the guest's image")
        flavor_options.add_profile_dir(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        known = profiles.load(parsed_args.profile_dir)
        flavor = flavors.find(self.connection, parsed_args.flavor)
        properties: Mapping[str, str] = {}
        if parsed_args.image:
            _, properties = flavors.find_image(self.connection, parsed_args.image)
        specs, vcpus = flavor.extra_specs, flavor.vcpus
        wanted, warnings = crosscheck.guest_request(specs, properties, vcpus, known)
        for warning in warnings:
            self.warn(f"warning: {crosscheck.message(warning)}")
        chosen = known.get(wanted.profile or "")
        rows = []
        for row in explanation.rows(wanted, specs, properties, chosen, vcpus):
            native, host, why = (
                format_columns.DictColumn(dict(row.native)),
                row.host or "",
                row.reason or "",
            )
            texts = "\n".join(left_out.text for left_out in row.left_out)
            left_out = cloud_command.Cell(texts, [left_out.as_data() for left_out in row.left_out])
            rows.append(
                (
                    row.spec,
                    row.value,
                    row.origin,
                    native,
                    cloud_command.lines(row.xml),
                    left_out,
                    cloud_command.lines(row.cost),
                    host,
                    why,
                )
            )
        return ("Spec", "Value", "From", "Native", "XML", "Left out", "Cost", "Host", "Why"), rows
