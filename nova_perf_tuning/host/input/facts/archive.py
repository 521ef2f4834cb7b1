# SPDX-License-Identifier: Apache-2.0
"""A recorded host as one file (``nova-perf record``, a sosreport, or any tar of /proc and /sys),
read without unpacking it.

Nothing is written to disk, so no name or link in the archive can reach out of it. Headers and
members are read here: :mod:`tarfile` takes extended headers and sparse maps of any size into
memory, and to read a header it takes four times as long.
"""

import bz2
import dataclasses
import functools
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Final, cast

from nova_perf_tuning.host.input.facts.entries import MAX_MEMBERS, EntriesRoot
from nova_perf_tuning.host.input.facts.root import FactsError
from nova_perf_tuning.host.input.facts.unpacked import MAX_FILE, MAX_KEPT
from nova_perf_tuning.host.input.sosreport import kept
from nova_perf_tuning.host.input.sosreport.report import Entry

#: A directory of 1,024 CPUs, 2,048 interrupts and 512 guests has 160,000 members and 130 MB as a
#: tar file.
MAX_BYTES: Final = 256 << 20
#: A sosreport with all logs and journals has gigabytes, which are passed over.
MAX_REPORT: Final = 16 << 30
MAX_NAME: Final = 1024
MAX_PARTS: Final = 40
#: Headers before a member that hold its long name; nothing else in them is used.
_MAX_EXTENDED: Final = 16 << 10
_BLOCK: Final = tarfile.BLOCKSIZE
#: Memory for larger pieces comes from the kernel each time, and to clear it takes a fifth of all time.
_CHUNK: Final = 1 << 16
#: Fields of a header, by "ustar Interchange Format" of POSIX' pax.
_NAME: Final = slice(0, 100)
_SIZE: Final = slice(124, 136)
_CHECKSUM: Final = slice(148, 156)
_TYPE: Final = slice(156, 157)
_TARGET: Final = slice(157, 257)
_PREFIX: Final = slice(345, 500)
#: The checksum counts its own field as so many blanks.
_BLANK: Final = 8 * ord(" ")
#: Members with a content that is one file.
_PLAIN: Final = frozenset((tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE))
#: Links, directories and devices, which have no content whatever their header says.
_EMPTY: Final = frozenset(tarfile.SUPPORTED_TYPES).difference(
    tarfile.REGULAR_TYPES, tarfile.GNU_TYPES
)
_LONG: Final = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
#: Headers that hold a long name or target of the next member.
_EXTENDED: Final = frozenset(
    (
        *_LONG,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
    )
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


class ArchiveRoot(EntriesRoot):
    """A recorded host or a sosreport in a tar file, plain or compressed by xz, bzip2 or gzip.

    One directory around ``sys`` and ``proc`` is looked through. Devices, FIFOs and hard links are
    left out.

    :raises FactsError: not such a file, damaged, or beyond the bounds of this module.
    """

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                magic = file.read(6)
            found = _Found()
            with _opened(path, magic) as stream:
                _read_members(stream, found)
            if found.is_report:
                self._hold_report(found.entries, found.left_out)
            else:
                self._hold(_without_top(found.entries))
        except _BROKEN as error:
            reason = str(error).partition("\n")[0][:120] or type(error).__name__
            raise FactsError(
                f"sysroot {path!r}: no recorded host or sosreport, or damaged ({reason})"
            ) from None


class _Found:
    """What is kept of an archive: all of a recorded host, of a sosreport what facts are made of.

    Which it is shows only when a directory that sos makes is met. Until then all is kept, within
    the same bounds.

    :ivar left_out: files of a sosreport that are too large to be read.
    :ivar top: how many directories are around a sosreport.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.left_out: list[str] = []
        self.is_report = False
        self.top = 0
        self._read = 0
        self._held = 0

    def wants(self, parts: Sequence[str], size: int) -> bool:
        """Whether the content of a member is to be read.

        :raises ValueError: there is more than the bounds of this module.
        """
        if not self.is_report:
            self._look(parts)
        self.passed(size)
        if not self.is_report:
            return True
        below = parts[self.top :]
        if not kept.keeps(below):
            return False
        if size > MAX_FILE:
            self.left_out.append("/".join(below))
            return False
        self._held += size
        if self._held > MAX_KEPT:
            raise ValueError(f"more than {MAX_KEPT >> 20} MiB in the files that are read")
        return True

    def passed(self, size: int) -> None:
        """Count a header and ``size`` bytes behind it.

        :raises ValueError: there is more than the bounds of this module.
        """
        self._read += _BLOCK + size
        most = MAX_REPORT if self.is_report else MAX_BYTES
        if self._read > most:
            raise ValueError(f"more than {most >> 20} MiB")

    def add(self, parts: Sequence[str], entry: Entry) -> None:
        """Keep a member.

        :raises ValueError: there are more than the bounds of this module.
        """
        if len(self.entries) >= MAX_MEMBERS:
            raise ValueError(f"more than {MAX_MEMBERS} files and directories")
        if isinstance(entry, str):  # a link, which has no content
            self._held += len(entry)
        if self._held > MAX_KEPT and self.is_report:
            raise ValueError(f"more than {MAX_KEPT >> 20} MiB in the files that are read")
        self.entries["/".join(parts[self.top :])] = entry

    def _look(self, parts: Sequence[str]) -> None:
        """Take the archive for a sosreport from a member on that shows it; drop what it does not need."""
        top = kept.top_of(parts)
        if top is None:
            return
        self.is_report, self.top = True, top
        before, self.entries = self.entries, {}
        for path, entry in before.items():
            names = path.split("/")
            if kept.keeps(names[top:]):
                self._held += len(entry)
                self.add(names, entry)


def _opened(path: str, magic: bytes) -> BinaryIO:
    """Return the content of a file as a stream, decompressed as its first bytes say."""
    opener: Callable[..., object] = open
    for start, compressed in _OPENERS.items():
        if magic.startswith(start):
            opener = compressed
    # Headers are short, and each read of a decompressor costs more than a copy.
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, opener(path, "rb")), _CHUNK))


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


def _read_members(stream: BinaryIO, found: _Found) -> None:
    """Read files, links and directories into ``found``, while what was read stays within the bounds."""
    long: dict[str, str] = {}
    while True:
        header = stream.read(_BLOCK)
        if not header.strip(b"\0"):
            return
        kind = header[_TYPE]
        if kind in _EXTENDED:  # half of all headers, of which nothing else is used
            size = _number(header[_SIZE])
            if not 0 <= size <= _MAX_EXTENDED:
                raise ValueError("names beyond all measure")
            found.passed(size)
            content = _content(stream, size)
            if kind in _LONG or b"path=" in content:  # most have times alone
                long |= _long(kind, content)
            continue
        member = _member(header)
        name, target = long.get("path", member.name), long.get("linkpath", member.target)
        long = {}
        directory = name.rstrip("/").rpartition("/")[0]
        if found.is_report and _keeps_nothing(directory, found.top):  # most of a sosreport
            found.passed(member.size)
            _pass_over(stream, member.size)
            continue
        parts = _parts(name)
        if len(name) > MAX_NAME or len(target) > MAX_NAME or len(parts) > MAX_PARTS:
            raise ValueError(f"a name has more than {MAX_NAME} bytes or {MAX_PARTS} parts")
        plain = member.kind in _PLAIN
        known = plain or member.kind in (tarfile.SYMTYPE, tarfile.DIRTYPE)
        usable = known and bool(parts) and ".." not in parts
        if not found.wants(parts, member.size) or not usable:
            _pass_over(stream, member.size)
        elif plain:
            found.add(parts, _content(stream, member.size))
        elif member.kind == tarfile.SYMTYPE:
            found.add(parts, target)
        else:
            found.add(parts, set())


def _parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in ("", ".")]


@functools.lru_cache(maxsize=256)  # members come directory by directory
def _keeps_nothing(directory: str, top: int) -> bool:
    """Whether nothing in a directory of a sosreport is kept; ``top`` directories are around it."""
    return not kept.enters(_parts(directory)[top:])


@dataclasses.dataclass(slots=True)
class _Member:
    """What a header says of a member.

    :ivar kind: its type, as :mod:`tarfile` names them.
    :ivar target: of a link; :ivar size: of the content that follows.
    """

    kind: bytes
    name: str
    target: str
    size: int


def _member(header: bytes) -> _Member:
    """Return what a header says.

    :raises ValueError: it is no header, or says what no header says.
    """
    counted = header.translate(None, b"\0")  # most of it is zeros, which cost time and add nothing
    total = sum(counted) - sum(header[_CHECKSUM]) + _BLANK
    if len(header) < _BLOCK or _number(header[_CHECKSUM]) != total:
        raise ValueError("bad checksum")
    kind, name, prefix = header[_TYPE], _text(header[_NAME]), _text(header[_PREFIX])
    if kind == tarfile.AREGTYPE and name.endswith("/"):  # as tar wrote directories before 1988
        kind = tarfile.DIRTYPE
    if prefix and kind != tarfile.GNUTYPE_SPARSE:
        name = f"{prefix}/{name}"
    size = 0
    if kind not in _EMPTY:
        size = _number(header[_SIZE])
    if size < 0:
        raise ValueError("a size below zero")
    return _Member(kind, name, _text(header[_TARGET]), size)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    """:raises ValueError: it is no octal number; GNU tar writes no other below 8 GiB."""
    digits = field.strip(b"\0 ") or b"0"
    if digits.translate(None, b"01234567"):
        raise ValueError("bad header")
    return int(digits, 8)


def _content(stream: BinaryIO, size: int) -> bytes:
    """Return the content of a member."""
    padded = size + -size % _BLOCK
    content = stream.read(padded)
    if len(content) < padded:
        raise EOFError("it ends in the middle")
    return content[:size]


def _pass_over(stream: BinaryIO, size: int) -> None:
    left = size + -size % _BLOCK
    while left:
        data = stream.read(min(left, _CHUNK))
        if not data:
            raise EOFError("it ends in the middle")
        left -= len(data)


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
