"""I/O threads of a domain and the virtio disks spread over them; queues of the disks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import markup, parsing
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

_SCSI_MODELS: Final = frozenset({"virtio-scsi", "virtio-transitional", "virtio-non-transitional"})
#: libvirt takes I/O threads for virtio devices at these addresses alone; none is given before it assigns one.
_ADDRESSES: Final = frozenset({"pci", "ccw"})


def transform(
    domain: markup.Element,
    request: request_module.Request,
    vcpus: int,
    features: features_module.Features,
    notes: list[str],
) -> None:
    """Give ``domain`` its I/O threads and disk queues; ``notes`` gets changes and what was left out."""
    devices = domain.child("devices")
    units = [] if devices is None else _units(devices, notes)
    if request.disk_queues is not None:
        for unit in units:
            _set_queues(unit, request.disk_queues, vcpus, features, notes)
    if request.iothreads == 0:
        _detach(units, notes)
    elif request.iothreads is not None:
        reason = features.missing("iothread")
        if reason is not None:
            notes.append(f"left out: perf:iothreads={request.iothreads}: {reason}")
            return
        threads = _make_threads(domain, request.iothreads, notes)
        _spread(units, threads, _mapping_limit(request, vcpus), features, notes)
        _pin(domain, threads, notes)


def _units(devices: markup.Element, notes: list[str]) -> list[markup.Element]:
    """Return what can have queues and an I/O thread: virtio-blk disks and virtio-scsi controllers."""
    units = []
    for element in devices.children():
        reason = None
        if element.name == "disk":
            reason = _why_not_disk(element)
        elif element.name == "controller" and element.attrs.get("type") == "scsi":
            model = element.attrs.get("model")
            reason = (
                None if model in _SCSI_MODELS else f"its model is {model or 'left to libvirt'}, not virtio-scsi"
            )
        else:
            continue
        address = element.child("address")
        kind = "pci" if address is None else address.attrs.get("type")
        if reason is None and kind not in _ADDRESSES:
            reason = f"its address is of type {vocabulary.shown(str(kind))}, not pci or ccw"
        if reason is None:
            units.append(element)
        elif reason:
            notes.append(f"left out: {_label(element)}: {reason}")
    return units


def _why_not_disk(disk: markup.Element) -> str | None:
    """Return why a disk takes neither queues nor an I/O thread; empty when that goes without saying."""
    target = disk.child("target")
    bus = "" if target is None else target.attrs.get("bus", "")
    device = disk.attrs.get("device", "disk")
    if bus == "scsi":
        return ""  # its controller has them
    if device not in ("disk", "lun"):
        return f"a {device} has neither queues nor an I/O thread"
    if bus != "virtio":
        return f"on bus {bus or 'unknown'}, not virtio"
    if disk.attrs.get("type") in ("vhostuser", "vhostvdpa"):
        return f"of type {disk.attrs['type']}, served by its own back end"
    return None


def _set_queues(
    unit: markup.Element,
    asked: request_module.Queues,
    vcpus: int,
    features: features_module.Features,
    notes: list[str],
) -> None:
    reason = features.missing("disk_queues")
    if unit.name == "disk" and reason is not None:
        notes.append(f"left out: {_label(unit)}: {reason}")
        return
    if asked == request_module.AUTO:
        queues, why = vcpus, "auto: one for each vCPU"
    else:
        assert isinstance(asked, int)
        queues, why = min(asked, vcpus), "as asked" if asked <= vcpus else f"{asked} asked, cut to the vCPUs"
    driver = _driver(unit)
    if driver.attrs.get("queues") != str(queues):
        driver.set("queues", str(queues))
        notes.append(f"{_label(unit)}: {queues} request queue{'s' * (queues > 1)} ({why})")


def _make_threads(domain: markup.Element, asked: int, notes: list[str]) -> list[int]:
    """Make sure that ``asked`` I/O threads exist; return the ids to use."""
    element = domain.child("iothreads")
    text = "" if element is None else "".join(item for item in element.content if isinstance(item, str)).strip()
    count = parsing.number(text or "0", 0, parsing.MAX_IOTHREADS, "<iothreads>")
    if count < asked:
        if element is None:
            element = domain.append("iothreads", {}, domain.child("vcpu") or domain.child("memory"))
        element.text(str(asked))
        notes.append(f"{asked} I/O thread{'s' * (asked > 1)} (were {count})")
        count = asked
    elif count > asked:
        notes.append(f"left out: the domain has {count} I/O threads already; they stay, {asked} are used")
    listed = domain.child("iothreadids")
    ids = []
    if listed is not None:
        ids = [
            parsing.number(entry.attrs.get("id", ""), 1, parsing.MAX_IOTHREADS, "iothread id")
            for entry in listed.children("iothread")
        ]
    # libvirt numbers those that the list leaves out with the lowest free ids
    free = (number for number in range(1, count + len(ids) + 1) if number not in ids)
    ids += [next(free) for _ in range(count - len(ids))]
    return sorted(ids)[:asked]


def _spread(
    units: Sequence[markup.Element],
    threads: list[int],
    mapping_limit: int,
    features: features_module.Features,
    notes: list[str],
) -> None:
    """Give each unit the thread that serves fewest; spare threads share a disk's queues where QEMU can."""
    if not units:
        notes.append("left out: no virtio disk or controller that an I/O thread could serve")
        return
    load = Counter(dict.fromkeys(threads, 0))
    homeless = []
    for unit in units:
        served = _served_by(unit)
        if served and served <= load.keys():
            load.update(served)
        else:
            homeless.append(unit)
    for unit in homeless:
        reason = features.missing("scsi_iothread") if unit.name == "controller" else None
        if reason is not None:
            notes.append(f"left out: {_label(unit)}: {reason}")
            continue
        spare = [thread for thread in threads if not load[thread]][:: max(1, len(homeless) - homeless.index(unit))]
        if unit.name == "disk" and len(spare) > 1 and features.confirmed("iothread_mapping"):
            chosen = spare[:mapping_limit]
        else:
            chosen = [min(threads, key=lambda thread: (load[thread], thread))]
        _attach(unit, chosen)
        load.update(chosen)
        notes.append(f"{_label(unit)}: I/O thread{'s' * (len(chosen) > 1)} {', '.join(map(str, chosen))}")
    idle = [str(thread) for thread in threads if not load[thread]]
    if idle:
        reason = features.missing("iothread_mapping") or "spreading one disk needs libvirt 10.0.0 and QEMU 9.0.0"
        notes.append(f"left out: I/O thread {', '.join(idle)} serves no disk, there are fewer disks; {reason}")


