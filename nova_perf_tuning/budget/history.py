"""The history of hosts in the database of runs: results are kept there, and compared with what is comparable.

Comparable are figures of the same benchmark with the same parameters, in the same arm with the same request, on
hosts with the same fingerprint: CPU model and number, memory, accelerator and guest. Versions are no part of it,
since what they change is what a history is to show; they stand beside a change point.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nova_perf_tuning.database import engine as database  # first: it says which extra SQLAlchemy is of

# isort: split
import sqlalchemy as sa
from sqlalchemy import orm

from nova_perf_tuning.budget import guards, model, store, trend, trial_filter, trial_rows
from nova_perf_tuning.database import tables

#: Newest runs of each host that a history looks at unless told otherwise.
LAST = 100

#: What may change between runs and explain a change of figures.
_VERSIONS = ("kernel", "qemu", "libvirt", "nova_perf_tuning")

#: Of a request: it judges guests and changes none.
_JUDGES = "perf:budget"

_NEVER = datetime.datetime(1970, 1, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One run. :ivar value: median of its trials; :ivar versions: of kernel, QEMU, libvirt and this program."""

    run_id: str
    at: datetime.datetime
    value: float
    n: int
    versions: Mapping[str, str]


class _Key(NamedTuple):
    """What the runs of a series have in common, as :class:`Series` has it."""

    host: str
    benchmark: str
    metric: str
    arm: str
    fingerprint: str
    parameters: str
    request: str
    unit: str
    better: str


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """The history of one figure of one arm on one host.

    :ivar parameters: of the benchmark, as JSON; :ivar request: of the arm, as :func:`request` has it.
    :ivar changes: where it changed, see :mod:`.trend`.
    :ivar peers: equals with a newest figure, this host among them; :ivar compared: they were enough to compare.
    :ivar outlier: robust z-score of the newest figure among them, None when it is like them or was not compared.
    """

    host: str
    benchmark: str
    metric: str
    arm: str
    fingerprint: str
    parameters: str
    request: str
    unit: str
    better: str
    points: tuple[Point, ...]
    changes: tuple[trend.Change, ...]
    peers: int = 1
    compared: bool = False
    outlier: float | None = None

    def new_versions(self, change: trend.Change) -> dict[str, tuple[str, str]]:
        """Return what has another version since a change: name -> version before and after."""
        before, after = self.points[change.index - 1].versions, self.points[change.index].versions
        return {name: (before.get(name, "?"), new) for name, new in after.items() if before.get(name, "?") != new}

    @property
    def equals(self) -> tuple[str, ...]:
        """What hosts must have in common to be compared."""
        return self.fingerprint, self.benchmark, self.metric, self.parameters, self.arm, self.request


def fingerprint(environment: Mapping[str, Any]) -> str:
    """Return what hosts must have in common to be compared, in words; empty where the CPU is not known."""
    if not environment.get("cpu_model"):
        return ""
    memory = environment.get("memory_mib")
    gib = round(memory / 1024) if isinstance(memory, int | float) else "?"
    parts = [f"{environment['cpu_model']}, {environment.get('cpus', '?')} CPUs, {gib} GiB"]
    parts.append(str(environment.get("accelerator") or "?"))
    guest = environment.get("guest")
    if isinstance(guest, Mapping):
        parts.append(f"guest {guest.get('vcpus', '?')} vCPU {guest.get('memory_mib', '?')} MiB")
    return ", ".join(parts)[:200]


def request(environment: Mapping[str, Any], arm: str) -> str:
    """Return what an arm asked for, profile and extra specs, as JSON in one form; empty for nothing or unknown."""
    asked = environment.get("arms", {}).get(arm, {}).get("request", {})
    specs = {key: value for key, value in asked.items() if key != _JUDGES}
    return json.dumps(specs, sort_keys=True) if specs else ""


