# SPDX-License-Identifier: Apache-2.0
"""Forms of iperf's output: which side printed it, of which protocol, stopped, and at a rate."""

import json

from nova_perf_tuning.validation.bench import base, iperf2, iperf3, iperf_rows, pasted, recognition
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs, test_parsers

CLIENT = """Connecting to host 192.0.2.1, port 5201
[  5] local 192.0.2.2 port 40000 connected to 192.0.2.1 port 5201
"""
INTERVAL = """[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-5.00   sec   559 MBytes   938 Mbits/sec    3    700 KBytes
"""
TOTALS = """- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  1.09 GBytes   940 Mbits/sec    3             sender
[  5]   0.00-10.04  sec  1.09 GBytes   936 Mbits/sec                  receiver
"""
DONE = "\niperf Done.\n"
ACCEPTED = """-----------------------------------------------------------
Server listening on 5201
-----------------------------------------------------------
Accepted connection from 192.0.2.2, port 39998
[  5] local 192.0.2.1 port 5201 connected to 192.0.2.2 port 40000
"""
#: What a server prints of a test in which it receives, and of one in which it sends.
SERVED = """[ ID] Interval           Transfer     Bitrate
[  5]   0.00-5.00   sec   559 MBytes   938 Mbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-10.04  sec  1.09 GBytes   936 Mbits/sec                  receiver
"""
SENT = (
    INTERVAL
    + """- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  1.09 GBytes   941 Mbits/sec    3             sender
"""
)
STOPPED = "iperf3: interrupt - the client has terminated\n"
UDP = """[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-10.00  sec  1.25 MBytes  1.05 Mbits/sec  0.000 ms  0/906 (0%)  sender
[  5]   0.00-10.04  sec  1.24 MBytes  1.04 Mbits/sec  0.035 ms  9/906 (0.99%)  receiver
"""


def shown(text, kind="iperf3"):
    """Return report and metric -> value of a text that a tool of this kind recognises."""
    tool = recognition.recognise(text)
    assert tool.kind == kind, tool.kind
    report = tool.checked_report(text)
    return report, {reading.metric: reading.value for reading in report.readings}


def judged(report):
    return [reading.metric for reading in report.readings if reading.primary]


