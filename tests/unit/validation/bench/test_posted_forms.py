# SPDX-License-Identifier: Apache-2.0
"""Forms of outputs as people post them: a right figure or one line that says why there is none."""

import json
import re

from nova_perf_tuning.validation.bench import base, pasted, recognition, unixbench
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs, test_forms_of_fio, test_parsers


def refusal(test, text):
    """Return the one line with which a posted text is refused."""
    error = test.assertRaises(base.BenchmarkOutputError, recognition.recognise, pasted.clean(text))
    test.assertNotIn("\n", str(error))
    return str(error)


def figures(text):
    report = recognition.recognise(text).checked_report(text)
    return {reading.metric: reading.value for reading in report.readings}


def unixbench_report(factor, printed=None):
    """Return a report whose results are so many times the baselines."""
    rows = [
        f"{test:40} {baseline:10.1f} {baseline * factor:12.1f} {10 * factor:8.1f}"
        for test, (_name, baseline, _unit) in unixbench.TESTS.items()
    ]
    score = f"System Benchmarks Index Score {printed or 10 * factor:50.1f}"
    return ["System Benchmarks Index Values  BASELINE  RESULT  INDEX", *rows, "=" * 8, score, ""]


class SeveralReportsOfUnixBenchTest(testcase.TestCase):
    def test_a_report_without_its_score_before_another(self):
        """The second report's results were shown as those of the text."""
        first, second = unixbench_report(40), unixbench_report(50)
        said = refusal(self, "\n".join(first[:10] + [""] + second))
        self.assertIn(
            "several reports: 'Dhrystone 2 using register variables' is in it twice", said
        )

    def test_parts_of_two_reports(self):
        """No test is there twice, and the score is that of one of them."""
        first, second = unixbench_report(40), unixbench_report(50)
        said = refusal(self, "\n".join(first[:7] + second[7:]))
        self.assertIn("the score 500.0 is of other results", said)
        self.assertIn("parts of several reports", said)

    def test_a_score_agrees_with_rounded_results(self):
        text = "\n".join(unixbench_report(40, printed=402.0))
        self.assertAlmostEqual(400, figures(text)["score"], 1)
        self.assertIn("other results", refusal(self, "\n".join(unixbench_report(40, 405.0))))


#: A job's line of fio --minimal, as an issue has it; its end is left out.
TERSE = (
    "3;fio-3.7;bio;0;0;28709340;159349;500;180166;2;1078053;720.835412;8307.158883;743;1632665;"
    "127194.504051;124259.989230;1.000000%=10158;5.000000%=24510;10.000000%=34340\n"
)
#: Rows of iperf -y C: two directions one after the other, streams with their sum, UDP with the server's report,
#: with intervals, of 2.1.9 and of 2.2.
ROWS = {
    "-r": "20140114124826,192.0.2.1,54402,192.0.2.2,5001,5,0.0-10.0,52551090176,42041052917\n"
    "20140114124826,192.0.2.1,5001,192.0.2.2,54402,4,0.0-10.0,52551090200,41999020136\n",
    "-P": "20101217164401,192.0.2.1,39413,192.0.2.2,5001,3,0.0-10.0,297533440,237990361\n"
    "20101217164401,192.0.2.1,39414,192.0.2.2,5001,4,0.0-10.0,297533440,237990361\n"
    "20101217164401,192.0.2.1,0,192.0.2.2,5001,-1,0.0-10.0,595066880,475980722\n",
    "-u": "20080807094252,192.0.2.1,32807,192.0.2.2,5001,4,0.0-3.0,395430,1048592\n"
    "20080807094252,192.0.2.2,5001,192.0.2.1,32807,4,0.0-3.0,395430,1048711,0.007,0,269,0.000,0\n",
    "-i 1": "20201210141801.881,2001:db8::1,47880,2001:db8::2,6789,3,0.0-1.0,1677852672,13422821376\n"
    "20201210141802.881,2001:db8::1,47880,2001:db8::2,6789,3,1.0-2.0,1980760064,15846080512\n",
    "2.1.9": "+0000:20240908113035.128,192.0.2.1,58256,192.0.2.2,5001,1,0.0-1.0,5220466748,41763733984,"
    "-1,-1,-1,-1,0,0\n",
    "2.2": "time,srcaddress,srcport,dstaddr,dstport,transferid,istart,iend,bytes,speed,writecnt,writeerr\n"
    "+0000:20250605191028.955,192.0.2.1,43380,192.0.2.2,6789,1,0.0,1.0,7817396288,62539170304,-1,-1\n",
}


