"""A recorded host as one file (``nova-perf record``, or any tar of /proc and /sys), read without unpacking it.

Nothing is written to disk, so no name or link in the archive can reach out of it; members are counted and sized
before their content is taken.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Sequence
from typing import BinaryIO, Final, cast

from nova_perf_tuning.host.facts.filesystem import RecordedRoot
from nova_perf_tuning.host.facts.root import VALUE_LIMIT, FactsError, Folder

#: A recording of 1,024 CPUs, 2,048 interrupts and 512 guests has 50,000 members and 20 MB.
MAX_MEMBERS: Final = 1_000_000
MAX_BYTES: Final = 512 << 20
_MAX_LINKS: Final = 40
_BROKEN: Final = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError, OverflowError)


class ArchiveRoot(RecordedRoot):
    """A recorded host in a tar file, plain or compressed by xz, bzip2 or gzip.

    One folder around ``sys`` and ``proc`` is looked through. Devices, FIFOs and hard links are left out.

    :raises FactsError: not such a file, damaged, or beyond the bounds of this module.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._folders: dict[str, set[str]] = {"": set()}
        try:
            with _decompressed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
                self._take(archive, path)
        except _BROKEN as error:
            raise FactsError(f"sysroot {path!r}: not a recording, or damaged ({_reason(error)})") from None
        self._top = ""
        if len(self._folders[""]) == 1 and not self._folders[""] & {"sys", "proc"}:
            (top,) = self._folders[""]
            if top in self._folders:
                self._top = top + "/"

    def _take(self, archive: tarfile.TarFile, path: str) -> None:
        total = 0
        for count, member in enumerate(archive):
            archive.members = []  # type: ignore[attr-defined]  # else a stream keeps every header in memory
            total += max(member.size, 0)
            if count >= MAX_MEMBERS or total > MAX_BYTES:
                raise FactsError(
                    f"sysroot {path!r}: more than {MAX_MEMBERS} members or {MAX_BYTES >> 20} MiB, not read"
                )
            parts = [part for part in member.name.split("/") if part not in ("", ".")]
            if not parts or ".." in parts:
                continue
            name = "/".join(parts)
            if member.isdir():
                self._folders.setdefault(name, set())
            elif member.issym():
                self._links[name] = member.linkname
            elif member.isreg():
                content = archive.extractfile(member)
                self._files[name] = b"" if content is None else content.read(member.size)
            else:
                continue
            for index in range(len(parts)):
                self._folders.setdefault("/".join(parts[:index]), set()).add(parts[index])

    def _is_link(self, path: str) -> bool | None:
        path = self._top + path
        return True if path in self._links else False if path in self._folders else None

    def _target(self, path: str) -> str:
        return self._links.get(self._top + path, "")

    def folders(self, folder: Folder | None) -> list[str]:
        return [name for name in self.names(folder) if f"{self._top}{folder}/{name}" not in self._links]

    def each(self, folder: Folder | None, names: Sequence[str], limit: int = VALUE_LIMIT) -> list[bytes | None]:
        if folder is None:
            return [None] * len(names)
        places = (name.rpartition("/") for name in names)
        return [
            self.read(Folder(f"{folder}/{inner}") if inner else folder, name, limit) for inner, _, name in places
        ]

    def inside(self, folder: Folder | None, file: str) -> list[tuple[str, bytes | None]]:
        return [(name, self.read(Folder(f"{folder}/{name}"), file)) for name in self.folders(folder)]

    def names(self, folder: Folder | None) -> list[str]:
        return [] if folder is None else sorted(self._folders.get(self._top + folder, ()))

    def count(self, folder: Folder | None) -> int | None:
        return len(self.folders(folder)) if self._is_link(folder or "") is False else None

    def has(self, folder: Folder | None, name: str) -> bool:
        return folder is not None and name in self._folders.get(self._top + folder, ())

    def link(self, folder: Folder | None, name: str) -> str | None:
        target = "" if folder is None else self._target(f"{folder}/{name}")
        return target.rstrip("/").rpartition("/")[2] or None

    def read(self, folder: Folder | None, name: str, limit: int = VALUE_LIMIT) -> bytes | None:
        for _ in range(_MAX_LINKS):
            if folder is None:
                return None
            path = f"{self._top}{folder}/{name}"
            if path not in self._links:
                break
            start, _, name = self._links[path].rpartition("/")
            folder = self._walk(Folder("") if self._links[path].startswith("/") else folder, start, [_MAX_LINKS])
        data = self._files.get(path)
        if data is not None and len(data) > limit:
            self.notes.add("too long, not read", f"{folder}/{name}")
            return None
        return data

    def head(self, folder: Folder | None, name: str, size: int) -> bytes:
        return (self.read(folder, name, MAX_BYTES) or b"")[:size]


def _decompressed(path: str) -> BinaryIO:
    """Open ``path`` by its first bytes; tarfile's own way copies all that is left for every member it reads."""
    with open(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\xfd7zXZ"):
        return cast(BinaryIO, lzma.open(path))
    if magic.startswith(b"BZh"):
        return cast(BinaryIO, bz2.open(path))
    return cast(BinaryIO, gzip.open(path)) if magic.startswith(b"\x1f\x8b") else open(path, "rb")


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
