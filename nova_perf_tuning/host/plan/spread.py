# SPDX-License-Identifier: Apache-2.0
"""Spreads groups of equal things over CPUs, evenly, and moves nothing that need not move.

A group is what belongs together: the queues of one NIC, the vhost workers of one guest. It has a
pool, the CPUs it may use. What :func:`balance` guarantees, for every group ``g`` with items of
weight ``w``:

* *even*: the numbers of its items on any two CPUs of its pool differ by at most one;
* *balanced*: where ``g`` has more items on CPU ``a`` than on CPU ``b``, both of its pool, then
  ``load(a) - load(b) <= W``, with W the heaviest item that may lie on ``a``. So in a pool that is
  not cut by others (a node's), the most and the least loaded CPU differ by at most its heaviest
  item, and no CPU carries more than the pool's mean plus that item;
* *in order of preference*: where ``g`` has more items on ``a`` than on ``b`` and ``a`` is of a
  worse class (SMT sibling, CPU 0), then ``load(a) - w < load(b)``: nothing lies on ``a`` that
  ``b`` could take without carrying more than ``a`` does;
* *near its guest*: nearness (``near``) is the first part of a CPU's class, so nothing lies in a
  farther L3 group that a nearer one could take without carrying more than the farther does;
* *over L3 groups* (``apart``): where ``g`` has at least two items more in one L3 group than in
  another, and ``a`` and ``b`` are their CPUs of one class, and ``g`` has more items on ``a`` than
  on ``b``, then ``load(a) - w < load(b)``;
* *at rest*: given its own result as the current placement, it returns that.

CPUs whose vectors are full take nothing more. What lies there stays, up to an even share of its
group over its own pool; what is above that share goes to the others as above. Where every CPU of
the pool is full, it is nowhere.

* *within room*: no CPU gets more interrupts than it has room for. Where a pool might not have room
  for all of its groups, their numbers on each CPU are dealt out one by one instead, in the order
  given and whatever lies where now: to the CPU of the pool that has room and the fewest items of
  the group, else to such a CPU further away, else nowhere. Items stay where these numbers allow.

Every move lowers the sum of squared loads; or keeps it and lowers the load on worse classes; or
keeps both and lowers the sum of a group's squared numbers of items in each L3 group: it ends.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from nova_perf_tuning.host.plan.layout import CpuPool


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Things of equal weight that are spread over one pool.

    :ivar current: the CPU of each item now; None where it is on none or on several.
    :ivar weight: load of one item, in units that all groups of one call share; at least 1.
    :ivar near: distance of each CPU of the pool; empty: all are equally far.
    :ivar apart: L3 group of each CPU of the pool, over which the items are spread; empty: over
        none.
    :ivar vectors: how many interrupts an item has.
    """

    pool: CpuPool
    weight: int
    current: Sequence[int | None]
    near: Mapping[int, int] = dataclasses.field(default_factory=dict)
    apart: Mapping[int, str] = dataclasses.field(default_factory=dict)
    vectors: int = 1


@dataclasses.dataclass(slots=True)
class Room:
    """How many interrupts CPUs can take.

    :ivar left: CPU -> how many more it can take; empty: there is no bound. What is placed is
        taken off.
    :ivar further: CPUs besides those of a pool, nearest first, those of one tuple equally near.
    """

    left: dict[int, int]
    further: Callable[[CpuPool], Sequence[Sequence[int]]]

    def take(self, placed: "Placed") -> None:
        """Take off what is placed."""
        if not self.left:
            return
        for group, cpus in placed.items():
            for cpu in cpus:
                if cpu in self.left and cpu not in group.pool.full:
                    self.left[cpu] -= group.vectors


#: The CPU of each item of each group; None: no CPU can take it.
Placed = Mapping[Group, Sequence[int | None]]

_NOWHERE = -1


