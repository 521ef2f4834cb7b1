# SPDX-License-Identifier: Apache-2.0
"""Kinds of outputs that the ninth batch of the field has shown: tools' warnings, remarks, several tools in a log."""

import json

from nova_perf_tuning.validation.bench import base, pasted, recognition
from tests.support import testcase

TPCC = """\
<Raw Results>
  [0] sc:0 lt:2468  rt:13421555  fl:6722 avg_rt: 127.6 (5)
  [1] sc:0 lt:2737  rt:12886877  fl:6440 avg_rt: 75.8 (5)
  [2] sc:0 lt:0  rt:1834474  fl:917 avg_rt: -nan (5)
  [3] sc:0 lt:0  rt:1835461  fl:917 avg_rt: nan (80)
  [4] sc:780 lt:138  rt:0  fl:0 avg_rt: 64.4 (20)
 in 10800 sec.
<Constraint Check> (all must be [OK])
 [transaction percentage]
        Payment: 44.70% (>=43.0%) [OK]
   Order-Status: 0.00% (>= 4.0%) [NG] *
 [response time (at least 90% passed)]
      New-Order: 0.00%  [NG] *
   Order-Status: -nan%  [NG] *
<TpmC>
                 13.711 TpmC
"""


def read(text):
    """Return the kind and the report of a paste that names no tool."""
    shown = pasted.decode(text.encode())
    tool = recognition.recognise(shown)
    return tool.kind, recognition.report(tool, shown)


def refusal(case, text):
    """Return why a paste that names no tool is not read."""
    shown = pasted.decode(text.encode())
    return str(case.assertRaises(base.BenchmarkOutputError, recognition.recognise, shown))


def figures(report):
    return {reading.metric: reading.value for reading in report.readings}


class TpccMysqlTests(testcase.TestCase):
    def test_failed_transactions_are_of_all_kinds(self):
        _kind, report = read(TPCC)
        self.assertEqual(6722 + 6440 + 917 + 917, figures(report)["failed"])

    def test_a_part_of_the_rows_has_no_number_of_failed_transactions(self):
        _kind, report = read(
            TPCC.replace("  [4] sc:780 lt:138  rt:0  fl:0 avg_rt: 64.4 (20)\n", "")
        )
        self.assertNotIn("failed", figures(report))
        self.assertIn("failed: the raw results have 4 of 5 rows", "\n".join(report.left_out))

    def test_constraints_of_what_was_never_finished_are_counted(self):
        _kind, report = read(TPCC)
        said = report.remarks["constraints_failed"]
        self.assertIn("3 of 4 constraints are NG", said)
        self.assertIn("share of all: Order-Status 0.00 %; in time: New-Order 0.00 %", said)
        self.assertIn("Order-Status -nan %", said)
        left_out = "\n".join(report.left_out)
        for name in ("order_status", "delivery"):
            self.assertNotIn(f"{name}_latency_mean", figures(report))
            self.assertIn(f"mean latency of {name}: none was finished", left_out)


FIO_2 = """\
test-write: (g=0): rw=write, bs=32K-32K/32K-32K, ioengine=sync, iodepth=32
{}
Starting 1 process

test-write: (groupid=0, jobs=1): err= 0: pid=4283
  write: io=4685.3MB, bw=79961KB/s, iops=2498 , runt= 60001msec
    clat (usec): min=101 , max=78393 , avg=396.14, stdev=1190.18
     issued    : total=r=0/w=149929/d=0, short=r=0/w=0/d=0
"""


class FioVersionTests(testcase.TestCase):
    def test_a_version_in_a_line_of_its_own(self):
        for line in ("2.0.8", "2.1", "1.99.12", "2.0.7-6-g8a2b", "fio 1.59", "fio-2.1.10"):
            _kind, report = read(FIO_2.format(line))
            with self.subTest(line):
                version = line.removeprefix("fio").strip(" -")
                self.assertEqual(version, report.workload.get("version"))
                self.assertNotIn("version: ", "\n".join(report.left_out))

    def test_of_several_runs_each_has_its_own(self):
        _kind, report = read(FIO_2.format("2.0.8") + "\n\n" + FIO_2.format("2.0.9"))
        self.assertIn("version 2.0.8", report.workload["run1"])
        self.assertIn("version 2.0.9", report.workload["run2"])

    def test_another_number_is_no_version(self):
        text = FIO_2.format("note") + "\n2.5\n"
        _kind, report = read(text)
        self.assertNotIn("version", report.workload)


