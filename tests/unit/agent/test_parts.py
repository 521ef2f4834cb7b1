"""The agent's parts: systemd's protocol, its state, what it looks at, what irqbalance is told, what it counts."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from unittest import mock

import testtools

from nova_perf_tuning.agent import coexist, notify, sources, state, stats, watch
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import base
from nova_perf_tuning.host.settings import irqbalance as ban
from nova_perf_tuning.host.transaction import journal
from tests.hosts import sysroots

TOP = pathlib.Path(__file__).parents[3]


class FolderTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-parts-", dir=sysroots.workplace())
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class NotifierTest(FolderTest):
    def listen(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(sock.close)
        sock.bind(str(self.folder / "notify"))
        return sock

    def test_fields_are_lines(self):
        sock = self.listen()
        environment = {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "6000000"}
        one = notify.Notifier(environment)
        one.send(READY=1, STATUS="two\nlines\tof it")
        self.assertEqual(b"READY=1\nSTATUS=two lines of it", sock.recv(100))
        self.assertEqual(6.0, one.watchdog)
        one.alive()
        self.assertEqual(b"WATCHDOG=1", sock.recv(100))
        self.assertEqual({}, environment)

    def test_a_watchdog_of_another_process_is_not_ours(self):
        self.assertIsNone(notify.Notifier({"WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "1"}).watchdog)
        self.assertIsNone(notify.Notifier({"WATCHDOG_USEC": "soon"}).watchdog)

    def test_a_socket_that_nobody_reads_does_not_stop_the_agent(self) -> None:
        sock = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        sock.bind(str(self.folder / "full"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while other.sendto(b"x", str(self.folder / "full")):
                    pass
        notify.Notifier({"NOTIFY_SOCKET": str(self.folder / "full")}, 0.05).send(READY=1)
        self.assertEqual(b"x", sock.recv(10))

    def test_nobody_listens(self):
        notify.Notifier({"NOTIFY_SOCKET": str(self.folder / "nothing")}).send(READY=1)
        notify.Notifier({}).send(READY=1)


class StateTest(FolderTest):
    def test_a_running_agent(self):
        state.write(
            str(self.folder), {"pid": os.getpid(), "pid_start": state.process_start(os.getpid()), "updated": 5}
        )
        found = state.read(str(self.folder))
        self.assertTrue(found["running"])
        self.assertGreater(found["age_s"], 1e9)

    def test_one_whose_number_another_process_has_now(self):
        state.write(str(self.folder), {"pid": os.getpid(), "pid_start": "1", "updated": "?"})
        found = state.read(str(self.folder))
        self.assertFalse(found["running"])
        self.assertIsNone(found["age_s"])

    def test_what_cannot_be_read_is_none(self):
        for text in ("", "[]", "{", '{"schema": 2}', "\xff"):
            (self.folder / state.FILE).write_bytes(text.encode("latin1"))
            self.assertIsNone(state.read(str(self.folder)), text)
        os.unlink(self.folder / state.FILE)
        self.assertIsNone(state.read(str(self.folder)))
        os.mkfifo(self.folder / state.FILE)
        self.assertIsNone(state.read(str(self.folder)))

    def test_a_folder_that_others_may_write_is_refused(self):
        os.chmod(self.folder, 0o777)
        self.assertRaises(state.RunDirError, state.prepare, str(self.folder))


class WatchTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.watch = watch.Watch(self.root)
        self.assertTrue(self.watch.changed())
        self.assertFalse(self.watch.changed())

    def test_a_vector_that_goes(self):
        shutil.rmtree(pathlib.Path(self.root, "proc/irq/24"))
        self.assertTrue(self.watch.interrupts_changed())
        self.assertFalse(self.watch.interrupts_changed())
        self.assertFalse(self.watch.changed())

    def test_a_guest_that_comes(self):
        pathlib.Path(self.root, "run/libvirt/qemu/new.xml").write_text("<domain/>")
        self.assertFalse(self.watch.interrupts_changed())
        self.assertTrue(self.watch.changed())

    def test_a_cpu_that_goes(self):
        pathlib.Path(self.root, "sys/devices/system/cpu/online").write_text("0-6\n")
        self.assertTrue(self.watch.changed())

    def test_an_affinity_is_not_looked_at(self):
        pathlib.Path(self.root, "proc/irq/24/smp_affinity_list").write_text("0\n")
        self.assertFalse(self.watch.changed())


class FileWatchTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.files = sources.FileWatch(self.root)
        self.addCleanup(self.files.close)

    def test_writes_to_interrupts_that_are_watched(self):
        self.files.watch_interrupts({"24", "25"})
        pathlib.Path(self.root, "proc/irq/24/smp_affinity_list").write_text("0\n")
        pathlib.Path(self.root, "proc/irq/26/smp_affinity_list").write_text("0\n")
        self.assertEqual({sources.WRITTEN}, self.files.drain())
        self.assertEqual({"24"}, self.files.written)
        self.files.watch_interrupts({"25"})
        self.files.written.clear()
        pathlib.Path(self.root, "proc/irq/24/smp_affinity_list").write_text("1\n")
        self.files.drain()
        self.assertEqual(set(), self.files.written)

    def test_an_interrupt_that_goes_and_comes(self):
        self.files.watch_interrupts({"24"})
        folder = pathlib.Path(self.root, "proc/irq/24")
        shutil.rmtree(folder)
        self.files.drain()
        folder.mkdir()
        (folder / "smp_affinity_list").write_text("0\n")
        self.files.watch_interrupts({"24"})
        (folder / "smp_affinity_list").write_text("1\n")
        self.assertIn(sources.WRITTEN, self.files.drain())

    def test_an_interrupt_made_anew_of_which_nothing_is_told(self):
        """The old one lives on for whoever has it open, as in procfs for its watch."""
        self.files.watch_interrupts({"24", "25"})
        folder = pathlib.Path(self.root, "proc/irq/24")
        old = folder.rename(pathlib.Path(self.root, "old"))
        folder.mkdir()
        self.assertEqual(set(), self.files.drain())
        self.files.watch_interrupts({"24", "25"})
        (old / "smp_affinity_list").write_text("0\n")
        self.assertEqual((set(), set()), (self.files.drain(), self.files.written))
        (folder / "smp_affinity_list").write_text("1\n")
        self.assertEqual(({sources.WRITTEN}, {"24"}), (self.files.drain(), self.files.written))
        shutil.rmtree(folder)
        self.files.watch_interrupts({"24", "25"})
        self.assertEqual((False, True), (self.files.watches("24"), self.files.watches("25")))

    def test_an_interrupt_that_stays_keeps_its_watch(self):
        self.files.watch_interrupts({"24"})
        pathlib.Path(self.root, "proc/irq/24/smp_affinity_list").write_text("0\n")
        self.files.watch_interrupts({"24"})
        self.files.drain()
        self.assertEqual({"24"}, self.files.written)

    def test_guests(self):
        folder = pathlib.Path(self.root, "run/libvirt/qemu")
        (folder / "new.xml.new").write_text("<domain/>")
        self.assertEqual(set(), self.files.drain())
        (folder / "new.xml.new").rename(folder / "new.xml")
        self.assertEqual({sources.GUEST}, self.files.drain())

    def test_irqbalance_that_starts(self):
        folder = pathlib.Path(self.root, "run/irqbalance")
        folder.mkdir()
        self.assertEqual({sources.RIVAL}, self.files.drain())
        (folder / "irqbalance1.sock").write_text("")
        self.assertEqual({sources.RIVAL}, self.files.drain())


class StatsTest(testtools.TestCase):
    def test_each_latency_is_in_one_bucket(self):
        counted = stats.Stats()
        for seconds in (0.001, 0.005, 0.0051, 99.0):
            counted.placed_after(seconds)
        self.assertEqual((4, [2, 1]), (counted.latency_count, counted.latency[:2]))
        self.assertEqual(3, sum(counted.latency))


class Irqbalance:
    """Speaks irqbalance's protocol: cuts a command at 500 bytes, and replaces its list."""

    def __init__(self, folder, pid, banned):
        self.banned = set(banned)
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
            with connection:
                command = connection.recv(500).decode()
                if command == "setup":
                    listed = "".join(f"IRQ {one} LOAD 0 DIFF 0 CLASS 0 " for one in sorted(self.banned))
                    connection.sendall(f"SLEEP 10 {listed}BANNED 00000000".encode())
                elif match := re.fullmatch(r"settings ban irqs (.*)", command):
                    self.banned = {int(one) for one in match[1].split() if one != "NONE"}

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join()


