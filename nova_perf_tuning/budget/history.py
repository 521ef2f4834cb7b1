"""The history of hosts in the database of runs: results are kept there, and compared with what is comparable.

Comparable are figures of the same benchmark with the same parameters, in the same arm, on hosts with the same
fingerprint: CPU model and number, memory, accelerator and guest. Kernel, QEMU and libvirt are no part of it, since
what they change is what a history is to show; they are told beside a change point.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import statistics as standard
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from nova_perf_tuning.budget import model, store, trend, trial_rows
from nova_perf_tuning.database import engine as database
from nova_perf_tuning.database import tables

#: Newest runs that a history looks at unless told otherwise.
LAST = 100

#: What may change between runs and explain a change of figures.
_VERSIONS = ("kernel", "qemu", "libvirt", "nova_perf_tuning")


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
    :ivar outlier: robust z-score of the newest figure among :attr:`peers` equals, None when it is like them.
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
    peers: int = 1
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
                trial_rows.insert(session, pair.id, results.trials)
        return run_id, True

    def series(
        self, host: str | None = None, benchmark: str | None = None, arm: str | None = None, last: int = LAST
    ) -> list[Series]:
        """Return histories by host, benchmark and arm, compared with their equals.

        :param host, benchmark, arm: only these; equals of the host are looked at all the same.
        :param last: newest runs that are looked at.
        """
        found = [_series(key, points) for key, points in sorted(self._points(last, benchmark, arm).items())]
        groups: dict[tuple[str, ...], dict[str, float]] = {}
        for one in found:
            if one.fingerprint:
                groups.setdefault(_equals(one), {})[one.host] = one.points[-1].value
        judged = []
        for one in found:
            if host is not None and one.host != host:
                continue
            peers = groups.get(_equals(one), {})
            judged.append(
                dataclasses.replace(one, peers=max(1, len(peers)), outlier=trend.outliers(peers).get(one.host))
            )
        return judged

    def _points(self, last: int, benchmark: str | None, arm: str | None) -> dict[tuple[str, ...], list[Point]]:
        newest = sa.select(tables.Run.id).order_by(tables.Run.created_at.desc()).limit(last).subquery()
        query = (
            sa.select(
                tables.Run.id,
                tables.Pair.client,
                tables.RunHost.fingerprint,
                tables.Metric.id,
                tables.Trial.arm,
                tables.Trial.value,
            )
            .join(newest, newest.c.id == tables.Run.id)
            .join(tables.Pair, tables.Pair.run_id == tables.Run.id)
            .join(
                tables.RunHost,
                sa.and_(tables.RunHost.run_id == tables.Run.id, tables.RunHost.host == tables.Pair.client),
            )
            .join(tables.Trial, tables.Trial.pair_id == tables.Pair.id)
            .join(tables.Metric, tables.Metric.id == tables.Trial.metric_id)
            .where(tables.Metric.is_primary, tables.Trial.value > 0)
            .execution_options(yield_per=5000)
        )
        if benchmark is not None:
            query = query.where(tables.Metric.benchmark == benchmark)
        if arm is not None:
            query = query.where(tables.Trial.arm == arm)
        values: dict[tuple[str, str, str, int, str], list[float]] = {}
        with database.told(), orm.Session(self._engine) as session:
            for run_id, client, kind, metric_id, name, value in session.execute(query):
                values.setdefault((run_id, client, kind, metric_id, name), []).append(float(value or 0.0))
            wanted = {key[0] for key in values}
            runs = {run.id: run for run in session.scalars(sa.select(tables.Run)) if run.id in wanted}
            metrics = {metric.id: metric for metric in session.scalars(sa.select(tables.Metric))}
            found: dict[tuple[str, ...], list[Point]] = {}
            for (run_id, client, kind, metric_id, name), measured in values.items():
                run, metric = runs[run_id], metrics[metric_id]
                environment = run.environment
                parameters = environment.get("benchmarks", {}).get(metric.benchmark, {}).get("parameters", {})
                versions = {word: str(environment[word]) for word in _VERSIONS if word in environment}
                point = Point(run_id, run.created_at, standard.median(measured), len(measured), versions)
                key = (client, metric.benchmark, metric.metric, name, kind, json.dumps(parameters, sort_keys=True))
                found.setdefault((*key, metric.unit, metric.better), []).append(point)
        return found


def _series(key: tuple[str, ...], points: Sequence[Point]) -> Series:
    host, benchmark, metric, arm, kind, parameters, unit, better = key
    ordered = tuple(sorted(points, key=lambda point: (point.at, point.run_id)))
    changes = tuple(trend.changes([point.value for point in ordered]))
    return Series(host, kind, benchmark, metric, unit, better, parameters, arm, ordered, changes)


def _equals(one: Series) -> tuple[str, ...]:
    return (one.fingerprint, one.benchmark, one.metric, one.parameters, one.arm)


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
