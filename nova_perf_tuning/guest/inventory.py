"""The devices and features of a guest that decide its speed: what the audit looks at beyond placement.

Names of files, volumes and hosts are not read: nothing here tells what a tenant stores where.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from lxml import etree

from nova_perf_tuning.guest import parsing

#: Devices of one kind in one guest; QEMU takes some hundreds.
_MAX_DEVICES = 1024


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

    :raises DomainError: it is no domain XML.
    """
    root = parsing.parse_tree(xml)
    devices = root.find("devices")
    children = [] if devices is None else list(devices)
    return Inventory(
        memory_kib=_memory(root.find("memory")),
        hugepages=root.find("memoryBacking/hugepages") is not None,
        cells=len(root.findall("cpu/numa/cell")),
        hyperv=_hyperv(root.find("features/hyperv")),
        hyperv_clock=any(
            timer.get("name") == "hypervclock" and timer.get("present") != "no"
            for timer in root.findall("clock/timer")
        ),
        windows=_is_windows(root),
        disks=tuple(_disk(one) for one in children if one.tag == "disk")[:_MAX_DEVICES],
        controllers=tuple(_controller(one) for one in children if one.tag == "controller")[:_MAX_DEVICES],
        rx_queue_sizes=tuple(
            _attribute(one, "driver", "rx_queue_size") for one in children if one.tag == "interface"
        )[:_MAX_DEVICES],
        mtus=tuple(_mtu(one) for one in children if one.tag == "interface")[:_MAX_DEVICES],
    )


def _mtu(interface: etree._Element) -> int | None:
    """Return what the guest's NIC is told (``<mtu size=…>``), None when nothing or no number is."""
    text = _attribute(interface, "mtu", "size")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _attribute(element: etree._Element, path: str, name: str) -> str:
    found = element.find(path)
    return "" if found is None else _short(found.attrib, name)


def _short(attributes: Mapping[str, str], name: str) -> str:
    """Return an attribute as it can be shown: printable, and no longer than any that libvirt knows."""
    text = attributes.get(name, "").strip()
    return text if len(text) <= 256 and text.isprintable() else ""


def _memory(element: etree._Element | None) -> int:
    text = "" if element is None else (element.text or "").strip()
    stated = element is not None and element.get("unit", "KiB") == "KiB" and len(text) < 19
    return int(text) if stated and text.isascii() and text.isdigit() else 0


def _hyperv(element: etree._Element | None) -> frozenset[str]:
    if element is None:
        return frozenset()
    if element.get("mode") == "passthrough":
        return frozenset({"passthrough"})
    return frozenset(one.tag for one in element if one.get("state") == "on" and len(one.tag) < 40)


def _is_windows(root: etree._Element) -> bool:
    metadata = root.find("metadata")
    if metadata is None:
        return False
    nova = f"{{{parsing.NOVA_NAMESPACE}}}"
    for one in metadata.iter():
        if one.tag == f"{nova}property" and one.get("name") == "os_type":
            return (one.text or "").strip().lower() == "windows"
        if one.tag.endswith("}os") and "libosinfo.org" in one.tag:
            return "microsoft.com/win" in one.get("id", "")
    return False


def _disk(element: etree._Element) -> Disk:
    return Disk(
        device=_attribute(element, "target", "dev") or "?",
        kind=_short(element.attrib, "device") or "disk",
        source=_short(element.attrib, "type"),
        bus=_attribute(element, "target", "bus"),
        cache=_attribute(element, "driver", "cache"),
    )


def _controller(element: etree._Element) -> Controller:
    return Controller(
        _short(element.attrib, "type"),
        _short(element.attrib, "model"),
        _attribute(element, "driver", "queues"),
    )
