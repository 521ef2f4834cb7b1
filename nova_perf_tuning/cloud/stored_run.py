"""A run over many hosts and its pairs, as they are kept; to judge a results file takes no database."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from nova_perf_tuning.cloud import model


@dataclasses.dataclass(slots=True)
class Task:
    """A pair to be measured.

    :ivar number: within the run, in the order in which pairs are begun.
    :ivar state: as :class:`nova_perf_tuning.database.tables.Pair` has it.
    :ivar attempts: how often it was begun and not cut off.
    """

    number: int
    pair: model.HostPair
    state: str = "planned"
    attempts: int = 0
    seconds: float | None = None


@dataclasses.dataclass(slots=True)
class StoredRun:
    """A run as it is in the database.

    :ivar out: host -> why it was given up.
    :ivar cloud: where it began, as :func:`nova_perf_tuning.cloud.place.of` says; empty: not known.
    """

    run_id: str
    state: str
    plan: dict[str, Any]
    environment: dict[str, Any]
    hosts: list[str]
    out: dict[str, str]
    tasks: list[Task]
    created_at: datetime.datetime
    leftovers: bool = False

    @property
    def cloud(self) -> str:
        return str(self.plan.get("cloud", ""))

    @property
    def cloud_unknown(self) -> str:
        """Return why it is not known where the run began, empty if it is."""
        return why_unknown(self.plan)


def why_unknown(plan: Mapping[str, Any]) -> str:
    """Return why a run's plan does not say where it began, empty if it does."""
    if "cloud" not in plan:
        return "an older version did not note it"
    return "" if plan["cloud"] else "it was begun without Keystone, so there is nothing to know its cloud by"
