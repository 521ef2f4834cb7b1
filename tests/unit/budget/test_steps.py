"""Figures in whole steps: how steps are found, and what verdicts on such figures are worth."""

import dataclasses
import math

import numpy as np
import testtools
from hypothesis import given, settings, strategies

from nova_perf_tuning.bench import jitter
from nova_perf_tuning.budget import ablation, budget_file, model, noise, statistics, steps, summary, verdict
from tests.benchmarks import simulation
from tests.unit.budget import samples

V = verdict.Verdict
LIMIT = 0.05
BUDGET = budget_file.Budget("cyclictest", "tuned", LIMIT, baseline="untuned")


def results(pairs):
    """Return results of ``pairs``: boot -> block -> (latency untuned, tuned)."""
    trials = []
    for group, blocks in enumerate(pairs):
        for block, both in enumerate(blocks):
            for arm, value in zip(("untuned", "tuned"), both, strict=True):
                place = {"arm": arm, "group": group, "block": block, "order": len(trials)}
                trials.append(
                    samples.trial(
                        benchmark="cyclictest",
                        metric="latency_p99",
                        unit="µs",
                        better="lower",
                        value=value,
                        **place,
                    )
                )
    return model.Results({}, trials)


class StepTest(testtools.TestCase):
    @given(strategies.sampled_from([0.05, 0.25, 1.0, 5.0]), strategies.integers(2, 60), strategies.data())
    def test_found_in_figures_that_repeat(self, width, level, data):
        near = strategies.integers(level, level + 2)
        values = data.draw(strategies.lists(near, min_size=12, max_size=30))
        both = [level, level + 1, *values]
        found = steps.step([one * width for one in both], [level * width] * 6)
        self.assertAlmostEqual(width, found)

    @given(strategies.lists(strategies.floats(1.0, 1e6), min_size=3, max_size=30))
    @settings(max_examples=50)
    def test_half_a_step_is_never_more_than_what_was_seen(self, values):
        found = steps.step(values, values)
        self.assertTrue(found == 0 or found <= max(values))

    def test_figures_without_steps(self):
        noisy = [1000 * math.exp(0.01 * math.sin(one)) for one in range(20)]
        self.assertEqual(0.0, steps.step(noisy, noisy))
        self.assertEqual(0.0, steps.step([1000.0] * 9, [1000 * math.exp(0.05)] * 9))
        self.assertEqual(0.0, steps.step([8.0], [9.0]))
        self.assertEqual(0.0, steps.step([float(one) for one in range(1, 30)], [8.0, 9.0]), "it varies by many")
        self.assertEqual(0.0, steps.step([3e6] * 9, [3e6 + 1] * 9), "too small to matter")

    def test_arms_that_never_vary_have_the_step_of_their_last_digit(self):
        self.assertEqual(1.0, steps.step([10.0] * 6, [20.0] * 6))
        self.assertEqual(0.1, steps.step([0.8] * 6, [1.0] * 6))

    def test_by_hand(self):
        """9 against 8 µs: 8.5 to 9.5 against 7.5 to 8.5."""
        found = statistics.ratio(results([[(8.0, 9.0)] * 3] * 3).trials, "tuned", "untuned")
        self.assertAlmostEqual(8 / 9 * 7.5 / 8 * 8.5 / 9, found.low)
        self.assertIn("steps of 1, half a step", found.note)

    def test_one_step_may_be_any_number(self):
        found = verdict.judge(results([[(1.0, 1.0)] * 3] * 3), BUDGET)
        self.assertEqual(V.INCONCLUSIVE, found.verdict, found.reasons)

    def test_every_ratio_is_as_wide(self):
        data = results([[(8.0, 8.0)] * 3] * 3)
        [shown] = summary.summarise(data)
        self.assertAlmostEqual((7.5 / 8) ** 2, shown.comparisons[0].ratio.low)
        data.environment["ablation"] = {"untuned": {"spec": "perf:iothreads", "value": "2"}}
        [knob] = ablation.judge(data)
        self.assertAlmostEqual((7.5 / 8) ** 2, knob.effects["cyclictest"].low)
        self.assertEqual(ablation.Call.UNDECIDED, knob.call, "less than a step is not shown to be nothing")
        again = {"untuned": "untuned", "tuned": "again"}
        aa = [dataclasses.replace(one, arm=again[one.arm]) for one in data.trials]
        floor = noise.floors(model.Results({}, aa))["cyclictest"]["latency_p99"]
        self.assertAlmostEqual(1 - (7.5 / 8) ** 2, floor)


