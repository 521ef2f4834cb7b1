# SPDX-License-Identifier: Apache-2.0
"""How many interrupts each CPU can have, as the kernel of an x86 host shows it to root.

/sys/kernel/debug/irq/domains/VECTOR is there with CONFIG_GENERIC_IRQ_DEBUGFS; its table is written
by irq_matrix_debug_show() in kernel/irq/matrix.c::

    | CPU | avl | man | mac | act | vectors
        0   198     1     1     4  33-36
"""

from typing import Final

from nova_perf_tuning.host.input.facts.root import Root, decimal

_DIRECTORY: Final = "sys/kernel/debug/irq/domains"
_FILE: Final = "VECTOR"
_HEAD: Final = "| CPU | avl | man | mac | act | vectors"
#: A line of a CPU has some 30 characters and its list of vectors.
_LIMIT: Final = 4 << 20
_MOST: Final = 256


def read_vectors(root: Root) -> dict[int, int]:
    """Return CPU -> how many interrupts it can have that the kernel does not manage.

    That is those that it could still take (``avl``) and those that it has (``act``, less ``mac``,
    the managed ones). Empty where the kernel does not show it.
    """
    data = root.read(root.directory(_DIRECTORY), _FILE, _LIMIT)
    lines = (data or b"").decode("ascii", "replace").splitlines()
    heads = [at for at, line in enumerate(lines) if line.strip() == _HEAD]
    if not heads:
        return {}
    found: dict[int, int] = {}
    for line in lines[heads[0] + 1 :]:
        numbers = [decimal(word) for word in line.split()[:5]]
        cpu, available, _managed, managed_active, active = (numbers + [None] * 5)[:5]
        if cpu is None or available is None or managed_active is None or active is None:
            break
        most = available + active - managed_active
        if cpu < 0 or not 0 <= most <= _MOST:
            return {}
        found[cpu] = most
    return found
