# SPDX-License-Identifier: Apache-2.0
"""Forms of sysbench's, cyclictest's and oslat's output: cut, annotated, of older and other tests."""

import json

from nova_perf_tuning.validation.bench import base, pasted, recognition, rt_tests, sysbench
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs, test_parsers


def shown(text, kind):
    """Return report and metric -> value of a text that a tool of this kind recognises."""
    tool = recognition.recognise(text)
    assert tool.kind == kind, tool.kind
    report = tool.checked_report(text)
    return report, {reading.metric: reading.value for reading in report.readings}


def refusal(test, text):
    return str(test.assertRaises(base.BenchmarkOutputError, recognition.recognise, text))


class SysbenchTest(testcase.TestCase):
    CPU = """sysbench 1.0.20 (using system LuaJIT 2.1.0)
Prime numbers limit: 10000
Initializing worker threads...
CPU speed:
    events per second:   100.00

General statistics:
    total time:                          10.0s
    total number of events:              1000

Latency (ms):
         min:                                    0.10
         avg:                                    0.50
         max:                                    9.00
         95th percentile:                        0.60
         sum:                                 5000.00
"""
    FILES = """sysbench 1.0:  multi-threaded system evaluation benchmark
Doing random r/w test
File operations:
    reads/s:                      8259.22
    writes/s:                     5499.26
    fsyncs/s:                     17610.85
Throughput:
    read, MiB/s:                  129.05
    written, MiB/s:               85.93
General statistics:
    total time:                          0.7268s
    total number of events:              10000
    response time:
         min:                                  0.00ms
         avg:                                  0.18ms
         max:                                  1.98ms
         approx.  95 percentile:               0.54ms
"""

    def test_latencies_of_the_layout_before_1_0(self):
        report, figures = shown(self.FILES, "sysbench_fileio")
        self.assertEqual(
            (0.18, 0.54, 1.98),
            tuple(figures[f"latency_{name}"] for name in ("mean", "p95", "max")),
        )
        self.assertIn("rate_computed", report.remarks)
        self.assertIn("cut off", refusal(self, self.FILES[: self.FILES.index("ms\n", 600)]))

    def test_a_report_that_is_cut_within_its_latencies(self):
        for cut in ("0.50\n", "0.60\n"):
            said = refusal(self, self.CPU[: self.CPU.index(cut)])
            with self.subTest(cut):
                self.assertIn("cut off", said)
                self.assertNotIn("--rate", said)

    OLD_SQL = """sysbench 0.4.12:  multi-threaded system evaluation benchmark
Number of threads: 8
Doing read-only test
OLTP test statistics:
    queries performed:
        read:                            1400
        write:                           0
    transactions:                        100    (10.00 per sec.)
    deadlocks:                           2      (0.20 per sec.)
    read/write requests:                 1400   (140.00 per sec.)
    other operations:                    200    (20.00 per sec.)
Test execution summary:
    total time:                          10.0s
    total number of events:              100
    per-request statistics:
         min:                            0.0100s
         avg:                            0.0500s
         max:                            0.2000s
         approx.  95 percentile:         0.1000s
"""

    def test_versions_before_1_0(self):
        """Their times have a unit: seconds before 0.4.9."""
        report, figures = shown(self.OLD_SQL, "sysbench_oltp")
        self.assertEqual(
            {
                "transactions_per_second": 10,
                "requests_per_second": 140,
                "other_operations_per_second": 20,
                "errors": 2,
                "latency_mean": 50,
                "latency_p95": 100,
                "latency_max": 200,
            },
            figures,
        )
        self.assertEqual("read-only", report.workload["mode"])

    def test_files_of_versions_before_1_0(self):
        files = """sysbench 0.4.12:  multi-threaded system evaluation benchmark
Number of threads: 16
128 files, 16Mb each
2Gb total file size
Block size 16Kb
Doing random r/w test
Operations performed:  6000 Read, 4000 Write, 12800 Other = 22800 Total
Read 93.75Mb  Written 62.5Mb  Total transferred 156.25Mb  (16.22{}b/sec)
 1038.37 Requests/sec executed
Test execution summary:
    total time:                          9.6305s
    total number of events:              10000
    per-request statistics:
         min:                            0.00ms
         avg:                            0.77ms
         max:                            300.25ms
         approx.  95 percentile:         5.77ms
"""
        for unit, factor in (("M", 1), ("K", 1 / 1024), ("G", 1024)):
            report, figures = shown(files.format(unit), "sysbench_fileio")
            with self.subTest(unit):
                self.assertEqual(1038.37, figures["requests_per_second"])
                self.assertEqual(16.22 * factor, figures["throughput"])
                self.assertEqual(5.77, figures["latency_p95"])
        self.assertEqual("16Kb", report.workload["block size"])
        self.assertIn("reads, writes and fsyncs apart", "\n".join(report.left_out))
        self.assertIn("cut off", refusal(self, files.replace("Requests/sec", "Requests")))

    def test_what_the_head_would_say_is_missing(self):
        body = self.CPU[self.CPU.index("CPU speed") :]
        report, _figures = shown(body, "cpu")
        self.assertIn("version, threads, largest number: ", "\n".join(report.left_out))
        report, _figures = shown(
            f"$ sysbench cpu --threads=4 --cpu-max-prime=99 run\n{body}", "cpu"
        )
        self.assertEqual(
            ("4", "99"), (report.workload["threads"], report.workload["largest number"])
        )
        self.assertIn("version: ", "\n".join(report.left_out))

    def test_a_decimal_comma_is_named(self):
        said = refusal(self, self.CPU.replace("second:   100.00", "second:   100,00"))
        self.assertIn("comma for the decimal point", said)
        self.assertIn("LC_ALL=C", said)
        self.assertNotIn("cut off", said)

    def test_the_command_of_each_report(self):
        """The report has the word fsync whatever call its command chose."""
        command = "$ sysbench fileio --file-fsync-mode={} run\n"
        text = command.format("fsync") + self.FILES + command.format("fdatasync") + self.FILES
        report, _figures = shown(text, "sysbench")
        self.assertIn("sync call fsync", report.workload["run1_fileio"])
        self.assertIn("sync call fdatasync", report.workload["run2_fileio"])

    def test_a_rate_is_reached_or_not(self):
        head = "Target transaction rate: {}/sec\nInitializing worker"
        slow = self.CPU.replace("Initializing worker", head.format(300))
        report, figures = shown(slow, "cpu")
        self.assertEqual(100, figures["events_per_second"])
        self.assertIn("300", report.remarks["rate_not_reached"])
        held = self.CPU.replace("Initializing worker", head.format(100))
        report, figures = shown(held, "cpu")
        self.assertIn("held to 100 a second", report.remarks["held_to_a_rate"])
        self.assertEqual({"latency_mean", "latency_p95", "latency_max", "events"}, set(figures))
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.load_reader("cpu").readings, 0, held, ""
        )
        self.assertIn("held to 100 a second", str(error))
        cut = refusal(self, slow[: slow.index("0.50\n")])
        self.assertNotIn("rate", cut)

    def test_remarks_behind_figures(self):
        text = self.CPU.replace("100.00\n", "100.00   # fast\n").replace(
            "0.50\n", "0.50 <- mean\n"
        )
        self.assertEqual(shown(self.CPU, "cpu")[1], shown(text, "cpu")[1])

    def test_what_is_shown_where_the_mean_is_0(self):
        text = self.CPU.replace(" 0.10\n", " 0.00\n").replace(" 0.50\n", " 0.00\n")
        report, figures = shown(text.replace(" 0.60\n", " 0.00\n"), "cpu")
        self.assertEqual(9, figures["latency_max"])
        self.assertNotIn("latency_mean", figures)
        self.assertIn("latency_too_short", report.remarks)

    def test_tests_that_are_not_read_are_named(self):
        end = self.CPU[self.CPU.index("General") :]
        threads = f"$ sysbench --threads=4 threads run\nInitializing worker threads...\n{end}"
        mutex = threads.replace("threads run", "mutex run")
        headless = f"Throughput:\n    events/s (eps): 4.76\n{end.partition(chr(10))[2]}"
        for text, name in ((threads, "threads"), (threads + mutex, "threads and mutex")):
            said = refusal(self, text)
            with self.subTest(name):
                self.assertIn(f"report of {name} is not read", said)
                self.assertIn("sysbench cpu|memory|fileio", said)
        self.assertIn("sysbench cpu|memory|fileio", refusal(self, headless))

    def test_prepare_run_and_cleanup_in_one_log(self):
        banner = "sysbench 1.0.20 (using system LuaJIT 2.1.0)\n\n"
        log = f"{banner}128 files, 16384Kb each\n{self.CPU}{banner}Removing test files...\n"
        self.assertEqual(shown(self.CPU, "cpu")[1], shown(log, "cpu")[1])


