"""Where the agent learns of changes: the kernel's netlink groups, files that others write, libvirt.

An event says only that something happened, and of which kind: what is to be done is found by comparing, so a
lost event costs time and nothing else.
"""

from __future__ import annotations

import abc
import errno
import logging
import os
import re
import socket
import struct
import sys
from collections.abc import Collection, Iterator

LOG = logging.getLogger(__name__)

#: Kinds of events.
LINK = "link"
CHANNELS = "channels"
COALESCING = "coalescing"
HARDWARE = "hardware"
GUEST = "guest"
WRITTEN = "written"
RIVAL = "rival"
#: Some of these, of which nobody knows any more.
LOST = "lost"

#: What explains that a value has changed: the kernel or libvirt has set it anew.
EXCUSES = frozenset((LINK, CHANNELS, HARDWARE, GUEST))

# linux/netlink.h and linux/rtnetlink.h; Python has not all of them.
_NETLINK_KOBJECT_UEVENT = 15
_NETLINK_GENERIC = 16
_RTMGRP_LINK = 1
_UEVENTS_OF_KERNEL = 1
_SOL_NETLINK = 270
_NETLINK_ADD_MEMBERSHIP = 1
# linux/ethtool_netlink.h: a message, and where in it the name of the device is.
_ETHTOOL_MSG_COALESCE_NTF = 21
_ETHTOOL_A_COALESCE_HEADER = 1
_ETHTOOL_A_HEADER_DEV_NAME = 2
# linux/netlink.h and linux/genetlink.h: how a family is asked for by its name.
_NLM_F_REQUEST = 1
_GENL_ID_CTRL = 16
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_NAME = 2
_CTRL_ATTR_MCAST_GROUPS = 7
_CTRL_ATTR_MCAST_GRP_NAME = 1
_CTRL_ATTR_MCAST_GRP_ID = 2
#: struct nlmsghdr, struct genlmsghdr; struct nlattr.
_GENERIC = struct.Struct("=LHHLLBBH")
_ATTRIBUTE = struct.Struct("=HH")
_ATTRIBUTE_TYPE = 0x3FFF


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


class _Netlink(Source):
    """One netlink socket; what overflows its buffer counts as an event that was seen."""

    def __init__(self, family: int, groups: int = 0) -> None:
        flags = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self.socket = socket.socket(socket.AF_NETLINK, flags, family)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self.socket.bind((0, groups))
        except OSError:
            self.socket.close()
            raise

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
                found |= self.lost()
                continue
            if sender[0] == 0:  # from the kernel; processes may send too
                found |= self.kinds(data)

    @abc.abstractmethod
    def lost(self) -> set[str]:
        """Return what may have been in messages that were lost."""

    @abc.abstractmethod
    def kinds(self, data: bytes) -> set[str]:
        """Return what a message tells."""


class Links(_Netlink):
    """Network devices that come, go, or change up and down (rtnetlink(7))."""

    def __init__(self) -> None:
        super().__init__(socket.NETLINK_ROUTE, _RTMGRP_LINK)

    def lost(self) -> set[str]:
        return {LINK}

    def kinds(self, data: bytes) -> set[str]:
        return {LINK}


class Uevents(_Netlink):
    """Drivers bound and unbound, CPUs on and off, devices added and removed: the kernel's own uevents."""

    SUBSYSTEMS = (b"cpu", b"pci", b"net", b"queues", b"virtio")

    def __init__(self) -> None:
        super().__init__(_NETLINK_KOBJECT_UEVENT, _UEVENTS_OF_KERNEL)

    def lost(self) -> set[str]:
        return {HARDWARE}

    def kinds(self, data: bytes) -> set[str]:
        fields = data.split(b"\0")
        return (
            {HARDWARE} if any(f"SUBSYSTEM={one.decode()}".encode() in fields for one in self.SUBSYSTEMS) else set()
        )


