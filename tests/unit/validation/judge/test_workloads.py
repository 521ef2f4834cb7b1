# SPDX-License-Identifier: Apache-2.0
"""Figures of other work than was asked for, or of two kinds of work, are not judged."""

from nova_perf_tuning.validation.bench import base, plugins
from nova_perf_tuning.validation.judge import trial_filter, verdict, workloads
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import summary
from nova_perf_tuning.validation.results import messages, reasons
from nova_perf_tuning.validation.results.environment import MAX_WORKLOADS, RecordedBenchmark
from tests.support import samples, testcase

C = reasons.ReasonCode
WRITES = {"pattern": "randwrite", "block size": "16384", "version": "fio-3.33", "seconds": "10.1"}
BUDGET = verdict.Budget("iperf3", "tuned", max_loss=0.9, baseline="untuned")


def fault(asked=None, **arms):
    benchmark = RecordedBenchmark(asked=asked or {}, workloads=arms)
    return workloads.fault(benchmark, list(arms))


class FaultTest(testcase.TestCase):
    def test_the_same_work_compares(self):
        again = {**WRITES, "seconds": "10.002", "kernel": "6.12", "block size": "16KiB"}
        asked = {"pattern": "randwrite", "block size": "16k", "jobs": "1"}
        self.assertIsNone(fault(asked, untuned=[WRITES], tuned=[again]))
        self.assertIsNone(fault(asked, untuned=[WRITES], tuned=[]))
        self.assertIsNone(fault(untuned=[{"version": "3.12"}], tuned=[{"version": "iperf 3.12"}]))
        rate = {"rate asked for": "100M"}
        self.assertIsNone(fault(a=[rate], b=[{"rate asked for": "100 Mbit/s a stream"}]))

    def test_what_differs_is_named_with_its_arms(self):
        for name, first, second in (
            ("pattern", "randwrite", "randrw"),
            ("block size", "16384", "4096"),
            ("version", "3.33", "3.36"),
            ("protocol", "TCP", "UDP"),
            ("rate asked for", "none", "100 Mbit/s a stream"),
        ):
            with self.subTest(name):
                found = fault(untuned=[{name: first}], tuned=[{name: second}])
                self.assertEqual((C.WORKLOADS_DIFFER, name), (found.code, found.params["name"]))
                arms = found.params["values"]
                self.assertEqual(["untuned", "tuned"], list(arms.values()))
                self.assertEqual(len(arms), len(set(arms)))

    def test_runs_of_one_arm_may_differ_too(self):
        found = fault(tuned=[WRITES, {**WRITES, "pattern": "read"}])
        self.assertIn("pattern is randwrite in 'tuned', read in 'tuned'", messages.of(found))

    def test_a_sync_that_one_run_has_and_the_other_has_not(self):
        found = fault(untuned=[WRITES], tuned=[{**WRITES, "fdatasync after": "1"}])
        self.assertEqual("fdatasync after", found.params["name"])

    def test_work_that_was_not_asked_for(self):
        found = fault({"pattern": "randread"}, tuned=[WRITES])
        self.assertEqual(C.OTHER_WORKLOAD, found.code)
        expected = {
            "arm": "tuned",
            "name": "pattern",
            "found": "randwrite",
            "asked": "randread",
        }
        self.assertEqual(expected, found.params)

    def test_lengths_of_several_jobs_do_not_matter(self):
        first = {"one": "pattern read, seconds 10.01, version fio-3.33"}
        second = {"one": "pattern read, seconds 9.98, version fio-3.33"}
        self.assertIsNone(fault(a=[first], b=[second]))

    def test_a_stranger_cannot_fill_results(self):
        benchmark = RecordedBenchmark()
        for number in range(50):
            benchmark.ran("tuned", {"version": str(number)})
            benchmark.ran("tuned", {"version": "0"})
        self.assertEqual(MAX_WORKLOADS, len(benchmark.workloads["tuned"]))

    def test_runs_that_measured_for_another_time_did_the_same_work(self):
        benchmark = RecordedBenchmark()
        for number in range(50):
            benchmark.ran("tuned", {"pattern": "read", "seconds": f"1.{number}"})
        self.assertEqual([{"pattern": "read"}], benchmark.workloads["tuned"])


class JudgedTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results({"untuned": 100.0, "tuned": 101.0}, boots=6, blocks=3)

    def tell(self, **arms):
        samples.tell(self.data, benchmarks={"iperf3": {"kind": "iperf3", "workloads": arms}})

    def test_mixed_work_is_invalid_in_verdicts_and_comparisons(self):
        self.tell(untuned=[{"protocol": "TCP"}], tuned=[{"protocol": "TCP"}])
        [judged] = verdict.judge_all(self.data, [BUDGET])
        self.assertEqual(verdict.Verdict.PASS, judged.verdict)
        self.tell(untuned=[{"protocol": "TCP"}], tuned=[{"protocol": "UDP"}])
        [judged] = verdict.judge_all(self.data, [BUDGET])
        self.assertEqual(verdict.Verdict.INVALID, judged.verdict)
        self.assertEqual([C.WORKLOADS_DIFFER], [why.code for why in judged.reasons])
        [measured] = summary.summarise(self.data)
        [pair] = measured.comparisons
        self.assertIsNone(pair.ratio)
        self.assertEqual(C.WORKLOADS_DIFFER, pair.invalid.code)

    def test_another_arm_does_not_matter(self):
        self.tell(untuned=[{"protocol": "TCP"}], other=[{"protocol": "UDP"}])
        found = trial_filter.select(self.data, self.data.trials, "tuned", "untuned")
        self.assertIsNone(found.invalid)


class Talkative(samples.Quick):
    """A tool whose output says what a hundred jobs did."""

    def report(self, output):
        return base.BenchmarkReport([], {f"job{at}": "read " * 900 for at in range(100)})


class OutputTest(testcase.TestCase):
    def test_what_is_left_out_is_said(self):
        done = Talkative().checked_workload("")
        self.assertEqual("62 more", done["left out"])
        data = samples.results({"tuned": 1.0})
        samples.tell(data, benchmarks={"iperf3": {"workloads": {"tuned": [done]}}})
        results_file.from_dict(results_file.to_dict(data), "results")

    def test_an_output_that_cannot_be_read_says_nothing(self):
        self.assertEqual({}, plugins.load("fio").checked_workload("nothing"))


class AskedTest(testcase.TestCase):
    def test_every_output_of_our_own_command_does_what_was_asked_for(self):
        """What benchmarks ask for has the names that their readers give."""
        text = '{"start": {"test_start": {"protocol": "TCP", "reverse": 1, "num_streams": 2,'
        text += ' "duration": 5, "target_bitrate": 100000000}, "version": "iperf 3.12"},'
        text += ' "end": {"sum_sent": {"bits_per_second": 1e8, "seconds": 5}, "sum_received":'
        text += ' {"bits_per_second": 1e8, "bytes": 6e7, "seconds": 5}, "cpu_utilization_percent":'
        text += ' {"host_total": 1, "remote_total": 1}}}'
        iperf3 = plugins.load("iperf3")
        done = iperf3.checked_workload(text)
        given = {"direction": "reverse", "streams": "2", "seconds": "5", "bitrate": "100"}
        asked = iperf3.asked(iperf3.merged(given))
        self.assertEqual(asked.keys(), asked.keys() & done.keys())
        self.assertIsNone(fault(asked, host=[done]))
        for name, other in (("direction", "forward"), ("streams", "1"), ("bitrate", "0")):
            with self.subTest(name):
                asked = iperf3.asked(iperf3.merged({**given, name: other}))
                self.assertEqual(C.OTHER_WORKLOAD, fault(asked, host=[done]).code)
