# SPDX-License-Identifier: Apache-2.0
"""The schedule of a fleet run by itself: no thread, no clock, no database; every moment is a number."""

from nova_perf_tuning.validation.fleet import fleet_schedule
from nova_perf_tuning.validation.fleet.fleet_schedule import Decision, Fate
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.measure.fleet_model import ErrorClass
from tests.support import samples, testcase

BEGIN = 1000.0
EXPECTED_S = 200.0
ARMS = ("untuned", "tuned")


def tasks(*pairs, state="planned"):
    """Return tasks of pairs such as "a b"."""
    made = []
    for number, pair in enumerate(pairs):
        client, server = pair.split()
        made.append(fleet_model.Task(number, fleet_model.HostPair(client, server), state))
    return made


def outcome(task, *kinds, arms=()):
    """Return an outcome with errors of these kinds, and a trial in each of ``arms``."""
    errors = [fleet_model.PairError(kind, "reason") for kind in kinds]
    trials = [samples.trial(arm=arm) for arm in arms]
    return fleet_model.PairOutcome(task.pair, trials, errors)


class ScheduleCase(testcase.TestCase):
    def schedule(self, made, hosts=12, **settings):
        settings = fleet_model.RunSettings(**settings)
        self.tasks = made
        self.made = fleet_schedule.PairSchedule(made, hosts, ARMS, settings, EXPECTED_S, BEGIN)
        return self.made

    def begin_all(self, now=BEGIN):
        """Begin what can begin; return the numbers of these pairs."""
        begun = []
        while (task := self.made.next_task()) is not None:
            self.made.begin(task, now)
            begun.append(task.number)
        return begun

    def attempt(self, number, *kinds, arms=(), halted=False, at=BEGIN):
        """Measure a pair and return what is decided; what the database would hold is in its task."""
        task = self.tasks[number]
        if number not in self.made.running:
            self.made.begin(task, at)
        taken_s = self.made.end(number, at)
        ended = outcome(task, *kinds, arms=arms)
        decision = self.made.settle(task, ended, taken_s, halted=halted)
        if decision.fate in (Fate.DONE, Fate.FAILED, Fate.AGAIN):
            task.attempts += 1
        return decision

    def pending(self):
        return [task.number for task in self.made.pending]


class NextTest(ScheduleCase):
    def test_the_first_pair_whose_hosts_are_free(self):
        self.schedule(tasks("a b", "b c", "c d", "d e", "e f"))
        self.assertEqual([0, 2, 4], self.begin_all())
        self.assertEqual([1, 3], self.pending())
        self.attempt(0, arms=ARMS)
        self.assertIsNone(self.made.next_task(), "host c is still in a pair")
        self.attempt(2, arms=ARMS)
        self.assertEqual([1], self.begin_all())

    def test_no_more_pairs_at_a_time_than_the_settings_say(self):
        self.schedule(tasks("a b", "c d", "e f"), max_parallel=2)
        self.assertEqual([0, 1], self.begin_all())
        self.attempt(1, arms=ARMS)
        self.assertEqual([2], self.begin_all())

    def test_a_host_alone_is_busy_once(self):
        self.schedule(tasks("a a", "a a", "b b"))
        self.assertEqual([0, 2], self.begin_all())

    def test_what_has_an_outcome_is_not_measured_again(self):
        made = tasks("a b", "c d", "e f", "g h")
        for task, state in zip(made, ("done", "planned", "failed", "planned"), strict=True):
            task.state = state
        self.schedule(made)
        self.assertEqual([1, 3], self.begin_all())

    def test_hosts_on_which_a_stack_stayed_get_no_other_pair(self):
        self.schedule(tasks("a b", "b c", "c d"))
        decision = self.attempt(0, ErrorClass.NOT_REMOVED, arms=ARMS)
        self.assertEqual(Fate.DONE, decision.fate)
        self.assertEqual([2], self.begin_all())
        self.attempt(2, arms=ARMS)
        self.assertIsNone(self.made.next_task())
        self.assertEqual([1], self.pending())


