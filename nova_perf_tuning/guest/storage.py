# SPDX-License-Identifier: Apache-2.0
"""I/O threads of a domain and the virtio disks spread over them; queues of the disks."""

from collections.abc import Collection, Sequence
from typing import Final

from lxml import etree

from nova_perf_tuning.guest import network, parsing
from nova_perf_tuning.guest.domain import VIRTIO_SCSI_MODELS, LeftOut, Omission
from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.specs.request import Request

#: Tag of a device -> libvirt and QEMU from which on several I/O threads can serve one
#: (iothread-vq-mapping).
_SPREADABLE_SINCE: Final = {
    "disk": (10_000_000, 9_000_000),
    "controller": (11_002_000, 10_000_000),
}


def spreadable(libvirt: int, qemu: int) -> frozenset[str]:
    """Return tags of the devices that several I/O threads can serve; 9.0.0 is 9000000 as libvirt has versions."""
    return frozenset(
        tag
        for tag, (least, least_qemu) in _SPREADABLE_SINCE.items()
        if libvirt >= least and qemu >= least_qemu
    )


def write(
    domain: etree._Element, request: Request, vcpus: int, spread: Collection[str]
) -> list[LeftOut]:
    """Give ``domain`` its I/O threads and disk queues; return what was left out and why.

    Disks take the threads in turn, whatever served them before.

    :param spread: tags of the devices that several I/O threads can serve (:func:`spreadable`).
    """
    if request.disk_queues is None and request.iothreads is None:
        return []
    left_out, able = [], []
    for device in parsing.grandchildren(domain, "devices", "disk", "controller"):
        # A disk of bus scsi has the queues and the I/O thread of its controller.
        if device.tag == "controller":
            bus = device.get("type")
        else:
            bus = parsing.attribute(device, "target", "bus")
        if (bus == "scsi") == (device.tag == "controller"):
            objection = _objection(device, bus)
            if objection is None:
                able.append(device)
                _set_queues(device, request, vcpus)
            else:
                left_out.append(objection)
    if request.iothreads is None:
        return left_out
    if parsing.first(domain, "iothreadids") is not None:
        left_out.append(LeftOut(Omission.THREADS_NUMBERED))
        return left_out
    if parsing.iothreads(domain) < request.iothreads:  # none is taken away
        element, before = parsing.first(domain, "iothreads"), parsing.first(domain, "vcpu")
        if element is None:
            element = etree.Element("iothreads")
            (domain.find("memory") if before is None else before).addnext(element)
        element.text = str(request.iothreads)
    threads = range(1, request.iothreads + 1)
    _pin(domain, threads)
    return left_out + _spread(able, threads, vcpus, spread)


def write_plugged(disk: etree._Element, domain_xml: str, request: Request) -> list[LeftOut]:
    """Give a ``<disk>`` its queues and the I/O thread of the running guest that serves fewest disks.

    :param domain_xml: the guest it is plugged into; only I/O threads that it has are given, which
        are none when it was started before this package was installed.
    """
    bus = parsing.attribute(disk, "target", "bus")
    if bus == "scsi":
        return []
    objection = _objection(disk, bus)
    if objection is not None:
        return [objection]
    domain = parsing.parse_tree(domain_xml)
    threads = min(request.iothreads or 0, parsing.iothreads(domain))
    _set_queues(disk, request, len(parsing.running_vcpus(domain)))
    if threads:
        busy: list[int] = []
        for driver in domain.iterfind("devices/*/driver"):
            busy += _served_by(driver)
        _attach(network.child(disk, "driver"), [min(range(1, threads + 1), key=busy.count)])
    return []


def _label(device: etree._Element) -> str:
    if device.tag == "controller":
        return f"scsi controller {vocabulary.shown(device.get('index', '0'))}"
    return f"disk {vocabulary.shown(parsing.attribute(device, 'target', 'dev') or '?')}"


