"""The journal: who may use it, and that whatever is wrong with it is one clear line."""

import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import testtools

from nova_perf_tuning.host.transaction import journal


def entry(target="irq:1", boot="boot", **changes):
    values = {
        "kind": "irq_affinity", "target": target, "identity": "x", "boot_id": boot, "original": "0-7",
        "wanted": "1", "written": None, "reason": "r", "rule": "l", "state": "intended",
        "since": 1.0, "changed": 2.0,
    }  # fmt: skip
    return journal.Entry(**(values | changes))


class JournalTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-journal-")
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "deep", "state")

    def open(self, writer=True, root="/", patience=0.1):
        return journal.Journal(self.folder, root, writer=writer, patience=patience)

    def fill(self):
        with self.open() as book, book.transaction():
            book.put([entry(f"irq:{number}") for number in range(50)])
        return pathlib.Path(self.folder, "journal.sqlite")

    def refused(self, *words, writer=True, **arguments):
        error = self.assertRaises(journal.JournalError, self.open, writer, **arguments)
        self.assertNotIn("\n", str(error))
        for word in words:
            self.assertIn(word, str(error))

    def test_round_trip(self):
        with self.open() as book, book.transaction():
            book.put([entry(), entry("irq:2", state="applied", written="1")])
        with self.open() as book, book.transaction():
            book.put([entry(state="applied", written="1", wanted="5")])
        with self.open(writer=False) as book:
            found = book.entries()
        self.assertEqual(["irq:1", "irq:2"], [one.target for one in found], "an entry keeps its place")
        self.assertEqual(entry(state="applied", written="1", wanted="5"), found[0])
        with self.open() as book, book.transaction():
            book.drop(found[:1])
        with self.open(writer=False) as book:
            self.assertEqual(["irq:2"], [one.target for one in book.entries()])

    def test_only_its_owner_reads_it(self):
        path = self.fill()
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual(0, path.parent.stat().st_mode & 0o022)

    def test_whom_it_belongs_to_is_told_to_who_may_not_read_it(self):
        path = self.fill()
        if os.geteuid() == 0:
            os.chmod(path.parents[2], 0o755)
            self.addCleanup(os.seteuid, 0)
            os.seteuid(65534)
            owner = "root"
        else:
            self.patch(os, "geteuid", lambda: os.getuid() + 1)
            owner = f"user {os.getuid()}"
        error = self.assertRaises(journal.ForbiddenError, self.open, False)
        self.assertEqual(f"{path}: only its owner ({owner}) may read it: run this as {owner}", str(error))

    def test_a_folder_that_only_root_may_enter(self):
        path = self.fill()
        if os.geteuid() == 0:
            self.addCleanup(os.seteuid, 0)
            os.seteuid(65534)
        else:
            self.addCleanup(path.parent.chmod, 0o700)
            path.parent.chmod(0)
        error = self.assertRaises(journal.ForbiddenError, self.open, False)
        self.assertIn("run this as root", str(error))

    def test_a_reader_makes_nothing_and_finds_nothing(self):
        with self.open(writer=False) as book:
            self.assertEqual([], book.entries())
        self.assertFalse(os.path.exists(self.folder))

    def test_a_transaction_that_fails_leaves_nothing(self):
        with self.open() as book:
            with testtools.ExpectedException(RuntimeError), book.transaction():
                book.put([entry()])
                raise RuntimeError
            self.assertEqual([], book.entries())

    def test_one_writer_and_readers_beside_it(self):
        self.fill()
        with self.open() as book, book.transaction():
            book.put([entry("irq:99")])
            with self.open(writer=False) as other:
                self.assertEqual(50, len(other.entries()))
            self.refused(str(os.getpid()), "is changing this host")
        self.open().close()

    def test_the_lock_goes_with_its_process(self):
        code = "import sys\nfrom nova_perf_tuning.host.transaction import journal\nimport os\n"
        code += "book = journal.Journal(sys.argv[1], '/', writer=True)\nos.kill(os.getpid(), 9)\n"
        subprocess.run([sys.executable, "-c", code, self.folder], check=False)
        self.open().close()

    def test_a_damaged_database(self):
        path = self.fill()
        data = bytearray(path.read_bytes())
        for place in range(4096, len(data), 64):
            data[place : place + 8] = b"\xff" * 8
        path.write_bytes(data)
        self.refused(str(path), "damaged")

    def test_somebody_elses_database(self):
        path = self.fill()
        path.unlink()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE entry (id)")
        connection.commit()
        connection.close()
        path.chmod(0o600)
        for writer in (True, False):
            self.refused("not a journal", writer=writer)

    def test_a_newer_version(self):
        path = self.fill()
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {journal.VERSION + 1}")
        connection.commit()
        connection.close()
        self.refused("newer release")

    def test_another_hosts_journal(self):
        self.fill()
        self.refused("belongs to the host below /", root=tempfile.gettempdir())

    def test_a_folder_that_others_may_write(self):
        self.fill()
        os.chmod(self.folder, 0o777)
        self.refused("others may write there")

    def test_a_file_in_place_of_the_folder(self):
        os.makedirs(os.path.dirname(self.folder))
        pathlib.Path(self.folder).write_text("x")
        self.refused(self.folder, "--state-dir")

    def test_strange_names(self):
        self.folder = os.path.join(os.path.dirname(self.folder), "a?mode=ro&x=%41#b c")
        self.fill()
        with self.open(writer=False) as book:
            self.assertEqual(50, len(book.entries()))
        self.assertEqual({"journal.sqlite", "lock"}, {name[:14] for name in os.listdir(self.folder)})