class FateTest(ScheduleCase):
    def setUp(self):
        super().setUp()
        self.schedule(tasks("a b", "c d", "e f"), retries=1)

    def test_a_pair_with_trials_in_every_arm_is_done(self):
        self.assertEqual(Decision(Fate.DONE), self.attempt(0, arms=ARMS))
        self.assertEqual(Fate.DONE, self.attempt(1, ErrorClass.BENCHMARK_FAILED, arms=ARMS).fate)
        self.assertEqual([2], self.pending())

    def test_what_may_pass_is_tried_again_after_the_others_as_often_as_the_settings_say(self):
        self.assertEqual(Fate.AGAIN, self.attempt(0, ErrorClass.NO_SIGNAL).fate)
        self.assertEqual([1, 2, 0], self.pending())
        self.assertEqual(Fate.FAILED, self.attempt(0, ErrorClass.NO_SIGNAL).fate)
        self.assertEqual([1, 2], self.pending())

    def test_attempts_before_the_run_was_taken_up_do_not_count(self):
        made = tasks("a b", "c d")
        made[0].attempts = 2
        self.schedule(made, retries=1)
        self.assertEqual(Fate.AGAIN, self.attempt(0, ErrorClass.STACK_FAILED).fate)
        self.assertEqual(Fate.FAILED, self.attempt(0, ErrorClass.STACK_FAILED).fate)

    def test_a_second_attempt_is_made_for_all_but_results_and_limits(self):
        final = {ErrorClass.BENCHMARK_FAILED, ErrorClass.TIME_LIMIT}
        own = {ErrorClass.QUOTA, ErrorClass.INTERRUPTED, ErrorClass.NOT_REMOVED}
        for kind in set(ErrorClass) - own:
            with self.subTest(kind):
                self.schedule(tasks("a b"), retries=1)
                wanted = Fate.FAILED if kind in final else Fate.AGAIN
                self.assertEqual(wanted, self.attempt(0, kind).fate)

    def test_one_error_that_may_pass_is_enough_for_it(self):
        kinds = ErrorClass.TIME_LIMIT, ErrorClass.NO_SIGNAL
        self.assertEqual(Fate.AGAIN, self.attempt(0, *kinds).fate)

    def test_that_a_stack_stayed_is_no_reason_to_try_again(self):
        kinds = ErrorClass.BENCHMARK_FAILED, ErrorClass.NOT_REMOVED
        self.assertEqual(Fate.FAILED, self.attempt(0, *kinds).fate)

    def test_no_results_and_no_error_is_a_failure(self):
        self.assertEqual(Fate.FAILED, self.attempt(0).fate)

    def test_half_a_comparison_is_kept_when_no_attempt_is_left(self):
        self.assertEqual(Fate.AGAIN, self.attempt(0, ErrorClass.NO_SIGNAL, arms=ARMS[:1]).fate)
        self.assertEqual(Fate.DONE, self.attempt(0, ErrorClass.NO_SIGNAL, arms=ARMS[:1]).fate)
        last = self.attempt(1, ErrorClass.BENCHMARK_FAILED, arms=ARMS[:1])
        self.assertEqual(Fate.DONE, last.fate, "another attempt would not help")

    def test_an_arm_whose_trials_have_no_value_is_not_measured(self):
        task = self.tasks[0]
        self.made.begin(task, BEGIN)
        ended = outcome(task, ErrorClass.BAD_RESULTS, arms=ARMS)
        ended.trials[1].value = None
        taken_s = self.made.end(0, BEGIN)
        decision = self.made.settle(task, ended, taken_s, halted=False)
        self.assertEqual(Fate.AGAIN, decision.fate)

    def test_what_the_end_of_the_run_cut_off_goes_first_when_it_goes_on(self):
        self.begin_all()
        self.assertEqual(Decision(Fate.CUT_OFF), self.attempt(1, ErrorClass.INTERRUPTED))
        self.assertEqual(
            Decision(Fate.CUT_OFF), self.attempt(0, ErrorClass.STACK_FAILED, halted=True)
        )
        self.assertEqual(Fate.DONE, self.attempt(2, arms=ARMS, halted=True).fate)
        self.assertEqual([0, 1], self.pending())

    def test_an_interrupted_pair_has_no_results_even_with_trials(self):
        decision = self.attempt(0, ErrorClass.INTERRUPTED, arms=ARMS)
        self.assertEqual(Fate.CUT_OFF, decision.fate)