def tunings(series: Sequence[Series]) -> list[str]:
    """Return the request of each series in words: the profile and the extra specs that tell it from others.

    Of a profile that was requested in one way alone its name says enough; without a profile all specs are there.
    """
    specs = [{"perf:profile": "", **json.loads(one.request or "{}")} for one in series]
    asked: dict[tuple[str, ...], list[Mapping[str, str]]] = collections.defaultdict(list)
    for one, mine in zip(series, specs, strict=True):
        asked[one.host, one.benchmark, one.arm, mine["perf:profile"]].append(mine)
    words = []
    for one, mine in zip(series, specs, strict=True):
        profile = mine["perf:profile"]
        alike = asked[one.host, one.benchmark, one.arm, profile]
        names = sorted({name for other in alike for name in other if name != "perf:profile"})
        text = ", ".join(
            f"{name.removeprefix('perf:')}={mine.get(name, 'none')}"
            for name in names
            if len({other.get(name) for other in alike}) > 1 or (not profile and name in mine)
        )
        words.append((f"{profile} ({text})" if text else profile) if profile else text or "-")
    return words


class History:
    """Writes and reads histories."""

    def __init__(self, url: str | None = None) -> None:
        """Open the database.

        :raises nova_perf_tuning.database.engine.DatabaseError: it cannot be opened.
        """
        self._engine = database.connect(url)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def add(self, results: model.Results, verdict: str | None = None) -> tuple[str, bool]:
        """Keep the results of a single host; return the run's id, and False if it was there already.

        Trials that guards reject by their defaults are left out.

        :raises nova_perf_tuning.database.engine.DatabaseError: it cannot be written.
        """
        text = json.dumps(store.to_dict(results), sort_keys=True, default=str).encode("utf-8", "replace")
        at = _created(results)
        run_id = f"{at:%Y%m%d-%H%M%S}-{hashlib.sha256(text).hexdigest()[:8]}"
        environment = dict(results.environment)
        environment["arms"] = {  # domain XML would be most of the database
            name: {key: value for key, value in arm.items() if key != "xml"}
            for name, arm in environment.get("arms", {}).items()
        }
        host = str(environment.get("host") or "unknown")[:200]
        left_out = trial_filter.alone(results)
        times = {"created_at": at, "seen_at": at, "ended_at": at}
        with database.told(), self._engine.connect().execution_options(begin="IMMEDIATE") as connection:
            with orm.Session(connection) as session, session.begin():
                if session.get(tables.Run, run_id) is not None:
                    return run_id, False
                known = {"kind": "libvirt", "plan": {}, "environment": environment}
                session.add(tables.Run(id=run_id, state="complete", verdict=verdict, **times, **known))
                session.flush()
                same = fingerprint(environment)
                session.add(
                    tables.RunHost(run_id=run_id, host=host, state="in", fingerprint=same, verdict=verdict)
                )
                pair = tables.Pair(run_id=run_id, number=0, client=host, server=host, state="done", attempts=1)
                session.add(pair)
                session.flush()
                trials = [one for one in results.trials if guards.run(one) not in left_out]
                trial_rows.insert(session, pair.id, trials)
        return run_id, True

    def series(
        self, host: str | None = None, benchmark: str | None = None, arm: str | None = None, last: int = LAST
    ) -> list[Series]:
        """Return histories by host, benchmark, arm and request, compared with their equals.

        :param host, benchmark, arm: only these; equals of the host are looked at all the same.
        :param last: newest runs of each host that are looked at, of those that have such figures.
        """
        found = []
        for key, some in sorted(self._points(last, benchmark, arm).items()):
            points = tuple(sorted(some, key=lambda point: (point.at, point.run_id)))
            found.append(Series(*key, points, tuple(trend.changes([point.value for point in points]))))
        groups: dict[tuple[str, ...], dict[str, float]] = collections.defaultdict(dict)
        for one in found:
            if one.fingerprint:
                groups[one.equals][one.host] = one.points[-1].value
        apart = {equals: trend.outliers(values) for equals, values in groups.items()}
        return [
            dataclasses.replace(
                one,
                peers=max(1, len(groups[one.equals])),
                compared=len(groups[one.equals]) >= trend.LEAST_PEERS,
                outlier=apart.get(one.equals, {}).get(one.host),
            )
            for one in found
            if host in (None, one.host)
        ]

    def _points(self, last: int, benchmark: str | None, arm: str | None) -> dict[_Key, list[Point]]:
        run, pair, in_run, metric, trial = tables.Run, tables.Pair, tables.RunHost, tables.Metric, tables.Trial
        wanted: list[sa.ColumnExpressionArgument[bool]] = [metric.is_primary, trial.value > 0]
        wanted += [] if benchmark is None else [metric.benchmark == benchmark]
        wanted += [] if arm is None else [trial.arm == arm]
        newest = _newest(wanted)
        query = (
            sa.select(run.id, pair.client, in_run.fingerprint, metric.id, trial.arm, trial.value)
            .join(pair, pair.run_id == run.id)
            .join(newest, sa.and_(newest.c.id == run.id, newest.c.client == pair.client))
            .join(in_run, sa.and_(in_run.run_id == run.id, in_run.host == pair.client))
            .join(trial, trial.pair_id == pair.id)
            .join(metric, metric.id == trial.metric_id)
            .where(newest.c.place <= last, *wanted)
            .execution_options(yield_per=5000)
        )
        values: dict[tuple[str, str, str, int, str], list[float]] = collections.defaultdict(list)
        points: dict[_Key, list[Point]] = collections.defaultdict(list)
        with database.told(), orm.Session(self._engine) as session:
            for run_id, host, kind, metric_id, name, value in session.execute(query):
                values[run_id, host, kind, metric_id, name].append(float(value or 0.0))
            runs = {run_id: session.get_one(run, run_id) for run_id in {key[0] for key in values}}
            figures = {metric_id: session.get_one(metric, metric_id) for metric_id in {key[3] for key in values}}
            for (run_id, host, kind, metric_id, name), measured in values.items():
                environment, figure = runs[run_id].environment, figures[metric_id]
                parameters = environment.get("benchmarks", {}).get(figure.benchmark, {}).get("parameters", {})
                key = _Key(
                    host,
                    figure.benchmark,
                    figure.metric,
                    name,
                    kind,
                    json.dumps(parameters, sort_keys=True),
                    request(environment, name),
                    figure.unit,
                    figure.better,
                )
                versions = {word: str(environment[word]) for word in _VERSIONS if word in environment}
                middle = statistics.median(measured)
                points[key].append(Point(run_id, runs[run_id].created_at, middle, len(measured), versions))
        return points


def _newest(wanted: Sequence[sa.ColumnExpressionArgument[bool]]) -> sa.Subquery:
    """Return runs (id, client) with their place in the history of each host, 1 for the newest.

    :param wanted: conditions of the trials that a run must have.
    """
    has = sa.exists().where(
        tables.Trial.pair_id == tables.Pair.id, tables.Metric.id == tables.Trial.metric_id, *wanted
    )
    runs = (
        sa.select(tables.Run.id, tables.Pair.client, tables.Run.created_at)
        .join(tables.Pair, tables.Pair.run_id == tables.Run.id)
        .where(has)
        .distinct()
        .subquery()
    )
    order = (runs.c.created_at.desc(), runs.c.id.desc())
    place = sa.func.row_number().over(partition_by=runs.c.client, order_by=order).label("place")
    return sa.select(runs.c.id, runs.c.client, place).subquery()


def _created(results: model.Results) -> datetime.datetime:
    """Return when the run began, in UTC without a zone as the database has it; the epoch if it does not say."""
    try:
        at = datetime.datetime.fromisoformat(str(results.environment.get("created", "")))
        return at.astimezone(datetime.UTC).replace(tzinfo=None) if at.tzinfo else at
    except (ValueError, OverflowError):
        return _NEVER
