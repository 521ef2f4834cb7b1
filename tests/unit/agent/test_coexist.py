"""What irqbalance is told and how, what is kept while it does not answer, and who is reported."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import types
from unittest import mock

import testtools

from nova_perf_tuning.agent import arbiter, book, coexist, main, reconcile, service, state, watch
from nova_perf_tuning.host import irqbalance, privileged
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import base
from nova_perf_tuning.host.settings import irqbalance as ban
from nova_perf_tuning.host.transaction import journal, rivals
from tests.hosts import sysroots
from tests.unit.agent import test_convergence as convergence

TOP = pathlib.Path(__file__).parents[3]


class FolderTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-coexist-", dir=sysroots.workplace())
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Irqbalance:
    """Speaks irqbalance's protocol: cuts a command at 500 bytes, replaces its list, answers where it is free."""

    def __init__(self, folder, pid, banned):
        self.banned = set(banned)
        self.commands = []
        self.replies = []
        self.free = threading.Event()
        self.free.set()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(f"{folder}/irqbalance{pid}.sock")
        self.sock.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                connection, _address = self.sock.accept()
            except OSError:
                return
            self.free.wait()
            with connection:
                command = connection.recv(500).decode()
                self.commands.append(command)
                if command == "setup":
                    listed = "".join(f"IRQ {one} LOAD 0 DIFF 0 CLASS 0 " for one in sorted(self.banned))
                    try:
                        connection.sendall(f"SLEEP 10 {listed}BANNED 00000000".encode())
                        self.replies.append("sent")
                    except BrokenPipeError:  # a real one has ended now
                        self.replies.append("broken")
                elif match := re.fullmatch(r"settings ban irqs (.*)", command):
                    self.banned = {int(one) for one in match[1].split() if one != "NONE"}

    def close(self):
        if self.sock.fileno() < 0:
            return
        self.free.set()
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join()


class BesideIrqbalanceTest(FolderTest):
    """With a server that speaks irqbalance's protocol, and a process that has its name."""

    def setUp(self):
        super().setUp()
        self.socket_folder = self.folder / "run"
        self.socket_folder.mkdir()
        self.list = self.folder / "lists" / "irqbalance.irqs"
        for where, name, value in (
            (irqbalance, "_FOLDER", str(self.socket_folder)),
            (irqbalance, "_FALLBACK", f"\0{self.folder}".encode()),
            (irqbalance, "_TIMEOUT_S", 0.2),
            (privileged, "IRQBALANCE_LIST", str(self.list)),
            (rivals, "running", self.running),
        ):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.found = {}
        self.ban = ban.IrqbalanceBan("/")
        self.listing = ban.IrqbalanceList("/")

    def running(self):
        return dict(self.found)

    def program(self, name="irqbalance", *words):
        """Start a process of that name, which writes to ``hup`` when it gets the signal."""
        path = self.folder / name
        if not path.exists():
            shutil.copy(shutil.which("dash"), path)
        code = f"trap 'echo hup >>{self.folder}/hup' HUP; echo ready; while :; do read -r line; done"
        process = subprocess.Popen(
            [path, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual("ready\n", process.stdout.readline())
        self.found[name] = process.pid
        return process

    def serve(self, pid, banned=(9,)):
        theirs = Irqbalance(self.socket_folder, pid, banned)
        self.addCleanup(theirs.close)
        return theirs

    def until(self, condition):
        deadline = time.monotonic() + 20.0
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def wanted(self, numbers):
        return [Setting("irq_affinity", f"irq:{one}", "1", "0", "", "nic-irq-local", "x|y") for one in numbers]

    def entry(self, one, original, state="applied"):
        return journal.Entry(
            one.kind, one.target, one.identity, "", original, one.value, one.value, "", one.rule, state, 0.0, 0.0
        )

    def about(self, others):
        return [one["detail"] for one in others.findings() if one["what"] == "irqbalance"]


class BanTest(BesideIrqbalanceTest):
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
        pauses = []
        for _ in range(7):
            self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])
            pauses.append(round(self.others._retry - time.monotonic()))
        self.assertEqual([10, 20, 40, 80, 160, 300, 300], pauses)
        self.theirs.free.set()
        self.until(lambda: self.theirs.replies)
        self.until(self.answers)
        self.theirs.free.clear()
        self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])
        self.assertEqual(10, round(self.others._retry - time.monotonic()))

    def answers(self):
        try:
            return bool(self.others.settings(self.wanted([30]), []))
        except reconcile.KeepExtra:
            return False

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
        woken = []
        self.others.wake = lambda: woken.append(1)
        self.theirs.free.clear()
        self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])
        self.others.findings()
        self.assertEqual([], woken)
        with mock.patch.multiple(coexist, _RETRY_S=0.0, _RETRY_MOST_S=0.0):
            self.assertRaises(reconcile.KeepExtra, self.others.settings, self.wanted([30]), [])
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


