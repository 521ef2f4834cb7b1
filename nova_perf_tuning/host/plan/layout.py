# SPDX-License-Identifier: Apache-2.0
"""Which CPUs may carry what: the operator's sets, checked against the host and its guests."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.model.owners import CpuOwners, CpuSets, Owner
from nova_perf_tuning.host.plan import caches

#: Distance of two nodes that the kernel says nothing of (Linux' REMOTE_DISTANCE).
_REMOTE_DISTANCE = 20

_SETS = ("dedicated", "shared", "housekeeping")
#: Of the best core's capacity; cores of one kind differ by a few percent.
_AS_STRONG = 0.8


class PlanError(errors.PerfTuningError):
    """The operator's CPU sets contradict each other or the host; names the option and the CPUs."""


@dataclasses.dataclass(frozen=True, slots=True)
class CpuPool:
    """CPUs among which something is spread.

    :ivar cpus: in the order in which they are taken: physical cores, SMT siblings, CPU 0.
    :ivar where: ``node 1``, ``nodes 0-1`` or ``the host``, for reasons.
    :ivar what: ``housekeeping`` or ``shared``, for reasons.
    :ivar warning: why these are not CPUs of the own node; None when they are.
    :ivar full: CPUs of the own pool whose vectors are full: they are not among ``cpus``, and what
        lies there stays up to an even share.
    :ivar own: number of CPUs of the own pool, full ones included.
    :ivar in_l3: they are in L3 groups of the guest's own vCPUs, and others of the node are not.
    """

    cpus: tuple[int, ...]
    members: frozenset[int]
    where: str
    what: str
    warning: Note | None = None
    full: frozenset[int] = frozenset()
    own: int = 0
    in_l3: bool = False

    @property
    def text(self) -> str:
        """The CPUs as a cpulist."""
        return cpulist.format(self.members)

    def is_beyond(self, cpu: int) -> bool:
        """Whether a CPU is none of the pool: an interrupt went there, since the pool has no room."""
        return cpu not in self.members and cpu not in self.full

    @property
    def short_of_vectors(self) -> str:
        """Why an interrupt is on a CPU beyond the pool."""
        return f"the {self.what} CPUs of {self.where} have no vector left"


_Tiers = Sequence[tuple[str, frozenset[int]]]


