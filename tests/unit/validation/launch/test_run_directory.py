# SPDX-License-Identifier: Apache-2.0
"""Runs that live are left alone; of those that died everything goes."""

import os
from unittest import mock

from nova_perf_tuning.validation.launch import base, run_directory
from tests.support import directories


class RunDirectoryTest(directories.DirectoryCase):
    def setUp(self) -> None:
        super().setUp()
        self.parent = os.path.join(self.directory, "runs")
        self.removed: list[tuple[str, str]] = []

    def sweep(self) -> list[str]:
        return run_directory.sweep(
            lambda run_id, path: self.removed.append((run_id, path)), self.parent
        )

    def dead_run(self) -> str:
        """Make the directory of a run that nobody has locked any more."""
        os.makedirs(os.path.join(self.parent, "0123abcd"))
        return "0123abcd"

    def test_made_locked_and_removed(self) -> None:
        before = os.umask(0o077)  # which must not lock QEMU's user out
        self.addCleanup(os.umask, before)
        run = run_directory.RunDirectory(self.parent)
        self.assertRegex(run.id, "^[0-9a-f]{8}$")
        for path in (run.path, self.parent):  # passed through by QEMU's user, locked by root alone
            with self.subTest(path):
                self.assertEqual(0o711, os.stat(path).st_mode & 0o777)
        self.assertEqual([], self.sweep())
        run.close()
        run.close()
        self.assertEqual([], os.listdir(self.parent))

    def test_dead_run_is_swept_and_a_living_one_is_not(self) -> None:
        living = run_directory.RunDirectory(self.parent)
        dead = self.dead_run()
        self.assertEqual([dead], self.sweep())
        self.assertEqual([(dead, os.path.join(self.parent, dead))], self.removed)
        self.assertEqual([living.id], os.listdir(self.parent))
        self.assertEqual([], self.sweep())
        living.close()

    def test_only_what_is_ours(self) -> None:
        for name in ("0123abcd.txt", "notes", "0123abcd.new", "0123ABCD", "0123abcde"):
            os.makedirs(os.path.join(self.parent, name))
        before = sorted(os.listdir(self.parent))
        self.assertEqual([], self.sweep())
        self.assertEqual(before, sorted(os.listdir(self.parent)))
        self.assertEqual([], self.removed)

    def test_what_cannot_be_removed_is_kept_for_the_next_sweep(self) -> None:
        dead = self.dead_run()
        refuse = mock.Mock(side_effect=base.LaunchError("busy"))
        with self.assertLogs(
            "nova_perf_tuning.validation.launch.run_directory", "WARNING"
        ) as logs:
            self.assertEqual([], run_directory.sweep(refuse, self.parent))
        self.assertIn("busy", logs.output[0])
        self.assertEqual([dead], self.sweep())

    def test_kept_run_is_swept_later(self) -> None:
        run = run_directory.RunDirectory(self.parent)
        run.close(keep=True)
        self.assertEqual([run.id], self.sweep())
