# SPDX-License-Identifier: Apache-2.0
"""The runner of a pair reads what its peer sends: in every shell that an image may have, only as numbers."""

import contextlib
import json
import pathlib
import socket
import subprocess
import threading
import time

from tests.support import directories

TOP = pathlib.Path(__file__).resolve().parents[4]
RUNNER = TOP / "nova_perf_tuning" / "validation" / "heat" / "templates" / "runner.sh"
SHELLS = (["bash", "--posix"], ["bash"], ["dash"], ["busybox", "sh"])
#: A peer that answers with what the file "hostile" holds, whatever it is asked.
PEER = """
busybox() { cat "$work/hostile"; }
timeout() { cat "$work/hostile"; }
offset_cs=0 trial=1
printf 'asked [%s]\\n' "$(cpu_busy "$(ask_server | head -n 1)")"
run_there 0 0 1 99999999999999 >/dev/null
"""
HOSTILE = (
    "a[$(touch {mark})] a[$(touch${{IFS}}{mark})] a[`touch${{IFS}}{mark}`] 1 1 1 1 1",
    "cpu a[$(touch${{IFS}}{mark})] a[$(touch${{IFS}}{mark})] 1 1 1 1 1",
    "cpu * * * * * * * *",
    "cpu work work work 1 1 1 1",
    "cpu 1 2 3 4 5 6 08 9",
    "cpu 1 2 3 4 5 6 99999999999999999999",
    "cpu 1 2 3 4 5 6 -7 0x10",
    "",
)


class RunnerCase(directories.DirectoryCase):
    def functions(self, script):
        """Return the runner without its last lines, which begin to measure, in the test's directory."""
        functions, _, _ = script.rpartition("\nprepare\n")
        return functions.replace("/run/nova-perf", str(self.directory))


class PeerTest(RunnerCase):
    def answer(self, shell, line, status="0"):
        """Return what is printed where a peer sends the line as its CPU times, and the run that is kept."""
        first_line = line if status is None else status
        self.write_file("hostile", f"{first_line}\n{line}\n{line}\n")
        (self.directory / "runs").unlink(missing_ok=True)
        # Names that a pattern would find, all of them numbers.
        for name in "123456789":
            self.write_file(f"numbers/{name}", "")
        text = self.functions(RUNNER.read_text(encoding="utf-8")) + PEER
        command = [*shell, "-c", text]
        done = subprocess.run(
            command, cwd=self.directory / "numbers", capture_output=True, text=True, check=False
        )
        return done.stdout, json.loads((self.directory / "runs").read_text(encoding="utf-8"))

    def test_words_of_the_peer_are_numbers_or_nothing(self):
        mark = self.directory / "mark"
        for shell in SHELLS:
            for words in HOSTILE:
                line = words.format(mark=mark)
                with self.subTest(shell=shell, words=words):
                    printed, run = self.answer(shell, line, None)
                    self.assertEqual("asked []\n", printed)
                    self.assertEqual((124, []), (run["status"], run["server"]))
                    _printed, run = self.answer(shell, line)
                    self.assertEqual((0, []), (run["status"], run["server"]))
                    self.assertFalse(mark.exists(), "the peer ran a command")

    def test_a_status_is_that_of_a_program(self):
        for shell in SHELLS:
            for status in ("007", "256", "9" * 30, "a[$(id)]"):
                with self.subTest(shell=shell, status=status):
                    _printed, run = self.answer(shell, "cpu 1 2 3 4 5 6 7 8", status)
                    self.assertEqual(124, run["status"])

    def test_an_honest_peer_is_understood(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                printed, _run = self.answer(shell, "cpu  10 20 30 40 50 60 70 0 0 0", None)
                self.assertEqual("asked [190]\n", printed)
                _printed, run = self.answer(shell, "cpu  10 20 30 40 50 60 70 0 0 0", "3")
                self.assertEqual((3, [190, 190]), (run["status"], run["server"]))


class SlowPeerTest(RunnerCase):
    """A peer that never ends its answer costs a second here, and no more."""

    def listen(self, drip):
        """Listen on loopback, send a byte now and then or nothing, and return the port."""
        listener = socket.create_server(("127.0.0.1", 0))
        over = threading.Event()

        def accept():
            with contextlib.suppress(OSError):
                while not over.is_set():
                    connected, _ = listener.accept()
                    with connected, contextlib.suppress(OSError):
                        while not over.wait(0.1):
                            connected.sendall(drip)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 5)
        self.addCleanup(listener.close)
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        self.addCleanup(over.set)
        return listener.getsockname()[1]

    def test_an_answer_has_a_deadline(self):
        functions = self.functions(RUNNER.read_text(encoding="utf-8"))
        for shell in SHELLS:
            for drip in (b"", b"x"):
                with self.subTest(shell=shell, drip=drip):
                    port = self.listen(drip)
                    text = (
                        f"{functions}\npeer=127.0.0.1 control_port={port} answer_s=1\nask_server\n"
                    )
                    begun = time.monotonic()
                    done = subprocess.run(
                        [*shell, "-c", text], capture_output=True, timeout=20, check=False
                    )
                    self.assertLess(time.monotonic() - begun, 10)
                    self.assertEqual(b"", done.stdout.strip(b"x"))
