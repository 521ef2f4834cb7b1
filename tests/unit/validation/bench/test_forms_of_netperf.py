# SPDX-License-Identifier: Apache-2.0
"""Forms of netperf's output: several runs, rows without a banner, what it says beside the figures."""

from nova_perf_tuning.validation.bench import base, netperf, recognition
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
    tool = recognition.recognise(text)
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
        report, figures = shown(text)
        self.assertNotIn("tcp_crr_2_latency_mean", figures)
        self.assertIn("add the line end", "\n".join(report.left_out))

    def test_runs_that_failed(self):
        """A run of several that failed is named with what netperf said of it."""
        failed = BANNER.format("STREAM") + "recv_response: partial response received: 0 bytes\n"
        report, figures = shown(failed + STREAM.format(""))
        self.assertEqual({"tcp_stream_2_throughput": 941.23}, figures)
        self.assertIn("tcp_stream_1: netperf: it said", "\n".join(report.left_out))
        for text in (failed, failed + failed):
            self.assertRaisesRegex(
                base.BenchmarkOutputError, "partial response", recognition.recognise, text
            )

    def test_units_whatever_the_spaces(self):
        for unit in ("MBytes/sec", "MBytes  /s", "MBytes /s"):
            _report, figures = shown(STREAM.format("").replace("10^6bits/sec", unit))
            with self.subTest(unit):
                self.assertAlmostEqual(941.23 * 8 * 1.048576, figures["throughput"])

    def test_cpu_of_both_machines(self):
        _report, figures = shown(STREAM.format("   40.20    25.28    5.482   3.448"))
        self.assertEqual((40.2, 25.28), (figures["local_cpu"], figures["remote_cpu"]))
        report, figures = shown(STREAM.format("   40.20    -1.00    5.482   -1.000"))
        self.assertNotIn("remote_cpu", figures)
        self.assertIn("'remote_cpu': netperf printed -1.00 %", report.left_out)

    def test_names_of_columns_that_a_mail_has_wrapped(self):
        text = BANNER.format("Connect/Request/Response") + (
            "Throughput,Throughput Units,99th Percentile\nLatency Microseconds,Mean Latency\n"
            "Microseconds\n2217.06,Trans/s,589,442.5\n\n"
        )
        _report, figures = shown(text)
        self.assertEqual(
            {"transactions_per_second": 2217.06, "latency_p99": 589, "latency_mean": 442.5},
            figures,
        )

    def test_rows_without_a_head(self):
        """-P 0 leaves banner and unit out; the command says what they would be."""
        row = " 87380  16384  16384    10.00     941.23\n"
        for options, factor in (
            ("", 1),
            (" -f g", 1000),
            (" -f M", 8 * 1.048576),
            (" -t TCP_MAERTS", 1),
        ):
            report, figures = shown(f"$ netperf -H 192.0.2.1 -P 0{options}\n{row}")
            with self.subTest(options):
                self.assertAlmostEqual(941.23 * factor, figures["throughput"])
                self.assertIn("by_the_command", report.remarks)
                way = "client to server"
                if "MAERTS" in options:
                    way = "server to client"
                self.assertEqual(way, report.workload["direction"])
        requests = "$ netperf -t TCP_RR -P 0\n16384  131072 1        1       10.00    27035.31\n"
        report, figures = shown(requests)
        self.assertEqual({"transactions_per_second": 27035.31}, figures)
        both = f"$ netperf -P 0 -f k\n{row}" + requests
        _report, figures = shown(both)
        self.assertAlmostEqual(0.94123, figures["tcp_stream_throughput"])
        self.assertEqual(27035.31, figures["tcp_rr_transactions_per_second"])
        loop = (
            "# for i in 1 2; do netperf -P 0 -H 192.0.2.1; done\n" + row + row.replace("41", "52")
        )
        report, figures = shown(loop)
        self.assertEqual(
            {"tcp_stream_1_throughput": 941.23, "tcp_stream_2_throughput": 952.23}, figures
        )
        self.assertFalse([reading for reading in report.readings if reading.primary])
        for refused in (row, f"$ netperf -P 0 -f x\n{row}", f"$ netperf -P 0 -t SCTP_RR\n{row}"):
            with self.subTest(refused):
                self.assertRaises(base.BenchmarkOutputError, recognition.recognise, refused)

    def test_runs_of_keys(self):
        keys = BANNER.format("STREAM") + "THROUGHPUT={}\nTHROUGHPUT_UNITS=10^6bits/s\n\n"
        _report, figures = shown(keys.format(941.5) + keys.format(85.25))
        self.assertEqual(
            {"tcp_stream_1_throughput": 941.5, "tcp_stream_2_throughput": 85.25}, figures
        )

    def test_what_stands_beside_the_figures(self):
        for before, after, said in (
            ("", "", ""),
            ("", "  2.10   3.40   1.1   2.2", "service demand"),
            ("Interim result: 930.10 10^6bits/s over 1.000 seconds\n", "", "interim"),
            ("", "\n\nHistogram of request/response times\nUNIT_USEC :  0: 1: 2", "histogram"),
            ("", "   # the slow path", ""),
        ):
            head, _, rest = STREAM.partition("\n")
            report, figures = shown(f"{head}\n{before}{rest.format(after)}")
            with self.subTest(before + after):
                self.assertEqual(941.23, figures["throughput"])
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
        latencies = recognition.recognise(without).report(without)
        self.assertEqual([], [reading for reading in latencies.readings if reading.primary])
        self.assertIn("TRANSACTION_RATE", "\n".join(latencies.left_out))

    def test_a_table_without_its_banner(self):
        self.assertRaisesRegex(
            base.BenchmarkOutputError,
            "netperf: .*banner",
            recognition.recognise,
            STREAM.format("").partition("\n")[2],
        )

    def test_too_many_tests(self):
        text = 300 * STREAM.format("")
        self.assertRaisesRegex(base.BenchmarkOutputError, "at most", netperf.Netperf().parse, text)


