# SPDX-License-Identifier: Apache-2.0
"""Change points against known histories."""

import random

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.validation.store import history
from tests.support import testcase


def noisy(*stretches, spread=0.01, seed=1):
    """Return a history: (runs, level) each."""
    rng = random.Random(seed)
    return [
        level * rng.lognormvariate(0, spread) for runs, level in stretches for _ in range(runs)
    ]


class ChangesTest(testcase.TestCase):
    def test_shifts_are_found_where_they_are(self):
        found = history.changes(noisy((10, 100.0), (12, 80.0), (9, 120.0)))
        self.assertEqual([10, 22], [change.index for change in found])
        self.assertAlmostEqual(0.8, found[0].ratio, 1)
        self.assertAlmostEqual(1.5, found[1].ratio, 1)
        self.assertEqual([4], [change.index for change in history.changes([1.0] * 4 + [2.0] * 4)])

    def test_short_flat_and_spiky_histories_have_none(self):
        self.assertEqual([], history.changes([]))
        self.assertEqual([], history.changes([1.0, 2.0, 1.0, 2.0, 9.0]))
        self.assertEqual([], history.changes([5.0] * 30))
        self.assertEqual(
            [], history.changes([5.0] * 10 + [1.0] + [5.0] * 10), "one strange run is no change"
        )
        self.assertEqual(
            [], history.changes(noisy((8, 100.0), (8, 100.5), spread=0.0001)), "not worth a word"
        )

    def test_false_alarms_are_rare(self):
        alarms = sum(
            bool(history.changes(noisy((30, 100.0), spread=0.05, seed=seed)))
            for seed in range(200)
        )
        self.assertTrue(alarms <= 8, alarms)  # 1 % promised; three standard errors

    @hypothesis.given(strategies.lists(strategies.floats(1e-3, 1e9), max_size=25))
    def test_indexes_are_in_order_and_inside(self, values):
        found = [change.index for change in history.changes(values)]
        self.assertEqual(sorted(set(found)), found)
        self.assertTrue(
            all(history.LEAST_RUNS <= index <= len(values) - history.LEAST_RUNS for index in found)
        )
