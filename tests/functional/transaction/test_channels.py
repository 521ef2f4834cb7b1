# SPDX-License-Identifier: Apache-2.0
"""Channels of the running kernel, made one at a time: named by ``interference``, moved, gone, put back.

Those that want devices of their own are in the lab (``tests/lab/test_channels.py``).
"""

import json
import pathlib
import sys

from tests.support import directories, live_channels, machine_masks, patience, program

#: In namespaces of its own: no mount and no device stays.
_NAMESPACES = ("unshare", "--net", "--mount", "--propagation", "private")
_THRESHOLD = pathlib.Path("/proc/sys/kernel/watchdog_thresh")


class ChannelsTest(directories.DirectoryCase):
    def test_each_is_moved_and_put_back(self):
        self.enterContext(machine_masks.reserved())
        # Masks of this machine change for moments: also where the process is killed they come back.
        state = f"{self.directory}/state"
        self.addCleanup(program.nova_perf, "restore", "--state-dir", state)
        if _THRESHOLD.exists():
            self.addCleanup(_THRESHOLD.write_text, _THRESHOLD.read_text())
        argv = [*_NAMESPACES, sys.executable, "-m", live_channels.__name__, self.directory]
        done = patience.run(argv)
        self.assertEqual(0, done.returncode, done.stderr)
        channels = json.loads(done.stdout)
        found = {"rps", "napi_threads", "workqueues", "rcu_callbacks"}
        if _THRESHOLD.exists():  # else this kernel has no watchdogs
            found.add("watchdogs")
        self.assertEqual(found, set(channels))
        for channel, steps in channels.items():
            with self.subTest(channel):
                self.assertGreater(steps["named"].get("traced", 0), 0, steps)
                self.assertEqual((0, {}, 0), (steps["apply"], steps["gone"], steps["restore"]))
                self.assertNotEqual(steps["before"], steps["applied"])
                self.assertEqual(steps["before"], steps["after"])
            print(f"NOTE: {channel}: {steps['named']} until {steps['applied']} was written")
