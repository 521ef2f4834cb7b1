# SPDX-License-Identifier: Apache-2.0
"""Where the vhost workers, emulator, I/O threads and interrupts of guests run.

A guest without a request gets nothing: its threads stay where Nova and libvirt put them.
"""

import dataclasses
import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest.domain import Domain
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.model.owners import owned_cpus
from nova_perf_tuning.host.plan import caches, nics, spread
from nova_perf_tuning.host.plan.layout import CpuLayout, CpuPool, in_start_order, passed_through
from nova_perf_tuning.host.plan.refused import Refused
from nova_perf_tuning.specs.request import Request

_THREADS = {"emulator": "emulator", "iothread": "I/O threads"}
_L3_RULES = {
    host_model.PlanRule.VHOST_NUMA: host_model.PlanRule.VHOST_NUMA_L3,
    host_model.PlanRule.EMULATOR_NUMA: host_model.PlanRule.EMULATOR_NUMA_L3,
    host_model.PlanRule.IOTHREAD_NUMA: host_model.PlanRule.IOTHREAD_NUMA_L3,
}


@dataclasses.dataclass(frozen=True, slots=True)
class DevicePlacement:
    """The interrupts of a device that is passed through to a guest.

    :ivar own: they go to the CPUs of the guest's own vCPUs.
    """

    address: str
    irqs: Sequence[host_model.Irq]
    group: spread.Group
    own: bool


@dataclasses.dataclass(frozen=True, slots=True)
class GuestPlacement:
    """A running guest with a request, its own nodes if any, and its devices to be placed.

    :ivar slice: what systemd limits its threads by; None where it does not.
    """

    process: host_model.GuestProcess
    domain: Domain
    request: Request
    nodes: frozenset[int] | None
    devices: Sequence[DevicePlacement]
    slice: host_model.Slice | None

    @property
    def title(self) -> str:
        return self.domain.title or self.process.name

    @property
    def allowed(self) -> str | None:
        """The CPUs that the cgroups of its emulator thread leave it, as a cpulist; None: all.

        sched_setaffinity() cuts a mask to them in silence, and refuses one wholly outside
        (EINVAL).
        """
        pin = self.domain.emulator_pin
        if self.slice is None:
            return pin
        if pin is None:
            return self.slice.effective
        return cpulist.format(cpulist.parse(pin) & cpulist.parse(self.slice.effective))


class _OtherThread(NamedTuple):
    """An emulator or I/O thread: its pool, its cpulist, and why it may leave its guest's L3 groups."""

    thread: host_model.Thread
    pool: CpuPool
    cpus: str
    why_far: str


@dataclasses.dataclass(frozen=True, slots=True)
class ThreadPlacement:
    """Where the threads of a guest go.

    :ivar pool: where its workers go.
    :ivar vhost: its workers in the order of the queues; :ivar workers: their group with
        ``spread``.
    :ivar others: emulator and I/O threads that are moved.
    :ivar why_far: why workers may use CPUs outside of the L3 groups of their guest, as their reason
        says it.
    """

    guest: GuestPlacement
    pool: CpuPool
    vhost: Sequence[host_model.Thread]
    workers: spread.Group | None
    others: list[_OtherThread]
    why_far: str


def with_domains(facts: host_model.HostFacts, domains: Sequence[Domain]) -> host_model.HostFacts:
    """Return ``facts`` with ``domains``, which replace those of libvirt of the same name.

    A running process of a domain's name belongs to it; else the guest counts as one that is not
    running.
    """
    given = {domain.name: domain for domain in domains}
    every = [domain for domain in facts.domains if domain.name not in given]
    every += given.values()
    guests: list[host_model.GuestProcess] = []
    for guest in facts.guests:
        domain = given.get(guest.name, guest.domain)
        guests.append(dataclasses.replace(guest, domain=domain))
    return dataclasses.replace(facts, domains=tuple(every), guests=tuple(guests))


