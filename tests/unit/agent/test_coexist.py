"""What irqbalance is told, what is kept while it does not answer, and who is reported."""

from __future__ import annotations

import contextlib
import errno
import io
import socket
import threading
import time
import types
from unittest import mock

from nova_perf_tuning.agent import arbiter, book, coexist, main, reconcile, service, state, watch
from nova_perf_tuning.cli import main as cli
from nova_perf_tuning.host import irqbalance, privileged
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import base
from nova_perf_tuning.host.settings import irqbalance as ban
from nova_perf_tuning.host.transaction import apply, journal
from tests.hosts import sysroots
from tests.unit.agent import beside
from tests.unit.agent import test_convergence as convergence


class BanTest(beside.BesideIrqbalanceTest):
    def setUp(self):
        super().setUp()
        self.process = self.program()
        self.theirs = self.serve(self.process.pid)
        self.others = coexist.Coexistence()

    def told(self, original, value):
        return self.entry(
            Setting(self.ban.kind, ban.TARGET, value, "", "", "", self.ban.identity(ban.TARGET)), original
        )

    def test_ours_beside_those_of_others(self):
        (one,) = self.others.settings(self.wanted([30, 31]), [])
        self.assertEqual(("9", "9,30,31"), (one.current, one.value))
        self.ban.write(one.target, one.value)
        self.assertEqual({9, 30, 31}, self.theirs.banned)
        self.assertTrue(self.ban.is_same(one))
        self.assertEqual([], self.about(self.others))

    def test_what_the_admin_bans_later_stays_and_what_we_give_up_goes(self):
        self.theirs.banned = {9, 30, 31, 77}
        (one,) = self.others.settings(self.wanted([30]), [self.told("9", "9,30,31")])
        self.assertEqual("9,30,77", one.value)

    def test_what_others_had_banned_for_us_stays(self):
        self.theirs.banned = {9, 30}
        (one,) = self.others.settings(self.wanted([30]), [])
        self.assertEqual("9,30", one.value)
        (one,) = self.others.settings(self.wanted([30]), [self.entry(one, "9,30", "held")])
        self.assertEqual("9,30", one.value)

    def test_nothing_banned_is_said_so(self):
        self.theirs.banned = set()
        self.assertEqual(ban.NONE, self.ban.read(ban.TARGET))
        self.ban.write(ban.TARGET, "5")
        self.ban.write(ban.TARGET, ban.NONE)
        self.assertEqual(set(), self.theirs.banned)

    def test_more_than_fit_into_a_command_are_reported(self):
        self.assertEqual([], self.others.settings(self.wanted(range(100, 400)), []))
        (detail,) = self.about(self.others)
        self.assertIn("--policyscript", detail)
        self.assertRaises(base.TargetError, self.ban.write, ban.TARGET, ban.as_text(frozenset(range(100, 400))))
        self.assertEqual({9}, self.theirs.banned)

    def test_the_last_list_that_fitted_stays_without_what_is_gone(self):
        self.theirs.banned = {9, *range(100, 200)}
        entry = self.told("9", ban.as_text(frozenset(self.theirs.banned)))
        (one,) = self.others.settings(self.wanted(range(102, 402)), [entry])
        self.assertEqual({9, *range(102, 200)}, ban.as_numbers(one.value))
        self.assertIn("300 are too many", self.about(self.others)[0])

    def test_others_have_banned_too_many_beside_ours(self):
        entry = self.told("9", "9,30")
        self.theirs.banned = {9, 30, *range(1000, 1200)}
        self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30, 31]), [entry])

    def bench(self):
        """Return a simulated host whose agent speaks to this irqbalance."""
        bench = self.enterContext(contextlib.closing(convergence.Bench()))
        kinds = bench.host.kinds
        bench.host.kinds = lambda: {**kinds(), self.ban.kind: self.ban}
        bench.agent._extra = self.others.settings
        return bench

    def test_what_the_admin_bans_later_stays_however_many_passes_there_are(self):
        bench = self.bench()
        bench.agent.reconcile()
        ours = set(self.theirs.banned) - {9}
        self.theirs.banned.add(77)
        for _ in range(3):
            bench.agent.reconcile()
            self.assertEqual({9, 77, *ours}, self.theirs.banned)
        bench.agent.restore()
        self.until(lambda: self.theirs.banned == {9, 77})

    def test_a_ban_that_is_carried_out_late_keeps_its_original(self):
        for earlier in (0, 1):
            self.theirs.banned = {9}
            bench = self.bench()
            for _ in range(earlier):
                bench.agent.reconcile()
                bench.host.set_channels("eth0", 6)
            answer = irqbalance.ask

            def ask(pid, command, answer=answer):
                if command != "setup":
                    self.theirs.free.clear()
                return answer(pid, command)

            before = set(self.theirs.banned)
            with mock.patch.object(irqbalance, "ask", ask):
                done = bench.agent.reconcile()
            self.assertEqual([self.ban.kind], [one.setting.kind for one in done.faults])
            self.assertEqual(before, self.theirs.banned)
            self.theirs.free.set()
            self.until(lambda before=before: before < self.theirs.banned)
            bench.now += 1000.0
            bench.agent.reconcile()
            self.assertEqual([], bench.agent.not_in_force())
            (entry,) = [one for one in bench.journal.entries() if one.kind == self.ban.kind]
            self.assertEqual(("9", "applied"), (entry.original, entry.state))
            bench.agent.restore()
            self.until(lambda: self.theirs.banned == {9})

    def test_what_we_gave_up_and_could_not_say_is_not_taken_for_that_of_others(self):
        bench = self.bench()
        bench.agent.reconcile()
        answer, refused = irqbalance.ask, []

        def ask(pid, command):
            if refused or command != "setup":
                refused.append(command)
                raise BlockingIOError(11, "no place in its queue")
            return answer(pid, command)

        bench.host.unbind("eth1")
        with mock.patch.object(irqbalance, "ask", ask):
            bench.agent.reconcile()
        self.assertTrue(refused)
        bench.now += 1000.0
        bench.agent.reconcile()
        self.until(lambda: self.theirs.banned == {9, *bench.host.numbers("eth0")})
        bench.agent.restore()
        self.until(lambda: self.theirs.banned == {9})

    def test_a_link_that_goes_down_and_up_tells_irqbalance_nothing(self):
        bench = self.bench()
        bench.agent.reconcile()
        banned = set(self.theirs.banned)
        self.theirs.commands.clear()
        for up in (False, True, False, True):
            bench.host.link("eth0", up)
            bench.agent.reconcile(excused=True)
            self.assertEqual(banned, self.theirs.banned)
        self.assertEqual({"setup"}, set(self.theirs.commands))

    def test_vectors_that_come_and_go_all_the_time_are_not_each_time_told(self):
        bench = self.bench()
        for number in range(200):
            bench.host.set_channels("eth0", 4 + number % 2)
            bench.now += 1.0
            bench.agent.reconcile(excused=True)
        told = [one for one in self.theirs.commands if one != "setup"]
        self.assertLess(len(told), 60)
        self.assertNotIn(self.ban.kind, [kind for kind, *_others in bench.agent.contested()])
        bench.now += 700.0
        bench.agent.reconcile()
        numbers = {*bench.host.numbers("eth0"), *bench.host.numbers("eth1")}
        self.until(lambda: self.theirs.banned == {9, *numbers})

    def test_nothing_waits_for_irqbalance_to_be_placed(self):
        bench = self.bench()
        (number, *_others) = bench.host.numbers("eth0")
        bench.agent.reconcile()
        placed = bench.host.vectors[number].affinity
        bench.host.vectors[number].give("0-7")
        answer, seen = irqbalance.ask, []

        def ask(pid, command):
            seen.append(bench.host.vectors[number].affinity)
            return answer(pid, command)

        with mock.patch.object(irqbalance, "ask", ask):
            bench.agent.reconcile()
        self.assertEqual({placed}, set(seen))

    def test_a_loop_waits_a_short_time_for_its_answer(self):
        self.theirs.free.clear()
        with mock.patch.object(irqbalance, "_TIMEOUT_S", 30.0):
            begun = time.monotonic()
            with irqbalance.patience(0.05):
                self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])
            self.assertLess(time.monotonic() - begun, 10.0)
            self.assertEqual(30.0, irqbalance._TIMEOUT_S)
        self.assertIn("no answer within 0.05 s", self.about(self.others)[0])

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
        self.assertEqual(0, main._end(agent, "restore"))
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

    def test_one_unanswered_question_lifts_nothing(self):
        bench = self.bench()
        bench.agent.reconcile()
        banned = set(self.theirs.banned)
        self.assertGreater(len(banned), 1)
        answer, unanswered = irqbalance.ask, [BlockingIOError(11, "no answer")]

        def ask(pid, command):
            if unanswered:
                raise unanswered.pop()
            return answer(pid, command)

        with mock.patch.object(irqbalance, "ask", ask):
            done = bench.agent.reconcile()
        self.assertEqual(([], banned), ([one.entry.kind for one in done.withdrawn], self.theirs.banned))
        self.assertIn("does not answer", self.about(self.others)[0])
        bench.agent.reconcile()
        self.assertEqual((banned, []), (self.theirs.banned, self.about(self.others)))

    def test_one_that_did_not_answer_is_asked_again_later_and_not_by_every_look(self):
        clock = self.stop_clock(coexist)
        woken = []
        self.others.wake = lambda: woken.append(1)
        self.theirs.free.clear()
        self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])
        self.others.findings()
        self.assertEqual([], woken)
        clock.now += 10.0
        self.others.findings()
        self.others.findings()
        self.assertEqual([1], woken)

    def test_a_connection_is_kept_until_the_answer_has_come(self):
        self.theirs.free.clear()
        self.assertRaises(BlockingIOError, irqbalance.ask, self.process.pid, "setup")
        begun = time.monotonic()
        self.assertRaises(BlockingIOError, irqbalance.ask, self.process.pid, "setup")
        self.assertLess(time.monotonic() - begun, 0.1)
        self.theirs.free.set()
        for _ in range(1000):
            try:
                self.assertEqual({9}, irqbalance.banned(self.process.pid))
                break
            except BlockingIOError:
                time.sleep(0.01)
        self.assertEqual(["setup", "setup"], self.theirs.commands)
        self.assertEqual(["sent", "sent"], self.theirs.replies)
        self.assertEqual({}, irqbalance._unanswered)

    def test_report_only(self):
        others = coexist.Coexistence(ban=False)
        self.assertEqual([], others.settings(self.wanted([30]), []))
        (detail,) = self.about(others)
        self.assertIn("is not told", detail)


