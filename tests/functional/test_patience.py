"""A hang ends with a message that says what was known last; nothing is left of it."""

import os
import pathlib
import sys
import tempfile
import time

import testtools

from tests.functional import patience


class PatienceTest(testtools.TestCase):
    def test_program_that_ends(self):
        done = patience.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
        self.assertEqual((7, "out\n", "err\n"), (done.returncode, done.stdout, done.stderr))

    def test_program_that_hangs(self):
        with tempfile.TemporaryDirectory(prefix="nova-perf-patience-") as folder:
            log = pathlib.Path(folder, "log")
            log.write_text("x" * 5000 + "\nasked QEMU for its CPU models\n")
            script = f"echo $$ >{folder}/pid; echo begun; exec sleep 4444"
            error = self.assertRaises(AssertionError, patience.run, ["sh", "-c", script], limit_s=1.0, log=log)
            pid = pathlib.Path(folder, "pid").read_text().strip()
        for word in ("exec sleep 4444 did not end within 1 s", "load average", "| begun\n", "| asked QEMU for"):
            self.assertIn(word, str(error))
        self.assertNotIn("x" * 300, str(error))
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_program_that_hangs_may_clean_up(self):
        program = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit('removed all'))\n"
        program += "print('ready', flush=True); time.sleep(4444)"
        for limit_s in (1.0, 10.0, 100.0):  # a busy machine may not have started Python by then
            error = self.assertRaises(
                AssertionError, patience.run, [sys.executable, "-c", program], limit_s=limit_s
            )
            if "ready" in str(error):
                break
        self.assertIn("| removed all", str(error))

    def test_condition(self):
        begun = time.monotonic()
        patience.until(lambda: time.monotonic() > begun + 0.1, "a moment")
        error = self.assertRaises(AssertionError, patience.until, lambda: False, "the impossible", limit_s=0.1)
        self.assertIn("the impossible: not within 0.1 s; load average", str(error))