def guest_placements(
    facts: host_model.HostFacts, layout: CpuLayout, refused: Refused
) -> tuple[list[GuestPlacement], list[Note]]:
    """Return the running guests that ask for something of the host, and warnings."""
    placements = []
    warnings: list[Note] = []
    every = frozenset(node for node in layout.node_of.values() if node is not None)
    slices = {group.path: group for group in facts.slices}
    irqs: dict[str, list[host_model.Irq]] = {}
    if any(guest.domain and guest.domain.hostdevs for guest in facts.guests):
        irqs = _by_device(facts)
    for guest in in_start_order(facts):
        domain = guest.domain
        if domain is None:
            continue
        if domain.request_error:
            fault = {"guest": guest.name, "reason": domain.request_error}
            warnings.append(Note.of(NoteCode.REQUEST_UNUSABLE, **fault))
        if domain.request is None:
            continue
        nodes = guest_nodes(domain, layout.node_of, every)
        devices: list[DevicePlacement] = []
        if domain.request.irq_placement in ("numa", "vcpu"):
            to_vcpus = domain.request.irq_placement == "vcpu"
            movable, faults = _movable(domain, irqs, refused)
            devices, more = _devices(domain, nodes, movable, layout, to_vcpus)
            faults += more
            title = domain.title or guest.name
            warnings += [fault.about(guest=title) for fault in faults]
        group = slices.get(guest.slice or "")
        placements.append(GuestPlacement(guest, domain, domain.request, nodes, devices, group))
    return placements, warnings


def guest_nodes(
    domain: Domain, node_of: Mapping[int, int | None], every: frozenset[int]
) -> frozenset[int] | None:
    """Return the nodes of a guest's memory, else of its vCPUs' pins; None: it may lie anywhere."""
    if domain.memory_nodes:
        return cpulist.parse(domain.memory_nodes) or None
    pinned = cpulist.union(set(domain.vcpu_pins.values()))
    nodes = {node_of.get(cpu) for cpu in pinned} & every
    if not nodes or (nodes == every and len(every) > 1 and not domain.dedicated):
        return None
    return frozenset(node for node in nodes if node is not None)


def _by_device(facts: host_model.HostFacts) -> dict[str, list[host_model.Irq]]:
    """Return address of a device -> its interrupts that have a handler, by number."""
    irqs: dict[str, list[host_model.Irq]] = {}
    for number in sorted(facts.irqs):
        irq = facts.irqs[number]
        if irq.device and irq.name:
            irqs.setdefault(irq.device.lower(), []).append(irq)
    return irqs


def _movable(
    domain: Domain,
    by_device: Mapping[str, Sequence[host_model.Irq]],
    refused: Refused,
) -> tuple[dict[str, Sequence[host_model.Irq]], list[Note]]:
    """Return the interrupts of a guest's devices that can be moved, and notes on the others."""
    movable: dict[str, Sequence[host_model.Irq]] = {}
    notes: list[Note] = []
    addresses = {address.lower() for address in domain.hostdevs}
    for address in sorted(addresses):
        irqs = by_device.get(address)
        if not irqs:
            notes.append(Note.of(NoteCode.NO_DEVICE_INTERRUPT, device=address))
            continue
        managed: list[int] = []
        left: list[int] = []
        others: list[host_model.Irq] = []
        for irq in irqs:
            if refused.is_left(irq):
                left.append(irq.number)
            elif refused.is_managed(irq):
                managed.append(irq.number)
            else:
                others.append(irq)
        if managed:
            text = cpulist.format(managed)
            notes.append(Note.of(NoteCode.INTERRUPTS_MANAGED, device=address, irqs=text))
        if left:
            text = cpulist.format(left)
            notes.append(Note.of(NoteCode.INTERRUPTS_LEFT, device=address, irqs=text))
        if others:
            movable[address] = others
    return movable, notes


