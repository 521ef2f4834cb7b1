# SPDX-License-Identifier: Apache-2.0
"""The one bounded reader: files of others, without waiting for anybody and no more of them than expected.

Small kernel files are read with as few system calls as there can be: there are tens of thousands of them.
"""

import errno
import functools
import os
import stat
import sys
from collections.abc import Iterable

#: O_NONBLOCK: a named pipe in a recorded host must not stop us; it changes nothing for kernel files.
_KERNEL_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
#: One page is what sysfs gives; a mask of 65536 CPUs needs 18 KB, a task's status file 2 KB.
_KERNEL_LIMIT = 65536
_PAGE = 4096


def read_text(path: str | os.PathLike[str], limit: int) -> str:
    """Return the text of a plain file of at most ``limit`` bytes.

    :raises OSError: it cannot be read, is no plain file (EINVAL), larger (EFBIG) or not UTF-8 (EILSEQ);
        ``strerror`` says which.
    """
    try:
        return _read(path, limit, pipes=False).decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text (byte {error.start})") from None


def read_argument(path: str, limit: int) -> bytes:
    """Return what an argument of a command names: a plain file, a pipe as of ``<(...)``, or ``-``, standard input.

    A pipe is waited for while somebody has it open for writing.

    :raises OSError: as :func:`read_text`, and not for what it holds.
    """
    if path == "-":
        return _bounded(sys.stdin.buffer.read(limit + 1), limit)
    return _read(path, limit, pipes=True)


def _read(path: str | os.PathLike[str], limit: int, pipes: bool) -> bytes:
    try:
        file = open(path, "rb", opener=_opened)  # takes care of the descriptor of a directory too
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


def kernel_bytes(path: str, dir_fd: int | None = None, limit: int = _KERNEL_LIMIT) -> bytes:
    """Return the first ``limit`` bytes of a file.

    :raises OSError: it cannot be opened or read.
    """
    fd = os.open(path, _KERNEL_FLAGS, dir_fd=dir_fd)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def kernel_pages(prefix: str, directory: str, paths: Iterable[str]) -> list[bytes]:
    """Return the first page of each file, relative to ``directory``; empty where it cannot be read."""
    if prefix:
        return [_recorded_page(prefix, f"{directory}/{path}") for path in paths]
    try:
        dir_fd = os.open(directory, _KERNEL_FLAGS | os.O_DIRECTORY)
    except OSError:
        return [b"" for _path in paths]
    pages = []
    for path in paths:
        try:
            pages.append(kernel_bytes(path, dir_fd, _PAGE))
        except OSError:
            pages.append(b"")
    os.close(dir_fd)
    return pages


def _recorded_page(prefix: str, path: str) -> bytes:
    try:
        return recorded_bytes(prefix, path, _PAGE)
    except OSError:
        return b""


def kernel_text(prefix: str, path: str) -> str:
    """Return the text of a kernel file below ``prefix`` ("" is the live host) without its newline.

    :raises OSError: it cannot be opened or read; ELOOP: a link of a sysroot leads out of it.
    """
    data = recorded_bytes(prefix, path) if prefix else kernel_bytes(path)
    return data.decode("ascii", "replace").strip()


def recorded_bytes(prefix: str, path: str, limit: int = _KERNEL_LIMIT) -> bytes:
    """Return the first ``limit`` bytes of a plain file below ``prefix``, which a stranger may have made.

    O_PATH finds the file without opening it: opening alone would start a watchdog or rewind a tape. What was found
    is checked and then opened itself, so that nothing can be swapped in between.

    :raises OSError: it cannot be opened or read; ELOOP: a link leads out of it; EINVAL: it is no plain file.
    """
    found = os.open(f"{prefix}{path}", os.O_PATH | os.O_CLOEXEC)
    try:
        same = f"/proc/self/fd/{found}"
        if not os.readlink(same).startswith(f"{_real(prefix)}/"):
            raise OSError(errno.ELOOP, f"{path} leads out of {prefix}")
        kind = stat.S_IFMT(os.fstat(found).st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if kind != stat.S_IFREG:
            raise OSError(errno.EINVAL, f"{path} is not a plain file")
        return kernel_bytes(same, limit=limit)
    finally:
        os.close(found)


@functools.lru_cache(maxsize=8)
def _real(prefix: str) -> str:
    return os.path.realpath(prefix)


def check_inside(prefix: str, path: str) -> None:
    """Refuse a path of a sysroot whose links lead out of it.

    :raises OSError: ELOOP.
    """
    if prefix and not os.path.realpath(f"{prefix}{path}").startswith(f"{os.path.realpath(prefix)}/"):
        raise OSError(errno.ELOOP, f"{path} leads out of {prefix}")
