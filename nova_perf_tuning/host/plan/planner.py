# SPDX-License-Identifier: Apache-2.0
"""The host plan: a pure function of facts, CPU sets and requests.

Rules and what is guaranteed about them: :mod:`nova_perf_tuning.host.plan.spread` (shares),
:mod:`~nova_perf_tuning.host.plan.layout` (which CPUs), :mod:`~nova_perf_tuning.host.plan.nics` and
:mod:`~nova_perf_tuning.host.plan.guests` (what goes there).
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host import model
from nova_perf_tuning.host.notes import Note, NoteCode
from nova_perf_tuning.host.owners import CpuOwners, CpuSets
from nova_perf_tuning.host.plan import guests as guests_module
from nova_perf_tuning.host.plan import napi, spread
from nova_perf_tuning.host.plan import nics as nics_module
from nova_perf_tuning.host.plan.layout import CpuLayout
from nova_perf_tuning.host.plan.refused import NOTHING, Refused

#: Classes of work that must stay off reserved CPUs.
WORK = ("emulator", "iothread", "vhost", "irq", "napi")
_THREADS = ("vcpu", "emulator", "iothread", "vhost")
#: cpulist -> names of what runs there.
_Users = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What should hold on the host.

    :ivar settings: every value with its reason, also those that hold already (``current == value``).
    :ivar sets: name -> cpulist: ``housekeeping``, ``shared``, ``dedicated``, ``isolated``, ``programs`` (only
        where other programs own CPUs), and where each class of work may run once the plan
        holds: ``vcpu``, ``emulator``, ``iothread``, ``vhost``, ``irq`` (NICs and passed-through devices, also
        where the plan leaves them alone), ``irq_vcpu`` (only with ``perf:irq_placement=vcpu``), ``napi`` (only
        with threaded NAPI).
        ``overlap`` is empty when none of emulator, iothread, vhost, irq and napi shares a CPU with dedicated or
        programs; else it has the CPUs that do, ``overlap_vhost`` and so on say which, and warnings name them.
    :ivar warnings: what could not be read, or not be done as asked, and why.
    :ivar owners: whose each CPU is; the sets follow from it.
    :ivar nova_config: the files of nova-compute from which the operator's CPU sets are.
    """

    settings: list[model.Setting]
    sets: Mapping[str, str]
    warnings: list[Note]
    owners: CpuOwners
    nova_config: tuple[str, ...] = ()

    def changes(self) -> list[model.Setting]:
        """Settings whose value does not hold now."""
        return [setting for setting in self.settings if setting.current != setting.value]


def plan(facts: model.HostFacts, sets: CpuSets, *, rps: bool = False, refused: Refused = NOTHING) -> Plan:
    """Return what should hold on the host, each value with its reason.

    The same input gives the same plan, and a host on which the plan holds gives the same plan again.
    Placements that hold already and are even are kept, so a guest or NIC more moves nothing else.

    :param rps: spread the packet work of a NIC with fewer receive queues than local housekeeping CPUs over these
        CPUs in software. Off by default: it costs an interrupt between CPUs for each burst.
    :param refused: what the kernel does not do: another CPU is chosen, or the interrupt is left alone.
    :raises nova_perf_tuning.host.plan.layout.PlanError: the sets contradict each other or the host.
    """
    layout = dataclasses.replace(CpuLayout.of(facts, sets), full=refused.full)
    nic_plans = nics_module.nic_plans(facts, layout, refused)
    nics = [placement for nic_plan in nic_plans for placement in nic_plan.placements]
    guests, guest_warnings = guests_module.guest_placements(facts, layout, refused)
    devices = [device for guest in guests for device in guest.devices]
    near = [nic.data for nic in nics] + [device.group for device in devices if not device.own]
    own = [device.group for device in devices if device.own]
    placed = spread.balance(near, layout.class_of) | spread.balance(own, {})
    rest = [nic.rest for nic in nics]
    placed |= spread.balance(rest, layout.class_of, placed)
    busy = spread.cpus([nic.data for nic in nics], placed)
    threads, thread_warnings = guests_module.thread_placements(guests, layout, busy)
    placed |= spread.balance([guest.workers for guest in threads if guest.workers], layout.class_of)

    moved = [setting for guest in threads for setting in guests_module.thread_settings(guest, placed)]
    cpus = nics_module.interrupt_cpus(nics, placed)
    moved += napi.settings(facts, cpus, layout)
    moved_threads = {setting.target: setting for setting in moved}
    settings = [
        *(setting for nic in nics for setting in nics_module.settings(nic, placed)),
        *(setting for guest in guests for setting in guests_module.interrupt_settings(guest, placed)),
        *moved_threads.values(),
        *nics_module.steering(nic_plans, cpus, facts, layout, rps),
    ]
    device_irqs = {irq.number for device in devices for irq in device.irqs}
    no_vector = {irq.number for device in devices for irq in guests_module.unplaced(device, placed)}
    moved_irqs = device_irqs - no_vector | cpus.keys()
    users = _users(facts, {target: setting.value for target, setting in moved_threads.items()})
    work = {kind: {"nics" if kind == "napi" else "guests": by_cpus} for kind, by_cpus in users.items()}
    work["irq"] = {
        "nics": _by_cpus([*nics_module.left_alone(facts, moved_irqs), *_refused_irqs(facts, nic_plans, placed)]),
        "devices": _by_cpus(guests_module.left_alone(facts, moved_irqs)),
    }
    irq, irq_vcpu = spread.cpus(near + rest, placed), spread.cpus(own, placed)
    shown, overlaps = _show(layout, work, irq, irq_vcpu)
    nic_warnings = [note for nic_plan in nic_plans for note in nic_plan.warnings()]
    guest_warnings += thread_warnings
    full = list(_full(near + rest + own, nics, guests, placed))
    warnings = [*facts.warnings, *layout.warnings, *full, *nic_warnings, *guest_warnings, *overlaps]
    return Plan(settings, shown, warnings, layout.owners, sets.files)


