"""Histories in a real database: kept once, compared with equals only."""

import os

import fixtures
import testtools

from nova_perf_tuning.budget import history
from tests.unit.budget import samples

MACHINE = {"cpu_model": "CPU", "cpus": 2, "memory_mib": 4096, "accelerator": "kvm"}


class HistoryTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.useFixture(fixtures.TempDir()).path
        self.kept = history.History(f"sqlite:///{os.path.join(folder, 'runs.db')}")
        self.addCleanup(self.kept.close)

    def add(self, host="one", day=1, value=100.0, **environment):
        told = {**MACHINE, "host": host, "created": f"2026-10-{day:02}T10:00:00+00:00", **environment}
        return self.kept.add(samples.results({"untuned": value}, seed=day, noise=0.002, **told))

    def test_the_same_results_are_kept_once(self):
        run_id, new = self.add()
        self.assertEqual((run_id, True), (run_id, new))
        self.assertEqual((run_id, False), self.add())
        self.assertEqual(1, len(self.kept.series()[0].points))

    def test_a_change_is_found_and_told_with_what_changed(self):
        for day in range(1, 13):
            self.add(day=day, value=100.0 if day < 7 else 80.0, kernel="6.1" if day < 7 else "6.12")
        [found] = self.kept.series("one")
        self.assertEqual([6], [one.index for one in found.changes])
        self.assertIn("% (worse) from 2026-10-07 10:00 on; kernel 6.1 -> 6.12", found.told(found.changes[0]))
        self.assertEqual([], self.kept.series("another"))
        self.assertEqual(4, len(self.kept.series(last=4)[0].points))

    def test_only_equals_are_compared(self):
        for number in range(6):
            self.add(f"host{number}", value=100.0 + number)
        self.add("slow", value=50.0)
        self.add("other", value=10.0, cpu_model="old CPU")
        self.add("unknown", value=10.0, cpu_model="")
        found = {one.host: one for one in self.kept.series()}
        self.assertEqual(["slow"], [host for host, one in found.items() if one.outlier is not None])
        self.assertEqual((7, 1, 1), tuple(found[host].peers for host in ("slow", "other", "unknown")))

    def test_other_parameters_are_another_series(self):
        for day, seconds in ((1, "4"), (2, "8")):
            self.add(day=day, benchmarks={"iperf3": {"parameters": {"seconds": seconds}}})
        self.assertEqual([1, 1], [len(one.points) for one in self.kept.series()])
