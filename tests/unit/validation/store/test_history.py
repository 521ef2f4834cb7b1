# SPDX-License-Identifier: Apache-2.0
"""Histories in a real database: kept once, like beside like."""

import dataclasses
import datetime
import statistics
from unittest import mock

import sqlalchemy as sa

from nova_perf_tuning.validation.judge import statistics as intervals
from nova_perf_tuning.validation.report import summary
from nova_perf_tuning.validation.results import messages, reasons
from nova_perf_tuning.validation.store import engine as database
from nova_perf_tuning.validation.store import history
from tests.support import directories, samples, testcase

MACHINE = {"cpu_model": "CPU", "cpus": 2, "memory_mib": 4096, "accelerator": "kvm"}


class HistoryTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.engine = database.connect(f"sqlite:///{self.directory}/runs.db")
        self.addCleanup(self.engine.dispose)

    def add(self, host="one", day=1, value=100.0, request=None, **environment):
        output = {
            **MACHINE,
            "host": host,
            "created": f"2026-10-{day:02}T10:00:00+00:00",
            **environment,
        }
        data = samples.results({"untuned": value}, seed=day, noise=0.002, **output)
        if request is not None:
            data.environment.arms["untuned"].request = request
        return history.add(self.engine, data)

    def test_the_same_results_are_kept_once(self):
        run_id, new = self.add()
        self.assertTrue(new)
        self.assertEqual((run_id, False), self.add())
        self.assertEqual(1, len(history.series(self.engine)[0].points))

    def add_fleet(self, day, cloud, sick):
        """Keep a run of one pair: "good" is its client, "sick" its server; each ran alone once."""
        run_id = f"fleet-{cloud}-{day}"
        trials = []
        for boot, value in enumerate((1000.0 + day, sick + day)):
            trial = samples.trial(benchmark="cpu", arm="tuned", boot=boot, order=boot, value=value)
            trials.append(dataclasses.asdict(trial))
        at = datetime.datetime(2026, 10, day)
        run = {"id": run_id, "kind": "heat", "state": "complete", "owner": "", "created_at": at}
        run |= {"seen_at": at, "leftovers": False, "plan": {"cloud": cloud}, "environment": {}}
        pair = {"run_id": run_id, "number": 0, "client": "good", "server": "sick", "state": "done"}
        pair |= {"attempts": 1, "faults": [], "environment": {}, "trials": trials}
        with self.engine.begin() as connection:
            connection.execute(sa.insert(database.runs), run | {"hosts": ["good", "sick"]})
            connection.execute(sa.insert(database.pairs), pair)

    def test_a_fleet_names_the_program_that_changed(self):
        for day in range(1, 15):
            version = "1.0.20"
            if day > 7:
                version = "1.0.21"
            self.add_fleet(day, "one", 900.0)
            work = {"cpu": {"tuned": [{"version": version}]}}
            run_id = f"fleet-one-{day}"
            runs, pairs = database.runs, database.pairs
            with self.engine.begin() as connection:
                recorded = {"benchmarks": {"cpu": {"kind": "cpu"}}}
                change = sa.update(runs).where(runs.c.id == run_id)
                connection.execute(change.values(environment=recorded))
                change = sa.update(pairs).where(pairs.c.run_id == run_id)
                connection.execute(change.values(environment={"workloads": work}))
        [found] = history.series(self.engine, "sick")
        versions = [point.versions.get("sysbench") for point in found.points]
        self.assertEqual(["1.0.20"] * 7 + ["1.0.21"] * 7, versions)

    def test_what_ran_on_a_server_is_the_servers(self):
        for day in range(1, 7):
            self.add_fleet(day, "one", 900.0 if day < 4 else 100.0)
        found = {each.host: each for each in history.series(self.engine)}
        self.assertEqual({"good", "sick"}, set(found))
        self.assertEqual((), found["good"].changes)
        self.assertEqual([3], [change.index for change in found["sick"].changes])
        self.assertEqual(["sick"], [each.host for each in history.series(self.engine, "sick")])

    def test_hosts_of_two_clouds_are_two(self):
        self.add_fleet(1, "one", 900.0)
        self.add_fleet(2, "two", 900.0)
        self.assertEqual(
            ["good", "good", "sick", "sick"],
            [each.host for each in history.series(self.engine)],
        )

    def test_a_damaged_run_is_named(self):
        run_id, _new = self.add()
        damages = {
            "no JSON": ("runs", "environment", "no json"),
            "a list": ("runs", "environment", "[1]"),
            "tags": ("runs", "environment", '{"tags": 5}'),
            "trials of another kind": ("pairs", "trials", "[5]"),
            "a trial without its fields": ("pairs", "trials", "[{}]"),
            "deep": ("pairs", "trials", "[" * 100_000),
        }
        for damage, (table, column, content) in damages.items():
            with self.subTest(damage), self.engine.begin() as connection:
                where = "id" if table == "runs" else "run_id"
                read = sa.text(f"SELECT {column} FROM {table} WHERE {where} = :run")
                write = sa.text(f"UPDATE {table} SET {column} = :to WHERE {where} = :run")
                before = connection.execute(read, {"run": run_id}).scalar_one()
                connection.execute(write, {"run": run_id, "to": content})
                connection.commit()
                error = self.assertRaises(database.DatabaseError, history.series, self.engine)
                self.assertIn(run_id, str(error))
                with self.engine.begin() as again:
                    again.execute(write, {"run": run_id, "to": before})
        self.assertEqual(1, len(history.series(self.engine)))

    def test_change_is_reported_with_what_changed(self):
        for day in range(1, 13):
            self.add(
                day=day, value=100.0 if day < 7 else 80.0, kernel="6.1" if day < 7 else "6.12"
            )
        [found] = history.series(self.engine, "one")
        self.assertEqual([6], [change.index for change in found.changes])
        change = found.change(found.changes[0])
        self.assertEqual(reasons.ReasonCode.WORSENED, change.code)
        self.assertEqual({"kernel": ("6.1", "6.12")}, change.params["versions"])
        self.assertEqual([], history.series(self.engine, "another"))

    def test_a_change_names_the_program_that_changed(self):
        for day in range(1, 15):
            version = "iperf 3.12"
            value = 100.0
            if day > 7:
                version, value = "iperf 3.17", 300.0
            work = {"untuned": [{"protocol": "TCP", "version": version}]}
            benchmarks = {"iperf3": {"kind": "iperf3", "workloads": work}}
            self.add(day=day, value=value, benchmarks=benchmarks)
        [found] = history.series(self.engine, "one")
        [change] = found.changes
        line = messages.of(found.change(change))
        self.assertIn("iperf3 3.12 -> 3.17", line)

    def test_a_change_for_the_better_is_one(self):
        for day in range(1, 13):
            self.add(day=day, value=80.0 if day < 7 else 100.0)
        [found] = history.series(self.engine, "one")
        self.assertEqual(
            [reasons.ReasonCode.IMPROVED], [found.change(one).code for one in found.changes]
        )

    def test_trials_that_do_not_count_are_not_kept(self):
        data = samples.results({"untuned": 100.0}, noise=0.002)
        for trial in data.trials[:4]:
            trial.value, trial.conditions = 1.0, {"steal_share": 0.9}
        history.add(self.engine, data)
        [point] = history.series(self.engine)[0].points
        self.assertEqual(5, point.n)
        self.assertTrue(point.value > 90)

    def test_other_hardware_or_parameters_are_another_series(self):
        parameters = {"benchmarks": {"iperf3": {"parameters": {"seconds": "8"}}}}
        for output in ({}, {"cpu_model": "old CPU"}, {"cpu_model": ""}, parameters):
            self.add(**output)
        self.assertEqual([1] * 4, [len(series.points) for series in history.series(self.engine)])

    def test_filter_by_tags(self):
        for day, tags in enumerate(({}, {"kernel": "new"}, {"kernel": "new", "rack": "a 1"}), 1):
            self.add(day=day, tags=tags)
        for tags, days in (
            ({}, [1, 2, 3]),
            ({"kernel": "new"}, [2, 3]),
            ({"kernel": "new", "rack": "a"}, []),
        ):
            with self.subTest(tags):
                found = history.series(self.engine, tags=tags)
                self.assertEqual(
                    days, [point.at.day for series in found for point in series.points]
                )

    def test_trials_that_tools_watched_are_another_series(self):
        self.add()
        data = samples.results({"untuned": 90.0}, **MACHINE, host="one")
        for trial in data.trials:
            trial.collectors = ["perf"]
        history.add(self.engine, data)
        self.assertEqual([1, 1], [len(series.points) for series in history.series(self.engine)])
        [note] = summary.notes(data, [])
        self.assertEqual(
            (reasons.ReasonCode.WATCHED, ["perf"]), (note.code, note.params["collectors"])
        )

    def test_other_requests_are_another_series(self):
        balanced = {"perf:profile": "balanced", "perf:vif_queues": "auto"}
        other = {"perf:profile": "network-throughput", "perf:vif_queues": "auto"}
        own = {**balanced, "perf:vif_queues": "2"}
        judged = {"perf:vif_queues": "auto", "perf:profile": "balanced", "perf:budget": "default"}
        requests = [{}, *[balanced] * 3, judged, *[other] * 5, own]
        for day, request in enumerate(requests, 1):
            value = 127.0 if request is other else 100.0
            self.add(day=day, value=value, request=request)
        found = history.series(self.engine)
        counts = {"-": 1, "balanced (vif_queues=auto)": 4, "balanced (vif_queues=2)": 1}
        counts["network-throughput (vif_queues=auto)"] = 5
        self.assertEqual(counts, {series.tuning: len(series.points) for series in found})
        self.assertEqual([], [series.changes for series in found if series.changes])


class ShortcutTest(testcase.TestCase):
    """What lies below the normal quantile needs no quantile of Student's t, and so no SciPy."""

    def test_the_normal_quantile_is_always_the_smaller_one(self):
        for places in (1, 2, 10, 1000):
            probability = 1 - 0.01 / (2 * places)
            normal = statistics.NormalDist().inv_cdf(probability)
            for freedom in (4, 5, 20, 1000):
                self.assertGreater(intervals.student_t(probability, freedom), normal)

    def test_steady_figures_load_nothing(self):
        values = [100.0 + step for step in (0, 1, -1, 0.5, 0, -0.5, 1, 0, -1, 0.5)]
        with mock.patch.object(intervals, "student_t", side_effect=AssertionError):
            self.assertEqual([], history.changes(values))

    def test_a_step_is_found(self):
        values = [100.0, 101, 99, 100.5, 100, 120, 121, 119, 120.5, 120]
        [change] = history.changes(values)
        self.assertEqual(5, change.index)
        self.assertAlmostEqual(1.2, change.ratio, 2)
