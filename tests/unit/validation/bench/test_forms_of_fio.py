# SPDX-License-Identifier: Apache-2.0
"""Forms of fio's output: parts that are missing, phases, rates that were set, sums of clients."""

import json
from unittest import mock

from nova_perf_tuning import bounded_json
from nova_perf_tuning.validation.bench import base, fio, recognition
from tests.support import testcase
from tests.unit.validation.bench import test_parsers

HEAD = (
    "job: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B,"
    " ioengine=libaio, iodepth=8\nfio-3.28\nStarting 1 process\n"
)
READ = """  read: IOPS=2000, BW=8000KiB/s (8192kB/s)(78.1MiB/10000msec)
    clat (usec): min=1, max=900, avg=90.00, stdev=7.00
"""
WRITE = """  write: IOPS=1000, BW=4000KiB/s (4096kB/s)(39.1MiB/10000msec)
    clat (usec): min=2, max=800, avg=80.00, stdev=7.00
"""
END = """     issued rwts: total=20000,10000,0,0 short=0,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=8
"""
GROUP = "job: (groupid=0, jobs=1): err= 0: pid=7: Sat Apr 16 04:39:11 2022\n"
MIXED = GROUP + READ + WRITE + END


def shown(text):
    """Return report and metric -> value of a text that fio's reader recognises."""
    tool = recognition.recognise(text)
    assert tool.kind == "fio"
    report = tool.checked_report(text)
    return report, {reading.metric: reading.value for reading in report.readings}


def judged(report):
    return [reading.metric for reading in report.readings if reading.primary]


def document(**options):
    """Return the recorded JSON with the options of its job changed."""
    data = json.loads(test_parsers.recorded("fio-two-jobs.json"))
    [job] = data["jobs"]
    job["job options"].update(options)
    return data, job


class HeadTest(testcase.TestCase):
    def test_what_a_text_without_its_head_does_not_say(self):
        report, figures = shown(MIXED)
        self.assertEqual(3000, figures["iops"])
        self.assertEqual("read and write", report.workload["direction"])
        self.assertEqual("8", report.workload["depth"])
        self.assertNotIn("pattern", report.workload)
        said = "\n".join(report.left_out)
        for name in ("pattern", "block size", "engine", "version"):
            with self.subTest(name):
                self.assertIn(name, said)
        whole, _figures = shown(HEAD + MIXED)
        self.assertEqual("randrw", whole.workload["pattern"])
        self.assertNotIn("block size", "\n".join(whole.left_out))

    def test_the_pattern_while_running(self):
        """fio shows it as a letter for each job; a phase of a job is no pattern."""
        running = "Jobs: 2 (f=2): [{}][50.0%][r=8MiB/s][eta 00m:05s]\n"
        for letters, pattern in (("m(2)", "randrw"), ("M(1),_(1)", "rw"), ("m(1),f(1)", "randrw")):
            report, _figures = shown(running.format(letters) + MIXED)
            with self.subTest(letters):
                self.assertEqual(pattern, report.workload["pattern"])
        for letters in ("m(1),M(1)", "w(2)", "V(1)", "_(2)"):
            report, _figures = shown(running.format(letters) + MIXED)
            with self.subTest(letters):
                self.assertNotIn("pattern", report.workload)

    def test_a_head_that_a_mail_has_wrapped(self):
        wrapped = HEAD.replace(", (W)", ",\n(W)").replace(" ioengine", "\n   ioengine")
        report, _figures = shown(wrapped + MIXED)
        self.assertEqual(shown(HEAD + MIXED)[0].workload, report.workload)

    def test_a_line_of_another_form_is_named(self):
        for line in ("IOPS=2000, BW=8000KiB/s", "IOPS=2,000, BW=8000KiB/s (8192kB/s)(1MiB/1msec)"):
            text = HEAD + MIXED.replace(READ.split("\n")[0].strip()[6:], line)
            with self.subTest(line):
                error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
                self.assertIn(line, str(error))