@dataclasses.dataclass(frozen=True, slots=True)
class CpuLayout:
    """The CPU sets of a host.

    All but ``dedicated``, ``programs``, ``isolated`` and ``tickless`` hold online CPUs only.

    :ivar dedicated: configured or owned by a guest: nothing of the host is placed there.
    :ivar programs: other programs poll there, outside of the operator's sets: nothing of the host
        is placed there either.
    :ivar isolated: the scheduler balances nothing onto them: isolated at boot or by a partition.
    :ivar tickless: ``nohz_full``: without a tick while one thread runs; the scheduler uses them as
        any other.
    :ivar housekeeping: where interrupts go; :ivar shared: where guests' other threads go.
    :ivar transmitting: online CPUs that stay online whatever Nova's power management does.
    :ivar class_of: rank of a CPU in the order of preference; equal ranks are equally good.
    :ivar owners: what all of these follow from.
    :ivar l3_of: L3 group of each CPU on a node that has several, see
        :func:`nova_perf_tuning.host.plan.caches.groups`.
    :ivar full: CPUs whose vectors are full: they take no further interrupt.
    :ivar warnings: where the operator's sets, the guests and the host contradict each other.
    """

    online: frozenset[int]
    dedicated: frozenset[int]
    programs: frozenset[int]
    isolated: frozenset[int]
    tickless: frozenset[int]
    housekeeping: frozenset[int]
    shared: frozenset[int]
    transmitting: frozenset[int]
    node_of: Mapping[int, int | None]
    class_of: Mapping[int, int]
    distances: Mapping[int, Mapping[int, int]]
    owners: CpuOwners
    warnings: Sequence[Note] = ()
    full: frozenset[int] = frozenset()
    l3_of: Mapping[int, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, facts: host_model.HostFacts, sets: CpuSets) -> Self:
        """Return the layout that holds on this host.

        :raises PlanError: dedicated and shared or housekeeping overlap, or name CPUs that the host
            lacks.
        """
        present = frozenset(cpu.id for cpu in facts.cpus)
        online = frozenset(cpu.id for cpu in facts.cpus if cpu.online)
        given: dict[str, frozenset[int]] = {}
        for name in _SETS:
            given[name] = _given(sets.option(name), getattr(sets, name), present)
        if sets.legacy:
            # With vcpu_pin_set it says where emulator threads may go.
            given["shared"] -= given["dedicated"]
        _check_disjoint(given, sets)
        owners = CpuOwners.of(facts, sets)
        dedicated = given["dedicated"] | owners.cpus(Owner.GUEST)
        programs = owners.cpus(Owner.PROGRAM)
        isolated = owners.cpus(Owner.ISOLATED)
        tickless = owners.cpus(Owner.TICKLESS)
        quiet = isolated | tickless
        # CPUs that the operator names are used, with a warning. Derived ones leave out polled
        # CPUs.
        if given["housekeeping"]:
            housekeeping = given["housekeeping"] & online
        else:
            housekeeping = online - quiet - owners.cpus(Owner.SLICE) - owners.polled
            housekeeping -= owners.cpus(Owner.EXCLUDED)
        housekeeping -= dedicated
        usable = (given["shared"] & online) - dedicated
        shared = usable - quiet or usable or housekeeping
        if not (usable or dedicated):  # guests float on CPUs without services as well
            shared |= owners.cpus(Owner.EXCLUDED)
        warnings = list(_contradictions(owners, given, online, sets))
        warnings += _isolated_warnings(given["housekeeping"], usable, isolated, sets)
        if not housekeeping and shared:
            housekeeping = shared
            warnings.append(Note.of(NoteCode.NO_HOUSEKEEPING, cpus=cpulist.format(shared)))
        weak = weak_cpus(facts) & housekeeping
        if weak and housekeeping - weak and not any(given.values()):
            warnings.append(Note.of(NoteCode.UNLIKE_CORES, cpus=cpulist.format(weak)))
        if online and not housekeeping:
            code = NoteCode.EVERY_CPU_TAKEN
            if online <= dedicated:
                code = NoteCode.EVERY_CPU_DEDICATED
            warnings.append(Note(code))
        return cls(
            online=online,
            dedicated=dedicated,
            programs=programs,
            isolated=isolated,
            tickless=tickless,
            housekeeping=housekeeping,
            shared=shared,
            transmitting=online - dedicated if sets.power_managed else online,
            node_of={cpu.id: cpu.node for cpu in facts.cpus},
            class_of=_classes(facts, housekeeping | shared, online, dedicated | programs),
            distances={node.id: node.distances for node in facts.nodes},
            owners=owners,
            warnings=tuple(warnings),
            l3_of=caches.groups(facts),
        )

    @property
    def reserved(self) -> frozenset[int]:
        """CPUs that guests or polling programs own: the host's work disturbs them."""
        return self.dedicated | self.programs

    @property
    def excluded(self) -> frozenset[int]:
        """CPUs that nobody owns and that systemd or TuneD keeps free of services."""
        return self.owners.cpus(Owner.EXCLUDED)

    @property
    def quiet(self) -> frozenset[int]:
        """CPUs that the kernel keeps free of some of its own work: isolated or tickless ones."""
        return self.isolated | self.tickless

    def interrupts(self, node: int | None) -> CpuPool | None:
        """Return where interrupts of a device on ``node`` go; None: the host has no spare CPU."""
        return self._on_node(node, self.housekeeping)

    def vectors(self, node: int | None) -> CpuPool | None:
        """Return :meth:`interrupts` without CPUs whose vectors are full.

        Where all of them are full, return the CPUs of the nearest node that has others.
        """
        home = self.interrupts(node)
        if home is None:
            return None
        if not home.members <= self.full:
            return self.without_full(home)
        free = self.housekeeping - self.full
        if not free:
            return self.without_full(home)
        elsewhere = self._on_node(node, free)
        if elsewhere is None:
            return self.without_full(home)
        warning = Note.of(NoteCode.NODE_WITHOUT_VECTORS, where=home.where, other=elsewhere.where)
        full = home.members & self.full
        return dataclasses.replace(elsewhere, warning=warning, full=full, own=len(home.members))

    def without_full(self, home: CpuPool) -> CpuPool:
        """Return a pool without the CPUs whose vectors are full; perhaps none is left."""
        full = home.members & self.full
        if not full:
            return home
        cpus = tuple(cpu for cpu in home.cpus if cpu not in full)
        return dataclasses.replace(
            home, cpus=cpus, members=frozenset(cpus), full=full, own=len(home.cpus)
        )

    def further(self, pool: CpuPool) -> list[tuple[int, ...]]:
        """Return the other housekeeping CPUs that can take interrupts, node by node, nearest first."""
        homes = {self.node_of[cpu] for cpu in pool.cpus}
        others = self.housekeeping - self.full - pool.members
        by_node = grouped((self.node_of[cpu], cpu) for cpu in others)

        def distance(node: int | None) -> tuple[int, int]:
            if node is None:
                return _REMOTE_DISTANCE, -1
            known = [self._distance(home, node) for home in homes if home is not None]
            return min(known, default=_REMOTE_DISTANCE), node

        tiers: list[tuple[int, ...]] = []
        for node in sorted(by_node, key=distance):
            cpus = frozenset(by_node[node])
            tiers.append(self.pool(cpus, pool.what, pool.where, self.shared).cpus)
        return tiers

    def threads(
        self, nodes: frozenset[int] | None, allowed: str | None, avoid: frozenset[int]
    ) -> CpuPool | None:
        """Return where a guest's own threads go.

        :param nodes: the guest's nodes, None when it has none of its own.
        :param allowed: cpulist of the cgroup that holds the threads (libvirt's emulatorpin): the
            kernel silently cuts a mask to it and refuses one wholly outside (EINVAL); None: no
            limit.
        :param avoid: CPUs that are taken last among equals.
        :return: None when no CPU is left.
        """
        tiers = [("shared", self.shared), ("housekeeping", self.housekeeping)]
        if allowed is not None:
            limit = cpulist.parse(allowed)
            tiers = [(name, cpus & limit) for name, cpus in tiers]
        return self._on_nodes(nodes, tiers, avoid)

    def _on_node(self, node: int | None, housekeeping: frozenset[int]) -> CpuPool | None:
        """Return those of the ``housekeeping`` CPUs that serve a device on ``node``."""
        nodes = None
        if node is not None:
            nodes = frozenset([node])
        # Shared CPUs carry guests too: those for the host alone come first among equals.
        pool = self._on_nodes(nodes, [("housekeeping", housekeeping)], self.shared)
        if pool is None or not self.l3_of:
            return pool
        return dataclasses.replace(pool, cpus=self._in_turn(pool.cpus))

    def _in_turn(self, cpus: Sequence[int]) -> tuple[int, ...]:
        """Return CPUs such that, among equals, the L3 groups take turns."""
        seen: collections.Counter[tuple[int, bool, str | None]] = collections.Counter()
        keys: dict[int, tuple[int, bool, int]] = {}
        for cpu in cpus:
            rank, is_shared = self.class_of.get(cpu, 0), cpu in self.shared
            alike = rank, is_shared, self.l3_of.get(cpu)
            keys[cpu] = rank, is_shared, seen[alike]
            seen[alike] += 1
        return tuple(sorted(cpus, key=keys.__getitem__))

    def _on_nodes(
        self, nodes: frozenset[int] | None, tiers: _Tiers, avoid: frozenset[int]
    ) -> CpuPool | None:
        """Return the first tier's CPUs on ``nodes``, else those of the nearest node."""
        if not any(self.node_of[cpu] is not None for _name, cpus in tiers for cpu in cpus):
            nodes = None
        if nodes is None:
            for name, cpus in tiers:
                if cpus:
                    return self.pool(cpus, name, "the host", avoid)
            return None
        where = cpulist.named(nodes, "node")
        for name, cpus in tiers:
            near = frozenset(cpu for cpu in cpus if self.node_of[cpu] in nodes)
            if near:
                return self.pool(near, name, where, avoid)
        return self._nearest(nodes, tiers, avoid)

    def _nearest(self, nodes: frozenset[int], tiers: _Tiers, avoid: frozenset[int]) -> CpuPool:
        """Return the CPUs of the node that is nearest to any of ``nodes``, with a warning."""
        there: dict[int, tuple[str, frozenset[int]]] = {}
        for name, cpus in reversed(tiers):
            by_node = grouped((self.node_of[cpu], cpu) for cpu in cpus)
            for node, own in by_node.items():
                if node is not None:
                    there[node] = name, frozenset(own)
        far: dict[int, int] = {}
        for node in there:
            far[node] = min(self._distance(home, node) for home in nodes)
        # Of equally near nodes the largest pool, so that CPU-less nodes do not all crowd onto node
        # 0.
        nearest = min(there, key=lambda node: (far[node], -len(there[node][1]), node))
        warning = Note.of(
            NoteCode.NODE_WITHOUT_HOUSEKEEPING, nodes=cpulist.format(nodes), node=nearest
        )
        if any(self._knows_distance(home, nearest) for home in nodes):
            warning = warning.about(distance=far[nearest])
        name, cpus = there[nearest]
        return self.pool(cpus, name, f"node {nearest}", avoid, warning)

    def _knows_distance(self, node: int, other: int) -> bool:
        return other in self.distances.get(node, ()) or node in self.distances.get(other, ())

    def _distance(self, node: int, other: int) -> int:
        back = self.distances.get(other, {}).get(node, _REMOTE_DISTANCE)
        return self.distances.get(node, {}).get(other, back)

    def pool(
        self,
        cpus: frozenset[int],
        what: str,
        where: str,
        avoid: frozenset[int] = frozenset(),
        warning: Note | None = None,
    ) -> CpuPool:
        """Return ``cpus`` as a pool, in order of preference."""
        ordered = sorted(cpus, key=lambda cpu: (self.class_of.get(cpu, 0), cpu in avoid, cpu))
        return CpuPool(tuple(ordered), cpus, where, what, warning)