class SideTest(testcase.TestCase):
    def test_a_server_knows_its_own_side_alone(self):
        report, figures = shown(ACCEPTED + SERVED)
        self.assertEqual(936, figures["throughput"])
        self.assertEqual("client to server", report.workload["direction"])
        for zero in ("", "[  5]   0.00-10.04  sec  0.00 Bytes  0.00 bits/sec     receiver\n"):
            report, figures = shown(ACCEPTED + SENT + zero)
            with self.subTest(zero):
                self.assertEqual({"sent_throughput": 941, "retransmits": 3}, figures)
                self.assertEqual("server to client", report.workload["direction"])
                self.assertIn("what the receiver counted", "\n".join(report.left_out))
                self.assertEqual([], judged(report))

    def test_a_server_s_log(self):
        report, figures = shown(ACCEPTED + SERVED + ACCEPTED + SENT)
        self.assertEqual(
            {"test1_throughput": 936, "test2_sent_throughput": 941},
            {name: value for name, value in figures.items() if name.endswith("throughput")},
        )
        self.assertIn("client to server", report.workload["test1"])
        self.assertIn("server to client", report.workload["test2"])
        self.assertIn("test2: what the receiver", "\n".join(report.left_out))
        self.assertEqual([], judged(report))

    def test_a_test_that_cannot_be_read_is_named(self):
        failed = ACCEPTED + "iperf3: error - unable to receive control message\n"
        report, figures = shown(ACCEPTED + SERVED + failed)
        self.assertEqual(936, figures["test1_throughput"])
        self.assertIn(
            "test2: iperf3: it said 'error - unable to receive", "\n".join(report.left_out)
        )
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "unable to receive", iperf3.Iperf3().parse, failed * 2
        )

    def test_commands_begin_tests(self):
        """The last of several commands before figures is theirs; sums of one hide no other."""
        one = "$ iperf3 -c 192.0.2.1 -O 2\n$ iperf3 -c 192.0.2.1 -R\n" + TOTALS
        four = "$ iperf3 -c 192.0.2.1 -P 2\n" + TOTALS
        for stream in ("  5", "  7", "SUM"):
            four += "".join(
                f"[{stream}]   0.00-10.00  sec  559 MBytes   470 Mbits/sec    0    {side}\n"
                for side in ("sender", "receiver")
            )
        four = four.replace(TOTALS, "")
        report, figures = shown(one + four)
        self.assertEqual(936, figures["test1_throughput"])
        self.assertEqual(470, figures["test2_throughput"])
        self.assertIn("server to client", report.workload["test1"])
        self.assertIn("streams 2", report.workload["test2"])
        self.assertEqual([], judged(report))
        without = "\n".join(line for line in (one + four).split("\n") if "$" not in line)
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "several tests", recognition.recognise, without
        )

    def test_titles_of_clients_side_by_side(self):
        """Lines of clients with titles (-T) are mixed with each other's."""
        lines = []
        for line in TOTALS.splitlines():
            lines += [f"s1:  {line}", f"s2:  {line.replace('936', '800')}"]
        command = "$ iperf3 -c 192.0.2.1 -p 52{} -R -T s{} &\n"
        text = command.format("01", 1) + command.format("02", 2) + "\n".join(lines) + "\n"
        report, figures = shown(text)
        self.assertEqual((936, 800), (figures["s1_throughput"], figures["s2_throughput"]))
        self.assertIn("server to client", report.workload["s2"])
        self.assertEqual([], judged(report))

    def test_summaries_of_the_first_versions(self):
        summary = "Test Complete. Summary Results:\n" + UDP.split("\n")[0] + "\n"
        row = "[  4]   0.00-10.00  sec  1.24 MBytes  1.04 Mbits/sec  0.035 ms  {}/906 (1%)\n"
        report, figures = shown(summary + row.format(9), "packets")
        self.assertEqual(1.04, figures["sent_throughput"])
        self.assertNotIn("throughput", figures)
        self.assertIn("the receiver's rate", "\n".join(report.left_out))
        report, figures = shown(summary + row.format(9) + summary + row.format(90), "packets")
        self.assertEqual((9, 90), (figures["test1_lost"], figures["test2_lost"]))
        self.assertEqual([], judged(report))

    def test_a_log_of_both_protocols_and_a_long_one(self):
        self.assertRaisesRegex(
            base.BenchmarkOutputError,
            "TCP and of UDP",
            recognition.recognise,
            CLIENT + TOTALS + CLIENT + UDP,
        )
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "at most", recognition.recognise, (CLIENT + TOTALS) * 300
        )

    def test_the_direction_is_not_assumed(self):
        """Without the head of the test, the columns of a sender's intervals say it of a client alone."""
        report, _figures = shown(TOTALS + DONE)
        self.assertNotIn("direction", report.workload)
        self.assertIn("direction", "\n".join(report.left_out))
        report, _figures = shown(INTERVAL + TOTALS + DONE)
        self.assertEqual("client to server", report.workload["direction"])
        report, _figures = shown(INTERVAL + TOTALS)
        self.assertNotIn("direction", report.workload)
        back = "Reverse mode, remote host 192.0.2.1 is sending\n"
        report, _figures = shown(CLIENT + back + TOTALS)
        self.assertEqual("server to client", report.workload["direction"])

    def test_the_server_s_own_output(self):
        text = CLIENT + TOTALS + "\nServer output:\n" + ACCEPTED.partition("---\nA")[2] + SERVED
        report, figures = shown(text + DONE)
        self.assertEqual(936, figures["throughput"])
        self.assertIn("--get-server-output", "\n".join(report.left_out))

    def test_lines_that_are_wrapped_or_have_remarks(self):
        whole = shown(CLIENT + TOTALS)[1]
        for change in (
            TOTALS.replace("   sender", "\nsender").replace("   receiver", "\nreceiver"),
            TOTALS.replace("receiver", "receiver   <- slow"),
        ):
            with self.subTest(change):
                self.assertEqual(whole, shown(CLIENT + change)[1])


