"""Tells a bad host from a bad peer, from what pairs of hosts gave.

A pair is as fast as the slower of its hosts allows, so one figure says nothing about which host it was; several
pairs with different peers do. The rule, for each benchmark and arm on its own:

1. A pair's *deviation* is log(figure / F), its figure being the median over its blocks, F the upper quartile of
   all pairs, turned so that less is worse. 0 where less is better is no part of F and deviates by nothing; where
   most trials are such, the figures judge nobody. It *lost* when the deviation is below log(1 - limit), it is
   *sound* when it is above log(1 - limit / 2), and *unclear* in between.
2. A host with a sound pair is GOOD: both hosts of a sound pair must be.
3. A host that lost with a GOOD peer and has no sound pair is BAD where that is certain: nothing else explains the
   loss. Where the noise of the pairs may explain it the host is UNKNOWN; see below.
4. A pair of two GOOD hosts that lost is a BAD PAIR: the path between them, or what happened at that moment.
5. Any other host is UNKNOWN: it lost with peers that are BAD or UNKNOWN themselves, or its pairs are unclear.
   It must be measured with a peer known to be good.
6. A benchmark that needs no peer says it at once of the host that it ran on: GOOD when one of its figures is
   sound, BAD when all lost, as certainly as in step 3.

Certain is a loss when the mean deviation of the host's k pairs with GOOD peers from the median of the *usual*
pairs lies below log(1 - limit) by more than t * s * sqrt(1/k + 1/g). Usual are the g pairs without a host that
step 3 or 6 speaks of. t is the one-sided quantile of Student's t that leaves 1 % for a wrong BAD in the whole run,
over all its hosts, benchmarks and arms (Bonferroni). s is the noise of the pairs of this benchmark and arm: 1.4826
* MAD of the usual pairs, and where they are few also of the other hosts' pairs with GOOD peers, about their own
means. Each of them counts for 0.37 degrees of freedom, the efficiency of the MAD. Few hosts have too few pairs to
know s, so that a guess of 3 % stands beside them with the weight of 8 degrees of freedom (Smyth 2004, "Linear
Models and Empirical Bayes Methods for Assessing Differential Expression in Microarray Experiments"). Where no two
pairs tell it nothing is certain. Of simulated fleets of 3 to 50 equal hosts with two peers each at most 0.3 % had
a BAD host where the noise was half the limit, and 1.3 % where it was two thirds; with noise as large as the limit,
up to 10 %.

Steps 2 to 5 are a diagnosis from mutual tests (Preparata, Metze, Chien 1967) in which a bad host fails every
test, which is what a slow NIC or a wrong setting does. F is the upper quartile and not the median since a bad
host spoils all its pairs: while at most half of the hosts are bad, about a quarter of the pairs or more join two
good ones. With fewer than three hosts nobody can be told from anybody, and all are UNKNOWN. Hosts that are all
equally bad look GOOD here: budgets are for that.

All hosts are compared with each other: they must be of one kind.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import statistics as budget_statistics
from nova_perf_tuning.budget import trial_filter
from nova_perf_tuning.cloud import model

#: Fewest hosts among which one can be told from the others.
MIN_HOSTS = 3


#: Probability that any host of a run of equal ones is called BAD.
_WRONG = 0.01
#: Noise that pairs are taken to have before they are measured, and how many degrees of freedom that is worth.
_USUAL_NOISE, _USUAL_WEIGHT = 0.03, 8
#: So many usual pairs tell the noise without those of others.
_ENOUGH = 6


class State(enum.StrEnum):
    """What the pairs say of a host."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


class Sign(enum.Enum):
    """What a pair's figure says of the pair."""

    SOUND = "sound"
    UNCLEAR = "unclear"
    LOST = "lost"


