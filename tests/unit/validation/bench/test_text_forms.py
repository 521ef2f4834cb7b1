# SPDX-License-Identifier: Apache-2.0
"""Forms of text that no output of the field has: older and newer versions, both sides, several runs."""

from nova_perf_tuning.validation.bench import (
    base,
    fio,
    iperf2,
    iperf3,
    netperf_text,
    pasted,
    plugins,
    recognition,
    rt_tests,
)
from tests.support import testcase


def figures(tool, text):
    return {reading.metric: reading.value for reading in tool.report(text).readings}


class IperfTest(testcase.TestCase):
    UDP = """Connecting to host 192.0.2.1, port 5201
[  4] local 192.0.2.2 port 1 connected to 192.0.2.1 port 5201
[ ID] Interval           Transfer     Bandwidth       Total Datagrams
[  4]   0.00-1.00   sec   116 KBytes   950 Kbits/sec  82
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-10.00  sec  1.25 MBytes  1.05 Mbits/sec  0.035 ms  9/906 (0.99%)
[  4] Sent 906 datagrams

iperf Done.
"""
    TCP = """Connecting to host 192.0.2.1, port 5201
[  5] local 192.0.2.2 port 1 connected to 192.0.2.1 port 5201
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-10.00  sec  1.10 GBytes   112 MBytes/sec   12             sender
[  5]   0.00-10.04  sec  1.10 GBytes   111 MBytes/sec                  receiver
"""

    def test_one_line_for_both_sides(self):
        """iperf3 3.0 prints the sender's rate and the receiver's losses in one line."""
        shown = figures(iperf3.Packets(), self.UDP)
        self.assertAlmostEqual(897 / 10, shown["packets_per_second"])
        self.assertEqual((1.05, 0.035), (shown["sent_throughput"], shown["jitter"]))
        self.assertNotIn("throughput", shown)
        self.assertIs(iperf3.Packets, type(recognition.recognise(self.UDP)))
        self.assertRaises(base.BenchmarkOutputError, iperf3.Iperf3().parse, self.UDP)

    def test_the_receiver_s_line_alone(self):
        """As a server prints it: nothing is known of what was sent."""
        text = self.UDP.replace("(0.99%)", "(0.99%)  receiver")
        shown = figures(iperf3.Packets(), text)
        self.assertEqual(1.05, shown["throughput"])
        self.assertNotIn("sent_throughput", shown)

    def test_the_unit_is_read(self):
        shown = figures(iperf3.Iperf3(), self.TCP)
        self.assertAlmostEqual(111 * 8 * 1.048576, shown["throughput"])
        self.assertEqual(12, shown["retransmits"])

    def test_two_tests_are_not_one(self):
        back = self.TCP.replace("111 MBytes/sec", "100 MBytes/sec")
        text = f"$ iperf3 -c 192.0.2.1\n{self.TCP}$ iperf3 -c 192.0.2.1 -R\n{back}"
        report = iperf3.Iperf3().report(text)
        shown = {reading.metric: reading.value for reading in report.readings}
        self.assertAlmostEqual(111 * 8 * 1.048576, shown["test1_throughput"])
        self.assertAlmostEqual(100 * 8 * 1.048576, shown["test2_throughput"])
        self.assertIn("server to client", report.workload["test2"])
        self.assertFalse(any(reading.primary for reading in report.readings))
        totals = self.TCP[self.TCP.index("[ ID]") :]
        report = iperf3.Iperf3().report(totals * 2)
        self.assertIn("several_tests", report.remarks)
        self.assertFalse(any(reading.primary for reading in report.readings))

    def test_a_rate_and_a_direction_are_named(self):
        text = "$ iperf3 -c 192.0.2.1 -b 50M -R\nReverse mode, remote host 192.0.2.1 is sending\n"
        report = iperf3.Iperf3().report(text + self.TCP)
        self.assertEqual("server to client", report.workload["direction"])
        self.assertIn("50 Mbit/s", report.remarks["held_to_a_rate"])

    def test_iperf_3_and_2_are_not_mixed_up(self):
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "iperf 2", iperf2.Iperf2().parse, self.TCP
        )

    def test_both_directions_of_iperf_2(self):
        text = """Server listening on TCP port 5001
Client connecting to 192.0.2.1, TCP port 5001
[  5] local 192.0.2.2 port 40000 connected with 192.0.2.1 port 5001
[  4] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 50000
[ ID] Interval       Transfer     Bandwidth
[  5]  0.0-10.0 sec  1.09 GBytes   936 Mbits/sec
[  4]  0.0-10.1 sec   949 MBytes   790 Mbits/sec
"""
        shown = figures(iperf2.Iperf2(), text)
        self.assertEqual(936, shown["client_to_server_throughput"])
        self.assertEqual(790, shown["server_to_client_throughput"])
        cut = text[: text.index("[  4]  0.0")]
        self.assertRaisesRegex(base.BenchmarkOutputError, "cut off", iperf2.Iperf2().parse, cut)

    def test_server_reports_of_several_streams(self):
        text = """Client connecting to 192.0.2.1, UDP port 5001
[  3] local 192.0.2.2 port 40000 connected with 192.0.2.1 port 5001
[  4] local 192.0.2.2 port 40001 connected with 192.0.2.1 port 5001
[  3]  0.0-10.0 sec   750 MBytes   629 Mbits/sec
[  4]  0.0-10.0 sec   750 MBytes   629 Mbits/sec
[SUM]  0.0-10.0 sec  1.46 GBytes  1.26 Gbits/sec
[  3] Server Report:
[  3]  0.0-10.0 sec   740 MBytes   621 Mbits/sec  0.071 ms   10/ 1000 (1%)
[  4] Server Report:
[  4]  0.0-10.0 sec   730 MBytes   612 Mbits/sec  0.041 ms   20/ 1000 (2%)
"""
        shown = figures(iperf2.Iperf2(), text)
        self.assertEqual((1233, 1260), (shown["throughput"], shown["sent_throughput"]))
        self.assertEqual((30, 1.5), (shown["lost"], shown["lost_share"]))
        self.assertNotIn("jitter", shown)
        cut = text[: text.index("[  4] Server")]
        self.assertRaisesRegex(base.BenchmarkOutputError, "cut off", iperf2.Iperf2().parse, cut)

    SERVER = "Server listening on TCP port 5001\n"
    SERVED = """[  4] local 192.0.2.1 port 5001 connected with 192.0.2.2 port {port}
[ ID] Interval       Transfer     Bandwidth
[  4]  0.0-10.0 sec  1.09 GBytes   {rate} Mbits/sec
"""

    def test_several_tests_in_a_server_s_log(self):
        """Streams of one number after the other are tests of their own, of which none is judged."""
        rates = (941, 85, 3400)
        tests = [self.SERVED.format(port=40000 + at, rate=rate) for at, rate in enumerate(rates)]
        text = self.SERVER + "".join(tests)
        report = iperf2.Iperf2().report(text)
        shown = {reading.metric: reading.value for reading in report.readings}
        for number, rate in enumerate(rates, start=1):
            self.assertEqual(rate, shown[f"run{number}_throughput"])
        self.assertFalse(any(reading.primary for reading in report.readings))
        self.assertIn("several_tests", report.remarks)
        self.assertEqual(941, figures(iperf2.Iperf2(), self.SERVER + tests[0])["throughput"])
        client = text.replace("Server listening on TCP port", "Client connecting to B, TCP port")
        rows = [test[test.index("[ ID]") :] for test in tests]
        for refused in (client, self.SERVER + tests[0] + rows[1] + rows[2]):
            self.assertRaisesRegex(
                base.BenchmarkOutputError, "several tests", iperf2.Iperf2().parse, refused
            )

    def test_both_sides_of_one_test(self):
        """Of client and server of one connection in one text no direction is made up."""
        served = self.SERVER + self.SERVED.format(port=40000, rate=915)
        for stream in ("4", "3"):
            sent = f"""Client connecting to 192.0.2.1, TCP port 5001
[  {stream}] local 192.0.2.2 port 40000 connected with 192.0.2.1 port 5001
[  {stream}]  0.0-10.0 sec  1.09 GBytes   941 Mbits/sec
"""
            for text in (sent + served, served + sent):
                with self.subTest(text):
                    self.assertRaisesRegex(
                        base.BenchmarkOutputError, "client and server", iperf2.Iperf2().parse, text
                    )

    def test_an_interval_as_long_as_the_test(self):
        """The first interval and the whole begin at 0, and are of one test."""
        row = "[  4]  0.0-10.0 sec  1.09 GBytes   941 Mbits/sec\n"
        text = self.SERVER + self.SERVED.format(port=40000, rate=941) + row
        self.assertEqual(941, figures(iperf2.Iperf2(), text)["throughput"])

    def test_intervals_of_iperf_2_are_no_result(self):
        text = """$ iperf -c 192.0.2.1 -i 1
Client connecting to 192.0.2.1, TCP port 5001
[  3] local 192.0.2.2 port 40000 connected with 192.0.2.1 port 5001
[  3]  0.0- 1.0 sec   112 MBytes   936 Mbits/sec
"""
        for cut in (text, text + "[  3]  1.0- 2.0 sec   112 MBytes   940 Mbits/sec\n"):
            self.assertRaisesRegex(
                base.BenchmarkOutputError, "cut off", iperf2.Iperf2().parse, cut
            )

    def test_one_direction_of_two_without_the_head(self):
        """The rows have their direction, whether or not the table's head was pasted."""
        rows = [
            f"[{stream}][{role}]   0.00-10.00  sec  11.6 GBytes  9.96 Gbits/sec   0   {side}\n"
            for stream, role in (("  5", "TX-C"), ("  7", "RX-C"))
            for side in ("sender", "receiver")
        ]
        shown = figures(iperf3.Iperf3(), "".join(rows))
        self.assertEqual(9960, shown["client_to_server_throughput"])
        for half in (rows[:2], rows[2:]):
            self.assertRaisesRegex(
                base.BenchmarkOutputError, "one direction", iperf3.Iperf3().parse, "".join(half)
            )


