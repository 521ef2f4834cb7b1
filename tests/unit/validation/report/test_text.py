# SPDX-License-Identifier: Apache-2.0
"""The English of reasons and figures."""

import contextlib
import dataclasses
import io

from nova_perf_tuning.cli import result_tables
from nova_perf_tuning.validation.judge import statistics
from nova_perf_tuning.validation.report import reason_lines, report, summary, text
from nova_perf_tuning.validation.results import messages, reasons
from nova_perf_tuning.validation.results.environment import RecordedBenchmark
from tests.support import samples, testcase

C = reasons.ReasonCode
reason = reasons.reason

#: Parameters of every code: each line is made of some of them.
_ANY = {
    **{
        "figure": "loss",
        "value": 0.021,
        "low": 0.01,
        "high": 0.03,
        "confidence": 0.95,
        "promised": 0.9,
    },
    **{
        "unit": "",
        "limit": 0.05,
        "boots": 1,
        "needed": 2,
        "figures": 3,
        "floor": 0.05,
        "created": "2026-01-01",
    },
    **{
        "arm": "tuned",
        "baseline": "untuned",
        "benchmark": "fio",
        "metric": "iops",
        "named": True,
        "spread": 0.03,
    },
    **{
        "arms": ["x"],
        "names": ["size"],
        "fields": {"benchmark": "fio", "arm": "a b"},
        "files": ["a.txt"],
        "benchmarks": ["cpu"],
        "known": ["cpu"],
        "collectors": ["perf"],
        "budgets": ["a", "b"],
    },
    **{"accelerator": "kvm", "wanted": "kvm", "found": "xen", "unknown": ["host_group"]},
    **{"host_group": "", "memory_encryption": "", "flavor": "gold"},
    **{
        "count": 3,
        "of": 9,
        "failed": 2,
        "zeros": 0,
        "missing": 1,
        "excluded": 1,
        "what": "pairs",
        "more": 2,
    },
    **{
        "vcpu": 9.0,
        "total": 1.0,
        "guest": 9.0,
        "wait": 0.0,
        "share": 0.1,
        "most": 0.2,
        "seconds": -2.0,
    },
    **{
        "first": 3000.0,
        "now": 2000.0,
        "mhz": {"a": 3000.0, "b": 2000.0},
        "measured": 1.0,
        "rate": 0.25,
    },
    **{
        "ended": "time limit",
        "load": 5.5,
        "cpus": 2,
        "filesystem": "tmpfs",
        "finding": "no queues",
    },
    **{
        "verdict": "FAIL",
        "culprit": "CPU",
        "hosts": ["a"],
        "example": "a: x",
        "why": (reason(C.NO_RESULT),),
    },
    **{"ratio": 1.2, "at": "2026-10-01T10:00:00", "versions": {"kernel": ("6.1", "6.12")}},
    **{"name": "pattern", "asked": "read", "values": {"read": "untuned", "write": "tuned"}},
    "outcomes": [{"benchmark": "cpu", "outcome": "gain", "ratio": 1.2}],
    **{"written": "40us", "bound": "max", "runs": 12, "broken": 1, "boot": 9, "file": ""},
    **{"by_file": {"1": "a", "": "b"}, "others": ["jobs"], "error": "no space"},
}
_VALUE = {"figure": "value", "metric": "latency_max", "value": 47.0, "unit": "µs"}
_RATE = {"figure": "value", "metric": "throughput", "value": 9412.3, "low": 9300.0}
_RATE |= {"high": 9500.0, "unit": "Mbit/s", "bound": "min", "written": "9 Gbit/s"}
_CPU = {"figure": "cpu", "value": 0.2, "low": 0.1, "high": 0.3, "unit": "Gbit"}
#: Code and what differs from these -> its line, or how it begins.
CASES = (
    (C.WITHIN, {}, "-2.1% (95% interval -3.0% to -1.0%), allowed -5.0%"),
    (
        C.WITHIN,
        {"low": -0.01, "limit": -0.1},
        "-2.1% (95% interval -3.0% to +1.0%), demanded +10.0%",
    ),
    (C.BEYOND, _CPU, "service CPU per Gbit 0.2 s (95% interval 0.1 s to 0.3 s), allowed 0.05 s"),
    (
        C.WITHIN,
        _RATE,
        "throughput 9,412 Mbit/s (95% interval 9,300 to 9,500), at least 9 Gbit/s wanted",
    ),
    (
        C.RUN_BEYOND,
        _VALUE,
        "latency_max 47 µs is the greatest of 12 runs (boot 10), at most 40us allowed",
    ),
    (
        C.NO_RUN_BEYOND,
        {**_VALUE, "file": "a.json", "runs": 1},
        "latency_max 47 µs is the greatest of 1 run (a.json), at most 40us",
    ),
    (
        C.HOST_BEYOND,
        _RATE,
        "fio (tuned): throughput 9,300 to 9,500 Mbit/s in all its pairs, at least 9 Gbit/s",
    ),
    (
        C.MIXED_WORKLOADS,
        {},
        "the files are of different workloads: pattern is 1 (a) and none (b); also different: jobs;",
    ),
    (C.TOO_FEW_BOOTS, {}, "-2.1%, allowed -5.0%: no interval from 1 boot; at least 2"),
    (C.FAILED, {"excluded": 0, "what": "files"}, "3 of 9 files of 'tuned' failed or are missing"),
    (C.WORST, {"what": "files"}, "files without a figure of 'tuned', taken as its worst: 3"),
    (C.EXCLUDED, {"count": 1}, "1 of 9 pairs excluded: none of its pairs gave a result"),
    (
        C.TOO_MANY_LOST,
        {"what": "trials"},
        "3 of 9 trials of 'tuned' failed or are missing or were excluded (limit 5%): none of",
    ),
    (
        C.WORKLOADS_DIFFER,
        {},
        "runs differ in their work, so they cannot be compared: pattern is read in 'untuned', write in",
    ),
    (
        C.FREQUENCY_GAP,
        {},
        "arms ran at different CPU frequencies: a 3000 MHz, b 2000 MHz (limit 5%)",
    ),
    (
        C.SLOW,
        {"low": 0.2, "high": 0.3},
        "fio (tuned): slower than the other hosts by 20% to 30% in all its pairs",
    ),
    (
        C.HOST_BEYOND,
        {},
        "fio (tuned): -3.0% to -1.0% against 'untuned' in all its pairs, allowed -5.0%",
    ),
    (
        C.HOST_MAYBE_BEYOND,
        {"figure": "cpu"},
        "fio (tuned): service CPU per unit 0.01 s to 0.03 s in",
    ),
    (
        C.PLACE_UNKNOWN,
        {},
        "budgets left out, since the results name no host group (give --host-group): a; b",
    ),
    (C.COMPARED, {}, "tuned against untuned: a gain in cpu (+20.0%)."),
    (
        C.JUDGED,
        {"of": 3},
        "FAIL: tuned against untuned in fio: none of its pairs gave a result (and 2 more of 3",
    ),
    (C.JUDGED, {"baseline": ""}, "FAIL: tuned in fio: none of its pairs gave a result"),
    (C.HOSTS_JUDGED, {"of": 2}, "FAIL: 1 of 2 hosts: a (a: x)."),
    (C.IMPROVED, {}, "+20.0% (better) from 2026-10-01 10:00 on; kernel 6.1 -> 6.12"),
    (C.WORSENED, {"ratio": 0.8, "versions": {}}, "-20.0% (worse) from 2026-10-01 10:00 on"),
)
#: What to do, said in sentences.
_ACTIONS = list(C)[list(C).index(C.CHECK_CPU) : list(C).index(C.IMPROVED)]


