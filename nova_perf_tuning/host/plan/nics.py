# SPDX-License-Identifier: Apache-2.0
"""Physical NICs: every queue's interrupt on a CPU of its own on the NIC's node, as far as there are any.

Beside them which CPUs send through which transmit queue (XPS), and which take over receive work (RPS).
"""

import collections
import dataclasses
import functools
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model, notes
from nova_perf_tuning.host.notes import Note, NoteCode
from nova_perf_tuning.host.plan import spread
from nova_perf_tuning.host.plan import vectors as vectors_module
from nova_perf_tuning.host.plan.layout import CpuLayout, CpuPool, passed_through
from nova_perf_tuning.host.plan.refused import Refused
from nova_perf_tuning.printing import counted

#: Weight of a link whose speed the driver does not tell (down, virtio): that of 1 Gbit/s.
UNKNOWN_SPEED_MBPS = 1000

#: NICs that have interrupts of their own and belong to the host.
_KINDS = ("physical", "vf")

#: Node -> its cores that may send, each as the bits of its CPUs.
_Cores = Mapping[int | None, Sequence[int]]
#: Number of a queue, bits of the CPUs that are wanted, the mask that it has, and the reason.
_Queue = tuple[int, int, str | None, str]


@dataclasses.dataclass(frozen=True, slots=True)
class NicPlacement:
    """The interrupts of one NIC on one node, queue by queue; a NIC of several functions may be on several nodes.

    :ivar queues: queue number -> interrupts that serve it (one for each direction with some drivers).
    :ivar other: interrupts that serve no queue, or of which that is not known.
    :ivar data, rest: what is to be placed: an item for each queue and for each other interrupt.
    """

    nic: model.Nic
    node: int | None
    queues: Mapping[int, Sequence[model.Irq]]
    other: Sequence[model.Irq]
    data: spread.Group
    rest: spread.Group


@dataclasses.dataclass(frozen=True, slots=True)
class NicPlan:
    """A NIC whose interrupts, XPS or RPS are planned: its vectors, and a placement for each node that has some.

    :ivar managed: numbers of its interrupts that the kernel places itself.
    """

    nic: model.Nic
    vectors: vectors_module.Vectors
    placements: Sequence[NicPlacement]
    managed: Sequence[int] = ()

    def warnings(self) -> Iterator[Note]:
        """Yield what a person should know of it."""
        for placement in self.placements:
            if placement.data.pool.warning:
                yield placement.data.pool.warning.about(nic=self.nic.name)
        if self.managed:
            yield Note.of(NoteCode.INTERRUPTS_MANAGED, nic=self.nic.name, irqs=cpulist.format(self.managed))
        if self.vectors.surplus:
            yield Note.of(NoteCode.SURPLUS_VECTORS, nic=self.nic.name, vectors=self.vectors.surplus)
        if self.vectors.sending is None and _has_xps(self.nic) and self.nic.operstate != "down":
            yield Note.of(NoteCode.QUEUES_UNPAIRED, nic=self.nic.name, queues=self.nic.tx_queues)


def interrupt_cpus(placements: Iterable[NicPlacement], placed: spread.Placed) -> dict[int, int]:
    """Return the CPU of each interrupt that is placed, by its number; those that no CPU can take are left out."""
    cpus: dict[int, int] = {}
    for placement in placements:
        each = [*placement.queues.values(), *([irq] for irq in placement.other)]
        for irqs, cpu in zip(each, (*placed[placement.data], *placed[placement.rest]), strict=True):
            if cpu is not None:
                cpus |= dict.fromkeys((irq.number for irq in irqs), cpu)
    return cpus


def unplaced(placement: NicPlacement, placed: spread.Placed) -> list[model.Irq]:
    """Return the interrupts of a placement that no CPU can take."""
    cpus = interrupt_cpus([placement], placed)
    every = [*placement.queues.values(), placement.other]
    return [irq for irqs in every for irq in irqs if irq.number not in cpus]


def _has_xps(nic: model.Nic) -> bool:
    return len(nic.xps) > 1 and any(mask is not None for mask in nic.xps)


def single(cpus: str | None) -> int | None:
    """Return the CPU of a list that names one, else None."""
    return int(cpus) if cpus is not None and cpus.isdigit() else None


