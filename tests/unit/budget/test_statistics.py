"""Estimates against known answers, and what the intervals really cover."""

import math
import random

import hypothesis
import numpy as np
import testtools
from hypothesis import strategies

from nova_perf_tuning.budget import statistics
from tests.unit.budget import samples

VALUES = strategies.floats(1e-3, 1e9)


class EstimateTest(testtools.TestCase):
    def test_no_value(self):
        self.assertIsNone(statistics.estimate({}))
        self.assertIsNone(statistics.estimate({0: []}))

    def test_five_values_have_no_interval(self):
        found = statistics.estimate({0: [1, 2, 3], 1: [4, 5]})
        self.assertEqual((3.0, None, None, 5, 2), (found.value, found.low, found.high, found.n, found.groups))
        self.assertEqual("n too small: 5 of at least 6, so no interval", found.note)

    def test_known_figures(self):
        found = statistics.estimate({0: [1, 2, 3, 4], 1: [5, 6, 7, 8], 2: [9, 100]})
        self.assertEqual(5.5, found.value)
        self.assertEqual(sum(range(3, 9)) / 6, found.trimmed_mean)  # two off each end of ten
        self.assertEqual("", found.note)
        self.assertTrue(found.low <= 1 <= 5.5 <= 54.5 <= found.high, found)  # medians of boots: 2.5, 6.5, 54.5

    def test_hodges_lehmann_by_hand(self):
        """Means of pairs of 1, 2, 4: 1, 1.5, 2, 2.5, 3, 4."""
        self.assertEqual(2.25, statistics.estimate({0: [1, 2, 4]}).hodges_lehmann)

    def test_notes_on_few_boots(self):
        self.assertIn("one boot only", statistics.estimate({0: [1.0] * 8}).note)
        self.assertIn("two boots only", statistics.estimate({0: [1.0] * 4, 1: [1.0] * 4}).note)

    def test_interval_of_one_boot_is_the_plain_bootstrap(self):
        """Against numpy's own medians and percentiles of the same draws, with an even and an odd number."""
        for count in (6, 7, 40):
            values = np.random.default_rng(count).normal(size=count)
            found = statistics.estimate({0: values.tolist()}, seed=3, draws=500)
            random = np.random.default_rng(3)
            random.integers(0, 1, (500, 1))  # which boot
            medians = np.median(values[random.integers(0, count, (500, 1, count))], axis=(1, 2))
            tail = statistics.expanded_tail(0.95, count)
            self.assertEqual(np.quantile(medians, [tail, 1 - tail]).tolist(), [found.low, found.high])

    def test_more_values_than_a_byte_counts(self):
        """Uniform on 0 to 300: the standard error of the median is 150 / sqrt(300)."""
        found = statistics.estimate({0: [float(one) for one in range(300)]}, seed=3)
        reach = 1.96 * 150 / math.sqrt(300)
        self.assertTrue(0.8 * reach < 149.5 - found.low < 1.2 * reach, found)
        self.assertTrue(0.8 * reach < found.high - 149.5 < 1.2 * reach, found)
        self.assertEqual(149.5, found.hodges_lehmann)

    def test_equal_values_have_an_interval_of_no_width(self):
        found = statistics.estimate({group: [7.0] * 3 for group in range(3)})
        self.assertEqual((7.0, 7.0, 7.0), (found.low, found.value, found.high))

    def test_same_seed_same_interval(self):
        data = {group: [random.Random(group).gauss(0, 1) for _ in range(4)] for group in range(3)}
        first = statistics.estimate(data, seed=3)
        self.assertEqual(first, statistics.estimate(data, seed=3))
        self.assertNotEqual((0, 0), (first.low, first.high))

    def test_student_t_against_tables(self):
        """Two-sided 95 %, 99 % and 50 % points of published tables."""
        for freedom, probability, table in (
            (5, 0.975, 2.5706),
            (10, 0.975, 2.2281),
            (17, 0.975, 2.1098),
            (5, 0.75, 0.7267),
            (30, 0.995, 2.7500),
            (1, 0.975, 12.7062),
            (2, 0.975, 4.3027),
            (2, 0.75, 0.8165),
            (3, 0.995, 5.8409),
            (60, 0.995, 2.6603),
            (1, 0.025, -12.7062),
        ):
            self.assertTrue(abs(statistics.student_t(probability, freedom) / table - 1) < 0.0001)

    def test_student_t_of_two_boots_by_hand(self):
        """Boots with medians 1 and 3: 2 +- 12.706 * sqrt(2) / sqrt(2)."""
        found = statistics.estimate({0: [1.0] * 3, 1: [3.0] * 3})
        self.assertAlmostEqual(2 - 12.7062, found.low, 3)
        self.assertAlmostEqual(2 + 12.7062, found.high, 3)

    def test_positive_figures_have_positive_intervals(self):
        data = {0: [1.0, 1.1, 1.2], 1: [5.0, 5.5, 6.0]}
        plain, found = statistics.estimate(data), statistics.estimate(data, positive=True)
        self.assertTrue(plain.low < 0 < found.low, found)
        self.assertEqual((plain.value, plain.trimmed_mean), (found.value, found.trimmed_mean))
        with_zero = {0: [0.0, 1.0, 1.0], 1: [1.0] * 3}
        self.assertEqual(statistics.estimate(with_zero), statistics.estimate(with_zero, positive=True))

    def test_tail_goes_to_the_nominal_one(self):
        self.assertAlmostEqual(0.025, statistics.expanded_tail(0.95, 100_000), 4)
        self.assertTrue(statistics.expanded_tail(0.95, 6) < 0.005)

    @hypothesis.given(
        strategies.dictionaries(strategies.integers(0, 9), strategies.lists(VALUES, max_size=5), max_size=4)
    )
    @hypothesis.settings(deadline=None, max_examples=60)
    def test_interval_holds_the_median(self, data):
        found = statistics.estimate(data)
        pooled = [value for values in data.values() for value in values]
        if not pooled:
            self.assertIsNone(found)
            return
        self.assertTrue(min(pooled) <= found.value <= max(pooled))
        self.assertEqual(len(pooled) < 6, found.low is None)
        if found.low is not None:
            self.assertTrue(found.low <= found.value <= found.high)
            boots = {key: values for key, values in data.items() if values}
            if len(boots) == 1:
                self.assertTrue(min(pooled) <= found.low <= found.high <= max(pooled))


