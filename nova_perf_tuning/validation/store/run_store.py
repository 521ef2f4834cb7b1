# SPDX-License-Identifier: Apache-2.0
"""Keeps a run over many hosts in the database: it can go on after Ctrl-C, a crash or kill -9.

A pair is ``running`` before its first API call, and its outcome and state change in one
transaction. Whoever resumes a run has the stacks of pairs removed that were cut off, and measures
them anew; what has an outcome is never measured again. What the database refuses is a
:class:`.engine.DatabaseError`.

One process owns a run. Whatever it writes is written only while the run is still its own, which
holds the row of the run until the end of the transaction: of two that both believe to be the owner
one finds no such row, and ends.
"""

import dataclasses
import datetime
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from nova_perf_tuning import errors
from nova_perf_tuning.placement import api
from nova_perf_tuning.printing import counted
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.store import engine as database
from nova_perf_tuning.validation.store import owner

#: What was confirmed so lately, in seconds, is not asked again before a call to the cloud that
#: only reads.
FRESH_S: Final = 30.0
#: While the database is away the last confirmation counts for so long, in seconds: nobody takes a
#: run over before :data:`.owner.SILENCE_S`, and a call to the cloud ends in the time between.
HOLD_S: Final = 240.0

_runs, _pairs = database.runs, database.pairs


class RunError(errors.PerfTuningError):
    """There is no such run, or it cannot be taken up now."""


