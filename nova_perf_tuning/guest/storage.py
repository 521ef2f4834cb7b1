"""I/O threads of a domain and the virtio disks spread over them; queues of the disks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import parsing, tree
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

_SCSI_MODELS: Final = frozenset({"virtio-scsi", "virtio-transitional", "virtio-non-transitional"})
#: libvirt takes I/O threads for virtio devices at these addresses alone; none is given before it assigns one.
_ADDRESSES: Final = frozenset({"pci", "ccw"})


@dataclasses.dataclass(slots=True)
class _Unit:
    """What can have queues and an I/O thread: a virtio-blk disk or a virtio-scsi controller.

    :ivar found: its ``<driver>``, None where there is none yet.
    :ivar mappings: the ``<iothreads>`` in it.
    """

    element: tree.Element
    is_disk: bool
    label: str
    found: tree.Element | None
    mappings: Sequence[tree.Element] = ()

    def driver(self) -> tree.Element:
        """Return its ``<driver>``, made if missing."""
        if self.found is None:
            self.found = tree.add(self.element, "driver", {})
        return self.found


def transform(
    domain: tree.Element,
    parts: Mapping[str, tree.Element],
    request: request_module.Request,
    vcpus: int,
    features: features_module.Features,
    notes: list[str],
) -> None:
    """Give ``domain`` its I/O threads and disk queues; ``notes`` gets changes and what was left out.

    :param parts: the domain's children by tag.
    """
    if request.disk_queues is None and request.iothreads is None:
        return
    devices = parts.get("devices")
    units = [] if devices is None else _units(devices, notes)
    if request.disk_queues is not None:
        _set_queues(units, request.disk_queues, vcpus, features, notes)
    if request.iothreads == 0:
        _detach(units, notes)
    elif request.iothreads is not None:
        reason = features.missing("iothread")
        if reason is not None:
            notes.append(f"left out: perf:iothreads={request.iothreads}: {reason}")
            return
        threads = _make_threads(domain, parts, request.iothreads, notes)
        _spread(units, threads, _mapping_limit(request, vcpus), features, notes)
        _pin(parts.get("cputune"), threads, notes)


def _units(devices: tree.Element, notes: list[str]) -> list[_Unit]:
    """Return what can have queues and an I/O thread."""
    units = []
    for element in devices.iterchildren():
        tag = element.tag
        is_disk = tag == "disk"
        if not is_disk and (tag != "controller" or element.get("type") != "scsi"):
            continue
        parts = tree.by_tag(element)
        if is_disk:
            target = parts.get("target")
            label = f"disk {vocabulary.shown('?' if target is None else target.get('dev') or '?')}"
            reason = _why_not_disk(element, target)
        else:
            label = f"scsi controller {vocabulary.shown(element.get('index') or '0')}"
            model = element.get("model")
            reason = (
                None if model in _SCSI_MODELS else f"its model is {model or 'left to libvirt'}, not virtio-scsi"
            )
        address = parts.get("address")
        kind = "pci" if address is None else address.get("type")
        if reason is None and kind not in _ADDRESSES:
            reason = f"its address is of type {vocabulary.shown(str(kind))}, not pci or ccw"
        if reason is None:
            driver = parts.get("driver")
            inside = () if driver is None else [one for one in driver.iterchildren() if one.tag == "iothreads"]
            units.append(_Unit(element, is_disk, label, driver, inside))
        elif reason:
            notes.append(f"left out: {label}: {reason}")
    return units


def _why_not_disk(disk: tree.Element, target: tree.Element | None) -> str | None:
    """Return why a disk takes neither queues nor an I/O thread; empty when that goes without saying."""
    bus = None if target is None else target.get("bus")
    device = disk.get("device") or "disk"
    if bus == "scsi":
        return ""  # its controller has them
    if device not in ("disk", "lun"):
        return f"a {device} has neither queues nor an I/O thread"
    if bus != "virtio":
        return f"on bus {bus or 'unknown'}, not virtio"
    kind = disk.get("type")
    if kind in ("vhostuser", "vhostvdpa"):
        return f"of type {kind}, served by its own back end"
    return None


def _set_queues(
    units: Sequence[_Unit],
    asked: request_module.Queues,
    vcpus: int,
    features: features_module.Features,
    notes: list[str],
) -> None:
    reason = features.missing("disk_queues")
    if asked == request_module.AUTO:
        queues, why = vcpus, "auto: one for each vCPU"
    else:
        assert isinstance(asked, int)
        queues, why = min(asked, vcpus), "as asked" if asked <= vcpus else f"{asked} asked, cut to the vCPUs"
    text, note = str(queues), f"{queues} request queue{'s' * (queues > 1)} ({why})"
    for unit in units:
        if unit.is_disk and reason is not None:
            notes.append(f"left out: {unit.label}: {reason}")
            continue
        driver = unit.driver()
        if driver.get("queues") != text:
            driver.set("queues", text)
            notes.append(f"{unit.label}: {note}")


def _make_threads(
    domain: tree.Element, parts: Mapping[str, tree.Element], asked: int, notes: list[str]
) -> list[int]:
    """Make sure that ``asked`` I/O threads exist; return the ids to use, in order.

    :param parts: the domain's children by tag.
    """
    element = parts.get("iothreads")
    text = "" if element is None else (element.text or "").strip()
    count = parsing.number(text or "0", 0, parsing.MAX_IOTHREADS, "<iothreads>")
    if count < asked:
        if element is None:
            element = tree.add(domain, "iothreads", {}, parts.get("vcpu", parts.get("memory")))
        element.text = str(asked)
        notes.append(f"{asked} I/O thread{'s' * (asked > 1)} (were {count})")
        count = asked
    elif count > asked:
        notes.append(f"left out: the domain has {count} I/O threads already; they stay, {asked} are used")
    listed = parts.get("iothreadids")
    if listed is None:
        return list(range(1, asked + 1))
    ids = [
        parsing.number(entry.get("id") or "", 1, parsing.MAX_IOTHREADS, "iothread id")
        for entry in listed.iterchildren("iothread")
    ]
    # libvirt numbers those that the list leaves out with the lowest free ids
    free = (number for number in range(1, count + len(ids) + 1) if number not in ids)
    ids += [next(free) for _ in range(count - len(ids))]
    return sorted(ids)[:asked]


def _spread(
    units: Sequence[_Unit],
    threads: list[int],
    mapping_limit: int,
    features: features_module.Features,
    notes: list[str],
) -> None:
    """Give each unit the thread that serves fewest; spare threads share a disk's queues where QEMU can."""
    if not units:
        notes.append("left out: no virtio disk or controller that an I/O thread could serve")
        return
    load = dict.fromkeys(threads, 0)
    homeless = []
    for unit in units:
        served = _served_by(unit)
        if served and served <= load.keys():
            for thread in served:
                load[thread] += 1
        else:
            homeless.append(unit)
    mapping = len(threads) > 1 and features.confirmed("iothread_mapping")
    for place, unit in enumerate(homeless):
        reason = None if unit.is_disk else features.missing("scsi_iothread")
        if reason is not None:
            notes.append(f"left out: {unit.label}: {reason}")
            continue
        spare: Sequence[int] = ()
        if mapping and unit.is_disk:
            spare = [thread for thread in threads if not load[thread]][:: max(1, len(homeless) - place)]
        chosen = spare[:mapping_limit] if len(spare) > 1 else [min(threads, key=load.__getitem__)]
        _attach(unit, chosen)
        for thread in chosen:
            load[thread] += 1
        notes.append(f"{unit.label}: I/O thread{'s' * (len(chosen) > 1)} {', '.join(map(str, chosen))}")
    idle = [str(thread) for thread in threads if not load[thread]]
    if idle:
        reason = features.missing("iothread_mapping") or "spreading one disk needs libvirt 10.0.0 and QEMU 9.0.0"
        notes.append(f"left out: I/O thread {', '.join(idle)} serves no disk, there are fewer disks; {reason}")


