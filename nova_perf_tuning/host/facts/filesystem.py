"""Roots in a file system: the live host and a recorded one in a directory, and how links stay inside a record.

The number of files is what reading a host costs (about 3 us each), hence plain ``os.open``, ``os.read`` and
``os.close``, and no look before the leap.
"""

from __future__ import annotations

import abc
import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.host.facts.root import VALUE_LIMIT, Folder, Root

_CHUNK: Final = 4096
_LINK_LIMIT: Final = 40  # as the kernel's MAXSYMLINKS
_LIVE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC
# Without O_NONBLOCK opening a FIFO waits for its writer; without O_NOFOLLOW a link leads out of the root.
_RECORDED_FLAGS: Final = _LIVE_FLAGS | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY


def _drain(descriptor: int, data: bytes, limit: int) -> bytes:
    """Read on after a full first chunk, up to one byte more than ``limit``."""
    parts = [data]
    size = len(data)
    while data and size <= limit:
        data = os.read(descriptor, min(1 << 20, limit + 1 - size))
        parts.append(data)
        size += len(data)
    return b"".join(parts)


class _FileRoot(Root):
    """What the live host and a directory share: files of a file system below a prefix."""

    _prefix = "/"
    _flags = _LIVE_FLAGS

    def read(self, folder: Folder | None, name: str, limit: int = VALUE_LIMIT) -> bytes | None:
        if folder is None:
            return None
        try:
            descriptor = os.open(f"{self._prefix}{folder}/{name}", self._flags)
        except OSError as error:
            return self._refused(error, folder, name, limit)
        except UnicodeError:  # a guest's name in a locale whose files cannot have it
            return None
        try:
            # A value of sysfs and a record of /proc come in one piece; only a full chunk can have more behind it.
            data = os.read(descriptor, _CHUNK)
            return data if len(data) < _CHUNK else self._rest(descriptor, data, folder, name, limit)
        except OSError:  # EINVAL: speed of a NIC that is down; EIO, EOPNOTSUPP: the driver has no answer
            return None
        finally:
            os.close(descriptor)

    def _rest(self, descriptor: int, data: bytes, folder: Folder, name: str, limit: int) -> bytes | None:
        data = _drain(descriptor, data, limit)
        if len(data) > limit:
            self.notes.add("too long, not read", f"{folder}/{name}")
            return None
        return data

    def each(self, folder: Folder | None, names: Sequence[str], limit: int = VALUE_LIMIT) -> list[bytes | None]:
        if folder is None or not names:
            return [None] * len(names)
        base = self._open_folder(folder)
        if base is None:
            return [None] * len(names)
        try:
            return self._read_all(base, folder, names, limit)
        finally:
            os.close(base)

    def inside(self, folder: Folder | None, file: str) -> list[tuple[str, bytes | None]]:
        base = None if folder is None else self._open_folder(folder)
        if base is None or folder is None:
            return []
        try:
            names = self._folders_of(base)
            return list(
                zip(names, self._read_all(base, folder, [f"{name}/{file}" for name in names]), strict=True)
            )
        except OSError:
            return []
        finally:
            os.close(base)

    def _open_folder(self, folder: Folder) -> int | None:
        try:
            return os.open(self._prefix + folder, self._flags | os.O_DIRECTORY)
        except OSError as error:
            self._refused(error, folder, ".", 0)
            return None

    def _folders_of(self, place: int | str) -> list[str]:
        """Return the names that :meth:`folders` gives, of a path or an open folder."""
        return os.listdir(place)

    def _read_all(
        self, base: int, folder: Folder, names: Sequence[str], limit: int = VALUE_LIMIT
    ) -> list[bytes | None]:
        # Written out, names bound, no path before ``folder``: this loop is most of what reading a host costs.
        opened, read, close, flags, chunk = os.open, os.read, os.close, self._flags, _CHUNK
        found: list[bytes | None] = []
        keep = found.append
        for name in names:
            try:
                descriptor = opened(name, flags, dir_fd=base)
            except OSError as error:
                keep(self._refused(error, folder, name, limit))
                continue
            try:
                data = read(descriptor, chunk)
                keep(data if len(data) < chunk else self._rest(descriptor, data, folder, name, limit))
            except OSError:
                keep(None)
            finally:
                close(descriptor)
        return found

    def head(self, folder: Folder | None, name: str, size: int) -> bytes:
        if folder is None:
            return b""
        try:
            descriptor = os.open(f"{self._prefix}{folder}/{name}", self._flags)
        except OSError:
            return b""
        try:
            return _drain(descriptor, os.read(descriptor, size), size)[:size]
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def _refused(self, error: OSError, folder: Folder, name: str, limit: int) -> bytes | None:
        if error.errno in (errno.EACCES, errno.EPERM):
            self.notes.add("no permission to read (run as root)", f"{folder}/{name}")
        return None

    def names(self, folder: Folder | None) -> list[str]:
        if folder is None:
            return []
        try:
            return os.listdir(self._prefix + folder)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                self.notes.add("no permission to list (run as root)", folder)
            return []

    def count(self, folder: Folder | None) -> int | None:
        try:
            state = None if folder is None else os.lstat(self._prefix + folder)
        except OSError:
            return None
        if state is None or not stat.S_ISDIR(state.st_mode) or state.st_nlink < 2:
            return None
        return state.st_nlink - 2

    def has(self, folder: Folder | None, name: str) -> bool:
        return folder is not None and os.access(f"{self._prefix}{folder}/{name}", os.F_OK, follow_symlinks=False)

    def link(self, folder: Folder | None, name: str) -> str | None:
        if folder is None:
            return None
        try:
            return os.readlink(f"{self._prefix}{folder}/{name}").rstrip("/").rpartition("/")[2]
        except OSError:
            return None