@dataclasses.dataclass(frozen=True, slots=True)
class Observation:
    """One figure of one pair.

    :ivar value: median over its blocks, in the unit of the benchmark.
    :ivar paired: the server takes part in it.
    """

    pair: model.HostPair
    value: float
    paired: bool = True

    @property
    def concerns(self) -> model.HostPair:
        """Return the hosts that it is about: without a peer's part the client is both."""
        return self.pair if self.paired else model.HostPair(self.pair.client, self.pair.client)


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """An observation. :ivar pair: whom it concerns; :ivar log: its deviation."""

    pair: model.HostPair
    log: float
    sign: Sign

    @property
    def hosts(self) -> set[str]:
        return {self.pair.client, self.pair.server}


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one benchmark in one arm says of the hosts.

    :ivar reference: the upper quartile of all pairs; 0 without any.
    :ivar deviations: relative to it, one per observation, with the hosts concerned: -0.1 is a tenth worse.
    :ivar states: of every host that was observed. :ivar bad_pairs: see rule 4.
    :ivar noise: standard deviation of the pairs' figures, as a share; infinite where it is not known.
    :ivar uncertain: hosts that lost and are UNKNOWN only since this noise may explain it.
    :ivar unfit: why these figures tell nothing of any host; empty: they do.
    """

    benchmark: str
    arm: str
    metric: str
    unit: str
    reference: float
    deviations: tuple[tuple[model.HostPair, float], ...]
    states: Mapping[str, State]
    bad_pairs: tuple[model.HostPair, ...]
    noise: float = 0.0
    uncertain: frozenset[str] = frozenset()
    unfit: str = ""

    def of(self, host: str) -> list[float]:
        """Return the deviations of a host's pairs, the worst first."""
        return list(self._of_hosts.get(host, ()))

    @functools.cached_property
    def _of_hosts(self) -> Mapping[str, Sequence[float]]:
        found: dict[str, list[float]] = {}
        for pair, value in sorted(self.deviations, key=lambda one: one[1]):
            for host in {pair.client, pair.server}:
                found.setdefault(host, []).append(value)
        return found


def find(
    measured: Iterable[tuple[model.HostPair, results.Trial]], paired: Mapping[str, bool], limit: float
) -> list[Finding]:
    """Return what every benchmark says of the hosts in every arm.

    :param paired: benchmark -> whether its server takes part; one that is missing is taken for paired.
    :param limit: loss against the other hosts from which a pair has lost, 0.1 for a tenth.
    """
    values: dict[tuple[str, str], dict[model.HostPair, list[float]]] = {}
    trials: dict[tuple[str, str], list[results.Trial]] = {}
    for pair, trial in measured:
        if trial.primary and trial.value is not None:
            key = (trial.benchmark, trial.arm)
            values.setdefault(key, {}).setdefault(pair, []).append(trial.value)
            trials.setdefault(key, []).append(trial)
    found = []
    for (benchmark, arm), pairs in values.items():
        sample = trials[benchmark, arm][0]
        if trial_filter.zero_is_best(trials[benchmark, arm]):
            unfit = f"{sample.metric} is 0 in most trials, which is best, so no ratio can judge it"
            found.append(Finding(benchmark, arm, sample.metric, sample.unit, 0.0, (), {}, (), unfit=unfit))
            continue
        uses_server = paired.get(benchmark, True)
        seen = [Observation(pair, statistics.median(all_), uses_server) for pair, all_ in pairs.items()]
        lower = sample.better == "lower"
        found.append(diagnose(seen, benchmark, arm, sample.metric, sample.unit, lower, limit, len(values)))
    return found


def diagnose(
    observations: Sequence[Observation],
    benchmark: str,
    arm: str,
    metric: str,
    unit: str,
    lower_is_better: bool,
    limit: float,
    figures: int = 1,
) -> Finding:
    """Return what one benchmark says of the hosts in one arm, by the rule of this module.

    :param figures: benchmarks and arms of the run, which share the probability of a wrong BAD.
    """
    told = [one.value for one in observations if one.value > 0 or not lower_is_better]
    reference = _upper_quartile(told, lower_is_better)
    logs = [_log(one.value, reference, lower_is_better) for one in observations]
    states: dict[str, State] = {}
    bad_pairs: list[model.HostPair] = []
    noise, uncertain = 0.0, frozenset[str]()
    seen = [_Seen(one.concerns, log, _sign(log, limit)) for one, log in zip(observations, logs, strict=True)]
    hosts = {name for one in seen for name in one.hosts}
    if len(hosts) >= MIN_HOSTS:
        states, bad_pairs = _states(seen)
        bad = {name for name, state in states.items() if state is State.BAD}
        good = {name for name, state in states.items() if state is State.GOOD}
        level = _WRONG / (figures * len(hosts))
        noise, certain = _certain(seen, good, bad, math.log(1 - limit), level)
        uncertain = frozenset(bad - certain)
        states.update(dict.fromkeys(uncertain, State.UNKNOWN))
    else:
        states = dict.fromkeys(hosts, State.UNKNOWN)
    relative = [(one.concerns, math.exp(log) - 1) for one, log in zip(observations, logs, strict=True)]
    return Finding(
        benchmark, arm, metric, unit, reference, tuple(relative), states, tuple(bad_pairs), noise, uncertain
    )


