"""The list of bans that irqbalance has of many: whose is what, and how often it is told ours."""

from __future__ import annotations

import contextlib
from unittest import mock

import testtools

from nova_perf_tuning.agent import arbiter, coexist, reconcile
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import irqbalance as ban
from nova_perf_tuning.host.transaction import apply, restore
from tests.unit.agent import test_convergence as convergence

_PREFIX = "settings ban irqs "


class Irqbalance:
    """One without sockets and time: it answers at once, or refuses, or carries out a command when that is over."""

    def __init__(self):
        self.banned = {9}
        self.refuses = lambda _command: False
        self.slow = False
        self.waiting = []

    def ask(self, _pid, command):
        if self.waiting or self.refuses(command):
            raise BlockingIOError(11, "no answer")
        if command == "setup":
            return "SLEEP 10 " + "".join(f"IRQ {one} LOAD 0 DIFF 0 CLASS 0 " for one in sorted(self.banned))
        self.waiting.append({int(one) for one in command.removeprefix(_PREFIX).split() if one != "NONE"})
        if self.slow:
            raise BlockingIOError(11, "no answer")
        self.answer()
        return ""

    def answer(self):
        for numbers in self.waiting:
            self.banned = numbers
        self.waiting.clear()


class BansTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.theirs = Irqbalance()
        for name, value in (
            ("ask", self.theirs.ask),
            ("running", lambda: 77),
            ("identity", lambda _pid: "77:1"),
            ("uses_our_script", lambda _pid: False),
        ):
            self.enterContext(mock.patch.object(irqbalance, name, value))
        self.enterContext(mock.patch.object(apply, "PAUSES", (0.0, 0.0)))
        self.bench = self.enterContext(contextlib.closing(convergence.Bench()))
        self.kinds = self.bench.host.kinds
        self.ban = ban.IrqbalanceBan("/")
        self.bench.host.kinds = lambda: {**self.kinds(), self.ban.kind: self.ban}
        self.bench.agent._extra = coexist.Coexistence().settings

    def ours(self):
        return {*self.bench.host.numbers("eth0"), *self.bench.host.numbers("eth1")}

    def later(self, *, excused=False):
        self.bench.now += 1000.0
        return self.bench.agent.reconcile(excused=excused)

    def entry(self):
        (one,) = [one for one in self.bench.journal.entries() if one.kind == self.ban.kind]
        return one

    def undo(self, *, force=False):
        done = restore.restore(self.bench.journal, self.bench.host.kinds(), self.bench.host.boot(), force=force)
        self.assertEqual([], self.bench.journal.entries())
        (one,) = [one for one in done if one.entry.kind == self.ban.kind]
        return one.result

    def test_what_was_banned_or_lifted_since_the_last_pass_survives_the_restore(self):
        for force in (False, True):
            for lists, result in (
                (({9}, {9, 77}), restore.Undone.RESTORED),
                (({9}, set()), restore.Undone.RESTORED),
                (({9, 11}, {11, 77}), restore.Undone.RESTORED),
            ):
                before, after = lists
                self.theirs.banned = set(before)
                self.later()
                self.assertEqual(before | self.ours(), self.theirs.banned)
                self.theirs.banned = after | self.ours()
                self.assertEqual(result, self.undo(force=force))
                self.assertEqual(after, self.theirs.banned)

    def test_a_list_that_somebody_has_replaced_is_not_touched_by_the_restore(self):
        self.later()
        self.theirs.banned = {77}
        self.assertEqual(restore.Undone.ALREADY, self.undo())
        self.assertEqual({77}, self.theirs.banned)

    def test_a_restore_that_another_spoils_is_done_at_the_next_one(self):
        self.later()
        self.theirs.slow = True
        self.bench.host.set_channels("eth0", 6)
        self.later(excused=True)
        self.theirs.answer()
        self.theirs.slow = False
        self.assertEqual("intended", self.entry().state)
        answer = self.theirs.answer

        def spoilt():
            answer()
            self.theirs.banned |= {88, *self.ours()}

        self.theirs.answer = spoilt
        done = self.bench.agent.restore()
        self.assertIn(restore.Undone.FAILED, [one.result for one in done if one.entry.kind == self.ban.kind])
        self.theirs.answer = answer
        self.undo()
        self.assertEqual({9, 88}, self.theirs.banned)

    def test_a_ban_that_is_lifted_stays_lifted(self):
        self.later()
        self.theirs.banned = self.ours()
        done = self.later()
        self.assertEqual(([], self.ours()), (done.written, self.theirs.banned))
        self.theirs.banned.add(77)
        self.later()
        self.assertEqual("77", self.entry().original)
        self.theirs.banned.discard(77)
        self.bench.host.set_channels("eth0", 6)
        self.later(excused=True)
        self.assertEqual(self.ours(), self.theirs.banned)
        self.assertEqual({}, self.bench.agent.contested())
        self.undo()
        self.assertEqual(set(), self.theirs.banned)

    def test_of_ours_nothing_is_lifted_by_others(self):
        self.later()
        self.theirs.banned.discard(min(self.ours()))
        done = self.later()
        self.assertEqual([self.ban.kind], [one.kind for one in done.drifted])
        self.assertEqual({9, *self.ours()}, self.theirs.banned)

    def test_what_is_lifted_is_told_from_what_was_never_told(self):
        for original, asked, current, put_back in (
            ("9", ("9,24",), "9,24", "9"),
            ("9", ("9,24",), "24", "none"),
            ("9", ("9,24",), "9", "9"),
            ("9,77", ("9,24,77", "9,24"), "9,24", "9,77"),  # the list with 77 may never have been there
            ("9,77", ("9,24,77", "9,24"), "24,77", "77"),
            ("9", ("9,24", "9,25"), "9,25,78", "9,78"),
            ("none", ("24",), "24,78", "78"),
        ):
            told = (original, asked, current)
            self.assertEqual(put_back, self.ban.original(*told), told)

    def test_what_others_ban_while_ours_is_refused_stays(self):
        refused = []

        def refuses(command):
            if command != "setup":
                refused.append(command)
            return bool(refused)

        self.theirs.refuses = refuses
        self.later()
        self.assertEqual(("intended", None), (self.entry().state, self.entry().written))
        self.theirs.banned.add(77)
        self.theirs.refuses = lambda command: command != "setup"
        for _ in range(3):
            self.later()
        self.assertEqual({9, 77}, self.theirs.banned)
        self.theirs.refuses = lambda _command: False
        self.later()
        self.assertEqual({9, 77, *self.ours()}, self.theirs.banned)
        self.undo()
        self.assertEqual({9, 77}, self.theirs.banned)

    def test_what_irqbalance_carries_out_late_nobody_else_has_changed(self):
        self.later()
        self.theirs.slow = True
        for channels in (6, 3, 7):
            self.bench.host.set_channels("eth0", channels)
            self.assertEqual([self.ban.kind], [one.setting.kind for one in self.later(excused=True).faults])
            self.theirs.answer()
            self.bench.host.set_channels("eth0", channels - 1)
            done = self.later(excused=True)
            self.assertNotIn(self.ban.kind, [one.kind for one in done.drifted])
            self.theirs.answer()

    def pause(self):
        return self.bench.agent.arbiter._contests[(self.ban.kind, ban.TARGET, "77:1")].pause

    def test_a_list_that_is_confirmed_late_each_time_is_no_list_that_is_refused(self):
        self.later()
        self.theirs.slow = True
        for number in range(60):
            self.bench.host.set_channels("eth0", 4 + number % 3)
            self.bench.now = max(self.bench.now + 1.0, self.bench.agent.arbiter.due(self.bench.now) or 0.0)
            self.bench.agent.reconcile(excused=True)
            self.theirs.answer()
        self.assertEqual(arbiter.PERIOD, self.pause())

    def test_a_list_that_is_refused_is_tried_ever_more_rarely(self):
        self.later()
        self.theirs.refuses = lambda command: command != "setup"
        self.bench.host.set_channels("eth0", 6)
        for _ in range(12):
            self.bench.agent.reconcile()
            self.bench.now = max(self.bench.now + 1.0, self.bench.agent.arbiter.due(self.bench.now) or 0.0)
        self.assertGreater(self.pause(), 100.0)