class PhasesTest(testcase.TestCase):
    VERIFIED = MIXED.replace("78.1MiB/10000msec", "39.1MiB/5000msec")

    def test_reads_of_a_job_that_writes_are_its_verification(self):
        for pattern in ("write", "randwrite"):
            report, figures = shown(HEAD.replace("rw=randrw", f"rw={pattern}") + self.VERIFIED)
            with self.subTest(pattern):
                self.assertEqual((1000, 2000), (figures["iops"], figures["verify_read_iops"]))
                self.assertEqual(
                    (80, 90), (figures["latency_mean"], figures["verify_read_latency_mean"])
                )
                self.assertEqual(10, figures["requests"])
                self.assertIn("verify_phase", report.remarks)
                self.assertEqual(["iops"], judged(report))

    def test_the_same_in_json(self):
        data, job = document(rw="randwrite", verify="crc32c")
        job["read"] = json.loads(json.dumps(job["write"]))
        job["read"]["iops"] *= 2
        report, figures = shown(json.dumps(data))
        self.assertAlmostEqual(job["write"]["iops"], figures["iops"])
        self.assertAlmostEqual(job["read"]["iops"], figures["verify_read_iops"])
        self.assertIn("verify_phase", report.remarks)

    def test_options_of_one_job_of_a_group(self):
        """Reads of a job without verify= are of another job, whose options the JSON does not have."""
        data, job = document(rw="randwrite")
        job["read"] = json.loads(json.dumps(job["write"]))
        report, figures = shown(json.dumps(data))
        self.assertAlmostEqual(2 * job["write"]["iops"], figures["iops"])
        self.assertIn("read_iops", figures)
        self.assertNotIn("pattern", report.workload)
        self.assertEqual("pattern randwrite", report.workload["one of its jobs"])
        self.assertIn("pattern", "\n".join(report.left_out))

    def test_options_of_one_of_several_jobs(self):
        """fio adds up different jobs of a group and repeats the options of one: their time shows it."""
        data, job = document(iodepth="32")
        whole, _figures = shown(json.dumps(data))
        self.assertEqual(("32", "2"), (whole.workload["depth"], whole.workload["jobs"]))
        job["job_runtime"] = 5000
        report, figures = shown(json.dumps(data))
        self.assertIn("iops", figures)
        for name in ("pattern", "block size", "depth", "jobs", "engine"):
            with self.subTest(name):
                self.assertNotIn(name, report.workload)
                self.assertIn(name, "\n".join(report.left_out))
        for name in ("pattern", "block size", "depth", "jobs"):
            with self.subTest(name):
                self.assertIn(f"{name} {whole.workload[name]}", report.workload["one of its jobs"])
                self.assertNotIn(f"{name}: the output does not", "\n".join(report.left_out))
        self.assertIn("about 5 jobs", "\n".join(report.left_out))
        for option in ("ramp_time", "end_fsync", "thinktime"):
            job["job options"] = {**data["jobs"][0]["job options"], option: "3"}
            with self.subTest(option):
                self.assertEqual("32", shown(json.dumps(data))[0].workload["depth"])
            del job["job options"][option]

    def test_engines_that_wait_and_that_move_no_data(self):
        for engine, depth, moves in (
            ("psync", "1", True),
            ("libaio", "8", True),
            ("falloc", "1", False),
            ("null", "8", False),
        ):
            data, _job = document(ioengine=engine, iodepth="8")
            texts = (json.dumps(data), HEAD.replace("libaio", engine) + MIXED)
            for text in texts:
                report, _figures = shown(text)
                with self.subTest(engine, text=text[:10]):
                    self.assertEqual(depth, report.workload["depth"])
                    self.assertEqual(depth == "1", "depth asked for" in report.workload)
                    self.assertEqual(not moves, "no_data" in report.remarks)

    def test_syncs_without_their_latency(self):
        """As etcd's check with a fio that does not print them: what is shown is the page cache alone."""
        command = "$ fio --rw=write --ioengine=libaio --{}=1 --bs=2300 --name=mytest\n"
        for option in ("fdatasync", "fsync"):
            data, _job = document(rw="write", **{option: "1"})
            texts = (json.dumps(data), command.format(option) + HEAD + MIXED)
            for text in texts:
                with self.subTest(option, text=text[:9]):
                    said = shown(text)[0].remarks["sync_latency_missing"]
                    self.assertIn(f"calls {option}", said)
        counted = HEAD + MIXED.replace("total=20000,10000,0,0", "total=20000,10000,0,31")
        self.assertIn("made 31 syncs", shown(counted)[0].remarks["sync_latency_missing"])
        for options in ({"fdatasync": "0"}, {"sync": "1"}, {}):
            data, _job = document(rw="write", **options)
            self.assertNotIn("sync_latency_missing", shown(json.dumps(data))[0].remarks)
        data, job = document(rw="write", fdatasync="1")
        job["sync"] = {"lat_ns": {"min": 1e6, "max": 9e6, "mean": 2e6, "N": 10}}
        report, figures = shown(json.dumps(data))
        self.assertNotIn("sync_latency_missing", report.remarks)
        self.assertEqual(2000, figures["sync_latency_mean"])
        job["sync"] = {"lat_ns": {"min": 0, "max": 0, "mean": 0, "N": 0}}
        self.assertIn("sync_latency_missing", shown(json.dumps(data))[0].remarks)

    def test_a_signal_ended_the_run_before_its_time(self):
        for runtime, seconds in (("5m", "300"), ("120", "120")):
            data, job = document(runtime=runtime)
            job["write"]["runtime"] = 48_170
            report, _figures = shown(f"\nfio: terminating on signal 2\n{json.dumps(data)}")
            self.assertEqual(seconds, report.workload["seconds asked for"])
            self.assertIn(f"(48.17 of {seconds} s)", report.remarks["stopped"])
        for runtime in ("0", "soon"):
            data, _job = document(runtime=runtime)
            self.assertNotIn("seconds asked for", shown(json.dumps(data))[0].workload)

    def test_errors_and_signals(self):
        data, job = document()
        job["error"] = 42
        said = "fio: pid=7, err=42/file:io_u.c:2074, func=io_u, error=Illegal byte sequence\n"
        for text, words in (
            (said + json.dumps(data), "error 42, 'Illegal byte sequence'"),
            (json.dumps(data), "error 42 (errno)"),
            ("3;fio-3.1;job;0;28;700;", "error 28, 'No space left on device'"),
            ("3;fio-3.1;job;0;0;700;", "terse form"),
        ):
            error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
            with self.subTest(words):
                self.assertIn(words, str(error))
        report, _figures = shown(HEAD + "fio: terminating on signal 2\n" + MIXED)
        self.assertIn("signal 2", report.remarks["stopped"])

    def test_no_sum_of_what_ran_one_after_the_other(self):
        report, figures = shown(self.VERIFIED)
        self.assertEqual((2000, 1000), (figures["read_iops"], figures["write_iops"]))
        self.assertFalse({"iops", "bandwidth", "requests"} & set(figures))
        self.assertEqual([], judged(report))
        self.assertIn("read 5 s, write 10 s", report.remarks["not_at_once"])
        self.assertRaises(base.BenchmarkOutputError, fio.Fio().readings, 0, self.VERIFIED, "")


