# SPDX-License-Identifier: Apache-2.0
"""From trials to a figure with an interval.

The unit of replication is the boot: each gives one number, the median of its blocks, and the
interval is Student's t over the boots. A comparison is made of the log-ratios of the two arms
within each block. What that is worth is simulated by ``tests.benchmarks.monte_carlo``; see
doc/source/contributor/statistics.rst.
"""

import dataclasses
import functools
import math
import statistics as standard
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.results import model

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
    :param positive: of rates and costs: worked out on their logarithms, unless one of them is not
        positive.
    """
    known = [values for values in samples.values() if values]
    if not known:
        return None
    if positive and min(map(min, known)) > 0:
        logs: dict[int, list[float]] = {}
        for boot, values in samples.items():
            logs[boot] = [math.log(value) for value in values]
        return ratio_of(logs, confidence)
    medians = [standard.median(values) for values in known]
    middle = standard.fmean(medians)
    low = high = None
    if len(medians) >= MIN_BOOTS:
        spread = standard.stdev(medians, middle) / math.sqrt(len(medians))
        half = student_t((1 + confidence) / 2, len(medians) - 1) * spread
        low, high = middle - half, middle + half
    return Estimate(middle, low, high, sum(map(len, known)), len(medians), confidence)


def ratio_of(logs: Mapping[int, Sequence[float]], confidence: float = 0.95) -> Estimate | None:
    """Return the figure of some boots from logarithms such as :func:`log_ratios` gives.

    None: there are no logarithms.
    """
    log_estimate = estimate(logs, confidence)
    if log_estimate is None:
        return None
    low = high = None
    if log_estimate.low is not None and log_estimate.high is not None:
        low, high = _exp(log_estimate.low), _exp(log_estimate.high)
    return dataclasses.replace(log_estimate, value=_exp(log_estimate.value), low=low, high=high)


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_MAX_LOG), _MAX_LOG))


def unpaired_ratio(
    logs: Mapping[int, Sequence[float]],
    baseline: Mapping[int, Sequence[float]],
    confidence: float = 0.95,
) -> Estimate | None:
    """Return the ratio of two arms whose boots nothing pairs; None: one of them has no value.

    It is Welch's t-test (1947) on the boots' medians of logarithms.

    :param logs, baseline: boot -> logarithms of the trials of either arm.
    """
    means: list[float] = []
    errors: list[float] = []  # squares of the standard errors
    boots: list[int] = []
    count = 0
    for samples in (logs, baseline):
        medians = [standard.median(values) for values in samples.values() if values]
        if not medians:
            return None
        middle = standard.fmean(medians)
        means.append(middle)
        boots.append(len(medians))
        count += sum(map(len, samples.values()))
        if len(medians) >= MIN_BOOTS:
            errors.append(standard.variance(medians, middle) / len(medians))
    difference = means[0] - means[1]
    low = high = None
    if len(errors) == 2:
        half = 0.0
        error = sum(errors)
        if error:
            shares = [square**2 / (n - 1) for square, n in zip(errors, boots, strict=True)]
            freedom = error**2 / sum(shares)
            half = student_t((1 + confidence) / 2, freedom) * math.sqrt(error)
        low, high = _exp(difference - half), _exp(difference + half)
    return Estimate(_exp(difference), low, high, count, min(boots), confidence)


def signed_logs(trials: Iterable[model.Trial], arm: str) -> dict[int, list[float]]:
    """Return boot -> logarithms of an arm's trials, turned so that more is better."""
    logs: dict[int, list[float]] = {}
    for trial in trials:
        if trial.arm == arm and trial.value is not None and trial.value > 0:
            log = math.log(trial.value)
            if trial.better == "lower":
                log = -log
            logs.setdefault(trial.boot, []).append(log)
    return logs


def interim_confidence(promised: float, looks: Sequence[int], boots: int) -> float:
    """Return the confidence of an interval over ``boots`` boots, for both looks to keep a promise.

    Each look, after so many boots, is a chance to be wrong, so that they share the error
    probability (Bonferroni's inequality: it holds for any statistic). A run without an interim
    look has all of it at its end. The shares are this program's own, whatever a results file
    says: more looks share :data:`LOOK_SHARE`.
    """
    if boots in looks:
        share = LOOK_SHARE / len(set(looks))
    elif any(look < boots for look in looks):
        share = 1.0 - LOOK_SHARE
    else:
        share = 1.0
    return 1 - (1 - promised) * share


def by_boot(
    trials: Iterable[model.Trial], figure: Callable[[model.Trial], float | None]
) -> dict[int, list[float]]:
    """Return boot -> figure of each of its trials that has one."""
    samples: dict[int, list[float]] = {}
    for trial in trials:
        value = figure(trial)
        if value is not None:
            samples.setdefault(trial.boot, []).append(value)
    return samples


def with_worst(
    samples: Mapping[int, Sequence[float]],
    worst_of: Callable[[Iterable[float]], float],
    boots: Iterable[int],
) -> Mapping[int, Sequence[float]]:
    """Return samples with the worst of all once more for each of ``boots``.

    These are of blocks that ended worse than any.
    """
    if not samples:
        return samples
    whole: dict[int, list[float]] = {}
    every_value: list[float] = []
    for boot, values in samples.items():
        whole[boot] = list(values)
        every_value += values
    worst_value = worst_of(every_value)
    for boot in boots:
        whole.setdefault(boot, []).append(worst_value)
    return whole


def median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return standard.median(values)


def log_ratios(trials: Iterable[model.Trial], arm: str, baseline: str) -> dict[int, list[float]]:
    """Return boot -> log(arm / baseline) of every block that has both, positive for a gain.

    :param trials: of one benchmark and one metric. Within a block several trials of an arm give
        their median.
    """
    sign = 1.0
    arms: dict[str, dict[tuple[int, int], list[float]]] = {arm: {}, baseline: {}}
    for trial in trials:
        # A trial that failed has no figure, and may name another metric with another better way.
        if trial.arm in arms and trial.value is not None and trial.value > 0:
            sign = -1.0 if trial.better == "lower" else 1.0
            block = (trial.boot, trial.block)
            arms[trial.arm].setdefault(block, []).append(trial.value)
    ratios: dict[int, list[float]] = {}
    for block in sorted(arms[arm].keys() & arms[baseline].keys()):
        of_arm = math.log(standard.median(arms[arm][block]))
        of_baseline = math.log(standard.median(arms[baseline][block]))
        ratios.setdefault(block[0], []).append(sign * (of_arm - of_baseline))
    return ratios


@functools.cache
def student_t(probability: float, freedom: float) -> float:
    """Return a quantile of Student's t; ModuleNotFoundError: scipy is missing."""
    from scipy import special  # an extra of this program; scipy.stats takes a second to load

    return float(special.stdtrit(freedom, probability))
