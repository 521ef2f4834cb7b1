"""The grid of wall-clock slots in which the arms of a comparison take turns; heat/runner.sh works out the same.

Slot ``index`` begins ``index * length`` seconds after the epoch. With ``n`` arms, ``n`` slots make a block; the
order of arms is reversed in odd blocks (A B, B A, …), so that a drift falls on all arms alike. Every arm works
this out alone from its number and the clock: no two of them ever measure at the same time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from nova_perf_tuning.validation.bench import plugins

#: Of every slot, in seconds: the runner begins this late and ends this early, since clocks differ a little.
_MARGIN_S = 2.0
#: What a benchmark takes beyond its own run: start under emulation, connection, counters, its server's restart.
_START_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """A grid for some arms.

    :ivar arms: how many take turns. :ivar length_s: of one slot, in whole seconds.
    """

    arms: int
    length_s: int

    def begin(self, index: int) -> int:
        """Return when a slot begins, in seconds since the epoch."""
        return index * self.length_s

    def block(self, index: int) -> int:
        """Return the block that a slot belongs to."""
        return index // self.arms

    def arm(self, index: int) -> int:
        """Return the arm that a slot belongs to."""
        position = index % self.arms
        return self.arms - 1 - position if self.block(index) % 2 else position


def length_s(jobs: Iterable[plugins.Job]) -> int:
    """Return a slot length that one run of every job fits into, two of those that need no peer."""
    length = _MARGIN_S
    for job in jobs:
        run = float(job.parameters.get("seconds", "0")) + _START_S
        length += run if job.benchmark.paired else 2 * run
    return math.ceil(length)