def in_start_order(facts: host_model.HostFacts) -> list[host_model.GuestProcess]:
    """Return running guests by libvirt's running number, then process id: the newest is last."""

    def key(guest: host_model.GuestProcess) -> tuple[bool, int, int]:
        number = guest.domain.domain_id if guest.domain else None
        return (number is None, number or 0, guest.pid)

    return sorted(facts.guests, key=key)


def passed_through(facts: host_model.HostFacts) -> dict[str, str]:
    """Return the PCI addresses of running guests' own devices, and those guests' titles."""
    owners: dict[str, str] = {}
    for guest in in_start_order(facts):
        if guest.domain:
            for address in guest.domain.hostdevs:
                owners[address.lower()] = guest.domain.title or guest.name
    return owners


def _given(name: str, text: str | None, present: frozenset[int]) -> frozenset[int]:
    """Return an operator's set; empty when nothing was given."""
    try:
        cpus = cpulist.parse(text or "")
    except cpulist.CpuListError as error:
        raise PlanError(f"{name}: {error}") from None
    beyond = cpus - present
    if beyond:
        raise PlanError(
            f"{name} names CPUs that this host lacks: {_short(beyond)}; it has {_short(present)}"
        )
    return cpus


def _short(cpus: Iterable[int]) -> str:
    text = cpulist.format(cpus)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _check_disjoint(given: Mapping[str, frozenset[int]], sets: CpuSets) -> None:
    for name in ("shared", "housekeeping"):
        both = given["dedicated"] & given[name]
        if both:
            what = "CPUs" if len(both) > 1 else "CPU"
            options = f"{sets.option('dedicated')} and {sets.option(name)}"
            raise PlanError(
                f"{options} overlap in {what} {_short(both)}; take them out of one of the two"
            )


