# SPDX-License-Identifier: Apache-2.0
"""What the kernel does not take."""

import dataclasses
import errno
import os

from nova_perf_tuning.agent import rewrite_limit
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.transaction import apply, refusals
from tests.support import agent_bench, testcase


class RefusalTest(agent_bench.BenchCase):
    """What the kernel does not take is told until it holds, and not tried without end."""

    def setUp(self):
        super().setUp()
        self.patch(apply, "PAUSES", (0.0,) * (agent_bench.TRIES - 1))
        self.host, self.agent = self.bench.host, self.bench.agent
        self.number = min(self.host.numbers("eth0"))
        self.target = f"irq:{self.number}"

    def _pass(self, seconds=1.0, **arguments):
        self.bench.now += seconds
        return self.agent.reconcile(**arguments)

    def _faults(self):
        return [
            (outcome.setting.target, outcome.result, outcome.detail)
            for outcome in self.agent.not_in_force()
        ]

    def _attempts(self, irq=None):
        irq = self.number if irq is None else irq
        return sum(
            number
            for (_kind, target, _id), number in self.host.attempts.items()
            if target == f"irq:{irq}"
        )

    def _notes(self, code):
        return [dict(note.params) for note in self._pass().plan.warnings if note.code is code]

    def _cpus(self, name="eth0"):
        return [self.host.vectors[number].affinity for number in self.host.numbers(name)]

    def test_what_the_operator_names_is_put_back_and_left_alone(self):
        before = self.host.vectors[self.number].affinity
        self._pass()
        self.assertNotEqual(before, self.host.vectors[self.number].affinity)
        self.host.leave = ("eth0*",)
        done = self._pass()
        self.assertEqual(before, self.host.vectors[self.number].affinity)
        self.assertNotIn(self.target, [setting.target for setting in self.agent.wanted])
        codes = {note.code for note in done.plan.warnings}
        self.assertIn(NoteCode.INTERRUPTS_LEFT, codes)

    def test_a_managed_interrupt_is_left_alone_and_nothing_else_moves(self):
        self.host.refuses[self.number] = (errno.EPERM, True)
        before, first = self.host.vectors[self.number].affinity, self._pass()
        self.assertEqual(([], []), (first.faults, self._faults()))
        placed = self._cpus()
        self.assertEqual(before, placed[0])
        self.assertTrue(set(placed[1:]) <= {"0", "1"}, placed)
        writes = len(self.host.writes)
        for _ in range(50):
            self._pass(300.0, excused=True)
            self.agent.retry_refused()
        self.assertEqual(
            (1, writes, placed), (self._attempts(), len(self.host.writes), self._cpus())
        )
        self.assertEqual(
            [{"nic": "eth0", "irqs": str(self.number)}], self._notes(NoteCode.INTERRUPTS_MANAGED)
        )
        self.assertEqual((False, []), (self.agent.overdue(), self.agent.drifting()))

    def test_what_is_no_interrupt_is_written_in_the_last_round_at_least(self):
        """As where each round finds another full CPU."""
        self.patch(refusals, "ROUNDS", 1)
        self.host.fill(1)
        self._pass()
        self.assertIn("xps", {write[0] for write in self.host.writes})

    def test_where_the_vectors_of_a_cpu_are_full_another_one_is_taken_at_once(self):
        self.host.fill(1)
        first = self._pass()
        self.assertEqual(([], []), (first.faults, self._faults()))
        self.assertEqual(["0"] * 4, self._cpus())
        attempts, writes = self._attempts_at_all(), len(self.host.writes)
        for _ in range(50):
            self._pass(60.0, excused=True)
            self.agent.retry_refused()
        self.assertEqual((attempts, writes), (self._attempts_at_all(), len(self.host.writes)))
        self.assertEqual([{"cpus": "1"}], self._notes(NoteCode.VECTORS_FULL))
        self.assertEqual((False, []), (self.agent.overdue(), self.agent.drifting()))

    def test_a_full_cpu_is_tried_again_after_an_hour_and_moves_nothing_while_it_is_full(self):
        self.host.fill(1)
        self._pass()
        writes = [write for write in self.host.writes if write[0] == "irq_affinity"]
        for hour in range(1, 4):
            attempts = self._attempts_at_all()
            self.bench.now += 3600.0
            self.assertTrue(self.agent.overdue())
            self._pass()
            self.assertEqual(
                2,
                self._attempts_at_all() - attempts,
                f"hour {hour}: each queue that would go there",
            )
            self.assertEqual(
                writes, [write for write in self.host.writes if write[0] == "irq_affinity"]
            )
        self.host.accept()
        self._pass(3600.0)
        self.assertEqual(["0", "0", "1", "1"], sorted(self._cpus()))

    def test_a_full_cpu_is_tried_again_when_interrupts_have_gone(self):
        self.host.fill(1)
        self._pass()
        self.host.accept()
        self.host.unbind("eth1")
        self._pass()
        self.assertEqual(["0", "0", "1", "1"], sorted(self._cpus()))

    def test_a_node_without_a_free_vector(self):
        for cpu in (0, 1):
            self.host.fill(cpu)
        self._pass()
        self.assertTrue(set(self._cpus()) <= {"4", "5", "6"}, self._cpus())
        about = {"nic": "eth0", "where": "node 0", "other": "node 1"}
        self.assertEqual([about], self._notes(NoteCode.NODE_WITHOUT_VECTORS))

    def test_an_agent_that_starts_anew_knows_what_was_refused(self):
        memory = refusals.RefusalMemory(self.bench.directory, clock=lambda: self.bench.now)
        self.agent.refusals = memory
        self.host.fill(1)
        self.host.refuses[self.number] = (errno.EPERM, True)
        self._pass()
        attempts = self._attempts_at_all()
        self.bench.journal.close()
        self.bench._open()
        self.agent = self.bench.agent
        self.agent.refusals = refusals.RefusalMemory(
            self.bench.directory, clock=lambda: self.bench.now
        )
        self._pass()
        self.assertEqual(attempts, self._attempts_at_all())

    def _attempts_at_all(self):
        return sum(
            number
            for (kind, _target, _id), number in self.host.attempts.items()
            if kind == "irq_affinity"
        )

    def test_what_is_refused_for_good_is_told_until_it_holds(self):
        self.host.refuses[self.number] = (errno.EROFS, True)
        for _ in range(3):
            self._pass()
            self.assertEqual(
                [(self.target, apply.Result.FAILED, os.strerror(errno.EROFS))], self._faults()
            )
        self.assertEqual(1, self._attempts())
        self.assertEqual([], self.agent.drifting())
        self.host.refuses.clear()
        self.agent.retry_refused()
        self._pass(excused=True)
        self.assertEqual([], self._faults())

    def test_what_nobody_wants_any_more_is_not_told(self):
        self.host.refuses[self.number] = (errno.EROFS, True)
        self._pass()
        self.host.unbind("eth0")
        self._pass()
        self.assertEqual([], self._faults())

    def test_what_may_pass_is_tried_ever_more_rarely_and_told(self):
        for error in (errno.EINVAL, errno.EBUSY):
            with self.subTest(error):
                before = self._attempts()
                self.host.refuses[self.number] = (error, True)
                self.host.vectors[self.number].give("0-7")
                for _ in range(360):
                    self._pass(10.0)
                self.assertLess(self._attempts() - before, agent_bench.TRIES * 20)
                self.assertEqual(
                    [(self.target, apply.Result.FAILED, os.strerror(error))], self._faults()
                )
                self.assertEqual({}, self.agent.conflicts())
                self.host.refuses.clear()
                self._pass(700.0)
                self.assertEqual([], self._faults())
                self._pass(5000.0)

    def test_a_write_that_others_overwrite_at_once_is_told_and_tried_again(self):
        self.host.intruders[self.number] = "0-7"
        self._pass()
        ((target, result, _detail),) = self._faults()
        self.assertEqual((self.target, apply.Result.DIFFERS), (target, result))
        self.assertEqual([self.target], [setting.target for setting in self.agent.drifting()])
        self._pass()
        self.assertEqual([], self._faults())
        self.assertNotEqual("0-7", self.host.vectors[self.number].affinity)

    def test_one_who_overwrites_every_write_is_not_fought(self):
        for _ in range(360):
            self.host.intruders[self.number] = "0-7"
            self._pass(10.0)
        self.assertLess(self._attempts(), 20)

    def test_what_cannot_be_put_back_is_a_reason_for_a_pass(self):
        self.host.start("guest1", {"irq_placement": "numa"}, 0, True)
        self._pass()
        self.assertFalse(self.agent.overdue())
        number = max(self.host.vectors)
        self.host.refuses[number] = (errno.EINVAL, True)
        self.host.guests["guest1"].asks = None
        self._pass()
        self.assertEqual(([], True), (self.agent.drifting(), self.agent.overdue()))
        before = self._attempts(number)
        for _ in range(360):
            self.bench.now += 10.0
            if self.agent.overdue():
                self.agent.reconcile()
        self.assertLess(5, self._attempts(number) - before)
        self.assertLess(self._attempts(number) - before, 20)
        self.host.refuses.clear()
        self.bench.now += 700.0
        self.assertTrue(self.agent.overdue())
        self._pass()
        self.assertEqual((False, []), (self.agent.overdue(), self._faults()))

    def test_what_others_changed_before_it_was_put_back_is_told(self):
        self.host.start("guest1", {"irq_placement": "numa"}, 0, True)
        self._pass()
        number = max(self.host.vectors)
        self.host.guests["guest1"].asks = None
        self.host.vectors[number].give("7")
        for _ in range(3):
            self._pass()
            ((target, _result, detail),) = self._faults()
            self.assertEqual(f"irq:{number}", target)
            self.assertRegex(
                detail,
                "is not put back: we wrote .*, another program has set 7 since; the original is ",
            )
        self.assertEqual("7", self.host.vectors[number].affinity)
        self.host.guest_driver("guest1", False)
        self._pass(700.0)
        self._pass(700.0)
        self.assertEqual([], self._faults())

    def test_what_cannot_be_put_back_and_falls_asleep_is_told_no_more(self):
        self._pass()
        self.host.refuses[self.number] = (errno.EINVAL, True)
        plan = self.host.plan
        self.host.plan = lambda facts, refused: dataclasses.replace(
            plan(facts),
            settings=[
                setting for setting in plan(facts).settings if setting.target != self.target
            ],
        )
        self._pass()
        self.assertTrue(self.agent.overdue())
        self.host.link("eth0", False)
        self._pass()
        self.assertEqual((False, []), (self.agent.overdue(), self._faults()))

    def test_an_entry_that_no_kind_takes_is_one_fault(self):
        self._pass()
        (first, *_others) = self.bench.journal.entries()
        strange = dataclasses.replace(first, kind="xps", target="eth0/tx-0/strange", identity="x")
        with self.bench.journal.transaction():
            self.bench.journal.put([strange])
        kinds = self.host.kinds

        def with_strict_targets():
            made = kinds()
            identity = made["xps"].identity

            def strict(target):
                if target == strange.target:
                    raise base.TargetError("no target of this kind")
                return identity(target)

            made["xps"].identity = strict
            return made

        self.host.kinds = with_strict_targets
        self.host.vectors[self.number].give("0-7")
        done = self._pass()
        self.assertEqual([self.target], [outcome.setting.target for outcome in done.written])
        ((target, _result, detail),) = self._faults()
        self.assertEqual(strange.target, target)
        self.assertIn("no target of this kind", detail)


class PausesTest(testcase.TestCase):
    def test_each_pause_is_twice_as_long_as_the_one_before(self):
        judge, key, now = rewrite_limit.RewriteLimit(1), ("irq_affinity", "irq:30", ""), 3.3
        self.assertTrue(judge.allow(key, now))
        self.assertFalse(judge.allow(key, now))
        for pause in (20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0):
            with self.subTest(pause):
                self.assertAlmostEqual(pause, min(judge.due(now)) - now)
                now += pause
                self.assertTrue(judge.allow(key, now))
