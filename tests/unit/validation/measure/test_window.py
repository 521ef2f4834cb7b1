# SPDX-License-Identifier: Apache-2.0
"""The window of a trial: found from stamps and outputs, and CPU counted over it alone."""

import dataclasses
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import sampling, trial
from nova_perf_tuning.validation.report import summary
from nova_perf_tuning.validation.results import reasons
from tests.support import samples, testcase

EPOCH = 1.7e9
LIMITS = (100.0, 110.0)

seconds = st.floats(0, 12, allow_nan=False)


class Spanned(samples.Quick):
    """A program that tells when it measured."""

    message: bench.Span | None = bench.Span(0.8)

    def span(self, output):
        return self.message


def finished(begin, end):
    return launch.Finished(0, "", "", (begin + EPOCH, end + EPOCH))


def find(span, lived=(102.0, 109.0), error_s=0.001):
    benchmark = Spanned()
    benchmark.message = span
    return trial.find_window(benchmark, finished(*lived), launch.Clock(EPOCH, error_s), LIMITS)


class FindTest(testcase.TestCase):
    def test_as_narrow_as_is_known(self):
        for span, lived, error_s, kind, begin, end in (
            (
                bench.Span(3.0),
                (102.0, 109.0),
                0.001,
                "measuring",
                106.0,
                109.0,
            ),  # ends with its program
            (
                bench.Span(3.0, 108.0 + EPOCH),
                (102.0, 109.0),
                0.001,
                "measuring",
                105.0,
                108.0,
            ),  # or when it says
            (None, (102.0, 109.0), 0.001, "program", 102.0, 109.0),
            (
                bench.Span(3.0),
                (102.0, 109.0),
                0.11,
                "execution",
                *LIMITS,
            ),  # the clock is too far off
            (bench.Span(3.0), (102.0, 200.0), 0.001, "execution", *LIMITS),
        ):
            with self.subTest(span):
                found = find(span, lived, error_s)
                self.assertEqual(kind, found.kind)
                self.assertAlmostEqual(begin, found.begin, 5)
                self.assertAlmostEqual(end, found.end, 5)
        run = finished(102.0, 109.0)
        for unknown in (
            (run, None),
            (dataclasses.replace(run, lived=None), launch.Clock(EPOCH, 0.0)),
        ):
            with self.subTest(unknown):
                self.assertEqual("execution", trial.find_window(Spanned(), *unknown, LIMITS).kind)

    @hypothesis.given(seconds, seconds, seconds, st.none() | seconds, st.floats(0, 0.2))
    def test_nothing_that_a_guest_says_leads_out_of_the_execution(
        self, begin, end, length, until, error_s
    ):
        span = bench.Span(length, None if until is None else 99 + until + EPOCH)
        found = find(span, (99 + begin, 99 + end), error_s)
        self.assertTrue(LIMITS[0] <= found.begin < found.end <= LIMITS[1], found)
        if found.kind == "measuring":
            self.assertAlmostEqual(length, found.end - found.begin, 5)


class SeriesTest(testcase.TestCase):
    def series(self, points):
        """Return counters that were read at these moments."""
        readings = iter([values for _, values in points])
        series = sampling.CounterSeries(lambda: next(readings), 1.0)
        for at, _ in points:
            with mock.patch("time.monotonic", return_value=at):
                series.take()
        return series

    @hypothesis.given(
        st.lists(st.floats(0, 100), min_size=2, max_size=20, unique=True),
        st.floats(0, 1),
        st.floats(0, 1),
    )
    def test_even_growth_is_cut_exactly(self, times, low, high):
        times.sort()
        hypothesis.assume(times[-1] - times[0] > 1e-3)
        series = self.series([(at, {"total": 3 * at}) for at in times])
        begin, end = sorted(times[0] + share * (times[-1] - times[0]) for share in (low, high))
        self.assertAlmostEqual(3 * (end - begin), series.spent(begin, end)["total"], 6)

    def test_readings_that_get_too_many_are_thinned_out(self):
        readings = iter(range(1000))
        series = sampling.CounterSeries(lambda: {"total": 2.0 * next(readings)}, 1.0, most=8)
        for at in range(1000):
            with mock.patch("time.monotonic", return_value=at):
                series.take()
        self.assertLessEqual(len(series._times), 8)
        self.assertEqual(((0, 999), {"total": 998.0}), (series.limits, series.spent(100.0, 599.0)))

    def test_what_was_not_known_all_the_time_is_left_out(self):
        series = self.series(
            [(0.0, {"a": 1.0, "b": 1.0}), (1.0, {"a": 2.0}), (2.0, {"a": 5.0, "b": 1.0})]
        )
        self.assertEqual({"a": 2.0}, series.spent(0.5, 1.5))
        self.assertEqual({"a": 4.0, "b": 0.0}, series.spent(0.0, 2.0))


class CourseTest(testcase.TestCase):
    def course(self, end, counters, cpus):
        """Return the course from 0 to ``end`` of counters, functions of the time, read each half second."""
        machines = [mock.Mock(spec=launch.Machine)]
        made = sampling.Counters(machines)
        for series, functions in ((made.host, counters), (made._cpus, cpus)):
            series._times = [step / 2 for step in range(2 * end + 1)]
            series._values = [
                {name: grow(at) for name, grow in functions.items()} for at in series._times
            ]
        return made.course(0.0, float(end))

    def test_second_by_second(self):
        counters = {
            "vcpu": lambda at: 3 * at,
            "total": lambda at: 4 * at,
            "wait_s": lambda at: at / 2,
        }
        counters["net_bytes"] = lambda at: 1e6 * max(0, at - 2)
        found = self.course(4, counters, {"0": lambda at: at, "11": lambda at: 0.0})
        self.assertEqual(
            {"vcpu": [3.0] * 4, "wait": [0.5] * 4}, found["host_cpu"], "classes make up the total"
        )
        self.assertEqual({"net": [0.0, 0.0, 1e6, 1e6]}, found["moved"])
        self.assertEqual({"0": [100] * 4, "11": [0] * 4}, found["busy"])
        self.assertEqual((1.0, 0), (found["step_s"], found["hidden"]))

    def test_long_trials_and_large_hosts_stay_small(self):
        cpus = {str(cpu): lambda at, cpu=cpu: at * cpu / 1000 for cpu in range(1000)}
        found = self.course(240, {"total": lambda at: at}, cpus)
        self.assertEqual((2.0, 120), (found["step_s"], len(found["host_cpu"]["total"])))
        self.assertEqual(
            [str(cpu) for cpu in range(936, 1000)], list(found["busy"]), "the busiest"
        )
        self.assertEqual(936, found["hidden"])


class NoteTest(testcase.TestCase):
    def test_what_includes_start_and_end_is_told(self):
        data = samples.results({"host": 1.0, "untuned": 0.9}, boots=1, blocks=1)
        self.assertEqual([], summary.notes(data, []))
        data.trials[0].window = "execution"
        [message] = summary.notes(data, [])
        self.assertEqual(
            (reasons.ReasonCode.WIDE_WINDOWS, 1), (message.code, message.params["count"])
        )