class QuotaTest(ScheduleCase):
    def test_as_many_as_fit_are_measured_from_now_on(self):
        self.schedule(tasks("a b", "c d", "e f", "g h", "i j"), max_parallel=4)
        self.begin_all()
        self.assertEqual(
            Decision(Fate.NO_ROOM, is_lowered=True), self.attempt(3, ErrorClass.QUOTA)
        )
        self.assertEqual((3, [3, 4]), (self.made.limit, self.pending()))
        self.assertIsNone(self.made.next_task())
        self.attempt(0, arms=ARMS)
        self.assertEqual([3], self.begin_all(), "it goes before all others")

    def test_a_limit_that_is_low_enough_stays(self):
        self.schedule(tasks("a b", "c d", "e f"), max_parallel=3)
        self.begin_all()
        self.attempt(2, ErrorClass.QUOTA)
        self.made.begin(self.tasks[2], BEGIN)
        self.assertEqual(Decision(Fate.NO_ROOM), self.attempt(2, ErrorClass.QUOTA), "said once")
        self.assertEqual(2, self.made.limit)

    def test_without_room_for_one_pair_it_gives_up(self):
        self.schedule(tasks("a b", "c d"))
        self.assertEqual(Decision(Fate.NO_ROOM, gives_up=True), self.attempt(0, ErrorClass.QUOTA))
        self.assertEqual([0, 1], self.pending())


class StreakTest(ScheduleCase):
    def fleet(self, count=40, **settings):
        pairs = [f"c{number} s{number}" for number in range(count)]
        return self.schedule(tasks(*pairs), hosts=2 * count, **settings)

    def failing(self, numbers, kind=ErrorClass.API):
        return [self.attempt(number, kind) for number in numbers]

    def test_it_gives_up_when_eight_attempts_on_end_fail_for_the_cloud_s_sake(self):
        self.fleet(retries=0)
        self.attempt(0, arms=ARMS)
        *before, last = self.failing(range(1, 9))
        self.assertEqual([Decision(Fate.FAILED)] * 7, before)
        failed = tuple(self.tasks[1:9])
        self.assertEqual(Decision(Fate.FAILED, gives_up=True, on_end=8, put_back=failed), last)
        self.assertEqual(set(range(1, 40)), set(self.pending()), "all of them are planned again")

    def test_what_is_tried_again_anyway_is_not_put_back(self):
        self.fleet(retries=1)
        self.attempt(0, arms=ARMS)
        numbers = [1, 2, 3, 1, 2, 3, 4, 5]
        *before, last = self.failing(numbers)
        self.assertFalse(any(decision.gives_up for decision in before))
        self.assertEqual((Fate.AGAIN, True), (last.fate, last.gives_up))
        self.assertEqual([1, 2, 3], [task.number for task in last.put_back])
        self.assertEqual(sorted(self.pending()), sorted(set(self.pending())))

    def test_many_pairs_at_a_time_bridge_what_is_short(self):
        self.fleet(retries=0, max_parallel=6)
        self.attempt(0, arms=ARMS)
        decisions = self.failing(range(1, 13))
        gave_up = [decision.on_end for decision in decisions if decision.gives_up]
        self.assertEqual([12], gave_up)

    def test_a_pair_that_works_ends_the_streak(self):
        self.fleet(retries=0)
        self.attempt(0, arms=ARMS)
        self.failing(range(1, 8))
        self.attempt(8, arms=ARMS)
        self.assertFalse(any(decision.gives_up for decision in self.failing(range(9, 16))))

    def test_a_host_s_own_failure_ends_the_streak(self):
        self.fleet(retries=0)
        self.attempt(0, arms=ARMS)
        self.failing(range(1, 8))
        self.attempt(8, ErrorClass.NO_SIGNAL)
        self.assertFalse(any(decision.gives_up for decision in self.failing(range(9, 16))))

    def test_an_attempt_without_results_and_error_ends_the_streak(self):
        self.fleet(retries=0)
        self.attempt(0, arms=ARMS)
        self.failing(range(1, 8))
        self.attempt(8)
        self.assertFalse(any(decision.gives_up for decision in self.failing(range(9, 16))))

    def test_an_error_of_the_host_s_beside_one_of_the_cloud_s_is_the_host_s(self):
        self.fleet(retries=0)
        self.attempt(0, arms=ARMS)
        kinds = ErrorClass.API, ErrorClass.NO_HOST
        decisions = [self.attempt(number, *kinds) for number in range(1, 20)]
        self.assertFalse(any(decision.gives_up for decision in decisions))

    def test_while_no_pair_has_worked_every_failure_counts(self):
        self.fleet(retries=0)
        decisions = self.failing(range(8), ErrorClass.NO_SIGNAL)
        self.assertTrue(decisions[-1].gives_up)
        self.fleet(retries=0)
        self.attempt(0, arms=ARMS)
        decisions = self.failing(range(1, 20), ErrorClass.NO_SIGNAL)
        self.assertFalse(any(decision.gives_up for decision in decisions))

    def test_a_run_that_was_taken_up_knows_that_pairs_have_worked(self):
        made = tasks(*[f"c{number} s{number}" for number in range(20)])
        made[0].state, made[0].seconds = "done", 150.0
        self.schedule(made, retries=0)
        decisions = self.failing(range(1, 20), ErrorClass.NO_SIGNAL)
        self.assertFalse(any(decision.gives_up for decision in decisions))

    def test_failures_that_all_have_one_host_are_that_host_s(self):
        pairs = [f"bad s{number}" for number in range(12)]
        self.schedule(tasks(*pairs), hosts=13, retries=0)
        decisions = self.failing(range(12))
        self.assertFalse(any(decision.gives_up for decision in decisions))
        self.assertEqual([], self.pending())


