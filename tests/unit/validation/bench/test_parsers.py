# SPDX-License-Identifier: Apache-2.0
"""Reading recorded outputs of every benchmark, and refusing everything else with a line that says why.

Of cyclictest there are made-up ones too, whose quantiles are known.
"""

import contextlib
import json
import pathlib
import statistics

import hypothesis
from hypothesis import strategies

from nova_perf_tuning import errors
from nova_perf_tuning.validation.bench import (
    base,
    fio,
    iperf3,
    netperf,
    own,
    pasted,
    plugins,
    recognition,
    rt_tests,
    sysbench,
    sysbench_reports,
    tracers,
)
from nova_perf_tuning.validation.bench.unixbench import UnixBench
from tests.support import testcase

DATA = pathlib.Path(__file__).parent / "data"


def recorded(name):
    """Return an output that the program printed on a Debian 12 machine."""
    return (DATA / name).read_text(encoding="utf-8")


GOOD = {
    iperf3.Iperf3: recorded("iperf3-two-streams.json"),
    fio.Fio: recorded("fio-two-jobs.json"),
    sysbench.Cpu: recorded("sysbench-cpu.txt"),
    iperf3.Packets: recorded("iperf3-udp.json"),
    own.System: recorded("own-system.json"),
    own.Himeno: recorded("own-himeno.json"),
    own.Memory: recorded("own-triad.json"),
    own.Request: recorded("own-request.json"),
    own.Connect: recorded("own-connect.json"),
    own.Smb: recorded("own-copy.json"),
    rt_tests.Cyclictest: recorded("cyclictest.json"),
    rt_tests.Oslat: recorded("oslat.txt"),
    tracers.HwLatency: recorded("hwlatdetect.txt"),
    tracers.TimerLatency: recorded("timerlat-hist.txt"),
    sysbench.Oltp: recorded("sysbench-oltp.txt"),
    sysbench.Tpcc: recorded("tpcc.txt"),
    netperf.Netperf: recorded("netperf-stream.txt"),
    UnixBench: recorded("unixbench-5.1.3.txt"),
}
FIGURES = (
    (
        iperf3.Iperf3,
        "iperf3-two-streams.json",
        {"throughput": 23411.294876627312, "retransmits": 6},
    ),
    (iperf3.Iperf3, "iperf3-two-streams.json", {"transferred": 2928738357 * 8 / 1e9}),
    (iperf3.Iperf3, "iperf3-reverse.json", {"throughput": 23410.493198656, "retransmits": 22}),
    (
        fio.Fio,
        "fio-two-jobs.json",
        {"iops": 32161.838162, "bandwidth": 526.939556, "requests": 32.194},
    ),
    (fio.Fio, "fio-two-jobs.json", {"latency_mean": 61.761542772, "latency_p99": 102.912}),
    (
        sysbench.Cpu,
        "sysbench-cpu.txt",
        {"events_per_second": 3052.87, "events": 3.058, "latency_p95": 0.34},
    ),
    (
        iperf3.Packets,
        "iperf3-udp.json",
        {"packets_per_second": (36360 - 17255) / 1.007681, "received": 19.105},
    ),
    (iperf3.Packets, "iperf3-udp.json", {"lost_share": 100 * 17255 / 36360}),
    (netperf.Netperf, "netperf-stream.txt", {"throughput": 12306.82}),
    (UnixBench, "unixbench-5.1.3.txt", {"dhrystone": 8893646.9, "shell8": 338.9}),
)
#: What a recorded output must not have become.
BROKEN = (
    (iperf3.Packets, "1222720", "0"),  # none arrived
    (iperf3.Packets, "1222720", "2327104"),  # more than was sent
    (fio.Fio, '"total_ios" : 32194', '"total_ios" : 0'),
    (sysbench.Cpu, "3052.87", "0.00"),
    *(
        (sysbench.Tpcc, f"condition {number}: 0", f"condition {number}: 3")
        for number in sysbench.CONDITIONS
    ),
    (sysbench.Tpcc, "tpcc condition 12: 0 violations\n", ""),
    (sysbench.Tpcc, "tpcc thread 1:", ""),
    (netperf.Netperf, "10^6bits/s", "KBytes/s"),
)


def figures(kind, text):
    return {reading.metric: reading.value for reading in kind().parse(text)}