class RateTest(testcase.TestCase):
    def test_a_rate_is_reached_or_not(self):
        for option, code in (
            ("--rate_iops=5000", "rate_not_reached"),
            ("--rate_iops=2000", "held_to_a_rate"),
            ("--rate=4m", "held_to_a_rate"),
            ("--rate=64m", "rate_not_reached"),
            ("--rate_iops=5000,100", "rate_set"),
        ):
            report, figures = shown(f"$ fio --name=job {option} --rw=randrw\n{HEAD}{MIXED}")
            with self.subTest(option):
                rates = {name for name in report.remarks if "rate" in name}
                self.assertEqual({code}, rates)
                self.assertIn(option.partition("=")[2], report.remarks[code])
                self.assertEqual(3000, figures["iops"])

    def test_a_rate_is_that_of_each_job(self):
        data, job = document(rate_iops="5000", numjobs="2", group_reporting="1")
        for rate, code in ((9900, "held_to_a_rate"), (5000, "rate_not_reached")):
            job["write"]["iops"] = rate
            with self.subTest(rate):
                self.assertIn(code, fio.Fio().remarks(json.dumps(data)))


class UnitTest(testcase.TestCase):
    def clients(self, speed="BW=8000Ki (8192k)"):
        return (
            (GROUP + READ + END)
            .replace("job:", "All clients:")
            .replace("BW=8000KiB/s (8192kB/s)", speed)
            .replace("20000,10000", "20000,0")
        )

    def test_the_sum_of_all_clients_has_no_unit(self):
        report, figures = shown(self.clients())
        self.assertAlmostEqual(8.192, figures["bandwidth"])
        self.assertIn("single clients", "\n".join(report.left_out))
        self.assertIn("percentiles", "\n".join(report.left_out))
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "no unit", fio.Fio().parse, self.clients("BW=8000Mi (8k)")
        )

    def test_clients_and_their_sum(self):
        one = HEAD + MIXED
        report, figures = shown(one + self.clients())
        self.assertEqual((3000, 2000), (figures["job_iops"], figures["All_clients_iops"]))
        self.assertIn("all_clients", report.remarks)
        self.assertEqual([], judged(report))

    def test_bits(self):
        bits = "BW=62.5Mibit/s (65.5Mbit/s)"
        _report, figures = shown(HEAD + MIXED.replace("BW=8000KiB/s (8192kB/s)", bits))
        self.assertAlmostEqual(62.5 * 1.048576 / 8, figures["read_bandwidth"])

    def test_less_than_one_a_second(self):
        """fio's text rounds it down: no figure of a direction is 0."""
        slow = MIXED.replace("IOPS=1000", "IOPS=0").replace("20000,10000", "20000,9")
        report, figures = shown(HEAD + slow)
        self.assertEqual(2000, figures["iops"])
        self.assertNotIn("write_iops", figures)
        self.assertIn("write_iops: 'write' has 9 requests", "\n".join(report.left_out))


