"""I/O threads of a domain and the virtio disks spread over them; queues of the disks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import parsing, tree
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

_SCSI_MODELS: Final = frozenset({"virtio-scsi", "virtio-transitional", "virtio-non-transitional"})
#: libvirt takes I/O threads for virtio devices at these addresses alone; none is given before it assigns one.
_ADDRESSES: Final = frozenset({"pci", "ccw"})
#: virtio-scsi has a control and an event queue beside those for requests.
_MOST_QUEUES: Final = parsing.MAX_QUEUES - 2


class Unit(NamedTuple):
    """A disk or a SCSI controller as it stands in the XML: what can have queues and an I/O thread, or why not.

    :ivar name: its ``<target dev=>`` or its index.
    :ivar device: what a disk shows itself as (``<disk device=>``), or a controller's model.
    :ivar source: a disk's type.
    :ivar address: type of its address; none is given before libvirt assigns one.
    :ivar queues, iothread: attributes of its ``<driver>``.
    :ivar mapped: thread ids in the ``<iothreads>`` of its ``<driver>``, None without those.
    """

    is_disk: bool
    name: str | None
    device: str | None
    source: str | None
    bus: str | None
    address: str | None
    queues: str | None
    iothread: str | None
    mapped: tuple[str, ...] | None

    @property
    def label(self) -> str:
        """Return what notes call it."""
        if self.is_disk:
            return f"disk {vocabulary.shown(self.name or '?')}"
        return f"scsi controller {vocabulary.shown(self.name or '0')}"


class Threads(NamedTuple):
    """The domain's I/O threads as they stand in the XML.

    :ivar written: text of ``<iothreads>``, None without it.
    :ivar ids: those listed in ``<iothreadids>``, None without it.
    """

    written: str | None
    ids: tuple[str, ...] | None


@dataclasses.dataclass(slots=True)
class Change:
    """What is done to one disk or controller.

    :ivar driver: attributes that its ``<driver>`` gets, or loses where None.
    :ivar mapping: threads that ``<iothreads>`` in its ``<driver>`` names; empty: it is taken away; None: it stays.
    """

    driver: dict[str, str | None] = dataclasses.field(default_factory=dict)
    mapping: Sequence[int] | None = None


@dataclasses.dataclass(slots=True)
class Decision:
    """What is done to a domain.

    :ivar changes: index among the units -> what is done to it.
    :ivar count: number of I/O threads that the domain gets, None: it stays.
    :ivar threads: those to pin.
    :ivar notes: what is changed and what is left out.
    """

    changes: dict[int, Change] = dataclasses.field(default_factory=dict)
    count: int | None = None
    threads: Sequence[int] = ()
    notes: list[str] = dataclasses.field(default_factory=list)

    def change(self, place: int) -> Change:
        """Return what is done to the unit at ``place``, to add to it."""
        return self.changes.setdefault(place, Change())

    def unpinned(self, pinned: Set[str | None]) -> list[int]:
        """Return the threads that get a pin, as the emulator's: those of ``threads`` that have none."""
        return [thread for thread in self.threads if str(thread) not in pinned]


def concerns(request: request_module.Request) -> bool:
    """Return whether a request says anything about disks and I/O threads."""
    return request.disk_queues is not None or request.iothreads is not None


def transform(
    domain: tree.Element,
    parts: Mapping[str, tree.Element],
    devices: Iterable[tuple[str, tree.Element]],
    request: request_module.Request,
    vcpus: int,
    features: features_module.Features,
    notes: list[str],
) -> None:
    """Give ``domain`` its I/O threads and disk queues; ``notes`` gets changes and what was left out.

    :param parts: the domain's children by tag, the last of each.
    :param devices: all children of its ``<devices>`` with their tags.
    """
    if not concerns(request):
        return
    found = _units(devices)
    decision = decide(request, vcpus, features, tuple([unit for unit, _ in found]), _threads(parts))
    notes += decision.notes
    for place, change in decision.changes.items():
        apply(change, found[place][1])
    if decision.count is not None:
        set_count(decision.count, domain, parts)
    if decision.threads:
        _pin(parts.get("cputune"), decision, notes)


