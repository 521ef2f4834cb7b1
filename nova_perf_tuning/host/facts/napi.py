# SPDX-License-Identifier: Apache-2.0
"""NAPIs of network devices: which queues and which interrupt they serve, and the threads that poll in their place.

Since Linux 6.8 the kernel tells it by generic netlink (Documentation/netlink/specs/netdev.yaml); a recorded host
has a file for it. Threads of older kernels are found by their names, ``napi/DEVICE-N``, in whole since 5.17.
"""

import contextlib
import os
import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import domain
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import guests
from nova_perf_tuning.host.facts.root import Root, numbers
from nova_perf_tuning.host.notes import NoteCode

#: Below the root of a recorded host: a NAPI a line, as :func:`as_text` writes it.
DIRECTORY: Final = "nova-perf"
FILE: Final = "napis"
_LINE: Final = re.compile(rf"({model.DEVICE}) (\d{{1,10}}) irq=(\d{{0,8}}) thread=(\d{{0,7}}) rx=(\S*) tx=(\S*)")
_THREAD: Final = re.compile(rb"napi/(" + model.DEVICE.encode() + rb")-(\d{1,10})")
#: Device, number, interrupt, thread, receive and transmit queues of a NAPI.
_Known = tuple[str, int, int | None, int | None, Sequence[int], Sequence[int]]

#: linux/netlink.h, linux/genetlink.h; then commands and attributes of linux/netdev.h.
_NETLINK_GENERIC, _CONTROL, _ERROR, _DONE = 16, 16, 2, 3
_REQUEST, _MULTI, _DUMP = 1, 2, 0x300
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2
_QUEUE_GET, _NAPI_GET = 10, 11
_QUEUE_ID, _QUEUE_IFINDEX, _QUEUE_TYPE, _QUEUE_NAPI = 1, 2, 3, 4
_NAPI_IFINDEX, _NAPI_ID, _NAPI_IRQ, _NAPI_PID = 1, 2, 3, 4
_HEADER: Final = struct.Struct("=IHHIIBBH")


def read_napis(root: Root, nics: Sequence[model.Nic]) -> None:
    """Give NICs, and other devices with threaded NAPI, their NAPIs."""
    wanted = {nic.name: nic for nic in nics if nic.kind in ("physical", "vf") or nic.threaded}
    for name, number, irq, tid, rx, tx in _ask(wanted) if root.live else _recorded(root):
        if name in wanted:
            thread = _read_thread(root, tid)[1] if tid else None
            wanted[name].napis += (model.Napi(number, irq, tuple(rx), tuple(tx), thread),)
    lacking = [nic for nic in wanted.values() if nic.threaded and not any(napi.thread for napi in nic.napis)]
    base = root.directory("proc") if lacking else None
    for tid in numbers(root.directories(base), 1, domain.MAX_PID):
        name, thread = _read_thread(root, tid)
        if thread is not None and any(nic.name == name for nic in lacking):
            wanted[name].napis += (model.Napi(thread.index or 0, None, (), (), thread),)


def as_text(nics: Sequence[model.Nic]) -> str:
    """Return the record that :func:`read_napis` reads."""
    lines = []
    for nic in nics:
        for napi in nic.napis:
            irq, tid = "" if napi.irq is None else napi.irq, napi.thread.tid if napi.thread else ""
            rx, tx = cpulist.format(napi.rx), cpulist.format(napi.tx)
            lines.append(f"{nic.name} {napi.id} irq={irq} thread={tid} rx={rx} tx={tx}\n")
    return "".join(lines)


def _recorded(root: Root) -> Iterator[_Known]:
    data = root.read(root.directory(DIRECTORY), FILE, 1 << 20) or b""
    for match in map(_LINE.fullmatch, data.decode("ascii", "replace").splitlines()):
        rx, tx = map(cpulist.find, match.groups()[4:]) if match else (None, None)
        if match is None or rx is None or tx is None:
            root.notes.add(NoteCode.NAPI_UNKNOWN, f"{DIRECTORY}/{FILE}")
            continue
        irq, tid = (int(text) if text else None for text in match.groups()[2:4])
        yield match[1], int(match[2]), irq, tid, sorted(rx), sorted(tx)


def _read_thread(root: Root, tid: int) -> tuple[str, model.Thread | None]:
    """Return device and thread of a NAPI; no thread where this is no child of kthreadd, whatever its name."""
    place = root.directory(f"proc/{tid}")
    stat = root.read(place, "stat") or b""
    match = _THREAD.search(stat)
    known = guests.name_and_start(root, stat, place) if match else None
    if (
        match is None
        or known is None
        or known[0] != match[0]
        or stat.rpartition(b") ")[2].split(b" ", 2)[1] != b"2"
    ):
        return "", None
    affinity = guests.affinity_of(root, tid, place)
    return match[1].decode(), model.Thread(tid, "napi", int(match[2]), affinity, known[1], True)


def _ask(names: Iterable[str]) -> list[_Known]:
    """Return what the kernel says of these devices; nothing before Linux 6.8."""
    known: list[_Known] = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as link:
        link.settimeout(2)
        (answer,) = _request(link, _CONTROL, _GET_FAMILY, 0, _FAMILY_NAME, b"netdev\0\0")
        family = answer[_FAMILY_ID]
        for name in names:
            with contextlib.suppress(OSError):  # it has gone, or is in no state to be asked
                index = struct.pack("=I", socket.if_nametoindex(name))
                queues: dict[int | None, tuple[list[int], list[int]]] = {}
                for queue in _request(link, family, _QUEUE_GET, _DUMP, _QUEUE_IFINDEX, index):
                    queues.setdefault(queue.get(_QUEUE_NAPI), ([], []))[queue[_QUEUE_TYPE]].append(
                        queue[_QUEUE_ID]
                    )
                for napi in _request(link, family, _NAPI_GET, _DUMP, _NAPI_IFINDEX, index):
                    served = queues.get(napi[_NAPI_ID], ([], []))
                    known.append((name, napi[_NAPI_ID], napi.get(_NAPI_IRQ), napi.get(_NAPI_PID), *served))
    return known


def _request(
    link: socket.socket, family: int, command: int, flags: int, kind: int, value: bytes
) -> Iterator[dict[int, int]]:
    """Ask with one attribute, and yield the attributes of each answer, as numbers, by their kind.

    :raises OSError: the kernel refuses, or does not know the family or the command.
    """
    attribute = struct.pack("=HH", 4 + len(value), kind) + value
    link.send(
        _HEADER.pack(_HEADER.size + len(attribute), family, _REQUEST | flags, 1, 0, command, 1, 0) + attribute
    )
    answered = _MULTI
    while answered & _MULTI:
        data = link.recv(1 << 16)
        while data:
            length, answer, answered, *_rest = _HEADER.unpack_from(data)
            if answer == _DONE:
                return
            if answer == _ERROR:
                error = -int.from_bytes(data[16:20], sys.byteorder, signed=True)
                raise OSError(error, os.strerror(error))
            yield dict(_attributes(data[_HEADER.size : length]))
            data = data[(length + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[tuple[int, int]]:
    while data:
        length, kind = struct.unpack_from("=HH", data)
        yield kind, int.from_bytes(data[4:length], sys.byteorder)
        data = data[(length + 3) & ~3 :]
