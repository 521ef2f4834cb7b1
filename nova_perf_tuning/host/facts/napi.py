# SPDX-License-Identifier: Apache-2.0
"""NAPIs of network devices: which queues and which interrupt they serve, and the threads that poll in their place.

Since Linux 6.8 the kernel tells it by generic netlink (Documentation/netlink/specs/netdev.yaml); a recorded host
has a file for it. Threads of older kernels are found by their names, ``napi/DEVICE-N``, in whole since 5.17.
"""

import contextlib
import dataclasses
import json
import os
import re
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.guest import domain
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import guests
from nova_perf_tuning.host.facts.root import Root, numbers
from nova_perf_tuning.host.notes import NoteCode

#: Below the root of a recorded host.
DIRECTORY: Final = "nova-perf"
FILE: Final = "napi.json"
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": (1 << 32) - 1}
_QUEUES: Final = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 4095}, "maxItems": 4096}
_OR_NONE: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": domain.MAX_PID}
_SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "additionalProperties": {
        "type": "array",
        "maxItems": 8192,
        "items": {
            "type": "object",
            "required": ["id", "irq", "rx", "tx", "thread"],
            "properties": {
                **{"id": _NUMBER, "rx": _QUEUES, "tx": _QUEUES, "thread": _OR_NONE},
                "irq": {"type": ["integer", "null"], "minimum": 0, "maximum": 1 << 24},
            },
        },
    },
}
_THREAD: Final = re.compile(rb"napi/(" + model.DEVICE.encode() + rb")-(\d{1,10})")

#: linux/netlink.h, linux/genetlink.h, linux/netdev.h.
_NETLINK_GENERIC: Final = 16
_REQUEST, _DUMP, _MULTI = 1, 0x300, 2
_ERROR, _DONE, _CONTROL = 2, 3, 16
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2
_QUEUE_GET, _NAPI_GET = 10, 11
_QUEUE_ID, _QUEUE_IFINDEX, _QUEUE_TYPE, _QUEUE_NAPI = 1, 2, 3, 4
_NAPI_IFINDEX, _NAPI_ID, _NAPI_IRQ, _NAPI_PID = 1, 2, 3, 4
_HEADER: Final = struct.Struct("=IHHIIBBH")
_ATTRIBUTE: Final = struct.Struct("=HH")


def read_napis(root: Root, nics: Sequence[model.Nic]) -> None:
    """Give NICs, and other devices with threaded NAPI, their NAPIs."""
    wanted = [nic for nic in nics if nic.kind in ("physical", "vf") or nic.threaded]
    known = _ask(wanted) if root.live else _recorded(root)
    for nic in wanted:
        nic.napis = tuple(
            _napi(root, napi) for napi in sorted(known.get(nic.name, ()), key=lambda napi: napi["id"])
        )
    lacking = {nic.name: nic for nic in wanted if nic.threaded and not any(napi.thread for napi in nic.napis)}
    for name, thread in _find_threads(root, lacking) if lacking else ():
        nic = lacking[name]
        nic.napis = (*nic.napis, model.Napi(thread.index or 0, None, (), (), thread))


def as_json(nics: Sequence[model.Nic]) -> bytes:
    """Return the record that :func:`read_napis` reads."""
    napis = {
        nic.name: [{**dataclasses.asdict(napi), "thread": napi.thread and napi.thread.tid} for napi in nic.napis]
        for nic in nics
        if nic.napis
    }
    return (json.dumps(napis, sort_keys=True) + "\n").encode()


def _napi(root: Root, napi: Mapping[str, Any]) -> model.Napi:
    found = _read_thread(root, napi["thread"]) if napi["thread"] else None
    thread = found[1] if found else None
    return model.Napi(napi["id"], napi["irq"], tuple(napi["rx"]), tuple(napi["tx"]), thread)


def _recorded(root: Root) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    data = root.read(root.directory(DIRECTORY), FILE, 4 << 20)
    if data is None:
        return {}
    from nova_perf_tuning import json_schema  # 50 ms of imports: only where a recorded host has this file

    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    if json_schema.find(record, _SCHEMA) is not None:
        root.notes.add(NoteCode.NAPIS_UNKNOWN, f"{DIRECTORY}/{FILE}")
        return {}
    found: Mapping[str, Sequence[Mapping[str, Any]]] = record
    return found


