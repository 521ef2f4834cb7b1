# SPDX-License-Identifier: Apache-2.0
"""Output files: whole or not at all, never through a link, one writer at a time."""

import errno
import fcntl
import os
import pathlib

import fixtures

from nova_perf_tuning import atomic_write
from tests.support import directories


class WholeFileTest(directories.DirectoryCase):
    def test_a_directory_is_for_everybody_to_read_whatever_the_umask(self):
        self.addCleanup(os.umask, os.umask(0o077))
        atomic_write.make_directory(str(self.directory / "state"))
        self.assertEqual(0o755, (self.directory / "state").stat().st_mode & 0o777)

    def test_a_full_disk_is_told_with_the_file(self):
        path = str(self.directory / "results.json")

        def full(_descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def write():
            with atomic_write.writing(path) as file:
                file.write(b"x")

        with fixtures.MonkeyPatch("os.fsync", full):
            error = self.assertRaises(OSError, write)
        self.assertEqual((errno.ENOSPC, path), (error.errno, error.filename))
        self.assertEqual([], os.listdir(self.directory))

    def test_a_link_put_in_place_of_the_temporary_file_opens_no_secret(self):
        """Whoever owns the directory may do that while root writes there."""
        outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        secret, aside = outside / "secret", outside / "aside"
        secret.touch(0o600)
        with atomic_write.writing(str(self.directory / "record.tar.gz")):
            (temporary,) = self.directory.iterdir()
            temporary.rename(aside)
            temporary.symlink_to(secret)
        self.assertEqual(0o600, secret.stat().st_mode & 0o777)

    def test_it_replaces_nothing_but_files(self):
        (self.directory / "link").symlink_to("target")
        (self.directory / "directory").mkdir()
        os.mkfifo(self.directory / "pipe")
        for name in ("link", "directory", "pipe", "absent/file"):
            with self.subTest(name):
                self.assertRaises(atomic_write.OutputError, atomic_write.check, str(self.directory / name))

    def test_one_changes_a_file_at_a_time(self):
        with (
            atomic_write.changing(str(self.directory / "noise.json")),
            open(self.directory / ".noise.json.lock") as lock,
        ):
            self.assertRaises(BlockingIOError, fcntl.flock, lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
