# SPDX-License-Identifier: Apache-2.0
"""An arm with two speeds is named with both; noise, drifts and boots that differ are one speed."""

import math
import random

from nova_perf_tuning.validation.judge import speeds, verdict
from nova_perf_tuning.validation.report import summary, text
from nova_perf_tuning.validation.results import messages, reasons
from tests.support import samples, testcase

C = reasons.ReasonCode


class SpeedsTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(3)

    def trials(self, value, boots=4, blocks=5, unit="Mbit/s"):
        """Return trials; :param value: boot and block -> figure, which gets a noise of 1 %."""
        made = []
        for boot in range(boots):
            for block in range(blocks):
                figure = value(boot, block) * math.exp(self.random.gauss(0, 0.01))
                made.append(samples.trial(boot=boot, block=block, value=figure, unit=unit))
        return made

    def test_both_speeds_are_named(self):
        found = speeds.find(self.trials(lambda _boot, block: 1800.0 if block < 2 else 2400.0))
        self.assertEqual(C.TWO_SPEEDS, found.code)
        self.assertAlmostEqual(1800.0, found.params["low"], delta=30)
        self.assertAlmostEqual(2400.0, found.params["high"], delta=40)
        self.assertEqual(
            (8, 20, "trials"), tuple(found.params[name] for name in ("count", "of", "what"))
        )
        line = messages.of(found)
        self.assertIn("'untuned' has two speeds", line)
        self.assertIn("Mbit/s in 8 of 20 trials", line)

    def test_boots_of_two_speeds_count_as_boots(self):
        """Of few boots nothing can be said: each has a level of its own."""
        made = self.trials(lambda boot, _block: 1000.0 if boot % 3 else 1200.0, boots=12)
        found = speeds.find(made)
        self.assertEqual(
            (8, 12, "boots"), tuple(found.params[name] for name in ("count", "of", "what"))
        )
        self.assertIsNone(speeds.find([trial for trial in made if trial.boot < 6]))

    def test_one_speed(self):
        for name, value in (
            ("noise", lambda _boot, _block: 1000.0),
            ("drift", lambda boot, block: 1000.0 * (1 + 0.02 * (5 * boot + block))),
            ("one boot is slow", lambda boot, _block: 800.0 if boot == 2 else 1000.0),
            ("two strange trials", lambda boot, block: 500.0 if 5 * boot + block < 2 else 1000.0),
            ("closer than 5 %", lambda _boot, block: 1000.0 if block < 2 else 1030.0),
        ):
            with self.subTest(name):
                self.assertIsNone(speeds.find(self.trials(value)))
        few = self.trials(lambda _boot, block: 1800.0 + 600.0 * (block % 2), boots=1, blocks=11)
        self.assertIsNone(speeds.find(few))

    def test_counts_are_no_speeds(self):
        made = self.trials(lambda _boot, _block: 1.0)
        for number, trial in enumerate(made):
            trial.value = 1.0 + number % 2
        self.assertIsNone(speeds.find(made))

    def test_noise_of_one_peak_is_seldom_named(self):
        named = 0
        for _ in range(1000):
            made = self.trials(lambda _boot, _block: self.random.lognormvariate(5, 0.2), blocks=7)
            named += speeds.find(made) is not None
        self.assertLessEqual(named, 2)

    def test_verdicts_and_comparisons_name_them(self):
        data = samples.results({"untuned": 1000.0, "tuned": 1000.0}, boots=4, blocks=6, noise=0.01)
        for trial in data.trials:
            if trial.arm == "tuned" and trial.block % 2:
                trial.value *= 1.4
        budget = verdict.Budget("iperf3", "tuned", max_loss=0.5, baseline="untuned")
        [judged] = verdict.judge_all(data, [budget])
        self.assertIn(C.TWO_SPEEDS, judged.reasons[0].codes)
        [caution] = text.cautions(summary.summarise(data))
        self.assertIn("'tuned' has two speeds", caution)
