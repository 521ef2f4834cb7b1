# SPDX-License-Identifier: Apache-2.0
"""Absolute limits: the worst run of a maximum, the interval of any other figure, one arm alone."""

import dataclasses
import json
import pathlib
import xml.etree.ElementTree as ElementTree

from nova_perf_tuning.validation.bench import base, pasted, plugins, recognition
from nova_perf_tuning.validation.judge import budget_file, fleet, quantities, verdict
from nova_perf_tuning.validation.report import data, junit, ndjson
from nova_perf_tuning.validation.results import messages, reasons, schema
from tests.support import directories, program, samples, testcase

C = reasons.ReasonCode
V = verdict.Verdict
B = budget_file.Budget
OUTPUTS = pathlib.Path(__file__).parents[1] / "bench" / "data"


def longest(*values, arm="tuned", **changes):
    """Return results of runs of oslat, a boot each; a value may be None for a failed run."""
    fields = {"benchmark": "oslat", "metric": "latency_max", "unit": "µs", "better": "lower"}
    fields |= {"arm": arm, "window_s": 60.0, "host_cpu_s": {}, "guest_cpu_s": None, "wait_s": None}
    fields |= {"work": None, "work_unit": ""} | changes
    trials = []
    for boot, value in enumerate(values):
        error = None if value is not None else "no"
        trials.append(samples.trial(**fields, boot=boot, order=boot, value=value, error=error))
    return samples.of(trials, benchmarks={"oslat": {"kind": "oslat"}})


def oslat(**changes):
    fields = {"benchmark": "oslat", "arm": "tuned", "max_value": "40us", "min_duration": "60s"}
    return B(**{**fields, **changes})


class WorstRunTest(testcase.TestCase):
    def check(self, results, word, *codes, **changes):
        [found] = verdict.judge_all(results, [oslat(**changes)])
        said = messages.lines(found.reasons)
        self.assertEqual(
            (word, list(codes)), (found.verdict, [r.code for r in found.reasons]), said
        )
        return found

    def test_one_run_beyond_the_limit_breaks_it(self):
        found = self.check(longest(21, 22, 47, 23, 30), V.FAIL, C.RUN_BEYOND)
        self.assertEqual((47, None, 5), (found.value.value, found.value.low, found.value.n))
        text = messages.lines(found.reasons)
        wanted = "latency_max 47 µs is the greatest of 5 runs (boot 3), at most 40us allowed"
        self.assertEqual((wanted, "µs"), (text, found.value_unit))
        found = self.check(longest(50, 60, 10), V.FAIL, C.RUN_BEYOND)
        self.assertIn("60 µs is the greatest of 3 runs (boot 2)", messages.lines(found.reasons))
        self.assertIn("2 runs break it", messages.lines(found.reasons))

    def test_no_run_beyond_it_passes_also_at_the_limit_and_with_one_run(self):
        for values in ((21, 22, 39), (40,), (40.0, 12)):
            with self.subTest(values):
                found = self.check(longest(*values), V.PASS, C.NO_RUN_BEYOND)
                self.assertTrue(found.open)  # a later run may be beyond
        self.check(longest(21), V.PASS, C.NO_RUN_BEYOND, max_value="0.04 ms")
        self.check(longest(41), V.FAIL, C.RUN_BEYOND, max_value="0.04 ms")

    def test_shorter_runs_are_invalid_but_what_one_breaks_is_broken(self):
        self.check(longest(21, 22, window_s=59.9), V.PASS, C.NO_RUN_BEYOND)
        self.check(longest(21, 22, window_s=30.0), V.INVALID, C.SHORT_RUNS)
        self.check(longest(21, 22, window_s=0.0), V.INVALID, C.DURATION_UNKNOWN)
        self.check(longest(21, 47, window_s=30.0), V.FAIL, C.RUN_BEYOND, C.SHORT_RUNS)
        self.check(longest(21, 22), V.INVALID, C.NO_DURATION, min_duration=None)

    def test_the_start_of_the_program_is_not_part_of_the_run(self):
        """The window of oslat is that of its program; how long it was to run stands in the results."""
        results = longest(21, 22, window_s=61.0)
        parameters = {"kind": "oslat", "parameters": {"seconds": "59"}}
        samples.tell(results, benchmarks={"oslat": parameters})
        self.check(results, V.INVALID, C.SHORT_RUNS)

    def test_lost_runs_are_named_and_too_many_are_invalid(self):
        found = self.check(longest(*[21] * 5, None), V.PASS, C.NO_RUN_BEYOND)
        self.assertEqual([C.FAILED, C.WORST], [note.code for note in found.reasons[0].notes])
        self.check(longest(21, None), V.INVALID, C.TOO_MANY_LOST)
        self.check(longest(47, None), V.FAIL, C.RUN_BEYOND, C.TOO_MANY_LOST)

    def test_a_fact_is_no_chance_that_others_are_corrected_for(self):
        """The loss fails at 95 %, and would not at the 97.5 % of a correction for two figures."""
        results = samples.results({"host": 1000.0, "tuned": 900.0}, boots=3, blocks=6)
        ends = []
        for confidence in (0.95, 0.975):
            budget = B("iperf3", "tuned", 0.1, confidence=confidence)
            ends.append(verdict.judge_all(results, [budget])[0].loss.low)
        budgets = [B("iperf3", "tuned", sum(ends) / 2), oslat()]
        [alone] = verdict.judge_all(results, budgets[:1])
        self.assertEqual(V.FAIL, alone.verdict)
        results.trials += [dataclasses.replace(trial, order=99) for trial in longest(21).trials]
        both = verdict.judge_all(results, budgets)
        self.assertEqual([V.FAIL, V.PASS], [found.verdict for found in both])
        self.assertEqual(alone.reasons, both[0].reasons)
        twice = [*budgets, B("iperf3", "tuned", min_value="1 Mbit/s")]
        self.assertEqual(V.INCONCLUSIVE, verdict.judge_all(results, twice)[0].verdict)


class IntervalTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results({"tuned": 9400.0}, boots=4, blocks=3)

    def check(self, word, code, results=None, **changes):
        budget = B(**{"benchmark": "iperf3", "arm": "tuned", **changes})
        [found] = verdict.judge_all(results or self.data, [budget])
        said = messages.lines(found.reasons)
        self.assertEqual((word, code), (found.verdict, found.deciding.code), said)
        return found

    def test_where_the_interval_lies(self):
        """One arm alone: no host and no other guest was measured."""
        for limits, word, code in (
            ({"min_value": "8 Gbit/s"}, V.PASS, C.WITHIN),
            ({"min_value": "12 Gbit/s"}, V.FAIL, C.BEYOND),
            ({"min_value": "9.4 Gbit/s"}, V.INCONCLUSIVE, C.UNDECIDED),
            ({"max_value": "12000 Mbit/s"}, V.PASS, C.WITHIN),
            ({"max_value": "1 GB/s"}, V.FAIL, C.BEYOND),
            ({"min_value": "8 Gbit/s", "max_value": "12 Gbit/s"}, V.PASS, C.WITHIN),
            ({"min_value": "8 Gbit/s", "max_value": "8.1 Gbit/s"}, V.FAIL, C.BEYOND),
        ):
            with self.subTest(limits):
                found = self.check(word, code, **limits)
                self.assertTrue(found.value.low < found.value.value < found.value.high)
                self.assertEqual(("Mbit/s", None), (found.value_unit, found.loss))
        text = messages.lines(self.check(V.PASS, C.WITHIN, min_value="8 Gbit/s").reasons)
        self.assertRegex(
            text, r"throughput 9,\d+ Mbit/s \(95% interval [\d,]+ to [\d,]+\), at least 8 Gbit/s"
        )

    def test_it_is_the_estimate_of_the_arm(self):
        samples_of_boots = {}
        for trial in self.data.trials:
            samples_of_boots.setdefault(trial.boot, []).append(trial.value)
        found = self.check(V.PASS, C.WITHIN, min_value="8 Gbit/s")
        wanted = verdict.statistics.estimate(samples_of_boots, positive=True)
        self.assertEqual(wanted, found.value)

    def test_one_boot_decides_nothing(self):
        self.data.trials = [trial for trial in self.data.trials if trial.boot == 0]
        self.check(V.INCONCLUSIVE, C.TOO_FEW_BOOTS, min_value="1 Gbit/s")

    def test_percentiles_have_intervals_too_and_need_no_duration(self):
        results = longest(21, 22, 23, metric="latency_p99")
        fields = {"benchmark": "oslat", "metric": "latency_p99"}
        self.check(V.PASS, C.WITHIN, results, **fields, max_value="40us")
        short = {**fields, "max_value": "40us", "min_duration": "2m"}
        self.check(V.INVALID, C.SHORT_RUNS, results, **short)

    def test_zero_is_a_figure(self):
        """Retransmits are 0 in a good run, which has no ratio."""
        results = longest(0, 0, 2, 1, metric="lost", unit="segments", primary=False)
        fields = {"benchmark": "oslat", "metric": "lost"}
        found = self.check(V.PASS, C.WITHIN, results, **fields, max_value="10 segments")
        self.assertEqual(0.75, found.value.value)
        self.check(
            V.FAIL,
            C.BEYOND,
            longest(0, 0, 0, **{"metric": "rate", "unit": "1/s"}),
            benchmark="oslat",
            metric="rate",
            min_value="5 1/s",
        )

    def test_a_run_that_failed_counts_as_the_worst(self):
        values = [100.0, 100.0, 100.0, 100.0, 200.0]
        results = longest(*values, None, metric="latency_p99")
        [found] = verdict.judge_all(
            results, [B("oslat", "tuned", metric="latency_p99", max_value="1s")]
        )
        self.assertEqual((6, 6), (found.value.boots, found.value.n))
        self.assertGreater(found.value.value, 125)

    def test_what_cannot_be_judged(self):
        self.check(V.INVALID, C.OTHER_UNIT, max_value="40us")
        self.check(V.INVALID, C.NO_METRIC, metric="nonsense", max_value="40us")
        self.check(V.INVALID, C.NO_ARM, arm="host", max_value="1 Gbit/s")
        self.check(V.INVALID, C.NO_BENCHMARK, benchmark="fio", max_value="1 ms")

    def test_beside_a_loss_each_limit_has_its_verdict(self):
        """A baseline that is missing is a fault of the loss alone."""
        results = samples.results({"host": 10000.0, "tuned": 9400.0}, boots=4, blocks=3)
        fields = {"max_loss": 0.2, "min_value": "12 Gbit/s"}
        found = self.check(V.FAIL, C.BEYOND, results, **fields)
        self.assertEqual([V.PASS, V.FAIL], list(found.verdicts))
        self.assertEqual(["loss", "value"], [why.params["figure"] for why in found.reasons])
        found = self.check(V.FAIL, C.BEYOND, **fields)
        self.assertEqual([C.BEYOND, C.NO_BASELINE], [why.code for why in found.reasons])
        found = self.check(V.INVALID, C.NO_BASELINE, max_loss=0.2, min_value="8 Gbit/s")
        self.assertEqual([V.PASS, V.INVALID], list(found.verdicts))

    def test_an_absolute_limit_replaces_no_other_budget(self):
        """Budgets for the same figure: the more specific one counts, but these are two figures."""
        general = B("iperf3", "tuned", 0.1)
        limit = B("iperf3", "tuned", min_value="1 Gbit/s", flavor="big")
        found = budget_file.applicable([general, limit], {"flavor": "big"}, {})
        self.assertEqual([general, limit], found)


