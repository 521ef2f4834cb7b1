# SPDX-License-Identifier: Apache-2.0
"""The root below which /proc, /sys, /run and /etc are read: the live host, or a recorded one in a directory.

A recorded host is untrusted. Its links are resolved inside its root and never out of it; only plain files are
opened, no FIFO and no device; every read has a size limit; what is missing, unreadable or garbage is ``None`` and
a note in :attr:`Root.notes`.

The number of files is what reading a host costs (about 3 us each), hence plain ``os.open``, ``os.read`` and
``os.close``, and no look before the leap.
"""

import errno
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final, NewType, Self

from nova_perf_tuning import bounded_read, cpulist, errors
from nova_perf_tuning.host.model.notes import Note, NoteCode, Value

#: A directory below the root, without leading slash: what the methods of a :class:`Root` return, or one of these
#: and a name that :meth:`Root.directories` gave for it. In a recorded host every part of it is a real directory.
Directory = NewType("Directory", str)

#: No attribute of sysfs or /proc/irq that is read here is longer (a list of 8192 CPUs has up to 48 KB).
VALUE_LIMIT: Final = 65536
_CHUNK: Final = 4096
_MAX_LINKS: Final = 40  # as the kernel's MAXSYMLINKS
_LIVE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC
_RECORDED_FLAGS: Final = _LIVE_FLAGS | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_DIRECTORY_FLAGS: Final = _LIVE_FLAGS | os.O_DIRECTORY
# Linux 5.15 ends the lists of CPUs with a NUL that it counts into their length.
_BLANKS: Final = "\0 \t\r\n"
_NO_CPUS: Final = "(null)"  # nohz_full on kernels before 6.6


class FactsError(errors.PerfTuningError):
    """A host cannot be read at all: there is no such root, or it may not be opened."""


class Notes:
    """Collects what could not be read; one note for each kind of fault, whatever the number of places."""

    def __init__(self) -> None:
        self._places: dict[Note, list[str]] = {}

    def add(self, code: NoteCode, where: str = "", **params: Value) -> None:
        """Note what is wrong at ``where``."""
        self._places.setdefault(Note(code, params), []).append(where)

    def all(self) -> tuple[Note, ...]:
        """Return one note for each fault, in the order of their first places, which it has as ``places``."""
        named = {note: tuple(filter(None, places)) for note, places in self._places.items()}
        return tuple(
            note.about(places=places) if places else note for note, places in named.items()
        )


