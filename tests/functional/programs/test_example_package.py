# SPDX-License-Identifier: Apache-2.0
"""The package of doc/examples is installed by pip and found: its benchmark, audit rule and kind of setting."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tests.support import patience, program, sysroots, testcase

EXAMPLE = pathlib.Path(__file__).parents[3] / "doc/examples/nova_perf_example"


class ExamplePackageTest(testcase.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="nova-perf-example-"))
        # A copy: setuptools leaves build directories in the tree.
        source = f"{directory}/source"
        shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("*.egg-info", "build"))
        cls.packages = f"{directory}/packages"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-build-isolation",
        ]
        subprocess.run(
            [*pip, "--no-deps", "--target", cls.packages, source], check=True, capture_output=True
        )

    def nova_perf(self, *arguments, code=0):
        environment = {**os.environ, "PYTHONPATH": self.packages}
        done = patience.run([*program.COMMAND, *arguments, "-f", "json"], env=environment)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_its_benchmark_is_listed_and_runs(self):
        listed = {row["kind"]: row for row in self.nova_perf("bench", "list")["benchmarks"]}
        self.assertIn("SHA-256", listed["digest"]["summary"])
        done = self.nova_perf("bench", "run", "digest:seconds=1,bytes=1024")
        (reading,) = done["readings"]
        self.assertEqual(("rate", "MB/s"), (reading["metric"], reading["unit"]))
        self.assertGreater(reading["value"], 0)

    def test_rule_and_setting_are_found_applied_and_undone(self):
        root = sysroots.make_host(self)
        devices = pathlib.Path(root, "sys/class/net").iterdir()
        device = sorted(device for device in devices if (device / "device").exists())[0]
        name = device.name
        value = device.resolve() / "gro_flush_timeout"
        value.write_text("0\n")
        (device.resolve() / "speed").write_text("25000\n")
        report = self.nova_perf(
            "audit", "--sysroot", root, "--rule", "example-many-receivers", code=0
        )
        self.assertEqual([name], [finding["subject"] for finding in report["findings"]])
        rule = ("--rule", "example-many-receivers")
        planned = self.nova_perf("apply", "--dry-run", "--sysroot", root, *rule)
        self.assertIn("gro_flush_timeout", " ".join(planned["writes"]))
        self.assertEqual("0", value.read_text().strip())
        self.nova_perf("apply", "--sysroot", root, *rule)
        self.assertEqual("20000", value.read_text().strip())
        held = self.nova_perf("verify", "--sysroot", root)["settings"]
        self.assertIn(
            ("gro_flush_timeout", "holds"),
            [(setting["kind"], setting["state"]) for setting in held],
        )
        self.nova_perf("restore", "--sysroot", root)
        self.assertEqual("0", value.read_text().strip())
