"""How much the loop does in a storm of events, and when it tries again what failed: on a clock of its own."""

from __future__ import annotations

import errno
import math
import os
from unittest import mock

import testtools

from nova_perf_tuning.agent import arbiter, inbox, pace, reconcile, service, sources
from tests.unit.agent import test_loop


class RestsTest(testtools.TestCase):
    def test_one_reading_is_followed_by_none_or_a_short_one(self):
        for seconds, rest in ((0.0001, 0.0), (0.02, 0.0), (0.05, 0.45), (3.0, 1.0)):
            rests = pace.Rests()
            rests.after_reading(100.0, 100.0 + seconds)
            self.assertAlmostEqual(rest, max(0.0, rests.until - 100.0 - seconds), 6, seconds)

    def test_readings_without_end_take_a_twentieth_of_the_time(self):
        for seconds, least in ((0.0001, 5.0), (0.003, 14.0), (0.05, 14.0)):
            rests, now, spent = pace.Rests(), 100.0, 0.0
            while now < 400.0:
                rests.after_reading(now, now + seconds)
                spent, now = spent + seconds, max(now + seconds, rests.until)
            self.assertTrue(least < spent < 16.0, (seconds, spent))

    def test_no_rest_is_longer_than_a_second(self):
        rests, now = pace.Rests(), 100.0
        for _ in range(100):
            rests.after_reading(now, now + 2.0)
            self.assertAlmostEqual(1.0, rests.until - now - 2.0)
            now = rests.until
        rests.after_pass(now, now + 0.4)
        self.assertAlmostEqual(0.4, rests.until - now - 0.4)
        rests.after_pass(now, now + 30.0)
        self.assertAlmostEqual(1.0, rests.until - now - 30.0)


class RetriesTest(testtools.TestCase):
    def fail(self, retries, times):
        """Fail at each time that is due, and return the pauses."""
        now, pauses = 100.0, []
        for _ in range(times):
            retries.failed(now)
            pauses.append(retries.next - now)
            now = retries.next
        return pauses

    def test_pauses_double(self):
        retries = pace.Retries()
        self.assertEqual(0.0, retries.next)
        self.assertEqual([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0], self.fail(retries, 8))
        retries.succeeded()
        self.assertEqual(0.0, retries.next)
        self.assertEqual([1.0, 2.0], self.fail(retries, 2))

    def test_an_event_brings_one_attempt_soon_that_changes_nothing_when_it_fails(self):
        retries = pace.Retries()
        self.fail(retries, 8)
        due = retries.next
        begun = due - 60.0
        retries.hasten(begun + 0.1)
        self.assertEqual(begun + 2.0, retries.next)
        retries.hasten(begun + 1.0)
        self.assertEqual(begun + 2.0, retries.next)
        retries.failed(begun + 2.0)
        self.assertEqual(due, retries.next)
        retries.hasten(begun + 30.0)
        self.assertEqual(begun + 30.0, retries.next)
        retries.failed(begun + 30.0)
        retries.hasten(due - 0.5)
        self.assertEqual(due - 0.5, retries.next)
        retries.failed(due)
        self.assertEqual(due + 60.0, retries.next)

    def test_where_nothing_failed_there_is_nothing_to_hasten(self):
        retries = pace.Retries()
        retries.hasten(5.0)
        self.assertEqual(0.0, retries.next)


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
        self.plans.sort(key=lambda one: one[0])

    def sleep(self, seconds):
        end = self.now + seconds
        while self.plans and self.plans[0][0] <= end:
            self.step()
        self.now = max(self.now, end)

    def step(self):
        moment, action = self.plans.pop(0)
        self.now = max(self.now, moment)
        action()


class Writer(test_loop.Told):
    """One who writes an interrupt all the time."""

    def __init__(self, files, number):
        super().__init__(sources.WRITTEN, forever=True)
        self.files, self.number = files, str(number)

    def drain(self):
        self.files.written.add(self.number)
        return super().drain()


class Waits:
    """A selector whose time is the clock's."""

    def __init__(self, selector, clock):
        self.selector, self.clock = selector, clock

    def __getattr__(self, name):
        return getattr(self.selector, name)

    def select(self, seconds):
        end = min(self.clock.now + seconds, max(self.clock.now, self.clock.stop))
        if seconds > 0.0:  # some time passes, however little
            end = max(end, math.nextafter(self.clock.now, math.inf))
        while not (ready := self.selector.select(0)) and self.clock.now < end:
            if self.clock.plans and self.clock.plans[0][0] <= end:
                self.clock.step()
            else:
                self.clock.now = end
        return ready


