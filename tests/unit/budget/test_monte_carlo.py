"""What verdicts are worth, in small: simulated validations through the real looks and the real verdict.

``python -m tests.benchmarks.monte_carlo`` shows the same with more repeats and more cases. Seeds are fixed, so the
shares are too.
"""

import contextlib
import io
from unittest import mock

import numpy as np
import testtools

from nova_perf_tuning.budget import sequential
from tests.benchmarks import monte_carlo, simulation

REPEATS = 60


class MonteCarloTest(testtools.TestCase):
    def shares(self, loss, twist=simulation.plain, repeats=REPEATS, noise=None, **plan):
        """Return verdict -> share with the defaults of validate, at 2 % between blocks and 1 % between boots."""
        noise = noise or simulation.made_up(0.02, 0.01)
        return simulation.shares(noise, loss, plan=simulation.Plan(**plan), twist=twist, repeats=repeats)[0]

    def test_no_loss_is_not_called_one(self):
        for twist in (simulation.plain, simulation.outliers, simulation.drift, simulation.biased_boot):
            self.assertEqual(0.0, self.shares(0.0, twist)["FAIL"], twist.__name__)

    def test_a_loss_of_twice_the_budget_is_found(self):
        for twist in (simulation.plain, simulation.outliers, simulation.drift, simulation.biased_boot):
            self.assertTrue(self.shares(0.1, twist)["FAIL"] >= 0.95, twist.__name__)
        self.assertTrue(self.shares(0.1, figures=3)["FAIL"] >= 0.95)

    def test_at_the_edge_wrong_verdicts_are_rare_although_one_looks_again(self):
        """Boots differ twice as much as blocks: what makes intervals that forget boots too narrow."""
        found = self.shares(0.05, repeats=200, noise=simulation.made_up(0.02, 0.04), blocks=2)
        most = simulation.below(0.05, 200)
        self.assertTrue(found["FAIL"] <= most and found["PASS"] <= most, found)

    def test_recorded_noise_gives_no_wrong_fail(self):
        recorded, _ = simulation.load()
        for label, noise in recorded.items():
            self.assertTrue(self.shares(0.0, noise=noise)["FAIL"] <= simulation.below(0.01, REPEATS), label)

    def test_drift_goes_on_within_a_block(self):
        """A mirrored block takes back what the one before gave; a drift that cancels at once shows nothing."""
        levels, ratios = simulation.drift(np.random.default_rng(1), 2, np.zeros((4, 2))).T
        self.assertEqual([0.0075] * 4, np.abs(ratios).round(9).tolist())
        self.assertEqual([0.0, 0.0], (ratios[::2] + ratios[1::2]).round(9).tolist())
        self.assertTrue(-0.12 >= levels[0] > levels[1] > levels[2] > levels[3] > -0.18, levels)

    def test_the_check_can_fail(self):
        """With every look at the full confidence the promise at the edge breaks, and the command says so."""
        noise = simulation.made_up(0.02, 0.04)
        edge = next(one for one in monte_carlo.CASES if one.name == "at the budget's edge")
        told = io.StringIO()
        with mock.patch.object(sequential, "confidence", lambda *_: 0.8), contextlib.redirect_stdout(told):
            self.assertFalse(monte_carlo.judge(edge, *monte_carlo.run(edge, noise, 150), quiet=True, repeats=150))
        self.assertIn("BROKEN", told.getvalue())
