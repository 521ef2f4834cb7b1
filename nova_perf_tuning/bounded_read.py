"""The one bounded reader: files of others, without waiting for anybody and no more of them than expected."""

from __future__ import annotations

import errno
import os
import stat
import sys


def read(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the content of a plain file of at most ``limit`` bytes.

    :raises OSError: it cannot be read, is no plain file (EINVAL), or is larger (EFBIG); ``strerror`` says which.
    """
    return _read(path, limit, pipes=False)


def read_text(path: str | os.PathLike[str], limit: int) -> str:
    """Return the content of a plain file as :func:`read` does, as text.

    :raises OSError: as :func:`read`, or it is not UTF-8 (EILSEQ).
    """
    try:
        return read(path, limit).decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text (byte {error.start})") from None


def read_argument(path: str, limit: int) -> bytes:
    """Return what an argument of a command names: a plain file, a pipe as of ``<(...)``, or ``-``, standard input.

    A pipe is waited for while somebody has it open for writing.

    :raises OSError: as :func:`read`.
    """
    if path == "-":
        return _bounded(sys.stdin.buffer.read(limit + 1), limit)
    return _read(path, limit, pipes=True)


def _read(path: str | os.PathLike[str], limit: int, pipes: bool) -> bytes:
    try:
        file = open(path, "rb", opener=_opened)  # takes care of the descriptor of a folder too
    except ValueError as error:  # a NUL in it, or what the locale cannot encode
        raise OSError(errno.EINVAL, str(error)) from None
    with file:
        if pipes:
            os.set_blocking(file.fileno(), True)
        elif not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file")
        return _bounded(file.read(limit + 1), limit)


def _opened(path: str, flags: int) -> int:
    """Open a FIFO without waiting for a writer, and a terminal without making it that of the process."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _bounded(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
        raise OSError(errno.EFBIG, f"it is larger than {size}")
    return data
