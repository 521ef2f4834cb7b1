"""A guest's request put into what Nova has written of its config objects, without reading any of the XML.

To look through the XML of a domain costs more than to decide about it. So what the rules of
:mod:`nova_perf_tuning.guest` want to know is read from Nova's objects, and what they decide is kept for the next
guest that says the same: as lines to find in Nova's text, one after the other, and what to put in their place.

Where something is not quite as we know it, :func:`plan` or :func:`finish` says so, and the whole text is tuned.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NamedTuple

from lxml import etree
from nova.virt import hardware
from nova.virt.libvirt import config as vconfig

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import network, parsing, storage, transform, tree
from nova_perf_tuning.specs import request as request_module

#: What an interface's ``<driver>`` is made of, in Nova's order: our name for it -> Nova's attribute.
_DRIVER: Final = {
    "name": "driver_name",
    "packed": "driver_packed",
    "queues": "vhost_queues",
    "rx_queue_size": "vhost_rx_queue_size",
    "tx_queue_size": "vhost_tx_queue_size",
}
#: What is read of an object, by its element's name; ``device_addr`` of a disk and the like besides.
_READ: Final = {
    "interface": ("net_type", "model", "managed", *_DRIVER.values()),
    "disk": (
        *("target_dev", "source_device", "source_type", "target_bus"),
        *("driver_name", "driver_format", "driver_cache", "driver_discard", "driver_io"),
    ),
    "controller": ("index", "model", "type"),
}
_INTERFACE: Final = operator.itemgetter(*_READ["interface"])
_DISK: Final = operator.itemgetter(*_READ["disk"])
_CONTROLLER: Final = operator.itemgetter(*_READ["controller"])
#: All that objects of Nova 31 to 34 say about drivers, queues and I/O threads; ``driver_iommu`` up to 33.
_KNOWN: Final = frozenset(
    {*_DRIVER.values(), "driver_iommu", "iothreads", "iothreadpin"}
    | {f"driver_{name}" for name in ("format", "cache", "discard", "io")}
)
#: How an element begins in Nova's text.
_BEGINS: Final = {
    "interface": '    <interface type="',
    "disk": '    <disk type="',
    "controller": '    <controller type="scsi"',
}
#: The last five of a disk's are these of its ``<driver>``; with the last alone Nova writes none.
_DISK_DRIVER: Final = ("name", "type", "cache", "discard", "io")


class _Interface(NamedTuple):
    """An interface as Nova's object has it, in the order of :data:`_READ`; the last five make its ``<driver>``."""

    kind: str
    model: str | None
    managed: str | None
    name: str | None
    packed: bool
    queues: int | None
    rx_queue_size: int | None
    tx_queue_size: int | None


class _Facts(NamedTuple):
    """A domain as Nova's objects have it.

    :ivar iothreads: how many it has, None also where this Nova has no attribute for it.
    :ivar emulator: CPUs that the emulator is pinned to, None without a pin.
    :ivar pinned: I/O threads that have a pin.
    :ivar interfaces, units: place among the devices, and what is read there; of disks and SCSI controllers the
        element's name stands before it, and the type of the address behind it.
    """

    kind: str
    vcpus: int
    iothreads: int | None
    emulator: Set[int] | None
    pinned: tuple[int, ...]
    interfaces: tuple[tuple[Any, ...], ...]
    units: tuple[tuple[Any, ...], ...]