class NetperfTest(testcase.TestCase):
    def test_keys_and_their_unit(self):
        text = """MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0
THROUGHPUT=21345.12
THROUGHPUT_UNITS=Trans/s
P99_LATENCY=88
"""
        tool = recognition.recognise(text)
        self.assertIs(netperf_text.NetperfRequests, type(tool))
        shown = figures(tool, text)
        self.assertEqual({"transactions_per_second": 21345.12, "latency_p99": 88}, shown)
        without = text.replace("THROUGHPUT_UNITS=Trans/s\n", "")
        self.assertEqual({"latency_p99": 88}, figures(tool, without))

    def test_what_netperf_said(self):
        text = """MIGRATED UDP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0
netperf: send_omni: send_data failed: Network is unreachable
"""
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "Network is unreachable", recognition.recognise, text
        )

    def test_omni_s_columns(self):
        text = """OMNI Send TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0
Throughput,Throughput Units,Elapsed Time (sec),Protocol
9388.12,10^6bits/s,10.00,TCP
"""
        tool = recognition.recognise(text)
        self.assertEqual("netperf", tool.kind)
        self.assertEqual({"throughput": 9388.12}, figures(tool, text))
        over_udp = recognition.recognise(text.replace(",TCP", ",UDP"))
        self.assertEqual("netperf_udp", over_udp.kind)
        self.assertRaises(
            base.BenchmarkOutputError, recognition.recognise, text.replace(",TCP", ",SCTP")
        )
        self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text.rstrip()[:-8])

    def test_two_rows_and_two_values_are_several_tests(self):
        head = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to B () port 0\n"
        rows = "Throughput,Throughput Units\n9388.12,Trans/s\n85.12,Trans/s\n"
        keys = "THROUGHPUT_UNITS=Trans/s\nTHROUGHPUT=9388.12\nTHROUGHPUT=85.12\n"
        for text in (head + rows, head + keys):
            with self.subTest(text):
                self.assertRaisesRegex(
                    base.BenchmarkOutputError,
                    "several",
                    netperf_text.NetperfRequests().parse,
                    text,
                )

    def test_nothing_was_done(self):
        head = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to B () port 0\n"
        text = f"{head}THROUGHPUT=0.00\nTHROUGHPUT_UNITS=Trans/s\n"
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "no transaction", netperf_text.NetperfRequests().parse, text
        )

    def test_what_arrived_of_udp(self):
        text = """MIGRATED UDP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0
Socket  Message  Elapsed      Messages
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   10^6bits/sec

212992   65507   10.00       30000      0    1572.28
212992           10.00       15000            786.14
"""
        tool = recognition.recognise(text)
        self.assertEqual("netperf_udp", tool.kind)
        wanted = {"throughput": 786.14, "sent_throughput": 1572.28, "lost_share": 50}
        wanted |= {"lost": 15000, "received": 15}
        self.assertEqual(wanted, figures(tool, text))
        cut = text[: text.rindex("212992")]
        self.assertRaisesRegex(base.BenchmarkOutputError, "cut off", tool.parse, cut)


