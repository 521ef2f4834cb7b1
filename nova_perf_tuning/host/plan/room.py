# SPDX-License-Identifier: Apache-2.0
"""How many interrupts each CPU can still take.

An x86 CPU has 256 vectors. The kernel hands those from FIRST_EXTERNAL_VECTOR (0x20) up to
FIRST_SYSTEM_VECTOR (0xeb since Linux 6.10, 0xec before) to devices, less those for int 0x80 and
for its own use (arch/x86/include/asm/irq_vectors.h, arch_early_irq_init() and
lapic_assign_system_vectors() in arch/x86/kernel/apic/vector.c): 201 or 202. Each interrupt with a
handler has one on the CPU that serves it; a write beyond gets ENOSPC.

Other architectures number interrupts for the whole host (GICv3's LPIs, XIVE), and Xen gives its
guests event channels: there is no bound that is known.
"""

import collections
from collections.abc import Collection
from typing import Final

from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import nics

#: Vectors of an x86 CPU for devices, where the host does not show them; a little below 201.
X86_VECTORS: Final = 200
_X86: Final = frozenset(("x86_64", "i686", "i586", "i486", "i386"))


def vector_room(facts: host_model.HostFacts, planned: Collection[int]) -> dict[int, int]:
    """Return how many of the ``planned`` interrupts each CPU can take; empty: no bound is known.

    What else is there counts: interrupts that the plan does not move, and those that the kernel
    manages.

    :param planned: numbers of the interrupts that are to be placed.
    """
    capacity = dict(facts.vectors)
    if not capacity and _has_x86_vectors(facts):
        capacity = {cpu.id: X86_VECTORS for cpu in facts.cpus if cpu.online}
    if not capacity:
        return {}
    taken: collections.Counter[int | None] = collections.Counter()
    for irq in facts.irqs.values():
        if irq.name and irq.number not in planned:
            taken[nics.single(irq.serving)] += 1
    return {cpu: max(0, most - taken[cpu]) for cpu, most in capacity.items()}


def _has_x86_vectors(facts: host_model.HostFacts) -> bool:
    is_xen = (facts.virtualization or "").startswith("xen")
    return facts.arch in _X86 and not is_xen