class AnyOutputTest(testcase.TestCase):
    def test_recorded_figures(self):
        for kind, name, wanted in FIGURES:
            with self.subTest(kind):
                shown = figures(kind, recorded(name))
                for metric, value in wanted.items():
                    self.assertAlmostEqual(1, shown[metric] / value, 9, (kind, metric))

    def test_broken_output_is_refused(self):
        for kind, old, new in BROKEN:
            with self.subTest(kind):
                text = GOOD[kind].replace(old, new)
                self.assertNotEqual(GOOD[kind], text, (kind, old))
                self.assertRaises(base.BenchmarkOutputError, kind().parse, text)

    def test_one_figure_is_primary_and_the_work_is_there(self):
        for kind, text in GOOD.items():
            with self.subTest(kind):
                readings = kind().parse(text)
                [primary] = [reading for reading in readings if reading.primary]
                self.assertEqual(kind.primary, (primary.metric, primary.unit, primary.better))
                metrics = [reading.metric for reading in readings]
                self.assertEqual(len(metrics), len(set(metrics)))
                self.assertIn(kind.work_metric, [*metrics, None])

    def test_truncated_output_is_refused(self):
        for kind, text in GOOD.items():
            for length in {0, 1, len(text) // 3, len(text) // 2}:
                if issubclass(kind, netperf.Netperf | sysbench.Cpu) and length > 40:
                    continue  # its first lines have all that is judged
                with self.subTest(kind=kind.kind, length=length):
                    self.assertRaises(base.BenchmarkOutputError, kind().parse, text[:length])

    def test_foreign_and_longer_than_any(self):
        for kind, good in GOOD.items():
            for foreign in (
                *(text for another, text in GOOD.items() if another is not kind),
                good + " " * base.MAX_CHARACTERS,
                "[" * 100_000,
                '{"end":' * 100_000,
                '\x1b[2J{"error": "\\u001b[31m\\r\\nred\\u0007"}',
            ):
                with self.subTest(kind=kind.kind, begin=foreign[:10]):
                    error = self.assertRaises(base.BenchmarkOutputError, kind().parse, foreign)
                    self.assertTrue(str(error).isprintable() and len(str(error)) < 300, str(error))

    @hypothesis.given(strategies.sampled_from(list(GOOD)), strategies.data())
    @hypothesis.settings(deadline=None, max_examples=150)
    def test_any_number_in_the_place_of_another(self, kind, data):
        """Figures stay sane, or the output is refused: no traceback, nothing infinite."""
        text = GOOD[kind]
        at = data.draw(
            strategies.sampled_from([at for at, letter in enumerate(text) if letter.isdigit()])
        )
        new = data.draw(
            strategies.sampled_from(["", "-", "0", "9" * 20, "e400", "NaN", '"', "x", "1e9", " "])
        )
        self.check(kind, text[:at] + new + text[at + 1 :])

    @hypothesis.given(
        strategies.sampled_from([iperf3.Iperf3, fio.Fio, rt_tests.Cyclictest, rt_tests.Oslat]),
        strategies.data(),
        strategies.sampled_from(
            [None, True, "x", -1, float("nan"), 1e400, [], {}, [1], {"a": {}}]
        ),
    )
    @hypothesis.settings(deadline=None, max_examples=150)
    def test_any_value_in_the_place_of_another(self, kind, data, value):
        place = document = json.loads(GOOD[kind][GOOD[kind].index("{") :])
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(strategies.sampled_from(keys))
            if (
                isinstance(place[key], dict | list)
                and place[key]
                and data.draw(strategies.booleans())
            ):
                place = place[key]
                continue
            place[key] = value
            break
        self.check(kind, json.dumps(document))

    def check(self, kind, text):
        try:
            readings = kind().parse(text)
        except base.BenchmarkOutputError as error:
            self.assertTrue(str(error).isprintable() and len(str(error)) < 400)
            return
        for reading in readings:
            self.assertTrue(0 <= reading.value <= base.MAX_NUMBER, reading)
        with contextlib.suppress(base.BenchmarkOutputError):
            span = kind().span(text)
            self.assertTrue(span is None or span.seconds >= 0)


class SpanTest(testcase.TestCase):
    def test_fio_says_when_its_last_job_ended(self):
        self.assertEqual(
            base.Span(1.001, 1795236435.258), fio.Fio().span(recorded("fio-two-jobs.json"))
        )

    def test_others_end_with_their_program(self):
        for kind, seconds in (
            (sysbench.Cpu, 1.0004),
            (own.Request, 1.00001),
            (iperf3.Iperf3, 0.999555),
            (iperf3.Packets, 1.007058),
        ):
            with self.subTest(kind):
                span = kind().span(GOOD[kind])
                self.assertIsNone(span.until)
                self.assertAlmostEqual(seconds, span.seconds, 6)


class Iperf3Test(testcase.TestCase):
    benchmark = iperf3.Iperf3()

    def test_refused_connection_may_be_tried_again(self):
        good, refused = recorded("iperf3-two-streams.json"), recorded("iperf3-refused.json")
        for text in (refused, f'{{"outputs": [{good},{refused}]}}'):
            with self.subTest(text):
                self.assertRaises(base.NotReadyError, self.benchmark.parse, text)

    def test_other_errors_are_final(self):
        error = self.assertRaises(
            base.BenchmarkOutputError, self.benchmark.parse, '{"error": "unable\\nto bind"}'
        )
        self.assertNotIsInstance(error, base.NotReadyError)
        self.assertEqual("iperf3: unable to bind", str(error))

    def test_processes_are_summed_up(self):
        good = recorded("iperf3-two-streams.json")
        single, double = (
            figures(iperf3.Iperf3, good),
            figures(iperf3.Iperf3, f'{{"outputs": [{good},{good}]}}'),
        )
        for name in ("throughput", "transferred", "retransmits", "client_cpu"):
            with self.subTest(name):
                self.assertAlmostEqual(2 * single[name], double[name], 6)
        for broken in ("[]", "5", "[5]", f"[{good},"):
            with self.subTest(broken):
                self.assertRaises(
                    base.BenchmarkOutputError, iperf3.Iperf3().parse, f'{{"outputs": {broken}}}'
                )

    def test_packets_that_are_missing_at_the_end_are_lost_too(self):
        """As from a path that broke after a second of three: the receiver saw no gap and counts none as lost."""
        data = json.loads(recorded("iperf3-udp.json"))
        data["end"]["sum"].update(packets=29289, lost_packets=0)
        data["end"]["sum_received"].update(
            bytes=593216, seconds=3.051503, packets=9269, lost_packets=0
        )
        shown = figures(iperf3.Packets, json.dumps(data))
        self.assertAlmostEqual(9269 / 3.051503, shown["packets_per_second"], 3)
        self.assertAlmostEqual(100 * (1 - 9269 / 29289), shown["lost_share"])


class EqualKeysTest(testcase.TestCase):
    def test_no_one_of_equal_keys_is_taken(self):
        """iperf3 3.10 --bidir prints the sums of both directions under one name."""
        for kind, key in (
            (iperf3.Iperf3, '"sum_received":'),
            (fio.Fio, '"jobs" :'),
            (own.Memory, '"seconds":'),
        ):
            with self.subTest(kind):
                text = GOOD[kind].replace(
                    key, f'{key} {{"bits_per_second": 1, "bytes": 1}}, {key}', 1
                )
                error = self.assertRaises(base.BenchmarkOutputError, kind().parse, text)
                self.assertIn(f"{key.split()[0].strip(':')} twice".replace('"', "'"), str(error))
                self.assertEqual(kind is iperf3.Iperf3, "bidirectional" in str(error))

    def test_equal_keys_that_are_not_read_do_no_harm(self):
        """fio names 'filename' once for each line of a job file, in the options that it repeats."""
        options = '"job options" : {"filename" : "a", "filename" : "b"}, "jobs" :'
        text = GOOD[fio.Fio].replace('"jobs" :', options)
        self.assertEqual(figures(fio.Fio, GOOD[fio.Fio]), figures(fio.Fio, text))

    def test_the_first_of_two_errors_is_shown(self):
        """iperf 3.21 repeats the server's error as its own."""
        text = '{"start": {}, "error": "SERVER ERROR - too long", "error": "too long"}'
        error = self.assertRaises(base.BenchmarkOutputError, iperf3.Iperf3().parse, text)
        self.assertEqual("iperf3: SERVER ERROR - too long", str(error))

    def test_one_direction_of_two_is_not_taken(self):
        """iperf3 3.12 and later names the sums of the way back apart."""
        data = json.loads(GOOD[iperf3.Iperf3])
        end = data["end"]
        for name in ("sum_sent", "sum_received"):
            back = json.loads(json.dumps(end[name]))
            back["bits_per_second"] *= 2
            end[f"{name}_bidir_reverse"] = back
        text = json.dumps(data)
        report = iperf3.Iperf3().report(text)
        shown = {reading.metric: reading.value for reading in report.readings}
        forward, back = (
            shown["client_to_server_throughput"],
            shown["server_to_client_throughput"],
        )
        self.assertAlmostEqual(2 * forward, back)
        self.assertNotIn("throughput", shown)
        self.assertIn("both_directions", report.remarks)
        self.assertRaises(base.BenchmarkOutputError, iperf3.Iperf3().readings, 0, text, "")
        del end["sum_received_bidir_reverse"]
        self.assertRaises(base.BenchmarkOutputError, iperf3.Iperf3().parse, json.dumps(data))

    def test_one_sum_of_both_sides(self):
        """iperf3 before 3.7 has no 'sum_received' of UDP."""
        data = json.loads(GOOD[iperf3.Packets])
        del data["end"]["sum_received"]
        total = data["end"]["sum"]
        shown = figures(iperf3.Packets, json.dumps(data))
        arrived = total["packets"] - total["lost_packets"]
        self.assertAlmostEqual(arrived / total["seconds"], shown["packets_per_second"])


class DocumentsTest(testcase.TestCase):
    """Text and documents around the one that is read."""

    JSON = (
        iperf3.Iperf3,
        iperf3.Packets,
        fio.Fio,
        rt_tests.Cyclictest,
        own.System,
        own.Request,
        own.Memory,
    )

    def test_a_warning_behind_and_the_same_document_again(self):
        for kind in self.JSON:
            good = GOOD[kind]
            for text in (
                good + "\nwarning: a {strange} end\n",
                f"old kernel {{5.4}}\n{good}",
                f"{good}\n{good}",
            ):
                with self.subTest(kind=kind.kind, text=text[-30:]):
                    self.assertEqual(figures(kind, good), figures(kind, text))

    def test_documents_that_differ_are_several_reports(self):
        """As fio prints them with --status-interval."""
        good = GOOD[fio.Fio]
        later = good.replace('"total_ios" : 32194', '"total_ios" : 32195')
        error = self.assertRaises(
            base.BenchmarkOutputError, fio.Fio().parse, f"{good}\n{later}\n{good}"
        )
        self.assertIn("3 reports that differ", str(error))

    def test_events_one_a_line(self):
        """As iperf3 --json-stream prints them since 3.17."""
        good = json.loads(GOOD[iperf3.Iperf3])
        events = [
            {"event": "start", "data": good["start"]},
            {"event": "interval", "data": good["intervals"][0]},
        ]
        events.append({"event": "end", "data": good["end"]})
        text = "\n".join(map(json.dumps, events))
        self.assertEqual(figures(iperf3.Iperf3, GOOD[iperf3.Iperf3]), figures(iperf3.Iperf3, text))
        self.assertEqual(
            figures(iperf3.Iperf3, text), figures(iperf3.Iperf3, f"{text}\n{json.dumps(good)}")
        )
        failed = json.dumps({"event": "error", "data": "unable to connect: Connection refused"})
        self.assertRaises(base.NotReadyError, iperf3.Iperf3().parse, failed)
        self.assertRaises(
            base.BenchmarkOutputError,
            iperf3.Iperf3().parse,
            "\n".join(map(json.dumps, events[:2])),
        )

    def test_a_refusal_says_which_form_is_read(self):
        forms = {
            iperf3.Iperf3: "iperf3 -c HOST -J",
            iperf3.Packets: "iperf3 -c HOST -u -J",
            fio.Fio: "--output-format=json",
            rt_tests.Cyclictest: "cyclictest --json=-",
            rt_tests.Oslat: "oslat --json=-",
            sysbench.Cpu: "sysbench cpu run",
            sysbench.Oltp: "sysbench oltp_read_write run",
            netperf.Netperf: "-k THROUGHPUT,THROUGHPUT_UNITS",
            own.Himeno: "nova-perf-bench himeno",
        }
        for kind, form in forms.items():
            with self.subTest(kind):
                error = self.assertRaises(
                    base.BenchmarkOutputError, kind().parse, "throughput was good\n"
                )
                self.assertIn(form, str(error))

    def test_files_of_windows(self):
        for kind, good in GOOD.items():
            for encoding in ("utf-8", "utf-8-sig", "utf-16"):
                data = good.replace("\n", "\r\n").encode(encoding)
                with self.subTest(kind=kind.kind, encoding=encoding):
                    self.assertEqual(figures(kind, good), figures(kind, pasted.decode(data)))


class WorkloadTest(testcase.TestCase):
    """A figure of another workload than the benchmark's is refused, or a remark names the difference."""

    def test_another_workload_is_refused(self):
        server = json.loads(GOOD[iperf3.Iperf3])
        server["start"]["accepted_connection"] = server["start"].pop("connecting_to")
        held = GOOD[sysbench.Oltp].replace(
            "Initializing random", "Target transaction rate: 100/sec\nInitializing random"
        )
        others = (
            (iperf3.Iperf3, json.dumps(server), "server's"),
            (netperf.Netperf, GOOD[netperf.Netperf].replace("=TCP", "=UDP"), "(UDP) test"),
            (sysbench.Oltp, GOOD[sysbench.Oltp].replace("558", "0"), "'write'"),
        )
        error = self.assertRaises(base.BenchmarkOutputError, sysbench.Oltp().readings, 0, held, "")
        self.assertIn("held to 100 a second", str(error))
        for kind, text, words in others:
            with self.subTest(words):
                self.assertIn(
                    words, str(self.assertRaises(base.BenchmarkOutputError, kind().parse, text))
                )

    def test_a_remark_says_what_is_not_known(self):
        self.assertEqual({}, netperf.Netperf().remarks(GOOD[netperf.Netperf]))
        without = GOOD[netperf.Netperf].replace("PROTOCOL=TCP\n", "")
        self.assertIn("protocol_unknown", netperf.Netperf().remarks(without))
        self.assertEqual({}, iperf3.Iperf3().remarks(GOOD[iperf3.Iperf3]))
        held = json.loads(GOOD[iperf3.Iperf3])
        held["start"]["target_bitrate"] = 50_000_000
        self.assertIn("50 Mbit/s", iperf3.Iperf3().remarks(json.dumps(held))["held_to_a_rate"])


class SysbenchTest(testcase.TestCase):
    def test_the_report_of_version_1_1(self):
        text = (
            GOOD[sysbench.Cpu]
            .replace("total time: ", "time elapsed: ")
            .replace("General statistics", "Throughput")
        )
        self.assertNotEqual(text, GOOD[sysbench.Cpu])
        self.assertEqual(figures(sysbench.Cpu, GOOD[sysbench.Cpu]), figures(sysbench.Cpu, text))
        self.assertEqual(sysbench.Cpu().span(GOOD[sysbench.Cpu]), sysbench.Cpu().span(text))

    def test_percentiles_have_their_own_names(self):
        good = GOOD[sysbench.Cpu]
        for line, name in (("99th percentile", "latency_p99"), ("50th percentile", "latency_p50")):
            with self.subTest(line):
                shown = figures(sysbench.Cpu, good.replace("95th percentile", line))
                self.assertEqual(0.34, shown[name])
                self.assertNotIn("latency_p95", shown)
        none = "\n".join(line for line in good.splitlines() if "percentile" not in line)
        self.assertEqual(
            {"latency_p95"}, set(figures(sysbench.Cpu, good)) - set(figures(sysbench.Cpu, none))
        )

    def test_what_sysbench_cannot_show_is_left_out_with_a_remark(self):
        good = GOOD[sysbench.Oltp]
        capped = (
            good.replace("41.85", "100000.00")
            .replace("125.64", "283204.29")
            .replace("14.35", "172097.21")
        )
        self.assertNotIn("latency_p95", figures(sysbench.Oltp, capped))
        self.assertIn("95th", sysbench.Oltp().remarks(capped)["latency_beyond_histogram"])
        fast = good
        for value in ("1.79", "14.35", "125.64", "41.85"):
            fast = fast.replace(f" {value}\n", " 0.00\n")
        self.assertNotIn("latency_mean", figures(sysbench.Oltp, fast))
        self.assertIn("latency_too_short", sysbench.Oltp().remarks(fast))
        self.assertEqual({}, sysbench.Oltp().remarks(good))

    def test_latencies_that_contradict_each_other(self):
        for value in ("125.64", "14.35"):
            with self.subTest(value):
                text = GOOD[sysbench.Oltp].replace(value, "0.01")
                error = self.assertRaises(base.BenchmarkOutputError, sysbench.Oltp().parse, text)
                self.assertIn("contradict", str(error))

    def test_what_sysbench_said_is_named(self):
        for said in (
            "FATAL: The event queue is full.",
            "FATAL: mysql_stmt_store_result() returned error 1317",
        ):
            for kind in (sysbench.Cpu, sysbench.Oltp, sysbench.Tpcc):
                with self.subTest(said=said, kind=kind):
                    error = self.assertRaises(
                        base.BenchmarkOutputError, kind().parse, f"{GOOD[kind]}\n{said}\n"
                    )
                    self.assertIn(said, str(error))

    def test_reports_of_other_forms_are_named_by_their_version(self):
        for head in (
            "sysbench 0.4.12:  multi-threaded system evaluation benchmark",
            "sysbench 0.5: x",
        ):
            with self.subTest(head):
                error = self.assertRaises(
                    base.BenchmarkOutputError,
                    sysbench_reports.Several().parse,
                    f"{head}\n\ntotal time: 1s\n",
                )
                self.assertIn(head.partition(":")[0], str(error))


class FioTest(testcase.TestCase):
    def changed(self, **ways):
        """Return the recorded output with further directions: name -> factor of its figures; None: left out."""
        data = json.loads(recorded("fio-two-jobs.json"))
        [job] = data["jobs"]
        written = job["write"]
        if "read" in ways:
            job["job options"]["rw"] = "randrw"
        for name, factor in ways.items():
            if factor is None:
                del job[name]
                continue
            job[name] = json.loads(json.dumps(written))
            for key in ("iops", "total_ios", "bw_bytes"):
                job[name][key] = factor * written[key]
        return data, job

    def test_each_direction_of_a_mixed_job(self):
        data, _job = self.changed(read=3)
        shown = figures(fio.Fio, json.dumps(data))
        self.assertAlmostEqual(4 * 32161.838162, shown["iops"], 3)
        self.assertAlmostEqual(3 * 32161.838162, shown["read_iops"], 3)
        self.assertAlmostEqual(32161.838162, shown["write_iops"], 3)
        self.assertAlmostEqual(4 * 526.939556, shown["bandwidth"], 3)
        self.assertEqual(
            (102.912, 102.912), (shown["read_latency_p99"], shown["write_latency_p99"])
        )
        self.assertNotIn("latency_p99", shown)
        self.assertIn("read and write", fio.Fio().remarks(json.dumps(data))["several_directions"])
        self.assertEqual({}, fio.Fio().remarks(GOOD[fio.Fio]))

    def test_directions_that_fio_added_up_are_named_so(self):
        data, job = self.changed(mixed=1, read=None, write=None, trim=None)
        shown = figures(fio.Fio, json.dumps(data))
        self.assertEqual(
            (32161.838162, 102.912), (shown["mixed_iops"], shown["mixed_latency_p99"])
        )
        self.assertEqual(1.001, fio.Fio().span(json.dumps(data)).seconds)
        self.assertIn("mixed_directions", fio.Fio().remarks(json.dumps(data)))
        data, job = self.changed(read=1, mixed=2)  # unified_rw_reporting=both
        self.assertAlmostEqual(2 * 32161.838162, figures(fio.Fio, json.dumps(data))["iops"], 3)

    def test_what_fsync_took(self):
        """fio 3.33 counts none of them: their times count."""
        data, job = self.changed()
        tails = {"50.000000": 1826816, "99.000000": 9371648}
        times = {"min": 55462, "max": 13502206, "mean": 2566558.9, "N": 911, "percentile": tails}
        job["sync"] = {"total_ios": 0, "lat_ns": times}
        shown = figures(fio.Fio, json.dumps(data))
        self.assertEqual(
            (1826.816, 9371.648), (shown["sync_latency_p50"], shown["sync_latency_p99"])
        )
        self.assertAlmostEqual(2566.5589, shown["sync_latency_mean"])
        self.assertEqual(102.912, shown["latency_p99"])
        self.assertIn("synchronised", fio.Fio().remarks(json.dumps(data)))

    def test_percentiles_of_a_list_that_somebody_chose(self):
        data, job = self.changed()
        job["write"]["clat_ns"]["percentile"] = {
            "90.000000": 90000,
            "99.900000": 100000,
            "99.990000": 120000,
        }
        shown = figures(fio.Fio, json.dumps(data))
        tails = {name: value for name, value in shown.items() if name.startswith("latency_p")}
        self.assertEqual({"latency_p90": 90, "latency_p999": 100, "latency_p99_99": 120}, tails)

    def test_latencies_that_the_job_did_not_take(self):
        data, job = self.changed()
        job["write"]["clat_ns"] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
        shown = figures(fio.Fio, json.dumps(data))
        self.assertIn("total_latency_mean", shown)
        self.assertNotIn("latency_mean", shown)
        job["write"]["lat_ns"] = job["write"]["clat_ns"]
        self.assertEqual(
            {"iops", "bandwidth", "requests"}, set(figures(fio.Fio, json.dumps(data)))
        )

    def test_latencies_that_contradict_each_other(self):
        data, job = self.changed()
        job["write"]["clat_ns"]["percentile"]["99.000000"] = 3
        error = self.assertRaises(base.BenchmarkOutputError, fio.Fio().parse, json.dumps(data))
        self.assertIn("p99 0.003", str(error))

    def test_warnings_before_the_json(self):
        good = recorded("fio-two-jobs.json")
        self.assertEqual(
            fio.Fio().parse(good), fio.Fio().parse("fio: this kernel is old\n" + good)
        )

    def test_disk_full_and_two_groups(self):
        error = self.assertRaises(
            base.BenchmarkOutputError, fio.Fio().parse, recorded("fio-disk-full.json")
        )
        self.assertIn("error 28", str(error))
        data = json.loads(recorded("fio-two-jobs.json"))
        data["jobs"] *= 2
        two = json.dumps(data)
        shown = figures(fio.Fio, two)
        self.assertEqual((32161.838162,) * 2, (shown["test_1_iops"], shown["test_2_iops"]))
        self.assertNotIn("iops", shown)
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "one run", fio.Fio().readings, 0, two, ""
        )