class RowsForProgramsTest(testcase.TestCase):
    """fio's terse form and the rows of iperf 2 are refused with the option that helps."""

    def test_terse_fio(self):
        second = TERSE.replace("3;fio-3.7;", "2;") + "0;" * 30
        for text in (
            TERSE,
            2 * TERSE,
            TERSE.replace("\n", "\r\n"),
            f"# fio --name=a --rw=randread --bs=4k --minimal --runtime=5\n{TERSE}",
            f"terse_version_3;fio_version;jobname;groupid;error;read_kb;read_bandwidth\n{TERSE}",
            TERSE.replace("3;fio-3.7", "4;fio-3.19-45-gc650"),
            TERSE.replace("3;fio-3.7", "5;fio-3.33"),
            f"2023-08-01T10:00:00.123456789Z {TERSE}",
            second.replace("\n", ";"),
        ):
            with self.subTest(text):
                said = refusal(self, text)
                self.assertIn("fio: the terse form of fio is not read", said)
                self.assertIn("--output-format=json", said)
        failed = second.replace("\n", ";").replace("bio;0;0;", "bio;0;28;")
        self.assertIn("error 28, 'No space left on device'", refusal(self, failed))

    def test_rows_of_iperf(self):
        for form, rows in ROWS.items():
            stamped = "".join(f"2025-06-05T19:10:30.1Z {line}\n" for line in rows.splitlines())
            for text in (rows, f"$ iperf -c 192.0.2.2 -y C\n{rows}", stamped):
                with self.subTest(form):
                    said = refusal(self, text)
                    self.assertIn("the rows of -y C are not read, run it without -y", said)
                    self.assertIn("iperf -c HOST", said)


class PartsOfDocumentsTest(testcase.TestCase):
    """What jq cuts out of a document is refused with what is missing, and is no general riddle."""

    def test_parts_of_iperf3(self):
        document = json.loads(test_parsers.recorded("iperf3-two-streams.json"))
        end, start = document["end"], document["start"]
        without = {name: part for name, part in end.items() if name != "sum_received"}
        for part, missing in (
            (end, "start"),
            (end["sum_received"], "start"),
            ({"end": end}, "start"),
            (start["test_start"], "start"),
            ({"start": start}, "end"),
            ({"start": start, "end": without}, "sum_received"),
            ({"results": document}, "start"),
            ({"sum_sent": {"bits_per_second": 1999713884.75}}, "start"),
        ):
            with self.subTest(part=str(part)[:60]):
                said = refusal(self, json.dumps(part, indent=2))
                self.assertIn(f"iperf3: the output has no '{missing}", said)
                self.assertIn("a part of a document", said)
                self.assertIn("iperf3 -c HOST -J", said)

    def test_parts_of_fio(self):
        document, job = test_forms_of_fio.document()
        clat = job["read"]["clat_ns"]
        for part, missing in (
            (job, "jobs"),
            (job["read"], "jobs"),
            ([job], "jobs"),
            ({"jobs": [{"jobname": "a", "read": {"iops": 1892.9, "bw": 30287}}]}, "error"),
            ({"fio version": "fio-3.28", "jobs": [{"read": {"clat_ns": clat}}]}, "error"),
        ):
            with self.subTest(part=str(part)[:60]):
                said = refusal(self, json.dumps(part, indent=2))
                self.assertIn(f"fio: the output has no '{missing}'", said)
                self.assertIn("a part of a document", said)
                self.assertIn("--output-format=json", said)