IPERF2_UDP = """\
Client connecting to 192.0.2.172, UDP port 5001
Sending 1470 byte datagrams, IPG target: 18.69 us (kalman adjust)
[  3] local 192.0.2.173 port 41767 connected with 192.0.2.172 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0-10.0 sec   750 MBytes   629 Mbits/sec
[  3] Sent 534978 datagrams
[  3] Server Report:
[  3]  0.0-10.2 sec  {}  11.631 ms    0/534979 (0%)
[  3] 0.0000-10.2320 sec  {} datagrams received out-of-order
"""
IPERF3_UDP = """\
Connecting to host 192.0.2.1, port 5201
[  5] local 192.0.2.2 port 41334 connected to 192.0.2.1 port 5201
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-10.00  sec  1.16 GBytes  1000 Mbits/sec  0.000 ms  0/863260 (0%)  sender
[SUM]  0.0-10.0 sec  {} datagrams received out-of-order
[  5]   0.00-10.00  sec  {}  0.013 ms  0/863260 (0%)  receiver

iperf Done.
"""


class CountedTwiceTests(testcase.TestCase):
    def test_more_arrived_than_was_sent(self):
        kind, report = read(IPERF2_UDP.format("1.20 GBytes  1.01 Gbits/sec", 824594))
        self.assertEqual("iperf2", kind)
        self.assertEqual({"sent_throughput", "transferred"}, set(figures(report)))
        said = report.remarks["counted_twice"]
        for words in ("1,288 MB, and 786 MB were sent", "824,594 datagrams out of order"):
            self.assertIn(words, said)
        self.assertEqual("the client, what it sent", report.workload["counted by"])
        kind, report = read(IPERF3_UDP.format(20, "2.30 GBytes  1.98 Gbits/sec"))
        self.assertEqual("packets", kind)
        self.assertEqual({"sent_throughput"}, set(figures(report)))
        self.assertIn("2,470 MB, and 1,246 MB were sent", report.remarks["counted_twice"])
        self.assertNotIn("rate_computed", report.remarks)

    def test_most_datagrams_out_of_order(self):
        _kind, report = read(IPERF2_UDP.format("750 MBytes  629 Mbits/sec", 300000))
        self.assertIn("300,000 datagrams out of order", report.remarks["counted_twice"])
        self.assertFalse([reading for reading in report.readings if reading.primary])
        _kind, report = read(IPERF3_UDP.format(500000, "1.16 GBytes  1000 Mbits/sec"))
        self.assertIn("500,000 datagrams out of order", report.remarks["counted_twice"])

    def test_a_few_out_of_order_are_left_out_alone(self):
        _kind, report = read(IPERF2_UDP.format("749 MBytes  628 Mbits/sec", 1200))
        self.assertEqual(628, figures(report)["throughput"])
        self.assertNotIn("counted_twice", report.remarks)
        self.assertIn("1200 datagrams out of order", report.left_out)
        _kind, report = read(IPERF3_UDP.format(12, "1.16 GBytes  1000 Mbits/sec"))
        self.assertEqual(1000, figures(report)["throughput"])

    def test_a_servers_log_alone_has_no_figure_then(self):
        text = IPERF2_UDP.format("1.20 GBytes  1.01 Gbits/sec", 824594)
        rows = text.splitlines()[-2:]
        head = "Server listening on UDP port 5001\n"
        connected = "[  3] local 192.0.2.172 port 5001 connected with 192.0.2.173 port 41767\n"
        said = refusal(self, head + connected + "\n".join(rows) + "\n")
        self.assertIn("824,594 datagrams out of order", said)
        self.assertIn("no throughput", said)

    def test_the_json_of_iperf3(self):
        document = {
            "start": {
                "connecting_to": {"host": "192.0.2.1"},
                "version": "iperf 3.12",
                "test_start": {"protocol": "UDP", "num_streams": 1, "blksize": 1000},
            },
            "end": {
                "streams": [{"udp": {"out_of_order": 700}}],
                "sum": {"packets": 1000, "lost_packets": 0, "jitter_ms": 0.1, "seconds": 1.0},
                "sum_sent": {"bits_per_second": 8e6, "seconds": 1.0},
                "sum_received": {"bytes": 1_000_000, "seconds": 1.0},
                "cpu_utilization_percent": {"host_total": 1.0, "remote_total": 1.0},
            },
        }
        self.assertIn("700 datagrams out of order", refusal(self, json.dumps(document)))
        document["end"]["streams"] = []
        document["end"]["sum_received"]["bytes"] = 1_900_000
        self.assertIn("2 MB, and 1 MB were sent", refusal(self, json.dumps(document)))
        document["end"]["sum_received"]["bytes"] = 1_000_000
        kind, report = read(json.dumps(document))
        self.assertEqual(("packets", 1000), (kind, figures(report)["packets_per_second"]))


