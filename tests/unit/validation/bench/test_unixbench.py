# SPDX-License-Identifier: Apache-2.0
"""UnixBench's report, with the figures of the published ones, to the last digit."""

import pathlib

from nova_perf_tuning.validation.bench import base, plugins, unixbench
from tests.support import answers, testcase

FIGURES = pathlib.Path(__file__).parents[4] / "doc/source/data/published.yaml"


class NeedsTest(testcase.TestCase):
    def test_what_a_guest_must_have(self):
        """Its directory, the programs of its shell tests, and room for the files that each copy copies."""
        programs, _memory, scratch_mib = plugins.needs(plugins.jobs(["unixbench:copies=40"]))
        self.assertLessEqual({"/opt/UnixBench/Run", "perl", "make", "sh", "sort"}, programs)
        self.assertEqual(640, scratch_mib)


COPIES = "Benchmark Run: 四 9月 18 2025 18:04:04\n64 CPUs in system; running {} parallel cop{} of tests\n"


def printed(report, version="5.1.3"):
    """Return a published report as UnixBench prints it."""
    rows = [
        f"{test} {unixbench.TESTS[test][1]:.1f} {result:.1f} {index:.1f}"
        for test, (result, index) in report["tests"].items()
    ]
    head = f"   BYTE UNIX Benchmarks (Version {version})\nSystem Benchmarks Index Values  BASELINE  RESULT  INDEX"
    return "\n".join((head, *rows, f"System Benchmarks Index Score {report['score']:.1f}\n"))


class PublishedTest(testcase.TestCase):
    reports = answers.load(FIGURES)["unixbench"]

    def test_72_indexes_and_6_scores(self):
        scores = [440.939, 1193.528, 1109.879, 519.827, 1471.350, 816.900]
        for published, score in zip(self.reports, scores, strict=True):
            results = unixbench.UnixBench().results(printed(published))
            self.assertEqual(12, len(results))
            for test, (_result, index) in published[
                "tests"
            ].items():  # both are printed with one decimal
                close = 0.05 + 0.5 / unixbench.TESTS[test][1]
                self.assertAlmostEqual(index, unixbench.index(test, results[test]), delta=close)
            self.assertAlmostEqual(published["score"], unixbench.score(results), delta=0.06)
            self.assertAlmostEqual(score, unixbench.score(results), 3)

    def test_index_and_every_test_are_read(self):
        readings = {
            reading.metric: reading.value
            for reading in unixbench.UnixBench().parse(printed(self.reports[4]))
        }
        self.assertAlmostEqual(1471.350, readings["score"], 3)
        self.assertEqual((25, 3260747.1), (len(readings), readings["syscall"]))
        self.assertAlmostEqual(2173.831, readings["syscall_index"], 3)

    def refused(self, text, *said):
        error = self.assertRaises(base.BenchmarkOutputError, unixbench.UnixBench().parse, text)
        for part in said:
            self.assertIn(part, str(error))

    def test_versions_are_never_mixed(self):
        for version in ("6.0.0", "5.1.2"):
            with self.subTest(version):
                self.refused(printed(self.reports[0], version), version)

    def test_two_reports_in_a_text_are_never_mixed(self):
        """5.1.3 prints one head before its two passes; of either the head or a score may be missing."""
        two = [
            printed(self.reports[at]).replace("System", f"{COPIES.format(n, ies)}\nSystem", 1)
            for at, n, ies in ((0, 1, "y"), (1, 8, "ies"))
        ]
        scores = [unixbench.UnixBench().parse(text)[0].value for text in two]
        for text in ("".join(two), "".join(two).replace("BYTE", "")):
            with self.subTest(text):
                readings = unixbench.UnixBench().parse(text)
                shown = {reading.metric: reading.value for reading in readings}
                self.assertEqual(scores, [shown["copies1_score"], shown["copies8_score"]])
                self.assertNotIn("score", shown)
                self.assertFalse(any(reading.primary for reading in readings))
        cut = unixbench.UnixBench().report(two[0] + COPIES.format(8, "ies"))
        self.assertEqual("copies1_score", cut.readings[0].metric)
        self.assertIn("8 copies", cut.left_out[0])
        self.refused(two[0] + two[0], "2 reports", "1, 1 copies")
        self.refused(two[0] + printed(self.reports[1]).replace("BYTE", ""), "2 reports")

    def test_what_is_known_of_a_report_is_told(self):
        """Without its head the version is unknown; a day in another language is no reason to refuse it."""
        benchmark, whole = unixbench.UnixBench(), printed(self.reports[4])
        headless = whole.partition("\n")[2].replace(
            "System", COPIES.format(32, "ies") + "\nSystem", 1
        )
        for text, remarks in ((whole, set()), (headless, {"version_unknown", "several_copies"})):
            with self.subTest(remarks):
                self.assertAlmostEqual(1471.350, benchmark.parse(text)[0].value, 3)
                self.assertEqual(remarks, set(benchmark.remarks(text)))

    def test_a_pass_without_tests_says_why(self):
        head = printed(self.reports[0]).partition("\n")[0]
        self.refused(f"{head}\n{COPIES.format(64, 'ies')}\n", "64 copies", "at most 16")
        said = 'Run: "make all" failed; aborting'
        self.refused(f"{head}\n{COPIES.format(1, 'y')}\n{said}\n", said)
