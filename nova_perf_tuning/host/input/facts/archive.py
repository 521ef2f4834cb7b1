# SPDX-License-Identifier: Apache-2.0
"""A recorded host as one file (``nova-perf record``, or any tar of /proc and /sys), read without
unpacking it.

Nothing is written to disk, so no name or link in the archive can reach out of it. :mod:`tarfile`
reads the headers. The members are read here, since tarfile takes extended headers and sparse maps
of any size into memory.
"""

import bz2
import gzip
import lzma
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, Final, cast

from nova_perf_tuning.host.input.facts.root import VALUE_LIMIT, Directory, FactsError, Root

#: A directory of 1,024 CPUs, 2,048 interrupts and 512 guests has 160,000 members and 130 MB as a
#: tar file.
MAX_MEMBERS: Final = 300_000
MAX_BYTES: Final = 256 << 20
MAX_NAME: Final = 1024
MAX_PARTS: Final = 40
#: Headers before a member that hold its long name; nothing else in them is used.
_MAX_EXTENDED: Final = 16 << 10
_BLOCK: Final = tarfile.BLOCKSIZE
#: Links, directories and devices, which have no content whatever their header says.
_EMPTY: Final = frozenset(tarfile.SUPPORTED_TYPES).difference(
    tarfile.REGULAR_TYPES, tarfile.GNU_TYPES
)
#: Headers that hold a long name or target of the next member.
_EXTENDED: Final = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_BROKEN: Final = (
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
)

#: First bytes of a file -> what reads it.
_OPENERS: Final[Mapping[bytes, Callable[..., object]]] = {
    b"\xfd7zXZ": lzma.open,
    b"BZh": bz2.open,
    b"\x1f\x8b": gzip.open,
}

#: A file's content, a link's target, or the names in a directory.
Entry = bytes | str | set[str]


class ArchiveRoot(Root):
    """A recorded host in a tar file, plain or compressed by xz, bzip2 or gzip.

    One directory around ``sys`` and ``proc`` is looked through. Devices, FIFOs and hard links are
    left out.

    :raises FactsError: not such a file, damaged, or beyond the bounds of this module.
    """

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                magic = file.read(6)
            with _opened(path, magic) as stream:
                entries = dict(_members(stream))
            self._hold(_without_top(entries))
        except _BROKEN as error:
            reason = str(error).partition("\n")[0][:120] or type(error).__name__
            raise FactsError(
                f"sysroot {path!r}: no recorded host, or damaged ({reason})"
            ) from None

    def _hold(self, entries: dict[str, Entry]) -> None:
        """Become the root of ``entries`` by their paths; directories around them need not be among
        them.
        """
        super().__init__("archive")
        self._entries: dict[str, Entry] = {"": set()}
        for path, entry in entries.items():
            if not (isinstance(entry, set) and path in self._entries):
                self._entries[path] = entry
            while path:
                path, _, name = path.rpartition("/")
                names = self._entries.get(path)
                if isinstance(names, set) and name in names:
                    break
                if not isinstance(names, set):
                    names = self._entries[path] = set()
                names.add(name)
            if len(self._entries) > MAX_MEMBERS:
                raise ValueError(f"more than {MAX_MEMBERS} files and directories")

    def _kind(self, path: str) -> int:
        entry = self._entries.get(path)
        if entry is None:
            return 0
        if isinstance(entry, bytes):
            return stat.S_IFREG
        if isinstance(entry, str):
            return stat.S_IFLNK
        return stat.S_IFDIR

    def _target(self, path: str) -> str:
        entry = self._entries.get(path)
        if isinstance(entry, str):
            return entry
        return ""

    def names(self, directory: Directory | None) -> list[str]:
        if directory is None:
            return []
        entry = self._entries.get(directory)
        if isinstance(entry, set):
            return sorted(entry)
        return []

    def names_in_each(self, directory: Directory | None, names: Sequence[str]) -> list[list[str]]:
        found: list[list[str]] = []
        for name in names:
            place = None
            if directory is not None:
                place = Directory(f"{directory}/{name}")
            found.append(self.names(place))
        return found

    def directories(self, directory: Directory | None) -> list[str]:
        found: list[str] = []
        for name in self.names(directory):
            if isinstance(self._entries.get(f"{directory}/{name}"), set):
                found.append(name)
        return found

    def each(
        self, directory: Directory | None, names: Sequence[str], limit: int = VALUE_LIMIT
    ) -> list[bytes | None]:
        if directory is None:
            return [None] * len(names)
        return [self._value(None, directory, name, limit) for name in names]

    def _value(
        self, base: int | None, directory: Directory, name: str, limit: int, whole: bool = True
    ) -> bytes | None:
        entry = self._entries.get(f"{directory}/{name}")
        if isinstance(entry, str):
            entry = self._entries.get(self._resolve(f"{directory}/{name}") or "")
        if not isinstance(entry, bytes):
            return None
        if len(entry) <= limit:
            return entry
        return self._cut(entry, limit, whole, directory, name)