def balance(
    groups: Sequence[Group],
    class_of: Mapping[int, int],
    before: Placed | None = None,
    room: Room | None = None,
) -> dict[Group, Sequence[int | None]]:
    """Place all items of all groups; the heaviest groups choose first, then in the order given.

    :param before: what lies there already and does not yield.
    :param room: of CPUs for interrupts; what is placed is taken off. None: there is no bound.
    """
    load: dict[int, int] = {}
    for group in groups:
        load |= dict.fromkeys(group.pool.cpus, 0)
    for group, cpus in (before or {}).items():
        for cpu in cpus:
            if cpu is not None:
                load[cpu] = load.get(cpu, 0) + group.weight
    staying: dict[Group, list[int | None]] = {}
    moving: dict[Group, Group] = {}
    for group in groups:
        moving[group] = group
        if group.pool.full:
            staying[group] = _staying(group)
            moving[group] = _others(group, staying[group])
    ordered = [group for group in moving.values() if group.current and group.pool.cpus]
    crowded: list[Group] = []
    if room is not None:
        crowded = _crowded(ordered, room)
        ordered = [group for group in ordered if group not in crowded]
    ordered.sort(key=lambda group: (-group.weight, not group.near))
    ranks = _ranks(ordered, class_of)
    placed = {group: _keep(group, load, ranks[group]) for group in ordered}
    shares = _shares(ordered)
    for group in ordered:
        _fill(group, placed[group], load, shares.get(group.pool.members, 0))
    _improve(ordered, placed, load, ranks)
    every: dict[Group, Sequence[int | None]] = dict(placed)
    if room is not None:
        room.take(every)
        every |= _deal(crowded, room)
    result: dict[Group, Sequence[int | None]] = {}
    for group in groups:
        result[group] = every.get(moving[group], [])
        if group in staying:
            result[group] = _together(staying[group], every.get(moving[group], []))
    return result


def cpus(groups: Sequence[Group], placed: Placed) -> frozenset[int]:
    """Return the CPUs on which something of these groups lies."""
    found: set[int | None] = set()
    for group in groups:
        found.update(placed[group])
    return frozenset(cpu for cpu in found if cpu is not None)


def _crowded(groups: Sequence[Group], room: Room) -> list[Group]:
    """Return the groups on whose CPUs there may be more interrupts than they have room for.

    Evenly spread, a CPU gets at most the even share of each group, rounded up.
    """
    if not room.left:
        return []
    most: collections.Counter[int] = collections.Counter()
    for group in groups:
        share = math.ceil(len(group.current) / len(group.pool.cpus)) * group.vectors
        for cpu in group.pool.cpus:
            most[cpu] += share
    short = {cpu for cpu, number in most.items() if number > room.left.get(cpu, number)}
    if not short:
        return []
    return [group for group in groups if not short.isdisjoint(group.pool.cpus)]


def _deal(groups: Sequence[Group], room: Room) -> dict[Group, Sequence[int | None]]:
    """Deal the items of groups to CPUs that have room, one by one, and take that off."""
    dealt: collections.Counter[int] = collections.Counter()
    placed: dict[Group, Sequence[int | None]] = {}
    for group in groups:
        tiers = [group.pool.cpus, *room.further(group.pool)]
        own: collections.Counter[int] = collections.Counter()
        slots: list[int | None] = []
        for _item in group.current:
            cpu = _with_room(tiers, group.vectors, room, own, dealt)
            slots.append(cpu)
            if cpu is not None:
                own[cpu] += 1
                dealt[cpu] += group.vectors
                room.left[cpu] = room.left.get(cpu, group.vectors) - group.vectors
        placed[group] = _in_slots(group.current, slots)
    return placed


def _in_slots(current: Sequence[int | None], slots: Sequence[int | None]) -> list[int | None]:
    """Return a slot for each item: one on the CPU where it is, else one that no other item keeps."""
    free = collections.Counter(slots)
    stays: list[bool] = []
    for now in current:
        stays.append(now is not None and free[now] > 0)
        if stays[-1]:
            free[now] -= 1
    rest: list[int | None] = []
    for slot in slots:
        if free[slot] > 0:
            free[slot] -= 1
            rest.append(slot)
    others = iter(rest)
    return [now if stay else next(others) for now, stay in zip(current, stays, strict=True)]


def _with_room(
    tiers: Sequence[Sequence[int]],
    vectors: int,
    room: Room,
    own: Mapping[int, int],
    dealt: Mapping[int, int],
) -> int | None:
    """Return the CPU of the first tier with room that has the fewest items; None: there is none."""
    for tier in tiers:
        able = [cpu for cpu in tier if room.left.get(cpu, 0) >= vectors]
        if able:
            return min(able, key=lambda cpu: (own[cpu], dealt[cpu]))
    return None


