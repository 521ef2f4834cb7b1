# SPDX-License-Identifier: Apache-2.0
"""Capacity: how many guests fit, from samples whose answer is known."""

import dataclasses

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.validation.judge import capacity
from nova_perf_tuning.validation.results import reasons
from tests.support import samples, testcase

C = reasons.ReasonCode
trial = samples.priced


def results(*trials):
    return samples.of(list(trials))


def fitting(data, shared=8, busy=1.0, **options):
    return capacity.capacity(data, "iperf3", "tuned", shared, busy, **options)


class CapacityTest(testcase.TestCase):
    def refused(self, code, data):
        error = self.assertRaises(reasons.ReasonError, fitting, data)
        self.assertIn(code, error.reason.codes)

    def test_known_answer(self):
        """1 Gbit/s; vhost 0.4, emulator 0.05, softirq 0.05 CPU seconds per Gbit: 0.5 CPUs per guest."""
        blocks = [
            trial(block=at, boot=at % 2, order=at, vhost=4.0, emulator=0.5, softirq=0.5)
            for at in range(8)
        ]
        found = fitting(results(*blocks), 10, 0.8)
        self.assertEqual(
            [(capacity.ALL, 16), ("vhost", 20), ("emulator", 160), ("softirq", 160)],
            [(limit.resource, limit.guests) for limit in found.limits],
        )
        first = found.limits[0]
        self.assertEqual(
            (16, 16, 16, 1.0, ()),
            (first.fewest, first.careful, first.most, found.rate, found.notes),
        )

    def test_interval_and_rate(self):
        blocks = [
            trial(block=at, boot=at % 4, order=at, vhost=4.0 + (at % 4) / 2) for at in range(12)
        ]
        limit = {limit.resource: limit for limit in fitting(results(*blocks), rate=0.25).limits}[
            "vhost"
        ]
        self.assertTrue(50 < limit.fewest < limit.guests < limit.most < 90, limit)
        self.assertEqual(limit.fewest, limit.careful)
        [first, *_] = fitting(results(*blocks[:1])).limits
        self.assertEqual(
            (20, None, None, 20), (first.guests, first.fewest, first.most, first.careful)
        )
        self.assertEqual([C.ONE_BOOT], [note.code for note in fitting(results(*blocks[:1])).notes])

    def test_cost_at_another_rate_is_warned_of(self):
        blocks = [trial(block=at, order=at, vhost=4.0) for at in range(8)]  # 1 Gbit/s
        for rate, warned in ((0.1, True), (2.5, True), (0.5, False), (1.5, False), (None, False)):
            with self.subTest(rate):
                codes = {note.code for note in fitting(results(*blocks), rate=rate).notes}
                self.assertEqual(warned, C.OTHER_RATE in codes)

    def test_vcpus_that_waited_are_warned_of(self):
        """A little, which no guard rejects; it is the host's CPUs that are short, and not the guest's."""
        blocks = [trial(block=at, boot=at % 2, order=at, vhost=4.0) for at in range(8)]
        blocks[0].wait_s = 0.6
        [note] = fitting(results(*blocks)).notes
        self.assertEqual(
            (C.SOME_WAITED, 1, 8), (note.code, note.params["count"], note.params["of"])
        )

    def test_what_does_not_count(self):
        """Trials that guards reject, that failed, or whose CPU is not known: too many leave no sample."""
        for changes, code in (
            ({"conditions": {"steal_share": 0.5}, "work": 0.1}, C.STEAL),
            ({"value": None, "work": None, "error": "killed"}, C.TOO_MANY_LOST),
            ({"host_cpu_s": {"vcpu": 8.0}}, C.TOO_FEW_WITH_WORK),
            ({"host_cpu_s": {}}, C.TOO_FEW_WITH_WORK),
        ):
            with self.subTest(changes):
                blocks = [trial(block=at, order=at, vhost=1.0) for at in range(10)]
                blocks[:2] = [dataclasses.replace(measured, **changes) for measured in blocks[:2]]
                found = fitting(results(*blocks))
                self.assertEqual(
                    (8, 80, True),
                    (found.trials, found.limits[0].guests, bool(found.notes)),
                    changes,
                )
                blocks[2] = dataclasses.replace(blocks[2], **changes)
                self.refused(code, results(*blocks))

    def test_negative_cpu_is_not_clamped(self):
        """What is taken off interrupts for the idle host may be more than there was: 0 in the middle, no cost.

        Of both together the logarithms of 0.05 and 0.15 have their middle at 0.087.
        """
        blocks = [
            trial(block=at, order=at, vhost=1.0, softirq=0.5 if at % 2 else -0.5)
            for at in range(8)
        ]
        limits = {limit.resource: limit.guests for limit in fitting(results(*blocks)).limits}
        self.assertEqual((None, 92), (limits["softirq"], limits[capacity.ALL]))

    def test_nothing_to_go_by(self):
        for wrong in (results(), results(trial(work=None)), results(trial(arm="untuned"))):
            self.refused(C.NO_WORK, wrong)
        self.refused(C.NO_GUEST, results(dataclasses.replace(trial(), host_cpu_s={"total": 3.0})))
        self.refused(C.NO_SHARED_WORK, results(trial()))
        wrong = trial(vhost=1.0)
        wrong.host_cpu_s = {**wrong.host_cpu_s, "vcpu": 80.0}
        self.refused(C.COUNTERS_VCPU, results(wrong, trial(block=1, order=1)))

    def test_a_fleet_has_pairs_and_no_softirqs(self):
        blocks = [trial(block=at, order=at, vhost=4.0) for at in range(8)]
        for measured in blocks:
            measured.host_cpu_s = {
                name: value for name, value in measured.host_cpu_s.items() if name != "softirq"
            }
        fleet = samples.of(blocks, fleet={})
        found = fitting(fleet)
        self.assertEqual(40, found.limits[0].guests)
        self.assertEqual([C.NO_SOFTIRQ, C.ONE_BOOT], [note.code for note in found.notes])
        pair = samples.of([trial(vhost=4.0)], benchmarks={"iperf3": {"commands": [["a"], ["b"]]}})
        self.assertEqual(16, fitting(pair, 4, 0.8).limits[0].guests, "a pair shares the cost")

    @hypothesis.given(strategies.floats(0.01, 1000), strategies.floats(1e-6, 100))
    def test_as_many_as_fit_and_no_more(self, cpus, per_guest):
        count = capacity.fits(cpus, per_guest)
        self.assertTrue(count * per_guest <= cpus * (1 + 1e-6))
        self.assertTrue((count + 1) * per_guest > cpus * (1 - 1e-6))
