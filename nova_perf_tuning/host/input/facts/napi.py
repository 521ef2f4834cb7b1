# SPDX-License-Identifier: Apache-2.0
"""NAPIs of network devices: which queues and which interrupt they serve, and the threads that poll
in their place.

Since Linux 6.8 the kernel reports them by generic netlink
(Documentation/netlink/specs/netdev.yaml); a recorded host has a file for it. Threads of older
kernels are found by their names, ``napi/DEVICE-N``, in whole since 5.17.

Messages are packed here and not by pyroute2, since the agent asks at each pass. Its netlink classes
took the agent at rest from 41.7 to 51.7 MiB of resident memory (24 % more) and 110 ms more of CPU
at its start (pyroute2 0.9.7, Python 3.11). It has no messages of the family ``netdev``, so that
their attributes would be declared here anyway and some 20 lines would fall. Commands that read a
NIC's hardware by ethtool do use it.
"""

import contextlib
import itertools
import os
import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts import guests
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode

#: Below the root of a recorded host: a NAPI a line, as :func:`as_text` writes it.
DIRECTORY: Final = "nova-perf"
FILE: Final = "napis"
_LINE: Final = re.compile(
    rf"({host_model.DEVICE}) (\d{{1,10}}) irq=(\d{{0,8}}) thread=(\d{{0,7}}) rx=(\S*) tx=(\S*)"
)
_THREAD: Final = re.compile(rb"napi/(" + host_model.DEVICE.encode() + rb")-(\d{1,10})")
#: linux/netlink.h and linux/genetlink.h.
_NETLINK_GENERIC, _CONTROL, _ERROR, _DONE = 16, 16, 2, 3
_REQUEST, _MULTI, _DUMP = 1, 2, 0x300
_HEADER: Final = struct.Struct("=IHHIIBBH")
#: Numbers of questions; answers have that of their question.
_SEQUENCES: Final = itertools.count(1)
#: Numbers of commands, and their attributes by number: of linux/genetlink.h, then of
#: linux/netdev.h.
_FAMILY: Final = (3, ("", "id", "name"))
_QUEUE: Final = (10, ("", "id", "ifindex", "type", "napi"))
_NAPI: Final = (11, ("", "ifindex", "id", "irq", "pid"))


class _Known(NamedTuple):
    """A NAPI of a device: its number, interrupt, thread, receive and transmit queues."""

    device: str
    id: int
    irq: int | None
    tid: int | None
    rx: Sequence[int]
    tx: Sequence[int]


def read_napis(root: Root, nics: Sequence[host_model.Nic]) -> None:
    """Add their NAPIs to NICs, and to other devices with threaded NAPI, in place.

    The kernel tells them by netlink, of a recorded host its file does. Where a device has threads
    and none of them is known by then, all kernel threads are looked through by name.
    """
    wanted = {nic.name: nic for nic in nics if nic.kind in ("physical", "vf") or nic.threaded}
    known = _ask(wanted) if root.live else list(_recorded(root))
    tids = {napi.tid for napi in known if napi.tid}
    threads: dict[int, host_model.Thread] = {}
    for _device, thread in _threads(root, sorted(tids)):
        threads[thread.tid] = thread
    for napi in known:
        if napi.device in wanted:
            own = threads.get(napi.tid or 0)
            queues = tuple(napi.rx), tuple(napi.tx)
            wanted[napi.device].napis += (host_model.Napi(napi.id, napi.irq, *queues, own),)
    lacking: set[str] = set()
    for nic in wanted.values():
        if nic.threaded and not any(napi.thread for napi in nic.napis):
            lacking.add(nic.name)
    if not lacking:
        return
    for device, thread in _threads(root, None):
        if device in lacking:
            wanted[device].napis += (host_model.Napi(thread.index or 0, None, (), (), thread),)


def as_text(nics: Sequence[host_model.Nic]) -> str:
    """Return the record that :func:`read_napis` reads."""
    lines: list[str] = []
    for nic in nics:
        for napi in nic.napis:
            irq = tid = ""
            if napi.irq is not None:
                irq = str(napi.irq)
            if napi.thread is not None:
                tid = str(napi.thread.tid)
            rx, tx = cpulist.format(napi.rx), cpulist.format(napi.tx)
            lines.append(f"{nic.name} {napi.id} irq={irq} thread={tid} rx={rx} tx={tx}\n")
    return "".join(lines)


