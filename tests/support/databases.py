# SPDX-License-Identifier: Apache-2.0
"""Real databases: SQLite files, and a MariaDB and a PostgreSQL of Debian's packages for this process alone.

A server starts when it is first wanted, on a socket in a directory of its own, and ends with this process, however
that ends.
"""

import atexit
import contextlib
import functools
import glob
import itertools
import multiprocessing
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

import sqlalchemy as sa

from tests.support import patience

KINDS = ("sqlite", "mariadb", "postgresql")
_numbers = itertools.count(1)


def new(kind, directory):
    """Return the URL of an empty database; that of SQLite is a file in ``directory``."""
    if kind == "sqlite":
        return f"sqlite:///{directory}/runs.db"
    name = f"runs{next(_numbers)}"
    execute(server(kind).url, f"CREATE DATABASE {name}")
    return sa.make_url(server(kind).url).set(database=name).render_as_string()


def execute(url, text, **values):
    """Execute a statement by a connection of its own, outside any transaction; return its first column."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        result = connection.execute(sa.text(text), values)
        return result.scalars().all() if result.returns_rows else []


@functools.cache
def processes():
    """Return the context of processes that share no connection with this one, and have the stores imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "tests.functional.database.test_store",
            "nova_perf_tuning.validation.fleet.admission.store",
        ]
    )
    return context


@functools.cache
def server(kind):
    """Return the server of this process, which is started if it is not there."""
    return {"mariadb": Mariadb, "postgresql": Postgresql}[kind]()


class Server:
    """A running server; a subclass says whose.

    :cvar user: it runs as; :cvar end: signal that ends it whoever is connected.
    :cvar connections, kill: statements that list the connections to a database, and end one.
    """

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="nova-perf-database-")
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)
        self._as_user = ["setpriv", "--pdeathsig", self.end.name.removeprefix("SIG")]
        if os.geteuid() == 0:
            entry = pwd.getpwnam(self.user)
            os.chown(self.directory, entry.pw_uid, entry.pw_gid)
            self._as_user += [
                f"--reuid={entry.pw_uid}",
                f"--regid={entry.pw_gid}",
                "--clear-groups",
            ]
        self.url, maker, self._program = self.commands()
        made = patience.run([*self._as_user, *maker], cwd=self.directory)
        assert made.returncode == 0, made.stderr
        self.start()
        atexit.register(self.stop)

    def start(self):
        """Start it and wait until it answers; it would end with another thread than the main one."""
        with open(f"{self.directory}/log", "ab") as log:
            argv = [*self._as_user, *self._program]
            self._process = subprocess.Popen(argv, cwd=self.directory, stdout=log, stderr=log)
        patience.until(self._answers, f"{self.user} answers", limit_s=60)

    def stop(self):
        self._process.send_signal(self.end)
        self._process.wait()

    @contextlib.contextmanager
    def halted(self):
        """Let all processes of the server stand still."""
        children = (
            pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
            .read_text()
            .split()
        )
        processes = [self._process.pid, *map(int, children)]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        # A thread that runs on another CPU may answer once more before it stops.
        for pid in processes:
            patience.until(lambda pid=pid: _stands_still(pid), f"stop of process {pid}")
        try:
            yield
        finally:
            for pid in processes:
                os.kill(pid, signal.SIGCONT)

    def cut(self, url):
        """Cut all connections to a database of it."""
        for number in execute(self.url, self.connections, name=sa.make_url(url).database):
            execute(self.url, self.kill.format(number))

    def _answers(self):
        if self._process.poll() is not None:
            with open(f"{self.directory}/log", errors="replace") as log:
                raise AssertionError(f"the server of {self.user} has ended: {log.read()[-2000:]}")
        try:
            return execute(self.url, "SELECT 1")
        except sa.exc.OperationalError:
            return None


class Mariadb(Server):
    user, end = "mysql", signal.SIGTERM
    connections, kill = "SELECT id FROM information_schema.processlist WHERE db = :name", "KILL {}"

    def commands(self):
        socket, common = (
            f"{self.directory}/socket",
            ["--no-defaults", f"--datadir={self.directory}/data"],
        )
        made = [
            "mariadb-install-db",
            *common,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]
        network = ["--skip-networking", f"--socket={socket}", "--character-set-server=utf8mb4"]
        url = f"mysql+pymysql://root@localhost/mysql?unix_socket={socket}"
        return url, made, ["/usr/sbin/mariadbd", *common, *network]


class Postgresql(Server):
    user, end = "postgres", signal.SIGQUIT
    connections = "SELECT pid FROM pg_stat_activity WHERE datname = :name"
    kill = "SELECT pg_terminate_backend({})"

    def commands(self):
        [programs] = glob.glob("/usr/lib/postgresql/*/bin")
        data = ["-D", f"{self.directory}/data"]
        made = [f"{programs}/initdb", *data, "-A", "trust", "-U", "perf", "-E", "UTF8"]
        served = [f"{programs}/postgres", *data, "-k", self.directory, "-c", "listen_addresses="]
        return f"postgresql+psycopg://perf@/postgres?host={self.directory}", made, served


def _stands_still(pid):
    """Return whether each thread of a process is stopped."""
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = status.read_text().rpartition(") ")[2][:1]
        except OSError:  # the thread has ended
            continue
        if state not in "TtZX":
            return False
    return True
