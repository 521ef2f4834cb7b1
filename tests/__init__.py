# SPDX-License-Identifier: Apache-2.0
"""Tests; what they start takes Ctrl-C and hang-ups, also where what starts the tests ignores them.

A shell's background job ignores Ctrl-C, and what nohup starts ignores hang-ups. That is handed on to programs, a
handler is not.
"""

import signal
import threading


def _goes_on(_number: int, _frame: object) -> None:
    """Let the tests themselves outlive their terminal, as nohup wants it."""


if threading.current_thread() is threading.main_thread():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _goes_on)
