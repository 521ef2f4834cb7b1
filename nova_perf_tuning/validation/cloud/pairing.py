"""Who meets whom: every host meets several peers, so that a slow host can be told from a slow peer.

Hosts stand in a circle, in an order that the seed sets; each meets those at distance 1, 2 … on both sides (a
circulant graph), as often as client as as server. With an odd number of peers it also meets the one opposite.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from nova_perf_tuning.validation.cloud import model


def schedule(hosts: Iterable[str], peers: int, seed: int = 0) -> list[model.HostPair]:
    """Return the pairs in which every host meets ``min(peers, n - 1)`` different peers.

    One host meets one more where both numbers are odd. Two hosts meet twice, the second time with the roles
    exchanged; a host that is alone is its own peer. Neighbours in the list have no host in common as far as
    possible, so that several can be measured at a time.

    :param hosts: names; their order and repetitions don't matter.
    :param seed: of the order; the same hosts, peers and seed give the same pairs.
    :raises ValueError: no host, or ``peers`` below 1.
    """
    names = sorted(set(hosts))
    count = len(names)
    if not names or peers < 1:
        raise ValueError("a schedule needs at least one host and one peer for it")
    if count == 1:
        return [model.HostPair(names[0], names[0])]
    random.Random(seed).shuffle(names)  # noqa: S311  an order that can be repeated, no secret
    wanted = min(peers, count - 1)
    whole = 1 if count == 2 else wanted // 2
    found = []
    for distance in range(1, whole + 1):
        # Blocks of this length alternate, so that those that begin together end with hosts of others.
        order = sorted(range(count), key=lambda place, distance=distance: place // distance % 2)  # type: ignore[misc]
        found += [(place, (place + distance) % count) for place in order]
    if wanted % 2 and count > 2:
        opposite = count // 2
        half = [(place, (place + opposite) % count) for place in range((count + 1) // 2)]
        found += [pair if place % 2 else pair[::-1] for place, pair in enumerate(half)]
    return [model.HostPair(names[client], names[server]) for client, server in found]
