# SPDX-License-Identifier: Apache-2.0
"""The run store's contract on SQLite, and on a real MariaDB and PostgreSQL that are started for it alone."""

import concurrent.futures
import dataclasses
import glob
import multiprocessing
import os
import pwd
import signal
import subprocess
import sys
import time

import sqlalchemy as sa

from nova_perf_tuning.validation.cloud import model, run_store
from nova_perf_tuning.validation.database import engine
from nova_perf_tuning.validation.environment import Environment
from nova_perf_tuning.validation.measure import model as results
from tests.support import directories, patience
from tests.support import simulated_cloud as simulation

PAIRS = [model.HostPair("a", "b"), model.HostPair("b", "c"), model.HostPair("c", "a")]
TRIAL = results.Trial(
    "iperf3", "throughput", "Mbit/s", "higher", "tuned", 0, 1, 0.1 + 0.2, {"vcpu": 1.5}, None, 4.0
)
RUN = "20261125-050000-abcd"


def claim(url):
    """Claim the run in a process of its own, which then lives on for a moment; return whether it succeeded."""
    store = run_store.RunStore(url)
    try:
        store.claim(RUN)
    except run_store.RunError:
        return False
    finally:
        store.close()
        time.sleep(2)
    return True


def crossing(url, first, second):
    """Change two rows in one transaction, in an order that another process crosses."""
    connected = engine.connect(url)

    def change(connection):
        for number in (first, second):
            text = f"UPDATE pairs SET attempts = attempts + 1 WHERE number = {number}"
            connection.execute(sa.text(text))
            time.sleep(0.3)

    for _ in range(3):
        engine.write(connected, change)
    connected.dispose()


class SqliteTest(directories.DirectoryCase):
    stop = signal.SIGTERM

    def setUp(self):
        super().setUp()
        self.url = self.start()

    def start(self):
        return f"sqlite:///{self.directory}/runs.db"

    def serve(self, user, made, served, url):
        """Make a cluster, serve it as ``user`` until the test ends, and return the URL once it answers."""
        entry = pwd.getpwnam(user)
        os.chown(self.directory, entry.pw_uid, entry.pw_gid)
        who = {"user": user, "group": entry.pw_gid} if os.geteuid() == 0 else {}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.directory, **who}
        subprocess.run(made, check=True, **quiet)
        server = subprocess.Popen(served, **quiet)
        self.addCleanup(server.wait)
        self.addCleanup(server.send_signal, self.stop)
        patience.until(lambda: self.answers(url), "the database answers")
        return url

    def answers(self, url):
        server = sa.create_engine(url)
        try:
            server.connect().close()
        except sa.exc.OperationalError:
            return False
        finally:
            server.dispose()
        return True

    def in_processes(self, *calls):
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            return [future.result() for future in [pool.submit(*call) for call in calls]]

    def test_stored_run_comes_back_whole(self):
        store = run_store.RunStore(self.url)
        self.addCleanup(store.close)
        plan = simulation.fleet_plan(RUN, ["cpu"], time_limit_s=90.0)
        store.create(plan, ["a", "b", "c"], PAIRS, Environment(host="é\0\u2028"))
        run = store.load(RUN)
        fault = model.PairError(model.ErrorClass.API, "x" * 2000, "tuned")
        for task in run.tasks[:2]:
            store.mark(RUN, task, "running")
        outcome = model.PairOutcome(PAIRS[0], [TRIAL] * 100, [fault])
        outcome.host_cpu_source, outcome.guests = "somewhere", {"tuned": {"client": {"cpus": 2}}}
        outcome.hosts = {"tuned": PAIRS[0]}
        store.finish(RUN, run.tasks[0], outcome, "done")
        kept = dataclasses.replace(outcome, errors=[])
        self.assertEqual([(0, kept)], list(store.outcomes(RUN)))
        again = store.load(RUN)
        self.assertEqual(["done", "running", "planned"], [task.state for task in again.tasks])
        self.assertEqual((run.tasks[0], "é\0\u2028"), (again.tasks[0], again.environment.host))
        self.assertEqual((plan.measure.arms, plan.settings), (again.plan.measure.arms, again.plan.settings))
        [line] = store.lines()
        self.assertEqual((True, 3, 3, 1), (line.alive, line.hosts, line.pairs, line.done))
        self.assertEqual([False, False], self.in_processes((claim, self.url), (claim, self.url)))
        store.end(RUN, "interrupted")
        self.assertEqual([False, True], sorted(self.in_processes((claim, self.url), (claim, self.url))))
        store.claim(RUN)
        store.mark(RUN, run.tasks[2], "running")
        self.assertRaises(run_store.RunError, store.disown, RUN)
        store.end(RUN)
        store.disown(RUN)
        store.end(RUN)
        [line] = store.lines()
        self.assertEqual(("interrupted", False, False), (line.state, line.alive, line.leftovers))
        self.in_processes((crossing, self.url, 0, 1), (crossing, self.url, 1, 0))
        self.assertEqual([7, 6, 0], [task.attempts for task in store.load(RUN).tasks])


class FirstTest(directories.DirectoryCase):
    def test_two_at_once_make_one(self):
        program = f"import sys; from {engine.__name__} import connect; connect(sys.argv[1]).dispose()"
        argv = [sys.executable, "-c", program, f"sqlite:///{self.directory}/state/runs.db"]
        running = [subprocess.Popen(argv) for _ in range(2)]
        self.assertEqual([0, 0], [process.wait() for process in running])


class MariadbTest(SqliteTest):
    def start(self):
        socket, data = f"{self.directory}/socket", f"--datadir={self.directory}/data"
        common = ["--no-defaults", data, "--skip-networking", f"--socket={socket}"]
        made = ["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        url = f"mysql+pymysql://root@localhost/mysql?unix_socket={socket}"
        self.serve("mysql", made, ["/usr/sbin/mariadbd", *common], url)
        server = sa.create_engine(url)
        with server.begin() as connection:
            connection.execute(sa.text("CREATE DATABASE runs CHARACTER SET utf8mb4"))
        server.dispose()
        return url.replace("/mysql?", "/runs?")


class PostgresqlTest(SqliteTest):
    stop = signal.SIGINT  # which does not wait for clients

    def start(self):
        [programs] = glob.glob("/usr/lib/postgresql/*/bin")
        data = f"{self.directory}/data"
        made = [f"{programs}/initdb", "-D", data, "-A", "trust", "-U", "perf", "-E", "UTF8"]
        served = [f"{programs}/postgres", "-D", data, "-k", self.directory, "-c", "listen_addresses="]
        return self.serve("postgres", made, served, f"postgresql+psycopg://perf@/postgres?host={self.directory}")