class CyclictestTest(testcase.TestCase):
    TEXT = """# /dev/cpu_dma_latency set to 0us
policy: fifo: loadavg: 0.03 0.01 0.00 1/683 148608
T: 0 (148604) P:98 I:1000 C:    998 Min:     10 Act:   17 Avg:   12 Max:      13
# Histogram
000010 000500
000012 000400
000013 000100
# Min Latencies: 00010        # each thread's least
# Avg Latencies: 00011
# Max Latencies: 00013   <- fine
# Histogram Overflows: 00000
"""

    def test_remarks_and_no_line_of_totals(self):
        report, figures = shown(self.TEXT, "cyclictest")
        self.assertEqual((13, 1), (figures["latency_max"], figures["wake_ups"]))
        self.assertAlmostEqual(11, figures["latency_p50"])
        self.assertIn("percentiles_computed", report.remarks)
        self.assertNotIn("beyond_histogram", report.remarks)

    def test_a_summary_that_is_cut_within_its_maximum(self):
        """Each number has five places or more; the maximum was 3 or 30 µs of 3,095."""
        text = "# Min Latencies: 00007\n# Avg Latencies: 00012\n# Max Latencies: 03095"
        self.assertEqual(3095, shown(text, "cyclictest")[1]["latency_max"])
        for places in range(1, 5):
            error = self.assertRaises(
                base.BenchmarkOutputError, recognition.recognise, text[:-places]
            )
            self.assertIn("cut off within its last line, 'Max Latencies'", str(error))

    def test_overflows_are_said_without_the_histogram(self):
        """The maximum is one of them, whether or not the buckets were pasted."""
        text = self.TEXT.replace("Overflows: 00000", "Overflows: 00003")
        rows = text[text.index("000010 ") : text.index("# Min")]
        totals = text.replace("# Min", "# Total: 000000995\n# Min")
        for shown_text in (text.replace(rows, ""), totals.replace(rows, ""), text):
            report, _figures = shown(shown_text, "cyclictest")
            self.assertIn(" wake-ups (0.3 %) lie", report.remarks["beyond_histogram"])

    def test_rows_that_are_missing(self):
        """Without a total the threads' lines show it; maxima do not come from the histogram."""
        rows = self.TEXT.split("\n")[4:7]
        totals = self.TEXT.replace("# Min", "# Total: 000001000\n# Min")
        for text in (self.TEXT, totals):
            for row in rows:
                report, figures = shown(text.replace(f"{row}\n", ""), "cyclictest")
                with self.subTest(row):
                    self.assertIn("lines are missing", "\n".join(report.left_out))
                    self.assertEqual((10, 13), (figures["latency_min"], figures["latency_max"]))
                    self.assertNotIn("latency_p99", figures)

    def test_a_part_of_the_json(self):
        """One thread's object has neither the unit nor the other threads."""
        thread = {"histogram": {"2": 5}, "cycles": 5, "min": 2, "max": 2, "avg": 2, "cpu": 6}
        cpu = {"cpu": 3, "duration": 10, "max": 9, "histogram": {"4": 1000}}
        for words, part in (("cyclictest --json", thread), ("oslat --json", cpu)):
            text = json.dumps({"0": part}, indent=2)
            for shorter in (text, text[2:-2], text[2:]):
                with self.subTest(words, text=shorter[:20]):
                    said = refusal(self, shorter)
                    self.assertIn("part of the JSON", said)
                    self.assertIn(words, said)

    def test_other_programs_of_rt_tests(self):
        head = '{{\n "cmdline:": "{} -t 4 --json=x",\n "num_threads": 1\n}}\n'
        pairs = "#1 -> #0, Min    1, Cur    1, Avg    2, Max   11\n"
        for text, name in (
            (head.format("ptsematest"), "ptsematest"),
            (head.format("/usr/bin/svsematest"), "svsematest"),
            ("# pmqtest -Sp99 -i100 -d0\n" + pairs, "pmqtest"),
            (pairs, "ptsematest"),
        ):
            with self.subTest(text):
                said = refusal(self, text)
                self.assertIn(name, said)
                self.assertIn("oslat --json=-", said)

    def test_a_tool_that_is_named_without_its_output(self):
        said = refusal(self, "Latency Test with the oslat image\ncurrent latency 304\n")
        self.assertIn("names oslat, whose own output ('oslat --json=-') is not in it", said)
        self.assertNotIn("names", refusal(self, "neither of cyclictest nor of oslat\n"))

    def test_a_line_that_a_mail_has_wrapped(self):
        for place in ("Max:", "     13", "Avg:"):
            wrapped = self.TEXT.replace(place, f"\n{place.strip()}", 1)
            with self.subTest(place):
                self.assertNotEqual(wrapped, self.TEXT)
                self.assertEqual(
                    shown(self.TEXT, "cyclictest")[1], shown(wrapped, "cyclictest")[1]
                )

    def test_runs_one_after_the_other(self):
        """Each has its own command, so its own unit."""
        thread = "T: 0 ( 1001) P:90 I:200 C:  {} Min:   1000 Act: 2000 Avg: 2000 Max:   {}\n"
        first = "# /dev/cpu_dma_latency set to 0us\npolicy: fifo: loadavg: 0.1 1/2 3\n"
        whole = first + thread.format(9000, 19000) + first[34:] + thread.format(10000, 20000)
        fast, slow = "$ cyclictest -N -t 1\n" + whole, "$ cyclictest -t 1\n" + whole
        report, figures = shown(fast + slow, "cyclictest")
        self.assertEqual((20, 20000), (figures["run1_latency_max"], figures["run2_latency_max"]))
        self.assertFalse([reading for reading in report.readings if reading.primary])
        self.assertIn("several_runs", report.remarks)
        _report, figures = shown(fast + "$ cyclictest -t 4\n", "cyclictest")
        self.assertEqual(20, figures["latency_max"])

    def test_a_list_of_single_wake_ups(self):
        text = "# /dev/cpu_dma_latency set to 0us\n       0:       0:       5\n       0:       1:       6\n"
        self.assertIn("(-v) are not read", refusal(self, text))

    def test_the_json_says_that_percentiles_are_calculated(self):
        report = rt_tests.Cyclictest().report(test_parsers.GOOD[rt_tests.Cyclictest])
        self.assertIn("percentiles_computed", report.remarks)


