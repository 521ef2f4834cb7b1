# SPDX-License-Identifier: Apache-2.0
"""L3 groups: the CPUs of a node that share a last-level cache, where the node has several.

A cache line that a vhost worker writes and a vCPU of another L3 group reads goes over the fabric
between the groups; on AMD EPYC a node has 2 to 16 of them. On a node with one group, and where the
kernel shows no L3 caches (many guests, some ARM hosts), nothing here has an effect.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest.domain import Domain
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.printing import counted

#: L3 groups in the order of their distance to a guest; those of one step are equally near.
Steps = tuple[frozenset[str], ...]
#: What a reason says of an I/O thread that its pin keeps out of its guest's L3 groups.
WHY_PINNED: Final = ", since their pin has no CPU in the L3 group of its vCPUs"


def groups(facts: host_model.HostFacts) -> dict[int, str]:
    """Return CPU -> its L3 group, which is named by the cpulist of its online CPUs.

    CPUs on nodes with one group are left out, and those on nodes whose cores share no L3 cache, and
    CPUs whose cache is not known.
    """
    of_node: dict[int | None, set[str]] = {}
    sharing: set[int | None] = set()
    for cpu in facts.cpus:
        if cpu.l3 is not None:
            of_node.setdefault(cpu.node, set()).add(cpu.l3)
            if cpu.l3 != cpu.siblings:
                sharing.add(cpu.node)
    found: dict[int, str] = {}
    for cpu in facts.cpus:
        if cpu.l3 is not None and len(of_node[cpu.node]) > 1 and cpu.node in sharing:
            found[cpu.id] = cpu.l3
    return found


def steps(domain: Domain, l3_of: Mapping[int, str]) -> Steps:
    """Return the L3 groups of a guest's vCPUs; those with the most vCPUs come first.

    A vCPU that may run in several groups is in none; the result may be empty.
    """
    vcpus: collections.Counter[str] = collections.Counter()
    for text in domain.vcpu_pins.values():
        its = {l3_of.get(cpu) for cpu in cpulist.parse(text)}
        group = its.pop() if len(its) == 1 else None
        if group is not None:
            vcpus[group] += 1
    by_number: dict[int, set[str]] = {}
    for group, number in vcpus.items():
        by_number.setdefault(number, set()).add(group)
    return tuple(frozenset(by_number[number]) for number in sorted(by_number, reverse=True))


def nearness(l3_of: Mapping[int, str], cpus: Iterable[int], near: Steps) -> dict[int, int]:
    """Return each CPU's distance to a guest: the number of its step, else the number of steps.

    Empty where none of the CPUs is in a group of the guest: then all are equally far.
    """
    distance: dict[str | None, int] = {}
    for number, step in enumerate(near):
        distance |= dict.fromkeys(step, number)
    found = {cpu: distance.get(l3_of.get(cpu), len(near)) for cpu in cpus}
    if min(found.values(), default=len(near)) == len(near):
        return {}
    return found


def roomy(cpus: Sequence[int], distances: Mapping[int, int], number: int) -> tuple[int, ...]:
    """Return those of the CPUs that are nearest and have room for threads of a guest.

    CPUs have room when there is one for each thread. Farther steps are added until there is room;
    a step that is not the guest's is the whole rest.

    :param distances: as :func:`nearness` returns them; empty: all CPUs are equally far.
    :param number: of threads.
    """
    for limit in sorted(set(distances.values())):
        near = tuple(cpu for cpu in cpus if distances[cpu] <= limit)
        if len(near) >= number:
            return near
    return tuple(cpus)


def why_far(near: Steps, distances: Mapping[int, int], what: str, number: int) -> str:
    """Return what a reason says of threads that may use CPUs outside of their guest's L3 groups.

    Empty where they need not.

    :param what: ``shared`` or ``housekeeping``; :param number: of threads.
    """
    if not distances:
        return f", since no {what} CPU is in an L3 group of its vCPUs"
    inside = sum(distance < len(near) for distance in distances.values())
    if inside in (0, len(distances)):
        return ""
    cpus = counted(inside, f"{what} CPU")
    threads = counted(number, "thread")
    return f", since the L3 groups of its vCPUs have {cpus} for {threads}"


def called(where: str) -> str:
    """Return what a reason calls the CPUs of a guest's own L3 groups on ``where``."""
    return f"{where}, in the L3 group of its vCPUs"


def apart(cpus: Iterable[int], l3_of: Mapping[int, str]) -> dict[int, str]:
    """Return the L3 group of each CPU; empty where all are in one, or in none that is known."""
    found = {cpu: l3_of.get(cpu, "") for cpu in cpus}
    if len(set(found.values())) < 2:
        return {}
    return found


def counted_on(where: str, number: int) -> str:
    """Return what a reason calls a pool whose CPUs are in several L3 groups."""
    return f"{where} in {number} L3 groups"