class JsonTest(testcase.TestCase):
    def test_requests_without_a_rate(self):
        """No direction is left out without a word."""
        for key, value in (("iops", 0), ("total_ios", 0)):
            data, job = document()
            job["read"] = json.loads(json.dumps(job["write"]))
            job["read"][key] = value
            with self.subTest(key):
                self.assertRaisesRegex(
                    base.BenchmarkOutputError, "'read' has", fio.Fio().parse, json.dumps(data)
                )

    def test_options_that_are_missing(self):
        data, job = document()
        del job["job options"]
        data.pop("global options", None)
        report, _figures = shown(json.dumps(data))
        self.assertEqual("write", report.workload["direction"])
        self.assertNotIn("pattern", report.workload)
        said = "\n".join(report.left_out)
        self.assertIn("pattern: ", said)
        self.assertIn("block size: ", said)

    def test_reports_of_clients(self):
        data, _job = document()
        whole = fio.Fio().parse(json.dumps(data))
        data["client_stats"] = data.pop("jobs")
        self.assertEqual(whole, fio.Fio().parse(json.dumps(data)))

    def test_the_json_of_version_2(self):
        """Its times are µs, its bandwidths KiB, and its percentiles are filled up with zeros."""
        whole = {
            reading.metric: reading.value for reading in fio.Fio().parse(json.dumps(document()[0]))
        }
        data, job = document()
        data["fio version"] = "fio-2.2.10"
        written = job["write"]
        for name in ("clat", "lat"):
            times = written.pop(f"{name}_ns")
            for key in ("min", "max", "mean"):
                times[key] /= 1e3
            if "percentile" in times:
                tails = times["percentile"]
                times["percentile"] = {share: tail / 1e3 for share, tail in tails.items()}
            written[name] = times
        written["bw"] = written.pop("bw_bytes") / 1024
        text = json.dumps(data).replace('"1.000000":', '"0.00": 0, "0.00": 0, "1.000000":')
        self.assertIn('"0.00": 0', text)
        report, figures = shown(text)
        for metric, value in whole.items():
            with self.subTest(metric):
                self.assertAlmostEqual(value, figures[metric], 6)
        self.assertIn("old_units", report.remarks)
        del data["fio version"]
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "units are not known", fio.Fio().parse, json.dumps(data)
        )


class DocumentTest(testcase.TestCase):
    def test_a_document_is_decoded_once(self):
        """Not again for each tool and for figures, workload and remarks."""
        data, _job = document()
        with mock.patch.object(
            bounded_json, "objects", side_effect=bounded_json.objects
        ) as decoded:
            report, _figures = shown(json.dumps(data))
        self.assertEqual(1, decoded.call_count)
        self.assertTrue(report.workload)

    def test_another_document_is_another(self):
        tool = fio.Fio()
        data, job = document()
        first = tool.report(json.dumps(data)).readings[0].value
        job["write"]["iops"] *= 2
        self.assertEqual(2 * first, tool.report(json.dumps(data)).readings[0].value)
        self.assertRaises(base.BenchmarkOutputError, tool.report, json.dumps(data)[:-9])

    def test_fio_3_0_and_3_1_have_kibibytes_alone(self):
        data, job = document()
        data["fio version"] = "fio-3.1"
        written = job["write"]
        whole = written.pop("bw_bytes")
        written["bw"] = whole // 1024
        _report, figures = shown(json.dumps(data))
        self.assertAlmostEqual(whole / 1e6, figures["bandwidth"], 2)
        self.assertEqual(written["clat_ns"]["mean"] / 1e3, figures["latency_mean"])
        del written["clat_ns"]
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "units are not known", fio.Fio().parse, json.dumps(data)
        )
