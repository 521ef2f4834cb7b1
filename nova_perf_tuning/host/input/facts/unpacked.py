# SPDX-License-Identifier: Apache-2.0
"""An unpacked sosreport: the files that facts are made of are read once, into memory.

It is a stranger's: no link is followed, only plain files are opened, and what is read has bounds.
"""

import os
from typing import Final

from nova_perf_tuning import bounded_read
from nova_perf_tuning.host.input.facts.entries import MAX_MEMBERS, EntriesRoot
from nova_perf_tuning.host.input.facts.root import FactsError
from nova_perf_tuning.host.input.sosreport import kept
from nova_perf_tuning.host.input.sosreport.report import Entry

#: What is kept of a report: of 1,024 CPUs, 2,048 interrupts and 512 guests 60 MB.
MAX_KEPT: Final = 96 << 20
#: A file that is longer is left out. /proc/interrupts of 1,024 CPUs and 2,048 interrupts has 23 MB.
MAX_FILE: Final = 32 << 20
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE: Final = _FLAGS | os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY: Final = _FLAGS | os.O_DIRECTORY


class UnpackedReport(EntriesRoot):
    """A sosreport in a directory.

    :raises FactsError: it is beyond the bounds of this module.
    """

    def __init__(self, path: str) -> None:
        tree = _Tree(path)
        base = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            tree.walk(base, ())
        finally:
            os.close(base)
        self._hold_report(tree.entries, tree.left_out)


class _Tree:
    """What is kept of a directory tree."""

    def __init__(self, path: str) -> None:
        self.entries: dict[str, Entry] = {}
        self.left_out: list[str] = []
        self._path = path
        self._left = MAX_KEPT

    def walk(self, base: int, parts: tuple[str, ...]) -> None:
        """Keep what is below an open directory."""
        with os.scandir(base) as found:
            entries = list(found)
        for entry in entries:
            here = (*parts, entry.name)
            if entry.is_symlink():
                if kept.keeps(here):
                    self._add(here, os.readlink(entry.name, dir_fd=base))
            elif entry.is_dir(follow_symlinks=False):
                self._enter(base, here)
            elif entry.is_file(follow_symlinks=False) and kept.keeps(here):
                self._read(base, here)

    def _enter(self, base: int, parts: tuple[str, ...]) -> None:
        if kept.keeps(parts):
            self._add(parts, set())
        if not kept.enters(parts):
            return
        try:
            below = os.open(parts[-1], _DIRECTORY, dir_fd=base)
        except OSError:
            return
        try:
            self.walk(below, parts)
        finally:
            os.close(below)

    def _read(self, base: int, parts: tuple[str, ...]) -> None:
        try:
            descriptor = os.open(parts[-1], _FILE, dir_fd=base)
        except OSError:
            return
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if status.st_size > MAX_FILE:
                self.left_out.append("/".join(parts))
                return
            try:
                bounded_read.check_plain(status.st_mode)
                data = file.read(status.st_size)
            except OSError:
                return
        self._add(parts, data)

    def _add(self, parts: tuple[str, ...], entry: Entry) -> None:
        self._left -= len(entry)
        if self._left < 0 or len(self.entries) >= MAX_MEMBERS:
            raise FactsError(
                f"sysroot {self._path!r}: the parts of this sosreport that are read have more than "
                f"{MAX_KEPT >> 20} MiB or {MAX_MEMBERS} files"
            )
        self.entries["/".join(parts)] = entry
