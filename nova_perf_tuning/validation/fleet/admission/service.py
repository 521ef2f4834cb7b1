# SPDX-License-Identifier: Apache-2.0
"""One pass of admission: look, decide, act; and what it did, for people and programs."""

import dataclasses
import functools
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.validation.fleet.admission import capacity, executor, state
from nova_perf_tuning.validation.fleet.admission.cloud import (
    JudgedHost,
    TrialCloud,
    TrialValidator,
)
from nova_perf_tuning.validation.fleet.admission.model import (
    Action,
    AdmissionDecision,
    AdmissionMove,
    AdmissionState,
    HostRecord,
    SeenHost,
    TrialVerdict,
)
from nova_perf_tuning.validation.fleet.admission.policy import AdmissionPolicy
from nova_perf_tuning.validation.fleet.admission.store import (
    AdmissionStore,
    OwnedError,
    StoppedError,
)
from nova_perf_tuning.validation.store import engine

#: How often a pass looks at most before the next one is waited for.
_LOOKS: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class PassReport:
    """What a pass has decided and done.

    :ivar faults: host, or empty for all -> what kept it from its move.
    """

    seen: Mapping[str, SeenHost]
    records: Mapping[str, HostRecord]
    decision: AdmissionDecision
    faults: Mapping[str, str]


class AdmissionService:
    """Admits hosts of one cloud by one policy."""

    def __init__(
        self,
        store: AdmissionStore,
        cloud: TrialCloud,
        validator: TrialValidator,
        policy: AdmissionPolicy,
        acting: executor.Executor | None = None,
    ) -> None:
        self._store = store
        self._cloud = cloud
        self._validator = validator
        self._policy = policy
        self._executor = acting or executor.Executor(cloud, validator, store.confirm)

    def look(self) -> tuple[executor.Scene, AdmissionDecision]:
        """Return what holds now, and what is to be done; nothing is changed."""
        records = self._store.records()
        asked = self._store.asked()
        seen = []
        for host in self._cloud.look():
            seen.append(dataclasses.replace(host, asked=host.name in asked))
        keys = set()
        for record in records.values():
            if record.state == AdmissionState.VALIDATING:
                keys.add(record.run_key)
        runs = _stamped(self._validator.runs(keys), records)
        moment = state.Moment(self._policy, self._store.now(), runs)
        decision = capacity.decide(moment, seen, records, secrets.token_hex(7).upper())
        scene = executor.Scene(
            {host.name: host for host in seen}, records, self._policy, decision.unproven
        )
        return scene, decision

    def run(self) -> PassReport:
        """Make one pass.

        :raises StoppedError, OwnedError: this process may not go on.
        :raises DatabaseError, CloudError: nothing could be seen or written; a later pass goes on.
        """
        self._store.confirm()
        faults: dict[str, str] = {}
        moves: list[AdmissionMove] = []
        for number in range(1, _LOOKS + 1):
            scene, decision = self.look()
            made = _Pass(self._store, self._executor, scene, decision, faults)
            made.make(is_last=number == _LOOKS)
            moves += made.moves
            if not made.is_due_again:
                break
        records = scene.records
        if moves:
            records = self._store.records()
        whole = dataclasses.replace(decision, moves=moves)
        return PassReport(scene.seen, records, whole, faults)


