# SPDX-License-Identifier: Apache-2.0
"""The right to a run, on SQLite; tests/functional/database has the rest of the store's contract."""

import datetime
from unittest import mock

import sqlalchemy as sa

from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.store import engine, owner, run_store
from tests.support import directories
from tests.support import simulated_cloud as simulation

RUN = "20261125-050000-abcd"


class LeaseTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.url = f"sqlite:///{self.directory}/results.db"
        self.store = self.opened()
        plan = simulation.fleet_plan(RUN, ["cpu"])
        pairs = [fleet_model.HostPair("a", "b")]
        with mock.patch.object(owner, "_boot_id", lambda: "another"):
            self.store.create(plan, ["a", "b"], pairs, Environment())
        self.lease = self.store.lease(RUN)

    def opened(self):
        store = run_store.RunStore(self.url)
        self.addCleanup(store.close)
        return store

    def fail_once(self):
        """The database does not answer a question before a change to the cloud."""
        away = engine.DatabaseError("away")
        with mock.patch.object(engine, "write", side_effect=away) as write:
            self.lease.check(True)
        write.assert_called_once()

    def test_after_a_failed_question_a_change_asks_again(self):
        """A virtual machine that is paused has no clock that says how long ago the question was."""
        self.fail_once()
        long_ago = run_store._now() - datetime.timedelta(seconds=owner.SILENCE_S + 60)
        silent = sa.update(engine.runs).values(seen_at=long_ago)
        engine.write(self.store._engine, lambda connection: connection.execute(silent))
        self.opened().claim(RUN)
        self.assertRaises(run_store.TakenOverError, self.lease.check, True)

    def test_after_a_failed_question_what_only_reads_does_not_wait(self):
        self.fail_once()
        with mock.patch.object(engine, "write") as write:
            self.lease.check(False)
        write.assert_not_called()
