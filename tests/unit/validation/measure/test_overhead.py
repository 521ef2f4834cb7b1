# SPDX-License-Identifier: Apache-2.0
"""Service CPU and full overhead from counters."""

import json
import lzma
import pathlib

from nova_perf_tuning.validation.measure import overhead, results_file
from nova_perf_tuning.validation.results import reasons
from tests.benchmarks import monte_carlo
from tests.support import samples, testcase

TOP = pathlib.Path(__file__).parents[4]
C = reasons.ReasonCode
_CPU = samples.trial().host_cpu_s

#: Fields of a trial -> service CPU, full overhead, and why that is not valid.
CASES = (
    ({}, 1.0, 1.5, None),
    ({"host_cpu_s": {}}, None, None, None),
    ({"host_cpu_s": {"total": 3.0}, "guest_cpu_s": None}, None, None, None),  # the host's own arm
    ({"host_cpu_s": {"vcpu": 4.0, "total": 5.0}}, 1.0, 1.5, None),  # a host need not tell all
    ({"guest_cpu_s": None}, 1.0, None, C.GUEST_BUSY_UNKNOWN),
    ({"wait_s": None}, 1.0, None, C.WAIT_UNKNOWN),
    # As it was measured: the guest booked 6 s of waiting as its own work.
    (
        {"host_cpu_s": {"vcpu": 3.0, "total": 3.5}, "guest_cpu_s": 6.99, "wait_s": 6.0},
        0.5,
        None,
        C.VCPUS_WAITED,
    ),
    ({"host_cpu_s": {"vcpu": 0.0, "total": 0.0}}, None, None, C.COUNTERS_STILL),
    # The host's own arm in a window shorter than a tick: not measured, and not free.
    ({"host_cpu_s": {"total": 0.0}, "guest_cpu_s": None}, None, None, C.COUNTERS_STILL),
    ({"host_cpu_s": {"vcpu": 5.0, "total": 4.0}}, None, None, C.COUNTERS_VCPU),
    ({"host_cpu_s": {**_CPU, "softirq": 9.0}}, 1.0, 1.5, None),  # no part of the total
    ({"guest_cpu_s": 8.0}, None, None, C.COUNTERS_GUEST),
    ({"guest_cpu_s": 8.0, "host_cpu_s": {**_CPU, "softirq": 3.0}}, 1.0, -3.0, None),
    ({"guest_cpu_s": 8.0, "wait_s": None}, 1.0, None, C.WAIT_UNKNOWN),
)


class CostTest(testcase.TestCase):
    def test_cost_of_a_trial_or_why_it_has_none(self):
        for changes, service, full, code in CASES:
            with self.subTest(changes):
                found = overhead.cost(samples.trial(**changes))
                self.assertEqual((service, full), (found.service_s, found.full_s), changes)
                self.assertEqual(code, found.invalid and found.invalid.code)
                self.assertEqual(code in reasons.CONTRADICTIONS, found.contradiction is not None)
        lag = overhead.cost(samples.trial(host_cpu_s={"vcpu": 5.01, "total": 5.0}))
        self.assertAlmostEqual(-0.01, lag.service_s, msg="a tick is not clamped")

    def test_per_unit_and_second(self):
        trial = samples.trial()
        self.assertEqual(
            (0.2, 0.3), (overhead.per_unit(1.0, trial), overhead.per_second(1.5, trial))
        )
        for work in (None, 0.0):
            with self.subTest(work):
                self.assertIsNone(overhead.per_unit(1.0, samples.trial(work=work)))
        self.assertIsNone(overhead.per_second(1.0, samples.trial(window_s=0.0)))

    def test_recorded_guests_contradict_nothing(self):
        """Those of the Monte Carlo runs, and of the report's picture in the documentation."""
        for path, least in (
            (monte_carlo.RECORDING, 100),
            (TOP / "doc/source/data/run.json.xz", 1),
        ):
            with lzma.open(path, "rt", encoding="utf-8") as file:
                recorded = results_file.from_dict(json.load(file), "recorded")
            costs = [overhead.cost(trial) for trial in recorded.trials]
            self.assertTrue(sum(cost.service_s is not None for cost in costs) > least, path)
            self.assertEqual([], [cost.contradiction for cost in costs if cost.contradiction])
