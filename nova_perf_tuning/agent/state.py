# SPDX-License-Identifier: Apache-2.0
"""What the agent reports to ``nova-perf status``, in a file below /run, and to systemd."""

import collections
import contextlib
import dataclasses
import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import atomic_write, bounded_json, bounded_read, errors

SCHEMA: Final = 2
FILE: Final = "agent.json"
RUN_DIR: Final = "/run/nova-perf-tuning"
#: Seconds that a full socket is waited for: whoever should read it hangs, and we go on.
WAIT_S: Final = 5.0
#: More than the state of a host with a thousand guests and all findings.
_MAX_BYTES: Final = 4 << 20


class UnreadableError(errors.PerfTuningError):
    """What is there is not what an agent of this version writes."""


@dataclasses.dataclass(kw_only=True)
class Stats:
    """Counters since the agent's start.

    :ivar passes: passes by what caused them; :ivar written: writes by kind of setting;
    :ivar drifted: objects found changed by others, by kind; :ivar withdrawn: put back since no
        longer asked.
    :ivar errors: passes that could not be made; :ivar verifies: full readings.
    :ivar skipped: passes put off because a command was changing the host.
    """

    passes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    written: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    drifted: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    withdrawn: int = 0
    errors: int = 0
    skipped: int = 0
    verifies: int = 0


@dataclasses.dataclass(kw_only=True)
class AgentState(Stats):
    """What the agent says of itself; text in it may come from guests.

    :ivar pid_start: see :func:`process_start`; :ivar started, updated: seconds since the epoch.
    :ivar error, error_code: why the last pass could not be made; empty when it could.
    :ivar findings: the first of each code; :ivar findings_total: how many there are by code.
    :ivar nova_config: the files from which the operator's CPU sets are.
    :ivar warnings, notes: the first of the plan, as texts and with codes; :ivar warnings_total:
        how many it has.
    :ivar mode: ``enforce``, or ``observe``, which writes nothing.
    :ivar would_change, would_change_begun, would_change_since: of an observer by rule: changes
        that are due, that have become due since the start, and since when the oldest is due.
    :ivar conditions: see :mod:`nova_perf_tuning.agent.conditions`.
    :ivar plan_digest: see :class:`nova_perf_tuning.agent.host_info.PlanBasis`; empty: no plan yet.
    :ivar running: False for what an agent that was killed left behind; :ivar age_s: how old it is
        while one runs.
    """

    pid: int
    pid_start: str
    started: float
    updated: float
    updated_monotonic: float
    settings: int
    guests: int | None
    cpu_s: float
    error: str
    findings: list[dict[str, object]]
    findings_total: dict[str, int]
    warnings: list[str]
    warnings_total: int = 0
    notes: list[object] = dataclasses.field(default_factory=list)
    nova_config: list[str] = dataclasses.field(default_factory=list)
    error_code: str = ""
    mode: str = "enforce"
    would_change: dict[str, int] = dataclasses.field(default_factory=dict)
    would_change_begun: dict[str, int] = dataclasses.field(default_factory=dict)
    would_change_since: dict[str, float] = dataclasses.field(default_factory=dict)
    conditions: list[dict[str, str]] = dataclasses.field(default_factory=list)
    plan_digest: str = ""
    running: bool = True
    age_s: float | None = None


def write(directory: str, state: AgentState, sysroot: str = "") -> None:
    """Write the state whole.

    :param sysroot: see :func:`read`.
    :raises OSError: it cannot be written, or a link leads out of the recorded host.
    """
    with atomic_write.writing(os.path.join(directory, FILE), inside=sysroot) as file:
        file.write(json.dumps({"schema": SCHEMA, **vars(state)}).encode())


def remove(directory: str, sysroot: str = "") -> None:
    """Forget the state: the agent has ended.

    :param sysroot: see :func:`read`.
    """
    with contextlib.suppress(OSError, errors.PerfTuningError):
        atomic_write.remove(os.path.join(directory, FILE), inside=sysroot)


