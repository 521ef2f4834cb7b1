# SPDX-License-Identifier: Apache-2.0
"""What runs on which CPUs, now or by a plan, and where it disturbs an owner: the values behind a
picture.
"""

import collections
import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.owners import CpuOwners, Owner
from nova_perf_tuning.host.plan import background, guests, napi, nics, vectors

_NO_CPUS: Final[frozenset[int]] = frozenset()
#: Whose CPUs the host's work disturbs; interrupts disturb isolated ones, too.
_RESERVED: Final = (Owner.GUEST, Owner.DEDICATED, Owner.PROGRAM)


class WorkKind(enum.Enum):
    """Kinds of work in the order in which they are drawn: letter and words."""

    IRQ = ("i", "interrupt")
    NAPI = ("n", "NAPI thread")
    VHOST = ("v", "vhost worker")
    EMULATOR = ("e", "emulator thread")
    IOTHREAD = ("d", "I/O thread")
    VCPU = ("c", "floating vCPU")
    PROGRAM = ("p", "program thread")
    RPS = ("r", "queue with RPS")
    KERNEL_THREAD = ("k", "kernel thread")
    UNBOUND = ("w", "unbound work of the kernel, interrupts or devices that come later")


#: Kinds of settings whose value is a list of CPUs, or a mask.
_LISTS: Final = (
    host_model.IrqTarget.kind,
    host_model.ThreadTarget.kind,
    host_model.KernelThreadTarget.kind,
)
_MASKS: Final = ("rps", "host_cpus")

_RANKS: Final = {kind: rank for rank, kind in enumerate(WorkKind)}


class Work(NamedTuple):
    """Something that runs on CPUs.

    :ivar owner: NIC, PCI address, guest or program that it serves; :ivar target: as in a setting.
    :ivar cpus: where it may run; :ivar own: of these, where it disturbs no owner.
    :ivar home: nodes that it belongs to, None when it may lie anywhere.
    """

    kind: WorkKind
    owner: str
    target: str
    cpus: frozenset[int]
    home: frozenset[int] | None = None
    own: frozenset[int] = _NO_CPUS

    def far(self, node_of: Mapping[int, int | None]) -> set[int]:
        """Return its CPUs that are of no node of its own."""
        if not self.home:
            return set()
        far: set[int] = set()
        for cpu in self.cpus:
            node = node_of.get(cpu)
            if node is not None and node not in self.home:
                far.add(cpu)
        return far


@dataclasses.dataclass(slots=True)
class Mark:
    """All work of one kind in one cell of the picture; interrupts of a CPU are counted for each
    NIC.

    :ivar names: whom it serves, with how many; :ivar targets: named once, on the first CPU of
        each.
    :ivar conflict, far: CPUs on which it disturbs their owner, or which are not of its node.
    :ivar moved, wide: how many are not here in the state beside this one, or may run on other CPUs
        too.
    """

    kind: WorkKind
    names: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    targets: list[str] = dataclasses.field(default_factory=list)
    conflict: set[int] = dataclasses.field(default_factory=set)
    far: set[int] = dataclasses.field(default_factory=set)
    moved: int = 0
    wide: int = 0


def present(facts: host_model.HostFacts, owners: CpuOwners) -> Iterator[Work]:
    """Yield what works on this host now: interrupts of NICs and passed-through devices, threads."""
    own: dict[str, frozenset[int]] = {}  # owner -> its CPUs
    for cpu, claims in owners.by_cpu.items():
        owner = claims[0].name
        own[owner] = own.get(owner, _NO_CPUS) | {cpu}
    yield from _guest_threads(facts, own)
    for other in facts.programs:
        cpus, claimed = cpulist.parse(other.affinity), own.get(other.program, _NO_CPUS)
        target = other.said or f"tid:{other.tid}"
        yield Work(WorkKind.PROGRAM, other.program, target, cpus, None, claimed)
    for nic in facts.nics:
        for _napi, thread in napi.threads(nic):
            cpus = cpulist.find(thread.affinity) or _NO_CPUS
            yield Work(WorkKind.NAPI, nic.name, f"tid:{thread.tid}", cpus, _home(nic.node))
    yield from _interrupts(facts, own)
    yield from _kernels_own(facts, owners.cpus(*_RESERVED))


def _kernels_own(facts: host_model.HostFacts, reserved: frozenset[int]) -> Iterator[Work]:
    """Yield the kernel's own work that may run on ``reserved`` CPUs; the rest would hide all else."""
    for nic in facts.nics:
        for queue, mask in enumerate(nic.rps):
            cpus = _mask(mask)
            if cpus & reserved:
                yield Work(WorkKind.RPS, nic.name, f"{nic.name}/rx-{queue}", cpus)
    for target, mask, name in (
        (host_model.NEW_DEVICES, facts.sysctls.get(background.DEFAULT_RPS), "later devices"),
        (host_model.NEW_IRQS, facts.new_irq_mask, "later interrupts"),
        (host_model.WORKQUEUE, facts.workqueue_mask, "unbound work"),
    ):
        cpus = _mask(mask)
        if cpus & reserved:
            yield Work(WorkKind.UNBOUND, name, target, cpus)
    for thread in facts.kernel_threads or ():
        cpus = cpulist.find(thread.affinity) or _NO_CPUS
        if cpus & reserved:
            yield Work(WorkKind.KERNEL_THREAD, thread.name, f"tid:{thread.tid}", cpus)


