"""How much boots differ, learnt from all hosts that are judged together.

A host of a fleet has as many boots as peers, two by default, and the spread of two boots has one degree of
freedom. The boots of all hosts together show well how boots differ: sums of squares about each host's own mean,
added up over hosts and divided by their degrees of freedom, are the pooled variance of the analysis of variance
(Scheffé 1959, The Analysis of Variance, 3.1; repeatability variance in ISO 5725-2). A host keeps its own mean.

Assumed is that the hosts are of one kind, as :mod:`nova_perf_tuning.cloud.attribution` does, so that their boots
differ alike. Four guards stand around that:

* Cochran's C test (ISO 5725-2) at 1 %: a host whose share of all sums of squares is too large is judged by its
  own spread alone and taken out of the pool, again and again until none is left. Hosts may have different numbers
  of boots; the share of each is then compared with its own distribution, a beta distribution ('t Lam 2010,
  "Scrutiny of variance results for outliers: Cochran's test optimized", Analytica Chimica Acta 659), which gives
  Cochran's critical values where all have as many.
* With two boots that test seldom finds a host that is three times as noisy. Where a host's own spread is larger
  than the pooled one the own one counts (in :func:`nova_perf_tuning.budget.statistics.estimate`), though with the
  degrees of freedom of the pool.
* A pair is a boot of both its hosts. Figures that two hosts share count as what they are: the degrees of freedom
  are those of a quadratic form in independent boots (Satterthwaite 1946), two thirds of the sum where each host
  has two pairs in a ring; two hosts that share all pairs gain nothing.
* A host with :data:`ENOUGH` degrees of freedom of its own needs no others and keeps its own spread.

What the guards are worth is simulated by ``tests.benchmarks.pooling``; its figures stand in
doc/source/contributor/statistics.rst.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import statistics as standard
from collections.abc import Mapping, Sequence

from nova_perf_tuning.budget import statistics

#: Group (boot) -> figures of its blocks. Hosts that have the same group have the same boot.
Samples = Mapping[int, Sequence[float]]

#: Degrees of freedom from which on a host's own spread is good enough: t is 2.23 then, against 1.96.
ENOUGH = 10
#: Significance of Cochran's test at which ISO 5725-2 calls a variance an outlier.
_OUTLIER = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """What hosts say together about how boots differ.

    :ivar spreads: host -> what it is judged by; a host that is not in it is judged by its own boots alone.
    :ivar apart: hosts whose boots differ so much more than those of the others that they were taken out.
    """

    spreads: Mapping[str, statistics.Spread]
    apart: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class _Host:
    """:ivar squares: sum of squares of the medians of its boots about their mean; :ivar boots: their groups."""

    squares: float
    boots: frozenset[int]

    @property
    def freedom(self) -> int:
        return len(self.boots) - 1


def pool(hosts: Mapping[str, Samples]) -> Pool:
    """Return the spread of boots by which each host is judged.

    :param hosts: host -> its figures, logarithms of ratios or of costs. Hosts with one boot tell nothing about how
        boots differ and get nothing.
    """
    if len(hosts) < 2:
        return Pool({}, frozenset())
    members = {name: _host(samples) for name, samples in hosts.items()}
    members = {name: one for name, one in members.items() if one.freedom > 0}
    apart = set()
    while (outlier := _outlier(members)) is not None:
        apart.add(outlier)
        del members[outlier]
    total = sum(one.freedom for one in members.values())
    if len(members) < 2 or not total:
        return Pool({}, frozenset(apart))
    sd = math.sqrt(math.fsum(one.squares for one in members.values()) / total)
    spread = statistics.Spread(sd, _freedom(list(members.values())), len(members))
    helped = (name for name, one in members.items() if one.freedom < min(ENOUGH, spread.freedom))
    return Pool(dict.fromkeys(helped, spread), frozenset(apart))


def _host(samples: Samples) -> _Host:
    medians = {group: standard.median(values) for group, values in samples.items() if values}
    middle = standard.fmean(medians.values()) if medians else 0.0
    return _Host(math.fsum((one - middle) ** 2 for one in medians.values()), frozenset(medians))


def _outlier(members: Mapping[str, _Host]) -> str | None:
    """Return the host whose share of all sums of squares is the least likely, if it is too unlikely."""
    squares = math.fsum(one.squares for one in members.values())
    freedom = sum(one.freedom for one in members.values())
    if len(members) < 2 or squares <= 0:
        return None
    # Of hosts with as many boots only the largest share can be the least likely one.
    largest: dict[int, str] = {}
    for name, one in members.items():
        if one.freedom not in largest or one.squares > members[largest[one.freedom]].squares:
            largest[one.freedom] = name
    chance, name = min(
        (beta_tail(members[name].squares / squares, own / 2, (freedom - own) / 2), name)
        for own, name in largest.items()
    )
    return name if chance < _OUTLIER / len(members) else None


def _freedom(members: Sequence[_Host]) -> int:
    """Return the degrees of freedom of the pooled sum of squares, boots that hosts share counted once.

    The sum is a quadratic form y'Ay in independent boots, A being the sum of the hosts' centring matrices: it has
    tr(A)^2 / tr(A^2) of them, rounded down. Without shared boots that is the sum of (boots - 1).
    """
    holders: dict[int, list[int]] = collections.defaultdict(list)
    for index, one in enumerate(members):
        for boot in one.boots:
            holders[boot].append(index)
    shared = collections.Counter(
        pair for some in holders.values() if len(some) > 1 for pair in itertools.combinations(some, 2)
    )
    trace = sum(one.freedom for one in members)
    square = float(trace)
    for (first, second), count in shared.items():
        n, m = len(members[first].boots), len(members[second].boots)
        square += 2 * (count * (1 - 1 / n) * (1 - 1 / m) + count * (count - 1) / (n * m))
    return math.floor(trace**2 / square + 1e-9)


def beta_tail(x: float, a: float, b: float) -> float:
    """Return the probability that a figure of the beta distribution with ``a`` and ``b`` is larger than ``x``.

    By the continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions.
    """
    if x <= 0 or x >= 1:
        return float(x <= 0)
    if x <= (a + 1) / (a + b + 2):  # there the fraction of the other tail is the one that converges fast
        return 1 - _beta_fraction(x, a, b)
    return _beta_fraction(1 - x, b, a)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, from the end of its fraction to the start."""
    found = 1.0
    for m in range(200, 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        found = 1 + odd / (1 + even / found)
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(logs) / (a * found)
