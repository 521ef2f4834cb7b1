"""From trials to a figure with an interval.

The unit of replication is the boot (group) and, within it, the block; seconds of one run are no replicates.
A comparison is the median of per-block log-ratios, its interval a hierarchical bootstrap: groups are drawn
with replacement, then blocks within each drawn group (Davison and Hinkley, Bootstrap Methods, 3.8). Its
percentiles are taken a little further out, as small samples need (Hesterberg 2015, "What Teachers Should Know
About the Bootstrap", expanded percentile interval; n is the number of pairs).

What such an interval covers, found by 1,500 simulations each with normal noise (the unit tests repeat a part):
nominal 95 %, spread between boots s_b beside the spread between blocks s:

=======================  =========  ===========  =========
groups x blocks          s_b = 0    s_b = s/2    s_b = s
=======================  =========  ===========  =========
2 x 3                    97 %       94 %         88 %
3 x 3                    99 %       97 %         94 %
2 x 6                    98 %       93 %         82 %
3 x 6                    98 %       94 %         88 %
4 x 6                    99 %       95 %         92 %
=======================  =========  ===========  =========

One boot alone says nothing about others: the text beside the interval says so.
"""

from __future__ import annotations

import dataclasses
import math
import statistics as standard
from collections.abc import Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.budget import model

#: Fewer values carry no 95 % interval of a median: with 5 the range of all covers 93.75 %.
MIN_VALUES = 6
DRAWS = 4000
_TRIM = 0.2
#: From so many groups on an interval comes from their medians' order statistics.
_MANY = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A median and what is known of its uncertainty; a ratio has all its figures as ratios.

    :ivar low, high: interval at :attr:`confidence`; None when there are fewer than six values.
    :ivar n, groups: values (pairs, for a ratio) and boots they come from.
    :ivar trimmed_mean: mean without the lowest and highest fifth.
    :ivar hodges_lehmann: median of all pairwise means, a check on the median.
    :ivar note: why there is no interval, or what it leaves out; empty if nothing is to be said.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    groups: int
    confidence: float
    trimmed_mean: float
    hodges_lehmann: float
    note: str


