# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP: each ends a run through its clean-up, and none can cut the clean-up short."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What would end Python at once; Ctrl-C is an exception already.
_TERMINATION: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let ``handler`` take some signals while the block runs."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            # None: a handler that was not set from Python; it cannot be put back, the default is
            # nearest.
            if old is None:
                old = signal.SIG_DFL
            signal.signal(number, old)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Hold signals back while the block runs; those that came are delivered at its end.

    Outside the main thread Python delivers no signal, so there is nothing to hold back.
    """
    if not _is_main_thread():
        yield
        return
    came: list[int] = []
    try:
        with handled(SIGNALS, lambda got, _frame: came.append(got)):
            yield
    finally:
        for late in dict.fromkeys(came):
            signal.raise_signal(late)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Raise SystemExit(128 + its number) for the first of :data:`_TERMINATION` that comes; drop later ones.

    A signal that is ignored (nohup) or has a handler of somebody else stays so. Outside the main
    thread, which alone may set handlers, nothing is done.
    """
    came = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal came
        if not came:
            came = True
            raise SystemExit(128 + number)

    taken = [number for number in _TERMINATION if _is_main_thread() and signal.getsignal(number) == signal.SIG_DFL]
    with handled(taken, stop):
        yield


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
