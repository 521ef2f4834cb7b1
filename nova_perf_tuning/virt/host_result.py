"""The latest validation result of a host as a small file: written by a validation, read by nova-compute.

The file is data from outside for its reader: bounded, checked against :data:`SCHEMA`, and without effect when
it is too old, from the future or of another host.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning import at_once, errors, schema_fault
from nova_perf_tuning.specs import vocabulary

#: A result with the largest number of budgets takes about 6 KiB.
MAX_BYTES: Final = 32 << 10
MAX_BUDGETS: Final = 64

#: Clocks of two hosts may differ; a result dated later than this from now was not made by this host's clock.
MAX_SKEW: Final = datetime.timedelta(minutes=5)

VERDICTS: Final = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")

# \Z and not $, which takes a newline after it.
_NAME: Final = {"type": "string", "pattern": rf"^{vocabulary.NAME_PATTERN}\Z"}
_TIME: Final = {"type": "string", "maxLength": 40, "description": "ISO 8601 with an offset from UTC"}

#: JSON schema of the file. Keys that it does not know are left alone, so that a newer writer may add some.
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["schema", "host", "created_at", "verdict", "budgets"],
    "properties": {
        "schema": {"const": 1},
        "host": {"type": "string", "minLength": 1, "maxLength": 255, "description": "the host's name"},
        "created_at": {**_TIME, "description": "end of the validation; ISO 8601 with an offset from UTC"},
        "expires_at": {
            "type": ["string", "null"],
            "maxLength": 40,
            "description": "does not count from here on; null or absent: [nova_perf_tuning] result_max_age alone",
        },
        "verdict": {"enum": list(VERDICTS), "description": "of the validation as a whole"},
        "budgets": {
            "type": "object",
            "maxProperties": MAX_BUDGETS,
            "propertyNames": _NAME,
            "additionalProperties": {"enum": list(VERDICTS)},
            "description": "verdict of each budget that the host was judged by",
        },
        "host_kind": {
            "type": ["string", "null"],
            "pattern": _NAME["pattern"],
            "description": "the operator's name for hosts of this hardware",
        },
        "score": {
            "type": ["number", "null"],
            "minimum": 0,
            "maximum": 100,
            "description": "what guests reach of the bare host, in percent; for the scheduler's preference",
        },
    },
}


class ResultError(errors.PerfTuningError):
    """A result file cannot be used; the message names the file and says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostResult:
    """What a validation found out about one host; see :data:`SCHEMA` for the meaning of the fields.

    Times are aware of their zone.
    """

    host: str
    created_at: datetime.datetime
    verdict: str
    budgets: Mapping[str, str]
    expires_at: datetime.datetime | None = None
    host_kind: str | None = None
    score: float | None = None

    def to_json(self) -> str:
        """Return the text of the file; :func:`parse` gives an equal result."""
        data: dict[str, Any] = {"schema": 1, **dataclasses.asdict(self), "budgets": dict(self.budgets)}
        for name in ("created_at", "expires_at"):
            data[name] = data[name] and data[name].isoformat()
        return json.dumps(data, indent=2, allow_nan=False) + "\n"

    def objection(self, host: str, now: datetime.datetime, max_age: datetime.timedelta) -> str | None:
        """Return why this result does not count on ``host`` at ``now``, as a clause; None when it does."""
        if not same_host(self.host, host):
            return f"it is the result of host {self.host!r}, and this is {host!r}; validate this host"
        if self.created_at > now + MAX_SKEW:
            return f"it is dated {self.created_at.isoformat()}, in the future; check the clocks and validate again"
        if now - self.created_at > max_age:
            return (
                f"it was made at {self.created_at.isoformat()}, longer ago than [nova_perf_tuning] "
                f"result_max_age = {int(max_age.total_seconds())} seconds; validate again"
            )
        if self.expires_at is not None and now >= self.expires_at:
            return f"it expired at {self.expires_at.isoformat()}; validate again"
        return None


def parse(text: str, source: str) -> HostResult:
    """Read a result.

    :param source: file name for messages.
    :raises ResultError: not JSON, or not of the schema.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{source}: not usable JSON: {error}") from None
    fault = schema_fault.find(data, SCHEMA)
    if fault is not None:
        raise ResultError(f"{source}: {fault}")
    expires_at = data.get("expires_at")
    return HostResult(
        host=data["host"],
        created_at=_time(data["created_at"], f"{source}: created_at"),
        verdict=data["verdict"],
        budgets=data["budgets"],
        expires_at=None if expires_at is None else _time(expires_at, f"{source}: expires_at"),
        host_kind=data.get("host_kind"),
        score=data.get("score"),
    )


def read(path: str) -> HostResult | None:
    """Return the result in file ``path``; None when there is no such file.

    :raises ResultError: it cannot be read, or it holds no result.
    """
    try:
        return parse(at_once.read_text(path, MAX_BYTES), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None


def _time(text: str, place: str) -> datetime.datetime:
    try:
        time = datetime.datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError("no offset from UTC")
        # An offset can push a time at the edge of the calendar out of it.
        return time.astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise ResultError(f"{place}: {error}; write it as 2026-01-31T12:00:00+00:00") from None


def same_host(one: str, other: str) -> bool:
    """Whether two host names mean the same; one of them may lack its domain."""
    one, other = one.lower().rstrip("."), other.lower().rstrip(".")
    if "." not in one or "." not in other:
        return one.split(".")[0] == other.split(".")[0]
    return one == other
