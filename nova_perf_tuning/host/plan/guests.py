"""What the host does for guests: where their vhost workers, emulator, I/O threads and interrupts run.

A guest that asked nothing gets nothing: its threads stay where Nova and libvirt put them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import domain as domain_module
from nova_perf_tuning.host import model, setting
from nova_perf_tuning.host.plan import nics, spread
from nova_perf_tuning.host.plan.sets import HostSets, Room, owned_cpus
from nova_perf_tuning.specs import request as request_module

#: What a room of a guest's own CPUs is called.
OWN = "own vCPU"


@dataclasses.dataclass(slots=True, eq=False)
class Asked:
    """A running guest with a request.

    :ivar nodes: its nodes, None when it has none of its own.
    :ivar room: where its vhost workers and emulator go; None when there is no CPU for them.
    :ivar vhost: its workers in queue order; :ivar workers: their placement, for ``spread``.
    :ivar devices: PCI address -> its interrupts; :ivar vectors: their placement, device by device.
    """

    guest: model.GuestProcess
    domain: domain_module.Domain
    request: request_module.Request
    nodes: frozenset[int] | None
    room: Room | None
    vhost: list[model.Thread]
    workers: spread.Group | None = None
    devices: dict[str, list[model.Irq]] = dataclasses.field(default_factory=dict)
    vectors: dict[str, spread.Group] = dataclasses.field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.domain.title or self.guest.name


def with_domains(facts: model.HostFacts, domains: Sequence[domain_module.Domain]) -> model.HostFacts:
    """Return ``facts`` with ``domains`` beside those of libvirt, or instead of those of the same name.

    A running process of a domain's name belongs to it; else the guest counts as one that is not running.
    """
    given = {one.name: one for one in domains}
    if not given:
        return facts
    return dataclasses.replace(
        facts,
        domains=(*(one for one in facts.domains if one.name not in given), *domains),
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


def collect(facts: model.HostFacts, sets: HostSets, warnings: list[str]) -> list[Asked]:
    """Return the running guests that ask for something of the host, with their devices' interrupts."""
    found = []
    every = frozenset(node for node in sets.node_of.values() if node is not None)
    devices = _by_device(facts) if any(guest.domain and guest.domain.hostdevs for guest in facts.guests) else {}
    for guest in in_start_order(facts.guests):
        domain = guest.domain
        if domain is None:
            continue
        if domain.request_error:
            warnings.append(f"guest {guest.name}: its request is not used: {domain.request_error}")
        request = domain.request
        if request is None:
            continue
        asked = Asked(guest, domain, request, _nodes(domain, sets, every), None, [])
        if request.irq_placement in ("numa", "vcpu"):
            _collect_vectors(asked, devices, sets, warnings)
        found.append(asked)
    return found


def _nodes(domain: domain_module.Domain, sets: HostSets, every: frozenset[int]) -> frozenset[int] | None:
    """Return the nodes of a guest's memory, else of its vCPUs' pins; None when it may lie anywhere."""
    if domain.memory_nodes:
        return cpulist.parse(domain.memory_nodes) or None
    pinned = {cpu for text in set(domain.vcpu_pins.values()) for cpu in cpulist.parse(text)}
    nodes = {sets.node_of.get(cpu) for cpu in pinned} & every
    if not nodes or (nodes == every and len(every) > 1 and not domain.dedicated):
        return None
    return frozenset(node for node in nodes if node is not None)


def give_rooms(found: Sequence[Asked], sets: HostSets, avoid: frozenset[int], warnings: list[str]) -> None:
    """Say where the threads of each guest go, as far as it asked.

    :param avoid: CPUs with NIC interrupts, taken last among equals.
    """
    for asked in found:
        request = asked.request
        if request.emulator_placement == "numa" or request.vhost_placement in ("numa", "spread"):
            _give_room(asked, sets, avoid, warnings)
        if asked.room and request.vhost_placement == "spread":
            asked.workers = spread.Group(asked.room, 1, [nics.single(one.affinity) for one in asked.vhost])


def _give_room(asked: Asked, sets: HostSets, avoid: frozenset[int], warnings: list[str]) -> None:
    allowed = asked.domain.emulator_pin
    asked.vhost = sorted(
        (one for one in asked.guest.threads if one.kind == "vhost" and one.affinity is not None),
        key=lambda one: (one.start, one.tid),  # the n-th worker that was made serves queue pair n
    )
    asked.room = room = sets.threads(asked.nodes, allowed, avoid)
    if room is None:
        if allowed and sets.housekeeping:
            warnings.append(
                f"guest {asked.title}: libvirt keeps its emulator and vhost threads on CPUs {allowed}, none of "
                "which may carry them: they are left alone; give it hw:emulator_threads_policy=share and a "
                "cpu_shared_set with CPUs of its node"
            )
    elif room.warning:
        warnings.append(f"guest {asked.title}: {room.warning}" + (f" (emulatorpin {allowed})" if allowed else ""))


def _by_device(facts: model.HostFacts) -> dict[str, list[model.Irq]]:
    by_device: dict[str, list[model.Irq]] = {}
    for number in sorted(facts.irqs):
        irq = facts.irqs[number]
        if irq.device and irq.name:
            by_device.setdefault(irq.device.lower(), []).append(irq)
    return by_device


