"""Bounded reads of small kernel files, with as few system calls as there can be."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Iterable

#: O_NONBLOCK: a named pipe in a stranger's recording must not stop us; it changes nothing for kernel files.
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
FOLDER = READ | os.O_DIRECTORY

#: One page is what sysfs gives; a mask of 65536 CPUs needs 18 KB, a task's status file 2 KB.
LIMIT = 65536
PAGE = 4096


def read_bytes(path: str, dir_fd: int | None = None, limit: int = LIMIT) -> bytes:
    """Return the first ``limit`` bytes of a file.

    :raises OSError: it cannot be opened or read.
    """
    fd = os.open(path, READ, dir_fd=dir_fd)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def read_many(directory: str, paths: Iterable[str]) -> list[bytes]:
    """Return the first page of each file, relative to ``directory``; empty where it cannot be read."""
    try:
        folder = os.open(directory, FOLDER)
    except OSError:
        return [b"" for _path in paths]
    found = []
    for path in paths:
        try:
            found.append(read_bytes(path, folder, PAGE))
        except OSError:
            found.append(b"")
    os.close(folder)
    return found


def read_text(prefix: str, path: str) -> str:
    """Return the text of a kernel file below ``prefix`` ("" is the live host) without its newline.

    :raises OSError: it cannot be opened or read; ELOOP: a link of a sysroot leads out of it.
    """
    fd = os.open(f"{prefix}{path}", READ)
    try:
        # Asked of what is open: half the cost of walking the path, and nothing can be swapped in between.
        if prefix and not os.readlink(f"/proc/self/fd/{fd}").startswith(f"{_real(prefix)}/"):
            raise OSError(errno.ELOOP, f"{path} leads out of {prefix}")
        return os.read(fd, LIMIT).decode("ascii", "replace").strip()
    finally:
        os.close(fd)


@functools.lru_cache(maxsize=8)
def _real(prefix: str) -> str:
    return os.path.realpath(prefix)


def check_inside(prefix: str, path: str) -> None:
    """Refuse a path of a sysroot whose links lead out of it: it is somebody else's record.

    :raises OSError: ELOOP.
    """
    if prefix and not os.path.realpath(f"{prefix}{path}").startswith(f"{os.path.realpath(prefix)}/"):
        raise OSError(errno.ELOOP, f"{path} leads out of {prefix}")
