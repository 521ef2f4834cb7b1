# SPDX-License-Identifier: Apache-2.0
"""Runs and pairs."""

import sqlalchemy as sa
from alembic import op

revision = "0001_runs"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "runs",
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
    op.create_table(
        "pairs",
        sa.Column(
            "run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
        ),
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


def downgrade() -> None:
    op.drop_table("pairs")
    op.drop_table("runs")