class OslatTest(testcase.TestCase):
    def test_which_buckets_are_interruptions(self):
        data = test_field_outputs.output("outputs2/56")
        report, _figures = shown(pasted.decode(data), "oslat")
        self.assertIn("above that of 2 µs", report.remarks["interruptions"])
        self.assertEqual("SCHED_FIFO:1", report.workload["priority"])
        self.assertEqual("4 (KiB)", report.workload["memory of the workload"])
        thread = {"cpu": 3, "duration": 10, "max": 9, "histogram": {"4": 1000, "5": 1, "9": 1}}
        found = rt_tests.Oslat().report(json.dumps({"thread": {"0": thread}}))
        self.assertIn("above that of 4 µs", found.remarks["interruptions"])

    OLD = """Version: v0.1.0

core_i:    2 3
cpu_mhz:    2197 2197
001 (us):    930 940
002 (us):    51 50
maxlat:    6 5 (us)
runtime:    10.5 10.5 (sec)
"""

    def test_the_layout_before_rt_tests(self):
        report, figures = shown(self.OLD, "oslat")
        self.assertEqual((6, 5), (figures["latency_max"], figures["latency_max_cpu3"]))
        self.assertNotIn("latency_mean", figures)
        self.assertIn("latency_mean", "\n".join(report.left_out))
        self.assertEqual("10.5", report.workload["seconds"])
        cut = self.OLD[: self.OLD.index("(sec)")]
        self.assertIn("no unit", refusal(self, cut))

    def test_reports_one_after_the_other(self):
        today = pasted.decode(test_field_outputs.output("outputs2/56"))
        for text in (today + today, self.OLD + self.OLD, today + self.OLD):
            report, figures = shown(text, "oslat")
            with self.subTest(text[-20:]):
                self.assertIn("run1_latency_max", figures)
                self.assertIn("run2_latency_max", figures)
                self.assertFalse([reading for reading in report.readings if reading.primary])

    def test_buckets_that_are_missing_or_wrapped(self):
        """Interruptions are counted in all of them."""
        text = pasted.decode(test_field_outputs.output("outputs2/56"))
        whole = shown(text, "oslat")[1]
        without = {name: value for name, value in whole.items() if name != "interruptions"}
        self.assertNotEqual(whole, without)
        first, last = text.index("001 (us)"), text.index("Minimum:")
        for changed, words in (
            (text.replace("003 (us):\t 24 28\n", ""), "missing before that of 4"),
            (text.replace("001 (us):\t 0 0\n", ""), "missing before"),
            (text.replace("10492 21962", "10492\n21962"), "1 of 2 columns"),
            (text[:first] + text[last:], "no buckets"),
        ):
            with self.subTest(words):
                self.assertNotEqual(text, changed)
                report, figures = shown(changed, "oslat")
                self.assertEqual(without, figures)
                self.assertIn("interruptions: ", "\n".join(report.left_out))
                self.assertIn(words, "\n".join(report.left_out))


class CutTest(testcase.TestCase):
    def test_a_line_without_its_figure_is_named(self):
        text = SysbenchTest.CPU.replace("0.50\n", "\n")
        error = self.assertRaises(base.BenchmarkOutputError, sysbench.Cpu().parse, text)
        self.assertIn("its line 'avg' has no whole figure", str(error))
