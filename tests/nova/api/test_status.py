# SPDX-License-Identifier: Apache-2.0
"""nova-perf-status upgrade check beside a real Nova."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.support import testcase

PROGRAM = str(pathlib.Path(sys.executable).parent / "nova-perf-status")


class StatusTest(testcase.TestCase):
    def check(self, **environment):
        """Run the program as installed; return name of the check -> (code, sentence)."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("[DEFAULT]\ncompute_driver = perf_tuning.PerfTuningLibvirtDriver\n")
            file.flush()
            done = subprocess.run(
                [PROGRAM, "--config-file", file.name, "upgrade", "check", "--json"],
                capture_output=True,
                text=True,
                env={**os.environ, **environment},
            )
        checks = json.loads(done.stdout.splitlines()[-1])["checks"]
        self.assertEqual(max(check["result"] for check in checks), done.returncode, done.stderr)
        return {check["check"]: (check["result"], check["details"]) for check in checks}

    def test_all_is_well(self):
        checks = self.check()
        self.assertEqual({0}, {code for code, _ in checks.values()}, checks)

    def test_driver_that_cannot_be_imported(self):
        """Something that Nova's driver imports is broken; a module of that name in front of it stands for it."""
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "os_vif.py").write_text(
                "raise ImportError('broken on purpose')\n"
            )
            code, details = self.check(PYTHONPATH=directory)["Driver can be reached"]
        self.assertEqual(2, code)
        self.assertIn("broken on purpose", details)