CYCLICTEST = """\
# cyclictest -p 99
{}policy: fifo: loadavg: 1.21 0.40 0.14 1/122 245

T: 0 (  245) P:99 I:1000 C:  11203 Min:     92 Act:  623 Avg:  775 Max:    3516
"""
CPU = """\
{}sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)
Number of threads: 1
Prime numbers limit: 10000
CPU speed:
    events per second:   950.13
General statistics:
    total time:                          10.0008s
    total number of events:              9503
Latency (ms):
         min:                                    1.02
         avg:                                    1.05
         max:                                    3.10
         95th percentile:                        1.10
         sum:                                 9997.10
Threads fairness:
    events (avg/stddev):           9503.0000/0.00
"""


class OwnWarningsTests(testcase.TestCase):
    def check_said(self, text, *words):
        _kind, report = read(text)
        said = report.remarks.get("own_warnings", "")
        for word in words:
            self.assertIn(word, said)
        self.assertEqual(bool(words), bool(said), said)

    def test_what_each_tool_says(self):
        capped = (
            "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be"
            " capped at 1\n"
        )
        no_timers = (
            "WARN: stat /dev/cpu_dma_latency failed: No such file or directory\n"
            "WARN: High resolution timers not available\n"
        )
        deprecated = "WARNING: --num-threads is deprecated, use --threads instead\n"
        window = "WARNING: attempt to set TCP maximum segment size to 1448, but got 536\n"
        mss = "warning: UDP block size 9000 exceeds TCP MSS 1448\n"
        iperf2 = IPERF2_UDP.format("749 MBytes  628 Mbits/sec", 12)
        iperf3 = IPERF3_UDP.format(12, "1.16 GBytes  1000 Mbits/sec")
        partial = "dd: warning: partial read (4096 bytes); suggest iflag=fullblock\n"
        copied = "1+1 records in\n1+1 records out\n"
        copied += "1048576000 bytes (1.0 GB) copied, 9.1093 s, 115 MB/s\n"
        for text, words in (
            (capped + FIO_2.format("2.0.8"), ["queue depth will be capped at 1"]),
            (CYCLICTEST.format(no_timers), ["High resolution timers not available", "stat /dev"]),
            (CPU.format(deprecated), ["--num-threads is deprecated"]),
            (window + iperf2, ["but got 536"]),
            (mss + iperf3, ["exceeds TCP MSS"]),
            (partial + copied, ["partial read (4096 bytes)"]),
        ):
            with self.subTest(words):
                self.check_said(text, *words)

    def test_a_warning_of_each_stream_is_said_once(self):
        said = "did not receive ack of last datagram after 10 tries."
        lines = "".join(f"[{stream:3}] WARNING: {said}\n" for stream in range(3, 11))
        iperf2 = IPERF2_UDP.format("749 MBytes  628 Mbits/sec", 12)
        _kind, report = read(iperf2 + lines)
        self.assertEqual(1, report.remarks["own_warnings"].count(said))

    def test_warnings_beside_json(self):
        document = {
            "fio version": "fio-3.28",
            "jobs": [
                {
                    "jobname": "a",
                    "error": 0,
                    "job options": {"rw": "read", "bs": "4k", "direct": "1"},
                    "read": {
                        "iops": 10.0,
                        "bw_bytes": 40960,
                        "runtime": 2000,
                        "total_ios": 20,
                        "clat_ns": {"min": 1000, "max": 3000, "mean": 2000.0, "N": 20},
                    },
                }
            ],
        }
        text = "note: both iodepth >= 1 and synchronous I/O engine are selected\n"
        self.check_said(text + json.dumps(document, indent=1), "synchronous I/O engine")

    def test_many_are_cut_short(self):
        lines = "".join(f"WARN: this is number {at}\n" for at in range(20))
        self.check_said(CYCLICTEST.format(lines), "number 5'", "and 14 more")

    def test_other_lines_are_no_warnings(self):
        for line in (
            "prog.c:279:1: warning: non-void function does not return a value\n",
            "1 warning generated.\n",
            "I was warned: it is slow\n",
            "",
        ):
            with self.subTest(line):
                self.check_said(CPU.format(line))