def _mapping_limit(request: request_module.Request, vcpus: int) -> int:
    """Return how many threads one disk can use: as many as it has queues."""
    return min(request.disk_queues, vcpus) if isinstance(request.disk_queues, int) else vcpus


def _served_by(unit: markup.Element) -> set[int]:
    driver = unit.child("driver")
    if driver is None:
        return set()
    texts = [driver.attrs["iothread"]] if "iothread" in driver.attrs else []
    for mapping in driver.children("iothreads"):
        texts += [entry.attrs.get("id", "") for entry in mapping.children("iothread")]
    return {parsing.number(text, 1, parsing.MAX_IOTHREADS, "driver iothread") for text in texts}


def _attach(unit: markup.Element, threads: list[int]) -> None:
    driver = _driver(unit)
    for mapping in list(driver.children("iothreads")):
        driver.remove(mapping)
    if len(threads) == 1:
        driver.set("iothread", str(threads[0]))
        return
    driver.set("iothread", None)
    mapping = driver.append("iothreads", {})
    for thread in threads:
        mapping.append("iothread", {"id": str(thread)})


def _detach(units: Sequence[markup.Element], notes: list[str]) -> None:
    for unit in units:
        if _served_by(unit):
            driver = _driver(unit)
            driver.set("iothread", None)
            for mapping in list(driver.children("iothreads")):
                driver.remove(mapping)
            notes.append(f"{_label(unit)}: with the emulator thread (perf:iothreads=0)")


def _pin(domain: markup.Element, threads: list[int], notes: list[str]) -> None:
    """Pin threads that have no pin where the emulator is pinned: Nova moves both along in a live migration."""
    cputune = domain.child("cputune")
    emulator = None if cputune is None else cputune.child("emulatorpin")
    if cputune is None or emulator is None:
        return
    cpus = parsing.cpuset(emulator.attrs.get("cpuset", ""), "emulatorpin")
    pins = list(cputune.children("iothreadpin"))
    pinned = {pin.attrs.get("iothread") for pin in pins}
    last = pins[-1] if pins else emulator
    for thread in threads:
        if str(thread) not in pinned:
            last = cputune.append("iothreadpin", {"iothread": str(thread), "cpuset": cpus}, last)
            notes.append(f"I/O thread {thread} pinned to {cpus}, as the emulator is")


def _driver(unit: markup.Element) -> markup.Element:
    return unit.child("driver") or unit.append("driver", {})


def _label(element: markup.Element) -> str:
    if element.name == "controller":
        return f"scsi controller {vocabulary.shown(element.attrs.get('index', '0'))}"
    target = element.child("target")
    return f"disk {'?' if target is None else vocabulary.shown(target.attrs.get('dev', '?'))}"
