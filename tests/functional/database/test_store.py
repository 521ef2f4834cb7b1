# SPDX-License-Identifier: Apache-2.0
"""The run store's contract on SQLite, and on a real MariaDB and PostgreSQL that are started for it alone."""

import concurrent.futures
import dataclasses
import datetime
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
from unittest import mock

import fixtures
import sqlalchemy as sa
from alembic import autogenerate, command
from alembic.runtime import migration

from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import model as results
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.store import engine, owner, run_store
from tests.benchmarks import fleet
from tests.support import databases, directories, patience
from tests.support import simulated_cloud as simulation

PAIRS = [
    fleet_model.HostPair("a", "b"),
    fleet_model.HostPair("b", "c"),
    fleet_model.HostPair("c", "a"),
]
TRIAL = results.Trial(
    "iperf3", "throughput", "Mbit/s", "higher", "tuned", 0, 1, 0.1 + 0.2, {"vcpu": 1.5}, None, 4.0
)
RUN = "20261125-050000-abcd"
SEEN = sa.text(f"UPDATE runs SET seen_at = :at WHERE id = '{RUN}'")
COUNTED = f"UPDATE pairs SET attempts = attempts + 1 WHERE run_id = '{RUN}' AND number = {{}}"


def claim(url, directory, turn):
    """Claim the run in a process of its own, which lives until another one has; return whether it succeeded."""
    store = run_store.RunStore(url)
    try:
        store.claim(RUN)
    except run_store.RunError:
        return False
    finally:
        store.close()
        pathlib.Path(directory, f"{turn}-{os.getpid()}").touch()
        patience.until(
            lambda: len(list(pathlib.Path(directory).glob(f"{turn}-*"))) == 2, "both claimed"
        )
    return True


def crossing(url, directory, first, second):
    """Change two rows in one transaction, in an order that another process crosses; return the errors' codes."""
    connected = engine.connect(url)
    codes, both = set(), 1 if connected.dialect.name == "sqlite" else 2

    def note(context):
        error = context.original_exception
        codes.add(error.args[0] if isinstance(error.args[0], int) else error.sqlstate)

    def change(connection):
        for number in (first, second):
            connection.execute(
                sa.text(COUNTED.format(number))
            )  # by its key, or InnoDB locks all rows
            # Both hold their first row before they want the other; a writer of SQLite is alone.
            pathlib.Path(directory, f"holds{first}").touch()
            patience.until(
                lambda: len(list(directory.glob("holds*"))) >= both, "the other one holds its row"
            )

    sa.event.listen(connected, "handle_error", note)
    for _ in range(3):
        engine.write(connected, change)
    connected.dispose()
    return codes


