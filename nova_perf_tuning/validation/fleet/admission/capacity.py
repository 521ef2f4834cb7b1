# SPDX-License-Identifier: Apache-2.0
"""Which hosts may leave service for a trial now: shares of groups, the number of trials, the order."""

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.fleet.admission import state
from nova_perf_tuning.validation.fleet.admission.model import (
    Action,
    AdmissionDecision,
    AdmissionMove,
    AdmissionState,
    Cause,
    HostRecord,
    SeenHost,
)
from nova_perf_tuning.validation.fleet.admission.policy import AdmissionPolicy, HostGroup

#: Whom a trial is more urgent for; others come after these.
_URGENT: Final = (
    Cause.ASKED,
    Cause.ENABLED,
    Cause.FINGERPRINT,
    Cause.DEGRADED,
    Cause.DISABLED,
    Cause.REBOOTED,
    Cause.NO_VERDICT,
    Cause.AGE,
)


@dataclasses.dataclass(slots=True)
class GroupRoom:
    """What a group can spare.

    :ivar size: hosts that are capacity: they have had guests. :ivar out: of those, how many can
        get no guest now, whoever took them out. :ivar most: how many of them may be out.
    """

    size: int = 0
    out: int = 0
    most: int = 0


def rooms(
    policy: AdmissionPolicy, seen: Sequence[SeenHost], records: Mapping[str, HostRecord]
) -> dict[str, GroupRoom]:
    """Return the room of each group by its name."""
    found: dict[str, GroupRoom] = {group.name: GroupRoom() for group in policy.groups}
    for host in seen:
        room = found.get(host.group)
        record = records.get(host.name)
        if room is None or record is None or not record.served:
            continue
        room.size += 1
        if not host.serves or record.state == AdmissionState.VALIDATING:
            room.out += 1
    for group in policy.groups:
        found[group.name].most = group.most_out(found[group.name].size)
    return found


def decide(
    moment: state.Moment,
    seen: Sequence[SeenHost],
    records: Mapping[str, HostRecord],
    fresh: str,
) -> AdmissionDecision:
    """Return all moves of a pass.

    :param seen: hosts of the cloud; those without a group are left out.
    :param fresh: text that no trial has had: names of trials begin with it.
    """
    moves: list[AdmissionMove] = []
    wishes: list[tuple[SeenHost, AdmissionMove]] = []
    holds: dict[str, Cause] = {}
    in_trial = 0
    for host in seen:
        if not host.group:
            continue
        record = records.get(host.name)
        if record is not None and record.state == AdmissionState.VALIDATING:
            in_trial += 1
        step = state.next_step(moment, host, record)
        if isinstance(step, Cause):
            holds[host.name] = step
        elif step.action is Action.OPEN_TRIAL and step.before is not step.after:
            wishes.append((host, step))
        else:
            moves.append(step)
    free = moment.policy.max_trials - in_trial
    granted = _granted(moment.policy, wishes, rooms(moment.policy, seen, records), free, holds)
    for host, move in granted:
        token = f"{fresh}{_number(moment.policy.groups, host.group):02X}"
        after = dataclasses.replace(move.after, token=token)
        moves.append(dataclasses.replace(move, after=after))
    return AdmissionDecision(moves, holds)


def _granted(
    policy: AdmissionPolicy,
    wishes: Sequence[tuple[SeenHost, AdmissionMove]],
    room_of: Mapping[str, GroupRoom],
    free: int,
    holds: dict[str, Cause],
) -> list[tuple[SeenHost, AdmissionMove]]:
    """Return the wishes that there is room for, the most urgent first; the others get a hold."""
    granted = []
    for host, move in sorted(wishes, key=_urgency):
        room = room_of[host.group]
        takes = int(host.serves and move.after.served)
        if free <= 0:
            holds[host.name] = Cause.QUEUED
        elif takes and room.out + takes > room.most:
            holds[host.name] = Cause.NO_ROOM
        else:
            free -= 1
            room.out += takes
            granted.append((host, move))
    return granted


def _urgency(wish: tuple[SeenHost, AdmissionMove]) -> tuple[int, datetime.datetime, str]:
    host, move = wish
    cause = Cause(move.after.cause)
    rank = len(_URGENT)
    if cause in _URGENT:
        rank = _URGENT.index(cause)
    since = move.after.since
    if move.before is not None:
        since = move.before.since
    return rank, since, host.name


def _number(groups: Sequence[HostGroup], name: str) -> int:
    return [group.name for group in groups].index(name)


def queue(holds: Mapping[str, Cause]) -> collections.Counter[Cause]:
    """Return how many hosts wait for each cause."""
    return collections.Counter(holds.values())
