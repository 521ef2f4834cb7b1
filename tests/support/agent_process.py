# SPDX-License-Identifier: Apache-2.0
"""Starts the agent's process on a generated host, asks it, and ends it."""

import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile

from tests.support import patience, program, sysroots, testcase

QUICK = "interval = 0.5\nverify_interval = 1\n"


class AgentCase(testcase.TestCase):
    """A generated host, and agents that are started on it."""

    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.before = sysroots.content(self.root)
        directory = tempfile.TemporaryDirectory(
            prefix="nova-perf-agent-", dir=sysroots.workplace()
        )
        self.directory = pathlib.Path(self.enterContext(directory))

    def start(self, options=QUICK):
        """Start the agent and wait until it says that all is placed."""
        config = self.directory / "agent.conf"
        config.write_text(f"[agent]\n{options}")
        notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notes.close)
        path = self.directory / f"notify-{id(notes)}"
        notes.bind(str(path))
        notes.settimeout(patience.LIMIT_S)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "nova_perf_tuning.agent.main",
                "--sysroot",
                self.root,
                "--config-file",
                config,
            ],
            env={**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "3000000"},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._kill, process)
        self.notes = notes
        try:
            self.until_told("READY=1")
        except TimeoutError:
            process.kill()
            raise AssertionError(f"the agent did not start: {process.stderr.read()}") from None
        return process

    @staticmethod
    def _kill(process):
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def drain(self):
        """Read its messages: the agent waits where nobody does."""
        while select.select([self.notes], [], [], 0)[0]:
            self.notes.recv(4096)

    def until_told(self, word):
        while word not in self.notes.recv(4096).decode().split("\n"):
            pass

    def end(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        _out, err = patience.finish(process)
        return process.returncode, err

    def file(self, path):
        return pathlib.Path(self.root, path)

    def irq(self, number=24):
        return self.file(f"proc/irq/{number}/smp_affinity_list").read_text().strip()

    def until(self, condition, what):
        patience.until(lambda: self.drain() or condition(), what)

    def status(self):
        self.drain()
        done = patience.run([*program.COMMAND, "status", "--sysroot", self.root, "-f", "json"])
        return json.loads(done.stdout)["agent"]