def _units(devices: Iterable[tuple[str, tree.Element]]) -> list[tuple[Unit, tree.Element]]:
    """Return disks and SCSI controllers, each with its element."""
    units = []
    for tag, element in devices:
        is_disk = tag == "disk"
        kind = element.get("type") if is_disk or tag == "controller" else None
        if not is_disk and kind != "scsi":
            continue
        parts = tree.by_tag(element)
        target, address, driver = parts.get("target"), parts.get("address"), parts.get("driver")
        mapped = None
        if driver is not None:
            for mapping in driver.iterchildren():
                if mapping.tag == "iothreads":
                    mapped = (*(mapped or ()), *_ids(mapping))
        unit = Unit(
            is_disk,
            element.get("index") if not is_disk else None if target is None else target.get("dev"),
            element.get("device" if is_disk else "model"),
            kind,
            None if target is None else target.get("bus"),
            "pci" if address is None else address.get("type"),
            None if driver is None else driver.get("queues"),
            None if driver is None else driver.get("iothread"),
            mapped,
        )
        units.append((unit, element))
    return units


def _ids(element: tree.Element) -> tuple[str, ...]:
    return tuple([entry.get("id") or "" for entry in element.iterchildren("iothread")])


def _threads(parts: Mapping[str, tree.Element]) -> Threads:
    count, listed = parts.get("iothreads"), parts.get("iothreadids")
    return Threads(None if count is None else count.text, None if listed is None else _ids(listed))


def apply(change: Change, element: tree.Element) -> None:
    """Change a disk or controller."""
    driver = tree.child(element, "driver")
    if driver is None:
        driver = tree.add(element, "driver", {})
    tree.assign(driver, change.driver)
    if change.mapping is None:
        return
    for mapping in list(driver.iterchildren("iothreads")):
        driver.remove(mapping)
    if change.mapping:
        mapping = tree.add(driver, "iothreads", {})
        for thread in change.mapping:
            tree.add(mapping, "iothread", {"id": str(thread)})


def set_count(threads: int, domain: tree.Element, parts: Mapping[str, tree.Element]) -> None:
    """Set the number of a domain's I/O threads.

    :param parts: the domain's children by tag.
    """
    count = parts.get("iothreads")
    if count is None:
        count = tree.add(domain, "iothreads", {}, parts.get("vcpu", parts.get("memory")))
    count.text = str(threads)


@functools.lru_cache(maxsize=256)
def decide(
    request: request_module.Request,
    vcpus: int,
    features: features_module.Features,
    units: tuple[Unit, ...],
    there: Threads,
) -> Decision:
    """Decide about a domain; kept, since a flavor's guests have the same disks but for what these are made of."""
    decision = Decision()
    notes = decision.notes
    able = []
    for place, unit in enumerate(units):
        reason = _why_not(unit)
        if reason is None:
            able.append((place, unit))
        elif reason:
            notes.append(f"left out: {unit.label}: {reason}")
    if request.disk_queues is not None:
        _set_queues(able, request.disk_queues, vcpus, features, decision)
    if request.iothreads == 0:
        _detach(able, decision)
    elif request.iothreads is not None:
        reason = features.missing("iothread")
        if reason is not None:
            notes.append(f"left out: perf:iothreads={request.iothreads}: {reason}")
            return decision
        decision.threads = _make_threads(there, request.iothreads, decision)
        _spread(able, decision, _mapping_limit(request, vcpus), features)
    return decision


def _why_not(unit: Unit) -> str | None:
    """Return why a unit takes neither queues nor an I/O thread; empty when that goes without saying."""
    if unit.is_disk:
        reason = _why_not_disk(unit)
        if reason is not None:
            return reason
    elif unit.device not in _SCSI_MODELS:
        return f"its model is {unit.device or 'left to libvirt'}, not virtio-scsi"
    if unit.address not in _ADDRESSES:
        return f"its address is of type {vocabulary.shown(str(unit.address))}, not pci or ccw"
    return None


def _why_not_disk(disk: Unit) -> str | None:
    device = disk.device or "disk"
    if disk.bus == "scsi":
        return ""  # its controller has them
    if device not in ("disk", "lun"):
        return f"a {device} has neither queues nor an I/O thread"
    if disk.bus != "virtio":
        return f"on bus {disk.bus or 'unknown'}, not virtio"
    if disk.source in ("vhostuser", "vhostvdpa"):
        return f"of type {disk.source}, served by its own back end"
    return None


def _set_queues(
    units: Iterable[tuple[int, Unit]],
    asked: request_module.Queues,
    vcpus: int,
    features: features_module.Features,
    decision: Decision,
) -> None:
    reason = features.missing("disk_queues")
    if asked == request_module.AUTO:
        queues, why = min(vcpus, _MOST_QUEUES), "auto: one for each vCPU"
    else:
        assert isinstance(asked, int)
        queues, why = min(asked, vcpus), "as asked" if asked <= vcpus else f"{asked} asked, cut to the vCPUs"
    text, note = str(queues), f"{queues} request queue{'s' * (queues > 1)} ({why})"
    for place, unit in units:
        if unit.is_disk and reason is not None:
            decision.notes.append(f"left out: {unit.label}: {reason}")
        elif unit.queues != text:
            decision.change(place).driver["queues"] = text
            decision.notes.append(f"{unit.label}: {note}")


