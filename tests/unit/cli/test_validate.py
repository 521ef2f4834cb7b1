# SPDX-License-Identifier: Apache-2.0
"""nova-perf validate: what it refuses before anything runs."""

import os

from tests.support import directories, program


class RefusedTest(directories.DirectoryCase):
    def test_what_results_cannot_hold(self):
        """Nobody could read the results of the run afterwards: its schema allows less than the options did."""
        output = os.path.join(self.directory, "out")
        many_tags = []
        for number in range(1001):
            many_tags += ["--tag", f"k{number}=1"]
        for launcher, arguments, place in (
            ("host", ("--host-group", "g" * 201), "environment.host_group"),
            ("libvirt", ("--flavor", "f" * 201), "environment.flavor"),
            ("host", many_tags, "environment.tags"),
        ):
            with self.subTest(place):
                run = ("validate", "--launcher", launcher, "--output", output, *arguments)
                self.assertIn(f"give shorter or fewer: {place}", program.refused(self, *run))
                self.assertFalse(os.path.exists(output))