def _objection(device: etree._Element, bus: str) -> LeftOut | None:
    """Return why a device on ``bus`` takes neither queues nor an I/O thread."""
    if device.tag == "controller":
        model = device.get("model", "left to libvirt")
        if model in VIRTIO_SCSI_MODELS:
            return None
        return LeftOut(Omission.CONTROLLER_NOT_VIRTIO, _label(device), vocabulary.shown(model))
    kind, source = device.get("device", "disk"), device.get("type")
    if kind not in ("disk", "lun"):
        return LeftOut(Omission.NO_DISK, _label(device), vocabulary.shown(kind))
    if bus != "virtio":
        return LeftOut(Omission.BUS_NOT_VIRTIO, _label(device), vocabulary.shown(bus or "unknown"))
    if source in ("vhostuser", "vhostvdpa"):
        return LeftOut(Omission.OWN_BACK_END, _label(device), source)
    return None


def _set_queues(device: etree._Element, request: Request, vcpus: int) -> None:
    """Give a device its request queues, no more than vCPUs."""
    wanted = request.disk_queues
    if wanted is not None:
        if not isinstance(wanted, int):
            # virtio-scsi also has a control and an event queue.
            wanted = parsing.MAX_QUEUES - 2
        queues = min(vcpus, wanted)
        network.child(device, "driver").set("queues", str(queues))


def _attach(driver: etree._Element, threads: Sequence[int]) -> None:
    """Let these threads and no others serve the device of a ``<driver>``; none: the emulator's."""
    if _served_by(driver) == set(threads):
        return
    for mapping in list(driver.iterchildren("iothreads")):
        driver.remove(mapping)
    single = None
    if len(threads) == 1:
        single = str(threads[0])
    network.assign(driver, {"iothread": single})
    if len(threads) > 1:
        mapping = etree.SubElement(driver, "iothreads")
        for thread in threads:
            etree.SubElement(mapping, "iothread", id=str(thread))


def _served_by(driver: etree._Element) -> set[int]:
    """Return the I/O threads that serve the device of a ``<driver>``; none: the emulator's thread."""
    texts = [driver.get("iothread")]
    for thread in parsing.grandchildren(driver, "iothreads", "iothread"):
        texts.append(thread.get("id"))
    threads: set[int] = set()
    for text in texts:
        if text is not None:
            threads.add(parsing.number(text, 1, parsing.MAX_IOTHREADS, "iothread"))
    return threads


def _spread(
    devices: Sequence[etree._Element], threads: Sequence[int], vcpus: int, spread: Collection[str]
) -> list[LeftOut]:
    """Give each device a thread in turn; where QEMU can, devices share those that are left over."""
    if threads and not devices:
        return [LeftOut(Omission.NOTHING_TO_SERVE)]
    left_out = []
    idle = set(threads)
    for index, device in enumerate(devices):
        if threads:
            driver = network.child(device, "driver")
        else:
            driver = parsing.first(device, "driver")
        # A thread beyond the queues would serve none. By default QEMU has one queue for each vCPU.
        limit = vcpus
        if driver is not None and driver.get("queues") is not None:
            limit = parsing.number(driver.get("queues"), 1, parsing.MAX_QUEUES, "driver queues")
        chosen: Sequence[int] = threads[index :: len(devices)][:limit]
        if len(chosen) > 1 and device.tag not in spread:
            needs = zip(("libvirt", "QEMU"), _SPREADABLE_SINCE[device.tag], strict=True)
            detail = " and ".join(
                f"{name} {least // 10**6}.{least // 1000 % 1000}" for name, least in needs
            )
            left_out.append(LeftOut(Omission.ONE_THREAD, _label(device), detail))
            chosen = chosen[:1]
        idle -= set(chosen)
        if threads and not chosen:
            chosen = [threads[index % len(threads)]]
        if driver is not None:
            _attach(driver, chosen)
    if idle:
        left_out.append(LeftOut(Omission.IDLE_THREADS, detail=", ".join(map(str, sorted(idle)))))
    return left_out


def _pin(domain: etree._Element, threads: Sequence[int]) -> None:
    """Pin threads that have no pin where the emulator is pinned: Nova moves both along in a live migration."""
    emulator = next(parsing.grandchildren(domain, "cputune", "emulatorpin"), None)
    if emulator is None:
        return
    cpus = parsing.cpuset(emulator.get("cpuset", ""), "emulatorpin")
    pins = list(parsing.grandchildren(domain, "cputune", "iothreadpin"))
    pinned = {pin.get("iothread") for pin in pins}
    last = emulator
    if pins:
        last = pins[-1]
    for thread in reversed(threads):
        if str(thread) not in pinned:
            last.addnext(etree.Element("iothreadpin", iothread=str(thread), cpuset=cpus))