class _Pass:
    """Makes the moves of one decision; a fault of one host stops that host alone."""

    def __init__(
        self,
        store: AdmissionStore,
        acting: executor.Executor,
        scene: executor.Scene,
        decision: AdmissionDecision,
        faults: dict[str, str],
    ) -> None:
        """:ivar moves: those that were tried; :ivar is_due_again: the next pass is due at once."""
        self._store = store
        self._executor = acting
        self._scene = scene
        self._decision = decision
        self.moves = list(decision.moves)
        self.is_due_again = False
        self._faults = faults

    def make(self, *, is_last: bool) -> None:
        """Make all moves.

        :param is_last: no pass follows at once.
        """
        of_action: dict[Action, list[AdmissionMove]] = {action: [] for action in executor.ORDER}
        for move in self._decision.moves:
            of_action[move.action].append(move)
        if of_action[Action.NONE]:
            self._store.write(of_action[Action.NONE])
        is_stale: list[bool] = []
        self._try("", lambda: is_stale.append(self._executor.sweep(self._scene)))
        for action in (Action.QUARANTINE, Action.WITHDRAW, Action.CLOSE, Action.ADMIT):
            for move in of_action[action]:
                self._try(move.after.host, functools.partial(self._finish, move))
        openings = [*of_action[Action.MEASURE_AGAIN], *of_action[Action.OPEN_TRIAL]]
        lost = [move for move in self.moves if _has_lost_its_verdict(move, self._decision)]
        released = [move for move in of_action[Action.NONE] if _leaves_its_trial(move)]
        if not is_last and (any(is_stale) or lost or released):
            # Hosts came out of what was left of a trial, or can now, or are open without a verdict: what
            # becomes of them is decided at once.
            self.is_due_again = True
        if openings and any(is_stale) and self.is_due_again:
            self.moves = [move for move in self.moves if move not in openings]
        elif openings:
            self._try("", lambda: self._open(openings))

    def _finish(self, move: AdmissionMove) -> None:
        """Act, then write: who is cut off in between does it again."""
        if move.action is Action.QUARANTINE:
            self._executor.quarantine(move)
        elif move.action is Action.WITHDRAW:
            self._executor.withdraw(move)
        elif move.action is Action.CLOSE:
            self._executor.close(move)
        elif not self._executor.admit(move):
            return
        if move.before is not move.after:
            self._store.write([move])

    def _open(self, moves: Sequence[AdmissionMove]) -> None:
        """Write, then act: the store knows the name of a trial before the cloud does."""
        try:
            self._executor.prove(self._scene)
        except executor.IsolationError:
            self._close(moves)
            raise
        changed = [move for move in moves if move.before is not move.after]
        if changed:
            self._store.write(changed)
        self._faults.update(self._executor.open(moves, self._scene))

    def _close(self, moves: Sequence[AdmissionMove]) -> None:
        """Close the hosts that cannot get a trial and whose verdict no longer counts."""
        for move in moves:
            before = move.before
            if before is None or before.host not in self._decision.unproven:
                continue
            if before.state != AdmissionState.QUARANTINED:
                closing = AdmissionMove(before, before, Action.CLOSE)
                self._try(before.host, functools.partial(self._finish, closing))

    def _try(self, host: str, step: Callable[[], None]) -> None:
        try:
            step()
        except (StoppedError, OwnedError, engine.DatabaseError):
            raise
        except errors.PerfTuningError as error:
            self._faults[host] = str(error)


def _leaves_its_trial(move: AdmissionMove) -> bool:
    return move.before is not None and bool(move.before.token) and not move.after.token


def _has_lost_its_verdict(move: AdmissionMove, decision: AdmissionDecision) -> bool:
    """Return whether a move found a host open although its verdict no longer counts."""
    if move.before is None or move.after.host not in decision.unproven:
        return False
    return move.before.state == AdmissionState.ADMITTED or move.action is Action.WITHDRAW


def _stamped(
    runs: Mapping[str, Mapping[str, JudgedHost] | None], records: Mapping[str, HostRecord]
) -> dict[str, state.Outcomes]:
    """Return outcomes with the fingerprint and the time that their hosts had at the beginning."""
    found: dict[str, dict[str, TrialVerdict] | None] = {}
    for key, outcomes in runs.items():
        if outcomes is None:
            found[key] = None
            continue
        verdicts = {}
        for host, judged in outcomes.items():
            record = records.get(host)
            if record is None or record.begun is None:
                continue
            verdicts[host] = TrialVerdict(
                judged.outcome, record.fingerprint, record.begun, judged.budgets
            )
        found[key] = verdicts
    return dict(found)
