# SPDX-License-Identifier: Apache-2.0
"""Kinds of outputs that the tenth batch of the field has shown: debugging, interrupted runs, missing units."""

from nova_perf_tuning.validation.bench import base, pasted, recognition
from tests.support import testcase

TPCC_OF_ANOTHER = """\
|New-Order| sc: 1182  lt: 0  fl: 13
|Payment| sc: 1155  lt: 0  fl: 0
in 720 sec.
<Constraint Check> (all must be [OK])
   Payment: 43.0% (>=43.0%)  [Ok]
<TpmC>
98 Tpmc
"""


def read(text):
    """Return the kind and the report of a paste that names no tool."""
    shown = pasted.decode(text.encode())
    tool = recognition.recognise(shown)
    return tool.kind, recognition.report(tool, shown)


def figures(report):
    return {reading.metric: reading.value for reading in report.readings}


class AnotherProgramTests(testcase.TestCase):
    def test_a_report_that_looks_like_tpcc_mysqls_is_not_cut_off(self):
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.recognise, TPCC_OF_ANOTHER
        )
        self.assertIn("not a form of tpcc-mysql's report", str(error))
        self.assertNotIn("cut off", str(error))

    def test_tpcc_mysqls_own_report_without_its_end_is(self):
        own = "[0] sc:88 lt:38 rt:0 fl:0\n in 60 sec.\n<Constraint Check> (all must be [OK])\n"
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, own)
        self.assertIn("cut off", str(error))


IPERF3_DEBUGGING = """\
PS C:\\temp> .\\iperf3.exe -c 192.0.2.1 -d
send_parameters:
{
        "tcp":  true,
        "omit": 0,
        "time": 2,
        "parallel":     1,
        "len":  131072,
        "client_version":       "3.1.3"
}
Connecting to host 192.0.2.1, port 5201
SO_SNDBUF is 212992
[  4] local 192.0.2.2 port 62963 connected to 192.0.2.1 port 5201
[ ID] Interval           Transfer     Bandwidth
[  4]   0.00-1.00   sec   372 MBytes  3.12 Gbits/sec
send_results
{
        "cpu_util_total":       60.341746,
        "streams":      [{
                        "id":   1,
                        "bytes":        782237696,
                        "retransmits":  -1
                }]
}
[  4]   1.00-2.00   sec   374 MBytes  3.13 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bandwidth
[  4]   0.00-2.00   sec   746 MBytes  3.13 Gbits/sec                  sender
[  4]   0.00-2.00   sec   746 MBytes  3.12 Gbits/sec                  receiver

iperf Done.
"""


class DebuggingTests(testcase.TestCase):
    def test_json_of_iperf3s_debugging_is_no_report(self):
        kind, report = read(IPERF3_DEBUGGING)
        self.assertEqual("iperf3", kind)
        self.assertEqual(
            {"throughput": 3120.0, "sent_throughput": 3130.0},
            {name: value for name, value in figures(report).items() if "through" in name},
        )
        self.assertNotIn("retransmits", figures(report))
        self.assertIn("what -d (--debug) has printed between the lines", report.left_out)
        for fact, value in (
            ("protocol", "TCP"),
            ("version", "3.1.3"),
            ("block size", "131072 bytes"),
            ("direction", "client to server"),
        ):
            self.assertEqual(value, report.workload[fact])

    def test_each_test_has_the_parameters_before_its_connection(self):
        other = IPERF3_DEBUGGING.replace('"len":  131072', '"len":  8192')
        _kind, report = read(IPERF3_DEBUGGING + other)
        self.assertIn("block size 131072 bytes", report.workload["test1"])
        self.assertIn("block size 8192 bytes", report.workload["test2"])

    def test_a_text_that_ends_within_the_debugging_is_cut_off(self):
        text = IPERF3_DEBUGGING.partition('"retransmits"')[0]
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
        self.assertIn("its intervals end at 1 s", str(error))

    def test_a_datagrams_test_is_known_by_its_parameters(self):
        text = IPERF3_DEBUGGING.replace('"tcp"', '"udp"')
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.load_reader("iperf3").report, text
        )
        self.assertIn("other protocol", str(error))


