# SPDX-License-Identifier: Apache-2.0
"""The database of runs: its tables, how it is opened and migrated; by default a SQLite file.

A run is the validation of a fleet (kind ``heat``) or of one host (kind ``libvirt``: one pair whose
client and server are that host). What is only read as a whole is JSON, as in results files. Times
are UTC without a zone. The migration makes the same tables.
"""

import contextlib
import datetime
import os
import pathlib
import stat
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa
import tenacity
from sqlalchemy import event, exc

from nova_perf_tuning import bounded_read, errors
from nova_perf_tuning.printing import one_line

if TYPE_CHECKING:
    from alembic import config

metadata: Final = sa.MetaData()

#: The newest revision of the tables.
HEAD: Final = "0003_admission"


def _clock(expression: str) -> sa.TextualSelect:
    return sa.text(f"SELECT {expression} AS now").columns(now=sa.DateTime)


#: A database's own time, in UTC: dialect -> query.
_CLOCKS: Final = {
    "sqlite": _clock("CURRENT_TIMESTAMP"),
    "mysql": _clock("UTC_TIMESTAMP()"),
    "mariadb": _clock("UTC_TIMESTAMP()"),
    "postgresql": _clock("clock_timestamp() AT TIME ZONE 'UTC'"),
}

#: ``state``: ``running``, ``interrupted`` (can be resumed), ``complete``. ``owner``: which process
#: runs it, by its :class:`~nova_perf_tuning.validation.store.owner.RunOwner`; any other text: none.
#: ``seen_at``: when that last said that it is alive, by :func:`now`. ``leftovers``: stacks of it
#: may still exist. ``plan``: enough to go on. ``environment``: of the results. ``hosts``: their names.
runs: Final = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("owner", sa.String(200), nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False, index=True),
    sa.Column("seen_at", sa.DateTime, nullable=False),
    sa.Column("leftovers", sa.Boolean, nullable=False),
    sa.Column("plan", sa.JSON, nullable=False),
    sa.Column("environment", sa.JSON, nullable=False),
    sa.Column("hosts", sa.JSON, nullable=False),
)

#: ``state``: ``planned``, ``running``, ``done`` (has trials), ``failed`` (has none and is not
#: tried again). ``attempts``: how often it was begun and not cut off. ``seconds``: what the last
#: attempt took. ``faults``: list of attempt, kind, arm and reason.
pairs: Final = sa.Table(
    "pairs",
    metadata,
    sa.Column("run_id", sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("client", sa.String(255), nullable=False),
    sa.Column("server", sa.String(255), nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Double),
    sa.Column("faults", sa.JSON, nullable=False),
    sa.Column("environment", sa.JSON, nullable=False),
    sa.Column("trials", sa.JSON, nullable=False),
)

#: Who keeps hosts admitted: one row. ``owner``, ``seen_at``: as of a run. ``stopped``: why a person has
#: stopped it; empty: it may go on.
admission_control: Final = sa.Table(
    "admission_control",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(200), nullable=False),
    sa.Column("seen_at", sa.DateTime, nullable=False),
    sa.Column("stopped", sa.String(255), nullable=False),
)