class VerdictTest(testtools.TestCase):
    """At the edge of a budget the medians of all boots tie; their interval alone has no width."""

    def shares(self, loss, figure, repeats):
        random = np.random.default_rng(3)
        counts = dict.fromkeys(V, 0)
        for _ in range(repeats):
            level = random.uniform(5, 30)
            boots = [random.normal(0, 0.002) - math.log1p(-loss) for _ in range(6)]
            pairs = [
                [[figure(random, level * math.exp(boot * arm)) for arm in (0, 1)] for _ in range(7)]
                for boot in boots
            ]
            counts[verdict.judge(results(pairs), BUDGET).verdict] += 1
        return {name: count / repeats for name, count in counts.items()}

    def check(self, figure, repeats):
        most = simulation.below(0.05, repeats)
        edge = self.shares(LIMIT, figure, repeats)
        self.assertTrue(edge[V.FAIL] <= most and edge[V.PASS] <= most, edge)
        none = self.shares(0.0, figure, repeats)
        self.assertEqual(0.0, none[V.FAIL])
        return none[V.PASS]

    def test_whole_microseconds(self):
        self.check(lambda random, level: float(round(level * math.exp(random.normal(0, 0.005)))), 150)

    def test_rates_of_work_in_whole_seconds(self):
        """Their steps are in the time: 21 and 22 s of the same work differ by 4.7 %, nearly the budget."""

        def rates(random, level):  # as a "lower is better" figure, of which the reciprocal comes in steps
            return 1e4 / round(1e3 / (level * math.exp(random.normal(0, 0.005))))

        self.check(rates, 100)

    def test_constant_rates_of_a_coarse_time(self):
        """15 and 16 s for 15,000 units, of 15.0 and 15.6: the loss is 3.8 % and not 6.2 %."""
        rates = [[(1 / 1000.0, 1 / 937.5)] * 7] * 6
        self.assertEqual(V.INCONCLUSIVE, verdict.judge(results(rates), BUDGET).verdict)

    def test_arms_of_other_amounts_of_work(self):
        trials = results([[(8.0, 9.0 * 1.37), (9.0, 10.0 * 1.37)] * 3] * 3).trials
        found = steps.blur(trials, "tuned", "untuned")
        self.assertAlmostEqual(-math.log1p(-0.5 / 8.5) - math.log1p(-0.5 / 9.5), found.log)
        self.assertIn("steps of 1.37 and 1, half", found.note)

    def test_what_cyclictest_counts(self):
        """Wake-ups are late by a lognormal time; the program counts whole microseconds."""
        self.assertTrue(self.check(cyclictest, 20) > 0.8, "interpolated, it comes in no steps")


def cyclictest(random, level):
    """Return the figure of a run of 5,000 wake-ups of which 1 % are later than ``level``."""
    late = level * np.exp(0.5 * random.normal(size=5000) - 0.5 * 2.3263)
    values, counts = np.unique(late.astype(int), return_counts=True)
    lines = [f"{value:06} {count:06}\t" for value, count in zip(values.tolist(), counts.tolist(), strict=True)]
    ends = ("# Total: 000005000", "# Avg Latencies: 00005", f"# Max Latencies: {max(values):05}")
    text = "\n".join(["# Histogram", *lines, *ends, "# Histogram Overflows: 00000", ""])
    return next(one.value for one in jitter.Cyclictest().parse(text) if one.primary)
