"""Who is measured with whom: rounds in which every host has at most one peer, and a new one each time.

The circle method (round-robin tournament, Kirkman 1847): n hosts stand in a circle, n odd, and in round r the
hosts i and j with i + j = 2r (mod n) meet; host r has a bye. With an even number one host stands outside the
circle and meets whoever has the bye. Any k rounds of that give every host k different peers.

===================  ==========================  =========================================================
n hosts, k peers     rounds                      peers of each host
===================  ==========================  =========================================================
n even               k                           k
n odd, k = n - 1     n                           n - 1
n odd, k even        k + 1                       k; everybody has one bye
n odd, k odd         k + 1                       k, but k + 1 for one host, since n * k would be odd
===================  ==========================  =========================================================

No schedule has fewer rounds: a round gives a host one peer, and an odd number of hosts leaves one out in each.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Iterable, Mapping, Sequence

from nova_perf_tuning.cloud import model


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """Rounds of pairs.

    :ivar rounds: in each a host occurs at most once.
    :ivar byes: for each round the hosts that have no peer in it, sorted.
    """

    rounds: tuple[tuple[model.HostPair, ...], ...]
    byes: tuple[tuple[str, ...], ...]

    def pairs(self) -> list[model.HostPair]:
        """Return all pairs in the order of rounds."""
        return [pair for one in self.rounds for pair in one]


def schedule(hosts: Iterable[str], peers: int, seed: int = 0) -> Schedule:
    """Return the rounds in which every host meets ``min(peers, n - 1)`` different peers, see the module.

    Every host is the client of a pair and the server of one, as often the one as the other (differing by one
    at most), since some benchmarks measure the client alone. Where each host has a single peer its pair is
    therefore measured twice, the second time with the roles exchanged. A host that is alone is its own peer.

    :param hosts: names; their order and repetitions don't matter.
    :param seed: of who meets whom; the same hosts, peers and seed give the same schedule.
    :raises ValueError: no host, or ``peers`` below 1.
    """
    names = sorted(set(hosts))
    if not names or peers < 1:
        raise ValueError("a schedule needs at least one host and one peer for it")
    if len(names) == 1:
        return Schedule(((model.HostPair(names[0], names[0]),),), ((),))
    order = random.Random(seed)  # noqa: S311  an order that can be repeated, no secret
    order.shuffle(names)
    wanted = min(peers, len(names) - 1)
    circles = _even(len(names), wanted) if len(names) % 2 == 0 else _odd(len(names), wanted)
    rounds = _with_roles([[(names[i], names[j]) for i, j in circle] for circle in circles])
    if wanted == 1:
        rounds += [[model.HostPair(pair.server, pair.client) for pair in one] for one in rounds]
    return Schedule(tuple(map(tuple, rounds)), tuple(_byes(names, one) for one in rounds))


def additional(
    hosts: Iterable[str], met: Iterable[model.HostPair], peers: int, seed: int = 0
) -> list[model.HostPair]:
    """Return the pairs that give every host ``min(peers, n - 1)`` peers again after others were taken out.

    Hosts that miss most are served first, with each other where they have not met, else with one that misses
    nothing: at most one new pair for each missing peer, half of that where they can be put together.

    :param hosts: that are left.
    :param met: pairs that count, measured or still planned; those with other hosts are passed over.
    """
    names = sorted(set(hosts))
    order = random.Random(seed)  # noqa: S311  as above
    order.shuffle(names)
    place = {name: number for number, name in enumerate(names)}
    known: dict[str, set[str]] = {name: set() for name in names}
    clients: collections.Counter[str] = collections.Counter()
    for pair in met:
        if pair.client in known and pair.server in known and pair.client != pair.server:
            known[pair.client].add(pair.server)
            known[pair.server].add(pair.client)
            clients.update({pair.client: 1, pair.server: -1})
    wanted = min(peers, len(names) - 1)
    found = []
    while lacking := [name for name in names if len(known[name]) < wanted]:
        one = min(lacking, key=lambda name: (len(known[name]), place[name]))
        strangers = [name for name in names if name != one and name not in known[one]]
        other = min(strangers, key=lambda name: (len(known[name]), place[name]))
        known[one].add(other)
        known[other].add(one)
        client, server = (one, other) if clients[one] <= clients[other] else (other, one)
        clients.update({client: 1, server: -1})
        found.append(model.HostPair(client, server))
    return found


def longest_chain(pairs: Iterable[model.HostPair]) -> int:
    """Return how many of ``pairs`` one host has at most: they cannot run at the same time."""
    return max(
        collections.Counter(name for pair in pairs for name in {pair.client, pair.server}).values(), default=0
    )


def _even(n: int, wanted: int) -> list[list[tuple[int, int]]]:
    circle = n - 1
    return [[*_circle_round(circle, number), (number, n - 1)] for number in range(wanted)]


def _odd(n: int, wanted: int) -> list[list[tuple[int, int]]]:
    """Return the first rounds of the circle without the pairs that would be a peer too much.

    After rounds 0..k the hosts 0..k have had a bye, and k peers; the others have k + 1. In round ``k // 2``
    exactly these others meet each other (i + j = 2 * (k // 2) mod n), all of them but the last for an odd k:
    without those pairs everybody has k.
    """
    if wanted == n - 1:
        return [_circle_round(n, number) for number in range(n)]
    rounds = [_circle_round(n, number) for number in range(wanted + 1)]
    middle = wanted // 2
    rounds[middle] = [pair for pair in rounds[middle] if min(pair) <= wanted]
    return rounds


def _circle_round(circle: int, number: int) -> list[tuple[int, int]]:
    return [((number + step) % circle, (number - step) % circle) for step in range(1, circle // 2 + 1)]


def _byes(names: Sequence[str], pairs: Sequence[model.HostPair]) -> tuple[str, ...]:
    busy = {name for pair in pairs for name in (pair.client, pair.server)}
    return tuple(sorted(set(names) - busy))


def _with_roles(rounds: Sequence[Sequence[tuple[str, str]]]) -> list[list[model.HostPair]]:
    """Say who is the client, so that each host is client and server equally often, differing by one at most.

    Walks closed trails through the graph of pairs and lets the client be where each step begins (Euler
    orientation). Hosts with an odd number of peers, an even number of hosts, are joined to one helper vertex.
    """
    edges = [pair for one in rounds for pair in one]
    degree = collections.Counter(name for pair in edges for name in pair)
    edges += [(name, "") for name, number in degree.items() if number % 2]
    touching: dict[str, list[int]] = {}
    for number, pair in enumerate(edges):
        for name in pair:
            touching.setdefault(name, []).append(number)
    client = _walk(edges, touching)
    numbers = iter(range(len(edges)))
    return [
        [model.HostPair(start, b if start == a else a) for a, b in one for start in [client[next(numbers)]]]
        for one in rounds
    ]


def _walk(edges: Sequence[tuple[str, str]], touching: Mapping[str, list[int]]) -> dict[int, str]:
    """Return where each edge begins when every vertex is left as often as it is entered."""
    begins: dict[int, str] = {}
    for start in touching:
        here = start
        # All degrees are even, so a trail can only end where it began.
        while touching[here]:
            edge = touching[here].pop()
            if edge not in begins:
                begins[edge] = here
                here = edges[edge][1] if edges[edge][0] == here else edges[edge][0]
    return begins