FILES = """\
sysbench 1.0.17 (using system LuaJIT 2.0.4)
Number of threads: 20  # threads
{}128 files, 16MiB each  # size of each
2GiB total file size
Block size 16KiB  # of one request
Using synchronous I/O mode
Doing random r/w test{}
File operations:
    reads/s:                      5625.14
    writes/s:                     3749.93
    fsyncs/s:                     12244.30
Throughput:
    read, MiB/s:                  87.89  # 87 MB a second
    written, MiB/s:               58.59
General statistics:
    total time:                          10.0147s  # in all
    total number of events:              213978
Latency (ms):
         min:                                    0.00
         avg:                                    0.93
         max:                                  292.48
         95th percentile:                        2.91
         sum:                               199618.07
"""


class RemarksTests(testcase.TestCase):
    def test_a_remark_is_no_part_of_a_value(self):
        for remark in (
            "",
            " # \u662f\u5426\u4f7f\u7528",
            "  // none of them",
            " <- a remark",
            "\t# in \u0440\u0443",
        ):
            flags = f"Extra file open flags: (none){remark}\n"
            _kind, report = read(FILES.format(flags, remark))
            with self.subTest(remark):
                self.assertEqual("(none)", report.workload["open flags"])
                self.assertEqual("random r/w", report.workload["pattern"])
                self.assertIn("page_cache", report.remarks)

    def test_files_of_sysbench_and_the_page_cache(self):
        for flags, words in (
            ("Extra file open flags: directio\n", None),
            ("Extra file open flags: 16384\n", None),
            ("Extra file open flags: sync # each\n", "reads may be of the page cache"),
            ("Extra file open flags: dsync\n", "reads may be of the page cache"),
            ("Extra file open flags: 0\n", "without a flag"),
            ("$ sysbench fileio --file-extra-flags=direct run\n", None),
        ):
            _kind, report = read(FILES.format(flags, ""))
            with self.subTest(flags):
                self.assertIn(words or "", report.remarks.get("page_cache", ""))
                self.assertEqual(words is not None, "page_cache" in report.remarks)
                self.assertNotIn("open flags: ", "\n".join(report.left_out))
        _kind, report = read(FILES.format("", ""))
        self.assertIn("open flags: the output does not say", "\n".join(report.left_out))

    def test_a_remark_behind_a_command_is_none_of_its_options(self):
        words = pasted.command("$ sysbench cpu --threads=2 run # --threads=4", "sysbench")
        self.assertEqual(["cpu", "--threads=2", "run"], words)
        self.assertEqual("4-7", pasted.without_remark("4-7  # isolated"))
        self.assertEqual("a (b) c", pasted.without_remark("a (b) c"))
        blanks = " " * 200_000
        self.assertEqual(f"4{blanks}5", pasted.without_remark(f"4{blanks}5{blanks}# x"))

    def test_remarks_in_reports_of_other_tools(self):
        dd = "$ dd if=/dev/zero of=a bs=1M count=1000 # not conv=fdatasync oflag=direct\n"
        dd += "1000+0 records in\n1000+0 records out\n"
        dd += "1048576000 bytes (1.0 GB) copied, 9.1093 s, 115 MB/s\n"
        _kind, report = read(dd)
        self.assertEqual("dd if=/dev/zero of=a bs=1M count=1000", report.workload["command"])
        self.assertIn("page_cache", report.remarks)
        fio = FIO_2.format("2.0.8").replace("iodepth=32", "iodepth=32  # deep")
        job = "[global]\ndirect=0 ; through the cache\n[a]\nrw=write\n\n"
        _kind, report = read(job + fio)
        self.assertEqual("0", report.workload["direct"])
        self.assertEqual("write", report.workload["pattern"])
        self.assertIn("page_cache", report.remarks)
        keys = "THROUGHPUT=9414.93 # good\nTHROUGHPUT_UNITS=10^6bits/s\nPROTOCOL=TCP  # not UDP\n"
        banner = "OMNI Send TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0 AF_INET\n"
        _kind, report = read(banner + keys)
        self.assertEqual(9414.93, figures(report)["throughput"])
        self.assertEqual("TCP", report.workload["protocol"])


