"""Runs, hosts, pairs and trials."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "metrics",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("benchmark", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("unit", sa.String(length=200), nullable=False),
        sa.Column("better", sa.String(length=10), nullable=False),
        sa.Column("is_primary", sa.Boolean(), nullable=False),
        sa.Column("work_unit", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_metrics"),
        sa.UniqueConstraint("digest", name="uq_metrics_digest"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=200), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("seen_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.Column("leftovers", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.String(length=200), nullable=True),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("environment", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_created_at", "runs", ["created_at"])
    op.create_table(
        "pairs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("client", sa.String(length=200), nullable=False),
        sa.Column("server", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=200), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.JSON(), nullable=True),
        sa.Column("host_cpu_source", sa.String(length=200), nullable=False),
        sa.Column("environment", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_pairs_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_pairs"),
        sa.UniqueConstraint("run_id", "number", name="uq_pairs_run_id_number"),
    )
    op.create_index("ix_pairs_client", "pairs", ["client"])
    op.create_index("ix_pairs_server", "pairs", ["server"])
    op.create_table(
        "run_hosts",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=200), nullable=False),
        sa.Column("verdict", sa.String(length=200), nullable=True),
        sa.Column("finding", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_hosts_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "host", name="pk_run_hosts"),
    )
    op.create_index("ix_run_hosts_fingerprint", "run_hosts", ["fingerprint"])
    op.create_index("ix_run_hosts_host", "run_hosts", ["host"])
    op.create_table(
        "pair_faults",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pair_id", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=200), nullable=False),
        sa.Column("arm", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["pair_id"], ["pairs.id"], name="fk_pair_faults_pair_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_pair_faults"),
    )
    op.create_index("ix_pair_faults_pair_id", "pair_faults", ["pair_id"])
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pair_id", sa.Integer(), nullable=False),
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("arm", sa.String(length=200), nullable=False),
        sa.Column("group_number", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("order_number", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("host_cpu_s", sa.JSON(), nullable=False),
        sa.Column("guest_cpu_s", sa.Double(), nullable=True),
        sa.Column("wait_s", sa.Double(), nullable=True),
        sa.Column("window_s", sa.Double(), nullable=False),
        sa.Column("work", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["metric_id"], ["metrics.id"], name="fk_trials_metric_id"),
        sa.ForeignKeyConstraint(["pair_id"], ["pairs.id"], name="fk_trials_pair_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
    )
    op.create_index("ix_trials_pair_id", "trials", ["pair_id"])


def downgrade() -> None:
    for table in ("trials", "pair_faults", "run_hosts", "pairs", "runs", "metrics"):
        op.drop_table(table)