def _opened(path: str, magic: bytes) -> BinaryIO:
    """Return the content of a file as a stream, decompressed as its first bytes say."""
    opener: Callable[..., object] = open
    for start, compressed in _OPENERS.items():
        if magic.startswith(start):
            opener = compressed
    return cast(BinaryIO, opener(path, "rb"))


def _without_top(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Return the entries below the one directory around ``sys`` and ``proc``, all where there is
    none.
    """
    tops = {name.partition("/")[0] for name in entries}
    if len(tops) != 1 or tops & {"sys", "proc"}:
        return entries
    around = f"{tops.pop()}/"
    below: dict[str, Entry] = {}
    for name, entry in entries.items():
        if name.startswith(around):
            below[name.removeprefix(around)] = entry
    return below


def _members(stream: BinaryIO) -> Iterator[tuple[str, Entry]]:
    """Yield path and content of each file, link and directory, while what was read stays within
    the bounds.
    """
    budget = MAX_BYTES
    long: dict[str, str] = {}
    while True:
        header = stream.read(_BLOCK)
        if not header.strip(b"\0"):
            return
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        extended = member.type in _EXTENDED
        size = 0 if member.type in _EMPTY else member.size
        budget -= _BLOCK + size
        beyond = budget < 0 or (extended and size > _MAX_EXTENDED)
        if size < 0 or beyond:
            raise ValueError(f"more than {MAX_BYTES >> 20} MiB, or names beyond all measure")
        content = stream.read(size)
        padding = -size % _BLOCK
        if len(content) < size or len(stream.read(padding)) < padding:
            raise EOFError("it ends in the middle")
        if extended:
            long |= _long(member.type, content)
            continue
        name, target = long.get("path", member.name), long.get("linkpath", member.linkname)
        long = {}
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if len(name) > MAX_NAME or len(target) > MAX_NAME or len(parts) > MAX_PARTS:
            raise ValueError(f"a name has more than {MAX_NAME} bytes or {MAX_PARTS} parts")
        if not parts or ".." in parts:
            continue
        path = "/".join(parts)
        if member.isreg() and member.type != tarfile.GNUTYPE_SPARSE:
            yield path, content
        elif member.issym():
            yield path, target
        elif member.isdir():
            yield path, set()


def _long(kind: bytes, content: bytes) -> dict[str, str]:
    """Return the long ``path`` or ``linkpath`` of the next member that an extended header holds."""
    names: dict[str, bytes] = {}
    if kind == tarfile.GNUTYPE_LONGNAME:
        names["path"] = content.rstrip(b"\0")
    elif kind == tarfile.GNUTYPE_LONGLINK:
        names["linkpath"] = content.rstrip(b"\0")
    elif kind != tarfile.XGLTYPE:
        for record in content.split(b"\n"):  # "30 path=NAME"
            key, _, value = record.partition(b" ")[2].partition(b"=")
            names[key.decode("ascii", "replace")] = value
    found: dict[str, str] = {}
    for name in ("path", "linkpath"):
        if name in names:
            found[name] = names[name].decode("utf-8", "surrogateescape")
    return found