def _ranks(groups: Sequence[Group], class_of: Mapping[int, int]) -> dict[Group, Mapping[int, int]]:
    """Return the order of preference of CPUs for each group: nearness, then the class."""
    ranks: dict[Group, Mapping[int, int]] = {}
    known: dict[int, Mapping[int, int]] = {}  # hundreds of guests share few mappings
    classes = 1 + max(class_of.values(), default=0)
    for group in groups:
        if not group.near:
            ranks[group] = class_of
            continue
        if id(group.near) not in known:
            own: dict[int, int] = {}
            for cpu, distance in group.near.items():
                own[cpu] = distance * classes + class_of.get(cpu, 0)
            known[id(group.near)] = own
        ranks[group] = known[id(group.near)]
    return ranks


def _shares(groups: Sequence[Group]) -> dict[frozenset[int], int]:
    """Return the load of each CPU of a pool where all groups with nearness were spread evenly."""
    total: collections.Counter[frozenset[int]] = collections.Counter()
    if not any(group.near for group in groups):
        return total
    for group in groups:
        total[group.pool.members] += group.weight * len(group.current)
    return {members: math.ceil(load / len(members)) for members, load in total.items()}


def _staying(group: Group) -> list[int | None]:
    """Return the full CPU on which each item stays; None: it is not on one, or above its share."""
    share = math.ceil(len(group.current) / group.pool.own)
    count: collections.Counter[int] = collections.Counter()
    staying: list[int | None] = []
    for now in group.current:
        if now is not None and now in group.pool.full and count[now] < share:
            staying.append(now)
            count[now] += 1
        else:
            staying.append(None)
    return staying


def _others(group: Group, staying: Sequence[int | None]) -> Group:
    """Return the items of a group that do not stay, as a group."""
    current: list[int | None] = []
    for now, stays in zip(group.current, staying, strict=True):
        if stays is None:
            current.append(now)
    return dataclasses.replace(group, current=current)


def _together(staying: Sequence[int | None], others: Sequence[int | None]) -> list[int | None]:
    """Return all items of a group in their order; where no CPU is left the others are nowhere."""
    rest = iter(others)
    together: list[int | None] = []
    for stays in staying:
        if stays is None:
            together.append(next(rest, None))
        else:
            together.append(stays)
    return together


def _keep(group: Group, load: dict[int, int], ranks: Mapping[int, int]) -> list[int]:
    """Keep items that lie in the pool, on each CPU up to its share; others are nowhere yet."""
    keep = collections.Counter(
        cpu for cpu in group.current if cpu is not None and cpu in group.pool.members
    )
    floor, extra = divmod(len(group.current), len(group.pool.cpus))
    crowded = [cpu for cpu, number in keep.items() if number > floor]
    crowded.sort(key=lambda cpu: (ranks.get(cpu, 0), cpu))
    for rank, cpu in enumerate(crowded):
        keep[cpu] = floor + (rank < extra)
    placed: list[int] = []
    for now in group.current:
        if now is not None and keep[now] > 0:
            keep[now] -= 1
            load[now] += group.weight
            placed.append(now)
        else:
            placed.append(_NOWHERE)
    return placed


def _fill(group: Group, placed: list[int], load: dict[int, int], share: int) -> None:
    """Place the rest: every CPU gets its floor, then the least loaded ones get one more.

    Where the group has nearness, near CPUs get one more up to their ``share`` of the load.
    """
    missing = placed.count(_NOWHERE)
    if not missing:
        return
    count = collections.Counter(placed)
    cpus = group.pool.cpus
    floor = len(placed) // len(cpus)
    slots: list[int] = []
    for level in range(floor):
        slots += [cpu for cpu in cpus if count.get(cpu, 0) <= level]
    for cpu in slots:
        load[cpu] += group.weight
    able = [cpu for cpu in cpus if count.get(cpu, 0) <= floor]
    able.sort(key=load.__getitem__)
    if group.near:
        able.sort(key=lambda cpu: (max(load[cpu] + group.weight, share), group.near[cpu]))
    for cpu in able[: missing - len(slots)]:
        load[cpu] += group.weight
        slots.append(cpu)
    fresh = iter(slots)
    for index, cpu in enumerate(placed):
        if cpu == _NOWHERE:
            placed[index] = next(fresh)