class RatioTest(testtools.TestCase):
    def test_known_ratio(self):
        data = samples.results({"untuned": 1000.0, "tuned": 1200.0}, groups=3, blocks=6, noise=0.01)
        found = statistics.ratio(data.trials, "tuned", "untuned")
        self.assertTrue(found.low < 1.2 < found.high, found)
        self.assertTrue(found.high - found.low < 0.04, found)
        self.assertEqual((18, 3), (found.n, found.groups))
        self.assertTrue(abs(found.hodges_lehmann - 1.2) < 0.01 and abs(found.trimmed_mean - 1.2) < 0.01)

    def test_drift_within_a_block_cancels(self):
        trials = []
        for block in range(8):
            factor = 10.0**block
            trials += [samples.trial(arm="untuned", block=block, value=5 * factor)]
            trials += [samples.trial(arm="tuned", block=block, value=6 * factor)]
        found = statistics.ratio(trials, "tuned", "untuned")
        self.assertAlmostEqual(1.2, found.low)
        self.assertAlmostEqual(1.2, found.high)

    def test_lower_is_better_is_turned(self):
        trials = [samples.trial(arm="untuned", value=10.0, better="lower")]
        trials += [samples.trial(arm="tuned", value=8.0, better="lower")]
        self.assertAlmostEqual(1.25, statistics.ratio(trials, "tuned", "untuned").value)

    def test_only_whole_pairs_count(self):
        trials = [samples.trial(arm="untuned", block=block) for block in range(4)]
        trials += [samples.trial(arm="tuned", block=0), samples.trial(arm="tuned", block=9)]
        trials += [samples.trial(arm="tuned", block=1, value=None, error="lost")]
        self.assertEqual(1, statistics.ratio(trials, "tuned", "untuned").n)
        self.assertIsNone(statistics.ratio(trials, "host", "untuned"))

    def test_a_failed_trial_of_a_metric_that_goes_the_other_way_turns_nothing(self):
        """A trial that failed bears the name of its benchmark's primary metric, whichever one is judged."""
        trials = samples.results({"host": 4.0, "tuned": 3.0}).trials
        whole = statistics.ratio(trials, "tuned", "host")
        trials.append(samples.trial(arm="tuned", metric="latency", better="lower", value=None, error="x", block=9))
        self.assertEqual(whole, statistics.ratio(trials, "tuned", "host"))
        self.assertTrue(whole.value < 1)

    def test_several_trials_of_an_arm_in_a_block_are_one(self):
        trials = [samples.trial(arm="untuned", value=value) for value in (90.0, 100.0, 500.0)]
        trials += [samples.trial(arm="tuned", value=110.0)]
        found = statistics.ratio(trials, "tuned", "untuned")
        self.assertEqual(1, found.n)
        self.assertAlmostEqual(1.1, found.value)

    def test_swapped_arms_give_the_inverse(self):
        data = samples.results({"untuned": 10.0, "tuned": 13.0}, groups=3, blocks=5).trials
        one, other = statistics.ratio(data, "tuned", "untuned"), statistics.ratio(data, "untuned", "tuned")
        self.assertAlmostEqual(1, one.value * other.value)