def _contradictions(
    owners: CpuOwners, given: Mapping[str, frozenset[int]], online: frozenset[int], sets: CpuSets
) -> Iterator[Note]:
    """Yield where sets, guests and programs contradict each other, and offline CPUs in sets."""
    owner: dict[int, str] = {}
    for claim in owners.of_kind(Owner.GUEST):
        for cpu in sorted(claim.cpus & owner.keys()):
            yield Note.of(NoteCode.CPU_OF_TWO_GUESTS, cpu=cpu, guest=claim.name, other=owner[cpu])
        owner.update(dict.fromkeys(claim.cpus, claim.name))
        for name in ("shared", "housekeeping"):
            both = claim.cpus & given[name]
            if both:
                whose = {"guest": claim.name, "cpus": cpulist.format(both)}
                yield Note.of(NoteCode.GUEST_IN_SET, **whose, option=sets.option(name))
        outside = claim.cpus - given["dedicated"]
        if given["dedicated"] and outside:
            whose = {"guest": claim.name, "cpus": cpulist.format(outside)}
            yield Note.of(
                NoteCode.GUEST_OUTSIDE_DEDICATED, **whose, option=sets.option("dedicated")
            )
    for claim in owners.overruled:
        for name in _SETS:
            both = claim.cpus & given[name]
            if both:
                whose = {"program": claim.name, "cpus": cpulist.format(both)}
                yield Note.of(NoteCode.PROGRAM_IN_SET, **whose, option=sets.option(name))
    for name, offline in _offline(given, online, sets).items():
        yield Note.of(
            NoteCode.OFFLINE_IN_SET, option=sets.option(name), cpus=cpulist.format(offline)
        )


