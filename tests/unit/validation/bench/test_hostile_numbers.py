# SPDX-License-Identifier: Apache-2.0
"""Numbers that no program prints: what comes from a guest is a figure that results hold, or refused."""

import math
import random
import re
import time

from nova_perf_tuning.validation.bench import (
    base,
    fio,
    foreign,
    iperf3,
    netperf,
    own,
    pasted,
    plugins,
    recognition,
    rt_tests,
    sysbench,
)
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs, test_parsers

HOSTILE = ("9" * 400, "1" + "0" * 15, "²", "NaN", "1e999", "-1", "")
#: Longer than any field of a table in commas; reading it takes a hundred times as long: in one place of an output.
_LONG = "x" * 131_073
#: So many numbers of each output are replaced, and the words of command lines; fewer where a tool has many outputs.
_PLACES = 4
#: Places of all outputs of a tool together.
_PLACES_OF_TOOL = 10
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def outputs():
    """Return kind -> outputs that are read."""
    found = {}
    for tool, text in test_parsers.GOOD.items():
        found.setdefault(tool.kind, []).append(text)
    found["sysbench"] = [2 * test_parsers.GOOD[sysbench.Cpu]]
    for name, (kind, _metrics) in test_field_outputs.READ.items():
        data = test_field_outputs.output(name)
        found.setdefault(kind, []).append(pasted.decode(data))
    return found


def changed(text, source, most):
    """Return a text with hostile numbers in the place of some of its own, one at a time."""
    places = [(found.start(), found.end()) for found in _NUMBER.finditer(text)]
    texts = []
    for place, (begin, end) in enumerate(source.sample(places, min(most, len(places)))):
        for number in HOSTILE if place else (*HOSTILE, _LONG):
            texts.append(text[:begin] + number + text[end:])
    return texts


