"""Which CPUs send through which transmit queue (XPS), and which take over receive work (RPS).

XPS maps every CPU to a queue (Documentation/networking/scaling.rst): each core to the queue whose
interrupt it takes, all others dealt evenly to the queues of their own node, or to all where the node has
none. A CPU in no mask would fall back to a hash over all queues.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.plan import spread
from nova_perf_tuning.host.plan.layout import CpuLayout
from nova_perf_tuning.host.plan.nics import NicPlacement

#: Node -> its cores that may send, each as the bits of its CPUs.
_Cores = Mapping[int | None, Sequence[int]]


def nic_settings(
    placements: Iterable[NicPlacement], placed: spread.Placed, facts: model.HostFacts, layout: CpuLayout, rps: bool
) -> list[model.Setting]:
    """Return XPS of every NIC that was placed, and RPS where it is wanted and helps."""
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
            settings += _settings("xps", f"{nic.name}/tx-", "nic-xps", queues, digits)
        if rps:
            settings += _settings("rps", f"{nic.name}/rx-", "nic-rps", _helpers(placement, cpus), digits)
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