def offline_in_sets(facts: host_model.HostFacts, sets: CpuSets) -> dict[str, frozenset[int]]:
    """Return the operator's sets with CPUs that are offline and stay so: field -> these CPUs.

    Nova's power management brings dedicated CPUs online when a guest gets them, those of
    vcpu_pin_set never.
    """
    present = frozenset(cpu.id for cpu in facts.cpus)
    online = frozenset(cpu.id for cpu in facts.cpus if cpu.online)
    given: dict[str, frozenset[int]] = {}
    for name in _SETS:
        given[name] = _given(sets.option(name), getattr(sets, name), present)
    return _offline(given, online, sets)


def _offline(
    given: Mapping[str, frozenset[int]], online: frozenset[int], sets: CpuSets
) -> dict[str, frozenset[int]]:
    """Return :func:`offline_in_sets` of sets that are read already."""
    found: dict[str, frozenset[int]] = {}
    for name, cpus in given.items():
        offline = cpus - online
        brought = name == "dedicated" and sets.power_managed and not sets.legacy
        if offline and not brought:
            found[name] = offline
    return found


def without_memory(facts: host_model.HostFacts) -> frozenset[int]:
    """Return the CPUs of nodes without memory, where Nova puts no NUMA cell of a guest.

    Empty where no node is known to have memory.
    """
    memory = {node.id: node.memory_kib for node in facts.nodes}
    if not any(memory.values()):
        return frozenset()
    bare: set[int] = set()
    for cpu in facts.cpus:
        if cpu.node is not None and memory.get(cpu.node) == 0:
            bare.add(cpu.id)
    return frozenset(bare)


def _isolated_warnings(
    housekeeping: frozenset[int], shared: frozenset[int], isolated: frozenset[int], sets: CpuSets
) -> Iterator[Note]:
    """Yield which CPUs of the operator's sets the scheduler does not balance.

    Threads that share isolated CPUs pile up on the first one.
    """
    if housekeeping & isolated:
        text = cpulist.format(housekeeping & isolated)
        yield Note.of(NoteCode.ISOLATED_HOUSEKEEPING, option="housekeeping", cpus=text)
    if shared & isolated:
        text = cpulist.format(shared & isolated)
        code = NoteCode.ONLY_ISOLATED_SHARED
        if shared - isolated:
            code = NoteCode.ISOLATED_SHARED
        yield Note.of(code, option=sets.option("shared"), cpus=text)


def weak_cpus(facts: host_model.HostFacts) -> frozenset[int]:
    """Return the online CPUs of a hybrid machine that are not of its strongest kind."""
    kinds = {cpu.kind for cpu in facts.cpus if cpu.kind}
    strongest = min(kinds, key=host_model.KINDS.index, default=None)
    capacities = [cpu.capacity for cpu in facts.cpus if cpu.capacity]
    least = _AS_STRONG * max(capacities, default=0)
    weak: set[int] = set()
    for cpu in facts.cpus:
        is_slow = 0 < (cpu.capacity or 0) < least
        if cpu.online and (is_slow or cpu.kind != strongest):
            weak.add(cpu.id)
    return frozenset(weak)


def _classes(
    facts: host_model.HostFacts,
    usable: frozenset[int],
    online: frozenset[int],
    reserved: frozenset[int],
) -> dict[int, int]:
    """Rank usable CPUs: the first online thread of each core, then its siblings, CPU 0 last.

    Among equals those come last whose core a reserved CPU shares, then weak cores (hybrid
    machines).
    """
    keys: dict[int, tuple[bool, int, bool, int]] = {}
    for cpu in facts.cpus:
        if cpu.id in usable:
            core = cpulist.parse(cpu.siblings) & online
            thread = sum(other < cpu.id for other in core)
            keys[cpu.id] = (
                cpu.id == 0,
                thread,
                not core.isdisjoint(reserved),
                -(cpu.capacity or 0),
            )
    order = sorted(set(keys.values()))
    ranks = {key: rank for rank, key in enumerate(order)}
    return {cpu: ranks[key] for cpu, key in keys.items()}
