# SPDX-License-Identifier: Apache-2.0
"""The agent's schedule by itself: no thread, no clock; every moment is a number."""

import math
import types

from nova_perf_tuning.agent import cause, schedule
from nova_perf_tuning.agent.schedule import AgentStep
from tests.support import testcase

BEGIN = 1000.0
INTERVALS = types.SimpleNamespace(verify_interval=600.0, interval=60.0, passthrough_interval=5.0)


class ScheduleCase(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.schedule = schedule.AgentSchedule(INTERVALS, BEGIN)

    def passed(self, causes=(cause.START,), at=BEGIN, took=0.0, devices=False):
        """Make a pass without a fault."""
        self.schedule.begin(set(causes), at)
        answered = self.schedule.succeeded(at + took, devices=devices)
        self.schedule.ended(at + took)
        return answered

    def failed(self, causes=(cause.LOOK,), at=BEGIN, took=0.0):
        self.schedule.begin(set(causes), at)
        self.schedule.failed()
        self.schedule.ended(at + took)

    def deadline(self, at, pauses=()):
        return self.schedule.next_deadline(at, pauses)

    def steps(self, begin, end, pauses=()):
        """Return when what is due until ``end``, as the loop takes it; no step makes a pass."""
        now, taken = begin, []
        while now <= end:
            step = self.schedule.due(now, pauses)
            if step is not None:
                taken.append((now - BEGIN, step))
                continue
            following = self.deadline(now, pauses)
            self.assertGreater(following, now, "the loop would spin")
            now = following
        return taken


class TimersTest(ScheduleCase):
    def test_everything_is_due_at_first(self):
        self.assertEqual(BEGIN, self.deadline(BEGIN))
        self.assertEqual(AgentStep.VERIFY, self.schedule.due(BEGIN, ()))

    def test_looks_and_full_readings_in_their_turn(self):
        self.passed()
        taken = self.steps(BEGIN, BEGIN + 1300.0)
        readings = [(600.0, AgentStep.VERIFY), (1200.0, AgentStep.VERIFY)]
        self.assertEqual(readings, [step for step in taken if step[1] is AgentStep.VERIFY])
        looks = [moment for moment, step in taken if step is AgentStep.LOOK]
        self.assertEqual([60.0 * n for n in range(1, 22) if n not in (10, 20)], looks)

    def test_a_full_reading_goes_before_all_else_and_is_a_look(self):
        self.passed(devices=True)
        self.schedule.explain(BEGIN)
        late = BEGIN + 5000.0
        order = [self.schedule.due(late, ()) for _ in range(4)]
        self.assertEqual([AgentStep.VERIFY, AgentStep.FOLLOW_UP, AgentStep.DEVICES, None], order)

    def test_a_follow_up_goes_before_a_look_and_a_look_before_devices(self):
        self.passed(devices=True)
        late = BEGIN + 60.0
        order = [self.schedule.due(late, [late])]
        order += [self.schedule.due(late, ()) for _ in range(3)]
        self.assertEqual([AgentStep.FOLLOW_UP, AgentStep.LOOK, AgentStep.DEVICES, None], order)

    def test_devices_are_looked_at_only_while_some_are_placed(self):
        self.passed(devices=True)
        taken = self.steps(BEGIN, BEGIN + 12.0)
        self.assertEqual([(5.0, AgentStep.DEVICES), (10.0, AgentStep.DEVICES)], taken)
        self.passed(at=BEGIN + 12.0)
        self.assertEqual(BEGIN + 72.0, self.deadline(BEGIN + 12.0))

    def test_a_pass_is_a_look_but_no_full_reading(self):
        self.passed()
        self.passed(at=BEGIN + 50.0)
        self.assertEqual(BEGIN + 110.0, self.deadline(BEGIN + 50.0))
        self.passed(at=BEGIN + 590.0)
        self.assertEqual([(600.0, AgentStep.VERIFY)], self.steps(BEGIN + 590.0, BEGIN + 600.0))

    def test_a_pass_after_which_a_full_reading_is_due_is_one(self):
        """It has just read everything."""
        self.passed()
        self.passed(at=BEGIN + 590.0, took=20.0)
        self.assertEqual([], self.steps(BEGIN + 610.0, BEGIN + 669.0))

    def test_intervals_that_are_changed_count_from_the_next_time_on(self):
        intervals = types.SimpleNamespace(**vars(INTERVALS))
        self.schedule = schedule.AgentSchedule(intervals, BEGIN)
        self.passed()
        intervals.interval = 30.0
        self.assertEqual(BEGIN + 60.0, self.deadline(BEGIN))
        self.schedule.due(BEGIN + 60.0, ())
        self.assertEqual(BEGIN + 90.0, self.deadline(BEGIN + 60.0))

    def test_the_watchdog_hears_of_the_agent_three_times_within_its_limit(self):
        self.schedule = schedule.AgentSchedule(INTERVALS, BEGIN, watchdog_s=30.0)
        self.passed()
        self.assertEqual(BEGIN + 17.0, self.deadline(BEGIN + 7.0))
        self.failed(at=BEGIN + 8.0)
        self.assertEqual(BEGIN + 9.0, self.deadline(BEGIN + 8.0))
        self.assertIsNone(self.schedule.due(BEGIN + 8.5, ()))


class EventsTest(ScheduleCase):
    def test_an_event_is_answered_at_once_and_looked_after(self):
        self.passed()
        self.assertTrue(self.schedule.event({cause.LINK}, BEGIN + 10.0))
        self.passed({cause.LINK}, BEGIN + 10.0)
        taken = self.steps(BEGIN + 10.0, BEGIN + 60.0)
        self.assertEqual(
            [(10.0 + after, AgentStep.FOLLOW_UP) for after in (0.25, 1.0, 3.0)], taken
        )

    def test_a_later_event_begins_the_looks_anew(self):
        self.passed()
        self.schedule.event({cause.LINK}, BEGIN + 10.0)
        self.schedule.event({cause.GUEST}, BEGIN + 12.0)
        taken = self.steps(BEGIN + 12.0, BEGIN + 59.0)
        self.assertEqual([12.25, 13.0, 15.0], [moment for moment, _step in taken])

    def test_follow_ups_that_are_late_together_are_one(self):
        self.passed()
        self.schedule.event({cause.LINK}, BEGIN)
        taken = self.steps(BEGIN + 2.0, BEGIN + 50.0)
        self.assertEqual([(2.0, AgentStep.FOLLOW_UP), (3.0, AgentStep.FOLLOW_UP)], taken)

    def test_what_is_no_event_of_the_host_explains_nothing(self):
        self.passed()
        self.assertTrue(self.schedule.event({cause.SIGNAL, "test"}, BEGIN + 10.0))
        self.assertFalse(self.schedule.begin({cause.SIGNAL}, BEGIN + 10.0))
        self.schedule.succeeded(BEGIN + 10.0, devices=False)
        self.assertEqual([], self.steps(BEGIN + 10.0, BEGIN + 69.0))

    def test_each_event_of_the_host_explains_a_change_for_five_seconds(self):
        for kind in sorted(cause.EXCUSES):
            with self.subTest(kind):
                self.schedule = schedule.AgentSchedule(INTERVALS, BEGIN)
                self.passed()
                self.schedule.event({kind}, BEGIN + 100.0)
                self.passed({kind}, BEGIN + 100.0)
                self.assertTrue(self.schedule.begin({cause.DRIFT}, BEGIN + 104.9))
                self.schedule.succeeded(BEGIN + 104.9, devices=False)
                self.assertFalse(self.schedule.begin({cause.DRIFT}, BEGIN + 105.0))

    def test_the_first_pass_is_explained_and_no_later_one_is(self):
        self.assertTrue(self.schedule.begin({cause.START}, BEGIN))
        self.schedule.succeeded(BEGIN, devices=False)
        self.assertFalse(self.schedule.begin({cause.VERIFY}, BEGIN + 600.0))

    def test_the_end_of_a_pause_is_a_deadline_and_a_look(self):
        """Of what is held back; the service says which pauses were running when it was last tried."""
        self.passed()
        self.assertEqual(BEGIN + 20.0, self.deadline(BEGIN, [BEGIN + 20.0, BEGIN + 40.0]))
        pauses = [BEGIN + 20.0]
        self.assertIsNone(self.schedule.due(BEGIN + 19.9, pauses))
        self.assertEqual(AgentStep.FOLLOW_UP, self.schedule.due(BEGIN + 20.0, pauses))
        self.assertEqual(BEGIN + 20.0, self.schedule.tried)


class RestTest(ScheduleCase):
    def test_the_rest_lasts_as_long_as_the_pass(self):
        self.passed(took=0.25)
        self.assertEqual(0.25, self.schedule.rest_s(BEGIN + 0.25))
        self.assertEqual(0.0, self.schedule.rest_s(BEGIN + 0.75))

    def test_but_a_second_at_most_and_after_a_failure_too(self):
        self.failed(took=30.0)
        self.assertEqual(1.0, self.schedule.rest_s(BEGIN + 30.0))

    def test_there_is_none_before_the_first_pass(self):
        self.assertEqual(0.0, self.schedule.rest_s(BEGIN))


class FailuresTest(ScheduleCase):
    def retries(self, begin, count):
        """Fail as often as a pass is tried again; return the pauses between the attempts."""
        now, pauses = begin, []
        for _ in range(count):
            following = self.deadline(now)
            self.assertEqual(AgentStep.RETRY, self.schedule.due(following, ()))
            self.failed((), following)
            pauses.append(following - now)
            now = following
        return now, pauses

    def test_each_pause_is_twice_the_last_up_to_a_minute(self):
        self.failed()
        _now, pauses = self.retries(BEGIN, 9)
        self.assertEqual([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0], pauses)

    def test_the_pause_begins_with_the_attempt_not_with_its_end(self):
        self.failed(took=0.75)
        self.assertEqual(BEGIN + 1.0, self.deadline(BEGIN + 0.75))

    def test_nothing_else_is_due_meanwhile(self):
        self.passed(devices=True)
        self.schedule.event({cause.LINK}, BEGIN)
        self.failed({cause.LINK}, BEGIN)
        self.assertIsNone(self.schedule.due(BEGIN + 0.9, [BEGIN + 0.5]))
        self.assertEqual(BEGIN + 1.0, self.deadline(BEGIN, [BEGIN + 0.5]))

    def test_a_pass_that_is_made_ends_the_pauses_and_answers_what_is_owed(self):
        self.failed({cause.LOOK})
        self.failed({cause.LINK}, BEGIN + 1.0)
        self.assertEqual({cause.LOOK, cause.LINK}, self.passed((), BEGIN + 3.0))
        self.assertEqual({cause.VERIFY}, self.passed({cause.VERIFY}, BEGIN + 4.0))
        self.failed(at=BEGIN + 10.0)
        self.assertEqual(BEGIN + 11.0, self.deadline(BEGIN + 10.0), "the first pause again")

    def test_an_event_is_answered_by_the_pass_that_is_tried_again(self):
        """Not before two seconds after the last attempt: events may come all the time."""
        self.failed()
        last, _pauses = self.retries(BEGIN, 7)
        for after in (0.5, 1.0):
            self.assertFalse(self.schedule.event({cause.LINK}, last + after))
        self.assertEqual(last + 2.0, self.deadline(last + 1.0))
        self.assertIsNone(self.schedule.due(last + 1.9, ()))
        self.assertEqual(AgentStep.RETRY, self.schedule.due(last + 2.0, ()))
        self.assertIn(cause.LINK, self.passed((), last + 2.0))

    def test_an_event_long_after_the_last_attempt_brings_one_at_once(self):
        self.failed()
        last, _pauses = self.retries(BEGIN, 7)
        self.assertFalse(self.schedule.event({cause.GUEST}, last + 30.0))
        self.assertEqual(AgentStep.RETRY, self.schedule.due(last + 30.0, ()))

    def test_an_event_puts_nothing_off(self):
        self.failed()
        self.schedule.event({cause.LINK}, BEGIN + 0.5)
        self.assertEqual(BEGIN + 1.0, self.deadline(BEGIN + 0.5))

    def test_a_signal_forces_a_pass(self):
        self.failed()
        self.assertTrue(self.schedule.event({cause.SIGNAL, cause.LINK}, BEGIN + 0.1))

    def test_an_event_explains_a_change_until_a_pass_answers_it(self):
        self.failed()
        self.schedule.event({cause.LINK}, BEGIN + 0.5)
        self.assertTrue(self.schedule.begin(set(), BEGIN + 100.0))
        self.schedule.failed()
        self.assertTrue(self.schedule.begin(set(), BEGIN + 200.0))
        self.schedule.succeeded(BEGIN + 200.0, devices=False)
        self.assertFalse(self.schedule.begin({cause.LOOK}, BEGIN + 300.0))

    def test_what_is_left_of_the_looks_after_an_event_follows_the_failure(self):
        self.passed()
        self.schedule.event({cause.LINK}, BEGIN)
        self.failed({cause.LINK})
        self.passed((), BEGIN + 1.0)
        taken = self.steps(BEGIN + 1.0, BEGIN + 50.0)
        self.assertEqual([(1.0, AgentStep.FOLLOW_UP), (3.0, AgentStep.FOLLOW_UP)], taken)


class BusyTest(ScheduleCase):
    def put_off(self, at):
        self.schedule.begin({cause.LINK}, at)
        return self.schedule.put_off()

    def test_it_is_tried_again_soon_and_is_news_once(self):
        self.assertTrue(self.put_off(BEGIN))
        self.assertEqual(BEGIN + 0.5, self.deadline(BEGIN))
        self.assertFalse(self.put_off(BEGIN + 0.5))
        self.assertEqual(BEGIN + 1.0, self.deadline(BEGIN + 0.5))
        self.assertEqual({cause.LINK}, self.passed((), BEGIN + 1.0))
        self.assertTrue(self.put_off(BEGIN + 2.0))

    def test_after_a_failure_it_is_no_news_and_the_pause_stays(self):
        self.failed()
        self.failed((), BEGIN + 1.0)
        self.assertFalse(self.put_off(BEGIN + 3.0))
        self.failed((), BEGIN + 3.5)
        self.assertEqual(BEGIN + 7.5, self.deadline(BEGIN + 3.5))

    def test_no_pass_is_owed_for_ever(self):
        """Whatever comes, the next deadline is a moment that comes."""
        self.put_off(BEGIN)
        self.assertLess(self.deadline(BEGIN), math.inf)
        self.passed((), BEGIN + 1.0)
        self.assertLess(self.deadline(BEGIN + 1.0), math.inf)
