# SPDX-License-Identifier: Apache-2.0
"""Whether the trials of an arm have two speeds: then no mean or median is a speed that it has.

The logarithms of the figures are cut in two where both parts spread least. They are two speeds if
each part has enough of them and lies far from the other one, by the spread within the parts. What
that finds is in doc/source/contributor/statistics.rst.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C

#: Fewer trials, or boots, often fall into two heaps by chance.
LEAST: Final = 12
#: Each part has so many values that differ, and such a share of all: one or two strange trials
#: are no speed.
_LEAST_OF_PART: Final = 3
_LEAST_SHARE: Final = 0.2
#: How far the parts lie apart, by the spread within them, and as logarithms.
_LEAST_DISTANCE: Final = 6.0
_LEAST_LOG: Final = math.log(1.05)
#: Spreads of logarithms below this are rounding.
_LEAST_SPREAD: Final = 1e-9


class _Cut(NamedTuple):
    """:ivar at: number of values below; :ivar distance: of the means; :ivar spread: within parts."""

    at: int
    distance: float
    spread: float


def find(trials: Sequence[model.Trial]) -> Reason | None:
    """Return the two speeds of an arm; None: nothing shows them.

    :param trials: those of one arm and figure that count. Where most boots have one speed alone,
        boots are what counts, not their trials.
    """
    boots: dict[int, list[float]] = {}
    for trial in trials:
        if trial.value:
            boots.setdefault(trial.boot, []).append(trial.value)
    values = list(itertools.chain.from_iterable(boots.values()))
    border = _border(values)
    if border is None:
        return None
    what = "trials"
    mixed = sum(min(of_boot) < border <= max(of_boot) for of_boot in boots.values())
    if 2 * mixed < len(boots):
        what = "boots"
        values = [statistics.median(of_boot) for of_boot in boots.values()]
        border = _border(values)
    if border is None:
        return None
    low = [value for value in values if value < border]
    high = [value for value in values if value >= border]
    return reason(
        _C.TWO_SPEEDS,
        arm=trials[0].arm,
        low=statistics.median(low),
        high=statistics.median(high),
        unit=trials[0].unit,
        count=len(low),
        of=len(values),
        what=what,
    )


def _border(values: Sequence[float]) -> float | None:
    """Return the least value of the upper speed; None: there is one speed, or too few values."""
    if len(values) < LEAST:
        return None
    in_order = sorted(values)
    cut = _best([math.log(value) for value in in_order])
    smaller = min(cut.at, len(values) - cut.at)
    if smaller < _LEAST_SHARE * len(values):
        return None
    for part in (in_order[: cut.at], in_order[cut.at :]):
        if len(set(part)) < _LEAST_OF_PART:  # figures in coarse steps, such as counts
            return None
    if cut.distance < max(_LEAST_LOG, _LEAST_DISTANCE * cut.spread):
        return None
    return in_order[cut.at]


def _best(logs: Sequence[float]) -> _Cut:
    """Return where two parts of sorted values spread least."""
    count = len(logs)
    mean = math.fsum(logs) / count
    deviations = [log - mean for log in logs]
    squares = math.fsum(deviation**2 for deviation in deviations)
    least = math.inf
    best = _Cut(0, 0.0, 0.0)
    below = 0.0  # sum of the deviations before the cut; what is behind has the same with the other sign
    for at in range(1, count):
        below += deviations[at - 1]
        within = max(0.0, squares - below**2 / at - below**2 / (count - at))
        if within < least:
            least = within
            spread = max(_LEAST_SPREAD, math.sqrt(within / (count - 2)))
            best = _Cut(at, -below / (count - at) - below / at, spread)
    return best
