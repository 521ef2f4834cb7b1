# SPDX-License-Identifier: Apache-2.0
"""The state machine of a host: what is known goes in, a move or the reason for none comes out.

Nothing here asks or changes a cloud, and nothing is remembered: every pass decides anew from what
holds now.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.validation.fleet.admission.model import (
    Action,
    AdmissionMove,
    AdmissionState,
    Cause,
    DisabledBy,
    HostRecord,
    SeenHost,
    TrialVerdict,
)
from nova_perf_tuning.validation.fleet.admission.policy import AdmissionPolicy

#: Outcomes of a measurement by host; None: it goes on.
Outcomes = Mapping[str, TrialVerdict] | None

_KNOWN: Final = frozenset(AdmissionState)
#: Least time between the beginnings of two measurements of which the first could not be judged:
#: what kept it from that may need some time to pass.
_PAUSE: Final = datetime.timedelta(hours=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """What all hosts of a pass share.

    :ivar now: UTC without a zone. :ivar runs: name of a measurement -> its outcomes.
    """

    policy: AdmissionPolicy
    now: datetime.datetime
    runs: Mapping[str, Outcomes]

    def is_valid(self, record: HostRecord, seen: SeenHost) -> bool:
        """Return whether a host's verdict counts now."""
        days = self.policy.triggers.max_age_days
        return record.is_valid(seen.fingerprint, self.now, days)

    def moved(self, record: HostRecord, state: AdmissionState, cause: Cause) -> HostRecord:
        """Return a record in another state."""
        return dataclasses.replace(record, state=state.value, since=self.now, cause=cause.value)


def next_step(moment: Moment, seen: SeenHost, record: HostRecord | None) -> AdmissionMove | Cause:
    """Return a host's next move, or why it has none.

    A move with :attr:`Action.OPEN_TRIAL` is a wish: :mod:`.capacity` decides which are granted.
    """
    if not seen.mapped:
        return Cause.NO_HOST_MAPPING
    if record is None:
        return _adopted(moment, seen)
    if record.state not in _KNOWN:
        return Cause.UNKNOWN_STATE
    state = AdmissionState(record.state)
    if state is AdmissionState.VALIDATING:
        return _measured(moment, seen, record)
    if state is AdmissionState.ADMITTED:
        return _watched(moment, seen, record)
    if _is_published_in_vain(moment, seen, record):
        return AdmissionMove(record, record, Action.WITHDRAW)
    if state is AdmissionState.QUARANTINED:
        is_over, cause = _quarantine(moment, seen, record)
        if not is_over:
            return cause
        return _wished(moment, seen, record, cause)
    if state is AdmissionState.NEW and not moment.policy.triggers.new and not seen.asked:
        return Cause.NOT_TRIGGERED
    return _wished(moment, seen, record, Cause(record.cause))


def released(moment: Moment, record: HostRecord) -> AdmissionMove:
    """Return the end of the trial of a host that no group of the policy has any more.

    Else it would stay closed for good, since nobody looks at it again.
    """
    state = AdmissionState.EXPIRED if record.served else AdmissionState.NEW
    after = dataclasses.replace(record, token="", attempt=0)
    return AdmissionMove(record, moment.moved(after, state, Cause.LEFT_GROUPS), Action.NONE)


def is_unproven(moment: Moment, seen: SeenHost, record: HostRecord | None) -> bool:
    """Return whether a host is open to tenants although its verdict no longer counts.

    One that never had a verdict was in service before admission was; it is in turn.
    """
    if record is None or record.state not in _KNOWN or record.verdict is None:
        return False
    if not seen.serves or not seen.fingerprint or record.state == AdmissionState.VALIDATING:
        return False
    return not moment.is_valid(record, seen)


