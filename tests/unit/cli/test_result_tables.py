"""The table that ends a validation."""

import contextlib
import io

import testtools

from nova_perf_tuning.cli import result_tables
from nova_perf_tuning.validation.report import summary
from tests.support import samples


def shown(results):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        result_tables.print_summary(summary.summarise(results))
    return out.getvalue()


class SummaryTest(testtools.TestCase):
    def test_ratio_that_contradicts_the_medians_is_explained(self):
        """Tuned is better in every block, but the host slowed down and the medians fall into different blocks."""
        trials = []
        for block, (untuned, tuned) in enumerate(
            [(1000.0, 1010.0), (900.0, None), (800.0, 810.0), (700.0, 705.0), (600.0, 605.0)]
        ):
            for arm, value in (("untuned", untuned), ("tuned", tuned)):
                error = None if value else "cut"
                trials.append(samples.trial(arm=arm, block=block, value=value, error=error, order=len(trials)))
        results = samples.of(trials, seed=1, arms={"untuned": {}, "tuned": {}})
        [one] = summary.summarise(results)
        medians = {arm.arm: arm.median.value for arm in one.arms}
        self.assertTrue(medians["tuned"] < medians["untuned"])
        self.assertTrue(one.comparisons[0].ratio.value > 1)
        text = shown(results)
        self.assertEqual("ratio: median of the ratios within each block", text.splitlines()[-1][:45])
        self.assertIn("not the ratio of the medians", text)

    def test_nothing_to_explain_without_a_ratio(self):
        self.assertNotIn("ratio:", shown(samples.results({"host": 1000.0})))
