"""The journal: what every changed object was before, kept on disk before the kernel sees a write.

SQLite in write-ahead mode with full synchronisation: a commit is on the disk when it returns, readers
work beside the one writer. The writer holds a lock file, so that two commands never mix; the kernel drops
that lock with the process, however it ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.transaction import lock as lock_module

#: Below the root of the host that is tuned.
STATE_DIR = "var/lib/nova-perf-tuning"
#: The journal, and beside it two locks: held by whoever writes to it, and by the agent as long as it lives.
JOURNAL, LOCK, AGENT_LOCK = "journal.sqlite", "lock", "agent.lock"

VERSION = 1
#: In place of a boot: what is in a file, or is brought back by one, outlives every boot.
ANY_BOOT = "any"
#: Tells our files from other SQLite databases ("npT1").
APPLICATION_ID = 0x6E705431

_SCHEMA = (
    "CREATE TABLE host (root TEXT NOT NULL)",
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL, target TEXT NOT NULL, identity TEXT NOT NULL, boot_id TEXT NOT NULL,
        original TEXT NOT NULL, wanted TEXT NOT NULL, written TEXT,
        reason TEXT NOT NULL, rule TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('held', 'intended', 'applied')),
        since REAL NOT NULL, changed REAL NOT NULL,
        UNIQUE (kind, target, identity, boot_id)
    )""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

_COLUMNS = "kind, target, identity, boot_id, original, wanted, written, reason, rule, state, since, changed"


#: Of the columns: with a value that was read back, and without.
_TYPES = [[*[str] * 6, written, *[str] * 3, float, float] for written in (str, type(None))]


class JournalError(errors.PerfTuningError):
    """The journal cannot be read or written; nothing is changed on the host without it."""


class ForbiddenError(JournalError):
    """The journal is another user's, who alone may read it; nothing is wrong with it."""


class BusyError(JournalError):
    """Another process is changing this host; it will have ended soon."""


class UnwritableError(JournalError):
    """The disk is full or does not let the journal be written; what it holds may still be readable."""


@dataclasses.dataclass(slots=True)
class Entry:
    """What is known of one changed object.

    :ivar boot_id: the boot in which it was changed; after another boot the original is back by itself. With
        :data:`ANY_BOOT` it is not.
    :ivar original: its value before this project first wrote it, however often it was written since.
    :ivar wanted: the value last asked for.
    :ivar written: the value read back after the last write; None when that write may not have happened.
    :ivar state: ``held`` (was as wanted already, never written), ``intended`` (a write was begun) or ``applied``.
    :ivar since: first write, :ivar changed: last one, seconds since the epoch.
    """

    kind: str
    target: str
    identity: str
    boot_id: str
    original: str
    wanted: str
    written: str | None
    reason: str
    rule: str
    state: str
    since: float
    changed: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes it one object of one boot."""
        return self.kind, self.target, self.identity, self.boot_id

    @property
    def asked(self) -> tuple[str, ...]:
        """The values of which one is there by our doing: a write that was only begun may not have happened."""
        if self.state == "intended" and self.written is not None:
            return self.wanted, self.written
        return (self.wanted,)

    def is_current(self, boot: str) -> bool:
        """Whether what it says is in force in ``boot``."""
        return self.boot_id in (boot, ANY_BOOT)

    def setting(self) -> setting_module.Setting:
        """Return the setting that should hold now."""
        return setting_module.Setting(
            kind=self.kind,
            target=self.target,
            value=self.wanted,
            current=self.written,
            reason=self.reason,
            rule=self.rule,
            identity=self.identity,
            persistent=self.boot_id == ANY_BOOT,
        )


def default_state_dir(root: str) -> str:
    """Return the folder of the journal of the host below ``root``."""
    return os.path.join(os.path.abspath(root), STATE_DIR)


def _rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    query = f"SELECT {_COLUMNS} FROM entry ORDER BY id"  # noqa: S608
    try:
        return connection.execute(query).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    connection.text_factory = bytes
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.text_factory = str


def _mended(row: tuple[Any, ...]) -> Entry:
    """Return the entry of a damaged row: the others shall be of use all the same."""
    texts: list[Any] = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in row[:10]]
    if row[6] is None:
        texts[6] = None
    return Entry(*texts, *(one if isinstance(one, float) else 0.0 for one in row[10:]))


def _forbidden(path: str, owner: int = 0) -> ForbiddenError:
    who = f"user {owner}" if owner else "root"
    return ForbiddenError(f"{path}: only its owner ({who}) may read it: run this as {who}")


def _storable(path: str) -> str | bytes:
    """Return what SQLite takes: a path that is no UTF-8 as the bytes that it is."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


