# SPDX-License-Identifier: Apache-2.0
"""The latest validation result of a host as a small file: written by ``nova-perf publish``, read by nova-compute.

``openstack perf publish`` reads those of other hosts, too. A result has no effect when it is too
old, from the future or of another host.
"""

import dataclasses
import datetime
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import bounded_json, bounded_read, errors, json_schema
from nova_perf_tuning.specs import vocabulary

_MAX_BYTES: Final = 1 << 20
#: Most losses, and most characters of the name of one.
MAX_LOSSES: Final = 1000
MAX_FIGURE: Final = 800

#: Clocks of two hosts may differ; a result dated later than this from now was not made by this
#: host's clock.
MAX_SKEW: Final = datetime.timedelta(minutes=5)

VERDICTS: Final = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")

#: JSON schema of the file. Keys that it does not know are left alone, so that a newer writer may
#: add some.
SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "required": ["schema", "host", "created_at", "verdict", "budgets"],
    "properties": {
        "schema": {"const": 1},
        "host": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "description": "the host's name",
        },
        "created_at": {
            "type": "string",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(Z|[+-][0-9]{2}:[0-9]{2})\Z",
            "description": "begin of the validation; ISO 8601 with an offset from UTC",
        },
        "verdict": {"enum": list(VERDICTS), "description": "of the validation as a whole"},
        "budgets": {
            "type": "object",
            "maxProperties": 64,
            "propertyNames": {"type": "string", "pattern": rf"^{vocabulary.NAME_PATTERN}\Z"},
            "additionalProperties": {"enum": list(VERDICTS)},
            "description": "verdict of each budget that the host was judged by",
        },
        "score": {
            "type": ["number", "null"],
            "minimum": 0,
            "maximum": 100,
            "description": "what guests reach of the bare host, in percent; for the scheduler's preference",
        },
        "losses": {
            "type": "object",
            "maxProperties": MAX_LOSSES,
            "propertyNames": {"type": "string", "maxLength": MAX_FIGURE},
            "additionalProperties": {
                "type": "array",
                "minItems": 2,
                "maxItems": 2,
                "items": {"type": "number"},
            },
            "description": "figure and arms -> share that was lost, and may be lost; empty for a host of many",
        },
    },
}


class ResultError(errors.PerfTuningError):
    """A result file cannot be used; the message names the file and says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostResult:
    """What a validation found out about one host; see :data:`SCHEMA`.

    :ivar created_at: when the validation began, with its time zone. The age of the result counts
        from then.
    """

    host: str
    created_at: datetime.datetime
    verdict: str
    budgets: Mapping[str, str]
    score: float | None = None
    losses: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        """Return the text of the file; :func:`read` gives an equal result.

        :raises ResultError: :func:`read` would refuse the file.
        """
        data = {"schema": 1, **dataclasses.asdict(self), "created_at": self.created_at.isoformat()}
        text = json.dumps(data, indent=2, allow_nan=False) + "\n"
        where = f"the verdict on host {self.host[:60]!r}"
        if len(text) > _MAX_BYTES:
            raise ResultError(
                f"{where}: it is larger than {_MAX_BYTES >> 10} KiB; give budgets for fewer figures"
            )
        fault = json_schema.find(bounded_json.parse(text), SCHEMA)
        if fault is not None:
            raise ResultError(f"{where}: {fault}")
        return text

    def objection(
        self, host: str, now: datetime.datetime, max_age: datetime.timedelta
    ) -> str | None:
        """Return why this result does not count on ``host`` at ``now``, for people; None when it does."""
        made = self.created_at.isoformat()
        if not same_host(self.host, host):
            return (
                f"it is the result of host {self.host!r}, and this is {host!r}; validate this host"
            )
        if self.created_at > now + MAX_SKEW:
            return f"it is dated {made}, in the future; check the clocks and validate again"
        if now - self.created_at > max_age:
            limit = f"[nova_perf_tuning] result_max_age = {int(max_age.total_seconds())} seconds"
            return f"it was made at {made}, longer ago than {limit}; validate again"
        return None


def read(path: str, dir_fd: int | None = None) -> HostResult | None:
    """Return the result in file ``path``; None when there is no such file.

    :param dir_fd: the open directory of the file, where it is to be this very one; then the file
        may be no link.
    :raises ResultError: it cannot be read, or it holds no result.
    """
    try:
        if dir_fd is None:
            text = bounded_read.read_text(path, _MAX_BYTES)
        else:
            text = bounded_read.read_text(
                os.path.basename(path), _MAX_BYTES, dir_fd=dir_fd, links=False
            )
        data = bounded_json.parse(text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{path}: no validation result: {error}") from None
    return from_data(data, path)


def from_data(data: Any, where: str) -> HostResult:
    """Return the result that a JSON document holds.

    :param where: what the document is called, for messages.
    :raises ResultError: it holds none.
    """
    fault = json_schema.find(data, SCHEMA)
    if fault is not None:
        raise ResultError(f"{where}: {fault}")
    try:
        created = datetime.datetime.fromisoformat(data["created_at"]).astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise ResultError(f"{where}: no validation result: {error}") from None
    return HostResult(
        data["host"],
        created,
        data["verdict"],
        data["budgets"],
        data.get("score"),
        data.get("losses", {}),
    )


def same_host(name: str, other: str) -> bool:
    """Whether two host names mean the same; one of them may lack its domain."""
    name, other = name.lower().rstrip("."), other.lower().rstrip(".")
    if "." not in name or "." not in other:
        return name.split(".")[0] == other.split(".")[0]
    return name == other


def matching(names: Iterable[str], name: str) -> list[str]:
    """Return those of ``names`` that mean the host ``name``: the same word alone where it is there.

    Two hosts of a cloud may differ by their domains alone, and one of them may have none.
    """
    known = list(dict.fromkeys(names))
    if name in known:
        return [name]
    return [other for other in known if same_host(other, name)]
