# SPDX-License-Identifier: Apache-2.0
"""The owner of a process, by its user ids: any user may give a process any name."""

import os
import re
from typing import Final

from nova_perf_tuning.host.input.facts.root import Root, numbers

#: Numbers of processes go up to PID_MAX_LIMIT of the kernel.
_MAX_PID: Final = 1 << 22
#: The user ids of root.
ROOT: Final = frozenset([0])
#: Where the user of Open vSwitch is configured: the packages' default, Red Hat's and SUSE's file,
#: Debian's file.
SWITCH_FILES: Final = (
    "etc/openvswitch/default.conf",
    "etc/sysconfig/openvswitch",
    "etc/default/openvswitch-switch",
)
#: Users of the system; the second file is that of images of rpm-ostree (nss-altfiles).
USER_FILES: Final = ("etc/passwd", "usr/lib/passwd")
#: User of the packages of Red Hat, SUSE and Debian.
_SWITCH_USER: Final = "openvswitch"
_FIELD: Final = re.compile(
    rb"^Uid:\t(\d{1,10})\t(\d{1,10})\t(\d{1,10})\t(\d{1,10})$", re.MULTILINE
)
#: ``OVS_USER_ID="openvswitch:hugetlbfs"``, or ``--ovs-user`` in the options of ovs-ctl(8); a group
#: may follow.
_SETTING: Final = re.compile(
    r"^[^#\n]*(?:OVS_USER_ID=|--ovs-user[= ])[\"']?([A-Za-z0-9_][\w.-]{0,31})", re.MULTILINE
)
_LIMIT: Final = 1 << 20
_MAX_ID: Final = (1 << 32) - 1


def process_ids(root: Root) -> list[int]:
    """Return the numbers of all processes, ascending."""
    return numbers(root.names(root.directory("proc")), 1, _MAX_PID)


def user_ids(root: Root, pid: int) -> frozenset[int] | None:
    """Return the real, effective, saved and file system user id of a process; None where they are
    not known.

    They are read from ``status``, since root owns the files in /proc/PID of a process that is not
    dumpable, whoever runs it (proc(5)). All four count: a set-user-ID program has the effective id
    of another user.
    """
    for place in (f"proc/{pid}", f"proc/{pid}/task/{pid}"):
        data = root.read(root.directory(place), "status") or b""
        match = _FIELD.search(data)
        if match:
            return frozenset(map(int, match.groups()))
    return None


def is_roots(root: Root, pid: int) -> bool:
    """Whether root runs a process.

    In a recorded host without user ids it counts as root's: older versions did not record them,
    and only root can have written what lies in /proc of that host.
    """
    return _is_of(user_ids(root, pid), ROOT, root)


def is_ours(root: Root, pid: int) -> bool:
    """Whether root or our own user runs a process; unknown ids as in :func:`is_roots`."""
    return _is_of(user_ids(root, pid), ROOT | {os.geteuid()}, root)


def is_switchs(root: Root, pid: int) -> bool:
    """Whether root or the configured user of Open vSwitch runs a process; unknown ids as in
    :func:`is_roots`.
    """
    ids = user_ids(root, pid)
    if _is_of(ids, ROOT, root):
        return True
    known: list[bytes] = []
    for path in USER_FILES:
        data = _content(root, path)
        if data is not None:
            known.append(data)
    if not known and not root.live:
        return True  # the recorded host says nothing of its users
    return _is_of(ids, ROOT | _ids_of(switch_users(root), b"\n".join(known)), root)


def switch_users(root: Root) -> frozenset[str]:
    """Return the users, by name or number, that Open vSwitch may run as."""
    names = {_SWITCH_USER}
    for path in SWITCH_FILES:
        data = _content(root, path) or b""
        names.update(_SETTING.findall(data.decode("utf-8", "replace")))
    return frozenset(names)


def recorded_setting(text: str) -> str:
    """Return what a recorded host keeps of one of :data:`SWITCH_FILES`."""
    return "".join(f"OVS_USER_ID={name}\n" for name in _SETTING.findall(text))


def recorded_passwd(text: str, names: frozenset[str]) -> str:
    """Return name and number of these users, as a recorded host keeps them."""
    lines = []
    for name, number in _users(text):
        if name in names:
            lines.append(f"{name}:x:{number}:\n")
    return "".join(lines)


def _content(root: Root, path: str) -> bytes | None:
    directory, _, name = path.rpartition("/")
    return root.read(root.directory(directory), name, _LIMIT)


def _is_of(ids: frozenset[int] | None, users: frozenset[int], root: Root) -> bool:
    if ids is None:
        return not root.live  # a process of this host without a status has ended
    return ids <= users


def _ids_of(names: frozenset[str], passwd: bytes) -> frozenset[int]:
    ids = set(numbers(names, 0, _MAX_ID))
    for name, number in _users(passwd.decode("utf-8", "replace")):
        if name in names:
            ids.add(number)
    return frozenset(ids)


def _users(passwd: str) -> list[tuple[str, int]]:
    """Return name and number of each user: passwd(5)."""
    users = []
    for line in passwd.splitlines():
        fields = line.split(":")
        for number in numbers(fields[2:3], 0, _MAX_ID):
            users.append((fields[0], number))
    return users
