"""The devices and features of a guest that decide its speed: what the audit looks at beyond placement.

Names of files, volumes and hosts are not read: nothing here tells what a tenant stores where.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from lxml import etree

from nova_perf_tuning.guest import parsing
from nova_perf_tuning.specs import vocabulary

_MOST: Final = 99_999_999_999


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """One ``<disk>``; empty texts where the XML says nothing.

    :ivar kind: ``disk``, ``cdrom``, ``floppy`` or ``lun``; :ivar source: ``file``, ``block``, ``network`` ...
    :ivar device: the name that the guest's XML gives it (``vda``).
    """

    device: str
    kind: str = "disk"
    source: str = "file"
    bus: str = ""
    cache: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Controller:
    """One ``<controller>``: its type (``scsi``, ``ide`` ...), model, and the driver's queues."""

    kind: str
    model: str = ""
    queues: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """What a domain's XML says of devices, memory and features.

    :ivar memory_kib: of the guest, 0 when it is not stated in KiB, as libvirt does.
    :ivar hugepages: ``<memoryBacking><hugepages>``; :ivar cells: guest NUMA cells, 0 for none.
    :ivar hyperv: names of the Hyper-V enlightenments that are on; ``passthrough`` for all that the host has.
    :ivar hyperv_clock: ``<timer name='hypervclock' present='yes'>``.
    :ivar windows: image properties or libosinfo say so.
    :ivar rx_queue_sizes, mtus: of each interface; what the XML does not say is empty or None.
    """

    memory_kib: int = 0
    hugepages: bool = False
    cells: int = 0
    hyperv: frozenset[str] = frozenset()
    hyperv_clock: bool = False
    windows: bool = False
    disks: tuple[Disk, ...] = ()
    controllers: tuple[Controller, ...] = ()
    rx_queue_sizes: tuple[str, ...] = ()
    mtus: tuple[int | None, ...] = ()


def read(xml: str | bytes) -> Inventory:
    """Return what ``xml`` (as for :func:`parsing.parse_domain`) holds.

    :raises DomainError: it is no domain XML, or a number in it is none.
    """
    root = parsing.parse_tree(xml)
    memory, in_other_unit = root.findtext("memory", "0"), _of(root, "memory", "unit") not in ("", "KiB")
    hyperv = root.find("features/hyperv")
    names = [] if hyperv is None else [one.tag for one in hyperv if one.get("state") == "on"]
    if hyperv is not None and hyperv.get("mode") == "passthrough":
        names = ["passthrough"]
    clocks = root.findall("clock/timer[@name='hypervclock']")
    interfaces = root.findall("devices/interface")
    return Inventory(
        memory_kib=parsing.number("0" if in_other_unit else memory.strip(), 0, _MOST, "<memory>"),
        hugepages=root.find("memoryBacking/hugepages") is not None,
        cells=len(root.findall("cpu/numa/cell")),
        hyperv=frozenset(names),
        hyperv_clock=any(timer.get("present") != "no" for timer in clocks),
        windows=_is_windows(root),
        disks=tuple(map(_disk, root.iterfind("devices/disk"))),
        controllers=tuple(
            Controller(_of(one, ".", "type"), _of(one, ".", "model"), _of(one, "driver", "queues"))
            for one in root.iterfind("devices/controller")
        ),
        rx_queue_sizes=tuple(_of(one, "driver", "rx_queue_size") for one in interfaces),
        mtus=tuple(parsing.number(_of(one, "mtu", "size") or "0", 0, _MOST, "mtu") or None for one in interfaces),
    )


def _of(element: etree._Element, path: str, name: str) -> str:
    """Return an attribute of a child, fit to be shown; empty where there is none."""
    found = element.find(path)
    return "" if found is None else vocabulary.shown(found.get(name, ""), 256)


def _is_windows(root: etree._Element) -> bool:
    for one in root.iterfind("metadata//*"):
        if one.tag == f"{{{parsing.NOVA_NAMESPACE}}}property" and one.get("name") == "os_type":
            return (one.text or "").strip().lower() == "windows"
        if one.tag.endswith("}os") and "libosinfo.org" in one.tag:
            return "microsoft.com/win" in one.get("id", "")
    return False


def _disk(element: etree._Element) -> Disk:
    return Disk(
        device=_of(element, "target", "dev") or "?",
        kind=element.get("device", "disk"),
        source=_of(element, ".", "type"),
        bus=_of(element, "target", "bus"),
        cache=_of(element, "driver", "cache"),
    )
