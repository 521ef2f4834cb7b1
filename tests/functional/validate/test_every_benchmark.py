# SPDX-License-Identifier: Apache-2.0
"""Every benchmark of the small guest image, in guests and on the host, through validate and in its report.

Each runs for as short as it can: what is shown is that it runs, is read and is reported, not how fast anything is.
Those of the full image take longer, and so does ``system``: tests/long.
"""

import json
import os
import pathlib
import re
import tempfile
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import overhead, results_file
from nova_perf_tuning.validation.results import model, reasons
from tests.functional.validate import plugin
from tests.support import patience, rig

#: Seconds in which an emulated guest finishes some transactions of tpcc; on a slow machine 8 were too few once.
TPCC_S: Final = 16
#: A window as short as this may hold less CPU than one tick.
SHORT_WINDOW_S: Final = 0.2
#: Label -> what the error says of a tool that breaks inside the guest.
BROKEN: Final = {"killed": "status 137", "garbage": "the output is cut off or foreign"}
ARMS: Final = {"host", "untuned", "tuned"}

#: sysbench, which in guests alone (they have run-job) is killed after a moment, or whose output is noise.
PLUGIN: Final = """
from nova_perf_tuning.validation.bench import base, sysbench

class Broken(sysbench.Cpu):
    def steps(self, given, peer=None):
        [step] = super().steps(given)
        script = '[ ! -e /usr/lib/perf/run-job ] || { ' + self.damage + '; }; exec "$@"'
        return (base.Step(("sh", "-c", script, "sh", *step.argv), "client", step.timeout_s),)

class Killed(Broken):
    kind = "killed"
    damage = '"$@" & usleep 300000; kill -9 $!; wait $!; exit $?'

class Garbage(Broken):
    kind = "garbage"
    damage = "head -c 3000 /dev/urandom; exit 0"
"""