#: What dd prints in some locales: two lines of records, and the result of one run.
DD: dict[str, str] = {
    "zh_CN of coreutils 8": (
        "记录了1+0 的读入\n记录了1+0 的写出\n1048576000字节(1.0 GB)已复制，9.1093 秒，115 MB/秒\n"
    ),
    "zh_CN of coreutils 9": (
        "输入了 1+0 块记录\n输出了 1+0 块记录\n"
        "1048576000 字节 (1.0 GB, 1000 MiB) 已复制，9.1093 s，115 MB/s\n"
    ),
    "zh_TW": (
        "讀入了 1+0 個紀錄\n寫出了 1+0 個紀錄\n"
        "1048576000位元組 (1.0 GB) 已複製，9.1093 秒，115 MB/秒\n"
    ),
    "ja": (
        "1+0 レコード入力\n1+0 レコード出力\n"
        "1048576000 バイト (1.0 GB, 1000 MiB) コピーされました、 9.1093 秒、 115 MB/秒\n"
    ),
    "ko": (
        "레코드 1+0 들어옴\n레코드 1+0 나감\n"
        "1048576000 바이트 (1.0 GB, 1000 MiB) 복사함, 9.1093 s, 115 MB/s\n"
    ),
    "ru": (
        "1+0 записей получено\n1+0 записей отправлено\n"
        "1048576000 байт (1,0 GB, 1000 MiB) скопирован, 9,1093 s, 115 MB/s\n"
    ),
}


class DdLocaleTests(testcase.TestCase):
    def test_locales(self):
        for name, text in DD.items():
            with self.subTest(name):
                kind, report = read(text)
                self.assertEqual("dd", kind)
                rate = figures(report)["throughput"]
                self.assertTrue(115.1 < rate < 115.2, rate)

    def test_several_runs_amid_markdown(self):
        text = ""
        for title in ("**DHT**", "**AFR**", "**Striped**"):
            command = "time dd if=/dev/zero of=hello bs=1000M count=1\n"
            times = "\nreal\t0m9.120s\nuser\t0m0.000s\n"
            text += f"{title}\n\n```bash\n{command}{DD['zh_CN of coreutils 8']}{times}```\n\n"
        _kind, report = read(text)
        rates = {name: round(rate, 1) for name, rate in figures(report).items()}
        self.assertEqual({f"run{at}_throughput": 115.1 for at in (1, 2, 3)}, rates)
        self.assertIn("3 runs: none of them is judged", report.remarks["several_runs"])
        self.assertIn("bs=1000M", report.workload["run1_command"])

    def test_a_locale_that_is_not_read(self):
        text = "1+0 записей получено\n1+0 записей отправлено\n"
        text += "скопировано 1048576000 байт (1,0 ГБ), 9,1093 с, 115 МБ/с\n"
        said = refusal(self, text + text)
        self.assertIn("one of 2 results in the text", said)
        self.assertIn("LC_ALL=C", said)


RR_BANNER = (
    "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0"
    " AF_INET : nodelay : demo : first burst {}\n"
)
RR_TABLE = """\
Minimum      Mean         Maximum      99th         Stddev       Transaction
Latency      Latency      Latency      Percentile   Latency      Rate
Microseconds Microseconds Microseconds Latency      Microseconds Tran/s
                                       Microseconds
38           56.69        383          69           3.89         52866.251
"""
STREAM_TABLE = """\
OMNI Send TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.1 () port 0 AF_INET : demo
Local       Remote      Local  Elapsed Throughput Throughput
Send Socket Recv Socket Send   Time               Units
Size        Size        Size   (sec)
Final       Final

2249216     2097152     131072 10.00   53767.08   10^6bits/s
"""
LATENCIES = {
    "transactions_per_second": 52866.251,
    "latency_min": 38,
    "latency_mean": 56.69,
    "latency_max": 383,
    "latency_p99": 69,
    "latency_deviation": 3.89,
}


