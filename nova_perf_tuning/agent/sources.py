# SPDX-License-Identifier: Apache-2.0
"""Sources of changes: the kernel's netlink groups, libvirt's files, other threads, a poller.

An event says only that something happened, and of which kind: what is to be done is found by
comparing, so a lost event costs time and nothing else.
"""

import contextlib
import errno
import logging
import os
import pathlib
import re
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import inotify_simple
from inotify_simple import flags

from nova_perf_tuning import bounded_read
from nova_perf_tuning.agent import cause

LOG = logging.getLogger(__name__)

Value = TypeVar("Value")

#: linux/netlink.h and linux/rtnetlink.h; Python has not all of them.
_NETLINK_KOBJECT_UEVENT: Final = 15
_RTMGRP_LINK: Final = 1
_UEVENTS_OF_KERNEL: Final = 1
#: A number of channels that is changed (``ethtool -L``) makes and ends queues.
_SUBSYSTEMS: Final = re.compile(rb"(?:^|\0)SUBSYSTEM=(?:cpu|pci|net|queues|virtio)(?:\0|$)")


class Source(Protocol):
    """A file descriptor that becomes readable when something happens."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    def drain(self) -> set[str]:
        """Read everything that has come and return the kinds of events; empty when none matters."""

    def close(self) -> None:
        """Give the descriptor back."""


class Netlink:
    """A group of kernel messages, of which nothing is read but that they came.

    What overflows the socket's buffer counts as an event that was seen.

    :param kind: the event that a message is; :param pattern: what a message has that matters.
    """

    def __init__(
        self, family: int, group: int, kind: str, pattern: re.Pattern[bytes] | None = None
    ) -> None:
        self._kind = kind
        self._pattern = pattern
        self.socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, family
        )
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((0, group))

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def drain(self) -> set[str]:
        kinds: set[str] = set()
        while True:
            try:
                data, (sender, _groups) = self.socket.recvfrom(65536)
            except BlockingIOError:
                return kinds
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                kinds.add(self._kind)
                continue
            # From the kernel: processes may send too.
            if sender == 0 and (self._pattern is None or self._pattern.search(data)):
                kinds.add(self._kind)


def links() -> Netlink:
    """Return network devices that come, go, or change up and down (rtnetlink(7))."""
    return Netlink(socket.NETLINK_ROUTE, _RTMGRP_LINK, cause.LINK)


def uevents() -> Netlink:
    """Return uevents: drivers bound and unbound, CPUs on and off, devices and queues that change."""
    return Netlink(_NETLINK_KOBJECT_UEVENT, _UEVENTS_OF_KERNEL, cause.HARDWARE, _SUBSYSTEMS)


class Waker:
    """Lets other threads and signal handlers wake the loop."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._kinds: set[str] = set()

    def wake(self, kind: str) -> None:
        """Make an event of ``kind`` come."""
        self._kinds.add(kind)
        os.eventfd_write(self._fd, 1)

    def fileno(self) -> int:
        return self._fd

    def drain(self) -> set[str]:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        return {
            self._kinds.pop() for _ in range(len(self._kinds))
        }  # another thread may add meanwhile

    def close(self) -> None:
        os.close(self._fd)


class GuestWatch:
    """libvirt's state of the guests that run: files below /run/libvirt/qemu."""

    def __init__(self, root: str = "/") -> None:
        self._inotify = inotify_simple.INotify(nonblocking=True)
        self._directory = os.path.join(root, "run/libvirt/qemu")
        self._refusal: int | None = None
        self.renew()

    def renew(self) -> None:
        """Watch the directory if libvirtd has made it since, or anew; to watch it twice changes nothing.

        Where the kernel refuses a watch, guests are found at the next look by the clock, and the
        log says so once.
        """
        changes = flags.CREATE | flags.MOVED_TO | flags.DELETE | flags.MOVED_FROM
        try:
            self._inotify.add_watch(self._directory, changes)
            self._refusal = None
        except FileNotFoundError:  # libvirtd has not run yet
            pass
        except OSError as error:
            if error.errno != self._refusal:
                hint = "; raise fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else ""
                LOG.warning("%s cannot be watched: %s%s", self._directory, error.strerror, hint)
            self._refusal = error.errno

    def fileno(self) -> int:
        return int(self._inotify.fileno())

    def drain(self) -> set[str]:
        # libvirt writes a guest's state to NAME.xml.new and renames it.
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW or event.name.endswith((".xml", ".pid")):
                return {cause.GUEST}
        return set()

    def close(self) -> None:
        self._inotify.close()


class Poller:
    """Compares the host below a root with what it was at the last look, which opens no file of an interrupt.

    A vector that went and came again under its old number between two looks is not seen, but its
    affinity is lost with the old one, which is found by reading it back.

    :param files: returns files of the configuration whose change counts too, as their coming and
        going.
    """

    def __init__(self, root: str = "/", files: Callable[[], Sequence[str]] = list) -> None:
        self._root = pathlib.Path(root)
        self._prefix = "" if os.path.realpath(root) == "/" else root
        self._files = files
        self._last: list[object] = []

    def changed(self) -> bool:
        """Whether something came or went since the last call; the first call finds a change."""
        now: list[object] = [
            _seen(os.listdir, self._root / "proc/irq"),
            _seen(os.listdir, self._root / "sys/class/net"),
            self._text("/sys/devices/system/cpu/online"),
            self._text("/sys/fs/cgroup/cpuset.cpus.isolated"),
            stamp(self._root / "run/libvirt/qemu"),
        ]
        for path in self._files():
            now.append((path, stamp(pathlib.Path(path))))
        before, self._last = self._last, now
        return now != before

    def _text(self, path: str) -> str | None:
        """Return what a kernel file has; None where there is nothing."""
        try:
            return bounded_read.kernel_text(self._prefix, path)
        except OSError:
            return None


def stamp(path: pathlib.Path) -> object:
    """Return what changes with a file's content or a directory's members.

    libvirt renames what it writes.
    """
    status = _seen(os.stat, path)
    return status and (status.st_mtime_ns, status.st_ino)


def _seen(look: Callable[[pathlib.Path], Value], path: pathlib.Path) -> Value | None:
    """Return what ``look`` sees; None where there is nothing."""
    try:
        return look(path)
    except OSError:
        return None
