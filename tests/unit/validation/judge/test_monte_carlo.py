# SPDX-License-Identifier: Apache-2.0
"""The promises of verdicts, in simulations of the noise of live guests with fixed seeds."""

import numpy as np

from nova_perf_tuning.validation.judge import verdict
from tests.benchmarks import monte_carlo
from tests.support import testcase


class MonteCarloTest(testcase.TestCase):
    def test_error_rates_are_as_promised(self):
        recorded, _ = monte_carlo.load()
        for label, noise in recorded.items():
            for quiet, used in ((False, noise), (True, noise.scaled(monte_carlo.QUIET_SD))):
                with self.subTest(quiet):
                    for case in monte_carlo.CASES:
                        found, _ = monte_carlo.run(case, used, 1000)
                        for promise in case.promises:
                            kept = promise.kept(found[promise.verdict], 1000)
                            self.assertTrue(
                                kept or (promise.least and not quiet),
                                (label, quiet, case.name, found),
                            )

    def test_what_is_simulated_is_what_the_code_does(self):
        recorded, _ = monte_carlo.load()
        names = {
            1: verdict.Verdict.PASS,
            -1: verdict.Verdict.FAIL,
            0: verdict.Verdict.INCONCLUSIVE,
        }
        for figures in (1, 2):
            with self.subTest(figures):
                plan = monte_carlo.Plan(figures=figures)
                random = np.random.default_rng(figures)
                for loss in (0.0, 0.05, 0.1):
                    logs = monte_carlo.draw(
                        random, recorded["cpu"], loss, plan, monte_carlo.outliers, 12
                    )
                    found, boots = monte_carlo.judge(logs, plan)
                    output = [monte_carlo.decide(validation, plan) for validation in logs]
                    self.assertEqual(
                        list(zip(map(names.get, found), boots.tolist(), strict=True)), output
                    )
