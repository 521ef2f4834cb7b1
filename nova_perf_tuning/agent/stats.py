"""What the agent counts: plain numbers, shown by ``nova-perf status`` and given to Prometheus."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection
from typing import Any

from nova_perf_tuning.agent import reconcile


@dataclasses.dataclass(slots=True)
class Stats:
    """Counters since the agent's start.

    :ivar passes: passes by what caused them; :ivar written: writes by kind of setting;
    :ivar drifted: objects found changed by others, by kind; :ivar withdrawn: put back since no longer asked.
    :ivar errors: passes that could not be made; :ivar verifies: full readings.
    :ivar skipped: passes put off because a command was changing the host.
    """

    passes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    written: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    drifted: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    withdrawn: int = 0
    errors: int = 0
    skipped: int = 0
    verifies: int = 0

    def as_state(self) -> dict[str, Any]:
        """Return what ``nova-perf status`` shows."""
        return {
            "passes": self.passes.total(),
            "verifies": self.verifies,
            "skipped": self.skipped,
            "errors": self.errors,
            "withdrawn": self.withdrawn,
            "written": dict(self.written),
            "drifted": dict(self.drifted),
        }

    def count(self, causes: Collection[str], done: reconcile.Pass) -> None:
        """Count a pass."""
        self.passes[min(causes)] += 1
        self.written.update(outcome.setting.kind for outcome in done.written)
        self.drifted.update(setting.kind for setting in done.drifted)
        self.withdrawn += len(done.withdrawn)