def _mask(text: str | None) -> frozenset[int]:
    if text is None or not cpulist.is_mask(text):
        return _NO_CPUS
    return cpulist.parse_mask(text)


def _guest_threads(
    facts: host_model.HostFacts, own: Mapping[str, frozenset[int]]
) -> Iterator[Work]:
    """Yield the threads of guests; a vCPU works on no CPU that its guest owns."""
    node_of = {cpu.id: cpu.node for cpu in facts.cpus}
    nodes = frozenset(node for node in node_of.values() if node is not None)
    for guest in facts.guests:
        home = None
        if guest.domain:
            home = guests.guest_nodes(guest.domain, node_of, nodes)
        for thread in guest.threads:
            kind = WorkKind.__members__.get(thread.kind.upper())
            cpus = cpulist.find(thread.affinity) or _NO_CPUS
            if kind is WorkKind.VCPU:
                cpus -= own.get(guest.name, _NO_CPUS)
                if not cpus:
                    continue
            if kind is not None:
                yield Work(kind, guest.name, f"tid:{thread.tid}", cpus, home)


def _interrupts(facts: host_model.HostFacts, own: Mapping[str, frozenset[int]]) -> Iterator[Work]:
    """Yield the interrupts of NICs and of passed-through devices.

    Interrupts that a guest wants on its vCPUs do not disturb it there.
    """
    asked: dict[str, frozenset[int]] = {}  # PCI address -> CPUs
    for guest in facts.guests:
        domain = guest.domain
        if domain and domain.request and domain.request.irq_placement == "vcpu":
            for address in domain.hostdevs:
                asked[address.lower()] = own.get(guest.name, _NO_CPUS)
    by_name = {nic.name: nic for nic in facts.nics}
    found: list[tuple[str, host_model.Irq]] = []
    found.extend(nics.left_alone(facts, ()))
    for _label, irq in guests.left_alone(facts, ()):
        found.append(((irq.device or "").lower(), irq))
    for owner, irq in found:
        cpus = cpulist.find(irq.effective or irq.affinity) or _NO_CPUS
        node = irq.node
        if owner in by_name:
            node = vectors.node_of(by_name[owner], irq)
        yield Work(
            WorkKind.IRQ, owner, f"irq:{irq.number}", cpus, _home(node), asked.get(owner, _NO_CPUS)
        )


def _home(node: int | None) -> frozenset[int] | None:
    """Return the nodes that the work of a NIC belongs to; None where its node is unknown."""
    if node is None:
        return None
    return frozenset([node])


def planned(work: Iterable[Work], settings: Iterable[host_model.Setting]) -> list[Work]:
    """Return the work with the CPUs that settings give it."""
    cpus: dict[str, frozenset[int]] = {}
    for setting in settings:
        if setting.kind in _LISTS:
            cpus[setting.target] = cpulist.parse(setting.value)
        elif setting.kind in _MASKS:
            cpus[setting.target] = _mask(setting.value)
    return [item._replace(cpus=cpus.get(item.target, item.cpus)) for item in work]


def marks(
    work: Iterable[Work],
    beside: Iterable[Work],
    cells: Mapping[int, int],
    owners: CpuOwners,
    node_of: Mapping[int, int | None],
) -> dict[int, list[Mark]]:
    """Return the marks of each cell, in the order of their kinds.

    :param beside: the same work in the other state that is drawn.
    :param cells: CPU -> number of its cell.
    """
    detailed = len(set(cells.values())) == len(cells)
    reserved = owners.cpus(*_RESERVED)
    disturbed_by_irq = reserved | owners.cpus(Owner.ISOLATED)
    found: dict[int, dict[tuple[int, str], Mark]] = {}  # cell -> rank and owner -> mark
    for (shared, before), group in _alike(work, beside, detailed).items():
        protected = disturbed_by_irq if shared.kind is WorkKind.IRQ else reserved
        conflict = (shared.cpus & protected) - shared.own
        far = shared.far(node_of)
        inside: dict[int, set[int]] = {}  # cell -> CPUs
        for cpu in sorted(shared.cpus & cells.keys()):
            inside.setdefault(cells[cpu], set()).add(cpu)
        targets = [item.target for item in group]
        for cell, cpus in inside.items():
            key = _RANKS[shared.kind], shared.owner
            mark = found.setdefault(cell, {}).setdefault(key, Mark(shared.kind))
            mark.names.update(item.owner for item in group)
            mark.targets += targets
            targets = []  # they are named once, in the first cell
            mark.conflict |= cpus & conflict
            mark.far |= cpus & far
            if not cpus <= before:
                mark.moved += len(group)
            if len(shared.cpus) > 1:
                mark.wide += len(group)
    ordered: dict[int, list[Mark]] = {}
    for cell, by_key in found.items():
        ordered[cell] = [by_key[key] for key in sorted(by_key)]
    return ordered


def _alike(
    work: Iterable[Work], beside: Iterable[Work], detailed: bool
) -> dict[tuple[Work, frozenset[int]], list[Work]]:
    """Return the work that is drawn alike, by what it has in common and its CPUs in the other
    state.

    Hundreds of threads share few sets of CPUs.
    """
    other = {item.target: item.cpus for item in beside}
    alike: dict[tuple[Work, frozenset[int]], list[Work]] = {}
    for item in work:
        owner = ""
        if item.kind is WorkKind.IRQ and detailed:
            owner = item.owner
        common = item._replace(owner=owner, target="")
        alike.setdefault((common, other[item.target]), []).append(item)
    return alike
