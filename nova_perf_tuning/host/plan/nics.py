# SPDX-License-Identifier: Apache-2.0
"""Physical NICs: every queue's interrupt on a CPU of its own on the NIC's node, as far as there are any.

Beside them which CPUs send through which transmit queue (XPS), and which take over receive work (RPS).
"""

import collections
import dataclasses
import functools
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model, notes
from nova_perf_tuning.host.plan import spread
from nova_perf_tuning.host.plan.layout import CpuLayout, passed_through
from nova_perf_tuning.printing import counted

#: Weight of a link whose speed the driver does not tell (down, virtio): that of 1 Gbit/s.
UNKNOWN_SPEED_MBPS = 1000

#: NICs that have interrupts of their own and belong to the host.
_KINDS = ("physical", "vf")

# Vectors that carry no packets, by the names drivers give: virtio5-config, eth0-event-8 (vmxnet3),
# mlx5_async0@pci:…, ice-0000:82:00.0:misc, ena-mgmnt@pci:…, bnxt's and hns3's error and mailbox vectors.
_CONTROL = re.compile(
    r"config|event|async|misc|mgmn?t|ctrl|control|admin|mbox|mailbox|pages|cmd|health|ceq|aeq|error"
)

#: Node -> its cores that may send, each as the bits of its CPUs.
_Cores = Mapping[int | None, Sequence[int]]


@dataclasses.dataclass(frozen=True, slots=True)
class NicPlacement:
    """The interrupts of one NIC, queue by queue.

    :ivar queues: queue number -> interrupts that serve it (one for each direction with some drivers).
    :ivar control: interrupts that carry no packets.
    :ivar data, rest: what is to be placed: an item for each queue and for each control interrupt.
    """

    nic: model.Nic
    queues: Mapping[int, Sequence[model.Irq]]
    control: Sequence[model.Irq]
    data: spread.Group
    rest: spread.Group

    @property
    def irqs(self) -> set[int]:
        """Numbers of its interrupts."""
        return {irq.number for irqs in (*self.queues.values(), self.control) for irq in irqs}


def vectors(nic: model.Nic, irqs: Sequence[model.Irq]) -> tuple[dict[int, list[model.Irq]], list[model.Irq]]:
    """Sort a NIC's interrupts into queues and control vectors, by their names.

    A driver with one vector for all names it like the NIC (``eth0``): then that is its only queue.
    """
    queues: dict[int, list[model.Irq]] = {}
    control: list[model.Irq] = []
    carries: dict[str, bool] = {}
    for irq in irqs:
        name = irq.name or ""
        # The queue's number ends the name, or stands before the address: mlx5_comp3@pci:0000:82:00.0.
        base = name.partition("@")[0] if "@" in name else name
        prefix = base.rstrip("0123456789")
        if prefix not in carries:
            carries[prefix] = _CONTROL.search(_without_name(prefix, nic.name)) is None
        if not carries[prefix] or prefix == base or base == nic.name:
            control.append(irq)
        else:
            queues.setdefault(int(base[len(prefix) :]), []).append(irq)
    if not queues:
        return {number: [irq] for number, irq in enumerate(control)}, []
    return dict(sorted(queues.items())), control


def _without_name(prefix: str, name: str) -> str:
    """Return a vector's name without its NIC's, which people choose: ``mgmt0-TxRx-`` carries packets."""
    if not _CONTROL.search(name):
        return prefix
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "", prefix)


def single(cpus: str | None) -> int | None:
    """Return the CPU of a list that names one, else None."""
    return int(cpus) if cpus is not None and cpus.isdigit() else None