def _upper_quartile(values: Sequence[float], lower_is_better: bool) -> float:
    """Return the smallest value that at least a quarter of all reach, 0 without any."""
    ordered = sorted(values, reverse=not lower_is_better)
    return ordered[(len(ordered) - 1) // 4] if ordered else 0.0


def _log(value: float, reference: float, lower_is_better: bool) -> float:
    if lower_is_better and value <= 0:
        return 0.0  # best
    if value <= 0 or reference <= 0:
        return 0.0 if value == reference else -math.inf  # no throughput at all
    log = math.log(value / reference)
    return -log if lower_is_better else log


def _sign(log: float, limit: float) -> Sign:
    if log < math.log(1 - limit):
        return Sign.LOST
    return Sign.SOUND if log > math.log(1 - limit / 2) else Sign.UNCLEAR


def _states(seen: Sequence[_Seen]) -> tuple[dict[str, State], list[model.HostPair]]:
    """Return the states by the rules 2 to 6, certain or not, and the bad pairs."""
    alone: dict[str, list[Sign]] = {}
    for one in seen:
        if len(one.hosts) == 1:
            alone.setdefault(one.pair.client, []).append(one.sign)
    states, bad_pairs = _from_pairs([(one.pair, one.sign) for one in seen if len(one.hosts) == 2])
    return {**states, **{host: _alone(signs) for host, signs in alone.items()}}, bad_pairs


def _certain(
    seen: Sequence[_Seen], good: set[str], bad: set[str], limit: float, level: float
) -> tuple[float, set[str]]:
    """Return the noise of the pairs, and which of ``bad`` lost for certain.

    :param limit: as a logarithm. :param level: probability of a wrong one, for each host.
    """
    usual = [one.log for one in seen if not one.hosts & bad and one.log > -math.inf]
    if not usual:
        return math.inf, set()
    middle = statistics.median(usual)
    own: dict[str, list[float]] = {host: [] for host in bad}
    for one in seen:
        for host in one.hosts & bad:
            if one.hosts - {host} <= good:
                own[host].append(one.log)
    groups = [usual, *([log for log in logs if log > -math.inf] for logs in own.values())]
    noise, freedom = _noise(groups)
    reach = budget_statistics.student_t(1 - level, freedom) * noise
    return noise, {
        host
        for host, logs in own.items()
        if logs and statistics.fmean(logs) - middle + reach * math.sqrt(1 / len(logs) + 1 / len(usual)) < limit
    }


def _noise(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation within groups and its degrees of freedom, those of the guess included.

    It is infinite where no group has two pairs. The first group is the usual pairs. The others are only asked
    where it is small: hosts that are bad by chance alone are so since their pairs agree.
    """
    distances: list[float] = []
    used = 0
    for number, logs in enumerate(groups):
        if len(logs) > 1:
            middle = statistics.fmean(logs) if number else statistics.median(logs)
            wider = math.sqrt(len(logs) / (len(logs) - 1))  # a group's own middle is nearer than the truth
            distances += [abs(log - middle) * wider for log in logs]
            used += 1
        if len(distances) >= _ENOUGH:
            break
    if not distances:
        return math.inf, 1
    freedom = 0.37 * (len(distances) - used)
    measured = 1.4826 * statistics.median(distances)
    square = (_USUAL_WEIGHT * _USUAL_NOISE**2 + freedom * measured**2) / (_USUAL_WEIGHT + freedom)
    return math.sqrt(square), _USUAL_WEIGHT + int(freedom)


def _alone(signs: Sequence[Sign]) -> State:
    if Sign.SOUND in signs:
        return State.GOOD
    return State.BAD if all(sign is Sign.LOST for sign in signs) else State.UNKNOWN


def _from_pairs(
    observed: Sequence[tuple[model.HostPair, Sign]],
) -> tuple[dict[str, State], list[model.HostPair]]:
    hosts = {name for pair, _ in observed for name in (pair.client, pair.server)}
    good = {name for pair, sign in observed if sign is Sign.SOUND for name in (pair.client, pair.server)}
    lost = [pair for pair, sign in observed if sign is Sign.LOST]
    bad: set[str] = set()
    for pair in lost:
        if (pair.client in good) != (pair.server in good):
            bad.add(pair.server if pair.client in good else pair.client)
    states = {name: State.GOOD if name in good else State.BAD if name in bad else State.UNKNOWN for name in hosts}
    return states, [pair for pair in lost if {pair.client, pair.server} <= good]