class CoverageTest(testtools.TestCase):
    """Simulated validations with a known ratio; the seed is fixed, so the counts are too."""

    REPEATS = 250
    WITHIN = 0.05

    def covered(self, groups, blocks, between, outliers=0.0):
        rng = random.Random(7)
        hits = 0
        for seed in range(self.REPEATS):
            data = {}
            for group in range(groups):
                boot = rng.gauss(math.log(1.1), between)
                data[group] = [boot + rng.gauss(0, self.WITHIN) for _ in range(blocks)]
                if rng.random() < outliers:
                    data[group][0] -= 1.0
            found = statistics.estimate(data, seed=seed, draws=500)
            hits += math.exp(found.low) <= 1.1 <= math.exp(found.high)
        return hits / self.REPEATS

    def test_the_promise_is_kept_with_few_boots_however_much_they_differ(self):
        """At least the nominal 95 %, within three standard errors of a count of so many repeats."""
        least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / self.REPEATS)
        for groups, blocks in ((2, 3), (2, 6), (3, 2), (3, 6), (4, 3)):
            for between in (0.0, self.WITHIN, 3 * self.WITHIN):
                covered = self.covered(groups, blocks, between)
                self.assertTrue(covered >= least, f"{groups} x {blocks}, {between}: {covered}")

    def test_outliers_do_not_break_it(self):
        self.assertTrue(self.covered(4, 3, 0.025, outliers=0.2) >= 0.93)

    def test_more_boots_narrow_it(self):
        rng = random.Random(3)
        widths = {4: 0.0, 12: 0.0}
        for _ in range(20):
            data = {group: [rng.gauss(0, 0.05) for _ in range(3)] for group in range(12)}
            for boots in widths:
                found = statistics.estimate({group: data[group] for group in range(boots)}, draws=500)
                widths[boots] += found.high - found.low
        self.assertTrue(widths[12] < 0.6 * widths[4], widths)

    def test_no_difference_is_seldom_called_one(self):
        rng = random.Random(11)
        called = 0
        for seed in range(self.REPEATS):
            data = {group: [rng.gauss(0, 0.05) for _ in range(4)] for group in range(3)}
            found = statistics.estimate(data, seed=seed, draws=500)
            called += not found.low <= 0 <= found.high
        self.assertTrue(called / self.REPEATS <= 0.06, called)