class RivalsTest(beside.BesideIrqbalanceTest):
    def test_an_irqbalance_without_a_socket_is_reported_once(self):
        process = self.program()
        others = coexist.Coexistence()
        self.assertEqual([], others.settings(self.wanted([30]), []))
        (finding,) = others.findings()
        self.assertEqual(("irqbalance", process.pid), (finding["what"], finding["pid"]))
        self.assertIn("RuntimeDirectory=irqbalance", finding["detail"])

    def test_a_pass_is_asked_for_when_it_can_be_told(self):
        process = self.program()
        others, woken = coexist.Coexistence(), []
        others.wake = lambda: woken.append(1)
        others.settings(self.wanted([30]), [])
        self.serve(process.pid)
        self.assertEqual(([], [1]), (others.findings(), woken))
        # A pass that could not be made tells its fault, and looks at this again: no second pass for that.
        self.assertEqual(([], [1]), (others.findings(), woken))
        (one,) = others.settings(self.wanted([30]), [])
        self.assertEqual("9,30", one.value)

    def test_one_without_a_socket_that_starts_later_is_met_by_a_pass(self):
        others, woken = coexist.Coexistence(), []
        others.wake = lambda: woken.append(1)
        self.assertEqual([], others.settings(self.wanted([30]), []))
        process = self.program("irqbalance", beside.SCRIPT)
        with mock.patch.object(coexist, "_LOOK_S", 0.0):
            others.findings()
            others.findings()
        self.assertEqual([1], woken)
        (one,) = others.settings(self.wanted([30]), [])
        self.assertEqual(self.listing.kind, one.kind)
        others.findings()
        self.assertEqual([1], woken)
        self.serve(process.pid)
        others.findings()
        others.findings()
        self.assertEqual([1, 1], woken)

    def test_interrupts_that_were_moved_are_a_reason_to_look_for_it(self):
        wanted = self.wanted([30])
        (here, moved) = (self.entry(wanted[0], "0-7"), self.entry(wanted[0], "0-7"))
        here.written, moved.written = "0", "1"
        others = coexist.Coexistence()
        self.program("irqbalance", beside.SCRIPT)
        self.assertEqual([], others.settings(wanted, [moved]))  # it has just looked
        with mock.patch.object(coexist, "_LOOK_SOON_S", 0.0):
            self.assertEqual([], others.settings(wanted, [here]))
            (one,) = others.settings(wanted, [moved])
        self.assertEqual(self.listing.kind, one.kind)

    def test_a_stranger_at_its_abstract_address_is_no_irqbalance(self):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.bind(irqbalance._FALLBACK)
            stranger.listen()
            self.assertIsNone(irqbalance.running())

    def test_each_rival_is_named_once_and_until_it_ends(self):
        tuned, numad = self.program("tuned"), self.program("numad")
        others = coexist.Coexistence()
        self.assertEqual(
            [("rival", tuned.pid), ("rival", numad.pid)],
            [(one["what"], one["pid"]) for one in others.findings()],
        )
        tuned.kill()
        tuned.wait()
        del self.found["tuned"]
        self.assertEqual([numad.pid], [one["pid"] for one in others.findings()])

    def test_what_was_said_of_an_irqbalance_ends_with_it(self):
        process = self.program()
        self.serve(process.pid)
        others = coexist.Coexistence()
        others.settings(self.wanted(range(100, 400)), [])
        self.assertEqual(1, len(others.findings()))
        process.kill()
        process.wait()
        del self.found["irqbalance"]
        self.assertEqual([], others.findings())


