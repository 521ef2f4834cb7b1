# SPDX-License-Identifier: Apache-2.0
"""Alembic's environment; :mod:`nova_perf_tuning.validation.store.engine` has the connection."""

from alembic import context

from nova_perf_tuning.validation.store import engine

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=engine.metadata,
    transactional_ddl=True,  # SQLite can, though Alembic does not expect it
)
with context.begin_transaction():
    context.run_migrations()