class ProtocolTest(testcase.TestCase):
    def test_sctp_is_not_tcp(self):
        totals = TOTALS.replace("         Retr", "").replace("    3    ", "         ")
        for head in (
            "$ iperf3 -c 192.0.2.1 --sctp\n" + CLIENT,
            CLIENT
            + "Starting Test: protocol: SCTP, 1 streams, 65536 byte blocks, omitting 0 seconds\n",
        ):
            with self.subTest(head):
                self.assertRaisesRegex(
                    base.BenchmarkOutputError, "SCTP test", recognition.recognise, head + totals
                )
        report, _figures = shown(CLIENT + totals)
        self.assertNotIn("protocol", report.workload)
        self.assertIn("protocol", "\n".join(report.left_out))
        both = TOTALS.replace("[ ID]", "[ ID][Role]").replace("[  5]", "[  5][TX-C]")
        both += both.replace("[  5][TX-C]", "[  7][RX-C]")
        for text in (
            f"$ iperf3 -c 192.0.2.1\n{CLIENT}{totals}",
            CLIENT + TOTALS,
            CLIENT + both,
        ):
            self.assertEqual("TCP", shown(text)[0].workload["protocol"])


#: The two lines of one total of iperf3 3.0.
OLD_UDP = """[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-10.00  sec  1.25 MBytes  1.05 Mbits/sec  0.052 ms  0/159 (0%)
[  4] Sent 159 datagrams
"""


class SeveralReportsTest(testcase.TestCase):
    """What stands in one text is named for what it is: two ends of a test, or two tests."""

    def both_ends(self):
        head, _sender, receiver = UDP.split("\n")[:3]
        yield "iperf3", CLIENT + INTERVAL + TOTALS + DONE, ACCEPTED + SERVED
        yield "packets", CLIENT + UDP + DONE, f"{ACCEPTED}{head}\n{receiver}\n"

    def test_both_ends_of_one_test(self):
        for kind, client, server in self.both_ends():
            whole, figures = shown(client, kind)
            for text in (client + server, f"{server}\n{client}"):
                report, found = shown(text, kind)
                with self.subTest(kind, text=text[:20]):
                    self.assertEqual(figures, found)
                    self.assertEqual(judged(whole), judged(report))
                    self.assertIn("the server's own report", "\n".join(report.left_out))

    def test_the_server_s_where_the_client_s_is_cut_off(self):
        report, figures = shown(ACCEPTED + SERVED + CLIENT + INTERVAL)
        self.assertEqual(936, figures["throughput"])
        self.assertEqual("server", report.workload["side"])
        self.assertIn("the client's report of the test", "\n".join(report.left_out))

    def test_ends_of_different_tests_are_two(self):
        for _kind, client, server in self.both_ends():
            other = server.replace("port 40000", "port 40002")
            report = recognition.recognise(client + other).report(client + other)
            self.assertIn("several_tests", report.remarks)
            self.assertFalse(judged(report))

    def test_tests_without_heads(self):
        for text in (TOTALS + TOTALS, TOTALS + SERVED, SERVED + TOTALS):
            report, figures = shown(text)
            self.assertEqual(
                (936, 936), (figures["test1_throughput"], figures["test2_throughput"])
            )
            self.assertFalse(judged(report))
        # Of the test that a sender alone has counted it is not known what arrived.
        for text in (SERVED + SENT, SENT + SERVED):
            error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, SENT)
            self.assertIn("receiver", str(error))
            report, figures = shown(text)
            self.assertEqual({936}, set(figures.values()) & {936, 941})
            self.assertIn("no whole line of the receiver", "\n".join(report.left_out))
        for text in (TOTALS + OLD_UDP, OLD_UDP + TOTALS, UDP + TOTALS):
            error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
            self.assertIn("tests of TCP and of UDP", str(error))