class RecordedByOthersTest(testcase.TestCase):
    """Documents and texts as logs and tools have recorded them."""

    def bidirectional(self):
        document = json.loads(test_parsers.recorded("iperf3-two-streams.json"))
        for name in ("sum_sent", "sum_received"):
            back = {**document["end"][name], "bits_per_second": 5e9}
            document["end"][f"{name}_bidir_reverse"] = back
        return document

    def test_a_bidirectional_document_in_a_log(self):
        document = self.bidirectional()
        whole = figures(json.dumps(document))
        self.assertEqual(5000, whole["server_to_client_throughput"])
        self.assertNotIn("throughput", whole)
        text = json.dumps(document, indent=2)
        stamp = "2025-02-28T13:26:47.123456789Z"
        for form in (
            f"+ iperf3 -c h --bidir -J\niperf3 output: {text}\ndone\n",
            f"2025-02-28 13:26:47,123 INFO client result: {json.dumps(document)}\nINFO done\n",
            f"RESULT = {text}\n",
            "\n".join(f"{stamp} {line}" for line in text.split("\n")),
            "\n".join(f"Nov  9 14:25:27 node-1 bench[4711]: {line}" for line in text.split("\n")),
        ):
            with self.subTest(form[:40]):
                self.assertEqual(whole, figures(pasted.clean(form)))

    def test_texts_in_strings(self):
        """The general refusal named iperf 2, whose output was not in them."""
        document = json.dumps(self.bidirectional(), indent=2)
        text = test_parsers.recorded("sysbench-cpu.txt")
        lines = text.splitlines()
        records = [json.dumps({"log": f"{line}\n", "stream": "stdout"}) for line in lines]
        of_document = [json.dumps({"log": f"{line}\n"}) for line in document.split("\n")]
        listed = ",\n".join(f"    {json.dumps(line)}" for line in lines)
        for form in (
            "\n".join(records),
            "\n".join(of_document),
            f'ok: [host] => {{\n  "msg": [\n{listed}\n  ]\n}}\n',
            f'"stdout": {json.dumps(text)}\n',
        ):
            with self.subTest(form[:40]):
                said = refusal(self, form)
                self.assertIn("stands in strings of JSON", said)
                self.assertIn("jq -r", said)
        self.assertNotIn("strings", refusal(self, '"test","rps"\n"SET","162601.62"\n'))

    def test_iperf3_is_not_taken_for_iperf_2(self):
        for text in ("| iperf Done. |\n", "version: iperf 3.16\n"):
            with self.subTest(text):
                self.assertNotIn("names iperf", refusal(self, text))
        self.assertIn("names iperf,", refusal(self, "I ran iperf, and it was slow\n"))


IPERF3 = """Connecting to host 192.0.2.2, port 5201
[  5] local 192.0.2.1 port 46206 connected to 192.0.2.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  10.9 GBytes  9384 Mbits/sec  1234             sender
[  5]   0.00-10.04  sec  10.9 GBytes  9341 Mbits/sec                  receiver

iperf Done.
"""
#: Form -> what it makes of the numbers of a text.
COMMAS = {
    "decimal commas": lambda text: re.sub(r"(?<=[0-9])\.(?=[0-9])", ",", text),
    "commas between thousands": lambda text: re.sub(
        r"(?<![\d.,\w])([0-9]{1,3})([0-9]{3})(?=[.\s]|$)", r"\1,\2", text
    ),
}


