# SPDX-License-Identifier: Apache-2.0
"""Time left, how a time limit is shared out by a clock of the test's own, the interim look, and lost signals."""

import dataclasses
import signal

import fixtures

from nova_perf_tuning import signals
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import host_environment, results_file, session, trial
from nova_perf_tuning.validation.results import environment, model
from tests.support import directories, lost_signals, samples, testcase

ARMS = tuple(launch.Arm(name, request.Request()) for name in ("untuned", "tuned"))


class Launcher(launch.Launcher):
    """Makes nothing; :ivar booted: arms, :ivar destroyed: likewise."""

    def __init__(self):
        self.booted, self.destroyed = [], []

    def prepare(self):
        pass

    def boot(self, arm):
        self.booted.append(arm.name)
        return launch.Pair(None, None)

    def activate(self, arm):
        pass

    def host_pair(self):
        return launch.Pair(None, None)

    def destroy(self, arm):
        self.destroyed.append(arm)

    def environment(self):
        return environment.Environment()

    def close(self):
        pass


class SwallowedSignalTest(testcase.TestCase):
    """A signal that Python lost in the callback of a weak reference ends the session all the same."""

    def setUp(self):
        super().setUp()
        self.lost = self.useFixture(lost_signals.Swallowing())
        self.useFixture(
            fixtures.MonkeyPatch(f"{host_environment.__name__}.idle_softirq", lambda: 0.0)
        )
        self.useFixture(fixtures.MonkeyPatch(f"{trial.__name__}.run", self.run_trial))
        self.ran = 0
        self.stop_at = 0
        self.launcher = Launcher()

    def run_trial(self, job, *_arguments):
        self.ran += 1
        if self.ran == self.stop_at:
            self.lost.send(signal.SIGINT)
        return trial.TrialOutcome(trial.failed(job, "nothing ran", model.TrialFailure.OUTPUT))

    def interrupted(self):
        plan = session.SessionPlan(
            ARMS, (samples.job(),), boots=2, blocks=1, seed=0, time_limit_s=600.0
        )
        running = session.Session(self.launcher, plan, lambda _results: None)
        with signals.guarded():
            self.assertRaises(KeyboardInterrupt, running.run)
        self.assertEqual([KeyboardInterrupt], self.lost.swallowed)
        self.assertEqual("interrupted", running.results.environment.ended)
        self.assertEqual(sorted(self.launcher.booted), sorted(self.launcher.destroyed))

    def test_no_trial_begins(self):
        for at in (1, 4):  # a warm-up, a trial
            with self.subTest(at):
                self.ran, self.stop_at, self.lost.swallowed = 0, at, []
                self.interrupted()
                self.assertEqual(at, self.ran)

    def test_no_guest_is_booted(self):
        self.stop_at = 6  # the last trial of the first boot
        self.interrupted()
        self.assertEqual(["tuned", "untuned"], sorted(self.launcher.booted))


class Telling(samples.Quick):
    """A program whose output says what work it was."""

    def asked(self, given):
        return {"pattern": "read"}

    def report(self, output):
        return bench.BenchmarkReport(self.parse(output), {"pattern": "read", "version": "1.2"})


class WorkloadTest(directories.DirectoryCase):
    def test_results_say_what_was_run(self):
        """Of every arm, once, and not of warm-ups; what was asked for stands beside it."""
        job = samples.job(kind=Telling)
        plan = session.SessionPlan(
            ARMS, (job,), boots=1, blocks=2, seed=0, time_limit_s=600.0, with_host=False
        )
        launcher = local.LocalLauncher(str(self.directory))
        self.addCleanup(launcher.close)
        running = session.Session(launcher, plan, lambda _results: None)
        self.patch(host_environment, "idle_softirq", lambda: 0.0)
        measured = running.run()
        again = results_file.from_dict(results_file.to_dict(measured), "results")
        recorded = again.environment.benchmarks["quick"]
        done = [{"pattern": "read", "version": "1.2"}]
        self.assertEqual({"untuned": done, "tuned": done}, recorded.workloads)
        self.assertEqual({"pattern": "read"}, recorded.asked)


class TimetableTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.useFixture(fixtures.MonkeyPatch("time.monotonic", lambda: self.now))
        self.job = dataclasses.replace(samples.job(), parameters={"seconds": "4"})

    def run_session(self, boots, blocks, limit_s, boot_s=10.0, trial_s=6.0):
        """Run a session of two boots and three arms with given times; return its blocks of each boot."""
        self.times = session.Timetable(
            session.SessionPlan(ARMS, (self.job,), boots, blocks, 0, limit_s)
        )
        self.output, run = [], []
        for boot in range(boots):
            if boot and not self.times.fits_boot():
                break
            self.times.begin_boot(boot)
            for _ in range(2):
                self.now += boot_s
                self.times.booted(boot_s)
            run.append(0)
            for block in range(-1, blocks):  # the first is the warm-up
                for _ in range(3):
                    if block >= 0 and not self.times.fits(self.job, boot, block):
                        break
                    self.now += trial_s
                    self.times.measured(self.job, trial_s)
                    self.times.done += 1
                    self.output.append((self.now, self.times.left_s()))
                else:
                    run[-1] += block >= 0
        return run

    def test_plan_that_fits(self):
        self.assertEqual([4, 4, 4], self.run_session(boots=3, blocks=4, limit_s=600.0))
        self.assertEqual((45, 45), (self.times.done, self.times.total))
        self.assertEqual(
            [], [1 for at, left_s in self.output if abs(at + left_s - self.now) > 1.0]
        )

    def test_every_boot_has_its_share(self):
        """Boots are worth more than blocks; and one of them is worth nothing without a block."""
        for limit_s, wanted in ((400.0, [5, 5, 5]), (170.0, [1, 1]), (60.0, [0])):
            with self.subTest(limit_s):
                self.assertEqual(
                    wanted, self.run_session(boots=3, blocks=40, limit_s=limit_s), limit_s
                )
                self.assertLessEqual(self.now, self.times.deadline)

    def test_before_anything_is_known(self):
        times = session.Timetable(session.SessionPlan(ARMS, (self.job,), 2, 3, 0, 6000.0))
        self.assertEqual(
            (2 * 2 * 10.0 + 24 * 4.5, 0, 24), (times.expected_s(), times.done, times.total)
        )

    def test_one_look_at_half_of_the_boots(self):
        for planned, looks in ((12, [6]), (7, [4]), (6, [3]), (5, []), (1, [])):
            with self.subTest(planned):
                self.assertEqual(
                    looks,
                    [boots for boots in range(1, planned + 5) if session.look_due(boots, planned)],
                )
