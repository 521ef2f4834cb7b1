"""Ctrl-C, SIGTERM and SIGHUP: each ends a run through its clean-up, and none can cut the clean-up short."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What would end Python at once; Ctrl-C is an exception already.
TERMINATION: Final = (signal.SIGTERM, signal.SIGHUP)


class Interrupted(SystemExit):
    """A signal asked the program to end; where nobody catches it the exit code is 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.exit_code = 128 + number
        self.signal = signal.Signals(number)

    def __str__(self) -> str:
        return f"ended by {self.signal.name}"


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Hold signals back while the block runs; those that came are delivered at its end.

    Outside the main thread Python delivers no signal, so there is nothing to hold back.
    """
    if not _is_main_thread():
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


@contextlib.contextmanager
def guarded(signals: Sequence[signal.Signals] = _SIGNALS) -> Iterator[None]:
    """Raise :class:`Interrupted` for the first signal that comes while the block runs; later ones are dropped.

    A signal that is ignored (nohup) or has a handler of somebody else stays so. Outside the main thread, which
    alone may set handlers, nothing is done.
    """
    came = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal came
        if not came:
            came = True
            raise Interrupted(number)

    own = (signal.SIG_DFL, signal.default_int_handler)
    taken = [number for number in signals if _is_main_thread() and signal.getsignal(number) in own]
    before = {number: signal.signal(number, stop) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
