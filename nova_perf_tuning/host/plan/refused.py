# SPDX-License-Identifier: Apache-2.0
"""Interrupts that stay where they are: by the kernel's refusal, or by the operator's word."""

import dataclasses
import fnmatch
from collections.abc import Sequence
from typing import Self

from nova_perf_tuning.host.model import host_model


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Refusals of the kernel and of the operator that the plan works around.

    An x86 CPU has some 200 vectors. When they are in use, it takes no further interrupt and keeps
    those it has (``irq_matrix_alloc`` in kernel/irq/matrix.c), so this is a fact about the CPU and
    not about one interrupt.

    :ivar full: CPUs without a free vector.
    :ivar managed: interrupts that the kernel places itself.
    :ivar left: patterns of interrupts and devices that nobody touches (``[agent]
        leave_interrupts``): names of handlers or NICs, and PCI addresses, with ``*`` and ``?``;
        :mod:`nova_perf_tuning.host.plan.untouched` says what they name on a host.
    """

    full: frozenset[int] = frozenset()
    managed: frozenset[host_model.IrqTarget] = frozenset()
    left: tuple[str, ...] = ()

    def __or__(self, other: Self) -> Self:
        """Return both together."""
        return dataclasses.replace(
            self, full=self.full | other.full, managed=self.managed | other.managed
        )

    def __bool__(self) -> bool:
        return bool(self.full or self.managed or self.left)

    def is_managed(self, irq: host_model.Irq) -> bool:
        """Whether the kernel places this interrupt itself, as far as a write has shown it."""
        return host_model.IrqTarget(irq.number, irq.device or "", irq.name or "") in self.managed

    def is_left(self, irq: host_model.Irq, nic: str = "") -> bool:
        """Whether the operator wants this interrupt left alone.

        :param nic: name of the NIC that it belongs to, if any.
        """
        return self._matches([*(irq.name or "").split(","), (irq.device or "").lower(), nic])

    def is_left_device(self, nic: host_model.Nic) -> bool:
        """Whether the operator wants a network device left alone with its queues' masks."""
        return self._matches([nic.name, (nic.pci or "").lower()])

    def _matches(self, names: Sequence[str]) -> bool:
        for pattern in self.left:
            if any(name and fnmatch.fnmatchcase(name, pattern) for name in names):
                return True
        return False


#: The kernel has refused nothing, or nothing was tried.
NOTHING = Refused()