class EveryBenchmarkCase(rig.GuestCase):
    """Runs the benchmarks of an image.

    :cvar variant: the image.
    :cvar short: benchmark -> the parameters with which it is over soonest.
    :cvar elsewhere: benchmarks of the image that another test runs.
    """

    variant: str
    short: Mapping[str, str]
    elsewhere: frozenset[str] = frozenset()

    def setUp(self) -> None:
        super().setUp()
        self.output = self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-every-"))
        directory = pathlib.Path(self.output, "plugin")
        plugin.install(
            directory, "nova_perf_broken", PLUGIN, {kind: kind.capitalize() for kind in BROKEN}
        )
        self.environment = {**os.environ, "PYTHONPATH": str(directory)}

    def run_each(self) -> None:
        """Let each run in guests and on the host, and see that it is reported."""
        carried = {
            benchmark.kind
            for benchmark in plugins.load_all()
            if benchmark.image_variant == self.variant
        }
        self.assertEqual(
            carried,
            self.elsewhere.union(self.short),
            "a benchmark of the image that this test does not run, or none of it",
        )
        # Other work takes CPU from the guests, so that they need longer.
        busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        seconds = round(TPCC_S * busy)
        # The broken ones come first: all others run after them.
        chosen = list(BROKEN)
        for kind, parameters in self.short.items():
            given = parameters.format(seconds=seconds)
            chosen.append(f"{kind}:{given}" if given else kind)
        arguments = [
            "validate",
            "--boots",
            "1",
            "--blocks",
            "1",
            "--seconds",
            "1",
            "--output",
            self.output,
        ]
        arguments += ["--time-limit", f"{2 * patience.LIMIT_S:.0f}s"]
        printed = self.nova_perf(*arguments, *(f"--benchmark={text}" for text in chosen))

        results = results_file.load(os.path.join(self.output, "results.json"))
        environment = results.environment
        self.assertEqual("complete", environment.ended, printed)
        self.assertEqual(
            [], [incident for incident in environment.errors if incident.benchmark not in BROKEN]
        )
        for label in self.short:
            with self.subTest(label):
                self.assert_measured(results, label, ARMS)
        for label, message in BROKEN.items():
            with self.subTest(label):
                self.assert_measured(results, label, {"host"})
                mine = [trial for trial in results.trials if trial.benchmark == label]
                errors = {trial.arm: trial.error for trial in mine if trial.error}
                self.assertEqual(ARMS - {"host"}, set(errors))
                for error in errors.values():
                    self.assertIn(message, error)
        self.assert_reported(printed)

    def assert_measured(self, results: model.Results, label: str, arms: set[str]) -> None:
        mine = [
            trial for trial in results.trials if trial.benchmark == label and trial.arm in arms
        ]
        self.assertEqual(arms, {trial.arm for trial in mine}, label)
        for trial in mine:
            self.assertIsNone(trial.error, f"{label} on {trial.arm}")
            if trial.primary:
                self.assertGreater(trial.value or 0, 0, f"{label} on {trial.arm}")
                self.assert_cost(trial)
                self.assertGreaterEqual(trial.exec_s or 0, trial.window_s)
                # A guest that hardly gets a CPU does not tell its clock well enough.
                if trial.arm == "host" and label in ("iperf3", "fio"):
                    self.assertEqual("measuring", trial.window)
                if trial.arm != "host":
                    self.assertGreater(trial.guest_cpu_s or 0, 0, f"{label} on {trial.arm}")

    def assert_cost(self, trial: model.Trial) -> None:
        """The CPU of a trial is known, or unknown where all work was shorter than the kernel counts.

        What a child that has ended took is known in ticks alone (proc(5), cutime of stat).
        """
        cost = overhead.cost(trial)
        trial_name = f"{trial.benchmark} on {trial.arm}, {trial.window_s} s"
        if cost.total_s is not None:
            self.assertGreater(cost.total_s, 0, trial_name)
            return
        self.assertLess(trial.window_s, SHORT_WINDOW_S, trial_name)
        self.assertEqual(reasons.ReasonCode.COUNTERS_STILL, cost.invalid and cost.invalid.code)

    def assert_reported(self, printed: str) -> None:
        """Each benchmark and arm is on the terminal, in the JSON and with its figures in the report."""
        report = json.loads(
            self.nova_perf("report", "-f", "json", os.path.join(self.output, "results.json"))
        )
        self.assertEqual({*self.short, *BROKEN}, {row["label"] for row in report["benchmarks"]})
        html = pathlib.Path(self.output, "report.html").read_text(encoding="utf-8")
        sections = {
            found[1]: found[2]
            for found in re.finditer(r"<h2>([^<]*)</h2>(.*?)</section>", html, re.DOTALL)
        }
        for label in (*self.short, *BROKEN):
            [row] = [row for row in report["benchmarks"] if row["label"] == label]
            self.assertEqual(ARMS, {arm["arm"] for arm in row["arms"]}, label)
            for arm in ARMS:
                self.assertRegex(printed, rf"(?m)^{label} +{arm} +")
                self.assertIn(f"</span>{arm}</td>", sections[label])
            for figure in row["secondary"]:
                self.assertIn(f"<td>{figure['metric']}</td>", sections[label])
        for row in report["benchmarks"]:
            if row["label"] == "system":
                self.assertEqual(9, len(row["secondary"]))
        failures = sections["What is not valid, and what went wrong"]
        for label, told_of in BROKEN.items():
            self.assertRegex(failures, rf"{label} on tuned</td><td[^>]*>[^<]*{told_of}")


class SmallImageTest(EveryBenchmarkCase):
    variant = "small"
    short: Final[Mapping[str, str]] = {
        "connect": "",
        "cpu": "",
        "fio": "size=1m,seconds=0",
        "himeno": "size=XS",
        "iperf3": "",
        "memory": "array=1m",
        "packets": "",
        "request": "",
    }
    elsewhere = frozenset({"system"})

    def test_each_runs_in_guests_and_on_the_host_and_is_reported(self) -> None:
        self.run_each()
