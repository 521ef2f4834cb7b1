# SPDX-License-Identifier: Apache-2.0
"""Physical NICs: the interrupt of every queue goes to a CPU of its own on the NIC's node.

Which CPUs send through which queue follows from that, see
:mod:`nova_perf_tuning.host.plan.steering`.
"""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import host_model, messages
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.plan import caches, spread
from nova_perf_tuning.host.plan.layout import CpuLayout, CpuPool, passed_through
from nova_perf_tuning.host.plan.refused import Refused
from nova_perf_tuning.host.plan.vectors import (
    Vectors,
    classify,
    may_serve_queues,
    node_of,
    serves_xdp,
)
from nova_perf_tuning.printing import counted

#: Weight of a link whose speed the driver does not tell (down, virtio): that of 1 Gbit/s.
UNKNOWN_SPEED_MBPS = 1000

#: NICs that have interrupts of their own and belong to the host.
_KINDS = ("physical", "vf")


@dataclasses.dataclass(frozen=True, slots=True)
class NicPlacement:
    """The interrupts of one NIC on one node, queue by queue.

    A NIC with several PCI functions may be on several nodes.

    :ivar queues: queue number -> interrupts that serve it (one for each direction with some
        drivers).
    :ivar other: interrupts that serve no queue, or of which that is not known.
    :ivar data, rest: what is to be placed: an item for each queue and for each other interrupt.
    :ivar more: queue number -> how many of the next queues its interrupt serves as well, if any.
    :ivar numbered: whether the numbers of ``queues`` are known; else they only count them.
    :ivar every: how many queues the NIC has, where these are fewer; 0: that number is not known;
        None: they are all.
    :ivar shared: whether the interrupts of ``queues`` serve all of ``every``.
    """

    nic: host_model.Nic
    node: int | None
    queues: Mapping[int, Sequence[host_model.Irq]]
    other: Sequence[host_model.Irq]
    data: spread.Group
    rest: spread.Group
    more: Mapping[int, int] = dataclasses.field(default_factory=dict)
    numbered: bool = True
    every: int | None = None
    shared: bool = False

    def called(self, queue: int) -> str:
        """Return what the queues of one interrupt are called, by the number of the first."""
        if not self.numbered:
            return "one of them"
        last = queue + self.more.get(queue, 0)
        if last == queue:
            return f"queue {queue}"
        return f"queues {queue}-{last}"


@dataclasses.dataclass(frozen=True, slots=True)
class NicPlan:
    """A NIC whose interrupts, XPS or RPS are planned, with a placement for each of its nodes.

    :ivar managed: numbers of its interrupts that the kernel places itself.
    :ivar left: numbers of those that the operator wants left alone.
    """

    nic: host_model.Nic
    vectors: Vectors
    placements: Sequence[NicPlacement]
    managed: Sequence[int] = ()
    left: Sequence[int] = ()

    def warnings(self) -> Iterator[Note]:
        """Yield what a person should know of it."""
        for placement in self.placements:
            if placement.data.pool.warning:
                yield placement.data.pool.warning.about(nic=self.nic.name)
        if self.managed:
            yield Note.of(
                NoteCode.INTERRUPTS_MANAGED, nic=self.nic.name, irqs=cpulist.format(self.managed)
            )
        if self.left:
            yield Note.of(
                NoteCode.INTERRUPTS_LEFT, nic=self.nic.name, irqs=cpulist.format(self.left)
            )
        if self.vectors.surplus:
            yield Note.of(
                NoteCode.SURPLUS_VECTORS, nic=self.nic.name, vectors=self.vectors.surplus
            )
        if self.vectors.sending is None and has_xps(self.nic) and self.nic.operstate != "down":
            yield Note.of(NoteCode.QUEUES_UNPAIRED, nic=self.nic.name, queues=self.nic.tx_queues)


def interrupt_cpus(placements: Iterable[NicPlacement], placed: spread.Placed) -> dict[int, int]:
    """Return the CPU of each interrupt that is placed, by its number.

    Interrupts that no CPU can take are left out.
    """
    cpus: dict[int, int] = {}
    for placement in placements:
        for irq, cpu in with_cpus(placement, placed):
            if cpu is not None:
                cpus[irq.number] = cpu
    return cpus


def with_cpus(
    placement: NicPlacement, placed: spread.Placed
) -> Iterator[tuple[host_model.Irq, int | None]]:
    """Yield the interrupts of a placement with their CPUs; None: no CPU can take it."""
    for irqs, cpu in zip(placement.queues.values(), placed[placement.data], strict=True):
        for irq in irqs:
            yield irq, cpu
    yield from zip(placement.other, placed[placement.rest], strict=True)


def unplaced(placement: NicPlacement, placed: spread.Placed) -> list[host_model.Irq]:
    """Return the interrupts of a placement that no CPU can take."""
    return [irq for irq, cpu in with_cpus(placement, placed) if cpu is None]


def has_xps(nic: host_model.Nic) -> bool:
    """Whether the kernel has masks for the NIC's transmit queues; with one queue it has none."""
    return len(nic.xps) > 1 and any(mask is not None for mask in nic.xps)


