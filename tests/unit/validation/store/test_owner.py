# SPDX-License-Identifier: Apache-2.0
"""Whether the owner of a run lives: by /proc where pids mean the same there, by its silence elsewhere."""

import dataclasses
import os
import subprocess

from nova_perf_tuning.validation.store import owner
from tests.support import testcase

SHORT_S, LONG_S = 60.0, owner.SILENCE_S + 1


class OwnerTest(testcase.TestCase):
    def changed(self, **values):
        return dataclasses.replace(owner.RunOwner.new(), **values)

    def lives(self, name):
        """Return whether it lives after a short silence, and after a long one."""
        return name.is_alive(SHORT_S), name.is_alive(LONG_S)

    def test_its_text_is_read_again_and_fits_the_column(self):
        process = {"pid": 1 << 22, "started": 1 << 63}
        longest = self.changed(machine="m" * 64, boot_id="b" * 36, namespace="9" * 10, **process)
        for name in (
            owner.RunOwner.new(),
            longest,
            self.changed(machine="a:b", boot_id="", namespace=""),
        ):
            with self.subTest(name):
                self.assertEqual(name, owner.RunOwner.parse(str(name)))
                self.assertLessEqual(len(str(name)), 200)
        for text in ("", "0011223344556677", "host:12:1.50", "a:b:c:x:1:t", "a:b:c:1:-1:t"):
            with self.subTest(text):
                self.assertIsNone(owner.RunOwner.parse(text))
        self.assertNotEqual(owner.RunOwner.new(), owner.RunOwner.new())

    def test_a_process_that_proc_shows(self):
        self.assertEqual((True, True), self.lives(owner.RunOwner.new()))
        another = self.changed(started=owner.RunOwner.new().started + 1)
        self.assertEqual(
            (False, False), self.lives(another), "its pid is another process's by now"
        )
        with subprocess.Popen(["sleep", "60"]) as process:
            _state, started = owner._process(str(process.pid))
            child = self.changed(pid=process.pid, started=started)
            self.assertEqual((True, True), self.lives(child))
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            self.assertEqual(
                (True, False), self.lives(child), "it has ended, and nobody has asked for its code"
            )
        self.assertEqual((False, False), self.lives(child))

    def test_pids_that_mean_another_process_decide_nothing(self):
        for values in (
            {"boot_id": "another"},
            {"namespace": "1"},
            {"boot_id": ""},
            {"namespace": ""},
        ):
            with self.subTest(values):
                self.assertEqual((True, False), self.lives(self.changed(**values)))
        self.patch(owner, "_boot_id", lambda: "")
        self.assertEqual((True, False), self.lives(owner.RunOwner.new()))

    def test_a_proc_that_hides_processes_decides_nothing(self):
        ours, gone = owner.RunOwner.new(), self.changed(pid=1 << 22)
        self.patch(owner, "_process", lambda _pid: None)
        self.assertEqual((True, False), self.lives(ours))
        self.assertEqual((False, False), self.lives(gone))
