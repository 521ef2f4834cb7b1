"""What is looked at while nothing happens: has anything come or gone of which no event told?

The look must cost next to nothing on a host with thousands of interrupts, so it opens no file of theirs: one
listing of /proc/irq gives their numbers. /proc/interrupts is never read.

A vector that went and came again under its old number between two looks is not seen here, but its affinity is lost
with the old one, which is found by reading it back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_RUNNING = "/run/libvirt/qemu"


class Watch:
    """Compares the host below a root with what it was at the last look.

    :param files: files of the configuration whose change counts too.
    """

    def __init__(self, root: str = "/", files: Sequence[str] = ()) -> None:
        self._prefix = root.rstrip("/")
        self._files = tuple(files)
        self._last: tuple[object, ...] = ()

    def changed(self) -> bool:
        """Whether something came or went since the last call; the first call finds a change."""
        before, self._last = self._last, self._look()
        return self._last != before

    def interrupts_changed(self) -> bool:
        """As :meth:`changed`, for interrupts alone; other changes are left for the next full look."""
        now = self._names("/proc/irq")
        changed = self._last[:1] != (now,)
        self._last = (now, *self._last[1:])
        return changed

    def _look(self) -> tuple[object, ...]:
        """Return interrupts, network devices, online CPUs, guests and files as they are now."""
        return (
            self._names("/proc/irq"),
            self._names("/sys/class/net"),
            self._online(),
            _stamp(f"{self._prefix}{_RUNNING}"),
            *map(_stamp, self._files),
        )

    def _names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(os.listdir(f"{self._prefix}{path}"))
        except OSError:
            return ()

    def _online(self) -> bytes:
        try:
            with open(f"{self._prefix}/sys/devices/system/cpu/online", "rb") as file:
                return file.read()
        except OSError:
            return b""


def _stamp(path: str) -> tuple[int, int] | None:
    """Return what changes with a file's content or a folder's members; libvirt renames what it writes."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