class CyclictestTest(testcase.TestCase):
    T0 = "T: 0 (  100) P:80 I:1000 C:  10000 Min:      2 Act:    3 Avg:    4 Max:{}"

    def test_a_maximum_that_is_cut_off(self):
        tool = rt_tests.Cyclictest()
        whole = self.T0.format("    3009")
        self.assertEqual(3009, figures(tool, whole)["latency_max"])
        self.assertRaisesRegex(base.BenchmarkOutputError, "cut off", tool.parse, whole[:-2])

    def test_the_unit_is_on_the_command_line(self):
        tool = rt_tests.Cyclictest()
        line = self.T0.format("    3009")
        nsecs = f"$ cyclictest -m -N -p 80\n{line}\n"
        self.assertEqual(3.009, figures(tool, nsecs)["latency_max"])
        self.assertIn("unit_unknown", tool.report(f"{line}\n").remarks)
        foreign = line.replace("Min:      2", "Min:   1800")
        self.assertRaisesRegex(base.BenchmarkOutputError, "unit", tool.parse, f"{foreign}\n")

    def test_the_last_line_of_each_thread_counts(self):
        text = f"{self.T0.format('      12')}\n{self.T0.format('      15')}\n"
        self.assertEqual(15, figures(rt_tests.Cyclictest(), text)["latency_max"])

    def test_two_runs_are_not_one(self):
        """Cycles and the maximum of a thread only grow: the longest of two runs is not hidden."""
        first, later = self.T0.format("     500"), self.T0.format("      20")
        more = later.replace("C:  10000", "C:  10001")
        fewer = first.replace("C:  10000", "C:   9000")
        for text in (f"{first}\n{later}\n", f"{first}\n{more}\n", f"{first}\n{fewer}\n"):
            with self.subTest(text):
                self.assertRaisesRegex(
                    base.BenchmarkOutputError, "several runs", rt_tests.Cyclictest().parse, text
                )

    def test_threads_that_are_missing(self):
        text = f"$ cyclictest -t 2\n{self.T0.format('      12')}\n"
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "1 of 2", rt_tests.Cyclictest().parse, text
        )

    def test_a_histogram_of_two_threads_without_their_lines(self):
        text = """# Histogram
000001 000090 000095
000002 000010 000004
# Total: 000000100 000000099
# Min Latencies: 00001 00001
# Avg Latencies: 00001 00001
# Max Latencies: 00002 00047
# Histogram Overflows: 00000 00001
"""
        shown = figures(rt_tests.Cyclictest(), text)
        self.assertEqual((47, 1), (shown["latency_max"], shown["latency_min"]))
        self.assertAlmostEqual((100 + 100) / 200, shown["latency_mean"])
        self.assertAlmostEqual(2 + (198 - 185) / 14, shown["latency_p99"])
        without = "\n".join(line for line in text.split("\n") if not line.startswith("0"))
        shown = figures(rt_tests.Cyclictest(), without)
        self.assertEqual((47, 1), (shown["latency_max"], shown["latency_mean"]))
        self.assertNotIn("latency_p99", shown)
        for broken in (text.replace(" 000010 ", " 000011 "), text[: text.index("# Histogram O")]):
            self.assertRaises(base.BenchmarkOutputError, rt_tests.Cyclictest().parse, broken)


