# SPDX-License-Identifier: Apache-2.0
"""Unit tests. No property is a matter of time: a slow machine must not fail one."""

import gc
import sqlite3

import hypothesis
import sqlalchemy as sa

hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

# All modules of the tests, and what they load, stay until the end: looking through them again and again frees nothing.
gc.set_threshold(20_000, 20, 20)


@sa.event.listens_for(sa.Engine, "connect")
def _do_not_wait_for_the_disk(connection: object, _record: object) -> None:
    """A database of a test need not outlive a power cut; processes see what others wrote all the same."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
