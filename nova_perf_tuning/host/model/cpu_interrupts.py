# SPDX-License-Identifier: Apache-2.0
"""Interrupts with a number as devices' have, that no device raises: of other CPUs, and of a CPU's own timer.

Each CPU has its own, nothing can move them, and their counts say nothing of devices. Their names are
those of the kernel: arch/powerpc/sysdev/xive (``IPI-0``), xics, Arm and RISC-V (``IPI``),
arch/powerpc/kernel/smp.c and MicroBlaze (``ipi reschedule``), MIPS (``IPI resched``), Xen's
arch/x86/xen/smp.c and spinlock.c (``callfuncsingle0``), and drivers/clocksource/arm_arch_timer.c.
"""

import re
from typing import Final

_BETWEEN_CPUS: Final = re.compile(
    r"IPI[-_ ]?\d*|(nmi )?ipi( [a-z -]+)?|IPI (resched|call)"
    r"|(resched|callfunc|callfuncsingle|debug|irqwork|spinlock)\d+"
)
_TIMER: Final = re.compile(r"arch_timer|kvm guest [pv]timer|riscv-timer|timer\d+")


def is_between_cpus(handlers: str) -> bool:
    """Whether CPUs raise an interrupt for one another, by the name of its handler."""
    return _BETWEEN_CPUS.fullmatch(handlers) is not None


def is_timer(handlers: str) -> bool:
    """Whether an interrupt is that of a CPU's own timer."""
    return _TIMER.fullmatch(handlers) is not None


def is_of_cpus(handlers: str | None) -> bool:
    """Whether an interrupt is none of a device; one without a handler may be."""
    return handlers is not None and (is_between_cpus(handlers) or is_timer(handlers))
