# SPDX-License-Identifier: Apache-2.0
"""Which CPU takes each interrupt of the host's NICs and of guests' passed-through devices.

The interrupts of NICs' queues and of devices are spread first, since they carry the load. The
NICs' other interrupts (firmware, link state) fill up what is left.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.plan import guests as guests_module
from nova_perf_tuning.host.plan import nics as nics_module
from nova_perf_tuning.host.plan import spread
from nova_perf_tuning.host.plan.layout import CpuLayout, CpuPool
from nova_perf_tuning.host.plan.refused import Refused
from nova_perf_tuning.host.plan.room import vector_room


@dataclasses.dataclass(frozen=True, slots=True)
class InterruptPlan:
    """The interrupts of the host, placed.

    :ivar nics: the NICs for which something is planned; :ivar guests: running guests with a
        request.
    :ivar placed: the CPU of each item of their groups.
    :ivar by_number: the CPU of each NIC interrupt that is placed, by its number.
    :ivar numbers: the numbers of all interrupts that are placed, those of devices included.
    :ivar queue_cpus: CPUs that take interrupts of NICs' queues.
    :ivar host_cpus: CPUs that take interrupts on behalf of the host.
    :ivar vcpu_cpus: CPUs of guests' own vCPUs that take the interrupts of their devices.
    """

    nics: Sequence[nics_module.NicPlan]
    guests: Sequence[guests_module.GuestPlacement]
    placed: spread.Placed
    by_number: Mapping[int, int]
    numbers: frozenset[int]
    queue_cpus: frozenset[int]
    host_cpus: frozenset[int]
    vcpu_cpus: frozenset[int]
    settings: list[host_model.Setting]
    warnings: list[Note]


def plan_interrupts(
    facts: host_model.HostFacts, layout: CpuLayout, refused: Refused
) -> InterruptPlan:
    """Place the interrupts of NICs and of passed-through devices."""
    nics = nics_module.nic_plans(facts, layout, refused)
    guests, guest_warnings = guests_module.guest_placements(facts, layout, refused)
    placements = [placement for nic in nics for placement in nic.placements]
    devices = [device for guest in guests for device in guest.devices]

    queues: list[spread.Group] = []
    others: list[spread.Group] = []
    for placement in placements:
        queues.append(placement.data)
        others.append(placement.rest)
    host_devices: list[spread.Group] = []
    vcpu_devices: list[spread.Group] = []
    for device in devices:
        if device.own:
            vcpu_devices.append(device.group)
        else:
            host_devices.append(device.group)
    left = vector_room(facts, _to_place(placements, devices))
    room = spread.Room(left, layout.further)
    placed = spread.balance(queues + host_devices, layout.class_of, room=room)
    # What a flavor wants on the guest's own CPUs goes nowhere else.
    placed |= spread.balance(vcpu_devices, {}, room=spread.Room(left, lambda _pool: ()))
    placed |= spread.balance(others, layout.class_of, placed, room)

    queues_on: collections.Counter[int | None] = collections.Counter()
    for group in queues:
        queues_on.update(placed[group])
    settings: list[host_model.Setting] = []
    for placement in placements:
        settings += nics_module.settings(placement, placed, queues_on)
    for guest in guests:
        settings += guests_module.interrupt_settings(guest, placed)

    by_number = nics_module.interrupt_cpus(placements, placed)
    numbers = set(by_number)
    for device in devices:
        for irq, cpu in zip(device.irqs, placed[device.group], strict=True):
            if cpu is not None:
                numbers.add(irq.number)

    host_groups = queues + host_devices + others
    warnings = list(_without_vector(host_groups + vcpu_devices, placements, guests, placed))
    for nic in nics:
        warnings += nic.warnings()
    warnings += guest_warnings
    return InterruptPlan(
        nics=nics,
        guests=guests,
        placed=placed,
        by_number=by_number,
        numbers=frozenset(numbers),
        queue_cpus=spread.cpus(queues, placed),
        host_cpus=spread.cpus(host_groups, placed),
        vcpu_cpus=spread.cpus(vcpu_devices, placed),
        settings=settings,
        warnings=warnings,
    )


def _to_place(
    placements: Iterable[nics_module.NicPlacement],
    devices: Iterable[guests_module.DevicePlacement],
) -> set[int]:
    """Return the numbers of all interrupts that are to be placed."""
    numbers: set[int] = set()
    for placement in placements:
        for irqs in placement.queues.values():
            numbers.update(irq.number for irq in irqs)
        numbers.update(irq.number for irq in placement.other)
    for device in devices:
        numbers.update(irq.number for irq in device.irqs)
    return numbers


def _without_vector(
    groups: Iterable[spread.Group],
    placements: Iterable[nics_module.NicPlacement],
    guests: Iterable[guests_module.GuestPlacement],
    placed: spread.Placed,
) -> Iterator[Note]:
    """Yield which CPUs take no more interrupts, and which interrupts go elsewhere or nowhere."""
    full = frozenset(cpu for group in groups for cpu in group.pool.full)
    if full:
        yield Note.of(NoteCode.VECTORS_FULL, cpus=cpulist.format(full))
    for placement in placements:
        about = {"nic": placement.nic.name}
        nic_irqs = list(nics_module.with_cpus(placement, placed))
        yield from _not_at_home(about, placement.data.pool, nic_irqs)
    for guest in guests:
        for device in guest.devices:
            about = {"guest": guest.title, "device": device.address}
            device_irqs = list(zip(device.irqs, placed[device.group], strict=True))
            yield from _not_at_home(about, device.group.pool, device_irqs)


def _not_at_home(
    about: Mapping[str, str], pool: CpuPool, irqs: Sequence[tuple[host_model.Irq, int | None]]
) -> Iterator[Note]:
    """Yield which interrupts, with their CPUs, find no room on the CPUs of their pool."""
    nowhere: list[int] = []
    elsewhere: dict[int, int] = {}
    for irq, cpu in irqs:
        if cpu is None:
            nowhere.append(irq.number)
        elif pool.is_beyond(cpu):
            elsewhere[irq.number] = cpu
    if elsewhere:
        cpus = cpulist.format(elsewhere.values())
        numbers = cpulist.format(elsewhere)
        yield Note.of(NoteCode.VECTORS_SHORT, **about, where=pool.where, irqs=numbers, cpus=cpus)
    if nowhere:
        yield Note.of(NoteCode.NO_VECTOR, **about, irqs=cpulist.format(nowhere))
