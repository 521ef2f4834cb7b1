# SPDX-License-Identifier: Apache-2.0
"""A recorded host whose files are in memory."""

import stat
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.host.input.facts.root import VALUE_LIMIT, Directory, Place, Root
from nova_perf_tuning.host.input.sosreport import translate
from nova_perf_tuning.host.input.sosreport.report import MOST, Entry
from nova_perf_tuning.host.model.notes import NoteCode

MAX_MEMBERS: Final = MOST


class _Entry(Place):
    """A directory in memory."""

    def __init__(self, root: "EntriesRoot", directory: Directory | None) -> None:
        self._root = root
        self._directory = directory

    def names(self) -> list[str]:
        return self._root.names(self._directory)

    def directories(self) -> list[str]:
        return self._root.directories(self._directory)

    def each(self, names: Sequence[str], limit: int = VALUE_LIMIT) -> list[bytes | None]:
        return self._root.each(self._directory, names, limit)

    def opened(self, name: str) -> Place:
        if self._directory is None:
            return self
        return _Entry(self._root, Directory(f"{self._directory}/{name}"))


class EntriesRoot(Root):
    """A recorded host by the paths of its files, links and directories."""

    def _hold_report(self, entries: dict[str, Entry], left_out: Sequence[str]) -> None:
        """Become the root of a sosreport: its files, and those that are made of its commands'
        outputs.

        :param left_out: files of it that are too large to be read.
        """
        report = translate.translated(entries)
        self._hold(report.entries)
        self.is_report = True
        for path in left_out:
            self.notes.add(NoteCode.TOO_LONG, path)
        if report.lacks:
            self.notes.add(NoteCode.REPORT_LACKS, lacks=", ".join(report.lacks))

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

    def opened(self, directory: Directory | None) -> Place:
        return _Entry(self, directory)

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
        return [self.value(None, directory, name, limit) for name in names]

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
        entry = self._entries.get(f"{directory}/{name}")
        if isinstance(entry, str):
            entry = self._entries.get(self._resolve(f"{directory}/{name}") or "")
        if not isinstance(entry, bytes):
            return None
        if len(entry) <= limit:
            return entry
        return self._cut(entry, limit, whole, directory, name)
