# SPDX-License-Identifier: Apache-2.0
"""The published reports of UnixBench as people paste them: quoted, wrapped, tabulated, in parts."""

import re
import textwrap

from nova_perf_tuning.validation.bench import base, pasted, recognition, unixbench
from tests.support import testcase
from tests.unit.validation.bench import test_unixbench

HEAD = """\
========================================================================
   BYTE UNIX Benchmarks (Version 5.1.3)

   System: host: GNU/Linux
   CPU 0: Some CPU (4600.0 bogomips)
   09:26:41 up 1 day,  1:09,  1 user,  load average: 0.05, 0.08, 0.05; runlevel 5

------------------------------------------------------------------------
Benchmark Run: Thu Mar 10 2022 09:26:41 - 09:54:58
1 CPU in system; running 1 parallel copy of tests
""".split("\n")
REPORTS = test_unixbench.PublishedTest.reports


def samples(report):
    """Return the lines of results, which stand before the table of indexes."""
    lines = []
    for test, (result, _index) in report["tests"].items():
        unit = unixbench.TESTS[test][2]
        lines.append(f"{test:<40} {result:12.1f} {unit:<5} (10.0 s, 7 samples)")
    return lines


def table(report):
    """Return the lines of the table of indexes."""
    rows = ["System Benchmarks Index Values               BASELINE       RESULT    INDEX"]
    for test, (result, index) in report["tests"].items():
        baseline = unixbench.TESTS[test][1]
        rows.append(f"{test:<40} {baseline:12.1f} {result:12.1f} {index:8.1f}")
    rows.append(" " * 67 + "========")
    return [*rows, f"{'System Benchmarks Index Score':<66} {report['score']:8.1f}"]


def wrapped(lines, width):
    """Return lines as a mail of that width has them."""
    whole = []
    for line in lines:
        whole += textwrap.wrap(line, width) or [line]
    return whole


def cells(line):
    return [cell for cell in re.split(r"\s{2,}", line) if cell]


def forms(report):
    """Yield name and lines of each form of a report, all of its figures in them."""
    whole = [*HEAD, *samples(report), "", *table(report)]
    for width in (50, 60, 72):
        yield f"wrapped to {width}", wrapped(whole, width)
        yield f"quoted, wrapped to {width}", [f"> {line}" for line in wrapped(whole, width)]
    yield "whole", whole
    yield "quoted", [f"> {line}" for line in whole]
    yield "quoted twice", [f">> {line}" for line in whole]
    yield "indented", [f"    {line}" for line in whole]
    yield "CR LF", [f"{line}\r" for line in whole]
    yield "single spaces", [" ".join(line.split()) for line in whole]
    yield "tabs", ["\t".join(cells(line)) for line in whole]
    yield "numbered", [f"{number:4d}  {line}" for number, line in enumerate(whole, start=1)]
    yield "spaced", [each for line in whole for each in (line, "")]
    yield "in a page", ["<pre>", *whole, "</pre>"]
    yield "in Markdown", ["```", *whole, "```"]
    yield "with a remark", [*whole[:-1], f"{whole[-1]}   <- slow"]
    yield "a table of Markdown", [f"| {' | '.join(cells(line))} |" for line in table(report)]
    yield "values with commas between them", [",".join(cells(line)) for line in table(report)]
    yield "the table", table(report)
    yield "the table without its heading", table(report)[1:]
    yield "the table without its score", [*HEAD, *table(report)[:-2]]
    yield "the results above the table", [*HEAD, *samples(report)]
    yield "the results without a head", samples(report)


class PastedReportsTest(testcase.TestCase):
    def read(self, lines, encoding="utf-8"):
        text = pasted.decode("".join(f"{line}\n" for line in lines).encode(encoding))
        tool = recognition.recognise(text)
        self.assertEqual("unixbench", tool.kind)
        return recognition.report(tool, text)

    def test_each_form_of_each_report(self):
        self.assertEqual(6, len(REPORTS))
        for report in REPORTS:
            whole = self.read([*HEAD, *table(report)])
            for name, lines in forms(report):
                for encoding in ("utf-8", "utf-16"):
                    with self.subTest(name, score=report["score"]):
                        found = self.read(lines, encoding)
                        self.assertEqual(whole.readings, found.readings)
                        [judged] = [item for item in found.readings if item.primary]
                        self.assertAlmostEqual(report["score"], judged.value, delta=0.06)

    def test_a_score_that_the_text_does_not_have_is_said_to_be_calculated(self):
        report = REPORTS[0]
        for lines in (samples(report), table(report)[:-1], [*HEAD, *samples(report)]):
            self.assertIn("score_missing", self.read(lines).remarks)
        for lines in (table(report), [*HEAD, *samples(report), *table(report)]):
            self.assertNotIn("score_missing", self.read(lines).remarks)

    def test_a_part_of_the_tests_has_no_score(self):
        report = REPORTS[0]
        for lines in (
            samples(report)[:-1],
            table(report)[:5],
            [*table(report)[:5], table(report)[-1]],
            [*samples(report), samples(report)[0]],
        ):
            error = self.assertRaises(base.BenchmarkOutputError, self.read, lines)
            self.assertIn("is missing", str(error))

    def test_a_result_in_another_unit_is_none(self):
        lines = [line.replace("MWIPS", "lps  ") for line in samples(REPORTS[0])]
        self.assertRaises(base.BenchmarkOutputError, self.read, lines)
