"""From trials to a figure with an interval.

The unit of replication is the boot: each gives one number, the median of its blocks, and the interval is
Student's t over the boots. A comparison is made of the log-ratios of the two arms within each block. What that is
worth is simulated by ``tests.benchmarks.monte_carlo``; see doc/source/contributor/statistics.rst.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics as standard
from collections.abc import Callable, Iterable, Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.validation.measure import model

#: One boot says nothing of how boots differ.
MIN_BOOTS = 2

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
        return _exp(_estimate([[math.log(value) for value in values] for values in known], confidence))
    return _estimate(known, confidence)


def _estimate(known: Sequence[Sequence[float]], confidence: float) -> Estimate:
    medians = [standard.median(values) for values in known]
    middle = standard.fmean(medians)
    low, high = None, None
    if len(medians) >= MIN_BOOTS:
        spread = standard.stdev(medians, middle) / math.sqrt(len(medians))
        half = student_t((1 + confidence) / 2, len(medians) - 1) * spread
        low, high = middle - half, middle + half
    return Estimate(middle, low, high, sum(map(len, known)), len(medians), confidence)


def _exp(logs: Estimate) -> Estimate:
    def exp(log: float) -> float:
        return math.exp(min(max(log, -_MAX_LOG), _MAX_LOG))

    low, high = (None if log is None else exp(log) for log in (logs.low, logs.high))
    return dataclasses.replace(logs, value=exp(logs.value), low=low, high=high)


def by_boot(
    trials: Iterable[model.Trial], figure: Callable[[model.Trial], float | None]
) -> dict[int, list[float]]:
    """Return boot -> figure of each of its trials that has one."""
    samples: dict[int, list[float]] = {}
    for trial in trials:
        if (value := figure(trial)) is not None:
            samples.setdefault(trial.boot, []).append(value)
    return samples


def median(values: Sequence[float]) -> float | None:
    """Return the median, None of nothing."""
    return standard.median(values) if values else None


def ratio(trials: Iterable[model.Trial], arm: str, baseline: str, confidence: float = 0.95) -> Estimate | None:
    """Return ``arm`` / ``baseline`` over blocks, turned so that more than 1 is a gain; None without a pair.

    :param trials: of one benchmark and one metric. Within a block several trials of an arm give their median.
    """
    return ratio_of(log_ratios(trials, arm, baseline), confidence)


def ratio_of(samples: Mapping[int, Sequence[float]], confidence: float = 0.95) -> Estimate | None:
    """Return the ratio of what :func:`log_ratios` found; None without a pair."""
    logs = estimate(samples, confidence)
    return None if logs is None else _exp(logs)


def log_ratios(trials: Iterable[model.Trial], arm: str, baseline: str) -> dict[int, list[float]]:
    """Return boot -> log(arm / baseline) of every block that has both, positive for a gain."""
    sign = 1.0
    arms: dict[str, dict[tuple[int, int], list[float]]] = {arm: {}, baseline: {}}
    for trial in trials:
        # A trial that failed has no figure, and may name another metric with another better way.
        if trial.arm in arms and trial.value is not None and trial.value > 0:
            sign = -1.0 if trial.better == "lower" else 1.0
            arms[trial.arm].setdefault((trial.boot, trial.block), []).append(trial.value)
    found: dict[int, list[float]] = {}
    for block in sorted(arms[arm].keys() & arms[baseline].keys()):
        log = math.log(standard.median(arms[arm][block])) - math.log(standard.median(arms[baseline][block]))
        found.setdefault(block[0], []).append(sign * log)
    return found


@functools.cache
def student_t(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t.

    :raises errors.PerfTuningError: scipy is missing.
    """
    try:
        from scipy import special  # an extra of this program; scipy.stats takes a second to load
    except ImportError:
        raise errors.PerfTuningError(
            "scipy is missing; install nova-perf-tuning[report] for intervals and verdicts"
        ) from None
    return float(special.stdtrit(freedom, probability))
