"""Output files that appear whole or not at all, and take the place of nothing but a file."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from typing import BinaryIO

from nova_perf_tuning import errors

#: What a file system answers that knows no locks: one writer there does as well as before there were any.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class OutputError(errors.PerfTuningError):
    """A file cannot be written there."""


def check(path: str) -> None:
    """Refuse a place that renaming a new file over it would destroy, or where none can be.

    :raises OutputError: there is a device, pipe, socket, link or folder of that name, or no folder for it.
    """
    if not path:
        raise OutputError("the name of the output file is empty; give the path of a file")
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise OutputError(f"{path}: there is no folder '{folder}'; make it first") from None
        return
    if stat.S_ISLNK(mode):
        raise OutputError(f"{path}: it is a symbolic link; give the path of the file itself")
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        raise OutputError(f"{path}: it is {kind}; give the name of a file")


@contextlib.contextmanager
def writing(path: str, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Give a file to write to; at the end of the block it gets the name ``path``, or goes if the block fails.

    :param overwrite: False: fail when somebody else has made ``path`` meanwhile.
    :raises OutputError: as for :func:`check`.
    :raises OSError: the folder cannot be written or the disk is full; an old file is untouched.
    """
    check(path)
    folder, name = os.path.split(os.path.abspath(path))
    try:
        descriptor, new = tempfile.mkstemp(prefix=f".{name[:200]}.", dir=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # not the name of the temporary file
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644)
        if overwrite:
            os.replace(new, path)
        else:
            os.link(new, path)
    except OSError as error:
        if error.filename not in (None, new):  # of something else that the block does
            raise
        raise OSError(error.errno, error.strerror, path) from None  # a full disk names no file at all
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


@contextlib.contextmanager
def changing(path: str, patience: float = 30.0) -> Iterator[None]:
    """Keep others who use this from changing the file at ``path`` from when it is read until it is written.

    The lock is a file beside it that goes when it is given back; one that a killed process left does no harm.

    :param patience: seconds to wait for others.
    :raises OutputError: they took longer.
    :raises OSError: the folder cannot be written.
    """
    folder, name = os.path.split(os.path.abspath(path))
    lock = os.path.join(folder, f".{name[:200]}.lock")
    deadline = time.monotonic() + patience
    while (descriptor := _taken(lock, path)) is None:
        if time.monotonic() >= deadline:
            raise OutputError(
                f"{path}: somebody else has been changing it for {patience:.0f} s; if nobody is, remove {lock}"
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(lock)
        os.close(descriptor)


def _taken(lock: str, path: str) -> int | None:
    """Return the descriptor of a lock file that is now held, None where somebody else holds it."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if isinstance(error, PermissionError) and os.path.lexists(lock):
            return None  # another user's
        raise OSError(error.errno, error.strerror, path) from None  # not the name of the lock
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return descriptor
        os.close(descriptor)
        raise OSError(error.errno, error.strerror, path) from None
    os.close(descriptor)  # it is held, or was removed by who held it
    return None
