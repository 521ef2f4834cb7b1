# SPDX-License-Identifier: Apache-2.0
"""Files that a command writes: none of them is one that it reads, or another one that it writes."""

import os
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
    taken: set[_Identity] = set()
    for path in read:
        if path:
            taken.add(_identity_of_input(path))
    outputs: set[_Identity] = set()
    for path in written:
        if not path:
            continue
        identity = _identity(path)
        if identity in taken:
            raise atomic_write.OutputError(f"{path}: this command reads that file; give another one")
        if identity in outputs:
            raise atomic_write.OutputError(f"{path}: this command writes that file twice; give another one")
        outputs.add(identity)


def _identity_of_input(path: str) -> _Identity:
    if path == "-":
        try:
            status = os.fstat(sys.stdin.fileno())
        except (AttributeError, OSError):  # standard input is closed or no file
            return path
        return status.st_dev, status.st_ino
    return _identity(path)


def _identity(path: str) -> _Identity:
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
