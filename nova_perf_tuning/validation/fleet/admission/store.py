# SPDX-License-Identifier: Apache-2.0
"""Keeps admission in the run store's database: records of hosts, transitions, whose it is, the stop.

One process owns admission. Whatever it writes is written only while it is the owner, as with runs
(:mod:`nova_perf_tuning.validation.store.run_store`). Any process may stop it or ask for a host.
What the database refuses is a :class:`~.engine.DatabaseError`.
"""

import dataclasses
import datetime
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from nova_perf_tuning import errors
from nova_perf_tuning.validation.fleet.admission.model import (
    AdmissionMove,
    AdmissionState,
    HostRecord,
    TrialVerdict,
)
from nova_perf_tuning.validation.store import engine as database
from nova_perf_tuning.validation.store import owner

_control: Final = database.admission_control
_hosts: Final = database.admission_hosts
_moves: Final = database.admission_moves
_ROW: Final = _control.c.id == 1


class OwnedError(errors.PerfTuningError):
    """Another process admits hosts with this database."""


class StoppedError(errors.PerfTuningError):
    """A person has stopped admission."""


@dataclasses.dataclass(frozen=True, slots=True)
class Transition:
    """One transition of a host; ``before``: empty for its first state."""

    number: int
    at: datetime.datetime
    host: str
    before: str
    after: str
    cause: str


class AdmissionStore:
    """Reads and writes admission, in one thread."""

    def __init__(self, url: str | None = None, *, make: bool = True) -> None:
        self._engine = database.connect(url, make=make)
        self._name: owner.RunOwner | None = None

    def close(self) -> None:
        self._engine.dispose()

    # -- whose it is

    def take(self) -> None:
        """Make this process the owner.

        :raises OwnedError: another one is, and lives.
        """
        name = owner.RunOwner.new()

        def take(connection: sa.Connection) -> None:
            row = connection.execute(sa.select(_control).where(_ROW)).one()
            if row.owner == str(name):  # the answer to a first commit was lost
                return
            now = database.now(connection)
            other = owner.RunOwner.parse(row.owner)
            if other is not None and other.is_alive((now - row.seen_at).total_seconds()):
                raise OwnedError(
                    f"process {other.pid} on {other.machine} admits hosts with this database;"
                    " stop that first"
                )
            same = sa.and_(_ROW, _control.c.owner == row.owner, _control.c.seen_at == row.seen_at)
            change = sa.update(_control).where(same).values(owner=str(name), seen_at=now)
            if not connection.execute(change).rowcount:
                raise OwnedError("another process has just begun to admit hosts; try again later")

        database.write(self._engine, take)
        self._name = name

    def confirm(self) -> None:
        """Say that the owner, this process, lives, and that nobody has stopped it.

        :raises OwnedError: it is not the owner any more.
        :raises StoppedError: a person has stopped admission.
        """
        stopped = database.write(self._engine, self._hold)
        if stopped:
            raise StoppedError(f"admission is stopped: {stopped}")

    def leave(self) -> None:
        """Give it back; nothing happens where another process has it."""
        name, self._name = self._name, None
        if name is None:
            return
        mine = sa.and_(_ROW, _control.c.owner == str(name))
        change = sa.update(_control).where(mine).values(owner="")
        database.write(self._engine, lambda connection: connection.execute(change))

    def _hold(self, connection: sa.Connection) -> str:
        """Hold the owner's row until the transaction ends; return why admission is stopped."""
        if self._name is None:
            raise OwnedError("admission is not this process's")
        mine = sa.and_(_ROW, _control.c.owner == str(self._name))
        change = sa.update(_control).where(mine).values(seen_at=database.now(connection))
        if not connection.execute(change).rowcount:
            raise OwnedError(
                "another process admits hosts now: this one was silent for too long, and ends"
            )
        return str(connection.execute(sa.select(_control.c.stopped).where(_ROW)).scalar_one())

    # -- the kill switch, and what persons ask for

    def stop(self, reason: str) -> None:
        """Stop admission at its next step, whoever does it; empty: let it go on."""
        change = sa.update(_control).where(_ROW).values(stopped=reason[:255])
        database.write(self._engine, lambda connection: connection.execute(change))

    def stopped(self) -> str:
        """Return why it is stopped; empty: it is not."""
        with database.reading(self._engine) as connection:
            return str(connection.execute(sa.select(_control.c.stopped).where(_ROW)).scalar_one())

    def ask(self, host: str) -> None:
        """Have a known host validated again.

        :raises PerfTuningError: it is not known.
        """
        change = sa.update(_hosts).where(_hosts.c.host == host)

        def ask(connection: sa.Connection) -> None:
            known = sa.select(_hosts.c.host).where(_hosts.c.host == host)
            if connection.execute(known).first() is None:
                raise errors.PerfTuningError(
                    f"admission does not know host '{host}'; 'openstack perf host list' lists hosts"
                )
            connection.execute(change.values(asked=True))

        database.write(self._engine, ask)

    # -- hosts

    def now(self) -> datetime.datetime:
        """Return the database's time in whole seconds, UTC without a zone."""
        with database.reading(self._engine) as connection:
            return database.now(connection).replace(microsecond=0)

    def records(self) -> dict[str, HostRecord]:
        """Return what is known of each host."""
        found = {}
        with database.reading(self._engine) as connection:
            for row in connection.execute(sa.select(_hosts)):
                found[str(row.host)] = _record(row)
        return found

    def asked(self) -> frozenset[str]:
        """Return the hosts that persons want validated again."""
        wanted = sa.select(_hosts.c.host).where(_hosts.c.asked.is_(sa.true()))
        with database.reading(self._engine) as connection:
            return frozenset(map(str, connection.execute(wanted).scalars()))

    def write(self, moves: Sequence[AdmissionMove]) -> None:
        """Write the records of moves, and their transitions, in one transaction.

        :raises OwnedError: this process is not the owner; nothing was written.
        """
        key = secrets.token_hex(16)

        def write(connection: sa.Connection) -> None:
            self._hold(connection)
            done = sa.select(_moves.c.id).where(_moves.c.written == f"{key}-0")
            if connection.execute(done).first() is not None:
                return
            known = set(connection.execute(sa.select(_hosts.c.host)).scalars())
            at = database.now(connection)
            for number, move in enumerate(moves):
                _put(connection, move, is_known=move.after.host in known)
                row = _transition(move, f"{key}-{number}")
                connection.execute(sa.insert(_moves), {**row, "at": at})

        database.write(self._engine, write)

    def last(self) -> int:
        """Return the number of the last transition; 0: there is none."""
        with database.reading(self._engine) as connection:
            return int(connection.execute(sa.select(sa.func.max(_moves.c.id))).scalar() or 0)

    def transitions(self, after: int = 0, most: int = 10_000) -> Iterator[Transition]:
        """Yield transitions in their order, from the one behind number ``after``."""
        query = sa.select(_moves).where(_moves.c.id > after).order_by(_moves.c.id).limit(most)
        with database.reading(self._engine) as connection:
            for row in connection.execute(query):
                yield Transition(row.id, row.at, row.host, row.before, row.after, row.cause)