class TitleTest(testcase.TestCase):
    """Lines of one client have its title (-T) amid other text."""

    ROW = "[  4]   0.00-10.00  sec  59.0 MBytes  49.5 Mbits/sec  0.062 ms  8274/15114 (55%)"

    def output(self, row):
        lines = [
            "Test Complete. Summary Results:",
            UDP.split("\n", 1)[0],
            row,
            "[  4] Sent 15114 datagrams",
            "CPU Utilization: local/sender 1.9% (0.2%u/1.7%s), remote/receiver 0.1% (0.0%u/0.0%s)",
        ]
        titled = "\n".join(f"200:  {line}" for line in lines)
        server = "Server:\niperf3 -s -p 5002 -V\n\n"
        client = "Client:\niperf3 -c 192.0.2.1 -l 4096 -V -b 50M -u -T 200 -t 10\n\n"
        return f"{server}{client}{titled}\n"

    def test_one_test(self):
        text = f"The test\n\n{self.output(self.ROW)}--\n"
        self.assertEqual("packets", recognition.recognise(text).kind)
        report, figures = shown(text, "packets")
        self.assertEqual("client to server", report.workload["direction"])
        self.assertEqual((49.5, 8274), (figures["sent_throughput"], figures["lost"]))
        self.assertEqual("50M", report.workload["rate asked for"])
        self.assertEqual(["packets_per_second"], judged(report))

    def test_two_tests_of_the_same_title(self):
        other = self.ROW.replace("8274", "99")
        report, figures = shown(self.output(self.ROW) + self.output(other), "packets")
        self.assertEqual((8274, 99), (figures["test1_lost"], figures["test2_lost"]))
        self.assertFalse(judged(report))


class StoppedTest(testcase.TestCase):
    ZERO = "  0.00 Bytes  0.00 bits/sec "

    def test_a_client_that_was_stopped(self):
        nothing = TOTALS.replace("  1.09 GBytes   936 Mbits/sec", self.ZERO)
        report, figures = shown(CLIENT + INTERVAL + nothing + STOPPED)
        self.assertEqual({"sent_throughput": 940, "retransmits": 3}, figures)
        self.assertIn("10 s", report.remarks["stopped"])
        self.assertIn("what the receiver counted", "\n".join(report.left_out))
        self.assertEqual([], judged(report))

    def test_a_client_that_received(self):
        back = CLIENT + "Reverse mode, remote host 192.0.2.1 is sending\n"
        nothing = TOTALS.replace("  1.09 GBytes   940 Mbits/sec    3", self.ZERO)
        report, figures = shown(back + nothing + STOPPED)
        self.assertEqual(936, figures["throughput"])
        self.assertNotIn("sent_throughput", figures)
        self.assertEqual([], judged(report))

    def test_without_totals(self):
        for text in (CLIENT + INTERVAL + STOPPED, CLIENT + STOPPED):
            self.assertRaisesRegex(
                base.BenchmarkOutputError, "stopped before.*receiver", recognition.recognise, text
            )
        document = json.loads(test_parsers.GOOD[iperf3.Iperf3])
        document["error"] = "interrupt - the client has terminated"
        self.assertRaisesRegex(
            base.BenchmarkOutputError,
            "receiver counted is missing",
            iperf3.Iperf3().parse,
            json.dumps(document),
        )

    def test_a_server_that_is_stopped_while_it_waits(self):
        idle = (
            ACCEPTED.partition("Accepted")[0] + "^Ciperf3: interrupt - the server has terminated\n"
        )
        report, figures = shown(ACCEPTED + SERVED + idle)
        self.assertEqual(936, figures["throughput"])
        self.assertNotIn("stopped", report.remarks)
        self.assertEqual(["throughput"], judged(report))
        while_it_ran = "iperf3: the client has terminated\n"
        report, _figures = shown(ACCEPTED + SERVED + while_it_ran + idle)
        self.assertIn("the client has terminated", report.remarks["stopped"])
        self.assertEqual([], judged(report))