class MemoryTest(testcase.TestCase):
    def test_work_follows_from_rate_and_seconds(self):
        for kind, name in ((own.Himeno, "gflop"), (own.Memory, "gigabytes")):
            with self.subTest(kind):
                self.assertAlmostEqual(
                    json.loads(GOOD[kind])[name], figures(kind, GOOD[kind])["work"], 3
                )

    def test_memory_that_it_needs(self):
        self.assertEqual(229, own.Himeno().memory_mib({"size": "M"}))
        self.assertEqual(96, own.Memory().memory_mib({"array": "32m"}))


class OthersTest(testcase.TestCase):
    def test_every_test_of_system_is_a_figure(self):
        data = json.loads(recorded("own-system.json"))
        self.assertEqual(
            {"geometric_mean", *own.TESTS}, set(figures(own.System, json.dumps(data)))
        )
        for name, rate in (("pipe", 0), ("magic", 1), ("pipe", None)):
            with self.subTest(name):
                broken = {**data, "rates": {**data["rates"], name: rate}}
                self.assertRaises(
                    base.BenchmarkOutputError, own.System().parse, json.dumps(broken)
                )

    def test_smb_drops_the_best_and_the_worst_copy(self):
        data = json.loads(recorded("own-copy.json"))
        shown = figures(own.Smb, recorded("own-copy.json"))
        rates = sorted(data["bytes"] / time_s / 1e6 for time_s in data["seconds"])
        self.assertAlmostEqual(statistics.fmean(rates[1:-1]), shown["throughput"])
        self.assertAlmostEqual(statistics.median(rates), shown["median"])
        for seconds in (1e-300, 1e-310, 1e-9):  # no copy is that fast
            with self.subTest(seconds):
                broken = {**data, "seconds": [seconds, *data["seconds"][1:]]}
                self.assertRaises(base.BenchmarkOutputError, own.Smb().parse, json.dumps(broken))