class FleetTest(testcase.TestCase):
    def test_only_the_host_below_the_limit_fails(self):
        results = samples.fleet(
            lambda pair, arm, block: 0.5 if "h3" in pair else 1, peers=4, better="higher"
        )
        budget = B("iperf3", "tuned", min_value="800 Mbit/s")
        results.environment.fleet.max_loss = 0.9  # hosts alone do not find it
        _, found = fleet.judge(results, [budget])
        words = {host.host: host.verdict for host in found.hosts}
        self.assertEqual({"h3"}, {host for host, word in words.items() if word == "FAIL"}, words)
        [reason] = [host.reasons[0] for host in found.hosts if host.host == "h3"]
        self.assertRegex(
            reason, r"throughput 499\.\d to 501\.\d Mbit/s in all its pairs, at least 800"
        )


class RenderTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = longest(21, 47)
        self.judged = verdict.judge_all(self.data, [oslat()])

    def test_junit_and_json(self):
        suite = ElementTree.fromstring(junit.junit(self.data, self.judged))
        [case] = suite.iter("testcase")
        self.assertEqual("tuned, max_value 40us, min_duration 60s", case.get("name"))
        document = data.verdicts(self.data, self.judged, [])
        [row] = document["judgements"]
        self.assertEqual((47, "µs"), (row["value"]["value"], row["value_unit"]))
        self.assertEqual("40us", row["budget"]["max_value"])
        self.assertEqual("scheduling", document["culprit"])
        self.assertTrue(document["headline"].startswith("FAIL: tuned in oslat: latency_max 47"))
        self.assertNotIn("against", json.dumps(document))

    def test_ndjson_has_the_limit_beside_the_figure(self):
        budgets = [oslat(), oslat(max_value="0.03 ms"), oslat(arm="host", max_value="1us")]
        for given, wanted in ((budgets, (30.0, None)), ((), (None, None))):
            with self.subTest(wanted):
                lines = ndjson.lines(self.data, {}, lambda trial: ("h", None), given)
                rows = list(map(json.loads, lines))
                known = {(row["max_value"], row["min_value"]) for row in rows}
                self.assertEqual({wanted}, known)


