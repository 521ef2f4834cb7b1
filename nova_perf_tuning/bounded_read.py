# SPDX-License-Identifier: Apache-2.0
"""The one bounded reader: files of others, without waiting for anybody and no more of them than expected.

Small kernel files are read with as few system calls as there can be: there are tens of thousands
of them.
"""

import contextlib
import errno
import functools
import os
import stat
import sys
from collections.abc import Iterable, Iterator

#: O_NONBLOCK: a named pipe in a recorded host must not stop us; it changes nothing for kernel
#: files.
_CAREFUL = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KERNEL_FLAGS = os.O_RDONLY | _CAREFUL
#: One page is what sysfs gives; a mask of 65536 CPUs needs 18 KB, a task's status file 2 KB.
_KERNEL_LIMIT = 65536
_PAGE = 4096
#: The files of an SQLite database: itself, its log with an index, or the journal of its
#: transaction.
SQLITE_SUFFIXES = ("", "-wal", "-shm", "-journal")


def open_plain(
    path: str | os.PathLike[str],
    flags: int = os.O_RDONLY,
    *,
    dir_fd: int | None = None,
    inside: str = "",
    links: bool = True,
) -> int:
    """Return a descriptor of a plain file; nothing of another type is ever opened.

    O_PATH finds the file without opening it: opening alone would start a watchdog, rewind a tape
    or wait for the writer of a pipe. What was found is checked and then opened itself, so that
    nothing can be swapped in between.

    :param inside: a directory that the file must be in, all links followed; empty: it may be
        anywhere.
    :param links: whether the last part of the path may be a link.
    :raises OSError: it cannot be opened; ELOOP: it is a link or leads out; EISDIR, EINVAL: it is
        no plain file.
    """
    finding = os.O_PATH | os.O_CLOEXEC
    if not links:
        finding |= os.O_NOFOLLOW
    try:
        found = os.open(path, finding, dir_fd=dir_fd)
    except ValueError as error:  # a NUL in it, or what the locale cannot encode
        raise OSError(errno.EINVAL, str(error)) from None
    try:
        check_open(found, os.fspath(path), inside)
        check_plain(os.fstat(found).st_mode)
        return os.open(f"/proc/self/fd/{found}", flags | _CAREFUL)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        os.close(found)


def check_plain(mode: int) -> None:
    """Refuse what is no plain file by its ``st_mode``.

    :raises OSError: EISDIR; ELOOP: a link; EINVAL: a device, a pipe or a socket.
    """
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFDIR:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind == stat.S_IFLNK:
        raise OSError(errno.ELOOP, "it is a symbolic link")
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, "it is not a plain file")


def check_open(descriptor: int, path: str, inside: str) -> None:
    """Refuse an open file or directory that is neither ``inside`` nor in it; empty: it may be anywhere.

    :raises OSError: ELOOP; ``path`` is how it was found.
    """
    if not inside:
        return
    top = _real(inside)
    place = os.readlink(f"/proc/self/fd/{descriptor}")
    if place != top and not place.startswith(f"{top}/"):
        raise OSError(errno.ELOOP, f"{path} leads out of {inside}")


