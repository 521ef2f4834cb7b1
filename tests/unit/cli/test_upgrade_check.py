# SPDX-License-Identifier: Apache-2.0
"""nova-perf-status upgrade check in an environment without Nova; with Nova it is in tests/nova."""

import contextlib
import io
import json
import os
import subprocess

import fixtures

from nova_perf_tuning.cli import upgrade_check
from tests.support import directories


def run(*arguments):
    """Run the program; return it as an ended process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = upgrade_check.main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


class StatusUpgradeTest(directories.DirectoryCase):
    def run_check(self, *options, **settings):
        """Run the program with these settings in nova.conf."""
        head = f"[DEFAULT]\ncompute_driver = {settings.pop('driver', '')}\n[nova_perf_tuning]\n"
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        path = self.write_file("nova.conf", "".join([head, *lines]))
        return run("--config-file", path, "upgrade", "check", *options)

    def check(self, **settings):
        """Return name of the check -> (code, sentence) and the exit code."""
        done = self.run_check("--json", **settings)
        self.assertEqual("", done.stderr)
        checks = {
            row["check"]: (row["result"], row["details"])
            for row in json.loads(done.stdout)["checks"]
        }
        self.assertEqual(max(code for code, _ in checks.values()), done.returncode)
        for name, (_code, details) in checks.items():
            self.assertTrue(details and details.endswith(".") and "\n" not in details, name)
        return checks

    def test_says_that_there_is_no_nova(self):
        checks = self.check(driver="perf_tuning.PerfTuningLibvirtDriver")
        for name in (
            "Nova release",
            "Driver can be reached",
            "Extra specs are checked by the API",
        ):
            with self.subTest(name):
                self.assertEqual(1, checks[name][0])
                self.assertIn("here is no Nova in this environment", checks[name][1])
        sentences = [
            details
            for _, details in checks.values()
            if "run nova-perf-status with the Python" in details
        ]
        self.assertEqual(1, len(sentences))
        for name in ("Driver is configured", "Profiles"):
            with self.subTest(name):
                self.assertEqual(0, checks[name][0], checks[name])

    def test_driver_not_configured(self):
        for driver in ("", "libvirt.LibvirtDriver"):
            with self.subTest(driver):
                code, details = self.check(driver=driver)["Driver is configured"]
                self.assertEqual(1, code)
                self.assertIn("nova.conf", details)
                self.assertIn("set it to perf_tuning.PerfTuningLibvirtDriver", details)
                self.assertEqual(not driver, "nova-compute does not start" in details, details)

    def test_profile_dir(self):
        directory = os.path.join(self.directory, "profiles")
        code, details = self.check(profile_dir=directory)["Profiles"]
        self.assertEqual(2, code)
        self.assertIn(directory, details)
        os.mkdir(directory)
        self.assertEqual(0, self.check(profile_dir=directory)["Profiles"][0])
        code, details = self.check(profile_dir="")["Profiles"]
        self.assertEqual((0, True), (code, details.endswith("profile_dir is not set.")), details)
        self.write_file("profiles/mine.yaml", "name: mine\n")
        code, details = self.check(profile_dir=directory)["Profiles"]
        self.assertEqual(2, code)
        self.assertIn("mine.yaml", details)

    def test_directories_of_nova_compute(self):
        """Neither is named after this program."""
        for name, text in (
            ("nova.conf.d", "[DEFAULT]\ncompute_driver = perf_tuning.PerfTuningLibvirtDriver\n"),
            (
                "nova-compute.conf.d",
                "[nova_perf_tuning]\nprofile_dir = /nowhere/of-the-directory\n",
            ),
        ):
            self.write_file(f".nova/{name}/10-ours.conf", text)
        with fixtures.EnvironmentVariable("HOME", str(self.directory)):
            done = run("upgrade", "check", "--json")
        checks = {row["check"]: row["details"] for row in json.loads(done.stdout)["checks"]}
        self.assertIn("is perf_tuning.PerfTuningLibvirtDriver", checks["Driver is configured"])
        self.assertIn("/nowhere/of-the-directory", checks["Profiles"])

    def test_wrong_option_is_one_line(self):
        done = self.run_check(result_max_age="long")
        self.assertEqual((3, 1), (done.returncode, len(done.stderr.splitlines())), done.stderr)
        self.assertIn("result_max_age", done.stderr)

    def test_root_fetches_nothing_that_nova_conf_names(self):
        path = self.write_file(
            "nova.conf", "[DEFAULT]\nconfig_source = far\n[far]\ndriver = remote_file\n"
        )
        self.useFixture(fixtures.MonkeyPatch("os.geteuid", lambda: 0))
        done = run("--config-file", path, "upgrade", "check")
        self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")))
        self.assertIn("config_source: root fetches nothing that nova.conf names", done.stderr)

    def test_missing_file_is_one_line(self):
        done = run("--config-file", "/nonexistent", "upgrade", "check")
        self.assertEqual(3, done.returncode)
        self.assertEqual(
            "nova-perf-status: Failed to find some config files: /nonexistent\n", done.stderr
        )