class RateTest(testcase.TestCase):
    def test_a_rate_is_reached_or_not(self):
        for options, code in (
            ("-b 900M", "held_to_a_rate"),
            ("-b 2G", "rate_not_reached"),
            ("-b 900M/10", "held_to_a_rate"),
            ("-b fast", "rate_set"),
            ("-b 0", None),
            ("-P 1", None),
        ):
            report, _figures = shown(f"$ iperf3 -c 192.0.2.1 {options}\n{CLIENT}{TOTALS}")
            with self.subTest(options):
                self.assertEqual(
                    {code} - {None}, {name for name in report.remarks if "rate" in name}
                )

    def test_what_udp_is_held_to(self):
        for options, code in (("", "held_to_a_rate"), ("-b 9M", "rate_not_reached")):
            report, _figures = shown(
                f"$ iperf3 -c 192.0.2.1 -u {options}\n{CLIENT}{UDP}", "packets"
            )
            with self.subTest(options):
                self.assertIn(code, report.remarks)
        self.assertNotIn("held_to_a_rate", shown(CLIENT + UDP, "packets")[0].remarks)

    def test_the_command_before_a_document(self):
        data = json.loads(test_parsers.GOOD[iperf3.Iperf3])
        for part in (data["start"], data["start"]["test_start"]):
            part.pop("target_bitrate", None)  # iperf3 before 3.6 has none
        document = json.dumps(data)
        text = "$ iperf3 -c 192.0.2.1 -J -b 900000M\n" + document
        report, _figures = shown(text)
        self.assertEqual("900000M", report.workload["rate asked for"])
        self.assertIn("rate_not_reached", report.remarks)
        self.assertNotIn("rate asked for", shown(document)[0].workload)

    def test_in_json(self):
        document = json.loads(test_parsers.GOOD[iperf3.Iperf3])
        document["start"]["target_bitrate"] = 10**14
        remarks = iperf3.Iperf3().remarks(json.dumps(document))
        self.assertEqual(["rate_not_reached"], list(remarks))


class DatagramsTest(testcase.TestCase):
    """Datagrams that were sent, missed and late are figures, or are named."""

    def document(self, streams=(), **sums):
        data = json.loads(test_parsers.recorded("iperf3-udp.json"))
        for name, values in sums.items():
            data["end"][name].update(values)
        data["end"]["streams"] = [{"udp": stream} for stream in streams]
        return json.dumps(data)

    def test_the_receivers_count_of_a_document(self):
        report, figures = shown(
            self.document([{"out_of_order": 4}, {"out_of_order": 3}]), "packets"
        )
        self.assertEqual((17255, 36360), (figures["lost"], figures["sent"]))
        self.assertIn("7 datagrams out of order", report.left_out)
        self.assertNotIn("lost_at_the_end", report.remarks)

    def test_one_sum_of_both_sides(self):
        """As iperf3 before 3.7 prints it."""
        data = json.loads(self.document(sum={"lost_packets": 9, "packets": 100}))
        del data["end"]["sum_sent"], data["end"]["sum_received"]
        report, figures = shown(json.dumps(data), "packets")
        self.assertEqual(9, figures["lost"])
        self.assertIn("datagrams out of order: the output does not count them", report.left_out)

    def test_what_is_no_count_is_named(self):
        text = self.document(sum_received={"lost_packets": -5})
        report, figures = shown(text, "packets")
        self.assertNotIn("lost", figures)
        self.assertIn("counted -5", "\n".join(report.left_out))

    def test_datagrams_behind_the_last_that_arrived(self):
        text = self.document(
            sum={"packets": 29289, "lost_packets": 0},
            sum_received={"bytes": 593216, "seconds": 3.05, "packets": 9269, "lost_packets": 0},
        )
        report, figures = shown(text, "packets")
        self.assertEqual(0, figures["lost"])
        self.assertIn("20020 datagrams", report.remarks["lost_at_the_end"])
        cut = UDP.replace("9/906 (0.99%)", "9/500 (1.8%)").replace("1.24 MB", "690 KB")
        report, figures = shown(CLIENT + cut + DONE, "packets")
        self.assertIn("406 datagrams", report.remarks["lost_at_the_end"])
        report, figures = shown(CLIENT + UDP + DONE, "packets")
        self.assertNotIn("lost_at_the_end", report.remarks)


