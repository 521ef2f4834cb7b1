# SPDX-License-Identifier: Apache-2.0
"""Figures with known answers."""

import math

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.validation.judge import statistics
from tests.support import samples, testcase


class EstimateTest(testcase.TestCase):
    def test_known_figures(self):
        """Medians of the boots are 2, 4 and 9; Student's t of two degrees of freedom is 4.303."""
        found = statistics.estimate({0: [1.0, 2.0, 30.0], 1: [4.0], 2: [9.0, 9.0], 3: []})
        self.assertEqual((5.0, 6, 3, 0.95), (found.value, found.n, found.boots, found.confidence))
        half = 4.302652729696 * math.sqrt(13) / math.sqrt(3)
        self.assertAlmostEqual(5 - half, found.low)
        self.assertAlmostEqual(5 + half, found.high)

    def test_rates_are_worked_out_on_logarithms(self):
        found = statistics.estimate({0: [10.0], 1: [1000.0]}, positive=True)
        self.assertAlmostEqual(100.0, found.value)
        self.assertTrue(0 < found.low < 10 and 1000 < found.high < math.inf, found)
        self.assertEqual(0.0, statistics.estimate({0: [-1.0], 1: [1.0]}, positive=True).value)

    def test_one_boot_has_no_interval(self):
        found = statistics.estimate({7: [1.0, 2.0]})
        self.assertEqual(
            (1.5, None, None, 2, 1), (found.value, found.low, found.high, found.n, found.boots)
        )
        self.assertIsNone(statistics.estimate({7: []}))

    def test_both_looks_share_the_error(self):
        for looks, boots, expected in (
            ([], 12, 0.95),
            ([6], 6, 1 - 0.05 * statistics.LOOK_SHARE),
            ([6], 12, 1 - 0.05 * (1 - statistics.LOOK_SHARE)),
            ([6], 7, 1 - 0.05 * (1 - statistics.LOOK_SHARE)),
            # Further looks of a file buy no narrower interval.
            ([3, 6], 6, 1 - 0.05 * statistics.LOOK_SHARE / 2),
        ):
            with self.subTest(looks):
                self.assertAlmostEqual(expected, statistics.interim_confidence(0.95, looks, boots))

    @hypothesis.given(
        strategies.dictionaries(
            strategies.integers(0, 5),
            strategies.lists(strategies.floats(1e-9, 1e9), max_size=5),
            max_size=5,
        )
    )
    def test_the_interval_holds_the_figure(self, values):
        for positive in (False, True):
            with self.subTest(positive):
                found = statistics.estimate(values, positive=positive)
                if found is not None and found.low is not None:
                    slack = 1e-9 * max(1.0, abs(found.value))
                    self.assertTrue(found.low - slack <= found.value <= found.high + slack, found)


def ratio(trials, arm, baseline):
    return statistics.ratio_of(statistics.log_ratios(trials, arm, baseline))


class RatioTest(testcase.TestCase):
    def test_known_ratio(self):
        data = samples.results({"untuned": 1000.0, "tuned": 1250.0}, boots=4, blocks=5, noise=1e-6)
        found = ratio(data.trials, "tuned", "untuned")
        self.assertAlmostEqual(1.25, found.value, 4)
        self.assertTrue(found.low < 1.25 < found.high)
        for trial in data.trials:
            trial.better = "lower"
        self.assertAlmostEqual(0.8, ratio(data.trials, "tuned", "untuned").value, 4)

    def test_drift_of_a_block_cancels(self):
        data = samples.results({"untuned": 1000.0, "tuned": 1100.0}, boots=3, blocks=4, noise=0.0)
        for trial in data.trials:
            trial.value *= 1 + trial.boot + trial.block
        found = ratio(data.trials, "tuned", "untuned")
        self.assertAlmostEqual(1.1, found.low)
        self.assertAlmostEqual(1.1, found.high)

    def test_only_blocks_that_both_have(self):
        measured = [("a", 0, 0.5), ("a", 0, 1.5), ("a", 1, 1.0)]
        measured += [("b", 0, 2.0), ("b", 2, 1.0), ("b", 1, None), ("b", 1, 0.0)]
        trials = [
            samples.trial(arm=arm, block=block, value=value) for arm, block, value in measured
        ]
        self.assertEqual({0: [-math.log(2.0)]}, statistics.log_ratios(trials, "a", "b"))
        self.assertIsNone(ratio(trials, "a", "c"))
