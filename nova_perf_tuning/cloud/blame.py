"""Whose fault it is that pairs of a fleet fail: a host's, or the whole cloud's for a while."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping

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


class Blame:
    """What the attempts of a run tell of its hosts, and of the cloud."""

    def __init__(self, faults: Mapping[int, Collection[model.PairError]]) -> None:
        """Begin with the errors of the last attempt at pairs that had one before, by their numbers."""
        self._cloud = {number for number, errors in faults.items() if self._is_the_clouds(errors)}
        self._streak: list[model.Task] = []

    def ended(self, task: model.Task, outcome: model.PairOutcome) -> None:
        """Note what an attempt gave, in the order of time."""
        if not outcome.trials and self._is_the_clouds(outcome.errors):
            self._cloud.add(task.number)
            self._streak.append(task)
        else:
            self._cloud.discard(task.number)
            self._streak.clear()

    def cloud_fails(self, at_a_time: int) -> list[model.Task]:
        """Return the pairs that failed on end for the cloud's sake, empty if that is no more than happens.

        :param at_a_time: how many pairs are measured at a time.
        """
        hosts = [names(task.pair) for task in self._streak]
        if len(hosts) < max(STREAK, _ROUNDS * at_a_time) or set.intersection(*hosts):
            return []
        return list({task.number: task for task in self._streak}.values())

    def forget(self) -> None:
        """Begin a new streak."""
        self._streak.clear()

    def bad_hosts(self, tasks: Iterable[model.Task], out: Collection[str]) -> dict[str, str]:
        """Return the hosts that get no result with peers that do get some with others, and why.

        :param out: hosts that have been given up.
        """
        sound: set[str] = set()
        failed: dict[str, set[str]] = collections.defaultdict(set)
        for task in tasks:
            if task.state == "done":
                sound |= names(task.pair)
            elif task.state == "failed" and task.number not in self._cloud:
                failed[task.pair.client].add(task.pair.server)
                failed[task.pair.server].add(task.pair.client)
        return {
            host: f"no pair worked with {', '.join(sorted(peers))}"
            for host, peers in sorted(failed.items())
            if host not in sound | set(out) and len(peers) >= GIVE_UP and peers & sound
        }

    @staticmethod
    def _is_the_clouds(errors: Iterable[model.PairError]) -> bool:
        found = kinds(errors)
        return bool(found) and found <= _OF_THE_CLOUD


def names(pair: model.HostPair) -> set[str]:
    """Return the hosts of a pair."""
    return {pair.client, pair.server}