def _improve(
    groups: Sequence[Group],
    placed: Mapping[Group, list[int]],
    load: dict[int, int],
    ranks: Mapping[Group, Mapping[int, int]],
) -> None:
    """Move items between CPUs until no group can better its placement."""
    weights: dict[tuple[int, ...], int] = {}
    for group in groups:
        weights[group.pool.cpus] = max(weights.get(group.pool.cpus, 0), group.weight)
    heaviest: dict[int, int] = {}
    for cpus, weight in weights.items():
        for cpu in cpus:
            heaviest[cpu] = max(heaviest.get(cpu, 0), weight)
    moved = True
    while moved:
        moved = False
        for group in reversed(groups):  # the lightest and the latest yield first
            while _move_item(group, placed[group], load, heaviest, ranks[group]):
                moved = True
            while group.apart and _move_apart(group, placed[group], load, ranks[group]):
                moved = True


def _move_item(
    group: Group,
    placed: list[int],
    load: dict[int, int],
    heaviest: Mapping[int, int],
    ranks: Mapping[int, int],
) -> bool:
    """Move one item of the group to a better CPU of its pool; False when there is none."""
    cpus, weight = group.pool.cpus, group.weight
    floor, extra = divmod(len(placed), len(cpus))
    if not extra:
        return False
    count = collections.Counter(placed)
    fullest: dict[int, int] = {}  # class -> the most loaded CPU with one item more
    emptiest: dict[int, int] = {}  # class -> the least loaded CPU that could take one
    for cpu in cpus:
        rank = ranks.get(cpu, 0)
        if count.get(cpu, 0) > floor:
            if rank not in fullest or load[cpu] > load[fullest[rank]]:
                fullest[rank] = cpu
        elif rank not in emptiest or load[cpu] < load[emptiest[rank]]:
            emptiest[rank] = cpu
    gains: list[tuple[int, int, int, int]] = []
    for rank_from, source in fullest.items():
        for rank_to, target in emptiest.items():
            gain = load[source] - load[target]
            is_better_class = rank_from > rank_to and gain >= weight
            if is_better_class or gain > heaviest[source]:
                gains.append((gain, rank_from - rank_to, -source, -target))
    if not gains:
        return False
    _gain, _rank, source, target = max(gains)
    _move(group, placed, load, -source, -target)
    return True


def _move_apart(
    group: Group, placed: list[int], load: dict[int, int], ranks: Mapping[int, int]
) -> bool:
    """Move one item to an L3 group that has fewer of them, to a CPU of the same class."""
    floor, extra = divmod(len(placed), len(group.pool.cpus))
    if not extra:
        return False
    count = collections.Counter(placed)
    items = collections.Counter(group.apart.get(cpu) for cpu in placed)
    sources: dict[tuple[int, str | None], int] = {}  # the most loaded CPU with one item more
    targets: dict[tuple[int, str | None], int] = {}  # the least loaded CPU that could take one
    for cpu in group.pool.cpus:
        key = ranks.get(cpu, 0), group.apart.get(cpu)
        if count.get(cpu, 0) > floor:
            if key not in sources or load[cpu] > load[sources[key]]:
                sources[key] = cpu
        elif key not in targets or load[cpu] < load[targets[key]]:
            targets[key] = cpu
    gains: list[tuple[int, int, int]] = []
    for (rank, crowded), source in sources.items():
        for (other_rank, other), target in targets.items():
            fewer = items[crowded] - items[other]
            is_no_heavier = load[source] - load[target] >= group.weight
            if rank == other_rank and fewer > 1 and is_no_heavier:
                gains.append((fewer, -source, -target))
    if not gains:
        return False
    _fewer, source, target = max(gains)
    _move(group, placed, load, -source, -target)
    return True


def _move(group: Group, placed: list[int], load: dict[int, int], source: int, target: int) -> None:
    """Move the last item that a group has on one CPU to another."""
    last = len(placed) - 1 - placed[::-1].index(source)
    placed[last] = target
    load[source] -= group.weight
    load[target] += group.weight
