"""Sessions with real programs on this host: order, errors, time limit, what is kept when they end early."""

import dataclasses
import os
import time

import fixtures
import testtools

from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import session, store
from tests.support import samples

ARMS = tuple(launch.Arm(name, request.Request()) for name in ("untuned", "tuned"))


class RefusingLauncher(local.LocalLauncher):
    """This host, but some arms cannot be booted, as guests sometimes cannot."""

    def __init__(self, folder, refused):
        super().__init__(folder)
        self.refused = refused

    def boot(self, arm):
        if arm.name in self.refused:
            raise launch.LaunchError(f"guest {arm.name}: \x1b[31mpanic")
        return super().boot(arm)


class SessionTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.folder, "results.json")
        self.saves = 0

    def save(self, results):
        self.saves += 1
        store.save(results, self.path)

    def make(self, *jobs, launcher=None, tell=lambda _: None, **changes):
        fields = {"boots": 2, "blocks": 3, "seed": 5, "time_limit_s": 120.0, **changes}
        # Each run has work of its own: on a coarse clock two that end at once are equal else, like copies.
        plan = session.Plan(ARMS, jobs or (samples.job("echo 40 2.$$"),), **fields)
        self.launcher = launcher or local.LocalLauncher(self.folder)
        return session.Session(self.launcher, plan, self.save, tell)

    def run_session(self, *jobs, **changes):
        one = self.make(*jobs, **changes)
        with self.launcher:
            one.run()
        self.assertEqual(["results.json"], os.listdir(self.folder), "the launcher left something")
        loaded = store.load(self.path)
        self.assertEqual(one.results, loaded)
        return loaded

    def order(self, results):
        """Return boot -> block -> arms in the order of time."""
        found = {}
        for trial in results.trials:
            if trial.primary:
                found.setdefault(trial.boot, {}).setdefault(trial.block, []).append(trial.arm)
        return found

    def test_every_arm_once_per_block_and_every_second_block_mirrored(self):
        found = self.order(self.run_session(blocks=4))
        self.assertEqual([0, 1], list(found))
        for blocks in found.values():
            self.assertEqual([0, 1, 2, 3], list(blocks))
            for arms in blocks.values():
                self.assertEqual(["host", "tuned", "untuned"], sorted(arms))
            self.assertEqual((blocks[0][::-1], blocks[2][::-1]), (blocks[1], blocks[3]))

    def test_the_seed_is_the_order(self):
        first, again = (self.order(self.run_session(boots=1)) for _ in range(2))
        self.assertEqual(first, again)
        self.assertNotEqual(first[0], self.order(self.run_session(seed=1, boots=1))[0])

    def test_what_a_trial_carries(self):
        results = self.run_session(samples.job())
        primary = [trial for trial in results.trials if trial.primary]
        self.assertEqual(18, len(primary))
        for one in primary:
            self.assertEqual(("quick", "speed", 40.0), (one.benchmark, one.metric, one.value))
            self.assertEqual((2.0, "steps"), (one.work, one.work_unit))
            self.assertTrue(one.window_s > 0)
            self.assertTrue(one.host_cpu_s["total"] >= 0)
        beside = [trial for trial in results.trials if not trial.primary]
        self.assertEqual({"twice"}, {one.metric for one in beside})
        self.assertEqual([one.order for one in primary], [one.order for one in beside])
        self.assertEqual("complete", results.environment.ended)
        self.assertEqual((5, 2), (results.environment.seed, results.environment.boots_run))
        self.assertEqual({"untuned", "tuned"}, set(results.environment.arms))

    def test_guests_are_warmed_up_in_every_boot_and_the_host_once(self):
        said = []
        self.run_session(blocks=1, tell=lambda what: said.append(what.text))
        warmed = [text.partition(" on ")[2] for text in said if "warm-up" in text]
        self.assertEqual({"host": 1, "untuned": 2, "tuned": 2}, {arm: warmed.count(arm) for arm in set(warmed)})

    def test_one_arm_that_does_not_boot(self):
        results = self.run_session(launcher=RefusingLauncher(self.folder, {"tuned"}))
        self.assertEqual({"host", "untuned"}, {trial.arm for trial in results.trials})
        noted = results.environment.errors
        self.assertEqual([(0, "tuned"), (1, "tuned")], [(incident.boot, incident.arm) for incident in noted])
        self.assertEqual("guest tuned: ?[31mpanic", noted[0].error)

    def test_no_arm_boots(self):
        one = self.make(launcher=RefusingLauncher(self.folder, {"tuned", "untuned"}))
        with self.launcher:
            self.assertRaises(launch.LaunchError, one.run)
        self.assertEqual("error", one.results.environment.ended)
        self.assertEqual([], os.listdir(self.folder), "results without a trial")

    def test_time_limit_keeps_every_boot(self):
        """A thousand blocks do not fit: that is said, each boot gets its share, and the run ends in time."""
        begun, output = time.monotonic(), []
        results = self.run_session(
            samples.job("sleep 0.05; echo 40 2"), blocks=1000, time_limit_s=9.0, tell=output.append
        )
        # All blocks would take minutes.
        self.assertTrue(time.monotonic() - begun < 60)
        self.assertEqual(2, results.environment.boots_run)
        self.assertEqual("time limit", results.environment.ended)
        self.assertEqual("time_limit", results.environment.errors[0].code)
        places = [place for place, now in enumerate(output) if now.important]
        self.assertEqual((3, 1), (len(places), places[0]), "before the first boot, and for each boot")

    def test_interrupted(self):
        def tell(now):
            if "block 2/3" in now.text:
                raise KeyboardInterrupt

        one = self.make(tell=tell)
        with self.launcher:
            self.assertRaises(KeyboardInterrupt, one.run)
        results = store.load(self.path)
        self.assertEqual("interrupted", results.environment.ended)
        self.assertEqual(3, sum(trial.primary for trial in results.trials))
        self.assertEqual(["results.json"], os.listdir(self.folder))

    def test_one_look_at_half_of_the_boots_may_end_it(self):
        for answer, run in ((True, 6), (False, 3)):
            asked = []

            def more(results, asked=asked, answer=answer):
                asked.append(len({trial.boot for trial in results.trials}))
                return answer

            one = self.make(boots=6, blocks=1)
            with self.launcher:
                one.run(more)
            self.assertEqual([3], asked)
            self.assertEqual(run, one.results.environment.boots_run)
            self.assertEqual([3], one.results.environment.looks)
            self.assertEqual("complete", one.results.environment.ended)

    def test_one_look_at_half_of_the_boots(self):
        for planned, looks in ((12, [6]), (7, [4]), (6, [3]), (5, []), (1, [])):
            self.assertEqual(looks, [boots for boots in range(1, planned + 5) if session.look_due(boots, planned)])

    def test_progress_counts_up_to_its_total(self):
        output = []
        self.run_session(tell=output.append)
        done = [now.done for now in output]
        self.assertEqual(sorted(done), done)
        self.assertEqual((24, 23), (output[-1].total, output[-1].done))
        self.assertTrue(all(0 <= now.left_s <= 120 for now in output))


class TimetableTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.useFixture(fixtures.MonkeyPatch("time.monotonic", lambda: self.now))
        self.job = dataclasses.replace(samples.job(), parameters={"seconds": "4"})

    def run_session(self, boots, blocks, limit_s, boot_s=10.0, trial_s=6.0):
        """Run a session of two boots and three arms whose times are told; return its blocks of each boot."""
        self.times = session.Timetable(session.Plan(ARMS, (self.job,), boots, blocks, 0, limit_s))
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
        self.assertEqual([], [1 for at, left_s in self.output if abs(at + left_s - self.now) > 1.0])

    def test_every_boot_has_its_share(self):
        """Boots are worth more than blocks; and one of them is worth nothing without a block."""
        for limit_s, wanted in ((400.0, [5, 5, 5]), (170.0, [1, 1]), (60.0, [0])):
            self.assertEqual(wanted, self.run_session(boots=3, blocks=40, limit_s=limit_s), limit_s)
            self.assertLessEqual(self.now, self.times.deadline)

    def test_before_anything_is_known(self):
        times = session.Timetable(session.Plan(ARMS, (self.job,), 2, 3, 0, 6000.0))
        self.assertEqual((2 * 2 * 10.0 + 24 * 4.5, 0, 24), (times.expected_s(), times.done, times.total))