class LiveRoot(_FileRoot):
    """The running host. The kernel made its links, so they are followed as they are."""

    live = True

    def folder(self, path: str) -> Folder | None:
        return Folder(path)

    def child(self, folder: Folder | None, name: str) -> Folder | None:
        return None if folder is None else Folder(f"{folder}/{name}")

    def canonical(self, folder: Folder | None, name: str) -> Folder | None:
        if folder is None:
            return None
        try:
            target = os.readlink(f"/{folder}/{name}")
        except OSError:
            return Folder(f"{folder}/{name}")
        # The links of sysfs go straight to a device's folder, never over another link.
        return Folder(os.path.normpath(os.path.join("/", folder, target)).lstrip("/"))

    def folders(self, folder: Folder | None) -> list[str]:
        return self.names(folder)


class RecordedRoot(Root):
    """What a recorded directory and an archive share: links are resolved inside the root."""

    def __init__(self) -> None:
        super().__init__()
        self._resolved: dict[str, Folder | None] = {"": Folder("")}

    @abc.abstractmethod
    def _is_link(self, path: str) -> bool | None:
        """True for a link, False for a folder, None for anything else and what is not there."""

    @abc.abstractmethod
    def _target(self, path: str) -> str:
        """Return where the link at ``path`` points to; empty when that cannot be read."""

    def folder(self, path: str) -> Folder | None:
        return self._walk(Folder(""), path, [_LINK_LIMIT])

    def child(self, folder: Folder | None, name: str) -> Folder | None:
        return None if folder is None else self._step(folder, name, [_LINK_LIMIT])

    def canonical(self, folder: Folder | None, name: str) -> Folder | None:
        return self.child(folder, name)

    def _walk(self, start: Folder, path: str, budget: list[int]) -> Folder | None:
        here: Folder | None = start
        for part in path.split("/"):
            if part in ("", "."):
                continue
            if part == "..":
                here = Folder(here.rpartition("/")[0])  # type: ignore[union-attr]  # never above the root: ""
            else:
                here = self._step(here, part, budget)  # type: ignore[arg-type]
            if here is None:
                return None
        return here

    def _step(self, folder: Folder, name: str, budget: list[int]) -> Folder | None:
        path = f"{folder}/{name}" if folder else name
        try:
            return self._resolved[path]
        except KeyError:
            pass
        found: Folder | None = None
        is_link = self._is_link(path)
        if is_link is False:
            found = Folder(path)
        elif is_link:
            budget[0] -= 1
            if budget[0] < 0:
                self.notes.add("links in a circle", path)
                return None
            target = self._target(path)
            if target:
                found = self._walk(Folder("") if target.startswith("/") else folder, target, budget)
        self._resolved[path] = found
        return found


class DirectoryRoot(RecordedRoot, _FileRoot):
    """A recorded host as a directory tree."""

    _flags = _RECORDED_FLAGS

    def __init__(self, path: str) -> None:
        super().__init__()
        self._prefix = path.rstrip("/") + "/"

    def _is_link(self, path: str) -> bool | None:
        try:
            mode = os.lstat(self._prefix + path).st_mode
        except OSError:
            return None
        return True if stat.S_ISLNK(mode) else False if stat.S_ISDIR(mode) else None

    def _target(self, path: str) -> str:
        try:
            return os.readlink(self._prefix + path)
        except OSError:
            return ""

    def folders(self, folder: Folder | None) -> list[str]:
        try:
            return [] if folder is None else self._folders_of(self._prefix + folder)
        except OSError:
            return []

    def _folders_of(self, place: int | str) -> list[str]:
        with os.scandir(place) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def _refused(self, error: OSError, folder: Folder, name: str, limit: int) -> bytes | None:
        if error.errno == errno.ELOOP and limit:
            inner, _, name = name.rpartition("/")
            start = Folder(f"{folder}/{inner}") if inner else folder, name
            place = self._file_behind(*start)
            if place == start:  # it is no link itself: those in a circle are above it
                self.notes.add("links in a circle", f"{folder}/{name}")
                return None
            return None if place is None else self.read(*place, limit)
        return super()._refused(error, folder, name, limit)

    def _file_behind(self, folder: Folder, name: str) -> tuple[Folder, str] | None:
        """Follow a link to a file inside the root."""
        for _ in range(_LINK_LIMIT):
            target = self._target(f"{folder}/{name}")
            if not target:
                return folder, name
            start, _, name = target.rpartition("/")
            place = self._walk(Folder("") if target.startswith("/") else folder, start, [_LINK_LIMIT])
            if place is None or name in ("", ".", ".."):
                return None
            folder = place
        self.notes.add("links in a circle", f"{folder}/{name}")
        return None