IPERF2_STREAMS = """\
------------------------------------------------------------
Client connecting to 10.0.0.4, TCP port 5001
------------------------------------------------------------
[  3] local 10.0.0.5 port 34336 connected with 10.0.0.4 port 5001
[  4] local 10.0.0.5 port 34338 connected with 10.0.0.4 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0-10.0 sec   703 MBytes   589 Mbits/sec
[  4]  0.0-10.1 sec   737 MBytes   612 Mbits/sec
[SUM]  0.0-10.1 sec  1.41 GBytes  1.19 Gbits/sec
"""
IPERF3_STREAMS = """\
Connecting to host 192.0.2.1, port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  3.71 GBytes  3.19 Gbits/sec    0             sender
[  5]   0.00-10.00  sec  3.71 GBytes  3.19 Gbits/sec                  receiver
[  7]   0.00-10.00  sec  3.77 GBytes  3.24 Gbits/sec    0             sender
[  7]   0.00-10.00  sec  3.77 GBytes  3.24 Gbits/sec                  receiver
[SUM]   0.00-10.00  sec  7.48 GBytes  6.43 Gbits/sec    0             sender
[SUM]   0.00-10.00  sec  7.48 GBytes  6.43 Gbits/sec                  receiver

iperf Done.
"""


class InterruptedTests(testcase.TestCase):
    def test_a_line_behind_keys_is_read(self):
        """A terminal shows ^C before the line that is printed next, of any tool."""
        for text in (
            IPERF2_STREAMS.replace("[  4]  0.0", "^C[  4]  0.0"),
            IPERF2_STREAMS.replace("[  4]  0.0", "^C^C [  4]  0.0"),
        ):
            _kind, report = read(text)
            self.assertEqual("2", report.workload["streams"])
            self.assertIn("interrupted", report.remarks)
            self.assertNotIn("different_lengths", report.remarks)
        _kind, whole = read(IPERF2_STREAMS + "^C\n")
        self.assertNotIn("interrupted", whole.remarks)

    def test_quoted_lines_behind_keys_are_read(self):
        text = "\n".join(
            f"> {line}" for line in ["^CT: 0", "^C", "^Z fio: terminating on signal 2"]
        )
        self.assertEqual(
            "^C\nT: 0\n^C\n^C\nfio: terminating on signal 2", pasted.decode(text.encode())
        )

    def test_streams_of_different_lengths_of_iperf2_are_not_judged(self):
        hung = IPERF2_STREAMS.replace("0.0-10.1", "0.0-80.6")
        _kind, report = read(hung)
        self.assertIn("1 of 2 streams ended after 80.6 s", report.remarks["different_lengths"])
        self.assertEqual([], [reading for reading in report.readings if reading.primary])
        _kind, whole = read(IPERF2_STREAMS)
        self.assertNotIn("different_lengths", whole.remarks)

    def test_streams_of_different_lengths_of_iperf3_are_not_judged(self):
        self.assertNotIn("different_lengths", read(IPERF3_STREAMS)[1].remarks)
        lines = IPERF3_STREAMS.split("\n")
        lines[4:6] = [line.replace("0.00-10.00", "0.00-4.00 ") for line in lines[4:6]]
        _kind, report = read("\n".join(lines))
        self.assertIn("the others after 4 s", report.remarks["different_lengths"])
        self.assertEqual([], [reading for reading in report.readings if reading.primary])


UNREPORTED = """\
# iperf -c 192.0.2.1 -u -P 2
Client connecting to 192.0.2.1, UDP port 5001
Sending 1470 byte datagrams
[  3] local 192.0.2.2 port 37297 connected with 192.0.2.1 port 5001
[  4] local 192.0.2.2 port 50092 connected with 192.0.2.1 port 5001
[  3] WARNING: did not receive ack of last datagram after 10 tries.
[  4] WARNING: did not receive ack of last datagram after 10 tries.
[ ID] Interval        Transfer     Bandwidth
[  3] 0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec
[  3] Sent 893 datagrams
[  4] 0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec
[  4] Sent 892 datagrams
[SUM] 0.0-10.0 sec  2.50 MBytes  2.10 Mbits/sec
"""


class UnreportedTests(testcase.TestCase):
    def test_the_servers_missing_report_is_said(self):
        _kind, report = read(UNREPORTED)
        self.assertIn("no acknowledgement", report.remarks["no_server_report"])
        self.assertEqual(1785.0, figures(report)["sent"])
        self.assertNotIn("lost", figures(report))

    def test_the_count_of_all_streams_comes_first(self):
        _kind, report = read(f"{UNREPORTED}[SUM] Sent 1785 datagrams\n")
        self.assertEqual(1785.0, figures(report)["sent"])

    def test_it_is_said_without_a_warning_of_iperf2_too(self):
        lines = [line for line in UNREPORTED.split("\n") if "WARNING" not in line]
        _kind, report = read("\n".join(lines))
        self.assertIn("server's report is missing:", report.remarks["no_server_report"])

    def test_reports_of_some_streams_are_no_cut(self):
        one = (
            "[  3] Server Report:\n"
            "[  3] 0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec   0.010 ms    0/  893 (0%)\n"
        )
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.recognise, UNREPORTED + one
        )
        self.assertIn("no acknowledgement of the last datagram", str(error))


