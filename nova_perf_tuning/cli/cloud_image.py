# SPDX-License-Identifier: Apache-2.0
"""``openstack perf image``: images whose properties waste performance."""

import argparse

from nova_perf_tuning.cli import cloud_command, cloud_flavor
from nova_perf_tuning.placement import flavors
from nova_perf_tuning.specs import image_rules, profiles


class ImageCheck(cloud_command.CloudLister):
    """Check the properties of an image for emulated devices and missing hints.

    With --flavor it also checks whether the two contradict each other.

    Exit code: 0 no findings, 1 findings at the level of --fail-on or above, 3 error.
    """

    nothing = "no findings"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("image", metavar="IMAGE", help="name or id")
        parser.add_argument(
            "--flavor", metavar="FLAVOR", help="name or id of a flavor to check the image with"
        )
        cloud_flavor.add_check_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        known = profiles.load(parsed_args.profile_dir)
        name, properties = flavors.find_image(self.connection, parsed_args.image)
        together = None
        if parsed_args.flavor:
            flavor = flavors.find(self.connection, parsed_args.flavor)
            together = (flavor.vcpus, flavor.extra_specs)
        findings = image_rules.findings(name, properties, known, together)
        return cloud_flavor.findings_table(
            self, "Image", [(name, finding) for finding in findings], parsed_args.fail_on
        )
