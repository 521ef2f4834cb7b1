"""Capacity: how many guests fit, from samples whose answer is known."""

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.budget import capacity, model


def trial(block=0, group=0, work=10.0, unit="Gbit", arm="tuned", order=0, **cpu):
    """Return a trial of ten seconds; CPU seconds by class."""
    host = {"vcpu": 8.0, "softirq": 0.0, **cpu}
    host["total"] = sum(value for name, value in host.items() if name != "softirq")
    return model.Trial(
        "iperf3", "throughput", "Mbit/s", "higher", arm, group, block, 1000.0, host, 8.0, 10.0, 0.0,
        work=work, work_unit=unit, order=order,
    )  # fmt: skip


def results(*trials):
    return model.Results({}, list(trials))


class CapacityTest(testtools.TestCase):
    def test_known_answer(self):
        # 1 Gbit/s; vhost 0.4, emulator 0.05, softirq 0.05 CPU seconds per Gbit: 0.5 CPUs per guest.
        blocks = [trial(block=at, vhost=4.0, emulator=0.5, softirq=0.5) for at in range(8)]
        found = capacity.capacity(results(*blocks), "iperf3", "tuned", shared_cpus=10, busy=0.8)
        limits = {one.resource: one for one in found.limits}
        self.assertEqual((16, 16, 16), self._counts(limits[capacity.ALL]))
        self.assertEqual((20, 160, 160), tuple(limits[name].guests for name in ("vhost", "emulator", "softirq")))
        self.assertEqual(capacity.ALL, found.limits[0].resource)
        self.assertAlmostEqual(1.0, found.rate)

    def _counts(self, limit):
        return limit.guests, limit.fewest, limit.most

    def test_interval_and_rate(self):
        blocks = [trial(block=at, group=at // 3, vhost=4.0 + (at % 3)) for at in range(12)]
        found = capacity.capacity(results(*blocks), "iperf3", "tuned", 8, 1.0, rate=0.25)
        [limit] = [one for one in found.limits if one.resource == "vhost"]
        self.assertAlmostEqual(0.125, limit.per_guest)
        self.assertEqual(64, limit.guests)
        self.assertTrue(53 <= limit.fewest <= limit.guests <= limit.most <= 80, limit)

    def test_only_what_the_shared_cpus_serve_counts(self):
        blocks = [trial(block=at, vhost=4.0, emulator=0.5, softirq=0.5) for at in range(8)]
        found = capacity.capacity(
            results(*blocks), "iperf3", "tuned", shared_cpus=10, busy=0.9, classes=("vhost", "emulator")
        )
        self.assertEqual({capacity.ALL: 20, "vhost": 22, "emulator": 180},
                         {one.resource: one.guests for one in found.limits})  # fmt: skip

    def test_cost_at_another_rate_is_warned_of(self):
        blocks = [trial(block=at, vhost=4.0) for at in range(8)]  # 1 Gbit/s
        for rate, words in (
            (0.1, "1 Gbit per second, not 0.1:"),
            (2.5, "not 2.5:"),
            (0.5, ""),
            (1.5, ""),
            (None, ""),
        ):
            note = capacity.capacity(results(*blocks), "iperf3", "tuned", 8, 1.0, rate=rate).note
            self.assertIn(words, note)
            self.assertEqual(bool(words), bool(note))

    def test_dedicated_cpus_may_run_out_first(self):
        found = capacity.capacity(results(trial(vhost=0.1)), "iperf3", "tuned", 4, 0.8, vcpus=8, dedicated_cpus=28)
        self.assertEqual(("dedicated CPUs", 3), (found.limits[0].resource, found.limits[0].guests))

    def test_what_may_run_out_first_counts(self):
        """Ten fit by the dedicated CPUs; the middle of the shared work says more, its dear end less."""
        blocks = [trial(block=at, group=at // 3, vhost=2.0 + 6 * (at // 3 % 2)) for at in range(12)]
        found = capacity.capacity(results(*blocks), "iperf3", "tuned", 6, 1.0, vcpus=2, dedicated_cpus=20)
        shared = next(one for one in found.limits if one.resource == capacity.ALL)
        self.assertTrue(shared.fewest < 10 < shared.guests, shared)
        self.assertEqual([shared.fewest, 10], [found.limits[0].careful, found.limits[-1].careful])

    def test_too_few_trials_have_no_interval(self):
        [first, *_] = capacity.capacity(results(trial(vhost=1.0)), "iperf3", "tuned", 4, 0.8).limits
        self.assertEqual((32, None, None), self._counts(first))
        self.assertIn("n too small", first.note)

    def test_what_an_interval_does_not_hold_is_told(self):
        for boots, told in ((1, "one boot only"), (2, "two boots only"), (3, "")):
            blocks = [trial(block=at, group=at % boots, vhost=4.0 + at % 3) for at in range(12)]
            [first, *_] = capacity.capacity(results(*blocks), "iperf3", "tuned", 8, 1.0).limits
            note = capacity.housekeeping(results(*blocks), "iperf3", "tuned", 25, 1.0).note
            for text in (first.note, note):
                self.assertIn(told, text)
                self.assertEqual(bool(told), bool(text))

    def test_one_thread_cannot_take_two_cpus(self):
        found = capacity.capacity(results(trial(vhost=20.0)), "iperf3", "tuned", 4, 0.8)
        [vhost] = [one for one in found.limits if one.resource == "vhost"]
        self.assertIn("several queues", vhost.note)
        self.assertIn("n too small", vhost.note)

    def test_trials_over_the_limits_of_guards_do_not_count(self):
        blocks = [trial(block=at, order=at, vhost=1.0) for at in range(10)]
        for one in blocks[:2]:
            one.host_cpu_s = {**one.host_cpu_s, "vhost": 80.0, "total": 88.0}
            one.conditions = {"steal_share": 0.5}
        found = capacity.capacity(results(*blocks), "iperf3", "tuned", 8, 1.0)
        self.assertEqual((8, 80), (found.trials, found.limits[0].guests))
        self.assertIn("trials left out: 2, since steal: the host's CPUs were taken away 50%", found.note)
        self.assertEqual(3, capacity.housekeeping(results(*blocks), "iperf3", "tuned", 25, 1.0).cautious)
        for one in blocks[2:4]:
            one.conditions = {"steal_share": 0.5}
        error = self.assertRaises(
            capacity.CapacityError, capacity.capacity, results(*blocks), "iperf3", "tuned", 8, 1.0
        )
        self.assertIn("4 of 10 trials of 'tuned' do not count (limit 20%)", str(error))

    def test_too_many_that_failed_are_no_sample(self):
        blocks = [trial(block=at, order=at, vhost=1.0) for at in range(10)]
        for one in blocks[:3]:
            one.value, one.work, one.error = None, None, "killed"
        self.assertRaises(capacity.CapacityError, capacity.capacity, results(*blocks), "iperf3", "tuned", 8, 1.0)

    def test_negative_cpu_is_not_clamped(self):
        """What is taken off interrupts for the idle host may be more than there was: 0 in the middle, no cost."""
        blocks = [trial(block=at, order=at, vhost=1.0, softirq=0.5 if at % 2 else -0.5) for at in range(8)]
        limits = {
            one.resource: one for one in capacity.capacity(results(*blocks), "iperf3", "tuned", 8, 1.0).limits
        }
        self.assertEqual((None, 80), (limits["softirq"].guests, limits[capacity.ALL].guests))

    def test_what_a_nic_costs_is_not_in_it_on_one_host(self):
        blocks = [trial(block=at, group=at // 3, vhost=1.0) for at in range(9)]
        for launcher, words in (("libvirt", "NIC's own interrupts"), ("heat", "")):
            told = capacity.housekeeping(
                model.Results({"launcher": launcher}, blocks), "iperf3", "tuned", 25, 0.8
            ).note
            self.assertIn(words, told)
            self.assertEqual(bool(words), bool(told))

    def test_nothing_to_go_by(self):
        for wrong in (results(), results(trial(work=None)), results(trial(arm="untuned"))):
            self.assertRaises(capacity.CapacityError, capacity.capacity, wrong, "iperf3", "tuned", 4, 0.8)
        host = results(trial())
        host.trials[0].host_cpu_s = {"total": 3.0}
        self.assertRaises(capacity.CapacityError, capacity.capacity, host, "iperf3", "tuned", 4, 0.8)

    def test_unknown_cpu_is_not_taken_for_none(self):
        """As of a cloud: Nova tells the vCPUs' time alone, and of some trials nothing is told."""
        for unknown in ({"vcpu": 8.0}, {}):
            blocks = [trial(block=at, order=at, vhost=1.0) for at in range(10)]
            for one in blocks[:2]:
                one.host_cpu_s = unknown
            found = capacity.capacity(results(*blocks), "iperf3", "tuned", 8, 1.0)
            self.assertEqual((8, 80), (found.trials, found.limits[0].guests))
            self.assertIn("2 of 10 trials have no CPU by class", found.note)
            blocks[2].host_cpu_s = unknown
            error = self.assertRaises(
                capacity.CapacityError, capacity.capacity, results(*blocks), "iperf3", "tuned", 8, 1.0
            )
            self.assertIn("3 of 10 trials have no CPU beside that of the vCPUs (limit 20%)", str(error))

    def test_classes_that_took_nothing(self):
        blocks = [trial(block=at, vhost=1.0) for at in range(8)]
        for call in (
            lambda: capacity.capacity(results(*blocks), "iperf3", "tuned", 8, 1.0, classes=("iothread",)),
            lambda: capacity.housekeeping(results(*blocks), "iperf3", "tuned", 25, 1.0, classes=("iothread",)),
        ):
            self.assertEqual(
                "iothread: took no CPU in these trials; these did: vhost",
                str(self.assertRaises(capacity.CapacityError, call)),
            )

    def test_contradictory_counters(self):
        blocks = [trial(block=at, vhost=1.0) for at in range(8)]
        blocks[0].host_cpu_s = {**blocks[0].host_cpu_s, "vhost": 4.0}
        error = self.assertRaises(
            capacity.CapacityError, capacity.capacity, results(*blocks), "iperf3", "tuned", 8, 1.0
        )
        self.assertIn("counters contradict: the classes are 12.00 s together", str(error))

    def test_a_fleet_has_pairs_and_no_softirqs(self):
        blocks = [trial(block=at, vhost=4.0) for at in range(8)]
        for one in blocks:
            one.host_cpu_s = {name: value for name, value in one.host_cpu_s.items() if name != "softirq"}
        fleet = model.Results({"fleet": {}}, blocks)
        found = capacity.capacity(fleet, "iperf3", "tuned", 8, 1.0)
        self.assertEqual(40, found.limits[0].guests)
        told = "interrupts and softirqs were not measured"
        self.assertIn(told, found.note)
        self.assertIn(told, capacity.housekeeping(fleet, "iperf3", "tuned", 25, 1.0).note)
        without = capacity.capacity(fleet, "iperf3", "tuned", 8, 1.0, classes=("vhost",))
        self.assertEqual("", without.note)

    def test_housekeeping_for_a_nic(self):
        blocks = [trial(block=at, vhost=1.0, softirq=1.0) for at in range(8)]  # 0.2 CPU seconds per Gbit
        self.assertEqual(7, capacity.housekeeping(results(*blocks), "iperf3", "tuned", 25, 0.8).cpus)
        self.assertEqual(1, capacity.housekeeping(results(*blocks), "iperf3", "tuned", 1, 0.8).cautious)
        other = results(trial(unit="1,000 IO", vhost=1.0))
        self.assertRaises(capacity.CapacityError, capacity.housekeeping, other, "iperf3", "tuned", 25, 0.8)

    def test_a_pair_shares_the_cost(self):
        pair = model.Results({"benchmarks": {"iperf3": {"commands": [["a"], ["b"]]}}}, [trial(vhost=4.0)])
        [first, *_] = capacity.capacity(pair, "iperf3", "tuned", 4, 0.8).limits
        self.assertAlmostEqual(0.2, first.per_guest)
        self.assertEqual(16, first.guests)

    @hypothesis.given(strategies.floats(0.01, 1000), strategies.floats(1e-6, 100))
    def test_as_many_as_fit_and_no_more(self, cpus, per_guest):
        count = capacity.fits(cpus, per_guest)
        self.assertTrue(count * per_guest <= cpus * (1 + 1e-6))
        self.assertTrue((count + 1) * per_guest > cpus * (1 - 1e-6))
