# SPDX-License-Identifier: Apache-2.0
"""The contract of the store of admission, for each kind of database: unit tests have SQLite."""

import datetime
from unittest import mock

from alembic import command

from nova_perf_tuning.validation.fleet.admission import model, store
from nova_perf_tuning.validation.store import engine, owner
from tests.support import databases, patience

NOW = datetime.datetime(2026, 11, 30, 12)
VERDICT = model.TrialVerdict("PASS", "A", NOW, {"net": "PASS"})
RECORD = model.HostRecord(
    "cmp1",
    "validating",
    NOW,
    "registered",
    served=True,
    boot="b1",
    verdict=VERDICT,
    fails=1,
    undecided=2,
    token="T1",
    attempt=3,
    fingerprint="B",
    begun=NOW,
)


def migrated(url):
    """Connect once, which migrates the store."""
    engine.connect(url).dispose()


class StoreContract:
    """Mixed into a test case with a directory; :cvar kind: of the database."""

    kind = "sqlite"

    def setUp(self):
        super().setUp()
        self.url = databases.new(self.kind, self.directory)

    def opened(self):
        made = store.AdmissionStore(self.url)
        self.addCleanup(made.close)
        return made

    def test_a_record_comes_back(self):
        kept = self.opened()
        kept.take()
        new = model.HostRecord("cmp2", "new", NOW, "registered")
        for record in (RECORD, new):
            kept.write([model.AdmissionMove(None, record, model.Action.NONE)])
        self.assertEqual({"cmp1": RECORD, "cmp2": new}, self.opened().records())
        kept.write([model.AdmissionMove(RECORD, RECORD, model.Action.NONE)])
        shown = [(move.host, move.before, move.after) for move in kept.transitions()]
        expected = [
            ("cmp1", "", "validating"),
            ("cmp2", "", "new"),
            ("cmp1", "validating", "validating"),
        ]
        self.assertEqual(expected, shown)
        self.assertEqual(3, kept.last())

    def test_one_owner(self):
        first, second = self.opened(), self.opened()
        self.assertRaises(store.OwnedError, first.confirm)
        first.take()
        self.assertRaises(store.OwnedError, second.take)
        with mock.patch.object(owner.RunOwner, "is_alive", lambda *_: False):
            second.take()
        move = model.AdmissionMove(None, RECORD, model.Action.NONE)
        self.assertRaises(store.OwnedError, first.write, [move])
        self.assertEqual({}, second.records())
        first.leave()
        second.confirm()
        second.leave()
        first.take()

    def test_stop_and_ask(self):
        kept, other = self.opened(), self.opened()
        kept.take()
        other.stop("x" * 400)
        self.assertEqual("x" * 255, kept.stopped())
        self.assertRaises(store.StoppedError, kept.confirm)
        other.stop("")
        kept.confirm()
        admitted = model.HostRecord("cmp1", "admitted", NOW, "passed")
        kept.write([model.AdmissionMove(None, admitted, model.Action.NONE)])
        other.ask("cmp1")
        other.ask("cmp1")
        self.assertEqual({"cmp1"}, kept.asked())
        kept.write([model.AdmissionMove(admitted, RECORD, model.Action.OPEN_TRIAL)])
        self.assertEqual(set(), kept.asked())

    def test_a_transaction_that_is_done_twice_is_written_once(self):
        kept = self.opened()
        move = model.AdmissionMove(None, RECORD, model.Action.NONE)
        right = engine.write

        def twice(connected, work):
            right(connected, work)
            return right(connected, work)

        with mock.patch.object(engine, "write", twice):
            kept.take()
            kept.write([move])
        self.assertEqual(1, len(list(kept.transitions())))

    def test_a_record_of_another_version(self):
        kept = self.opened()
        kept.take()
        kept.write([model.AdmissionMove(None, RECORD, model.Action.NONE)])
        connected = engine.connect(self.url)
        self.addCleanup(connected.dispose)
        change = engine.admission_hosts.update().values(detail={"from": "elsewhere"})
        engine.write(connected, lambda connection: connection.execute(change))
        self.assertEqual("?validating", kept.records()["cmp1"].state)

    def test_several_that_migrate_a_store_at_once(self):
        """Each DDL statement is a transaction of its own in MariaDB."""
        connected = engine.connect(self.url)
        self.addCleanup(connected.dispose)
        for revision in ("base", "0001_runs"):
            engine.migrate(connected, command.downgrade, revision)
            running = [
                databases.processes().Process(target=migrated, args=(self.url,)) for _ in range(4)
            ]
            for process in running:
                process.start()
            for process in running:
                process.join(patience.LIMIT_S)
            self.assertEqual([0] * 4, [process.exitcode for process in running])
        self.assertEqual({}, self.opened().records())