class TakenOverError(RunError):
    """Another process has the run now; this one may not write or use the cloud for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunSummary:
    """One row of the list of runs.

    :ivar alive: the process that runs it is. :ivar done: pairs that have results.
    """

    run_id: str
    state: str
    created_at: datetime.datetime
    alive: bool
    leftovers: bool
    hosts: int
    pairs: int
    done: int
    cloud: str


def new_id() -> str:
    return f"{_now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


@dataclasses.dataclass(slots=True)
class _Owned:
    """A run of this process.

    :ivar confirmed: when the database last said so, by :func:`_clock`. :ivar failed: when it last
        did not answer.
    """

    name: owner.RunOwner
    had_owner: bool
    confirmed: float
    failed: float = 0.0
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class RunStore:
    """Reads and writes runs, in one thread; :meth:`seen` and a lease's check may use others."""

    def __init__(self, url: str | None = None, *, make: bool = True) -> None:
        self._engine = database.connect(url, make=make)
        self._owned: dict[str, _Owned] = {}

    def close(self) -> None:
        self._engine.dispose()

    def create(
        self,
        plan: fleet_model.FleetPlan,
        hosts: Sequence[str],
        pairs: Sequence[fleet_model.HostPair],
        environment: Environment,
    ) -> fleet_model.StoredRun:
        run_id = plan.measure.run_id
        name = owner.RunOwner.new()
        row = {
            "id": run_id,
            "kind": "heat",
            "state": "running",
            "owner": str(name),
            "created_at": _now(),
            "leftovers": False,
            "hosts": list(hosts),
            "plan": _plan_data(plan),
            "environment": environment.to_dict(),
        }
        rows = []
        for number, pair in enumerate(pairs):
            planned: dict[str, object] = {
                "run_id": run_id,
                "number": number,
                "client": pair.client,
                "server": pair.server,
                "state": "planned",
                "attempts": 0,
                "faults": [],
                "environment": {},
                "trials": [],
            }
            rows.append(planned)

        def create(connection: sa.Connection) -> None:
            connection.execute(sa.insert(_runs), {**row, "seen_at": database.now(connection)})
            connection.execute(sa.insert(_pairs), rows)

        self._own(run_id, name, create, had_owner=False)
        return self.load(run_id)

    def load(self, run_id: str) -> fleet_model.StoredRun:
        """Return a run.

        :raises RunError: there is none of that id, or another version has written its plan.
        :raises plugins.UnknownBenchmarkError: a benchmark of it is not installed any more.
        """
        with database.readable(run_id):
            return self._read(run_id)

    def _read(self, run_id: str) -> fleet_model.StoredRun:
        columns = [column for column in _pairs.c if column.name not in ("environment", "trials")]
        with database.reading(self._engine) as connection:
            run = _get(connection, run_id)
            query = sa.select(*columns).where(_pairs.c.run_id == run_id).order_by(_pairs.c.number)
            pairs = connection.execute(query).all()
        tasks = []
        for pair in pairs:
            hosts = fleet_model.HostPair(pair.client, pair.server)
            task = fleet_model.Task(pair.number, hosts, pair.state, pair.attempts, pair.seconds)
            for fault in pair.faults:
                fields = dict(fault)
                fields["kind"] = fleet_model.ErrorClass(fault["kind"])
                task.faults.append(fleet_model.PairError(**fields))
            tasks.append(task)
        plan, environment = _plan(run.plan, run.id), Environment.from_dict(run.environment)
        names, begun = sorted(run.hosts), run.created_at
        return fleet_model.StoredRun(
            run.id, run.state, plan, environment, names, tasks, begun, run.leftovers
        )

    def lines(self) -> list[RunSummary]:
        def count(*states: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
            return (
                sa.select(sa.func.count())
                .where(_pairs.c.run_id == _runs.c.id, *states)
                .scalar_subquery()
            )

        query = (
            sa.select(_runs, count().label("pairs"), count(_pairs.c.state == "done").label("done"))
            .where(_runs.c.kind == "heat")
            .order_by(_runs.c.created_at.desc(), _runs.c.id)
        )
        lines = []
        with database.reading(self._engine) as connection:
            now = database.now(connection)
            for run in connection.execute(query):
                line = RunSummary(
                    run_id=run.id,
                    state=run.state,
                    created_at=run.created_at,
                    alive=_is_alive(run.owner, run.seen_at, now),
                    leftovers=run.leftovers,
                    hosts=len(run.hosts),
                    pairs=run.pairs,
                    done=run.done,
                    cloud=run.plan["cloud"],
                )
                lines.append(line)
        return lines

    def tagged(self, tag: str, value: str) -> RunSummary | None:
        """Return the latest run with a tag, None where there is none."""
        latest = sa.select(_runs.c.id, _runs.c.environment).where(_runs.c.kind == "heat")
        with database.reading(self._engine) as connection:
            found = set()
            for run in connection.execute(latest):
                if (run.environment.get("tags") or {}).get(tag) == value:
                    found.add(run.id)
        for line in self.lines():
            if line.run_id in found:
                return line
        return None

    def claim(self, run_id: str) -> fleet_model.StoredRun:
        """Make this process the owner of a run that nobody runs, and return it.

        Pairs that were cut off are planned again.

        :raises RunError: no such run, it is complete, or its owner is alive.
        """
        name = owner.RunOwner.new()

        def claim(connection: sa.Connection) -> None:
            run = _take_over(connection, run_id, name)
            if run.state == "complete":
                raise RunError(f"run {run_id} is complete; there is nothing to resume")
            cut = _plan_again(connection, run_id)
            _change_run(
                connection, run_id, name, state="running", leftovers=run.leftovers or cut > 0
            )

        self._own(run_id, name, claim, had_owner=True)
        return self.load(run_id)

    def disown(self, run_id: str) -> None:
        """Take over a dead run so that its stacks can be removed; its state stays.

        :raises RunError: as :meth:`claim`.
        """
        name = owner.RunOwner.new()
        self._own(
            run_id, name, lambda connection: _take_over(connection, run_id, name), had_owner=True
        )

    def lease(self, run_id: str) -> api.Lease:
        """Return the right to a run that this process owns, for who asks the cloud in its name."""
        owned = self._own_run(run_id)
        return api.Lease(
            run_id, owned.name.token, lambda changes: self._check(run_id, changes), owned.had_owner
        )

    def seen(self, run_id: str) -> None:
        """Say that the run's owner, this process, is alive.

        :raises TakenOverError: it is no longer the owner.
        """
        owned = self._own_run(run_id)
        with owned.lock:
            self._confirm(run_id, owned)

    def end(self, run_id: str, state: str = "", *, leftovers: bool = False) -> None:
        """Say that nobody runs it any more; pairs that are still running are planned again.

        :param state: empty: as it was; one that died while running was interrupted.
        :raises TakenOverError: this process is no longer the owner; nothing was written.
        :raises RunError: it cannot be ``complete`` since pairs are without an outcome; it is
            ``interrupted`` then.
        """
        name = self._own_run(run_id).name
        died = sa.case((_runs.c.state == "running", "interrupted"), else_=_runs.c.state)

        def end(connection: sa.Connection) -> int:
            _say_alive(connection, run_id, name)
            _plan_again(connection, run_id)
            count = 0
            if state == "complete":
                planned = sa.and_(_pairs.c.run_id == run_id, _pairs.c.state == "planned")
                unmeasured = sa.select(sa.func.count()).where(planned)
                count = int(connection.execute(unmeasured).scalar_one())
            after = state or died
            if count:
                after = "interrupted"
            # The token alone is nobody's name; it says after a lost answer who has ended the run.
            _change_run(
                connection, run_id, name, state=after, owner=name.token, leftovers=leftovers
            )
            return count

        count = 0
        try:
            count = database.write(self._engine, end)
        except TakenOverError:
            if self._owner_of(run_id) != name.token:
                raise
        del self._owned[run_id]
        if count:
            open_pairs = f"{counted(count, 'pair')} without an outcome"
            raise RunError(f"run {run_id} is not complete: {open_pairs}; go on with --resume")

    def mark(self, run_id: str, task: fleet_model.Task, state: str) -> None:
        """Mark a pair, also in ``task``; ``running``: its stacks may exist."""
        self._change_pair(run_id, task.number, state=state)
        task.state = state

    def finish(
        self, run_id: str, task: fleet_model.Task, outcome: fleet_model.PairOutcome, state: str
    ) -> None:
        """Write the outcome of an attempt at a pair, and its new state, also into ``task``.

        Trials take the place of those of earlier attempts, faults are added to theirs.

        :param task: its ``seconds`` are those of this attempt already.
        :raises RunError, TakenOverError: the run is not this process's.
        :raises DatabaseError: it cannot be written.
        """
        attempts = task.attempts + 1
        faults = list(task.faults)
        for error in outcome.errors:
            faults.append(dataclasses.replace(error, attempt=attempts))
        environment = {
            "hosts": {arm: dataclasses.asdict(pair) for arm, pair in outcome.hosts.items()},
            "guests": outcome.guests,
            "host_cpu_source": outcome.host_cpu_source,
            "host_cpu_faults": outcome.host_cpu_faults,
            "workloads": outcome.workloads,
        }
        self._change_pair(
            run_id,
            task.number,
            state=state,
            attempts=attempts,
            seconds=task.seconds,
            environment=environment,
            faults=[dataclasses.asdict(fault) for fault in faults],
            trials=[dataclasses.asdict(trial) for trial in outcome.trials],
        )
        task.state = state
        task.attempts = attempts
        task.faults = faults

    def outcomes(self, run_id: str) -> Iterator[tuple[int, fleet_model.PairOutcome]]:
        """Yield number and outcome of the pairs that are done, a few at a time.

        Boots of trials are as the launcher gave them; errors are in :attr:`.fleet_model.StoredRun.tasks`.
        """
        done = sa.select(_pairs).where(_pairs.c.run_id == run_id, _pairs.c.state == "done")
        query = done.order_by(_pairs.c.number).execution_options(yield_per=50)
        with database.reading(self._engine) as connection:
            for row in connection.execute(query):
                known = row.environment
                outcome = fleet_model.PairOutcome(
                    pair=fleet_model.HostPair(row.client, row.server),
                    trials=[model.Trial(**trial) for trial in row.trials],
                    hosts={
                        arm: fleet_model.HostPair(**pair) for arm, pair in known["hosts"].items()
                    },
                    guests=known["guests"],
                    host_cpu_source=known["host_cpu_source"],
                    host_cpu_faults=known["host_cpu_faults"],
                    workloads=known.get("workloads", {}),
                )
                yield row.number, outcome

    def _change_pair(self, run_id: str, number: int, **values: object) -> None:
        name = self._own_run(run_id).name
        change = (
            sa.update(_pairs)
            .where(_pairs.c.run_id == run_id, _pairs.c.number == number)
            .values(values)
        )

        def write(connection: sa.Connection) -> None:
            _say_alive(connection, run_id, name)
            connection.execute(change)

        database.write(self._engine, write)

    # -- whose it is

    def _own(
        self,
        run_id: str,
        name: owner.RunOwner,
        work: Callable[[sa.Connection], object],
        *,
        had_owner: bool,
    ) -> None:
        """Do ``work``, which makes ``name`` the owner of a run; it may have been done unheard."""
        begun = _clock()
        try:
            database.write(self._engine, work)
        except errors.PerfTuningError:
            # The answer to a commit may have been lost, and the second time the run had its owner:
            # this one.
            if self._owner_of(run_id) != str(name):
                raise
        self._owned[run_id] = _Owned(name, had_owner, begun)

    def _own_run(self, run_id: str) -> _Owned:
        if run_id not in self._owned:
            raise RunError(f"run {run_id} is not this process's; take it up with --resume")
        return self._owned[run_id]

    def _owner_of(self, run_id: str) -> str:
        with database.reading(self._engine) as connection:
            return str(
                connection.execute(sa.select(_runs.c.owner).where(_runs.c.id == run_id)).scalar()
            )

    def _check(self, run_id: str, changes: bool) -> None:
        """See that a run is still this process's, as :class:`.api.Lease` says.

        Who is about to change something asks the database each time: no clock of ours need have
        noticed that the process, or its whole machine, stood still.
        """
        owned = self._own_run(run_id)
        with owned.lock:
            now = _clock()
            if now - owned.confirmed < FRESH_S and not changes:
                return
            is_away = now - owned.failed < FRESH_S and now - owned.confirmed < HOLD_S
            if is_away and not changes:
                return  # asking it takes as long as it may take to answer
            try:
                self._confirm(run_id, owned)
            except database.DatabaseError:
                owned.failed = _clock()
                if owned.failed - owned.confirmed >= HOLD_S:
                    raise

    def _confirm(self, run_id: str, owned: _Owned) -> None:
        begun = _clock()
        database.write(self._engine, lambda connection: _say_alive(connection, run_id, owned.name))
        owned.confirmed = begun


def _plan_data(plan: fleet_model.FleetPlan) -> dict[str, object]:
    data = dataclasses.asdict(plan)
    for job in data["measure"]["jobs"]:
        job["benchmark"] = job["benchmark"].kind
    return data


def _plan(data: Mapping[str, Any], run_id: str) -> fleet_model.FleetPlan:
    try:
        measure = dict(data["measure"])
        measure["arms"] = tuple(fleet_model.FleetArm(**arm) for arm in measure["arms"])
        jobs = []
        for job in measure["jobs"]:
            jobs.append(
                plugins.Job(job["label"], plugins.load(job["benchmark"]), job["parameters"])
            )
        measure["jobs"] = tuple(jobs)
        settings, guests = (
            fleet_model.RunSettings(**data["settings"]),
            fleet_model.GuestSettings(**data["guests"]),
        )
        return fleet_model.FleetPlan(
            fleet_model.MeasurePlan(**measure), settings, guests, data["max_loss"], data["cloud"]
        )
    except (KeyError, TypeError) as error:
        why = f"another version wrote its plan ({type(error).__name__}: {error})"
        raise RunError(f"run {run_id}: {why}; begin a new run") from None


def _get(connection: sa.Connection, run_id: str) -> sa.Row[Any]:
    run = connection.execute(
        sa.select(_runs).where(_runs.c.id == run_id, _runs.c.kind == "heat")
    ).first()
    if run is None:
        raise RunError(
            f"there is no run '{run_id[:40]}' in this database; 'openstack perf cleanup --list' lists them"
        )
    return run


def _say_alive(connection: sa.Connection, run_id: str, name: owner.RunOwner) -> None:
    """Write that a run's owner is alive; TakenOverError: as :func:`_change_run`."""
    _change_run(connection, run_id, name, seen_at=database.now(connection))


def _change_run(
    connection: sa.Connection, run_id: str, name: owner.RunOwner, **values: object
) -> None:
    """Change a run as its owner, and keep all others from doing so until the transaction ends.

    :raises TakenOverError: it is not the owner's any more.
    """
    own = sa.and_(_runs.c.id == run_id, _runs.c.owner == str(name))
    if connection.execute(sa.update(_runs).where(own).values(values)).rowcount:
        return
    text = connection.execute(sa.select(_runs.c.owner).where(_runs.c.id == run_id)).scalar()
    other = owner.RunOwner.parse(text or "")
    now = "it has ended there, or was removed"
    if other is not None:
        now = f"process {other.pid} on {other.machine} has it"
    raise TakenOverError(
        f"run {run_id} was taken over: {now}; this process was silent for too long and stops,"
        " nothing of the run was touched"
    )


def _plan_again(connection: sa.Connection, run_id: str) -> int:
    running = sa.and_(_pairs.c.run_id == run_id, _pairs.c.state == "running")
    return connection.execute(sa.update(_pairs).where(running).values(state="planned")).rowcount


def _take_over(connection: sa.Connection, run_id: str, name: owner.RunOwner) -> sa.Row[Any]:
    """Make ``name`` the owner of a run whose owner has died; of two that try, one succeeds."""
    run = _get(connection, run_id)
    before = owner.RunOwner.parse(run.owner)
    now = database.now(connection)
    if before is not None and _is_alive(run.owner, run.seen_at, now):
        raise RunError(
            f"run {run.id} is being run by process {before.pid} on {before.machine}; stop that first"
        )
    silent = sa.and_(
        _runs.c.id == run.id, _runs.c.owner == run.owner, _runs.c.seen_at == run.seen_at
    )
    taken = connection.execute(sa.update(_runs).where(silent).values(owner=str(name), seen_at=now))
    if not taken.rowcount:
        raise RunError(
            f"run {run.id} has just been taken up by another process, or its owner is alive after all"
        )
    return run


def _now() -> datetime.datetime:
    """Return the time by this machine's clock, as the database has it: UTC, without a zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def _clock() -> float:
    """Return a clock in seconds that goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_alive(text: str, seen_at: datetime.datetime, now: datetime.datetime) -> bool:
    """Return whether the owner of a run is a process that lives; both times: by the database."""
    name = owner.RunOwner.parse(text)
    return name is not None and name.is_alive((now - seen_at).total_seconds())
