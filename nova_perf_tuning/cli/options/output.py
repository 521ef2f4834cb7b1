# SPDX-License-Identifier: Apache-2.0
"""Files that a command writes: none of them is one that it reads, or another one that it writes."""

import os
import stat
import sys
from collections.abc import Iterable

from nova_perf_tuning import atomic_write

#: What stands for a file: its device and inode, or the path of one that is not there yet.
_Identity = tuple[int, int] | str


def check(written: Iterable[str | None], read: Iterable[str | None]) -> None:
    """Refuse a file that the same command reads, or writes twice; call it before anything is written.

    :param written: paths of the output files; None and empty: there is none.
    :param read: paths of the files that are read, ``-`` is standard input; likewise.
    :raises OutputError: two of them are the same file.
    """
    inputs: set[_Identity] = set()
    for path in read:
        identity = _identity_of_input(path or "")
        if identity is not None:
            inputs.add(identity)
    outputs: set[_Identity] = set()
    for path in written:
        identity = _identity(path or "")
        if identity is None:
            continue
        if identity in inputs:
            raise atomic_write.OutputError(
                f"{path}: this command reads that file; give another one"
            )
        if identity in outputs:
            raise atomic_write.OutputError(
                f"{path}: this command writes that file twice; give another one"
            )
        outputs.add(identity)


def _identity_of_input(path: str) -> _Identity | None:
    if path != "-":
        return _identity(path)
    try:
        status = os.fstat(sys.stdin.fileno())
    except (AttributeError, OSError):  # standard input is closed or no file
        return None
    return _of_file(status)


def _identity(path: str) -> _Identity | None:
    """Return what stands for a file; None for no path, and for a device or a pipe, which keeps nothing."""
    if not path:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    except ValueError:  # a NUL in it: whoever opens it refuses it
        return path
    return _of_file(status)


def _of_file(status: os.stat_result) -> _Identity | None:
    if stat.S_ISREG(status.st_mode):
        return status.st_dev, status.st_ino
    return None
