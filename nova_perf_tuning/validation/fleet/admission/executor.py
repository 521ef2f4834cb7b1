# SPDX-License-Identifier: Apache-2.0
"""Does in the cloud what moves ask for, in an order in which no guest of a tenant can land too early.

A host enters a trial behind an aggregate that keeps out guests without the trial's trait, and only
then is its service enabled. It leaves the aggregate when its verdict is published, or when its
service is disabled. Each step may be the last one of this process: the next pass goes on from what
holds then.
"""

import dataclasses
import functools
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.placement import hosts
from nova_perf_tuning.validation.fleet.admission import cloud as clouds
from nova_perf_tuning.validation.fleet.admission.cloud import (
    TrialAggregate,
    TrialCloud,
    TrialRun,
    TrialValidator,
)
from nova_perf_tuning.validation.fleet.admission.model import (
    Action,
    AdmissionMove,
    AdmissionState,
    Cause,
    DisabledBy,
    HostRecord,
    SeenHost,
)
from nova_perf_tuning.validation.fleet.admission.policy import AdmissionPolicy

#: A proof that all schedulers keep guests out of such aggregates counts for so long, in seconds.
PROOF_S: Final = 24 * 3600.0
#: After a proof that failed the next one is tried so much later, in seconds.
AGAIN_S: Final = 3600.0
#: Hosts that are tried for a proof: one may be full.
_CANARIES: Final = 5
#: Peers that a trial has besides its own hosts, where these are too few to be compared.
PEERS: Final = 3


_NOT_ISOLATED: Final = (
    "a guest without the trait of a trial was placed on a host in a trial: set [scheduler]"
    " enable_isolated_aggregate_filtering = True for every nova-scheduler and restart it; until"
    " then no host is admitted, and this is asked again an hour later"
)


class IsolationError(errors.PerfTuningError):
    """Nothing may be enabled: the schedulers are not shown to keep guests out of a trial."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """What a pass has seen.

    :ivar unproven: see :class:`~.model.AdmissionDecision`.
    """

    seen: Mapping[str, SeenHost]
    records: Mapping[str, HostRecord]
    policy: AdmissionPolicy
    unproven: frozenset[str] = frozenset()

    def serving(self) -> list[str]:
        """Return hosts that tenants' guests may land on now, admitted ones first."""
        found = []
        for name, host in self.seen.items():
            record = self.records.get(name)
            if record is None or not host.serves:
                continue
            if record.state != AdmissionState.VALIDATING:
                is_admitted = record.state == AdmissionState.ADMITTED
                found.append((name in self.unproven, not is_admitted, name))
        return [name for _unproven, _order, name in sorted(found)]

    def peers(self, group: str) -> list[str]:
        """Return hosts of a group that a trial's hosts may be compared with, admitted ones first."""
        found = []
        for name in self.serving():
            if self.seen[name].group == group and name not in self.unproven:
                found.append(name)
        return found


