# SPDX-License-Identifier: Apache-2.0
"""How many more boots an INCONCLUSIVE verdict probably needs, and how long they take.

The interval of a figure narrows with the number of boots. The boots that decide are the fewest at
which it no longer reaches the limit, if the figure stays where it is and boots vary as those that
were measured.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.validation.judge import gates, statistics, verdict
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.results.reasons import Reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C

#: More boots than this are no advice.
MOST: Final = 200


@dataclasses.dataclass(frozen=True, slots=True)
class MoreBoots:
    """What would decide.

    :ivar boots: in all; None: more than :data:`MOST`, or it cannot be said.
    :ivar more: of these, not measured yet; :ivar seconds: that these take; None: not known.
    :ivar too_many: more than :data:`MOST` would be needed.
    """

    boots: int | None = None
    more: int | None = None
    seconds: float | None = None
    too_many: bool = False

    def params(self) -> Mapping[str, Any]:
        """Return parameters of the advice; none where nothing can be said."""
        if self.too_many:
            return {"most": MOST}
        if self.boots is None:
            return {}
        return {"boots": self.boots, "more": self.more, "seconds": self.seconds}


def of(judged: Sequence[verdict.Judgement], environment: Environment) -> MoreBoots:
    """Return what would decide every limit that is not decided."""
    needed = 0
    measured = 0
    for why in _undecided(judged):
        boots = boots_for(why)
        if boots is None:
            return MoreBoots(too_many=why.code is _C.UNDECIDED)
        needed = max(needed, boots)
        measured = max(measured, why.params["boots"])
    if needed <= measured:
        return MoreBoots()
    more = needed - measured
    seconds = None
    if environment.elapsed_s is not None and environment.boots_run:
        seconds = environment.elapsed_s / environment.boots_run * more
    return MoreBoots(needed, more, seconds)


def _undecided(judged: Iterable[verdict.Judgement]) -> list[Reason]:
    found: list[Reason] = []
    for judgement in judged:
        for word, why in judgement.verdicts_and_reasons:
            if word is gates.Verdict.INCONCLUSIVE:
                found.append(why)
    return found


def boots_for(why: Reason) -> int | None:
    """Return with how many boots a limit would be decided; None: more than :data:`MOST`, or unknown.

    :param why: that it is not.
    """
    if why.code is _C.TOO_FEW_BOOTS:
        return int(why.params["needed"])
    if why.code is not _C.UNDECIDED:
        return None
    about = why.params
    value, limit, boots = about["value"], about["limit"], about["boots"]
    # The end of the interval that lies beyond the limit; intervals of ratios are not symmetric.
    end = about["low"]
    if limit > value:
        end = about["high"]
    reach = abs(end - value)
    distance = abs(limit - value)
    probability = (1 + about["confidence"]) / 2
    spread = reach / _width(probability, boots)
    for number in range(boots + 1, MOST + 1):
        if spread * _width(probability, number) < distance:
            return number
    return None


def _width(probability: float, boots: int) -> float:
    """Return half the width of an interval of so many boots, in standard deviations."""
    return statistics.student_t(probability, boots - 1) / math.sqrt(boots)
