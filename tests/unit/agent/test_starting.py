"""The agent's start: signals before its loop, what it says to systemd when it fails, the names in its messages."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from nova_perf_tuning.agent import host, main, run, starting
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.plan import model as plan_model
from nova_perf_tuning.host.transaction import journal
from tests.functional import patience
from tests.hosts import sysroots
from tests.unit.agent import beside


class Waited:
    """Stands for signals of which none comes; remembers how long was waited for them."""

    asked = False

    def __init__(self):
        self.seconds = []

    def wait(self, seconds):
        self.seconds.append(seconds)
        return False


class PauseTest(beside.FolderTest):
    def notes(self, **more):
        self.sock = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        path = self.folder / f"notify{time.monotonic_ns()}"
        self.sock.bind(str(path))
        return starting.Notes({"NOTIFY_SOCKET": str(path), **more})

    def test_each_failed_start_in_a_row_waits_longer(self):
        signals = Waited()
        for _ in range(9):
            self.notes(RUNTIME_DIRECTORY=f"{self.folder}:/x").put_off_next_start("port taken", signals)
        self.assertEqual([1, 2, 4, 8, 16, 32, 60, 60, 60], signals.seconds)
        self.assertEqual(
            b"STATUS=cannot start: port taken; next try in 60 s\nEXTEND_TIMEOUT_USEC=70000000", self.sock.recv(999)
        )

    def test_a_start_that_succeeds_and_time_make_them_be_forgotten(self):
        signals = Waited()
        for _ in range(3):
            self.notes(RUNTIME_DIRECTORY=str(self.folder)).put_off_next_start("x", signals)
        (count,) = self.folder.glob("failed-starts")
        os.utime(count, (1, 1))
        self.notes(RUNTIME_DIRECTORY=str(self.folder)).put_off_next_start("x", signals)
        ready = self.notes(RUNTIME_DIRECTORY=str(self.folder))
        ready.send(READY=1)
        ready.put_off_next_start("it is no start any more", signals)
        self.notes(RUNTIME_DIRECTORY=str(self.folder)).put_off_next_start("x", signals)
        self.assertEqual([1, 2, 4, 1, 1], signals.seconds)

    def test_where_nothing_can_be_remembered(self):
        signals = Waited()
        for more in ({}, {"RUNTIME_DIRECTORY": str(self.folder / "none")}):
            self.notes(**more).put_off_next_start("x", signals)
        (self.folder / "failed-starts").write_text("x")
        self.notes(RUNTIME_DIRECTORY=str(self.folder)).put_off_next_start("x", signals)
        self.assertEqual([10, 10, 1], signals.seconds)

    def test_a_person_and_a_stop_do_not_wait(self):
        signals = Waited()
        starting.Notes({"RUNTIME_DIRECTORY": str(self.folder)}).put_off_next_start("x", signals)
        signals.asked = True
        self.notes(RUNTIME_DIRECTORY=str(self.folder)).put_off_next_start("x", signals)
        self.assertEqual([], signals.seconds)


class ProcessTest(beside.FolderTest):
    """With the agent's process on a generated host."""

    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.config = self.folder / "agent.conf"
        self.config.write_text("[nova_perf_tuning]\nlock_timeout = 600\n")

    def start(self, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "nova_perf_tuning.agent.main"]
            + ["--sysroot", self.root, "--config-file", str(self.config)],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def listen(self):
        sock = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        sock.bind(str(self.folder / "notify"))
        sock.settimeout(patience.LIMIT_S)
        return sock

    def at_the_lock(self):
        """Return an agent that waits for another one's place, and the descriptor that keeps it."""
        folder = pathlib.Path(journal.default_state_dir(self.root))
        folder.mkdir(parents=True)
        path = folder / journal.AGENT_LOCK
        held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        process = self.start(NOTIFY_SOCKET=str(self.folder / "notify"))

        def waits():
            self.assertIsNone(process.poll())
            files = pathlib.Path(f"/proc/{process.pid}/fd")
            return any(one.is_symlink() and os.readlink(one) == os.path.realpath(path) for one in files.iterdir())

        self.until(waits)
        return process, held

    def until_ready(self, sock):
        while b"READY=1" not in sock.recv(999):
            pass

    def until(self, condition):
        def passes():
            try:
                return condition()
            except FileNotFoundError:  # a descriptor that was closed meanwhile
                return False

        patience.until(passes, "the agent waits")

    def test_sigterm_while_another_agent_keeps_the_host(self):
        process, held = self.at_the_lock()
        self.addCleanup(os.close, held)
        process.send_signal(signal.SIGTERM)
        _out, err = process.communicate(timeout=patience.LIMIT_S)
        self.assertEqual(0, process.returncode, err)
        self.assertIn("nothing was placed", err)

    def test_sighup_never_ends_it(self):
        sock = self.listen()
        process, held = self.at_the_lock()
        process.send_signal(signal.SIGHUP)
        os.close(held)
        self.until_ready(sock)
        process.terminate()
        self.assertEqual(0, process.wait(patience.LIMIT_S))

    def test_a_start_that_fails_is_told_and_ended_by_sigterm(self):
        (self.folder / "failed-starts").write_text("9")
        for text, word in (
            ("[agent]\ninterval = nan\n", "[agent] interval"),
            ("[nova_perf_tuning]\nstate_dir = /proc/none\n", "[nova_perf_tuning] state_dir"),
        ):
            self.config.write_text(text)
            sock = self.listen()
            process = self.start(NOTIFY_SOCKET=str(self.folder / "notify"), RUNTIME_DIRECTORY=str(self.folder))
            told = sock.recv(999).decode()
            self.assertTrue(told.startswith("STATUS=cannot start: "), told)
            self.assertIn(word, told)
            self.assertIn("next try in 60 s", told)
            begun = time.monotonic()
            process.terminate()
            _out, err = process.communicate(timeout=patience.LIMIT_S)
            self.assertLess(time.monotonic() - begun, 30.0)
            self.assertEqual((0, 1), (process.returncode, err.count("\n")), err)
            sock.close()
            (self.folder / "notify").unlink()

    def test_an_unexpected_fault_and_wrong_usage_are_put_off_too(self):
        (self.folder / "failed-starts").write_text("9")
        environment = {"NOTIFY_SOCKET": str(self.folder / "notify"), "RUNTIME_DIRECTORY": str(self.folder)}
        code = "import sys; from nova_perf_tuning.agent import main, run; run.run = None; sys.exit(main.main({}))"
        for words, told, code_then in (([], "TypeError", 0), (["--nonsense"], "wrong usage", 2)):
            sock = self.listen()
            process = subprocess.Popen(
                [sys.executable, "-c", code.format(words)],
                env={**os.environ, **environment},
                stderr=subprocess.PIPE,
            )
            self.addCleanup(process.kill)
            self.assertIn(f"cannot start: {told}", sock.recv(999).decode())
            process.terminate()
            process.communicate(timeout=patience.LIMIT_S)
            self.assertEqual(code_then, process.returncode)
            sock.close()
            (self.folder / "notify").unlink()

    def test_an_early_stop_puts_back_what_was_placed_before(self):
        before = sysroots.content(self.root)
        self.config.write_text("[agent]\non_stop = restore\n")
        args = main._parser().parse_args(["--sysroot", self.root, "--config-file", str(self.config)])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        process = self.start(NOTIFY_SOCKET=str(self.folder / "notify"))
        patience.until(lambda: sysroots.content(self.root) != before, "it places")
        process.kill()
        process.wait()
        signals = starting.Signals()
        os.kill(os.getpid(), signal.SIGHUP)
        self.assertFalse(signals.asked)
        os.kill(os.getpid(), signal.SIGTERM)
        self.assertTrue(signals.asked)
        self.assertEqual(0, run.run(args, signals, starting.Notes({})))
        self.assertEqual(before, sysroots.content(self.root))

    def test_unknown_options_are_told_at_the_start(self):
        self.config.write_text("[agent]\nintervall = 1\nstate_dir = /x\n[other]\nthing = 1\n")
        self.assertEqual(
            [
                f"configuration {self.config}: [agent] intervall: no such option (is interval meant?); "
                "mend or remove the line",
                f"configuration {self.config}: [agent] state_dir: it is an option of [nova_perf_tuning] and has "
                "no effect here; move the line there",
            ],
            opts.unknown([str(self.config)]),
        )
        sock = self.listen()
        process = self.start(NOTIFY_SOCKET=str(self.folder / "notify"))
        self.until_ready(sock)
        process.terminate()
        _out, err = process.communicate(timeout=patience.LIMIT_S)
        self.assertEqual(2, err.count("WARNING configuration "), err)

    def test_messages_name_the_key_and_no_flag(self):
        nova = self.folder / "nova.conf"
        nova.write_text("[compute]\ncpu_dedicated_set = 4-7\n")
        for given, words in (
            (plan_model.CpuSets(shared="7"), "[compute] cpu_dedicated_set and [agent] shared overlap"),
            (plan_model.CpuSets("3", housekeeping="3"), "[agent] dedicated and [agent] housekeeping overlap"),
            (plan_model.CpuSets(housekeeping="0,99"), "[agent] housekeeping names CPUs that this host lacks: 99"),
        ):
            tuned = host.TunedHost(self.root, [str(nova)], given)
            error = self.assertRaises(plan_model.PlanError, tuned.plan, tuned.facts())
            self.assertIn(words, str(error))