LATENCIES = """\
$ netperf -t TCP_RR -H 192.0.2.1 -l 5 -f m -- -k MEAN_LATENCY,P99_LATENCY,THROUGHPUT
MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0 AF_INET
P99_LATENCY=123
THROUGHPUT=75.78
MEAN_LATENCY=78.26
"""


class RequestsWithoutRateTests(testcase.TestCase):
    def test_latencies_are_shown_and_the_rate_is_left_out(self):
        kind, report = read(LATENCIES)
        self.assertEqual("netperf_rr", kind)
        self.assertEqual({"latency_mean": 78.26, "latency_p99": 123.0}, figures(report))
        self.assertEqual({"µs"}, {reading.unit for reading in report.readings})
        said = "\n".join(report.left_out)
        self.assertIn("'throughput' (75.78): its unit is not in the output", said)
        self.assertIn("TRANSACTION_RATE", said)

    def test_a_rate_in_megabits_is_no_rate_of_transactions(self):
        _kind, report = read(f"{LATENCIES}THROUGHPUT_UNITS=10^6bits/s\n")
        self.assertEqual(75.78, figures(report)["throughput"])
        self.assertEqual([], [reading for reading in report.readings if reading.primary])

    def test_without_latencies_the_refusal_says_what_is_missing(self):
        text = "\n".join(line for line in LATENCIES.split("\n") if "LATENCY=" not in line)
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
        self.assertIn("netperf_rr", str(error))
        self.assertIn("THROUGHPUT_UNITS", str(error))

    def test_the_reader_of_streams_names_that_of_requests(self):
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.load_reader("netperf").report, LATENCIES
        )
        self.assertIn("'bench parse netperf_rr' reads it", str(error))


FIO = """\
job: (g=0): rw=read, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1
fio-3.32
Starting 1 process

job: (groupid=0, jobs=1): err= 0: pid=1: Mon Jan  1 00:00:00 2024
  read: IOPS=3302, BW=12.9MiB/s (13.5MB/s)(129MiB/10005msec)
    clat (usec): min=98, max=30823, avg=301.96, stdev=867.00
     lat (usec): min=98, max=30823, avg=302.10, stdev=867.01
     issued rwts: total=33040,0,0,0 short=0,0,0,0 dropped=0,0,0,0
"""
UNKNOWN = "direct: the output does not say"


class DirectTests(testcase.TestCase):
    """Whether a job went round the page cache is not in fio's text, but in its command or job file."""

    def check_direct(self, before, value, cached=False, text=FIO):
        _kind, report = read(before + text)
        self.assertEqual(value, report.workload.get("direct"), before)
        unknown = any(said.startswith(UNKNOWN) for said in report.left_out)
        self.assertEqual(value is None, unknown, before)
        self.assertEqual(cached, "page_cache" in report.remarks, before)

    def test_the_text_alone_does_not_say(self):
        self.check_direct("", None)
        self.check_direct("$ fio --rw=read --bs=4k --name=job\n", None)

    def test_the_command_says(self):
        self.check_direct("$ fio --direct=1 --rw=read --name=job\n", "1")
        self.check_direct("# fio -direct 1 -rw=read -name=job\n", "1")
        self.check_direct("$ fio --rw=read --direct --name=job\n", "1")
        self.check_direct("$ fio --rw=read --name=job --direct\n", "1")
        self.check_direct("# fio -direct=0 -rw=read -name=job\n", "0", cached=True)
        self.check_direct("$ fio --buffered=1 --rw=read --name=job\n", "0", cached=True)
        self.check_direct("$ fio --direct=0 --fsync=1 --rw=write --name=job\n", "0")
        self.check_direct("$ fio --rw=read \\\n  --direct=1 \\\n  --name=job\n", "1")

    def test_a_job_file_says(self):
        self.check_direct("[global]\ndirect=1\n[job]\nrw=read\n\n", "1")
        self.check_direct("[job]\ndirect = 0\nrw=read\n\n", "0", cached=True)
        self.check_direct("[job]\nrw=read\ndirect=1\n[other]\nrw=write\n\n", None)
        self.check_direct("[global]\ndirect=1\n[job]\n[other]\ndirect=0\n\n", None)

    def test_the_command_of_the_next_run_is_not_of_this(self):
        _kind, report = read(f"{FIO}$ fio --direct=1 --rw=read --name=job\n{FIO}")
        self.assertNotIn("direct", report.workload["run1"])
        self.assertIn("direct 1", report.workload["run2"])

    def test_engines_without_a_page_cache_need_no_word(self):
        _kind, report = read(FIO.replace("psync", "rbd"))
        self.assertNotIn(UNKNOWN, "\n".join(report.left_out))
