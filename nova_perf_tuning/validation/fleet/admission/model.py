# SPDX-License-Identifier: Apache-2.0
"""Values of admission: states, causes, what is known of a host, and the moves between states.

Times are UTC without a zone, by the database's clock.
"""

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence


class AdmissionState(enum.StrEnum):
    """Where a host stands; ``expired``: its verdict is due for renewal, or it never had one."""

    NEW = "new"
    VALIDATING = "validating"
    ADMITTED = "admitted"
    SUSPECT = "suspect"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"


class Cause(enum.StrEnum):
    """Why a host changed its state, or why it does not change it now."""

    REGISTERED = "registered"
    NO_VERDICT = "no_verdict"
    RECORD_LOST = "record_lost"
    FINGERPRINT = "fingerprint_changed"
    REBOOTED = "rebooted"
    DEGRADED = "agent_degraded"
    AGE = "verdict_old"
    ENABLED = "enabled_by_person"
    DISABLED = "disabled_behind_our_back"
    ASKED = "asked_by_person"
    RETRY = "quarantine_over"
    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    LEFT_GROUPS = "left_groups"
    # Nothing happens, since
    SETTLED = "nothing_to_do"
    MEASURING = "measuring"
    NO_HOST_MAPPING = "no_host_mapping"
    BY_OTHERS = "disabled_by_others"
    DOWN = "service_down"
    NO_FINGERPRINT = "fingerprint_unknown"
    NOT_TRIGGERED = "trigger_off"
    OUTSIDE_WINDOW = "outside_window"
    NO_ROOM = "no_capacity_to_spare"
    QUEUED = "too_many_trials"
    PAUSED = "pause_between_trials"
    NEEDS_PERSON = "needs_person"
    QUARANTINE = "quarantine"
    UNKNOWN_STATE = "unknown_state"


class DisabledBy(enum.StrEnum):
    """Whose reason a disabled compute service has; ``policy``: one that the policy names."""

    NOBODY = ""
    US = "us"
    POLICY = "policy"
    OTHERS = "others"


class Action(enum.StrEnum):
    """What has to be done in the cloud for a move."""

    NONE = "none"
    OPEN_TRIAL = "open_trial"
    MEASURE_AGAIN = "measure_again"
    CLOSE = "close"
    WITHDRAW = "withdraw"
    ADMIT = "admit"
    QUARANTINE = "quarantine"


@dataclasses.dataclass(frozen=True, slots=True)
class TrialVerdict:
    """The outcome of a host's trial.

    :ivar outcome: PASS, FAIL, INCONCLUSIVE or INVALID.
    :ivar fingerprint: of the host when the trial began; ``at``: when that was.
    :ivar budgets: name -> outcome.
    """

    outcome: str
    fingerprint: str
    at: datetime.datetime
    budgets: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class HostRecord:
    """What the store knows of a host.

    :ivar state: an :class:`AdmissionState`, unless another version has written it.
    :ivar since: when it came into this state, by ``cause``.
    :ivar served: it has had guests, so that it is capacity; a new host has not.
    :ivar boot: of the host when it was last admitted; empty: unknown.
    :ivar verdict: the latest; None: none yet.
    :ivar fails, undecided, invalid: measurements of this trial that gave FAIL, INCONCLUSIVE, INVALID.
    :ivar token: of the trial that it is in, which names the trial's aggregate and trait.
    :ivar attempt: number of the measurement in this trial, from 1.
    :ivar fingerprint, begun: of the host when that measurement began, and when.
    """

    host: str
    state: str
    since: datetime.datetime
    cause: str
    served: bool = False
    boot: str = ""
    verdict: TrialVerdict | None = None
    fails: int = 0
    undecided: int = 0
    invalid: int = 0
    token: str = ""
    attempt: int = 0
    fingerprint: str = ""
    begun: datetime.datetime | None = None

    @property
    def run_key(self) -> str:
        """The name of the measurement that this host is in."""
        return f"{self.token}-{self.attempt}"

    def is_valid(self, fingerprint: str, now: datetime.datetime, max_age_days: float) -> bool:
        """Return whether the verdict counts: a PASS of this fingerprint that is not too old."""
        verdict = self.verdict
        if verdict is None or verdict.outcome != "PASS" or not fingerprint:
            return False
        age = now - verdict.at
        return verdict.fingerprint == fingerprint and age <= datetime.timedelta(days=max_age_days)


@dataclasses.dataclass(frozen=True, slots=True)
class SeenHost:
    """What the cloud shows of a host now.

    :ivar group: name of its group in the policy; empty: the policy is not about it.
    :ivar mapped: it has a host mapping, so that Nova shows its hypervisor and resource provider.
    :ivar fingerprint: of kernel, firmware, QEMU, libvirt, Nova and plan; empty: unknown.
    :ivar boot: id of its boot; empty: unknown.
    :ivar published: it carries the trait of a verdict. :ivar isolated: it is in an aggregate that
        keeps guests out which do not require the trial's trait.
    :ivar degraded: its agent cannot keep the plan in force.
    :ivar asked: a person wants it validated again.
    """

    name: str
    group: str
    up: bool = True
    enabled: bool = True
    disabled_by: DisabledBy = DisabledBy.NOBODY
    mapped: bool = True
    fingerprint: str = ""
    boot: str = ""
    published: bool = False
    isolated: bool = False
    degraded: bool = False
    asked: bool = False

    @property
    def serves(self) -> bool:
        """Whether a tenant's guest may be placed here."""
        return self.up and self.enabled and not self.isolated


@dataclasses.dataclass(frozen=True, slots=True)
class AdmissionMove:
    """One step of a host.

    :ivar before: None: the store did not know the host.
    :ivar after: the record that it gets; a move that only acts in the cloud leaves it as it was.
    """

    before: HostRecord | None
    after: HostRecord
    action: Action


@dataclasses.dataclass(frozen=True, slots=True)
class AdmissionDecision:
    """What is to be done now.

    :ivar moves: in the order in which they are made.
    :ivar holds: host -> why it has no move.
    :ivar unproven: hosts that are open to tenants although their verdict no longer counts.
    """

    moves: Sequence[AdmissionMove]
    holds: Mapping[str, Cause]
    unproven: frozenset[str] = frozenset()