class BorderTest(testcase.TestCase):
    def check(self, tool, text):
        """Check that there are figures that results hold, or a refusal."""
        readings = []
        for read in (tool.checked_figures, tool.checked_report):
            try:
                found = read(text)
            except base.BenchmarkOutputError as error:
                self.assertTrue(str(error).isprintable() and len(str(error)) < 400, str(error))
                continue
            if isinstance(found, base.BenchmarkReport):
                found = found.readings
            readings += found
        for reading in readings:
            sane = math.isfinite(reading.value) and 0 <= reading.value <= base.MAX_NUMBER
            self.assertTrue(sane, (tool.kind, reading))

    def test_every_tool_with_hostile_numbers(self):
        source = random.Random(4)
        for kind, texts in outputs().items():
            tool = recognition.load_reader(kind)
            most = max(1, min(_PLACES, _PLACES_OF_TOOL // len(texts)))
            for text in texts:
                for hostile in changed(text, source, most):
                    with self.subTest(kind=kind):
                        self.check(tool, hostile)

    def test_what_a_guest_can_print(self):
        """As trials read it: none of these may end a validation."""
        stream = "TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0\n"
        columns = f"{stream}Throughput,Throughput Units\n"
        issued = test_field_outputs.output("outputs1/01").decode()
        issued = re.sub(r"(issued rwts?: total=)[0-9]+", r"\g<1>1" + "0" * 400, issued)
        self.assertIn("0" * 400, issued)
        fast = "999999999999 Tbits/sec"
        for tool, text in (
            (netperf.Netperf(), columns + "x" * 131_073 + ",10^6bits/s\n"),
            (fio.Fio(), issued),
            (
                iperf3.Iperf3(),
                f"[  5]   0.00-10.00  sec  1.10 GBytes   {fast}   12             sender\n"
                f"[  5]   0.00-10.04  sec  1.10 GBytes   {fast}                  receiver\n",
            ),
        ):
            with self.subTest(tool.kind):
                self.assertRaises(base.BenchmarkOutputError, tool.readings, 0, text, "")
                self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)

    def test_words_of_a_command_that_are_no_numbers(self):
        """The figures are right: what nobody can read of the command is not needed."""
        thread = "T: 0 (  100) P:80 I:1000 C:  10000 Min:      2 Act:    3 Avg:    4 Max:      12"
        keys = (
            "TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0\n"
            "THROUGHPUT=9388.12\nTHROUGHPUT_UNITS=10^6bits/s\nELAPSED_TIME=10,00\n\n"
        )
        for word in ("10", "²", "9" * 5000):
            with self.subTest(word[:10]):
                text = f"$ netperf -H 192.0.2.1 -l {word}\n{keys}"
                [reading] = netperf.Netperf().report(text).readings
                self.assertEqual(9388.12, reading.value)
        text = f"$ cyclictest -m -t ²\n{thread}\n"
        self.assertTrue(rt_tests.Cyclictest().report(text).readings)

    def test_errors_that_a_parser_did_not_expect(self):
        class Broken(own.Himeno):
            def parse(self, text):
                raise self.error

            def span(self, text):
                return base.Span(10.0, float(text))

        tool = Broken()
        for error in (
            ValueError("bad"),
            OverflowError("far"),
            KeyError("no"),
            ZeroDivisionError(),
        ):
            tool.error = error
            with self.subTest(repr(error)):
                for read in (tool.checked_figures, tool.checked_report):
                    self.assertRaisesRegex(base.BenchmarkOutputError, "cannot be read", read, "")
        for until in ("nan", "inf", "-1", "x"):
            with self.subTest(until):
                self.assertRaises(base.BenchmarkOutputError, tool.checked_span, until)
        self.assertEqual(base.Span(10.0, 5.0), tool.checked_span("5"))

    def test_no_tool_is_left_out(self):
        """A tool without an output here has none that is read, or another that it shares."""
        kinds = {tool.kind for tool in [*plugins.load_all(), *foreign.TOOLS]}
        absent = kinds - set(outputs())
        self.assertLessEqual(
            absent, {"rtla", "rt_tests", "sysbench_memory", "sysbench_oltp", "netperf_udp"}, absent
        )


class LongOutputsTest(testcase.TestCase):
    """The time of the longest output that is read grows as its length does, not as its square."""

    #: A run that is repeated until its text is as long as any that is read.
    REPEATED = {
        "netperf": "TCP STREAM TEST :\n10^6bits/s\n1 1 1 1.00 1.00\n",
        "himenobmtxp": (
            "mimax = 65 mjmax = 65 mkmax = 129\nLoop executed for 9 times\n"
            "MFLOPS measured : 1.0\nScore based on X : 1.0\n"
        ),
        "dd": "1+0 records in\n1+0 records out\n1000 bytes transferred in 1.0 secs (1000 bytes/sec)\n",
    }
    #: Lines that stand around what a program printed.
    AROUND = "2 of the machines had 3 CPUs, and 45.6 ms\nread: 1\n[  3] x\nT: 0\n"

    def seconds(self, tool, text):
        """Return the CPU time of reading a text: the least of two."""
        times = []
        for _time in range(2):
            begin = time.process_time()
            try:
                tool.report(text)
            except base.BenchmarkOutputError:
                pass
            times.append(time.process_time() - begin)
        return min(times)

    def test_lines_around_a_report(self):
        for kind, texts in outputs().items():
            tool = recognition.load_reader(kind)
            with self.subTest(kind):
                one = self.seconds(tool, 500 * self.AROUND + texts[-1])
                four = self.seconds(tool, 2000 * self.AROUND + texts[-1])
                self.assertLess(four, 9 * one + 0.01, (one, four))

    def test_more_runs_than_anybody_reads_are_refused(self):
        """Before it took eight seconds to show 90,000 figures."""
        for kind, run in self.REPEATED.items():
            tool = recognition.load_reader(kind)
            self.assertTrue(tool.checked_report(base.MOST_RUNS * run).readings)
            text = base.MAX_CHARACTERS // 4 // len(run) * run
            for read in (tool.checked_figures, recognition.recognise):
                with self.subTest(kind):
                    self.assertRaisesRegex(base.BenchmarkOutputError, "at most 200", read, text)
