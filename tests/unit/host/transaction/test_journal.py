"""The journal: who may use it, and that whatever is wrong with it is one clear line."""

import dataclasses
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

    def test_what_is_no_text_is_made_text(self):
        self.fill()
        with self.open() as book:
            columns = journal._COLUMNS.split(", ")
            sound = book.entries()[0]
            for value in (b"\xff\0", b"5", 7, 7.5, "x"):
                for column in columns:
                    if column == "state":  # SQLite itself takes no others
                        continue
                    book._connection.execute("BEGIN")
                    book._connection.execute(f"UPDATE entry SET {column} = ? WHERE id = 1", (value,))
                    found, *others = book.entries()
                    book._connection.execute("ROLLBACK")
                    made = getattr(found, column)
                    self.assertIs(type(getattr(sound, column)) if column != "written" else str, type(made))
                    self.assertEqual(sound, dataclasses.replace(found, **{column: getattr(sound, column)}))
                    self.assertEqual(49, len(others))
            book._connection.execute("UPDATE entry SET wanted = CAST(x'35ff' AS TEXT) WHERE id = 1")
            found, *others = book.entries()
            self.assertEqual(("5\ufffd", sound.written), (found.wanted, found.written))
            self.assertEqual([entry(f"irq:{number}") for number in range(1, 50)], others)

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

    def test_one_that_a_stranger_put_before_root_is_still_refused(self):
        path = self.fill()
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        else:  # only root can give files away: a stranger's file is ours then
            self.patch(os, "geteuid", lambda: 0)
        self.refused("you alone may write", writer=False)

    def test_a_reader_makes_nothing_and_finds_nothing(self):
        with self.open(writer=False) as book:
            self.assertEqual([], book.entries())
            self.assertRaises(journal.JournalError, book.transaction().__enter__)
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

    def test_not_a_database(self):
        path = self.fill()
        path.write_bytes(b"this is no database, it is a text of some length" * 100)
        for writer in (True, False):
            self.refused(str(path), "move it away", writer=writer)

    def test_a_damaged_database(self):
        path = self.fill()
        data = bytearray(path.read_bytes())
        for place in range(4096, len(data), 64):
            data[place : place + 8] = b"\xff" * 8
        path.write_bytes(data)
        self.refused(str(path), "damaged")

    def test_a_truncated_database(self):
        path = self.fill()
        os.truncate(path, 5000)
        self.refused(str(path))

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

    def test_a_host_whose_path_is_no_text(self):
        root = os.fsdecode(os.fsencode(os.path.dirname(os.path.dirname(self.folder))) + b"/h\xff")
        os.mkdir(root)
        self.folder = os.path.join(root, "state")
        for _ in range(2):
            with self.open(root=root) as book, book.transaction():
                book.put([entry()])
        with self.open(writer=False, root=root) as book:
            self.assertEqual([entry()], book.entries())
        self.refused(f"belongs to the host below {root}, not /:", writer=False)

    def test_a_name_that_is_no_text_is_refused_in_one_line(self):
        with self.open() as book:
            with testtools.ExpectedException(journal.JournalError, ".*eth.udcff.*no UTF-8"), book.transaction():
                book.put([entry("eth\udcff")])
            self.assertEqual([], book.entries())

    def test_a_folder_that_others_may_write(self):
        self.fill()
        os.chmod(self.folder, 0o777)
        self.refused("others may write there")

    def test_a_link_in_its_place(self):
        path = self.fill()
        victim = pathlib.Path(self.folder, "victim")
        path.rename(victim)
        path.symlink_to(victim)
        for writer in (True, False):
            self.refused(str(path), writer=writer)
        path.unlink()
        lock = pathlib.Path(self.folder, "lock")
        lock.unlink()
        lock.symlink_to(victim)
        self.refused(str(lock))

    def test_a_folder_in_its_place(self):
        os.makedirs(os.path.join(self.folder, "journal.sqlite"), mode=0o700)
        os.chmod(self.folder, 0o700)
        self.refused("journal.sqlite")

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
