"""Locks that the kernel drops with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time

from nova_perf_tuning import errors

#: A record may have a FIFO there, whose other end nobody opens.
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class HeldError(errors.PerfTuningError):
    """Another process holds it.

    :ivar holder: its number as text, ``unknown`` where it has not written it yet.
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path}: process {holder} holds it")
        self.holder = holder


def take(path: str, patience: float, *, readable: bool = False) -> int:
    """Take the lock file at ``path``, made if need be, and return its descriptor: closing it gives it back.

    :param patience: seconds to wait for its holder.
    :param readable: be content with a file on a file system that cannot be written.
    :raises HeldError: somebody else holds it.
    :raises OSError: the file cannot be opened.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    except OSError as error:
        if not readable or error.errno != errno.EROFS:
            raise
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    deadline = time.monotonic() + patience
    while not _try(fd, fcntl.LOCK_EX):
        if time.monotonic() >= deadline:
            named = _named(fd)
            os.close(fd)
            raise HeldError(path, named)
        time.sleep(0.05)
    with contextlib.suppress(OSError):  # the number is for people; a full disk shows soon enough
        os.pwrite(fd, f"{os.getpid():<19d}\n".encode(), 0)
    return fd


def holder(path: str) -> str | None:
    """Return who holds the lock file at ``path``, None where nobody does or it is not there.

    It takes a shared lock for a moment, so that two who ask do not see each other.
    """
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        return None if _try(fd, fcntl.LOCK_SH) else _named(fd)
    finally:
        os.close(fd)


def _try(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named(fd: int) -> str:
    return os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