class CommasTest(testcase.TestCase):
    """A comma is a decimal sign or stands between thousands: no number with one is read but by dd."""

    def test_no_other_figure_of_any_output(self):
        refused = 0
        for name, (kind, _metrics) in test_field_outputs.READ.items():
            text = pasted.decode(test_field_outputs.output(name))
            tool = recognition.load_reader(kind)
            whole = {round(reading.value, 6) for reading in tool.report(text).readings}
            for form, change in COMMAS.items():
                try:
                    report = tool.checked_report(pasted.clean(change(text)))
                except base.BenchmarkOutputError:
                    refused += 1
                    continue
                shown = {round(reading.value, 6) for reading in report.readings}
                with self.subTest(name=name, form=form):
                    self.assertEqual(set(), shown - whole)
        self.assertGreater(refused, 100)

    def test_a_refusal_names_the_comma(self):
        sysbench = test_parsers.recorded("sysbench-cpu.txt")
        events = re.search(r"total number of events: +([0-9]+)", sysbench)[1]
        for text, said in (
            (IPERF3.replace("9341", "9,341"), "'9,341 Mbits/sec' has a comma"),
            (IPERF3.replace("9384 M", "9,38 G").replace("9341 M", "9,34 G"), "'9,38 Gbits/sec'"),
            (IPERF3.replace(" 1234 ", " 1,234 "), "'1,234 sender' for retransmits"),
            (COMMAS["decimal commas"](sysbench), "has a comma"),
            (sysbench.replace(events, f"{events[:-3]},{events[-3:]}"), "has a comma"),
            (sysbench.replace(events, f"{events[:-3]}.{events[-3:]}"), "no whole figure"),
        ):
            with self.subTest(said):
                self.assertIn(said, refusal(self, text))

    def test_decimal_commas_of_dd(self):
        text = "1024+0 Datensätze ein\n1024+0 Datensätze aus\n"
        text += "1073741824 bytes (1,1 GB, 1,0 GiB) copied, 1,234 s, 870 MB/s\n"
        text += "\nreal\t0m1,240s\nuser\t0m0,004s\nsys\t0m0,502s\n"
        self.assertAlmostEqual(870.13, figures(text)["throughput"], 2)
        said = refusal(self, text.replace("870 MB/s", "0,87 MB/s"))
        self.assertIn("its rate contradicts", said)
        self.assertNotIn("LC_ALL", said)
        self.assertIn(
            "no whole result", refusal(self, text.replace("1073741824", "1,073,741,824"))
        )

    def test_lines_of_fio_that_cannot_be_read(self):
        """A latency with a comma was left out, and the text said to have none."""
        text = pasted.decode(test_field_outputs.output("outputs1/02"))
        clat = re.search(r"^clat \(.*$", text, re.MULTILINE)[0]
        said = refusal(self, text.replace(clat, clat.replace("max=", "max=1,")))
        self.assertIn("the line 'clat (", said)
        row = re.search(r"^\|.*99\.00th=\[.*$", text, re.MULTILINE)[0]
        cut = text.replace(row, row.replace("99.00th=[", "99.00th=[1,"))
        report = recognition.recognise(cut).checked_report(cut)
        self.assertIn("percentiles of the line", "\n".join(report.left_out))


class KeysBelowABannerTest(testcase.TestCase):
    TEXT = """MIGRATED {} TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to localhost () port 0 AF_INET : demo
RT_LATENCY=-1.000
P99_LATENCY=32
THROUGHPUT=91326.96
THROUGHPUT_UNITS=10^6bits/s
"""

    def test_the_banner_says_which_test_it_is(self):
        """Without PROTOCOL among the keys of -k every test was taken for TCP from the client."""
        for name, kind, direction in (
            ("TCP STREAM", "netperf", "client to server"),
            ("TCP MAERTS", "netperf", "server to client"),
            ("UDP STREAM", "netperf_udp", None),
        ):
            text = self.TEXT.format(name)
            tool = recognition.recognise(text)
            report = tool.checked_report(text)
            with self.subTest(name):
                self.assertEqual(kind, tool.kind)
                self.assertEqual(direction, report.workload.get("direction"))
                self.assertEqual(91326.96, report.readings[0].value)
                self.assertNotIn("protocol_unknown", report.remarks)
        self.assertIn("of a SCTP_STREAM test", refusal(self, self.TEXT.format("SCTP STREAM")))


