# SPDX-License-Identifier: Apache-2.0
"""Output files that appear whole or not at all, replace nothing but a file, and never land elsewhere.

The rule on links: those in a path are the operator's own words, as ``/var/run`` is, and are followed once, when
its directory is opened. From then on the open directory counts, whatever its path leads to meanwhile, and no name
in it is followed if it is a link. So whoever owns the directory can make root write nothing outside of it.
"""

import contextlib
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from typing import BinaryIO, Final

from nova_perf_tuning import bounded_read, errors

#: Seconds that a change waits for another one; each takes a fraction of a second.
LOCK_WAIT_S: Final = 10.0


class OutputError(errors.PerfTuningError):
    """A file cannot be written there."""


_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # O_EXCL follows no link


class Directory(contextlib.AbstractContextManager["Directory"]):
    """An open directory for files, see :func:`open_directory`; a context manager.

    :ivar path: where it was when it was opened, for messages.
    :ivar descriptor: what stands for it.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._lock = -1

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; once more does nothing."""
        descriptors = (self.descriptor, self._lock)
        self.descriptor = self._lock = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def lock(self) -> None:
        """Keep others who use this from having it until it is closed, or the process ends.

        :raises BlockingIOError: another process has it. :raises OSError: it cannot be read.
        """
        # A descriptor of O_PATH takes no lock (open(2)).
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        lock = os.open(".", flags, dir_fd=self.descriptor)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def below(self, name: str) -> "Directory":
        """Return the directory ``name`` in it, made if need be.

        :raises OSError: it cannot be made or opened; ENOTDIR: something else has that name, such as a link.
        """
        path = os.path.join(self.path, name)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.descriptor)
            return Directory(
                path, os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.descriptor)
            )
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None

    def check(self, name: str) -> None:
        """Refuse a name that something else than a file has; OutputError: it has."""
        try:
            mode = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISREG(mode):
            path = os.path.join(self.path, name)
            raise OutputError(f"{path}: it exists and is not a regular file; give another name")

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Do as :func:`writing` for a file in it."""
        self.check(name)
        self.sweep(name)
        new, descriptor = self._make_temporary(name)
        made = True
        try:
            with open(descriptor, "wb") as file:
                # By descriptor: whoever owns the directory could put a link in place of the name.
                os.fchmod(descriptor, 0o644)
                yield file
                file.flush()
                os.fsync(descriptor)
                # It is locked until it has its name: no sweep takes it for a leftover.
                os.replace(new, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
                made = False
        except OSError as error:
            if error.filename not in (None, new):  # of something else that the block does
                raise
            path = os.path.join(self.path, name)
            raise OSError(
                error.errno, error.strerror, path
            ) from None  # not the name of the temporary file
        finally:
            if made:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(new, dir_fd=self.descriptor)

    def _make_temporary(self, name: str) -> tuple[str, int]:
        """Return name and descriptor of a new file for ``name``, locked; raises OSError."""
        while True:
            new = f"{_temporary(name)}{secrets.token_hex(4)}"
            try:
                descriptor = os.open(new, _NEW, 0o600, dir_fd=self.descriptor)
            except OSError as error:
                path = os.path.join(self.path, name)
                raise OSError(error.errno, error.strerror, path) from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # a sweep of another process is about to remove it
                os.close(descriptor)
                continue
            except OSError:  # a file system without locks, where no sweep removes anything
                return new, descriptor
            if os.fstat(descriptor).st_nlink:
                return new, descriptor
            os.close(descriptor)

    def sweep(self, name: str) -> None:
        """Remove what killed writers of a file left in it: own files that no process has locked."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            listing = os.open(".", flags, dir_fd=self.descriptor)
        except OSError:  # it cannot be read
            return
        leftover = re.compile(f"{re.escape(_temporary(name))}[0-9a-f]{{8}}")
        try:
            with os.scandir(listing) as entries:
                found = [entry.name for entry in entries if leftover.fullmatch(entry.name)]
        finally:
            os.close(listing)
        for temporary in found:
            with contextlib.suppress(OSError):  # a writer has it, or it is no plain file
                self._remove_unlocked(temporary)

    def _remove_unlocked(self, name: str) -> None:
        descriptor = bounded_read.open_plain(name, dir_fd=self.descriptor, links=False)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_uid == os.geteuid():
                self.remove(name)
        finally:
            os.close(descriptor)

    def rename(self, name: str, new: str) -> None:
        """Give a file another name in it; raises OSError."""
        os.replace(name, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file from it; raises OSError."""
        os.unlink(name, dir_fd=self.descriptor)


def open_directory(path: str, *, inside: str = "") -> Directory:
    """Open a directory; links in its path are followed now and never again.

    :param inside: a directory that it must be in, all links followed; empty: it may be anywhere.
    :raises OutputError: it is not there.
    :raises OSError: it cannot be opened; ELOOP: it is not ``inside``.
    """
    try:
        descriptor = os.open(path, _DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        raise OutputError(f"there is no directory {path!r}; make it first") from None
    try:
        bounded_read.check_open(descriptor, path, inside)
    except OSError:
        os.close(descriptor)
        raise
    return Directory(path, descriptor)


def check(path: str) -> None:
    """Refuse a path where no file can be, or where a new file would replace something else than a file.

    :raises OutputError: a link, device, pipe, socket or directory has that name, or its directory is missing.
    """
    with _opened(path) as directory:
        directory.check(_split(path)[1])


def remove(path: str, *, inside: str = "") -> None:
    """Remove a file.

    :param inside: see :func:`open_directory`.
    :raises OSError: it cannot be removed, or is not there.
    """
    with _opened(path, inside) as directory:
        directory.remove(_split(path)[1])


def sweep(path: str, *, inside: str = "") -> None:
    """Remove what killed writers of a file left; see :meth:`Directory.sweep`.

    :param inside: see :func:`open_directory`.
    :raises OutputError, OSError: its directory cannot be opened, or is not there.
    """
    with _opened(path, inside) as directory:
        directory.sweep(_split(path)[1])


def _temporary(name: str) -> str:
    """Return how temporary names of a file begin; eight hexadecimal digits follow."""
    return f".{name[:200]}."


def _split(path: str) -> tuple[str, str]:
    """Return the directory and the name of a file."""
    return os.path.split(os.path.abspath(path))


def _opened(path: str, inside: str = "") -> Directory:
    if not path:
        raise OutputError("'': give a file's name")
    try:
        return open_directory(_split(path)[0], inside=inside)
    except OutputError as error:
        raise OutputError(f"{path!r}: {error}") from None


def make_directory(path: str, *, inside: str = "") -> None:
    """Make a directory that everybody may read, whatever the umask; one that is there stays as it is.

    :param inside: see :func:`open_directory`.
    :raises OSError: it cannot be made; ELOOP: it is not ``inside``, and nothing was made.
    """
    there = os.path.abspath(path)
    missing: list[str] = []
    while not os.path.isdir(there):
        there, name = os.path.split(there)
        missing.append(name)
    above = open_directory(there, inside=inside)
    for name in reversed(missing):
        with above:
            above = above.below(name)
        os.chmod(f"/proc/self/fd/{above.descriptor}", 0o755)  # noqa: S103  nova-compute and irqbalance read there
    above.close()


def open_or_make(path: str, dir_fd: int | None = None) -> int:
    """Return a descriptor, for reading and writing, of a plain file that only its owner may use, made if need be.

    :raises OSError: it cannot be opened or made; ELOOP: it is a link; EISDIR, EINVAL: it is no plain file.
    """
    making = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # O_EXCL follows no link
    while True:
        with contextlib.suppress(FileNotFoundError):
            return bounded_read.open_plain(path, os.O_RDWR, dir_fd=dir_fd, links=False)
        with contextlib.suppress(FileExistsError):  # another process has just made it
            return os.open(path, making, 0o600, dir_fd=dir_fd)


@contextlib.contextmanager
def writing(
    path: str, *, inside: str = "", directory: Directory | None = None
) -> Iterator[BinaryIO]:
    """Give a file to write to; at the end of the block it gets the name ``path``, or goes if the block fails.

    :param inside: see :func:`open_directory`.
    :param directory: the one of ``path``, where it is open already.
    :raises OutputError: as for :func:`check`.
    :raises OSError: the directory cannot be written or the disk is full; an old file is untouched.
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(_opened(path, inside))
        with directory.writing(_split(path)[1]) as file:
            yield file


@contextlib.contextmanager
def changing(path: str) -> Iterator[None]:
    """Keep others who use this from changing the file at ``path`` between reading and writing it.

    The lock is an empty file next to it that stays; the kernel drops the lock with the process.

    :raises OutputError: another process has kept the lock for :data:`LOCK_WAIT_S`.
    """
    name = _split(path)[1]
    with _opened(path) as directory:
        lock = open_or_make(f".{name[:200]}.lock", directory.descriptor)
        try:
            _wait_for(lock, path)
            yield
        finally:
            os.close(lock)


def _wait_for(lock: int, path: str) -> None:
    """Take the lock on the file at ``path``; OutputError: another process keeps it."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise OutputError(
                    f"{path}: another process keeps it locked; try again when that has ended"
                ) from None
        time.sleep(0.05)