def _read_thread(root: Root, tid: int, stat: bytes | None = None) -> tuple[str, model.Thread] | None:
    """Return device and thread of a NAPI; None where this is none, whatever its name: it is kthreadd's child."""
    place = root.directory(f"proc/{tid}")
    stat = stat or root.read(place, "stat")
    known = guests.name_and_start(root, stat, place)
    match = _THREAD.fullmatch(known[0]) if known is not None else None
    if stat is None or known is None or match is None or stat.rpartition(b") ")[2].split(b" ", 2)[1] != b"2":
        return None
    affinity = guests.affinity_of(root, tid, place)
    return match[1].decode(), model.Thread(tid, "napi", int(match[2]), affinity, known[1], True)


def _find_threads(root: Root, nics: Mapping[str, model.Nic]) -> Iterator[tuple[str, model.Thread]]:
    """Yield device and thread of NAPIs, found by looking at every process."""
    base = root.directory("proc")
    tids = numbers(root.directories(base), 1, domain.MAX_PID)
    for tid, stat in zip(tids, root.each(base, [f"{tid}/stat" for tid in tids]), strict=True):
        if stat is not None and b" (napi/" in stat:
            found = _read_thread(root, tid, stat)
            if found is not None and found[0] in nics:
                yield found


def _ask(nics: Sequence[model.Nic]) -> dict[str, list[dict[str, Any]]]:
    """Return what the kernel says, by device; nothing before Linux 6.8."""
    known: dict[str, list[dict[str, Any]]] = {}
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as link:
        link.settimeout(2)
        name = _attribute(_FAMILY_NAME, b"netdev\0")
        family = _number(next(_request(link, _CONTROL, _GET_FAMILY, 0, name))[_FAMILY_ID])
        for nic in nics:
            with contextlib.suppress(OSError):  # it has gone, or is in no state to be asked
                index = struct.pack("=I", socket.if_nametoindex(nic.name))
                napis: dict[int, dict[str, Any]] = {}
                for napi in _request(link, family, _NAPI_GET, _DUMP, _attribute(_NAPI_IFINDEX, index)):
                    irq, pid = (_number(napi[key]) if key in napi else None for key in (_NAPI_IRQ, _NAPI_PID))
                    number = _number(napi[_NAPI_ID])
                    napis[number] = {"id": number, "irq": irq, "rx": [], "tx": [], "thread": pid}
                for queue in _request(link, family, _QUEUE_GET, _DUMP, _attribute(_QUEUE_IFINDEX, index)):
                    if _QUEUE_NAPI in queue and (polling := napis.get(_number(queue[_QUEUE_NAPI]))):
                        polling["tx" if _number(queue[_QUEUE_TYPE]) else "rx"].append(_number(queue[_QUEUE_ID]))
                known[nic.name] = list(napis.values())
    return known


def _number(value: bytes) -> int:
    return int.from_bytes(value, sys.byteorder)


def _attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute of a message, padded to four bytes."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def _request(
    link: socket.socket, family: int, command: int, flags: int, attribute: bytes
) -> Iterator[dict[int, bytes]]:
    """Ask, and yield the attributes of each answer by their kind.

    :raises OSError: the kernel refuses, or does not know the family or the command.
    """
    size = _HEADER.size + len(attribute)
    link.send(_HEADER.pack(size, family, _REQUEST | flags, 1, 0, command, 1, 0) + attribute)
    while True:
        data = link.recv(1 << 16)
        while len(data) >= _HEADER.size:
            length, kind, answered, *_rest = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                error = -int.from_bytes(data[16:20], sys.byteorder, signed=True)
                raise OSError(error, os.strerror(error))
            yield dict(_attributes(data[_HEADER.size : length]))
            if not answered & _MULTI:
                return
            data = data[(length + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : length]
        data = data[max(length + 3 & ~3, 4) :]