def estimate(
    samples: Mapping[int, Sequence[float]], confidence: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> Estimate | None:
    """Return the median of all values with its interval; None when there is no value.

    :param samples: group -> values of its blocks.
    :param seed: of the bootstrap; the same input and seed give the same interval.
    """
    groups = [[float(value) for value in values] for _, values in sorted(samples.items()) if values]
    pooled = sorted(value for values in groups for value in values)
    if not pooled:
        return None
    low, high = None, None
    note = f"n too small: {len(pooled)} of at least {MIN_VALUES}, so no interval"
    if len(pooled) >= MIN_VALUES:
        low, high = _interval(groups, confidence, seed, draws)
        note = _caution(len(groups))
    return Estimate(
        value=standard.median(pooled),
        low=low,
        high=high,
        n=len(pooled),
        groups=len(groups),
        confidence=confidence,
        trimmed_mean=_trimmed_mean(pooled),
        hodges_lehmann=_hodges_lehmann(pooled),
        note=note,
    )


def _caution(groups: int) -> str:
    if groups == 1:
        return "one boot only: how boots differ is not in the interval"
    return "" if groups >= 3 else "two boots only: the interval is narrower than three or more would give"


def median(values: Sequence[float]) -> float | None:
    """Return the median, None of nothing."""
    return standard.median(values) if values else None


def ratio(
    trials: Sequence[model.Trial], arm: str, baseline: str, confidence: float = 0.95, seed: int = 0
) -> Estimate | None:
    """Return ``arm`` / ``baseline`` over blocks, turned so that more than 1 is a gain; None without a pair.

    :param trials: of one benchmark and one metric. Within a block several trials of an arm give their median.
    """
    logs = estimate(log_ratios(trials, arm, baseline), confidence, seed)
    if logs is None:
        return None
    return dataclasses.replace(
        logs,
        value=math.exp(logs.value),
        low=None if logs.low is None else math.exp(logs.low),
        high=None if logs.high is None else math.exp(logs.high),
        trimmed_mean=math.exp(logs.trimmed_mean),
        hodges_lehmann=math.exp(logs.hodges_lehmann),
    )


def log_ratios(trials: Sequence[model.Trial], arm: str, baseline: str) -> dict[int, list[float]]:
    """Return group -> log(arm / baseline) of every block that has both, positive for a gain."""
    blocks: dict[tuple[int, int], dict[str, list[float]]] = {}
    for one in trials:
        if one.arm in (arm, baseline) and one.value is not None and one.value > 0:
            blocks.setdefault((one.group, one.block), {}).setdefault(one.arm, []).append(one.value)
    sign = -1.0 if any(one.better == "lower" for one in trials) else 1.0
    found: dict[int, list[float]] = {}
    for (group, _), values in sorted(blocks.items()):
        if arm in values and baseline in values:
            log = math.log(standard.median(values[arm])) - math.log(standard.median(values[baseline]))
            found.setdefault(group, []).append(sign * log)
    return found


def _interval(groups: list[list[float]], confidence: float, seed: int, draws: int) -> tuple[float, float]:
    if len(groups) > _MANY:
        low, high = _of_many([standard.median(values) for values in groups], confidence)
        pooled = standard.median(value for values in groups for value in values)
        return min(low, pooled), max(high, pooled)
    try:
        import numpy as np
    except ImportError:
        raise errors.PerfTuningError(
            "numpy is missing; install nova-perf-tuning[report] for intervals and reports"
        ) from None
    random = np.random.default_rng(seed)
    sizes = np.array([len(values) for values in groups])
    widest = int(sizes.max())
    # Short groups are padded with infinity, which sorts behind all values and is never picked.
    padded = np.full((len(groups), widest), np.inf)
    for index, values in enumerate(groups):
        padded[index, : len(values)] = values
    drawn = random.integers(0, len(groups), (draws, len(groups)))
    blocks = (random.random((draws, len(groups), widest)) * sizes[drawn][:, :, None]).astype(int)
    values = padded[drawn[:, :, None], blocks]
    values[np.arange(widest) >= sizes[drawn][:, :, None]] = np.inf
    ordered = np.sort(values.reshape(draws, -1), axis=1)
    count = sizes[drawn].sum(axis=1)
    rows = np.arange(draws)
    medians = (ordered[rows, (count - 1) // 2] + ordered[rows, count // 2]) / 2
    tail = expanded_tail(confidence, int(sizes.sum()))
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(low), float(high)


def _of_many(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return the interval of the median from order statistics (Conover, Practical Nonparametric Statistics, 3.2).

    It takes no draws: thousands of pairs of hosts would make them gigabytes.
    """
    ordered = sorted(values)
    reach = standard.NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(len(ordered)) / 2
    low = math.floor(len(ordered) / 2 - reach)
    return ordered[max(0, low - 1)], ordered[min(len(ordered) - 1, len(ordered) - low)]


def expanded_tail(confidence: float, n: int) -> float:
    """Return the tail probability whose percentile replaces ``(1 - confidence) / 2`` for ``n`` values."""
    normal = standard.NormalDist()
    return normal.cdf(-math.sqrt(n / (n - 1)) * student_t(1 - (1 - confidence) / 2, n - 1))


def student_t(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t; Abramowitz and Stegun 26.7.5, within 0.5 % for 5 degrees and more."""
    x = standard.NormalDist().inv_cdf(probability)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def _trimmed_mean(ordered: Sequence[float]) -> float:
    cut = int(len(ordered) * _TRIM)
    return standard.fmean(ordered[cut : len(ordered) - cut])


def _hodges_lehmann(ordered: Sequence[float]) -> float:
    """Return the median of the means of all pairs, each value with itself included."""
    # Beyond this the pairs would take seconds; the median of so many values needs no second opinion.
    if len(ordered) > 1000:
        return standard.median(ordered)
    return standard.median((one + other) / 2 for index, one in enumerate(ordered) for other in ordered[index:])
