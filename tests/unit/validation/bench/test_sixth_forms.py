# SPDX-License-Identifier: Apache-2.0
"""Kinds that the sixth to the eighth batch of outputs showed, each with its neighbours."""

import json

from nova_perf_tuning.validation.bench import base, pasted, recognition
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs


def shown(text):
    """Return the report of a text and its figures by their names."""
    tool = recognition.recognise(pasted.decode(text.encode()))
    report = recognition.report(tool, pasted.decode(text.encode()))
    return report, {reading.metric: reading.value for reading in report.readings}


def refusal(test, text):
    error = test.assertRaises(
        base.BenchmarkOutputError, recognition.recognise, pasted.decode(text.encode())
    )
    return str(error)


def field(name):
    batch = 6
    if int(name) > 220:
        batch = 8
    elif int(name) > 190:
        batch = 7
    return pasted.decode(test_field_outputs.output(f"outputs{batch}/{name}"))


def fio(seconds=10.0, **options):
    """Return fio's JSON of a job that writes, with its options."""
    times = {"min": 1000, "max": 9000, "mean": 2000.0, "percentile": {"99.000000": 8000}}
    way = {"bw_bytes": 4096000, "iops": 1000.0, "runtime": 1000 * seconds, "total_ios": 9}
    way |= {"clat_ns": times, "lat_ns": times}
    job = {"jobname": "j", "error": 0, "job options": options, "write": way}
    return json.dumps({"fio version": "fio-3.36", "jobs": [job]}, indent=1)


