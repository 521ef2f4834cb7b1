# SPDX-License-Identifier: Apache-2.0
"""Kinds of outputs that the eleventh batch of the field has shown: commented out, omni's table on its own."""

import textwrap

from nova_perf_tuning.validation.bench import base, pasted, recognition
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
    tool = recognition.recognise(shown)
    return tool.kind, recognition.report(tool, shown)


def figures(report):
    return {reading.metric: reading.value for reading in report.readings}


def refusal(test, text):
    shown = pasted.decode(text.encode())
    return str(test.assertRaises(base.BenchmarkOutputError, recognition.recognise, shown))


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
        text = pasted.decode(test_field_outputs.output("outputs11/323"))
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
            text = pasted.decode(test_field_outputs.output(case))
            tool = recognition.recognise(text)
            for sign in ("#", "//"):
                with self.subTest(case=case, sign=sign):
                    commented = pasted.decode(in_notes(sign, text).encode())
                    self.assertEqual(tool.report(text).readings, tool.report(commented).readings)


RR_COMMAND = (
    "$ kubectl exec -n netperf -it client -- netperf -H server -t TCP_RR -l 30 -- -O"
    " min_latency,mean_latency,max_latency,p99_latency,stddev_latency,transaction_rate\n\n"
)
RR_TABLE = """\
Minimum      Mean         Maximum      99th         Stddev       Transaction
Latency      Latency      Latency      Percentile   Latency      Rate
Microseconds Microseconds Microseconds Latency      Microseconds Tran/s
                                       Microseconds
307          333.18       4840         384          39.75        2999.744
"""
LATENCIES = {
    "latency_min": 307,
    "latency_mean": 333.18,
    "latency_max": 4840,
    "latency_p99": 384,
    "latency_deviation": 39.75,
}
RR_FIGURES = {"transactions_per_second": 2999.744, **LATENCIES}
RATE_TABLE = "Transaction\nRate\nTran/s\n\n2999.744\n"
STREAM_TABLE = """\
Local       Remote      Local  Elapsed Throughput Throughput
Send Socket Recv Socket Send   Time               Units
Size        Size        Size   (sec)
Final       Final

2249216     2097152     131072 10.00   53767.08   10^6bits/s
"""


