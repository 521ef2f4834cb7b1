"""SIGTERM and SIGHUP treated like Ctrl-C: what changes the host is undone first, and nothing cuts that short."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to end.

    :ivar exit_code: 128 and the number of the signal, as a shell shows one that was ended by it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Raise :class:`Interrupted` for the first signal that comes while the block runs; later ones are dropped.

    A signal that is ignored (nohup) or has a handler of somebody else stays so. Outside the main thread, which
    alone may set handlers, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal came
        if not came:
            came = True
            raise Interrupted(number)

    ours = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in _SIGNALS if signal.getsignal(number) in ours}
    try:
        for number in before:
            signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
