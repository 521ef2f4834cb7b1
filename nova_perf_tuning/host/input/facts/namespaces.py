# SPDX-License-Identifier: Apache-2.0
"""Network namespaces beside our own: their devices are not in /sys/class/net."""

import contextlib
import os
from collections.abc import Iterable
from typing import Final

_PROC: Final = "/proc"
_NAMED: Final = "/run/netns"
#: Lines above the devices in /proc/PID/net/dev, and how much of it is read: two devices will do.
_HEAD: Final = 2
_LIMIT: Final = 4096


def count(pids: Iterable[int], proc: str = _PROC, named: str = _NAMED) -> int | None:
    """Return the number of other network namespaces; None: it is not known.

    Those with a name (ip-netns(8)) count, and those of processes that have a device besides the
    loopback: services with PrivateNetwork= of systemd.exec(5) have none. Without root's
    capabilities only those with a name are seen.
    """
    found: set[str] = set()
    # The link has the number that stat() of its file has, at half the cost: a host has thousands.
    own = os.readlink(f"{proc}/self/ns/net")
    alone = {own}
    for name in _names(named):
        with contextlib.suppress(OSError):
            number = os.stat(f"{named}/{name}").st_ino
            found.add(f"net:[{number}]")
    found.discard(own)
    for pid in pids:
        try:
            namespace = os.readlink(f"{proc}/{pid}/ns/net")
        except PermissionError:
            return len(found) or None
        except OSError:  # the process has ended
            continue
        if namespace in found or namespace in alone:
            continue
        if _has_device(f"{proc}/{pid}/net/dev"):
            found.add(namespace)
        else:
            alone.add(namespace)
    return len(found)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _has_device(path: str) -> bool:
    """Whether a namespace has a device that is no loopback; an ended process has none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.read(_LIMIT).splitlines()[_HEAD:]
    except OSError:
        return False
    names = {line.partition(":")[0].strip() for line in lines}
    return bool(names - {"lo"})
