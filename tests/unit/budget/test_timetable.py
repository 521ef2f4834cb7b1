"""The time left, as it is shown, against the time that simulated sessions really take."""

import dataclasses

import testtools

from nova_perf_tuning.budget import timetable
from tests.unit.budget import samples

ARMS = 3


class Simulation:
    """A session on a clock of its own: boots and trials take what they are told to take."""

    def __init__(self, groups, blocks, limit_s, boot_s=10.0, trial_s=6.0, seconds=4):
        self.now = 1000.0
        job = samples.job()
        self.job = dataclasses.replace(job, parameters={"seconds": str(seconds)})
        self.short = dataclasses.replace(job, parameters={"seconds": "1"})
        self.blocks, self.boot_s, self.beyond_s = blocks, boot_s, trial_s - seconds
        self.times = timetable.Timetable([self.job], ARMS - 1, True, groups, blocks, limit_s, lambda: self.now)
        self.told = []
        self.run_blocks = []

    def tell(self):
        self.told.append((self.now, self.times.left_s(), self.times.done, self.times.total()))

    def trial(self, job):
        lasted_s = float(job.parameters["seconds"]) + self.beyond_s
        self.now += lasted_s
        self.times.trial_done(job, lasted_s)

    def group(self):
        self.times.begin_group()
        for _ in range(ARMS - 1):
            self.tell()
            self.now += self.boot_s
            self.times.booted(self.boot_s)
        for _ in range(ARMS):
            self.tell()
            self.trial(self.short)
        self.times.share_out()
        for block in range(self.blocks):
            for _ in range(ARMS):
                if not self.times.fits(self.job):
                    return block
                self.tell()
                self.trial(self.job)
        return self.blocks

    def run(self):
        while len(self.run_blocks) < self.times.groups and self.times.fits_group():
            self.run_blocks.append(self.group())
        return self


class TimetableTest(testtools.TestCase):
    def assert_near(self, one, tolerance_s):
        """From the first trial of a block on, what is shown is about what is left."""
        known = [entry for entry in one.told if entry[2] > ARMS]
        worst = max(abs(at + left_s - one.now) for at, left_s, _, _ in known)
        self.assertTrue(worst <= tolerance_s, f"{worst} s off; blocks {one.run_blocks}")

    def test_plan_that_fits(self):
        one = Simulation(groups=3, blocks=4, limit_s=600.0).run()
        self.assertEqual([4, 4, 4], one.run_blocks)
        self.assert_near(one, 20.0)
        self.assertEqual((44, 45), one.told[-1][2:])

    def test_plan_that_the_limit_cuts(self):
        """Every group is cut, and nobody counts on what was cut."""
        one = Simulation(groups=3, blocks=40, limit_s=300.0).run()
        self.assertEqual(3, len(one.run_blocks))
        self.assertTrue(all(0 < blocks < 40 for blocks in one.run_blocks), one.run_blocks)
        self.assertTrue(one.now <= one.times.deadline)
        first, last = one.told[0], one.told[-1]
        self.assertEqual(3 * 41 * ARMS, first[3])
        self.assertTrue(last[3] <= first[3] - 2 * 30 * ARMS, "blocks that were cut are still counted on")

    def test_before_anything_is_known(self):
        times = Simulation(groups=2, blocks=3, limit_s=6000.0).times
        self.assertEqual(times.expected_s(), times.left_s())
        self.assertEqual((0, 2 * 4 * ARMS), (times.done, times.total()))
        self.assertTrue(times.fits_group())