class SysbenchTest(testcase.TestCase):
    END = """General statistics:
    total time:                          10.0s
    total number of events:              1000

Latency (ms):
         min:                                    0.10
         avg:                                    0.50
         max:                                    9.00
         95th percentile:                        0.60
         sum:                                 5000.00
"""

    def test_memory(self):
        text = f"""sysbench 1.0.20 (using system LuaJIT)
Running memory speed test with the following options:
  block size: 1KiB
  total size: 102400MiB
  operation: write
Total operations: 71345000 (7132764.20 per second)
69672.85 MiB transferred (6965.59 MiB/sec)
{self.END}"""
        tool = recognition.recognise(text)
        self.assertEqual("sysbench_memory", tool.kind)
        shown = figures(tool, text)
        self.assertEqual(6965.59, shown["throughput"])
        self.assertEqual(7132764.20, shown["operations_per_second"])
        nothing = text.replace("6965.59", "0.00")
        self.assertRaisesRegex(base.BenchmarkOutputError, "nothing", tool.parse, nothing)
        workload = tool.report(text).workload
        self.assertEqual(("1KiB", "write"), (workload["block size"], workload["operation"]))

    def test_files_of_version_1_1(self):
        text = f"""Doing random r/w test
Throughput:
         read:  IOPS=3042.12 47.53 MiB/s (49.84 MB/s)
         write: IOPS=2028.08 31.69 MiB/s (33.23 MB/s)
         fsync: IOPS=6498.44
{self.END}"""
        tool = recognition.recognise(text)
        shown = figures(tool, text)
        self.assertEqual((3042.12, 47.53), (shown["reads_per_second"], shown["read_throughput"]))
        self.assertAlmostEqual(3042.12 + 2028.08, shown["requests_per_second"])

    def test_other_scripts_have_a_name_of_their_own(self):
        text = f"""SQL statistics:
    queries performed:
        read:                            14000
        write:                           0
        other:                           2000
        total:                           16000
    transactions:                        1000   (100.00 per sec.)
    queries:                             16000  (1600.00 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)
{self.END}"""
        self.assertEqual("sysbench_oltp", recognition.recognise(text).kind)

    def test_two_reports_are_not_one(self):
        cpu = f"CPU speed:\n    events per second:   100.00\n\n{self.END}"
        memory = (
            "Total operations: 1000 (7132764.20 per second)\n"
            f"69672.85 MiB transferred (6965.59 MiB/sec)\n{self.END}"
        )
        text = cpu + memory
        tool = recognition.recognise(text)
        self.assertEqual("sysbench", tool.kind)
        shown = figures(tool, text)
        self.assertEqual(
            (100, 6965.59),
            (shown["run1_cpu_events_per_second"], shown["run2_memory_throughput"]),
        )
        self.assertRaises(base.BenchmarkOutputError, tool.readings, 0, text, "")
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "2 reports", plugins.load("cpu").parse, cpu * 2
        )
        cut = cpu + memory[: memory.index("95th")]
        self.assertRaises(base.BenchmarkOutputError, recognition.recognise, cut)

    def test_a_test_that_is_not_read(self):
        text = f"sysbench 1.0.20 (using bundled LuaJIT)\n{self.END}"
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "sysbench cpu.memory", recognition.recognise, text
        )


