# SPDX-License-Identifier: Apache-2.0
"""The operator's policy of admission: which hosts, when, how many at a time, and what follows.

A policy is refused whole, with all its faults.
"""

import dataclasses
import datetime
import fnmatch
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import json_schema
from nova_perf_tuning.placement import hosts
from nova_perf_tuning.specs import profiles
from nova_perf_tuning.validation.judge import budget_file
from nova_perf_tuning.validation.results import schema

_MAX_BYTES: Final = 256 * 1024
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]\Z"
#: Options of ``openstack perf validate`` that a trial sets itself.
_TRIALS_OWN: Final = frozenset(
    "--hosts --budget --output --require-trait --tag --resume --database --blocks --junit".split()
)
#: A larger share of a group may be out of service only where the policy says so in a word.
_LARGE_SHARE: Final = 0.5

_NAMES: Final = {
    "type": "array",
    "minItems": 1,
    "maxItems": 1000,
    "items": {"type": "string", "minLength": 1, "maxLength": 255},
}


def _closed(properties: Mapping[str, object], *required: str) -> dict[str, object]:
    """Return the schema of an object that has no other keys."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict(properties),
        "required": list(required),
    }


_GROUP: Final = _closed(
    {
        "name": {"type": "string", "pattern": r"^[A-Za-z0-9_.-]{1,64}\Z"},
        "hosts": _NAMES,
        "zones": _NAMES,
        "aggregates": _NAMES,
        "budget": {"type": "string", "minLength": 1, "maxLength": 4096},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "keep": {"type": "integer", "minimum": 0, "maximum": 100_000},
        "allow_whole_group": {"type": "boolean"},
        "close_beyond_share": {"type": "boolean"},
        "validate": {"type": "array", "maxItems": 100, "items": {"type": "string"}},
    },
    "name",
)
_TRIGGERS: Final = _closed(
    {
        "new": {"type": "boolean"},
        "rebooted": {"type": "boolean"},
        "agent_degraded": {"type": "boolean"},
        "renew_after_days": {"type": "number", "exclusiveMinimum": 0, "maximum": 3650},
        "max_age_days": {"type": "number", "exclusiveMinimum": 0, "maximum": 3650},
    }
)
_WINDOW: Final = _closed(
    {
        "days": {"type": "array", "minItems": 1, "items": {"enum": list(_DAYS)}},
        "from": {"type": "string", "pattern": _TIME},
        "to": {"type": "string", "pattern": _TIME},
    },
    "from",
    "to",
)

#: JSON schema of the policy file.
SCHEMA: Final[Mapping[str, object]] = _closed(
    {
        "schema": {"const": 1},
        "groups": {"type": "array", "minItems": 1, "maxItems": 1000, "items": _GROUP},
        "triggers": _TRIGGERS,
        "windows": {"type": "array", "maxItems": 100, "items": _WINDOW},
        "retries": {"type": "integer", "minimum": 0, "maximum": 10},
        "undecided_retries": {"type": "integer", "minimum": 0, "maximum": 10},
        "invalid_retries": {"type": "integer", "minimum": 0, "maximum": 100},
        "quarantine_days": {"type": "number", "minimum": 0, "maximum": 3650},
        "max_trials": {"type": "integer", "minimum": 1, "maximum": 10_000},
        "enable_reasons": {
            "type": "array",
            "maxItems": 100,
            "items": {"type": "string", "minLength": 1, "maxLength": 255},
        },
    },
    "schema",
    "groups",
)


class PolicyError(schema.InputError):
    """A policy cannot be used; the message has all its faults."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostGroup:
    """Hosts that share a capacity and a budget; a host belongs to the first group that has it.

    :ivar hosts, zones, aggregates: patterns of names; none: any.
    :ivar budget: the budget file that trials are judged by.
    :ivar share: of the group's hosts in service, that may be out of service at once.
    :ivar keep: so many hosts stay in service whatever the share allows.
    :ivar allow_whole_group: a share above one half, or a group of one host, is meant.
    :ivar close_beyond_share: a host whose verdict no longer counts is closed whatever the share
        allows; ``keep`` still holds.
    :ivar validate: options of ``openstack perf validate`` for trials, beside those that trials set.
    """

    name: str
    hosts: Sequence[str] = ()
    zones: Sequence[str] = ()
    aggregates: Sequence[str] = ()
    budget: str = "default"
    share: float = 0.05
    keep: int = 0
    allow_whole_group: bool = False
    close_beyond_share: bool = False
    validate: Sequence[str] = ()

    def has(self, host: str, zone: str, aggregates: Collection[str]) -> bool:
        """Return whether a host belongs to this group."""
        if self.hosts and not _matches(host, self.hosts):
            return False
        if self.zones and not _matches(zone, self.zones):
            return False
        if not self.aggregates:
            return True
        return any(_matches(name, self.aggregates) for name in aggregates)

    def most_out(self, size: int) -> int:
        """Return how many of ``size`` hosts may be out of service at once.

        At least one, or small groups would never be validated; of a group of one host none, unless
        the policy allows the whole group.
        """
        most = int(self.share * size)
        if most == 0 and (size > 1 or self.allow_whole_group):
            most = 1
        return max(0, min(most, size - self.keep))


@dataclasses.dataclass(frozen=True, slots=True)
class TimeWindow:
    """When trials may begin, in UTC; ``end`` before ``begin``: over midnight, of the day it began."""

    days: Sequence[int]
    begin: datetime.time
    end: datetime.time

    def has(self, moment: datetime.datetime) -> bool:
        """Return whether a moment (UTC) is inside."""
        time, day = moment.time(), moment.weekday()
        if self.begin <= self.end:
            return day in self.days and self.begin <= time < self.end
        if time >= self.begin:
            return day in self.days
        return time < self.end and (day - 1) % 7 in self.days


