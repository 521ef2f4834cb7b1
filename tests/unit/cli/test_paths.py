# SPDX-License-Identifier: Apache-2.0
"""nova-perf paths, as it is installed here; a wheel in an environment of its own is in tools/test_package.sh."""

import os
import pathlib

from tests.support import program, testcase

#: One file of each kind, to see that the directory is the right one.
FILES = {
    "heat": "host_validation.yaml",
    "metadefs": "compute-perf-tuning.json",
    "profiles": "balanced.yaml",
    "budgets": "",
    "devstack": "plugin.sh",
    "image": "build",
    "systemd": "",
    "admission": "",
    "irqbalance": "",
    "dashboard": "nova-perf-agent.json",
    "alerts": "nova-perf-alerts.yaml",
    "tmpfiles.d": "nova-perf-tuning.conf",
}


class PathsTest(testcase.TestCase):
    def test_each_kind_is_where_it_says(self):
        rows = {row["name"]: row for row in program.document(self, "paths")["paths"]}
        # The sample is made with the package.
        self.assertEqual(set(FILES), set(rows) - {"sample"})
        for name, file in FILES.items():
            with self.subTest(name):
                self.assertTrue((pathlib.Path(rows[name]["path"]) / file).exists(), rows[name])
                self.assertTrue(os.path.isabs(rows[name]["path"]) and rows[name]["what"])

    def test_one_for_scripts(self):
        (path,) = program.shown(self, "paths", "profiles").splitlines()
        self.assertTrue((pathlib.Path(path) / "storage.yaml").exists())

    def test_unknown_name(self):
        words = "'nowhere' does not come with this installation; there are: heat,"
        self.assertIn(words, program.refused(self, "paths", "nowhere"))
