"""A program that speaks irqbalance's protocol, and what tests beside it have in common."""

from __future__ import annotations

import contextlib
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

from nova_perf_tuning.agent import coexist
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import irqbalance as ban
from nova_perf_tuning.host.transaction import journal, rivals
from tests.hosts import sysroots
from tests.unit.agent import test_convergence as convergence


class Clock:
    """Time that passes when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


SCRIPT = "--policyscript=/x/irqbalance-policy-nova-perf"


class FolderTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-agent-test-", dir=sysroots.workplace())
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Free(threading.Event):
    """While it is set an answer is waited for as long as a loaded machine takes, else no longer than needed."""

    def set(self):
        irqbalance._TIMEOUT_S = 600.0
        super().set()

    def clear(self):
        irqbalance._TIMEOUT_S = 0.1
        super().clear()


class Irqbalance:
    """Speaks irqbalance's protocol: cuts a command at 500 bytes, replaces its list, answers where it is free."""

    def __init__(self, folder, pid, banned):
        self.banned = set(banned)
        self.interval = 10
        self.commands = []
        self.replies = []
        self.free = Free()
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
                        connection.sendall(f"SLEEP {self.interval} {listed}BANNED 00000000".encode())
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
            (irqbalance, "LIST", str(self.list)),
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
            path.symlink_to(shutil.which("dash"))  # a copy may be "text file busy"
        code = f"trap 'echo hup >>{self.folder}/hup' HUP; echo ready; while :; do read -r line; done"
        process = subprocess.Popen(
            # A shell cannot trap what it was started with as ignored, as below nohup.
            ["env", "--default-signal=HUP", path, "-c", code, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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

    def stop_clock(self, *modules):
        """Return the clock of these modules, which stands still."""
        clock = Clock()
        for one in modules:
            self.enterContext(mock.patch.object(one, "time", clock))
        return clock

    def silent_after_bans(self, theirs, times=1):
        """Make it as before 1.9.4, silent after it was told, this often: until it is set free."""
        answer, left = irqbalance.ask, [None] * times

        def ask(pid, command):
            reply = answer(pid, command)
            if command != "setup" and left:
                left.pop()
                theirs.free.clear()
            return reply

        self.enterContext(mock.patch.object(irqbalance, "ask", ask))

    def set_free(self, theirs, pid):
        theirs.free.set()
        self.until(lambda: not irqbalance.is_silent(pid))

    def until(self, condition):
        deadline = time.monotonic() + 600.0
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
    """With an irqbalance that runs and has a socket."""

    def setUp(self):
        super().setUp()
        self.process = self.program()
        self.theirs = self.serve(self.process.pid)
        self.others = coexist.Coexistence()

    def bench(self):
        """Return a simulated host whose agent speaks to this irqbalance."""
        bench = self.enterContext(contextlib.closing(convergence.Bench()))
        kinds = bench.host.kinds
        bench.host.kinds = lambda: {**kinds(), self.ban.kind: self.ban}
        bench.agent._extra = self.others.settings
        return bench
