"""Which hosts of a fleet are slow: every host by its best pair, against the median of all hosts.

A pair is as fast as the slower of its hosts allows, so that a slow host slows all its pairs and a good one only
those with slow peers. A host's *value* is therefore the best of its pairs, in the logarithm of the figure,
turned so that more is better. The values of all hosts have a median M and a spread S, the larger of 1.4826 * MAD
and 3 %, which pairs of equal hosts differ by anyway. A host is SLOW when its value lies more than the limit
below M, the robust z-score (value - M) / S is beyond the quantile that leaves 1 % for a wrong SLOW in the whole
run (Bonferroni over hosts and figures), and one of its peers is good; UNCERTAIN when only the first holds; GOOD
otherwise. A figure of which less is better, and which is 0 in most trials, compares nobody: it has no ratio.

Hosts are compared with each other: they must be of one kind, and half of them good. If all are equally slow,
budgets tell.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.budget import model as results
from nova_perf_tuning.cloud import model

#: Fewest hosts among which one can be told from the others.
MIN_HOSTS: Final = 3
#: Probability that any host of a run of equal ones is called SLOW.
_WRONG: Final = 0.01
#: What figures of equal pairs differ by at least, as a standard deviation.
_LEAST_SPREAD: Final = 0.03


class State(enum.StrEnum):
    """What the pairs say of a host."""

    GOOD = "good"
    SLOW = "slow"
    UNCERTAIN = "uncertain"


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What one benchmark in one arm says of the hosts.

    :ivar reference: figure of the median host, in the unit of the benchmark; 0 without any.
    :ivar spread: of the hosts' values, as a share.
    :ivar states: of every host that was measured.
    :ivar losses: host -> loss of each of its pairs against the reference, 0.1 for a tenth, the worst first.
    :ivar bad_pairs: pairs of two good hosts that lost: the path between them, or what happened at that moment.
    """

    benchmark: str
    arm: str
    reference: float
    spread: float
    states: Mapping[str, State]
    losses: Mapping[str, Sequence[float]]
    bad_pairs: tuple[model.HostPair, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """What figures of pairs say; all but ``states`` as logarithms, more is better.

    :ivar states: of every host; :ivar logs: of all its pairs, the best, which is its value, last.
    :ivar middle, spread: what hosts are compared with, and the standard deviation of their values.
    """

    states: Mapping[str, State]
    logs: Mapping[str, Sequence[float]]
    middle: float
    spread: float


def compare(measured: Iterable[tuple[model.HostPair, results.Trial]], limit: float) -> list[Comparison]:
    """Return what every benchmark says of the hosts in every arm.

    :param measured: trials with the hosts that they are about, twice the same where there is one.
    :param limit: loss against the other hosts from which a pair has lost, 0.1 for a tenth.
    """
    series: dict[tuple[str, str], dict[model.HostPair, list[results.Trial]]] = {}
    for pair, trial in measured:
        if trial.primary and trial.value is not None:
            series.setdefault((trial.benchmark, trial.arm), {}).setdefault(pair, []).append(trial)
    return [
        _compare_figure(benchmark, arm, of_pair, limit, len(series))
        for (benchmark, arm), of_pair in series.items()
        if any(trial.value for some in of_pair.values() for trial in some)
    ]


def _compare_figure(
    benchmark: str,
    arm: str,
    of_pair: Mapping[model.HostPair, Sequence[results.Trial]],
    limit: float,
    figures: int,
) -> Comparison:
    lower = next(trial.better for some in of_pair.values() for trial in some) == "lower"
    medians = {pair: statistics.median(trial.value or 0.0 for trial in some) for pair, some in of_pair.items()}
    logs = {pair: _log(value, lower) for pair, value in medians.items()}
    by = judge(logs, limit, figures)
    middle, lost = by.middle, math.log(1 - limit)
    good = {host for host, state in by.states.items() if state is State.GOOD}
    bad_pairs = (pair for pair, log in logs.items() if log - middle < lost and {pair.client, pair.server} <= good)
    losses = {host: [-math.expm1(log - middle) for log in some] for host, some in by.logs.items()}
    reference = math.exp(-middle if lower else middle) if math.isfinite(middle) else 0.0
    return Comparison(benchmark, arm, reference, by.spread, by.states, losses, tuple(bad_pairs))


def judge(
    logs: Mapping[model.HostPair, float], limit: float, figures: int = 1, reference: float | None = None
) -> Judged:
    """Judge hosts by the figures of their pairs; see the module.

    :param logs: of the figure of every pair, more is better; a pair of a host with itself is of that host alone.
    :param figures: benchmarks and arms of the run, which share the probability of a wrong SLOW.
    :param reference: what hosts are compared with in place of their median, such as the limit of a budget.
    """
    peers: dict[str, set[str]] = collections.defaultdict(set)
    of_hosts: dict[str, list[float]] = collections.defaultdict(list)
    for pair, log in sorted(logs.items(), key=lambda item: item[1]):
        for host in {pair.client, pair.server}:
            peers[host] |= {pair.client, pair.server} - {host}
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
        told_apart = len(values) >= MIN_HOSTS and (not peers[host] or bool(peers[host] - lost))
        certain = told_apart and value - middle < beyond
        states[host] = State.GOOD if host not in lost else State.SLOW if certain else State.UNCERTAIN
    return Judged(states, of_hosts, middle, spread)


def _log(value: float, lower_is_better: bool) -> float:
    """Return the logarithm of a figure, turned so that more is better; 0 is infinitely good or bad."""
    if value <= 0:
        return math.inf if lower_is_better else -math.inf
    return -math.log(value) if lower_is_better else math.log(value)
