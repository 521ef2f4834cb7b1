# SPDX-License-Identifier: Apache-2.0
"""Keeps a run over many hosts in the database of runs, so that it can go on after Ctrl-C, a crash or kill -9.

A pair is ``running`` before its first API call, and its outcome and state change in one transaction. Whoever
resumes a run has the stacks of pairs removed that were cut off, and measures them anew; what has an outcome is
never measured again. What the database refuses is a :class:`.engine.DatabaseError`.
"""

import dataclasses
import datetime
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import psutil

from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.database import engine as database  # first: it says which extra SQLAlchemy is of

# isort: split
import sqlalchemy as sa

from nova_perf_tuning import errors
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.cloud import model
from nova_perf_tuning.validation.measure import model as results

#: A run of another machine whose owner has been silent for so long (seconds) has died.
SILENCE_S: Final = 600.0

#: What is kept of an outcome under ``environment``, beside its hosts.
_FACTS: Final = ("guests", "host_cpu_source", "host_cpu_faults")

_runs, _pairs = database.runs, database.pairs


class RunError(errors.PerfTuningError):
    """There is no such run, or it cannot be taken up now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
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


class RunStore:
    """Reads and writes runs; for one thread at a time."""

    def __init__(self, url: str | None = None, *, make: bool = True) -> None:
        self._engine = database.connect(url, make=make)

    def close(self) -> None:
        self._engine.dispose()

    def create(
        self,
        plan: model.FleetPlan,
        hosts: Sequence[str],
        pairs: Sequence[model.HostPair],
        environment: environments.Environment,
    ) -> model.StoredRun:
        run_id = plan.measure.run_id
        row: dict[str, object] = {"id": run_id, "kind": "heat", "state": "running", "owner": _own_name()}
        row |= {"created_at": _now(), "seen_at": _now(), "leftovers": False, "hosts": list(hosts)}
        row |= {"plan": _plan_data(plan), "environment": environments.to_dict(environment)}
        planned = {"state": "planned", "attempts": 0, "faults": [], "environment": {}, "trials": []}
        rows = [
            {"run_id": run_id, "number": number, **planned, **dataclasses.asdict(pair)}
            for number, pair in enumerate(pairs)
        ]

        def create(connection: sa.Connection) -> None:
            connection.execute(sa.insert(_runs), row)
            connection.execute(sa.insert(_pairs), rows)

        database.write(self._engine, create)
        return self.load(run_id)

    def load(self, run_id: str) -> model.StoredRun:
        """Return a run.

        :raises RunError: there is none of that id, or another version has written its plan.
        :raises plugins.UnknownBenchmarkError: a benchmark of it is not installed any more.
        """
        columns = [column for column in _pairs.c if column.name not in ("environment", "trials")]
        with database.reading(self._engine) as connection:
            run = _get(connection, run_id)
            query = sa.select(*columns).where(_pairs.c.run_id == run_id).order_by(_pairs.c.number)
            pairs = connection.execute(query).all()
        tasks = []
        for pair in pairs:
            hosts = model.HostPair(pair.client, pair.server)
            task = model.Task(pair.number, hosts, pair.state, pair.attempts, pair.seconds)
            for fault in pair.faults:
                task.faults.append(model.PairError(**{**fault, "kind": model.ErrorClass(fault["kind"])}))
            tasks.append(task)
        plan, environment = _plan(run.plan, run.id), environments.from_dict(run.environment)
        names, begun = sorted(run.hosts), run.created_at
        return model.StoredRun(run.id, run.state, plan, environment, names, tasks, begun, run.leftovers)

    def lines(self) -> list[Line]:
        def count(*states: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
            return sa.select(sa.func.count()).where(_pairs.c.run_id == _runs.c.id, *states).scalar_subquery()

        query = (
            sa.select(_runs, count().label("pairs"), count(_pairs.c.state == "done").label("done"))
            .where(_runs.c.kind == "heat")
            .order_by(_runs.c.created_at.desc(), _runs.c.id)
        )
        lines = []
        with database.reading(self._engine) as connection:
            for run in connection.execute(query):
                alive, counts = _is_alive(run.owner, run.seen_at), (len(run.hosts), run.pairs, run.done)
                begun, cloud = run.created_at, run.plan["cloud"]
                lines.append(Line(run.id, run.state, begun, alive, run.leftovers, *counts, cloud))
        return lines

    def claim(self, run_id: str) -> model.StoredRun:
        """Make this process the owner of a run that nobody runs, plan what was cut off again, and return it.

        :raises RunError: no such run, it is complete, or its owner is alive.
        """

        def claim(connection: sa.Connection) -> None:
            run = _take_over(connection, run_id)
            if run.state == "complete":
                raise RunError(f"run {run_id} is complete; there is nothing to resume")
            cut = _plan_again(connection, run_id)
            _change_run(connection, run_id, state="running", leftovers=run.leftovers or cut > 0)

        database.write(self._engine, claim)
        return self.load(run_id)

    def disown(self, run_id: str) -> None:
        """Take a dead run over so that its stacks can be removed; its state stays; RunError: as :meth:`claim`."""
        database.write(self._engine, lambda connection: _take_over(connection, run_id))

    def seen(self, run_id: str) -> None:
        database.write(self._engine, lambda connection: _change_run(connection, run_id, seen_at=_now()))

    def end(self, run_id: str, state: str = "", *, leftovers: bool = False) -> None:
        """Say that nobody runs it any more; pairs that are still running are planned again.

        :param state: empty: as it was; one that died while running was interrupted.
        """
        died = sa.case((_runs.c.state == "running", "interrupted"), else_=_runs.c.state)

        def end(connection: sa.Connection) -> None:
            _plan_again(connection, run_id)
            _change_run(connection, run_id, state=state or died, owner="", leftovers=leftovers)

        database.write(self._engine, end)

    def mark(self, run_id: str, task: model.Task, state: str) -> None:
        """Say, also in ``task``, that a pair's stacks may exist (``running``) or that it is ``planned`` again."""
        self._change_pair(run_id, task.number, state=state)
        task.state = state

    def finish(self, run_id: str, task: model.Task, outcome: model.PairOutcome, state: str) -> None:
        """Write what an attempt at a pair gave and the state that the pair has now, also into ``task``."""
        attempts = task.attempts + 1
        faults = [*task.faults, *(dataclasses.replace(fault, attempt=attempts) for fault in outcome.errors)]
        hosts = {arm: dataclasses.asdict(pair) for arm, pair in outcome.hosts.items()}
        kept: dict[str, object] = {"state": state, "attempts": attempts, "seconds": task.seconds}
        kept["environment"] = {"hosts": hosts, **{name: getattr(outcome, name) for name in _FACTS}}
        kept["faults"] = [dataclasses.asdict(fault) for fault in faults]
        kept["trials"] = [dataclasses.asdict(trial) for trial in outcome.trials]
        self._change_pair(run_id, task.number, **kept)
        task.state, task.attempts, task.faults = state, attempts, faults

    def outcomes(self, run_id: str) -> Iterator[tuple[int, model.PairOutcome]]:
        """Yield number and outcome of the pairs that are done, a few at a time: a fleet's are large.

        Boots of trials are as the launcher gave them; errors are in :attr:`model.StoredRun.tasks`.
        """
        done = sa.select(_pairs).where(_pairs.c.run_id == run_id, _pairs.c.state == "done")
        query = done.order_by(_pairs.c.number).execution_options(yield_per=50)
        with database.reading(self._engine) as connection:
            for row in connection.execute(query):
                outcome = model.PairOutcome(
                    model.HostPair(row.client, row.server),
                    [results.Trial(**trial) for trial in row.trials],
                    hosts={arm: model.HostPair(**pair) for arm, pair in row.environment["hosts"].items()},
                    **{name: row.environment[name] for name in _FACTS},
                )
                yield row.number, outcome

    def _change_pair(self, run_id: str, number: int, **values: object) -> None:
        change = sa.update(_pairs).where(_pairs.c.run_id == run_id, _pairs.c.number == number).values(values)
        database.write(self._engine, lambda connection: connection.execute(change))


