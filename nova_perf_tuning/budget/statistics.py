"""From trials to a figure with an interval.

The unit of replication is the boot (group) and, within it, the block; seconds of one run are no replicates.
A comparison is the median of per-block log-ratios. Its interval is the hull of two:

* Student's t over the medians of the boots, with one degree of freedom less than there are boots. It stays
  conservative when boots differ in spread, for 5 % and less (Bakirov and Szekely 2005; Ibragimov and Mueller 2010,
  "t-Statistic Based Correlation and Heterogeneity Robust Inference"), which makes it honest with few boots;
* a hierarchical bootstrap: boots are drawn with replacement, then blocks within each (Davison and Hinkley,
  Bootstrap Methods, 3.8), its percentiles taken a little further out as small samples need (Hesterberg 2015,
  "What Teachers Should Know About the Bootstrap"; n is the number of pairs). It keeps the interval from being
  narrow where the boots happen to agree better than their blocks do.

Simulated coverage stands in doc/source/contributor/statistics.rst, made by ``tests.benchmarks.coverage``.
One boot alone says nothing about others: there is an interval for that boot, and no verdict. Where hosts of one
kind were measured together, how boots differ is known from all of them (:mod:`nova_perf_tuning.budget.pooling`):
then their spread and its degrees of freedom stand in Student's t. The bootstrap stays, since it follows the blocks
of the very host: one that is noisier than the others gets a wider interval from it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics as standard
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.budget import model, steps

#: Fewer values carry no 95 % interval of a median: with 5 the range of all covers 93.75 %.
MIN_VALUES = 6
DRAWS = 2000
#: Intervals of ratios end here (a factor of 10^8): two boots that contradict each other reach any number.
_LOG_LIMIT = math.log(1e8)
#: No figure that is read comes near; its exponential still is a number.
_MAX_LOG = 200.0
_TRIM = 0.2
#: From so many groups on the order statistics of their medians take the bootstrap's part.
_MANY = 200
#: Numbers that are drawn at once: 8 bytes each, several times over.
_AT_ONCE = 2_000_000
#: Beyond so many numbers only those are drawn that are used.
_MOST_PLACES = 100_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """How much boots differ, from more than the boots of one host.

    :ivar sd: standard deviation of the medians of boots, as logarithms; :ivar freedom: its degrees of freedom.
    :ivar hosts: whose boots it comes from.
    """

    sd: float
    freedom: int
    hosts: int


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
    samples: Mapping[int, Sequence[float]],
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
    positive: bool = False,
    spread: Spread | None = None,
) -> Estimate | None:
    """Return the median of all values with its interval; None when there is no value.

    :param samples: group -> values of its blocks.
    :param seed: of the bootstrap, which has nothing to do with the seed of a run: the same figures give the same
        interval, whoever measured them.
    :param positive: of rates and costs: the interval is made of their logarithms, unless one of them is not
        positive after all, so that it never reaches below 0.
    :param spread: of boots, where more is known of it than these samples say. It is one of logarithms: figures
        that ``positive`` could not make logarithms of go without it. A larger spread of their own counts instead,
        with the degrees of freedom of this one: the hosts it comes from may be steadier.
    """
    groups = [[float(value) for value in values] for _, values in sorted(samples.items()) if values]
    pooled = sorted(value for values in groups for value in values)
    if not pooled:
        return None
    low, high = None, None
    note = f"n too small: {len(pooled)} of at least {MIN_VALUES}, so no interval"
    if len(pooled) >= MIN_VALUES:
        if positive and pooled[0] > 0:
            logs = [[math.log(value) for value in values] for values in groups]
            low, high = map(_exp, _interval(logs, confidence, seed, draws, spread))
        else:
            spread = None if positive else spread
            low, high = _interval(groups, confidence, seed, draws, spread)
        note = _caution(len(groups), spread)
    return Estimate(
        value=standard.median(pooled),
        low=low,
        high=high,
        n=len(pooled),
        groups=len(groups),
        confidence=confidence,
        trimmed_mean=_trimmed_mean(pooled),
        hodges_lehmann=_hodges_lehmann(tuple(pooled)),
        note=note,
    )


def _caution(groups: int, spread: Spread | None) -> str:
    if groups == 1:
        return "one boot only: how boots differ is not in the interval"
    if spread is not None:
        return pooled_note(spread)
    return "" if groups >= 3 else "two boots only: the interval is wide, since two hardly show how boots differ"


def pooled_note(spread: Spread) -> str:
    """Return what to say of an interval that has its spread of boots from several hosts."""
    return f"spread of boots pooled over {spread.hosts} hosts"


def median(values: Sequence[float]) -> float | None:
    """Return the median, None of nothing."""
    return standard.median(values) if values else None


def ratio(
    trials: Sequence[model.Trial], arm: str, baseline: str, confidence: float = 0.95, seed: int = 0
) -> Estimate | None:
    """Return ``arm`` / ``baseline`` over blocks, turned so that more than 1 is a gain; None without a pair.

    :param trials: of one benchmark and one metric. Within a block several trials of an arm give their median.
    """
    return ratio_of(log_ratios(trials, arm, baseline), confidence, seed, blur=steps.blur(trials, arm, baseline))


def ratio_of(
    samples: Mapping[int, Sequence[float]],
    confidence: float = 0.95,
    seed: int = 0,
    spread: Spread | None = None,
    blur: steps.Blur = steps.SHARP,
) -> Estimate | None:
    """Return the ratio of what :func:`log_ratios` found; None without a pair.

    :param spread: as :func:`estimate` has it.
    :param blur: by how much the interval is wider, since figures come in whole steps.
    """
    logs = estimate(samples, confidence, seed, spread=spread)
    if logs is None:
        return None
    return dataclasses.replace(
        logs,
        value=math.exp(logs.value),
        low=None if logs.low is None else _exp(max(logs.low - blur.log, -_LOG_LIMIT)),
        high=None if logs.high is None else _exp(min(logs.high + blur.log, _LOG_LIMIT)),
        note="; ".join(filter(None, (logs.note, blur.note))),
        trimmed_mean=math.exp(logs.trimmed_mean),
        hodges_lehmann=math.exp(logs.hodges_lehmann),
    )


def log_ratios(trials: Iterable[model.Trial], arm: str, baseline: str) -> dict[int, list[float]]:
    """Return group -> log(arm / baseline) of every block that has both, positive for a gain."""
    return Blocks(one for one in trials if one.arm in (arm, baseline)).log_ratios(arm, baseline)


def with_again(
    samples: Mapping[int, Sequence[float]], worst_of: Callable[[Iterable[float]], float], groups: Iterable[int]
) -> dict[int, list[float]]:
    """Return samples with the worst of them once more for each of ``groups``: blocks that ended worse than any.

    :param worst_of: ``min`` or ``max``.
    """
    worst = worst_of(value for values in samples.values() for value in values)
    found = {group: list(values) for group, values in samples.items()}
    for group in groups:
        found.setdefault(group, []).append(worst)
    return found


class Blocks:
    """Trials of one figure, looked up by arm and block: any number of arms are compared in one pass over them."""

    def __init__(self, trials: Iterable[model.Trial]) -> None:
        self._sign = 1.0
        self._arms: dict[str, dict[tuple[int, int], list[float]]] = {}
        for one in trials:
            # A trial that failed has no figure, and may name another metric with another better way.
            if one.value is not None and one.value > 0:
                self._sign = -1.0 if one.better == "lower" else 1.0
                blocks = self._arms.setdefault(one.arm, {})
                blocks.setdefault((one.group, one.block), []).append(one.value)

    def log_ratios(self, arm: str, baseline: str) -> dict[int, list[float]]:
        """Return what the function of this name does."""
        mine, others = (self._arms.get(name, {}) for name in (arm, baseline))
        found: dict[int, list[float]] = {}
        for block in sorted(mine.keys() & others.keys()):
            log = math.log(_middle(mine[block])) - math.log(_middle(others[block]))
            found.setdefault(block[0], []).append(self._sign * log)
        return found


def _middle(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else standard.median(values)


def _interval(
    groups: list[list[float]], confidence: float, seed: int, draws: int, spread: Spread | None
) -> tuple[float, float]:
    medians = [standard.median(values) for values in groups]
    if len(groups) > _MANY:
        low, high = _of_many(medians, confidence)
        pooled = standard.median(value for values in groups for value in values)
        low, high = min(low, pooled), max(high, pooled)
    else:
        low, high = _bootstrap(groups, confidence, seed, draws)
    if len(groups) == 1:
        return low, high
    middle = standard.fmean(medians)
    sd, freedom = standard.stdev(medians, middle), len(groups) - 1
    if spread is not None:
        sd, freedom = max(sd, spread.sd), spread.freedom
    reach = student_t((1 + confidence) / 2, freedom) * sd / math.sqrt(len(groups))
    return min(low, middle - reach), max(high, middle + reach)


def _bootstrap(groups: Sequence[Sequence[float]], confidence: float, seed: int, draws: int) -> tuple[float, float]:
    medians = _drawn_medians(tuple(map(tuple, groups)), seed, draws)
    tail = expanded_tail(confidence, sum(map(len, groups)))
    return _percentile(medians, tail), _percentile(medians, 1 - tail)


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile by linear interpolation: type 7 of Hyndman and Fan (1996), numpy's default."""
    place = (len(ordered) - 1) * share
    low, part = int(place), place - int(place)
    first, second = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    step = second - first
    return float(first + step * part if part < 0.5 else second - step * (1 - part))