def read(directory: str = RUN_DIR, sysroot: str = "") -> AgentState | None:
    """Return what an agent wrote; None where none ever ran or it has ended.

    :param sysroot: the recorded host that the directory belongs to, out of which no link leads;
        empty: this host.
    :raises UnreadableError: it cannot be read, or another version wrote it.
    """
    path = os.path.join(directory, FILE)
    try:
        content = bounded_json.parse(
            bounded_read.read_text(path, _MAX_BYTES, inside=sysroot, links=False)
        )
        if content.pop("schema") != SCHEMA:
            raise ValueError
        state = AgentState(**content)
        _check_types(state)
        running = process_start(state.pid) == state.pid_start
        age = round(time.monotonic() - state.updated_monotonic, 1) if running else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
        raise UnreadableError(
            f"{path}: restart nova-perf-agent; where none runs remove the file"
        ) from None
    return dataclasses.replace(state, running=running, age_s=age)


_NUMBERS: Final = (
    "pid",
    "settings",
    "withdrawn",
    "errors",
    "skipped",
    "verifies",
    "warnings_total",
)
_TIMES: Final = ("started", "updated", "updated_monotonic", "cpu_s")
_TEXTS: Final = ("pid_start", "error", "error_code", "mode", "plan_digest")
_COUNTERS: Final = (
    "passes",
    "written",
    "drifted",
    "findings_total",
    "would_change",
    "would_change_begun",
)
_TEXT_LISTS: Final = ("warnings", "nova_config")
_OF_A_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime")


def _check_types(state: AgentState) -> None:
    """Refuse a state with a value of another type than an agent writes: the file may be a stranger's.

    :raises TypeError: it has one.
    """
    for name in _NUMBERS:
        _require(getattr(state, name), int)
    for name in _TIMES:
        _require(getattr(state, name), int, float)
    for name in _TEXTS:
        _require(getattr(state, name), str)
    for name in _COUNTERS:
        counter = getattr(state, name)
        _require(counter, dict)
        for number in counter.values():
            _require(number, int)
    _require(state.would_change_since, dict)
    for seconds in state.would_change_since.values():
        _require(seconds, int, float)
    for name in _TEXT_LISTS:
        texts = getattr(state, name)
        _require(texts, list)
        for text in texts:
            _require(text, str)
    _check_conditions(state.conditions)
    _require(state.guests, int, type(None))
    _require(state.notes, list)
    _require(state.findings, list)
    for finding in state.findings:
        _require(finding, dict)
        _require(finding.get("text"), str)
        if "kind" in finding:
            _require(finding.get("target"), str)


def _check_conditions(found: list[dict[str, str]]) -> None:
    """:raises TypeError: they are not what an agent writes."""
    _require(found, list)
    for condition in found:
        _require(condition, dict)
        for name in _OF_A_CONDITION:
            _require(condition.get(name), str)


def _require(value: object, *types: type) -> None:
    if not isinstance(value, types):
        raise TypeError


def process_start(pid: int) -> str:
    """Return a live process's start time in ticks after boot; empty: there is none.

    Together with its number it names the process.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    # One that was killed keeps its number until its parent takes note of it.
    return "" if fields[0] in (b"Z", b"X", b"x") else fields[19].decode("ascii")


class Notifier:
    """Sends to the socket that systemd named (sd_notify(3)); does nothing where there is none.

    :ivar watchdog: seconds within which systemd must hear of us; 0 where it does not ask.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
        self.watchdog = int(environment.get("WATCHDOG_USEC") or 0) / 1e6

    def send(self, **fields: str | int) -> None:
        """Send ``NAME=value`` for each field; that systemd cannot be reached is no reason to stop."""
        if not self._address:
            return
        text = "\n".join(
            f"{name}={' '.join(str(value).split())}" for name, value in fields.items()
        )
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
        ):
            sock.settimeout(WAIT_S)
            # Connected: else poll() finds room where the reader's queue is full, and we would
            # spin.
            sock.connect(self._address)
            sock.send(text.encode(errors="replace"))
