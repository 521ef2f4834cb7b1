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
from nova_perf_tuning.host.plan import guests, napi, nics, vectors

_NO_CPUS: Final[frozenset[int]] = frozenset()
#: Whose CPUs the host's work disturbs; interrupts disturb isolated ones, too.
_RESERVED: Final = (Owner.GUEST, Owner.DEDICATED, Owner.PROGRAM)


class Kind(enum.Enum):
    """Kinds of work in the order in which they are drawn: letter and words."""

    IRQ = ("i", "interrupt")
    NAPI = ("n", "NAPI thread")
    VHOST = ("v", "vhost worker")
    EMULATOR = ("e", "emulator thread")
    IOTHREAD = ("d", "I/O thread")
    VCPU = ("c", "floating vCPU")
    PROGRAM = ("p", "program thread")


_RANKS: Final = {kind: rank for rank, kind in enumerate(Kind)}


class Work(NamedTuple):
    """Something that runs on CPUs.

    :ivar owner: NIC, PCI address, guest or program that it serves; :ivar target: as in a setting.
    :ivar cpus: where it may run; :ivar own: of these, where it disturbs nobody, whoever owns them.
    :ivar home: nodes that it belongs to, None when it may lie anywhere.
    """

    kind: Kind
    owner: str
    target: str
    cpus: frozenset[int]
    home: frozenset[int] | None = None
    own: frozenset[int] = _NO_CPUS

    def far(self, node_of: Mapping[int, int | None]) -> set[int]:
        """Return its CPUs that are of no node of its own."""
        home = {*(self.home or ()), None}
        return {cpu for cpu in self.cpus if self.home and node_of.get(cpu) not in home}


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


def present(facts: model.HostFacts, owners: CpuOwners) -> Iterator[Work]:
    """Yield what works on this host now: interrupts of NICs and passed-through devices, threads."""
    node_of = {cpu.id: cpu.node for cpu in facts.cpus}
    every = frozenset(node for node in node_of.values() if node is not None)
    own: dict[str, frozenset[int]] = {}
    for cpu, (claim, *_weaker) in owners.by_cpu.items():
        own[claim.name] = own.get(claim.name, _NO_CPUS) | {cpu}
    asked: dict[str, frozenset[int]] = {}
    for guest in facts.guests:
        domain = guest.domain
        home = guests.guest_nodes(domain, node_of, every) if domain else None
        for thread in guest.threads:
            cpus = cpulist.find(thread.affinity) or _NO_CPUS
            cpus -= own.get(guest.name, _NO_CPUS) if thread.kind == "vcpu" else _NO_CPUS
            if (kind := Kind.__members__.get(thread.kind.upper())) and (cpus or kind is not Kind.VCPU):
                yield Work(kind, guest.name, f"tid:{thread.tid}", cpus, home)
        if domain and domain.request and domain.request.irq_placement == "vcpu":
            asked |= {address.lower(): own.get(guest.name, _NO_CPUS) for address in domain.hostdevs}
    for other in facts.programs:
        cpus, claimed = cpulist.parse(other.affinity), own.get(other.program, _NO_CPUS)
        yield Work(Kind.PROGRAM, other.program, f"tid:{other.tid}", cpus, None, claimed)
    for nic in facts.nics:
        for _napi, thread in napi.threads(nic):
            cpus = cpulist.find(thread.affinity) or _NO_CPUS
            yield Work(Kind.NAPI, nic.name, f"tid:{thread.tid}", cpus, _home(nic.node))
    devices = [((irq.device or "").lower(), irq) for _label, irq in guests.left_alone(facts, ())]
    by_name = {nic.name: nic for nic in facts.nics}
    for owner, irq in (*nics.left_alone(facts, ()), *devices):
        cpus = cpulist.find(irq.effective or irq.affinity) or _NO_CPUS
        home = _home(vectors.node_of(by_name[owner], irq) if owner in by_name else irq.node)
        yield Work(Kind.IRQ, owner, f"irq:{irq.number}", cpus, home, asked.get(owner, _NO_CPUS))


def _home(node: int | None) -> frozenset[int] | None:
    return None if node is None else frozenset([node])


def planned(work: Iterable[Work], settings: Iterable[model.Setting]) -> list[Work]:
    """Return the work with the CPUs that settings give it."""
    kinds = (model.IrqTarget.kind, model.ThreadTarget.kind)
    cpus = {setting.target: cpulist.parse(setting.value) for setting in settings if setting.kind in kinds}
    return [item._replace(cpus=cpus.get(item.target, item.cpus)) for item in work]


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
    reserved, isolated = owners.cpus(*_RESERVED), owners.cpus(Owner.ISOLATED)
    other = {item.target: item.cpus for item in beside}
    # Hundreds of threads share few sets of CPUs.
    alike: dict[tuple[Work, frozenset[int]], list[Work]] = {}
    for item in work:
        is_irq = item.kind is Kind.IRQ
        key = item._replace(owner=item.owner if is_irq and detailed else "", target=""), other[item.target]
        alike.setdefault(key, []).append(item)
    found: dict[int, dict[tuple[int, str], Mark]] = {}
    for (shared, before), group in alike.items():
        conflict = shared.cpus & (reserved | isolated if shared.kind is Kind.IRQ else reserved) - shared.own
        far, inside = shared.far(node_of), dict[int, set[int]]()
        for cpu in sorted(shared.cpus & cells.keys()):
            inside.setdefault(cells[cpu], set()).add(cpu)
        for index, (cell, cpus) in enumerate(inside.items()):
            mark = found.setdefault(cell, {}).setdefault((_RANKS[shared.kind], shared.owner), Mark(shared.kind))
            mark.names.update(item.owner for item in group)
            mark.targets += [] if index else [item.target for item in group]
            mark.conflict |= cpus & conflict
            mark.far |= cpus & far
            mark.moved += 0 if cpus <= before else len(group)
            mark.wide += len(group) if len(shared.cpus) > 1 else 0
    return {cell: [by_key[key] for key in sorted(by_key)] for cell, by_key in found.items()}
