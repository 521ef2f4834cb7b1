# SPDX-License-Identifier: Apache-2.0
"""From trials to a figure with an interval.

The unit of replication is the boot: each gives one number, the median of its blocks, and the interval is
Student's t over the boots. A comparison is made of the log-ratios of the two arms within each block. What that is
worth is simulated by ``tests.benchmarks.monte_carlo``; see doc/source/contributor/statistics.rst.
"""

import dataclasses
import functools
import math
import statistics as standard
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.validation.measure import model

#: One boot says nothing of how boots differ.
MIN_BOOTS = 2

#: Of the error probability, spent at the interim look; the rest is for the end.
LOOK_SHARE: Final = 0.4

#: Two boots that contradict each other reach any number; its exponential has to be one.
_MAX_LOG = 200.0


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and what is known of its uncertainty; a ratio has all its figures as ratios.

    :ivar value: the mean of the boots' medians (of their logarithms, for rates, costs and ratios).
    :ivar low, high: its interval at :attr:`confidence`; None from a single boot.
    :ivar n, boots: values (pairs, for a ratio) and boots they come from.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    boots: int
    confidence: float


def estimate(
    samples: Mapping[int, Sequence[float]], confidence: float = 0.95, *, positive: bool = False
) -> Estimate | None:
    """Return the figure of some boots; None when there is no value.

    :param samples: boot -> values of its blocks.
    :param positive: of rates and costs: worked out on their logarithms, unless one of them is not positive.
    """
    known = [values for values in samples.values() if values]
    if not known:
        return None
    if positive and min(map(min, known)) > 0:
        logs = {boot: [math.log(value) for value in values] for boot, values in samples.items()}
        return ratio_of(logs, confidence)
    medians = [standard.median(values) for values in known]
    middle, low, high = standard.fmean(medians), None, None
    if len(medians) >= MIN_BOOTS:
        spread = standard.stdev(medians, middle) / math.sqrt(len(medians))
        half = student_t((1 + confidence) / 2, len(medians) - 1) * spread
        low, high = middle - half, middle + half
    return Estimate(middle, low, high, sum(map(len, known)), len(medians), confidence)


def ratio_of(logs: Mapping[int, Sequence[float]], confidence: float = 0.95) -> Estimate | None:
    """Return the figure of some boots from logarithms such as :func:`log_ratios` gives; None without any."""

    def exp(log: float) -> float:
        return math.exp(min(max(log, -_MAX_LOG), _MAX_LOG))

    log_estimate = estimate(logs, confidence)
    if log_estimate is None:
        return None
    low, high = (None if log is None else exp(log) for log in (log_estimate.low, log_estimate.high))
    return dataclasses.replace(log_estimate, value=exp(log_estimate.value), low=low, high=high)


def interim_confidence(promised: float, looks: Sequence[int], boots: int) -> float:
    """Return the confidence of an interval over ``boots`` boots that keeps the promise over both looks at a run.

    Each look, after so many boots, is a chance to be wrong, so that they share the error probability (Bonferroni's
    inequality: it holds for any statistic). A run without an interim look has all of it at its end. The shares are
    this program's own, whatever a results file says: more looks share :data:`LOOK_SHARE`.
    """
    if boots in looks:
        share = LOOK_SHARE / len(set(looks))
    else:
        share = 1.0 - LOOK_SHARE if any(look < boots for look in looks) else 1.0
    return 1 - (1 - promised) * share


def by_boot(
    trials: Iterable[model.Trial], figure: Callable[[model.Trial], float | None]
) -> dict[int, list[float]]:
    """Return boot -> figure of each of its trials that has one."""
    return grouped((trial.boot, value) for trial in trials if (value := figure(trial)) is not None)


def median(values: Sequence[float]) -> float | None:
    return standard.median(values) if values else None


def log_ratios(trials: Iterable[model.Trial], arm: str, baseline: str) -> dict[int, list[float]]:
    """Return boot -> log(arm / baseline) of every block that has both, positive for a gain.

    :param trials: of one benchmark and one metric. Within a block several trials of an arm give their median.
    """
    sign = 1.0
    arms: dict[str, dict[tuple[int, int], list[float]]] = {arm: {}, baseline: {}}
    for trial in trials:
        # A trial that failed has no figure, and may name another metric with another better way.
        if trial.arm in arms and trial.value is not None and trial.value > 0:
            sign = -1.0 if trial.better == "lower" else 1.0
            arms[trial.arm].setdefault((trial.boot, trial.block), []).append(trial.value)
    logs = {name: {block: math.log(standard.median(some)) for block, some in arms[name].items()} for name in arms}
    both = sorted(arms[arm].keys() & arms[baseline].keys())
    return grouped((block[0], sign * (logs[arm][block] - logs[baseline][block])) for block in both)


@functools.cache
def student_t(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t; ModuleNotFoundError: scipy is missing."""
    from scipy import special  # an extra of this program; scipy.stats takes a second to load

    return float(special.stdtrit(freedom, probability))