def _adopted(moment: Moment, seen: SeenHost) -> AdmissionMove | Cause:
    """Return the first record of a host."""
    state, cause, served = AdmissionState.EXPIRED, Cause.NO_VERDICT, True
    if seen.disabled_by is DisabledBy.OTHERS:
        return Cause.BY_OTHERS
    if seen.disabled_by is DisabledBy.US:
        state, cause = AdmissionState.QUARANTINED, Cause.RECORD_LOST
    elif not seen.enabled:
        state, cause, served = AdmissionState.NEW, Cause.REGISTERED, False
    elif seen.isolated:
        state, cause = AdmissionState.SUSPECT, Cause.RECORD_LOST
    after = HostRecord(seen.name, state.value, moment.now, cause.value, served)
    return AdmissionMove(None, after, Action.NONE)


def _is_published_in_vain(moment: Moment, seen: SeenHost, record: HostRecord) -> bool:
    """Return whether a host carries a verdict of ours that no longer counts."""
    if not seen.published or record.verdict is None or not seen.fingerprint:
        return False
    return not moment.is_valid(record, seen)


def _watched(moment: Moment, seen: SeenHost, record: HostRecord) -> AdmissionMove | Cause:
    """Return what becomes of an admitted host."""
    triggers = moment.policy.triggers
    verdict = record.verdict
    state, cause = AdmissionState.SUSPECT, None
    if verdict is None:
        cause = Cause.NO_VERDICT
    elif seen.fingerprint and seen.fingerprint != verdict.fingerprint:
        cause = Cause.FINGERPRINT
    elif seen.disabled_by is DisabledBy.US:
        cause = Cause.DISABLED
    elif seen.asked:
        cause = Cause.ASKED
    elif triggers.agent_degraded and seen.degraded:
        cause = Cause.DEGRADED
    elif triggers.rebooted and seen.boot not in ("", record.boot):
        cause = Cause.REBOOTED
    elif moment.now - verdict.at > datetime.timedelta(days=triggers.renew_after_days):
        state, cause = AdmissionState.EXPIRED, Cause.AGE
    if cause is None:
        if seen.disabled_by is DisabledBy.OTHERS:
            return Cause.BY_OTHERS
        return Cause.SETTLED
    action = Action.NONE
    if _is_published_in_vain(moment, seen, record):
        action = Action.WITHDRAW
    return AdmissionMove(record, moment.moved(record, state, cause), action)


def _quarantine(moment: Moment, seen: SeenHost, record: HostRecord) -> tuple[bool, Cause]:
    """Return whether a host's quarantine is over, and why or why not."""
    verdict = record.verdict
    if seen.enabled:
        return True, Cause.ENABLED
    if seen.asked:
        return True, Cause.ASKED
    if verdict is not None and seen.fingerprint not in ("", verdict.fingerprint):
        return True, Cause.FINGERPRINT
    if record.cause == Cause.UNDECIDED:
        return False, Cause.NEEDS_PERSON
    days = moment.policy.quarantine_days
    if days and moment.now - record.since >= datetime.timedelta(days=days):
        return True, Cause.RETRY
    return False, Cause.QUARANTINE


def _wished(
    moment: Moment, seen: SeenHost, record: HostRecord, cause: Cause
) -> AdmissionMove | Cause:
    """Return the wish for a trial, or what keeps the host itself from one."""
    if seen.disabled_by is DisabledBy.OTHERS:
        return Cause.BY_OTHERS
    if not seen.up:
        return Cause.DOWN
    if not seen.fingerprint:
        return Cause.NO_FINGERPRINT
    if not moment.policy.is_open(moment.now) and not seen.asked:
        return Cause.OUTSIDE_WINDOW
    after = dataclasses.replace(
        moment.moved(record, AdmissionState.VALIDATING, cause),
        fails=0,
        undecided=0,
        invalid=0,
        attempt=1,
        fingerprint=seen.fingerprint,
        begun=moment.now,
    )
    return AdmissionMove(record, after, Action.OPEN_TRIAL)


