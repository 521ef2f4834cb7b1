"""Samples of a guest's CPU counters over time, and what was used between two moments."""

from __future__ import annotations

import bisect
import math
import threading
from collections.abc import Mapping

from nova_perf_tuning.budget import overhead

#: Samples further apart than this do not tell a trial's share of what lies between them.
MAX_GAP_S = 5.0


class Series:
    """Counters of one guest, sampled by one thread and read by another.

    :ivar fault: why the last sample could not be had; empty: it could.
    """

    def __init__(self) -> None:
        self.fault = ""
        self._lock = threading.Lock()
        self._moments: list[float] = []
        self._samples: list[dict[str, float]] = []

    def add(self, moment: float, seconds: Mapping[str, float]) -> None:
        """Keep a sample.

        :param moment: seconds since the epoch; one before the last (the clock was set back) begins a new series.
        :param seconds: class -> CPU seconds so far; the classes of the first sample.
        """
        with self._lock:
            if self._moments and moment <= self._moments[-1]:
                self._moments, self._samples = [], []
            self._moments.append(moment)
            self._samples.append(dict(seconds))
            self.fault = ""

    def used(self, begin: float, end: float) -> dict[str, float] | None:
        """Return class -> CPU seconds between two moments.

        None if that is not known: no samples on either side, or a counter fell meanwhile. A counter that falls
        lacks the time of a thread that has ended, or is another process's; how much was used it cannot tell.
        """
        with self._lock:
            first, last = self._at(begin), self._at(end)
            if first is None or last is None or any(map(self._fell, range(first[0], last[0] + 1))):
                return None
            return {name: last[1][name] - first[1][name] for name in last[1]}

    def _at(self, moment: float) -> tuple[int, dict[str, float]] | None:
        """Return which sample comes next, and the counters on the straight line between the two around it."""
        after = bisect.bisect_left(self._moments, moment)
        if not 0 < after < len(self._moments):
            return None
        length = self._moments[after] - self._moments[after - 1]
        if length > MAX_GAP_S:
            return None
        share = (moment - self._moments[after - 1]) / length
        before, later = self._samples[after - 1], self._samples[after]
        return after, {name: before[name] + (later[name] - before[name]) * share for name in later}

    def _fell(self, after: int) -> bool:
        """Return whether a counter fell up to sample ``after`` by more than readings lag behind each other."""
        before, later = self._samples[after - 1], self._samples[after]
        grown = math.fsum(later.values()) - math.fsum(before.values())
        if grown < -overhead.TICK_S:
            return True
        # A thread that runs is read up to a tick late, and what is its own is then taken for another class's.
        running = grown / max(0.1, self._moments[after] - self._moments[after - 1])
        slack = overhead.SLACK_S + overhead.TICK_S * max(0.0, running)
        return any(before[name] - later[name] > slack for name in later)