class NetperfTableTests(testcase.TestCase):
    def test_a_table_with_or_without_the_blanks_before_its_lines(self):
        for table in (RR_TABLE, RR_TABLE.replace("  " * 19 + " Micro", "Micro")):
            kind, report = read(RR_BANNER.format(2) + table)
            self.assertEqual(("netperf_rr", LATENCIES), (kind, figures(report)))
            self.assertEqual("2", report.workload["first burst"])
            self.assertEqual("3", report.workload["transactions in flight"])
            self.assertEqual("yes", report.workload["nodelay"])

    def test_units_below_columns_that_have_none(self):
        """Blanks before 'Units' are lost: the column of the rate has a number, that of the unit none."""
        table = (
            "Throughput Throughput Mean\n           Units      Latency\n"
            "                      Microseconds\n60085.02   Trans/s    8.94\n"
        )
        _kind, report = read(RR_BANNER.format(0) + table)
        wanted = {"transactions_per_second": 60085.02, "latency_mean": 8.94}
        self.assertEqual(wanted, figures(report))
        self.assertNotIn("first burst", report.workload)

    def test_the_table_of_bulk_data(self):
        kind, report = read(STREAM_TABLE)
        self.assertEqual("netperf", kind)
        self.assertEqual({"throughput": 53767.08}, figures(report))
        self.assertEqual("10.00", report.workload["seconds"])
        self.assertEqual("131072 bytes", report.workload["message"])

    def test_blanks_within_lines_are_lost(self):
        lines = [" ".join(line.split()) for line in RR_TABLE.splitlines()]
        text = RR_BANNER.format(2) + "\n".join(lines) + "\n"
        said = refusal(self, text)
        self.assertIn("the head does not fit the 6 values", said)
        self.assertIn("give it -o or -k", said)
        keys = "min_latency,mean_latency,max_latency,p99_latency,stddev_latency,transaction_rate"
        command = f"$ netperf -H 192.0.2.1 -l -600000 -t TCP_RR -- -r 16 -b 2 -O {keys}\n"
        _kind, report = read(command + text)
        self.assertEqual(LATENCIES, figures(report))
        self.assertEqual("600000", report.workload["amount asked for (-l)"])
        self.assertEqual("16", report.workload["request and response (-r)"])
        # Another command than that of the table has another number of columns.
        self.assertIn("does not fit", refusal(self, command.replace("min_latency,", "") + text))

    def test_a_table_that_is_cut_off(self):
        text = RR_BANNER.format(2) + RR_TABLE
        for end in range(text.index("38  "), len(text) - 1):
            refusal(self, text[:end])

    def test_names_that_are_not_known(self):
        text = RR_BANNER.format(2) + RR_TABLE.replace("Stddev ", "Spread ")
        self.assertIn("names that are not known", refusal(self, text))

    def test_the_burst_of_a_classic_table(self):
        table = """\
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate
bytes  Bytes  bytes    bytes   secs.    per sec

16384  87380  1        1       1.00     48645.53
16384  87380
"""
        _kind, report = read(RR_BANNER.format(4) + table)
        self.assertEqual({"transactions_per_second": 48645.53}, figures(report))
        self.assertEqual("5", report.workload["transactions in flight"])


RR_CLASSIC = """\
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate
bytes  Bytes  bytes    bytes   secs.    per sec

16384  87380  1        1       1.00     48645.53
16384  87380
"""
STREAM_CLASSIC = """\
MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.1 () port 0 AF_INET
Recv   Send    Send
Socket Socket  Message  Elapsed
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    10^6bits/sec

 87380  16384  65160    1.00     41991.68
"""
IPERF2_ROWS = """\
[ ID] Interval       Transfer     Bandwidth
[  5]  0.0- 1.0 sec  4.00 GBytes  34.3 Gbits/sec
"""


