"""Ctrl-C and SIGTERM: both end a run through its clean-up, and neither can cut the clean-up short."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Hold signals back while the block runs; those that came are delivered at its end.

    Outside the main thread Python delivers no signal, so there is nothing to hold back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda got, _frame: came.append(got)) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: a handler that was not set from Python; it cannot be put back, the default is nearest.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in dict.fromkeys(came):
            signal.raise_signal(late)


class TerminationGuard:
    """Turns SIGTERM and SIGHUP, which would end Python at once, into SystemExit, so that clean-up runs.

    A handler that somebody else has set stays. :meth:`remove` puts the default back.
    """

    def __init__(self) -> None:
        self._set: list[signal.Signals] = []

    def install(self) -> None:
        """Take the signals whose action is the default; only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)
                self._set.append(number)

    def remove(self) -> None:
        """Put the default actions back; may be called twice."""
        if threading.current_thread() is threading.main_thread():
            while self._set:
                signal.signal(self._set.pop(), signal.SIG_DFL)