def nic_placements(facts: model.HostFacts, layout: CpuLayout) -> list[NicPlacement]:
    """Return every NIC whose interrupts are to be placed."""
    placements: list[NicPlacement] = []
    passed = passed_through(facts)
    placed: set[int] = set()
    for nic in sorted(facts.nics, key=lambda nic: (nic.pci or "", nic.name)):
        if nic.kind not in _KINDS or not nic.irqs or (nic.pci or "").lower() in passed:
            continue
        irqs = _firing(facts, nic, placed)
        pool = layout.interrupts(nic.node)
        if not irqs or pool is None:
            continue
        placed.update(irq.number for irq in irqs)
        queues, control = vectors(nic, irqs)
        weight = max(1, (nic.speed_mbps or UNKNOWN_SPEED_MBPS) // len(queues))
        data = spread.Group(pool, weight, [single(serving[0].affinity) for serving in queues.values()])
        rest = spread.Group(pool, 1, [single(irq.affinity) for irq in control])
        placements.append(NicPlacement(nic, queues, control, data, rest))
    return placements


def _firing(facts: model.HostFacts, nic: model.Nic, besides: Collection[int]) -> list[model.Irq]:
    """Return the interrupts of a NIC that can fire, but for those ``besides``."""
    irqs = [facts.irqs[number] for number in nic.irqs if number in facts.irqs and number not in besides]
    # A vector without a handler is allocated but not requested: it never fires.
    return [irq for irq in irqs if irq.name] or irqs


def left_alone(facts: model.HostFacts, planned: Collection[int]) -> Iterator[tuple[str, model.Irq]]:
    """Yield NIC and interrupt of all that are not among the numbers ``planned``."""
    passed, placed = passed_through(facts), frozenset(planned)
    for nic in facts.nics:
        if nic.irqs and (nic.pci or "").lower() not in passed and placed.isdisjoint(nic.irqs):
            yield from ((nic.name, irq) for irq in _firing(facts, nic, placed))


def settings(placement: NicPlacement, placed: spread.Placed) -> Iterator[model.Setting]:
    """Yield the affinities of a NIC's interrupts, with their reasons."""
    nic, pool, cpus = placement.nic, placement.data.pool, placed[placement.data]
    rule = model.PlanRule.NIC_IRQ_NEAREST if pool.warning else model.PlanRule.NIC_IRQ_LOCAL
    speed = f"{nic.speed_mbps} Mbit/s, " if nic.speed_mbps else ""
    node = "node unknown" if nic.node is None else f"node {nic.node}"
    head = f"{nic.name} ({speed}{node}) has {counted(len(placement.queues), 'queue')} for "
    head += f"{counted(len(pool.cpus), f'{pool.what} CPU')} of {pool.where}: queue "
    if pool.warning:
        head = f"{notes.text(pool.warning.about(nic=nic.name))}; queue "
    tails = {
        cpu: f" on CPU {cpu}" + (f", which serves {number} of them" if number > 1 else ", alone there")
        for cpu, number in collections.Counter(cpus).items()
    }
    for (queue, irqs), cpu in zip(placement.queues.items(), cpus, strict=True):
        reason = f"{head}{queue}{tails[cpu]}"
        for irq in irqs:
            yield irq_setting(irq, str(cpu), reason, rule)
    for irq, cpu in zip(placement.control, placed[placement.rest], strict=True):
        reason = f"{nic.name}'s control interrupt {irq.name or irq.number} keeps off guests' CPUs, on {pool.where}"
        yield irq_setting(irq, str(cpu), reason, rule)


def irq_setting(irq: model.Irq, value: str, reason: str, rule: str) -> model.Setting:
    """Return the affinity of one interrupt."""
    target = model.IrqTarget(irq.number, irq.device or "", irq.name or "")
    return model.Setting.on(target, value, irq.affinity, reason, rule)


def steering(
    placements: Iterable[NicPlacement], placed: spread.Placed, facts: model.HostFacts, layout: CpuLayout, rps: bool
) -> list[model.Setting]:
    """Return XPS of every NIC that was placed, and RPS where it is wanted and helps.

    XPS maps every CPU to a transmit queue (Documentation/networking/scaling.rst): each core to the queue whose
    interrupt it takes, all others dealt evenly to the queues of their own node, or to all where the node has none.
    A CPU in no mask would fall back to a hash over all queues.
    """
    digits = mask_digits(facts)
    cores = _cores(facts, layout)
    core_of = {cpu: core for bits in cores.values() for core in bits for cpu in cpulist.of_bits(core)}
    settings: list[model.Setting] = []
    for placement in placements:
        nic, cpus = placement.nic, placed[placement.data]
        if len(nic.xps) > 1:
            serving = [cpus[index % len(cpus)] for index in range(len(nic.xps))]
            own = [core_of.get(cpu, 0) for cpu in serving]
            nodes = [layout.node_of.get(cpu) for cpu in serving]
            shares = _deal(nodes, cores, functools.reduce(operator.or_, own))
            bits = [core | share for core, share in zip(own, shares, strict=True)]
            head = f"{nic.name} sends through queue "
            reasons = [
                f"{head}{index} what the core of CPU {cpu} sends, which takes its interrupt, and its share of the "
                f"others: {mask.bit_count()} CPUs in all"
                for index, (cpu, mask) in enumerate(zip(serving, bits, strict=True))
            ]
            queues = zip(bits, nic.xps, reasons, strict=True)
            settings += _settings("xps", f"{nic.name}/tx-", model.PlanRule.NIC_XPS, queues, digits)
        if rps:
            settings += _settings(
                "rps", f"{nic.name}/rx-", model.PlanRule.NIC_RPS, _helpers(placement, cpus), digits
            )
    return settings


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


def _helpers(placement: NicPlacement, cpus: Sequence[int]) -> Iterator[tuple[int, str | None, str]]:
    """Let the pool's CPUs that take no interrupt of this NIC do part of its receive work.

    Only with fewer receive queues than CPUs: else every CPU has a queue of its own and RPS only adds
    an interrupt from CPU to CPU (Documentation/networking/scaling.rst, "Suggested Configuration").
    """
    nic, pool = placement.nic, placement.data.pool
    queues = len(nic.rps)
    if queues >= len(pool.cpus):
        return
    idle = [cpu for cpu in pool.cpus if cpu not in cpus] or list(pool.cpus)
    for index, current in enumerate(nic.rps):
        helpers = idle[index::queues]
        reason = (
            f"{nic.name} has {queues} receive queues for {len(pool.cpus)} CPUs of {pool.where}: "
            f"CPUs {cpulist.format(helpers)} share the work of queue {index}"
        )
        yield sum(1 << cpu for cpu in helpers), current, reason


def _settings(
    kind: str, stem: str, rule: str, queues: Iterable[tuple[int, str | None, str]], digits: int
) -> list[model.Setting]:
    """Return a setting for each queue of ``(bits, current mask, reason)``; ``stem`` is ``eth0/tx-``.

    A queue that has no mask, or that no CPU is left for, is passed over; a current mask of the same meaning
    is kept in its own spelling.
    """
    settings: list[model.Setting] = []
    for index, (bits, current, reason) in enumerate(queues):
        if current is not None and bits:
            value = current if int(current.replace(",", ""), 16) == bits else write_mask(bits, digits)
            settings.append(model.Setting(kind, f"{stem}{index}", value, current, reason, rule))
    return settings
