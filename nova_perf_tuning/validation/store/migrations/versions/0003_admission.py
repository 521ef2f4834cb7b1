# SPDX-License-Identifier: Apache-2.0
"""Admission: who does it, hosts, and their transitions."""

import datetime

import sqlalchemy as sa
from alembic import op

revision = "0003_admission"
down_revision = "0001_runs"


def upgrade() -> None:
    control = op.create_table(
        "admission_control",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("seen_at", sa.DateTime, nullable=False),
        sa.Column("stopped", sa.String(255), nullable=False),
    )
    op.create_table(
        "admission_hosts",
        sa.Column("host", sa.String(255), primary_key=True),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("cause", sa.String(40), nullable=False),
        sa.Column("since", sa.DateTime, nullable=False),
        sa.Column("asked", sa.Boolean, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
    )
    op.create_table(
        "admission_moves",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("written", sa.String(64), nullable=False, unique=True),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("before", sa.String(20), nullable=False),
        sa.Column("after", sa.String(20), nullable=False),
        sa.Column("cause", sa.String(40), nullable=False),
    )
    long_ago = datetime.datetime(2000, 1, 1)
    op.bulk_insert(control, [{"id": 1, "owner": "", "seen_at": long_ago, "stopped": ""}])


def downgrade() -> None:
    op.drop_table("admission_moves")
    op.drop_table("admission_hosts")
    op.drop_table("admission_control")
