# SPDX-License-Identifier: Apache-2.0
"""Output files that appear whole or not at all, and replace nothing but a file."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from nova_perf_tuning import bounded_read, errors


class OutputError(errors.PerfTuningError):
    """A file cannot be written there."""


def check(path: str) -> None:
    """Refuse a path where no file can be, or where a new file would replace something else than a file.

    :raises OutputError: a link, device, pipe, socket or directory has that name, or its directory is missing.
    """
    directory = os.path.dirname(os.path.abspath(path))
    if not path or not os.path.isdir(directory):
        raise OutputError(f"{path!r}: there is no directory {directory!r}; make it first")
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise OutputError(f"{path}: it exists and is not a regular file; give another name")


def make_directory(path: str) -> None:
    """Make a directory that everybody may read, whatever the umask; one that is there stays as it is."""
    if not os.path.isdir(path):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o755)  # noqa: S103  nova-compute and irqbalance read there


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
def writing(path: str) -> Iterator[BinaryIO]:
    """Give a file to write to; at the end of the block it gets the name ``path``, or goes if the block fails.

    :raises OutputError: as for :func:`check`.
    :raises OSError: the directory cannot be written or the disk is full; an old file is untouched.
    """
    check(path)
    directory, name = os.path.split(os.path.abspath(path))
    new = ""
    try:
        descriptor, new = tempfile.mkstemp(prefix=f".{name[:200]}.", dir=directory)
        with open(descriptor, "wb") as file:
            # By descriptor: whoever owns the directory could put a link in place of the name.
            os.fchmod(descriptor, 0o644)
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(new, path)
    except OSError as error:
        if error.filename not in (None, new):  # of something else that the block does
            raise
        raise OSError(error.errno, error.strerror, path) from None  # not the name of the temporary file
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


@contextlib.contextmanager
def changing(path: str) -> Iterator[None]:
    """Keep others who use this from changing the file at ``path`` between reading and writing it.

    The lock is an empty file beside it that stays; the kernel drops the lock with the process.
    """
    directory, name = os.path.split(os.path.abspath(path))
    with open(os.path.join(directory, f".{name[:200]}.lock"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
