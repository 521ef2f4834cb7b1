# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed or cannot be written: lost messages are ignored, lost output is an error."""

import contextlib
import io
import os
import signal
import sys
from typing import cast

from nova_perf_tuning import errors, printing

#: A shell adds the number of the signal that ended a program; of one whose reader has gone SIGPIPE.
_SIGNALS = 128
READER_GONE = _SIGNALS + signal.SIGPIPE


class Output(io.TextIOWrapper):
    """Standard output that remembers a failed write; from then on it goes nowhere.

    What else is printed, and Python's own flush at the end, then raises no second error.

    :ivar lost: the error of that write.
    """

    lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            raise

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)
            raise

    def _give_up(self, error: OSError) -> None:
        error.filename = "standard output"
        self.lost = error
        _send_nowhere(self.fileno())


class _LastingStderr(io.TextIOWrapper):
    """Standard error that goes nowhere from the first write on that fails.

    On a full disk (``2>>log``) each message would raise an error, and Python ends with 1 for an
    error that nobody caught and with 120 for what it cannot flush: 1 is a verdict here.
    """

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            _send_nowhere(self.fileno())
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _send_nowhere(self.fileno())


def _send_nowhere(stream: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


def prepare() -> None:
    """Let a program run whose caller has closed standard input, output or error, or has no room.

    Python has None for a stream that is closed (``>&-``). The number of a closed one is taken here,
    so that no file that the program opens later gets it. Messages then go nowhere; output cannot be
    written, which :func:`exit_code` reports.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")
    if sys.stdout is None:
        refusing = os.open(os.devnull, os.O_RDONLY)  # writes fail as on a closed one (EBADF)
        sys.stdout = Output(open(refusing, "wb"), encoding="utf-8")
    elif type(sys.stdout) is io.TextIOWrapper and sys.stdout is sys.__stdout__:
        sys.stdout = Output(
            cast(io.BufferedWriter, sys.stdout.buffer),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=sys.stdout.line_buffering,
            write_through=sys.stdout.write_through,
        )
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    elif type(sys.stderr) is io.TextIOWrapper and sys.stderr is sys.__stderr__:
        sys.stderr = _LastingStderr(
            cast(io.BufferedWriter, sys.stderr.buffer),
            encoding=sys.stderr.encoding,
            errors=sys.stderr.errors,
            line_buffering=True,
            write_through=True,
        )


def exit_code(program: str, code: int) -> int:
    """Return the exit code of a program that would end with ``code``.

    Lost output is an error, and one line on standard error says so; a reader that has gone (head,
    less) knows it. An interrupted program stays interrupted.
    """
    is_reported = code == errors.ExitCode.ERROR and _lost() is not None
    if not sys.stdout.closed:  # as the pager of --help leaves it when its reader has gone
        with contextlib.suppress(OSError):  # remembered as lost
            sys.stdout.flush()
    lost = _lost()
    if lost is None or code >= _SIGNALS:
        return code
    if isinstance(lost, BrokenPipeError):
        return READER_GONE
    if not is_reported:
        line = f"{program}: {lost.filename}: {lost.strerror}"
        print(printing.printable(line), file=sys.stderr)
    return int(errors.ExitCode.ERROR)


def _lost() -> OSError | None:
    return getattr(sys.stdout, "lost", None)
