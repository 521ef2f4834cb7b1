# SPDX-License-Identifier: Apache-2.0
"""Which CPUs send through which transmit queue (XPS), and which take over receive work (RPS).

Both follow from the CPUs that take the interrupts of the queues.
Documentation/networking/scaling.rst describes what the kernel makes of the masks.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import nics
from nova_perf_tuning.host.plan.interrupts import InterruptPlan
from nova_perf_tuning.host.plan.layout import CpuLayout
from nova_perf_tuning.printing import counted


@dataclasses.dataclass(frozen=True, slots=True)
class _Cores:
    """The cores that may send, each as the bits of its CPUs.

    :ivar of_node: node -> its cores; :ivar of_cpu: CPU -> the core that it belongs to.
    """

    of_node: Mapping[int | None, Sequence[int]]
    of_cpu: Mapping[int, int]


@dataclasses.dataclass(slots=True)
class _Queue:
    """A queue and the CPUs that it should have.

    :ivar bits: those CPUs; :ivar current: the mask that the queue has, None where it has none.
    """

    number: int
    bits: int
    current: str | None
    reason: str


def plan_steering(
    facts: host_model.HostFacts,
    layout: CpuLayout,
    interrupts: InterruptPlan,
    rps: bool,
    left: frozenset[str] = frozenset(),
) -> list[host_model.Setting]:
    """Return XPS of every NIC whose transmit queues have known interrupts, and RPS where wanted.

    :param rps: spread the receive work of NICs with few queues; only where that helps.
    :param left: network devices that are left alone.
    """
    digits = mask_digits(facts)
    cores = _cores(facts, layout)
    settings: list[host_model.Setting] = []
    for plan in interrupts.nics:
        name, sending = plan.nic.name, plan.vectors.sending
        if name in left:
            continue
        if sending is not None and nics.has_xps(plan.nic):
            queues = _senders(plan, sending, interrupts.by_number, cores, layout)
            settings += _settings(
                "xps", f"{name}/tx-", host_model.PlanRule.NIC_XPS, queues, digits
            )
        if rps:
            for placement in plan.placements:
                helped = _helpers(plan, placement, interrupts.by_number)
                settings += _settings(
                    "rps", f"{name}/rx-", host_model.PlanRule.NIC_RPS, helped, digits
                )
    return settings


def mask_digits(facts: host_model.HostFacts) -> int:
    """Return how many hexadecimal digits this host's masks have.

    The kernel prints as many as nr_cpu_ids needs, which may be more than the CPUs that are there.
    """
    highest = max((cpu.id for cpu in facts.cpus), default=0)
    needed = (highest + 4) // 4
    for nic in facts.nics:
        for mask in nic.rps + nic.xps:
            if mask:
                printed = len(mask) - mask.count(",")
                return max(needed, printed)
    return needed


def write_mask(bits: int, digits: int) -> str:
    """Return bits as the kernel prints them (``%*pb``): groups of eight digits from the right."""
    groups = (digits + 7) // 8
    return bits.to_bytes(groups * 4, "big").hex(",", 4)[groups * 8 - digits :]


def _cores(facts: host_model.HostFacts, layout: CpuLayout) -> _Cores:
    of_node: dict[int | None, list[int]] = {}
    of_cpu: dict[int, int] = {}
    for cpu in sorted(facts.cpus, key=lambda cpu: cpu.id):
        if cpu.id not in layout.transmitting or cpu.id in of_cpu:
            continue
        siblings = cpulist.parse(cpu.siblings) & layout.transmitting | {cpu.id}
        core = sum(1 << sibling for sibling in siblings)
        of_node.setdefault(cpu.node, []).append(core)
        of_cpu.update(dict.fromkeys(siblings, core))
    return _Cores(of_node, of_cpu)


def _senders(
    plan: nics.NicPlan,
    sending: Sequence[int],
    by_number: Mapping[int, int],
    cores: _Cores,
    layout: CpuLayout,
) -> list[_Queue]:
    """Give every core to one transmit queue.

    A core sends through the queue whose interrupt it takes. All other cores are dealt evenly to
    the queues of their own node, or to all where the node has none. A CPU in no mask would fall
    back to a hash over all queues.

    :param sending: for each transmit queue the key of the vectors that serve it.
    """
    nic = plan.nic
    own: list[int] = []
    nodes: list[int | None] = []
    taken = 0
    for queue in sending:
        cpu = _serving(plan.vectors.queues[queue][0], by_number)
        if cpu is None:
            own.append(0)
            nodes.append(nic.node)
        else:
            core = cores.of_cpu.get(cpu, 0)
            own.append(core)
            nodes.append(layout.node_of.get(cpu))
            taken |= core
    shares = _deal(nodes, cores.of_node, taken)
    reason = f"{nic.name}: a core sends through the queue whose interrupt it serves, other cores through one "
    reason += "of their node"
    queues = []
    for number, current in enumerate(nic.xps):
        queues.append(_Queue(number, own[number] | shares[number], current, reason))
    return queues


def _serving(irq: host_model.Irq, by_number: Mapping[int, int]) -> int | None:
    """Return the CPU of an interrupt.

    It is the planned one, or that on which an interrupt fires that is left alone.
    """
    planned = by_number.get(irq.number)
    return nics.single(irq.serving) if planned is None else planned


def _deal(
    nodes: Sequence[int | None], cores: Mapping[int | None, Sequence[int]], taken: int
) -> list[int]:
    """Deal each node's cores that are not taken to the queues served there, else to all queues.

    :param nodes: the node of the CPU that serves each queue.
    :return: the share of each queue.
    """
    bits = [0] * len(nodes)
    # Counted over all nodes, else the first queues would get the odd cores of every node.
    dealt = 0
    for node, every in cores.items():
        queues = [queue for queue, home in enumerate(nodes) if home == node]
        if not queues:
            queues = list(range(len(nodes)))
        for core in every:
            if not core & taken:
                bits[queues[dealt % len(queues)]] |= core
                dealt += 1
    return bits


def _helpers(
    plan: nics.NicPlan, placement: nics.NicPlacement, by_number: Mapping[int, int]
) -> Iterator[_Queue]:
    """Let the pool's CPUs that take no interrupt of this NIC do part of its receive work.

    Only with fewer receive queues than CPUs: else every CPU has a queue of its own and RPS only
    adds an interrupt from CPU to CPU ("Suggested Configuration" on the kernel's page).
    """
    nic, pool = plan.nic, placement.data.pool
    every = range(len(nic.rps))
    if plan.vectors.queues.keys() >= set(every):
        queues = [queue for queue in every if queue in placement.queues]
    elif placement is plan.placements[0]:
        queues = list(every)  # nothing says which of them this node serves
    else:
        queues = []
    if not 0 < len(queues) < len(pool.cpus):
        return
    taking: set[int | None] = set()
    for irqs in plan.vectors.queues.values():
        for irq in irqs:
            taking.add(_serving(irq, by_number))
    idle = [cpu for cpu in pool.cpus if cpu not in taking]
    if not idle:
        idle = list(pool.cpus)
    has = f"{nic.name} has {counted(len(queues), 'receive queue')}"
    has += f" for {counted(len(pool.cpus), 'CPU')} of {pool.where}"
    for position, number in enumerate(queues):
        helpers = idle[position :: len(queues)]
        bits = sum(1 << cpu for cpu in helpers)
        reason = f"{has}: the work of queue {number} goes to {cpulist.named(helpers)}"
        yield _Queue(number, bits, nic.rps[number], reason)


def _settings(
    kind: str, stem: str, rule: str, queues: Iterable[_Queue], digits: int
) -> Iterator[host_model.Setting]:
    """Yield a setting for each queue; ``stem`` is ``eth0/tx-``.

    A queue that has no mask, or that no CPU is left for, is passed over. A current mask of the
    same meaning is kept in its own spelling.
    """
    for queue in queues:
        if queue.current is None or not queue.bits:
            continue
        value = queue.current
        if int(value.replace(",", ""), 16) != queue.bits:
            value = write_mask(queue.bits, digits)
        target = f"{stem}{queue.number}"
        yield host_model.Setting(kind, target, value, queue.current, queue.reason, rule)
