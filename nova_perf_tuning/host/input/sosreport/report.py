# SPDX-License-Identifier: Apache-2.0
"""A sosreport in memory: its entries by path, and those that are added in the place of files that
sos does not collect.
"""

import io
import posixpath
import re
from collections.abc import Iterator
from typing import Final

#: A file's content, a link's target, or a directory. As of archives of recorded hosts.
Entry = bytes | str | set[str]

#: What a report may have, and its outputs may add.
MOST: Final = 300_000
#: Outputs and files that are read here are shorter; sos cuts logs alone.
_LIMIT: Final = 32 << 20
#: Domain, bus, device and function of a PCI device.
ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: A name that may become a part of a path.
_NAME: Final = re.compile(r"[^/\0\s][^/\0\n]{0,254}")


class SosReport:
    """Entries of a report; what is added never takes the place of what is there.

    :ivar entries: path below the top of the report -> entry.
    :ivar lacks: what sos did not collect and nothing else says, as words for a note.
    :ivar devices: PCI address -> its directory in /sys/devices.
    """

    def __init__(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self.lacks: list[str] = []
        self.devices: dict[str, str] = {}
        self._below: dict[str, set[str]] = {"": set()}
        for path in entries:
            self._register(path)

    def _register(self, path: str) -> None:
        while path:
            above, _, name = path.rpartition("/")
            names = self._below.setdefault(above, set())
            if name in names:
                return
            names.add(name)
            if ADDRESS.fullmatch(name) and path.startswith("sys/devices/"):
                self.devices.setdefault(name, path)
            path = above

    def has(self, path: str) -> bool:
        """Whether there is a file, link or directory."""
        return path in self.entries or path in self._below

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(self._below.get(directory, ()))

    def text(self, path: str) -> str:
        """Return a file's text, empty where it is not there."""
        entry = self.entries.get(path)
        if not isinstance(entry, bytes) or len(entry) > _LIMIT:
            return ""
        return entry.decode("utf-8", "replace")

    def lines(self, path: str) -> Iterator[str]:
        """Yield the lines of a file, which may be as large as that of a host of 1,024 CPUs."""
        entry = self.entries.get(path)
        if isinstance(entry, bytes):
            for line in io.BytesIO(entry):
                yield line.decode("utf-8", "replace")

    def command(self, plugin: str, name: str) -> str:
        """Return what a command printed, by the name of its file; empty where it did not run."""
        return self.text(f"sos_commands/{plugin}/{name}")

    def outputs(self, plugin: str, start: str) -> Iterator[tuple[str, str]]:
        """Yield the outputs of a command for several things: the thing's name, and the text."""
        for name in self.names(f"sos_commands/{plugin}"):
            if name.startswith(start):
                yield name.removeprefix(start), self.command(plugin, name)

    def put(self, path: str, text: str) -> None:
        """Add a file of one value, which gets a newline; nothing where there is something."""
        self._add(path, f"{text}\n".encode())

    def put_directory(self, path: str) -> None:
        """Add a directory."""
        self._add(path, set())

    def put_link(self, path: str, target: str) -> None:
        """Add a link to another path of the report."""
        self._add(path, posixpath.relpath(target, posixpath.dirname(path)))

    def _add(self, path: str, entry: Entry) -> None:
        """Add an entry where there is none.

        :raises ValueError: there are more than any host has.
        """
        if self.has(path):
            return
        if len(self.entries) >= MOST:
            raise ValueError(f"its outputs name more than {MOST} things")
        self.entries[path] = entry
        self._register(path)

    def target(self, path: str) -> str | None:
        """Return where a link leads to, as a path of the report; None where there is no link."""
        entry = self.entries.get(path)
        if not isinstance(entry, str):
            return None
        joined = posixpath.join("/", posixpath.dirname(path), entry)
        return posixpath.normpath(joined).lstrip("/")


def is_name(text: str) -> bool:
    """Whether a word of an output can be a name in a path."""
    return bool(_NAME.fullmatch(text)) and text not in (".", "..") and text.isprintable()


def fields(text: str) -> dict[str, str]:
    """Return the ``key: value`` lines of an output; of a repeated key the first."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found
