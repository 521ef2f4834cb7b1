"""The guest's root file system is a matter of the files in it, not of when it is made."""

import os
import pathlib
import tempfile
import time
import unittest

from tests.support import patience

PACK = pathlib.Path(__file__).parents[3] / "tools" / "image" / "pack"
ENVIRONMENT = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}


class PackTest(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="nova-perf-pack-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def packed(self, name: str, text: str) -> bytes:
        """Return the file system of a new directory with files, directories, links and one name with blanks."""
        files = self.directory / name
        (files / "usr/lib/some folder").mkdir(parents=True)
        (files / "usr/lib/program").write_text(text)
        os.link(files / "usr/lib/program", files / "usr/lib/same")
        (files / "bin").symlink_to("usr/lib")
        (files / "dead").symlink_to("nowhere")
        (files / "usr/lib/some folder/data").write_bytes(bytes(100_000))
        disk = self.directory / f"{name}.img"
        done = patience.run([PACK, files, disk, "8M"])
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))
        checked = patience.run(["e2fsck", "-fn", disk], env=ENVIRONMENT)
        self.assertEqual(0, checked.returncode, checked.stdout)
        return disk.read_bytes()

    def test_the_same_files_are_the_same_bytes_whenever_they_were_made(self) -> None:
        first = self.packed("first", "one")
        time.sleep(1.1)  # what a file system keeps of a time is whole seconds
        self.assertTrue(first == self.packed("second", "one"), "two builds differ")
        self.assertFalse(first == self.packed("third", "two"))

    def test_what_cannot_be_packed_is_an_error(self) -> None:
        (self.directory / "files").mkdir()
        (self.directory / "files" / "large").write_bytes(bytes([1]) * 4_000_000)
        done = patience.run([PACK, self.directory / "files", self.directory / "disk", "2M"])
        self.assertNotEqual(0, done.returncode)
        self.assertIn("large", done.stderr)
        self.assertEqual(3, patience.run([PACK]).returncode)