class StoreTests:
    """What holds on every database."""

    kind: str
    #: Codes of the errors where two transactions cross.
    deadlock: frozenset = frozenset()

    def setUp(self):
        super().setUp()
        self.url = databases.new(self.kind, self.directory)

    def made_run(self):
        """Return a store with a run, and the run's plan."""
        store = run_store.RunStore(self.url)
        self.addCleanup(store.close)
        plan = simulation.fleet_plan(RUN, ["cpu"], time_limit_s=90.0)
        store.create(plan, ["a", "b", "c"], PAIRS, Environment(host="é\0\u2028"))
        return store, plan

    def in_processes(self, *calls):
        with concurrent.futures.ProcessPoolExecutor(2, databases.processes()) as pool:
            return [future.result() for future in [pool.submit(*call) for call in calls]]

    def test_stored_run_comes_back_whole(self):
        store, plan = self.made_run()
        run = store.load(RUN)
        fault = fleet_model.PairError(fleet_model.ErrorClass.API, "x" * 2000, "tuned")
        for task in run.tasks[:2]:
            store.mark(RUN, task, "running")
        outcome = fleet_model.PairOutcome(PAIRS[0], [TRIAL] * 100, [fault])
        outcome.host_cpu_source, outcome.guests = "somewhere", {"tuned": {"client": {"cpus": 2}}}
        outcome.hosts = {"tuned": PAIRS[0]}
        store.finish(RUN, run.tasks[0], outcome, "done")
        kept = dataclasses.replace(outcome, errors=[])
        self.assertEqual([(0, kept)], list(store.outcomes(RUN)))
        again = store.load(RUN)
        self.assertEqual(["done", "running", "planned"], [task.state for task in again.tasks])
        self.assertEqual((run.tasks[0], "é\0\u2028"), (again.tasks[0], again.environment.host))
        self.assertEqual(
            (plan.measure.arms, plan.settings), (again.plan.measure.arms, again.plan.settings)
        )
        [line] = store.lines()
        self.assertEqual((True, 3, 3, 1), (line.alive, line.hosts, line.pairs, line.done))
        self.assertEqual(
            [False, False], self.in_processes(*[(claim, self.url, self.directory, "held")] * 2)
        )
        store.end(RUN, "interrupted")
        claimed = self.in_processes(*[(claim, self.url, self.directory, "free")] * 2)
        self.assertEqual([False, True], sorted(claimed))
        store.claim(RUN)
        self.assertIn(
            "is being run by process", str(self.assertRaises(run_store.RunError, store.claim, RUN))
        )
        store.mark(RUN, run.tasks[2], "running")
        self.assertRaises(run_store.RunError, store.disown, RUN)
        store.end(RUN)
        store.disown(RUN)
        store.end(RUN)
        [line] = store.lines()
        self.assertEqual(("interrupted", False, False), (line.state, line.alive, line.leftovers))
        codes = self.in_processes(
            *[(crossing, self.url, self.directory, n, 1 - n) for n in (0, 1)]
        )
        self.assertEqual(self.deadlock, set.union(*codes))
        self.assertEqual([7, 6, 0], [task.attempts for task in store.load(RUN).tasks])

    def sleeping_run(self):
        """Return a store with a run that it made on another machine, eleven minutes ago."""
        with mock.patch.object(owner, "_boot_id", lambda: "another"):
            sleeper, _plan = self.made_run()
        long_ago = run_store._now() - datetime.timedelta(seconds=owner.SILENCE_S + 60)
        engine.write(
            sleeper._engine, lambda connection: connection.execute(SEEN, {"at": long_ago})
        )
        return sleeper

    def stored(self):
        """Return all rows as they are."""
        with engine.reading(engine.connect(self.url)) as connection:
            rows = [
                connection.execute(sa.select(table)).all() for table in (engine.runs, engine.pairs)
            ]
            connection.engine.dispose()
        return rows

    def refused_everything(self, sleeper, task):
        """Whatever an owner writes that has lost its run is refused, and changes nothing."""
        before, outcome = self.stored(), fleet_model.PairOutcome(PAIRS[0], [TRIAL])
        lease = sleeper.lease(RUN)
        for write in (
            lambda: sleeper.mark(RUN, task, "running"),
            lambda: sleeper.finish(RUN, task, outcome, "done"),
            lambda: sleeper.seen(RUN),
            lambda: sleeper.end(RUN, "complete"),
            lambda: sleeper.end(RUN),
            lambda: lease.check(True),
        ):
            self.assertRaises(run_store.TakenOverError, write)
        self.assertEqual("planned", task.state)
        self.assertEqual(before, self.stored())

    def test_an_owner_that_slept_has_lost_its_run(self):
        sleeper = self.sleeping_run()
        task = sleeper.load(RUN).tasks[0]
        sleeper.lease(RUN).check(False)
        long_ago = run_store._now() - datetime.timedelta(seconds=owner.SILENCE_S + 60)
        engine.write(
            sleeper._engine, lambda connection: connection.execute(SEEN, {"at": long_ago})
        )
        store = run_store.RunStore(self.url)
        self.addCleanup(store.close)
        store.claim(RUN)
        self.assertNotEqual(sleeper.lease(RUN).token, store.lease(RUN).token)
        self.refused_everything(sleeper, task)
        with mock.patch.object(
            run_store, "_clock", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) + 660
        ):
            self.assertRaises(run_store.TakenOverError, sleeper.lease(RUN).check, False)
        store.end(RUN, "interrupted")
        self.refused_everything(sleeper, task)
        self.assertRaises(run_store.RunError, store.mark, RUN, task, "running")

    def test_the_clock_of_a_machine_decides_nothing(self):
        """Neither that of a run's owner nor that of who wants to have the run."""
        with mock.patch.object(owner, "_boot_id", lambda: "another"):
            living, _plan = self.made_run()
        store = run_store.RunStore(self.url)
        self.addCleanup(store.close)
        right = run_store._now
        minutes = datetime.timedelta(minutes=11)
        for offset in (minutes, -minutes):
            with self.subTest(offset):
                with mock.patch.object(run_store, "_now", lambda offset=offset: right() - offset):
                    living.seen(RUN)
                with mock.patch.object(run_store, "_now", lambda offset=offset: right() + offset):
                    self.assertTrue(store.lines()[0].alive)
                    self.assertRaises(run_store.RunError, store.claim, RUN)
                    self.assertRaises(run_store.RunError, store.disown, RUN)
        long_ago = right() - datetime.timedelta(seconds=owner.SILENCE_S + 60)
        engine.write(living._engine, lambda connection: connection.execute(SEEN, {"at": long_ago}))
        with mock.patch.object(run_store, "_now", lambda: right() - minutes):
            self.assertFalse(store.lines()[0].alive)
            store.claim(RUN)

    def test_the_clock_of_a_database_is_utc(self):
        connected = engine.connect(self.url)
        self.addCleanup(connected.dispose)
        zones = {"mariadb": "SET time_zone = '+09:00'", "postgresql": "SET TIME ZONE 'Asia/Tokyo'"}
        with engine.reading(connected) as connection:
            moments = [engine.now(connection)]
            if self.kind in zones:
                connection.execute(sa.text(zones[self.kind]))
                moments.append(engine.now(connection))
        for moment in moments:
            self.assertIsNone(moment.tzinfo)
            self.assertLess(abs(moment - run_store._now()), datetime.timedelta(seconds=60))

    def test_twice_in_a_second_is_no_loss(self):
        """MariaDB's times have whole seconds: the second change changes nothing there."""
        store, _plan = self.made_run()
        for _ in range(5):
            store.seen(RUN)
            store.mark(RUN, store.load(RUN).tasks[0], "running")

    def test_of_two_at_a_time_one_has_the_run(self):
        """Whoever is first holds the run's row until it is done; the other then sees what it did."""
        for first, second, error in (
            ("seen", "claim", run_store.RunError),
            ("claim", "seen", run_store.TakenOverError),
            ("claim", "mark", run_store.TakenOverError),
            ("claim", "end", run_store.TakenOverError),
        ):
            with self.subTest(first=first, second=second):
                directory = self.directory / f"{first}-{second}"
                directory.mkdir()
                self.url = databases.new(self.kind, directory)
                sleeper = self.sleeping_run()
                store = run_store.RunStore(self.url)
                self.addCleanup(store.close)
                task = sleeper.load(RUN).tasks[0]
                calls = {
                    "claim": (store, lambda store=store: store.claim(RUN)),
                    "seen": (sleeper, lambda sleeper=sleeper: sleeper.seen(RUN)),
                    "end": (sleeper, lambda sleeper=sleeper: sleeper.end(RUN, "interrupted")),
                    "mark": (
                        sleeper,
                        lambda sleeper=sleeper, task=task: sleeper.mark(RUN, task, "running"),
                    ),
                }
                has_row, follows, goes_on = threading.Event(), threading.Event(), threading.Event()
                (one, begin), (other, follow) = calls[first], calls[second]

                def hold(_connection, has_row=has_row, goes_on=goes_on):
                    has_row.set()
                    goes_on.wait(patience.LIMIT_S)

                def note(*_statement, follows=follows):
                    follows.set()

                sa.event.listen(one._engine, "commit", hold)
                sa.event.listen(other._engine, "before_cursor_execute", note)
                with concurrent.futures.ThreadPoolExecutor(2) as pool:
                    winner = pool.submit(begin)
                    self.assertTrue(has_row.wait(patience.LIMIT_S))
                    loser = pool.submit(follow)
                    follows.wait(patience.LIMIT_S)
                    ended, _waits = concurrent.futures.wait((loser,), timeout=0.5)
                    self.assertEqual(set(), ended, "it did not wait for the one that was first")
                    goes_on.set()
                    winner.result()
                    self.assertRaises(error, loser.result)
                sa.event.remove(one._engine, "commit", hold)
                sa.event.remove(other._engine, "before_cursor_execute", note)
                one.end(RUN, "interrupted")
                self.assertRaises(run_store.RunError, other.mark, RUN, task, "running")

    def test_a_run_with_unmeasured_pairs_is_not_complete(self):
        store, _plan = self.made_run()
        store.mark(RUN, store.load(RUN).tasks[0], "running")
        error = self.assertRaises(run_store.RunError, store.end, RUN, "complete")
        self.assertIn("3 pairs without an outcome", str(error))
        run = store.load(RUN)
        self.assertEqual(
            ("interrupted", {"planned"}), (run.state, {task.state for task in run.tasks})
        )
        store.claim(RUN)
        for task in run.tasks:
            store.finish(RUN, task, fleet_model.PairOutcome(task.pair), "failed")
        store.end(RUN, "complete")
        self.assertEqual("complete", store.load(RUN).state)

    def test_two_that_come_first_make_one(self):
        program = (
            f"import sys; from {engine.__name__} import connect; connect(sys.argv[1]).dispose()"
        )
        running = [subprocess.Popen([sys.executable, "-c", program, self.url]) for _ in range(3)]
        self.assertEqual([0, 0, 0], [process.wait() for process in running])

    def test_migrations_go_up_and_down(self):
        connected = engine.connect(self.url)
        self.addCleanup(connected.dispose)
        for change, revision, tables in (
            (command.downgrade, "base", set()),
            (command.upgrade, "head", set(engine.metadata.tables)),
        ):
            engine.migrate(connected, change, revision)
            self.assertEqual(
                {"alembic_version", *tables}, set(sa.inspect(connected).get_table_names())
            )
        with connected.connect() as connection:
            context = migration.MigrationContext.configure(connection, opts={"compare_type": True})
            self.assertEqual([], autogenerate.compare_metadata(context, engine.metadata))

    def test_two_fleets_at_once(self):
        """64 pairs of each at a time; the benchmark "fleet" has 1,000 hosts."""
        runs = [(fleet.run, 120, 3, 64, seed, self.url, ["iperf3"], 2) for seed in (1, 2)]
        for row in self.in_processes(*runs):
            self.assertEqual((10, 0, 0), (row["found"], row["wrong"], row["undecided"]))
            self.assertEqual(180, row["done"] + row["failed"])
        store = run_store.RunStore(self.url)
        self.addCleanup(store.close)
        lines = [
            (line.state, line.hosts, line.pairs, line.alive, line.leftovers)
            for line in store.lines()
        ]
        self.assertEqual([("complete", 120, 180, False, False)] * 2, lines)


