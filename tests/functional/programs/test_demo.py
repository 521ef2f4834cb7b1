# SPDX-License-Identifier: Apache-2.0
"""Wrong use of tools/demo.sh: refused before anything is installed or started."""

import pathlib

from tests.support import patience, testcase

DEMO = pathlib.Path(__file__).parents[3] / "tools" / "demo.sh"


class OptionsTest(testcase.TestCase):
    def refused(self, words, *arguments):
        done = patience.run([DEMO, *arguments])
        self.assertEqual((3, ""), (done.returncode, done.stdout), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_wrong_options_are_refused_in_both_places(self):
        for place in ("--cloud", "--local"):
            self.refused("there is no profile 'nosuch'; profiles are balanced ", place, "--profile", "nosuch")
            self.refused("there is no profile '../storage'", place, "--profile", "../storage")
            self.refused("--output needs a directory", place, "--output")
            self.refused("--time-limit '15x': give 20s or more", place, "--time-limit", "15x")
            self.refused("--time-limit '19': give 20s or more", place, "--time-limit", "19")
            self.refused("unknown option --nothing", place, "--nothing")

    def test_of_the_cloud(self):
        self.refused("--blocks '0': give a number from 1", "--blocks", "0")
        self.refused("--slot-time '4s': give 5s or more", "--slot-time", "4s")
        self.refused("unknown option --blocks", "--local", "--blocks", "4")
