# SPDX-License-Identifier: Apache-2.0
"""Forms of outputs that were found in public places after the fifth batch of ``tests/field``.

Facts and figures alone are from there: tests of intel/lkp-tests, microsoft/VirtualClient, nokia/moler,
GoogleCloudPlatform/PerfKitBenchmarker and rawstor/librawstor, and pages whose address is not known.
"""

import json

from nova_perf_tuning.validation.bench import base, pasted, recognition
from tests.support import testcase

#: iperf 2.0 counts the first interval twice in the sum of a server with one stream.
IPERF2_SUM = """Server listening on TCP port 5001
[  4] local 192.0.2.50 port 5001 connected with 192.0.2.100 port 57272
[ ID] Interval       Transfer     Bandwidth
[  4]  0.0- 1.0 sec  232124 KBytes  1901558 Kbits/sec
[  4]  1.0- 2.0 sec  158626 KBytes  1299464 Kbits/sec
[  4]  2.0- 3.0 sec  191597 KBytes  1569562 Kbits/sec
[  4]  3.0- 4.0 sec  243509 KBytes  1994828 Kbits/sec
[  4]  0.0- 4.0 sec  825856 KBytes  1690728 Kbits/sec
[SUM]  0.0- 4.0 sec  1057980 KBytes  2165942 Kbits/sec
"""
#: Of iperf 2.1, which sums up the streams alone.
IPERF2_UDP = """Client connecting to 192.0.2.1, UDP port 5201 to 5202
Sending 1470 byte datagrams, IPG target: 1127.27 us (kalman adjust)
[  1] local 192.0.2.2 port 52714 connected with 192.0.2.1 port 5201
[  2] local 192.0.2.2 port 52715 connected with 192.0.2.1 port 5202
[ ID] Interval            Transfer     Bandwidth       Write/Err/Timeo
[  1]  0.00-1.00 sec  0.875 MBytes  7.34 Mbits/sec  625/0/0
[  2]  0.00-1.00 sec  0.875 MBytes  7.34 Mbits/sec  625/0/0
[SUM]  0.00-10.00 sec  16.7 MBytes  14.0 Mbits/sec  11907/0/0
[  1] Server Report:
[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total  Datagrams
[  1]  0.00-10.03 sec  5.14 MBytes  4.30 Mbits/sec  10.088 ms 2461/6129 (40%)
[  2] Server Report:
[  2]  0.00-10.03 sec  4.63 MBytes  3.87 Mbits/sec   5.422 ms 2481/5780 (43%)
"""
IPERF3_SERVER = """[SUM][RX-S]   0.00-18.00  sec  1.50 GBytes   715 Mbits/sec
    receiver

[SUM][TX-S]   0.00-18.00  sec  1.55 GBytes   742 Mbits/sec  6996
     sender
"""
#: Of --bidir and --get-server-output: what the server printed follows the totals of each direction.
IPERF3_BOTH = """Connecting to host 192.0.2.84, port 30002
[  5] local 192.0.2.1 port 46792 connected to 192.0.2.84 port 30002
[  7] local 192.0.2.1 port 46798 connected to 192.0.2.84 port 30002
[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-10.00  sec   596 MBytes  499988 Kbits/sec    3             sender
[  5][TX-C]   0.00-10.00  sec   596 MBytes  499977 Kbits/sec                  receiver

Server output:
Accepted connection from 192.0.2.1, port 46786
[  5] local 192.0.2.84 port 30002 connected to 192.0.2.1 port 46792
[  8] local 192.0.2.84 port 30002 connected to 192.0.2.1 port 46798
[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd
[  5][RX-S]   0.00-10.00  sec   596 MBytes  499970 Kbits/sec                  receiver
[  8][TX-S]   0.00-10.00  sec   596 MBytes  499971 Kbits/sec    7             sender

[  7][RX-C]   0.00-10.00  sec   596 MBytes  499990 Kbits/sec    1             sender
[  7][RX-C]   0.00-10.00  sec   596 MBytes  499982 Kbits/sec                  receiver

iperf Done.
"""
IPERF3_CPU = """[  5] local 192.0.2.1 port 5901 connected to 192.0.2.2 port 37988
Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 0 seconds, 10 second test
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-5.00   sec  12.8 GBytes  22.1 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
Test Complete. Summary Results:
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-10.04  sec  25.7 GBytes  22.0 Gbits/sec                  receiver
CPU Utilization: local/receiver 59.8% (3.9%u/55.9%s), remote/sender 0.0% (0.0%u/0.0%s)
"""
#: Of an engine that does not stamp its requests: completion takes seconds, and requests 0.2 ms.
FIO = """randread: (groupid=0, jobs=1): err= 0: pid=11246: Tue Jun 30 12:23:10 2026
  read: IOPS=10.1k, BW=39.3MiB/s (41.2MB/s)(393MiB/10001msec)
    clat (msec): min=111, max=10110, avg=5045.75, stdev=2911.88
     lat (usec): min=140, max=1155, avg=197.83, stdev=38.94
    clat percentiles (msec):
     |  1.00th=[  222], 50.00th=[ 5000], 99.00th=[10000]
     issued rwts: total=100731,0,0,0 short=0,0,0,0 dropped=0,0,0,0
"""
#: What pages on etcd quote of fio.
FIO_PART = """fsync/fdatasync/sync_file_range:
  sync (usec): min=534, max=15766, avg=1273.08, stdev=1084.70
  sync percentiles (usec):
   | 90.00th=[ 2180], 95.00th=[ 2278], 99.00th=[ 2376], 99.50th=[ 9634]
"""
TPCC = """<Raw Results>
  [0] sc:9 lt:16596  rt:0  fl:0 avg_rt: 118.3 (5)
 in 360 sec.
<TpmC>
                 2767.500 TpmC  --New-Orders a minute
"""
SYSBENCH = """OLTP test statistics:
    queries performed:
        read:                            8823206    -- reads in all
        write:                           2520916    -- writes in all
    transactions:                        630229 (174.94 per sec.)    -- a second
    deadlocks:                           0      (0.00 per sec.)        -- in all
    read/write requests:                 11344122 (3148.86 per sec.)    -- a second
    other operations:                    1260458 (349.87 per sec.)    -- a second
General statistics:        -- of the run
    total time:                          3602.6152s    -- how long it took
    total number of events:              630229        -- how many
    total time taken by event execution: 921887.7227s    -- of all threads
    response time:                    -- each
         min:                                  6.52ms    -- the least
         avg:                               1462.78ms    -- on average
         max:                               9918.51ms    -- the longest
         approx.  99 percentile:            3265.01ms    -- of 99 in 100
Threads fairness:                -- how even
    events (avg/stddev):           2461.8320/34.60      -- each
    execution time (avg/stddev):   3601.1239/0.63    -- each
"""
SYSBENCH_FILES = """  sysbench 1.1.0-df89d34 (using bundled LuaJIT 2.1.0-beta3)

  Number of threads: 128
  64GiB total file size
  Block size 16KiB
  Doing sequential write (creation) test

  Throughput:
           read:  IOPS=0.00 0.00 MiB/s (0.00 MB/s)
           write: IOPS=31961.19 499.39 MiB/s (523.65 MB/s)
           fsync: IOPS=327500.24

  Latency (ms):
           min:                                  0.00
           avg:                                  0.33
           max:                                920.89
           95th percentile:                      0.33
           sum:                            71212319.19
"""
SYSBENCH_MEMORY = """sysbench 0.4.12:  multi-threaded system evaluation benchmark

Running the test with following options:
Number of threads: 1

Doing memory operations speed test
Memory block size: 1K

Memory transfer size: 102400M

Memory operations type: read
Memory scope type: global
Threads started!
Done.

Operations performed: 104857600 (1309869.52 ops/sec)

102400.00 MB transferred (1279.17 MB/sec)


Test execution summary:
    total time:                          80.0519s
    total number of events:              104857600
    total time taken by event execution: 61.4019
    per-request statistics:
         min:                                  0.00ms
         avg:                                  0.00ms
         max:                                  4.37ms
         approx.  95 percentile:               0.00ms

Threads fairness:
    events (avg/stddev):           104857600.0000/0.00
"""
CYCLICTEST = """T: 0 (148604) P:98 I:1000 C:    261 Min:     10 Act:   17 Avg:   16 Max:      12
T: 1 (148605) P:98 I:1000 C:    263 Min:     10 Act:   14 Avg:   14 Max:      11
# Histogram
000010 000011   000005
000011 000250   000258
000012 000001   000000
# Min Latencies: 00010 00010
# Avg Latencies: 00016 00014
# Max Latencies: 00012 00011
# Histogram Overflows: 00000 00000
"""
TIMERLAT = """# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:02
Index   IRQ-001   Thr-001
0          1000       944
10            0        55
20            0         1
over:         0         0
count:     1000      1000
min:          0         3
avg:          1         7
max:          7        21
"""
UNIXBENCH = """Benchmark Run: Tue Feb 20 2024 03:49:06 - 03:53:47
36 CPUs in system; running 1 parallel copy of tests

3D graphics: gears                             3207.0 fps   (20.0 s, 7 samples)
"""
NETPERF = """32000           1.00         3428             27.39

====== netperf TCP_STREAM begin ======
MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.1 () port 0 AF_INET
Recv   Send    Send
Socket Socket  Message  Elapsed
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    10^6bits/sec

 32000  32000   1000    1.00       79.75
"""
CSV = (
    "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 : first burst 0",
    "Throughput,Throughput Units,50th Percentile Latency Microseconds",
    "1405.50,Trans/s,683",
)


