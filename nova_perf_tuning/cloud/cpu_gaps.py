"""Pairs whose service CPU is not known because one host has no agent that tells: not held against its peer.

A run of a benchmark with a peer has service CPU only where the agents of both hosts tell. A host without it in all
that it took part in tells nothing; one that has it in some boot has an agent that works.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Final

from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import overhead, trial_filter
from nova_perf_tuning.cloud import model, spoilt

#: The bare host, beside which no agent is asked.
_BARE: Final = "host"


def find(
    measured: Iterable[tuple[model.HostPair, results.Trial]], paired: Mapping[str, bool]
) -> dict[str, dict[spoilt.Part, str]]:
    """Return host -> where its service CPU is not known -> the peer that tells nothing.

    :param measured: trials with their pairs, the host that they ran on as the client.
    :param paired: benchmark -> whether its server takes part; one that is missing is taken for paired.
    """
    known: dict[spoilt.Part, list[bool]] = collections.defaultdict(list)
    hosts: dict[spoilt.Part, set[str]] = {}
    for pair, one in measured:
        if one.value is None or one.arm == _BARE:
            continue
        part = one.benchmark, one.group
        hosts[part] = {pair.client, pair.server} if paired.get(one.benchmark, True) else {pair.client}
        known[part].append(overhead.cost(one).service_s is not None)
    gaps = {part for part, some in known.items() if some.count(False) > trial_filter.MAX_LOST * len(some)}
    telling = {host for part in hosts.keys() - gaps for host in hosts[part]}
    found: dict[str, dict[spoilt.Part, str]] = {}
    for part in gaps:
        for host in hosts[part] & telling:
            for peer in hosts[part] - telling:
                found.setdefault(host, {})[part] = peer
    return found