@functools.lru_cache(maxsize=32)  # one set of samples is looked at with several levels of confidence
def _drawn_medians(groups: tuple[tuple[float, ...], ...], seed: int, draws: int) -> Any:
    """Return the medians of all draws in ascending order."""
    np = _numpy()
    values = np.array([value for group in groups for value in group])
    counts, totals = _counts(tuple(map(len, groups)), seed, draws)
    order = np.argsort(values, kind="stable")
    values = values[order]
    # Row k: how many of a draw's values are among the k + 1 smallest. Whole rows are added up some five times as
    # fast as numpy's cumsum goes down columns.
    below = counts[order]
    for before, row in itertools.pairwise(below):
        row += before
    lower, upper = (
        values[(below <= rank).sum(axis=0, dtype=counts.dtype)] for rank in ((totals - 1) // 2, totals // 2)
    )
    return np.sort((lower + upper) / 2)


@functools.lru_cache(maxsize=16)  # hosts of a fleet have the same plan, and so the same draws
def _counts(sizes: tuple[int, ...], seed: int, draws: int) -> Any:
    """Return how often each value (rows) is in each draw (columns), and how many values each draw has.

    Both are of the smallest kind of number that also holds a count of rows.
    """
    np = _numpy()
    random = np.random.default_rng(seed)
    widest, n = max(sizes), sum(sizes)
    boots = random.integers(0, len(sizes), (draws, len(sizes)))
    per_draw = len(sizes) * widest
    at_once = max(1, _AT_ONCE // per_draw)
    places = _places if draws * per_draw <= _MOST_PLACES else _places_of_uneven
    totals = np.array(sizes)[boots].sum(axis=1)
    kind = np.min_scalar_type(max(n, int(totals.max())))
    counts = np.empty((n, draws), dtype=kind)
    for begin in range(0, draws, at_once):
        part = slice(begin, begin + at_once)
        some = boots[part]
        drawn = np.bincount(places(random, sizes, some), minlength=len(some) * n)
        counts[:, part] = drawn.reshape(len(some), n).T
    return counts, totals.astype(kind)


def _places(random: Any, sizes: tuple[int, ...], boots: Any) -> Any:
    """Return draw * n + value for each value drawn from ``boots`` (draws by boots), as many as the boots have.

    All boots get as many numbers as the largest has blocks, so that parts of the draws give what all at once do.
    """
    np = _numpy()
    widest, n = max(sizes), sum(sizes)
    of_boot = np.array(sizes)[boots][:, :, None]
    if min(sizes) == widest:
        blocks = random.integers(0, widest, (*boots.shape, widest))
    else:
        blocks = (random.random((*boots.shape, widest)) * of_boot).astype(np.intp)
    first = np.cumsum([0, *sizes[:-1]])[boots][:, :, None]
    places = first + blocks + n * np.arange(len(boots))[:, None, None]
    return places[np.broadcast_to(np.arange(widest) < of_boot, places.shape)]


def _places_of_uneven(random: Any, sizes: tuple[int, ...], boots: Any) -> Any:
    """Return the same where few of those numbers would be used: one boot has thousands of blocks, others a few."""
    np = _numpy()
    of_boot = np.array(sizes)[boots]
    blocks = (random.random(int(of_boot.sum())) * np.repeat(of_boot, of_boot.ravel())).astype(np.intp)
    first = np.cumsum([0, *sizes[:-1]])[boots] + sum(sizes) * np.arange(len(boots))[:, None]
    return np.repeat(first, of_boot.ravel()) + blocks


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise errors.PerfTuningError(
            "numpy is missing; install nova-perf-tuning[report] for intervals and reports"
        ) from None
    return numpy


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
    return normal.cdf(-math.sqrt(n / (n - 1)) * student_t((1 + confidence) / 2, n - 1))


@functools.lru_cache(maxsize=4096)
def student_t(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t.

    Up to 40 degrees of freedom by bisection of the exact distribution (Abramowitz and Stegun 26.7.3 and 26.7.4),
    beyond that by their series 26.7.5, which is then right to six digits.
    """
    if probability < 0.5:
        return -student_t(1 - probability, freedom)
    if freedom > 40:
        return _t_series(probability, freedom)
    low, high = 0.0, 1.0
    while _t_between(high, freedom) < 2 * probability - 1 and high < 1e12:
        high *= 4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_between(middle, freedom) < 2 * probability - 1 else (low, middle)
    return (low + high) / 2


def _t_between(t: float, freedom: int) -> float:
    """Return the probability that Student's t lies between -t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    term, total = 1.0, 0.0
    if freedom % 2 == 0:
        for step in range(1, freedom, 2):
            total += term
            term *= step / (step + 1) * square
        return math.sin(angle) * total
    for step in range(2, freedom, 2):
        total += term
        term *= step / (step + 1) * square
    return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * total)


def _t_series(probability: float, freedom: int) -> float:
    x = standard.NormalDist().inv_cdf(probability)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_MAX_LOG), _MAX_LOG))


def _trimmed_mean(ordered: Sequence[float]) -> float:
    cut = int(len(ordered) * _TRIM)
    return standard.fmean(ordered[cut : len(ordered) - cut])


@functools.lru_cache(maxsize=32)  # as for the medians of draws
def _hodges_lehmann(ordered: tuple[float, ...]) -> float:
    """Return the median of the means of all pairs, each value with itself included."""
    # Beyond this the pairs would take seconds; the median of so many values needs no second opinion.
    if len(ordered) > 1000:
        return standard.median(ordered)
    if len(ordered) > 24:  # from here on numpy is faster
        np = _numpy()
        values = np.asarray(ordered)
        first, second = _pairs(len(ordered))
        return float(np.median(values[first] + values[second]) / 2)
    return standard.median((one + other) / 2 for index, one in enumerate(ordered) for other in ordered[index:])


@functools.lru_cache(maxsize=2)  # hosts of a fleet have the same plan
def _pairs(count: int) -> Any:
    """Return the indices of all pairs of ``count`` values, each value with itself included."""
    return _numpy().triu_indices(count)