class ServerTests(StoreTests):
    """What holds where a database is a server."""

    def test_connections_break(self):
        """Idle ones are replaced, and what was cut off in its middle is done once."""
        store, _plan = self.made_run()
        connected = engine.connect(self.url)
        self.addCleanup(connected.dispose)
        server, cuts = databases.server(self.kind), []

        def change(connection):
            for number in (0, 1):
                connection.execute(sa.text(COUNTED.format(number)))
                if not cuts:
                    cuts.append(server.cut(self.url))

        engine.write(connected, change)
        # The store's connection was cut as well, and who reads does not try again.
        self.assertEqual([1, 1, 0], [task.attempts for task in store.load(RUN).tasks])

    def test_a_lost_answer_to_a_commit(self):
        """What was done is found to be done, and not held against its own maker."""
        store, _plan = self.made_run()
        server = databases.server(self.kind)
        store.end(RUN, "interrupted")
        dialect, lost = store._engine.dialect, []
        commit = dialect.do_commit

        def commit_unheard(connection):
            commit(connection)
            if lost:
                lost.pop()
                server.cut(self.url)
                connection.cursor().execute("SELECT 1")

        self.useFixture(fixtures.MockPatchObject(dialect, "do_commit", commit_unheard))
        plan = simulation.fleet_plan("another", ["cpu"])
        for call in (
            lambda: store.claim(RUN),
            lambda: store.end(RUN, "interrupted"),
            lambda: store.disown(RUN),
            lambda: store.end(RUN),
            lambda: store.create(plan, ["a", "b", "c"], PAIRS, Environment()),
        ):
            lost.append(True)
            call()
            self.assertEqual([], lost)
        self.assertRaises(
            engine.DatabaseError,
            run_store.RunStore(self.url).create,
            plan,
            [],
            PAIRS,
            Environment(),
        )
        store.mark("another", store.load("another").tasks[0], "running")
        self.assertRaises(run_store.RunError, store.claim, "another")

    def test_a_server_that_stops_to_answer(self):
        """It still accepts connections and what it is sent, as its kernel does that; it holds no command."""
        self.useFixture(fixtures.MockPatchObject(engine, "_ANSWER_S", 2))
        self.useFixture(fixtures.MockPatchObject(engine, "_CONNECT_S", 1))
        self.useFixture(fixtures.MockPatchObject(engine, "_RETRY_S", 1))
        store, _plan = self.made_run()
        server = databases.server(self.kind)
        with server.halted():
            for work in (lambda: store.seen(RUN), lambda: store.load(RUN)):
                begun = time.monotonic()
                self.assertRaises(engine.DatabaseError, work)
                self.assertLess(time.monotonic() - begun, 30)
        store.seen(RUN)

    def test_a_server_that_accepts_and_never_answers(self):
        self.useFixture(fixtures.MockPatchObject(engine, "_ANSWER_S", 2))
        self.useFixture(fixtures.MockPatchObject(engine, "_CONNECT_S", 2))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            driver = sa.make_url(self.url).drivername
            begun = time.monotonic()
            self.assertRaises(
                engine.DatabaseError, engine.connect, f"{driver}://perf:x@127.0.0.1:{port}/runs"
            )
            self.assertLess(time.monotonic() - begun, 30)

    def test_limits_of_the_url_count(self):
        for given in ({}, {"connect_timeout": "77"}):
            with self.subTest(given):
                limits = engine._limits(sa.make_url(self.url).set(query=given))
                self.assertEqual("connect_timeout" not in given, "connect_timeout" in limits)

    def test_the_server_restarts(self):
        store, _plan = self.made_run()
        server = databases.server(self.kind)
        server.stop()
        refused = threading.Event()
        sa.event.listen(store._engine, "handle_error", lambda _context: refused.set())
        writer = threading.Thread(target=store.end, args=(RUN, "interrupted"))
        writer.start()
        self.assertTrue(refused.wait(patience.LIMIT_S), "it was not refused")
        server.start()
        writer.join()
        [line] = store.lines()
        self.assertEqual("interrupted", line.state)


class SqliteTest(StoreTests, directories.DirectoryCase):
    kind = "sqlite"


class MariadbTest(ServerTests, directories.DirectoryCase):
    kind, deadlock = "mariadb", {1213}


class PostgresqlTest(ServerTests, directories.DirectoryCase):
    kind, deadlock = "postgresql", {"40P01"}
