# SPDX-License-Identifier: Apache-2.0
"""tools/image/added: what it lists of this host, what it puts into an image, and what it refuses in one line."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tests.support import patience, testcase

TOOL = pathlib.Path(__file__).parents[3] / "tools" / "image" / "added"


def run(*arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return patience.run([sys.executable, TOOL, *arguments])


class AddedTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # Not below /tmp, which guests have of their own.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nova-perf-added-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.tool = self.directory / "tool"
        (self.tool / "empty").mkdir(parents=True)
        (self.tool / "Run").write_text("#!/bin/sh\necho done\n")
        (self.tool / "Run").chmod(0o755)
        (self.tool / "some data").write_text("1 2 3\n")
        (self.tool / "link").symlink_to("some data")
        self.root = self.directory / "root"
        for name in ("bin", "sbin", "usr/bin", "etc"):
            (self.root / name).mkdir(parents=True)
        (self.root / "bin" / "busybox").write_text("busybox")
        (self.root / "bin" / "sort").symlink_to("busybox")
        (self.root / "usr/bin/fio").write_text("fio of the image")

    def listed(self, *paths: str | pathlib.Path) -> str:
        done = run("list", *paths)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout

    def copied(self, *paths: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        listing = self.directory / "listing"
        listing.write_text(self.listed(*paths))
        return run("copy", listing, self.root)

    def program(self, name: str, text: str = "#!/bin/sh\n") -> pathlib.Path:
        path = self.directory / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def assert_refused(self, words: str, *paths: str | pathlib.Path) -> None:
        done = run("list", *paths)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, rf"\Aimage/build: --add [^\n]*{words}[^\n]*\n\Z")

    def test_a_directory_is_copied_whole_with_its_modes(self) -> None:
        self.tool.chmod(0o750)
        self.assertEqual("", self.copied(self.tool).stderr)
        there = pathlib.Path(f"{self.root}{self.tool}")
        self.assertEqual({"Run", "empty", "link", "some data"}, set(os.listdir(there)))
        self.assertEqual(
            (0o750, 0o755),
            (there.stat().st_mode & 0o7777, (there / "Run").stat().st_mode & 0o7777),
        )
        # A link may lead to what the image lacks.
        self.assertFalse((there / "link").is_symlink())
        self.assertEqual("1 2 3\n", (there / "link").read_text())

    def test_libraries_come_along(self) -> None:
        """Of a program, and of a program inside a directory; each is listed once, whatever the order."""
        inside = self.tool / "program"
        shutil.copy(sys.executable, inside)
        listed = self.listed(self.tool)
        self.assertRegex(listed, r"(?m)^library [0-7]+ [0-9a-f]{64} /lib.*/libc\.so\.6$")
        self.assertRegex(listed, r"(?m)^library [0-7]+ [0-9a-f]{64} /lib.*/ld-linux.*\.so\.[0-9]$")
        self.assertRegex(listed, rf"(?m)^file 755 [0-9a-f]{{64}} {inside}$")
        both = self.listed(self.tool, "/bin/sh", "/bin//sh")
        self.assertEqual(both, self.listed("/usr/bin/sh", self.tool))
        self.assertEqual(1, len(re.findall(r"(?m)^program .*/sh$", both)))
        self.assertEqual(1, len(re.findall(r"/libc\.so\.6$", both, re.MULTILINE)))

    def test_a_program_is_found_by_its_name_before_the_applet(self) -> None:
        for name in ("sort", "netperf"):
            with self.subTest(name):
                path = self.program(name)
                self.assertEqual("", self.copied(path).stderr)
                self.assertEqual(str(path), os.readlink(self.root / "bin" / name))
                self.assertTrue(os.access(f"{self.root}{path}", os.X_OK))

    def test_what_the_image_has_is_not_overwritten(self) -> None:
        for path, words in (
            (self.program("fio"), "the image has a fio of its own, /usr/bin/fio"),
            (self.program("busybox"), "the image has a busybox of its own, /bin/busybox"),
        ):
            with self.subTest(path):
                self.assert_not_copied(words, path)
        other = pathlib.Path(f"{self.root}{self.tool}")
        other.mkdir(parents=True)
        (other / "Run").write_text("another one")
        self.assert_not_copied("the image has another /.*/tool/Run of its own", self.tool)
        self.assertEqual("another one", (other / "Run").read_text())
        shutil.copy(self.tool / "Run", other / "Run")  # the same is no fault
        self.assertEqual("", self.copied(self.tool).stderr)

    def assert_not_copied(self, words: str, path: pathlib.Path) -> None:
        done = self.copied(path)
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, rf"\Aimage/build: --add {path}[^\n]*{words}[^\n]*\n\Z")

    def test_what_an_image_cannot_hold_is_refused(self) -> None:
        os.mkfifo(self.directory / "fifo")
        self.assert_refused("there is no such file", self.directory / "nothing")
        self.assert_refused("give an absolute path", "tool")
        self.assert_refused(r"without '\.\.'", f"{self.tool}/../tool")
        self.assert_refused("neither a file nor a directory", self.directory / "fifo")
        self.assert_refused("nothing below /proc of an image is seen", "/proc/version")
        self.assert_refused("nothing below /dev of an image is seen", "/dev/null")
        self.assert_refused("has the same name", self.program("Run"), self.tool / "Run")
        (self.tool / 'a "name"').touch()
        self.assert_refused("an image cannot hold such a name", self.tool)
