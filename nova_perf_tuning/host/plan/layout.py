# SPDX-License-Identifier: Apache-2.0
"""Which CPUs may carry what: the operator's sets, checked against the host and its guests."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.guest import domain as domain_module
from nova_perf_tuning.host import model
from nova_perf_tuning.host.notes import Note, NoteCode

#: Distance of two nodes that the kernel says nothing of (Linux' REMOTE_DISTANCE).
_REMOTE_DISTANCE = 20

_NAMES = {
    "dedicated": "[compute] cpu_dedicated_set",
    "shared": "[compute] cpu_shared_set",
    "housekeeping": "housekeeping",
}


class PlanError(errors.PerfTuningError):
    """The operator's CPU sets contradict each other or the host; names the option and the CPUs."""


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSets:
    """The operator's CPU sets, as cpulists; None where nova.conf and the option say nothing.

    :ivar dedicated: ``[compute] cpu_dedicated_set``; None: derived from the guests' pins.
    :ivar shared: ``[compute] cpu_shared_set``.
    :ivar housekeeping: CPUs for interrupts and host work; None: online CPUs that are neither dedicated
        nor isolated nor nohz_full.
    :ivar power_managed: ``[libvirt] cpu_power_management`` with strategy ``cpu_state``: dedicated
        CPUs may go offline.
    """

    dedicated: str | None = None
    shared: str | None = None
    housekeeping: str | None = None
    power_managed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CpuPool:
    """CPUs among which something is spread.

    :ivar cpus: in the order in which they are taken: physical cores, SMT siblings, CPU 0.
    :ivar where: ``node 1``, ``nodes 0-1`` or ``the host``, for reasons.
    :ivar what: ``housekeeping`` or ``shared``, for reasons.
    :ivar warning: why these are not CPUs of the own node; None when they are.
    """

    cpus: tuple[int, ...]
    members: frozenset[int]
    where: str
    what: str
    warning: Note | None = None

    @property
    def text(self) -> str:
        """The CPUs as a cpulist."""
        return cpulist.format(self.members)


_Tiers = Sequence[tuple[str, frozenset[int]]]


