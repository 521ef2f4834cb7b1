# SPDX-License-Identifier: Apache-2.0
"""The measurement of ``tools/demo.sh --local``, broken off: nothing is left, and every mask is as it was."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

from tests.support import directories, patience

TOP = pathlib.Path(__file__).parents[3]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class BrokenOffTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("it needs two CPUs")
        shutil.copy(TOP / "tools/placement_demo/budget.yaml", self.directory)
        self.environment = {**os.environ, "TMPDIR": str(self.directory / "tmp")}
        (self.directory / "tmp").mkdir()

    def start(self):
        command = [sys.executable, "-m", "tools.placement_demo", str(self.directory), "3", "60"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            command, cwd=TOP, env=self.environment, start_new_session=True, **pipes
        )

    def check_end(self, running):
        """It compares the machine with what it was by itself."""
        _shown, faults = patience.finish(running)
        self.assertEqual((130, ""), (running.returncode, faults))
        self.assertEqual([], os.listdir(self.directory / "tmp"))
        group = ["pgrep", "--runstates", "D,R,S,T", "--pgroup", str(running.pid)]
        patience.until(lambda: not patience.run(group).stdout, "the end of all that it started")

    def test_signals_at_any_moment(self):
        """To all of it, as a terminal sends them, and to the first process alone, as "kill" does."""
        chance = random.Random(50)
        for number in SIGNALS:
            for kill in (os.killpg, os.kill):
                with self.subTest(number, by=kill.__name__):
                    running = self.start()
                    found = any("conflicts in red" in line for line in running.stdout)
                    self.assertTrue(found, "it ended before it began to measure")
                    time.sleep(chance.uniform(0, 4))
                    kill(running.pid, number)
                    self.check_end(running)

    def test_a_reader_that_has_gone(self):
        running = self.start()
        running.stdout.readline()
        running.stdout.close()
        running.stdout = None
        self.check_end(running)