def _measured(moment: Moment, seen: SeenHost, record: HostRecord) -> AdmissionMove | Cause:
    """Return what the outcome of a trial makes of a host."""
    is_begun = record.run_key in moment.runs
    outcomes = moment.runs.get(record.run_key)
    if is_begun and outcomes is None:
        if seen.up or record.cause == Cause.DOWN:
            return Cause.MEASURING
        after = moment.moved(record, AdmissionState.VALIDATING, Cause.DOWN)
        return AdmissionMove(record, after, Action.NONE)
    if seen.disabled_by is DisabledBy.OTHERS:
        return Cause.BY_OTHERS
    if outcomes is None:  # the trial was cut off before its measurement began
        return AdmissionMove(record, record, Action.OPEN_TRIAL)
    if not seen.up:
        return Cause.DOWN
    if not seen.fingerprint:
        return Cause.NO_FINGERPRINT
    verdict = outcomes.get(record.host)
    if verdict is None:
        begun = record.begun or moment.now
        verdict = TrialVerdict("INVALID", record.fingerprint, begun)
    return _judged(moment, seen, record, verdict)


def _judged(
    moment: Moment, seen: SeenHost, record: HostRecord, verdict: TrialVerdict
) -> AdmissionMove | Cause:
    """Return what a verdict makes of a host."""
    judged = dataclasses.replace(record, verdict=verdict)
    if verdict.outcome == "PASS" and moment.is_valid(judged, seen):
        admitted = dataclasses.replace(
            judged,
            served=True,
            boot=seen.boot,
            fails=0,
            undecided=0,
            invalid=0,
            token="",
            attempt=0,
        )
        after = moment.moved(admitted, AdmissionState.ADMITTED, Cause.PASSED)
        return AdmissionMove(record, after, Action.ADMIT)
    if verdict.fingerprint != seen.fingerprint:
        return _again(moment, seen, record, judged, Cause.FINGERPRINT)
    if verdict.outcome == "FAIL":
        after = dataclasses.replace(judged, fails=record.fails + 1)
        if after.fails > moment.policy.retries:
            return _quarantined(moment, record, after, Cause.FAILED)
        return _again(moment, seen, record, after, Cause.FAILED)
    if verdict.outcome != "INCONCLUSIVE":
        return _not_judged(moment, seen, record, judged)
    after = dataclasses.replace(judged, undecided=record.undecided + 1)
    if after.undecided > moment.policy.undecided_retries:
        return _quarantined(moment, record, after, Cause.UNDECIDED)
    return _again(moment, seen, record, after, Cause.UNDECIDED)


def _not_judged(
    moment: Moment, seen: SeenHost, record: HostRecord, judged: HostRecord
) -> AdmissionMove | Cause:
    """Return what follows from a measurement that says nothing about the host.

    It does not count where nova-compute was seen down meanwhile.
    """
    after = judged
    if record.cause != Cause.DOWN:
        after = dataclasses.replace(judged, invalid=record.invalid + 1)
    if after.invalid > moment.policy.invalid_retries:
        return _quarantined(moment, record, after, Cause.UNDECIDED)
    if record.begun is not None and moment.now - record.begun < _PAUSE:
        return Cause.PAUSED
    return _again(moment, seen, record, after, Cause.UNDECIDED)


def _quarantined(
    moment: Moment, before: HostRecord, record: HostRecord, cause: Cause
) -> AdmissionMove:
    after = moment.moved(
        dataclasses.replace(record, token="", attempt=0), AdmissionState.QUARANTINED, cause
    )
    return AdmissionMove(before, after, Action.QUARANTINE)


def _again(
    moment: Moment, seen: SeenHost, before: HostRecord, record: HostRecord, cause: Cause
) -> AdmissionMove:
    """Return the move of a host that is measured again in the same trial."""
    again = dataclasses.replace(
        record,
        attempt=record.attempt + 1,
        fingerprint=seen.fingerprint,
        begun=moment.now,
    )
    after = moment.moved(again, AdmissionState.VALIDATING, cause)
    return AdmissionMove(before, after, Action.MEASURE_AGAIN)
