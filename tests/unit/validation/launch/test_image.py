# SPDX-License-Identifier: Apache-2.0
"""The image's directory: found, whole, or refused with what to do."""

import hashlib
import os
from unittest import mock

from nova_perf_tuning.validation.launch import base, image
from tests.support import directories


class ImageTest(directories.DirectoryCase):
    def setUp(self) -> None:
        super().setUp()
        for name in ("vmlinuz", "initrd", "root.img", "sums", "complete"):
            (self.directory / name).touch()
        (self.directory / "packages").write_text("fio 3.33-3\niperf3 3.12-1\n")
        (self.directory / "release").write_text("6.1.0-1-cloud-amd64\n")

    def test_built_image_is_read_with_its_packages(self) -> None:
        built = image.load(str(self.directory))
        self.assertEqual({"fio": "3.33-3", "iperf3": "3.12-1"}, built.packages)
        self.assertEqual("6.1.0-1-cloud-amd64", built.release)
        self.assertEqual(str(self.directory / "root.img"), built.root)

    def test_unfinished_image_is_refused(self) -> None:
        (self.directory / "complete").unlink()
        with self.assertRaisesRegex(base.LaunchError, "tools/image/build"):
            image.load(str(self.directory))

    def test_the_smallest_image_that_has_all_programs(self) -> None:
        """What was added is taken by those alone who need something of it; what no image has is named."""
        with mock.patch.dict(os.environ, {"NOVA_PERF_CACHE": str(self.directory)}):
            for link, inside in (
                ("image", "fio"),
                ("full-image", "fio smbd"),
                ("own-image", "fio netperf"),
            ):
                self.write_file(f"{link}/complete", "")
                self.write_file(f"{link}/programs", inside)
            (self.directory / "own-image" / "added").write_text(
                f"directory 755 - /a\nfile 644 {'0' * 64} /a/b c\n"
            )
            for wanted, link in (
                (["fio"], "image"),
                (["fio", "smbd"], "full-image"),
                (["fio", "netperf"], "own-image"),
                (["/a/b c"], "own-image"),
            ):
                with self.subTest(wanted):
                    self.assertEqual(str(self.directory / link), image.default_directory(wanted))
            for wanted in (["cyclictest"], ["netperf", "smbd"], ["/a"]):
                with self.subTest(wanted):
                    with self.assertRaisesRegex(
                        base.LaunchError, f"no guest image has all of {wanted[0]}"
                    ):
                        image.default_directory(wanted)

    def test_added_files_that_differ_between_host_and_guests(self) -> None:
        """A tool that was built anew; who uses nothing of it is not concerned."""
        tool = self.directory / "tool"
        tool.mkdir()
        lines = [f"directory 755 - {tool}"]
        for name in ("Run", "program"):
            (tool / name).write_text(name)
            lines.append(f"file 755 {hashlib.sha256(name.encode()).hexdigest()} {tool / name}")
        (self.directory / "added").write_text("".join(f"{line}\n" for line in lines))
        built = image.load(str(self.directory))
        needed = {str(tool / "Run")}
        image.check_same_programs(built, needed)
        (tool / "log").touch()  # what a run has left
        image.check_same_programs(built, needed)
        (tool / "program").write_text("another build")
        with self.assertRaisesRegex(base.LaunchError, "program is not the program of guest image"):
            image.check_same_programs(built, needed)
        image.check_same_programs(built, {"fio"})
        (tool / "program").unlink()  # the host cannot run it, guests can
        image.check_same_programs(built, needed)

    def test_programs_that_differ_between_host_and_guests(self) -> None:
        """An upgrade of the host, an own program built anew since, another build that comes first on PATH."""
        programs = self.directory / "programs"
        programs.mkdir()
        names = ("fio", "nova-perf-bench", "nova-perf-tpcc.lua")
        sums = ""
        for name in names:
            (programs / name).write_text(name)
            (programs / name).chmod(0o755)
            sums += f"{hashlib.sha256(name.encode()).hexdigest()}  /some/where/{name}\n"
        wanted = {"fio", "nova-perf-bench", "netperf"}
        with mock.patch.dict(
            os.environ, {"NOVA_PERF_CACHE": str(self.directory), "PATH": "/nonexistent"}
        ):
            (self.directory / "sums").write_text(sums)
            built = image.load(str(self.directory))
            image.check_same_programs(built, wanted)
            for changed, needed in (("fio", "fio"), ("nova-perf-tpcc.lua", "nova-perf-bench")):
                with self.subTest(changed):
                    (programs / changed).write_text("another build")
                    with self.assertRaisesRegex(
                        base.LaunchError, f"{changed} is not the {changed} of guest image"
                    ):
                        image.check_same_programs(built, {needed})
                    (programs / changed).unlink()  # missing on the host is another fault
                    image.check_same_programs(built, {needed})

    def test_default_directory(self) -> None:
        cases = (
            ({"HOME": "/h"}, "/h/.cache/nova-perf-tuning/image"),
            ({"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/nova-perf-tuning/image"),
            ({"HOME": "/h", "XDG_CACHE_HOME": "/x", "NOVA_PERF_CACHE": "/n"}, "/n/image"),
        )
        for variables, expected in cases:
            with mock.patch.dict(os.environ, variables, clear=True):
                self.assertEqual(expected, image.default_directory())
