"""I/O threads of a domain and the virtio disks spread over them; queues of the disks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lxml import etree

from nova_perf_tuning.guest import network, notes, parsing
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

_SCSI_MODELS: Final = frozenset({"virtio-scsi", "virtio-transitional", "virtio-non-transitional"})
#: libvirt takes I/O threads for virtio devices at these addresses alone; none is given before it assigns one.
_ADDRESSES: Final = frozenset({"pci", "ccw"})
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
) -> list[notes.Note]:
    """Give ``domain`` its I/O threads and disk queues; return what was changed and what was left out.

    :param mapping: the queues of one disk can be spread over several I/O threads (:func:`can_map`).
    """
    found = []
    able = []
    for device in domain.iterfind("devices/*"):
        if device.tag == "disk" or (device.tag == "controller" and device.get("type") == "scsi"):
            reason = _why_not(device)
            if reason is None:
                able.append(device)
            elif reason:
                found.append(notes.left_out(f"{_label(device)}: {reason}"))
    if request.disk_queues is not None:
        found += _set_queues(able, request.disk_queues, vcpus)
    if request.iothreads == 0:
        found += _detach(able)
    elif request.iothreads is not None:
        threads = _make_threads(domain, request.iothreads, found)
        limit = min(request.disk_queues, vcpus) if isinstance(request.disk_queues, int) else vcpus
        found += _spread(able, threads, limit, mapping)
        found += _pin(domain, threads)
    return found


def _label(device: etree._Element) -> str:
    if device.tag == "disk":
        return f"disk {vocabulary.shown(_of(device, 'target', 'dev') or '?')}"
    return f"scsi controller {vocabulary.shown(device.get('index', '0'))}"


def _of(device: etree._Element, tag: str, attribute: str) -> str | None:
    """Return an attribute of a device's child, None where there is none."""
    part = device.find(tag)
    value: str | None = None if part is None else part.get(attribute)
    return value


def _why_not(device: etree._Element) -> str | None:
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
    address = device.find("address")
    if address is not None and address.get("type") not in _ADDRESSES:
        return f"its address is of type {vocabulary.shown(str(address.get('type')))}, not pci or ccw"
    return None


def _set_queues(devices: Iterable[etree._Element], asked: request_module.Queues, vcpus: int) -> list[notes.Note]:
    if asked == request_module.AUTO:
        queues, why = min(vcpus, _MOST_QUEUES), "auto: one for each vCPU"
    else:
        assert isinstance(asked, int)
        queues, why = min(asked, vcpus), "as asked" if asked <= vcpus else f"{asked} asked, cut to the vCPUs"
    found = []
    for device in devices:
        if network.assign(network.child(device, "driver"), {"queues": str(queues)}):
            found.append(notes.Note(f"{_label(device)}: {queues} request queue{'s' * (queues > 1)} ({why})"))
    return found


def _make_threads(domain: etree._Element, asked: int, found: list[notes.Note]) -> list[int]:
    """Make sure that ``asked`` I/O threads exist; return the ids to use, in order. ``found`` gets the note."""
    element = domain.find("iothreads")
    written = "" if element is None else (element.text or "").strip()
    count = parsing.number(written or "0", 0, parsing.MAX_IOTHREADS, "<iothreads>")
    if count < asked:
        if element is None:
            element = etree.Element("iothreads")
            (domain.find("memory") if domain.find("vcpu") is None else domain.find("vcpu")).addnext(element)
        element.text = str(asked)
        found.append(notes.Note(f"{asked} I/O thread{'s' * (asked > 1)} (were {count})"))
        count = asked
    elif count > asked:
        found.append(notes.left_out(f"the domain has {count} I/O threads already; they stay, {asked} are used"))
    listed = domain.findall("iothreadids/iothread")
    ids = [parsing.number(one.get("id", ""), 1, parsing.MAX_IOTHREADS, "iothread id") for one in listed]
    # libvirt numbers those that the list leaves out with the lowest free ids
    free = (number for number in range(1, count + len(ids) + 1) if number not in ids)
    ids += [next(free) for _ in range(count - len(ids))]
    return sorted(ids)[:asked]


def _spread(
    devices: Iterable[etree._Element], threads: Sequence[int], limit: int, mapping: bool
) -> list[notes.Note]:
    """Give each device the thread that serves fewest; spare threads share a disk's queues where QEMU can.

    :param limit: how many threads one disk can use: as many as it has queues.
    """
    load = dict.fromkeys(threads, 0)
    homeless = []
    for device in devices:
        served = _served_by(device)
        if served and served <= load.keys():
            for thread in served:
                load[thread] += 1
        else:
            homeless.append(device)
    if not homeless and not any(load.values()):
        return [notes.left_out("no virtio disk or controller that an I/O thread could serve")]
    found = []
    for waiting, device in zip(range(len(homeless), 0, -1), homeless, strict=True):
        spare: Sequence[int] = ()
        if mapping and len(threads) > 1 and device.tag == "disk":
            spare = [thread for thread in threads if not load[thread]][::waiting]
        chosen = spare[:limit] if len(spare[:limit]) > 1 else [min(threads, key=load.__getitem__)]
        _attach(device, chosen)
        for thread in chosen:
            load[thread] += 1
        text = ", ".join(map(str, chosen))
        found.append(notes.Note(f"{_label(device)}: I/O thread{'s' * (len(chosen) > 1)} {text}"))
    idle = [str(thread) for thread in threads if not load[thread]]
    if idle:
        found.append(
            notes.left_out(
                f"I/O thread {', '.join(idle)} serves no disk, there are fewer disks; "
                "spreading one disk needs libvirt 10.0.0 and QEMU 9.0.0"
            )
        )
    return found


def _served_by(device: etree._Element) -> set[int]:
    texts = [one.get("id", "") for one in device.iterfind("driver/iothreads/iothread")]
    own = _of(device, "driver", "iothread")
    texts += [] if own is None else [own]
    return {parsing.number(text, 1, parsing.MAX_IOTHREADS, "driver iothread") for text in texts}


def _attach(device: etree._Element, threads: Sequence[int]) -> None:
    """Let these threads and no others serve a device; none: the emulator's."""
    driver = network.child(device, "driver")
    for mapping in driver.findall("iothreads"):
        driver.remove(mapping)
    network.assign(driver, {"iothread": str(threads[0]) if len(threads) == 1 else None})
    if len(threads) > 1:
        mapping = etree.SubElement(driver, "iothreads")
        for thread in threads:
            etree.SubElement(mapping, "iothread", id=str(thread))


def _detach(devices: Iterable[etree._Element]) -> list[notes.Note]:
    found = []
    for device in devices:
        if _served_by(device):
            _attach(device, ())
            found.append(notes.Note(f"{_label(device)}: with the emulator thread (perf:iothreads=0)"))
    return found


def _pin(domain: etree._Element, threads: Iterable[int]) -> list[notes.Note]:
    """Pin threads that have no pin where the emulator is pinned: Nova moves both along in a live migration."""
    emulator = domain.find("cputune/emulatorpin")
    if emulator is None:
        return []
    cpus = parsing.cpuset(emulator.get("cpuset", ""), "emulatorpin")
    pins = domain.findall("cputune/iothreadpin")
    pinned = {pin.get("iothread") for pin in pins}
    last = pins[-1] if pins else emulator
    found = []
    for thread in threads:
        if str(thread) not in pinned:
            pin = etree.Element("iothreadpin", iothread=str(thread), cpuset=cpus)
            last.addnext(pin)
            last = pin
            found.append(notes.Note(f"I/O thread {thread} pinned to {cpus}, as the emulator is"))
    return found
