"""What a history says: where a host changed.

Change points: binary segmentation with Student's t, corrected for the number of places to cut (as Hunter does,
Fleming et al. 2023).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

import numpy as np
from scipy import stats

#: A shift must last for so many runs: one strange run is no change.
LEAST_RUNS = 3
#: Smaller shifts are not worth a word, however certain.
_LEAST_SHARE = 0.01
#: Probability of a change point in a history that has none.
_LEVEL = 0.01
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
