"""Whose fault it is that pairs of a fleet fail: a host's, or the whole cloud's for a while."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Sequence

from nova_perf_tuning.cloud import model

#: A host is given up when so many of its peers, one of them sound, got no result with it and nobody got one.
GIVE_UP = 2
#: So many attempts on end that fail for the cloud's sake, over different hosts, end the run; and at least so many
#: for each pair that is measured at a time: what is shorter than two rounds of attempts is bridged by them.
STREAK, _ROUNDS = 8, 2

#: What says nothing of the hosts of a pair.
_OF_THE_CLOUD = frozenset({model.ErrorClass.API, model.ErrorClass.QUOTA, model.ErrorClass.INTERRUPTED})


def kinds(errors: Iterable[model.PairError]) -> set[model.ErrorClass]:
    """Return why a pair has no results; that something of it could not be removed is none of the reasons."""
    return {one.kind for one in errors} - {model.ErrorClass.NOT_REMOVED}


def is_the_clouds(errors: Iterable[model.PairError]) -> bool:
    """Return whether an attempt failed for reasons that say nothing of its hosts."""
    found = kinds(errors)
    return bool(found) and found <= _OF_THE_CLOUD


def cloud_fails(on_end: Sequence[model.Task], at_a_time: int) -> bool:
    """Return whether attempts that failed on end for the cloud's sake are more than happens.

    :param at_a_time: how many pairs are measured at a time.
    """
    hosts = [names(task.pair) for task in on_end]
    return len(hosts) >= max(STREAK, _ROUNDS * at_a_time) and not set.intersection(*hosts)


def bad_hosts(tasks: Iterable[model.Task], out: Collection[str]) -> dict[str, str]:
    """Return the hosts that get no result with peers that do get some with others, and why.

    :param out: hosts that have been given up.
    """
    sound: set[str] = set()
    failed: dict[str, set[str]] = collections.defaultdict(set)
    for task in tasks:
        if task.state == "done":
            sound |= names(task.pair)
        elif task.state == "failed" and not is_the_clouds(task.last_errors):
            failed[task.pair.client].add(task.pair.server)
            failed[task.pair.server].add(task.pair.client)
    return {
        host: f"no pair worked with {', '.join(sorted(peers))}"
        for host, peers in sorted(failed.items())
        if host not in sound | set(out) and len(peers) >= GIVE_UP and peers & sound
    }


def names(pair: model.HostPair) -> set[str]:
    """Return the hosts of a pair."""
    return {pair.client, pair.server}