class ListTest(BesideIrqbalanceTest):
    """irqbalance with our policy script."""

    SCRIPT = "--policyscript=/x/irqbalance-policy-nova-perf"

    def test_it_is_made_to_read_what_was_written(self):
        theirs = self.serve(self.program("irqbalance", self.SCRIPT).pid)
        (one,) = coexist.Coexistence().settings(self.wanted(range(100, 400)), [])
        self.assertEqual((self.listing.kind, ban.NONE), (one.kind, one.current))
        self.listing.write(one.target, one.value)
        self.assertEqual([str(number) for number in range(100, 400)], self.list.read_text().split("\n")[:300])
        self.assertEqual(["setup", "settings ban irqs 9"], theirs.commands)
        self.assertTrue(self.listing.holds(one.target, one.value, self.listing.read(one.target)))

    def test_it_goes_with_the_restore_and_irqbalance_hears_of_it(self):
        theirs = self.serve(self.program("irqbalance", self.SCRIPT).pid)
        self.listing.write(ban.TARGET, "30")
        theirs.commands.clear()
        self.listing.write(ban.TARGET, ban.NONE)
        self.assertFalse(self.list.exists())
        self.assertEqual(["setup", "settings ban irqs 9"], theirs.commands)

    def test_one_without_a_socket_gets_a_signal(self):
        self.program("irqbalance", self.SCRIPT)
        with mock.patch.object(irqbalance, "find", lambda: self.found["irqbalance"]):
            self.listing.write(ban.TARGET, "30")
        hup = self.folder / "hup"
        self.assertTrue(any(hup.exists() or time.sleep(0.01) for _ in range(1000)))

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
        process = self.program("irqbalance", self.SCRIPT)
        self.serve(process.pid)
        with mock.patch.object(irqbalance, "rescan", side_effect=PermissionError(1, "no")):
            self.assertRaises(PermissionError, self.listing.write, ban.TARGET, "30")
        self.assertEqual(ban.UNREAD, self.listing.read(ban.TARGET))
        self.assertFalse(self.listing.holds(ban.TARGET, "30", ban.UNREAD))
        self.assertTrue(self.listing.is_cut(ban.UNREAD))
        self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))

    def test_one_that_had_no_socket_when_the_list_was_written_is_told_when_it_has(self):
        process = self.program("irqbalance", self.SCRIPT)
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
        process = self.program("irqbalance", self.SCRIPT)
        theirs = self.serve(process.pid)
        self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))
        process.kill()
        process.wait()
        theirs.close()
        self.assertEqual("30", self.listing.read(ban.TARGET))
        self.serve(self.program("irqbalance", self.SCRIPT).pid)
        self.assertEqual(ban.UNREAD, self.listing.read(ban.TARGET))
        self.listing.write(ban.TARGET, "30")
        self.assertEqual("30", self.listing.read(ban.TARGET))

    def test_one_that_is_busy_is_told_again(self):
        theirs = self.serve(self.program("irqbalance", self.SCRIPT).pid)
        theirs.free.clear()
        self.listing.write(ban.TARGET, "30")
        self.assertEqual(ban.UNREAD, self.listing.read(ban.TARGET))
        theirs.free.set()
        self.until(lambda: theirs.replies)
        self.until(lambda: self.listing.write(ban.TARGET, "30") or self.listing.read(ban.TARGET) == "30")

    def test_a_ban_that_was_sent_is_heard(self):
        theirs = self.serve(self.program("irqbalance", self.SCRIPT).pid)
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
        self.serve(self.program("irqbalance", self.SCRIPT).pid, range(1000, 1200))
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


class RivalsTest(BesideIrqbalanceTest):
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
        process = self.program("irqbalance", ListTest.SCRIPT)
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
        self.program("irqbalance", ListTest.SCRIPT)
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


class LookTest(FolderTest):
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


class OnceTest(BesideIrqbalanceTest):
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


class PolicyScriptTest(FolderTest):
    def test_it_bans_exactly_what_is_listed(self):
        script = (TOP / "etc/irqbalance/irqbalance-policy-nova-perf").read_text()
        (self.folder / "list").write_text("30\n310\n")
        copy = self.folder / "policy"
        copy.write_text(script.replace(privileged.IRQBALANCE_LIST, str(self.folder / "list")))
        for number, expected in (("30", "ban=true\n"), ("3", ""), ("310", "ban=true\n"), ("31", "")):
            done = subprocess.run(["sh", copy, "/sys/x", number], capture_output=True, text=True, check=True)
            self.assertEqual((expected, ""), (done.stdout, done.stderr), number)
