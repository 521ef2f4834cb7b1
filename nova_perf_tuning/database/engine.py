"""Opens the database of runs: a SQLite file unless an SQLAlchemy URL says otherwise, brought up to date first."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from nova_perf_tuning import errors

try:
    import sqlalchemy as sa
    from sqlalchemy import event, exc
except ImportError:
    raise errors.PerfTuningError(
        "SQLAlchemy is missing; install nova-perf-tuning[report] for the database of runs"
    ) from None

#: Names another database; here a password is not seen by others, as it would be among the arguments.
URL_VARIABLE = "NOVA_PERF_DATABASE"

_FILE = "results.db"
#: How long a writer waits for another one, in seconds.
_PATIENCE_S = 30


class DatabaseError(errors.PerfTuningError):
    """The database cannot be opened, read or written; the message has no password in it."""


class MissingError(DatabaseError):
    """There is no such file."""


def default_url() -> str:
    """Return the URL that the environment names, else that of the file in the state directory.

    That is /var/lib/nova-perf-tuning for root, else nova-perf-tuning below $XDG_STATE_HOME (~/.local/state).
    """
    if url := os.environ.get(URL_VARIABLE):
        return url
    if os.geteuid() == 0:
        folder = pathlib.Path("/var/lib/nova-perf-tuning")
    else:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        folder = pathlib.Path(home) / "nova-perf-tuning"
    return f"sqlite:///{folder / _FILE}"


def connect(url: str | None = None, *, make: bool = True) -> sa.Engine:
    """Return an engine on the database, which is made or migrated to this version if need be.

    :param url: an SQLAlchemy URL; None: :func:`default_url`.
    :param make: False for who only reads what others have written: a file that is not there is not made.
    :raises MissingError: it is not to be made, and there is none.
    :raises DatabaseError: not a URL, no such driver, no rights, or made by a newer version.
    """
    parsed, shown = _parse(url)
    path = file_of(url)
    if not make and path is not None and not os.path.exists(path):
        raise MissingError(
            f"there is no database of runs at {path}; name the one that is meant by --database or ${URL_VARIABLE}"
        )
    try:
        if path is not None:
            _make_file(path)
        engine = sa.create_engine(parsed)
    except (exc.ArgumentError, ImportError, OSError) as error:
        raise DatabaseError(f"database {shown}: {_line(error)}") from None
    if parsed.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    with told(shown):
        _migrate(engine, shown)
    return engine


def file_of(url: str | None = None) -> str | None:
    """Return the file that a database is in, None of one without.

    :param url: as for :func:`connect`.
    :raises DatabaseError: not a URL.
    """
    parsed, _ = _parse(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return str(parsed.database).removeprefix("file:").partition("?")[0]


def _parse(url: str | None) -> tuple[sa.URL, str]:
    """Return a URL, or that of the default, and the same without its password."""
    try:
        parsed = sa.make_url(url or default_url())
        return parsed, parsed.render_as_string(hide_password=True)
    except (exc.ArgumentError, ValueError):
        raise DatabaseError(
            "the database is no SQLAlchemy URL; give one like sqlite:////var/lib/nova-perf-tuning/results.db"
        ) from None


@contextlib.contextmanager
def told(shown: str = "") -> Iterator[None]:
    """Turn what SQLAlchemy raises in the block into one line.

    :raises DatabaseError: instead of any error of the database.
    """
    try:
        yield
    except exc.SQLAlchemyError as error:
        reason = getattr(error, "orig", None) or error
        raise DatabaseError(f"database{' ' if shown else ''}{shown}: {_line(reason)}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _make_file(path: str) -> None:
    """Make an empty file, and the folder for it, unless they are there.

    The folder may be the one where nova-compute, which is not root, reads this host's verdict, so everybody may
    enter it; the file is not for everybody on the machine: environments name hosts and images. SQLite gives its
    journals the same permissions.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.exists(folder):
        os.makedirs(folder, mode=0o755, exist_ok=True)
        if os.geteuid() == 0:
            os.chmod(folder, 0o755)  # noqa: S103  # whatever the umask
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))


def without_password(url: str) -> str:
    """Return a URL as it may be shown.

    :raises DatabaseError: not a URL.
    """
    return _parse(url)[1]


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # Python's sqlite3 would begin transactions only before INSERT and the like, so that half a migration
    # could be left by a crash; with None it begins none and _begin_sqlite does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_PATIENCE_S * 1000}")
    cursor.execute("PRAGMA journal_mode = WAL")  # who reads a report does not hold up who measures
    cursor.execute("PRAGMA synchronous = FULL")  # what is stored survives a power cut too
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    # Who means to write says so at once: turning a reader into a writer fails where another writes.
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('begin', 'DEFERRED')}")


def _migrate(engine: sa.Engine, shown: str) -> None:
    """Bring the tables up to date in one transaction.

    :raises DatabaseError: they come from a newer version.
    """
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells even that it is imported
    from alembic import command, config, runtime, script
    from alembic.util import exc as alembic_exc

    settings = config.Config()
    settings.set_main_option("script_location", str(pathlib.Path(__file__).parent / "migrations"))
    scripts = script.ScriptDirectory.from_config(settings)
    with engine.connect() as connection:
        now = runtime.migration.MigrationContext.configure(connection).get_current_revision()
    if now == scripts.get_current_head():
        return
    try:
        if now is not None:
            scripts.get_revision(now)
    except alembic_exc.CommandError:
        raise DatabaseError(
            f"database {shown}: it was made by a newer version (revision {now}); update nova-perf-tuning"
        ) from None
    with engine.connect().execution_options(begin="IMMEDIATE") as connection, connection.begin():
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")
