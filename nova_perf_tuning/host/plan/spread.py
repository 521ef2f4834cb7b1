"""Spreads groups of equal things over CPUs, evenly, and moves nothing that need not move.

A group is what belongs together: the queues of one NIC, the vhost workers of one guest. It has a room,
the CPUs it may use. What :func:`settle` guarantees, for every group ``g`` with items of weight ``w``:

* *even*: the numbers of its items on any two CPUs of its room differ by at most one;
* *balanced*: where ``g`` has more items on CPU ``a`` than on CPU ``b``, both of its room, then
  ``load(a) - load(b) <= W``, with W the heaviest item that may lie on ``a``. So in a room that is not cut
  by others (a node's), the most and the least loaded CPU differ by at most its heaviest item, and no CPU
  carries more than the room's mean plus that item;
* *in order of preference*: where ``g`` has more items on ``a`` than on ``b`` and ``a`` is of a worse class
  (SMT sibling, CPU 0), then ``load(a) - w < load(b)``: nothing lies on ``a`` that ``b`` could take
  without carrying more than ``a`` does;
* *at rest*: given its own result as the current placement, it returns that.

Every move lowers the sum of squared loads, or keeps it and lowers the load on worse classes: it ends.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Mapping, Sequence

from nova_perf_tuning.host.plan.sets import Room


@dataclasses.dataclass(slots=True, eq=False)
class Group:
    """Things of equal weight that are spread over one room.

    :ivar current: the CPU of each item now; None where it is on none or on several.
    :ivar weight: load of one item, in units that all groups of one call share; at least 1.
    :ivar placed: the CPU of each item, filled in by :func:`settle`.
    """

    room: Room
    weight: int
    current: Sequence[int | None]
    placed: list[int] = dataclasses.field(default_factory=list)


def settle(groups: Sequence[Group], class_of: Mapping[int, int]) -> dict[int, int]:
    """Place all items of all groups and return the load of each CPU.

    Groups that come first (the heaviest, then in the order given) choose first.
    """
    rooms = {id(group.room): group.room for group in groups}
    load: dict[int, int] = {cpu: 0 for room in rooms.values() for cpu in room.cpus}
    ordered = sorted((group for group in groups if group.current), key=lambda group: -group.weight)
    kept = [_keep(group, load, class_of) for group in ordered]
    queues = {key: [(load[cpu], order, cpu) for order, cpu in enumerate(room.cpus)] for key, room in rooms.items()}
    for queue in queues.values():
        heapq.heapify(queue)
    for group, count in zip(ordered, kept, strict=True):
        if count is None or sum(count.values()) < len(group.current):
            _fill(group, count or {}, load, queues[id(group.room)])
    _balance(ordered, load, class_of)
    return load


def _keep(group: Group, load: dict[int, int], class_of: Mapping[int, int]) -> dict[int, int] | None:
    """Keep the items that lie well already: in the room, and no more on a CPU than its share.

    Sets ``group.placed`` (-1: not placed) and returns how many items each CPU keeps; None for none at all.
    """
    members, current = group.room.members, group.current
    count: dict[int, int] = {}
    for cpu in current:
        if cpu is not None and cpu in members:
            count[cpu] = count.get(cpu, 0) + 1
    if not count:
        group.placed = [-1] * len(current)
        return None
    floor, extra = divmod(len(current), len(group.room.cpus))
    crowded = sorted(
        (cpu for cpu, number in count.items() if number > floor), key=lambda cpu: (class_of.get(cpu, 0), cpu)
    )
    for rank, cpu in enumerate(crowded):
        count[cpu] = floor + (rank < extra)
    left = dict(count)
    group.placed = placed = []
    for cpu in current:
        if cpu is not None and left.get(cpu, 0) > 0:
            left[cpu] -= 1
            load[cpu] += group.weight
            placed.append(cpu)
        else:
            placed.append(-1)
    return count


def _fill(group: Group, count: Mapping[int, int], load: dict[int, int], queue: list[tuple[int, int, int]]) -> None:
    """Place what was not kept: first every CPU gets its floor, then the least loaded ones get one more.

    :param queue: heap of (load, order, CPU) of the room. Loads only grow here, so an entry that is out of
        date lies too early; it is put right when it comes up.
    """
    cpus, weight, placed = group.room.cpus, group.weight, group.placed
    floor = len(placed) // len(cpus)
    slots: list[int] = []
    for level in range(floor):
        slots += [cpu for cpu in cpus if count.get(cpu, 0) <= level]
    for cpu in slots:
        load[cpu] += weight
    missing = placed.count(-1)
    aside: list[tuple[int, int, int]] = []
    while len(slots) < missing:
        entry = heapq.heappop(queue)
        here, order, cpu = entry
        if here != load[cpu]:
            heapq.heappush(queue, (load[cpu], order, cpu))
        elif count.get(cpu, 0) > floor:
            aside.append(entry)
        else:
            load[cpu] = here + weight
            aside.append((here + weight, order, cpu))
            slots.append(cpu)
    for entry in aside:
        heapq.heappush(queue, entry)
    if missing == len(placed):
        group.placed = slots
    else:
        fresh = iter(slots)
        group.placed = [next(fresh) if cpu < 0 else cpu for cpu in placed]


def _balance(groups: Sequence[Group], load: dict[int, int], class_of: Mapping[int, int]) -> None:
    """Move items between CPUs until no group can better its placement."""
    heaviest: dict[int, int] = {}
    rooms: dict[int, list[Group]] = {}
    for group in groups:
        rooms.setdefault(id(group.room), []).append(group)
    for members in rooms.values():
        weight = max(group.weight for group in members)
        for cpu in members[0].room.cpus:
            heaviest[cpu] = max(heaviest.get(cpu, 0), weight)
    moved = True
    while moved:
        moved = False
        restless = {key for key, members in rooms.items() if not _at_rest(members, load, heaviest, class_of)}
        for group in reversed(groups) if restless else ():  # the lightest and the latest yield first
            while id(group.room) in restless and _move_one(group, load, heaviest, class_of):
                moved = True


def _at_rest(
    members: Sequence[Group], load: Mapping[int, int], heaviest: Mapping[int, int], class_of: Mapping[int, int]
) -> bool:
    """Whether no group of a room can have anything to move; a quick test of the whole room."""
    cpus = members[0].room.cpus
    loads = [load[cpu] for cpu in cpus]
    low = min(loads)
    if any(load[cpu] - low > heaviest[cpu] for cpu in cpus):
        return False
    lightest = min(group.weight for group in members)
    best_before: int | None = None  # least load among the classes before this one
    rank, least = class_of.get(cpus[0], 0), loads[0]
    for cpu, here in zip(cpus, loads, strict=True):
        if class_of.get(cpu, 0) != rank:
            best_before = least if best_before is None else min(best_before, least)
            rank, least = class_of.get(cpu, 0), here
        elif here < least:
            least = here
        if best_before is not None and here - lightest >= best_before:
            return False
    return True


def _move_one(
    group: Group, load: dict[int, int], heaviest: Mapping[int, int], class_of: Mapping[int, int]
) -> bool:
    """Move one item of the group to a better CPU of its room; False when there is none."""
    cpus, weight = group.room.cpus, group.weight
    floor, extra = divmod(len(group.placed), len(cpus))
    if not extra:
        return False
    count: dict[int, int] = dict.fromkeys(cpus, 0)
    for cpu in group.placed:
        count[cpu] += 1
    fullest: dict[int, int] = {}  # class -> the most loaded CPU that has one item more than the others
    emptiest: dict[int, int] = {}  # class -> the least loaded CPU that could take one
    for cpu in cpus:
        rank = class_of.get(cpu, 0)
        if count[cpu] > floor:
            if rank not in fullest or load[cpu] > load[fullest[rank]]:
                fullest[rank] = cpu
        elif rank not in emptiest or load[cpu] < load[emptiest[rank]]:
            emptiest[rank] = cpu
    gains = [
        (load[source] - load[target], rank_from - rank_to, -source, -target)
        for rank_from, source in fullest.items()
        for rank_to, target in emptiest.items()
        if load[source] - load[target] > heaviest[source]
        or (rank_from > rank_to and load[source] - weight >= load[target])
    ]
    if not gains:
        return False
    _gain, _rank, source, target = max(gains)
    last = len(group.placed) - 1 - group.placed[::-1].index(-source)
    group.placed[last] = -target
    load[-source] -= weight
    load[-target] += weight
    return True
