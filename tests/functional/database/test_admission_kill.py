# SPDX-License-Identifier: Apache-2.0
"""``openstack perf admit --watch``, killed with SIGKILL after each of its steps: another process ends as without it."""

import os
import pathlib
import shutil
import signal

from tests.support import admission_cloud, admit_process, directories

POLICY = """
schema: 1
groups: [{name: all, share: 1, allow_whole_group: true}]
retries: 0
max_trials: 1
"""
STATES = {
    "old1": "admitted",
    "old2": "quarantined",
    "old3": "admitted",
}


class KillTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.policy = self.write_file("policy.yaml", POLICY)
        self.files = pathlib.Path(self.directory, "now")
        self.files.mkdir()
        self.path = self.files / "cloud"
        self.url = f"sqlite:///{self.files}/runs.db"
        self.command = admit_process.command_line(self.policy, self.url)

    def process(self, last=None):
        """Run the command to its end, and return how it ended."""
        number = admit_process.fork(self.path, self.command, last)
        _number, status = os.waitpid(number, 0)
        return os.waitstatus_to_exitcode(status)

    def prepare(self):
        """Admit three hosts; then let two have another kernel: one is bad, and one waits for the other's trial."""
        cloud = admit_process.FileCloud(self.path)
        for number in range(1, 4):
            name = f"old{number}"
            cloud.hosts[name] = admission_cloud.FakeHost(name)
        cloud.save()
        self.assertEqual(0, self.process())
        cloud = admit_process.FileCloud(self.path)
        for name in ("old1", "old2"):
            cloud.hosts[name].fingerprint = "B"
        cloud.failing = {"old2"}
        cloud.closed, cloud.early = set(), set()
        cloud.save()
        self.kept = pathlib.Path(self.directory, "kept")
        shutil.copytree(self.files, self.kept)

    def again(self):
        shutil.rmtree(self.files)
        shutil.copytree(self.kept, self.files)

    def test_killed_after_each_step(self):
        self.prepare()
        self.assertEqual(0, self.process())
        expected = admit_process.end_state(self.path, self.url)
        found, left, early = expected
        self.assertEqual(STATES, {name: state[4] for name, state in found.items()})
        self.assertEqual((("", [], set()), set()), (left, early))
        kills = 0
        while True:
            self.again()
            ended = self.process(kills + 1)
            if ended == 0:  # it has not so many steps
                break
            kills += 1
            self.assertEqual(-signal.SIGKILL, ended)
            self.assertEqual(0, self.process(), f"killed after step {kills}")
            after = admit_process.end_state(self.path, self.url)
            self.assertEqual(expected, after, f"killed after step {kills}")
        self.assertGreater(kills, 40)
