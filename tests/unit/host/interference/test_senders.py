# SPDX-License-Identifier: Apache-2.0
"""Who sent interrupts to some CPUs, by the text of a trace."""

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.host.interference import attribute, senders
from nova_perf_tuning.host.interference.senders import IpiSender
from tests.support import testcase
from tests.unit.host.interference import recorded

LINES = recorded.text("trace-senders").splitlines(True)


def of_lines(lines, cpus):
    return senders.of_lines(lines, cpus, lambda _tid, name: attribute.unknown_thread(name))


class SenderTest(testcase.TestCase):
    def test_each_sender_with_what_it_wanted(self):
        self.assertEqual(
            [
                IpiSender(1, "python", "wakeup_preempt", 2),
                IpiSender(1, "idle", "rps_trigger_softirq", 1),
                IpiSender(1, "migrator", "tick_broadcast", 1),
                IpiSender(1, "python", "update_curr", 1),
                IpiSender(2, "migrator", "flush_tlb_func", 1),
                IpiSender(2, "migrator", "tick_broadcast", 1),
            ],
            of_lines(LINES, frozenset({1, 2, 3})),
        )

    @hypothesis.given(
        strategies.lists(strategies.sampled_from(LINES)),
        strategies.frozensets(strategies.integers(0, 3)),
    )
    def test_each_event_but_those_for_calls_counts_once_for_each_of_its_cpus(self, lines, cpus):
        targets = {"cpu=0": {0}, "cpu=1": {1}, "cpu=2": {2}, "cpumask=00000006": {1, 2}}
        expected = 0
        for line in lines:
            [hit] = [found for text, found in targets.items() if f" {text} " in line]
            if "single_interrupt" not in line:
                expected += len(hit & cpus)
        self.assertEqual(expected, sum(one.count for one in of_lines(lines, cpus)))
