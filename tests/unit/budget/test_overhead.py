"""Service CPU and full overhead from counters."""

import testtools

from nova_perf_tuning.budget import overhead
from tests.unit.budget import samples


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

    def test_a_tick_below_zero_is_not_clamped(self):
        found = overhead.cost(samples.trial(host_cpu_s={"vcpu": 5.01, "total": 5.0}))
        self.assertAlmostEqual(-0.01, found.service_s)

    def test_no_work_no_cost_per_unit(self):
        self.assertIsNone(overhead.per_unit(1.0, samples.trial(work=None)))
        self.assertIsNone(overhead.per_unit(1.0, samples.trial(work=0.0)))
        self.assertIsNone(overhead.per_second(1.0, samples.trial(window_s=0.0)))
