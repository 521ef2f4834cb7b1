"""A program that speaks irqbalance's protocol, and what tests beside it have in common."""

from __future__ import annotations

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

from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import irqbalance as ban
from nova_perf_tuning.host.transaction import journal, rivals
from tests.hosts import sysroots

SCRIPT = "--policyscript=/x/irqbalance-policy-nova-perf"


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
            (irqbalance, "LIST", str(self.list)),
            (rivals, "running", self.running),
        ):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.served = []
        patch = mock.patch.object(irqbalance, "_new_socket", self.new_socket)
        self._socket, _ = irqbalance._new_socket, patch.start()
        self.addCleanup(patch.stop)
        self.found = {}
        self.ban = ban.IrqbalanceBan("/")
        self.listing = ban.IrqbalanceList("/")

    def running(self):
        return dict(self.found)

    def new_socket(self):
        """Return one that is given up soon only where no answer can come: one that can may take its time."""
        sock = self._socket()
        if all(one.free.is_set() for one in self.served):
            sock.settimeout(600.0)
        return sock

    def program(self, name="irqbalance", *words):
        """Start a process of that name, which writes to ``hup`` when it gets the signal."""
        path = self.folder / name
        if not path.exists():
            shutil.copy(shutil.which("dash"), path)
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
        self.served.append(theirs)
        return theirs

    def is_answered(self, pid):
        """Whether no answer is due any more."""
        try:
            irqbalance._check_answered(pid)
        except BlockingIOError:
            return False
        return True

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
