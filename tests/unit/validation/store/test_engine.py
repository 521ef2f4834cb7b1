# SPDX-License-Identifier: Apache-2.0
"""The database of runs: made, migrated, refused with one line; tables and migrations say the same."""

import contextlib
import os
import pathlib
import sqlite3
import stat
import sys
from unittest import mock

import fixtures
import psycopg
import pymysql
import sqlalchemy as sa
from alembic import command, script
from sqlalchemy import exc

from nova_perf_tuning.validation.store import engine
from tests.support import directories


def _statements(path):
    """Return what makes a database anew, in order."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return sorted(connection.iterdump())


class EngineTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.directory, "state", "results.db")
        self.url = f"sqlite:///{self.path}"

    def connect(self, url=None):
        made = engine.connect(url or self.url)
        self.addCleanup(made.dispose)
        return made

    def test_who_may_read_it(self):
        """The directory may be the one where nova-compute reads a verdict; the file is not for it."""
        before = os.umask(0o077 if os.geteuid() == 0 else 0o022)
        self.addCleanup(os.umask, before)
        self.connect()
        self.assertEqual(0o755, stat.S_IMODE(os.stat(os.path.dirname(self.path)).st_mode))
        self.assertEqual(0, os.stat(self.path).st_mode & 0o007)

    def test_nothing_but_plain_files_lies_beside_it(self):
        self.connect().dispose()
        victim = self.directory / "victim"
        for suffix in ("-journal", "-wal", "-shm"):
            file = f"{self.path}{suffix}"
            os.symlink(victim, file)
            error = self.assertRaises(engine.DatabaseError, engine.connect, self.url)
            self.assertIn(f"{file}: it is not a plain file", str(error))
            os.unlink(file)
        self.assertFalse(victim.exists())
        link = self.directory / "link.db"  # the operator's own words may name a link
        link.symlink_to(self.path)
        self.connect(f"sqlite:///{link}")

    def test_the_newest_revision_is_that_of_the_migrations(self):
        migrations = pathlib.Path(engine.__file__).parent / "migrations"
        self.assertEqual(engine.HEAD, script.ScriptDirectory(migrations).get_current_head())

    def test_new_tables_are_those_of_the_migrations(self):
        """Of SQLite they are made at once, of the others by Alembic: the same tables and rows."""
        self.connect().dispose()
        migrated = f"{self.path}.migrated"
        other = sa.create_engine(f"sqlite:///{migrated}")
        self.addCleanup(other.dispose)
        engine.migrate(other, command.upgrade, "head")
        self.assertEqual(_statements(migrated), _statements(self.path))

    def test_a_current_database_is_only_read(self):
        self.connect().dispose()
        with mock.patch.object(engine, "migrate", side_effect=AssertionError):
            self.connect()
        with sqlite3.connect(self.path) as connection:
            connection.execute("DELETE FROM alembic_version")
        connection.close()
        self.assertRaises(engine.DatabaseError, engine.connect, self.url)

    def test_made_by_a_newer_version(self):
        self.connect().dispose()
        with sqlite3.connect(self.path) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.close()
        error = self.assertRaises(engine.DatabaseError, engine.connect, self.url)
        self.assertIn("another version; update nova-perf-tuning", str(error))

    def test_mistakes_are_one_line_without_the_password(self):
        file = self.write_file(
            "file", "no database at all, but long enough to be taken for one " * 50
        )
        for url, output in (
            ("results.db", "is not a SQLAlchemy URL"),
            ("nosuch://user:geheim@host/db?password=geheim", "nosuch"),
            ("postgresql+psycopg://perf:geheim@host/db", "psycopg is missing; install nova-perf"),
            ("mysql+pymysql://perf:geheim@host/db?ssl_caa=x", "ssl_caa"),
            ("oracle://perf:geheim@host/db", "kept in SQLite, PostgreSQL or MariaDB"),
            ("mysql://perf:geheim@host/db", "MySQLdb is missing; install nova-perf"),
            (f"sqlite:///{file}", "not a database"),
            (f"sqlite:///{file}/below/results.db", "Not a directory"),
            (f"sqlite:///{self.directory}", "is not a plain file; name another"),
        ):
            with self.subTest(url), mock.patch.dict(sys.modules, {"psycopg": None}):
                error = self.assertRaises(engine.DatabaseError, engine.connect, url)
                self.assertIn(output, str(error))
                self.assertNotIn("geheim", str(error))
                self.assertEqual(1, len(str(error).splitlines()))

    def test_only_options_without_a_password_are_shown(self):
        for option in (
            "password", "passwd", "sslpassword", "conninfo", "init_command", "options", "service",
            "new_option",
        ):  # fmt: skip
            url = f"mysql+pymysql://perf:geheim@h/db?charset=utf8mb4&{option}=password%3Dgeheim"
            with self.subTest(option):
                shown = engine.without_password(url)
                self.assertNotIn("geheim", shown)
                self.assertIn("charset=utf8mb4", shown)
                self.assertIn(f"{option}=", shown)

    def test_where_it_is(self):
        self.useFixture(
            fixtures.EnvironmentVariable(engine.URL_VARIABLE, "mysql+pymysql://host/perf")
        )
        self.assertEqual("mysql+pymysql://host/perf", engine.default_url())
        self.useFixture(fixtures.EnvironmentVariable(engine.URL_VARIABLE))
        self.assertRegex(engine.default_url(), r"^sqlite:///.*/nova-perf-tuning/results\.db$")

    def test_what_is_tried_again(self):
        connected = self.connect()
        for original, kind, invalidated, tries in (
            (pymysql.OperationalError(1213, "Deadlock found"), exc.OperationalError, False, 2),
            (pymysql.OperationalError(1020, "Record has changed"), exc.OperationalError, False, 2),
            (pymysql.OperationalError(2013, "Lost connection"), exc.OperationalError, True, 2),
            (pymysql.OperationalError(2003, "Can't connect"), exc.OperationalError, False, 2),
            (pymysql.ProgrammingError(1064, "syntax"), exc.ProgrammingError, False, 1),
            (psycopg.errors.DeadlockDetected(), exc.OperationalError, False, 2),
            (psycopg.OperationalError("connection failed"), exc.OperationalError, False, 2),
            (psycopg.ProgrammingError("no result"), exc.ProgrammingError, False, 1),
            (psycopg.errors.UniqueViolation(), exc.IntegrityError, False, 1),
            (sqlite3.OperationalError("disk I/O error"), exc.OperationalError, False, 1),
        ):
            with self.subTest(original):
                if isinstance(original, pymysql.Error):
                    original.sqlstate = (
                        "HY000"  # of most errors, and that of a deadlock is of PostgreSQL too
                    )
                error = kind("", {}, original, connection_invalidated=invalidated)
                work = mock.Mock(side_effect=[error, "done"])
                if tries == 2:
                    engine.write(connected, work)
                else:
                    self.assertRaises(engine.DatabaseError, engine.write, connected, work)
                self.assertEqual(tries, work.call_count)
