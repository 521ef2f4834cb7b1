# SPDX-License-Identifier: Apache-2.0
"""Names that people give: of a program instead of a benchmark, of another benchmark, or nearly right."""

import pathlib

from nova_perf_tuning.validation.bench import base, pasted, plugins, recognition
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs

DATA = pathlib.Path(__file__).parent / "data"


def text_of(name):
    return pasted.decode((DATA / name).read_bytes())


class NamesOfReadersTest(testcase.TestCase):
    def test_sysbench_stands_for_each_of_its_tests(self):
        texts = {"cpu": text_of("sysbench-cpu.txt"), "oltp": text_of("sysbench-oltp.txt")}
        for name, (kind, _metrics) in test_field_outputs.READ.items():
            if kind.startswith("sysbench_") or kind in ("cpu", "oltp", "sysbench"):
                texts[name] = pasted.decode(test_field_outputs.output(name))
        self.assertLess(10, len(texts))
        for name, text in texts.items():
            with self.subTest(name):
                reader = recognition.load_reader("sysbench").reader(text)
                found = recognition.recognise(text)
                self.assertEqual(found.kind, reader.kind)
                report = recognition.report_as_named(reader, text)
                self.assertEqual(found.report(text).readings, report.readings)

    def test_each_reader_of_one_kind_is_its_own(self):
        tool = recognition.load_reader("cpu")
        self.assertIs(tool, tool.reader(text_of("sysbench-cpu.txt")))

    def test_one_report_names_the_benchmark_that_reads_it(self):
        """As 'evaluate' asks it, which compares files of one benchmark."""
        tool = recognition.load_reader("sysbench")
        error = self.assertRaises(
            base.BenchmarkOutputError, tool.checked_report, text_of("sysbench-cpu.txt")
        )
        self.assertIn("'cpu' reads", str(error))

    def test_the_output_of_another_benchmark(self):
        for kind, name, other in (
            ("iperf3", "iperf3-udp.json", "packets"),
            ("oltp", "sysbench-cpu.txt", "cpu"),
            ("sysbench", "oslat.txt", "oslat"),
            ("fio", "cyclictest.json", "cyclictest"),
        ):
            with self.subTest(kind, name=name):
                tool = recognition.load_reader(kind).reader(text_of(name))
                error = self.assertRaises(
                    base.BenchmarkOutputError, recognition.report_as_named, tool, text_of(name)
                )
                self.assertIn(f"'nova-perf bench parse {other}' reads it", str(error))

    def test_an_output_of_nobody_names_no_other(self):
        tool = recognition.load_reader("fio")
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.report_as_named, tool, "nothing\n"
        )
        self.assertNotIn("reads it", str(error))

    def test_names_that_are_nearly_right(self):
        for load, name, kinds in (
            (recognition.load_reader, "iperf", "iperf3, iperf2"),
            (recognition.load_reader, "sysbench_cpu", "cpu, sysbench"),
            (plugins.load, "sysbench", "cpu, oltp"),
            (recognition.load_reader, "rt-tests", ""),
            (plugins.load, "", ""),
        ):
            error = self.assertRaises(plugins.UnknownBenchmarkError, load, name)
            with self.subTest(name):
                if kinds:
                    self.assertIn(f"of '{name}' are {kinds}", str(error))
                else:
                    self.assertNotIn("; of '", str(error))
