"""Looking again and again costs no more than the error that was promised."""

import random

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.budget import sequential, statistics


class LookTest(testtools.TestCase):
    def test_which_boots_are_looked_at(self):
        for planned, expected in (
            (12, [3, 4, 6, 9, 12, 16, 22, 30]),
            (7, [3, 5, 7, 10, 14, 19, 26]),
            (6, [3, 4, 6, 8, 11, 15, 20, 27]),
            (3, [3, 4, 6, 8, 11, 15, 20, 27]),
            (2, [2, 3, 4, 6, 8, 11, 15, 20, 27]),
            (1, [1, 2, 3, 4, 6, 8, 11, 15, 20, 27]),
        ):
            self.assertEqual(expected, [boots for boots in range(1, 31) if sequential.due(boots, planned)])

    def test_the_planned_boots_count_however_quick_they_are(self):
        for clock, boots, share in ((0.01, 0.5, 0.45), (0.7, 0.5, 0.7), (0.02, 1.0, 0.9), (0.03, 5.0, 0.9)):
            self.assertAlmostEqual(share, sequential.time_share(clock, boots))

    def test_shares_by_hand(self):
        looks = sequential.look([], 3, 0.5, last=False)
        looks = sequential.look(looks, 4, 0.8, last=False)
        self.assertEqual([3, 4], [one.groups for one in looks])
        self.assertAlmostEqual(0.25, looks[0].share)
        self.assertAlmostEqual(0.64 - 0.25, looks[1].share)
        last = sequential.look(looks, 5, 0.97, last=True)
        self.assertAlmostEqual(1, sum(one.share for one in last))

    def test_the_same_boots_again_replace_the_look(self):
        looks = sequential.look(sequential.look([], 3, 0.5, last=False), 3, 0.9, last=True)
        self.assertEqual([sequential.Look(3, 1.0)], looks)

    @hypothesis.given(strategies.lists(strategies.tuples(strategies.floats(-1, 3), strategies.booleans())))
    def test_never_more_than_all(self, steps):
        looks = []
        for groups, (share, last) in enumerate(steps):
            looks = sequential.look(looks, groups, share, last)
            self.assertTrue(all(one.share >= 0 for one in looks))
            self.assertTrue(sum(one.share for one in looks) <= 1 + 1e-9)

    def test_confidence(self):
        looks = {"looks": [{"groups": 3, "share": 0.25}, {"groups": 4, "share": 0.39}]}
        for environment, groups, expected in (
            ({}, 4, 0.95),
            (looks, 4, 1 - 0.05 * 0.39),
            (looks, 5, 1 - 0.05 * 0.36),
        ):
            self.assertAlmostEqual(expected, sequential.confidence(0.95, environment, groups))
        self.assertTrue(sequential.confidence(0.95, {"looks": [{"groups": 3, "share": 1.0}]}, 4) < 1)


class RepeatedLookingTest(testtools.TestCase):
    """Boots without a true difference, looked at after each from the third to the twelfth; fixed seed."""

    REPEATS = 400

    def errors(self, honest):
        """Return how often any look ever called it a difference."""
        rng = random.Random(5)
        called = 0
        for _ in range(self.REPEATS):
            looks, data = [], {}
            for group in range(12):
                boot = rng.gauss(0, 0.03)
                data[group] = [boot + rng.gauss(0, 0.01) for _ in range(2)]
                if group < 2:
                    continue
                looks = sequential.look(looks, group + 1, (group + 1) / 12, last=group == 11)
                told = {"looks": sequential.as_data(looks)} if honest else {}
                level = sequential.confidence(0.95, told, group + 1)
                found = statistics.estimate(data, level, draws=100)
                if not found.low <= 0 <= found.high:
                    called += 1
                    break
        return called / self.REPEATS

    def test_spending_keeps_the_promise_that_plain_looking_breaks(self):
        within = 3 * (0.05 * 0.95 / self.REPEATS) ** 0.5
        self.assertTrue(self.errors(honest=True) <= 0.05 + within)
        self.assertTrue(self.errors(honest=False) > 0.05 + within)
