# SPDX-License-Identifier: Apache-2.0
"""openstack perf validate --resume on a simulated cloud: what goes on, is refused, is kept."""

import errno
import os
import shlex
import signal

import fixtures

from nova_perf_tuning import errors
from nova_perf_tuning.cli import cloud_validate_run
from nova_perf_tuning.validation.heat import heat_pair
from nova_perf_tuning.validation.store import run_store
from tests.support import fleet_case
from tests.support import simulated_cloud as simulation


class ResumeTest(fleet_case.SimulatedValidation):
    def test_time_limit_and_resume(self):
        self.assertEqual(0, self.validate("--hosts", "all"))
        parser = (
            "--hosts",
            "all",
            "--time-limit",
            "20s",
        )  # the first guess for a pair is half its limit: minutes
        error = self.assertRaises(errors.PerfTuningError, self.validate, *parser)
        self.assertIn("give more --time-limit", str(error))
        remedy = (
            r"go on with: openstack --os-cloud simulated perf validate .* --resume 2\d+-\d+-\w+"
        )
        self.assertRegex(self.err.getvalue(), remedy)
        run = self.err.getvalue().rsplit("--resume ", 1)[1].split()[0]
        self.assertEqual(0, self.validate("--resume", run))
        self.assertEqual(6, self.results().environment.boots_run)
        self.assertEqual(run, self.results().environment.fleet.run)

    def unfinished(self, *arguments):
        """Begin a run that has no time for a pair; return its id."""
        self.assertRaises(
            errors.PerfTuningError,
            self.validate,
            "--hosts",
            "all",
            "--time-limit",
            "20s",
            *arguments,
        )
        return self.err.getvalue().rsplit("--resume ", 1)[1].split()[0]

    def test_what_is_left_is_removed_before_the_check(self):
        """It may be what fills the quota."""

        class Launcher(simulation.SimulatedLauncher):
            def check(self, plan):
                if self.stacks() or full:
                    raise errors.CloudError("the project's quota leaves 0 of 4")

        stacks = os.path.join(self.directory, "stacks")
        os.mkdir(stacks)
        self.useFixture(
            fixtures.MonkeyPatch("tests.support.simulated_cloud.SimulatedLauncher", Launcher)
        )
        full = []
        run = self.unfinished()
        kept = run_store.RunStore(self.url)
        self.addCleanup(kept.close)
        kept.disown(run)
        kept.end(run, "interrupted", leftovers=True)
        with open(os.path.join(stacks, f"nova-perf-{run}-h000-h001"), "w", encoding="ascii"):
            full.append("somebody else's")
        cloud = fleet_case.SimulatedCloud(simulation.Cloud(directory=stacks))
        error = self.assertRaises(errors.CloudError, self.validate, "--resume", run, cloud=cloud)
        self.assertIn("leaves 0 of 4", str(error))
        self.assertEqual([], os.listdir(stacks))
        [line] = kept.lines()
        self.assertEqual(("interrupted", False, False), (line.state, line.alive, line.leftovers))
        full.clear()
        self.assertEqual(0, self.validate("--resume", run, cloud=cloud))

    def test_who_has_lost_the_run_writes_nothing(self):
        """Results and report are for the process that has it."""
        test = self

        class Launcher(simulation.SimulatedLauncher):
            def measured(self, *rest):
                outcome = super().measured(*rest)
                if not test.taken:
                    test.taken.append(True)
                    [line] = kept.lines()
                    with fixtures.MonkeyPatch(
                        "nova_perf_tuning.validation.store.owner.SILENCE_S", -1.0
                    ):
                        with fixtures.MonkeyPatch(
                            "nova_perf_tuning.validation.store.owner._boot_id", lambda: ""
                        ):
                            kept.claim(line.run_id)
                return outcome

        self.taken = []
        self.useFixture(
            fixtures.MonkeyPatch("tests.support.simulated_cloud.SimulatedLauncher", Launcher)
        )
        kept = run_store.RunStore(self.url)
        self.addCleanup(kept.close)
        self.assertRaises(run_store.TakenOverError, self.validate, "--hosts", "all")
        self.assertEqual([], os.listdir(self.output))
        self.assertNotIn("go on with", self.err.getvalue())
        self.assertEqual(["running"], [line.state for line in kept.lines()])

    def test_not_resumed_on_another_cloud(self):
        run = self.unfinished()
        other = fleet_case.SimulatedCloud()
        for where in ("region R project q", "region S project p"):
            with self.subTest(where):
                other.where = where
                error = self.assertRaises(
                    run_store.RunError, self.validate, "--resume", run, cloud=other
                )
                self.assertIn("region R project p", str(error))
                self.assertIn(where, str(error))
        kept = run_store.RunStore(self.url)
        self.addCleanup(kept.close)
        self.assertEqual("interrupted", kept.load(run).state)

    def test_a_signal_when_all_is_measured(self):
        """While the last stacks are removed: the run is complete, and the exit code says what of it."""

        class Launcher(simulation.SimulatedLauncher):
            def cleanup(self, run_id=""):
                os.kill(os.getpid(), signal.SIGTERM)
                return super().cleanup(run_id)

        self.useFixture(
            fixtures.MonkeyPatch("tests.support.simulated_cloud.SimulatedLauncher", Launcher)
        )
        for bad, code in (({}, 0), ({"h002": 0.6}, 1)):
            with self.subTest(bad):
                cloud = fleet_case.SimulatedCloud(simulation.Cloud(bad=bad))
                self.assertEqual(code, self.validate("--hosts", "all", cloud=cloud))
                [line, *_] = run_store.RunStore(self.url).lines()
                self.assertEqual(("complete", False), (line.state, line.leftovers))
                self.assertEqual("complete", self.results().environment.ended)
                self.assertNotIn("interrupted", self.err.getvalue())

    def test_a_resumed_run_keeps_what_is_measured(self):
        run = self.unfinished()
        for name, *value in (
            ("--hosts", "all"), ("--peers", "2"), ("--blocks", "3"), ("--seconds", "3"),
            ("--benchmark", "cpu"), ("--flavor", "x"), ("--spec", "perf:vif_queues=2"), ("--profile", "compute"),
            ("--common-spec", "hw:cpu_policy=dedicated"),
            ("--image", "x"), ("--guest-ram", "256"), ("--guest-vcpus", "2"), ("--external-network", "x"),
            ("--slot-time", "90s"), ("--host-group", "x"), ("--no-guest-tx-offload",), ("--network", "x"),
            ("--pair-time-limit", "33m"), ("--boot-time", "3m"), ("--agent-metrics", ""),
        ):  # fmt: skip
            with self.subTest(name):
                error = self.assertRaises(
                    errors.PerfTuningError, self.validate, "--resume", run, name, *value
                )
                self.assertIn(f"{name}: run {run} goes on as it was begun", str(error))

    def test_the_command_that_goes_on(self):
        """It names database, files and budgets of the call that was cut off, and no password."""
        budget = self.budget("benchmark: iperf3, arm: tuned, baseline: untuned, max_loss: -0.5")
        self.unfinished("--blocks", "8", "--budget", budget)
        self.assertEqual([], os.listdir(self.output))
        words = shlex.split(self.err.getvalue().rsplit("go on with: ", 1)[1])
        self.assertEqual(["openstack", "--os-cloud", "simulated", "perf", "validate"], words[:5])
        self.assertEqual(1, self.validate(*words[5:]), "the budget counts")
        args = fleet_case.parse("--database", "postgresql://perf:geheim@host/runs")
        text = cloud_validate_run.Run(args, heat_pair.HeatCloud("lab", None)).resume_command("r1")
        self.assertEqual(
            "openstack --os-cloud lab perf validate --resume r1 --database 'postgresql://perf:***@host/runs'",
            text,
        )

    def test_results_that_could_not_be_written(self):
        """Everything is in the database: it is written again without a cloud, and judged by other budgets."""

        def full(_file):
            raise OSError(errno.ENOSPC, "No space left on device")

        cloud = fleet_case.SimulatedCloud(simulation.Cloud(bad={"h002": 0.6}))
        with fixtures.MonkeyPatch("os.fsync", full):
            error = self.assertRaises(
                errors.PerfTuningError, self.validate, "--hosts", "all", cloud=cloud
            )
        self.assertRegex(
            str(error), "No space left on device: .*results.json.*; what was measured is kept, and"
        )
        run = str(error).rsplit("--resume ", 1)[1].split()[0]
        self.assertEqual([], os.listdir(self.output))
        none = heat_pair.HeatCloud("nosuch", None)
        self.assertEqual(1, self.validate("--resume", run, cloud=none))
        self.assertIn(
            f"run {run} is complete; its results are judged and written again", self.err.getvalue()
        )
        written = self.results()
        self.assertEqual(
            ("complete", run), (written.environment.ended, written.environment.fleet.run)
        )
        self.assertIn("slower than the other hosts", self.report())
        self.assertEqual(0, self.validate("--resume", run, "--max-loss", "0.9", cloud=none))
        again = self.results()
        self.assertEqual(written.trials, again.trials)
        self.assertEqual("PASS", again.environment.fleet.verdict)