class CalculatedTest(testcase.TestCase):
    def test_what_is_calculated_of_udp_is_said(self):
        for text in (CLIENT + UDP, test_parsers.GOOD[iperf3.Packets]):
            with self.subTest(text):
                said = shown(text, "packets")[0].remarks["rate_computed"]
                self.assertIn("packets_per_second", said)

    def test_one_sum_of_both_sides(self):
        """iperf3 before 3.7: packets are the receiver's, bytes and rate the sender's."""
        document = json.loads(test_parsers.GOOD[iperf3.Packets])
        end = document["end"]
        del end["sum_received"]
        end.pop("sum_sent", None)
        length = document["start"]["test_start"]["blksize"]
        end["sum"] |= {
            "bytes": 1000 * length,
            "packets": 990,
            "lost_packets": 90,
            "seconds": 2.0,
            "bits_per_second": 4000.0 * length,
        }
        report, figures = shown(json.dumps(document), "packets")
        self.assertEqual((450, 500), (figures["packets_per_second"], figures["sent_per_second"]))
        self.assertAlmostEqual(4000.0 * length / 1e6, figures["sent_throughput"])
        self.assertIn("'throughput'", report.remarks["rate_computed"])
        self.assertIn("receiver's own rate", "\n".join(report.left_out))


class Iperf2Test(testcase.TestCase):
    OUT = "[  4] local 192.0.2.2 port 40000 connected with 192.0.2.1 port 5001\n"
    IN = "[  5] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 50000\n"
    HEADS = "Server listening on TCP port 5001\nClient connecting to 192.0.2.1, TCP port 5001\n"
    ROWS = """[ ID] Interval       Transfer     Bandwidth
[  4]  0.0-30.0 sec   233 MBytes  65.1 Mbits/sec
[  5]  0.0-30.2 sec   332 MBytes  92.3 Mbits/sec
"""

    def test_who_counted_of_each_direction(self):
        for text, rates in (
            (self.HEADS + self.OUT + self.IN + self.ROWS, (65.1, 92.3)),
            (self.HEADS + self.IN + self.OUT + self.ROWS, (92.3, 65.1)),
            (
                "$ iperf -c 192.0.2.1 -d\n" + self.HEADS + self.IN + self.OUT + self.ROWS,
                (65.1, 92.3),
            ),
        ):
            report, figures = shown(text, "iperf2")
            with self.subTest(text):
                self.assertEqual(
                    rates,
                    (
                        figures["client_to_server_throughput"],
                        figures["server_to_client_throughput"],
                    ),
                )
                self.assertEqual([], judged(report))
                side = "the client"
                if rates[0] == 92.3:
                    side = "the server"
                said = report.workload["counted by"]
                self.assertIn(f"{side}, what it sent", said)
                self.assertIn(f"{side}, what arrived", said)

    def test_a_client_that_receives(self):
        for stream, mark in (("  4", " (reverse)"), (" *4", "")):
            text = (
                (self.HEADS.partition("\n")[2] + self.OUT + self.ROWS.split("[  5]")[0])
                .replace("[  4]", f"[{stream}]")
                .replace("port 5001\n[", f"port 5001{mark}\n[")
            )
            report, figures = shown(text, "iperf2")
            with self.subTest(mark):
                self.assertEqual(65.1, figures["throughput"])
                self.assertEqual("server to client", report.workload["direction"])
                self.assertEqual("the client, what arrived", report.workload["counted by"])

    def test_figures_without_a_head(self):
        rows = "[  4]  0.0-10.0 sec  1.0 GBytes  900 Mbits/sec\n[  4] 10.0-20.0 sec  1.0 GBytes  900 Mbits/sec\n"
        for text, words in (
            (rows, "20 s, of 1 tests"),
            (rows + rows, "20 s, of 2 tests"),
            (rows.replace(".0 sec", ".0000 sec").replace("0.0-", "0.0000-"), "of 1 tests"),
            (self.ROWS.split("[  5]")[0], "whether the client or the server"),
        ):
            with self.subTest(text):
                error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
                self.assertIn(words, str(error))
                self.assertIn("iperf -c HOST", str(error))

    def test_rows_of_y_c_are_named(self):
        row = "20230101100000,192.0.2.2,54320,192.0.2.1,5001,3,0.0-10.0,1180000000,943000000\n"
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, row)
        self.assertIn("rows of -y C are not read", str(error))

    def test_several_tests_are_counted(self):
        head = "Client connecting to 192.0.2.1, TCP port 5001\n"
        head += "[  1] local 192.0.2.2 port 43172 connected with 192.0.2.1 port 5001\n"
        row = "[  1] 0.0000-10.0117 sec  27.3 GBytes  23.5 Gbits/sec\n"
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, head + 3 * row)
        self.assertIn("3 lines of a whole test and 1 heads", str(error))

    def test_columns_of_the_enhanced_report(self):
        rows = self.ROWS.split("[  5]")[0].replace("Bandwidth", "Bandwidth   Write/Err  Rtry")
        text = (
            self.HEADS.partition("\n")[2] + self.OUT + rows.replace("bits/sec", "bits/sec 9/0  2")
        )
        report, figures = shown(text, "iperf2")
        self.assertEqual((65.1, 2), (figures["throughput"], figures["retransmits"]))
        report, figures = shown(text.replace("9/0  2", "9/0"), "iperf2")
        self.assertNotIn("retransmits", figures)
        self.assertIn("retransmits (Rtry)", report.left_out)

    def test_a_rate_is_reached_or_not(self):
        text = self.HEADS.partition("\n")[2] + self.OUT + self.ROWS.split("[  5]")[0]
        for rate, code in (("65M", "held_to_a_rate"), ("100m", "rate_not_reached")):
            report, _figures = shown(f"$ iperf -c 192.0.2.1 -t 30 -b {rate}\n{text}", "iperf2")
            with self.subTest(rate):
                self.assertIn(code, report.remarks)

    def test_a_tool_that_reads_none_of_them(self):
        self.assertRaises(base.BenchmarkOutputError, iperf2.Iperf2().parse, "[  4] x\n")


