"""Change points and outliers against known histories."""

import random

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.budget import trend


def noisy(*stretches, spread=0.01, seed=1):
    """Return a history: (runs, level) each."""
    rng = random.Random(seed)
    return [level * rng.lognormvariate(0, spread) for runs, level in stretches for _ in range(runs)]


class ChangesTest(testtools.TestCase):
    def test_shifts_are_found_where_they_are(self):
        found = trend.changes(noisy((10, 100.0), (12, 80.0), (9, 120.0)))
        self.assertEqual([10, 22], [one.index for one in found])
        self.assertAlmostEqual(0.8, found[0].ratio, 1)
        self.assertAlmostEqual(1.5, found[1].ratio, 1)

    def test_short_flat_and_spiky_histories_have_none(self):
        self.assertEqual([], trend.changes([]))
        self.assertEqual([], trend.changes([1.0, 2.0, 1.0, 2.0, 9.0]))
        self.assertEqual([], trend.changes([5.0] * 30))
        self.assertEqual([], trend.changes([5.0] * 10 + [1.0] + [5.0] * 10), "one strange run is no change")
        self.assertEqual([], trend.changes(noisy((8, 100.0), (8, 100.5), spread=0.0001)), "not worth a word")

    def test_an_exact_step(self):
        self.assertEqual([4], [one.index for one in trend.changes([1.0] * 4 + [2.0] * 4)])

    def test_false_alarms_are_rare(self):
        alarms = sum(bool(trend.changes(noisy((30, 100.0), spread=0.05, seed=seed))) for seed in range(200))
        self.assertTrue(alarms <= 8, alarms)  # 1 % promised; three standard errors

    @hypothesis.given(strategies.lists(strategies.floats(1e-3, 1e9), max_size=25))
    def test_indexes_are_in_order_and_inside(self, values):
        found = [one.index for one in trend.changes(values)]
        self.assertEqual(sorted(set(found)), found)
        self.assertTrue(all(trend.LEAST_RUNS <= index <= len(values) - trend.LEAST_RUNS for index in found))


class OutliersTest(testtools.TestCase):
    def test_one_of_many(self):
        hosts = {f"host{number}": 100.0 + number % 3 for number in range(12)} | {"slow": 70.0}
        found = trend.outliers(hosts)
        self.assertEqual(["slow"], list(found))
        self.assertTrue(found["slow"] < -3.5)

    def test_several_do_not_hide_each_other(self):
        hosts = {str(number): 100.0 + number % 3 for number in range(9)} | {"a": 80.0, "b": 81.0, "c": 79.5}
        self.assertEqual({"a", "b", "c"}, set(trend.outliers(hosts)))

    def test_equals_are_rarely_called_outliers(self):
        """5 % promised for every number of hosts; three standard errors."""
        for count in (5, 6, 7, 8, 10, 13, 20, 50):
            rng = random.Random(count)
            looks = ({str(host): rng.lognormvariate(0, 0.02) for host in range(count)} for _ in range(600))
            called = sum(bool(trend.outliers(hosts)) for hosts in looks)
            self.assertTrue(called <= 600 * 0.05 + 3 * (600 * 0.05 * 0.95) ** 0.5, (count, called))

    def test_too_few_or_all_alike(self):
        self.assertEqual({}, trend.outliers({"a": 1.0, "b": 1.0, "c": 1.0, "d": 9.0}))
        equal = {str(number): 5.0 for number in range(9)}
        self.assertEqual({}, trend.outliers(equal))
        self.assertEqual(["other"], list(trend.outliers(equal | {"other": 4.0})))