OMNI = BANNER.replace("TCP {}", "OMNI Send")
TABLE = """Local       Remote      Local  Elapsed Throughput Throughput  Protocol
Send Socket Recv Socket Send   Time               Units
Size        Size        Size   (sec)
Final       Final
212992      212992      65507  10.00   940.12     10^6bits/s  UDP
"""
COLUMNS = """Protocol,Direction,Elapsed Time (sec),Throughput,Throughput Units
UDP,Send,10.00,940.12,10^6bits/s
"""
KEYS = """THROUGHPUT=940.12
THROUGHPUT_UNITS=10^6bits/s
TRANSACTION_RATE=1.000
PROTOCOL=UDP
"""


class OmniOfUdpTest(testcase.TestCase):
    """netperf's omni tests count of UDP what arrived; a test that says so is none of TCP."""

    def test_each_form_is_read_as_udp(self):
        for text in (OMNI + TABLE, OMNI + COLUMNS, COLUMNS, OMNI + KEYS, KEYS):
            with self.subTest(text):
                tool = recognition.recognise(text)
                report = tool.checked_report(text)
                self.assertEqual("netperf_udp", tool.kind)
                self.assertEqual(("throughput", 940.12), _judged(report))
                self.assertEqual("UDP", report.workload["protocol"])
                self.assertNotIn("neither the protocol", " ".join(report.remarks.values()))

    def test_the_command_says_the_protocol(self):
        keys = KEYS.replace("PROTOCOL=UDP\n", "")
        for options in (
            "-t omni -- -T udp -d send",
            "-t UDP_STREAM --",
            "-T 2,2 -t omni -- -T UDP",
        ):
            text = f"$ netperf -H 192.0.2.1 {options} -k THROUGHPUT,THROUGHPUT_UNITS\n{keys}"
            tool = recognition.recognise(text)
            report = tool.checked_report(text)
            with self.subTest(options):
                self.assertEqual("netperf_udp", tool.kind)
                self.assertEqual("UDP", report.workload["protocol"])
                self.assertEqual("2,2" in options, "CPUs (-T)" in report.workload)
        for options in ("-t omni -- -T tcp", "-t TCP_STREAM --", "-T 2,2 --"):
            text = f"$ netperf -H 192.0.2.1 {options} -k THROUGHPUT,THROUGHPUT_UNITS\n{keys}"
            self.assertEqual("netperf", recognition.recognise(text).kind)

    def test_what_was_sent(self):
        text = KEYS + "LOCAL_SEND_THROUGHPUT=1000.5\nREMOTE_RECV_THROUGHPUT=940.12\n"
        self.assertEqual(1000.5, shown(text)[1]["sent_throughput"])

    def test_the_reader_of_tcp_names_the_protocol(self):
        for text, words in (
            (OMNI + TABLE, ("UDP", "netperf_udp")),
            (OMNI + COLUMNS, ("UDP", "netperf_udp")),
            (KEYS, ("UDP", "netperf_udp")),
            (OMNI + COLUMNS.replace("UDP", "SCTP"), ("SCTP",)),
        ):
            error = self.assertRaises(
                base.BenchmarkOutputError, netperf.Netperf().checked_figures, text
            )
            for word in words:
                self.assertIn(word, str(error))

    def test_words_beside_an_output_do_not_make_it_one_of_udp(self):
        text = f"TCP is faster than UDP here, 2 of UDP too\n{OMNI}{COLUMNS.replace('UDP', 'TCP')}"
        self.assertEqual("netperf", recognition.recognise(text).kind)


