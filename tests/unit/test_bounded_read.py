# SPDX-License-Identifier: Apache-2.0
"""The one bounded reader."""

import errno
import os
import threading

from nova_perf_tuning import bounded_read
from tests.support import directories


class ReadTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.file = self.directory / "file"
        self.file.write_bytes(b"\xc3\xa4" * 10)

    def test_plain_files(self):
        self.assertEqual("\u00e4" * 10, bounded_read.read_text(self.file, 20))

    def test_refusals_are_one_kind_of_error(self):
        os.mkfifo(self.directory / "fifo")
        latin = self.directory / "latin"
        latin.write_bytes(b"\xe4")
        for path, number in (
            (self.directory / "absent", errno.ENOENT),
            (self.directory, errno.EISDIR),
            (self.directory / "fifo", errno.EINVAL),
            ("/dev/zero", errno.EINVAL),
            ("a\0b", errno.EINVAL),
            (latin, errno.EILSEQ),
        ):
            with self.subTest(path):
                error = self.assertRaises(OSError, bounded_read.read_text, path, 100)
                self.assertEqual(number, error.errno)
                self.assertTrue(error.strerror)
        self.assertEqual(errno.EFBIG, self.assertRaises(OSError, bounded_read.read_text, self.file, 19).errno)

    def test_an_argument_may_be_a_pipe(self):
        fifo = str(self.directory / "fifo")
        os.mkfifo(fifo)
        self.assertEqual(b"", bounded_read.read_argument(fifo, 100))  # nobody writes
        reader = open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        writer = open(fifo, "w")
        reader.close()
        late = threading.Timer(0.1, lambda: (writer.write("text\n"), writer.close()))
        late.start()
        self.addCleanup(late.join)
        self.assertEqual(b"text\n", bounded_read.read_argument(fifo, 100))