class PaceTest(test_loop.LoopTest):
    def setUp(self):
        super().setUp()
        self.clock = Clock()
        for module in (service, inbox):
            self.enterContext(mock.patch.object(module, "time", self.clock))
        book = self.reconciler.book
        self.reconciler = reconcile.Reconciler(self.host, book, arbiter.Arbiter(), clock=self.clock.monotonic)
        self.agent = self.serve()
        self.agent._inbox._selector = Waits(self.agent._inbox._selector, self.clock)
        self.number = min(self.host.numbers("eth0"))
        self.placed = self.host.vectors[self.number].affinity

    def told(self, kind, **options):
        source = test_loop.Told(kind, **options)
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
        self.link = self.told(sources.LINK)
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
        self.agent.make_pass({"look"}, self.clock.now)
        self.go_on(130.0)
        self.assertEqual([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0], self.pauses())
        return self.tried[-1]

    def pauses(self):
        return [later - one for one, later in zip(self.tried, self.tried[1:], strict=False)]

    def test_an_event_ends_the_pause_where_the_cause_is_mended_unseen(self):
        self.break_for_long()
        self.mend()
        self.host.reset("eth0")
        self.link.tell()
        self.assertLess(self.right_after(), 2.1)
        # However long ago it failed first, the event explains what has changed.
        costs = {round(5.0 - one.budget, 1) for one in self.reconciler.arbiter._contests.values()}
        self.assertEqual({arbiter.EXCUSED}, costs)

    def test_an_event_explains_what_has_changed_until_a_pass_answers_it(self):
        self.break_down()
        self.link.tell()
        self.host.reset("eth0")
        self.go_on(20.0)
        self.mend()
        self.right_after()
        costs = {round(5.0 - one.budget, 1) for one in self.reconciler.arbiter._contests.values()}
        self.assertEqual({arbiter.EXCUSED}, costs)

    def test_events_without_end_have_an_attempt_in_two_seconds(self):
        last = self.break_for_long()
        for tick in range(1, 1200):
            self.clock.at(last + 7.0 + tick / 10.0, self.link.tell)
        self.go_on(120.0)
        later = [one for one in self.tried if one > last]
        self.assertTrue(40 < len(later) <= 62, len(later))
        # The one that was due all the same is among them.
        self.assertIn(last + 60.0, [round(one, 3) for one in later])

    def test_a_look_that_fails_does_not_put_the_attempt_off(self):
        self.agent._timing.interval = 10.0
        last = self.break_for_long()
        self.clock.at(last + 21.0, lambda: setattr(self.agent._reconciler.book, "changed", lambda: True))
        self.clock.at(last + 45.0, lambda: setattr(self.agent._reconciler.book, "changed", lambda: False))
        self.go_on(last + 125.0 - self.clock.now)
        early = [one for one in self.tried if last < one < last + 60.0]
        self.assertGreater(len(early), 1)
        self.assertEqual([last + 60.0, last + 120.0], [one for one in self.tried if one >= last + 60.0])

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
        costs = {round(5.0 - one.budget, 1) for one in self.reconciler.arbiter._contests.values()}
        self.assertEqual({arbiter.EXCUSED}, costs)


class StormTest(PaceTest):
    #: Seconds that a reading takes.
    COST = 0.002

    def setUp(self):
        super().setUp()
        self.readings = 0
        drifting = self.reconciler.drifting

        def slow(targets=None):
            self.readings += 1
            self.clock.sleep(self.COST)
            return drifting(targets)

        self.reconciler.drifting = slow

    def test_one_who_writes_all_the_time_gets_little_of_our_time(self):
        link = self.told(sources.LINK)
        writer = Writer(self.agent._files, self.number)
        self.agent.add(writer)
        writer.tell()
        self.go_on(60.0)
        self.assertTrue(0.03 < self.readings * self.COST / 60.0 < 0.07, self.readings)
        self.host.reset("eth0")
        link.tell()
        self.assertLess(self.right_after(), 0.1)

    def test_nor_while_passes_fail(self):
        self.told(sources.WRITTEN, forever=True).tell()
        self.host.meanwhile = self._fail
        take = self.agent._inbox.take
        taken = []

        def slow():
            taken.append(take())
            self.clock.sleep(self.COST)  # to read a source takes time, too
            return taken[-1]

        self.agent._inbox.take = slow
        with self.assertLogs(service.LOG, "ERROR"):
            self.agent.make_pass({"look"}, self.clock.now)
            self.go_on(60.0)
        self.assertLess(len(taken) * self.COST / 60.0, 0.07)

    def _fail(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def test_what_was_lost_is_looked_for(self):
        lost = self.told(sources.LOST)
        self.go_on(30.0)
        changes = [True]
        self.agent._watch.changed = lambda: bool(changes and changes.pop())
        passes = self.agent.stats.passes["look"]
        lost.tell()
        self.go_on(1.0)
        self.assertEqual(passes + 1, self.agent.stats.passes["look"])
