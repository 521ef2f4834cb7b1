"""Tables of the database of runs; the migrations make the same.

A run is one validation, of a fleet (kind ``heat``) or of a single host (kind ``libvirt``: one pair whose client
and server are that host). Its pairs hold the trials; what all trials of a figure share is written once, in
``metrics``, so that a thousand hosts stay small and a host's history is one join. Times are UTC without a zone.
"""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

#: Longest text of a column that is searched or joined; MySQL indexes need a length.
_NAME = 200


class Base(orm.DeclarativeBase):
    """All tables of the project."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(column_0_N_label)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {dict[str, Any]: sa.JSON, float: sa.Double, str: sa.String(_NAME)}


class Run(Base):
    """One validation.

    :ivar state: ``running``, ``interrupted`` (can be resumed), ``complete``, ``failed``.
    :ivar owner: which process runs it, see :mod:`nova_perf_tuning.cloud.campaign_store`; empty: none.
    :ivar seen_at: when the owner last said that it is alive.
    :ivar leftovers: stacks of it may still exist.
    :ivar plan: what was asked for, enough to go on; :ivar environment: what the results rest on.
    """

    __tablename__ = "runs"

    id: orm.Mapped[str] = orm.mapped_column(sa.String(32), primary_key=True)
    kind: orm.Mapped[str]
    state: orm.Mapped[str]
    owner: orm.Mapped[str] = orm.mapped_column(default="")
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(index=True)
    seen_at: orm.Mapped[datetime.datetime]
    ended_at: orm.Mapped[datetime.datetime | None]
    leftovers: orm.Mapped[bool] = orm.mapped_column(default=False)
    verdict: orm.Mapped[str | None]
    plan: orm.Mapped[dict[str, Any]]
    environment: orm.Mapped[dict[str, Any]]


class RunHost(Base):
    """A host in a run.

    :ivar state: ``in``, or ``out`` when it was given up on the way; :attr:`reason` says why.
    :ivar fingerprint: results are compared among hosts with the same one; empty: unknown.
    :ivar verdict: PASS, FAIL, INCONCLUSIVE or INVALID once the run is judged; :attr:`finding` is the why.
    """

    __tablename__ = "run_hosts"

    run_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    host: orm.Mapped[str] = orm.mapped_column(primary_key=True, index=True)
    state: orm.Mapped[str]
    reason: orm.Mapped[str] = orm.mapped_column(sa.Text, default="")
    fingerprint: orm.Mapped[str] = orm.mapped_column(index=True, default="")
    verdict: orm.Mapped[str | None]
    finding: orm.Mapped[str] = orm.mapped_column(sa.Text, default="")


class Pair(Base):
    """A pair of hosts to be measured, in the order of ``number``.

    :ivar state: ``planned``, ``running``, ``done`` (has trials), ``failed`` (has none and is not tried again),
        ``dropped`` (a host of it was given up).
    :ivar attempts: how often it was begun.
    """

    __tablename__ = "pairs"
    __table_args__ = (sa.UniqueConstraint("run_id", "number"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    run_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey("runs.id", ondelete="CASCADE"))
    number: orm.Mapped[int]
    client: orm.Mapped[str] = orm.mapped_column(index=True)
    server: orm.Mapped[str] = orm.mapped_column(index=True)
    state: orm.Mapped[str]
    attempts: orm.Mapped[int] = orm.mapped_column(default=0)
    seconds: orm.Mapped[dict[str, Any] | None]
    host_cpu_source: orm.Mapped[str] = orm.mapped_column(default="")
    environment: orm.Mapped[dict[str, Any] | None]


class PairFault(Base):
    """Why a pair, or one arm of it, gave no results in one attempt."""

    __tablename__ = "pair_faults"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    pair_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("pairs.id", ondelete="CASCADE"), index=True)
    attempt: orm.Mapped[int]
    kind: orm.Mapped[str]
    arm: orm.Mapped[str] = orm.mapped_column(default="")
    reason: orm.Mapped[str] = orm.mapped_column(sa.Text)


class Metric(Base):
    """A figure of a benchmark, as :class:`nova_perf_tuning.budget.model.Trial` describes it."""

    __tablename__ = "metrics"
    __table_args__ = (sa.UniqueConstraint("digest"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    #: Of all other columns: together they are too long for an index of MySQL.
    digest: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    benchmark: orm.Mapped[str]
    metric: orm.Mapped[str]
    unit: orm.Mapped[str]
    better: orm.Mapped[str] = orm.mapped_column(sa.String(10))
    is_primary: orm.Mapped[bool]
    work_unit: orm.Mapped[str]


class Trial(Base):
    """One run of one benchmark in one arm on one pair."""

    __tablename__ = "trials"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    pair_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("pairs.id", ondelete="CASCADE"), index=True)
    metric_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("metrics.id"))
    arm: orm.Mapped[str]
    group_number: orm.Mapped[int]
    block: orm.Mapped[int]
    order_number: orm.Mapped[int]
    value: orm.Mapped[float | None]
    error: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    host_cpu_s: orm.Mapped[dict[str, Any]]
    guest_cpu_s: orm.Mapped[float | None]
    wait_s: orm.Mapped[float | None]
    window_s: orm.Mapped[float]
    work: orm.Mapped[float | None]