class FioTest(testcase.TestCase):
    HEAD = (
        "job: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=16\nfio-2.2.10\n"
    )
    JOB = """job: (groupid=0, jobs=1): err= 0: pid=2619: Mon Apr 23 15:41:29 2018
  read : io=3200.0KB, bw=1935.9KB/s, iops=483, runt=  1653msec
    clat (usec): min=1695, max=18617, avg=2036.36, stdev=703.40
    clat percentiles (usec):
     |  1.00th=[ 1752], 50.00th=[ 1960], 99.00th=[ 3792], 99.90th=[18560]
     issued    : total=r=800/w=0/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
"""

    def test_version_2(self):
        text = f"{self.HEAD}Starting 1 process\n{self.JOB}"
        report = fio.Fio().report(text)
        shown = {reading.metric: reading.value for reading in report.readings}
        self.assertEqual((483, 0.8), (shown["iops"], shown["requests"]))
        self.assertAlmostEqual(1935.9 * 1024 / 1e6, shown["bandwidth"])
        self.assertEqual((3792, 18617), (shown["latency_p99"], shown["latency_max"]))
        self.assertEqual("4K", report.workload["block size"])
        self.assertIn("old_units", report.remarks)

    def test_lines_that_are_doubled_or_missing(self):
        way = self.JOB.split("\n")[1]
        write = way.replace("read ", "write").replace("iops=483", "iops=161")
        issued = "total=r=800/w=0/d=0"
        mixed = self.JOB.replace(way, f"{way}\n{write}").replace(issued, "total=r=800/w=200/d=0")
        self.assertEqual(644, figures(fio.Fio(), self.HEAD + mixed)["iops"])
        for job, words in (
            (self.JOB.replace(way, f"{way}\n{way}"), "two lines 'read'"),
            (mixed.replace(f"{write}\n", ""), "requests of 'write'"),
            (self.JOB.replace("iops=483", "iops=0"), "800 requests in 1.653 s and 0 IOPS"),
        ):
            with self.subTest(words):
                self.assertRaisesRegex(
                    base.BenchmarkOutputError, words, fio.Fio().parse, self.HEAD + job
                )

    def test_jobs_that_are_missing_or_repeated(self):
        for started, jobs, words in (
            ("Starting 2 processes", 1, "1 of 2 jobs"),
            ("Starting 1 process", 2, "--status-interval"),
        ):
            text = f"{self.HEAD}{started}\n{self.JOB * jobs}"
            with self.subTest(started):
                self.assertRaisesRegex(base.BenchmarkOutputError, words, fio.Fio().parse, text)

    def test_jobs_one_by_one(self):
        text = f"{self.HEAD}Starting 2 processes\n{self.JOB * 2}"
        shown = figures(fio.Fio(), text)
        self.assertEqual((483, 483), (shown["job_1_iops"], shown["job_2_iops"]))
        self.assertNotIn("iops", shown)

    def test_two_runs(self):
        text = f"{self.HEAD}Starting 1 process\n{self.JOB}"
        shown = figures(fio.Fio(), text + text.replace("iops=483", "iops=500"))
        self.assertEqual((483, 500), (shown["run1_iops"], shown["run2_iops"]))
        cut = text + text[: text.index("clat percentiles")]
        self.assertRaisesRegex(base.BenchmarkOutputError, "cut off", fio.Fio().parse, cut)

    def test_the_summary_alone(self):
        for text, bandwidth in (
            (
                "Run status group 0 (all jobs):\n   READ: bw=54.5MiB/s (57.1MB/s), 54.5MiB/s-54.5MiB/s"
                " (57.1MB/s-57.1MB/s), io=6537MiB (6854MB), run=120002-120002msec\n",
                54.5 * 1.048576,
            ),
            (
                "Run status group 0 (all jobs):\n   READ: io=832KB, aggrb=279KB/s, minb=286KB/s,"
                " maxb=286KB/s, mint=10136msec, maxt=10136msec\n",
                279 * 1024e-6,
            ),
        ):
            with self.subTest(text):
                tool = recognition.recognise(text)
                report = tool.report(text)
                self.assertEqual("fio", tool.kind)
                self.assertAlmostEqual(bandwidth, figures(tool, text)["read_bandwidth"])
                self.assertIn("IOPS", report.left_out[0])
                self.assertRaises(base.BenchmarkOutputError, tool.readings, 0, text, "")
                self.assertRaisesRegex(base.BenchmarkOutputError, "2 runs", tool.parse, text * 2)
                self.assertRaises(base.BenchmarkOutputError, tool.parse, text.rstrip()[:-4])

    def test_the_terse_form_is_named(self):
        text = "3;fio-3.16;job;0;0;3200;1935;483;1653\n"
        self.assertRaisesRegex(base.BenchmarkOutputError, "terse", recognition.recognise, text)


