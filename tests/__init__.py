# SPDX-License-Identifier: Apache-2.0
"""Tests; what they start takes Ctrl-C, also where a shell's background job, which ignores it, starts them."""

import signal
import threading

if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
