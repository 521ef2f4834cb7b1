# SPDX-License-Identifier: Apache-2.0
"""The journal: what every changed object was before, kept on disk before the kernel sees a write.

SQLite in write-ahead mode with full synchronisation: a commit is on the disk when it returns,
readers work beside the one writer. The writer holds a lock file, so that two commands never mix;
the kernel drops that lock with the process. The journal is trusted: a damaged one gets one error
that says what to remove.
"""

import contextlib
import dataclasses
import errno
import fcntl
import operator
import os
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Final

from nova_perf_tuning import atomic_write, bounded_read, errors
from nova_perf_tuning.host.model import host_model

#: Below the root of the host that is tuned.
STATE_DIR = "var/lib/nova-perf-tuning"
#: The journal, and beside it two locks: held by whoever writes to it, and by the agent as long as
#: it lives.
JOURNAL, LOCK, AGENT_LOCK = "journal.sqlite", "lock", "agent.lock"

#: Entries with any other rule were applied by hand. A plan without a file is
#: the agent's also where a command applied it: the agent makes the same.
AGENT_RULES = frozenset(map(str, host_model.PlanRule)) - host_model.NOT_OF_AGENT
#: Kinds of settings that the agent makes: beside it nobody else writes these.
AGENT_KINDS = frozenset(("irq_affinity", "irqbalance_ban", "rps", "thread_affinity", "xps"))
#: Rules that take guests' CPUs out of RPS masks: of the plan, and of the audit.
NARROWED_RPS = frozenset((str(host_model.PlanRule.RPS_HOUSEKEEPING), "audit-rps-on-dedicated"))
VERSION = 1
#: In place of a boot: what is in a file, or is brought back by one, outlives every boot.
ANY_BOOT = "any"

#: Seconds for one statement: a journal of a sysroot may be a stranger's.
_PATIENCE_S: Final = 30.0
#: Steps of SQLite's machine between two looks at the clock.
_STEPS: Final = 100_000

#: Bounds on what is read: a value (a configuration file of ours), all texts together, and the number of entries.
#: The largest host that is tested has 11,000.
_MAX_VALUE: Final = 16 << 20
_MAX_TEXT: Final = 64 << 20
_MAX_ENTRIES: Final = 1 << 17
#: Seconds since the epoch that no clock will reach.
_LATEST: Final = float(1 << 37)

#: Table -> what makes it.
_TABLES: Final = {
    "host": "CREATE TABLE host (root TEXT NOT NULL)",
    "entry": """CREATE TABLE entry (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL, target TEXT NOT NULL, identity TEXT NOT NULL, boot_id TEXT NOT NULL,
        original TEXT NOT NULL, wanted TEXT NOT NULL, written TEXT,
        reason TEXT NOT NULL, rule TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('held', 'intended', 'applied')),
        since REAL NOT NULL, changed REAL NOT NULL,
        UNIQUE (kind, target, identity, boot_id)
    )""",
}


def is_agents(setting: host_model.Setting) -> bool:
    """Whether a running agent keeps such settings, so that nobody else may write them beside it.

    It takes no guest's CPU out of an RPS mask: such a mask is a person's.
    """
    return setting.kind in AGENT_KINDS and setting.rule not in NARROWED_RPS


class JournalError(errors.PerfTuningError):
    """The journal cannot be read or written; nothing is changed on the host without it."""


class ForbiddenError(JournalError):
    """The journal is another user's, who alone may read it; nothing is wrong with it."""


class BusyError(JournalError):
    """Another process is changing this host; it will have ended soon."""


