"""Output files: an error names the file that was to be written."""

import errno
import os

import fixtures
import testtools

from nova_perf_tuning import whole_file


class WholeFileTest(testtools.TestCase):
    def test_a_full_disk_is_told_with_the_file(self):
        folder = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(folder, "results.json")

        def full(_descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def write():
            with whole_file.writing(path) as file:
                file.write(b"x")

        with fixtures.MonkeyPatch("os.fsync", full):
            error = self.assertRaises(OSError, write)
        self.assertEqual((errno.ENOSPC, path), (error.errno, error.filename))
        self.assertEqual([], os.listdir(folder))

    def test_one_changes_a_file_at_a_time(self):
        folder = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(folder, "noise.json")

        def change(patience):
            with whole_file.changing(path, patience):
                pass

        with whole_file.changing(path):
            error = self.assertRaises(whole_file.OutputError, change, 0.05)
            self.assertIn(f"{path}: somebody else has been changing it", str(error))
        change(0.05)
        self.assertEqual([], os.listdir(folder))
        with open(os.path.join(folder, ".noise.json.lock"), "w", encoding="ascii"):
            pass  # of a process that was killed
        change(0.05)
        self.assertEqual([], os.listdir(folder))

    def test_a_folder_that_cannot_be_written_is_told_with_the_file(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, "noise.json")

        def refused(*_arguments):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), "the lock")

        with fixtures.MonkeyPatch("os.open", refused):
            error = self.assertRaises(OSError, whole_file.changing(path).__enter__)
        self.assertEqual((errno.EROFS, path), (error.errno, error.filename))
