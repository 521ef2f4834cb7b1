"""What people should look at, as ``nova-perf status`` and the metrics tell it."""

from __future__ import annotations

import collections
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.agent import arbiter
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import rivals

LOG = logging.getLogger(__name__)

#: Findings of one sort that are listed; the others are counted.
NAMED: Final = 50


def named(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first findings of each sort."""
    counts: collections.Counter[str] = collections.Counter()
    listed = []
    for one in found:
        what = str(one["what"])
        counts[what] += 1
        if counts[what] <= NAMED:
            listed.append(one)
    return listed


def contested(contests: Mapping[arbiter.Key, arbiter.Contest], now: float) -> list[dict[str, Any]]:
    """Return what others keep changing and is held back.

    :param now: monotonic clock.
    """
    return [
        {
            "what": "written by others",
            "kind": kind,
            "target": target,
            "found": contest.found,
            "rewrites": contest.rewrites,
            "next_try_s": round(contest.until - now, 1),
        }
        for (kind, target, _identity), contest in contests.items()
    ]


def held_by_a_person(entry: journal_module.Entry) -> str:
    """Return what is said of a value that somebody applied by a command."""
    return f"a person applied {entry.wanted} ({entry.rule or 'no rule'}), left so until 'nova-perf restore'"


def applied_by_a_person(
    foreign: Sequence[tuple[setting_module.Setting, journal_module.Entry]],
) -> list[dict[str, Any]]:
    """Return what is wanted otherwise than a person has applied it."""
    return [
        {
            "what": "applied by a person",
            "kind": one.kind,
            "target": one.target,
            "wanted": one.value,
            "detail": held_by_a_person(entry),
        }
        for one, entry in foreign
    ]


def not_in_force(unmet: Sequence[apply_module.Outcome]) -> list[dict[str, Any]]:
    """Return what could not be brought into force, with the cause."""
    return [
        {
            "what": "not in force",
            "kind": one.setting.kind,
            "target": one.setting.target,
            "wanted": one.setting.value,
            "detail": one.detail,
        }
        for one in unmet
    ]


class Writers:
    """Says who may be writing what is held back; once for each contest, since it reads all names of processes."""

    def __init__(self, lookout: rivals.Lookout) -> None:
        self._lookout = lookout
        #: (kind, target) -> the likely writer, as of the beginning of the contest.
        self._known: dict[tuple[str, str], str] = {}

    def findings(self) -> list[dict[str, Any]]:
        """Return what is known of other writers on this host."""
        return self._lookout.findings()

    def name(self, found: Sequence[dict[str, Any]]) -> None:
        """Add the likely writer to each contest among findings; a new one is logged."""
        known, self._known = self._known, {}
        for one in found:
            if one["what"] != "written by others":
                continue
            key = (one["kind"], one["target"])
            self._known[key] = known.get(key) or self._lookout.likely(one["kind"])
            if key not in known:
                LOG.warning(
                    "%s %s keeps being changed, now to %s, perhaps by %s: it is tried again in %.0f s",
                    *key,
                    one["found"],
                    self._known[key],
                    one["next_try_s"],
                )
            one["detail"] = f"may be written by {self._known[key]}"