class EthtoolMonitor(_Netlink):
    """Channels and rings that somebody sets (``ethtool -L``): ethtool netlink's group "monitor", Linux 5.6.

    It tells of what we set ourselves, too, by whatever interface: which is coalescing (``ethtool -C``) alone.

    :ivar coalesced: devices whose coalescing was set since they were last taken.
    :raises OSError: this kernel has no such group.
    """

    def __init__(self) -> None:
        self.coalesced: set[str] = set()
        group = _ethtool_group()
        super().__init__(_NETLINK_GENERIC)
        try:
            self.socket.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)
        except OSError:
            self.close()
            raise

    def lost(self) -> set[str]:
        return {CHANNELS}

    def kinds(self, data: bytes) -> set[str]:
        device = _coalesced(data)
        if device is None:
            return {CHANNELS}
        self.coalesced.add(device)
        return {COALESCING}


def _coalesced(data: bytes) -> str | None:
    """Return the device of which a message of ethtool's says that its coalescing was set; None if it says more."""
    if len(data) < _GENERIC.size or _GENERIC.unpack_from(data)[5] != _ETHTOOL_MSG_COALESCE_NTF:
        return None
    header = _attribute(data[_GENERIC.size :], _ETHTOOL_A_COALESCE_HEADER)
    name = _attribute(header, _ETHTOOL_A_HEADER_DEV_NAME).rstrip(b"\0")
    return name.decode("utf-8", "replace") or None


