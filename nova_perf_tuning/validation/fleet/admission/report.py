# SPDX-License-Identifier: Apache-2.0
"""States of hosts and their next moves as rows, and transitions as lines of JSON."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TextIO

from nova_perf_tuning.validation.fleet.admission.model import (
    Action,
    AdmissionDecision,
    Cause,
    HostRecord,
    SeenHost,
)
from nova_perf_tuning.validation.fleet.admission.store import AdmissionStore, Transition

#: The text of each action.
ACTION_TEXTS: Final[Mapping[Action, str]] = {
    Action.NONE: "change the state",
    Action.OPEN_TRIAL: "begin a trial",
    Action.MEASURE_AGAIN: "measure again",
    Action.CLOSE: "close until its trial",
    Action.WITHDRAW: "withdraw the verdict",
    Action.ADMIT: "admit",
    Action.QUARANTINE: "quarantine",
}
#: The text of each cause.
CAUSE_TEXTS: Final[Mapping[Cause, str]] = {
    Cause.REGISTERED: "Nova registered it disabled",
    Cause.NO_VERDICT: "in service without a verdict",
    Cause.RECORD_LOST: "the store lost its record",
    Cause.FINGERPRINT: "its fingerprint changed",
    Cause.REBOOTED: "it was rebooted",
    Cause.DEGRADED: "its agent reports degraded",
    Cause.AGE: "its verdict is old",
    Cause.ENABLED: "a person enabled it",
    Cause.DISABLED: "disabled with our reason, but not by a move",
    Cause.ASKED: "a person asked for it",
    Cause.RETRY: "its quarantine is over",
    Cause.PASSED: "validation PASS",
    Cause.FAILED: "validation FAIL",
    Cause.UNDECIDED: "no verdict in any attempt",
    Cause.LEFT_GROUPS: "it was in no group of the policy",
    Cause.SETTLED: "nothing to do",
    Cause.MEASURING: "measured now",
    Cause.NO_HOST_MAPPING: "no host mapping yet: nova-manage cell_v2 discover_hosts",
    Cause.BY_OTHERS: "disabled by somebody else",
    Cause.DOWN: "nova-compute is down",
    Cause.NO_FINGERPRINT: (
        "fingerprint unknown: its agent does not answer, or the budget file cannot be read"
    ),
    Cause.NOT_TRIGGERED: "the policy has no trigger for it",
    Cause.OUTSIDE_WINDOW: "outside the windows of time",
    Cause.NO_ROOM: "its group has no capacity to spare",
    Cause.QUEUED: "too many trials at a time",
    Cause.PAUSED: "measured again an hour after it could not be judged",
    Cause.NEEDS_PERSON: "a person must look: openstack perf admit --again HOST",
    Cause.QUARANTINE: "in quarantine",
    Cause.UNKNOWN_STATE: "unknown state: update nova-perf-tuning, or remove its row",
}


class HostRow(NamedTuple):
    """A host as a row; its fields are the head."""

    host: str
    group: str
    state: str
    reason: str
    since: str
    next: str


def rows(
    seen: Mapping[str, SeenHost], records: Mapping[str, HostRecord], decision: AdmissionDecision
) -> list[HostRow]:
    """Return a row for each host that the policy is about."""
    moves = {move.after.host: move for move in decision.moves}
    found = []
    for name, host in sorted(seen.items()):
        if not host.group:
            continue
        state, reason, since = "", "", ""
        record = records.get(name)
        if record is not None:
            state, reason = record.state, cause_text(record.cause)
            since = record.since.isoformat(sep=" ", timespec="seconds")
        following = ""
        if name in moves:
            following = ACTION_TEXTS[moves[name].action]
            if moves[name].action is Action.NONE:
                following = f"become {moves[name].after.state}"
        elif name in decision.holds:
            following = f"none: {cause_text(decision.holds[name])}"
        found.append(HostRow(name, host.group, state, reason, since, following))
    return found


def cause_text(code: str) -> str:
    """Return the text of a cause; that of another version's as it is."""
    try:
        return CAUSE_TEXTS[Cause(code)]
    except ValueError:
        return code


def line(move: Transition) -> str:
    """Return a transition as a line of JSON."""
    data = {
        "number": move.number,
        "at": f"{move.at.isoformat(timespec='seconds')}Z",
        "host": move.host,
        "before": move.before,
        "after": move.after,
        "cause": move.cause,
    }
    return json.dumps(data) + "\n"


def write_transitions(moves: Iterable[Transition], stream: TextIO) -> None:
    """Write transitions as lines of JSON."""
    for move in moves:
        stream.write(line(move))


class TransitionLog:
    """Appends new transitions to a file; without a path none."""

    def __init__(self, store: AdmissionStore, path: str | None) -> None:
        """Begin behind the last transition that there is."""
        self._store = store
        self._path = path
        self._last = 0
        if path is not None:
            self._last = store.last()

    def append(self) -> None:
        """Append what is new."""
        if self._path is None:
            return
        found = list(self._store.transitions(self._last))
        if not found:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o640)
        with open(descriptor, "a", encoding="utf-8") as stream:
            write_transitions(found, stream)
        self._last = found[-1].number
