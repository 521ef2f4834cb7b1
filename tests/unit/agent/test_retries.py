# SPDX-License-Identifier: Apache-2.0
"""When the loop tries again what failed: on a clock of its own."""

import errno
import functools
import math
import os
import selectors
from unittest import mock

from nova_perf_tuning.agent import cause, reconcile, rewrite_limit, service
from tests.support import agent_bench


class Clock:
    """Stands still but for those who wait: what is to happen meanwhile happens then."""

    def __init__(self):
        self.now = 1000.0
        #: When those who wait for events do so no longer.
        self.stop = math.inf
        self.plans = []

    def monotonic(self):
        return self.now

    time = process_time = monotonic

    def at(self, moment, action):
        self.plans.append((moment, action))
        self.plans.sort(key=lambda plan: plan[0])

    def sleep(self, seconds):
        end = self.now + seconds
        while self.plans and self.plans[0][0] <= end:
            self.step()
        self.now = max(self.now, end)

    def step(self):
        moment, action = self.plans.pop(0)
        self.now = max(self.now, moment)
        action()


class Waits(selectors.DefaultSelector):
    """A selector whose time is the clock's."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def select(self, seconds):
        end = min(self.clock.now + seconds, max(self.clock.now, self.clock.stop))
        if seconds > 0.0:  # some time passes, however little
            end = max(end, math.nextafter(self.clock.now, math.inf))
        while not (ready := super().select(0)) and self.clock.now < end:
            if self.clock.plans and self.clock.plans[0][0] <= end:
                self.clock.step()
            else:
                self.clock.now = end
        return ready


class PaceTest(agent_bench.LoopCase):
    def setUp(self):
        super().setUp()
        self.clock = Clock()
        self.enterContext(mock.patch.object(service, "time", self.clock))
        journal = self.reconciler.journal
        self.reconciler = reconcile.Reconciler(
            self.host, journal, rewrite_limit.RewriteLimit(), clock=self.clock.monotonic
        )
        with mock.patch.object(selectors, "DefaultSelector", functools.partial(Waits, self.clock)):
            self.agent = self.serve()
        self.number = min(self.host.numbers("eth0"))
        self.placed = self.host.vectors[self.number].affinity

    def output(self, kind, **options):
        source = agent_bench.Told(kind, **options)
        self.agent.add(source)
        return source

    def go_on(self, seconds):
        end = self.clock.stop = self.clock.now + seconds
        while self.clock.now < end:
            self.agent.turn()
        self.clock.stop = math.inf

    def right_after(self, seconds=60.0):
        """Return how many seconds it takes until the first interrupt is placed again."""
        begin = self.clock.now
        while self.host.vectors[self.number].affinity != self.placed:
            self.assertLess(self.clock.now, begin + seconds)
            self.agent.turn()
        return self.clock.now - begin


class FailuresTest(PaceTest):
    def setUp(self):
        super().setUp()
        self.link = self.output(cause.LINK)
        self.tried = []
        self.enterContext(self.assertLogs(service.LOG, "ERROR"))

    def break_down(self):
        self.host.meanwhile = self._fail

    def _fail(self):
        self.tried.append(self.clock.now)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def mend(self):
        self.host.meanwhile = lambda: None

    def break_for_long(self):
        """Fail until the pause has its full length, and return when the last attempt was made."""
        self.break_down()
        self.agent.make_pass({"look"})
        self.go_on(130.0)
        self.assertEqual([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0], self.pauses())
        self.assertEqual("enospc", self.agent.state().error_code)
        return self.tried[-1]

    def assert_excused(self):
        costs = {
            round(5.0 - conflict.budget, 1)
            for conflict in self.reconciler.limit.conflicts.values()
        }
        self.assertEqual({rewrite_limit.EXCUSED}, costs)

    def pauses(self):
        return [
            later - earlier for earlier, later in zip(self.tried, self.tried[1:], strict=False)
        ]

    def test_an_event_ends_the_pause_where_the_cause_is_mended_unseen(self):
        self.break_for_long()
        self.mend()
        self.host.reset("eth0")
        self.link.tell()
        self.assertLess(self.right_after(), 2.1)
        # However long ago it failed first, the event explains what has changed.
        self.assert_excused()

    def test_an_event_explains_what_has_changed_until_a_pass_answers_it(self):
        self.break_down()
        self.link.tell()
        self.host.reset("eth0")
        self.go_on(20.0)
        self.mend()
        self.right_after()
        self.assert_excused()

    def test_events_without_end_have_an_attempt_in_two_seconds(self):
        last = self.break_for_long()
        for tick in range(1, 1200):
            self.clock.at(last + 7.0 + tick / 10.0, self.link.tell)
        self.go_on(120.0)
        later = [moment for moment in self.tried if moment > last]
        self.assertTrue(40 < len(later) <= 62, len(later))

    def test_a_signal_ends_the_pause_at_once(self):
        self.break_for_long()
        self.mend()
        self.host.reset("eth0")
        self.agent.waker.wake("signal")
        self.assertEqual(0.0, self.right_after())

    def test_a_failure_after_an_event_leaves_the_looks_that_follow_it(self):
        self.break_down()
        begin = self.clock.now
        self.link.tell()
        self.clock.at(begin + 0.5, self.mend)
        self.clock.at(begin + 1.5, lambda: self.host.reset("eth0"))
        self.go_on(1.6)
        self.assertEqual([begin], self.tried)
        self.assertNotEqual(self.placed, self.host.vectors[self.number].affinity)
        self.assertLess(self.right_after(), 2.0)
        self.assert_excused()
