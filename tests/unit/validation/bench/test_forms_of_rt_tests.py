# SPDX-License-Identifier: Apache-2.0
"""JSON of rt-tests that has no histogram: the judged figure is missing, the others are read."""

import json

from nova_perf_tuning.validation.bench import base, plugins, recognition
from tests.support import testcase

OSLAT = {
    "file_version": 1,
    "cmdline": "oslat --json=- --duration=5",
    "num_threads": 1,
    "thread": {"0": {"cpu": 3, "freq": 2000, "min": 1, "avg": 1.0, "max": 9, "duration": 5}},
}


def cyclictest(options="", histogram=None, absent=()):
    """Return a document of two threads as cyclictest 2.5 prints it; it leaves no histogram empty."""
    threads = {}
    for number, (cycles, longest) in enumerate(((300_000, 22), (100_000, 31))):
        thread = {"cycles": cycles, "min": 2, "max": longest, "avg": 3.0 + number, "cpu": number}
        if histogram is not None:
            thread = {"histogram": dict(histogram), **thread}
        threads[str(number)] = {key: thread[key] for key in thread if key not in absent}
    document = {
        "cmdline:": f"cyclictest -t 2 -p 95 -D 60 {options} --json=out.json",
        "rt_test_version:": "2.50",
        "num_threads": 2,
        "resolution_in_ns": 0,
        "thread": threads,
    }
    return json.dumps(document, indent=2)


def read(text):
    tool = recognition.recognise(text)
    return tool, recognition.report(tool, text)


def figures(report):
    return {reading.metric: reading.value for reading in report.readings}


class WithoutHistogramTests(testcase.TestCase):
    def test_cyclictest_s_maximum_and_mean_are_read(self):
        for text in (cyclictest(histogram={}), cyclictest()):
            tool, report = read(text)
            shown = figures(report)
            self.assertEqual("cyclictest", tool.kind)
            self.assertEqual((31, 2), (shown["latency_max"], shown["latency_min"]))
            self.assertAlmostEqual(3.25, shown["latency_mean"])
            self.assertEqual("60", report.workload["seconds"])
            self.assertFalse([item for item in report.readings if item.primary])

    def test_loops_are_as_long_as_their_interval_and_not_as_the_clock_s_step(self):
        for options, seconds in (("-l 1000", "1"), ("-l 1000 -i 500", "0.5"), ("-D 2 -l 0", "2")):
            document = json.loads(cyclictest())
            document["cmdline:"] = f"cyclictest -q {options} --json=out.json"
            document["thread"]["0"]["cycles"] = 1000
            document["start_time"] = "Mon, 30 Nov 2026 12:49:17 +0000"
            document["end_time"] = "Mon, 30 Nov 2026 13:49:19 +0000"
            with self.subTest(options):
                _tool, report = read(json.dumps(document))
                self.assertEqual(seconds, report.workload["seconds"])

    def test_the_missing_figure_is_named_with_its_option(self):
        _tool, report = read(cyclictest(histogram={}))
        said = "\n".join(report.left_out)
        for word in ("latency_p99, which is judged", "--histogram=10000"):
            self.assertIn(word, said)

    def test_a_histogram_that_no_wake_up_fell_into(self):
        for option in ("-h 1", "--histogram=1", "-h1"):
            _tool, report = read(cyclictest(option, histogram={}))
            self.assertIn("none of 400000 wake-ups lies within", "\n".join(report.left_out))

    def test_a_run_of_our_own_needs_the_judged_figure(self):
        tool = plugins.load("cyclictest")
        error = self.assertRaises(
            base.BenchmarkOutputError, tool.readings, 0, cyclictest(histogram={}), ""
        )
        for word in ("latency_p99", "--histogram="):
            self.assertIn(word, str(error))

    def test_oslat_counts_no_gaps_without_buckets(self):
        for histogram in (None, {}):
            document = json.loads(json.dumps(OSLAT))
            if histogram is not None:
                document["thread"]["0"]["histogram"] = histogram
            tool, report = read(json.dumps(document, indent=2))
            self.assertEqual("oslat", tool.kind)
            self.assertEqual({"latency_max": 9, "latency_max_cpu3": 9}, figures(report))
            self.assertIn("interruptions: the output has no histogram", "\n".join(report.left_out))