#: ``state``, ``cause``: see :mod:`nova_perf_tuning.validation.fleet.admission.model`.
#: ``asked``: a person wants the host validated again. ``detail``: the rest of its record.
admission_hosts: Final = sa.Table(
    "admission_hosts",
    metadata,
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("cause", sa.String(40), nullable=False),
    sa.Column("since", sa.DateTime, nullable=False),
    sa.Column("asked", sa.Boolean, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
)

#: Transitions. ``written``: unique, so that a transaction that is tried again does not write it twice.
#: ``before``: empty for a host's first state.
admission_moves: Final = sa.Table(
    "admission_moves",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("written", sa.String(64), nullable=False, unique=True),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("before", sa.String(20), nullable=False),
    sa.Column("after", sa.String(20), nullable=False),
    sa.Column("cause", sa.String(40), nullable=False),
)

#: Names another database; here a password is not seen by others, as it would be among the
#: arguments.
URL_VARIABLE: Final = "NOVA_PERF_DATABASE"

#: How long a writer of SQLite waits for another one, in seconds.
_PATIENCE_S: Final = 30
#: How long a server may take to accept a connection, in seconds.
_CONNECT_S: Final = 10
#: How long a server may take to answer, in seconds; MariaDB waits 50 s for a lock.
_ANSWER_S: Final = 60
#: Execution options of one that writes.
_WRITER: Final = {"begin": "IMMEDIATE"}
#: The transaction was undone for another writer and may be tried again: deadlock (Galera also
#: reports conflicts at the commit so), lock wait, a row that changed since the snapshot (MariaDB,
#: by default since 11.6.2: MDEV-35124); serialization failure and deadlock of PostgreSQL.
_UNDONE: Final = frozenset[object]({1213, 1205, 1020, "40001", "40P01"})
#: The database is away, as while it restarts or another node takes over: cannot be reached, stops,
#: or is no member of its Galera cluster; PostgreSQL stops or starts, and None: psycopg found
#: nobody.
_AWAY: Final = frozenset[object]({2003, 1053, 1047, "57P01", "57P03", None})
#: A table, its type, a column, an index or the version is there although it was not a moment ago:
#: another process migrates. The lock does not reach another node of a Galera cluster.
_RACED: Final = frozenset[object]({1050, 1060, 1061, 1062, "42P07", "42701", "23505"})
#: Lets one process of a database's clients migrate at a time: dialect -> statements that take the
#: lock and give it back. MariaDB commits at each DDL statement, so that its lock belongs to the
#: connection; PostgreSQL's ends with the transaction. SQLite has one writer.
_MIGRATION_LOCKS: Final = {
    "mysql": (
        "SELECT GET_LOCK(CONCAT('nova_perf_', MD5(DATABASE())), 60)",
        "SELECT RELEASE_LOCK(CONCAT('nova_perf_', MD5(DATABASE())))",
    ),
    "postgresql": ("SELECT pg_advisory_xact_lock(5209177)", ""),
}
#: How long a writer tries again, in seconds.
_RETRY_S: Final = 60

#: Options in the query of a URL whose values are shown. Any other may hold a password: password,
#: passwd, sslpassword, and as a part of it conninfo, init_command, options.
_SHOWN_OPTIONS: Final = frozenset(
    {
        "application_name",
        "cache",
        "charset",
        "connect_timeout",
        "host",
        "mode",
        "port",
        "read_timeout",
        "ssl_ca",
        "ssl_cert",
        "ssl_check_hostname",
        "ssl_key",
        "ssl_verify_cert",
        "ssl_verify_identity",
        "sslcert",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "tcp_user_timeout",
        "timeout",
        "unix_socket",
        "uri",
        "write_timeout",
    }
)

_T = TypeVar("_T")


class DatabaseError(errors.PerfTuningError):
    """The database cannot be opened, read or written; the message has no password in it."""


def default_url() -> str:
    """Return the URL that the environment names, else that of the file in the state directory.

    That is /var/lib/nova-perf-tuning for root, else nova-perf-tuning below $XDG_STATE_HOME
    (~/.local/state).
    """
    url = os.environ.get(URL_VARIABLE)
    if url:
        return url
    directory = "/var/lib"
    if os.geteuid() != 0:
        directory = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"sqlite:///{directory}/nova-perf-tuning/results.db"


def connect(url: str | None = None, *, make: bool = True) -> sa.Engine:
    """Return an engine on the database, which is made or migrated to this version if need be.

    :param url: an SQLAlchemy URL; None: :func:`default_url`.
    :param make: False: a file that does not exist is not made.
    :raises DatabaseError: no such file, not a URL, no such driver, no rights, or made by another
        version.
    """
    parsed = _parse(url)
    shown = f"database {without_password(url)}"
    if parsed.get_backend_name() not in _CLOCKS:
        raise DatabaseError(
            f"{shown}: runs are kept in SQLite, PostgreSQL or MariaDB; give a URL of one of them"
        )
    is_sqlite = parsed.get_backend_name() == "sqlite"
    path = _path(parsed)
    with _translated(shown):
        if path is not None:
            if not make and not os.path.exists(path):
                raise DatabaseError(
                    f"there is no database of runs at {path}; name it by --database or ${URL_VARIABLE}"
                )
            _make_file(pathlib.Path(path))
            _check_files(path)
        # Python's sqlite3 would begin transactions only before INSERT and the like, so that a
        # crash could leave half a migration; with None it begins none and _begin_sqlite does.
        options: dict[str, object] = {"isolation_level": None, "timeout": _PATIENCE_S}
        if not is_sqlite:
            options = _limits(parsed)
        engine = sa.create_engine(parsed, pool_pre_ping=True, connect_args=options)
        if is_sqlite:
            event.listen(engine, "begin", _begin_sqlite)
        if parsed.get_driver_name() == "psycopg":
            event.listen(engine, "do_connect", _connect_psycopg)
        if is_sqlite:
            _make_tables(engine)
        if not _is_current(engine):
            _upgrade(engine, shown)
    return engine


def _make_tables(engine: sa.Engine) -> None:
    """Make the tables in a SQLite database that has none: one transaction, without Alembic.

    Alembic takes as long to load as the rest of a command; its cookbook has this way ("Building an
    Up to Date Database from Scratch"). The other databases commit at each table, or have several
    writers.
    """
    with engine.connect() as connection:
        if sa.inspect(connection).get_table_names():
            return
    version = sa.Table(
        "alembic_version",
        sa.MetaData(),
        sa.Column("version_num", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
    )
    nobody = {"id": 1, "owner": "", "seen_at": datetime.datetime(2000, 1, 1), "stopped": ""}
    with engine.execution_options(**_WRITER).begin() as connection:
        if sa.inspect(connection).get_table_names():  # another process was first
            return
        metadata.create_all(connection)
        connection.execute(admission_control.insert(), nobody)
        version.create(connection)
        connection.execute(version.insert(), {"version_num": HEAD})


def _is_current(engine: sa.Engine) -> bool:
    """Return whether the tables are those of this version."""
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return False
        revisions = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
        return list(revisions.scalars()) == [HEAD]


def _upgrade(engine: sa.Engine, shown: str) -> None:
    # Most databases are current, and Alembic takes as long to load as the rest of a command.
    from alembic import command, util

    try:
        migrate(engine, command.upgrade, "head")
    except util.CommandError:
        raise DatabaseError(
            f"{shown}: it was made by another version; update nova-perf-tuning, or name another database"
        ) from None


def migrate(
    engine: sa.Engine, change: "Callable[[config.Config, str], None]", revision: str
) -> None:
    """Change the tables to those of a revision; two processes may do it at once.

    :param change: ``upgrade`` or ``downgrade`` of Alembic's commands.
    """
    from alembic import config  # see _upgrade

    settings = config.Config()
    settings.set_main_option("script_location", str(pathlib.Path(__file__).parent / "migrations"))

    def once() -> None:
        with engine.execution_options(**_WRITER).begin() as connection, _alone(connection):
            settings.attributes["connection"] = connection
            change(settings, revision)

    _retrying(_UNDONE | _RACED, 10)(once)


@contextlib.contextmanager
def _alone(connection: sa.Connection) -> Iterator[None]:
    """Keep other processes from migrating this database meanwhile.

    Who does not get MariaDB's lock in time goes on without it, and tries again where that fails.
    """
    name = connection.dialect.name
    if name == "mariadb":
        name = "mysql"
    take, give = _MIGRATION_LOCKS.get(name, ("", ""))
    if take:
        connection.execute(sa.text(take)).close()
    try:
        yield
    finally:
        if give:  # or the connection would keep it in the pool
            with contextlib.suppress(exc.DBAPIError):
                connection.execute(sa.text(give)).close()


def without_password(url: str | None) -> str:
    """Return a URL as it may be shown; DatabaseError: it is none."""
    parsed = _parse(url)
    shown = dict(parsed.query)
    for name in shown:
        if name not in _SHOWN_OPTIONS:
            shown[name] = "***"
    return parsed.set(query=shown).render_as_string(hide_password=True)


@contextlib.contextmanager
def readable(run_id: str) -> Iterator[None]:
    """Say which run is not as this program writes one, where its rows are made into values.

    :raises DatabaseError: in place of what JSON or a missing field raises.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise DatabaseError(
            f"run {one_line(run_id, 80)} in the database is not as nova-perf writes runs; remove its"
            " rows from the tables pairs and runs, or restore the database"
        ) from None


@contextlib.contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Give a connection to read by; DatabaseError: instead of any error of the database."""
    with _translated(), engine.connect() as connection:
        yield connection


def now(connection: sa.Connection) -> datetime.datetime:
    """Return the time by the database's own clock: clocks of the machines that use it may differ.

    SQLite has that of this machine.
    """
    query = _CLOCKS[connection.dialect.name]
    moment: datetime.datetime = connection.execute(query).scalar_one()
    return moment


def write(engine: sa.Engine, work: Callable[[sa.Connection], _T]) -> _T:
    """Call ``work`` in one transaction and return its result.

    It is called again where the database undid it for another writer, or is away for a while. A
    connection that breaks at the commit does not say whether that was done: ``work`` must bear to
    be done twice.

    :raises DatabaseError: in place of any other error of the database.
    """

    def once() -> _T:
        with engine.execution_options(**_WRITER).begin() as connection:
            return work(connection)

    with _translated():
        return _retrying(_UNDONE | _AWAY, _RETRY_S)(once)


def _retrying(codes: Set[object], seconds: float) -> Callable[[Callable[[], _T]], _T]:
    """Return what calls a function again after errors of these codes, until time is up."""

    def passes(error: BaseException) -> bool:
        if not isinstance(error, exc.DBAPIError):
            return False
        # PyMySQL has the code as first argument, and newer ones a coarse sqlstate beside it;
        # SQLite has neither.
        original: Any = error.orig
        number = next(iter(original.args), "")
        code = number if isinstance(number, int) else getattr(original, "sqlstate", "")
        if error.connection_invalidated:
            return codes >= _AWAY
        return code in codes and (code is not None or isinstance(error, exc.OperationalError))

    retrying: Callable[[Callable[[], _T]], _T] = tenacity.Retrying(
        retry=tenacity.retry_if_exception(passes),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
        stop=tenacity.stop_after_delay(seconds),
        reraise=True,
    )
    return retrying


def files(url: str | None) -> list[str]:
    """Return the files of the SQLite database of a URL; none where it has no file of its own.

    :param url: see :func:`connect`; one that is none has no file.
    """
    try:
        parsed = _parse(url)
    except DatabaseError:
        return []
    path = _path(parsed)
    if path is None:
        return []
    return [f"{path}{suffix}" for suffix in bounded_read.SQLITE_SUFFIXES]


def _path(parsed: sa.URL) -> str | None:
    """Return the path of an SQLite database; None: it is none, or is no plain file."""
    path = parsed.database
    if parsed.get_backend_name() != "sqlite" or not path or path.startswith((":memory:", "file:")):
        return None
    return path


def _parse(url: str | None) -> sa.URL:
    try:
        return sa.make_url(url or default_url())
    except (exc.ArgumentError, ValueError):
        raise DatabaseError(
            "the database is not a SQLAlchemy URL; give one like sqlite:////var/lib/nova-perf-tuning/results.db"
        ) from None


def _limits(parsed: sa.URL) -> dict[str, object]:
    """Return the driver's time limits for a silent server, except those that the URL sets."""
    limits: dict[str, object] = {}
    if parsed.get_driver_name() == "pymysql":
        limits = {
            "connect_timeout": _CONNECT_S,
            "read_timeout": _ANSWER_S,
            "write_timeout": _ANSWER_S,
        }
    elif parsed.get_driver_name() == "psycopg":
        limits = {"connect_timeout": _CONNECT_S, "tcp_user_timeout": 1000 * _ANSWER_S}
    return {name: value for name, value in limits.items() if name not in parsed.query}


def _connect_psycopg(
    _dialect: object, _record: object, words: Sequence[str], options: Mapping[str, Any]
) -> object:
    """Connect by a connection that does not wait for ever; libpq has no limit for an answer.

    The network's own limits do not help where a server is stopped: its kernel still confirms what
    it is sent.
    """
    import psycopg  # only who uses PostgreSQL has it

    class Limited(psycopg.Connection[Any]):
        def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
            return super().wait(self._limited(gen), *more, **named)

        def _limited(self, gen: Any) -> Generator[Any, Any, Any]:
            """Pass everything on between the driver's operation and what waits for its socket."""
            until = time.monotonic() + _ANSWER_S
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if time.monotonic() > until:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(
                            f"no answer of the server within {_ANSWER_S} s"
                        )
                    wanted = gen.send(ready) or wanted
            except StopIteration as end:
                return end.value

    return Limited.connect(*words, **options)


@contextlib.contextmanager
def _translated(shown: str = "database") -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise DatabaseError(
            f"{shown}: {error.name} is missing; install nova-perf-tuning[postgresql] for postgresql+psycopg://,"
            " nova-perf-tuning[mariadb] for mysql+pymysql://"
        ) from None
    except (exc.SQLAlchemyError, OSError, TypeError) as error:  # TypeError: an unknown option
        raise DatabaseError(
            f"{shown}: {one_line(getattr(error, 'orig', None) or error, 300)}"
        ) from error


def _make_file(path: pathlib.Path) -> None:
    """Make an empty file, and the directory for it, unless they are there.

    nova-compute, which is not root, reads this host's verdict from that directory, so everybody
    may enter it. The file is not for everybody: environments name hosts and images.
    """
    directory = path.absolute().parent
    if not directory.exists():
        directory.mkdir(0o755, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            directory.chmod(0o755)  # whatever the umask
    with contextlib.suppress(FileExistsError):
        path.touch(0o640, exist_ok=False)


def _check_files(path: str) -> None:
    """Refuse a database with a link or a pipe in place of one of SQLite's own files."""
    for file, status in bounded_read.sqlite_files(os.path.realpath(path)):
        if not stat.S_ISREG(status.st_mode):
            raise DatabaseError(f"{file}: it is not a plain file; name another database")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A writer says so at once: turning a reader into a writer fails where another one writes.
    connection.exec_driver_sql(
        f"BEGIN {connection.get_execution_options().get('begin', 'DEFERRED')}"
    )