@dataclasses.dataclass(slots=True)
class Entry:
    """What is known of one changed object.

    :ivar boot_id: the boot in which it was changed; after another boot the original is back by
        itself. With
        :data:`ANY_BOOT` it is not.
    :ivar original: its value before this project first wrote it, however often it was written
        since.
    :ivar wanted: the value last asked for.
    :ivar written: the value read back after the last write; None when that write may not have
        happened.
    :ivar state: ``held`` (was as wanted already, never written), ``intended`` (a write was begun)
        or ``applied``.
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
        return self.kind, self.target, self.identity, self.boot_id

    def is_current(self, boot: str) -> bool:
        """Whether what it says is in force in ``boot``."""
        return self.boot_id in (boot, ANY_BOOT)

    def setting(self) -> host_model.Setting:
        """Return the setting that should hold now."""
        what = self.kind, self.target, self.wanted, self.written
        return host_model.Setting(
            *what, self.reason, self.rule, self.identity, self.boot_id == ANY_BOOT
        )


_KEEP: Final = "keep the journal: the originals are in it"
_ROOM: Final = (
    "free space on that disk and run it again, or run undo.sh beside the journal, which puts the "
    f"originals back without any; {_KEEP}"
)
_DISK: Final = (
    f"that disk cannot be read or written: see 'dmesg' and the limits of this user; {_KEEP}"
)
_MEMORY: Final = f"there is not enough memory: free some and run it again; {_KEEP}"
_MOUNT: Final = f"remount that disk for writing, see 'dmesg'; {_KEEP}"
_BUSY: Final = "another program keeps it open or it takes too long: try again; keep the journal"
#: SQLite's primary result code -> what to do; the others say that the file is damaged.
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: _ROOM,
    sqlite3.SQLITE_IOERR: _DISK,  # but see _remedy()
    sqlite3.SQLITE_NOMEM: _MEMORY,
    sqlite3.SQLITE_READONLY: _MOUNT,
    sqlite3.SQLITE_CANTOPEN: _MOUNT,
    sqlite3.SQLITE_PERM: _MOUNT,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_INTERRUPT: _BUSY,
}
#: Below so many free bytes a disk counts as full: SQLite makes its shared memory in pieces of 32
#: KiB.
_FULL: Final = 1 << 20
_DAMAGED: Final = "the journal is damaged: remove it, and what the host holds now stays"

_FIELDS = [field.name for field in dataclasses.fields(Entry)]
_COLUMNS = ", ".join(_FIELDS)
_row = operator.attrgetter(*_FIELDS)
_UPSERT = (
    f"INSERT INTO entry ({_COLUMNS}) VALUES ({', '.join('?' * len(_FIELDS))})"  # noqa: S608
    " ON CONFLICT (kind, target, identity, boot_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _FIELDS[4:])
)


def default_state_dir(root: str) -> str:
    """Return the directory of the journal of the host below ``root``."""
    return os.path.join(os.path.abspath(root), STATE_DIR)


def running_agent(state_dir: str) -> str | None:
    """Return the process id of the agent that uses the journal in ``state_dir``; None: none runs."""
    return lock_holder(os.path.join(state_dir, AGENT_LOCK))


class Journal(contextlib.AbstractContextManager["Journal"]):
    """The open journal of one host; a context manager.

    :param state_dir: directory of the journal and its lock; made by a writer.
    :param root: the root that it belongs to; another one's journal is refused.
    :param writer: take the lock, and create what is missing. A reader finds an empty journal where
        there is none.
    :param patience: seconds to wait for a writer.
    :raises BusyError: another writer is at work.
    :raises ForbiddenError: only another user may read it.
    :raises JournalError: damaged; of a newer version; disk full. So do all methods.
    """

    def __init__(
        self, state_dir: str, root: str = "/", *, writer: bool = False, patience: float = 10.0
    ) -> None:
        self.state_dir = os.path.abspath(state_dir)
        self.path = os.path.join(self.state_dir, JOURNAL)
        self.root = os.path.realpath(root)
        self._writer = writer
        self._lock = -1
        self._deadline = 0.0
        self._connection: sqlite3.Connection | None = None
        prefix = os.path.abspath(root)
        try:
            inside = ""
            if prefix != "/" and self.state_dir.startswith(f"{prefix}/"):
                inside = prefix
                for suffix in bounded_read.SQLITE_SUFFIXES:
                    bounded_read.check_inside(prefix, f"{self.path.removeprefix(prefix)}{suffix}")
            if writer:
                self._prepare(patience, inside)
            self._connection = self._open()
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError):
                raise
            path = error.filename or self.state_dir
            raise JournalError(
                f"{path}: {error.strerror}: name another directory with --state-dir"
            ) from None

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let the next writer in."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _prepare(self, patience: float, inside: str) -> None:
        """Make the directory, which must be ``inside`` the recorded host, and the file, and take the lock."""
        # nova-compute, which is not root, reads the host's verdict there; the journal itself is
        # 0600.
        atomic_write.make_directory(self.state_dir, inside=inside)
        status = os.stat(self.state_dir)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise JournalError(
                f"{self.state_dir}: other users may write there; the journal decides what is written to the kernel: "
                "name a directory of your own with --state-dir"
            )
        try:
            self._lock = take_lock(os.path.join(self.state_dir, LOCK), patience)
        except HeldError as error:
            raise BusyError(
                f"{self.state_dir}: process {error.holder} is changing this host; try again when it has ended"
            ) from None
        self._check_files()
        os.close(atomic_write.open_or_make(self.path))  # SQLite's would be 0644

    def _open(self) -> sqlite3.Connection | None:
        """Return the connection; None for a reader: there is no journal, or it was never completed."""
        self._check_files()
        if not os.path.lexists(self.path):
            return None
        owner = os.stat(self.state_dir).st_uid
        if owner not in (0, os.geteuid()):
            raise ForbiddenError(
                f"{self.state_dir}: user {owner} owns it and may swap the journal: run this as user {owner}"
            )
        with self._errors():
            connection = sqlite3.connect(
                self.path, timeout=10.0, isolation_level=None, check_same_thread=False
            )
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(self._is_late, _STEPS)
            objects = connection.execute(
                "SELECT name, sql FROM sqlite_master LIMIT 100"
            ).fetchall()
            empty = not objects
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                connection.close()
                raise JournalError(
                    f"{self.path}: version {version} was written by a newer release: use that one"
                )
            if not (empty or _is_ours(objects)):
                connection.close()
                raise JournalError(
                    f"{self.path}: it is not a journal of this program: name another directory with --state-dir"
                )
            if empty and not self._writer:
                connection.close()
                return None
            if self._writer:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
            else:  # it can still finish what a killed writer left
                connection.execute("PRAGMA query_only = ON")
            if empty:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    for statement in _TABLES.values():
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                    connection.execute("INSERT INTO host (root) VALUES (?)", (self.root,))
            (root,) = connection.execute("SELECT root FROM host").fetchone()
            if root != self.root:
                where = f"{root[:200]}, not {self.root}"
                raise JournalError(
                    f"{self.path}: it belongs to the host below {where}: name another --state-dir"
                )
            return connection

    def _check_files(self) -> None:
        """Refuse a journal one of whose files is another user's or no plain file, before SQLite opens them."""
        for path, status in bounded_read.sqlite_files(self.path):
            if not stat.S_ISREG(status.st_mode):
                raise JournalError(
                    f"{path}: it is not a plain file: name another directory with --state-dir"
                )
            owner = status.st_uid
            if owner != os.geteuid():
                who = f"user {owner}" if owner else "root"
                raise ForbiddenError(
                    f"{path}: only its owner ({who}) may read it: run this as {who}"
                )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into one line, and end what takes too long."""
        self._deadline = time.monotonic() + _PATIENCE_S
        try:
            yield
        except (sqlite3.Error, TypeError, UnicodeError) as error:
            what = " ".join(str(error).split())
            raise JournalError(f"{self.path}: {what}: {self._remedy(error)}") from None

    def _remedy(self, error: Exception) -> str:
        """Return what to do. On a full disk SQLite reports that it cannot write, or that it is full."""
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return _DAMAGED
        primary = code & 0xFF
        if primary == sqlite3.SQLITE_IOERR and self._is_disk_full():
            return _ROOM
        return _REMEDIES.get(primary, _DAMAGED)

    def _is_disk_full(self) -> bool:
        try:
            disk = os.statvfs(self.state_dir)
        except OSError:
            return False
        return disk.f_bavail * disk.f_frsize < _FULL

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes within are on the disk when this ends, or none of them."""
        assert self._connection is not None and self._writer, "it is open for reading only"
        with self._errors(), self._connection:  # commits at the end, or rolls back
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first."""
        entries: list[Entry] = []
        if self._connection is None:
            return entries
        size = 0
        with self._errors():
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM entry ORDER BY id")  # noqa: S608
            for row in rows:
                entry = Entry(*row)
                size += _checked_size(entry)
                if size > _MAX_TEXT or len(entries) == _MAX_ENTRIES:
                    raise JournalError(
                        f"{self.path}: it has more than {_MAX_ENTRIES} entries or {_MAX_TEXT >> 20} MiB:"
                        " this program wrote no such journal: name another directory with --state-dir"
                    )
                entries.append(entry)
        return entries

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert entries, or replace those with the same key in place. Within :meth:`transaction`."""
        assert self._connection is not None
        self._connection.executemany(_UPSERT, map(_row, entries))

    def drop(self, entries: Iterable[Entry]) -> None:
        """Forget entries. Within :meth:`transaction`."""
        assert self._connection is not None
        self._connection.executemany(
            "DELETE FROM entry WHERE kind = ? AND target = ? AND identity = ? AND boot_id = ?",
            [entry.key for entry in entries],
        )