class OwnChangesTest(testtools.TestCase):
    """Guests with devices come and go; nobody else changes the list."""

    def setUp(self):
        super().setUp()
        self.bench = self.enterContext(contextlib.closing(convergence.Bench()))
        self.host = self.bench.host
        self.host.banned = "9"
        self.value = "9,24"
        self.bench.agent = reconcile.Reconciler(
            self.host,
            convergence.OneJournal(self.bench.journal),
            arbiter.Arbiter(),
            extra=lambda *_both: [
                setting_module.Setting(
                    "irqbalance_ban", "irqbalance", self.value, self.host.banned, "", "irqbalance-ban", "77:1"
                )
            ],
            clock=lambda: self.bench.now,
        )
        self.bench.agent.reconcile()
        self.writes = 0

    def told(self):
        return [one.setting.kind for one in self.bench.agent.not_in_force()]

    def pass_(self, *, excused=False):
        before = self.host.banned
        self.bench.agent.reconcile(excused=excused)
        self.writes += before != self.host.banned
        behind = self.host.banned != self.value
        self.assertEqual(["irqbalance_ban"] if behind else [], self.told())
        self.assertEqual({}, self.bench.agent.contested())
        return behind

    def longest_lag(self, seconds, period):
        """Let a guest start each ``period`` seconds; return for how long the list was behind."""
        since, longest, end, next_one = self.bench.now, 0.0, self.bench.now + seconds, self.bench.now
        behind = False
        while self.bench.now < end:
            if self.bench.now >= next_one:
                next_one += period
                number = 24 + int(self.bench.now) % 97
                self.value = f"9,{number}"
                behind = self.pass_(excused=True)
            elif (due := self.bench.agent.arbiter.due(self.bench.now - 1.0)) is not None and due <= self.bench.now:
                behind = self.pass_()
            self.bench.now += 1.0
            since = since if behind else self.bench.now
            longest = max(longest, self.bench.now - since)
        return longest

    def test_a_list_that_is_ours_alone_is_never_far_behind(self):
        self.assertLessEqual(self.longest_lag(40.0, 1.0), 21.0)
        for period in (45.0, 20.0, 60.0, 7.0):
            self.assertLessEqual(self.longest_lag(1200.0, period), 21.0, period)
            (contest,) = self.bench.agent.arbiter._contests.values()
            self.assertLessEqual(contest.pause, arbiter.PERIOD)

    def test_changes_without_end_are_told_a_few_times_in_a_minute(self):
        self.longest_lag(60.0, 1.0)
        self.writes = 0
        self.longest_lag(1200.0, 1.0)
        self.assertLessEqual(self.writes, 1200 / 15)

    def test_a_pause_because_of_others_does_not_outlast_them(self):
        for _ in range(12):
            self.host.banned = "9"
            self.bench.agent.reconcile()
            self.bench.now = max(self.bench.now, self.bench.agent.arbiter.due(self.bench.now) or 0.0)
        (contest,) = self.bench.agent.arbiter._contests.values()
        self.assertGreater(contest.pause, 100.0)
        self.bench.agent.reconcile()
        self.assertEqual(self.value, self.host.banned)
        self.assertLessEqual(self.longest_lag(600.0, 45.0), 21.0)

    def test_a_refused_value_is_tried_ever_more_rarely(self):
        judge = arbiter.Arbiter(1)
        key = ("irqbalance_ban", "irqbalance", "77:1")
        judge.allow(key, 0.0, ours=True)
        pauses = []
        for _ in range(4):
            now = max(one.until for one in judge._contests.values())
            judge.allow(key, now, held=False)
            pauses.append(judge._contests[key].pause)
        self.assertEqual([20.0, 40.0, 80.0, 160.0], pauses)
        judge.allow(key, now + 1.0, held=False, ours=True)
        self.assertLessEqual(judge.due(now + 1.0), now + 21.0)