def _show(
    layout: CpuLayout, work: Mapping[str, Mapping[str, _Users]], irq: frozenset[int], irq_vcpu: frozenset[int]
) -> tuple[dict[str, str], list[Note]]:
    """Return all sets side by side, and a warning for each class of work that touches a reserved CPU.

    :param work: class -> what they are (guests, nics, devices) -> who uses which CPUs once the plan holds.
    :param irq: CPUs of the interrupts that are planned; :param irq_vcpu: those put on guests' own CPUs.
    """
    cpus = {
        name: cpulist.union(text for users in of_class.values() for text in users)
        for name, of_class in work.items()
    }
    cpus["irq"] |= irq
    sets = ("housekeeping", "shared", "dedicated", "isolated", *(["programs"] if layout.programs else []))
    shown = {name: cpulist.format(getattr(layout, name)) for name in sets}
    shown |= {name: cpulist.format(cpus[name]) for name in ("vcpu", *WORK) if name in cpus}
    if irq_vcpu:
        shown["irq_vcpu"] = cpulist.format(irq_vcpu)
    warnings: list[Note] = []
    total: frozenset[int] = frozenset()
    for name in filter(cpus.get, WORK):
        both = cpus[name] & layout.reserved
        if both:
            total |= both
            text = shown[f"overlap_{name}"] = cpulist.format(both)
            concerned = {what: _who(users, both) for what, users in work[name].items()}
            whose = {what: names for what, names in concerned.items() if names}
            warnings.append(Note.of(NoteCode.OVERLAP, work=name, cpus=text, **whose))
    shown["overlap"] = cpulist.format(total)
    return shown, warnings


def _full(
    groups: Iterable[spread.Group],
    nics: Iterable[nics_module.NicPlacement],
    guests: Iterable[guests_module.GuestPlacement],
    placed: spread.Placed,
) -> Iterator[Note]:
    """Yield which CPUs take no more interrupts, and which interrupts no CPU takes."""
    full = frozenset(cpu for group in groups for cpu in group.pool.full)
    if not full:
        return
    yield Note.of(NoteCode.VECTORS_FULL, cpus=cpulist.format(full))
    for nic in nics:
        irqs = nics_module.unplaced(nic, placed)
        if irqs:
            yield Note.of(NoteCode.NO_VECTOR, nic=nic.nic.name, irqs=_numbers(irqs))
    for guest in guests:
        for device in guest.devices:
            irqs = guests_module.unplaced(device, placed)
            if irqs:
                about = {"guest": guest.title, "device": device.address}
                yield Note.of(NoteCode.NO_VECTOR, **about, irqs=_numbers(irqs))


def _numbers(irqs: Iterable[model.Irq]) -> str:
    return cpulist.format(irq.number for irq in irqs)


def _refused_irqs(
    facts: model.HostFacts, nic_plans: Iterable[nics_module.NicPlan], placed: spread.Placed
) -> Iterator[tuple[str, model.Irq]]:
    """Yield NIC and interrupt of all that stay where they are because the kernel does not move them."""
    for nic_plan in nic_plans:
        name = nic_plan.nic.name
        yield from ((name, facts.irqs[number]) for number in nic_plan.managed)
        for placement in nic_plan.placements:
            if placement.data.pool.full:
                yield from ((name, irq) for irq in nics_module.unplaced(placement, placed))


def _by_cpus(irqs: Iterable[tuple[str, model.Irq]]) -> _Users:
    """Sort owners of interrupts by the CPUs that serve them now, else those that may; unreadable ones are out."""
    return grouped((text, owner) for owner, irq in irqs if (text := irq.effective or irq.affinity))


def _users(facts: model.HostFacts, planned: Mapping[str, str]) -> Mapping[str, _Users]:
    """Return kind of thread -> cpulist -> names of guests or NICs, given the lists that are planned by target.

    Of a guest that does not run its pins count.
    """
    users: dict[str, dict[str, list[str]]] = {name: {} for name in _THREADS}
    owners = [(guest.name, thread) for guest in facts.guests for thread in guest.threads]
    owners += [(nic.name, thread) for nic in facts.nics for _napi, thread in napi.threads(nic)]
    for name, kind, text in dict.fromkeys(
        (name, thread.kind, planned.get(f"tid:{thread.tid}", thread.affinity)) for name, thread in owners
    ):
        if text is not None and (kind in users or kind == "napi"):
            users.setdefault(kind, {}).setdefault(text, []).append(name)
    running = {guest.name for guest in facts.guests}
    for domain in facts.domains:
        for kind, _element, texts in domain.pins() if domain.name not in running else ():
            for text in dict.fromkeys(texts):
                users[kind].setdefault(text, []).append(domain.name)
    return users


def _who(users: _Users, cpus: frozenset[int]) -> tuple[str, ...]:
    """Name the guests, NICs or devices concerned."""
    return tuple(dict.fromkeys(name for text in users if cpulist.parse(text) & cpus for name in users[text]))