#: Reports of tools that are not read, as issues have them.
OTHERS = {
    "wrk": r"""
    Req/Sec   417.69    650.51     5.44k    92.71%
  78676 requests in 30.01s, 516.52MB read
  Socket errors: connect 0, read 0, write 0, timeout 652
Requests/sec:   2622.02
Transfer/sec:     17.21MB
""",
    "memtier": r"""
Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency   p99.9 La
---------------------------------------------------------------------------------------------------------
Sets       164327.74          ---          ---         0.31298         0.28700         0.79100         1.
Gets       164327.74         0.00    164327.74         0.31325         0.28700         0.77500         0.
Totals     328655.48         0.00    164327.74         0.31312         0.28700         0.78300         0.
""",
    "redis-csv": r"""
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_la
"SET","162601.62","0.169","0.072","0.167","0.223","0.279","0.991"
"GET","165837.48","0.163","0.064","0.159","0.215","0.255","0.719"
""",
    "pgbench": r"""
number of threads: 4
duration: 10 s
number of transactions actually processed: 28776
latency average = 2.777 ms
tps = 2877.600000 (without initial connection time)
""",
    "sockperf": r"""
sockperf: Test ended
sockperf: ====> avg-latency=28.531 (std-dev=2.107)
sockperf: Summary: Latency is 28.531 usec
sockperf: ---> <MAX> observation =  120.112
sockperf: ---> percentile 99.999 =  99.112
""",
    "qperf": r"""
$ qperf 10.0.0.2 tcp_bw tcp_lat udp_lat
tcp_bw:
    bw  =  1.17 GB/sec
tcp_lat:
    latency  =  27.4 us
""",
    "stream": r"""
STREAM version $Revision: 5.10 $
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           23041.7     0.007035     0.006944     0.007290
Scale:          13345.1     0.012105     0.011990     0.012381
""",
    "mlc": r"""
Measuring idle latencies (in ns)...
                Numa node
Numa node            0       1
       0          81.3   139.6
       1         138.6    82.0
""",
    "stressng": r"""
stress-ng: info:  [2434] setting to a 60 second run per stressor
stress-ng: metrc: [2434] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/
stress-ng: metrc: [2434]                           (secs)    (secs)    (secs)   (real time) (usr+sys time
stress-ng: metrc: [2434] cpu               81234     60.00    239.81      0.02      1353.90         338.7
""",
    "hackbench": r"""
Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)
Each sender will pass 100 messages of 100 bytes
Time: 0.123
""",
    "ping": r"""
PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0,345 ms
--- 10.0.0.2 ping statistics ---
1 packets transmitted, 1 received, 0% packet loss, time 0ms
rtt min/avg/max/mdev = 0,345/0,345/0,345/0,000 ms
""",
    "ioping": r"""
--- /dev/sda (block device 100 GiB) ioping statistics ---
9 requests completed in 4.99 ms, 36 KiB read, 1.80 k iops, 7.04 MiB/s
min/avg/max/mdev = 421.1 us / 554.6 us / 702.1 us / 80.9 us
""",
    "perf-bench": r"""

     Total time: 5.123 [sec]

       5.123456 usecs/op
         195182 ops/sec
""",
    "dbench": r"""
==================
= Dbench Summary =
==================
Random Read/Write IOPS: 75.7k/59.7k. BW: 523MiB/s / 500MiB/s
Average Latency (usec) Read/Write: 183.07/76.91
""",
}


class OtherToolsTest(testcase.TestCase):
    def test_no_reader_takes_their_reports(self):
        for tool, text in OTHERS.items():
            for form in (
                text,
                text.replace("\n", "\r\n"),
                text.replace("\n", "\n2026-11-29 10:00:00 "),
            ):
                with self.subTest(tool):
                    said = refusal(self, form)
                    self.assertIn("no benchmark reads this output", said)
                    self.assertIn("outputs of fio, iperf3", said)


class OwnErrorTest(testcase.TestCase):
    """What a tool says of its own failure comes before what the text lacks."""

    def test_a_text_without_an_output(self):
        for line in (
            "iperf3: error - unable to receive control message: Connection reset by peer",
            "fio: failed parsing runtime=1x",
            "netperf: could not open the control connection",
        ):
            program, _, said = line.partition(": ")
            command = {"netperf": "netperf -H 192.0.2.7"}.get(program, f"{program} --debug -c x")
            with self.subTest(program):
                text = f"$ {command}\nsend_parameters:\n{{\n  'tcp': true\n}}\n{line}\n"
                self.assertIn(f"{program}: it said '{said}'; ", refusal(self, text))

    def test_a_reader_that_is_named(self):
        text = '{\n "tcp": true\n}\niperf3: error - unable to write to stream socket: reset\n'
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.load_reader("iperf3").checked_report, text
        )
        said = "iperf3: it said 'error - unable to write to stream socket: reset'; the output has"
        self.assertIn(said, str(error))
