# SPDX-License-Identifier: Apache-2.0
"""--profile, --spec and --profile-dir mean the same in every command that has them."""

import argparse

from nova_perf_tuning.cli import options
from nova_perf_tuning.cli.options import flavor as flavor_options
from tests.support import testcase


class FlavorTest(testcase.TestCase):
    def flavor(self, *arguments, default=None):
        parser = argparse.ArgumentParser()
        flavor_options.add_flavor(parser, default)
        return flavor_options.flavor(parser.parse_args(arguments), default)

    def error(self, *arguments):
        return str(self.assertRaises(options.OptionError, self.flavor, *arguments))

    def test_profile_is_short_for_a_spec(self):
        self.assertEqual({"perf:profile": "storage"}, self.flavor("--profile", "storage"))
        both = self.flavor(
            "--profile", "storage", "--spec", "perf:iothreads=2", "--spec", "perf:profile=storage"
        )
        self.assertEqual({"perf:profile": "storage", "perf:iothreads": "2"}, both)

    def test_default_profile_is_for_those_who_ask_nothing(self):
        self.assertEqual({"perf:profile": "balanced"}, self.flavor(default="balanced"))
        self.assertEqual({}, self.flavor())
        self.assertEqual(
            {"perf:iothreads": "2"}, self.flavor("--spec", "perf:iothreads=2", default="balanced")
        )
        self.assertEqual(
            {"perf:profile": "storage"}, self.flavor("--profile", "storage", default="balanced")
        )

    def test_two_profiles(self):
        message = self.error("--profile", "storage", "--spec", "perf:profile=compute")
        self.assertIn("name different profiles", message)

    def test_specs_have_a_scope(self):
        self.assertIn("perf:vif_queues", self.error("--spec", "vif_queues=2"))
        self.assertIn("KEY=VALUE", self.error("--spec", "perf:vif_queues"))
