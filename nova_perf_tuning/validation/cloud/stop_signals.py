"""Signals that stop a run in an orderly way: the first lets it end, a second one later ends its clean-up, too."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

#: A signal that comes so much later than the first, in seconds, is another one; what comes sooner is the same told
#: twice, as SIGHUP is by the kernel and by the shell.
SECOND_S = 1.0


class StopSignals:
    """SIGINT, SIGTERM and SIGHUP while a run goes on.

    :ivar first: the number of the first one that came, 0: none. :ivar again: another came later.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Handle nothing yet; ``wake`` is called from the handler of every signal."""
        self.first = 0
        self.again = False
        self._at = 0.0
        self._wake = wake

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Note signals instead of letting them raise anywhere.

        What is ignored stays so: SIGHUP under nohup, SIGINT of a job in the background.
        """
        numbers = [
            number
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._came) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if not self.first:
            self.first, self._at = number, time.monotonic()
        elif time.monotonic() - self._at >= SECOND_S:
            self.again = True
        self._wake()
