"""What the host does for guests: where their vhost workers, emulator, I/O threads and interrupts run.

A guest that asked nothing gets nothing: its threads stay where Nova and libvirt put them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import domain as domain_module
from nova_perf_tuning.host import model
from nova_perf_tuning.host.plan import nics, spread
from nova_perf_tuning.host.plan.sets import HostSets, Room, owned_cpus
from nova_perf_tuning.specs import request as request_module


@dataclasses.dataclass(frozen=True, slots=True)
class Vectors:
    """The interrupts of a device that is passed through to a guest.

    :ivar own: they go to the CPUs of the guest's own vCPUs.
    """

    address: str
    irqs: Sequence[model.Irq]
    group: spread.Group
    own: bool


@dataclasses.dataclass(frozen=True, slots=True)
class GuestPlacement:
    """A running guest with a request.

    :ivar nodes: its nodes, None when it has none of its own.
    :ivar vectors: of its devices that ``perf:irq_placement`` is about.
    """

    guest: model.GuestProcess
    domain: domain_module.Domain
    request: request_module.Request
    nodes: frozenset[int] | None
    vectors: Sequence[Vectors]

    @property
    def title(self) -> str:
        """What people call it."""
        return self.domain.title or self.guest.name


@dataclasses.dataclass(frozen=True, slots=True)
class GuestThreads:
    """Where the threads of a guest go.

    :ivar vhost: its workers in the order of the queues; :ivar workers: their group with ``spread``.
    """

    placement: GuestPlacement
    room: Room
    vhost: Sequence[model.Thread]
    workers: spread.Group | None


def with_domains(facts: model.HostFacts, domains: Sequence[domain_module.Domain]) -> model.HostFacts:
    """Return ``facts`` with ``domains`` beside those of libvirt, or instead of those of the same name.

    A running process of a domain's name belongs to it; else the guest counts as one that is not running.
    """
    given = {one.name: one for one in domains}
    if not given:
        return facts
    return dataclasses.replace(
        facts,
        domains=(*(one for one in facts.domains if one.name not in given), *given.values()),
        guests=tuple(
            dataclasses.replace(guest, domain=given.get(guest.name, guest.domain)) for guest in facts.guests
        ),
    )


def in_start_order(guests: Sequence[model.GuestProcess]) -> list[model.GuestProcess]:
    """Return the guests by libvirt's running number, then process id: a new guest comes last."""

    def key(guest: model.GuestProcess) -> tuple[bool, int, int]:
        number = guest.domain.domain_id if guest.domain else None
        return (number is None, number or 0, guest.pid)

    return sorted(guests, key=key)


def collect(facts: model.HostFacts, sets: HostSets) -> tuple[list[GuestPlacement], list[str]]:
    """Return the running guests that ask for something of the host, and warnings."""
    found = []
    warnings = []
    every = frozenset(node for node in sets.node_of.values() if node is not None)
    devices = _by_device(facts) if any(guest.domain and guest.domain.hostdevs for guest in facts.guests) else {}
    for guest in in_start_order(facts.guests):
        domain = guest.domain
        if domain is None:
            continue
        if domain.request_error:
            warnings.append(f"guest {guest.name}: its request is not used: {domain.request_error}")
        if domain.request is None:
            continue
        placement = GuestPlacement(guest, domain, domain.request, _nodes(domain, sets, every), ())
        if domain.request.irq_placement in ("numa", "vcpu"):
            vectors, lacking = _collect_vectors(placement, devices, sets)
            placement = dataclasses.replace(placement, vectors=vectors)
            warnings += lacking
        found.append(placement)
    return found, warnings


def _nodes(domain: domain_module.Domain, sets: HostSets, every: frozenset[int]) -> frozenset[int] | None:
    """Return the nodes of a guest's memory, else of its vCPUs' pins; None when it may lie anywhere."""
    if domain.memory_nodes:
        return cpulist.parse(domain.memory_nodes) or None
    pinned = {cpu for text in set(domain.vcpu_pins.values()) for cpu in cpulist.parse(text)}
    nodes = {sets.node_of.get(cpu) for cpu in pinned} & every
    if not nodes or (nodes == every and len(every) > 1 and not domain.dedicated):
        return None
    return frozenset(node for node in nodes if node is not None)


