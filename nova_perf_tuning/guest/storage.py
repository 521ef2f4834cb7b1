"""I/O threads of a domain and the virtio disks spread over them; queues of the disks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lxml import etree

from nova_perf_tuning.guest import network, parsing
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

_SCSI_MODELS: Final = frozenset({"virtio-scsi", "virtio-transitional", "virtio-non-transitional"})
#: virtio-scsi has a control and an event queue beside those for requests.
_MOST_QUEUES: Final = parsing.MAX_QUEUES - 2


def can_map(libvirt: int, qemu: int) -> bool:
    """Whether versions, in libvirt's form (9000000 for 9.0.0), can spread one disk over several I/O threads."""
    return libvirt >= 10_000_000 and qemu >= 9_000_000


def write(
    domain: etree._Element,
    request: request_module.Request,
    vcpus: int,
    mapping: bool,
) -> list[str]:
    """Give ``domain`` its I/O threads and disk queues; return what was left out and why.

    Disks take the threads in turn, whatever served them before.

    :param mapping: the queues of one disk can be spread over several I/O threads (:func:`can_map`).
    """
    left_out = []
    able = []
    for device in domain.iterfind("devices/*"):
        if device.tag == "disk" or (device.tag == "controller" and device.get("type") == "scsi"):
            reason = why_not(device)
            if reason is None:
                able.append(device)
            elif reason:
                left_out.append(f"{_label(device)}: {reason}")
    if request.disk_queues is not None:
        set_queues(able, request.disk_queues, vcpus)
    if request.iothreads is None:
        return left_out
    if domain.find("iothreadids") is not None:
        return [*left_out, "the domain numbers its I/O threads itself; they and their disks stay"]
    threads = range(1, request.iothreads + 1)
    limit = min(request.disk_queues, vcpus) if isinstance(request.disk_queues, int) else vcpus
    _make(domain, len(threads))
    _pin(domain, threads)
    return [*left_out, *_spread(able, threads, limit, mapping)]


def write_plugged(disk: etree._Element, domain_xml: str, request: request_module.Request) -> list[str]:
    """Give a ``<disk>`` its queues and the I/O thread of the running guest that serves fewest disks.

    :param domain_xml: the guest it is plugged into; only I/O threads that it has are given, which are
        none when it was started before this package was installed.
    """
    reason = why_not(disk)
    if reason is not None:
        return [f"the disk that is plugged in: {reason}"] if reason else []
    domain = parsing.parse_tree(domain_xml)
    there = parsing.number(domain.findtext("iothreads", "0").strip(), 0, parsing.MAX_IOTHREADS, "<iothreads>")
    threads = min(request.iothreads or 0, there)
    if request.disk_queues is not None:
        vcpus = parsing.number(domain.findtext("vcpu", "1").strip(), 1, parsing.MAX_VCPUS, "<vcpu>")
        set_queues([disk], request.disk_queues, vcpus)
    if threads:
        busy = [thread for device in domain.iterfind("devices/*") for thread in served_by(device)]
        attach(disk, [min(range(1, threads + 1), key=busy.count)])
    return []


def why_not(device: etree._Element) -> str | None:
    """Return why a device takes neither queues nor an I/O thread; empty when that goes without saying."""
    if device.tag == "disk":
        kind, bus = device.get("device", "disk"), _of(device, "target", "bus")
        if bus == "scsi":
            return ""  # its controller has them
        if kind not in ("disk", "lun"):
            return f"a {vocabulary.shown(kind)} has neither queues nor an I/O thread"
        if bus != "virtio":
            return f"on bus {vocabulary.shown(bus or 'unknown')}, not virtio"
        if device.get("type") in ("vhostuser", "vhostvdpa"):
            return f"of type {device.get('type')}, served by its own back end"
    elif device.get("model") not in _SCSI_MODELS:
        return f"its model is {vocabulary.shown(device.get('model', 'left to libvirt'))}, not virtio-scsi"
    return None


