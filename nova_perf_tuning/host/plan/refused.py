# SPDX-License-Identifier: Apache-2.0
"""What the kernel has refused to do with interrupts: facts for the planner."""

import dataclasses
from typing import Self

from nova_perf_tuning.host.model import host_model


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Refusals of the kernel that the plan works around.

    An x86 CPU has some 200 vectors. When they are in use, it takes no further interrupt and keeps
    those it has (``irq_matrix_alloc`` in kernel/irq/matrix.c), so this is a fact about the CPU and
    not about one interrupt.

    :ivar full: CPUs without a free vector.
    :ivar managed: interrupts that the kernel places itself.
    """

    full: frozenset[int] = frozenset()
    managed: frozenset[host_model.IrqTarget] = frozenset()

    def __or__(self, other: Self) -> Self:
        """Return both together."""
        return dataclasses.replace(
            self, full=self.full | other.full, managed=self.managed | other.managed
        )

    def __bool__(self) -> bool:
        return bool(self.full or self.managed)

    def is_managed(self, irq: host_model.Irq) -> bool:
        """Whether the kernel places this interrupt itself, as far as a write has shown it."""
        return host_model.IrqTarget(irq.number, irq.device or "", irq.name or "") in self.managed


#: The kernel has refused nothing, or nothing was tried.
NOTHING = Refused()