def _devices(
    domain: Domain,
    nodes: frozenset[int] | None,
    movable: Mapping[str, Sequence[host_model.Irq]],
    layout: CpuLayout,
    to_vcpus: bool,
) -> tuple[list[DevicePlacement], list[Note]]:
    """Return a guest's devices with the CPUs that their interrupts may use, and what is wrong."""
    devices = []
    faults: list[Note] = []
    own = owned_cpus(domain) & layout.online
    if to_vcpus and not own:
        faults.append(Note(NoteCode.NO_OWN_CPU))
    for address, irqs in movable.items():
        node = irqs[0].node
        current = [nics.single(irq.affinity) for irq in irqs]
        if to_vcpus and own:
            # Of a guest on several nodes, the vCPUs on the device's node serve it.
            near = frozenset(cpu for cpu in own if layout.node_of[cpu] == node)
            pool = layout.without_full(layout.pool(near or own, "own vCPU", "the guest"))
            group = spread.Group(pool, 1, current)
            devices.append(DevicePlacement(address, irqs, group, own=True))
            continue
        nearest = layout.vectors(_node_for(node, nodes, layout))
        if nearest is None:
            continue
        if nearest.warning:
            faults.append(nearest.warning.about(device=address))
        weight = max(1, nics.UNKNOWN_SPEED_MBPS // len(irqs))
        group = spread.Group(nearest, weight, current)
        devices.append(DevicePlacement(address, irqs, group, own=False))
    return devices, faults


def _node_for(device: int | None, nodes: frozenset[int] | None, layout: CpuLayout) -> int | None:
    """Return which of its guest's nodes the interrupts of a device go to.

    The device's own if it is one of them, else the nearest to it; nodes without a housekeeping CPU
    come last.

    :param nodes: the guest's, None when it may lie anywhere: then the device's node counts.
    """
    if not nodes:
        return device
    able = nodes & {layout.node_of[cpu] for cpu in layout.housekeeping}
    far: Mapping[int, int] = {}
    if device is not None:
        far = layout.distances.get(device, {})
    return min(able or nodes, key=lambda node: (node != device, far.get(node, math.inf), node))


def thread_placements(
    guests: Sequence[GuestPlacement], layout: CpuLayout, avoid: frozenset[int]
) -> tuple[list[ThreadPlacement], list[Note]]:
    """Return where the threads of each guest go that asked for it, and warnings.

    :param avoid: CPUs with NIC interrupts, taken last among equals.
    """
    placements = []
    warnings: list[Note] = []
    faults: list[Note] = []
    # Hundreds of guests share few pools, and few L3 groups.
    pool_for = functools.cache(layout.threads)
    distances_for = functools.cache(functools.partial(caches.nearness, layout.l3_of))
    for guest in guests:
        moves_vhost = guest.request.vhost_placement in ("numa", "spread")
        moves_others = guest.request.emulator_placement == "numa"
        if not moves_vhost and not moves_others:
            continue
        allowed = guest.allowed
        pool = pool_for(guest.nodes, allowed, avoid)
        if pool is None:
            if allowed is not None and layout.housekeeping:
                warnings.append(_confined(guest, allowed, layout))
            continue
        if pool.warning:
            warning = pool.warning.about(guest=guest.title)
            if allowed:
                warning = warning.about(emulator_pin=allowed)
            warnings.append(warning)
        distances: Mapping[int, int] = {}
        steps: caches.Steps = ()
        if layout.l3_of:
            steps = caches.steps(guest.domain, layout.l3_of)
            distances = distances_for(pool.cpus, steps)
        workers: list[host_model.Thread] = []
        if moves_vhost:
            workers = _vhost_workers(guest.process)
            has_vhost = any(interface.has_vhost_worker for interface in guest.domain.interfaces)
            if has_vhost and not workers:
                faults.append(Note.of(NoteCode.NO_VHOST_WORKER, guest=guest.title))
        why_far = _why_far(guest, pool, distances, steps, len(workers))
        others: list[_OtherThread] = []
        if moves_others:
            others, confined = _other_threads(guest, pool, distances, why_far)
            faults += confined
        group = None
        if guest.request.vhost_placement == "spread":
            now = [nics.single(thread.affinity) for thread in workers]
            group = spread.Group(pool, 1, now, near=distances)
        else:
            pool = _closest(pool, distances, len(workers))
        why = why_far.get("vhost", "")
        placements.append(ThreadPlacement(guest, pool, workers, group, others, why))
    return placements, warnings + faults


def _closest(pool: CpuPool, distances: Mapping[int, int], number: int) -> CpuPool:
    """Return the nearest CPUs of a pool that have room for ``number`` threads of one guest."""
    cpus = caches.roomy(pool.cpus, distances, number)
    if len(cpus) == len(pool.cpus):
        return pool
    where = caches.called(pool.where)
    return dataclasses.replace(pool, cpus=cpus, members=frozenset(cpus), where=where, in_l3=True)


def _why_far(
    guest: GuestPlacement,
    pool: CpuPool,
    distances: Mapping[int, int],
    steps: caches.Steps,
    workers: int,
) -> dict[str, str]:
    """Return kind of thread -> why it is not kept to the L3 groups of its guest, if it is not."""
    why_far: dict[str, str] = {}
    if not steps:
        return why_far
    numbers = {"emulator": 1, "iothread": guest.domain.iothreads, "vhost": workers}
    for kind, number in numbers.items():
        if _closest(pool, distances, number) is pool:
            why_far[kind] = caches.why_far(steps, distances, pool.what, number)
    return why_far


def _vhost_workers(process: host_model.GuestProcess) -> list[host_model.Thread]:
    """Return a guest's vhost workers; the n-th one that was made serves queue pair n."""
    every = process.threads
    workers = [
        thread for thread in every if thread.kind == "vhost" and thread.affinity is not None
    ]
    workers.sort(key=lambda thread: (thread.start, thread.tid))
    return workers


def _other_threads(
    guest: GuestPlacement,
    pool: CpuPool,
    distances: Mapping[int, int],
    why_far: Mapping[str, str],
) -> tuple[list[_OtherThread], list[Note]]:
    """Return a guest's emulator and I/O threads with their CPUs, and notes on the immovable.

    :param why_far: as :func:`_why_far` returns it.
    """
    moved: list[_OtherThread] = []
    faults: list[Note] = []
    closest = {"emulator": _closest(pool, distances, 1)}
    closest["iothread"] = _closest(pool, distances, guest.domain.iothreads)
    for thread in guest.process.threads:
        if thread.kind not in _THREADS or thread.affinity is None:
            continue
        near = closest[thread.kind]
        why = why_far.get(thread.kind, "")
        text = _limit(thread, guest.domain, near)
        if not text and near.in_l3:  # its pin may leave it other CPUs of the node
            near = pool
            why = caches.WHY_PINNED
            text = _limit(thread, guest.domain, pool)
        if text:
            moved.append(_OtherThread(thread, near, text, why))
        else:
            index = thread.index or 0
            about = {"cpus": guest.domain.iothread_pins[index], "pool": pool.text}
            note = Note.of(NoteCode.IOTHREAD_CONFINED, guest=guest.title, iothread=index, **about)
            faults.append(note)
    return moved, faults


def _confined(guest: GuestPlacement, allowed: str, layout: CpuLayout) -> Note:
    """Say what keeps the threads of a guest from every CPU that could carry them."""
    group, usable = guest.slice, layout.shared | layout.housekeeping
    if group is not None and not cpulist.parse(group.effective) & usable:
        about = {"slice": group.path.rpartition("/")[2], "cpus": group.effective}
        return Note.of(NoteCode.SLICE_CONFINED, guest=guest.title, **about)
    return Note.of(NoteCode.EMULATOR_CONFINED, guest=guest.title, cpus=allowed or "none")


def _limit(thread: host_model.Thread, domain: Domain, pool: CpuPool) -> str:
    """Return the CPUs of a pool that libvirt's pin leaves to an I/O thread; empty: none."""
    pin = domain.iothread_pins.get(thread.index or 0) if thread.kind == "iothread" else None
    if pin is None or pin == domain.emulator_pin:
        return pool.text
    return cpulist.format(pool.members & cpulist.parse(pin))


def thread_settings(
    placement: ThreadPlacement, placed: spread.Placed
) -> Iterator[host_model.Setting]:
    """Yield the affinities of vhost workers, emulator and I/O threads that are moved.

    QEMU's short-lived pool threads inherit from its emulator thread.
    """
    guest, pool, pid = placement.guest, placement.pool, placement.guest.process.pid
    near: Mapping[int, int] = {}
    if placement.workers:
        near = placement.workers.near
    farthest = max(near.values(), default=0)
    why_far = placement.why_far
    if near and min(near.values()) < farthest:
        why_far = ", since a nearer one would carry more workers"
    head = f"{guest.title} requests vhost_placement={guest.request.vhost_placement}: worker "
    cpus: Sequence[int | None] = ()
    if placement.workers:
        cpus = placed[placement.workers]
    for index, thread in enumerate(placement.vhost):
        if cpus:
            cpu = cpus[index]
            text, rule, where = str(cpu), host_model.PlanRule.VHOST_SPREAD, pool.where
            if cpu is not None and near.get(cpu, 0) < farthest:
                rule, where = host_model.PlanRule.VHOST_SPREAD_L3, caches.called(where)
            else:
                where += why_far
            reason = f"{head}{index} has CPU {text}, one of the {len(pool.cpus)} {pool.what} CPUs of {where}"
        else:
            text = pool.text
            rule = _rule(pool, host_model.PlanRule.VHOST_NUMA)
            reason = f"{head}{index} may use the {pool.what} CPUs {text} of {pool.where}{why_far}"
        yield thread_setting(thread, pid, text, reason, rule)
    for thread, pool, text, why_far in placement.others:
        rule = _rule(pool, host_model.PlanRule.EMULATOR_NUMA)
        if thread.kind == "iothread":
            rule = _rule(pool, host_model.PlanRule.IOTHREAD_NUMA)
        reason = (
            f"{guest.title} requests emulator_placement=numa: its {_THREADS[thread.kind]} may "
            f"use the {pool.what} CPUs {text} of {pool.where}, away from vCPUs{why_far}"
        )
        yield thread_setting(thread, pid, text, reason, rule)


def _rule(pool: CpuPool, rule: host_model.PlanRule) -> host_model.PlanRule:
    """Return the rule of a thread that goes to a pool: a node's, or that for its L3 groups."""
    return _L3_RULES[rule] if pool.in_l3 else rule


def thread_setting(
    thread: host_model.Thread, pid: int, value: str, reason: str, rule: str
) -> host_model.Setting:
    """Return the affinity of one thread of process ``pid``."""
    current = thread.affinity
    if current is not None and current != value and cpulist.parse(current) == cpulist.parse(value):
        value = current  # the same CPUs in another spelling
    target = host_model.ThreadTarget(thread.tid, pid, thread.start)
    return host_model.Setting.on(target, value, current, reason, rule)


def interrupt_settings(
    guest: GuestPlacement, placed: spread.Placed
) -> Iterator[host_model.Setting]:
    """Yield the affinities of the interrupts of a guest's devices."""
    for device in guest.devices:
        pool = device.group.pool
        if device.own:
            rule = host_model.PlanRule.PASSTHROUGH_VCPU
            where = "its own vCPUs' CPUs"
        else:
            rule = host_model.PlanRule.PASSTHROUGH_NUMA
            where = f"{pool.what} CPUs of {pool.where}"
        head = f"{guest.title} requests irq_placement={guest.request.irq_placement}: vector "
        for index, (irq, cpu) in enumerate(zip(device.irqs, placed[device.group], strict=True)):
            if cpu is None:
                continue
            vector = f"{head}{index} of its device {device.address}"
            reason = f"{vector} goes to CPU {cpu}, one of {where} {pool.text}"
            if pool.is_beyond(cpu):
                reason = f"{vector} goes to CPU {cpu}: {pool.short_of_vectors}"
            yield nics.irq_setting(irq, str(cpu), reason, rule)


def left_alone(
    facts: host_model.HostFacts, planned: Collection[int]
) -> Iterator[tuple[str, host_model.Irq]]:
    """Yield device and interrupt of all passed-through ones that are not ``planned``."""
    owners = passed_through(facts)
    if not owners:
        return
    for address, irqs in _by_device(facts).items():
        if address not in owners:
            continue
        label = f"device {address} of guest {owners[address]}"
        for irq in irqs:
            if irq.number not in planned:
                yield label, irq