class LookTest(beside.FolderTest):
    def test_a_finding_that_ends_is_gone_at_the_next_look(self):
        bench = self.enterContext(contextlib.closing(convergence.Bench()))
        told = [{"what": "rival", "pid": 1, "detail": "tuned runs"}]
        timing = types.SimpleNamespace(interval=0.05, verify_interval=1e6, passthrough_interval=1e6)
        look = watch.Watch(sysroots.make_host(self))
        notes = book.Book(str(self.folder / "notes"), bench.folder, 1.0)
        reconciler = reconcile.Reconciler(bench.host, notes, arbiter.Arbiter())
        agent = service.Service(reconciler, look, timing, str(self.folder), describe=lambda: list(told))
        self.addCleanup(agent.close)
        agent.make_pass({"start"}, time.monotonic())
        passes = agent.stats.passes.total()
        self.assertEqual(told, state.read(str(self.folder))["findings"])
        told.clear()
        agent.turn()
        self.assertEqual([], state.read(str(self.folder))["findings"])
        self.assertEqual(passes, agent.stats.passes.total())

    def test_what_changes_without_a_pass_is_told_at_the_next_look(self):
        bench = self.enterContext(contextlib.closing(convergence.Bench()))
        timing = types.SimpleNamespace(interval=0.05, verify_interval=1e6, passthrough_interval=1e6)
        look = watch.Watch(sysroots.make_host(self))
        notes = book.Book(str(self.folder / "notes"), bench.folder, 1.0)
        reconciler = reconcile.Reconciler(bench.host, notes, arbiter.Arbiter(1))
        faults = ["libvirt is away"]
        agent = service.Service(reconciler, look, timing, str(self.folder), guests_fault=lambda: faults[-1])
        self.addCleanup(agent.close)
        number = min(bench.host.numbers("eth0"))
        for _ in range(4):
            agent.make_pass({"look"}, time.monotonic())
            bench.host.vectors[number].give("0-7")
        passes = agent.stats.passes.total()

        def told():
            found = state.read(str(self.folder))
            return found["libvirt"], [one["what"] for one in found["findings"]]

        self.assertEqual(("libvirt is away", ["written by others"]), told())
        faults.append("")
        agent.turn()
        self.assertEqual(("", ["written by others"]), told())
        (contest,) = reconciler.arbiter.held_back(time.monotonic()).values()
        contest.others = False
        agent.turn()
        self.assertEqual(("", []), told())
        self.assertEqual(passes, agent.stats.passes.total())


class OnceTest(beside.BesideIrqbalanceTest):
    def test_silence_is_said_and_is_no_success(self):
        bench = self.enterContext(contextlib.closing(convergence.Bench()))
        others = coexist.Coexistence()
        bench.agent._extra = others.settings
        for silent, code in ((False, 0), (True, 1)):
            if silent:
                process = self.program()
                self.serve(process.pid).free.clear()
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(code, main._once(bench.agent, others))
            self.assertEqual(silent, "irqbalance does not answer" in out.getvalue())
