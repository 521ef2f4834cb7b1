# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a fleet are slow: every host by its best pair, against the median of all hosts.

A pair is as fast as the slower of its hosts allows: a slow host makes all its pairs slow, a good
one only those with slow peers (doc/source/admin/fleet.rst). A figure of which less is better, and
which is 0 in most trials, finds no slow host: it has no ratio. Two hosts that were measured alone
are compared with each other.
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.judge import statistics as intervals
from nova_perf_tuning.validation.judge.verdict import Verdict
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import model

#: Fewest hosts among which a slow one can be found.
MIN_HOSTS: Final = 3
#: Probability that a run over equal hosts finds a slow one.
_WRONG: Final = 0.01
#: Least standard deviation of the figures of equal pairs.
_LEAST_SPREAD: Final = 0.03


@dataclasses.dataclass(frozen=True, slots=True)
class PeerComparison:
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


@dataclasses.dataclass(slots=True)
class _Series:
    """What was measured of one benchmark in one arm.

    :ivar turn: -1 where less is better, else 1.
    :ivar values: pair -> boot -> figures of its trials.
    """

    turn: int = 1
    values: dict[fleet_model.HostPair, dict[int, list[float]]] = dataclasses.field(
        default_factory=dict
    )

    def add(self, pair: fleet_model.HostPair, trial: model.Trial, value: float) -> None:
        self.turn = 1
        if trial.better == "lower":
            self.turn = -1
        self.values.setdefault(pair, {}).setdefault(trial.boot, []).append(value)

    def logs(self) -> dict[fleet_model.HostPair, float]:
        """Return pair -> log of its median; empty where all figures are 0."""
        logs = {}
        only_zeros = True
        for pair, boots in self.values.items():
            values: list[float] = []
            for of_boot in boots.values():
                values.extend(of_boot)
            if any(values):
                only_zeros = False
            median = statistics.median(values)
            log = -math.inf
            if median:
                log = math.log(median)
            logs[pair] = self.turn * log
        if only_zeros:
            return {}
        return logs


def compare(
    measured: Iterable[tuple[fleet_model.HostPair, model.Trial]], limit: float
) -> dict[tuple[str, str], PeerComparison]:
    """Return (benchmark, arm) -> what it says of the hosts.

    :param measured: trials with the hosts that they are about, twice the same where there is one.
    :param limit: loss against the other hosts from which a pair has lost, 0.1 for a tenth.
    """
    series: dict[tuple[str, str], _Series] = collections.defaultdict(_Series)
    for pair, trial in measured:
        if trial.primary and trial.value is not None:
            series[trial.benchmark, trial.arm].add(pair, trial, trial.value)

    comparisons = {}
    for key, one in series.items():
        logs = one.logs()
        if not logs:
            continue
        comparison = _of_two(one, limit, len(series))
        if comparison is None:
            comparison = judge(logs, limit, len(series))
        if math.isfinite(comparison.middle):
            comparisons[key] = comparison
    return comparisons


def _of_two(series: _Series, limit: float, figures: int) -> PeerComparison | None:
    """Compare two hosts that were measured alone, by the mean of each boot.

    FAIL: Student's t over boots and the one over trials both say that chance does not explain the
    loss. None: there are other hosts, too few boots, or one without throughput; :func:`judge` then
    finds no slow host.
    """
    logs: dict[str, list[float]] = {}
    between: list[list[float]] = []  # deviations of boots from their host
    within: list[list[float]] = []  # deviations of trials from their boot
    for pair, boots in series.values.items():
        # Of few trials the mean is more certain: their median jumps where CPUs have two speeds.
        means = {boot: statistics.fmean(values) for boot, values in boots.items()}
        if (
            pair.client != pair.server
            or len(means) < intervals.MIN_BOOTS
            or not all(means.values())
        ):
            return None
        of_boots = [series.turn * math.log(mean) for mean in means.values()]
        own = statistics.fmean(of_boots)
        logs[pair.client] = [own]
        between.append([log - own for log in of_boots])
        of_trials: list[float] = []
        for boot, values in boots.items():
            for value in values:
                of_trials.append(value / means[boot] - 1)
        within.append(of_trials)
    if len(logs) != 2:
        return None

    probability = _WRONG / (2 * figures)
    boots_count, trials_count = sum(map(len, between)), sum(map(len, within))
    spread, beyond = _chance(between, 2, probability)
    if trials_count > boots_count:  # few boots agree by chance where trials differ a lot
        _, beyond_by_trials = _chance(within, boots_count, probability)
        beyond = min(beyond, beyond_by_trials)
    better = max(own for [own] in logs.values())
    states = {}
    for host, [own] in logs.items():
        difference = own - better
        states[host] = _state(difference < math.log(1 - limit), difference < beyond)
    return PeerComparison(states, logs, better, spread, True)


def _state(lost: bool, certain: bool) -> Verdict:
    if not lost:
        return Verdict.PASS
    if certain:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE


def _chance(
    deviations: Sequence[Sequence[float]], means: int, probability: float
) -> tuple[float, float]:
    """Return the spread of two hosts' deviations, and the difference that chance explains.

    :param means: number of means that the deviations are from.
    """
    freedom = sum(map(len, deviations)) - means
    squares = sum(deviation**2 for some in deviations for deviation in some)
    spread = max(_LEAST_SPREAD, math.sqrt(squares / freedom))
    error = spread * math.sqrt(sum(1 / len(some) for some in deviations))
    return spread, intervals.student_t(probability, freedom) * error


def judge(
    logs: Mapping[fleet_model.HostPair, float],
    limit: float,
    figures: int = 1,
    reference: float | None = None,
) -> PeerComparison:
    """Judge hosts by one figure of their pairs, each host by its best one.

    FAIL: it is below the median by more than the limit and by more spreads than equal hosts reach
    with 1 %, and the host has two peers, of whom one is good. INCONCLUSIVE: only the first holds.

    :param logs: of the figure of every pair, more is better; a pair of a host with itself is of
        that host alone.
    :param figures: benchmarks and arms of the run, which share the probability of a wrong FAIL.
    :param reference: what hosts are compared with in place of their median, such as the limit of a
        budget.
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
    spread = _LEAST_SPREAD
    if deviations:
        spread = max(spread, 1.4826 * statistics.median(deviations))
    if reference is not None:
        middle = reference
    beyond = statistics.NormalDist().inv_cdf(_WRONG / (figures * len(values))) * spread
    lost = {host for host, value in values.items() if value - middle < math.log(1 - limit)}
    enough = len(values) >= MIN_HOSTS
    states = {}
    for host, value in values.items():
        good_peers = peers[host] - lost
        separable = not peers[host] or (len(peers[host]) > 1 and bool(good_peers))
        certain = enough and separable and value - middle < beyond
        states[host] = _state(host in lost, certain)
    return PeerComparison(states, of_hosts, middle, spread, enough)