def _judged(report):
    [reading] = [item for item in report.readings if item.primary]
    return reading.metric, reading.value


#: TCP_RR with -v 2 and -f m, which prints its rate in bits.
IN_BITS = (
    BANNER.replace(" AF_INET\n", " AF_INET : interval : first burst 6\n").format(
        "REQUEST/RESPONSE"
    )
    + """Local /Remote
Socket Size   Request  Resp.   Elapsed
Send   Recv   Size     Size    Time     Throughput
bytes  Bytes  bytes    bytes   secs.    10^6bits/sec

16384  87380  32768    32768   10.00    1821.30
524288 524288
"""
)
VERBOSE = """Alignment      Offset         RoundTrip  Trans    Throughput
Local  Remote  Local  Remote  Latency    Rate     10^6bits/s
Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound
    8      0       0      0   2015.402   3473.252 910.492    910.492
"""


class FormsOfTheManualTest(testcase.TestCase):
    """Outputs as netperf's manual has them."""

    def test_bits_a_second_are_no_transactions(self):
        report, figures = shown(IN_BITS + VERBOSE)
        self.assertEqual({"transactions_per_second": 3473.252}, figures)
        self.assertEqual("7", report.workload["transactions in flight"])
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, IN_BITS)
        self.assertIn("bits or bytes a second (-f)", str(error))

    def test_the_second_table_beside_a_rate(self):
        text = IN_BITS.replace("10^6bits/sec", "per sec").replace("Throughput", "Rate")
        for more in (VERBOSE, ""):
            self.assertEqual({"transactions_per_second": 1821.3}, shown(text + more)[1])

    def test_a_histogram_is_no_row(self):
        text = """TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0 AF_INET : histogram
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate
bytes  Bytes  bytes    bytes   secs.    per sec

16384  87380  1        1       10.00    3538.82
32768  32768
Alignment      Offset
Local  Remote  Local  Remote
Send   Recv    Send   Recv
    8      0       0      0
Histogram of request/response times
UNIT_USEC     :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
HUNDRED_USEC  :    0: 34480:  111:   13:   12:    6:    9:    3:    4:    7
>100_SECS: 0
HIST_TOTAL:      35391
"""
        report, figures = shown(text)
        self.assertEqual({"transactions_per_second": 3538.82}, figures)
        self.assertIn("the histogram", report.left_out)

    def test_what_a_send_said(self):
        text = BANNER.replace("MIGRATED TCP {}", "UDP UNIDIRECTIONAL SEND")
        error = self.assertRaises(
            base.FailedRunError,
            recognition.recognise,
            f"{text}udp_send: data send error: Message too long\n",
        )
        self.assertIn("Message too long", str(error))

    def test_nothing_arrived(self):
        text = BANNER.replace("MIGRATED TCP {}", "UDP UNIDIRECTIONAL SEND") + (
            "Socket  Message  Elapsed      Messages\n"
            "Size    Size     Time         Okay Errors   Throughput\n"
            "bytes   bytes    secs            #      #   10^6bits/sec\n\n"
            "124928   65000   10.00       53595      0    2786.99\n"
            " 65536           10.00           0              0.00\n"
        )
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
        self.assertIn("0 messages arrived of 53595", str(error))

    def test_omni_without_a_direction(self):
        banner = BANNER.replace("MIGRATED TCP {}", "OMNI").replace("AF_INET\n", "AF_INET : demo\n")
        table = "Throughput Throughput\n           Units\n\n\n60492.57   Trans/s\n"
        columns = "Throughput,Throughput Units\n60492.57,Trans/s\n"
        keys = "THROUGHPUT=60492.57\nTHROUGHPUT_UNITS=Trans/s\n"
        for text in (banner + table, banner + columns, banner + keys):
            with self.subTest(text):
                self.assertEqual("netperf_rr", recognition.recognise(text).kind)
                self.assertEqual({"transactions_per_second": 60492.57}, shown(text)[1])
                error = self.assertRaises(
                    base.BenchmarkOutputError, netperf.Netperf().checked_figures, text
                )
                self.assertIn("netperf_rr", str(error))
        bulk = banner + columns.replace("Trans/s", "10^6bits/s")
        self.assertEqual("netperf", recognition.recognise(bulk).kind)
