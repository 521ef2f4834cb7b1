# SPDX-License-Identifier: Apache-2.0
"""``down`` leaves nothing, whatever state the cloud is in. These tests start clouds of their own."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from tests.cloud import base
from tests.support import testcase


class RemovalTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = tempfile.mkdtemp(prefix="nova-perf-cloud.")
        self.addCleanup(shutil.rmtree, self.directory)
        self.addCleanup(base.tool, "down", "--state", self.directory)

    def start(self, until: str) -> subprocess.Popen[bytes]:
        """Start a cloud and return when service ``until`` has a process."""
        argv = [
            str(base.TOP / "tools" / "cloud" / "up"),
            "--hosts",
            "1",
            "--state",
            self.directory,
        ]
        up = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(up.wait)
        self.addCleanup(up.kill)
        self.addCleanup(up.stderr.close)
        file = pathlib.Path(self.directory, "run", f"{until}.pid")
        base.wait_for(f"start of {until}", lambda: file.exists() or up.poll() is not None)
        self.assertIsNone(up.poll(), "up has ended")
        return up

    def namespaces(self) -> set[str]:
        """Return the network and mount namespaces of the cloud's hosts."""
        pids = [
            file.read_text().split()[0]
            for file in pathlib.Path(self.directory, "run").glob("host?-init.pid")
        ]
        self.assertEqual(2, len(pids))
        return {os.readlink(f"/proc/{pid}/ns/{kind}") for pid in pids for kind in ("net", "mnt")}

    def remains(self, namespaces: set[str]) -> list[str]:
        """Return what is left of the cloud: processes by namespace or by its directory, mounts."""
        found = [
            line
            for line in pathlib.Path("/proc/mounts").read_text().splitlines()
            if self.directory in line
        ]
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                spaces = {os.readlink(directory / "ns" / kind) for kind in ("net", "mnt")}
                command = (directory / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue  # it has just ended
            if spaces & namespaces or self.directory in command:
                found.append(f"{directory.name}: {command}")
        return found

    def test_after_up_was_killed(self) -> None:
        devices = set(os.listdir("/sys/class/net"))
        up = self.start("host1-vswitchd")
        namespaces = self.namespaces()
        self.assertTrue(self.remains(namespaces))
        up.send_signal(signal.SIGKILL)
        up.wait()
        base.tool("down", "--state", self.directory)
        self.assertEqual([], self.remains(namespaces))
        self.assertEqual(["log"], os.listdir(self.directory))
        new = set(os.listdir("/sys/class/net")) - devices
        self.assertEqual(set(), new & {"mgmt", "tun", "prov", "br-int", "br-ex", "br-phy"})

    def test_directory_of_something_else(self) -> None:
        precious = pathlib.Path(self.directory, "precious")
        precious.write_text("not a cloud's")
        refused = base.tool("up", "--state", self.directory, check=False)
        self.assertEqual(3, refused.returncode)
        self.assertIn("holds something else; choose an empty directory", refused.stderr)
        base.tool("down", "--state", self.directory)
        self.assertTrue(precious.exists())

    def test_two_ups_at_once(self) -> None:
        self.start("mariadb")
        second = base.tool("up", "--state", self.directory, check=False)
        self.assertEqual(3, second.returncode)
        self.assertIn("another up or down is at work on it", second.stderr)
