"""The history of hosts in the database of runs: results are kept there, and compared with what is comparable.

Comparable are figures of the same benchmark with the same parameters, in the same arm with the same request, on
hosts with the same fingerprint: CPU model and number, memory, accelerator and guest. Kernel, QEMU and libvirt are
no part of it, since what they change is what a history is to show; they are told beside a change point.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import statistics as standard
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.database import engine as database  # first: it says which extra SQLAlchemy is of

# isort: split
import sqlalchemy as sa
from sqlalchemy import orm

from nova_perf_tuning.budget import counted, guards, model, store, trend, trial_rows
from nova_perf_tuning.database import tables

#: Newest runs of each host that a history looks at unless told otherwise.
LAST = 100

#: What may change between runs and explain a change of figures.
_VERSIONS = ("kernel", "qemu", "libvirt", "nova_perf_tuning")

#: Of a request: it judges guests and changes none.
_JUDGES = "perf:budget"


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One run. :ivar value: median of its trials; :ivar versions: of kernel, QEMU, libvirt and this program."""

    run_id: str
    at: datetime.datetime
    value: float
    n: int
    versions: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """The history of one figure of one arm on one host.

    :ivar parameters: of the benchmark, as JSON; :ivar changes: where it changed, see :mod:`.trend`.
    :ivar request: what :func:`request` says of the arm.
    :ivar peers: equals with a newest figure, this host among them; :ivar compared: they were enough to compare.
    :ivar outlier: robust z-score of the newest figure among them, None when it is like them or was not compared.
    """

    host: str
    fingerprint: str
    benchmark: str
    metric: str
    unit: str
    better: str
    parameters: str
    arm: str
    points: tuple[Point, ...]
    changes: tuple[trend.Change, ...]
    request: str = ""
    peers: int = 1
    compared: bool = False
    outlier: float | None = None

    def told(self, change: trend.Change) -> str:
        """Return a change in words, with the versions that changed at the same time."""
        before, after = self.points[change.index - 1], self.points[change.index]
        better = (change.ratio > 1) == (self.better == "higher")
        new = [
            f"{name} {before.versions.get(name, '?')} -> {version}"
            for name, version in after.versions.items()
            if before.versions.get(name) != version
        ]
        text = f"{change.ratio - 1:+.1%} ({'better' if better else 'worse'}) from {after.at:%Y-%m-%d %H:%M} on"
        return f"{text}; {', '.join(new)}" if new else text


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
    arms = environment.get("arms")
    told = arms.get(arm) if isinstance(arms, Mapping) else None
    asked = told.get("request") if isinstance(told, Mapping) else None
    specs = {key: value for key, value in asked.items() if key != _JUDGES} if isinstance(asked, Mapping) else {}
    return json.dumps(specs, sort_keys=True) if specs else ""


def tunings(series: Sequence[Series]) -> list[str]:
    """Return the request of each series in words, so that different ones look different.

    It is the profile and, where a profile was asked for in several ways, the extra specs in which they differ;
    without a profile all extra specs.
    """
    requests: list[dict[str, str]] = [json.loads(one.request) if one.request else {} for one in series]
    alike: dict[tuple[str, ...], list[dict[str, str]]] = {}
    keys = [
        (one.host, one.benchmark, one.arm, asked.get("perf:profile", ""))
        for one, asked in zip(series, requests, strict=True)
    ]
    for key, asked in zip(keys, requests, strict=True):
        alike.setdefault(key, []).append(asked)
    return [_in_words(asked, alike[key]) for key, asked in zip(keys, requests, strict=True)]


