"""Keeps a run over many hosts in the database of runs, so that it can go on after Ctrl-C, a crash or kill -9.

Everything is written in one transaction per event: a pair is ``running`` before its first API call, and its
outcome and state change together. Whoever takes up a run finds the pairs that were cut off as ``running``, has
their stacks removed and measures them anew; what has an outcome is never measured again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nova_perf_tuning.database import engine as database  # first: it says which extra SQLAlchemy is of

# isort: split
import sqlalchemy as sa
from sqlalchemy import orm

from nova_perf_tuning import errors
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import trial_rows
from nova_perf_tuning.cloud import model, run_owner, stored_run
from nova_perf_tuning.database import tables


class RunError(errors.PerfTuningError):
    """There is no such run, or it cannot be taken up now."""


Task = stored_run.Task
StoredRun = stored_run.StoredRun


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong with a pair in one attempt."""

    number: int
    pair: model.HostPair
    attempt: int
    error: model.PairError


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One row of the list of runs.

    :ivar cloud, cloud_unknown: as those of :class:`StoredRun`.
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
    cloud_unknown: str


def new_id() -> str:
    """Return an id for a run, as :class:`nova_perf_tuning.cloud.model.MeasurePlan` wants it."""
    return f"{run_owner.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class CampaignStore:
    """Reads and writes runs; for one thread at a time."""

    def __init__(self, url: str | None = None, *, make: bool = True) -> None:
        """Open the database.

        :param url, make: as for :func:`nova_perf_tuning.database.engine.connect`.
        :raises nova_perf_tuning.database.engine.DatabaseError: it cannot be opened.
        """
        self._engine = database.connect(url, make=make)
        self._metrics: dict[str, int] = {}
        self._pair_ids: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # -- runs

    def create(
        self,
        run_id: str,
        hosts: Sequence[str],
        pairs: Sequence[model.HostPair],
        plan: Mapping[str, Any],
        environment: Mapping[str, Any],
    ) -> StoredRun:
        """Write a new run, owned by this process, and return it."""
        now = run_owner.now()
        with self._writing() as session:
            session.add(
                tables.Run(
                    id=run_id,
                    kind="heat",
                    state="running",
                    owner=run_owner.own_name(),
                    created_at=now,
                    seen_at=now,
                    plan=dict(plan),
                    environment=dict(environment),
                )
            )
            session.flush()
            session.add_all(tables.RunHost(run_id=run_id, host=host, state="in") for host in hosts)
            session.add_all(_pair_row(run_id, number, pair) for number, pair in enumerate(pairs))
        return self.load(run_id)

    def load(self, run_id: str) -> StoredRun:
        """Return a run.

        :raises RunError: there is none of that id.
        """
        with self._reading() as session:
            run = self._get(session, run_id)
            hosts = session.scalars(
                sa.select(tables.RunHost).where(tables.RunHost.run_id == run_id).order_by(tables.RunHost.host)
            ).all()
            pairs = session.scalars(
                sa.select(tables.Pair).where(tables.Pair.run_id == run_id).order_by(tables.Pair.number)
            ).all()
            self._pair_ids.update({(run_id, pair.number): pair.id for pair in pairs})
            return StoredRun(
                run_id=run.id,
                state=run.state,
                plan=run.plan,
                environment=run.environment,
                hosts=[host.host for host in hosts],
                out={host.host: host.reason for host in hosts if host.state == "out"},
                tasks=[
                    Task(
                        pair.number,
                        model.HostPair(pair.client, pair.server),
                        pair.state,
                        pair.attempts,
                        sum(pair.seconds.values()) if pair.seconds else None,
                    )
                    for pair in pairs
                ],
                created_at=run.created_at,
                leftovers=run.leftovers,
            )

    def lines(self) -> list[Line]:
        """Return all runs of fleets, the newest first."""
        done = sa.func.sum(sa.case((tables.Pair.state == "done", 1), else_=0))
        hosts = (
            sa.select(sa.func.count())
            .select_from(tables.RunHost)
            .where(tables.RunHost.run_id == tables.Run.id)
            .scalar_subquery()
        )
        query = (
            sa.select(tables.Run, sa.func.count(tables.Pair.id), done, hosts)
            .outerjoin(tables.Pair, tables.Pair.run_id == tables.Run.id)
            .where(tables.Run.kind == "heat")
            .group_by(tables.Run.id)
            .order_by(tables.Run.created_at.desc())
        )
        with self._reading() as session:
            return [
                Line(
                    run.id,
                    run.state,
                    run.created_at,
                    run_owner.alive(run.owner, run.seen_at),
                    run.leftovers,
                    int(host_count),
                    int(count),
                    int(measured or 0),
                    str(run.plan.get("cloud", "")),
                    stored_run.why_unknown(run.plan),
                )
                for run, count, measured, host_count in session.execute(query)
            ]

    def claim(self, run_id: str) -> StoredRun:
        """Make this process the owner of a run that nobody runs, and return it.

        Pairs that were cut off are planned again; :attr:`StoredRun.leftovers` says whether their stacks may exist.

        :raises RunError: no such run, it is complete, or its owner is alive.
        """
        with self._writing() as session:
            run = self._get(session, run_id)
            if run.state == "complete":
                raise RunError(f"run {run_id} is complete; there is nothing to resume")
            self._take_over(session, run)
            running = sa.and_(tables.Pair.run_id == run_id, tables.Pair.state == "running")
            cut = session.execute(sa.update(tables.Pair).where(running).values(state="planned"))
            run.leftovers = run.leftovers or bool(cut.rowcount)  # type: ignore[attr-defined]
            run.state, run.ended_at = "running", None
        return self.load(run_id)

    def disown(self, run_id: str) -> None:
        """Take a dead run over so that its stacks can be removed; its state stays.

        :raises RunError: no such run, or its owner is alive.
        """
        with self._writing() as session:
            self._take_over(session, self._get(session, run_id))

    def _take_over(self, session: orm.Session, run: tables.Run) -> None:
        if run_owner.alive(run.owner, run.seen_at) and run.owner != run_owner.own_name():
            host, pid, _ = run.owner.rsplit(":", 2)
            raise RunError(f"run {run.id} is being run by process {pid} on {host}; stop that first")
        taken = session.execute(
            sa.update(tables.Run)
            .where(tables.Run.id == run.id, tables.Run.owner == run.owner)
            .values(owner=run_owner.own_name(), seen_at=run_owner.now())
        )
        if not taken.rowcount:  # type: ignore[attr-defined]
            raise RunError(f"run {run.id} has just been taken up by another process")
        session.refresh(run)

    def seen(self, run_id: str) -> None:
        """Say that the owner is alive."""
        with self._writing() as session:
            session.execute(sa.update(tables.Run).where(tables.Run.id == run_id).values(seen_at=run_owner.now()))

    def end(self, run_id: str, state: str, *, leftovers: bool = False) -> None:
        """Say that nobody runs it any more; pairs that are still running are planned again."""
        with self._writing() as session:
            running = sa.and_(tables.Pair.run_id == run_id, tables.Pair.state == "running")
            session.execute(sa.update(tables.Pair).where(running).values(state="planned"))
            change = {"state": state, "owner": "", "ended_at": run_owner.now(), "leftovers": leftovers}
            session.execute(sa.update(tables.Run).where(tables.Run.id == run_id).values(**change))

    def clean(self, run_id: str) -> None:
        """Say that nothing of the run is left on the cloud; who disowned it lets go of it.

        One that died still says that it runs: it was interrupted, and is not looked at again.
        """
        with self._writing() as session:
            mine = sa.update(tables.Run).where(tables.Run.id == run_id)
            died = mine.where(tables.Run.state == "running")
            session.execute(died.values(state="interrupted", ended_at=run_owner.now()))
            session.execute(mine.values(leftovers=False, owner=""))

    def release(self, run_id: str) -> None:
        """Let go of a run that was disowned and may still have left something."""
        with self._writing() as session:
            session.execute(sa.update(tables.Run).where(tables.Run.id == run_id).values(owner=""))

    def set_environment(self, run_id: str, environment: Mapping[str, Any]) -> None:
        """Replace what the results of the run rest on."""
        with self._writing() as session:
            session.execute(
                sa.update(tables.Run).where(tables.Run.id == run_id).values(environment=dict(environment))
            )

    def judge(self, run_id: str, verdict: str, hosts: Mapping[str, tuple[str, str]]) -> None:
        """Write the verdict on the run and, per host, verdict and finding."""
        with self._writing() as session:
            session.execute(sa.update(tables.Run).where(tables.Run.id == run_id).values(verdict=verdict))
            for row in session.scalars(sa.select(tables.RunHost).where(tables.RunHost.run_id == run_id)):
                row.verdict, row.finding = hosts.get(row.host, (None, ""))

    # -- pairs

    def begin(self, run_id: str, number: int) -> None:
        """Say that a pair's stacks may exist from now on."""
        self._change(run_id, number, state="running")

    def put_back(self, run_id: str, number: int) -> None:
        """Plan a pair again that was cut off and removed; nothing of it counts."""
        self._change(run_id, number, state="planned")

    def finish(self, run_id: str, number: int, outcome: model.PairOutcome, state: str) -> None:
        """Write what one attempt gave and the state that the pair has now."""
        with self._writing() as session:
            pair = session.get_one(tables.Pair, self._pair_id(session, run_id, number))
            pair.state = state
            pair.attempts += 1
            pair.seconds = {name: round(value, 3) for name, value in outcome.seconds.items()}
            pair.host_cpu_source = outcome.host_cpu_source[:200]
            pair.environment = {
                **outcome.environment,
                "hosts": {arm: dataclasses.asdict(where) for arm, where in outcome.hosts.items()},
            }
            session.add_all(
                tables.PairFault(
                    pair_id=pair.id, attempt=pair.attempts, kind=one.kind.value, arm=one.arm, reason=one.reason
                )
                for one in outcome.errors
            )
            trial_rows.insert(session, pair.id, outcome.trials, self._metrics)

    def take_out(self, run_id: str, host: str, reason: str, new: Sequence[model.HostPair]) -> list[Task]:
        """Give a host up: its planned pairs are dropped and ``new`` ones added, which are returned."""
        with self._writing() as session:
            row = session.get_one(tables.RunHost, (run_id, host))
            row.state, row.reason = "out", reason
            session.execute(
                sa.update(tables.Pair)
                .where(
                    tables.Pair.run_id == run_id,
                    tables.Pair.state == "planned",
                    sa.or_(tables.Pair.client == host, tables.Pair.server == host),
                )
                .values(state="dropped")
            )
            last = session.scalar(sa.select(sa.func.max(tables.Pair.number)).where(tables.Pair.run_id == run_id))
            first = 0 if last is None else last + 1
            session.add_all(_pair_row(run_id, first + index, pair) for index, pair in enumerate(new))
        return [Task(first + index, pair) for index, pair in enumerate(new)]

    # -- what was measured

    def trials(self, run_id: str) -> Iterator[tuple[int, results.Trial]]:
        """Yield (number of the pair, trial) in the order of pairs; groups are as the launcher gave them."""
        query = (
            sa.select(tables.Pair.number, tables.Trial, tables.Metric)
            .join(tables.Trial, tables.Trial.pair_id == tables.Pair.id)
            .join(tables.Metric, tables.Metric.id == tables.Trial.metric_id)
            .where(tables.Pair.run_id == run_id)
            .order_by(tables.Pair.number, tables.Trial.id)
            .execution_options(yield_per=2000)
        )
        with self._reading() as session:
            for number, row, metric in session.execute(query):
                yield number, _trial(row, metric)

    def faults(self, run_id: str) -> list[Fault]:
        """Return everything that went wrong, in the order of pairs and attempts."""
        query = (
            sa.select(tables.PairFault, tables.Pair)
            .join(tables.Pair, tables.Pair.id == tables.PairFault.pair_id)
            .where(tables.Pair.run_id == run_id)
            .order_by(tables.Pair.number, tables.PairFault.id)
        )
        with self._reading() as session:
            return [
                Fault(
                    pair.number,
                    model.HostPair(pair.client, pair.server),
                    row.attempt,
                    model.PairError(model.ErrorClass(row.kind), row.reason, row.arm),
                )
                for row, pair in session.execute(query)
            ]

    def last_errors(self, run_id: str) -> dict[int, list[model.PairError]]:
        """Return the errors of the last attempt at each pair that failed, by number."""
        query = (
            sa.select(tables.Pair.number, tables.PairFault)
            .join(tables.Pair, tables.Pair.id == tables.PairFault.pair_id)
            .where(
                tables.Pair.run_id == run_id,
                tables.Pair.state == "failed",
                tables.PairFault.attempt == tables.Pair.attempts,
            )
        )
        found: dict[int, list[model.PairError]] = {}
        with self._reading() as session:
            for number, row in session.execute(query):
                error = model.PairError(model.ErrorClass(row.kind), row.reason, row.arm)
                found.setdefault(number, []).append(error)
        return found

    def pair_environments(self, run_id: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield (number, source of host CPU, environment) of every pair that has been measured."""
        query = (
            sa.select(tables.Pair.number, tables.Pair.host_cpu_source, tables.Pair.environment)
            .where(tables.Pair.run_id == run_id, tables.Pair.state == "done")
            .order_by(tables.Pair.number)
        )
        with self._reading() as session:
            for number, source, environment in session.execute(query):
                yield number, source, environment or {}

    # -- below

    @contextlib.contextmanager
    def _writing(self) -> Iterator[orm.Session]:
        with database.told():
            with self._engine.connect().execution_options(begin="IMMEDIATE") as connection:
                with orm.Session(connection) as session, session.begin():
                    yield session

    @contextlib.contextmanager
    def _reading(self) -> Iterator[orm.Session]:
        with database.told(), orm.Session(self._engine) as session:
            yield session

    def _get(self, session: orm.Session, run_id: str) -> tables.Run:
        run = session.get(tables.Run, run_id)
        if run is None or run.kind != "heat":
            raise RunError(
                f"there is no run '{run_id[:40]}' in this database; 'openstack perf cleanup --list' lists them"
            )
        return run

    def _change(self, run_id: str, number: int, **values: Any) -> None:
        with self._writing() as session:
            which = sa.and_(tables.Pair.run_id == run_id, tables.Pair.number == number)
            session.execute(sa.update(tables.Pair).where(which).values(**values))

    def _pair_id(self, session: orm.Session, run_id: str, number: int) -> int:
        if (run_id, number) not in self._pair_ids:
            query = sa.select(tables.Pair.id).where(tables.Pair.run_id == run_id, tables.Pair.number == number)
            self._pair_ids[run_id, number] = session.scalars(query).one()
        return self._pair_ids[run_id, number]


def _pair_row(run_id: str, number: int, pair: model.HostPair) -> tables.Pair:
    return tables.Pair(run_id=run_id, number=number, client=pair.client, server=pair.server, state="planned")


def _trial(row: tables.Trial, metric: tables.Metric) -> results.Trial:
    return results.Trial(
        benchmark=metric.benchmark,
        metric=metric.metric,
        unit=metric.unit,
        better="lower" if metric.better == "lower" else "higher",
        arm=row.arm,
        group=row.group_number,
        block=row.block,
        value=row.value,
        host_cpu_s=row.host_cpu_s,
        guest_cpu_s=row.guest_cpu_s,
        window_s=row.window_s,
        wait_s=row.wait_s,
        order=row.order_number,
        primary=metric.is_primary,
        error=row.error,
        work=row.work,
        work_unit=metric.work_unit,
    )
