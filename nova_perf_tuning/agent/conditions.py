# SPDX-License-Identifier: Apache-2.0
"""The agent's state as two conditions, ``Applied`` and ``Degraded``.

Names, statuses and fields are those that OpenShift's Node Tuning Operator has in the status of a
``Profile``, and the reason ``AsExpected`` is its own. What is a warning there leaves ``Degraded``
at ``False`` here too, with a reason.
"""

import datetime
import enum
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.agent.findings import AgentFindingCode
from nova_perf_tuning.printing import counted


class ConditionType(enum.StrEnum):
    """What a condition is about."""

    #: The host holds everything that the plan wants.
    APPLIED = "Applied"
    #: The agent cannot bring the host into that state, or keep it there, by itself.
    DEGRADED = "Degraded"


class ConditionStatus(enum.StrEnum):
    """Whether a condition is met."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ConditionReason(enum.StrEnum):
    """Why a condition has its status."""

    AS_EXPECTED = "AsExpected"
    WAITING = "Waiting"
    OBSERVING = "Observing"
    FAILED = "Failed"
    NOT_IN_FORCE = "NotInForce"
    WRITTEN_BY_OTHERS = "WrittenByOthers"
    IRQBALANCE_WITHOUT_SCRIPT = "IrqbalanceWithoutScript"
    COMPETING_DAEMON = "CompetingDaemon"
    APPLIED_BY_PERSON = "AppliedByPerson"


#: Findings that keep the plan from being applied, the most severe first.
_FAULTS: Final = (
    (AgentFindingCode.NOT_IN_FORCE, ConditionReason.NOT_IN_FORCE),
    (AgentFindingCode.WRITTEN_BY_OTHERS, ConditionReason.WRITTEN_BY_OTHERS),
)
_WARNINGS: Final = (
    (AgentFindingCode.IRQBALANCE_WITHOUT_SCRIPT, ConditionReason.IRQBALANCE_WITHOUT_SCRIPT),
    (AgentFindingCode.COMPETING_DAEMON, ConditionReason.COMPETING_DAEMON),
    (AgentFindingCode.APPLIED_BY_PERSON, ConditionReason.APPLIED_BY_PERSON),
)

#: A condition: ``type``, ``status``, ``reason``, ``message`` and ``lastTransitionTime``.
Condition = dict[str, str]


def judge(
    *,
    fault: str,
    looked: bool,
    due: int | None,
    settings: int,
    totals: Mapping[str, int],
    earlier: Sequence[Condition],
    now: float,
) -> list[Condition]:
    """Return both conditions.

    :param fault: why the last pass could not be made; empty: it could.
    :param looked: whether any pass was made.
    :param due: how many values an observer would write; None: this agent writes.
    :param settings: how many values the plan has.
    :param totals: findings by code.
    :param earlier: the conditions before; empty: there were none.
    :param now: seconds since the epoch, the ``lastTransitionTime`` of a status that is new.
    """
    applied, degraded = ConditionType.APPLIED, ConditionType.DEGRADED
    faults = _present(_FAULTS, totals)
    warnings = _present(_WARNINGS, totals)
    if fault:
        reason = ConditionReason.FAILED
        judged = [
            _condition(applied, ConditionStatus.FALSE, reason, fault),
            _condition(degraded, ConditionStatus.TRUE, reason, fault),
        ]
    elif not looked:
        reason = ConditionReason.WAITING
        text = "The first pass has not been made yet."
        judged = [
            _condition(kind, ConditionStatus.UNKNOWN, reason, text) for kind in ConditionType
        ]
    elif faults:
        reason, count = faults[0]
        text = f"{counted(count, 'value')} of the agent's plan cannot be kept; 'nova-perf status' lists them."
        judged = [
            _condition(applied, ConditionStatus.FALSE, reason, text),
            _condition(degraded, ConditionStatus.TRUE, reason, text),
        ]
    else:
        judged = [_applied(due, settings), _not_degraded(warnings)]
    times = {(old["type"], old["status"]): old["lastTransitionTime"] for old in earlier}
    new = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for condition in judged:
        since = times.get((condition["type"], condition["status"]), new)
        condition["lastTransitionTime"] = since
    return judged


def _present(
    table: Sequence[tuple[AgentFindingCode, ConditionReason]], totals: Mapping[str, int]
) -> list[tuple[ConditionReason, int]]:
    """Return the reasons of a table that there are findings of, and how many."""
    present: list[tuple[ConditionReason, int]] = []
    for code, reason in table:
        count = totals.get(code.value, 0)
        if count:
            present.append((reason, count))
    return present


def _applied(due: int | None, settings: int) -> Condition:
    """Return ``Applied`` of a pass without a fault."""
    kind = ConditionType.APPLIED
    if due:
        text = f"The agent observes: {due} of {counted(settings, 'value')} would be written."
        return _condition(kind, ConditionStatus.FALSE, ConditionReason.OBSERVING, text)
    text = f"The host holds {counted(settings, 'value')} of the agent's plan."
    return _condition(kind, ConditionStatus.TRUE, ConditionReason.AS_EXPECTED, text)


def _not_degraded(warnings: Sequence[tuple[ConditionReason, int]]) -> Condition:
    kind, status = ConditionType.DEGRADED, ConditionStatus.FALSE
    if not warnings:
        text = "Nothing kept the agent from its plan in the last pass."
        return _condition(kind, status, ConditionReason.AS_EXPECTED, text)
    reason, count = warnings[0]
    text = f"{counted(count, 'finding')} of this kind; 'nova-perf status' lists them."
    return _condition(kind, status, reason, text)


def _condition(
    kind: ConditionType, status: ConditionStatus, reason: ConditionReason, message: str
) -> Condition:
    return {
        "type": kind.value,
        "status": status.value,
        "reason": reason.value,
        "message": message,
    }
