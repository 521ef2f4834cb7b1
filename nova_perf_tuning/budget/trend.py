"""What a history says: where a host changed, and which hosts differ from their equals.

Change points: binary segmentation with Student's t, corrected for the number of places to cut (as Hunter does,
Fleming et al. 2023). Outliers: the generalized ESD test (Rosner 1983) for up to a third of the hosts; its level is
such that among equal hosts at most one look of twenty calls any of them an outlier.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

#: A shift must last for so many runs: one strange run is no change.
LEAST_RUNS = 3
#: Hosts that there must be for one to be called different.
LEAST_PEERS = 5
#: Smaller shifts and differences are not worth a word, however certain.
_LEAST_SHARE = 0.01
#: Probability of a change point in a history that has none.
_LEVEL = 0.01
#: Level of the test for outliers with one step (5 or 6 hosts, Grubbs' test), and of each of several steps.
_OUTLIER_LEVEL, _STEP_LEVEL = 0.05, 0.03
#: Standard errors of logarithms below this are rounding.
_LEAST_ERROR = 1e-12


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """:ivar index: first run after the change; :ivar ratio: median after / median before."""

    index: int
    ratio: float


def changes(values: Sequence[float]) -> list[Change]:
    """Return the change points of a history of positive figures, in the order of time."""
    logs = np.log(values)
    ends = [0, *_cuts(logs), len(logs)]
    found = []
    for before, cut, after in zip(ends, ends[1:], ends[2:], strict=False):
        ratio = math.exp(statistics.median(logs[cut:after]) - statistics.median(logs[before:cut]))
        if abs(ratio - 1) >= _LEAST_SHARE:
            found.append(Change(cut, ratio))
    return found


def _cuts(logs: np.ndarray) -> list[int]:
    cuts = []
    segments = [(0, len(logs))]
    while segments:
        begin, end = segments.pop()
        n = end - begin
        if n < 2 * LEAST_RUNS:
            continue
        part = logs[begin:end] - logs[begin:end].mean()
        place = np.arange(LEAST_RUNS, n - LEAST_RUNS + 1)
        first = part.cumsum()[place - 1]  # what is behind a place has the same sum with the other sign
        squares = (part**2).sum() - first**2 * (1 / place + 1 / (n - place))
        error = np.sqrt(np.maximum(squares, 0) / (n - 2) * (1 / place + 1 / (n - place)))
        shifts = np.abs(first) * (1 / place + 1 / (n - place)) / np.maximum(error, _LEAST_ERROR)
        best = int(shifts.argmax())
        if shifts[best] > stats.t.ppf(1 - _LEVEL / (2 * len(place)), n - 2):
            cut = begin + int(place[best])
            cuts.append(cut)
            segments += [(begin, cut), (cut, end)]
    return sorted(cuts)


def outliers(values: Mapping[str, float]) -> dict[str, float]:
    """Return name -> robust z-score of those that differ from the rest, negative below; none of fewer than five.

    The score (median and MAD, Iglewicz and Hoaglin 1993) only says how far off one is.

    :param values: positive figures of equals.
    """
    if len(values) < LEAST_PEERS:
        return {}
    logs = {name: math.log(value) for name, value in values.items()}
    middle = statistics.median(logs.values())
    distances = [abs(log - middle) for log in logs.values()]
    # Where more than half are equal the mean distance stands in, as Iglewicz and Hoaglin propose.
    scale = statistics.median(distances) / 0.6745 or statistics.fmean(distances) * 1.253314
    return {
        name: (logs[name] - middle) / scale
        for name in _farthest(logs)
        if abs(math.expm1(logs[name] - middle)) >= _LEAST_SHARE
    }


def _farthest(logs: Mapping[str, float]) -> list[str]:
    """Return the outliers by the generalized ESD test."""
    rest = dict(logs)
    candidates: list[str] = []
    found = 0
    steps = (len(rest) - 1) // 3
    level = _OUTLIER_LEVEL if steps == 1 else _STEP_LEVEL
    for _ in range(steps):
        n = len(rest)
        mean, deviation = statistics.fmean(rest.values()), statistics.stdev(rest.values())
        if deviation < _LEAST_ERROR:
            break
        candidates.append(max(rest, key=lambda name: abs(rest[name] - mean)))
        t = float(stats.t.ppf(1 - level / (2 * n), n - 2))
        if abs(rest.pop(candidates[-1]) - mean) / deviation > (n - 1) * t / math.sqrt(n * (n - 2 + t * t)):
            found = len(candidates)
    return candidates[:found]