def _recorded(root: Root) -> Iterator[_Known]:
    """Yield the NAPIs in a recorded host's file up to the first line that is wrong, which is
    noted.
    """
    data = root.read(root.directory(DIRECTORY), FILE, 1 << 20) or b""
    left = 1 << 16  # queues of all: a line of 40 bytes may name 16,384
    for line in data.decode("ascii", "replace").splitlines():
        napi = _parsed(line)
        if napi is not None:
            left -= len(napi.rx) + len(napi.tx)
        if napi is None or left < 0:
            root.notes.add(NoteCode.NAPI_UNKNOWN, f"{DIRECTORY}/{FILE}")
            return
        yield napi


def _parsed(line: str) -> _Known | None:
    """Return the NAPI that a line of a recorded host's file describes, None where it is wrong."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    device, number, irq, tid, rx, tx = match.groups()
    receive, transmit = cpulist.find(rx), cpulist.find(tx)
    if receive is None or transmit is None:
        return None
    napi = _Known(device, int(number), None, None, sorted(receive), sorted(transmit))
    if irq:
        napi = napi._replace(irq=int(irq))
    if tid:
        napi = napi._replace(tid=int(tid))
    return napi


def _threads(root: Root, tids: Sequence[int] | None) -> Iterator[tuple[str, host_model.Thread]]:
    """Yield the threads of NAPIs, with the names of their devices.

    :param tids: where to look; None: at every process.
    """
    for match, (tid, _name, start, affinity) in guests.kernel_threads(root, _THREAD, tids):
        yield (
            match[1].decode(),
            host_model.Thread(tid, "napi", int(match[2]), affinity, start, True),
        )


def _ask(names: Iterable[str]) -> list[_Known]:
    """Return what the kernel says of these devices; nothing before Linux 6.8."""
    known: list[_Known] = []
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as link,
    ):
        link.settimeout(2)
        (answer,) = _request(link, _CONTROL, 0, _FAMILY, "name", b"netdev\0\0")
        for name in names:
            with contextlib.suppress(OSError):  # it has gone, or is in no state to be asked
                index = struct.pack("=I", socket.if_nametoindex(name))
                queues: dict[int | None, tuple[list[int], list[int]]] = {}
                for queue in _request(link, answer["id"], _DUMP, _QUEUE, "ifindex", index):
                    queues.setdefault(queue.get("napi"), ([], []))[queue["type"]].append(
                        queue["id"]
                    )
                for napi in _request(link, answer["id"], _DUMP, _NAPI, "ifindex", index):
                    rx, tx = queues.get(napi["id"], ([], []))
                    known.append(
                        _Known(name, napi["id"], napi.get("irq"), napi.get("pid"), rx, tx)
                    )
    return known


def _request(
    link: socket.socket,
    family: int,
    flags: int,
    command: tuple[int, Sequence[str]],
    key: str,
    value: bytes,
) -> Iterator[dict[str, int]]:
    """Ask with one attribute, and yield each answer: its attributes as numbers.

    :raises OSError: the kernel refuses, or does not know the family or the command.
    """
    number, keys = command
    sequence = next(_SEQUENCES)
    size = _HEADER.size + 4 + len(value)
    header = _HEADER.pack(size, family, _REQUEST | flags, sequence, 0, number, 1, 0)
    link.send(header + struct.pack("=HH", 4 + len(value), keys.index(key)) + value)
    answered = _MULTI
    while answered & _MULTI:
        data = link.recv(1 << 16)
        while data:
            length, answer, its_flags, of_request, *_rest = _HEADER.unpack_from(data)
            if of_request != sequence:  # late, after a question that was given up
                data = data[(length + 3) & ~3 :]
                continue
            answered = its_flags
            if answer == _DONE:
                return
            if answer == _ERROR:
                error = -int.from_bytes(data[16:20], sys.byteorder, signed=True)
                raise OSError(error, os.strerror(error))
            attributes, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
            fields: dict[str, int] = {}
            while attributes:
                size, kind = struct.unpack_from("=HH", attributes)
                if kind < len(keys):
                    fields[keys[kind]] = int.from_bytes(attributes[4:size], sys.byteorder)
                attributes = attributes[(size + 3) & ~3 :]
            yield fields
