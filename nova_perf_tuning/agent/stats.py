"""What the agent counts: plain numbers, shown by ``nova-perf status`` and given to Prometheus.

An event-to-placed time begins when an event came that explains a change (guests, links, channels, hardware), or,
where it came while the loop was at work, when the loop last looked: it is rather too long than too short. It ends
with the pass that answered the event; a pass that had nothing to write counts for none.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
from collections.abc import Collection, Iterable
from typing import Any, Final

from nova_perf_tuning.agent import reconcile

#: Upper bounds of the latency histogram in seconds; a value above the last counts in none of them.
BOUNDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclasses.dataclass(slots=True)
class Stats:
    """Counters since the agent's start.

    :ivar passes: passes by what caused them; :ivar written: writes by kind of setting;
    :ivar drifted: objects found changed by others, by kind; :ivar withdrawn: put back since no longer asked.
    :ivar errors: passes that could not be made; :ivar verifies: full readings.
    :ivar skipped: passes put off because a command was changing the host.
    :ivar latency: event-to-placed times by :data:`BOUNDS`, each value once, in its first bucket.
    :ivar latency_sum: of all of them in seconds; :ivar latency_count: their number.
    """

    passes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    written: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    drifted: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    withdrawn: int = 0
    errors: int = 0
    skipped: int = 0
    verifies: int = 0
    latency: list[int] = dataclasses.field(default_factory=lambda: [0] * len(BOUNDS))
    latency_sum: float = 0.0
    latency_count: int = 0

    def copy(self) -> Stats:
        """Return what other threads may read while the loop counts on."""
        return dataclasses.replace(
            self,
            passes=self.passes.copy(),
            written=self.written.copy(),
            drifted=self.drifted.copy(),
            latency=list(self.latency),
        )

    def as_state(self) -> dict[str, Any]:
        """Return what ``nova-perf status`` shows; of the latency how many there were within each bound."""
        within = dict(zip(map(str, BOUNDS), itertools.accumulate(self.latency), strict=True))
        return {
            "passes": sum(self.passes.values()),
            "verifies": self.verifies,
            "skipped": self.skipped,
            "errors": self.errors,
            "withdrawn": self.withdrawn,
            "written": dict(self.written),
            "drifted": dict(self.drifted),
            "event_to_placed": {
                "count": self.latency_count,
                "sum_s": round(self.latency_sum, 6),
                "within_s": within,
            },
        }

    def count(self, causes: Collection[str], done: reconcile.Pass, waited: Iterable[float]) -> None:
        """Count a pass.

        :param waited: seconds since each event that it answers.
        """
        self.passes[min(causes)] += 1
        self.written.update(outcome.setting.kind for outcome in done.written)
        self.drifted.update(setting.kind for setting in done.drifted)
        self.withdrawn += len(done.withdrawn)
        for seconds in waited if done.written else ():
            self.placed_after(seconds)

    def placed_after(self, seconds: float) -> None:
        """Count one event that was answered after ``seconds``."""
        bucket = bisect.bisect_left(BOUNDS, seconds)
        if bucket < len(BOUNDS):
            self.latency[bucket] += 1
        self.latency_sum += seconds
        self.latency_count += 1