def read(text):
    """Return report and metric -> value of a text, as ``bench parse`` reads it."""
    text = pasted.clean(text)
    report = recognition.report(recognition.recognise(text), text)
    return report, {reading.metric: reading.value for reading in report.readings}


class FoundFormsTest(testcase.TestCase):
    def assert_refused(self, text, words):
        error = self.assertRaises(base.BenchmarkOutputError, read, text)
        self.assertIn(words, str(error))

    def test_a_sum_that_is_not_that_of_its_streams(self):
        self.assert_refused(
            IPERF2_SUM, "[SUM] has 1083.37 MB, and its streams together 845.677 MB"
        )
        right = IPERF2_SUM.replace("1057980 KBytes  2165942", "825856 KBytes  1690728")
        _report, figures = read(right)
        self.assertEqual(1690.728, figures["throughput"])

    def test_reports_of_servers_of_iperf_2(self):
        _report, figures = read(IPERF2_UDP)
        self.assertAlmostEqual(8.17, figures["throughput"])
        self.assertEqual((14, 4942), (figures["sent_throughput"], figures["lost"]))
        more = IPERF2_UDP.replace("2461/6129", "26461/6129")
        self.assert_refused(more, "28942 datagrams of 11909 are lost")
        none = IPERF2_UDP.replace("4.63 MBytes  3.87 Mbits/sec", "0.000 Bytes  -nan bits/sec")
        self.assert_refused(none, "the server's report has no rate: '[ 2] 0.00-10.03 sec")

    def test_memory_of_sysbench_0_4(self):
        report, figures = read(SYSBENCH_MEMORY)
        self.assertEqual(
            (1279.17, 1_309_869.52), (figures["throughput"], figures["operations_per_second"])
        )
        work = report.workload
        self.assertEqual(
            ("1K", "read", "102400M"), (work["block size"], work["operation"], work["total size"])
        )
        self.assertIn("old_units", report.remarks)
        _report, figures = read(SYSBENCH_MEMORY * 2)
        self.assertEqual(1279.17, figures["run2_memory_throughput"])

    def test_files_of_sysbench_1_1(self):
        """Its report ends with the latencies: it has no time and no number of events."""
        report, figures = read(SYSBENCH_FILES)
        self.assertEqual(
            (31_961.19, 0.33), (figures["requests_per_second"], figures["latency_p95"])
        )
        self.assertEqual("128", report.workload["threads"])
        self.assertNotIn("seconds", report.workload)
        self.assert_refused(SYSBENCH_FILES * 2, "2 reports of sysbench")

    def test_roles_say_which_side_printed_a_text_of_iperf3(self):
        _report, figures = read(IPERF3_SERVER)
        self.assertEqual(715, figures["client_to_server_throughput"])
        self.assertEqual(742, figures["server_to_client_sent_throughput"])
        self.assertEqual(6996, figures["server_to_client_retransmits"])

    def test_both_directions_around_the_server_s_own_output(self):
        report, figures = read(IPERF3_BOTH)
        self.assertEqual(499.977, figures["client_to_server_throughput"])
        self.assertEqual(499.982, figures["server_to_client_throughput"])
        self.assertEqual(1, figures["server_to_client_retransmits"])
        self.assertIn("the server's own output (--get-server-output)", report.left_out)

    def test_whose_cpu_a_text_of_iperf3_has(self):
        server = "Server listening on 5901\nAccepted connection from 192.0.2.2, port 37974\n"
        _report, figures = read(server + IPERF3_CPU)
        self.assertEqual(59.8, figures["server_cpu"])
        self.assertNotIn("client_cpu", figures)
        _report, figures = read("Connecting to host 192.0.2.2, port 5901\n" + IPERF3_CPU)
        self.assertEqual((59.8, 0.0), (figures["client_cpu"], figures["server_cpu"]))
        _report, figures = read(IPERF3_CPU)
        self.assertEqual((59.8, 0.0), (figures["local_cpu"], figures["remote_cpu"]))

    def test_completion_is_a_part_of_a_request(self):
        report, figures = read(FIO)
        self.assertEqual((10_100, 197.83), (figures["iops"], figures["total_latency_mean"]))
        self.assertEqual([], [name for name in figures if name.startswith("latency")])
        said = "completion latency of read: its mean of 5,045,750 µs is above that from submission"
        self.assertIn(said, "\n".join(report.left_out))
        _report, figures = read(FIO.replace("lat (usec): min=140, max=1155, avg=197.83", "x"))
        self.assertEqual(10_000_000, figures["latency_p99"])

    def test_fio_2_1_does_not_count_requests(self):
        times = {"min": 5, "max": 900, "mean": 100.5, "percentile": {"99.000000": 800, "0.00": 0}}
        way = {"bw": 6443, "iops": 1610, "runtime": 5000, "clat": times, "lat": times}
        idle = {"bw": 0, "iops": 0, "runtime": 0, "clat": times, "lat": times}
        job = {"jobname": "a", "error": 0, "read": idle, "write": way}
        text = json.dumps({"fio version": "fio-2.1.4", "jobs": [job]})
        _report, figures = read(text)
        self.assertEqual((1610, 800), (figures["iops"], figures["latency_p99"]))
        self.assertNotIn("requests", figures)
        self.assert_refused(text.replace("fio-2.1.4", "fio-3.1"), "read.total_ios")

    def test_a_part_of_fio_s_report(self):
        self.assert_refused(FIO_PART, "no line of a finished job")

    def test_what_fio_says_of_a_failed_job(self):
        said = "pid=8281, err=84/file:io_u.c:2141, func=io_u_queued_complete, error=Invalid"
        self.assert_refused(f"fio: {said}\n", f"fio: it said '{said}'")

    def test_remarks_behind_two_dashes(self):
        _report, figures = read(TPCC)
        self.assertEqual(2767.5, figures["tpmc"])
        _report, figures = read(SYSBENCH)
        self.assertEqual(
            (174.94, 1462.78),
            tuple(figures[name] for name in ("transactions_per_second", "latency_mean")),
        )
        self.assertEqual(3265.01, figures["latency_p99"])

    def test_a_thread_that_stands_below_the_histogram_alone(self):
        _report, figures = read(CYCLICTEST)
        self.assertEqual(12, figures["latency_max"])
        lines = CYCLICTEST.split("\n")
        self.assert_refused("\n".join(lines[:1] + lines[2:]), "lines of 1 of the 2 threads")

    def test_the_last_interval_of_tpcc_is_not_the_run(self):
        interval = " 360, trx: 675, 95%: 136.871, 99%: 165.425, max_rt: 249.625, 673|147.049\n"
        _report, figures = read(interval + TPCC)
        self.assertNotIn("new_order_latency_p95", figures)
        _report, figures = read(interval.replace("trx: 675", "trx: 16605") + TPCC)
        self.assertEqual(136.871, figures["new_order_latency_p95"])

    def test_wide_buckets_of_timerlat(self):
        report, figures = read(TIMERLAT)
        self.assertEqual((21, 7), (figures["latency_max"], figures["irq_latency_max"]))
        self.assertEqual([], [name for name in figures if "latency_p" in name])
        self.assertIn("percentiles: the buckets may be 10 wide", "\n".join(report.left_out))
        _report, figures = read(TIMERLAT.replace("\n10  ", "\n9   "))
        self.assertIn("latency_p99", figures)

    def test_rows_whose_head_is_missing(self):
        report, figures = read(NETPERF)
        self.assertEqual({"throughput": 79.75}, figures)
        self.assertIn("1 rows before the first test", "\n".join(report.left_out))

    def test_lines_in_lists_of_json(self):
        """As ansible prints ``stdout_lines``, and as tests of other projects have recorded them."""
        for text in (
            json.dumps([list(CSV)], indent=2),
            json.dumps({"stdout_lines": FIO.split("\n")}, indent=4),
        ):
            with self.subTest(text[:40]):
                self.assert_refused(text, "stands in strings of JSON")

    def test_json_that_another_program_has_printed(self):
        document = {"fio version": "fio-3.19", "jobs": [{"jobname": "a", "error": 0}]}
        self.assert_refused(repr(document), "was printed by Python")
        self.assert_refused(json.dumps([document]), "is a list of JSON: give one document")
        self.assert_refused(json.dumps({"fio": document}), "or lies in another")

    def test_refusals_that_name_the_tool(self):
        self.assert_refused(UNIXBENCH, "unixbench: the report is cut off or of few tests")
        self.assert_refused(
            "speed: 1073741824 bytes (1.0GB) copied, 14.183164 seconds, 72.2MB/s\n",
            "dd: the output has no result of dd below its lines of records",
        )
