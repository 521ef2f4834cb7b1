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
