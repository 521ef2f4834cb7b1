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
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import guests
from nova_perf_tuning.host.facts.root import Root
from nova_perf_tuning.host.notes import NoteCode

#: Below the root of a recorded host: a NAPI a line, as :func:`as_text` writes it.
DIRECTORY: Final = "nova-perf"
FILE: Final = "napis"
_LINE: Final = re.compile(rf"({model.DEVICE}) (\d{{1,10}}) irq=(\d{{0,8}}) thread=(\d{{0,7}}) rx=(\S*) tx=(\S*)")
_THREAD: Final = re.compile(rb"napi/(" + model.DEVICE.encode() + rb")-(\d{1,10})")
#: Device, number, interrupt, thread, receive and transmit queues of a NAPI.
_Known = tuple[str, int, int | None, int | None, Sequence[int], Sequence[int]]

#: linux/netlink.h and linux/genetlink.h; pyroute2 would cost the agent a quarter more memory at rest.
_NETLINK_GENERIC, _CONTROL, _ERROR, _DONE = 16, 16, 2, 3
_REQUEST, _MULTI, _DUMP = 1, 2, 0x300
_HEADER: Final = struct.Struct("=IHHIIBBH")
#: Numbers of commands, and their attributes by number: of linux/genetlink.h, then of linux/netdev.h.
_FAMILY: Final = (3, ("", "id", "name"))
_QUEUE: Final = (10, ("", "id", "ifindex", "type", "napi"))
_NAPI: Final = (11, ("", "ifindex", "id", "irq", "pid"))


def read_napis(root: Root, nics: Sequence[model.Nic]) -> None:
    """Give NICs, and other devices with threaded NAPI, their NAPIs."""
    wanted = {nic.name: nic for nic in nics if nic.kind in ("physical", "vf") or nic.threaded}
    known = list(_ask(wanted) if root.live else _recorded(root))
    threads = dict(_threads(root, sorted({tid for _name, _napi, _irq, tid, *_queues in known if tid})))
    for name, number, irq, tid, rx, tx in known:
        if name in wanted:
            thread = threads[tid][1] if tid in threads else None
            wanted[name].napis += (model.Napi(number, irq, tuple(rx), tuple(tx), thread),)
    lacking = [nic for nic in wanted.values() if nic.threaded and not any(napi.thread for napi in nic.napis)]
    for _tid, (name, thread) in _threads(root, None) if lacking else ():
        if any(nic.name == name for nic in lacking):
            wanted[name].napis += (model.Napi(thread.index or 0, None, (), (), thread),)


def as_text(nics: Sequence[model.Nic]) -> str:
    """Return the record that :func:`read_napis` reads."""
    lines = []
    for device, napi in ((nic.name, napi) for nic in nics for napi in nic.napis):
        irq, tid = "" if napi.irq is None else napi.irq, napi.thread.tid if napi.thread else ""
        rx, tx = cpulist.format(napi.rx), cpulist.format(napi.tx)
        lines.append(f"{device} {napi.id} irq={irq} thread={tid} rx={rx} tx={tx}\n")
    return "".join(lines)


def _recorded(root: Root) -> Iterator[_Known]:
    data = root.read(root.directory(DIRECTORY), FILE, 1 << 20) or b""
    left = 1 << 16  # queues of all: a line of 40 bytes may name 16,384
    for match in map(_LINE.fullmatch, data.decode("ascii", "replace").splitlines()):
        rx, tx = map(cpulist.find, match.groups()[4:]) if match else (None, None)
        left -= len(rx or ()) + len(tx or ())
        if match is None or rx is None or tx is None or left < 0:
            root.notes.add(NoteCode.NAPI_UNKNOWN, f"{DIRECTORY}/{FILE}")
            return
        irq, tid = (int(text) if text else None for text in match.groups()[2:4])
        yield match[1], int(match[2]), irq, tid, sorted(rx), sorted(tx)


def _threads(root: Root, tids: Sequence[int] | None) -> Iterator[tuple[int, tuple[str, model.Thread]]]:
    """Yield the threads of NAPIs, by their ids, with the names of their devices."""
    for match, (tid, _name, start, affinity) in guests.kernel_threads(root, _THREAD, tids):
        yield tid, (match[1].decode(), model.Thread(tid, "napi", int(match[2]), affinity, start, True))


def _ask(names: Iterable[str]) -> list[_Known]:
    """Return what the kernel says of these devices; nothing before Linux 6.8."""
    known: list[_Known] = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as link:
        link.settimeout(2)
        (family,) = [answer["id"] for answer in _request(link, _CONTROL, 0, _FAMILY, "name", b"netdev\0\0")]
        for name in names:
            with contextlib.suppress(OSError):  # it has gone, or is in no state to be asked
                index = struct.pack("=I", socket.if_nametoindex(name))
                queues: dict[int | None, tuple[list[int], list[int]]] = {}
                for queue in _request(link, family, _DUMP, _QUEUE, "ifindex", index):
                    queues.setdefault(queue.get("napi"), ([], []))[queue["type"]].append(queue["id"])
                for napi in _request(link, family, _DUMP, _NAPI, "ifindex", index):
                    served = queues.get(napi["id"], ([], []))
                    known.append((name, napi["id"], napi.get("irq"), napi.get("pid"), *served))
    return known


def _request(
    link: socket.socket, family: int, flags: int, command: tuple[int, Sequence[str]], key: str, value: bytes
) -> Iterator[dict[str, int]]:
    """Ask with one attribute, and yield each answer: its attributes as numbers.

    :raises OSError: the kernel refuses, or does not know the family or the command.
    """
    number, keys = command
    size = _HEADER.size + 4 + len(value)
    header = _HEADER.pack(size, family, _REQUEST | flags, 1, 0, number, 1, 0)
    link.send(header + struct.pack("=HH", 4 + len(value), keys.index(key)) + value)
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
            attributes, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
            fields: dict[str, int] = {}
            while attributes:
                size, kind = struct.unpack_from("=HH", attributes)
                if kind < len(keys):
                    fields[keys[kind]] = int.from_bytes(attributes[4:size], sys.byteorder)
                attributes = attributes[(size + 3) & ~3 :]
            yield fields
