"""Trials as rows of the database of runs: what all trials of a figure share is written once, in ``metrics``."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import MutableMapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc, orm

from nova_perf_tuning.budget import model
from nova_perf_tuning.database import tables


def insert(
    session: orm.Session,
    pair_id: int,
    trials: Sequence[model.Trial],
    known: MutableMapping[str, int] | None = None,
) -> None:
    """Write the trials of a pair.

    :param known: ids of metrics by digest, kept from call to call by who writes many pairs.
    """
    if trials:
        metrics = {} if known is None else known
        rows = [_row(pair_id, _metric_id(session, one, metrics), one) for one in trials]
        session.execute(sa.insert(tables.Trial), rows)


def _row(pair_id: int, metric_id: int, one: model.Trial) -> dict[str, Any]:
    return {
        "pair_id": pair_id,
        "metric_id": metric_id,
        "arm": one.arm,
        "group_number": one.group,
        "block": one.block,
        "order_number": one.order,
        "value": one.value,
        "error": one.error,
        "host_cpu_s": dict(one.host_cpu_s),
        "guest_cpu_s": one.guest_cpu_s,
        "wait_s": one.wait_s,
        "window_s": one.window_s,
        "work": one.work,
    }


def _metric_id(session: orm.Session, one: model.Trial, known: MutableMapping[str, int]) -> int:
    parts = (one.benchmark, one.metric, one.unit, one.better, str(one.primary), one.work_unit)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    if digest not in known:
        query = sa.select(tables.Metric.id).where(tables.Metric.digest == digest)
        found = session.scalar(query)
        if found is None:
            metric = tables.Metric(
                digest=digest,
                benchmark=one.benchmark,
                metric=one.metric,
                unit=one.unit,
                better=one.better,
                is_primary=one.primary,
                work_unit=one.work_unit,
            )
            with contextlib.suppress(exc.IntegrityError), session.begin_nested():  # another run has it too
                session.add(metric)
            found = session.scalars(query).one()
        known[digest] = found
    return known[digest]