class Executor:
    """Makes moves in a cloud; in one thread."""

    def __init__(
        self,
        cloud: TrialCloud,
        validator: TrialValidator,
        check: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet.

        :param check: called before each change; it raises where this process may not go on.
        """
        self._cloud = cloud
        self._validator = validator
        self._check = check
        self._clock = clock
        self._proved_at: float | None = None
        self._failed_at: float | None = None

    # -- moves

    def withdraw(self, move: AdmissionMove) -> None:
        """Take the verdict of a host away."""
        self._do(lambda: self._cloud.publish(move.after.host, None))

    def close(self, move: AdmissionMove) -> None:
        """Take the verdict of a host away, then disable it until its trial."""
        self.withdraw(move)
        self._disable(move.after.host, move.after.cause)

    def quarantine(self, move: AdmissionMove) -> None:
        """Disable a host, then let it leave its trial."""
        host = move.after.host
        self._disable(host, move.after.cause)
        self._do(lambda: self._cloud.publish(host, None))
        self._leave(host, _token(move))

    def admit(self, move: AdmissionMove) -> bool:
        """Publish a host's verdict, then let it leave its trial; False: it has changed just now."""
        host, verdict = move.after.host, move.after.verdict
        if verdict is None or self._cloud.fingerprint(host) != verdict.fingerprint:
            return False
        self._do(lambda: self._cloud.publish(host, verdict))
        if self._cloud.disabled_by(host) in (DisabledBy.US, DisabledBy.POLICY):
            self._enable(host, _token(move))
        self._leave(host, _token(move))
        return True

    def open(self, moves: Sequence[AdmissionMove], scene: Scene) -> dict[str, str]:
        """Bring hosts into their trials and begin to measure; return host -> why it was not."""
        faults: dict[str, str] = {}
        runs: dict[str, list[AdmissionMove]] = {}
        for move in moves:
            runs.setdefault(move.after.run_key, []).append(move)
        for key, members in runs.items():
            self._open_run(key, members, scene, faults)
        return faults

    def _open_run(
        self, key: str, moves: Sequence[AdmissionMove], scene: Scene, faults: dict[str, str]
    ) -> None:
        first = moves[0].after
        trait = clouds.trait_of(first.token)
        names = [move.after.host for move in moves]
        group = scene.seen[first.host].group
        peers = []
        if len(names) <= PEERS:
            peers = [name for name in scene.peers(group) if name not in names][:PEERS]
        aggregate = self._aggregate(first.token)
        opened = []
        for name in names:
            try:
                self._enter(aggregate, name, trait)
                opened.append(name)
            except errors.CloudError as error:
                faults[name] = str(error)
        for name in peers:
            self._do(functools.partial(self._cloud.set_trait, name, trait, carried=True))
        if not opened:
            return
        by_name = {entry.name: entry for entry in scene.policy.groups}
        chosen = by_name[group]
        run = TrialRun(key, trait, opened, peers, first.attempt, chosen.budget, chosen.validate)
        self._do(lambda: self._validator.begin(run))

    # -- one host and its aggregate

    def _disable(self, host: str, cause: str) -> None:
        """Disable a host's service, unless somebody else has."""
        reason = f"{hosts.REASON_PREFIX}admission: {cause}"
        if self._cloud.disabled_by(host) is not DisabledBy.OTHERS:
            self._do(lambda: self._cloud.disable(host, reason))

    def _aggregate(self, token: str) -> TrialAggregate:
        """Return a trial's aggregate, which keeps out guests without the trial's trait."""
        trait = clouds.trait_of(token)
        self._do(lambda: self._cloud.make_trait(trait))
        self._check()
        aggregate = self._cloud.make_aggregate(token)
        if trait not in aggregate.required:
            self._do(lambda: self._cloud.require_trait(aggregate, trait))
        return aggregate

    def _enter(self, aggregate: TrialAggregate, host: str, trait: str) -> None:
        self._isolate(aggregate, host)
        self._do(lambda: self._cloud.set_trait(host, trait, carried=True))
        if self._cloud.disabled_by(host) in (DisabledBy.US, DisabledBy.POLICY):
            self._enable(host, aggregate.token)

    def _isolate(self, aggregate: TrialAggregate, host: str) -> None:
        self._do(lambda: self._cloud.join(aggregate, host))
        self._do(lambda: self._cloud.mirror(aggregate, host, inside=True))

    def _enable(self, host: str, token: str) -> None:
        """Enable a host's service, given that it is shown to be isolated."""
        if self._proved_at is None:
            raise IsolationError("the schedulers were not asked yet whether they isolate trials")
        aggregate = self._find(token)
        if aggregate is None or not self._cloud.isolates(aggregate, host):
            raise errors.CloudError(
                f"host {host} is not in the aggregate of its trial; it stays disabled until the"
                " next pass"
            )
        self._do(lambda: self._cloud.enable(host))

    def _leave(self, host: str, token: str) -> None:
        """Take a host out of its trial; its verdict is published, or its service disabled."""
        if not token:
            return
        aggregate = self._find(token)
        if aggregate is not None:
            self._do(lambda: self._cloud.leave(aggregate, host))
            self._do(lambda: self._cloud.mirror(aggregate, host, inside=False))
        trait = clouds.trait_of(token)
        if host in self._cloud.carriers(trait):
            self._do(lambda: self._cloud.set_trait(host, trait, carried=False))

    def _find(self, token: str) -> TrialAggregate | None:
        for aggregate in self._cloud.aggregates():
            if aggregate.token == token:
                return aggregate
        return None

    # -- the proof

    def prove(self, scene: Scene) -> None:
        """See that every scheduler keeps guests out of an aggregate whose trait they do not require.

        A host in service is put into such an aggregate for a moment, and asked for a guest.

        :raises IsolationError: they do not, or no host is in service.
        """
        now = self._clock()
        if self._proved_at is not None and now - self._proved_at < PROOF_S:
            return
        self._proved_at = None
        if self._failed_at is not None and now - self._failed_at < AGAIN_S:
            raise IsolationError(_NOT_ISOLATED)
        candidates = scene.serving()
        if not candidates:
            raise IsolationError(
                "no host is in service on which the isolation of trials could be shown; validate and"
                " publish one by hand: openstack perf validate, openstack perf publish"
            )
        if not self._is_any_refused(candidates[:_CANARIES]):
            self._failed_at = now
            raise IsolationError(_NOT_ISOLATED)
        self._proved_at = now

    def _is_any_refused(self, candidates: Sequence[str]) -> bool:
        """Return whether the first host that can be asked for a guest refuses it.

        :raises CloudError: none can be asked, since all are full, or the cloud does not answer.
        """
        fault = errors.CloudError("no host could be asked")
        for host in candidates:
            try:
                return self._is_refused(host)
            except errors.CloudError as error:
                fault = error
        raise fault

    def _is_refused(self, host: str) -> bool:
        """Ask a host for a guest while it is in an aggregate that requires a trait."""
        token = secrets.token_hex(8).upper()
        aggregate = self._aggregate(token)
        self._isolate(aggregate, host)
        try:
            self._check()
            is_refused = self._cloud.is_refused(host)
            if self._cloud.disabled_by(host) is not DisabledBy.NOBODY:
                raise errors.CloudError(
                    f"host {host} was disabled meanwhile, so that its refusal shows nothing"
                )
            return is_refused
        finally:
            self._leave(host, token)

    # -- what was left

    def sweep(self, scene: Scene) -> bool:
        """Remove what trials left that are over, or were cut off.

        A host without a valid verdict is disabled before it leaves.

        :returns: whether a host has left, so that what was seen of it no longer holds.
        """
        has_left = False
        live: dict[str, set[str]] = {}
        for record in scene.records.values():
            if record.state == AdmissionState.VALIDATING:
                live.setdefault(record.token, set()).add(record.host)
        for aggregate in self._cloud.aggregates():
            members = live.get(aggregate.token, set())
            for host in sorted(aggregate.hosts - members):
                has_left |= self._evict(host, aggregate, scene)
            if not members and aggregate.hosts <= scene.records.keys():
                self._forget(aggregate)
        kept = {clouds.trait_of(token) for token in live}
        for trait in sorted(set(self._cloud.trial_traits()) - kept):
            self._drop_trait(trait, self._cloud.carriers(trait))
        return has_left

    def _evict(self, host: str, aggregate: TrialAggregate, scene: Scene) -> bool:
        record = scene.records.get(host)
        if record is None:  # it gets one first
            return False
        if not self._may_serve(host, record):
            if self._cloud.disabled_by(host) is DisabledBy.NOBODY:
                reason = f"{hosts.REASON_PREFIX}admission: no valid verdict"
                self._do(lambda: self._cloud.disable(host, reason))
        self._leave(host, aggregate.token)
        return True

    def _may_serve(self, host: str, record: HostRecord) -> bool:
        """Return whether a host may be open to tenants: by its verdict, or since it never had one."""
        if record.state == AdmissionState.EXPIRED and record.verdict is None:
            return True
        verdict = record.verdict
        if verdict is None or record.state in (AdmissionState.NEW, AdmissionState.QUARANTINED):
            return False
        fingerprint = self._cloud.fingerprint(host)
        if not fingerprint and record.cause == Cause.LEFT_GROUPS:
            # Of when its trial began: without a group it has none now.
            fingerprint = record.fingerprint
        return verdict.outcome == "PASS" and verdict.fingerprint == fingerprint

    def _forget(self, aggregate: TrialAggregate) -> None:
        trait = clouds.trait_of(aggregate.token)
        for host in sorted(self._cloud.carriers(trait)):
            self._do(functools.partial(self._cloud.set_trait, host, trait, carried=False))
        # Nova may have been cut off before it informed Placement that a host has left.
        for host in sorted(self._cloud.mirrored(aggregate)):
            self._do(functools.partial(self._cloud.mirror, aggregate, host, inside=False))
        self._do(lambda: self._cloud.delete_aggregate(aggregate))

    def _drop_trait(self, trait: str, carriers: Collection[str]) -> None:
        for host in sorted(carriers):
            self._do(functools.partial(self._cloud.set_trait, host, trait, carried=False))
        self._do(lambda: self._cloud.delete_trait(trait))

    def _do(self, step: Callable[[], None]) -> None:
        """Make one step, given that this process may."""
        self._check()
        step()


def _token(move: AdmissionMove) -> str:
    """Return the trial that a move ends."""
    if move.before is None:
        return ""
    return move.before.token


#: In which order moves are made: what takes hosts out of service first.
ORDER: Final = (
    Action.QUARANTINE,
    Action.WITHDRAW,
    Action.CLOSE,
    Action.ADMIT,
    Action.MEASURE_AGAIN,
    Action.OPEN_TRIAL,
    Action.NONE,
)
