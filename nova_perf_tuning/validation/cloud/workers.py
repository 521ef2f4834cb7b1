"""The threads, the clock and the signals of a campaign."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from nova_perf_tuning.validation.cloud import model

#: A signal that comes so much later than the first, in seconds, is another one; what comes sooner is the same told
#: twice, as SIGHUP is by the kernel and by the shell.
SECOND_S: Final = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended: with an outcome, or with what it raised."""

    number: int
    outcome: model.PairOutcome | None
    error: BaseException | None = None


class Workers:
    """Runs jobs in threads of their own and hands over what they gave, in the order in which they end.

    A simulation takes the place of this class with one whose time is virtual.
    """

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[Ended | None] = queue.SimpleQueue()

    def now(self) -> float:
        """Return a clock that only goes forward, in seconds."""
        return time.monotonic()

    def start(self, number: int, job: Callable[[], model.PairOutcome]) -> None:
        """Run ``job`` in a thread; it ends with the process if nobody waits for it."""
        threading.Thread(target=self._run, args=(number, job), name=f"pair-{number}", daemon=True).start()

    def wait(self, limit_s: float) -> Ended | None:
        """Return the next job that ended; None after ``limit_s`` or when woken."""
        try:
            return self._ended.get(timeout=limit_s)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """End :meth:`wait` now; may be called from a signal handler."""
        self._ended.put(None)

    def _run(self, number: int, job: Callable[[], model.PairOutcome]) -> None:
        try:
            ended = Ended(number, job())
        except BaseException as error:  # whatever it is, the one who waits must hear of it
            ended = Ended(number, None, error)
        self._hand_over(ended)

    def _hand_over(self, ended: Ended) -> None:
        self._ended.put(ended)


class StopSignals:
    """SIGINT, SIGTERM and SIGHUP while a run goes on: the first lets it end, a later one raises KeyboardInterrupt.

    :ivar first: the number of the first one that came, 0: none.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Handle nothing yet; ``wake`` is called from the handler of every signal."""
        self.first = 0
        self._at = 0.0
        self._wake = wake

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Note signals instead of letting them raise anywhere.

        What is ignored stays so: SIGHUP under nohup, SIGINT of a job in the background.
        """
        stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        numbers = [number for number in stopping if signal.getsignal(number) is not signal.SIG_IGN]
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
            raise KeyboardInterrupt
        self._wake()
