# SPDX-License-Identifier: Apache-2.0
"""The journal: who may use it, and that whatever is wrong with it is one clear line."""

import contextlib
import os
import pathlib
import resource
import shutil
import sqlite3
import tempfile
import types
from unittest import mock

import testtools

from nova_perf_tuning.host.transaction import journal
from tests.support import directories


def entry(target="irq:1", boot="boot", **changes):
    values = {
        "kind": "irq_affinity", "target": target, "identity": "x", "boot_id": boot, "original": "0-7",
        "wanted": "1", "written": None, "reason": "r", "rule": "l", "state": "intended",
        "since": 1.0, "changed": 2.0,
    }  # fmt: skip
    return journal.Entry(**(values | changes))


class JournalTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.directory = os.path.join(self.directory, "deep", "state")

    def open(self, writer=True, root="/", patience=0.1):
        return journal.Journal(self.directory, root, writer=writer, patience=patience)

    def fill(self):
        with self.open() as session, session.transaction():
            session.put([entry(f"irq:{number}") for number in range(50)])
        return pathlib.Path(self.directory, "journal.sqlite")

    def refused(self, *words, writer=True, **arguments):
        error = self.assertRaises(journal.JournalError, self.open, writer, **arguments)
        self.assertNotIn("\n", str(error))
        for word in words:
            self.assertIn(word, str(error))

    def test_a_pipe_as_lock_is_one_error_at_once(self):
        self.open().close()
        path = os.path.join(self.directory, journal.AGENT_LOCK)
        os.mkfifo(path)
        for take in (journal.lock_holder, lambda path: journal.take_lock(path, 0.0)):
            error = self.assertRaises(journal.JournalError, take, path)
            self.assertIn(f"{path}: it is not a plain file", str(error))

    def test_a_view_in_place_of_a_table_is_refused(self):
        path = self.fill()
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(f"DROP TABLE host; CREATE VIEW host (root) AS {endless}")
        self.refused("is not a journal of this program", writer=False)

    def test_only_our_own_tables_are_read(self):
        """A computed column of a small file fills all memory."""
        large = "hex(zeroblob(400000000))"
        reason = "reason TEXT NOT NULL"
        changes = {
            "computed": f"reason TEXT GENERATED ALWAYS AS ({large}) VIRTUAL",
            "default": f"reason TEXT NOT NULL DEFAULT ({large})",
            "more columns": f"{reason}, more TEXT",
        }
        ours = journal._TABLES["entry"]
        scripts = [
            f"DROP TABLE entry; {ours.replace(reason, change)}" for change in changes.values()
        ]
        scripts += [
            "CREATE TABLE other (x)",
            "CREATE INDEX other ON entry (hex(kind))",
            "DROP TABLE host",
        ]
        for script in scripts:
            with self.subTest(script=script):
                path = self.fill()
                with contextlib.closing(sqlite3.connect(path)) as connection:
                    connection.executescript(script)
                self.refused("is not a journal of this program", writer=False)
                self.refused("is not a journal of this program")
                shutil.rmtree(self.directory)

    def test_what_is_read_is_bounded(self):
        self.fill()
        for name, bound, word in (
            ("_MAX_VALUE", 40, "too big"),
            ("_MAX_TEXT", 100, "more than"),
            ("_MAX_ENTRIES", 49, "more than 49 entries"),
        ):
            with self.subTest(name), mock.patch.object(journal, name, bound):
                error = self.assertRaises(journal.JournalError, self.all_entries)
                self.assertIn(word, str(error))
        with mock.patch.object(journal, "_MAX_ENTRIES", 50):
            self.assertEqual(50, len(self.all_entries()))

    def all_entries(self):
        with self.open(writer=False) as session:
            return session.entries()

    def test_a_value_of_another_type(self):
        for change in (
            "kind = x'ff'",
            "written = x'00'",
            "since = 'soon'",
            "changed = 1e300",
            "since = -1",
        ):
            with self.subTest(change):
                with contextlib.closing(sqlite3.connect(self.fill())) as connection:
                    connection.executescript(f"UPDATE entry SET {change} WHERE id = 7")
                self.assertIn(
                    "damaged", str(self.assertRaises(journal.JournalError, self.all_entries))
                )
                shutil.rmtree(self.directory)

    def test_what_takes_too_long_is_ended(self):
        self.fill()
        with self.open(writer=False) as session, mock.patch.multiple(journal, _PATIENCE_S=-1.0):
            session._connection.set_progress_handler(session._is_late, 1)
            self.assertRaises(journal.JournalError, session.entries)

    def test_on_a_full_disk_nobody_is_asked_to_remove_the_originals(self):
        self.fill()
        with self.open() as session:
            session._connection.execute("PRAGMA max_page_count = 1")
            more = [entry(f"irq:{number}", boot="other") for number in range(5000)]
            with testtools.ExpectedException(
                journal.JournalError, "(?s).*full: free space.*keep the journal.*"
            ):
                with session.transaction():
                    session.put(more)

    def test_a_disk_that_cannot_be_written_is_not_called_full(self):
        self.fill()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        with self.open() as session:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
            more = [entry(f"irq:{number}", boot="other") for number in range(5000)]
            with testtools.ExpectedException(
                journal.JournalError, "(?s).*disk I/O error: that disk cannot.*keep.*"
            ):
                with session.transaction():
                    session.put(more)
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def test_the_remedy_is_that_of_the_error(self):
        self.fill()
        full = types.SimpleNamespace(f_bavail=3, f_frsize=4096)
        with self.open() as session:
            for code, disk, words in (
                (sqlite3.SQLITE_IOERR_SHMSIZE, full, "free space on that disk"),
                (
                    sqlite3.SQLITE_IOERR_READ,
                    os.statvfs(self.directory),
                    "that disk cannot be read or written",
                ),
                (sqlite3.SQLITE_NOMEM, full, "not enough memory"),
            ):
                fault = sqlite3.OperationalError("fault")
                fault.sqlite_errorcode = code
                with mock.patch.object(os, "statvfs", return_value=disk):
                    with testtools.ExpectedException(
                        journal.JournalError, f".*{words}.*keep the journal"
                    ):
                        with session._errors():
                            raise fault

    def test_each_file_of_sqlite_is_plain_and_ours(self):
        path = self.fill()
        victim = pathlib.Path(self.directory, "victim")
        for suffix in ("-wal", "-shm", "-journal"):
            beside = pathlib.Path(f"{path}{suffix}")
            for make in (os.mkfifo, lambda place: place.symlink_to(victim)):
                make(beside)
                for writer in (True, False):
                    self.refused(f"{beside}: it is not a plain file", writer=writer)
                beside.unlink()
            if os.geteuid() == 0:
                beside.touch()
                os.chown(beside, 4711, -1)
                self.refused(f"{beside}: only its owner (user 4711)", writer=False)
                beside.unlink()
        self.assertFalse(victim.exists())
        path.rename(victim)
        path.symlink_to(victim)
        self.refused(f"{path}: it is not a plain file")

    @testtools.skipUnless(os.geteuid() == 0, "gives a directory to another user")
    def test_a_directory_of_another_user_who_may_swap_the_journal(self):
        path = self.fill()
        os.chown(path.parent, 4711, -1)
        self.assertRaises(journal.ForbiddenError, self.open, False)
        path.unlink()
        with self.open(writer=False) as session:
            self.assertEqual([], session.entries())

    def test_round_trip(self):
        with self.open() as session, session.transaction():
            session.put([entry(), entry("irq:2", state="applied", written="1")])
        with self.open() as session, session.transaction():
            session.put([entry(state="applied", written="1", wanted="5")])
        with self.open(writer=False) as session:
            entries = session.entries()
        self.assertEqual(
            ["irq:1", "irq:2"], [kept.target for kept in entries], "an entry keeps its place"
        )
        self.assertEqual(entry(state="applied", written="1", wanted="5"), entries[0])
        with self.open() as session, session.transaction():
            session.drop(entries[:1])
        with self.open(writer=False) as session:
            self.assertEqual(["irq:2"], [kept.target for kept in session.entries()])

    def test_only_its_owner_reads_it(self):
        path = self.fill()
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual(0, path.parent.stat().st_mode & 0o022)

    def test_a_reader_makes_nothing_and_finds_nothing(self):
        with self.open(writer=False) as session:
            self.assertEqual([], session.entries())
        self.assertFalse(os.path.exists(self.directory))

    def test_a_transaction_that_fails_leaves_nothing(self):
        with self.open() as session:
            with testtools.ExpectedException(RuntimeError), session.transaction():
                session.put([entry()])
                raise RuntimeError
            self.assertEqual([], session.entries())

    def test_one_writer_and_readers_beside_it(self):
        self.fill()
        with self.open() as session, session.transaction():
            session.put([entry("irq:99")])
            with self.open(writer=False) as other:
                self.assertEqual(50, len(other.entries()))
            self.refused(str(os.getpid()), "is changing this host")
        self.open().close()

    def test_one_that_cannot_be_used_is_one_line(self):
        def damage(path):
            data = bytearray(path.read_bytes())
            for place in range(4096, len(data), 64):
                data[place : place + 8] = b"\xff" * 8
            path.write_bytes(data)

        def sql(statement):
            def change(path):
                with contextlib.closing(sqlite3.connect(path)) as connection:
                    connection.execute(statement)

            return change

        for change, word in (
            (damage, "damaged"),
            (lambda path: path.write_bytes(b"a text" * 1000), "damaged"),
            (sql(f"PRAGMA user_version = {journal.VERSION + 1}"), "newer release"),
            (lambda path: path.parent.chmod(0o777), "other users may write there"),
        ):
            path = self.fill()
            change(path)
            self.refused(str(path.parent), word)
            shutil.rmtree(self.directory)
        self.fill()
        self.refused("belongs to the host below /", root=tempfile.gettempdir())
        shutil.rmtree(self.directory)
        pathlib.Path(self.directory).write_text("x")
        self.refused(self.directory, "--state-dir")
