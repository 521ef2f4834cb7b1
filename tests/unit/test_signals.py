# SPDX-License-Identifier: Apache-2.0
"""Signals wait for the end of a clean-up and are not lost."""

import os
import pathlib
import signal
import sys

from nova_perf_tuning import signals
from tests.support import lost_signals, patience, testcase


class PlainCase(testcase.TestCase):
    """Signals act as in a program that a terminal started; a shell's background jobs ignore Ctrl-C."""

    def setUp(self) -> None:
        super().setUp()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            own = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            self.addCleanup(signal.signal, number, signal.signal(number, own))


class DeferredTest(PlainCase):
    def test_interrupt_comes_after_the_block(self) -> None:
        steps = []
        with self.assertRaises(KeyboardInterrupt):
            with signals.deferred():
                os.kill(os.getpid(), signal.SIGINT)
                steps.append("still here")
            steps.append("not reached")
        self.assertEqual(["still here"], steps)
        self.assertIs(signal.default_int_handler, signal.getsignal(signal.SIGINT))

    def test_nested_blocks_deliver_at_the_outermost_end(self) -> None:
        steps = []
        with self.assertRaises(KeyboardInterrupt), signals.deferred():
            with signals.deferred():
                os.kill(os.getpid(), signal.SIGINT)
            steps.append("inner block ended")
        self.assertEqual(["inner block ended"], steps)


class GuardedTest(PlainCase):
    def test_termination_unwinds_and_the_default_comes_back(self) -> None:
        with self.assertRaises(SystemExit) as caught, signals.guarded():
            os.kill(os.getpid(), signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, caught.exception.code)
        self.assertIs(signal.SIG_DFL, signal.getsignal(signal.SIGTERM))

    def test_somebody_elses_handler_stays(self) -> None:
        def handler(_number: int, _frame: object) -> None:
            """Stands for a caller's own handler."""

        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, handler))
        with signals.guarded():
            self.assertIs(handler, signal.getsignal(signal.SIGTERM))
        self.assertIs(handler, signal.getsignal(signal.SIGTERM))

    def test_first_signal_alone_unwinds(self) -> None:
        """The way out, which undoes what was done, is not cut short by those who are impatient."""
        steps = []
        with self.assertRaises(SystemExit) as caught, signals.guarded():
            try:
                os.kill(os.getpid(), signal.SIGHUP)
                steps.append("not reached")
            finally:
                for number in (signal.SIGTERM, signal.SIGHUP):
                    os.kill(os.getpid(), number)
                steps.append("undone")
        self.assertEqual(["undone"], steps)
        self.assertEqual(129, caught.exception.code)

    def test_signal_that_is_ignored_stays_ignored(self) -> None:
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_IGN))
        with signals.guarded():
            os.kill(os.getpid(), signal.SIGHUP)
        self.assertIs(signal.SIG_IGN, signal.getsignal(signal.SIGHUP))


class SwallowedTest(testcase.TestCase):
    def test_what_python_has_swallowed_is_raised_again(self) -> None:
        for number, kind in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)):
            with self.subTest(number):
                lost = self.useFixture(lost_signals.Swallowing())
                steps = []
                with self.assertRaises(kind), signals.guarded():
                    signals.raise_swallowed()
                    lost.send(number)
                    steps.append("goes on")
                    signals.raise_swallowed()
                    steps.append("not reached")
                self.assertEqual((["goes on"], [kind]), (steps, lost.swallowed))
                signals.raise_swallowed()  # the block is over

    def test_an_interrupt_comes_each_time(self) -> None:
        self.useFixture(lost_signals.Swallowing())
        count = 0
        with signals.guarded():
            for _ in range(2):
                with self.assertRaises(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                count += 1
        self.assertEqual(2, count)
        self.assertIs(signal.default_int_handler, signal.getsignal(signal.SIGINT))


class StartedTest(testcase.TestCase):
    def test_what_tests_start_takes_signals_that_their_own_start_ignores(self) -> None:
        """As under nohup, or in the background of a script."""
        shown = "subprocess.run(['grep', 'SigIgn', '/proc/self/status'])"
        ignoring = (
            f"trap '' HUP INT; exec {sys.executable} -c \"import subprocess, tests; {shown}\""
        )
        done = patience.run(["sh", "-c", ignoring], cwd=pathlib.Path(__file__).parents[2])
        self.assertEqual("", done.stderr)
        ignored = int(done.stdout.split()[1], 16)
        for number in (signal.SIGHUP, signal.SIGINT):
            self.assertEqual(0, ignored >> (number - 1) & 1, number)