def read_text(
    path: str | os.PathLike[str],
    limit: int,
    *,
    dir_fd: int | None = None,
    inside: str = "",
    links: bool = True,
) -> str:
    """Return the text of a plain file of at most ``limit`` bytes.

    :param inside: see :func:`open_plain`, as for ``dir_fd`` and ``links``.
    :raises OSError: it cannot be read, is no plain file (EINVAL), larger (EFBIG) or not UTF-8
        (EILSEQ); ``strerror`` says which.
    """
    with open(open_plain(path, dir_fd=dir_fd, inside=inside, links=links), "rb") as file:
        data = _bounded(file.read(limit + 1), limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text (byte {error.start})") from None


def read_argument(path: str, limit: int) -> bytes:
    """Return what an argument of a command names: a plain file, a pipe as of ``<(...)``, or ``-``, standard input.

    A pipe is waited for while somebody has it open for writing.

    :raises OSError: as :func:`read_text`, and not for what it holds.
    """
    if path == "-":
        return _bounded(sys.stdin.buffer.read(limit + 1), limit)
    try:
        file = open(path, "rb", opener=_opened)  # takes care of the descriptor of a directory too
    except ValueError as error:  # a NUL in it, or what the locale cannot encode
        raise OSError(errno.EINVAL, str(error)) from None
    with file:
        os.set_blocking(file.fileno(), True)
        return _bounded(file.read(limit + 1), limit)


def _opened(path: str, flags: int) -> int:
    """Open a FIFO without waiting for a writer, and a terminal without making it that of the process."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _bounded(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        size = f"{limit >> 10} KiB"
        if limit >= 1 << 20:
            size = f"{limit >> 20} MiB"
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
    """Return the first page of each file, relative to ``directory``; empty where it cannot be read.

    On the live host they are files of /proc and /sys: a target is checked by its pattern, so that no part of a
    path that comes from outside leads anywhere else. A stat of each file would cost a quarter of reading it.
    """
    try:
        dir_fd = os.open(f"{prefix}{directory}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return [b"" for _path in paths]
    pages = []
    for path in paths:
        try:
            if prefix:
                page = _recorded_page(prefix, directory, path, dir_fd)
            else:
                page = kernel_bytes(path, dir_fd, _PAGE)
        except (OSError, ValueError):  # ValueError: a NUL in it
            page = b""
        pages.append(page)
    os.close(dir_fd)
    return pages


def _recorded_page(prefix: str, directory: str, path: str, dir_fd: int) -> bytes:
    """Return the first page of one of very many files below ``prefix``, in ``directory``, which is ``dir_fd``.

    They have names that only the kernel gives, so a look beforehand is enough where
    :func:`open_plain` finds a file by O_PATH: no device elsewhere is called so. A link or a pipe
    that comes later is not followed, or not waited for.

    :raises OSError: as :func:`recorded_bytes`.
    """
    if not _is_plain_inside(prefix, directory, path):
        return recorded_bytes(prefix, f"{directory}/{path}", _PAGE)
    descriptor = os.open(path, _KERNEL_FLAGS | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        return os.read(descriptor, _PAGE)
    finally:
        os.close(descriptor)


@functools.lru_cache(maxsize=1 << 14)
def _is_plain_inside(prefix: str, directory: str, path: str) -> bool:
    """Whether a path is a plain file, and its directory inside ``prefix``, when it is first looked at.

    An agent reads the same files every minute; those of the live host need no look at all.
    """
    file = f"{prefix}{directory}/{path}"
    above = os.path.dirname(file)
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            return False
        found = os.open(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        check_open(found, above, prefix)
    except OSError:
        return False
    finally:
        os.close(found)
    return True


def kernel_text(prefix: str, path: str) -> str:
    """Return the text of a kernel file below ``prefix`` ("" is the live host) without its newline.

    :raises OSError: it cannot be opened or read; ELOOP: a link of a sysroot leads out of it.
    """
    if prefix:
        data = recorded_bytes(prefix, path)
    else:
        data = kernel_bytes(path)
    return data.decode("ascii", "replace").strip()


def recorded_bytes(prefix: str, path: str, limit: int = _KERNEL_LIMIT) -> bytes:
    """Return the first ``limit`` bytes of a plain file below ``prefix``, which a stranger may have made.

    :raises OSError: it cannot be opened or read; ELOOP: a link leads out of it; EINVAL: it is no
        plain file.
    """
    descriptor = open_plain(f"{prefix}{path}", inside=prefix)
    try:
        return os.read(descriptor, limit)
    finally:
        os.close(descriptor)


@functools.lru_cache(maxsize=8)
def _real(prefix: str) -> str:
    return os.path.realpath(prefix)


def sqlite_files(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the SQLite database at ``path`` and the files beside it, as far as they are there, and their status.

    SQLite follows links, waits for pipes and makes what is not there: look before it opens them.
    """
    for suffix in SQLITE_SUFFIXES:
        file = f"{path}{suffix}"
        with contextlib.suppress(FileNotFoundError):
            yield file, os.lstat(file)


def check_inside(prefix: str, path: str) -> None:
    """Refuse a path of a sysroot whose links lead out of it.

    :raises OSError: ELOOP.
    """
    if prefix and not os.path.realpath(f"{prefix}{path}").startswith(
        f"{os.path.realpath(prefix)}/"
    ):
        raise OSError(errno.ELOOP, f"{path} leads out of {prefix}")
