"""Runs jobs in threads of their own and hands over what they gave, in the order in which they end."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Callable

from nova_perf_tuning.validation.cloud import model


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended: with an outcome, or with what it raised."""

    number: int
    outcome: model.PairOutcome | None
    error: BaseException | None = None


class Workers:
    """The threads and the clock of a campaign, which alone decides how many jobs there are at a time.

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