@dataclasses.dataclass(frozen=True, slots=True)
class CpuLayout:
    """The CPU sets of a host; all but ``dedicated`` and ``isolated`` hold online CPUs only.

    :ivar dedicated: configured or owned by a guest: nothing of the host is placed there.
    :ivar housekeeping: where interrupts go; :ivar shared: where guests' other threads go.
    :ivar transmitting: online CPUs that stay online whatever Nova's power management does.
    :ivar class_of: rank of a CPU in the order of preference; equal ranks are equally good.
    :ivar warnings: where the operator's sets, the guests and the host contradict each other.
    """

    online: frozenset[int]
    dedicated: frozenset[int]
    isolated: frozenset[int]
    housekeeping: frozenset[int]
    shared: frozenset[int]
    transmitting: frozenset[int]
    node_of: Mapping[int, int | None]
    class_of: Mapping[int, int]
    distances: Mapping[int, Mapping[int, int]]
    warnings: Sequence[Note] = ()

    @classmethod
    def of(cls, facts: model.HostFacts, sets: CpuSets) -> Self:
        """Return the layout that holds on this host.

        :raises PlanError: dedicated and shared or housekeeping overlap, or name CPUs that the host lacks.
        """
        present = frozenset(cpu.id for cpu in facts.cpus)
        online = frozenset(cpu.id for cpu in facts.cpus if cpu.online)
        given = {name: _given(text, getattr(sets, name), present) for name, text in _NAMES.items()}
        _check_disjoint(given)
        owned, warnings = _owned(facts, given, present)
        dedicated = given["dedicated"] | owned
        isolated = cpulist.parse(facts.isolated) | cpulist.parse(facts.nohz_full)
        for name, cpus in given.items():
            offline = cpus - online
            if offline and not (name == "dedicated" and sets.power_managed):
                text = cpulist.format(offline)
                warnings.append(Note.of(NoteCode.OFFLINE_IN_SET, option=_NAMES[name], cpus=text))
        keep = given["housekeeping"]
        if keep & isolated:
            text = cpulist.format(keep & isolated)
            option = _NAMES["housekeeping"]
            warnings.append(Note.of(NoteCode.ISOLATED_HOUSEKEEPING, option=option, cpus=text))
        housekeeping = (keep & online if keep else online - isolated) - dedicated
        usable = (given["shared"] & online) - dedicated
        if usable & isolated:
            # The scheduler balances nothing on isolated CPUs: threads that share them pile up on the first one.
            text = cpulist.format(usable & isolated)
            code = NoteCode.ISOLATED_SHARED if usable - isolated else NoteCode.ONLY_ISOLATED_SHARED
            warnings.append(Note.of(code, option=_NAMES["shared"], cpus=text))
        shared = usable - isolated or usable or housekeeping
        if not housekeeping and shared:
            housekeeping = shared
            warnings.append(Note.of(NoteCode.NO_HOUSEKEEPING, cpus=cpulist.format(shared)))
        if not housekeeping:
            all_dedicated = online <= dedicated
            warnings.append(Note(NoteCode.EVERY_CPU_DEDICATED if all_dedicated else NoteCode.EVERY_CPU_TAKEN))
        return cls(
            online=online,
            dedicated=dedicated,
            isolated=isolated,
            housekeeping=housekeeping,
            shared=shared,
            transmitting=online - dedicated if sets.power_managed else online,
            node_of={cpu.id: cpu.node for cpu in facts.cpus},
            class_of=_classes(facts, housekeeping | shared, online, dedicated),
            distances={node.id: node.distances for node in facts.nodes},
            warnings=tuple(warnings),
        )

    def interrupts(self, node: int | None) -> CpuPool | None:
        """Return where interrupts of a device on ``node`` go; None when the host has no CPU to spare."""
        nodes = None if node is None else frozenset([node])
        # Shared CPUs carry guests too: those for the host alone come first among equals.
        return self._on_nodes(nodes, [("housekeeping", self.housekeeping)], self.shared)

    def threads(self, nodes: frozenset[int] | None, allowed: str | None, avoid: frozenset[int]) -> CpuPool | None:
        """Return where a guest's own threads go.

        :param nodes: the guest's nodes, None when it has none of its own.
        :param allowed: cpulist of the cgroup that holds the threads (libvirt's emulatorpin): the kernel
            silently cuts a mask to it and refuses one wholly outside (EINVAL); None: no limit.
        :param avoid: CPUs that are taken last among equals.
        :return: None when no CPU is left.
        """
        tiers = [("shared", self.shared), ("housekeeping", self.housekeeping)]
        if allowed is not None:
            limit = cpulist.parse(allowed)
            tiers = [(name, cpus & limit) for name, cpus in tiers]
        return self._on_nodes(nodes, tiers, avoid)

    def _on_nodes(self, nodes: frozenset[int] | None, tiers: _Tiers, avoid: frozenset[int]) -> CpuPool | None:
        """Return the first tier's CPUs on ``nodes``, else those of the nearest node."""
        if not any(self.node_of[cpu] is not None for _name, cpus in tiers for cpu in cpus):
            nodes = None
        where = "the host" if nodes is None else _where(nodes)
        for name, cpus in tiers:
            near = cpus if nodes is None else frozenset(cpu for cpu in cpus if self.node_of[cpu] in nodes)
            if near:
                return self.pool(near, name, where, avoid)
        return None if nodes is None else self._nearest(nodes, tiers, avoid)

    def _nearest(self, nodes: frozenset[int], tiers: _Tiers, avoid: frozenset[int]) -> CpuPool:
        there: dict[int, tuple[str, frozenset[int]]] = {}
        for name, cpus in reversed(tiers):
            for node in {self.node_of[cpu] for cpu in cpus}:
                if node is not None:
                    there[node] = name, frozenset(cpu for cpu in cpus if self.node_of[cpu] == node)
        far = {node: min(self._distance(own, node) for own in nodes) for node in there}
        # Of equally near nodes the largest pool, so that CPU-less nodes do not all crowd onto node 0.
        nearest = min(there, key=lambda node: (far[node], -len(there[node][1]), node))
        known = any(
            nearest in self.distances.get(own, ()) or own in self.distances.get(nearest, ()) for own in nodes
        )
        warning = Note.of(NoteCode.NODE_WITHOUT_HOUSEKEEPING, nodes=cpulist.format(nodes), node=nearest)
        if known:
            warning = warning.about(distance=far[nearest])
        name, cpus = there[nearest]
        return self.pool(cpus, name, f"node {nearest}", avoid, warning)

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