class FileTest(directories.DirectoryCase):
    def load(self, *budgets):
        lines = "".join(f"- {{{budget}}}\n" for budget in budgets)
        return budget_file.load(self.write_file("budget.yaml", f"budgets:\n{lines}"))

    def test_a_limit_needs_no_baseline_also_on_the_host(self):
        [budget] = self.load("benchmark: oslat, arm: host, max_value: 40us, min_duration: 1h")
        self.assertEqual((3600.0, ("host",)), (budget.least_seconds, budget.arms))

    def test_all_faults_are_named_at_once(self):
        error = self.assertRaises(
            schema.InputError,
            self.load,
            "benchmark: oslat, arm: t, max_value: 40",
            "benchmark: iperf3, arm: t, min_value: 40us",
            "benchmark: iperf3, arm: t, min_value: 9 Gbit/s, max_value: 900 MB/s",
            "benchmark: oslat, arm: t, max_value: 40us",
            "benchmark: fio, arm: t, metric: sync_latency_p99, max_value: 10 MB/s",
            "benchmark: fio, arm: t, max_loss: 0.1, min_duration: 60s",
            "benchmark: fio, arm: t, min_duration: 60s",
            "benchmark: fio, arm: t, min_value: 5 IOPS, min_duration: 60 IOPS",
            "benchmark: cpu, arm: t, min_value: 5 events/s",
            "benchmark: cpu, arm: t, max_value: 4 events/s",
        )
        for index, text in (
            (0, "(oslat): max_value: '40' has no unit; write it as in 40us"),
            (1, "(iperf3): throughput is in Mbit/s, so it cannot be limited to 40us"),
            (2, "(iperf3): min_value 9 Gbit/s is above max_value 900 MB/s"),
            (3, "(oslat): latency_max grows with the length of a run; give min_duration"),
            (4, "(fio): sync_latency_p99 is in µs, so it cannot be limited to 10 MB/s"),
            (5, "(fio): min_duration is for max_value and min_value"),
            (6, "(fio): limits nothing; min_duration is for"),
            (7, "(fio): min_duration: '60 IOPS' is not a time"),
        ):
            self.assertIn(f"budgets[{index}] {text}", str(error))
        self.assertIn("two budgets for cpu (t): min_value 5 events/s is above", str(error))
        self.assertEqual(1, str(error).count("\n") + 1)

    def test_right_ones_are_no_contradiction(self):
        self.load(
            "benchmark: fio, arm: t, min_value: 100k IOPS, max_value: 1M IO/s",
            "benchmark: fio, arm: other, max_value: 10 IO/s",
            "benchmark: fio, arm: t, max_value: 10 IO/s, flavor: small",
            "benchmark: mine, arm: t, metric: x, max_value: 10 apples",
        )

    def test_a_run_too_short_is_refused_before_it(self):
        budgets = self.load("benchmark: oslat, arm: host, max_value: 40us, min_duration: 1m")
        arms = ["host", "untuned", "tuned"]
        for seconds, refused in (("59", True), ("60", False)):
            jobs = plugins.jobs([f"oslat:seconds={seconds},cpus=1"])
            with self.subTest(seconds):
                if refused:
                    text = "oslat runs for 59 s, min_duration is 1m; give --seconds 60"
                    with self.assertRaisesRegex(schema.InputError, text):
                        budget_file.for_run(budgets, "f", {}, jobs, arms)
                else:
                    self.assertEqual(budgets, budget_file.for_run(budgets, "f", {}, jobs, arms))