@dataclasses.dataclass(frozen=True, slots=True)
class Triggers:
    """What sends a host into a trial.

    :ivar renew_after_days: age of a verdict from which it is renewed.
    :ivar max_age_days: age of a verdict from which it does not count.
    """

    new: bool = True
    rebooted: bool = False
    agent_degraded: bool = True
    renew_after_days: float = 7
    max_age_days: float = 14


@dataclasses.dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """A whole policy.

    :ivar windows: none: at any time.
    :ivar retries: measurements after a first FAIL before quarantine; ``undecided_retries``: after
        a first INCONCLUSIVE one, each with more blocks, before a person is asked;
        ``invalid_retries``: the same after one that could not be judged, at most one an hour.
    :ivar quarantine_days: after which a quarantined host is tried again; 0: never by itself.
    :ivar max_trials: hosts in trials at a time, in all groups.
    :ivar enable_reasons: a service that is disabled for one of these reasons may be enabled.
    """

    groups: Sequence[HostGroup]
    triggers: Triggers = Triggers()
    windows: Sequence[TimeWindow] = ()
    retries: int = 1
    undecided_retries: int = 2
    invalid_retries: int = 12
    quarantine_days: float = 7
    max_trials: int = 64
    enable_reasons: Sequence[str] = (hosts.NEW_SERVICE,)

    def group(self, host: str, zone: str, aggregates: Collection[str]) -> HostGroup | None:
        """Return the group of a host; None: the policy is not about it."""
        for group in self.groups:
            if group.has(host, zone, aggregates):
                return group
        return None

    def is_open(self, moment: datetime.datetime) -> bool:
        """Return whether trials may begin at a moment (UTC)."""
        return not self.windows or any(window.has(moment) for window in self.windows)


def load(path: str) -> AdmissionPolicy:
    """Read a policy file.

    :raises schema.InputError: it cannot be read, or has faults: the message has them all.
    """
    text = schema.read_text(path, _MAX_BYTES)
    try:
        data = profiles.load_yaml(text, path)
    except profiles.ProfileError as error:
        raise PolicyError(str(error)) from None
    return from_data(data, path)


def from_data(data: Any, where: str) -> AdmissionPolicy:
    """Return the policy of a document; :raises PolicyError: as :func:`load`."""
    faults = []
    for error in json_schema.validator(SCHEMA).iter_errors(data):
        path = ".".join(map(str, error.absolute_path))
        faults.append(f"{path or 'the document'}: {json_schema.text(error)}")
    if not faults:
        policy = _policy(data)
        faults = _contradictions(policy)
    if faults:
        raise PolicyError(f"{where}: {'; '.join(sorted(faults))}")
    return policy


def _policy(data: Mapping[str, Any]) -> AdmissionPolicy:
    fields = {key: value for key, value in data.items() if key != "schema"}
    fields["groups"] = [HostGroup(**group) for group in data["groups"]]
    fields["triggers"] = Triggers(**data.get("triggers", {}))
    windows = []
    for window in data.get("windows", ()):
        days = [_DAYS.index(day) for day in window.get("days", _DAYS)]
        begin = datetime.time.fromisoformat(window["from"])
        windows.append(TimeWindow(days, begin, datetime.time.fromisoformat(window["to"])))
    fields["windows"] = windows
    return AdmissionPolicy(**fields)


def _contradictions(policy: AdmissionPolicy) -> list[str]:
    """Return what no schema can say."""
    faults = []
    names = [group.name for group in policy.groups]
    faults += _budget_faults(policy.groups)
    for number, group in enumerate(policy.groups):
        place = f"groups.{number} ({group.name})"
        given = {word.partition("=")[0] for word in group.validate}
        for option in sorted(_TRIALS_OWN.intersection(given)):
            faults.append(f"{place}: validate: a trial sets {option} itself; leave it out")
        if "--flavor" in given:
            faults.append(
                f"{place}: validate: guests of a trial must require its trait, and an existing"
                " flavor does not; leave out --flavor"
            )
        if names.index(group.name) != number:
            faults.append(f"{place}: another group has this name; give each its own")
        if group.share > _LARGE_SHARE and not group.allow_whole_group:
            faults.append(
                f"{place}: share {group.share:g} could take the whole group out of service;"
                " lower it to 0.5, or set allow_whole_group: true"
            )
        if not (group.hosts or group.zones or group.aggregates) and number + 1 < len(names):
            faults.append(f"{place}: it has all hosts, so later groups have none; move it last")
    triggers = policy.triggers
    if triggers.renew_after_days >= triggers.max_age_days:
        faults.append(
            "triggers: renew_after_days must be less than max_age_days, or verdicts end before"
            " they are renewed"
        )
    for number, window in enumerate(policy.windows):
        if window.begin == window.end:
            faults.append(f"windows.{number}: it is empty; 'from' and 'to' are the same time")
    for number, reason in enumerate(policy.enable_reasons):
        if reason.startswith(hosts.REASON_PREFIX):
            faults.append(f"enable_reasons.{number}: reasons of this program are always its own")
    return faults


def _budget_faults(groups: Sequence[HostGroup]) -> list[str]:
    """Return what is wrong with the budget files of groups, each file once."""
    faults = []
    for path in sorted({group.budget for group in groups}):
        try:
            budget_file.load(path)
        except schema.InputError as error:
            faults.append(f"budget: {error}")
    return faults


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
