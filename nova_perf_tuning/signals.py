# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP: each ends a run through its clean-up, and none can cut the clean-up short."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What Python or the kernel does where nobody has set a handler.
_DEFAULTS: Final = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
#: The signal that :func:`guarded` has raised last; None: none came, or the block is over.
_came: int | None = None


@contextlib.contextmanager
def handled(
    numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
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
    """Let signals end the block by an exception that is not lost, see :func:`raise_swallowed`.

    SystemExit(128 + its number) for the first of SIGTERM and SIGHUP that comes; later ones are
    dropped. KeyboardInterrupt for each Ctrl-C. A signal that is ignored (nohup) or has a handler
    of somebody else stays so. Outside the main thread, which alone may set handlers, nothing is
    done.
    """
    global _came
    taken = []
    if _is_main_thread():
        taken = [number for number in SIGNALS if signal.getsignal(number) == _DEFAULTS[number]]
    terminated = False

    def stop(number: int, _frame: FrameType | None) -> None:
        global _came
        nonlocal terminated
        if number != signal.SIGINT:
            if terminated:
                return
            terminated = True
        _came = number
        raise _exception(number)

    try:
        with handled(taken, stop):
            yield
    finally:
        _came = None


def raise_swallowed() -> None:
    """Raise once more what :func:`guarded` raised before, where the block goes on all the same.

    Python swallows each exception that comes while it runs the callback of a weak reference or a
    __del__. Call it where work begins that nobody wants any more, and never in clean-up.
    """
    if _came is not None:
        raise _exception(_came)


def _exception(number: int) -> BaseException:
    if number == signal.SIGINT:
        return KeyboardInterrupt()
    return SystemExit(128 + number)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