def _plan_data(plan: model.FleetPlan) -> dict[str, object]:
    data = dataclasses.asdict(plan)
    for job in data["measure"]["jobs"]:
        job["benchmark"] = job["benchmark"].kind
    return data


def _plan(data: Mapping[str, Any], run_id: str) -> model.FleetPlan:
    try:
        measure = dict(data["measure"])
        measure["arms"] = tuple(model.Arm(**arm) for arm in measure["arms"])
        measure["jobs"] = tuple(
            plugins.Job(job["label"], plugins.load(job["benchmark"]), job["parameters"]) for job in measure["jobs"]
        )
        settings, guests = model.RunSettings(**data["settings"]), model.GuestSettings(**data["guests"])
        return model.FleetPlan(model.MeasurePlan(**measure), settings, guests, data["max_loss"], data["cloud"])
    except (KeyError, TypeError) as error:
        raise RunError(
            f"run {run_id}: another version wrote its plan ({type(error).__name__}: {error}); begin a new run"
        ) from None


def _get(connection: sa.Connection, run_id: str) -> sa.Row[Any]:
    run = connection.execute(sa.select(_runs).where(_runs.c.id == run_id, _runs.c.kind == "heat")).first()
    if run is None:
        raise RunError(
            f"there is no run '{run_id[:40]}' in this database; 'openstack perf cleanup --list' lists them"
        )
    return run


def _change_run(connection: sa.Connection, run_id: str, **values: object) -> None:
    connection.execute(sa.update(_runs).where(_runs.c.id == run_id).values(values))


def _plan_again(connection: sa.Connection, run_id: str) -> int:
    running = sa.and_(_pairs.c.run_id == run_id, _pairs.c.state == "running")
    return connection.execute(sa.update(_pairs).where(running).values(state="planned")).rowcount


def _take_over(connection: sa.Connection, run_id: str) -> sa.Row[Any]:
    """Make this process the owner of a run whose owner has died; where two try, one succeeds."""
    run = _get(connection, run_id)
    if _is_alive(run.owner, run.seen_at):
        host, pid, _ = run.owner.rsplit(":", 2)
        raise RunError(f"run {run.id} is being run by process {pid} on {host}; stop that first")
    unowned = sa.and_(_runs.c.id == run.id, _runs.c.owner == run.owner)
    taken = connection.execute(sa.update(_runs).where(unowned).values(owner=_own_name(), seen_at=_now()))
    if not taken.rowcount:
        raise RunError(f"run {run.id} has just been taken up by another process")
    return run


def _now() -> datetime.datetime:
    """Return the time as the database has it: UTC, without a zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def _own_name() -> str:
    """Return ``machine:process:its start``, which no other process ever has."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def _is_alive(owner: str, seen_at: datetime.datetime) -> bool:
    """Return whether the process of an :func:`_own_name` runs; of another machine, whether it spoke lately."""
    if not owner:
        return False
    machine, pid, born = owner.rsplit(":", 2)
    if machine != socket.gethostname()[:100]:
        return (_now() - seen_at).total_seconds() < SILENCE_S
    try:
        # Computed from the time of boot, which moves a little when the clock is set.
        return abs(psutil.Process(int(pid)).create_time() - float(born)) < 2
    except psutil.Error:
        return False
