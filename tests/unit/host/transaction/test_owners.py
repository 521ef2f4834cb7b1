# SPDX-License-Identifier: Apache-2.0
"""Locks that name their holder, and the journal between the rounds of an agent."""

import os
import pathlib
import re
import threading
from unittest import mock

from nova_perf_tuning.agent import journal_session
from nova_perf_tuning.host.transaction import journal
from tests.support import directories


class LockTest(directories.DirectoryCase):
    def test_it_names_its_holder_until_it_is_closed(self):
        path = os.path.join(self.directory, "lock")
        self.assertIsNone(journal.lock_holder(path))
        fd = journal.take_lock(path, 0.0)
        self.assertEqual(str(os.getpid()), journal.lock_holder(path))
        error = self.assertRaises(journal.HeldError, journal.take_lock, path, 0.0)
        self.assertEqual(str(os.getpid()), error.holder)
        os.close(fd)
        self.assertIsNone(journal.lock_holder(path))
        os.close(journal.take_lock(path, 0.0))

    def test_no_link_is_followed(self):
        path, victim = os.path.join(self.directory, "lock"), pathlib.Path(self.directory, "victim")
        victim.write_text("untouched\n")
        os.symlink(victim, path)
        self.assertRaises(OSError, journal.take_lock, path, 0.0)
        self.assertIsNone(journal.lock_holder(path))
        self.assertEqual("untouched\n", victim.read_text())

    def test_only_a_plain_file_is_opened(self):
        """Opening alone would start a watchdog, which may lie in a recorded host as its lock."""
        path = os.path.join(self.directory, "lock")
        os.mkfifo(path)
        opened = []
        really = os.open

        def watched(place, flags, *arguments, **more):
            if not flags & os.O_PATH:
                opened.append(place)
            return really(place, flags, *arguments, **more)

        with mock.patch.object(os, "open", watched):
            self.assertRaises(journal.JournalError, journal.take_lock, path, 0.0)
            self.assertRaises(journal.JournalError, journal.lock_holder, path)
        self.assertEqual([], opened)


class JournalSessionTest(directories.DirectoryCase):
    def session(self):
        return journal_session.JournalSession(self.directory, "/")

    def test_one_agent_and_commands_between_its_rounds(self):
        with self.session().agent():
            self.assertEqual(str(os.getpid()), journal.running_agent(self.directory))
            self.assertRaises(journal.JournalError, self.session().agent().__enter__)
            with journal.Journal(self.directory, writer=True, patience=0.0):
                pass
        self.assertIsNone(journal.running_agent(self.directory))

    def test_a_round_does_not_wait(self):
        ours = self.session()
        with journal.Journal(self.directory, writer=True):
            self.assertRaises(journal.BusyError, ours.writing().__enter__)

    def test_it_sees_what_others_wrote_and_not_its_own(self):
        ours = self.session()
        entry = journal.Entry(
            "box", "a", "", "boot", "1", "2", "2", "", "mine", "applied", 0.0, 0.0
        )
        with ours.writing() as opened, opened.transaction():
            opened.put([entry])
        self.assertFalse(ours.changed())
        with journal.Journal(self.directory) as reader:
            self.assertEqual([entry], reader.entries())
        self.assertFalse(ours.changed())
        with journal.Journal(self.directory, writer=True) as other, other.transaction():
            other.drop([entry])
        self.assertTrue(ours.changed())
        with ours.writing() as opened:
            self.assertEqual([], opened.entries())
        self.assertFalse(ours.changed())

    def test_the_end_waits_for_a_command(self):
        ours = journal_session.JournalSession(self.directory, "/", ending=0.3)
        with journal.Journal(self.directory, writer=True):
            self.assertRaises(journal.BusyError, ours.ending)
        command = journal.Journal(self.directory, writer=True)
        ends = threading.Timer(0.2, command.close)
        ends.start()
        self.addCleanup(ends.join)
        with journal_session.JournalSession(self.directory, "/").ending():
            pass

    def test_it_waits_far_less_than_systemd(self):
        unit = (
            pathlib.Path(__file__)
            .parents[4]
            .joinpath("etc/systemd/nova-perf-agent.service")
            .read_text()
        )
        (limit,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        self.assertLessEqual(2 * journal_session.ENDING_S, float(limit))