def histogram(*threads):
    """Return cyclictest's output for threads: latency -> count, then wake-ups, mean and maximum."""
    keys = ("histogram", "cycles", "avg", "max")
    return json.dumps(
        {"thread": {str(at): dict(zip(keys, of, strict=True)) for at, of in enumerate(threads)}}
    )


class CyclictestTest(testcase.TestCase):
    def test_quantiles_are_interpolated_in_the_histogram(self):
        threads = ({"1": 97, "5": 2, "9": 1}, 100, 1, 9), ({"1": 98, "5": 2}, 100, 3, 5)
        shown = figures(rt_tests.Cyclictest, histogram(*threads))
        # 195 within the bar of 1 µs, of which the 100th is the median; the 198th is 3 of 4 into that of 5 µs.
        self.assertAlmostEqual(1 + 100 / 195, shown["latency_p50"])
        self.assertEqual((5.75, 9.0), (shown["latency_p99"], shown["latency_max"]))
        self.assertEqual((2.0, 0.2), (shown["latency_mean"], shown["wake_ups"]))

    def test_what_lies_beyond_the_histogram_is_the_longest(self):
        """100 wake-ups, 98 within a histogram of 2 µs: the 99th is the longest, not 2 µs."""
        shown = figures(rt_tests.Cyclictest, histogram(({"1": 98}, 100, 80, 4000)))
        self.assertEqual(
            (4000, 4000, 80), tuple(shown[f"latency_{name}"] for name in ("p99", "max", "mean"))
        )

    def test_what_contradicts_itself(self):
        for thread in (
            ({"1": 98}, 97, 80, 4000),
            ({"1": 0}, 0, 0, 0),
            ({"-1": 1}, 1, 1, 1),
        ):
            with self.subTest(thread):
                self.assertRaises(
                    base.BenchmarkOutputError, rt_tests.Cyclictest().parse, histogram(thread)
                )
        self.assertRaises(base.BenchmarkOutputError, rt_tests.Cyclictest().parse, histogram())

    def test_without_a_histogram_the_maximum_is_there(self):
        """As cyclictest prints without --histogram: none of its figures is a percentile."""
        thread = {"cycles": 100, "min": 2, "avg": 3.5, "max": 40, "cpu": 4}
        text = json.dumps({"thread": {"0": thread}})
        report = rt_tests.Cyclictest().report(text)
        shown = {reading.metric: reading.value for reading in report.readings}
        self.assertEqual(
            (40, 3.5, 2), tuple(shown[f"latency_{of}"] for of in ("max", "mean", "min"))
        )
        self.assertNotIn("latency_p99", shown)
        self.assertIn("percentiles", report.left_out[0])
        self.assertRaises(base.BenchmarkOutputError, rt_tests.Cyclictest().readings, 0, text, "")

    def test_a_guest_on_a_cloud_keeps_all_of_the_histogram(self):
        for threads in range(1, 17):
            [step] = rt_tests.Cyclictest().steps({"threads": str(threads)})
            [width] = [
                int(word.partition("=")[2])
                for word in step.argv
                if word.startswith("--histogram=")
            ]
            entry = len('        "1000": 12345,\n')
            self.assertTrue(
                600 < width <= 10_000 and width * threads * entry < 256_000, (threads, width)
            )

    def test_the_unit_is_read(self):
        """``--nsecs`` changes the unit of all times and no key: "resolution_in_ns" says so, or else the command."""
        threads = (
            ({"1000": 97, "5000": 2, "9000": 1}, 100, 1000, 9000),
            ({"1000": 98, "5000": 2}, 100, 3000, 5000),
        )
        document = json.loads(histogram(*threads))
        for resolution, per_us in ((1, 1000), (0, 1)):
            with self.subTest(resolution):
                document["resolution_in_ns"] = resolution
                shown = figures(rt_tests.Cyclictest, json.dumps(document))
                self.assertEqual(
                    (9000 / per_us, 2000 / per_us), (shown["latency_max"], shown["latency_mean"])
                )
                self.assertAlmostEqual(5000.75 / per_us, shown["latency_p99"])
        del document["resolution_in_ns"]
        for option, per_us in (("-N", 1000), ("--nsecs", 1000), ("--quiet", 1)):
            for key in ("cmdline", "cmdline:"):
                text = json.dumps({**document, key: f"cyclictest {option} --json=-"})
                with self.subTest(option=option, key=key):
                    most = figures(rt_tests.Cyclictest, text)["latency_max"]
                    self.assertEqual(9000 / per_us, most)
        document["resolution_in_ns"] = 100
        error = self.assertRaises(
            base.BenchmarkOutputError, rt_tests.Cyclictest().parse, json.dumps(document)
        )
        self.assertIn("unit", str(error))