class Place:
    """A directory that is open until the end of a ``with`` statement, see :meth:`Root.opened`.

    This one is not there: nothing is in it.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        return None

    def names(self) -> list[str]:
        """Return the names in it, as :meth:`Root.names` does."""
        return []

    def directories(self) -> list[str]:
        """Return the directories in it, as :meth:`Root.directories` does."""
        return []

    def each(self, names: Sequence[str], limit: int = VALUE_LIMIT) -> list[bytes | None]:
        """Read files in it, as :meth:`Root.each` does."""
        return [None] * len(names)

    def opened(self, name: str) -> "Place":
        """Open a directory in it.

        :param name: what :meth:`directories` named, or a name in one of these, unseen (``"24/task"``): a link in
            its place is not followed.
        """
        return self


class _OpenPlace(Place):
    """A directory of a root that is there.

    :ivar _listed: what :meth:`names` listed in a recorded host: a plain file among it needs no other look.
    """

    def __init__(self, root: "Root", directory: Directory, descriptor: int) -> None:
        self._root = root
        self._directory = directory
        self._descriptor = descriptor
        self._listed: dict[str, os.DirEntry[str]] = {}

    def __exit__(self, *_raised: object) -> None:
        os.close(self._descriptor)

    def names(self) -> list[str]:
        if self._root.live:
            return os.listdir(self._descriptor)
        with os.scandir(self._descriptor) as entries:
            self._listed = {entry.name: entry for entry in entries}
        return list(self._listed)

    def directories(self) -> list[str]:
        if self._root.live:
            return os.listdir(self._descriptor)
        with os.scandir(self._descriptor) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def each(self, names: Sequence[str], limit: int = VALUE_LIMIT) -> list[bytes | None]:
        root, directory, descriptor = self._root, self._directory, self._descriptor
        values: list[bytes | None] = []
        for name in names:
            entry = self._listed.get(name)
            plain = entry is not None and entry.is_file(follow_symlinks=False)
            values.append(root.value(descriptor, directory, name, limit, plain=plain))
        return values

    def opened(self, name: str) -> Place:
        # A name in a directory that is inside the root is inside it, too, when it is no link.
        flags = _DIRECTORY_FLAGS if self._root.live else _DIRECTORY_FLAGS | os.O_NOFOLLOW
        place = Directory(f"{self._directory}/{name}")
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except OSError as error:
            self._root.refused(error, place)
            return Place()
        return _OpenPlace(self._root, place, descriptor)


class Root:
    """Reads directories and files below one root; nothing that is read can make it raise.

    A method that takes a directory also takes ``None`` (a directory that is not there) and then finds nothing.

    :param path: ``/`` is the live host; the kernel made its links, so they are followed as they are.
    :ivar live: True for the running host itself, where system calls may be asked instead of files.
    :ivar is_report: whether it is a sosreport, which lacks much that a recorded host has.
    """

    is_report = False

    def __init__(self, path: str = "/") -> None:
        self.live = path == "/"
        self.notes = Notes()
        self._prefix = path.rstrip("/") + "/"
        #: A recorded host's own directory, which nothing that is opened may be outside of.
        self._inside = "" if self.live else path
        self._real: dict[str, str | None] = {}
        self._directories = {""}
        # One host repeats few lists and masks thousands of times.
        self._lists: dict[bytes, str | None] = {}
        self._masks: dict[bytes, str | None] = {}

    def _kind(self, path: str) -> int:
        """Return the type of what is at ``path``, as ``stat.S_IFMT``; 0 when nothing is."""
        try:
            return stat.S_IFMT(os.lstat(self._prefix + path).st_mode)
        except (OSError, ValueError):
            return 0

    def _target(self, path: str) -> str:
        """Return where the link at ``path`` points to; empty when that cannot be read."""
        try:
            return os.readlink(self._prefix + path)
        except OSError:
            return ""

    def names(self, directory: Directory | None) -> list[str]:
        """Return the names in ``directory`` in no order; none when it is not there."""
        if directory is None:
            return []
        if self.live:
            try:
                return os.listdir(self._prefix + directory)
            except OSError as error:
                self.refused(error, directory)
                return []
        with self.opened(directory) as place:
            return place.names()

    def opened(self, directory: Directory | None) -> Place:
        """Open a directory to list it and to read in it.

        :param directory: may be a CPU's ``topology`` or the like unseen: a link in its place is not followed.
        """
        if directory is None:
            return Place()
        try:
            descriptor = self._opened_directory(directory)
        except OSError as error:
            self.refused(error, directory)
            return Place()
        return _OpenPlace(self, directory, descriptor)

    def opened_each(self, directory: Directory | None, names: Iterable[str]) -> Iterator[Place]:
        """Yield directories in ``directory``, each open until the next one is asked for.

        :param names: as :meth:`Place.opened` takes them.
        """
        with self.opened(directory) as above:
            for name in names:
                with above.opened(name) as place:
                    yield place

    def _opened_directory(self, directory: str) -> int:
        """Open a directory; of a recorded host only inside its root, since a link may have come meanwhile."""
        if self.live:
            return os.open(self._prefix + directory, _DIRECTORY_FLAGS)
        base = os.open(self._prefix + directory, _DIRECTORY_FLAGS | os.O_NOFOLLOW)
        try:
            bounded_read.check_open(base, directory, self._inside)
        except OSError:
            os.close(base)
            raise
        return base

    def directories(self, directory: Directory | None) -> list[str]:
        """Return the names in ``directory`` that are directories and no links; on the live host all names."""
        if self.live or directory is None:
            return self.names(directory)
        with self.opened(directory) as place:
            return place.directories()

    def each(
        self, directory: Directory | None, names: Sequence[str], limit: int = VALUE_LIMIT
    ) -> list[bytes | None]:
        """Read many files, as :meth:`read` does one.

        :param directory: may be a CPU's ``topology`` or the like unseen: a link in its place is not followed.
        :param names: files in it, or in what :meth:`directories` named there (``"24/smp_affinity_list"``).
        """
        if not names:
            return []
        with self.opened(directory) as place:
            return place.each(names, limit)

    def value(
        self,
        base: int | None,
        directory: Directory,
        name: str,
        limit: int,
        *,
        whole: bool = True,
        plain: bool = False,
    ) -> bytes | None:
        """Return the content of the file ``name`` of ``directory``.

        :param base: a descriptor of ``directory``, if any. :param plain: it was listed as a plain file.
        :param whole: None is returned of a longer file; else the beginning.
        """
        path = f"{self._prefix}{directory}/{name}" if base is None else name
        try:
            descriptor = self._opened(path, base, plain)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.ELOOP and not self.live:
                place = f"{directory}/{name}"
                real = self._resolve(place)
                # What was resolved and is a link now was swapped meanwhile: it is not followed.
                if real is not None and real != place.lstrip("/"):
                    above, _, name = real.rpartition("/")
                    return self.value(None, Directory(above), name, limit, whole=whole)
            self.refused(error, directory, name)
            return None
        try:
            # A value of sysfs and a record of /proc come in one piece; only a full chunk can have more behind it.
            data = os.read(descriptor, _CHUNK)
            if len(data) == _CHUNK:
                parts = [data]
                while parts[-1] and (rest := limit + 1 - sum(map(len, parts))) > 0:
                    parts.append(os.read(descriptor, min(1 << 20, rest)))
                data = b"".join(parts)
        except (
            OSError
        ):  # EINVAL: speed of a NIC that is down; EIO, EOPNOTSUPP: the driver has no answer
            return None
        finally:
            os.close(descriptor)
        return data if len(data) <= limit else self._cut(data, limit, whole, directory, name)

    def _opened(self, path: str, base: int | None, plain: bool) -> int:
        if self.live:
            return os.open(path, _LIVE_FLAGS, dir_fd=base)
        if base is None:
            return bounded_read.open_plain(path, inside=self._inside, links=False)
        # One of very many. A look beforehand is enough: the last name is the kernel's, no device outside of the
        # root is called so, and a link in its place is not followed.
        if not plain:
            mode = os.lstat(path, dir_fd=base).st_mode
            if not stat.S_ISREG(mode):
                bounded_read.check_plain(mode)
        return os.open(path, _RECORDED_FLAGS, dir_fd=base)

    def _cut(self, data: bytes, limit: int, whole: bool, *place: str) -> bytes | None:
        if not whole:
            return data[:limit]
        self.notes.add(NoteCode.TOO_LONG, "/".join(place))
        return None

    def refused(self, error: Exception, *place: str) -> None:
        """Note why what is at ``place`` cannot be opened, where that is worth a note."""
        if isinstance(error, PermissionError):
            self.notes.add(NoteCode.NO_PERMISSION, "/".join(place))
        elif isinstance(error, OSError) and error.errno == errno.EINVAL and not self.live:
            self.notes.add(NoteCode.NOT_A_FILE, "/".join(place))

    def _resolve(self, path: str, links: int = 0) -> str | None:
        """Return ``path`` with its links followed inside the root; None where it leads nowhere."""
        here = ""
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                here = here.rpartition("/")[0]  # never above the root: ""
                continue
            step = f"{here}/{name}" if here else name
            if step not in self._real:
                kind = self._kind(step)
                if kind == stat.S_IFLNK:
                    target = self._target(step) if links < _MAX_LINKS else ""
                    if links == _MAX_LINKS:
                        self.notes.add(NoteCode.LINK_CIRCLE, step)
                    above = "" if target.startswith("/") else f"{here}/"
                    self._real[step] = self._resolve(above + target, links + 1) if target else None
                else:
                    self._real[step] = step if kind else None
                    if kind == stat.S_IFDIR:
                        self._directories.add(step)
            real = self._real[step]
            if real is None:
                return None
            here = real
        return here

    def directory(self, path: str) -> Directory | None:
        """Return the directory at ``path`` (``"sys/class/net"``); on a recorded host None when it is not there."""
        if self.live:
            return Directory(path)
        real = self._resolve(path)
        return Directory(real) if real in self._directories else None

    def child(self, directory: Directory | None, name: str) -> Directory | None:
        """Return the directory ``name`` in ``directory``, through a link too; None like :meth:`directory`."""
        return None if directory is None else self.directory(f"{directory}/{name}")

    def canonical(self, directory: Directory | None, name: str) -> Directory | None:
        """Like :meth:`child`, but the directory returned has no link in its path."""
        if not self.live or directory is None:
            return self.child(directory, name)
        target = self._target(f"{directory}/{name}")
        # The links of sysfs go straight to a device's directory, never over another link.
        return Directory(
            os.path.normpath(os.path.join("/", directory, target or name)).lstrip("/")
        )

    def has(self, directory: Directory | None, name: str) -> bool:
        """Whether there is anything at ``name`` in ``directory``; a third of the cost of listing."""
        return directory is not None and self._kind(f"{directory}/{name}") != 0

    def link(self, directory: Directory | None, name: str) -> str | None:
        """Return the last part of the link's target; None when there is no such link."""
        target = "" if directory is None else self._target(f"{directory}/{name}")
        return target.rstrip("/").rpartition("/")[2] or None

    def read(
        self, directory: Directory | None, name: str, limit: int = VALUE_LIMIT
    ) -> bytes | None:
        """Return the content of the file ``name`` (no slash in it) of ``directory``.

        None when it cannot be read or is longer than ``limit`` bytes (which is noted).
        """
        return None if directory is None else self.value(None, directory, name, limit)

    def head(self, directory: Directory | None, name: str, size: int) -> bytes:
        """Return up to ``size`` bytes from the beginning; empty when it cannot be read."""
        return (
            b""
            if directory is None
            else self.value(None, directory, name, size, whole=False) or b""
        )

    def text(self, directory: Directory | None, name: str) -> str | None:
        """Return a one-line value without its newline; None when unreadable or not printable text."""
        data = self.read(directory, name)
        return None if data is None else self.line(data, directory or "", name)

    def number(self, directory: Directory | None, name: str) -> int | None:
        """Return a decimal value, None when it is unreadable or no number of up to 18 digits."""
        return decimal(self.text(directory, name))

    def one_of(self, directory: Directory | None, name: str, values: Container[str]) -> str | None:
        """Return a text that is one of ``values``, None when it is unreadable or another, which is noted."""
        text = self.text(directory, name)
        if text is None or text in values:
            return text
        self.notes.add(NoteCode.VALUE_UNKNOWN, f"{directory}/{name}")
        return None

    def cpus(self, directory: Directory | None, name: str) -> str:
        """Return the CPU list in a file; empty when it is unreadable or no list, which is noted."""
        return self.cpu_list(self.read(directory, name), directory or "", name) or ""

    def line(self, data: bytes, *place: str) -> str | None:
        """Return ``data`` as :meth:`text` does; ``place`` says in the notes where it was."""
        text = data.decode("utf-8", "replace").strip(_BLANKS)
        if text.isprintable() or text.replace("\t", " ").isprintable():
            return text
        self.notes.add(NoteCode.NOT_TEXT, "/".join(place))
        return None

    def cpu_list(self, data: bytes | None, *place: str) -> str | None:
        """Return a CPU list as the kernel printed it; None when unreadable or no list. ``(null)`` is empty."""
        if data is None:
            return None
        if data not in self._lists:
            self._lists[data] = self._valid(data, cpulist.is_list, NoteCode.NOT_CPU_LIST, place)
        return self._lists[data]

    def cpu_mask(self, data: bytes | None, *place: str) -> str | None:
        """Return a CPU mask as the kernel printed it; None when unreadable or no mask."""
        if data is None:
            return None
        if data not in self._masks:
            self._masks[data] = self._valid(data, cpulist.is_mask, NoteCode.NOT_CPU_MASK, place)
        return self._masks[data]

    def _valid(
        self, data: bytes, valid: Callable[[str], bool], fault: NoteCode, place: tuple[str, ...]
    ) -> str | None:
        text = self.line(data, *place)
        if text is not None and not valid(text):
            self.notes.add(fault, "/".join(place))
            return None
        if text == _NO_CPUS:
            return ""
        return text


def decimal(text: str | None) -> int | None:
    """Return ``text`` as a whole number, None when it is none or has more than 18 digits."""
    if (
        text is None or len(text) > 18 or not text.isascii()
    ):  # int() takes digits of other scripts, and thousands
        return None
    return int(text) if text.isdigit() or (text[:1] == "-" and text[1:].isdigit()) else None


def numbers(names: Iterable[str], low: int, high: int, prefix: str = "") -> list[int]:
    """Return N of all names ``prefixN`` with N from ``low`` to ``high``, ascending."""
    if prefix:
        names = [name[len(prefix) :] for name in names if name.startswith(prefix)]
    ordered = sorted(
        {int(name) for name in names if name.isdigit() and len(name) < 11 and name.isascii()}
    )
    if ordered and (ordered[0] < low or ordered[-1] > high):
        return [number for number in ordered if low <= number <= high]
    return ordered
