# SPDX-License-Identifier: Apache-2.0
"""Forms of outputs as people post them: a right figure or one line that says why there is none."""

from nova_perf_tuning.validation.bench import base, pasted, plugins, unixbench
from tests.support import testcase


def refusal(test, text):
    """Return the one line with which a posted text is refused."""
    error = test.assertRaises(base.BenchmarkOutputError, plugins.recognise, pasted.clean(text))
    test.assertNotIn("\n", str(error))
    return str(error)


def figures(text):
    report = plugins.recognise(text).checked_report(text)
    return {reading.metric: reading.value for reading in report.readings}


def unixbench_report(factor, printed=None):
    """Return a report whose results are so many times the baselines."""
    rows = [
        f"{test:40} {baseline:10.1f} {baseline * factor:12.1f} {10 * factor:8.1f}"
        for test, (_name, baseline, _unit) in unixbench.TESTS.items()
    ]
    score = f"System Benchmarks Index Score {printed or 10 * factor:50.1f}"
    return ["System Benchmarks Index Values  BASELINE  RESULT  INDEX", *rows, "=" * 8, score, ""]


class SeveralReportsOfUnixBenchTest(testcase.TestCase):
    def test_a_report_without_its_score_before_another(self):
        """The second report's results were shown as those of the text."""
        first, second = unixbench_report(40), unixbench_report(50)
        said = refusal(self, "\n".join(first[:10] + [""] + second))
        self.assertIn(
            "several reports: 'Dhrystone 2 using register variables' is in it twice", said
        )

    def test_parts_of_two_reports(self):
        """No test is there twice, and the score is that of one of them."""
        first, second = unixbench_report(40), unixbench_report(50)
        said = refusal(self, "\n".join(first[:7] + second[7:]))
        self.assertIn("the score 500.0 is of other results", said)
        self.assertIn("parts of several reports", said)

    def test_a_score_agrees_with_rounded_results(self):
        text = "\n".join(unixbench_report(40, printed=402.0))
        self.assertAlmostEqual(400, figures(text)["score"], 1)
        self.assertIn("other results", refusal(self, "\n".join(unixbench_report(40, 405.0))))