def single(cpus: str | None) -> int | None:
    """Return the CPU of a list that names one, else None."""
    return int(cpus) if cpus is not None and cpus.isdecimal() else None


def nic_plans(facts: host_model.HostFacts, layout: CpuLayout, refused: Refused) -> list[NicPlan]:
    """Return every NIC of the host for which something is planned.

    One without PCI may have no interrupt of its own (hv_netvsc): RPS needs none.
    """
    plans: list[NicPlan] = []
    passed = passed_through(facts)
    taken: set[int] = set()
    for nic in sorted(facts.nics, key=lambda nic: (nic.pci or "", nic.name)):
        if nic.kind not in _KINDS or (nic.pci or "").lower() in passed:
            continue
        irqs = firing(facts, nic, taken)
        if not irqs and nic.pci is not None:
            continue
        taken.update(irq.number for irq in irqs)
        managed: list[int] = []
        if refused.managed:
            managed = [irq.number for irq in irqs if refused.is_managed(irq)]
        left: list[int] = []
        if refused.left:
            left = [irq.number for irq in irqs if refused.is_left(irq, nic.name)]
        vectors = classify(nic, irqs)
        placements = _placements(nic, vectors, layout, [*managed, *left])
        if placements:
            plans.append(NicPlan(nic, vectors, placements, managed, left))
    return plans


@dataclasses.dataclass(slots=True)
class _OnNode:
    """The interrupts of a NIC that belong to one node and that the kernel lets us move."""

    queues: dict[int, Sequence[host_model.Irq]] = dataclasses.field(default_factory=dict)
    other: list[host_model.Irq] = dataclasses.field(default_factory=list)