class TextTest(testcase.TestCase):
    def test_every_code_has_a_line(self):
        for code in C:
            with self.subTest(code):
                form = r"^[A-Z'].*\.$" if code in _ACTIONS else "^[^{}]{10,}$"
                self.assertRegex(messages.of(reason(code, **_ANY)), form)
        for code, changes, line in CASES:
            with self.subTest(code):
                self.assertTrue(
                    messages.of(reason(code, **{**_ANY, **changes})).startswith(line), code
                )

    def test_notes_follow_and_are_found(self):
        excluded = reason(C.EXCLUDED, count=1, of=9, what="pairs", why=(reason(C.NO_RESULT),))
        noted = reason(C.NO_PAIRS, figure="loss").noting(excluded)
        self.assertEqual({C.NO_PAIRS, C.EXCLUDED, C.NO_RESULT}, noted.codes)
        self.assertIn("; 1 of 9 pairs excluded: none of its pairs", messages.of(noted))
        self.assertEqual(
            "no_result", reason_lines.of(noted)["notes"][0]["params"]["why"][0]["code"]
        )

    def test_each_kind_of_reason_is_shown_once(self):
        some = [
            reason(C.THROTTLING, count=1.0),
            reason(C.NO_RESULT),
            reason(C.THROTTLING, count=2.0),
        ]
        self.assertEqual(tuple(some[:2]), reasons.distinct(some))