def collect_threads(
    found: Sequence[GuestPlacement], sets: HostSets, avoid: frozenset[int]
) -> tuple[list[GuestThreads], list[str]]:
    """Return where the threads of each guest go that asked for it, and warnings.

    :param avoid: CPUs with NIC interrupts, taken last among equals.
    """
    threads = []
    warnings = []
    room_for = functools.cache(sets.threads)  # hundreds of guests share few rooms
    for one in found:
        placement = one.request.vhost_placement
        if one.request.emulator_placement != "numa" and placement not in ("numa", "spread"):
            continue
        allowed = one.domain.emulator_pin
        room = room_for(one.nodes, allowed, avoid)
        if room is None:
            if allowed and sets.housekeeping:
                warnings.append(
                    f"guest {one.title}: libvirt keeps its emulator and vhost threads on CPUs {allowed}, none of "
                    "which may carry them: they are left alone; give it hw:emulator_threads_policy=share and a "
                    "cpu_shared_set with CPUs of its node"
                )
            continue
        if room.warning:
            warnings.append(
                f"guest {one.title}: {room.warning}" + (f" (emulatorpin {allowed})" if allowed else "")
            )
        vhost = sorted(
            (thread for thread in one.guest.threads if thread.kind == "vhost" and thread.affinity is not None),
            key=lambda thread: (thread.start, thread.tid),  # the n-th worker that was made serves queue pair n
        )
        current = [nics.single(thread.affinity) for thread in vhost]
        workers = spread.Group(room, 1, current) if placement == "spread" else None
        threads.append(GuestThreads(one, room, vhost, workers))
    return threads, warnings


def _by_device(facts: model.HostFacts) -> dict[str, list[model.Irq]]:
    by_device: dict[str, list[model.Irq]] = {}
    for number in sorted(facts.irqs):
        irq = facts.irqs[number]
        if irq.device and irq.name:
            by_device.setdefault(irq.device.lower(), []).append(irq)
    return by_device


