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

    def log(value: float, turn: int) -> float:
        return turn * (math.log(value) if value else -math.inf)

    comparisons = {}
    for key, of_pair in series.items():
        whole = {pair: [*itertools.chain(*boots.values())] for pair, boots in of_pair.items()}
        if any(map(any, whole.values())):
            logs = {pair: log(statistics.median(values), turned[key]) for pair, values in whole.items()}
            # Of few trials the mean is the surer one: their median jumps where CPUs have two speeds.
            boots = {
                pair: [log(statistics.fmean(values), turned[key]) for values in some.values()]
                for pair, some in of_pair.items()
            }
            comparisons[key] = _of_two(boots, limit, len(series)) or judge(logs, limit, len(series))
    return comparisons


def _of_two(boots: Mapping[model.HostPair, Sequence[float]], limit: float, figures: int) -> Comparison | None:
    """Compare two hosts that were measured alone, the worse with the better one, by Student's t over their boots.

    None where there are others, too few boots, or one without throughput: :func:`judge` then finds nobody.
    """
    usable = [
        pair.client == pair.server and len(some) >= intervals.MIN_BOOTS and all(map(math.isfinite, some))
        for pair, some in boots.items()
    ]
    if usable != [True, True]:
        return None
    logs = {pair.client: [statistics.fmean(some)] for pair, some in boots.items()}
    middle, freedom = max(max(logs.values())), sum(map(len, boots.values())) - 2
    deviations = [log - logs[pair.client][0] for pair, some in boots.items() for log in some]
    spread = max(_LEAST_SPREAD, math.sqrt(sum(deviation**2 for deviation in deviations) / freedom))
    beyond = intervals.student_t(_WRONG / (2 * figures), freedom) * spread
    beyond *= math.sqrt(sum(1 / len(some) for some in boots.values()))
    states = {}
    for host, [value] in logs.items():
        lost, certain = value - middle < math.log(1 - limit), value - middle < beyond
        states[host] = Verdict.PASS if not lost else Verdict.FAIL if certain else Verdict.INCONCLUSIVE
    return Comparison(states, logs, middle, spread, True)


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
