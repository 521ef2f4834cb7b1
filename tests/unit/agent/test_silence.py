"""An irqbalance that does not answer: when it is asked again, what is said meanwhile, and who waits for it."""

from __future__ import annotations

import contextlib
import errno
import io
import threading
import types
from unittest import mock

from nova_perf_tuning.agent import coexist, reconcile, run, service, watch
from nova_perf_tuning.cli import main as cli
from nova_perf_tuning.host import irqbalance, privileged
from nova_perf_tuning.host.transaction import apply, journal
from tests.hosts import sysroots
from tests.unit.agent import beside


class SilenceTest(beside.BanTest):
    def test_one_that_stays_silent_is_asked_ever_more_rarely(self):
        self.theirs.free.clear()
        clock = self.stop_clock(coexist)
        for pause in (10, 20, 40, 80, 160, 300, 300):
            self.meet_silence()
            self.assertEqual(pause, self.pause(clock))
        self.set_free(self.theirs, self.process.pid)
        self.assertEqual(1, len(self.others.settings(self.wanted([30]), [])))
        self.theirs.free.clear()
        self.meet_silence()
        self.assertEqual(10, self.pause(clock))

    def meet_silence(self):
        self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])

    def pause(self, clock):
        """Let time pass until a pass is asked for, and return how long that took."""
        woken = []
        self.others.wake = lambda: woken.append(clock.now)
        begin = clock.now
        while not woken:
            self.assertLess(clock.now, begin + 1000.0)
            clock.now += 1.0
            self.others.findings()
        return clock.now - begin

    def test_passes_that_meet_one_silence_put_nothing_off(self):
        self.theirs.free.clear()
        clock = self.stop_clock(coexist)
        for _ in range(6):
            self.meet_silence()
            clock.now += 1.0
        self.assertEqual(4, self.pause(clock))
        for _ in range(6):
            self.meet_silence()
            clock.now += 1.0
        self.assertEqual(14, self.pause(clock))

    def test_a_short_or_long_interval_of_irqbalance_is_that_of_the_first_question(self):
        for interval in (3, 60):
            self.theirs.interval = interval
            self.assertEqual(1, len(self.others.settings(self.wanted([30]), [])))
            self.theirs.free.clear()
            clock = self.stop_clock(coexist)
            self.meet_silence()
            self.assertEqual(interval, self.pause(clock))
            self.set_free(self.theirs, self.process.pid)

    def test_another_irqbalance_has_no_part_in_the_silence_of_the_last(self):
        self.theirs.free.clear()
        clock = self.stop_clock(coexist)
        for _ in range(4):
            self.meet_silence()
            self.pause(clock)
        self.process.kill()
        self.process.wait()
        self.theirs.close()
        self.serve(self.program().pid).free.clear()
        self.meet_silence()
        self.assertEqual(10, self.pause(clock))

    def test_silence_after_a_ban_is_no_fault(self):
        clock = self.stop_clock(coexist, irqbalance)
        bench = self.bench()
        self.silent_after_bans(self.theirs)
        done = bench.agent.reconcile()
        self.assertEqual(([], []), (done.faults, bench.agent.not_in_force()))
        self.assertEqual({9, *bench.host.numbers("eth0"), *bench.host.numbers("eth1")}, self.theirs.banned)
        self.assertEqual((False, []), (bench.agent.overdue(), bench.agent.drifting()))
        for _ in range(5):
            self.assertTrue(bench.agent.reconcile().kept_extra)
            self.assertEqual(([], []), (self.about(self.others), bench.agent.not_in_force()))
            clock.now += 1.0
            bench.now += 1.0
        clock.now += 20.0
        self.assertTrue(bench.agent.reconcile().kept_extra)
        self.assertIn("does not answer", self.about(self.others)[0])
        self.set_free(self.theirs, self.process.pid)
        done = bench.agent.reconcile()
        self.assertEqual((False, []), (done.kept_extra, self.about(self.others)))

    def test_after_a_ban_that_was_not_answered_a_pass_is_asked_for(self):
        clock = self.stop_clock(coexist, irqbalance)
        bench = self.bench()
        self.silent_after_bans(self.theirs)
        bench.agent.reconcile()
        self.others.findings()
        self.assertEqual(10, self.pause(clock))

    def test_a_ban_that_may_not_be_in_force_makes_no_pass_while_irqbalance_is_silent(self):
        bench = self.bench()
        answer = irqbalance.ask

        def ask(pid, command):
            if command != "setup":
                self.theirs.free.clear()
            return answer(pid, command)

        with mock.patch.object(irqbalance, "ask", ask):
            self.assertEqual([self.ban.kind], [one.setting.kind for one in bench.agent.reconcile().faults])
        for _ in range(5):
            bench.now += 60.0
            self.assertTrue(bench.agent.reconcile().kept_extra)
            self.assertEqual((False, []), (bench.agent.overdue(), bench.agent.drifting()))
        bench.host.refuses[min(bench.host.numbers("eth0"))] = (errno.EINVAL, True)
        bench.host.reset("eth0")
        bench.agent.reconcile()
        self.assertTrue(bench.agent.overdue())  # it hides nothing else

    def test_an_end_waits_for_irqbalance(self):
        bench = self.bench()
        look = watch.Watch(sysroots.make_host(self))
        timing = types.SimpleNamespace(interval=1e6, verify_interval=1e6, passthrough_interval=1e6)
        agent = service.Service(bench.agent, look, timing, str(self.folder))
        self.addCleanup(agent.close)
        self.silent_after_bans(self.theirs)
        bench.agent.reconcile()
        self.meet_silence()
        self.assertLess({9}, self.theirs.banned)
        self.free_soon()
        self.assertEqual(0, run._end(agent, "restore"))
        self.until(lambda: self.theirs.banned == {9})
        self.assertEqual([], bench.journal.entries())

    def free_soon(self):
        later = threading.Timer(0.5, self.theirs.free.set)
        self.addCleanup(later.join)
        later.start()

    def test_the_command_restore_waits_for_irqbalance(self):
        folder, boot = str(self.folder / "state"), apply.boot_id()
        with contextlib.closing(journal.Journal(folder, "/", writer=True)) as notes:
            (one,) = self.others.settings(self.wanted([30]), [])
            (done,) = apply.apply([one], {self.ban.kind: self.ban}, notes, boot)
        self.assertEqual((apply.Result.WRITTEN, {9, 30}), (done.result, self.theirs.banned))
        self.theirs.free.clear()
        self.meet_silence()
        self.free_soon()
        out = io.StringIO()
        with mock.patch.object(privileged, "require"), contextlib.redirect_stdout(out):
            self.assertEqual(0, cli.main(["restore", "--state-dir", folder]), out.getvalue())
        self.until(lambda: self.theirs.banned == {9})

    def test_nobody_waits_for_ever(self):
        self.theirs.free.clear()
        for _ in range(2):
            with irqbalance.waiting(0.2):
                self.assertRaises(BlockingIOError, irqbalance.banned, self.process.pid)
        self.assertIsNone(irqbalance._until)