class SeveralToolsTests(testcase.TestCase):
    def log(self, prefix):
        """Return the log of a test with iperf 2 and two tests of netperf in it."""
        text = IPERF2_ROWS + STREAM_CLASSIC + RR_BANNER.format(0) + RR_CLASSIC
        return "".join(f"{prefix}{line}".rstrip() + "\n" for line in text.splitlines())

    def test_a_number_before_each_line(self):
        for prefix in ("", "8: ", "# 8: ", "run-1: "):
            kind, report = read(self.log(prefix))
            with self.subTest(prefix):
                self.assertEqual("netperf", kind)
                shown = figures(report)
                self.assertEqual(41991.68, shown["tcp_stream_throughput"])
                self.assertEqual(48645.53, shown["tcp_rr_transactions_per_second"])
                self.assertFalse([reading for reading in report.readings if reading.primary])
                self.assertIn("iperf2", report.remarks["other_tools"])

    def test_lines_of_threads_have_no_title(self):
        rows = ""
        for number in range(6):
            rows += f"T: {number} (  24{number}) P:99 I:1000 C:  11203 Min:     92 Act:  623"
            rows += " Avg:  775 Max:    3516\n"
        self.assertEqual(rows, pasted.clean(rows))

    def test_a_prefix_that_differs(self):
        text = "".join(
            f"step {at} says {line}\n"
            for at, line in enumerate((STREAM_CLASSIC + RR_BANNER.format(0)).splitlines())
        )
        said = refusal(self, text)
        self.assertIn("2 banners of tests stand behind other words", said)
        self.assertIn("each test in a file of its own", said)

    def test_a_refusal_names_all_tools(self):
        fio = FIO_2.format("2.0.8").partition("issued")[0]
        said = refusal(self, fio + STREAM_CLASSIC[:200] + "\n")
        self.assertIn("cut off", said)
        self.assertIn("lines of several tools (fio, netperf)", said)
        self.assertIn("a file of its own", said)
        self.assertNotIn("several tools", refusal(self, fio))

    def test_a_name_amid_letters_of_another_script(self):
        text = "\u91c7\u7528cyclictest\u6d4b\u8bd5: 81 us\n"
        self.assertIn("it names cyclictest, whose own output", refusal(self, text))


class EscapedMarkdownTests(testcase.TestCase):
    SUMMARY = (
        "cyclictest (24h):\n>\\#  Total: 032033055\n>\n>\\# Min Latencies: 00014\n>\n"
        ">\\# Avg Latencies: 00019\n>\n>\\# Max Latencies: 00081\n\nlatmus (24h):\n"
        ">\\# libevl version: evl.0.47\n>\\# max latency: 20.997\n"
    )

    def test_signs_that_an_editor_has_escaped(self):
        kind, report = read(self.SUMMARY)
        self.assertEqual("cyclictest", kind)
        shown = figures(report)
        self.assertEqual(
            (14, 19, 81), tuple(shown[f"latency_{name}"] for name in ("min", "mean", "max"))
        )
        self.assertIn("latmus", report.remarks["other_tools"])
        self.assertIn("percentiles: ", "\n".join(report.left_out))

    def test_a_table_of_streams(self):
        rows = IPERF2_UDP.format("749 MBytes  628 Mbits/sec", 12)
        escaped = rows.replace("[", "\\[").replace("]", "\\]")
        self.assertEqual(read(rows)[1].readings, read(escaped)[1].readings)

    def test_other_backslashes_stay(self):
        for text in ("$ fio --name=a \\\n --rw=read\n", "C:\\.tools\\fio.exe\n", '"a\\[b"\n'):
            self.assertEqual(text.replace("\n --", "\n--"), pasted.clean(text))


STREAMS = """\
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  4.59 GBytes  3.94 Gbits/sec    0            sender
[  5]   0.00-10.00  sec  4.59 GBytes  3.94 Gbits/sec                  receiver
"""


class CutStreamTests(testcase.TestCase):
    def test_a_text_that_ends_within_the_line_of_another_stream(self):
        line = "[  7]   0.00-10.00  sec  3.11 GBytes  2.67 Gbits/sec    0            sender"
        for end in range(1, len(line)):
            with self.subTest(line[:end]):
                self.assertIn("cut off", refusal(self, STREAMS + line[:end]))

    def test_other_lines_behind_the_totals(self):
        for line in ("", "[1] https://example.org", "[user@host ~]$ exit", "[fin]"):
            with self.subTest(line):
                self.assertEqual(3940, figures(read(STREAMS + line)[1])["throughput"])
