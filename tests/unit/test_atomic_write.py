# SPDX-License-Identifier: Apache-2.0
"""Output files: whole or not at all, never through a link, one writer at a time."""

import contextlib
import errno
import fcntl
import os
import pathlib
import tempfile
import threading
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies as st

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
                self.assertRaises(
                    atomic_write.OutputError, atomic_write.check, str(self.directory / name)
                )

    def test_one_changes_a_file_at_a_time(self):
        with (
            atomic_write.changing(str(self.directory / "noise.json")),
            open(self.directory / ".noise.json.lock") as lock,
        ):
            self.assertRaises(BlockingIOError, fcntl.flock, lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_change_does_not_wait_without_end(self):
        self.patch(atomic_write, "LOCK_WAIT_S", 0.0)
        path = str(self.directory / "noise.json")
        with atomic_write.changing(path):
            again = atomic_write.changing(path)
            error = self.assertRaises(atomic_write.OutputError, again.__enter__)
        self.assertIn(f"{path}: another process keeps it locked", str(error))
        with atomic_write.changing(path):
            pass

    def test_the_lock_is_no_link_and_nobody_else_may_hold_it(self):
        victim, lock = self.directory / "victim", self.directory / ".noise.json.lock"
        lock.symlink_to(victim)
        changing = atomic_write.changing(str(self.directory / "noise.json"))
        self.assertEqual(errno.ELOOP, self.assertRaises(OSError, changing.__enter__).errno)
        self.assertFalse(victim.exists())
        lock.unlink()
        with atomic_write.changing(str(self.directory / "noise.json")):
            self.assertEqual(0o600, lock.stat().st_mode & 0o777)


class LeftoverTest(directories.DirectoryCase):
    """A writer that is killed before the rename leaves its temporary file."""

    def setUp(self):
        super().setUp()
        self.path = str(self.directory / "file")
        self.leftover = self.write_file(".file.0123abcd", "half")

    def write(self):
        with atomic_write.writing(self.path) as file:
            file.write(b"whole")

    def test_the_next_write_removes_it(self):
        self.write()
        self.assertEqual(["file"], os.listdir(self.directory))

    def test_a_sweep_removes_it_without_a_write(self):
        atomic_write.sweep(self.path)
        self.assertEqual([], os.listdir(self.directory))

    def test_that_of_a_writer_that_lives_stays(self):
        with atomic_write.writing(self.path) as file:
            file.write(b"first")
            self.write()
            self.assertEqual(b"whole", pathlib.Path(self.path).read_bytes())
        self.assertEqual(b"first", pathlib.Path(self.path).read_bytes())
        self.assertEqual(["file"], os.listdir(self.directory))

    def test_what_is_no_such_file_stays(self):
        (self.directory / ".file.11111111").symlink_to("target")
        (self.directory / ".file.22222222").mkdir()
        os.mkfifo(self.directory / ".file.33333333")
        for name in (".file.0123abcd.conf", ".file.0123ABCD", ".other.0123abcd", ".file.lock"):
            (self.directory / name).touch()
        os.unlink(self.leftover)
        before = sorted(os.listdir(self.directory))
        self.write()
        self.assertEqual(sorted([*before, "file"]), sorted(os.listdir(self.directory)))


class LinkTest(directories.DirectoryCase):
    """Root writes where a user owns the directories, and swaps them for links at the worst moment."""

    def setUp(self):
        super().setUp()
        self.outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.outside / "secret").write_text("untouched")
        self.outside.chmod(0o700)
        self.output = self.directory / "output"
        self.output.mkdir()
        self.moved = self.directory / "moved"

    def swap(self):
        self.output.rename(self.moved)
        self.output.symlink_to(self.outside)

    def check_outside(self):
        self.assertEqual(["secret"], os.listdir(self.outside))
        self.assertEqual("untouched", (self.outside / "secret").read_text())
        self.assertEqual(0o700, self.outside.stat().st_mode & 0o777)

    def test_links_in_the_operator_s_path_are_followed(self):
        link = self.directory / "link"
        link.symlink_to(self.output)
        with atomic_write.writing(str(link / "file")) as file:
            file.write(b"text")
        self.assertEqual("text", (self.output / "file").read_text())

    def test_a_file_goes_where_it_was_begun(self):
        with atomic_write.writing(str(self.output / "secret")) as file:
            file.write(b"text")
            self.swap()
        self.check_outside()
        self.assertEqual("text", (self.moved / "secret").read_text())
        self.assertEqual(["secret"], os.listdir(self.moved))

    def test_what_fails_leaves_nothing_in_either(self):
        with (
            contextlib.suppress(ZeroDivisionError),
            atomic_write.writing(str(self.output / "file")),
        ):
            self.swap()
            self.fail_now()
        self.check_outside()
        self.assertEqual([], os.listdir(self.moved))

    def fail_now(self):
        raise ZeroDivisionError

    def test_a_new_directory_becomes_no_link_in_between(self):
        really = os.mkdir

        def made_and_swapped(path, *arguments, **more):
            really(path, *arguments, **more)
            if self.output.exists() and not self.moved.exists():
                (self.output / "new").rename(self.moved)
                (self.output / "new").symlink_to(self.outside)

        with mock.patch.object(os, "mkdir", made_and_swapped):
            self.assertRaises(OSError, atomic_write.make_directory, str(self.output / "new"))
        self.check_outside()

    def test_a_sysroot_keeps_what_is_written_below_it(self):
        self.swap()
        file = str(self.output / "secret")
        writing = atomic_write.writing(file, inside=str(self.directory))
        self.assertEqual(errno.ELOOP, self.assertRaises(OSError, writing.__enter__).errno)
        error = self.assertRaises(OSError, atomic_write.remove, file, inside=str(self.directory))
        self.assertEqual(errno.ELOOP, error.errno)
        new = str(self.output / "new/directory")
        error = self.assertRaises(
            OSError, atomic_write.make_directory, new, inside=str(self.directory)
        )
        self.assertEqual(errno.ELOOP, error.errno)
        self.check_outside()

    def test_swaps_in_a_loop(self):
        """An open directory and one below it, while another thread swaps both."""
        (self.output / "below").mkdir()
        ended = threading.Event()

        def swap():
            below, aside, link = (self.output / name for name in ("below", "aside", "link"))
            link.symlink_to(self.outside)
            while not ended.is_set():
                for old, new in ((below, aside), (link, below), (below, link), (aside, below)):
                    with contextlib.suppress(OSError):
                        old.rename(new)

        with atomic_write.open_directory(str(self.output)) as output:
            swapping = threading.Thread(target=swap)
            swapping.start()
            try:
                for number in range(300):
                    with contextlib.suppress(OSError), output.below("below") as below:
                        with atomic_write.writing(
                            f"{below.path}/{number}", directory=below
                        ) as file:
                            file.write(b"text")
            finally:
                ended.set()
                swapping.join()
        self.check_outside()

    @hypothesis.given(
        st.dictionaries(
            st.sampled_from(["file", ".file.lock", "below", "below/file", "deep"]),
            st.sampled_from(
                ["file", "directory", "pipe", "link", "link to a directory", "link to nothing"]
            ),
        )
    )
    def test_whatever_was_planted(self, planted):
        with tempfile.TemporaryDirectory(dir=self.directory) as name:
            place = pathlib.Path(name)
            for entry, kind in sorted(planted.items()):
                path = place / entry
                if path.parent == place or (path.parent.is_dir() and not path.parent.is_symlink()):
                    self.plant(path, kind)
            for write in (self.write_file, self.write_below, self.change, self.make):
                with contextlib.suppress(OSError, atomic_write.OutputError):
                    write(place)
            self.check_outside()

    def plant(self, path, kind):
        targets = {"link": "secret", "link to a directory": ".", "link to nothing": "new"}
        if kind == "file":
            path.touch()
        elif kind == "directory":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(self.outside / targets[kind])

    def write_file(self, place):
        with atomic_write.writing(str(place / "file")) as file:
            file.write(b"text")

    def write_below(self, place):
        with atomic_write.open_directory(str(place)) as output, output.below("below") as below:
            with below.writing("file") as file:
                file.write(b"text")

    def change(self, place):
        with atomic_write.changing(str(place / "file")):
            self.write_file(place)

    def make(self, place):
        with atomic_write.open_directory(str(place)) as output, output.below("deep"):
            pass