def _placements(
    nic: host_model.Nic,
    vectors: Vectors,
    layout: CpuLayout,
    managed: Collection[int],
) -> list[NicPlacement]:
    """Return where the interrupts of each node go, the NIC's own node first.

    All interrupts of a queue go where its first one belongs. Those that are ``managed`` go
    nowhere.
    """
    by_node = {nic.node: _OnNode()}
    for queue, serving in vectors.queues.items():
        here = by_node.setdefault(node_of(nic, serving[0]), _OnNode())
        movable = [irq for irq in serving if irq.number not in managed]
        if movable:
            here.queues[queue] = movable
    for irq in vectors.other:
        here = by_node.setdefault(node_of(nic, irq), _OnNode())
        if irq.number not in managed:
            here.other.append(irq)

    # Where it is not known which interrupts carry packets, all may.
    carrying = len(vectors.queues) or len(vectors.other)
    speed = nic.speed_mbps or UNKNOWN_SPEED_MBPS
    share = max(1, speed // max(1, carrying))
    if nic.quiet:
        share = 1
    other_share = 1 if vectors.queues else share
    placements = []
    for node, here in by_node.items():
        pool = layout.vectors(node)
        if pool is None:
            return []
        queues_now = [_current(serving, pool) for serving in here.queues.values()]
        other_now = [single(irq.affinity) for irq in here.other]
        apart = caches.apart(pool.cpus, layout.l3_of)
        most = max((len(serving) for serving in here.queues.values()), default=1)
        data = spread.Group(pool, share, queues_now, apart=apart, vectors=most)
        rest = spread.Group(pool, other_share, other_now)
        placement = NicPlacement(nic, node, here.queues, here.other, data, rest, vectors.more)
        placement = dataclasses.replace(
            placement,
            numbered=vectors.numbered,
            every=_every(nic, vectors),
            shared=vectors.sending is not None,
        )
        placements.append(placement)
    return placements


def _every(nic: host_model.Nic, vectors: Vectors) -> int | None:
    """Return how many queues a NIC has, as :attr:`NicPlacement.every` has it."""
    if not nic.rx_queues and not nic.tx_queues:
        return 0
    seen = sum(1 + vectors.more.get(queue, 0) for queue in vectors.queues)
    if nic.rx_queues > seen:
        return nic.rx_queues
    return None


def _current(serving: Sequence[host_model.Irq], pool: CpuPool) -> int | None:
    """Return the CPU of a queue now: that of its first interrupt.

    On a full CPU a queue counts only when all of its interrupts are there: none can follow.
    """
    cpu = single(serving[0].affinity)
    if cpu in pool.full and any(single(irq.affinity) != cpu for irq in serving):
        return None
    return cpu


def firing(
    facts: host_model.HostFacts, nic: host_model.Nic, besides: Collection[int]
) -> list[host_model.Irq]:
    """Return the interrupts of a NIC that can fire, without those in ``besides``.

    cxgb4 and mlx4 have one function for several ports, and name the interrupts of each after it:
    those of other ports are left out, too.
    """
    theirs: tuple[str, ...] = ()
    if nic.pci:
        for port in facts.nics:
            if port.pci == nic.pci and port is not nic:
                theirs += (f"{port.name}-", f"{port.name} (")
    irqs: list[host_model.Irq] = []
    for number in nic.irqs:
        irq = facts.irqs.get(number)
        if irq is None or number in besides or (irq.name or "").startswith(theirs):
            continue
        irqs.append(irq)
    # A vector without a handler is allocated but not requested: it never fires.
    with_handler = [irq for irq in irqs if irq.name]
    return with_handler or irqs


def left_alone(
    facts: host_model.HostFacts, planned: Collection[int]
) -> Iterator[tuple[str, host_model.Irq]]:
    """Yield NIC and interrupt of all that are not among the numbers ``planned``."""
    passed, placed = passed_through(facts), frozenset(planned)
    for nic in facts.nics:
        if not nic.irqs or (nic.pci or "").lower() in passed or not placed.isdisjoint(nic.irqs):
            continue
        for irq in firing(facts, nic, placed):
            yield nic.name, irq


def settings(
    placement: NicPlacement, placed: spread.Placed, queues_on: Mapping[int | None, int]
) -> Iterator[host_model.Setting]:
    """Yield the affinities of a NIC's interrupts, with their reasons.

    :param queues_on: CPU -> how many queues of all NICs it serves.
    """
    nic, pool, cpus = placement.nic, placement.data.pool, placed[placement.data]
    rule = host_model.PlanRule.NIC_IRQ_LOCAL
    if pool.warning:
        rule = host_model.PlanRule.NIC_IRQ_NEAREST
    rest_rule = rule
    if placement.data.apart and not pool.warning:
        rule = host_model.PlanRule.NIC_IRQ_LOCAL_L3
    why = _why(placement)
    tails = _tails(cpus, queues_on)
    for (queue, irqs), cpu in zip(placement.queues.items(), cpus, strict=True):
        if cpu is None:
            continue
        reason, its_rule = f"{why} {placement.called(queue)}{tails[cpu]}", rule
        if pool.is_beyond(cpu):
            reason = f"{nic.name}: {pool.short_of_vectors}: {placement.called(queue)} on CPU {cpu}"
            its_rule = host_model.PlanRule.NIC_IRQ_NEAREST
        for irq in irqs:
            yield irq_setting(irq, str(cpu), reason, its_rule)
    for irq, cpu in zip(placement.other, placed[placement.rest], strict=True):
        if cpu is None:
            continue
        what = f"{_kind(placement, irq)} of {nic.name} ({irq.name or irq.number})"
        reason, its_rule = f"{what}: kept off guest CPUs, on {pool.where}", rest_rule
        if pool.is_beyond(cpu):
            reason = f"{what}: {pool.short_of_vectors}: on CPU {cpu}"
            its_rule = host_model.PlanRule.NIC_IRQ_NEAREST
        yield irq_setting(irq, str(cpu), reason, its_rule)


def _tails(
    cpus: Sequence[int | None], queues_on: Mapping[int | None, int]
) -> dict[int | None, str]:
    """Return what a reason says of each CPU that serves queues of a NIC."""
    tails: dict[int | None, str] = {}
    for cpu, number in collections.Counter(cpus).items():
        others = queues_on[cpu] - number
        if number > 1:
            tails[cpu] = f" on CPU {cpu}, which serves {number} of them"
        elif others:
            tails[cpu] = f" on CPU {cpu}, beside {counted(others, 'queue')} of other NICs"
        else:
            tails[cpu] = f" on CPU {cpu}, alone there"
    return tails


def _kind(placement: NicPlacement, irq: host_model.Irq) -> str:
    """Return what an interrupt is called that is known to serve no queue, or of which that is not known."""
    if serves_xdp(irq):
        return "XDP interrupt"
    if not placement.queues and may_serve_queues(irq):
        return "interrupt"
    return "other interrupt"


def _why(placement: NicPlacement) -> str:
    """Return what the reasons of all queues of a placement begin with."""
    nic, pool = placement.nic, placement.data.pool
    if pool.warning:
        return f"{messages.of(pool.warning.about(nic=nic.name))};"
    about = "node unknown" if placement.node is None else f"node {placement.node}"
    if nic.speed_mbps:
        about = f"{nic.speed_mbps} Mbit/s, {about}"
    number = sum(1 + placement.more.get(queue, 0) for queue in placement.queues)
    queues = counted(number, "queue")
    if placement.every == 0:
        queues = f"at least {queues}"
    elif placement.every and placement.shared:
        queues = f"{placement.every} queues on {counted(number, 'interrupt')}"
    elif placement.every:
        queues = f"{placement.every} queues, {number} of them seen,"
    cpus = counted(len(pool.cpus), f"{pool.what} CPU")
    where = pool.where
    if placement.data.apart:
        where = caches.counted_on(where, len(set(placement.data.apart.values())))
    return f"{nic.name} ({about}) has {queues} for {cpus} of {where}:"


def irq_setting(irq: host_model.Irq, value: str, reason: str, rule: str) -> host_model.Setting:
    """Return the affinity of one interrupt."""
    target = host_model.IrqTarget(irq.number, irq.device or "", irq.name or "")
    return host_model.Setting.on(target, value, irq.affinity, reason, rule)