def _where(nodes: Iterable[int]) -> str:
    text = cpulist.format(nodes)
    return f"node {text}" if text.isdigit() else f"nodes {text}"


def in_start_order(facts: model.HostFacts) -> list[model.GuestProcess]:
    """Return the running guests by libvirt's running number, then process id: a new guest comes last."""

    def key(guest: model.GuestProcess) -> tuple[bool, int, int]:
        number = guest.domain.domain_id if guest.domain else None
        return (number is None, number or 0, guest.pid)

    return sorted(facts.guests, key=key)


def passed_through(facts: model.HostFacts) -> dict[str, str]:
    """Return the PCI addresses of running guests' own devices, and those guests' titles."""
    return {
        address.lower(): guest.domain.title or guest.name
        for guest in in_start_order(facts)
        if guest.domain
        for address in guest.domain.hostdevs
    }


def owned_cpus(domain: domain_module.Domain) -> frozenset[int]:
    """Return the CPUs that one of its vCPUs has for itself.

    A guest of ``hw:cpu_policy=mixed`` has vCPUs that float over the shared set as well; Nova pins those
    to the whole set, so a list of several CPUs, or one CPU given to several vCPUs, is not owned.
    """
    if not domain.dedicated:
        return frozenset()
    count = collections.Counter(domain.vcpu_pins.values())
    return frozenset(int(text) for text, vcpus in count.items() if vcpus == 1 and text.isdigit())


def _given(name: str, text: str | None, present: frozenset[int]) -> frozenset[int]:
    """Return an operator's set; empty when nothing was given."""
    try:
        cpus = cpulist.parse(text or "")
    except cpulist.CpuListError as error:
        raise PlanError(f"{name}: {error}") from None
    beyond = cpus - present
    if beyond:
        raise PlanError(f"{name} names CPUs that this host lacks: {_short(beyond)}; it has {_short(present)}")
    return cpus


def _short(cpus: Iterable[int]) -> str:
    text = cpulist.format(cpus)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _check_disjoint(given: Mapping[str, frozenset[int]]) -> None:
    for name in ("shared", "housekeeping"):
        both = given["dedicated"] & given[name]
        if both:
            raise PlanError(
                f"{_NAMES['dedicated']} and {_NAMES[name]} overlap in CPUs {_short(both)}; "
                "take them out of one of the two"
            )


def _owned(
    facts: model.HostFacts, given: Mapping[str, frozenset[int]], present: frozenset[int]
) -> tuple[frozenset[int], list[Note]]:
    """Return the CPUs that guests own, and warnings of guests that contradict the sets or each other."""
    owner: dict[int, str] = {}
    warnings: list[Note] = []
    for domain in facts.domains:
        cpus = owned_cpus(domain) & present
        for cpu in sorted(cpus & owner.keys()):
            two = {"guest": domain.name, "other": owner[cpu]}
            warnings.append(Note.of(NoteCode.CPU_OF_TWO_GUESTS, cpu=cpu, **two))
        owner.update(dict.fromkeys(cpus, domain.name))
        for name in ("shared", "housekeeping"):
            if both := cpus & given[name]:
                claim = {"guest": domain.name, "cpus": cpulist.format(both)}
                warnings.append(Note.of(NoteCode.GUEST_IN_SET, **claim, option=_NAMES[name]))
        if given["dedicated"] and cpus - given["dedicated"]:
            claim = {"guest": domain.name, "cpus": cpulist.format(cpus - given["dedicated"])}
            warnings.append(Note.of(NoteCode.GUEST_OUTSIDE_DEDICATED, **claim, option=_NAMES["dedicated"]))
    return frozenset(owner), warnings


def _classes(
    facts: model.HostFacts, usable: frozenset[int], online: frozenset[int], dedicated: frozenset[int]
) -> dict[int, int]:
    """Rank usable CPUs: the first online thread of each core, then its siblings, CPU 0 last.

    Among equals those come last whose core a guest's dedicated CPU shares, then weak cores (hybrid machines).
    """
    keys: dict[int, tuple[bool, int, bool, int]] = {}
    for cpu in facts.cpus:
        if cpu.id in usable:
            core = cpulist.parse(cpu.siblings) & online
            thread = sum(other < cpu.id for other in core)
            keys[cpu.id] = (cpu.id == 0, thread, not core.isdisjoint(dedicated), -(cpu.capacity or 0))
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
    return {cpu: ranks[key] for cpu, key in keys.items()}