def _attribute(data: bytes, wanted: int) -> bytes:
    """Return an attribute of a netlink message; empty where there is none."""
    return next((value for kind, value in _attributes(data) if kind == wanted), b"")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of each attribute."""
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            break
        yield kind & _ATTRIBUTE_TYPE, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]


def _ethtool_group() -> int:
    """Return the number of the multicast group, which the kernel gives out at its start.

    Asked for here: importing pyroute2's netlink would take most of the agent's start.

    :raises OSError: there is none.
    """
    name = b"ethtool\0"
    asked = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(name), _CTRL_ATTR_FAMILY_NAME) + name
    size = _GENERIC.size + len(asked)
    head = _GENERIC.pack(size, _GENL_ID_CTRL, _NLM_F_REQUEST, 1, 0, _CTRL_CMD_GETFAMILY, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_GENERIC) as asker:
        asker.sendto(head + asked, (0, 0))
        answer = asker.recv(65536)
    length, kind = _GENERIC.unpack_from(answer)[:2]
    if kind == _GENL_ID_CTRL:
        for _index, group in _attributes(_attribute(answer[_GENERIC.size : length], _CTRL_ATTR_MCAST_GROUPS)):
            if _attribute(group, _CTRL_ATTR_MCAST_GRP_NAME).rstrip(b"\0") == b"monitor":
                return int.from_bytes(_attribute(group, _CTRL_ATTR_MCAST_GRP_ID), sys.byteorder)
    raise OSError(errno.EOPNOTSUPP, "no netlink group of ethtool")


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
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            pass
        found: set[str] = set()
        while self._kinds:  # one by one: another thread may add meanwhile
            found.add(self._kinds.pop())
        return found

    def close(self) -> None:
        os.close(self._fd)


class FileWatch(Source):
    """Files that other programs write: libvirt's state of guests, irqbalance's socket, affinities.

    The kernel tells also of writes to /proc/irq/N by processes (inotify(7) works where the write goes through the
    VFS), never of changes that it makes itself. Nor does it tell when an interrupt goes: procfs sends no
    IN_IGNORED, and the watch keeps an inode alive that no path leads to any more.

    Each mount of procfs of its own (a container's, or one by systemd's MountAPIVFS=, which ProtectControlGroups=,
    ProtectProc= and others imply) has its own inodes, and nobody is told there of what is written to another one:
    so interrupts are watched where init sees them, and others with it.
    """

    _EVENT = struct.Struct("iIII")

    def __init__(self, root: str = "/") -> None:
        import inotify_simple

        self._flags = inotify_simple.flags
        self._inotify = inotify_simple.INotify(nonblocking=True)
        self._prefix = root.rstrip("/")
        self._affinities = _seen_by_init(f"{self._prefix}/proc", "irq")
        self._guests = f"{self._prefix}/run/libvirt/qemu"
        self._rivals = f"{self._prefix}/run/irqbalance"
        self._folders: dict[str, tuple[int, str]] = {}
        self._interrupts: dict[str, int] = {}
        self._told_limit = False
        self._of: dict[int, tuple[str, str]] = {}
        #: Numbers of interrupts that somebody has written to since they were last taken.
        self.written: set[str] = set()
        self.renew()

    def renew(self) -> None:
        """Watch the folders that have come to be; those that went take their watch with them."""
        made = self._flags.CREATE | self._flags.MOVED_TO | self._flags.DELETE | self._flags.MOVED_FROM
        run = f"{self._prefix}/run"
        # Each before what comes to be in it: that of libvirt is there long before libvirtd (virtlogd's socket).
        for path, kind in ((run, ""), (f"{run}/libvirt", ""), (self._guests, GUEST), (self._rivals, RIVAL)):
            if path not in self._folders or not os.path.isdir(path):
                self._add(path, kind, made)

    def _add(self, path: str, kind: str, mask: int) -> None:
        try:
            number = self._inotify.add_watch(path, mask)
        except OSError:
            self._folders.pop(path, None)
            return
        self._folders[path] = (number, kind)
        self._of[number] = (kind, path)

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
                watch = self._inotify.add_watch(f"{self._affinities}/{number}", self._flags.MODIFY)
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
                self._of[watch] = (WRITTEN, number)

    def _unwatch(self, number: str) -> None:
        watch = self._interrupts.pop(number, None)
        if watch is None:
            return
        self._of.pop(watch, None)
        try:
            self._inotify.rm_watch(watch)
        except OSError:  # the interrupt is gone and took its watch along
            pass

    def watches(self, number: str) -> bool:
        """Whether writes to this interrupt are told."""
        return number in self._interrupts

    def fileno(self) -> int:
        return int(self._inotify.fileno())

    def drain(self) -> set[str]:
        found: set[str] = set()
        for event in self._inotify.read(timeout=0):
            kind, what = self._of.get(event.wd, ("", ""))
            if event.mask & self._flags.Q_OVERFLOW:
                self.written |= self._interrupts.keys()
                found |= {WRITTEN, LOST}
            elif event.mask & self._flags.IGNORED:
                self._gone(event.wd, kind, what)
            elif kind == WRITTEN:
                self.written.add(what)
                found.add(WRITTEN)
            elif kind == GUEST:
                if _is_state(event.name):
                    found.add(GUEST)
            elif kind:
                found.add(kind)
            elif event.name in ("libvirt", "qemu", "irqbalance"):  # below /run and /run/libvirt
                self.renew()
                found.add(RIVAL if event.name == "irqbalance" else GUEST)
        return found

    def _gone(self, watch: int, kind: str, what: str) -> None:
        self._of.pop(watch, None)
        if kind == WRITTEN:
            if self._interrupts.get(what) == watch:
                del self._interrupts[what]
        else:
            self._folders.pop(what, None)

    def close(self) -> None:
        self._inotify.close()


def _seen_by_init(proc: str, name: str) -> str:
    """Return the path of a folder of procfs, in the instance that init has mounted if that is not ours."""
    ours, inits = f"{proc}/{name}", f"{proc}/1/root/proc/{name}"
    try:
        return ours if os.stat(inits).st_dev == os.stat(ours).st_dev else inits
    except OSError as error:
        if isinstance(error, PermissionError):
            LOG.warning(
                "%s: %s: who else writes affinities may not be seen at once: give CAP_SYS_PTRACE",
                inits,
                error.strerror,
            )
        return ours


#: libvirt writes a guest's state to NAME.xml.new and renames it.
_is_state = re.compile(r".+\.(xml|pid)").fullmatch
