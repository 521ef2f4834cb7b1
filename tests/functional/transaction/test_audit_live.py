"""Rules on the kernel itself: found, applied, verified and undone in network and mount namespaces of their own."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import testtools

from nova_perf_tuning.host.audit import runner
from tests.functional import patience
from tests.hosts import audit_hosts

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


OFFLOADS = """
import contextlib, io, json, subprocess, sys
from nova_perf_tuning.cli import main

subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
subprocess.run("ip link add eth0 type veth peer name eth1".split(), check=True)
subprocess.run("ethtool -K eth0 gro off tso off tx off".split(), check=True, capture_output=True)

def features():
    return subprocess.run("ethtool -k eth0".split(), check=True, capture_output=True, text=True).stdout

def run(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main.main([*words, "--state-dir", sys.argv[1] + "/state", "-f", "json"])
    return [code, json.loads(out.getvalue() or "null"), features()]

steps = {"features": features(), "apply": run("apply", "--from", sys.argv[1] + "/plan.json")}
steps |= {"verify": run("verify"), "restore": run("restore"), "again": run("restore")}
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

    def test_offloads_that_rules_propose(self) -> None:
        """What rules propose for the NIC eth0 of a record, on a device of that name in a namespace of its own."""
        off = {"rx-gro": False, "tx-tcp-segmentation": False, "tx-checksum-ip-generic": False}
        tree = audit_hosts.changed(audit_hosts.good(), {"nova-perf/ethtool/eth0.json": audit_hosts.ethtool(off)})
        rules = runner.chosen(["gro-off", "offloads-off"])
        found = runner.run(audit_hosts.view(tree), rules, strict=True).findings
        settings = [dataclasses.asdict(one) for finding in found for one in finding.settings]
        self.assertEqual(3, len(settings))
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-audit-live-")
        self.addCleanup(folder.cleanup)
        pathlib.Path(folder.name, "plan.json").write_text(json.dumps({"settings": settings}))
        done = patience.run(
            [
                "unshare",
                "--net",
                "--mount",
                "--propagation",
                "private",
                sys.executable,
                "-c",
                OFFLOADS,
                folder.name,
            ],
            cwd=TOP,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        steps = json.loads(done.stdout)
        self.assertEqual([0, 0, 0, 0], [steps[name][0] for name in ("apply", "verify", "restore", "again")])
        self.assertEqual({"written": 3}, steps["apply"][1]["counts"])
        self.assertEqual(steps["features"], steps["restore"][2])
        self.assertNotEqual(steps["features"], steps["apply"][2])

    def test_the_whole_command(self) -> None:
        """On this machine as it is; what it finds is the machine's affair, that it works is ours."""
        done = subprocess.run(
            [sys.executable, "-m", "nova_perf_tuning.cli.main", "audit", "-f", "json", "--fail-on", "error"],
            cwd=TOP, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual("", done.stderr)
        self.assertEqual([], json.loads(done.stdout)["failed"])
