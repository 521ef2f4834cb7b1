# SPDX-License-Identifier: Apache-2.0
"""What an agent that only observes would write: now, since when, and in the past.

The past is a file of JSON lines beside the journal, one line when a change becomes due and one
when it no longer is. An agent that starts again goes on from it.
"""

import collections
import dataclasses
import enum
import errno
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from nova_perf_tuning import atomic_write, bounded_json, bounded_read, errors
from nova_perf_tuning.agent import rewrite_limit
from nova_perf_tuning.host.model import host_model

LOG = logging.getLogger(__name__)

#: Beside the journal.
FILE: Final = "forecast.ndjson"
#: When the file has so many bytes, its older half goes; what is due stays.
LIMIT: Final = 8 << 20
#: Longer than any line.
_LONGEST: Final = 1 << 16
#: The largest that is read.
_MOST: Final = 4 * LIMIT


class ForecastError(errors.PerfTuningError):
    """The file cannot be read or written."""


class ForecastStep(enum.StrEnum):
    """What a line of the file says."""

    DUE = "due"
    #: The host holds the value now, or no plan wants it any longer.
    OVER = "over"


@dataclasses.dataclass(frozen=True, slots=True)
class DueChange:
    """One value that would be written.

    :ivar since: when it became due, seconds since the epoch; :ivar until: when it no longer was;
        None: it is still due.
    :ivar held: the value that the host had then.
    """

    kind: str
    target: str
    identity: str
    value: str
    held: str | None
    rule: str
    reason: str
    since: float
    until: float | None = None

    @property
    def key(self) -> rewrite_limit.Key:
        return self.kind, self.target, self.identity


class Forecast:
    """What is due now.

    :param directory: of the journal; made if need be.
    :param inside: the recorded host that the directory belongs to, empty: this host.
    :ivar due: changes by the object that they are about.
    :ivar begun: by rule, how many changes have become due since the start.
    """

    def __init__(
        self, directory: str, inside: str = "", *, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = os.path.join(directory, FILE)
        self._inside = inside
        self._clock = clock
        self.begun: collections.Counter[str] = collections.Counter()
        self.due: dict[rewrite_limit.Key, DueChange] = {}
        atomic_write.make_directory(directory, inside=inside)
        for change in read(self._path, inside):
            if change.until is None:
                self.due[change.key] = change

    def update(self, wanted: Sequence[host_model.Setting]) -> None:
        """Take note of everything that would be written now.

        :raises ForecastError: the file cannot be written.
        """
        now = self._clock()
        due: dict[rewrite_limit.Key, DueChange] = {}
        lines: list[dict[str, Any]] = []
        for setting in wanted:
            change = _change(setting, now)
            known = self.due.get(change.key)
            if known is not None and known.value == change.value:
                due[change.key] = known
                continue
            due[change.key] = change
            self.begun[change.rule] += 1
            lines.append({"step": ForecastStep.DUE.value, "at": now, **_fields(change)})
        over: list[dict[str, Any]] = []
        for key, change in self.due.items():
            if due.get(key) is not change:
                over.append({"step": ForecastStep.OVER.value, "at": now, **_fields(change)})
        self.due = due
        if lines or over:
            LOG.info(
                "would change: %d more, %d no longer, %d in all", len(lines), len(over), len(due)
            )
            self._write(over + lines)

    def by_rule(self) -> dict[str, int]:
        """Return how many changes are due of each rule that ever had one."""
        counts = dict.fromkeys(self.begun, 0)
        for change in self.due.values():
            counts[change.rule] = counts.get(change.rule, 0) + 1
        return counts

    def oldest(self) -> dict[str, float]:
        """Return since when the oldest change of each rule is due, seconds since the epoch."""
        since: dict[str, float] = {}
        for change in self.due.values():
            since[change.rule] = min(change.since, since.get(change.rule, change.since))
        return since

    def _write(self, lines: Iterable[dict[str, Any]]) -> None:
        text = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        try:
            descriptor = atomic_write.open_or_make(self._path)
            try:
                size = _whole_lines(descriptor)
                if os.pwrite(descriptor, text, size) < len(text):
                    os.ftruncate(descriptor, size)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
            if size + len(text) > LIMIT:
                self._cut()
        except OSError as error:
            raise ForecastError(f"{self._path}: {error.strerror}: free space there") from None

    def _cut(self) -> None:
        """Leave out the older half of the file, but for what is due."""
        lines = bounded_read.read_text(self._path, _MOST, inside=self._inside).splitlines()
        kept = lines[len(lines) // 2 :]
        begin: list[str] = []
        there: set[tuple[rewrite_limit.Key, float]] = set()
        for text in kept:
            step, at, change = _parsed(text)
            if step is ForecastStep.DUE:
                there.add((change.key, at))
        for change in self.due.values():
            if (change.key, change.since) in there:
                continue
            line = {"step": ForecastStep.DUE.value, "at": change.since, **_fields(change)}
            begin.append(json.dumps(line))
        with atomic_write.writing(self._path, inside=self._inside) as file:
            file.write("".join(f"{line}\n" for line in begin + kept).encode())


def _whole_lines(descriptor: int) -> int:
    """Return the size of a file; what a kill or a full disk left of its last line is cut off."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    begin = max(0, size - _LONGEST)
    tail = os.pread(descriptor, _LONGEST, begin)
    if tail and not tail.endswith(b"\n"):
        size = begin + tail.rfind(b"\n") + 1
        os.ftruncate(descriptor, size)
    return size


def read(path: str, inside: str = "") -> list[DueChange]:
    """Return all changes of a file in the order in which they became due; none where there is no file.

    :raises ForecastError: it cannot be read, or this program wrote no such file.
    """
    try:
        text = bounded_read.read_text(path, _MOST, inside=inside, links=False)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ForecastError(f"{path}: {error.strerror}") from None
    changes: list[DueChange] = []
    open_at: dict[rewrite_limit.Key, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            step, at, change = _parsed(line)
        except (bounded_json.JsonError, KeyError, TypeError, ValueError):
            if number == text.count("\n") + 1:  # the agent was killed while it wrote the last one
                break
            raise ForecastError(
                f"{path}:{number}: not a line of this program: remove the file"
            ) from None
        place = open_at.pop(change.key, None)
        if step is ForecastStep.DUE:
            open_at[change.key] = len(changes)
            changes.append(change)
        elif place is not None:
            changes[place] = dataclasses.replace(changes[place], until=at)
    return changes


def _parsed(line: str) -> tuple[ForecastStep, float, DueChange]:
    """:raises JsonError, KeyError, TypeError, ValueError: it is no line of a forecast."""
    document = bounded_json.parse(line)
    at = document["at"]
    if not isinstance(at, int | float) or not 0 <= at < 1 << 37:
        raise ValueError
    texts = [document[name] for name in _TEXTS]
    held = document["held"]
    if not all(isinstance(text, str) for text in texts) or not isinstance(held, str | None):
        raise TypeError
    kind, target, identity, value, rule, reason = texts
    change = DueChange(kind, target, identity, value, held, rule, reason, float(at))
    return ForecastStep(document["step"]), float(at), change


_TEXTS: Final = ("kind", "target", "identity", "value", "rule", "reason")


def _fields(change: DueChange) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(change, name) for name in _TEXTS}
    fields["held"] = change.held
    return fields


def _change(setting: host_model.Setting, now: float) -> DueChange:
    return DueChange(
        kind=setting.kind,
        target=setting.target,
        identity=setting.identity,
        value=setting.value,
        held=setting.current,
        rule=str(setting.rule),
        reason=setting.reason,
        since=now,
    )