class TimeTest(ScheduleCase):
    def test_no_pair_begins_that_would_not_end_in_time(self):
        self.schedule(tasks("a b", "c d"), time_limit_s=500.0)
        self.assertFalse(self.made.is_out_of_time(BEGIN + 300.0))
        self.assertTrue(self.made.is_out_of_time(BEGIN + 300.1))

    def test_pairs_so_far_say_how_long_one_takes(self):
        self.schedule(tasks("a b", "c d", "e f"), max_parallel=2, time_limit_s=500.0)
        self.begin_all()
        self.attempt(0, arms=ARMS, at=BEGIN + 100.0)
        self.attempt(1, arms=ARMS, at=BEGIN + 140.0)
        self.assertFalse(self.made.is_out_of_time(BEGIN + 380.0))
        self.assertTrue(self.made.is_out_of_time(BEGIN + 380.1))

    def test_it_is_not_out_of_time_without_a_limit_or_without_a_pair(self):
        self.schedule(tasks("a b"))
        self.assertFalse(self.made.is_out_of_time(BEGIN + 1e6))
        self.schedule(tasks("a b"), time_limit_s=500.0)
        self.begin_all()
        self.assertFalse(self.made.is_out_of_time(BEGIN + 1e6))

    def test_the_time_left_is_that_of_all_pairs_over_those_at_a_time(self):
        self.schedule(tasks("a b", "c d", "e f", "g h"), max_parallel=2)
        self.assertEqual(4 * EXPECTED_S / 2, self.made.left_s(BEGIN))
        self.begin_all()
        self.assertEqual((4 * EXPECTED_S - 2 * 50.0) / 2, self.made.left_s(BEGIN + 50.0))
        late = BEGIN + 10 * EXPECTED_S
        self.assertEqual(2 * EXPECTED_S / 2, self.made.left_s(late), "a late pair takes no less")

    def test_few_hosts_bound_the_pairs_at_a_time(self):
        self.schedule(tasks("a b", "b c", "c a"), hosts=3, max_parallel=4)
        self.assertEqual(3 * EXPECTED_S, self.made.left_s(BEGIN))
        self.schedule(tasks("a a", "b b", "c c"), hosts=3, max_parallel=4)
        self.assertEqual(EXPECTED_S, self.made.left_s(BEGIN))

    def test_an_attempt_that_failed_says_nothing_of_the_time_of_a_pair(self):
        self.schedule(tasks("a b", "c d"), max_parallel=1, retries=0)
        self.begin_all()
        self.attempt(0, ErrorClass.NO_SIGNAL, at=BEGIN + 900.0)
        self.assertEqual(EXPECTED_S, self.made.left_s(BEGIN + 900.0))