def _is_ours(objects: Iterable[tuple[str, str | None]]) -> bool:
    """Whether (name, SQL) pairs of a database are our tables and nothing else.

    A column that is computed, say, would take more memory than the file has bytes.
    """
    found: dict[str, str] = {}
    for name, sql in objects:
        if sql is not None:  # else it is the index of a UNIQUE in a table
            found[name] = _one_line(str(sql))
    return found == {name: _one_line(sql) for name, sql in _TABLES.items()}


def _one_line(sql: str) -> str:
    return " ".join(sql.split())


def _checked_size(entry: Entry) -> int:
    """Return how many characters an entry has.

    :raises TypeError: a value is of another type than ours, or no time: SQLite keeps bytes as they are in any
        column.
    """
    texts = [entry.kind, entry.target, entry.identity, entry.boot_id, entry.original, entry.wanted]
    texts += [entry.reason, entry.rule, entry.state]
    if entry.written is not None:
        texts.append(entry.written)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError("an entry has a value that is not text")
    for seconds in (entry.since, entry.changed):
        if not (isinstance(seconds, float) and 0.0 <= seconds <= _LATEST):
            raise TypeError("an entry has an invalid time")
    return sum(map(len, texts))


class HeldError(errors.PerfTuningError):
    """Another process holds it.

    :ivar holder: its number as text, ``unknown`` where it has not written it yet.
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path}: process {holder} holds it")
        self.holder = holder


def take_lock(path: str, patience: float) -> int:
    """Take the lock file at ``path``, made if need be, and return its descriptor: closing it gives it back.

    :param patience: seconds to wait for its holder.
    :raises HeldError: another process holds it.
    :raises JournalError: what is there is no plain file.
    :raises OSError: the file cannot be opened or written; ELOOP: it is a link, whose target would
        be written to.
    """
    try:
        fd = atomic_write.open_or_make(path)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise _not_plain(path) from None
        raise
    try:
        deadline = time.monotonic() + patience
        while not _try(fd, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise HeldError(path, _holder(fd))
            time.sleep(0.05)
        os.pwrite(fd, f"{os.getpid():<19d}\n".encode(), 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def lock_holder(path: str) -> str | None:
    """Return who holds the lock file at ``path``, None where nobody does or it is not there.

    It takes a shared lock for a moment, so that concurrent callers do not report each other as
    holder.

    :raises JournalError: what is there is no plain file.
    """
    try:
        fd = bounded_read.open_plain(path, links=False)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise _not_plain(path) from None
        return None
    try:
        return None if _try(fd, fcntl.LOCK_SH) else _holder(fd)
    finally:
        os.close(fd)


def _not_plain(path: str) -> JournalError:
    return JournalError(
        f"{path}: it is not a plain file: remove it, or name another directory with --state-dir"
    )


def _try(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(fd: int) -> str:
    return os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