class WrappedTest(testcase.TestCase):
    """Lines that a mail has wrapped at its 72nd place are read as they were."""

    def test_an_enhanced_client_of_iperf2(self):
        [path] = (test_field_outputs.FIELD / "outputs5").glob("134-*.txt")
        report, figures = shown(pasted.decode(path.read_bytes()), "iperf2")
        self.assertEqual(5_000.0, figures["throughput"])
        self.assertEqual("5g", report.workload["rate asked for"])
        self.assertIn("held_to_a_rate", report.remarks)

    def test_lines_of_figures_and_of_ends(self):
        command = "$ iperf3 -c 192.0.2.7 -u -t 10"
        head = (
            "Connecting to host 192.0.2.7, port 5201\n"
            "[  5] local 192.0.2.1 port 36000 connected to 192.0.2.7 port 5201\n"
        )
        whole = f"{command}\n{head}{UDP}{DONE}"
        _report, wanted = shown(whole, "packets")
        self.assertEqual(9, wanted["lost"])
        for place in (" -u -t", " -t", " port 5201\n", "Mbits/sec  0", " 0.035", " 9/906"):
            with self.subTest(place):
                at = whole.rindex(place) + place.index(" ")
                wrapped = whole[:at] + "\n" + whole[at + 1 :]
                self.assertEqual(wanted, shown(wrapped, "packets")[1])

    def test_a_line_that_is_cut_takes_no_other_into_it(self):
        text = UDP.replace("1.04 Mbits/sec  0.035 ms", "1.04")
        lines = iperf_rows.unwrapped(text.split("\n"))
        self.assertEqual(text.split("\n"), lines)
