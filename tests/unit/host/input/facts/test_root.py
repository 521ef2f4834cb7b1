# SPDX-License-Identifier: Apache-2.0
"""What a recorded root refuses: ways out, blocking files, huge files, circles; and the same for archives."""

import io
import os
import pathlib
import stat
import tarfile
import tempfile
from unittest import mock

from nova_perf_tuning.host.input.facts import archive, reader
from nova_perf_tuning.host.input.facts.root import Directory, FactsError, Root
from nova_perf_tuning.host.model.notes import Note, NoteCode
from tests.support import testcase, trees


class TestDirectory(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        outside = trees.grow(self, {"secret": "outside", "directory/secret": "outside"})
        self.outside = outside
        self.path = trees.grow(
            self,
            {
                "sys/value": "7",
                "sys/text": "a b",
                "sys/cpus": "0-3,8",
                "sys/null": "(null)",
                "sys/mask": "ff,00000001",
                "sys/bad": "0-3,x",
                "sys/real/file": "inside",
                "sys/to_file": trees.link("real/file"),
                "sys/absolute": trees.link("/sys/real"),
                "sys/relative": trees.link("real"),
                "sys/chain": trees.link("relative"),
                "sys/out_directory": trees.link(f"{outside}/directory"),
                "sys/out_file": trees.link(f"{outside}/secret"),
                "sys/up": trees.link("../" * 30 + outside.lstrip("/") + "/directory"),
                "sys/circle": trees.link("circle2"),
                "sys/circle2": trees.link("circle"),
                "sys/itself": trees.link("."),
            },
        )
        self.root = Root(self.path)
        self.sys = self.root.directory("sys")

    def cpus(self, name: str) -> str | None:
        return self.root.cpu_list(self.root.read(self.sys, name), f"sys/{name}")

    def test_values_are_parsed_or_noted(self) -> None:
        self.assertEqual(7, self.root.number(self.sys, "value"))
        self.assertEqual("a b", self.root.text(self.sys, "text"))
        self.assertIsNone(self.root.number(self.sys, "text"))
        self.assertEqual("0-3,8", self.cpus("cpus"))
        self.assertEqual("", self.cpus("null"))
        self.assertEqual("ff,00000001", self.root.cpu_mask(self.root.read(self.sys, "mask")))
        self.assertIsNone(self.cpus("bad"))
        self.assertEqual(
            (Note.of(NoteCode.NOT_CPU_LIST, places=("sys/bad",)),), self.root.notes.all()
        )

    def test_links_stay_inside(self) -> None:
        for name in ("absolute", "relative", "chain"):
            with self.subTest(name):
                self.assertEqual("sys/real", self.root.child(self.sys, name), name)
                self.assertEqual(
                    b"inside\n", self.root.read(self.root.child(self.sys, name), "file")
                )
        self.assertEqual(b"inside\n", self.root.read(self.sys, "to_file"))
        self.assertEqual([b"inside\n", b"7\n"], self.root.each(self.sys, ["to_file", "value"]))
        self.assertEqual("real", self.root.link(self.sys, "relative"))

    def test_links_out_lead_nowhere(self) -> None:
        for name in ("out_directory", "up", "circle"):
            with self.subTest(name):
                self.assertIsNone(self.root.child(self.sys, name), name)
        for name in ("out_file", "circle", "circle/file"):
            with self.subTest(name):
                self.assertIsNone(self.root.read(self.sys, name), name)
                self.assertEqual([None], self.root.each(self.sys, [name]))
        self.assertIsNone(self.root.directory(f"sys/../../../{self.outside}/directory"))
        self.assertEqual("sys", self.root.child(self.sys, "itself"))
        self.assertNotIn("out_directory", self.root.directories(self.sys))
        self.assertIn("real", self.root.directories(self.sys))

    def test_files_that_block_or_flood(self) -> None:
        os.mkfifo(f"{self.path}/sys/fifo")
        with open(f"{self.path}/sys/huge", "wb") as file:
            file.truncate(1 << 40)
        os.makedirs(f"{self.path}/sys/directory")
        for name in ("fifo", "huge", "directory", "missing"):
            with self.subTest(name):
                self.assertFalse(self.root.read(self.sys, name), name)
                self.assertFalse(self.root.each(self.sys, [name])[0], name)
                self.assertFalse(self.root.head(self.sys, name, 100) and name != "huge", name)
        self.assertEqual(100, len(self.root.head(self.sys, "huge", 100)))
        self.assertIn(
            Note.of(NoteCode.TOO_LONG, places=("sys/huge", "sys/huge")), self.root.notes.all()
        )

    def test_only_plain_files_are_opened(self) -> None:
        """Opening alone would start a watchdog or rewind a tape."""
        os.mkfifo(f"{self.path}/sys/fifo")
        kinds = []
        really = os.open

        def watched(path: str, flags: int, *arguments: int, **more: int) -> int:
            descriptor = really(path, flags, *arguments, **more)
            if not flags & os.O_PATH:
                kinds.append(stat.S_IFMT(os.fstat(descriptor).st_mode))
            return descriptor

        with mock.patch.object(os, "open", watched):
            self.assertEqual(7, self.root.number(self.sys, "value"))
            self.assertIsNone(self.root.read(self.sys, "fifo"))
            self.assertEqual([None], self.root.each(self.sys, ["fifo"]))
        self.assertEqual([stat.S_IFREG, stat.S_IFDIR], kinds)
        self.assertEqual(
            (Note.of(NoteCode.NOT_A_FILE, places=("sys/fifo", "sys/fifo")),), self.root.notes.all()
        )

    def test_links_that_come_while_it_is_read_lead_nowhere(self) -> None:
        """The owner of a recorded host may swap its directories and files at any moment."""
        real, out_file = self.root.child(self.sys, "real"), pathlib.Path(self.path, "sys/late")
        out_file.write_text("inside")
        self.assertEqual("sys/late", self.root._resolve("sys/late"))
        out_file.unlink()
        out_file.symlink_to(f"{self.outside}/secret")
        self.assertIsNone(self.root.read(self.sys, "late"))
        above = pathlib.Path(self.path, "sys")
        above.rename(f"{self.path}/old")
        above.symlink_to(self.outside)
        pathlib.Path(self.outside, "real").mkdir()
        pathlib.Path(self.outside, "real/file").write_text("outside")
        self.assertIsNone(self.root.read(real, "file"))
        self.assertEqual([None], self.root.each(real, ["file"]))
        self.assertEqual([], self.root.names(real))
        self.assertEqual([], self.root.directories(self.sys))

    def test_each_of_many_directories(self) -> None:
        """What :meth:`Root.directories` named may be a link by then, which is not followed."""
        names = ["real", "out_directory", "relative", "value", "nowhere"]
        places = self.root.opened_each(self.sys, names)
        self.assertEqual([["file"], [], [], [], []], [place.names() for place in places])
        places = self.root.opened_each(self.sys, names)
        contents = [place.each(["file", "secret"]) for place in places]
        self.assertEqual([[b"inside\n", None]] + [[None, None]] * 4, contents)
        for nothing in (None, Directory("sys/out_directory")):
            with self.subTest(nothing):
                places = self.root.opened_each(nothing, ["real", "secret"])
                self.assertEqual([[], []], [place.directories() for place in places])

    def test_directory_is_open_no_longer_than_needed(self) -> None:
        before = os.listdir("/proc/self/fd")
        with self.root.opened(self.sys) as place, place.opened("real") as real:
            self.assertEqual([b"inside\n"], real.each(["file"]))
            self.assertEqual(["file"], real.names())
            self.assertIn("real", place.directories())
        for _place in self.root.opened_each(self.sys, ["real", "nowhere", "real"]):
            pass
        self.assertEqual(before, os.listdir("/proc/self/fd"))

    def test_listed_plain_file_needs_no_other_look(self) -> None:
        """A look at each of some thousand interrupts' files costs half of reading it."""
        os.mkfifo(f"{self.path}/sys/fifo")
        looks: list[str] = []
        really = os.lstat

        def watched(path: str, *, dir_fd: int | None = None) -> os.stat_result:
            looks.append(path)
            return really(path, dir_fd=dir_fd)

        with self.root.opened(self.sys) as place, mock.patch.object(os, "lstat", watched):
            self.assertEqual([b"7\n"], place.each(["value"]))
            self.assertEqual(["value"], looks)
            self.assertIn("fifo", place.names())
            self.assertEqual([b"7\n", None, None], place.each(["value", "fifo", "out_file"]))
        self.assertNotIn("value", looks[1:])
        self.assertEqual(
            (Note.of(NoteCode.NOT_A_FILE, places=("sys/fifo",)),), self.root.notes.all()
        )

    def test_nothing_below_nothing(self) -> None:
        for nothing in (None, Directory("not/there")):
            with self.subTest(nothing):
                self.assertIsNone(self.root.read(nothing, "file"))
                self.assertEqual([None, None], self.root.each(nothing, ["a", "b"]))
                self.assertEqual([], self.root.names(nothing))
                self.assertEqual([], self.root.directories(nothing))
                self.assertIsNone(self.root.child(nothing, "file"))
                self.assertIsNone(self.root.link(nothing, "file"))
                self.assertFalse(self.root.has(nothing, "file"))

    def test_trailing_nul_of_linux_5_15(self) -> None:
        pathlib.Path(self.path, "sys/list").write_bytes(b"0-31\n\0")
        self.assertEqual("0-31", self.cpus("list"))


class TestArchive(testcase.TestCase):
    def make(self, members: list[tuple[str, bytes | str | None]], mode: str = "w:xz") -> str:
        """Write an archive of files (bytes), links (str) and directories (None)."""
        descriptor, path = tempfile.mkstemp(suffix=".tar.xz")
        os.close(descriptor)
        self.addCleanup(os.unlink, path)
        with tarfile.open(path, mode) as file:
            for name, content in members:
                member = tarfile.TarInfo(name)
                if isinstance(content, bytes):
                    member.size = len(content)
                elif content is None:
                    member.type = tarfile.DIRTYPE
                else:
                    member.type, member.linkname = tarfile.SYMTYPE, content
                file.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
        return path

    def test_reads_like_a_directory(self) -> None:
        members: list[tuple[str, bytes | str | None]] = [
            ("./sys/real/file", b"inside\n"),
            ("sys/value", b"7\n"),
            ("sys/empty", None),
            ("sys/link", "real"),
            ("sys/absolute", "/sys/real"),
            ("sys/to_file", "link/file"),
            ("sys/out", "/etc"),
            ("sys/up", "../../../etc"),
            ("sys/circle", "circle"),
            ("../../etc/passwd", b"evil"),
            ("/proc/version", b"absolute\n"),
        ]
        for mode in ("w", "w:xz", "w:bz2", "w:gz"):
            with self.subTest(mode):
                root = archive.ArchiveRoot(self.make(members, mode))
                sys = root.directory("sys")
                self.assertEqual(7, root.number(sys, "value"))
                self.assertEqual(b"inside\n", root.read(root.child(sys, "link"), "file"))
                self.assertEqual(b"inside\n", root.read(root.child(sys, "absolute"), "file"))
                self.assertEqual(
                    [b"inside\n", b"inside\n"], root.each(sys, ["to_file", "real/file"])
                )
                self.assertEqual(
                    ["empty", "real"],
                    [n for n in root.directories(sys) if root.child(sys, n) == f"sys/{n}"],
                )
                for name in ("out", "up", "circle"):
                    self.assertIsNone(root.child(sys, name), name)
                self.assertIsNone(root.read(sys, "circle"))
                self.assertIsNone(root.directory("etc"))
                self.assertEqual(b"absolute\n", root.read(root.directory("proc"), "version"))
                places = root.opened_each(sys, ["real", "value", "nowhere"])
                self.assertEqual([["file"], [], []], [place.names() for place in places])
                with root.opened(sys) as place, place.opened("real") as real:
                    self.assertIn("real", place.directories())
                    self.assertEqual([b"7\n", None], place.each(["value", "nowhere"]))
                    self.assertEqual([b"inside\n"], real.each(["file"]))
                self.assertTrue(root.has(sys, "value"))
                self.assertEqual(b"7", root.head(sys, "value", 1))

    def test_damaged_and_foreign_files(self) -> None:
        good = self.make([("sys/value", os.urandom(100_000))])
        data = pathlib.Path(good).read_bytes()
        for bad in (
            data[:-2000],
            data[:100] + b"\0" * 200 + data[300:],
            b"no archive",
            b"",
            b"BZh9" + b"x" * 99,
        ):
            with self.subTest(bad):
                pathlib.Path(good).write_bytes(bad)
                error = self.assertRaises(FactsError, reader.read_host, good)
                self.assertNotIn("\n", str(error))

    def test_a_file_of_another_kind_is_refused_without_words_of_python(self) -> None:
        path = self.make([("sys/value", b"1")])
        pathlib.Path(path).write_bytes(b"mGnBAPEq" * 200)
        error = str(self.assertRaises(FactsError, archive.ArchiveRoot, path))
        self.assertIn("no recorded host or sosreport, or damaged (bad header)", error)

    def test_huge_archive_is_refused(self) -> None:
        self.assertEqual(256 << 20, archive.MAX_BYTES)
        path = self.make([("sys/value", b"7\n")], "w")
        member = tarfile.TarInfo("sys/bomb")
        member.size = archive.MAX_BYTES + 1
        with open(path, "r+b") as file:
            file.write(member.tobuf())
        error = self.assertRaises(FactsError, reader.read_host, path)
        self.assertIn("256 MiB", str(error))

    def test_a_member_counts_once(self) -> None:
        """One of more than half of the bound was refused."""
        self.patch(archive, "MAX_BYTES", 64 << 10)
        path = self.make([("sys/value", b"7" * 40_000)], "w")
        root = archive.ArchiveRoot(path)
        self.assertEqual(b"7" * 40_000, root.read(root.directory("sys"), "value"))
        two = self.make([("sys/value", b"7" * 40_000), ("sys/other", b"7" * 40_000)], "w")
        self.assertRaises(FactsError, archive.ArchiveRoot, two)

    def test_links_and_extended_headers_count_too(self) -> None:
        """Neither has content: 61 KB of links took 20 MB, and headers were read without end."""
        self.patch(archive, "MAX_MEMBERS", 100)
        links = os.path.join(trees.grow(self, {}), "links.tar")
        with tarfile.open(links, "w") as file:
            for number in range(101):
                member = tarfile.TarInfo(f"sys/class/net/e{number}")
                member.type, member.linkname = tarfile.SYMTYPE, "x" * 90
                file.addfile(member)
        self.assertRaises(FactsError, reader.read_host, links)
        self.patch(archive, "MAX_BYTES", 64 << 10)
        header = tarfile.TarInfo("pax")
        header.type, header.size = tarfile.XGLTYPE, 0
        path = os.path.join(trees.grow(self, {}), "headers.tar")
        pathlib.Path(path).write_bytes(header.tobuf(tarfile.USTAR_FORMAT) * 200)
        error = self.assertRaises(FactsError, reader.read_host, path)
        self.assertIn("more than 0 MiB", str(error))

    def test_names_are_bounded(self) -> None:
        """92 KB of extended headers once took 2.5 GB."""
        for name in ("sys/" + "x" * 1100, "sys/" + "a/" * 50 + "b", "sys/" + "y" * (1 << 20)):
            with self.subTest(name):
                path = self.make([("sys/value", b"7\n"), (name, b"1")], "w:xz")
                self.assertRaises(FactsError, reader.read_host, path)
