"""How often one may look at growing data without breaking the promise of the verdict.

Every look is a chance to be wrong, so the looks share one error probability. What may have been spent by the time
t (elapsed over allowed, so that it does not depend on the data) is ``t ** POWER`` of it: a spending function of
Lan and DeMets (1983; over calendar time 1989) of the power family of Kim and DeMets (1987). A look is taken at the
part that was not spent before. The parts are simply added up (Bonferroni's inequality): a little more than exact
boundaries would need, and it holds for any statistic with any number of boots. Since every look takes its part,
looks are few: each is at about a third more boots than the one before (:func:`due`).

The last look, when time is up, has all that is left. A look at the same boots again replaces the one before: the
wider interval of the two holds the narrower one, so they can only be wrong together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

#: 1 spends evenly (like Pocock's boundaries), 3 spends late (like O'Brien and Fleming's).
POWER = 2.0

#: What the planned boots count of the time allowed, however quickly they are made: where only the clock counts,
#: a run of short trials has hardly any error to spend on them, and needs more boots for what is plain to see.
#: The rest is left for boots beyond the plan.
PLANNED = 0.9

#: Boots before the first look: an interval over two is hardly ever narrow enough for a verdict.
FIRST_LOOK = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """One look.

    :ivar groups: boots there were then.
    :ivar share: of the error probability, spent on this look.
    """

    groups: int
    share: float


def due(groups: int, planned: int) -> bool:
    """Return whether ``groups`` boots are to be looked at.

    :param planned: boots. There is a look when they are made, at three quarters as many, and so on down to
        :data:`FIRST_LOOK`, and at a third more, and so on. Of twelve: 3, 4, 6, 9, 12, then 16, 22.
    """
    at = planned
    if groups > planned:
        while at < groups:
            at = math.ceil(at * 4 / 3)
    else:
        while at > max(groups, FIRST_LOOK):
            at = max(FIRST_LOOK, at * 3 // 4)
    return at == groups


def time_share(clock: float, boots: float) -> float:
    """Return how much of the time allowed is over, for :func:`look`.

    :param clock: time elapsed over time allowed.
    :param boots: boots made over boots planned; more may follow. Neither knows the figures.
    """
    return max(clock, PLANNED * min(1.0, boots))


def look(before: Sequence[Look], groups: int, time_share: float, last: bool) -> list[Look]:
    """Return the looks including one at ``groups`` boots.

    :param before: earlier looks.
    :param time_share: as :func:`time_share` has it.
    :param last: no other look can follow: what is left is spent.
    """
    kept = [one for one in before if one.groups < groups]
    spent = sum(one.share for one in kept)
    allowed = 1.0 if last else min(1.0, max(0.0, time_share)) ** POWER
    return [*kept, Look(groups, max(0.0, allowed - spent))]


def confidence(promised: float, environment: Mapping[str, Any], groups: int) -> float:
    """Return the confidence of an interval over ``groups`` boots that keeps the promise over all looks.

    Results that nobody looked at before (no ``looks`` in their environment) have the promised one.
    """
    looks = [Look(int(one["groups"]), float(one["share"])) for one in environment.get("looks", [])]
    if looks and looks[-1].groups == groups:
        share = looks[-1].share
    else:  # ended between two looks, which no figure had a part in
        share = 1.0 - sum(one.share for one in looks if one.groups < groups)
    return 1 - (1 - promised) * min(1.0, max(share, 1e-6))


def as_data(looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Return looks as the results' environment has them."""
    return [{"groups": one.groups, "share": round(one.share, 9)} for one in looks]
