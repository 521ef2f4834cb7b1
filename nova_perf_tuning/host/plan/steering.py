"""Which CPUs send through which transmit queue (XPS), and which take over receive work (RPS).

XPS maps every CPU to a queue (Documentation/networking/scaling.rst): each core to the queue whose
interrupt it takes, all others dealt evenly to the queues of their own node, or to all where the node has
none. A CPU in no mask would fall back to a hash over all queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model, setting
from nova_perf_tuning.host.plan.nics import NicQueues
from nova_perf_tuning.host.plan.sets import HostSets


def mask_digits(facts: model.HostFacts) -> int:
    """Return how many hexadecimal digits this host's masks have.

    The kernel prints as many as nr_cpu_ids needs, which may be more than the CPUs that are there.
    """
    needed = (max((cpu.id for cpu in facts.cpus), default=0) + 4) // 4
    for nic in facts.nics:
        for mask in (*nic.rps, *nic.xps):
            if mask:
                return max(needed, len(mask) - mask.count(","))
    return needed


class Masks:
    """Deals CPUs to queues; everything that many NICs and guests share is worked out once."""

    def __init__(self, facts: model.HostFacts, sets: HostSets) -> None:
        self._sets = sets
        digits = mask_digits(facts)
        self._groups = (digits + 7) // 8
        self._surplus = self._groups * 8 - digits
        self._dealt: dict[tuple[tuple[int | None, ...], int], tuple[int, ...]] = {}
        self._known: dict[str, int] = {}
        self._core: dict[int, int] = {}
        self._cores: dict[int | None, list[int]] = {}
        usable = sum(1 << cpu for cpu in sets.transmitting)
        bits_of: dict[str, int] = {}
        for cpu in sorted(facts.cpus, key=lambda one: one.id):
            if cpu.id not in sets.transmitting:
                continue
            if cpu.siblings not in bits_of:
                siblings = sum(1 << other for other in cpulist.parse(cpu.siblings)) & usable | 1 << cpu.id
                bits_of[cpu.siblings] = siblings
                self._cores.setdefault(cpu.node, []).append(siblings)
            self._core[cpu.id] = bits_of[cpu.siblings]
        self._whole: dict[tuple[int | None, int], tuple[int, list[int]]] = {}  # shares where nothing is taken
        self._union = {node: sum(cores) for node, cores in self._cores.items()}

    def transmit(self, cpus: Sequence[int | None], nodes: Sequence[int | None]) -> list[int]:
        """Return the mask of each queue as bits.

        :param cpus: the CPU that serves each queue, None where it is no single one.
        :param nodes: the node of that CPU.
        """
        own = [0 if cpu is None else self._core.get(cpu, 0) for cpu in cpus]
        taken = 0
        for core in own:
            taken |= core
        return [bits | core for bits, core in zip(self._deal(tuple(nodes), taken), own, strict=True)]

    def _deal(self, nodes: tuple[int | None, ...], taken: int) -> tuple[int, ...]:
        """Deal the cores of every node that are not taken to the queues served there, else to all queues."""
        key = (nodes, taken)
        if key not in self._dealt:
            bits = [0] * len(nodes)
            turn = 0  # goes on from node to node, else the first queues would get the odd cores of all nodes
            for node in self._cores:
                queues = [queue for queue, its in enumerate(nodes) if its == node] or range(len(nodes))
                count, shares = self._shares(node, len(queues), taken)
                for place, share in enumerate(shares, turn):
                    bits[queues[place % len(queues)]] |= share
                turn += count
            self._dealt[key] = tuple(bits)
        return self._dealt[key]

    def _shares(self, node: int | None, queues: int, taken: int) -> tuple[int, list[int]]:
        """Return how many cores of a node are not taken, and the share of each queue in them."""
        taken &= self._union[node]
        if not taken and (node, queues) in self._whole:
            return self._whole[node, queues]
        free = [core for core in self._cores[node] if not core & taken]
        found = len(free), [sum(free[place::queues]) for place in range(min(queues, len(free)))]
        if not taken:
            self._whole[node, queues] = found
        return found

    def write(self, bits: int) -> str:
        """Return bits as the kernel prints them (``%*pb``): groups of eight digits, the first cut to the width."""
        return bits.to_bytes(self._groups * 4, "big").hex(",", 4)[self._surplus :]

    def settings(
        self,
        kind: str,
        stem: str,
        rule: str,
        queues: Iterable[tuple[int, str | None, str]],
    ) -> list[setting.Setting]:
        """Return a setting for each queue of ``(bits, current mask, reason)``; ``stem`` is ``eth0/tx-``.

        A queue that has no mask, or that no CPU is left for, is passed over; a current mask of the same meaning
        is kept in its own spelling.
        """
        result: list[setting.Setting] = []
        known, size, surplus = self._known, self._groups * 4, self._surplus
        for index, (bits, current, reason) in enumerate(queues):
            if current is None or not bits:
                continue
            now = known.get(current)
            if now is None:
                now = known[current] = _bits(current)
            value = current if now == bits else bits.to_bytes(size, "big").hex(",", 4)[surplus:]
            result.append(setting.Setting(kind, f"{stem}{index}", value, current, reason, rule))
        return result


def _bits(mask: str) -> int:
    """Return a mask's bits, -1 for what is no mask."""
    try:
        return int(mask.replace(",", ""), 16)
    except ValueError:
        return -1


def nic_settings(found: Iterable[NicQueues], masks: Masks, sets: HostSets, rps: bool) -> list[setting.Setting]:
    """Return XPS of every NIC that was placed, and RPS where it is wanted and helps."""
    result: list[setting.Setting] = []
    for one in found:
        nic, cpus = one.nic, one.cpus
        nodes = [sets.node_of.get(cpu) for cpu in cpus]
        if len(nic.xps) > 1:
            spots = [index % len(cpus) for index in range(len(nic.xps))]
            serving = [cpus[spot] for spot in spots]
            bits = masks.transmit(serving, [nodes[spot] for spot in spots])
            head = f"{nic.name} sends through queue "
            reasons = [
                f"{head}{index} what the core of CPU {cpu} sends, which takes its interrupt, and its share of the "
                f"others: {mask.bit_count()} CPUs in all"
                for index, (cpu, mask) in enumerate(zip(serving, bits, strict=True))
            ]
            result += masks.settings("xps", f"{nic.name}/tx-", "nic-xps", zip(bits, nic.xps, reasons, strict=True))
        if rps:
            result += _rps(one, masks)
    return result


def _rps(one: NicQueues, masks: Masks) -> list[setting.Setting]:
    """Let the room's CPUs that take no interrupt of this NIC do part of its receive work.

    Only with fewer receive queues than CPUs: else every CPU has a queue of its own and RPS only adds
    an interrupt from CPU to CPU (Documentation/networking/scaling.rst, "Suggested Configuration").
    """
    nic, room = one.nic, one.room
    queues = len(nic.rps)
    if not 0 < queues < len(room.cpus):
        return []
    idle = [cpu for cpu in room.cpus if cpu not in set(one.cpus)] or list(room.cpus)
    helpers = [idle[index::queues] for index in range(queues)]
    bits = [sum(1 << cpu for cpu in some) for some in helpers]
    reasons = [
        f"{nic.name} has {queues} receive queues for {len(room.cpus)} CPUs of {room.where}: "
        f"CPUs {cpulist.format(some)} share the work of queue {index}"
        for index, some in enumerate(helpers)
    ]
    return masks.settings("rps", f"{nic.name}/rx-", "nic-rps", zip(bits, nic.rps, reasons, strict=True))
