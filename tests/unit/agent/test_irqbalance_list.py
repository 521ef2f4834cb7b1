"""The list for the policy script: who has heard of it, and what the script makes of it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
from unittest import mock

from nova_perf_tuning.agent import coexist
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import irqbalance as ban
from tests.unit.agent import beside
from tests.unit.agent import test_convergence as convergence

TOP = pathlib.Path(__file__).parents[3]


class ListTest(beside.BesideIrqbalanceTest):
    """irqbalance with our policy script."""

    def test_it_is_made_to_read_what_was_written(self):
        theirs = self.serve(self.program("irqbalance", beside.SCRIPT).pid)
        (one,) = coexist.Coexistence().settings(self.wanted(range(100, 400)), [])
        self.assertEqual((self.listing.kind, ban.NONE), (one.kind, one.current))
        self.listing.write(one.target, one.value)
        self.assertEqual([str(number) for number in range(100, 400)], self.list.read_text().split("\n")[:300])
        self.assertEqual(["setup", "settings ban irqs 9"], theirs.commands)
        self.assertTrue(self.listing.holds(one.target, one.value, self.listing.read(one.target)))

    def test_it_goes_with_the_restore_and_irqbalance_hears_of_it(self):
        theirs = self.serve(self.program("irqbalance", beside.SCRIPT).pid)
        self.listing.write(ban.TARGET, "30")
        theirs.commands.clear()
        self.listing.write(ban.TARGET, ban.NONE)
        self.assertFalse(self.list.exists())
        self.assertEqual(["setup", "settings ban irqs 9"], theirs.commands)

    def test_one_without_a_socket_gets_a_signal(self):
        process = self.program("irqbalance", beside.SCRIPT)
        with mock.patch.object(irqbalance, "find", lambda: self.found["irqbalance"]):
            self.listing.write(ban.TARGET, "30")

        def heard():
            # A signal that comes just before the shell reads waits for the end of the line.
            print(file=process.stdin, flush=True)
            return (self.folder / "hup").exists()

        self.until(heard)

    def test_one_without_our_script_is_left_in_peace(self):
        theirs = self.serve(self.program().pid)
        self.listing.write(ban.TARGET, "30")
        self.assertEqual([], theirs.commands)

    def test_our_script_is_known_by_its_name_however_it_is_given(self):
        for words, ours in (
            (("-l", "/x/irqbalance-policy-nova-perf"), True),
            (("--policyscript", "/x/irqbalance-policy-nova-perf"), True),
            (("--policyscript=/nova-perf/theirs",), False),
            (("--policyscript=/x/theirs", "--pid=/run/nova-perf"), False),
        ):
            self.assertEqual(ours, irqbalance.uses_our_script(self.program("irqbalance", *words).pid), words)

    def test_a_list_that_irqbalance_was_not_told_of_is_written_again(self):
        process = self.program("irqbalance", beside.SCRIPT)
        self.serve(process.pid)
        with mock.patch.object(irqbalance, "rescan", side_effect=PermissionError(1, "no")):
            self.assertRaises(PermissionError, self.listing.write, ban.TARGET, "30")
        self.assertEqual(ban.UNREAD, self.listing.read(ban.TARGET))
        self.assertFalse(self.listing.holds(ban.TARGET, "30", ban.UNREAD))
        self.assertTrue(self.listing.is_cut(ban.UNREAD))
        self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))

    def test_one_that_had_no_socket_when_the_list_was_written_is_told_when_it_has(self):
        process = self.program("irqbalance", beside.SCRIPT)
        with mock.patch.object(irqbalance, "find", lambda: process.pid):
            self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))
        theirs = self.serve(process.pid)
        (one,) = coexist.Coexistence().settings(self.wanted([30]), [])
        self.assertFalse(self.listing.holds(one.target, one.value, one.current))
        self.listing.write(one.target, one.value)
        self.assertEqual(["setup", "settings ban irqs 9"], theirs.commands)
        self.assertEqual("30", self.listing.read(ban.TARGET))

    def test_one_that_was_started_again_is_told_once(self):
        process = self.program("irqbalance", beside.SCRIPT)
        theirs = self.serve(process.pid)
        self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))
        process.kill()
        process.wait()
        theirs.close()
        self.assertEqual("30", self.listing.read(ban.TARGET))
        self.serve(self.program("irqbalance", beside.SCRIPT).pid)
        self.assertEqual(ban.UNREAD, self.listing.read(ban.TARGET))
        self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))

    def test_one_that_is_busy_is_told_again(self):
        theirs = self.serve(self.program("irqbalance", beside.SCRIPT).pid)
        theirs.free.clear()
        self.listing.write(ban.TARGET, "30")
        self.assertEqual(ban.UNREAD, self.listing.read(ban.TARGET))
        theirs.free.set()
        self.until(lambda: theirs.replies)
        self.until(lambda: self.listing.write(ban.TARGET, "30") or self.listing.read(ban.TARGET) == "30")

    def busy(self):
        """Return a simulated host beside an irqbalance that works at a rescan, and the signals that it gets."""
        self.process = self.program("irqbalance", beside.SCRIPT)
        self.theirs = self.serve(self.process.pid)
        self.others = coexist.Coexistence()
        bench = self.enterContext(contextlib.closing(convergence.Bench()))
        kinds = bench.host.kinds
        bench.host.kinds = lambda: {**kinds(), self.listing.kind: self.listing}
        bench.agent._extra = self.others.settings
        send, signals = signal.pidfd_send_signal, []

        def count(descriptor, number):
            signals.append(number)
            send(descriptor, number)

        self.enterContext(mock.patch.object(signal, "pidfd_send_signal", count))
        self.silent_after_bans(self.theirs)
        bench.agent.reconcile()
        self.assertNotIn(ban.UNREAD, self.listing.read(ban.TARGET))
        return bench, signals

    def in_file(self):
        return {int(one) for one in self.list.read_text().split("\n") if one.isdigit()}

    def test_a_change_while_it_works_at_a_rescan_waits_for_the_end_of_that(self):
        bench, signals = self.busy()
        bench.host.set_channels("eth0", 6)
        done = bench.agent.reconcile(excused=True)
        self.assertEqual({*bench.host.numbers("eth0"), *bench.host.numbers("eth1")}, self.in_file())
        self.assertEqual(([], []), (done.faults, bench.agent.not_in_force()))
        for _ in range(20):
            done = bench.agent.reconcile()
            self.assertEqual((True, [], []), (done.kept_extra, done.written, done.drifted))
            self.assertEqual(([], []), (bench.agent.not_in_force(), self.about(self.others)))
            self.assertEqual((False, []), (bench.agent.overdue(), bench.agent.drifting()))
            bench.now += 1.0
        self.assertEqual(ban.UNREAD, self.listing.read(ban.TARGET))
        self.set_free(self.theirs, self.process.pid)
        done = bench.agent.reconcile()
        self.assertEqual(([self.listing.kind], []), ([one.setting.kind for one in done.written], done.drifted))
        self.assertEqual(ban.as_text(frozenset(self.in_file())), self.listing.read(ban.TARGET))
        self.assertEqual(([], {}), (signals, bench.agent.contested()))

    def test_one_that_never_answers_again_is_told_of(self):
        clock = self.stop_clock(coexist, irqbalance)
        bench, signals = self.busy()
        bench.host.set_channels("eth0", 6)
        bench.agent.reconcile(excused=True)
        clock.now += 60.0
        self.assertTrue(bench.agent.reconcile().kept_extra)
        self.assertIn("does not answer", self.about(self.others)[0])
        self.assertEqual([], signals)

    def test_the_last_word_at_an_end_is_a_signal(self):
        bench, signals = self.busy()
        bench.host.set_channels("eth0", 6)
        bench.agent.reconcile(excused=True)
        with irqbalance.waiting(0.2):
            bench.agent.restore()
        self.assertEqual(([signal.SIGHUP], False), (signals, self.list.exists()))

    def test_a_ban_that_was_sent_is_heard(self):
        theirs = self.serve(self.program("irqbalance", beside.SCRIPT).pid)
        answer = irqbalance.ask

        def ask(pid, command):
            if command != "setup":
                theirs.free.clear()
            return answer(pid, command)

        with mock.patch.object(irqbalance, "ask", ask):
            self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))
        self.assertFalse((self.folder / "hup").exists())

    def test_one_whose_own_list_is_too_long_for_a_command_gets_a_signal_and_is_left_in_peace(self):
        self.serve(self.program("irqbalance", beside.SCRIPT).pid, range(1000, 1200))
        self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))

    def test_as_an_original_it_is_no_list(self):
        self.list.parent.mkdir()
        self.list.write_text("30\n31\n")
        original = self.listing.read(ban.TARGET)
        self.listing.write(ban.TARGET, "40")
        self.listing.write(ban.TARGET, original)
        self.assertEqual(ban.NONE, self.listing.read(ban.TARGET))

    def test_it_stays_for_an_irqbalance_that_starts_next(self):
        others = coexist.Coexistence()
        self.assertEqual([], others.settings(self.wanted([30]), []))
        entry = self.entry(Setting(self.listing.kind, ban.TARGET, "30", "none", "", ""), "none")
        (one,) = others.settings(self.wanted([30, 31]), [entry])
        self.assertEqual((self.listing.kind, "30,31"), (one.kind, one.value))

    def test_a_folder_that_others_may_write_is_refused(self):
        self.list.parent.mkdir()
        os.chmod(self.list.parent, 0o777)
        self.assertRaises(PermissionError, self.listing.write, ban.TARGET, "30")


class PolicyScriptTest(beside.FolderTest):
    def test_it_bans_exactly_what_is_listed(self):
        script = (TOP / "etc/irqbalance/irqbalance-policy-nova-perf").read_text()
        (self.folder / "list").write_text("30\n310\n")
        copy = self.folder / "policy"
        copy.write_text(script.replace(irqbalance.LIST, str(self.folder / "list")))
        for number, expected in (("30", "ban=true\n"), ("3", ""), ("310", "ban=true\n"), ("31", "")):
            done = subprocess.run(["sh", copy, "/sys/x", number], capture_output=True, text=True, check=True)
            self.assertEqual((expected, ""), (done.stdout, done.stderr), number)