def _in_words(asked: Mapping[str, str], alike: Sequence[Mapping[str, str]]) -> str:
    profile = asked.get("perf:profile")
    names = sorted({name for other in alike for name in other}) if profile else sorted(asked)
    told = [
        f"{name.removeprefix('perf:')}={asked[name]}" if name in asked else f"no {name.removeprefix('perf:')}"
        for name in names
        if not profile or len({other.get(name) for other in alike}) > 1
    ]
    if profile is None:
        return ", ".join(told) or "-"
    return f"{profile} ({', '.join(told)})" if told else profile


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
        run_id = _run_id(results)
        environment = dict(results.environment)
        environment["arms"] = {  # domain XML would be most of the database
            name: {key: value for key, value in arm.items() if key != "xml"}
            for name, arm in environment.get("arms", {}).items()
        }
        host = str(environment.get("host") or "unknown")[:200]
        with database.told(), self._engine.connect().execution_options(begin="IMMEDIATE") as connection:
            with orm.Session(connection) as session, session.begin():
                if session.get(tables.Run, run_id) is not None:
                    return run_id, False
                at = _created(results)
                session.add(
                    tables.Run(
                        id=run_id,
                        kind="libvirt",
                        state="complete",
                        created_at=at,
                        seen_at=at,
                        ended_at=at,
                        verdict=verdict,
                        plan={},
                        environment=environment,
                    )
                )
                session.flush()
                session.add(
                    tables.RunHost(
                        run_id=run_id, host=host, state="in", fingerprint=fingerprint(environment), verdict=verdict
                    )
                )
                pair = tables.Pair(run_id=run_id, number=0, client=host, server=host, state="done", attempts=1)
                session.add(pair)
                session.flush()
                left_out = counted.alone(results)
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
        found = [_series(key, points) for key, points in sorted(self._points(last, benchmark, arm).items())]
        groups: dict[tuple[str, ...], dict[str, float]] = {}
        for one in found:
            if one.fingerprint:
                groups.setdefault(_equals(one), {})[one.host] = one.points[-1].value
        apart = {equals: trend.outliers(values) for equals, values in groups.items()}
        judged = []
        for one in found:
            if host is not None and one.host != host:
                continue
            peers = groups.get(_equals(one), {})
            judged.append(
                dataclasses.replace(
                    one,
                    peers=max(1, len(peers)),
                    compared=len(peers) >= trend.LEAST_PEERS,
                    outlier=apart.get(_equals(one), {}).get(one.host),
                )
            )
        return judged

    def _points(self, last: int, benchmark: str | None, arm: str | None) -> dict[tuple[str, ...], list[Point]]:
        wanted: list[sa.ColumnExpressionArgument[bool]] = [tables.Metric.is_primary, tables.Trial.value > 0]
        if benchmark is not None:
            wanted.append(tables.Metric.benchmark == benchmark)
        if arm is not None:
            wanted.append(tables.Trial.arm == arm)
        newest = _newest(wanted)
        query = (
            sa.select(
                tables.Run.id,
                tables.Pair.client,
                tables.RunHost.fingerprint,
                tables.Metric.id,
                tables.Trial.arm,
                tables.Trial.value,
            )
            .join(tables.Pair, tables.Pair.run_id == tables.Run.id)
            .join(newest, sa.and_(newest.c.id == tables.Run.id, newest.c.client == tables.Pair.client))
            .join(
                tables.RunHost,
                sa.and_(tables.RunHost.run_id == tables.Run.id, tables.RunHost.host == tables.Pair.client),
            )
            .join(tables.Trial, tables.Trial.pair_id == tables.Pair.id)
            .join(tables.Metric, tables.Metric.id == tables.Trial.metric_id)
            .where(newest.c.place <= last, *wanted)
            .execution_options(yield_per=5000)
        )
        values: dict[tuple[str, str, str, int, str], list[float]] = {}
        with database.told(), orm.Session(self._engine) as session:
            for run_id, client, kind, metric_id, name, value in session.execute(query):
                values.setdefault((run_id, client, kind, metric_id, name), []).append(float(value or 0.0))
            found_in = {key[0] for key in values}
            runs = {run.id: run for run in session.scalars(sa.select(tables.Run)) if run.id in found_in}
            metrics = {metric.id: metric for metric in session.scalars(sa.select(tables.Metric))}
            found: dict[tuple[str, ...], list[Point]] = {}
            for (run_id, client, kind, metric_id, name), measured in values.items():
                run, metric = runs[run_id], metrics[metric_id]
                environment = run.environment
                parameters = environment.get("benchmarks", {}).get(metric.benchmark, {}).get("parameters", {})
                versions = {word: str(environment[word]) for word in _VERSIONS if word in environment}
                point = Point(run_id, run.created_at, standard.median(measured), len(measured), versions)
                key = (client, metric.benchmark, metric.metric, name, kind, json.dumps(parameters, sort_keys=True))
                asked = request(environment, name)
                found.setdefault((*key, asked, metric.unit, metric.better), []).append(point)
        return found


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


def _series(key: tuple[str, ...], points: Sequence[Point]) -> Series:
    host, benchmark, metric, arm, kind, parameters, asked, unit, better = key
    ordered = tuple(sorted(points, key=lambda point: (point.at, point.run_id)))
    changes = tuple(trend.changes([point.value for point in ordered]))
    return Series(host, kind, benchmark, metric, unit, better, parameters, arm, ordered, changes, asked)


def _equals(one: Series) -> tuple[str, ...]:
    return (one.fingerprint, one.benchmark, one.metric, one.parameters, one.arm, one.request)


def _run_id(results: model.Results) -> str:
    text = json.dumps(store.to_dict(results), sort_keys=True, default=str)
    return f"{_created(results):%Y%m%d-%H%M%S}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _created(results: model.Results) -> datetime.datetime:
    """Return when the run began, in UTC without a zone as the database has it; the epoch if it does not say."""
    try:
        at = datetime.datetime.fromisoformat(str(results.environment.get("created", "")))
    except ValueError:
        return datetime.datetime(1970, 1, 1)
    try:
        return at.astimezone(datetime.UTC).replace(tzinfo=None) if at.tzinfo else at
    except OverflowError:  # the zone takes it out of the years that there are
        return at.replace(tzinfo=None)