class Step(NamedTuple):
    """Text that Nova writes, and what is put in its place; None: it stays, and only the next is behind it."""

    novas: str
    ours: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is done to Nova's text, for all guests whose objects say the same.

    :ivar steps: in the order of the text.
    :ivar told: places of interfaces of which something is left out.
    :ivar notes: all else that is left out.
    """

    steps: tuple[Step, ...]
    told: tuple[tuple[int, network.Decision], ...]
    notes: tuple[str, ...]


def plan(
    conf: Any,
    request: request_module.Request,
    housekeeping_cpus: int | None,
    features: features_module.Features,
) -> Plan | None:
    """Decide about a ``LibvirtConfigGuest`` as :func:`transform.transform_unchecked` does about its text.

    :returns: None where something is not as we know it.
    :raises DomainError: as there.
    """
    facts = _facts(conf, request)
    return None if facts is None else _decide(request, housekeeping_cpus, features, facts)


def finish(plan: Plan, conf: Any, xml: str) -> transform.Transformed | None:
    """Put a plan into what Nova has written of ``conf``; of the notes, only what is left out.

    :returns: None where Nova has written something in another way.
    """
    parts: list[str] = []
    done = behind = 0
    for novas, ours in plan.steps:
        found = xml.find(novas, behind)
        if found < 0:
            return None
        behind = found + len(novas)
        if ours is not None:
            parts += (xml[done:found], ours)
            done = behind
    parts.append(xml[done:])
    notes = plan.notes
    for place, told in plan.told:
        notes = (*notes, *transform.printable(told.told(conf.devices[place].mac_addr)))
    return transform.Transformed("".join(parts), notes)


def _facts(conf: Any, request: request_module.Request) -> _Facts | None:
    known = _known()
    if not known or conf.virt_type not in ("kvm", "qemu") or type(conf) is not vconfig.LibvirtConfigGuest:
        return None
    if len(conf.metadata or ()) != 1 or not conf.devices:
        return None
    disks = storage.concerns(request)
    found = _devices(conf.devices, known, network.concerns(request), disks)
    emulator, pinned = None, ()
    if disks and conf.cputune is not None and conf.cputune.emulatorpin is not None:
        emulator = frozenset(conf.cputune.emulatorpin.cpuset or ())
        if not emulator:
            return None
        pins = getattr(conf.cputune, "iothreadpin", ())  # from Nova 33 on, as iothreads
        pinned = tuple([pin.iothread for pin in pins if pin.iothread is not None and pin.cpuset])
    if found is None:
        return None
    return _Facts(conf.virt_type, conf.vcpus, getattr(conf, "iothreads", None), emulator, pinned, *found)


def _devices(
    devices: Iterable[Any], known: Mapping[type, int], network_asked: bool, storage_asked: bool
) -> tuple[tuple[tuple[Any, ...], ...], tuple[tuple[Any, ...], ...]] | None:
    """Return what is read of interfaces, and of disks and SCSI controllers; None: one is not as we know it."""
    interfaces, units = [], []
    for place, device in enumerate(devices):
        tag = device.root_name
        if tag not in _READ or (tag == "controller" and device.type != "scsi"):
            continue
        own = vars(device)
        if len(own) != known.get(type(device)) or own.get("driver_iommu"):
            return None
        if tag == "interface":
            if own["managed"] is not None and own["target_dev"] is None:
                return None  # the first is rendered with the second alone, which is each guest's own
            if network_asked:
                interfaces.append((place, *_INTERFACE(own)))
        elif storage_asked and tag == "disk":
            address = own["device_addr"]
            units.append((place, tag, *_DISK(own), None if address is None else address.type))
        elif storage_asked:
            units.append((place, tag, *_CONTROLLER(own)))
    return tuple(interfaces), tuple(units)


@functools.lru_cache(maxsize=1)
def _known() -> Mapping[type, int]:
    """Return the classes that are looked at -> number of attributes; none where they are not as we know them."""
    sizes = {}
    for sort in (
        vconfig.LibvirtConfigGuestInterface,
        vconfig.LibvirtConfigGuestDisk,
        vconfig.LibvirtConfigGuestController,
        vconfig.LibvirtConfigGuest,
        vconfig.LibvirtConfigGuestCPUTune,
    ):
        one = sort()
        names = set(vars(one))
        said = {name for name in names if name.startswith(("driver_", "vhost_"))}
        said |= {name for name in names if "iothread" in name or "queue" in name}
        if not said <= _KNOWN or not names.issuperset(_READ.get(one.root_name, ())):
            return {}
        sizes[sort] = len(names)
    return sizes


@functools.lru_cache(maxsize=256)
def _decide(
    request: request_module.Request,
    housekeeping_cpus: int | None,
    features: features_module.Features,
    facts: _Facts,
) -> Plan | None:
    vcpus = parsing.number(str(facts.vcpus), 1, parsing.MAX_VCPUS, "<vcpu>")
    wish = network.wish_of(request, network.Guest(vcpus, facts.kind == "kvm", housekeeping_cpus, features))
    devices: dict[int, list[Step]] = {}
    told = []
    for place, *read in facts.interfaces:
        interface = _Interface(*read)
        before = interface.managed == "no"
        decision = network.decide(wish, interface.kind, interface.model or None, before, _driver(interface), ())
        if decision.leaves_out:
            told.append((place, decision))
        devices[place] = _interface_steps(interface, decision)
    disks = storage.Decision()
    if storage.concerns(request):
        written = None if facts.iothreads is None else str(facts.iothreads)
        units = tuple([_unit(*unit) for _, *unit in facts.units])
        disks = storage.decide(request, vcpus, features, units, storage.Threads(written, None))
        for number, (place, *unit) in enumerate(facts.units):
            steps = _unit_steps(disks.changes.get(number), *unit)
            if steps is None:
                return None
            devices[place] = steps
    return Plan(
        (
            *_domain_steps(request, disks, facts),
            *itertools.chain.from_iterable(devices[place] for place in sorted(devices)),
        ),
        tuple(told),
        transform.printable([note for note in disks.notes if note.startswith(transform.LEFT_OUT)]),
    )


def _domain_steps(request: request_module.Request, disks: storage.Decision, facts: _Facts) -> list[Step]:
    """Return what is done before the devices: number of I/O threads, metadata, pins."""
    steps = [Step("    </nova:instance>\n", f"    </nova:instance>\n{_metadata(request)}")]
    if disks.count is not None:
        count = f"  <iothreads>{disks.count}</iothreads>\n"
        if facts.iothreads is None:
            steps.insert(0, Step("</vcpu>\n", f"</vcpu>\n{count}"))
        else:
            steps.append(Step(f"  <iothreads>{facts.iothreads}</iothreads>\n", count))
    if facts.emulator is not None:
        cpus = hardware.format_cpu_spec(facts.emulator)
        texts = [f'    <emulatorpin cpuset="{cpus}"/>\n', *[f' iothread="{pin}"/>\n' for pin in facts.pinned]]
        steps += map(Step, texts)
        pins = disks.unpinned({str(thread) for thread in facts.pinned})
        ours = "".join([f'    <iothreadpin iothread="{thread}" cpuset="{cpus}"/>\n' for thread in pins])
        steps[-1] = Step(texts[-1], f"{texts[-1]}{ours}")
    return steps


def _driver(interface: _Interface) -> tuple[tuple[str, str], ...] | None:
    """Return the attributes of the ``<driver>`` that Nova renders, None where it renders none."""
    if not (interface.name or interface.packed or interface.kind == "vhostuser"):
        return None
    values = {
        "name": None if interface.kind == "vhostuser" else interface.name or None,
        "packed": "on" if interface.packed else None,
        "queues": interface.queues,
        "rx_queue_size": interface.rx_queue_size,
        "tx_queue_size": interface.tx_queue_size,
    }
    return tuple([(key, str(value)) for key, value in values.items() if value is not None]) or None


def _interface_steps(interface: _Interface, decision: network.Decision) -> list[Step]:
    steps = [Step(_BEGINS["interface"])]
    if decision.driver or decision.sides:
        driver = etree.Element("driver")
        tree.assign(driver, decision.final)
        for side, values in decision.sides.items():
            tree.add(driver, side, values)
        novas = _driver(interface)
        if novas is None:
            model = f'      <model type="{interface.model}"/>\n'
            steps.append(Step(model, f"{model}{_indented(driver, 6)}"))
        else:
            steps.append(Step(_indented(etree.Element("driver", dict(novas)), 6), _indented(driver, 6)))
    return steps


def _unit_steps(change: storage.Change | None, tag: str, *read: Any) -> list[Step] | None:
    """Return what is done to a disk or SCSI controller; None: it has no ``<driver>`` in Nova's text."""
    if change is None:
        return [Step(_BEGINS[tag])]
    element = etree.Element(tag)
    if tag == "controller":
        for key, value in zip(("index", "model"), read, strict=False):
            if value is not None:
                element.set(key, str(value))
        novas = _indented(element, 4)
        storage.apply(change, element)
        begin = f"    <{tag}"
        return [
            Step(_BEGINS[tag]),
            Step(novas.removeprefix(begin), _indented(element, 4).removeprefix(begin)),
        ]
    values = dict(zip(_DISK_DRIVER, read[4:], strict=False))
    if not any((*values.values(),)[:4]):
        return None
    driver = etree.SubElement(element, "driver")
    tree.assign(driver, values)
    novas = _indented(driver, 6)
    storage.apply(change, element)
    return [Step(_BEGINS[tag]), Step(novas, _indented(driver, 6))]


def _unit(tag: str, name: Any, device: str | None, kind: str, *rest: Any) -> storage.Unit:
    """Return a disk or SCSI controller as the rules know it; a new one's ``<driver>`` has nothing of theirs."""
    if tag == "controller":
        index = None if name is None else str(name)
        return storage.Unit(False, index, device or None, kind, None, "pci", None, None, None)
    bus, *_, address = rest
    if kind == "mount":  # a folder, whose <target> names no device
        name = bus = None
    return storage.Unit(True, name, device, kind, bus, "pci" if address is None else address, None, None, None)


def _indented(element: Any, depth: int) -> str:
    """Return an element as Nova writes it at that depth of its domain."""
    lines = etree.tostring(element, encoding="unicode", pretty_print=True).splitlines(keepends=True)
    return "".join([" " * depth + line for line in lines])


def _metadata(request: request_module.Request) -> str:
    """Return our element in ``<metadata>``."""
    metadata = etree.Element("metadata")
    transform.write_metadata(metadata, {"metadata": metadata}, request)
    return "".join([_indented(element, 4) for element in metadata])
