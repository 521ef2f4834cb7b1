"""Service CPU and full overhead from counters."""

import json
import lzma
import pathlib

import testtools

from nova_perf_tuning.budget import overhead, store
from tests.unit.budget import samples

RECORDED = pathlib.Path(__file__).parents[2] / "benchmarks/aa_guests.json.xz"


class CostTest(testtools.TestCase):
    def test_both_figures(self):
        trial = samples.trial()
        found = overhead.cost(trial)
        self.assertEqual((5.0, 1.0, 1.5, ""), (found.total_s, found.service_s, found.full_s, found.invalid))
        self.assertAlmostEqual(0.2, overhead.per_unit(found.service_s, trial))
        self.assertAlmostEqual(0.3, overhead.per_second(found.full_s, trial))

    def test_waiting_guests_have_service_cpu_only(self):
        """The case that was measured: the guest booked 6 s of waiting as its own work."""
        trial = samples.trial(host_cpu_s={"vcpu": 3.70, "total": 3.79}, guest_cpu_s=6.99, wait_s=6.0)
        found = overhead.cost(trial)
        self.assertAlmostEqual(0.09, found.service_s)
        self.assertIsNone(found.full_s)
        self.assertEqual("vCPUs waited 62% of the time they wanted to run (limit 2%)", found.invalid)

    def test_what_is_unknown(self):
        for changes, told in (
            ({"guest_cpu_s": None}, "the guest's own busy time is unknown"),
            ({"wait_s": None}, "how long the vCPUs waited is unknown"),
        ):
            found = overhead.cost(samples.trial(**changes))
            self.assertEqual((1.0, None, told), (found.service_s, found.full_s, found.invalid))

    def test_the_hosts_own_arm_has_a_total_alone(self):
        found = overhead.cost(samples.trial(arm="host", host_cpu_s={"total": 3.0}, guest_cpu_s=None))
        self.assertEqual((3.0, None, None, ""), (found.total_s, found.service_s, found.full_s, found.invalid))
        self.assertEqual(overhead.Cost(None, None, None, None, ""), overhead.cost(samples.trial(host_cpu_s={})))

    def test_impossible_counters_are_no_figure(self):
        found = overhead.cost(samples.trial(host_cpu_s={"vcpu": 5.0, "total": 4.0}))
        self.assertIsNone(found.service_s)
        self.assertIn("contradict", found.invalid)

    def test_classes_make_up_the_total(self):
        cpu = samples.trial().host_cpu_s
        for name, seconds, told in (
            ("vhost", 60.0, "the classes are 64.60 s together, the total is 5.00 s"),
            ("total", 5.2, "the classes are 5.00 s together, the total is 5.20 s"),
        ):
            found = overhead.cost(samples.trial(host_cpu_s={**cpu, name: seconds}))
            self.assertEqual((None, None), (found.service_s, found.full_s))
            self.assertIn(told, found.contradiction)
            self.assertEqual(found.invalid, found.contradiction)
        for name, seconds in (("vhost", 0.42), ("worker", 0.06), ("softirq", 9.0)):  # within ticks, or no class
            self.assertEqual("", overhead.cost(samples.trial(host_cpu_s={**cpu, name: seconds})).invalid)
        some = {name: cpu[name] for name in ("vcpu", "total")}
        self.assertEqual("", overhead.cost(samples.trial(host_cpu_s=some)).invalid, "a host need not tell all")

    def test_a_guest_cannot_be_busier_than_its_process(self):
        found = overhead.cost(samples.trial(guest_cpu_s=8.0))
        self.assertEqual((None, None), (found.service_s, found.full_s))
        self.assertIn("the guest says it was busy 8.00 s, its process used 5.00 s in all", found.contradiction)
        for changes in (
            {"guest_cpu_s": 5.2},
            {"guest_cpu_s": 8.0, "wait_s": 3.0},
            {"guest_cpu_s": 8.0, "wait_s": None},
        ):
            self.assertEqual("", overhead.cost(samples.trial(**changes)).contradiction, changes)
        busy = {**samples.trial().host_cpu_s, "softirq": 3.0}
        self.assertEqual("", overhead.cost(samples.trial(guest_cpu_s=8.0, host_cpu_s=busy)).contradiction)

    def test_recorded_guests_contradict_nothing(self):
        with lzma.open(RECORDED, "rt", encoding="utf-8") as file:
            recorded = store.from_dict(json.load(file), "recorded")
        costs = [overhead.cost(one) for one in recorded.trials]
        self.assertTrue(sum(one.service_s is not None for one in costs) > 100)
        self.assertEqual([], [one.contradiction for one in costs if one.contradiction])

    def test_a_tick_below_zero_is_not_clamped(self):
        found = overhead.cost(samples.trial(host_cpu_s={"vcpu": 5.01, "total": 5.0}))
        self.assertAlmostEqual(-0.01, found.service_s)

    def test_counters_that_stand_still_counted_nothing(self):
        found = overhead.cost(samples.trial(host_cpu_s={"vcpu": 0.0, "total": 0.0}))
        self.assertEqual((None, None, None), (found.total_s, found.service_s, found.full_s))
        self.assertIn("no counter moved", found.invalid)

    def test_many_trials_lag_no_more_than_one(self):
        for services, fault in (([-0.04], ""), ([-0.04] * 2, "counters contradict"), ([-0.04, 0.04] * 9, "")):
            trials = [samples.trial(host_cpu_s={"vcpu": 5.0, "total": 5.0 + one}) for one in services]
            self.assertEqual(fault, overhead.contradiction(trials)[: len(fault) or None], services)
        skewed = [samples.trial(host_cpu_s={"vcpu": 5.0, "total": 5.0 + one}) for one in [-0.04] * 5 + [1.0] * 4]
        self.assertIn("counters contradict", overhead.contradiction(skewed))

    def test_no_work_no_cost_per_unit(self):
        self.assertIsNone(overhead.per_unit(1.0, samples.trial(work=None)))
        self.assertIsNone(overhead.per_unit(1.0, samples.trial(work=0.0)))
        self.assertIsNone(overhead.per_second(1.0, samples.trial(window_s=0.0)))
