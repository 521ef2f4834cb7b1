"""Trials that ought to be there: a boot that failed leaves none, and what is left of its arm is a selection."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import model

#: The host itself is not booted; of a fleet it has fewer samples than the guests, dealt out to them.
_HOST = "host"


def missing(trials: Sequence[model.Trial], environment: Mapping[str, Any], arm: str) -> int:
    """Return how many trials ``arm`` lacks where another arm has some, or where its guest did not boot.

    Blocks are counted, not compared: on a cloud arms choose their slots one by one. A group whose last block
    alone is missing was cut by the time limit; the last group may have been in its first.

    :param trials: of one benchmark and one figure, those that failed included.
    """
    if arm == _HOST:
        return 0
    blocks: dict[int, dict[str, set[int]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for one in trials:
        blocks[one.group][one.arm].add(one.block)
    planned = {group: max(map(len, arms.values())) for group, arms in blocks.items()}
    lacking = 0
    for group, arms in blocks.items():
        mine = arms.get(arm, set())
        last = max(max(some) for some in arms.values())
        few = planned[group] - len(mine)
        cut = few == 1 and last not in mine and (mine or group == max(blocks))
        lacking += 0 if cut else few
    unknown = _not_booted(environment, arm) - planned.keys()
    return lacking + len(unknown) * round(statistics.median(planned.values()) if planned else 0)


def _not_booted(environment: Mapping[str, Any], arm: str) -> set[int]:
    """Return the groups in which the guest of ``arm`` did not boot."""
    if "fleet" in environment:  # there a pair that failed was tried again, or its hosts were given up
        return set()
    return {
        one["group"]
        for one in environment.get("errors", ())
        if one.get("arm") == arm and "benchmark" not in one and isinstance(one.get("group"), int)
    }
