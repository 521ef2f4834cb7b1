"""Trials that ought to be there: a boot that failed leaves none, and what is left of its arm is a selection."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import model

#: The host itself is not booted; of a fleet it has fewer samples than the guests, dealt out to them.
_HOST = "host"
#: In what a session notes of a group for which there was no time left.
_CUT = "time limit left room"


def missing(trials: Sequence[model.Trial], environment: Mapping[str, Any], arm: str) -> int:
    """Return how many trials ``arm`` lacks where another arm has some, or where its guest did not boot.

    The last block of a group may be missing where the time limit cut it: in the last group, and where that was
    noted.

    :param trials: of one benchmark and one figure, those that failed included.
    """
    if arm == _HOST and "fleet" in environment:
        return 0
    blocks: dict[int, set[int]] = collections.defaultdict(set)
    mine: dict[int, set[int]] = collections.defaultdict(set)
    for one in trials:
        blocks[one.group].add(one.block)
        if one.arm == arm:
            mine[one.group].add(one.block)
    may_be_cut = {max(blocks, default=0)} | _cut(environment)
    lacking = 0
    for group, planned in blocks.items():
        absent = planned - mine[group]
        lacking += 0 if group in may_be_cut and absent == {max(planned)} else len(absent)
    unknown = _not_booted(environment, arm) - blocks.keys()
    return lacking + len(unknown) * round(statistics.median(map(len, blocks.values())) if blocks else 0)


def _cut(environment: Mapping[str, Any]) -> set[int]:
    """Return the groups that the time limit cut, as the session noted it."""
    return {
        one["group"]
        for one in environment.get("errors", ())
        if "arm" not in one and "group" in one and _CUT in one["error"]
    }


def _not_booted(environment: Mapping[str, Any], arm: str) -> set[int]:
    """Return the groups in which the guest of ``arm`` did not boot."""
    if "fleet" in environment:  # there a pair that failed was tried again, or its hosts were given up
        return set()
    return {
        one["group"]
        for one in environment.get("errors", ())
        if one.get("arm") == arm and "benchmark" not in one and "group" in one
    }
