# SPDX-License-Identifier: Apache-2.0
"""How many more boots an INCONCLUSIVE verdict is said to need, and how long these are said to take."""

import math

import fixtures

from nova_perf_tuning.validation.judge import budget_file, more_boots, statistics, verdict
from nova_perf_tuning.validation.report import diagnosis
from nova_perf_tuning.validation.results import messages, reasons
from tests.support import samples, testcase

C = reasons.ReasonCode


def undecided(value, half, limit, boots):
    """Return the reason of a figure that a limit has in its interval."""
    interval = {"value": value, "low": value - half, "high": value + half}
    params = {"figure": "loss", "limit": limit, "boots": boots, "confidence": 0.95, **interval}
    return reasons.Reason(C.UNDECIDED, params)


class BootsForTest(testcase.TestCase):
    def test_the_fewest_boots_whose_interval_ends_before_the_limit(self):
        for value, limit in ((0.02, 0.05), (0.08, 0.05)):
            for boots in (2, 4, 9):
                with self.subTest(value, boots=boots):
                    needed = more_boots.boots_for(undecided(value, 0.06, limit, boots))
                    quantile = statistics.student_t(0.975, boots - 1)
                    deviation = 0.06 * math.sqrt(boots) / quantile
                    halves = {}
                    for number in (needed - 1, needed):
                        quantile = statistics.student_t(0.975, number - 1)
                        halves[number] = quantile * deviation / math.sqrt(number)
                    self.assertLess(halves[needed], 0.03)
                    if needed - 1 > boots:
                        self.assertGreaterEqual(halves[needed - 1], 0.03)

    def test_too_near_to_the_limit(self):
        self.assertIsNone(more_boots.boots_for(undecided(0.05, 0.02, 0.05, 5)))
        self.assertIsNone(more_boots.boots_for(undecided(0.0499, 0.02, 0.05, 5)))

    def test_the_end_beyond_the_limit_counts(self):
        why = undecided(0.02, 0.06, 0.05, 4)
        why.params["low"] = -10.0
        self.assertEqual(
            more_boots.boots_for(undecided(0.02, 0.06, 0.05, 4)), more_boots.boots_for(why)
        )


class AdviceTest(testcase.TestCase):
    def advice(self, tuned=985.0, **environment):
        data = samples.results(
            {"untuned": 1000.0, "tuned": tuned}, boots=3, noise=0.02, seed=4, **environment
        )
        budget = budget_file.Budget(
            benchmark=data.trials[0].benchmark, arm="tuned", baseline="untuned", max_loss=0.03
        )
        judged = verdict.judge_all(data, [budget])
        self.assertEqual(verdict.Verdict.INCONCLUSIVE, verdict.overall(judged))
        [action] = diagnosis.diagnose(data, judged).actions
        return action

    def test_it_names_boots_and_time(self):
        action = self.advice(elapsed_s=600.0, boots_run=3)
        more = action.params["more"]
        self.assertEqual(action.params["boots"], 3 + more)
        self.assertEqual(200.0 * more, action.params["seconds"])
        text = messages.of(action)
        self.assertIn(f"--boots {3 + more}, {round(200 * more / 60)} min longer", text)

    def test_too_near_to_the_limit_to_be_decided(self):
        self.useFixture(fixtures.MonkeyPatch(f"{more_boots.__name__}.MOST", 5))
        action = self.advice(tuned=970.1)
        self.assertEqual({"most": 5}, dict(action.params))
        self.assertIn("More than 5 boots would be needed", messages.of(action))

    def test_without_the_time_of_the_run(self):
        action = self.advice()
        self.assertIsNone(action.params["seconds"])
        self.assertIn(f"(--boots {action.params['boots']})", messages.of(action))
