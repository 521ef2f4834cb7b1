# SPDX-License-Identifier: Apache-2.0
"""Kinds of outputs that the eleventh batch of the field has shown: commented out, omni's table on its own."""

import textwrap

from nova_perf_tuning.validation.bench import base, pasted, plugins
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs

DD = """\
1+0 records in
1+0 records out
1073741824 bytes (1.1 GB, 1.0 GiB) copied, 1.94133 s, 553 MB/s
"""
RATE = 1073741824 / 1.94133 / 1e6


def read(text):
    """Return the kind and the report of a paste that names no tool."""
    shown = pasted.decode(text.encode())
    tool = plugins.recognise(shown)
    return tool.kind, plugins.report(tool, shown)


def figures(report):
    return {reading.metric: reading.value for reading in report.readings}


def refusal(test, text):
    shown = pasted.decode(text.encode())
    return str(test.assertRaises(base.BenchmarkOutputError, plugins.recognise, shown))


def in_notes(sign, text):
    """Return an output that somebody keeps as a comment below the command of a note."""
    lines = [f"{sign} {line}".rstrip() for line in text.rstrip().split("\n")]
    commented = "\n".join(lines)
    return f"# Speed\n\n```sh\ndd if=/dev/zero of=/srv/x bs=1G count=1\n{commented}\n```\nFine.\n"


class CommentedTests(testcase.TestCase):
    def test_dd_below_its_command(self):
        for sign in ("#", "##", "//", ";", ";;", "--", "%", "*"):
            kind, report = read(in_notes(sign, DD))
            with self.subTest(sign):
                self.assertEqual("dd", kind)
                self.assertAlmostEqual(RATE, figures(report)["throughput"])
                self.assertIn("of=/srv/x", report.workload["command"])

    def test_the_line_of_the_result_alone(self):
        records, _end, result = DD.rstrip().rpartition("\n")
        _kind, report = read(f"{records}\n# {result}\n")
        self.assertAlmostEqual(RATE, figures(report)["throughput"])

    def test_a_short_output_of_comments_alone(self):
        _kind, report = read(textwrap.indent(DD, "# "))
        self.assertAlmostEqual(RATE, figures(report)["throughput"])

    def test_a_comment_beside_a_result_stays_one(self):
        """What somebody keeps of an earlier run is not one of the runs of the text."""
        text = pasted.decode(test_field_outputs.case("outputs11/323")[0])
        older = textwrap.indent(text.replace("158 Mbits", "140 Mbits"), "# ")
        for both in (f"{text}\n{older}", f"{older}\n{text}", f"{older}\nand now:\n{text}"):
            _kind, report = read(both)
            self.assertEqual(158, figures(report)["throughput"])

    def test_comments_without_a_result_stay(self):
        text = "# Histogram\n# Total: 5\n001 5\n// 5 fields\n; words\n"
        self.assertEqual(text, pasted.decode(text.encode()))

    def test_each_tool(self):
        for case in (
            "outputs11/311",
            "outputs11/316",
            "outputs11/321",
            "outputs11/323",
            "outputs11/325",
            "outputs11/328",
            "outputs11/329",
            "outputs11/330",
            "outputs11/331",
            "outputs11/332",
            "outputs11/335",
            "outputs10/304",
            "outputs10/305",
            "outputs10/308",
        ):
            text = pasted.decode(test_field_outputs.case(case)[0])
            tool = plugins.recognise(text)
            for sign in ("#", "//"):
                with self.subTest(case=case, sign=sign):
                    commented = pasted.decode(in_notes(sign, text).encode())
                    self.assertEqual(tool.report(text).readings, tool.report(commented).readings)