def _collect_vectors(
    placement: GuestPlacement, by_device: Mapping[str, Sequence[model.Irq]], sets: HostSets
) -> tuple[list[Vectors], list[str]]:
    """Return the interrupts of passed-through devices with the CPUs that they may use, and warnings."""
    found = []
    warnings = []
    title = placement.title
    own = owned_cpus(placement.domain) & sets.online
    to_vcpus = placement.request.irq_placement == "vcpu"
    if to_vcpus and not own:
        warnings.append(
            f"guest {title} asks perf:irq_placement=vcpu but owns no CPU: its interrupts are placed as with "
            "numa; give it hw:cpu_policy=dedicated"
        )
    for address in sorted({address.lower() for address in placement.domain.hostdevs}):
        irqs = by_device.get(address)
        if not irqs:
            warnings.append(f"guest {title}: no interrupt of its device {address} was found (not started yet?)")
            continue
        node = irqs[0].node
        current = [nics.single(irq.affinity) for irq in irqs]
        if to_vcpus and own:
            # Of a guest on several nodes, the vCPUs beside the device serve it.
            near = frozenset(cpu for cpu in own if sets.node_of[cpu] == node) or own
            group = spread.Group(sets.room(near, "own vCPU", "the guest"), 1, current)
            found.append(Vectors(address, irqs, group, own=True))
        elif room := sets.interrupts(_node_for(node, placement.nodes, sets)):
            if room.warning:
                warnings.append(f"guest {title}, device {address}: {room.warning}")
            weight = max(1, nics.UNKNOWN_SPEED_MBPS // len(irqs))
            found.append(Vectors(address, irqs, spread.Group(room, weight, current), own=False))
    return found, warnings


def _node_for(device: int | None, nodes: frozenset[int] | None, sets: HostSets) -> int | None:
    """Return which of its guest's nodes the interrupts of a device go to.

    The device's own if it is one of them, else the nearest to it; nodes without a housekeeping CPU come last.

    :param nodes: the guest's, None when it may lie anywhere: then the device's node counts.
    """
    if not nodes:
        return device
    able = nodes & {sets.node_of[cpu] for cpu in sets.housekeeping}
    far = sets.distances.get(device, {}) if device is not None else {}
    return min(able or nodes, key=lambda node: (node != device, far.get(node, math.inf), node))


def thread_settings(found: Sequence[GuestThreads], placed: spread.Placed) -> tuple[list[model.Setting], list[str]]:
    """Return the affinities of vhost workers, emulator and I/O threads of the guests that ask, and warnings."""
    result: list[model.Setting] = []
    warnings: list[str] = []
    for one in found:
        request, domain = one.placement.request, one.placement.domain
        if request.vhost_placement in ("numa", "spread"):
            result += _vhost(one, placed)
            if not one.vhost and any(interface.has_vhost_worker for interface in domain.interfaces):
                warnings.append(
                    f"guest {one.placement.title} asks perf:vhost_placement but has no vhost worker "
                    "(is vhost_net loaded?)"
                )
        if request.emulator_placement == "numa":
            settings, lacking = _emulator(one)
            result += settings
            warnings += lacking
    return result, warnings


def _vhost(one: GuestThreads, placed: spread.Placed) -> list[model.Setting]:
    title, room, pid = one.placement.title, one.room, one.placement.guest.pid
    head = f"{title} asks vhost_placement={one.placement.request.vhost_placement}: worker "
    if one.workers is None:
        tail = f" may use the {room.what} CPUs {room.text} of {room.where}"
        return [
            _thread(thread, pid, room.text, f"{head}{index}{tail}", "vhost-numa")
            for index, thread in enumerate(one.vhost)
        ]
    tail = f", one of the {len(room.cpus)} {room.what} CPUs of {room.where}"
    return [
        _thread(thread, pid, str(cpu), f"{head}{index} has CPU {cpu}{tail}", "vhost-spread")
        for index, (thread, cpu) in enumerate(zip(one.vhost, placed[one.workers], strict=True))
    ]


def _emulator(one: GuestThreads) -> tuple[list[model.Setting], list[str]]:
    """Emulator and I/O threads; QEMU's short-lived pool threads inherit from them."""
    guest, domain, room = one.placement.guest, one.placement.domain, one.room
    result = []
    warnings = []
    names = {"emulator": "emulator", "iothread": "I/O threads"}
    for thread in guest.threads:
        if thread.kind not in names or thread.affinity is None:
            continue
        text = room.text
        pin = domain.iothread_pins.get(thread.index or 0) if thread.kind == "iothread" else None
        if pin is not None and pin != domain.emulator_pin:
            inside = room.members & cpulist.parse(pin)
            if not inside:
                warnings.append(
                    f"guest {one.placement.title}: libvirt keeps I/O thread {thread.index} on CPUs {pin}, "
                    f"outside of {text}: it is left alone"
                )
                continue
            text = cpulist.format(inside)
        reason = (
            f"{one.placement.title} asks emulator_placement=numa: its {names[thread.kind]} may use the "
            f"{room.what} CPUs {room.text} of {room.where}, away from vCPUs"
        )
        result.append(_thread(thread, guest.pid, text, reason, f"{thread.kind}-numa"))
    return result, warnings


def _thread(thread: model.Thread, pid: int, value: str, reason: str, rule: str) -> model.Setting:
    current = thread.affinity
    if current is not None and current != value and cpulist.parse(current) == cpulist.parse(value):
        value = current  # the same CPUs in another spelling
    return model.Setting(
        "thread_affinity", f"tid:{thread.tid}", value, current, reason, rule, f"{pid}:{thread.start}"
    )


def interrupt_settings(found: Sequence[GuestPlacement], placed: spread.Placed) -> list[model.Setting]:
    """Return the affinities of passed-through devices' interrupts."""
    result: list[model.Setting] = []
    for one in found:
        for vectors in one.vectors:
            room = vectors.group.room
            rule = "passthrough-vcpu" if vectors.own else "passthrough-numa"
            place = "its own vCPUs' CPUs" if vectors.own else f"{room.what} CPUs of {room.where}"
            head = f"{one.title} asks irq_placement={one.request.irq_placement}: vector "
            for index, (irq, cpu) in enumerate(zip(vectors.irqs, placed[vectors.group], strict=True)):
                reason = (
                    f"{head}{index} of its device {vectors.address} goes to CPU {cpu}, one of {place} {room.text}"
                )
                result.append(nics.irq_setting(irq, str(cpu), reason, rule))
    return result


def left_alone(facts: model.HostFacts, planned: Collection[int]) -> dict[str, list[str]]:
    """Return where interrupts of passed-through devices stay that the plan does not place: cpulist -> devices.

    :param planned: numbers of the interrupts that it places.
    :return: with the CPUs that serve the interrupt now, else those that may; what cannot be read is left out.
    """
    found: dict[str, list[str]] = {}
    owners = {
        address.lower(): guest.domain.title or guest.name
        for guest in in_start_order(facts.guests)
        if guest.domain
        for address in guest.domain.hostdevs
    }
    if not owners:
        return found
    for address, irqs in _by_device(facts).items():
        if address not in owners:
            continue
        for irq in irqs:
            text = irq.effective or irq.affinity
            if text and irq.number not in planned:
                found.setdefault(text, []).append(f"device {address} of guest {owners[address]}")
    return found