def set_queues(devices: Iterable[etree._Element], asked: request_module.Queues, vcpus: int) -> None:
    """Give devices their request queues, no more than vCPUs."""
    queues = min(vcpus, _MOST_QUEUES) if isinstance(asked, str) else min(asked, vcpus)
    for device in devices:
        network.assign(network.child(device, "driver"), {"queues": str(queues)})


def attach(device: etree._Element, threads: Sequence[int]) -> None:
    """Let these threads and no others serve a device; none: the emulator's."""
    if served_by(device) == set(threads):
        return
    driver = network.child(device, "driver")
    for mapping in driver.findall("iothreads"):
        driver.remove(mapping)
    network.assign(driver, {"iothread": str(threads[0]) if len(threads) == 1 else None})
    if len(threads) > 1:
        mapping = etree.SubElement(driver, "iothreads")
        for thread in threads:
            etree.SubElement(mapping, "iothread", id=str(thread))


def served_by(device: etree._Element) -> set[int]:
    """Return the I/O threads that serve a device; none: the emulator's thread."""
    texts = device.xpath("driver/@iothread | driver/iothreads/iothread/@id")
    return {parsing.number(text, 1, parsing.MAX_IOTHREADS, "driver iothread") for text in texts}


def _label(device: etree._Element) -> str:
    if device.tag == "disk":
        return f"disk {vocabulary.shown(_of(device, 'target', 'dev') or '?')}"
    return f"scsi controller {vocabulary.shown(device.get('index', '0'))}"


def _of(device: etree._Element, tag: str, attribute: str) -> str | None:
    """Return an attribute of a device's child, None where there is none."""
    part = device.find(tag)
    value: str | None = None if part is None else part.get(attribute)
    return value


def _make(domain: etree._Element, asked: int) -> None:
    """Make sure that as many I/O threads exist as asked; none is taken away."""
    element = domain.find("iothreads")
    written = "" if element is None else (element.text or "").strip()
    if parsing.number(written or "0", 0, parsing.MAX_IOTHREADS, "<iothreads>") < asked:
        if element is None:
            element = etree.Element("iothreads")
            (domain.find("memory") if domain.find("vcpu") is None else domain.find("vcpu")).addnext(element)
        element.text = str(asked)


def _spread(devices: Sequence[etree._Element], threads: Sequence[int], limit: int, mapping: bool) -> list[str]:
    """Give each device a thread in turn; where QEMU can, disks share those that are left over.

    :param limit: how many threads one disk can use: as many as it has queues.
    """
    if threads and not devices:
        return ["no virtio disk or controller that an I/O thread could serve"]
    idle = set(threads)
    for index, device in enumerate(devices):
        turn = index % len(threads) if threads else 0
        several = mapping and device.tag == "disk" and index < len(threads)
        chosen = threads[index :: len(devices)][:limit] if several else threads[turn : turn + 1]
        attach(device, chosen)
        idle -= set(chosen)
    if not idle:
        return []
    names = ", ".join(map(str, sorted(idle)))
    return [
        f"I/O thread {names} serves no disk, there are fewer disks; spreading one disk needs libvirt 10.0.0 and "
        "QEMU 9.0.0"
    ]


def _pin(domain: etree._Element, threads: Iterable[int]) -> None:
    """Pin threads that have no pin where the emulator is pinned: Nova moves both along in a live migration."""
    emulator = domain.find("cputune/emulatorpin")
    if emulator is None:
        return
    cpus = parsing.cpuset(emulator.get("cpuset", ""), "emulatorpin")
    pins = domain.findall("cputune/iothreadpin")
    pinned = {pin.get("iothread") for pin in pins}
    last = pins[-1] if pins else emulator
    for thread in threads:
        if str(thread) not in pinned:
            pin = etree.Element("iothreadpin", iothread=str(thread), cpuset=cpus)
            last.addnext(pin)
            last = pin