class QuantityTest(testcase.TestCase):
    def test_units(self):
        for text, unit, value in (
            ("40us", "µs", 40.0),
            ("40 µs", "µs", 40.0),
            ("10 ms", "µs", 10_000.0),
            ("0.5 s", "ms", 500.0),
            ("10 Gbit/s", "Mbit/s", 10_000.0),
            ("10Gbps", "Mbit/s", 10_000.0),
            ("1.25 GB/s", "Mbit/s", 10_000.0),
            ("1 GiB/s", "MiB/s", 1024.0),
            ("100k IOPS", "IO/s", 100_000.0),
            ("100 kIOPS", "IO/s", 100_000.0),
            ("2k events/s", "events/s", 2000.0),
            ("60 1/min", "1/s", 1.0),
            ("5 MFLOPS", "MFLOPS", 5.0),
            ("0.1 %", "%", 0.1),
            ("0 segments", "segments", 0.0),
            ("10 ms", "Mbit/s", None),
            ("10 KB/s", "MB/s", None),  # 1000 or 1024 bytes
            ("5 events/s", "1/s", None),
        ):
            with self.subTest(text):
                found = quantities.parse(text).within(unit)
                if value is None:
                    self.assertIsNone(found)
                else:
                    self.assertAlmostEqual(value, found)

    def test_no_quantity(self):
        for text in ("40", "us", "-4us", "1,000 us", "4e3us", "", "40 ", "NaN us"):
            with self.subTest(text):
                self.assertRaises(quantities.QuantityError, quantities.parse, text)
        for text in ("60", "60 MB/s"):
            self.assertRaises(quantities.QuantityError, quantities.seconds, text)

    def test_figures_called_latency_are_times_and_their_maxima_are_known(self):
        """By this a budget file is checked before anything is measured."""
        seen = set()
        for path in OUTPUTS.iterdir():
            text = pasted.decode(path.read_bytes())
            try:
                readings = recognition.recognise(text).checked_figures(text)
            except base.BenchmarkOutputError:
                continue
            for reading in readings:
                if "latency" not in reading.metric:
                    continue
                seen.add(reading.metric)
                self.assertEqual(
                    quantities.TIME, quantities.unit_of(reading.unit).dimension, reading
                )
                is_maximum = quantities.is_maximum(reading.metric)
                self.assertEqual("latency_max" in reading.metric, is_maximum, reading)
        self.assertIn("latency_max_cpu1", seen)


class CommandTest(directories.DirectoryCase):
    def test_a_limit_without_a_unit_is_one_line(self):
        budget = self.write_file(
            "budget.yaml", "budgets: [{benchmark: oslat, arm: tuned, max_value: 40}]"
        )
        done = program.nova_perf("evaluate", "results.json", "--budget", budget)
        self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")))
        self.assertIn("'40' has no unit; write it as in 40us", done.stderr)
