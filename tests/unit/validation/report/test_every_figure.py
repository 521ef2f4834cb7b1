# SPDX-License-Identifier: Apache-2.0
"""Every figure of a benchmark has its ratio, since a score alone hides a bad one."""

import dataclasses
import json
import math
import random
import re

from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.report import report, summary
from nova_perf_tuning.validation.results import reasons
from tests.support import samples, testcase

C = reasons.ReasonCode

#: Metric -> better way, true value in each arm. The geometric mean of guests is that of the host.
TESTS = {
    "syscall": ("higher", {"host": 8000.0, "untuned": 1000.0, "tuned": 4000.0}),
    "pipe": ("higher", {"host": 1000.0, "untuned": 8000.0, "tuned": 2000.0}),
    "p99": ("lower", {"host": 10.0, "untuned": 40.0, "tuned": 20.0}),
}


def measured(tests=TESTS, boots=3, blocks=4, noise=0.01):
    """Return results in which the judged figure is the same in all arms, and the others are as given."""
    rng = random.Random(7)
    data = samples.results(
        dict.fromkeys(("host", "untuned", "tuned"), 100.0), boots, blocks, noise
    )
    for trial in list(data.trials):
        for metric, (better, arms) in tests.items():
            figure = {"metric": metric, "unit": "1/s", "better": better, "primary": False}
            value = arms[trial.arm] * math.exp(rng.gauss(0, noise))
            data.trials.append(dataclasses.replace(trial, value=value, **figure))
    return data


def ratios(results, metric, **options):
    [benchmark] = summary.summarise(results, **options)
    [figure] = [figure for figure in benchmark.secondary if figure.metric == metric]
    return {(pair.arm, pair.baseline): pair for pair in figure.comparisons}


def rows(html):
    """Return the cells of each row of the table of figures."""
    table = html[html.index("Test by test") :].partition("</table>")[0]
    return [
        re.findall(r"<t[dh][^>]*>([^<]*)", row)
        for row in re.findall("<tr>(.*?)</tr>", table, re.DOTALL)
    ]


class EveryFigureTest(testcase.TestCase):
    def test_each_ratio_has_its_interval_and_points_to_the_better(self):
        for metric, true in (
            ("syscall", (4, 1 / 8, 1 / 2)),
            ("pipe", (1 / 4, 8, 2)),
            ("p99", (2, 1 / 4, 1 / 2)),
        ):
            with self.subTest(metric):
                found = ratios(measured(), metric)
                order = [("tuned", "untuned"), ("untuned", "host"), ("tuned", "host")]
                self.assertEqual(order, list(found))
                for pair, value in zip(order, true, strict=True):
                    estimate = found[pair].ratio
                    self.assertTrue(
                        estimate.low < estimate.value < estimate.high, (metric, pair, estimate)
                    )
                    self.assertAlmostEqual(1, estimate.value / value, delta=0.03)

    def test_what_a_guard_rejects_or_fails_counts_for_no_figure(self):
        data = measured(boots=5)
        stolen = sorted({trial.order for trial in data.trials if trial.arm == "tuned"})[:2]
        for trial in data.trials:
            if trial.order in stolen:
                trial.value *= 1 if trial.primary else 1000
                trial.conditions = {"steal_share": 0.5}
        pair = ratios(data, "syscall")["tuned", "untuned"]
        [note] = pair.notes
        self.assertEqual(
            ({C.EXCLUDED, C.STEAL}, 2, 20), (note.codes, note.params["count"], note.params["of"])
        )
        self.assertTrue(3.9 < pair.ratio.low < pair.ratio.high < 4.1)
        lenient = ratios(data, "syscall", limits=trial_filter.Limits(max_steal=0.6))[
            "tuned", "untuned"
        ]
        self.assertEqual((), lenient.notes)

        orders = {trial.order for trial in data.trials if trial.arm == "tuned" and trial.boot < 2}
        whole = ratios(data, "syscall")["untuned", "host"].ratio.value
        data.trials = [
            trial for trial in data.trials if trial.order not in orders or trial.primary
        ]
        for trial in data.trials:
            if trial.order in orders:
                trial.value, trial.error = None, "cut"
        pair = ratios(data, "syscall")["tuned", "untuned"]
        self.assertIsNone(pair.ratio)
        self.assertIs(C.TOO_MANY_LOST, pair.invalid.code)
        self.assertEqual(1.0, round(whole * 8, 1))

    def test_a_figure_of_one_arm_or_of_nought_has_no_ratio(self):
        alone = {"host": 0.0, "untuned": 0.0, "tuned": 5.0}
        found = ratios(measured({"retransmits": ("lower", alone)}), "retransmits")
        self.assertEqual([None] * 3, [pair.ratio for pair in found.values()])
        data = measured()
        data.trials = [trial for trial in data.trials if trial.primary or trial.arm == "tuned"]
        self.assertEqual({}, ratios(data, "pipe"))
        [row] = [
            row
            for row in rows(report.render(data, summary.summarise(data), []))
            if row[0] == "pipe"
        ]
        self.assertEqual(["-", "-", "-", "-", "-"], [row[3], row[4], *row[6:]])

    def test_report_has_arms_and_ratios_side_by_side(self):
        data = measured()
        html = report.render(data, summary.summarise(data), [])
        head, judged, *others = rows(html)
        arms = ["host", "untuned", "tuned"]
        self.assertEqual(
            [
                "figure",
                "unit",
                "better",
                *arms,
                "tuned / untuned",
                "untuned / host",
                "tuned / host",
            ],
            head,
        )
        self.assertEqual("throughput", judged[0])
        self.assertEqual(list(TESTS), [row[0] for row in others])
        for row in others:
            for cell in row[6:]:
                self.assertRegex(cell, r"^\d+\.\d{3} \(\d+\.\d{3} to \d+\.\d{3}\)$")
        self.assertEqual("lower", others[2][2])
        self.assertRegex(html, r'class="n worse"[^>]*>0\.12\d \(')
        self.assertRegex(html, r'class="n better"[^>]*>[78]\.\d{3} \(')
        output = json.loads(json.dumps(report.as_json(data, summary.summarise(data), [])))
        figure = output["benchmarks"][0]["secondary"][0]
        self.assertEqual("syscall", figure["metric"])
        self.assertTrue(
            figure["comparisons"][0]["ratio"]["low"]
            < 4
            < figure["comparisons"][0]["ratio"]["high"]
        )
