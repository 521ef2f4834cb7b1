# SPDX-License-Identifier: Apache-2.0
"""The host as launcher: what a killed run leaves goes, and its programs end with it."""

import os
import select
import subprocess
import sys

from nova_perf_tuning.validation.launch import base, local
from tests.support import directories

_RUN = """
import sys, time
from nova_perf_tuning.validation.launch import local
machine = local.HostMachine("client", "127.0.0.1", None, sys.argv[1])
with machine.serving(["sleep", "300"]):
    print(*machine._processes, flush=True)
    time.sleep(300)
"""


class KilledRunTest(directories.DirectoryCase):
    def test_the_next_run_removes_its_directory(self):
        for name in ("nova-perf-run-0123abcd", "nova-perf-run-more-than-8", "nova-perf-0123abcd"):
            self.write_file(f"{name}/client/data", "x")
        (self.directory / "nova-perf-run-link5678").symlink_to("nova-perf-0123abcd")
        kept = {"nova-perf-run-more-than-8", "nova-perf-run-link5678", "nova-perf-0123abcd"}
        parent = str(self.directory)
        with local.LocalLauncher(parent) as living, local.LocalLauncher(parent) as next_run:
            living.prepare()
            self.assertEqual(1, len(set(os.listdir(parent)) - kept))
            next_run.prepare()
            self.assertEqual(2, len(set(os.listdir(parent)) - kept))
        self.assertEqual(kept, set(os.listdir(parent)))

    def test_its_programs_end(self):
        run = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(self.directory / "client")],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        program = os.pidfd_open(int(run.stdout.readline()))
        self.addCleanup(os.close, program)
        run.kill()
        self.assertEqual([program], select.select([program], [], [], 30)[0])

    def test_a_missing_program_is_named(self):
        machine = local.HostMachine("client", "127.0.0.1", None, str(self.directory / "client"))
        self.addCleanup(machine.close)
        done = machine.run(["nova-perf-no-such-program"], 5)
        self.assertEqual(127, done.returncode)
        self.assertIn("nova-perf-no-such-program: No such file", done.stderr)
        serving = machine.serving(["nova-perf-no-such-program"])
        self.assertRaises(base.ProgramError, serving.__enter__)
