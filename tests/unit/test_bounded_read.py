# SPDX-License-Identifier: Apache-2.0
"""The one bounded reader."""

import errno
import os
import threading
from unittest import mock

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
        self.assertEqual(
            errno.EFBIG, self.assertRaises(OSError, bounded_read.read_text, self.file, 19).errno
        )

    def test_no_device_or_pipe_of_a_sysroot_is_ever_opened(self):
        root = str(self.directory)
        os.symlink("/dev/null", f"{root}/device")
        os.mkfifo(f"{root}/fifo")
        opened = []
        real = os.open

        def watched(path, flags, *arguments, **more):
            if not flags & os.O_PATH:
                opened.append(path)
            return real(path, flags, *arguments, **more)

        with mock.patch.object(os, "open", watched):
            for name, number in (("/device", errno.ELOOP), ("/fifo", errno.EINVAL)):
                error = self.assertRaises(OSError, bounded_read.kernel_text, root, name)
                self.assertEqual(number, error.errno)
            self.assertEqual([b"", b""], bounded_read.kernel_pages(root, "/", ["device", "fifo"]))
            for name in ("device", "fifo"):
                error = self.assertRaises(OSError, bounded_read.read_text, f"{root}/{name}", 100)
                self.assertEqual(errno.EINVAL, error.errno)
        self.assertEqual([], opened)

    def test_of_many_kernel_files_those_that_cannot_be_read_are_empty(self):
        (self.directory / "plain").write_text("1\n")
        names = ["plain", "none", "a\0b", "."]
        self.assertEqual(
            [b"1\n", b"", b"", b""], bounded_read.kernel_pages("", str(self.directory), names)
        )
        self.assertEqual(
            [b"", b""], bounded_read.kernel_pages("", str(self.directory / "none"), ["a", "b"])
        )

    def test_many_files_of_a_sysroot_are_those_inside_of_it(self):
        root = self.directory / "root"
        for directory in (root / "irq/24", self.directory / "outside/24"):
            directory.mkdir(parents=True)
            (directory / "smp_affinity_list").write_text(f"{directory.parent.name}\n")
        os.symlink("24", root / "irq/25")
        os.symlink(self.directory / "outside/24", root / "irq/26")
        os.symlink(self.directory / "outside", root / "elsewhere")
        os.mkdir(root / "irq/27")
        os.symlink("../24/smp_affinity_list", root / "irq/27/smp_affinity_list")
        os.symlink(
            self.directory / "outside/24/smp_affinity_list",
            root / "irq/24/effective_affinity_list",
        )
        names = [f"{number}/smp_affinity_list" for number in (24, 25, 26, 27)]
        names.append("24/effective_affinity_list")
        for _again in range(2):
            self.assertEqual(
                [b"irq\n", b"irq\n", b"", b"irq\n", b""],
                bounded_read.kernel_pages(str(root), "/irq", names),
            )
            self.assertEqual(
                [b""], bounded_read.kernel_pages(str(root), "/elsewhere", ["24/smp_affinity_list"])
            )

    def test_many_files_are_looked_at_once_and_a_link_that_comes_later_is_not_followed(self):
        root = self.directory / "root"
        (root / "irq/24").mkdir(parents=True)
        plain = root / "irq/24/smp_affinity_list"
        plain.write_text("irq\n")
        reading = str(root), "/irq", ["24/smp_affinity_list"]
        self.assertEqual([b"irq\n"], bounded_read.kernel_pages(*reading))
        again = AssertionError("looked at again")
        with (
            mock.patch.object(os, "stat", side_effect=again),
            mock.patch.object(os, "lstat", side_effect=again),
        ):
            self.assertEqual([b"irq\n"], bounded_read.kernel_pages(*reading))
            plain.unlink()
            plain.symlink_to(self.file)
            self.assertEqual([b""], bounded_read.kernel_pages(*reading))
            plain.unlink()
            os.mkfifo(plain)
            self.assertEqual([b""], bounded_read.kernel_pages(*reading))

    def test_who_allows_no_link_or_nothing_outside_gets_none(self):
        inside = self.directory / "inside"
        inside.mkdir()
        (inside / "out").symlink_to(self.file)
        (inside / "plain").write_text("text")
        (inside / "link").symlink_to("plain")
        limits = {"inside": str(inside)}
        self.assertEqual("text", bounded_read.read_text(inside / "link", 100, **limits))
        for name, more in (("out", limits), ("link", {"links": False})):
            error = self.assertRaises(OSError, bounded_read.read_text, inside / name, 100, **more)
            self.assertEqual((errno.ELOOP, str(inside / name)), (error.errno, error.filename))

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
