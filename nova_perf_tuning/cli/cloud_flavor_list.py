# SPDX-License-Identifier: Apache-2.0
"""``openstack perf flavor list``."""

import argparse
from typing import Final

from osc_lib.cli import format_columns

from nova_perf_tuning.cli import cloud_command
from nova_perf_tuning.placement import flavors
from nova_perf_tuning.specs import flavor_rules, vocabulary

#: Extra specs that state something about performance.
_SHOWN: Final = (vocabulary.PREFIX, vocabulary.NATIVE_PREFIX, "trait:CUSTOM_PERF_")


class FlavorList(cloud_command.CloudLister):
    """List flavors with performance specs: perf:* and hw:* extra specs, required traits."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--all",
            action="store_true",
            help="list all flavors, including those without such specs",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        rows = []
        for flavor in flavors.list_flavors(self.connection):
            shown = {
                key: text
                for key, text in sorted(flavor.extra_specs.items())
                if key.startswith(_SHOWN)
            }
            if shown or parsed_args.all:
                profile = shown.pop(flavor_rules.PROFILE, "")
                rows.append(
                    (
                        flavor.name,
                        flavor.vcpus,
                        flavor.ram,
                        profile,
                        format_columns.DictColumn(shown),
                    )
                )
        return ("Name", "VCPUs", "RAM", "Profile", "Specs"), rows