class OslatTest(testcase.TestCase):
    def test_buckets_of_parts_of_a_microsecond(self):
        thread = {"cpu": 4, "histogram": {"0.5": 9000, "1.25": 30}, "duration": 0.5, "max": 48}
        shown = figures(rt_tests.Oslat, json.dumps({"thread": {"0": thread}}))
        self.assertEqual((60.0, 48.0), (shown["interruptions"], shown["latency_max"]))

    def test_gaps_are_longer_than_the_loop(self):
        keys = ("cpu", "histogram", "duration", "max")
        threads = (4, {"1": 9000, "2": 30, "32": 1}, 0.5, 48), (7, {"2": 9000, "3": 10}, 1.5, 3)
        text = json.dumps(
            {
                "thread": {
                    str(at): dict(zip(keys, of, strict=True)) for at, of in enumerate(threads)
                }
            }
        )
        expected = {
            "latency_max": 48,
            "interruptions": 41 / 2,
            "latency_max_cpu4": 48,
            "latency_max_cpu7": 3,
        }
        self.assertEqual(expected, figures(rt_tests.Oslat, "oslat V 2.40\n" + text))

    def test_only_the_host_knows_its_plan(self):
        with self.assertRaisesRegex(base.ParameterError, "cpus=2-3"):
            plugins.jobs(["oslat"])
        [job] = plugins.jobs(["oslat:cpus=2-3+8,seconds=5"])
        [step] = job.benchmark.steps(job.parameters)
        self.assertEqual(["--cpu-list=2-3,8", "--duration=5"], list(step.argv[2:4]))
        for cpus in ("", "2;3", "2-", "-1", "all", "2+"):
            with self.subTest(cpus):
                self.assertRaises(base.ParameterError, plugins.jobs, [f"oslat:cpus={cpus}"])


