"""What the agent counts: plain numbers, shown by ``nova-perf status`` and given to Prometheus.

An event-to-placed time begins when an event came that explains a change (guests, links, channels, hardware; not
writes by others), or, where it came while the loop was at work, when the loop last looked: the time is rather too
long than too short. It ends with the pass that answered the event. Events that were read from one source in one go
are one. A pass that had nothing to write counts for none. Where a look 0.25, 1 or 3 seconds after the event finds
that a driver has set its values later, what is written then counts as one more time, from the same event on.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import Any, Final

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

    def placed_after(self, seconds: float) -> None:
        """Count one event that was answered after ``seconds``."""
        for place, bound in enumerate(BOUNDS):
            if seconds <= bound:
                self.latency[place] += 1
                break
        self.latency_sum += seconds
        self.latency_count += 1