def _make_threads(there: Threads, asked: int, decision: Decision) -> list[int]:
    """Make sure that ``asked`` I/O threads exist; return the ids to use, in order."""
    text = (there.written or "").strip()
    count = parsing.number(text or "0", 0, parsing.MAX_IOTHREADS, "<iothreads>")
    if count < asked:
        decision.count = asked
        decision.notes.append(f"{asked} I/O thread{'s' * (asked > 1)} (were {count})")
        count = asked
    elif count > asked:
        decision.notes.append(f"left out: the domain has {count} I/O threads already; they stay, {asked} are used")
    if there.ids is None:
        return list(range(1, asked + 1))
    ids = [parsing.number(entry, 1, parsing.MAX_IOTHREADS, "iothread id") for entry in there.ids]
    # libvirt numbers those that the list leaves out with the lowest free ids
    free = (number for number in range(1, count + len(ids) + 1) if number not in ids)
    ids += [next(free) for _ in range(count - len(ids))]
    return sorted(ids)[:asked]


def _spread(
    units: Sequence[tuple[int, Unit]], decision: Decision, mapping_limit: int, features: features_module.Features
) -> None:
    """Give each unit the thread that serves fewest; spare threads share a disk's queues where QEMU can."""
    threads, notes = decision.threads, decision.notes
    if not units:
        notes.append("left out: no virtio disk or controller that an I/O thread could serve")
        return
    load = dict.fromkeys(threads, 0)
    homeless = []
    for place, unit in units:
        served = _served_by(unit)
        if served and served <= load.keys():
            for thread in served:
                load[thread] += 1
        else:
            homeless.append((place, unit))
    mapping = len(threads) > 1 and features.confirmed("iothread_mapping")
    for waiting, (place, unit) in enumerate(homeless):
        reason = None if unit.is_disk else features.missing("scsi_iothread")
        if reason is not None:
            notes.append(f"left out: {unit.label}: {reason}")
            continue
        spare: Sequence[int] = ()
        if mapping and unit.is_disk:
            spare = [thread for thread in threads if not load[thread]][:: max(1, len(homeless) - waiting)]
        chosen = spare[:mapping_limit] if len(spare) > 1 else [min(threads, key=load.__getitem__)]
        _attach(unit, decision.change(place), chosen)
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


def _served_by(unit: Unit) -> set[int]:
    texts = [*(() if unit.iothread is None else (unit.iothread,)), *(unit.mapped or ())]
    return {parsing.number(text, 1, parsing.MAX_IOTHREADS, "driver iothread") for text in texts}


def _attach(unit: Unit, change: Change, threads: Sequence[int]) -> None:
    if len(threads) == 1:
        change.driver["iothread"] = str(threads[0])
        change.mapping = None if unit.mapped is None else ()
    else:
        if unit.iothread is not None:
            change.driver["iothread"] = None
        change.mapping = threads


def _detach(units: Iterable[tuple[int, Unit]], decision: Decision) -> None:
    for place, unit in units:
        if _served_by(unit):
            change = decision.change(place)
            if unit.iothread is not None:
                change.driver["iothread"] = None
            change.mapping = None if unit.mapped is None else ()
            decision.notes.append(f"{unit.label}: with the emulator thread (perf:iothreads=0)")


def _pin(cputune: tree.Element | None, decision: Decision, notes: list[str]) -> None:
    """Pin threads that have no pin where the emulator is pinned: Nova moves both along in a live migration."""
    if cputune is None:
        return
    emulator, pins = None, []
    for child in cputune.iterchildren():
        if child.tag == "emulatorpin":
            emulator = child
        elif child.tag == "iothreadpin":
            pins.append(child)
    if emulator is None:
        return
    cpus = parsing.cpuset(emulator.get("cpuset") or "", "emulatorpin")
    last = pins[-1] if pins else emulator
    for thread in decision.unpinned({pin.get("iothread") for pin in pins}):
        last = tree.add(cputune, "iothreadpin", {"iothread": str(thread), "cpuset": cpus}, last)
        notes.append(f"I/O thread {thread} pinned to {cpus}, as the emulator is")
