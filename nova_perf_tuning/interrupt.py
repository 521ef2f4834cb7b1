"""Ctrl-C, SIGTERM and SIGHUP: each ends a run through its clean-up, and none can cut the clean-up short."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
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


class Guard:
    """Raises :class:`Interrupted` for the first signal that comes while it is installed; later ones are dropped.

    Used as a context manager, or by :meth:`install` and :meth:`remove` where the life of an object is guarded. A
    signal that is ignored (nohup) or has a handler of somebody else stays so. Outside the main thread, which
    alone may set handlers, nothing is done.
    """

    def __init__(self, signals: Sequence[signal.Signals] = _SIGNALS) -> None:
        self._signals = signals
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._came = False

    def install(self) -> None:
        """Take the signals whose action is Python's own."""
        if not _is_main_thread():
            return
        for number in self._signals:
            handler = signal.getsignal(number)
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = handler
                signal.signal(number, self._raise)

    def remove(self) -> None:
        """Put the actions back; may be called twice."""
        if _is_main_thread():
            while self._before:
                signal.signal(*self._before.popitem())
            self._came = False

    def __enter__(self) -> Guard:
        self.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        if not self._came:
            self._came = True
            raise Interrupted(number)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
