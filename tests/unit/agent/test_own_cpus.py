# SPDX-License-Identifier: Apache-2.0
"""The agent runs on the host's own CPUs, with all its threads."""

import os
import threading

from oslotest import base

from nova_perf_tuning.agent import own_cpus


class OwnCpusTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.before = frozenset(os.sched_getaffinity(0))
        self.assertGreater(len(self.before), 1)
        for tid in os.listdir("/proc/self/task"):
            self.addCleanup(os.sched_setaffinity, int(tid), self.before)
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(end.set)
        self.threads = (threading.get_native_id(), thread.native_id)

    def places(self):
        return [frozenset(os.sched_getaffinity(tid)) for tid in self.threads]

    def test_where_it_runs(self):
        one = frozenset([min(self.before)])
        own = own_cpus.OwnCpus()
        for name, housekeeping, expected in (
            ("some", one, one),
            ("others", self.before - one, self.before - one),
            ("beside CPUs that it may not use", one | {4000}, one),
            ("none that it may use", frozenset([4000]), self.before),
            ("nothing is known", frozenset(), self.before),
        ):
            with self.subTest(name):
                own.follow(housekeeping)
                self.assertEqual([expected, expected], self.places())

    def test_what_systemd_gave_it_is_not_left(self):
        """CPUAffinity= of its unit is the operator's."""
        one = frozenset([min(self.before)])
        for tid in self.threads:
            os.sched_setaffinity(tid, one)
        own = own_cpus.OwnCpus()
        own.follow(self.before)
        self.assertEqual([one, one], self.places())
        own.follow(self.before - one)
        self.assertEqual([one, one], self.places())
