"""Tells a bad host from a bad peer, from what pairs of hosts gave.

A pair is as fast as the slower of its hosts allows, so one figure says nothing about which host it was; several
pairs with different peers do. The rule, for each benchmark and arm on its own:

1. A pair's *deviation* is log(figure / F), its figure being the median over its blocks, F the upper quartile of
   all pairs, turned so that less is worse. It *lost* when the deviation is below log(1 - limit), it is *sound*
   when it is above log(1 - limit / 2), and *unclear* in between.
2. A host with a sound pair is GOOD: both hosts of a sound pair must be.
3. A host that lost with a GOOD peer and has no sound pair is BAD: nothing else explains the loss.
4. A pair of two GOOD hosts that lost is a BAD PAIR: the path between them, or what happened at that moment.
5. Any other host is UNKNOWN: it lost with peers that are BAD or UNKNOWN themselves, or its pairs are unclear.
   It must be measured with a peer known to be good.
6. A benchmark that needs no peer says it at once of the host that it ran on: GOOD when one of its figures is
   sound, BAD when all lost.

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
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from nova_perf_tuning.budget import model as results
from nova_perf_tuning.cloud import model

#: Fewest hosts among which one can be told from the others.
MIN_HOSTS = 3


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
class Finding:
    """What one benchmark in one arm says of the hosts.

    :ivar reference: the upper quartile of all pairs; 0 without any.
    :ivar deviations: relative to it, one per observation, with the hosts concerned: -0.1 is a tenth worse.
    :ivar states: of every host that was observed. :ivar bad_pairs: see rule 4.
    """

    benchmark: str
    arm: str
    metric: str
    unit: str
    reference: float
    deviations: tuple[tuple[model.HostPair, float], ...]
    states: Mapping[str, State]
    bad_pairs: tuple[model.HostPair, ...]

    def of(self, host: str) -> list[float]:
        """Return the deviations of a host's pairs, the worst first."""
        return sorted(value for pair, value in self.deviations if host in (pair.client, pair.server))


def find(
    measured: Iterable[tuple[model.HostPair, results.Trial]], paired: Mapping[str, bool], limit: float
) -> list[Finding]:
    """Return what every benchmark says of the hosts in every arm.

    :param paired: benchmark -> whether its server takes part; one that is missing is taken for paired.
    :param limit: loss against the other hosts from which a pair has lost, 0.1 for a tenth.
    """
    values: dict[tuple[str, str], dict[model.HostPair, list[float]]] = {}
    samples: dict[tuple[str, str], results.Trial] = {}
    for pair, trial in measured:
        if trial.primary and trial.value is not None:
            key = (trial.benchmark, trial.arm)
            values.setdefault(key, {}).setdefault(pair, []).append(trial.value)
            samples.setdefault(key, trial)
    found = []
    for (benchmark, arm), pairs in values.items():
        sample = samples[benchmark, arm]
        uses_server = paired.get(benchmark, True)
        seen = [Observation(pair, statistics.median(all_), uses_server) for pair, all_ in pairs.items()]
        found.append(diagnose(seen, benchmark, arm, sample.metric, sample.unit, sample.better == "lower", limit))
    return found


def diagnose(
    observations: Sequence[Observation],
    benchmark: str,
    arm: str,
    metric: str,
    unit: str,
    lower_is_better: bool,
    limit: float,
) -> Finding:
    """Return what one benchmark says of the hosts in one arm, by the rule of this module."""
    reference = _upper_quartile([one.value for one in observations], lower_is_better)
    logs = [_log(one.value, reference, lower_is_better) for one in observations]
    signs = [_sign(log, limit) for log in logs]
    paired = [
        (one.pair, sign)
        for one, sign in zip(observations, signs, strict=True)
        if one.paired and one.pair.client != one.pair.server
    ]
    alone: dict[str, list[Sign]] = {}
    for one, sign in zip(observations, signs, strict=True):
        if not one.paired or one.pair.client == one.pair.server:
            alone.setdefault(one.pair.client, []).append(sign)
    states, bad_pairs = _from_pairs(paired)
    for host, seen in alone.items():
        states[host] = _alone(seen)
    if len(states) < MIN_HOSTS:
        states, bad_pairs = dict.fromkeys(states, State.UNKNOWN), []
    relative = [(one.concerns, math.exp(log) - 1) for one, log in zip(observations, logs, strict=True)]
    return Finding(benchmark, arm, metric, unit, reference, tuple(relative), states, tuple(bad_pairs))


def _upper_quartile(values: Sequence[float], lower_is_better: bool) -> float:
    """Return the smallest value that at least a quarter of all reach, 0 without any."""
    ordered = sorted(values, reverse=not lower_is_better)
    return ordered[(len(ordered) - 1) // 4] if ordered else 0.0


def _log(value: float, reference: float, lower_is_better: bool) -> float:
    if value <= 0 or reference <= 0:
        return 0.0 if value == reference else -math.inf  # no throughput at all
    log = math.log(value / reference)
    return -log if lower_is_better else log


def _sign(log: float, limit: float) -> Sign:
    if log < math.log(1 - limit):
        return Sign.LOST
    return Sign.SOUND if log > math.log(1 - limit / 2) else Sign.UNCLEAR


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
