# SPDX-License-Identifier: Apache-2.0
"""Whether any work of the host may run on a dedicated CPU once the plan holds."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import channels, host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode, Value
from nova_perf_tuning.host.plan import background, guests, idle, napi, nics, untouched
from nova_perf_tuning.host.plan.background import Background
from nova_perf_tuning.host.plan.interrupts import InterruptPlan
from nova_perf_tuning.host.plan.layout import CpuLayout
from nova_perf_tuning.host.plan.refused import NOTHING, Refused
from nova_perf_tuning.host.plan.threads import Threads

#: Classes of work that must stay off reserved CPUs.
WORK = ("emulator", "iothread", "vhost", "irq", "napi", *background.WORK)
_THREADS = ("vcpu", "emulator", "iothread", "vhost")
_SETS = ("housekeeping", "shared", "dedicated", "isolated")
#: cpulist -> names of the guests, NICs or devices whose work runs there.
_Users = Mapping[str, Collection[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """All sets of a plan side by side (see :class:`~nova_perf_tuning.host.plan.planner.Plan`).

    :ivar warnings: one for each class of work that may run on a reserved CPU; none: it is proved.
    :ivar unseen: channels that were not looked at: of them nothing is proved.
    """

    sets: dict[str, str]
    warnings: list[Note]
    unseen: tuple[channels.Unseen, ...]


#: Whose work of the kernel it is: class of work -> word for its users.
_USERS_OF = {"rps": "links", "new_irq": "later", "workqueue": "later", "kthread": "threads"}
#: Class of work -> the rule of the audit whose settings keep it off guests' CPUs.
_RULE_OF = {name: row.rules[0] for row in channels.CHANNELS for name in row.work}


def prove(
    facts: host_model.HostFacts,
    layout: CpuLayout,
    interrupts: InterruptPlan,
    threads: Threads,
    work_of_kernel: Background,
    refused: Refused = NOTHING,
) -> Proof:
    """Compare the CPUs of all work of the host with those that guests and programs own."""
    left = untouched.devices(facts, refused)
    work = _of_threads(facts, layout, threads, left)
    work["irq"] = _of_interrupts(facts, interrupts, refused)
    for name, its_users in work_of_kernel.users.items():
        work[name] = _without_left(_USERS_OF[name], its_users, left)
    cpus = {name: _cpus(users.values()) for name, users in work.items()}
    cpus["irq"] |= interrupts.host_cpus

    sets = _sets(layout, interrupts, cpus)
    warnings: list[Note] = []
    total: frozenset[int] = frozenset()
    for name in WORK:
        overlap = cpus.get(name, frozenset()) & layout.reserved
        if not overlap:
            continue
        total |= overlap
        text = cpulist.format(overlap)
        sets[f"overlap_{name}"] = text
        concerned: dict[str, Value] = {}
        for what, users in work[name].items():
            names = _names(users, overlap)
            if names:
                concerned[what] = names
        if name in work_of_kernel.users and not work_of_kernel.written:
            concerned["rule"] = _RULE_OF[name]
        warnings.append(Note.of(NoteCode.OVERLAP, work=name, cpus=text, **concerned))
    sets["overlap"] = cpulist.format(total)
    return Proof(sets, warnings, tuple(channels.unseen(facts)))


def _sets(
    layout: CpuLayout, interrupts: InterruptPlan, cpus: Mapping[str, frozenset[int]]
) -> dict[str, str]:
    """Return the cpulists of the host's sets, and of each class of work."""
    sets = {name: cpulist.format(getattr(layout, name)) for name in _SETS}
    if layout.tickless:
        sets["tickless"] = cpulist.format(layout.tickless)
    if layout.excluded:
        sets["excluded"] = cpulist.format(layout.excluded)
    if layout.programs:
        sets["programs"] = cpulist.format(layout.programs)
    for name in ("vcpu", *WORK):
        if name in cpus:
            sets[name] = cpulist.format(cpus[name])
    if interrupts.vcpu_cpus:
        sets["irq_vcpu"] = cpulist.format(interrupts.vcpu_cpus)
    return sets


def _of_threads(
    facts: host_model.HostFacts, layout: CpuLayout, threads: Threads, left: Collection[str]
) -> dict[str, dict[str, _Users]]:
    """Return kind of thread -> ``guests``, ``nics`` or ``left`` -> who uses which CPUs.

    :param left: network devices that the operator wants left alone.
    """
    work: dict[str, dict[str, _Users]] = {}
    for kind, users in _thread_users(facts, layout, threads.planned).items():
        if kind == "napi":
            work[kind] = _without_left("nics", users, left)
        else:
            work[kind] = {"guests": users}
    return work


