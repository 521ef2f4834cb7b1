"""Rules on the kernel itself: found, applied, verified and undone in network and mount namespaces of their own."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile

import testtools

from tests.functional import patience

TOP = pathlib.Path(__file__).parents[3]
#: Runs inside the namespaces: kernel parameters below net are those of this network namespace alone.
DRIVER = """
import contextlib, io, json, pathlib, subprocess, sys
from nova_perf_tuning.cli import main

subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/etc/sysctl.d"], check=True)
subprocess.run("ip link add npd0 type bridge".split(), check=True)
subprocess.run("ip tuntap add dev npd1 mode tap".split(), check=True)
subprocess.run("ip link set npd1 master npd0".split(), check=True)
subprocess.run("ip link set npd0 mtu 1400".split(), check=True)
key = pathlib.Path("/proc/sys/net/ipv4/tcp_moderate_rcvbuf")
folder = pathlib.Path("/etc/sysctl.d")
key.write_text("0\\n")

def run(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main([*words, "-f", "json"])
    files = sorted(map(str, folder.iterdir()))
    return [code, json.loads(out.getvalue() or "null"), err.getvalue(), key.read_text(), files]

rule = ["--rule", "tcp-autotuning-off"]
state = ["--state-dir", sys.argv[1]]
steps = {"before": run("audit", *rule), "whole": run("audit")}
steps["apply"] = run("apply", *rule, "--persist", *state)
steps["after"] = run("audit", *rule)
steps["verify"] = run("verify", *state)
steps["restore"] = run("restore", *state)
print(json.dumps(steps))
"""


class AuditLiveTest(testtools.TestCase):
    def test_a_rule_on_the_running_kernel(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-audit-live-")
        self.addCleanup(folder.cleanup)
        done = patience.run(
            [
                "unshare",
                "--net",
                "--mount",
                "--propagation",
                "private",
                sys.executable,
                "-c",
                DRIVER,
                f"{folder.name}/state",
            ],
            cwd=TOP,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        steps = json.loads(done.stdout)
        for name, code, value, files in (
            ("before", 1, "0\n", 0),
            ("apply", 0, "1\n", 1),
            ("after", 0, "1\n", 1),
            ("verify", 0, "1\n", 1),
            ("restore", 0, "0\n", 0),
        ):
            found, _result, errors, held, there = steps[name]
            self.assertEqual((code, "", value, files), (found, errors, held, len(there)), name)
        self.assertEqual({"written": 2}, steps["apply"][1]["counts"])
        self.assertEqual([], steps["whole"][1]["failed"])
        self.assertNotEqual([], steps["whole"][1]["clean"])
        subjects = {one["rule"]: one["subject"] for one in steps["whole"][1]["findings"]}
        self.assertEqual("npd1", subjects.get("mtu-mismatch"), "the tap of 1500 on the bridge of 1400")

    def test_the_whole_command(self) -> None:
        """On this machine as it is; what it finds is the machine's affair, that it works is ours."""
        done = subprocess.run(
            [sys.executable, "-m", "nova_perf_tuning.cli.main", "audit", "-f", "json", "--fail-on", "error"],
            cwd=TOP, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual("", done.stderr)
        self.assertEqual([], json.loads(done.stdout)["failed"])
