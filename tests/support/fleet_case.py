# SPDX-License-Identifier: Apache-2.0
"""openstack perf validate on a simulated cloud: the cloud, and a case that runs it."""

import io
import os
import pathlib

import fixtures

from nova_perf_tuning.cli import cloud_validate, cloud_validate_run
from nova_perf_tuning.validation.heat import heat_pair
from nova_perf_tuning.validation.measure import results_file
from tests.support import directories
from tests.support import simulated_cloud as simulation

#: What is measured; a run that goes on keeps it.
QUICK = ("--benchmark", "iperf3", "--benchmark", "cpu")


def parse(*arguments):
    """Return the options of the command."""
    return (
        cloud_validate.Validate(None, None)
        .get_parser("openstack perf validate")
        .parse_args(arguments)
    )


class SimulatedCloud(heat_pair.HeatCloud):
    """Takes the place of the cloud behind the command; time runs 2,000 times as fast."""

    def __init__(self, cloud=None, count=6):
        super().__init__("simulated", None)
        self.cloud = cloud or simulation.Cloud()
        self.count = count
        self.where = "region R project p"

    def identity(self):
        return self.where

    def choose(self, words):
        if words == ["any"]:
            return [""], {}
        return [f"h{number:03d}" for number in range(self.count)], {"h999": "down"}

    def launcher(self, guests):
        self.guests = guests
        self.made = simulation.SimulatedLauncher(self.cloud, simulation.RealTime(1 / 2000))
        return self.made


class SimulatedValidation(directories.DirectoryCase):
    """Runs the command; what it wrote is in a directory of the test."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch("secrets.randbelow", lambda _: 3))
        self.output = os.path.join(self.directory, "out")
        self.url = f"sqlite:///{self.directory}/results.db"
        self.out, self.err = io.StringIO(), io.StringIO()

    def validate(self, *arguments, cloud=None):
        """Return the exit code; what was printed is in ``out`` and ``err``."""
        quick = () if {"--resume", "--benchmark"} & set(arguments) else QUICK
        args = parse(*quick, "--output", self.output, "--database", self.url, *arguments)
        self.cloud = cloud or SimulatedCloud()
        self.out, self.err = io.StringIO(), io.StringIO()
        with (
            fixtures.MonkeyPatch("sys.stdout", self.out),
            fixtures.MonkeyPatch("sys.stderr", self.err),
        ):
            return cloud_validate_run.Run(args, self.cloud).run()

    def budget(self, line):
        """Write a budget and return the path of its file."""
        return self.write_file("budget.yaml", f"budgets: [{{{line}}}]")

    def results(self):
        return results_file.load(os.path.join(self.output, "results.json"))

    def report(self):
        return pathlib.Path(self.output, "report.html").read_text(encoding="utf-8")
