# SPDX-License-Identifier: Apache-2.0
"""What works on which CPUs, now or by a plan, and where it disturbs somebody: the values behind a picture."""

import collections
import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.owners import CpuOwners, Owner
from nova_perf_tuning.host.plan import guests, napi, nics

_NO_CPUS: Final[frozenset[int]] = frozenset()
#: Whose CPUs the host's work disturbs, and interrupts beside.
_RESERVED: Final = (Owner.GUEST, Owner.DEDICATED, Owner.PROGRAM)
_KEPT: Final = (*_RESERVED, Owner.ISOLATED)


class Kind(enum.Enum):
    """Kinds of work in the order in which they are drawn: letter and words."""

    IRQ = ("i", "interrupt")
    NAPI = ("n", "NAPI thread")
    VHOST = ("v", "vhost worker")
    EMULATOR = ("e", "emulator thread")
    IOTHREAD = ("d", "I/O thread")
    VCPU = ("c", "vCPU on CPUs that it does not own")
    PROGRAM = ("p", "thread of another program")


_RANKS: Final = {kind: rank for rank, kind in enumerate(Kind)}


class Work(NamedTuple):
    """Something that runs on CPUs.

    :ivar owner: NIC, PCI address, guest or program that it serves.
    :ivar target: as in a setting: ``irq:47``, ``tid:123``; empty: unknown.
    :ivar cpus: where it may run; empty: unknown.
    :ivar home: nodes that it belongs to, None when it may lie anywhere.
    :ivar own: CPUs on which it disturbs nobody, whoever owns them.
    """

    kind: Kind
    owner: str
    target: str
    cpus: frozenset[int]
    home: frozenset[int] | None = None
    own: frozenset[int] = _NO_CPUS


@dataclasses.dataclass(slots=True)
class Mark:
    """All work of one kind in one cell of the picture; interrupts of a CPU are told apart by their NIC.

    :ivar names: whom it serves, with how many; :ivar targets: named once, on the first CPU of each.
    :ivar conflict, far: CPUs on which it disturbs their owner, or which are not of its node.
    :ivar moved, wide: how many are not here in the state beside this one, or may run on other CPUs too.
    """

    kind: Kind
    names: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    targets: list[str] = dataclasses.field(default_factory=list)
    conflict: set[int] = dataclasses.field(default_factory=set)
    far: set[int] = dataclasses.field(default_factory=set)
    moved: int = 0
    wide: int = 0


def present(facts: model.HostFacts, owners: CpuOwners) -> list[Work]:
    """Return what works on this host now: interrupts of NICs and passed-through devices, threads."""
    node_of = {cpu.id: cpu.node for cpu in facts.cpus}
    every = frozenset(node for node in node_of.values() if node is not None)
    own: dict[str, set[int]] = {}
    for cpu, (claim, *_weaker) in owners.by_cpu.items():
        own.setdefault(claim.name, set()).add(cpu)
    work = list(_interrupts(facts, own))
    for nic in facts.nics:
        home = None if nic.node is None else frozenset([nic.node])
        for _napi, thread in napi.threads(nic):
            cpus = cpulist.find(thread.affinity) or _NO_CPUS
            work.append(Work(Kind.NAPI, nic.name, f"tid:{thread.tid}", cpus, home))
    for guest in facts.guests:
        home = guests.guest_nodes(guest.domain, node_of, every) if guest.domain else None
        for thread in guest.threads:
            kind = Kind.__members__.get(thread.kind.upper())
            cpus = cpulist.find(thread.affinity) or _NO_CPUS
            cpus -= own.get(guest.name, set()) if kind is Kind.VCPU else set()
            if kind and (cpus or kind is not Kind.VCPU):
                work.append(Work(kind, guest.name, f"tid:{thread.tid}", cpus, home))
    for other in facts.programs:
        cpus = cpulist.parse(other.affinity)
        alone = cpus if other.is_bound else _NO_CPUS
        work.append(Work(Kind.PROGRAM, other.program, f"tid:{other.tid}", cpus, None, alone))
    return work


def _interrupts(facts: model.HostFacts, own: Mapping[str, Iterable[int]]) -> Iterator[Work]:
    node_of = {nic.name: nic.node for nic in facts.nics}
    domains = [(guest.name, guest.domain) for guest in facts.guests if guest.domain and guest.domain.request]
    asked = {
        address.lower(): frozenset(own.get(name, ()))
        for name, domain in domains
        for address in domain.hostdevs
        if domain.request and domain.request.irq_placement == "vcpu"
    }
    every = [*nics.left_alone(facts, ())]
    every += [((irq.device or "").lower(), irq) for _label, irq in guests.left_alone(facts, ())]
    for owner, irq in every:
        node = node_of.get(owner, irq.node)
        cpus = cpulist.find(irq.effective or irq.affinity) or _NO_CPUS
        home = None if node is None else frozenset([node])
        yield Work(Kind.IRQ, owner, f"irq:{irq.number}", cpus, home, asked.get(owner, _NO_CPUS))


def planned(work: Iterable[Work], settings: Iterable[model.Setting]) -> list[Work]:
    """Return the work with the CPUs that settings give it."""
    kinds = (model.IrqTarget.kind, model.ThreadTarget.kind)
    values = {setting.target: setting.value for setting in settings if setting.kind in kinds}
    return [
        item._replace(cpus=cpulist.parse(values.get(item.target) or cpulist.format(item.cpus))) for item in work
    ]


def far(item: Work, node_of: Mapping[int, int | None]) -> set[int]:
    """Return the CPUs of work that are of no node of its own."""
    home = {*item.home, None} if item.home else None
    return set() if home is None else {cpu for cpu in item.cpus if node_of.get(cpu) not in home}


def marks(
    work: Iterable[Work],
    beside: Iterable[Work],
    cells: Mapping[int, int],
    owners: CpuOwners,
    node_of: Mapping[int, int | None],
) -> dict[int, list[Mark]]:
    """Return the marks of each cell, in the order of their kinds.

    :param beside: the same work in the other state that is drawn; :param cells: CPU -> number of its cell.
    """
    detailed = len(set(cells.values())) == len(cells)
    kept, reserved = owners.cpus(*_KEPT), owners.cpus(*_RESERVED)
    other = {item.target: item.cpus for item in beside if item.target}
    # Hundreds of threads share few sets of CPUs.
    alike: dict[tuple[Work, frozenset[int]], list[Work]] = {}
    for item in work:
        nic = item.owner if item.kind is Kind.IRQ and detailed else ""
        key = item._replace(owner=nic, target=""), other.get(item.target, item.cpus)
        alike.setdefault(key, []).append(item)
    found: dict[int, dict[tuple[int, str], Mark]] = {}
    for (shared, before), group in alike.items():
        conflict = shared.cpus & (kept if shared.kind is Kind.IRQ else reserved) - shared.own
        distant = far(shared, node_of)
        inside: dict[int, set[int]] = {}
        for cpu in sorted(shared.cpus & cells.keys()):
            inside.setdefault(cells[cpu], set()).add(cpu)
        targets = [item.target for item in group]
        for cell, cpus in inside.items():
            key_here = _RANKS[shared.kind], shared.owner
            mark = found.setdefault(cell, {}).setdefault(key_here, Mark(shared.kind))
            mark.names.update(item.owner for item in group)
            mark.targets += targets
            mark.conflict |= cpus & conflict
            mark.far |= cpus & distant
            mark.moved += 0 if cpus <= before else len(group)
            mark.wide += len(group) if len(shared.cpus) > 1 else 0
            targets = []
    return {cell: [by_key[key] for key in sorted(by_key)] for cell, by_key in found.items()}