def nic_plans(facts: model.HostFacts, layout: CpuLayout, refused: Refused) -> list[NicPlan]:
    """Return every NIC of the host for which something is planned.

    One without PCI may have no interrupt of its own (hv_netvsc): RPS needs none.
    """
    plans: list[NicPlan] = []
    passed = passed_through(facts)
    placed: set[int] = set()
    for nic in sorted(facts.nics, key=lambda nic: (nic.pci or "", nic.name)):
        if nic.kind not in _KINDS or (nic.pci or "").lower() in passed:
            continue
        irqs = firing(facts, nic, placed)
        if not irqs and nic.pci is not None:
            continue
        placed.update(irq.number for irq in irqs)
        vectors = vectors_module.classify(nic, irqs)
        managed = [irq.number for irq in irqs if refused.is_managed(irq)] if refused.managed else []
        if placements := _placements(nic, vectors, layout, managed):
            plans.append(NicPlan(nic, vectors, placements, managed))
    return plans


def _placements(
    nic: model.Nic, vectors: vectors_module.Vectors, layout: CpuLayout, managed: Collection[int]
) -> list[NicPlacement]:
    """Return where the vectors of each node go; those of a queue are on one, those that are managed on none."""
    queue_nodes = {queue: vectors_module.node_of(nic, serving[0]) for queue, serving in vectors.queues.items()}
    other_nodes = [vectors_module.node_of(nic, irq) for irq in vectors.other]
    # Where it is not known which vectors carry packets, all may.
    share = max(1, (nic.speed_mbps or UNKNOWN_SPEED_MBPS) // max(1, len(vectors.queues) or len(vectors.other)))
    placements = []
    for node in dict.fromkeys((nic.node, *queue_nodes.values(), *other_nodes)):
        pool = layout.vectors(node)
        if pool is None:
            return []
        queues = {queue: vectors.queues[queue] for queue, home in queue_nodes.items() if home == node}
        other = [irq for irq, home in zip(vectors.other, other_nodes, strict=True) if home == node]
        if managed:
            queues = {queue: _movable(serving, managed) for queue, serving in queues.items()}
            queues = {queue: serving for queue, serving in queues.items() if serving}
            other = _movable(other, managed)
        now = [single(serving[0].affinity) for serving in queues.values()]
        if pool.full:
            now = [_current(serving, pool) for serving in queues.values()]
        data = spread.Group(pool, share, now)
        rest = spread.Group(pool, 1 if vectors.queues else share, [single(irq.affinity) for irq in other])
        placements.append(NicPlacement(nic, node, queues, other, data, rest))
    return placements


def _current(serving: Sequence[model.Irq], pool: CpuPool) -> int | None:
    """Return the CPU of a queue now; on a full CPU it is only when all of its interrupts are: none can follow."""
    cpu = single(serving[0].affinity)
    if cpu in pool.full and any(single(irq.affinity) != cpu for irq in serving):
        return None
    return cpu


def _movable(irqs: Iterable[model.Irq], managed: Collection[int]) -> list[model.Irq]:
    return [irq for irq in irqs if irq.number not in managed]


def firing(facts: model.HostFacts, nic: model.Nic, besides: Collection[int]) -> list[model.Irq]:
    """Return the interrupts of a NIC that can fire, but for those ``besides`` and of others on its function.

    cxgb4 and mlx4 have one function for several ports, and name the interrupts of each after it.
    """
    ports = [port.name for port in facts.nics if port.pci == nic.pci and port is not nic] if nic.pci else []
    theirs = tuple(f"{name}{mark}" for name in ports for mark in ("-", " ("))
    irqs = [facts.irqs[number] for number in nic.irqs if number in facts.irqs and number not in besides]
    irqs = [irq for irq in irqs if not (irq.name or "").startswith(theirs)]
    # A vector without a handler is allocated but not requested: it never fires.
    return [irq for irq in irqs if irq.name] or irqs


def left_alone(facts: model.HostFacts, planned: Collection[int]) -> Iterator[tuple[str, model.Irq]]:
    """Yield NIC and interrupt of all that are not among the numbers ``planned``."""
    passed, placed = passed_through(facts), frozenset(planned)
    for nic in facts.nics:
        if nic.irqs and (nic.pci or "").lower() not in passed and placed.isdisjoint(nic.irqs):
            yield from ((nic.name, irq) for irq in firing(facts, nic, placed))


def settings(placement: NicPlacement, placed: spread.Placed) -> Iterator[model.Setting]:
    """Yield the affinities of a NIC's interrupts, with their reasons."""
    nic, pool, cpus = placement.nic, placement.data.pool, placed[placement.data]
    rule = model.PlanRule.NIC_IRQ_NEAREST if pool.warning else model.PlanRule.NIC_IRQ_LOCAL
    speed = f"{nic.speed_mbps} Mbit/s, " if nic.speed_mbps else ""
    node = "node unknown" if placement.node is None else f"node {placement.node}"
    head = f"{nic.name} ({speed}{node}) has {counted(len(placement.queues), 'queue')} for "
    head += f"{counted(len(pool.cpus), f'{pool.what} CPU')} of {pool.where}: queue "
    if pool.warning:
        head = f"{notes.text(pool.warning.about(nic=nic.name))}; queue "
    tails = {
        cpu: f" on CPU {cpu}" + (f", which serves {number} of them" if number > 1 else ", alone there")
        for cpu, number in collections.Counter(cpus).items()
    }
    for (queue, irqs), cpu in zip(placement.queues.items(), cpus, strict=True):
        if cpu is None:
            continue
        reason = f"{head}{queue}{tails[cpu]}"
        for irq in irqs:
            yield irq_setting(irq, str(cpu), reason, rule)
    for irq, cpu in zip(placement.other, placed[placement.rest], strict=True):
        if cpu is None:
            continue
        reason = f"{nic.name}'s other interrupt {irq.name or irq.number} keeps off guests' CPUs, on {pool.where}"
        yield irq_setting(irq, str(cpu), reason, rule)


def irq_setting(irq: model.Irq, value: str, reason: str, rule: str) -> model.Setting:
    """Return the affinity of one interrupt."""
    target = model.IrqTarget(irq.number, irq.device or "", irq.name or "")
    return model.Setting.on(target, value, irq.affinity, reason, rule)


def steering(
    plans: Iterable[NicPlan], cpus: Mapping[int, int], facts: model.HostFacts, layout: CpuLayout, rps: bool
) -> list[model.Setting]:
    """Return XPS of every NIC whose transmit queues have known interrupts, and RPS where it is wanted and helps.

    XPS maps every CPU to a transmit queue (Documentation/networking/scaling.rst): each core to the queue whose
    interrupt it takes, all others dealt evenly to the queues of their own node, or to all where the node has none.
    A CPU in no mask would fall back to a hash over all queues.

    :param cpus: the CPU of each interrupt.
    """
    digits = mask_digits(facts)
    cores = _cores(facts, layout)
    core_of = {cpu: core for bits in cores.values() for core in bits for cpu in cpulist.of_bits(core)}
    settings: list[model.Setting] = []
    for plan in plans:
        nic = plan.nic
        if plan.vectors.sending is not None and _has_xps(nic):
            serving = [_serving(plan.vectors.queues[queue][0], cpus) for queue in plan.vectors.sending]
            own = [0 if cpu is None else core_of.get(cpu, 0) for cpu in serving]
            nodes = [nic.node if cpu is None else layout.node_of.get(cpu) for cpu in serving]
            shares = _deal(nodes, cores, functools.reduce(operator.or_, own))
            reason = (
                f"{nic.name}: a core sends through the queue whose interrupt it takes, others share their node's"
            )
            queues = [(index, own[index] | shares[index], nic.xps[index], reason) for index in range(len(nic.xps))]
            settings += _settings("xps", f"{nic.name}/tx-", model.PlanRule.NIC_XPS, queues, digits)
        if rps:
            queues = [queue for placement in plan.placements for queue in _helpers(plan, placement, cpus)]
            settings += _settings("rps", f"{nic.name}/rx-", model.PlanRule.NIC_RPS, queues, digits)
    return settings


def _serving(irq: model.Irq, cpus: Mapping[int, int]) -> int | None:
    """Return the CPU of an interrupt: the planned one, or that on which an interrupt that is left alone fires."""
    planned = cpus.get(irq.number)
    return single(irq.effective or irq.affinity) if planned is None else planned


def mask_digits(facts: model.HostFacts) -> int:
    """Return how many hexadecimal digits this host's masks have.

    The kernel prints as many as nr_cpu_ids needs, which may be more than the CPUs that are there.
    """
    needed = (max((cpu.id for cpu in facts.cpus), default=0) + 4) // 4
    printed = (mask for nic in facts.nics for mask in (*nic.rps, *nic.xps) if mask)
    return max(needed, next((len(mask) - mask.count(",") for mask in printed), 0))


def write_mask(bits: int, digits: int) -> str:
    """Return bits as the kernel prints them (``%*pb``): groups of eight digits, the first cut to the width."""
    groups = (digits + 7) // 8
    return bits.to_bytes(groups * 4, "big").hex(",", 4)[groups * 8 - digits :]


def _cores(facts: model.HostFacts, layout: CpuLayout) -> _Cores:
    cores: dict[int | None, list[int]] = {}
    done: set[int] = set()
    for cpu in sorted(facts.cpus, key=lambda cpu: cpu.id):
        if cpu.id in layout.transmitting and cpu.id not in done:
            siblings = cpulist.parse(cpu.siblings) & layout.transmitting | {cpu.id}
            done |= siblings
            cores.setdefault(cpu.node, []).append(sum(1 << sibling for sibling in siblings))
    return cores


def _deal(nodes: Sequence[int | None], cores: _Cores, taken: int) -> list[int]:
    """Deal the cores of every node that are not taken to the queues served there, else to all queues.

    :param nodes: the node of the CPU that serves each queue.
    :return: the share of each queue.
    """
    bits = [0] * len(nodes)
    dealt = 0  # goes on from node to node, else the first queues would get the odd cores of all nodes
    for node, every in cores.items():
        queues = [queue for queue, home in enumerate(nodes) if home == node] or range(len(nodes))
        for core in every:
            if not core & taken:
                bits[queues[dealt % len(queues)]] |= core
                dealt += 1
    return bits


def _helpers(plan: NicPlan, placement: NicPlacement, cpus: Mapping[int, int]) -> Iterator[_Queue]:
    """Let the pool's CPUs that take no interrupt of this NIC do part of its receive work.

    Only with fewer receive queues than CPUs: else every CPU has a queue of its own and RPS only adds
    an interrupt from CPU to CPU (Documentation/networking/scaling.rst, "Suggested Configuration").
    """
    nic, pool = plan.nic, placement.data.pool
    queues = [queue for queue in range(len(nic.rps)) if queue in placement.queues]
    if not set(range(len(nic.rps))) <= plan.vectors.queues.keys():
        queues = list(range(len(nic.rps))) if placement is plan.placements[0] else []
    if not 0 < len(queues) < len(pool.cpus):
        return
    taking = {_serving(irq, cpus) for irqs in plan.vectors.queues.values() for irq in irqs}
    idle = [cpu for cpu in pool.cpus if cpu not in taking] or list(pool.cpus)
    for position, index in enumerate(queues):
        helpers = idle[position :: len(queues)]
        reason = (
            f"{nic.name} has {counted(len(queues), 'receive queue')} for {counted(len(pool.cpus), 'CPU')} of "
            f"{pool.where}: the work of queue {index} goes to {cpulist.named(helpers)}"
        )
        yield index, sum(1 << cpu for cpu in helpers), nic.rps[index], reason


def _settings(kind: str, stem: str, rule: str, queues: Iterable[_Queue], digits: int) -> list[model.Setting]:
    """Return a setting for each queue; ``stem`` is ``eth0/tx-``.

    A queue that has no mask, or that no CPU is left for, is passed over; a current mask of the same meaning
    is kept in its own spelling.
    """
    settings: list[model.Setting] = []
    for index, bits, current, reason in queues:
        if current is not None and bits:
            value = current if int(current.replace(",", ""), 16) == bits else write_mask(bits, digits)
            settings.append(model.Setting(kind, f"{stem}{index}", value, current, reason, rule))
    return settings