class UnixBenchTest(testcase.TestCase):
    def test_chosen_tests(self):
        text = """> System Benchmarks Partial Index              BASELINE       RESULT    INDEX
> Pipe-based Context Switching                   4000.0    2798407.0   6996.0
>                                                                    ========
> System Benchmarks Index Score (Partial Only)                         6996.0
"""
        quoted = pasted.decode(text.encode())
        tool = recognition.recognise(quoted)
        report = tool.report(quoted)
        shown = {reading.metric: reading.value for reading in report.readings}
        self.assertEqual(("unixbench", 2798407.0), (tool.kind, shown["context"]))
        self.assertNotIn("score", shown)
        self.assertAlmostEqual(6996.0, shown["partial_score"], 0)
        self.assertIn("partial", report.remarks)
        self.assertRaises(base.BenchmarkOutputError, tool.readings, 0, quoted, "")
        self.assertRaisesRegex(base.BenchmarkOutputError, "2 reports", tool.parse, quoted * 2)


class HimenoTest(testcase.TestCase):
    def test_the_time_in_a_line_of_its_own(self):
        """As the static programs print it, and with the tabs of the others."""
        for text, seconds in (
            (
                "cpu : 11.5 sec.\nLoop executed for 200 times\nGosa : 1e-4 \n"
                "MFLOPS measured : 3227.0\nScore based on MMX Pentium 200MHz : 100.0\n",
                "11.5",
            ),
            (
                " Loop executed for 57 times\n Gosa : 4.8e-04 \n MFLOPS measured : 820.0\tcpu : 59.5\n"
                " Score based on Pentium III 600MHz : 10.0\n",
                "59.5",
            ),
        ):
            with self.subTest(seconds):
                tool = recognition.recognise(text)
                self.assertEqual("himenobmtxp", tool.kind)
                self.assertEqual(seconds, tool.report(text).workload["seconds"])
                cut = text[: text.index("Score")]
                self.assertRaises(base.BenchmarkOutputError, tool.parse, cut)

    def test_a_run_without_its_line_of_loops(self):
        run = "Loop executed for 9 times\nMFLOPS measured : {}.0\nScore based on X : 1.0\n"
        second = run.format(85)
        for more in (
            second.partition("\n")[2],
            "Start rehearsal measurement process.\nMFLOPS: 85.0 time(s): 3.0 4.8e-04\n",
            "mimax = 65 mjmax = 65 mkmax = 129\n",
        ):
            with self.subTest(more):
                text = run.format(3400) + more
                tool = recognition.load_reader("himenobmtxp")
                self.assertRaisesRegex(base.BenchmarkOutputError, "cut off", tool.parse, text)
                whole = run.format(3400) + more + second
                if "Score" not in more:
                    self.assertEqual(
                        {"run1_mflops": 3400, "run2_mflops": 85}, figures(tool, whole)
                    )


