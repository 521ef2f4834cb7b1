"""Locks that name their holder, and what a person may apply beside a running agent."""

from __future__ import annotations

import os
import pathlib
import re
import tempfile
import threading

import testtools

from nova_perf_tuning.agent import book
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.transaction import apply, journal, lock, owners
from tests.unit.host.transaction import boxes


class FolderTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-owners-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class LockTest(FolderTest):
    def test_it_names_its_holder_until_it_is_closed(self):
        path = os.path.join(self.folder, "lock")
        self.assertIsNone(lock.holder(path))
        fd = lock.take(path, 0.0)
        self.assertEqual(str(os.getpid()), lock.holder(path))
        error = self.assertRaises(lock.HeldError, lock.take, path, 0.0)
        self.assertEqual(str(os.getpid()), error.holder)
        os.close(fd)
        self.assertIsNone(lock.holder(path))
        os.close(lock.take(path, 0.0))

    def test_no_link_is_followed(self):
        path, victim = os.path.join(self.folder, "lock"), pathlib.Path(self.folder, "victim")
        victim.write_text("untouched\n")
        os.symlink(victim, path)
        self.assertRaises(OSError, lock.take, path, 0.0)
        self.assertIsNone(lock.holder(path))
        self.assertEqual("untouched\n", victim.read_text())


class BookTest(FolderTest):
    def book(self):
        return book.Book(self.folder, "/")

    def test_one_agent_and_commands_between_its_rounds(self):
        with self.book().agent():
            self.assertEqual(str(os.getpid()), owners.running_agent(self.folder))
            self.assertRaises(book.SecondAgentError, self.book().agent().__enter__)
            with journal.Journal(self.folder, writer=True, patience=0.0):
                pass
        self.assertIsNone(owners.running_agent(self.folder))

    def test_a_round_does_not_wait(self):
        ours = self.book()
        with journal.Journal(self.folder, writer=True):
            self.assertRaises(journal.BusyError, ours.writing().__enter__)

    def test_it_sees_what_others_wrote_and_not_its_own(self):
        ours = self.book()
        entry = journal.Entry("box", "a", "", "boot", "1", "2", "2", "", "mine", "applied", 0.0, 0.0)
        with ours.writing() as opened, opened.transaction():
            opened.put([entry])
        self.assertFalse(ours.changed())
        with journal.Journal(self.folder) as reader:
            self.assertEqual([entry], reader.entries())
        self.assertFalse(ours.changed())
        with journal.Journal(self.folder, writer=True) as other, other.transaction():
            other.drop([entry])
        self.assertTrue(ours.changed())
        with ours.writing() as opened:
            self.assertEqual([], opened.entries())
        self.assertFalse(ours.changed())

    def test_the_end_waits_for_a_command_and_names_what_to_do(self):
        ours = book.Book(self.folder, "/", ending=0.3)
        with journal.Journal(self.folder, writer=True):
            error = self.assertRaises(journal.BusyError, ours.ending)
        self.assertIn(f"process {os.getpid()} was changing", str(error))
        self.assertIn("nova-perf restore", str(error))
        command = journal.Journal(self.folder, writer=True)
        ends = threading.Timer(0.2, command.close)
        ends.start()
        self.addCleanup(ends.join)
        with book.Book(self.folder, "/").ending():
            pass

    def test_it_waits_far_less_than_systemd(self):
        unit = pathlib.Path(__file__).parents[4].joinpath("etc/systemd/nova-perf-agent.service").read_text()
        (limit,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        self.assertLessEqual(2 * book._ENDING_S, float(limit))


class FileTest(testtools.TestCase):
    def test_what_comes_from_a_file_is_the_persons(self):
        rules = ["nic-irq-local", "mine", ""]
        given = [Setting("box", "a", "1", None, "", rule) for rule in rules]
        found = owners.from_file(given)
        self.assertEqual(["file:nic-irq-local", "mine", ""], [one.rule for one in found])
        self.assertEqual(rules, [one.rule for one in given])
        self.assertEqual(set(), owners.AGENT_RULES & {one.rule for one in found})


class SplitTest(testtools.TestCase):
    def split(self, target, value, rule, identity=""):
        kinds = {"box": boxes.Box()}
        entries = [
            journal.Entry("box", "a", "x", "boot", "1", "2", "2", "", "nic-xps", "applied", 0.0, 0.0),
            journal.Entry("box", "b", "", "earlier", "1", "2", "2", "", "nic-xps", "applied", 0.0, 0.0),
            journal.Entry("box", "c", "", "boot", "1", "2", "2", "", "mine", "applied", 0.0, 0.0),
        ]
        one = Setting("box", target, value, "1", "", rule, identity)
        free, rest = owners.split([one], kinds, entries, "boot", "77")
        self.assertEqual(1, len(free) + len(rest))
        return rest[0].result if rest else None

    def test_whose_it_is_decides(self):
        owned, unchanged = apply.Result.OWNED, apply.Result.UNCHANGED
        for arguments, expected in (
            (("a", "3", "mine"), owned),
            (("a", "3", "mine", "x"), owned),
            (("a", "3", "mine", "another object"), None),
            (("a", "2", "mine"), unchanged),
            (("a", "2", "nic-xps"), None),
            (("a", "3", "nic-xps"), owned),
            (("b", "3", "mine"), None),
            (("c", "3", "mine"), None),
            (("d", "3", "mine"), None),
            (("d", "3", "nic-rps"), owned),
        ):
            self.assertEqual(expected, self.split(*arguments), arguments)