class RecogniseTest(testcase.TestCase):
    def test_who_printed_it(self):
        for kind, text in GOOD.items():
            with self.subTest(kind):
                self.assertIs(kind, type(recognition.recognise(text)))

    def test_a_command_without_an_output_that_is_read(self):
        for command, words in (
            ("netperf -H 192.0.2.1 -P 1", "netperf: .*-k THROUGHPUT"),
            ("iperf -c 192.0.2.1", "iperf2: .*iperf -c HOST"),
            ("fio --name=job", "fio: .*--output-format=json"),
        ):
            with self.subTest(command):
                self.assertRaisesRegex(
                    base.BenchmarkOutputError,
                    words,
                    recognition.recognise,
                    f"$ {command}\n 87380  16384  16384    10.00     941.23\n",
                )

    def test_what_nobody_reads(self):
        for text in ("", "nothing", "{}", '{"end": {}}', "\0"):
            with self.subTest(text):
                error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
                self.assertIn("name the one that printed it", str(error))


class PluginsTest(testcase.TestCase):
    def test_all_entry_points_load(self):
        self.assertEqual(
            {kind.kind for kind in GOOD}, {benchmark.kind for benchmark in plugins.load_all()}
        )

    def test_labels_and_parameters(self):
        [job] = plugins.jobs(["iperf3:streams=2"], 3)
        self.assertEqual("iperf3", job.label)
        self.assertEqual(("2", "3"), (job.parameters["streams"], job.parameters["seconds"]))
        labels = [job.label for job in plugins.jobs(["iperf3", "iperf3:direction=reverse", "cpu"])]
        self.assertEqual(["iperf3", "iperf3:direction=reverse", "cpu"], labels)
        self.assertEqual("7", plugins.jobs(["cpu:seconds=7"], 3)[0].parameters["seconds"])

    def test_wrong_benchmarks_and_parameters_are_refused(self):
        wrong = "linpack : cpu:threads=0 cpu:threads cpu:x=1 cpu:=1 cpu:threads=1,threads=1 fio:directory=a:b"
        wrong += " fio:block_size=3x fio:pattern=trim fio:depth=32 smb:runs=2 memory:array=1536k"
        for text in ("cpu cpu", *wrong.split()):
            with self.subTest(text):
                error = self.assertRaises(errors.PerfTuningError, plugins.jobs, text.split())
                self.assertIn(text.partition(":")[2].partition("=")[0], str(error))
        self.assertTrue(plugins.jobs(["fio:depth=32,engine=libaio"]))
