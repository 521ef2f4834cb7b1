"""The root below which /proc, /sys, /run and /etc are read: the live host or a recorded one.

A recorded host is untrusted. Its links are resolved inside its root and never out of it; FIFOs and devices
cannot block a read; every read has a size limit; what is missing, unreadable or garbage is ``None`` and a
line in :attr:`Root.notes`.

The roots themselves are in the modules ``filesystem`` and ``archive`` beside this one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NewType

from nova_perf_tuning import cpulist, errors

#: A folder below the root, without leading slash: what the methods of a :class:`Root` return, or one of these and
#: a name that :meth:`Root.folders` gave for it. So in a recorded host every part of it is a real directory there.
Folder = NewType("Folder", str)

#: No attribute of sysfs or /proc/irq that is read here is longer (a list of 8192 CPUs has up to 48 KB).
VALUE_LIMIT: Final = 65536
# Linux 5.15 ends the lists of CPUs with a NUL that it counts into their length.
_BLANKS: Final = "\0 \t\r\n"
_NO_CPUS: Final = "(null)"  # nohz_full on kernels before 6.6


class FactsError(errors.PerfTuningError):
    """A host cannot be read at all: there is no such root, or it may not be opened."""


class Notes:
    """Collects what could not be read; one line for each kind of fault, whatever the number of places."""

    _NAMED = 3

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}

    def add(self, what: str, where: str = "") -> None:
        """Note that ``what`` is wrong at ``where``."""
        self._places.setdefault(what, []).append(where)

    def lines(self) -> tuple[str, ...]:
        """Return one line for each fault, in the order of their first places."""
        lines = []
        for what, places in self._places.items():
            named = ", ".join(place for place in places[: self._NAMED] if place)
            more = f" and {len(places) - self._NAMED} more" if len(places) > self._NAMED else ""
            lines.append(f"{what}: {named}{more}" if named else what)
        return tuple(lines)


class Root(abc.ABC):
    """Reads folders and files below one root; nothing that is read can make it raise.

    A method that takes a folder also takes ``None`` (a folder that is not there) and then finds nothing.

    :ivar live: True for the running host itself, where system calls may be asked instead of files.
    """

    live: bool = False

    def __init__(self) -> None:
        self.notes = Notes()
        self._texts: dict[bytes, str | None] = {}
        self._lists: dict[bytes, str | None] = {}
        self._masks: dict[bytes, str | None] = {}

    @abc.abstractmethod
    def folder(self, path: str) -> Folder | None:
        """Return the folder at ``path`` (``"sys/class/net"``); None when it is not there, on a recorded host."""

    @abc.abstractmethod
    def child(self, folder: Folder | None, name: str) -> Folder | None:
        """Return the folder ``name`` in ``folder``, through a link too; None like :meth:`folder`."""

    @abc.abstractmethod
    def canonical(self, folder: Folder | None, name: str) -> Folder | None:
        """Like :meth:`child`, but the folder returned has no link in its path."""

    @abc.abstractmethod
    def folders(self, folder: Folder | None) -> list[str]:
        """Return the names in ``folder`` that are folders and no links; on the live host all names."""

    @abc.abstractmethod
    def names(self, folder: Folder | None) -> list[str]:
        """Return the names in ``folder`` in no order; none when it is not there."""

    @abc.abstractmethod
    def count(self, folder: Folder | None) -> int | None:
        """Return the number of folders in ``folder`` by its link count, a sixth of the cost of listing.

        None where the file system does not count so (btrfs), and where there is no such folder; ``folder`` is
        as for :meth:`each`.
        """

    @abc.abstractmethod
    def has(self, folder: Folder | None, name: str) -> bool:
        """Whether there is anything at ``name`` in ``folder``; a third of the cost of listing."""

    @abc.abstractmethod
    def link(self, folder: Folder | None, name: str) -> str | None:
        """Return the last part of the link's target; None when there is no such link."""

    @abc.abstractmethod
    def read(self, folder: Folder | None, name: str, limit: int = VALUE_LIMIT) -> bytes | None:
        """Return the content of the file ``name`` (no slash in it) of ``folder``.

        None when it cannot be read or is longer than ``limit`` bytes (which is noted).
        """

    @abc.abstractmethod
    def head(self, folder: Folder | None, name: str, size: int) -> bytes:
        """Return up to ``size`` bytes from the beginning; empty when it cannot be read."""

    @abc.abstractmethod
    def each(self, folder: Folder | None, names: Sequence[str], limit: int = VALUE_LIMIT) -> list[bytes | None]:
        """Read many files, as :meth:`read` does one.

        :param folder: may be a folder's ``topology`` or the like unseen: a link in its place is not followed.
        :param names: files in ``folder``, or in what :meth:`folders` named there (``"24/smp_affinity_list"``).
        """

    @abc.abstractmethod
    def inside(self, folder: Folder | None, file: str) -> list[tuple[str, bytes | None]]:
        """Return the name of each folder in ``folder``, and its ``file``'s content.

        :param folder: as for :meth:`each`.
        """

    def text(self, folder: Folder | None, name: str) -> str | None:
        """Return a one-line value without its newline; None when unreadable or not printable text."""
        data = self.read(folder, name)
        return None if data is None else self.line(data, folder or "", name)

    def number(self, folder: Folder | None, name: str) -> int | None:
        """Return a decimal value, None when it is unreadable or no number of up to 18 digits."""
        return decimal(self.text(folder, name))

    def cpus(self, folder: Folder | None, name: str) -> str | None:
        """Return a CPU list as the kernel printed it; None when unreadable or no list. ``(null)`` is empty."""
        return self.cpu_list(self.read(folder, name), folder or "", name)

    def mask(self, folder: Folder | None, name: str) -> str | None:
        """Return a CPU mask as the kernel printed it, None when it is unreadable or no mask."""
        return self.cpu_mask(self.read(folder, name), folder or "", name)

    def line(self, data: bytes, *place: str) -> str | None:
        """Return ``data`` as :meth:`text` does; ``place`` says in the notes where it was."""
        if data in self._texts:
            return self._texts[data]
        text: str | None = data.decode("utf-8", "replace").strip(_BLANKS)
        if text and not text.replace("\t", " ").isprintable():
            text = None
            self.notes.add("not text", "/".join(place))
        self._texts[data] = text
        return text

    def cpu_list(self, data: bytes | None, *place: str) -> str | None:
        """Return ``data`` as :meth:`cpus` does; ``place`` says in the notes where it was."""
        if data is None:
            return None
        if data not in self._lists:
            self._lists[data] = self._checked(data, cpulist.is_list, "not a CPU list", place)
        return self._lists[data]

    def cpu_mask(self, data: bytes | None, *place: str) -> str | None:
        """Return ``data`` as :meth:`mask` does; ``place`` says in the notes where it was."""
        if data is None:
            return None
        if data not in self._masks:
            self._masks[data] = self._checked(data, cpulist.is_mask, "not a CPU mask", place)
        return self._masks[data]

    def _checked(
        self, data: bytes, valid: Callable[[str], bool], fault: str, place: tuple[str, ...]
    ) -> str | None:
        text = data.decode("utf-8", "replace").strip(_BLANKS)
        if valid(text):
            return "" if text == _NO_CPUS else text
        if self.line(data, *place) is not None:
            self.notes.add(fault, "/".join(place))
        return None


def decimal(text: str | None) -> int | None:
    """Return ``text`` as a whole number, None when it is none or has more than 18 digits."""
    if text is None or len(text) > 18 or not text.isascii():  # int() takes digits of other scripts, and thousands
        return None
    return int(text) if text.isdigit() or (text[:1] == "-" and text[1:].isdigit()) else None


def numbers(names: Iterable[str], low: int, high: int, prefix: str = "") -> list[int]:
    """Return N of all names ``prefixN`` with N from ``low`` to ``high``, ascending."""
    if prefix:
        names = [name[len(prefix) :] for name in names if name.startswith(prefix)]
    found = sorted({int(name) for name in names if name.isdigit() and len(name) < 11 and name.isascii()})
    if found and (found[0] < low or found[-1] > high):
        return [number for number in found if low <= number <= high]
    return found
