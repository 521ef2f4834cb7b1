"""Trials that ought to be there: a boot that failed leaves none, and what is left of its arm is a selection."""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Mapping, Sequence, Set
from typing import Any

from nova_perf_tuning.budget import model

#: The host itself is not booted; of a fleet it has fewer samples than the guests, dealt out to them.
_HOST = "host"
#: In what a session notes of a group for which there was no time left.
_CUT = "time limit left room"

#: Launcher of runs over many hosts; ``fleet`` stands in their results only once their hosts are judged.
_CLOUD = "heat"

#: Group and block.
Block = tuple[int, int]


def of_many_hosts(environment: Mapping[str, Any]) -> bool:
    """Return whether results are of a run over many hosts, or of one of its hosts, as it runs and afterwards."""
    return "fleet" in environment or environment.get("launcher") == _CLOUD


@dataclasses.dataclass(frozen=True, slots=True)
class Missing:
    """What an arm lacks.

    :ivar count: trials; :ivar blocks: those of them of which other arms have some; :ivar boots: groups of which
        no arm has any.
    """

    count: int
    blocks: frozenset[Block]
    boots: frozenset[int] = frozenset()


_NOTHING = Missing(0, frozenset())


def missing(trials: Sequence[model.Trial], environment: Mapping[str, Any], arm: str) -> Missing:
    """Return what ``arm`` lacks where another arm has trials, or where its guest did not boot.

    The last block of a group may be missing where the time limit cut it: in the last group, and where that was
    noted.

    :param trials: of one benchmark and one figure, those that failed included.
    """
    if arm == _HOST and of_many_hosts(environment):
        return _NOTHING
    blocks = {(one.group, one.block) for one in trials}
    absent = blocks - {(one.group, one.block) for one in trials if one.arm == arm}
    if absent:
        absent -= _cut_off(absent, blocks, environment)
    unknown = _not_booted(environment, arm)
    if not unknown:
        return Missing(len(absent), frozenset(absent)) if absent else _NOTHING
    sizes = collections.Counter(group for group, _ in blocks)
    usual = round(statistics.median(sizes.values())) if sizes else 0
    boots = frozenset(unknown - sizes.keys())
    return Missing(len(absent) + len(boots) * usual, frozenset(absent), boots)


def _cut_off(absent: Set[Block], blocks: Set[Block], environment: Mapping[str, Any]) -> set[Block]:
    """Return which absent blocks are the last of a group that the time limit may have cut, and alone in it."""
    last: dict[int, int] = {}
    for group, block in blocks:
        last[group] = max(block, last.get(group, block))
    lacking = collections.Counter(group for group, _ in absent)
    may_be_cut = {max(last)} | _cut(environment)
    return {one for one in absent if one[0] in may_be_cut and lacking[one[0]] == 1 and one[1] == last[one[0]]}


def _cut(environment: Mapping[str, Any]) -> set[int]:
    """Return the groups that the time limit cut, as the session noted it."""
    return {
        one["group"]
        for one in environment.get("errors", ())
        if "arm" not in one and "group" in one and _CUT in one["error"]
    }


def _not_booted(environment: Mapping[str, Any], arm: str) -> set[int]:
    """Return the groups in which the guest of ``arm`` did not boot."""
    if of_many_hosts(environment):  # there a pair that failed was tried again, or its hosts were given up
        return set()
    return {
        one["group"]
        for one in environment.get("errors", ())
        if one.get("arm") == arm and "benchmark" not in one and "group" in one
    }
