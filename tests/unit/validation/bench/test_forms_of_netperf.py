# SPDX-License-Identifier: Apache-2.0
"""Forms of netperf's output: several runs, rows without a banner, what it says beside the figures."""

from nova_perf_tuning.validation.bench import base, netperf, plugins
from tests.support import testcase

BANNER = "MIGRATED TCP {} TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0 AF_INET\n"
CRR = BANNER.format("Connect/Request/Response") + (
    "Mean Latency Microseconds,Transaction Rate Tran/s\n{},{}\n"
)
STREAM = (
    BANNER.format("STREAM")
    + """Recv   Send    Send
Socket Socket  Message  Elapsed
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    10^6bits/sec

 87380  16384  16384    10.00     941.23{}
"""
)


def shown(text):
    tool = plugins.recognise(text)
    report = tool.checked_report(text)
    return report, {reading.metric: reading.value for reading in report.readings}


class NetperfFormsTest(testcase.TestCase):
    def test_runs_of_rows_one_after_the_other(self):
        """A row that another line follows is whole."""
        runs = f"$ netperf -t TCP_CRR\n{CRR.format(56.63, 17730.7)}$ netperf -t TCP_CRR\n"
        report, figures = shown(runs + CRR.format(57.64, 17388.7))
        self.assertEqual(17730.7, figures["tcp_crr_1_transactions_per_second"])
        self.assertEqual(57.64, figures["tcp_crr_2_latency_mean"])
        self.assertFalse([reading for reading in report.readings if reading.primary])
        text = (runs + CRR.format(57.64, 17388.7)).rstrip("\n")
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "add the line end", plugins.recognise, text
        )

    def test_runs_of_keys(self):
        keys = BANNER.format("STREAM") + "THROUGHPUT={}\nTHROUGHPUT_UNITS=10^6bits/s\n\n"
        _report, figures = shown(keys.format(941.5) + keys.format(85.25))
        self.assertEqual(
            {"tcp_stream_1_throughput": 941.5, "tcp_stream_2_throughput": 85.25}, figures
        )

    def test_what_stands_beside_the_figures(self):
        for before, after, said in (
            ("", "", ""),
            ("", "  2.10   3.40   1.1   2.2", "CPU utilisation"),
            ("Interim result: 930.10 10^6bits/s over 1.000 seconds\n", "", "interim"),
            ("", "\n\nHistogram of request/response times\nUNIT_USEC :  0: 1: 2", "histogram"),
            ("", "   # the slow path", ""),
        ):
            head, _, rest = STREAM.partition("\n")
            report, figures = shown(f"{head}\n{before}{rest.format(after)}")
            with self.subTest(before + after):
                self.assertEqual({"throughput": 941.23}, figures)
                self.assertIn(said, "\n".join(report.left_out))
                self.assertEqual("client to server", report.workload["direction"])

    def test_a_confidence_that_was_not_reached(self):
        text = STREAM.format("").replace(
            "Recv ",
            "!!! WARNING\n!!! Desired confidence was not achieved within the specified iterations.\nRecv ",
            1,
        )
        self.assertIn("confidence_not_reached", shown(text)[0].remarks)

    def test_omni_without_its_protocol(self):
        text = (
            BANNER.replace("TCP {}", "OMNI Send") + "Throughput,Throughput Units\n9.5,10^6bits/s\n"
        )
        self.assertIn("protocol_unknown", shown(text)[0].remarks)

    def test_requests_and_answers_of_omni(self):
        text = BANNER.replace("TCP {}", "OMNI Send|Recv") + (
            "THROUGHPUT=21000.50\nTHROUGHPUT_UNITS=Trans/s\nP99_LATENCY=80\nPROTOCOL=UDP\n\n"
        )
        report, figures = shown(text)
        self.assertEqual({"transactions_per_second": 21000.5, "latency_p99": 80}, figures)
        self.assertEqual("UDP", report.workload["protocol"])
        without = text.replace("THROUGHPUT_UNITS=Trans/s\n", "")
        self.assertRaises(base.BenchmarkOutputError, plugins.recognise, without)

    def test_a_table_without_its_banner(self):
        for text in (
            STREAM.format("").partition("\n")[2],
            CRR.format(1.5, 2.5).partition("\n")[2],
        ):
            with self.subTest(text):
                self.assertRaisesRegex(
                    base.BenchmarkOutputError, "netperf: .*banner", plugins.recognise, text
                )

    def test_too_many_tests(self):
        text = 300 * STREAM.format("")
        self.assertRaisesRegex(base.BenchmarkOutputError, "at most", netperf.Netperf().parse, text)
