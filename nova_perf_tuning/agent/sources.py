"""Where the agent learns of changes: the kernel's netlink groups, files that others write, libvirt.

An event says only that something happened, and of which kind: what is to be done is found by comparing, so a
lost event costs time and nothing else.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import logging
import os
import re
import socket
from collections.abc import Collection
from typing import Final

import inotify_simple
from inotify_simple import flags

LOG = logging.getLogger(__name__)

#: Kinds of events.
LINK = "link"
HARDWARE = "hardware"
GUEST = "guest"
WRITTEN = "written"
#: Some of these, of which nobody knows any more.
LOST = "lost"

#: What explains that a value has changed: the kernel or libvirt has set it anew.
EXCUSES = frozenset((LINK, HARDWARE, GUEST))

#: linux/netlink.h and linux/rtnetlink.h; Python has not all of them.
_NETLINK_KOBJECT_UEVENT: Final = 15
_RTMGRP_LINK: Final = 1
_UEVENTS_OF_KERNEL: Final = 1
#: A number of channels that is changed (``ethtool -L``) makes and ends queues.
_SUBSYSTEMS: Final = re.compile(rb"(?:^|\0)SUBSYSTEM=(?:cpu|pci|net|queues|virtio)(?:\0|$)").search


class Source(abc.ABC):
    """A file descriptor that becomes readable when something happens."""

    @abc.abstractmethod
    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    @abc.abstractmethod
    def drain(self) -> set[str]:
        """Read everything that has come and return the kinds of events; empty when none matters."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give the descriptor back."""


class Netlink(Source):
    """A group of kernel messages; what overflows the socket's buffer counts as an event that was seen.

    :param kind: the event that a message is.
    """

    def __init__(self, family: int, group: int, kind: str) -> None:
        self._kind = kind
        options = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self.socket = socket.socket(socket.AF_NETLINK, options, family)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self.socket.bind((0, group))
        except OSError:
            self.socket.close()
            raise

    def matters(self, data: bytes) -> bool:
        """Whether a message is an event."""
        return True

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def drain(self) -> set[str]:
        found: set[str] = set()
        while True:
            try:
                data, sender = self.socket.recvfrom(65536)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                found.add(self._kind)
                continue
            if sender[0] == 0 and self.matters(data):  # from the kernel; processes may send too
                found.add(self._kind)


class Links(Netlink):
    """Network devices that come, go, or change up and down (rtnetlink(7))."""

    def __init__(self) -> None:
        super().__init__(socket.NETLINK_ROUTE, _RTMGRP_LINK, LINK)


class Uevents(Netlink):
    """Drivers bound and unbound, CPUs on and off, devices and queues added and removed (the kernel's uevents)."""

    def __init__(self) -> None:
        super().__init__(_NETLINK_KOBJECT_UEVENT, _UEVENTS_OF_KERNEL, HARDWARE)

    def matters(self, data: bytes) -> bool:
        return _SUBSYSTEMS(data) is not None


class Waker(Source):
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
        found: set[str] = set()
        while self._kinds:  # one by one: another thread may add meanwhile
            found.add(self._kinds.pop())
        return found

    def close(self) -> None:
        os.close(self._fd)


class FileWatch(Source):
    """Files that other programs write: libvirt's state of guests, affinities.

    The kernel tells also of writes to /proc/irq/N by processes (inotify(7) works where the write goes through the
    VFS), never of changes that it makes itself. Nor does it tell when an interrupt goes: procfs sends no
    IN_IGNORED, and the watch keeps an inode alive that no path leads to any more. Writes by way of another mount
    of procfs (a container's, or one by systemd's MountAPIVFS=) go to other inodes and are not seen.

    :ivar written: numbers of interrupts that somebody has written to since they were last taken.
    """

    def __init__(self, root: str = "/") -> None:
        self._inotify = inotify_simple.INotify(nonblocking=True)
        prefix = root.rstrip("/")
        self._affinities = f"{prefix}/proc/irq"
        #: Each before what comes to be in it: that of libvirt is there long before libvirtd (virtlogd's socket).
        self._parents = (f"{prefix}/run", f"{prefix}/run/libvirt")
        self._guests = f"{prefix}/run/libvirt/qemu"
        self._folders: dict[str, int] = {}
        self._interrupts: dict[str, int] = {}
        self._told_limit = False
        #: Watch -> interrupt's number or folder.
        self._of: dict[int, str] = {}
        self.written: set[str] = set()
        self.renew()

    def renew(self) -> None:
        """Watch the folders that have come to be; those that went take their watch with them."""
        made = flags.CREATE | flags.MOVED_TO | flags.DELETE | flags.MOVED_FROM
        for path in (*self._parents, self._guests):
            if path not in self._folders or not os.path.isdir(path):
                try:
                    self._folders[path] = watch = self._inotify.add_watch(path, made)
                    self._of[watch] = path
                except OSError:
                    self._folders.pop(path, None)

    def watch_interrupts(self, numbers: Collection[str]) -> None:
        """Watch the affinities of these interrupts and no others.

        To be called now and then with the same numbers too: an interrupt that was made anew under its old number,
        or whose directory entry the kernel has dropped to get memory back, has another inode. Of an unchanged one
        the kernel returns the watch that there is.
        """
        for number in self._interrupts.keys() - numbers:
            self._unwatch(number)
        for number in sorted(numbers):
            try:
                watch = self._inotify.add_watch(f"{self._affinities}/{number}", flags.MODIFY)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    if not self._told_limit:
                        LOG.warning(
                            "fs.inotify.max_user_watches is too low to see who writes affinities: raise it"
                        )
                    self._told_limit = True
                    return
                self._unwatch(number)
                continue
            if self._interrupts.get(number) != watch:
                self._unwatch(number)
                self._interrupts[number] = watch
                self._of[watch] = number

    def _unwatch(self, number: str) -> None:
        watch = self._interrupts.pop(number, None)
        if watch is not None:
            self._of.pop(watch, None)
            with contextlib.suppress(OSError):  # the interrupt is gone and took its watch along
                self._inotify.rm_watch(watch)

    def watches(self, number: str) -> bool:
        """Whether writes to this interrupt are told."""
        return number in self._interrupts

    def fileno(self) -> int:
        return int(self._inotify.fileno())

    def drain(self) -> set[str]:
        found: set[str] = set()
        for event in self._inotify.read(timeout=0):
            what = self._of.get(event.wd)
            if event.mask & flags.Q_OVERFLOW:
                self.written |= self._interrupts.keys()
                found |= {WRITTEN, LOST}
            elif what is None:
                continue
            elif event.mask & flags.IGNORED:
                del self._of[event.wd]
                for known in (self._interrupts, self._folders):
                    if known.get(what) == event.wd:
                        del known[what]
            elif what == self._guests:
                # libvirt writes a guest's state to NAME.xml.new and renames it.
                found |= {GUEST} if event.name.endswith((".xml", ".pid")) else set()
            elif what not in self._parents:
                self.written.add(what)
                found.add(WRITTEN)
            elif event.name in ("libvirt", "qemu"):
                self.renew()
                found.add(GUEST)
        return found

    def close(self) -> None:
        self._inotify.close()
