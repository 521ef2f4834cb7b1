# SPDX-License-Identifier: Apache-2.0
"""Which hosts may leave service for a trial now: shares of groups, the number of trials, the order."""

import collections
import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
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
#: A host that waits for its trial for one of these is closed meanwhile.
_CLOSED_MEANWHILE: Final = frozenset({Cause.QUEUED, Cause.NO_ROOM, Cause.OUTSIDE_WINDOW})


@dataclasses.dataclass(slots=True)
class GroupRoom:
    """What a group can spare.

    :ivar size: hosts that are capacity: they have had guests. :ivar out: of those, how many can
        get no guest now, whoever took them out.
    :ivar most: how many of them may be out; ``most_renewals``: for a trial of a host whose verdict
        still counts: a third is left for those whose verdict no longer counts.
    :ivar most_closed: how many of them may be out for a host whose verdict no longer counts.
    """

    size: int = 0
    out: int = 0
    most: int = 0
    most_renewals: int = 0
    most_closed: int = 0


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
        room = found[group.name]
        room.most = group.most_out(room.size)
        room.most_renewals = room.most - room.most // 3
        room.most_closed = room.most
        if group.close_beyond_share:
            room.most_closed = max(room.most, room.size - group.keep)
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
    moves = _released(moment, seen, records)
    wishes: list[tuple[SeenHost, AdmissionMove]] = []
    holds: dict[str, Cause] = {}
    unproven: set[str] = set()
    in_trial = 0
    for host in seen:
        if not host.group:
            continue
        record = records.get(host.name)
        if record is not None and record.state == AdmissionState.VALIDATING:
            in_trial += 1
        if state.is_unproven(moment, host, record):
            unproven.add(host.name)
        step = state.next_step(moment, host, record)
        if isinstance(step, Cause):
            holds[host.name] = step
        elif step.action is Action.OPEN_TRIAL and step.before is not step.after:
            wishes.append((host, step))
        else:
            moves.append(step)
    places = _Places(rooms(moment.policy, seen, records), moment.policy.max_trials - in_trial)
    for host, move in _granted(wishes, places, unproven, holds):
        token = f"{fresh}{_number(moment.policy.groups, host.group):02X}"
        after = dataclasses.replace(move.after, token=token)
        moves.append(dataclasses.replace(move, after=after))
    for host in seen:
        record = records.get(host.name)
        cause = holds.get(host.name)
        if record is None or host.name not in unproven or cause not in _CLOSED_MEANWHILE:
            continue
        if record.state != AdmissionState.QUARANTINED and places.close(host):
            moves.append(AdmissionMove(record, record, Action.CLOSE))
            del holds[host.name]
    return AdmissionDecision(moves, holds, frozenset(unproven))


def _released(
    moment: state.Moment, seen: Sequence[SeenHost], records: Mapping[str, HostRecord]
) -> list[AdmissionMove]:
    """Return the ends of trials of hosts that no group has any more."""
    moves = []
    for host in seen:
        record = records.get(host.name)
        if host.group or record is None:
            continue
        if record.state == AdmissionState.VALIDATING:
            moves.append(state.released(moment, record))
    return moves


@dataclasses.dataclass(slots=True)
class _Places:
    """What is left while hosts are taken out of service.

    :ivar trials: that may still begin.
    """

    rooms: Mapping[str, GroupRoom]
    trials: int

    def open_trial(self, host: SeenHost, *, served: bool, unproven: bool) -> Cause | None:
        """Take the place for a host's trial; return why there is none."""
        room = self.rooms[host.group]
        most = room.most_renewals
        if unproven:
            most = room.most_closed
        takes = int(host.serves and served)
        if self.trials <= 0:
            return Cause.QUEUED
        if takes and room.out + takes > most:
            return Cause.NO_ROOM
        self.trials -= 1
        room.out += takes
        return None

    def close(self, host: SeenHost) -> bool:
        """Take the place of a host that is closed until its trial; False: there is none."""
        room = self.rooms[host.group]
        if room.out >= room.most_closed:
            return False
        room.out += 1
        return True


def _granted(
    wishes: Sequence[tuple[SeenHost, AdmissionMove]],
    places: _Places,
    unproven: Collection[str],
    holds: dict[str, Cause],
) -> list[tuple[SeenHost, AdmissionMove]]:
    """Return the wishes that there is a place for, the most urgent first; the others get a hold."""
    granted = []
    ordered = sorted(wishes, key=lambda wish: (wish[0].name not in unproven, _urgency(wish)))
    for host, move in ordered:
        served = move.after.served
        cause = places.open_trial(host, served=served, unproven=host.name in unproven)
        if cause is None:
            granted.append((host, move))
        else:
            holds[host.name] = cause
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