def _without_left(what: str, users: _Users, left: Collection[str]) -> dict[str, _Users]:
    """Return users as ``what``, and as ``left`` those that the operator wants left alone."""
    if not left:
        return {what: users}
    others: dict[str, list[str]] = {}
    alone: dict[str, list[str]] = {}
    for text, names in users.items():
        others[text] = [name for name in names if name not in left]
        alone[text] = [name for name in names if name in left]
    return {what: others, "left": alone}


def _of_interrupts(
    facts: host_model.HostFacts, interrupts: InterruptPlan, refused: Refused
) -> dict[str, _Users]:
    """Return why an interrupt is not placed -> whose interrupts use which CPUs.

    ``left``: the operator wants it; ``managed``: the kernel places them; ``nics``: no CPU may take
    them; ``devices``: no flavor asks for it.
    """
    left = untouched.irqs(facts, refused)
    nic_irqs = list(nics.left_alone(facts, interrupts.numbers))
    nic_irqs += _refused_irqs(facts, interrupts)
    device_irqs = guests.left_alone(facts, interrupts.numbers)
    by_cause: dict[str, list[tuple[str, host_model.Irq]]] = {}
    for cause, irqs in (("nics", nic_irqs), ("devices", device_irqs)):
        for owner, irq in irqs:
            why = cause
            if irq.number in left:
                why = "left"
            elif refused.is_managed(irq):
                why = "managed"
            by_cause.setdefault(why, []).append((owner, irq))
    return {cause: _irq_users(irqs) for cause, irqs in by_cause.items()}


def _cpus(every: Iterable[_Users]) -> frozenset[int]:
    texts: list[str] = []
    for users in every:
        texts += users
    return cpulist.union(texts)


def _refused_irqs(
    facts: host_model.HostFacts, interrupts: InterruptPlan
) -> Iterator[tuple[str, host_model.Irq]]:
    """Yield NIC and interrupt of all that stay because nobody moves them, or nobody may."""
    for nic_plan in interrupts.nics:
        name = nic_plan.nic.name
        for number in (*nic_plan.managed, *nic_plan.left):
            yield name, facts.irqs[number]
        for placement in nic_plan.placements:
            for irq in nics.unplaced(placement, interrupts.placed):
                yield name, irq


def _irq_users(irqs: Iterable[tuple[str, host_model.Irq]]) -> _Users:
    """Sort owners of interrupts by the CPUs that serve them now, else by those that may.

    Interrupts whose CPUs cannot be read are left out.
    """
    users: dict[str, list[str]] = {}
    for owner, irq in irqs:
        text = irq.serving
        if text:
            users.setdefault(text, []).append(owner)
    return users


def _thread_users(
    facts: host_model.HostFacts, layout: CpuLayout, planned: Mapping[str, str]
) -> Mapping[str, _Users]:
    """Return kind of thread -> cpulist -> names of guests or NICs, given the planned cpulists.

    For a guest that is not running, its XML says it.
    """
    owners = [(guest.name, thread) for guest in facts.guests for thread in guest.threads]
    for nic in facts.nics:
        for _napi, thread in napi.threads(nic):
            owners.append((nic.name, thread))

    users: dict[str, dict[str, dict[str, None]]] = {name: {} for name in _THREADS}
    for name, thread in owners:
        kind, text = thread.kind, planned.get(f"tid:{thread.tid}", thread.affinity)
        if text is None:
            continue
        if kind in users or kind == "napi":
            users.setdefault(kind, {}).setdefault(text, {})[name] = None

    running = {guest.name for guest in facts.guests}
    for domain in facts.domains:
        if domain.name in running:
            continue
        for text in domain.vcpu_pins.values():
            users["vcpu"].setdefault(text, {})[domain.name] = None
        for reach in idle.reaches(domain, facts, layout):
            if reach.cpus:
                users[reach.kind].setdefault(reach.cpus, {})[domain.name] = None
    return users


def _names(users: _Users, cpus: frozenset[int]) -> tuple[str, ...]:
    """Return the guests, NICs or devices whose work may run on these CPUs, each once."""
    names: dict[str, None] = {}
    for text, of_text in users.items():
        if cpulist.parse(text) & cpus:
            names |= dict.fromkeys(of_text)
    return tuple(names)
