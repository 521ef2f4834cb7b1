"""tools/test.sh that is broken off leaves nothing, whoever reads its output."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import testtools

from tests.functional import patience

TEST = pathlib.Path(__file__).parents[2] / "tools" / "test.sh"


class BrokenOffTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-broken-off-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("tools/prepare.sh", ""), ("venv/bin/python", ""), ("venv/bin/stestr", "sleep 600\n")):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\n{text}")
            path.chmod(0o755)
        shutil.copy(TEST, self.folder / "tools")
        self.logs = self.folder / "logs"
        self.logs.mkdir()

    def start(self, **output):
        """Start it as the leader of a process group, as a terminal's job or that of a CI has one."""
        env = {**os.environ, "TMPDIR": str(self.logs), "VENV": str(self.folder / "venv")}
        process = subprocess.Popen(
            ["bash", "tools/test.sh", "unit"], cwd=self.folder, env=env, start_new_session=True, **output
        )
        self.addCleanup(self.kill, process)
        patience.until(lambda: list(self.logs.glob("*/unit")), "its tests have begun")
        return process

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def check_broken_off(self, process):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        self.assertEqual([], os.listdir(self.logs))

    def test_with_a_file(self):
        with open(self.folder / "output", "w") as file:
            self.check_broken_off(self.start(stdout=file, stderr=file))

    def test_with_a_reader_that_has_gone(self):
        """As in ``tools/test.sh | tee``, where a signal for the whole group ends tee first."""
        process = self.start(stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.stdout.close()
        self.check_broken_off(process)
