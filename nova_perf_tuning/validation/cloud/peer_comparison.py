# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a fleet are slow: every host by its best pair, against the median of all hosts.

A pair is as fast as the slower of its hosts allows, so that a slow host slows all its pairs and a good one only
those with slow peers (doc/source/admin/fleet.rst). A figure of which less is better, and which is 0 in most
trials, compares nobody: it has no ratio. Two hosts that were measured alone are compared with each other.
"""

import collections
import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.cloud import model
from nova_perf_tuning.validation.judge import statistics as intervals
from nova_perf_tuning.validation.judge.verdict import Verdict
from nova_perf_tuning.validation.measure import model as results

#: Fewest hosts among which a slow one can be found.
MIN_HOSTS: Final = 3
#: Probability that any host of a run of equal ones is called slow.
_WRONG: Final = 0.01
#: What figures of equal pairs differ by at least, as a standard deviation.
_LEAST_SPREAD: Final = 0.03


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What one figure says of the hosts; all but ``states`` as logarithms, more is better.

    :ivar states: of every host that was measured: PASS, FAIL (it is slow) or INCONCLUSIVE.
    :ivar logs: of all its pairs, the best, which is its value, last.
    :ivar middle, spread: what hosts are compared with, and the standard deviation of their values.
    :ivar enough: whether there are enough hosts to find a slow one.
    """

    states: Mapping[str, Verdict]
    logs: Mapping[str, Sequence[float]]
    middle: float
    spread: float
    enough: bool


def compare(
    measured: Iterable[tuple[model.HostPair, results.Trial]], limit: float
) -> dict[tuple[str, str], Comparison]:
    """Return (benchmark, arm) -> what it says of the hosts.

    :param measured: trials with the hosts that they are about, twice the same where there is one.
    :param limit: loss against the other hosts from which a pair has lost, 0.1 for a tenth.
    """
    series: dict[tuple[str, str], dict[model.HostPair, dict[int, list[float]]]] = {}
    turned: dict[tuple[str, str], int] = {}
    for pair, trial in measured:
        if trial.primary and trial.value is not None:
            key = trial.benchmark, trial.arm
            series.setdefault(key, {}).setdefault(pair, {}).setdefault(trial.boot, []).append(trial.value)
            turned[key] = -1 if trial.better == "lower" else 1

    comparisons = {}
    for key, of_pair in series.items():
        whole = {pair: [*itertools.chain(*boots.values())] for pair, boots in of_pair.items()}
        if any(map(any, whole.values())):
            medians = {pair: statistics.median(values) for pair, values in whole.items()}
            logs = {
                pair: turned[key] * (math.log(median) if median else -math.inf) for pair, median in medians.items()
            }
            comparisons[key] = _of_two(of_pair, turned[key], limit, len(series)) or judge(logs, limit, len(series))
    return comparisons


def _of_two(
    measured: Mapping[model.HostPair, Mapping[int, Sequence[float]]], turn: int, limit: float, figures: int
) -> Comparison | None:
    """Compare two hosts that were measured alone, the worse with the better one, by the mean of each boot.

    FAIL: Student's t over boots and the one over trials both say that chance does not explain the loss. None where
    there are others, too few boots, or one without throughput: :func:`judge` then finds nobody.
    """
    logs: dict[str, list[float]] = {}
    between, within = [], []  # deviations of boots from their host, and of trials from their boot
    for pair, boots in measured.items():
        # Of few trials the mean is the surer one: their median jumps where CPUs have two speeds.
        means = {boot: statistics.fmean(values) for boot, values in boots.items()}
        if pair.client != pair.server or len(means) < intervals.MIN_BOOTS or not all(means.values()):
            return None
        some = [turn * math.log(mean) for mean in means.values()]
        logs[pair.client] = [statistics.fmean(some)]
        between.append([log - logs[pair.client][0] for log in some])
        within.append([value / means[boot] - 1 for boot in boots for value in boots[boot]])
    if len(logs) != 2:
        return None
    middle, number = max(max(logs.values())), sum(map(len, between))
    spread, beyond = _chance(between, 2, _WRONG / (2 * figures))
    if sum(map(len, within)) > number:  # few boots agree by chance where trials differ a lot
        beyond = min(beyond, _chance(within, number, _WRONG / (2 * figures))[1])
    states = {}
    for host, [value] in logs.items():
        lost, certain = value - middle < math.log(1 - limit), value - middle < beyond
        states[host] = Verdict.PASS if not lost else Verdict.FAIL if certain else Verdict.INCONCLUSIVE
    return Comparison(states, logs, middle, spread, True)


def _chance(deviations: Sequence[Sequence[float]], means: int, probability: float) -> tuple[float, float]:
    """Return the spread of two hosts' deviations from so many means, and the difference that chance explains."""
    freedom = sum(map(len, deviations)) - means
    squares = sum(deviation**2 for some in deviations for deviation in some)
    spread = max(_LEAST_SPREAD, math.sqrt(squares / freedom))
    error = spread * math.sqrt(sum(1 / len(some) for some in deviations))
    return spread, intervals.student_t(probability, freedom) * error


def judge(
    logs: Mapping[model.HostPair, float], limit: float, figures: int = 1, reference: float | None = None
) -> Comparison:
    """Judge hosts by one figure of their pairs, each host by its best one.

    FAIL: it is below the median by more than the limit and by more spreads than equal hosts reach with 1 %, and
    the host has two peers, of whom one is good. INCONCLUSIVE: only the first holds.

    :param logs: of the figure of every pair, more is better; a pair of a host with itself is of that host alone.
    :param figures: benchmarks and arms of the run, which share the probability of a wrong FAIL.
    :param reference: what hosts are compared with in place of their median, such as the limit of a budget.
    """
    peers: dict[str, set[str]] = collections.defaultdict(set)
    of_hosts: dict[str, list[float]] = collections.defaultdict(list)
    for pair, log in sorted(logs.items(), key=lambda item: item[1]):
        for host in pair.hosts:
            peers[host] |= pair.hosts - {host}
            of_hosts[host].append(log)
    values = {host: some[-1] for host, some in of_hosts.items()}
    middle = statistics.median(values.values())
    deviations = [abs(value - middle) for value in values.values() if math.isfinite(value)]
    spread = max(_LEAST_SPREAD, 1.4826 * statistics.median(deviations)) if deviations else _LEAST_SPREAD
    if reference is not None:
        middle = reference
    beyond = statistics.NormalDist().inv_cdf(_WRONG / (figures * len(values))) * spread
    lost = {host for host, value in values.items() if value - middle < math.log(1 - limit)}
    states = {}
    for host, value in values.items():
        separable = not peers[host] or (len(peers[host]) > 1 and bool(peers[host] - lost))
        certain = len(values) >= MIN_HOSTS and separable and value - middle < beyond
        states[host] = Verdict.PASS if host not in lost else Verdict.FAIL if certain else Verdict.INCONCLUSIVE
    return Comparison(states, of_hosts, middle, spread, len(values) >= MIN_HOSTS)