class CutJsonTest(testcase.TestCase):
    def test_wherever_a_document_ends(self):
        """A document that ends is called cut off, one that is wrong within is not."""
        for whole in (field("158"), field("176"), fio()):
            for place in range(len(whole) // 2, len(whole.rstrip()) - 3, 97):
                with self.subTest(end=whole[place - 20 : place]):
                    self.assertIn("cut off", refusal(self, whole[:place]))
        wrong = field("158").replace('"groupid" : 0,', '"groupid" : 0;')
        self.assertIn("no acceptable JSON", refusal(self, wrong))

    def test_wherever_a_document_begins(self):
        """A text that begins within a document says so, whichever member is its first."""
        lines = fio().splitlines(keepends=True)
        for place in range(1, len(lines) - 1):
            rest = "".join(lines[place:])
            if rest.lstrip()[0] in '"' and "{" not in rest:
                with self.subTest(rest[:40]):
                    error = self.assertRaises(
                        base.BenchmarkOutputError, recognition.load_reader("fio").report, rest
                    )
                    self.assertIn("the JSON has no beginning; give all of it", str(error))

    def test_what_to_do(self):
        self.assertIn("in line 52; give all of it", refusal(self, field("156")))


class FioTest(testcase.TestCase):
    def test_jobs_that_may_stay_in_the_page_cache(self):
        for options, cached in (
            ({"rw": "write"}, True),
            ({"rw": "randread", "ioengine": "io_uring", "direct": "0"}, True),
            ({"rw": "write", "direct": "1"}, False),
            ({"rw": "write", "fdatasync": "1"}, False),
            ({"rw": "write", "end_fsync": "1"}, False),
            ({"rw": "write", "ioengine": "rbd"}, False),
            ({}, False),
        ):
            with self.subTest(options):
                self.assertEqual(cached, "page_cache" in shown(fio(**options))[0].remarks)

    def test_jobs_of_less_than_a_second(self):
        for seconds, short in ((0.598, True), (1.0, False)):
            self.assertEqual(short, "short" in shown(fio(seconds, rw="write"))[0].remarks)

    def test_the_report_beside_the_json(self):
        said = "fio's normal output beside the JSON"
        both = field("157")
        self.assertIn(said, shown(both)[0].left_out)
        self.assertNotIn(said, shown(both[: both.index("\n\n") + 1])[0].left_out)

    def test_a_run_without_a_result(self):
        """It is named; what it lacks is not said of the one before."""
        one, two = field("153"), field("193")
        head = two[two.index("write_iops:") :]
        for text in (one + head, two):
            self.assertIn("'write_iops', run 2 of", refusal(self, text))
        self.assertIn("no line of a finished job", refusal(self, head))

    def test_syncs_that_no_write_waits_for(self):
        """Of text the fourth count of what was issued, of JSON the number of its times."""
        text = field("194")
        for count, code in (
            ("1", "few_syncs"),
            ("103", "synchronised"),
            ("10240", "synchronised"),
        ):
            remarks = shown(text.replace("10240,0,1 ", f"10240,0,{count} "))[0].remarks
            self.assertEqual([code], sorted({"few_syncs", "synchronised"} & set(remarks)))
        document = json.loads(fio(rw="write"))
        times = {"min": 1000, "max": 9000, "mean": 2000.0, "N": 1}
        document["jobs"][0]["sync"] = {"lat_ns": times}
        document["jobs"][0]["write"]["total_ios"] = 1000
        self.assertIn("few_syncs", shown(json.dumps(document))[0].remarks)
        del times["N"]
        self.assertIn("synchronised", shown(json.dumps(document))[0].remarks)


class IperfTest(testcase.TestCase):
    UDP2 = """\
Client connecting to 192.0.2.1, UDP port 5001
[  3] local 192.0.2.2 port 40000 connected with 192.0.2.1 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec
[  3] Sent 893 datagrams
[  3] Server Report:
[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec   0.050 ms    3/  893 (0.34%)
[  3]  0.0-10.0 sec  2 datagrams received out-of-order
"""

    def test_a_jitter_longer_than_its_test_is_none(self):
        for jitter, there in (("0.050", True), ("10001.0", False)):
            report, figures = shown(self.UDP2.replace("0.050", jitter))
            self.assertEqual(there, "jitter" in figures)
            self.assertEqual(
                not there, any(line.startswith("jitter:") for line in report.left_out)
            )
        self.assertNotIn("jitter", shown(field("159"))[1])

    def test_a_jitter_of_json(self):
        total = {"packets": 10, "lost_packets": 0, "bytes": 1000, "seconds": 0.1}
        total |= {"jitter_ms": 28487.0, "bits_per_second": 80000}
        cpu = {"host_total": 1, "remote_total": 1}
        test = {"protocol": "UDP", "num_streams": 1, "blksize": 100}
        start = {"connecting_to": {}, "test_start": test, "version": "iperf 3.1"}
        end = {"sum": total, "cpu_utilization_percent": cpu}
        for jitter, there in ((28487.0, False), (0.5, True)):
            total["jitter_ms"] = jitter
            report, figures = shown(json.dumps({"start": start, "end": end}))
            self.assertEqual(there, "jitter" in figures)
            self.assertEqual(
                not there, any(line.startswith("jitter:") for line in report.left_out)
            )

    def test_a_counter_at_its_end_counts_nothing(self):
        """Of iperf3's text and JSON, and of iperf 2; one datagram less is a count."""
        text = field("232")
        count = text.replace("0/2147483647", "0/2147483646").replace("1338478610", "1338")
        report, figures = shown(count)
        self.assertEqual(0.0, figures["lost"])
        self.assertIn("packets_per_second", figures)
        report, figures = shown(text)
        self.assertEqual({"throughput": 1000.0, "jitter": 0.007}, figures)
        self.assertNotIn("rate_computed", report.remarks)

        total = "[  3]  0.0-10.0 sec  1.25 GBytes  1.07 Gbits/sec   0.01 ms    0/{} (0%)\n"
        head = "Server listening on UDP port 5001\n"
        _report, figures = shown(head + total.format(2**31 - 2))
        self.assertIn("lost_share", figures)
        report, figures = shown(head + total.format(2**31 - 1))
        self.assertEqual({"throughput", "transferred", "jitter"}, set(figures))
        self.assertIn("the count of all is at its end", "\n".join(report.left_out))

    def test_datagrams_out_of_order(self):
        """iperf3 prints them as iperf 2 does: they are no other tool's."""
        report = shown(field("162"))[0]
        self.assertNotIn("other_tools", report.remarks)
        self.assertIn("2 datagrams out of order", shown(self.UDP2)[0].left_out)

    def test_a_server_report_is_in_a_clients_text(self):
        """Without its head, too; but what the sum of several streams lacks, it lacks."""
        text = self.UDP2
        headless = text[text.index("[ ID]") :]
        report, figures = shown(headless)
        self.assertEqual(shown(text)[1], figures)
        self.assertEqual("UDP", report.workload["protocol"])
        rows = headless.replace("[  3]", "[  4]")
        self.assertIn("no [SUM]", refusal(self, headless + rows))
        alone = headless[: headless.index("[  3] Server")]
        self.assertIn("the head is missing", refusal(self, alone))

    def test_columns_of_the_enhanced_output(self):
        head = "Interval       Transfer     Bandwidth"
        for columns, said in (
            (
                "Write/Err  Rtry     Cwnd/RTT(var)        NetPwr",
                "Write/Err, Cwnd/RTT(var), NetPwr",
            ),
            ("Write/Err  PPS", "Write/Err, PPS"),
            (
                "Jitter   Lost/Total Datagrams Latency avg/min/max/stdev PPS",
                "Latency avg/min/max/stdev, PPS",
            ),
        ):
            text = self.UDP2.replace(head, f"{head}    {columns}")
            self.assertIn(f"columns of -e: {said}", shown(text)[0].left_out)

    def test_the_last_line_of_a_server(self):
        """The other side's line is 0 there: without its own the text is cut, with it nothing came."""
        text = field("198")
        self.assertIn("no whole line of the receiver", refusal(self, text))
        end = text.index("[  5]   0.00-10.04  sec  3.86")
        for rate, said in (("0.00 Bytes  0.00 bits", "nothing was transferred"), (None, "")):
            row = f"[  5]   0.00-10.04  sec  {rate or '3.86 GBytes  3.30 Gbits'}/sec  receiver"
            whole = text[:end].replace("3.86 GBytes", "") + row + "\n"
            if said:
                self.assertIn(said, refusal(self, whole))
            else:
                self.assertEqual(3300, shown(whole)[1]["throughput"])

    def test_events_without_a_result(self):
        for event in ("start", "interval", "end"):
            said = refusal(self, f'{{"event":"{event}","data":{{}}}}\n')
            self.assertIn("iperf3: the output has no", said)

    def test_what_iperf3_says_beside_its_json(self):
        rate = {"bits_per_second": 1e9, "bytes": 1e9, "seconds": 8}
        end = {"sum_sent": rate, "sum_received": rate}
        end["cpu_utilization_percent"] = {"host_total": 1, "remote_total": 1}
        start = {"connecting_to": {}, "test_start": {"protocol": "TCP"}}
        text = json.dumps({"start": start, "end": end}) + "\n"
        self.assertNotIn("said", shown(text)[0].remarks)
        error = "iperf3: error - unable to send control message: Broken pipe\n"
        self.assertIn("Broken pipe", shown(text + error)[0].remarks["said"])


class OthersTest(testcase.TestCase):
    def test_histograms_that_lack_entries(self):
        """Wake-ups beyond a histogram are late, so that the mean says whether they are there."""
        whole = field("176")
        for mean, fits in (("2.0", False), ("3700.0", True)):
            text = whole.replace('"avg": 2.0', f'"avg": {mean}')
            report, figures = shown(text)
            with self.subTest(mean):
                self.assertEqual(fits, "latency_p99" in figures)
                self.assertEqual(fits, "beyond_histogram" in report.remarks)

    def test_a_unit_without_the_number_of_threads(self):
        """Indented as cyclictest prints it, it is no part of a document either."""
        text = json.dumps(json.loads(field("177")), indent=2)
        self.assertEqual(shown(field("177"))[1], shown(text)[1])

    def test_tracers_are_named(self):
        for text, name in (
            ("Operating System Noise\n", "osnoise top"),
            ("   Timer Latency\n", "timerlat top"),
            ("# rtla hwnoise -c 1\n", "hwnoise"),
        ):
            self.assertIn(f"rtla {name} is not read", refusal(self, text))

    def test_the_end_of_a_report_of_oslat(self):
        for line in ("Maximum:\t 37 38 (us)\n", "Max-Min:\t 36 37 (us) <3>\n"):
            self.assertIn("oslat: ", refusal(self, line))

    def test_reports_of_sysbench_without_their_beginning(self):
        self.assertIn("which test of sysbench", refusal(self, field("172")))
        named = "sysbench 1.0.20\n" + field("172")
        self.assertIn("of a test that is not read", refusal(self, named))

    def test_figures_in_bold(self):
        for text, plain in (
            ("a **1006 Mbits/sec** b", "a 1006 Mbits/sec b"),
            ("**x** and **y z**", "x and y z"),
            ("2 ** 3 and ***", "2 ** 3 and ***"),
        ):
            self.assertEqual(plain, pasted.clean(text))

    def test_runs_of_less_than_a_second(self):
        """Of every tool that shows how long it ran."""
        text = field("243")
        for seconds, short in (("0.2801", True), ("0.9999", True), ("1.0000", False)):
            report, _figures = shown(text.replace("0.2801", seconds))
            self.assertEqual(short, "short" in report.remarks, seconds)
        records = "2+0 records in\n2+0 records out\n"
        report, _figures = shown(records + "2097152 bytes (2.1 MB) copied, 0.004 s, 524 MB/s\n")
        self.assertIn("short", report.remarks)

    def test_files_that_may_stay_in_the_page_cache(self):
        text = field("242")
        for flags, cached in (("(none)", True), ("0", True), ("directio", False)):
            report, _figures = shown(text.replace("flags: (none)", f"flags: {flags}"))
            self.assertEqual(cached, "page_cache" in report.remarks, flags)

    def test_summaries_without_a_histogram_are_of_several_runs(self):
        self.assertIn("several outputs of cyclictest; keep one", refusal(self, field("239")))

    def test_hosts_before_lines(self):
        """As mininet prints them; markup of web pages is none of them."""
        text = "begin\n" + "".join(f"<h{at % 2}>: line {at}\n" for at in range(6))
        plain = "begin\n" + "".join(f"line {at}\n" for at in range(6))
        self.assertEqual(plain, pasted.clean(text))
        page = "".join(f"<h2>line {at}</h2>\n" for at in range(6))
        self.assertEqual(page, pasted.clean(page))

    def test_the_end_of_a_sentence_is_no_option(self):
        words = pasted.command("$ iperf3 -c host -l 5000.", "iperf3")
        self.assertEqual("5000", pasted.option(words, "-l"))
        self.assertEqual(["-o", "."], pasted.command("$ fio -o .", "fio"))

    def test_intervals_of_sysbench_alone(self):
        for line in (
            "[ 10s ] thds: 8 tps: 25.09 qps: 153.16 (r/w/o: 0.00/102.17/50.99) lat (ms,95%): 411.96",
            "[  10s] threads: 16, tps: 1385.03, reads: 19488.38, writes: 5540.11",
            "[ 1s ] reads: 0.00 MiB/s writes: 1.09 MiB/s fsyncs: 8829.31/s latency (ms,95%): 0.099",
            "[ 1s ] 5813.02 MiB/sec",
            "[ 10s ] thds: 8 eps: 7410.46 lat (ms,95%): 2.07",
        ):
            self.assertIn("single intervals alone", refusal(self, f"{line}\n{line}\n"))
        self.assertIn("events_per_second", shown(field("209"))[1])

    def test_a_score_belongs_to_the_copies_above_it(self):
        text = field("216")
        ours = text.index("Benchmark Run")
        self.assertIn("begins within a report", refusal(self, text))
        report, figures = shown(text[ours:].replace("Dhryst", "") + text[:ours])
        self.assertEqual("8", report.workload["copies"])
        self.assertAlmostEqual(1534.7, figures["score"], 1)
        self.assertNotIn("copies", shown(text[:ours])[0].workload)

    def test_a_mean_that_cannot_be_made(self):
        """Means of threads are weighed by their cycles: without these there is none, and no remark."""
        report = shown(field("213"))[0]
        self.assertNotIn("mean_computed", report.remarks)
        self.assertIn("mean_computed", shown(field("179"))[0].remarks)
