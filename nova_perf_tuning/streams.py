# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed or cannot be written: a program's exit code stays what it is."""

import io
import os
import sys
from typing import cast

_STDERR = 2


class _LastingStderr(io.TextIOWrapper):
    """Standard error that goes nowhere from the first write on that fails.

    On a full disk (``2>>log``) each message would raise an error, and Python ends with 1 for an
    error that nobody caught and with 120 for what it cannot flush: 1 is a verdict here.
    """

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)


def prepare() -> None:
    """Let a program run whose caller has closed standard input, output or error, or has no room.

    Python has None for a stream that is closed (``>&-``); what is printed there goes nowhere. The
    number of a closed one is taken here, so that no file that the program opens later gets it.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
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