def _transition(move: AdmissionMove, key: str) -> dict[str, object]:
    before = ""
    if move.before is not None:
        before = move.before.state
    after = move.after
    return {
        "written": key,
        "host": after.host,
        "before": before,
        "after": after.state,
        "cause": after.cause,
    }


def _put(connection: sa.Connection, move: AdmissionMove, *, is_known: bool) -> None:
    """Write a record; a person's wish is fulfilled where the host goes into a trial."""
    record = move.after
    values: dict[str, Any] = {
        "state": record.state,
        "cause": record.cause,
        "since": record.since,
        "detail": _detail(record),
    }
    if record.state == AdmissionState.VALIDATING:
        values["asked"] = False
    if not is_known:
        connection.execute(sa.insert(_hosts), {"host": record.host, "asked": False, **values})
        return
    connection.execute(sa.update(_hosts).where(_hosts.c.host == record.host).values(values))


def _detail(record: HostRecord) -> dict[str, object]:
    detail = dataclasses.asdict(record)
    for name in ("host", "state", "since", "cause"):
        del detail[name]
    if record.begun is not None:
        detail["begun"] = record.begun.isoformat()
    if record.verdict is not None:
        detail["verdict"]["at"] = record.verdict.at.isoformat()
        detail["verdict"]["budgets"] = dict(record.verdict.budgets)
    return detail


def _record(row: sa.Row[Any]) -> HostRecord:
    """Return a row as a record; one of another version is a record of its state alone."""
    try:
        detail: Mapping[str, Any] = dict(row.detail)
        fields = dict(detail)
        if fields.get("begun") is not None:
            fields["begun"] = datetime.datetime.fromisoformat(fields["begun"])
        if fields.get("verdict") is not None:
            verdict = dict(fields["verdict"])
            verdict["at"] = datetime.datetime.fromisoformat(verdict["at"])
            fields["verdict"] = TrialVerdict(**verdict)
        return HostRecord(row.host, row.state, row.since, row.cause, **fields)
    except (TypeError, ValueError, KeyError, AttributeError):
        return HostRecord(row.host, f"?{row.state}", row.since, row.cause)
