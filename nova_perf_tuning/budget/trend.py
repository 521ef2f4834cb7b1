"""What a history says: where a host changed, and which hosts differ from their equals.

Change points are found by binary segmentation with a t-test in place of permutations, as Hunter does (Fleming et
al. 2023, "Hunter: Using Change Point Detection to Hunt for Performance Regressions"), corrected for the number of
places where a segment could be cut. Outliers have a robust z-score (median and MAD) beyond 3.5 (Iglewicz and
Hoaglin 1993, "How to Detect and Handle Outliers").
"""

from __future__ import annotations

import dataclasses
import math
import statistics as standard
from collections.abc import Mapping, Sequence

from nova_perf_tuning.budget import statistics

#: A shift must last for so many runs: one strange run is no change.
LEAST_RUNS = 3
#: Hosts that there must be for one to be called different.
LEAST_PEERS = 5
#: Robust z-score from which a host is an outlier.
OUTLIER = 3.5
#: Smaller shifts and differences are not worth a word, however certain.
_LEAST_SHARE = 0.01
#: Probability of a change point in a history that has none.
_LEVEL = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """:ivar index: first run after the change; :ivar ratio: median after / median before."""

    index: int
    ratio: float


def changes(values: Sequence[float], level: float = _LEVEL) -> list[Change]:
    """Return the change points of a history of positive figures, in the order of time."""
    logs = [math.log(value) for value in values]
    cuts = sorted(_cuts(logs, 0, len(logs), level))
    ends = [0, *cuts, len(logs)]
    found = []
    for before, cut, after in zip(ends, ends[1:], ends[2:], strict=False):
        ratio = math.exp(standard.median(logs[cut:after]) - standard.median(logs[before:cut]))
        if abs(ratio - 1) >= _LEAST_SHARE:
            found.append(Change(cut, ratio))
    return found


def _cuts(logs: Sequence[float], begin: int, end: int, level: float) -> list[int]:
    places = range(begin + LEAST_RUNS, end - LEAST_RUNS + 1)
    if not places:
        return []
    best = max(places, key=lambda cut: _t(logs[begin:cut], logs[cut:end]))
    limit = statistics.student_t(1 - level / (2 * len(places)), end - begin - 2)
    if _t(logs[begin:best], logs[best:end]) <= limit:
        return []
    return [*_cuts(logs, begin, best, level), best, *_cuts(logs, best, end, level)]


def _t(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Student's t of the difference of two means, with a common variance."""
    means = (standard.fmean(first), standard.fmean(second))
    squares = sum((value - mean) ** 2 for part, mean in zip((first, second), means, strict=True) for value in part)
    difference = abs(means[0] - means[1])
    if difference < 1e-12:
        return 0.0
    error = math.sqrt(squares / (len(first) + len(second) - 2) * (1 / len(first) + 1 / len(second)))
    return difference / error if error > 1e-12 else math.inf


def outliers(values: Mapping[str, float]) -> dict[str, float]:
    """Return name -> robust z-score of those that differ from the rest, negative below; none of fewer than five.

    :param values: positive figures of equals.
    """
    if len(values) < LEAST_PEERS:
        return {}
    logs = {name: math.log(value) for name, value in values.items()}
    middle = standard.median(logs.values())
    distances = [abs(log - middle) for log in logs.values()]
    # Where more than half are equal the mean distance stands in, as Iglewicz and Hoaglin propose.
    scale = standard.median(distances) / 0.6745 or standard.fmean(distances) * 1.253314
    return {
        name: (log - middle) / scale
        for name, log in logs.items()
        if scale > 0 and abs(log - middle) / scale > OUTLIER and abs(math.expm1(log - middle)) >= _LEAST_SHARE
    }