#: Time of the last change, inode, size.
Stamp = tuple[int, int, int]


def stamp(path: str) -> Stamp | None:
    """Return what changes with a commit once its writer has closed the journal; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


class Journal:
    """The open journal of one host; a context manager.

    :param state_dir: folder of the journal and its lock; made (mode 0700) by a writer.
    :param root: the root that it belongs to; another one's journal is refused.
    :param writer: take the lock, and create what is missing. A reader finds an empty journal where there is none,
        and needs no space: where SQLite finds none for its index of the log, the reader keeps writers out and does
        without it.
    :param patience: seconds to wait for a writer.
    :param undo: as a writer, be content with reading where the disk is full or read-only: undoing must not need
        space. :attr:`obstacle` says then why nothing can be written.
    :ivar stamp: of a writer that has closed: the file as it left it (see :func:`stamp`).
    :raises BusyError: another writer is at work.
    :raises ForbiddenError: only another user may read it.
    :raises JournalError: damaged; of a newer version; disk full.
    """

    def __init__(
        self,
        state_dir: str,
        root: str = "/",
        *,
        writer: bool = False,
        patience: float = 10.0,
        undo: bool = False,
    ) -> None:
        self.state_dir = os.path.abspath(state_dir)
        self.path = os.path.join(self.state_dir, JOURNAL)
        self.root = os.path.realpath(root)
        self.obstacle: JournalError | None = None
        self.stamp: Stamp | None = None
        self._writer = writer
        self._undo = undo
        self._patience = patience
        self._lock = -1
        self._file: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        try:
            if writer:
                self._prepare_folder()
                self._lock = self._take_lock()
            if (writer and not undo) or self._exists():
                self._open_as_possible()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let the next writer in."""
        self._disconnect()
        if self._lock >= 0:
            self.stamp = stamp(self.path)
            os.close(self._lock)
            self._lock = -1

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _exists(self) -> bool:
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return False
        except PermissionError:
            raise _forbidden(self.path) from None
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}: name another folder with --state-dir") from None
        return True

    def _prepare_folder(self) -> None:
        try:
            # nova-compute, which is not root, reads the host's verdict there; the journal itself is 0600.
            os.makedirs(self.state_dir, mode=0o755, exist_ok=True)
            found = os.stat(self.state_dir)
        except OSError as error:
            raise JournalError(f"{self.state_dir}: {error.strerror}: name a folder with --state-dir") from None
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise JournalError(
                f"{self.state_dir}: others may write there; the journal decides what is written to the kernel: "
                "name a folder of your own with --state-dir"
            )

    def _take_lock(self) -> int:
        path = os.path.join(self.state_dir, LOCK)
        try:
            return lock_module.take(path, self._patience, readable=self._undo or not self._writer)
        except lock_module.HeldError as error:
            raise BusyError(
                f"{self.state_dir}: process {error.holder} is changing this host; try again when it has ended"
            ) from None
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}: name another folder with --state-dir") from None

    def _open_as_possible(self) -> None:
        """Open it; read only, except for a writer that is not content with that, where it cannot be written."""
        try:
            self._open()
        except UnwritableError as error:
            self._disconnect()
            if (self._writer and not self._undo) or not self._exists():
                raise
            if self._lock < 0:
                self._lock = self._take_lock()
            self.obstacle, self._writer = error, False
            self._open()

    def _open(self) -> None:
        try:
            if self._writer:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(self.path, flags, 0o600))  # SQLite would make it readable for all
            self._check_file()
        except OSError as error:
            full = error.errno in (errno.EROFS, errno.ENOSPC, errno.EDQUOT)
            raise (UnwritableError if full else JournalError)(f"{self.path}: {error.strerror}") from None
        # A reader too must be able to finish what a killed writer left; it changes nothing else (query_only).
        mode = "rw"
        writable = os.access(self.state_dir, os.W_OK)
        if not self._writer and (self.obstacle or not writable):
            mode = ("rw" if writable else "ro") if self._has_log() else "ro&immutable=1"
        with self._errors():
            # A path may hold '?' and '#', which are syntax in a URI.
            name = self.path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
            self._connection = sqlite3.connect(
                f"file:{name}?mode={mode}", uri=True, timeout=10.0, isolation_level=None, check_same_thread=False
            )
            self._set_up(self._connection)

    def _has_log(self) -> bool:
        """Whether a killed or a running writer has left commits beside the file."""
        try:
            return os.stat(f"{self.path}-wal").st_size > 0
        except OSError:
            return False

    def _check_file(self) -> None:
        found = os.lstat(self.path)
        if stat.S_ISREG(found.st_mode) and found.st_uid != os.geteuid() != 0:
            raise _forbidden(self.path, found.st_uid)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise JournalError(f"{self.path}: it is not a file that you alone may write: move it away")
        self._file = (found.st_dev, found.st_ino)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        # Before anything is believed: what a hostile or damaged file could make SQLite do.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if self.obstacle is not None and os.access(self.state_dir, os.W_OK):
            # SQLite keeps its index of the log in memory then, where it would need space; the lock is ours.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not empty and (application != APPLICATION_ID or version < 1):
            raise JournalError(f"{self.path}: it is not a journal of this program: move it away")
        if version > VERSION:
            raise JournalError(f"{self.path}: version {version} was written by a newer release: use that one")
        if self._writer:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            if empty:
                with self.transaction():
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    connection.execute("INSERT INTO host (root) VALUES (?)", (_storable(self.root),))
        else:
            connection.execute("PRAGMA query_only = ON")
            if empty:
                self.close()
                return
        if self._writer or self._undo:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        self._check_root(connection)

    def _check_root(self, connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT root FROM host").fetchone()
        if row is None:
            raise sqlite3.DatabaseError("it names no host")
        if row[0] != _storable(self.root):
            other = os.fsdecode(row[0]) if isinstance(row[0], bytes) else row[0]
            raise JournalError(
                f"{self.path}: it belongs to the host below {other}, not {self.root}: name another --state-dir"
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into one line."""
        try:
            yield
        except sqlite3.Error as error:
            text = " ".join(str(error).split())
            kind = JournalError
            if "full" in text or "I/O" in text:
                kind = UnwritableError
                advice = "free some space and run it again"
            elif "readonly" in text or "unable to open" in text:
                kind = UnwritableError
                advice = "make its folder writable or name another with --state-dir"
            elif "locked" in text:
                advice = "another program has it open; try again"
            else:
                advice = "it is damaged: move it away; what the host holds now stays as it is"
            raise kind(f"{self.path}: {text}: {advice}") from None
        except UnicodeEncodeError as error:
            raise JournalError(
                f"{self.path}: {error.object!r} is no UTF-8 text: rename what is called so"
            ) from None

    def check_present(self) -> None:
        """Make sure that what was committed can be found again under the journal's name.

        :raises JournalError: somebody deleted or replaced the file while it is open.
        """
        try:
            found = os.lstat(self.path)
        except OSError as error:
            raise JournalError(f"{self.path}: it was taken away while in use: {error.strerror}") from None
        if (found.st_dev, found.st_ino) != self._file:
            raise JournalError(f"{self.path}: it was replaced while in use")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes within are on the disk when this ends, or none of them.

        :raises JournalError: they could not be written.
        """
        connection = self._connection
        if self.obstacle is not None:
            raise self.obstacle
        if connection is None or not self._writer:
            raise JournalError(f"{self.path}: it is open for reading only")
        with self._errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first; in damaged ones what is no text is made text, which no kind may take.

        :raises JournalError: it cannot be read.
        """
        if self._connection is None:
            return []
        with self._errors():
            rows = _rows(self._connection)
        return [Entry(*row) if [*map(type, row)] in _TYPES else _mended(row) for row in rows]

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert entries or replace those with the same key, keeping their place. Within :meth:`transaction`."""
        assert self._connection is not None
        self._connection.executemany(
            f"INSERT INTO entry ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608
            " ON CONFLICT (kind, target, identity, boot_id) DO UPDATE SET wanted = excluded.wanted,"
            " original = excluded.original, written = excluded.written, reason = excluded.reason,"
            " rule = excluded.rule, state = excluded.state, since = excluded.since, changed = excluded.changed",
            [
                (
                    one.kind, one.target, one.identity, one.boot_id, one.original, one.wanted, one.written,
                    one.reason, one.rule, one.state, one.since, one.changed,
                )
                for one in entries
            ],
        )  # fmt: skip

    def drop(self, entries: Iterable[Entry]) -> None:
        """Forget entries. Within :meth:`transaction`."""
        assert self._connection is not None
        self._connection.executemany(
            "DELETE FROM entry WHERE kind = ? AND target = ? AND identity = ? AND boot_id = ?",
            [one.key for one in entries],
        )