def _collect_vectors(
    asked: Asked, by_device: Mapping[str, list[model.Irq]], sets: HostSets, warnings: list[str]
) -> None:
    """Find the interrupts of passed-through devices and the CPUs that they may use."""
    own = owned_cpus(asked.domain) & sets.online
    to_vcpus = asked.request.irq_placement == "vcpu"
    if to_vcpus and not own:
        warnings.append(
            f"guest {asked.title} asks perf:irq_placement=vcpu but owns no CPU: its interrupts are placed as with "
            "numa; give it hw:cpu_policy=dedicated"
        )
    for address in sorted({one.lower() for one in asked.domain.hostdevs}):
        irqs = by_device.get(address)
        if not irqs:
            warnings.append(
                f"guest {asked.title}: no interrupt of its device {address} was found (not started yet?)"
            )
            continue
        asked.devices[address] = irqs
        current = [nics.single(irq.affinity) for irq in irqs]
        if to_vcpus and own:
            node = irqs[0].node
            # Of a guest on several nodes, the vCPUs beside the device serve it.
            near = frozenset(cpu for cpu in own if sets.node_of[cpu] == node) or own
            asked.vectors[address] = spread.Group(sets.room(near, OWN, "the guest"), 1, current)
            continue
        room = sets.interrupts(_node_for(irqs[0].node, asked.nodes, sets))
        if room:
            if room.warning:
                warnings.append(f"guest {asked.title}, device {address}: {room.warning}")
            weight = max(1, nics.UNKNOWN_SPEED_MBPS // len(irqs))
            asked.vectors[address] = spread.Group(room, weight, current)


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


def thread_settings(found: Sequence[Asked], warnings: list[str]) -> list[setting.Setting]:
    """Return the affinities of vhost workers, emulator and I/O threads of the guests that ask for it."""
    result: list[setting.Setting] = []
    for asked in found:
        room = asked.room
        if room is None:
            continue
        if asked.request.vhost_placement in ("numa", "spread"):
            result += _vhost(asked, room, warnings)
        if asked.request.emulator_placement == "numa":
            result += _emulator(asked, room, warnings)
    return result


def _vhost(asked: Asked, room: Room, warnings: list[str]) -> list[setting.Setting]:
    if not asked.vhost:
        if any(map(has_workers, asked.domain.interfaces)):
            warnings.append(
                f"guest {asked.title} asks perf:vhost_placement but has no vhost worker (is vhost_net loaded?)"
            )
        return []
    pid, placement = asked.guest.pid, asked.request.vhost_placement
    head = f"{asked.title} asks vhost_placement={placement}: worker "
    if asked.workers is None:
        tail = f" may use the {room.what} CPUs {room.text} of {room.where}"
        return [
            _thread(one, pid, room.text, room, f"{head}{index}{tail}", "vhost-numa")
            for index, one in enumerate(asked.vhost)
        ]
    tail = f", one of the {len(room.cpus)} {room.what} CPUs of {room.where}"
    return [
        setting.Setting(
            "thread_affinity",
            f"tid:{one.tid}",
            str(cpu),
            one.affinity,
            f"{head}{index} has CPU {cpu}{tail}",
            "vhost-spread",
            f"{pid}:{one.start}",
        )
        for index, (one, cpu) in enumerate(zip(asked.vhost, asked.workers.placed, strict=True))
    ]


def _emulator(asked: Asked, room: Room, warnings: list[str]) -> list[setting.Setting]:
    """Emulator and I/O threads; QEMU's short-lived pool threads inherit from them."""
    pid = asked.guest.pid
    result = []
    reasons = {
        kind: f"{asked.title} asks emulator_placement=numa: its {name} may use the {room.what} CPUs {room.text} "
        f"of {room.where}, away from vCPUs"
        for kind, name in (("emulator", "emulator"), ("iothread", "I/O threads"))
    }
    for one in asked.guest.threads:
        reason = reasons.get(one.kind)
        if reason is None or one.affinity is None:
            continue
        text = room.text
        pin = (
            asked.domain.iothread_pins.get(one.index) if one.kind == "iothread" and one.index is not None else None
        )
        if pin is not None and pin != asked.domain.emulator_pin:
            inside = room.members & cpulist.parse(pin)
            if not inside:
                warnings.append(
                    f"guest {asked.title}: libvirt keeps I/O thread {one.index} on CPUs {pin}, outside of {text}: "
                    "it is left alone"
                )
                continue
            text = cpulist.format(inside)
        result.append(_thread(one, pid, text, room if text == room.text else None, reason, f"{one.kind}-numa"))
    return result


def _thread(
    thread: model.Thread, pid: int, value: str, room: Room | None, reason: str, rule: str
) -> setting.Setting:
    current = thread.affinity
    if room is not None and current != value and current is not None and cpulist.parse(current) == room.members:
        value = current  # the same CPUs in another spelling
    return setting.Setting(
        "thread_affinity", f"tid:{thread.tid}", value, current, reason, rule, f"{pid}:{thread.start}"
    )


def interrupt_settings(found: Sequence[Asked]) -> list[setting.Setting]:
    """Return the affinities of passed-through devices' interrupts."""
    result: list[setting.Setting] = []
    for asked in found:
        for address, group in asked.vectors.items():
            vcpu = group.room.what == OWN
            rule = "passthrough-vcpu" if vcpu else "passthrough-numa"
            place = "its own vCPUs' CPUs" if vcpu else f"{group.room.what} CPUs of {group.room.where}"
            head = f"{asked.title} asks irq_placement={asked.request.irq_placement}: vector "
            for index, (irq, cpu) in enumerate(zip(asked.devices[address], group.placed, strict=True)):
                reason = (
                    f"{head}{index} of its device {address} goes to CPU {cpu}, one of {place} {group.room.text}"
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


def has_workers(interface: domain_module.Interface) -> bool:
    """Return whether the kernel's vhost serves it: virtio, not in user space and no hardware."""
    kinds = ("hostdev", "vhostuser", "vdpa", "user")
    models = ("virtio", "virtio-transitional", "virtio-non-transitional")
    return interface.model in models and interface.driver in (None, "vhost") and interface.kind not in kinds
