"""Locks that the kernel drops with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
import os
import time

from nova_perf_tuning import errors


class HeldError(errors.PerfTuningError):
    """Another process holds it.

    :ivar holder: its number as text, ``unknown`` where it has not written it yet.
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path}: process {holder} holds it")
        self.holder = holder


def take(path: str, patience: float) -> int:
    """Take the lock file at ``path``, made if need be, and return its descriptor: closing it gives it back.

    :param patience: seconds to wait for its holder.
    :raises HeldError: somebody else holds it.
    :raises OSError: the file cannot be opened or written; ELOOP: it is a link, whose target would be written to.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _try(fd, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise HeldError(path, _named(fd))
            time.sleep(0.05)
        os.pwrite(fd, f"{os.getpid():<19d}\n".encode(), 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def holder(path: str) -> str | None:
    """Return who holds the lock file at ``path``, None where nobody does or it is not there.

    It takes a shared lock for a moment, so that two who ask do not see each other.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
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