class FigureTest(testcase.TestCase):
    def test_numbers_have_three_significant_digits(self):
        values = (None, 0, 11097.4, 99.96, 65.23, 9.999, 1.0, 0.179, 0.0232, 3e-7, 2.5e12)
        numbers = "- 0 11,097 100 65.2 10.0 1.00 0.179 0.0232 3.00e-07 2.50e+12".split()
        self.assertEqual(numbers, list(map(text.number, values)))

    def test_gain_in_words(self):
        for ends, output in (
            ((1.1, 1.2, 1.3), "+20.0% (95% interval +10.0% to +30.0%)"),
            ((0.98, 0.99999, 1.04), "+0.0% (95% interval -2.0% to +4.0%)"),
            ((None, 1.2, None), "+20.0% (one boot, so no interval)"),
        ):
            with self.subTest(ends):
                low, value, high = ends
                self.assertEqual(
                    output, text.gain(statistics.Estimate(value, low, high, 9, 3, 0.95))
                )


class WorkloadsTest(testcase.TestCase):
    def test_arms_that_did_the_same_are_one_line(self):
        benchmark = RecordedBenchmark()
        for arm, kernel in (("host", "6.1"), ("untuned", "6.12"), ("tuned", "6.12")):
            benchmark.ran(arm, {"pattern": "read", "kernel": kernel, "command": "fio"})
        benchmark.ran("tuned", {"pattern": "write"})
        self.assertEqual(
            ["host, untuned, tuned: pattern: read", "tuned: pattern: write"],
            text.workloads(benchmark),
        )


class DifferencesTest(testcase.TestCase):
    def rows(self, **arms):
        requests = {name: {"request": request} for name, request in arms.items()}
        return text.arm_differences(samples.of([samples.trial()], arms=requests).environment)

    def test_only_what_differs_is_named(self):
        common = {"perf:vif_queues": "2"}
        rows = dict(self.rows(one=common, two={**common, "perf:iothreads": "1"}))
        self.assertEqual("perf:iothreads=1", rows["two"])
        self.assertNotIn("vif_queues", rows["one"])

    def test_guests_that_ask_for_nothing_are_named(self):
        rows = dict(self.rows(untuned={}, tuned={"perf:iothreads": "1"}))
        self.assertEqual(["untuned", "tuned"], list(rows))
        self.assertEqual("perf:iothreads=1", rows["tuned"])
        self.assertEqual([], self.rows(one={}, two={}))

    def test_what_the_host_did_is_said_where_arms_differ_in_that(self):
        results = samples.results({"untuned": 0.5, "tuned": 0.6})
        self.assertEqual([], text.host_states(results.environment))
        arms = {"untuned": {"host_state": "as <found>"}, "tuned": {"host_state": "after apply"}}
        results.environment.arms = samples.of([], arms=arms).environment.arms
        rows = text.host_states(results.environment)
        self.assertEqual([("untuned", "as <found>"), ("tuned", "after apply")], rows)
        shown = report.render(results, summary.summarise(results), [])
        self.assertIn("as &lt;found&gt;", shown)
        self.assertNotIn("Nothing was requested", shown)

    def test_the_report_begins_with_it(self):
        arms = {"untuned": {"request": {}}, "tuned": {"request": {"perf:iothreads": "1"}}}
        results = samples.results({"host": 1.0, "untuned": 0.5, "tuned": 0.6})
        results = samples.of(results.trials, arms=arms)
        page = report.render(results, summary.summarise(results), [])
        begin, _, _rest = page.partition('<div class="tiles">')
        self.assertIn("perf:iothreads=1", begin)


class KnownFiguresTest(testcase.TestCase):
    def test_no_row_has_dashes_alone(self):
        trials = samples.results({"untuned": 1.0, "tuned": 1.1}).trials
        for counters in ({}, {"total": 2.0, "vcpu": 1.0}):
            mine = [dataclasses.replace(trial, host_cpu_s=counters) for trial in trials]
            [benchmark] = summary.summarise(samples.of(mine))
            rows = text.cpu_rows(benchmark)
            self.assertTrue(all(set(cells) != {"-"} for _title, cells in rows), rows)
            self.assertTrue(all(len(cells) == 2 for _title, cells in rows), rows)

    def test_columns_that_have_nothing_are_left_out(self):
        trials = samples.results({"untuned": 1.0, "tuned": 1.1}).trials
        results = samples.of([dataclasses.replace(trial, host_cpu_s={}) for trial in trials])
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            result_tables.print_summary(results, summary.summarise(results))
        head = shown.getvalue().splitlines()[1]
        self.assertNotIn("service CPU", head)
        self.assertNotIn("ratio to host", head)
        self.assertIn("ratio to", head)
