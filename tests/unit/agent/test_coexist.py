"""What irqbalance is told, what is kept while it does not answer, and who is reported."""

from __future__ import annotations

import contextlib
import io
import socket
import time
import types
from unittest import mock

from nova_perf_tuning.agent import arbiter, book, coexist, reconcile, run, service, state, watch
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import base
from nova_perf_tuning.host.settings import irqbalance as ban
from tests.hosts import sysroots
from tests.unit.agent import beside
from tests.unit.agent import test_convergence as convergence


class BanTest(beside.BanTest):
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
            self.set_free(self.theirs, self.process.pid)
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
        with mock.patch.object(irqbalance, "_TIMEOUT_S", 300.0):
            begun = time.monotonic()
            with irqbalance.patience(0.05):
                self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])
            self.assertLess(time.monotonic() - begun, 60.0)
            self.assertEqual(300.0, irqbalance._TIMEOUT_S)
        self.assertIn("no answer within 0.05 s", self.about(self.others)[0])

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
        with mock.patch.object(irqbalance, "_TIMEOUT_S", 300.0):
            self.assertRaises(BlockingIOError, irqbalance.ask, self.process.pid, "setup")
        self.assertLess(time.monotonic() - begun, 60.0)
        self.set_free(self.theirs, self.process.pid)
        self.assertEqual({9}, irqbalance.banned(self.process.pid))
        self.assertEqual(["setup", "setup"], self.theirs.commands)
        self.until(lambda: len(self.theirs.replies) > 1)
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
                self.assertEqual(code, run._once(bench.agent, others))
            self.assertEqual(silent, "irqbalance does not answer" in out.getvalue())
