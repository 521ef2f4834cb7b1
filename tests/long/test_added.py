# SPDX-License-Identifier: Apache-2.0
"""A tool that no image has: added with its directory, and measured in guests and on the host by validate."""

import os
import pathlib
import shutil
import tempfile
from typing import Final
from unittest import mock

from nova_perf_tuning.validation.launch import base, libvirt
from nova_perf_tuning.validation.measure import results_file
from tests.functional.validate import plugin
from tests.support import patience, rig

#: Of busybox too is an applet called "factor", which the guest must not take for it.
NAME: Final = "factor"
#: Prints the cube root of the number in a file; libm has it.
SOURCE: Final = """
#include <math.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **words) {
    double number;
    FILE *file = count == 2 ? fopen(words[1], "r") : NULL;
    if (!file || fscanf(file, "%lf", &number) != 1) return 1;
    usleep(300000);
    printf("root %.3f\\n", cbrt(number));
    return 0;
}
"""
PLUGIN: Final = """
import re
from nova_perf_tuning.validation.bench import base

class Root(base.Benchmark):
    kind, summary = "root", "a cube root"
    packages, programs = (), ("factor",)
    parameters = (base.Parameter("table", "", "file"),)
    primary = ("root", "1", "higher")
    image_variant, brought = "own", "compile it"

    def steps(self, given, peer=None):
        return (base.Step(("factor", given["table"]), "client", 60.0),)

    def files(self, given):
        return (given["table"],) if "table" in given else ()

    def parse(self, output):
        [value] = re.findall(r"^root ([0-9.]+)$", output, re.M)
        return [base.Reading(*self.primary, float(value), primary=True)]
"""


class AddedTest(rig.GuestCase):
    def setUp(self) -> None:
        super().setUp()
        self.output = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-validate-"))
        )
        # Not below /tmp, which guests have of their own.
        self.tool = pathlib.Path(tempfile.mkdtemp(prefix="nova-perf-tool-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.tool)
        self.table = self.tool / "data" / "table"
        self.table.parent.mkdir()
        self.table.write_text("27\n", encoding="ascii")
        self.program = self.tool / "bin" / NAME
        self.program.parent.mkdir()
        self.compile("-O1")
        plugin.install(self.output / "plugin", "nova_perf_root", PLUGIN, {"root": "Root"})
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(self.output / "plugin"),
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            # The links to images of whoever runs the tests stay as they are.
            "NOVA_PERF_CACHE": str(self.output / "cache"),
        }

    def compile(self, *flags: str) -> None:
        source = self.output / "root.c"
        source.write_text(SOURCE, encoding="ascii")
        done = patience.run(["gcc", *flags, "-o", self.program, source, "-lm"])
        self.assertEqual(0, done.returncode, done.stderr)

    def build(self, *options: str) -> str:
        build = [
            rig.TOP / "tools" / "image" / "build",
            f"--add={self.program}",
            f"--add={self.tool}/data",
        ]
        done = patience.run([*build, *options], limit_s=2 * patience.LIMIT_S, env=self.environment)
        self.assertEqual(0, done.returncode, done.stderr)
        if "--check" in options:
            self.assertEqual(
                "built again: vmlinuz initrd root.img are the same, byte for byte",
                done.stderr.strip(),
            )
        return done.stdout

    def test_measured_in_guests_and_on_the_host(self) -> None:
        message = self.build("--check")
        sizes = r"\nfiles:\n +[0-9.]+M\tvmlinuz\n +[0-9.]+M\tinitrd\n +[0-9.]+M\troot\.img\n"
        self.assertRegex(message, sizes)
        self.assertRegex(
            message, rf"\nadded:\n +[0-9.]+K\t{self.program}\n +[0-9.]+K?\t{self.tool}/data\n"
        )

        arguments = ["validate", "--boots=1", "--blocks=1", f"--output={self.output}"]
        arguments += [
            f"--time-limit={2 * patience.LIMIT_S:.0f}s",
            f"--benchmark=root:table={self.table}",
        ]
        self.nova_perf(*arguments)
        results = results_file.load(str(self.output / "results.json"))
        self.assertEqual([], results.environment.errors)
        self.assertRegex(results.environment.shown["image"]["id"], r"\Aown-image-[0-9a-f]{16}\Z")
        roots = {trial.arm: trial.value for trial in results.trials}
        self.assertEqual({"host": 3.0, "untuned": 3.0, "tuned": 3.0}, roots)
        report = (self.output / "report.html").read_text(encoding="utf-8")
        self.assertRegex(report, r"(?s)<h2>root</h2>.*</span>host</td>.*</span>untuned</td>")

        self.assert_another_build_is_refused(str(self.output / "cache" / "own-image"))

    def assert_another_build_is_refused(self, image: str) -> None:
        """The program as it is now, on a host whose guests would run what it was."""
        self.compile("-g")
        path = {"PATH": self.environment["PATH"]}
        with (
            mock.patch.dict(os.environ, path),
            libvirt.LibvirtLauncher(accelerator="tcg", image_directory=image) as launcher,
        ):
            launcher.require({NAME, str(self.table)}, 0, 0)
            launcher.prepare()
            with self.assertRaises(base.LaunchError) as caught:
                launcher.host_pair()
        self.assertRegex(
            str(caught.exception),
            rf"\A{self.program} is not the {NAME} of guest image own-image-.*; build the image anew",
        )
