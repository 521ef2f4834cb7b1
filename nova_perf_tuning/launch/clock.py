"""Clocks of machines against the host's: what a guest stamps by its own clock is found on the host's.

A paused guest's clock stands still, and one guest's differs from another's, so that it is asked before and after
each run. The answer comes some time between question and receipt, which bounds the error.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Final

#: How often a clock is asked at most, and how quick an answer is good enough; the quickest counts.
_TIMES: Final = 3
_QUICK_S: Final = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Clock:
    """A machine's clock.

    :ivar epoch: what it shows at 0 of the host's CLOCK_MONOTONIC, in seconds since the epoch.
    :ivar error_s: most that :attr:`epoch` is wrong.
    """

    epoch: float
    error_s: float

    def monotonic(self, at: float) -> float:
        """Return the host's CLOCK_MONOTONIC when this clock shows ``at``."""
        return at - self.epoch


def of_host() -> Clock:
    """Return this host's own clock."""
    return asked(time.time)


def asked(question: Callable[[], float]) -> Clock:
    """Return a clock that answers ``question`` with what it shows."""
    found = []
    for _ in range(_TIMES):
        before = time.monotonic()
        shown = question()
        after = time.monotonic()
        found.append(Clock(shown - (before + after) / 2, (after - before) / 2))
        if after - before < _QUICK_S:
            break
    return min(found, key=lambda one: one.error_s)


def agreed(before: Clock | None, after: Clock | None) -> Clock | None:
    """Return a machine's clock during a run, as it was found before and after it; None: it was not both times.

    One that was set or stood still in between disagrees with itself, and that adds to the error.
    """
    if before is None or after is None:
        return None
    apart = abs(after.epoch - before.epoch) / 2
    return Clock((before.epoch + after.epoch) / 2, max(before.error_s, after.error_s) + apart)
