"""What a history says: where a host changed, and which hosts differ from their equals.

Change points are found by binary segmentation with a t-test in place of permutations, as Hunter does (Fleming et
al. 2023, "Hunter: Using Change Point Detection to Hunt for Performance Regressions"), corrected for the number of
places where a segment could be cut.

Outliers are found by the generalized ESD test (Rosner 1983, "Percentage Points for a Generalized ESD Many-Outlier
Procedure", Technometrics 25): of up to a third of the hosts, the farthest from the mean of those left is compared
with what the farthest of so many equals reaches. The level is 5 % for a single step (5 and 6 hosts, where it is
Grubbs' test) and 3 % for each of several, so that among equal hosts with Gaussian noise at most one look of twenty
calls any of them an outlier, however many they are. Of 5,000 to 40,000 simulated groups:

===================  =====  =====  =====  =====  =====  =====  =====  =====  =====
hosts                    5      6      7      8     10     13     20     50    100
===================  =====  =====  =====  =====  =====  =====  =====  =====  =====
some host called     5.1 %  4.9 %  4.6 %  4.5 %  4.8 %  4.7 %  3.7 %  2.9 %  2.9 %
one 5 sd off found    38 %   52 %   51 %   60 %   69 %   78 %   85 %   89 %   88 %
===================  =====  =====  =====  =====  =====  =====  =====  =====  =====
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
#: Smaller shifts and differences are not worth a word, however certain.
_LEAST_SHARE = 0.01
#: Probability of a change point in a history that has none.
_LEVEL = 0.01
#: Probability that a look at equals calls any of them an outlier, and the level of each of several steps for it.
_OUTLIER_LEVEL, _STEP_LEVEL = 0.05, 0.03


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """:ivar index: first run after the change; :ivar ratio: median after / median before."""

    index: int
    ratio: float


def changes(values: Sequence[float], level: float = _LEVEL) -> list[Change]:
    """Return the change points of a history of positive figures, in the order of time."""
    logs = [math.log(value) for value in values]
    cuts = _cuts(logs, level)
    ends = [0, *cuts, len(logs)]
    found = []
    for before, cut, after in zip(ends, ends[1:], ends[2:], strict=False):
        ratio = math.exp(standard.median(logs[cut:after]) - standard.median(logs[before:cut]))
        if abs(ratio - 1) >= _LEAST_SHARE:
            found.append(Change(cut, ratio))
    return found


def _cuts(logs: Sequence[float], level: float) -> list[int]:
    found = []
    parts = [(0, len(logs))]
    while parts:
        begin, end = parts.pop()
        places = range(begin + LEAST_RUNS, end - LEAST_RUNS + 1)
        if not places:
            continue
        shifts = _shifts(logs[begin:end])[LEAST_RUNS : LEAST_RUNS + len(places)]
        limit = statistics.student_t(1 - level / (2 * len(places)), end - begin - 2)
        if max(shifts) > limit:
            best = places[shifts.index(max(shifts))]
            found.append(best)
            parts += [(begin, best), (best, end)]
    return sorted(found)


def _shifts(logs: Sequence[float]) -> list[float]:
    """Return, for each place, Student's t of the difference of the means before and from it.

    The variance is common to both. A place with nothing before it has 0.
    """
    before, after = _running(logs), _running(logs[::-1])[::-1]
    freedom = max(len(logs) - 2, 1)
    found = []
    for place, ((first, squares), (second, others)) in enumerate(zip(before, after, strict=True)):
        difference = abs(first - second)
        if not 0 < place < len(logs) or difference < 1e-12:
            found.append(0.0)
            continue
        share = 1 / place + 1 / (len(logs) - place)
        error = math.sqrt((squares + others) / freedom * share)
        found.append(difference / error if error > 1e-12 else math.inf)
    return found


def _running(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return mean and squares about it of the first 0, 1, 2 ... values.

    Updated as Welford (1962) does: sums of squares would lose what figures that hardly differ have.
    """
    mean = squares = 0.0
    found = [(mean, squares)]
    for count, value in enumerate(values, 1):
        distance = value - mean
        mean += distance / count
        squares += distance * (value - mean)
        found.append((mean, squares))
    return found


def outliers(values: Mapping[str, float]) -> dict[str, float]:
    """Return name -> robust z-score of those that differ from the rest, negative below; none of fewer than five.

    Among equals there is any in at most 5 % of all looks, see the module. The score (median and MAD, Iglewicz and
    Hoaglin 1993, "How to Detect and Handle Outliers") only says how far off one is.

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
        name: (logs[name] - middle) / scale
        for name in _farthest(logs)
        if abs(math.expm1(logs[name] - middle)) >= _LEAST_SHARE
    }


def _farthest(logs: Mapping[str, float]) -> list[str]:
    """Return the outliers by the generalized ESD test."""
    left = sorted(logs, key=lambda name: logs[name])
    gone: list[str] = []
    found = 0
    steps = (len(left) - 1) // 3
    level = _OUTLIER_LEVEL if steps == 1 else _STEP_LEVEL
    for _ in range(steps):
        n = len(left)
        mean = standard.fmean(logs[name] for name in left)
        sd = math.sqrt(math.fsum((logs[name] - mean) ** 2 for name in left) / (n - 1))
        if sd < 1e-12:
            break
        gone.append(left.pop(0 if mean - logs[left[0]] > logs[left[-1]] - mean else -1))
        t = statistics.student_t(1 - level / (2 * n), n - 2)
        if abs(logs[gone[-1]] - mean) / sd > (n - 1) * t / math.sqrt(n * (n - 2 + t * t)):
            found = len(gone)
    return gone[:found]