class CoexistenceTest(FolderTest):
    """With a server that speaks irqbalance's protocol, and a process that has its name."""

    def setUp(self):
        super().setUp()
        program = self.folder / "irqbalance"
        shutil.copy(shutil.which("sleep"), program)
        process = subprocess.Popen([program, "600"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        # The kernel closes the pipe that Popen waits for a little before it gives the process its new name.
        comm = pathlib.Path(f"/proc/{process.pid}/comm")
        self.assertTrue(
            any(comm.read_text(encoding="ascii") == "irqbalance\n" or time.sleep(0.01) for _ in range(1000))
        )
        self.theirs = Irqbalance(self.folder, process.pid, {9})
        self.addCleanup(self.theirs.close)
        patch = mock.patch.object(irqbalance, "_FOLDER", str(self.folder))
        patch.start()
        self.addCleanup(patch.stop)
        self.kind = ban.IrqbalanceBan("/")
        self.others = coexist.Coexistence(str(self.folder))

    def wanted(self, numbers):
        return [Setting("irq_affinity", f"irq:{one}", "1", "0", "", "nic-irq-local", "x|y") for one in numbers]

    def entry(self, one, original):
        return journal.Entry(
            one.kind, one.target, one.identity, "", original, one.value, one.value, "", "", "applied", 0.0, 0.0
        )

    def test_ours_beside_those_of_others(self):
        (one,) = self.others.settings(self.wanted([30, 31]), [])
        self.assertEqual(("9", "9,30,31"), (one.current, one.value))
        self.kind.write(one.target, one.value)
        self.assertEqual({9, 30, 31}, self.theirs.banned)
        self.assertTrue(self.kind.is_same(one))

    def test_what_the_admin_bans_later_stays_and_what_we_give_up_goes(self):
        self.theirs.banned = {9, 30, 31, 77}
        before = Setting(self.kind.kind, ban.TARGET, "9,30,31", "9", "", "", self.kind.identity(ban.TARGET))
        (one,) = self.others.settings(self.wanted([30]), [self.entry(before, "9")])
        self.assertEqual("9,30,77", one.value)

    def test_nothing_banned_is_said_so(self):
        self.theirs.banned = set()
        self.assertEqual(ban.NONE, self.kind.read(ban.TARGET))
        self.kind.write(ban.TARGET, "5")
        self.kind.write(ban.TARGET, ban.NONE)
        self.assertEqual(set(), self.theirs.banned)

    def test_more_than_fit_into_a_command_are_told_and_listed_for_the_script(self):
        self.assertEqual([], self.others.settings(self.wanted(range(100, 400)), []))
        (finding,) = [one for one in self.others.findings() if one["what"] == "irqbalance"]
        self.assertIn("--policyscript", finding["detail"])
        self.assertRaises(base.TargetError, self.kind.write, ban.TARGET, ban.as_text(frozenset(range(100, 400))))
        self.assertEqual({9}, self.theirs.banned)
        listed = (self.folder / coexist.LIST_FILE).read_text().split()
        self.assertEqual([str(one) for one in range(100, 400)], listed)

    def test_report_only(self):
        others = coexist.Coexistence(str(self.folder), ban=False)
        self.assertEqual([], others.settings(self.wanted([30]), []))
        self.assertIn("is not told", others.findings()[0]["detail"])


class PolicyScriptTest(FolderTest):
    def test_it_bans_exactly_what_is_listed(self):
        script = (TOP / "etc/irqbalance/irqbalance-policy-nova-perf").read_text()
        (self.folder / "list").write_text("30\n310\n")
        copy = self.folder / "policy"
        copy.write_text(script.replace("/run/nova-perf-tuning/irqbalance.irqs", str(self.folder / "list")))
        for number, expected in (("30", "ban=true\n"), ("3", ""), ("310", "ban=true\n"), ("31", "")):
            done = subprocess.run(["sh", copy, "/sys/x", number], capture_output=True, text=True, check=True)
            self.assertEqual((expected, ""), (done.stdout, done.stderr), number)


class UnitTest(FolderTest):
    def test_systemd_has_nothing_to_say_of_it(self):
        """It passes over what it does not know, with exit code 0: only what it prints tells."""
        unit = TOP / "etc/systemd/nova-perf-agent.service"
        command = ["systemd-analyze", "verify", "--man=no"]
        done = subprocess.run([*command, unit], capture_output=True, text=True)
        self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))
        spoilt = self.folder / unit.name
        spoilt.write_text(unit.read_text().replace("ProtectClock=", "ProtectClok="))
        done = subprocess.run([*command, spoilt], capture_output=True, text=True)
        self.assertIn("ProtectClok", done.stderr)


class DashboardTest(testtools.TestCase):
    def test_it_asks_for_metrics_that_there_are(self):
        board = (TOP / "etc/grafana/nova-perf-agent.json").read_text()
        source = (TOP / "nova_perf_tuning/agent/metrics.py").read_text()
        asked = set(re.findall(r"nova_perf_([a-z_]+)", " ".join(self._queries(json.loads(board)))))
        self.assertGreater(len(asked), 7)
        for name in asked:
            stem = re.sub(r"_(total|bucket)$", "", name)
            self.assertTrue(f'"{stem}"' in source or f"_{stem}" in source, name)

    def _queries(self, board):
        return [target["expr"] for panel in board["panels"] for target in panel["targets"]]
