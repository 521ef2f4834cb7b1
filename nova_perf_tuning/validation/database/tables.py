"""Tables of the database of runs; the migration makes the same.

A run is the validation of a fleet (kind ``heat``) or of one host (kind ``libvirt``: one pair whose client and
server are that host). What is only read as a whole is JSON, as in results files. Times are UTC without a zone.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

metadata: Final = sa.MetaData()

#: ``state``: ``running``, ``interrupted`` (can be resumed), ``complete``. ``owner``: which process runs it, empty:
#: none; ``seen_at``: when that last said that it is alive. ``leftovers``: stacks of it may still exist. ``plan``:
#: enough to go on. ``environment``: of the results. ``hosts``: their names.
runs: Final = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("owner", sa.String(200), nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False, index=True),
    sa.Column("seen_at", sa.DateTime, nullable=False),
    sa.Column("leftovers", sa.Boolean, nullable=False),
    sa.Column("plan", sa.JSON, nullable=False),
    sa.Column("environment", sa.JSON, nullable=False),
    sa.Column("hosts", sa.JSON, nullable=False),
)

#: ``state``: ``planned``, ``running``, ``done`` (has trials), ``failed`` (has none and is not tried again).
#: ``attempts``: how often it was begun and not cut off. ``seconds``: what the last attempt took. ``faults``: list
#: of attempt, kind, arm and reason.
pairs: Final = sa.Table(
    "pairs",
    metadata,
    sa.Column("run_id", sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("client", sa.String(255), nullable=False),
    sa.Column("server", sa.String(255), nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Double),
    sa.Column("faults", sa.JSON, nullable=False),
    sa.Column("environment", sa.JSON, nullable=False),
    sa.Column("trials", sa.JSON, nullable=False),
)
