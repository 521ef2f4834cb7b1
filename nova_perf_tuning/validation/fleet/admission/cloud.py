# SPDX-License-Identifier: Apache-2.0
"""What admission asks of a cloud and of who measures: two small protocols, and their values.

Each method that changes something is one step, which may be repeated: what is as wanted already is
no error. What is refused or cannot be reached is a :class:`~nova_perf_tuning.errors.PerfTuningError`.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from nova_perf_tuning.nova import traits
from nova_perf_tuning.validation.fleet.admission.model import DisabledBy, SeenHost, TrialVerdict

#: Aggregates of trials are called so, with the trial's token.
AGGREGATE_PREFIX: Final = "nova-perf-trial-"


def trait_of(token: str) -> str:
    """Return the trait of a trial; nobody but this service knows its name beforehand."""
    return f"{traits.TRIAL}{token}"


@dataclasses.dataclass(frozen=True, slots=True)
class TrialAggregate:
    """An aggregate of a trial, as Nova has it.

    :ivar required: the traits that its metadata require of guests.
    """

    aggregate_id: str
    uuid: str
    token: str
    hosts: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class TrialRun:
    """A measurement of hosts that are in one trial.

    :ivar key: its name. :ivar trait: what its guests require, and nobody else's.
    :ivar peers: admitted hosts that carry the trait too, for pairs.
    :ivar attempt: from 1; later ones have more blocks of trials. :ivar budget: a budget file.
    :ivar words: further options of ``openstack perf validate``.
    """

    key: str
    trait: str
    hosts: Sequence[str]
    peers: Sequence[str]
    attempt: int
    budget: str
    words: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class JudgedHost:
    """What a measurement says of a host; ``outcome``: PASS, FAIL, INCONCLUSIVE or INVALID."""

    outcome: str
    budgets: Mapping[str, str] = dataclasses.field(default_factory=dict)


class TrialCloud(Protocol):
    """A cloud, as far as admission needs it. Hosts are called as Nova calls their services."""

    def look(self) -> Sequence[SeenHost]:
        """Return all compute hosts."""

    def fingerprint(self, host: str) -> str:
        """Return a host's fingerprint as it is now; empty: unknown."""

    def disabled_by(self, host: str) -> DisabledBy:
        """Return whose reason a host's service has now."""

    def aggregates(self) -> Sequence[TrialAggregate]:
        """Return the aggregates of trials."""

    def mirrored(self, aggregate: TrialAggregate) -> Collection[str]:
        """Return the hosts whose providers are in an aggregate in Placement."""

    def isolates(self, aggregate: TrialAggregate, host: str) -> bool:
        """Return whether Nova and Placement both have the host in an aggregate that requires its trait."""

    def trial_traits(self) -> Collection[str]:
        """Return the traits of trials that Placement knows."""

    def carriers(self, trait: str) -> Collection[str]:
        """Return the hosts whose providers carry a trait; none where Placement does not know it."""

    def make_trait(self, trait: str) -> None:
        """Make Placement know a trait."""

    def delete_trait(self, trait: str) -> None:
        """Make Placement forget a trait that no provider carries."""

    def make_aggregate(self, token: str) -> TrialAggregate:
        """Make the aggregate of a trial, or return the one there is; no host may be in a new one."""

    def require_trait(self, aggregate: TrialAggregate, trait: str) -> None:
        """Make an aggregate keep out guests that do not require a trait."""

    def delete_aggregate(self, aggregate: TrialAggregate) -> None:
        """Delete an aggregate without hosts."""

    def join(self, aggregate: TrialAggregate, host: str) -> None:
        """Put a host into an aggregate in Nova."""

    def leave(self, aggregate: TrialAggregate, host: str) -> None:
        """Take a host out of an aggregate in Nova."""

    def mirror(self, aggregate: TrialAggregate, host: str, *, inside: bool) -> None:
        """Bring a host's provider into an aggregate in Placement, or out of it."""

    def set_trait(self, host: str, trait: str, *, carried: bool) -> None:
        """Give a host's provider a trait of a trial, or take it away."""

    def publish(self, host: str, verdict: TrialVerdict | None) -> None:
        """Bring a host's traits to those that a verdict earns; None: to none."""

    def enable(self, host: str) -> None:
        """Enable a host's service."""

    def disable(self, host: str, reason: str) -> None:
        """Disable a host's service; ``reason``: begins with the prefix of this program."""

    def is_refused(self, host: str) -> bool:
        """Return whether every scheduler refuses a guest for a host without its aggregate's trait."""


class TrialValidator(Protocol):
    """Who measures hosts."""

    def begin(self, run: TrialRun) -> None:
        """Begin a measurement and return; one of this name that was begun goes on."""

    def runs(self, keys: Collection[str]) -> Mapping[str, Mapping[str, JudgedHost] | None]:
        """Return the outcomes of measurements that were begun; None: it goes on."""