def _mapping_limit(request: request_module.Request, vcpus: int) -> int:
    """Return how many threads one disk can use: as many as it has queues."""
    return min(request.disk_queues, vcpus) if isinstance(request.disk_queues, int) else vcpus


def _served_by(unit: _Unit) -> set[int]:
    alone = None if unit.found is None else unit.found.get("iothread")
    texts = [] if alone is None else [alone]
    for mapping in unit.mappings:
        texts += [entry.get("id") or "" for entry in mapping.iterchildren("iothread")]
    return {parsing.number(text, 1, parsing.MAX_IOTHREADS, "driver iothread") for text in texts}


def _attach(unit: _Unit, threads: Sequence[int]) -> None:
    driver = unit.driver()
    for mapping in unit.mappings:
        driver.remove(mapping)
    if len(threads) == 1:
        driver.set("iothread", str(threads[0]))
        return
    tree.unset(driver, "iothread")
    mapping = tree.add(driver, "iothreads", {})
    for thread in threads:
        tree.add(mapping, "iothread", {"id": str(thread)})


def _detach(units: Sequence[_Unit], notes: list[str]) -> None:
    for unit in units:
        if _served_by(unit):
            driver = unit.driver()
            tree.unset(driver, "iothread")
            for mapping in unit.mappings:
                driver.remove(mapping)
            notes.append(f"{unit.label}: with the emulator thread (perf:iothreads=0)")


def _pin(cputune: tree.Element | None, threads: list[int], notes: list[str]) -> None:
    """Pin threads that have no pin where the emulator is pinned: Nova moves both along in a live migration."""
    emulator = None if cputune is None else tree.child(cputune, "emulatorpin")
    if cputune is None or emulator is None:
        return
    cpus = parsing.cpuset(emulator.get("cpuset") or "", "emulatorpin")
    pins = list(cputune.iterchildren("iothreadpin"))
    pinned = {pin.get("iothread") for pin in pins}
    last = pins[-1] if pins else emulator
    for thread in threads:
        if str(thread) not in pinned:
            last = tree.add(cputune, "iothreadpin", {"iothread": str(thread), "cpuset": cpus}, last)
            notes.append(f"I/O thread {thread} pinned to {cpus}, as the emulator is")