class OmniWithoutBannerTests(testcase.TestCase):
    def test_requests_below_their_command(self):
        together = "\n".join(" ".join(line.split()) for line in RR_TABLE.split("\n"))
        wrapped = RR_COMMAND.replace(" -t TCP_RR", " \\\n  -t TCP_RR")
        for text in (
            RR_COMMAND + RR_TABLE,
            f"# TCP latency:\n{RR_COMMAND}The figures:\n{RR_TABLE}\nThat is all.\n",
            RR_COMMAND + together,
            wrapped + RR_TABLE,
            wrapped + together,
        ):
            kind, report = read(text)
            with self.subTest(text):
                self.assertEqual(("netperf_rr", RR_FIGURES), (kind, figures(report)))
                self.assertEqual("TCP_RR", report.workload["test"])
                self.assertEqual("30", report.workload["seconds asked for"])
                self.assertIn("that of the command", report.remarks["no_banner"])

    def test_requests_alone(self):
        for text in (
            RR_TABLE,
            "Mean Latency Microseconds,Transaction Rate Tran/s\n333.18,2999.744\n",
            "Throughput Throughput Mean\n           Units      Latency\n"
            "                      Microseconds\n2999.744   Trans/s    333.18\n",
            "THROUGHPUT=2999.744\nTHROUGHPUT_UNITS=Trans/s\nMEAN_LATENCY=333.18\n",
        ):
            kind, report = read(text)
            with self.subTest(text):
                self.assertEqual("netperf_rr", kind)
                self.assertEqual(2999.744, figures(report)["transactions_per_second"])
                self.assertEqual(333.18, figures(report)["latency_mean"])
                self.assertIn("connection of its own", report.remarks["no_banner"])
                self.assertIn("protocol_unknown", report.remarks)

    def test_bulk_data(self):
        columns = "Throughput,Throughput Units\n53767.08,10^6bits/s\n"
        for name, direction in (
            ("", "client to server"),
            (" -t TCP_MAERTS", "server to client"),
        ):
            for selector, shown in (("-O", STREAM_TABLE), ("-o", columns)):
                kind, report = read(f"$ netperf -H 192.0.2.1{name} -- {selector} all\n{shown}")
                with self.subTest(name=name, selector=selector):
                    self.assertEqual("netperf", kind)
                    self.assertEqual({"throughput": 53767.08}, figures(report))
                    self.assertEqual(direction, report.workload["direction"])
        for shown in (STREAM_TABLE, columns):
            kind, report = read(shown)
            self.assertEqual(("netperf", {"throughput": 53767.08}), (kind, figures(report)))
            self.assertIn("nor the direction", report.remarks["no_banner"].replace("neither", ""))
            self.assertNotIn("direction", report.workload)

    def test_columns_that_are_no_figures_here(self):
        """Round trips are the inverse of the rate; netperf prints -1 for a CPU that it did not measure."""
        table = """\
Round     Transaction Local  Local   Service  Protocol
Trip      Rate        CPU    Service Demand
Latency   Tran/s      Util   Demand  Units
usec/tran             %

47.062    21248.457   -1.00  -1.000  usec/Tran TCP
"""
        kind, report = read(table.replace("Service  Protocol", "Service   Protocol"))
        self.assertEqual("netperf_rr", kind)
        self.assertEqual({"transactions_per_second": 21248.457}, figures(report))
        self.assertEqual("TCP", report.workload["protocol"])
        self.assertIn("'round trip latency usec/tran'", report.left_out)

    def test_a_command_of_another_test_does_not_name_requests(self):
        _kind, report = read("$ netperf -H 192.0.2.1 -l 5\n" + RR_TABLE)
        self.assertEqual("OMNI_Send|Recv", report.workload["test"].replace(" ", "_"))

    def test_two_commands_are_two_tests(self):
        other = RR_COMMAND.replace("TCP_RR", "UDP_RR") + RR_TABLE.replace("2999.744", "3100.5  ")
        kind, report = read(f"{RR_COMMAND}{RR_TABLE}\n{other}")
        self.assertEqual("netperf", kind.partition("_")[0])
        self.assertEqual(2999.744, figures(report)["tcp_rr_transactions_per_second"])
        self.assertEqual(3100.5, figures(report)["udp_rr_transactions_per_second"])

    def test_selectors_of_several_tables(self):
        """A semicolon between selectors begins a table; with and without the banner they are of one test."""
        latencies = "\n".join(line[:64].rstrip() for line in RR_TABLE.split("\n"))
        banner = (
            "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to B () port 0\n"
        )
        for before in (RR_COMMAND, banner):
            for tables in (f"{RATE_TABLE}\n{latencies}", f"{latencies}\n{RATE_TABLE}"):
                _kind, report = read(before + tables)
                with self.subTest(before + tables):
                    self.assertEqual(RR_FIGURES, figures(report))

    def test_several_rows_and_tables_of_one_test(self):
        row = RR_TABLE.rstrip().rpartition("\n")[2]
        banner = (
            "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to B () port 0\n"
        )
        for before in (RR_COMMAND, banner):
            text = f"{before}{RR_TABLE}{row.replace('2999', '3999')}\n"
            self.assertIn("several rows", refusal(self, text))
        self.assertIn("several tables", refusal(self, banner + RR_TABLE + "\n" + RR_TABLE))

    def test_what_cannot_be_matched(self):
        spread = RR_TABLE.replace("Stddev ", "Spread ")
        for text in (spread, RR_COMMAND.partition(",")[0] + "\n" + spread):
            said = refusal(self, text)
            self.assertIn("the head does not fit the 6 values", said)
            self.assertIn("-k", said)
        latencies = "\n".join(line[:64].rstrip() for line in RR_TABLE.split("\n"))
        said = refusal(self, latencies)
        self.assertIn("which test it is", said)
        self.assertIn("-k", said)

    def test_a_table_that_is_cut_off(self):
        text = RR_COMMAND + RR_TABLE
        for end in range(len(RR_COMMAND), len(text) - 1):
            refusal(self, text[:end])

    def test_words_of_other_tools(self):
        for case in ("outputs11/328", "outputs11/331"):
            text = pasted.decode(test_field_outputs.output(case))
            self.assertFalse(recognition.load_reader("netperf").printed(text))