class DdTest(testcase.TestCase):
    def test_results_of_other_systems(self):
        for text, rate in (
            (
                "1024+0 records in\n1024+0 records out\n"
                "104857600 bytes (100.0MB) copied, 0.05 seconds, 1.9GB/s\n",
                2097.152,
            ),
            (
                "1+0 records in\n1+0 records out\n"
                "1073741824 bytes transferred in 0.5 secs (2147483648 bytes/sec)\n",
                2147.483648,
            ),
            (
                "记录了1000+0 的读入\n记录了1000+0 的写出\n"
                "1048576000字节（1.0 GB）已复制，2.0 秒，524 MB/秒\n",
                524.288,
            ),
        ):
            with self.subTest(text):
                tool = recognition.recognise(text)
                self.assertEqual("dd", tool.kind)
                self.assertAlmostEqual(rate, figures(tool, text)["throughput"])

    RESULT = (
        "1024+0 records in\n1024+0 records out\n"
        "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 1.234 s, 870 MB/s\n"
    )

    def test_what_reaches_the_disk(self):
        """conv=sync pads blocks, and a path may be called 'direct'."""
        for operands, cached in (
            ("of=f oflag=direct", False),
            ("of=f conv=notrunc,fdatasync", False),
            ("of=f oflag=dsync,append", False),
            ("of=f conv=noerror,sync", True),
            ("of=/mnt/direct/sync", True),
            ("of=f; sync", True),
        ):
            with self.subTest(operands):
                text = f"$ dd if=/dev/zero {operands} bs=1M count=1024\n{self.RESULT}"
                remarks = recognition.load_reader("dd").report(text).remarks
                self.assertEqual(cached, "page_cache" in remarks)

    def test_a_rate_that_contradicts_its_bytes_and_seconds(self):
        tool = recognition.load_reader("dd")
        self.assertAlmostEqual(870.13, figures(tool, self.RESULT)["throughput"], 2)
        for old, new in (("1.234 s", "1234 s"), ("870 MB/s", "870 kB/s")):
            with self.subTest(new):
                text = self.RESULT.replace(old, new)
                self.assertRaisesRegex(base.BenchmarkOutputError, "contradicts", tool.parse, text)
