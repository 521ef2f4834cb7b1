"""Interrupts: /proc/irq/N, one directory each (Documentation/core-api/irq/irq-affinity.rst), and who owns them.

/proc/interrupts is never read: on a large host the kernel must format millions of counters for it and takes every
interrupt's lock while it does.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts.root import Directory, Root, numbers

#: Domain (16 or 32 bits), bus, device, function.
ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_BUS: Final = "sys/bus/pci/devices"
MAX_IRQ: Final = 1 << 24  # far above any nr_irqs; a bound for hostile names

_DIRECTORY: Final = "proc/irq"
#: What the kernel itself puts into an interrupt's directory; anything else is the name of a handler.
FILES: Final = frozenset(
    "smp_affinity smp_affinity_list effective_affinity effective_affinity_list affinity_hint node spurious".split()
)
_AFFINITIES: Final = ("smp_affinity_list", "effective_affinity_list")


@dataclasses.dataclass(slots=True)
class PciDevice:
    """A PCI device with interrupts.

    :ivar node: its NUMA node, None when the firmware gives none.
    :ivar irqs: MSI and MSI-X vectors that the kernel has allocated, ascending; else the legacy line.
    """

    address: str
    node: int | None
    irqs: tuple[int, ...]


def node_of(root: Root, directory: Directory | None, file: str = "numa_node") -> int | None:
    """Return the node that ``file`` of a device's or interrupt's directory names; the kernel's -1 is None."""
    node = root.number(directory, file)
    return node if node is not None and node >= 0 else None


def read_devices(root: Root) -> dict[str, PciDevice]:
    """Return every PCI device that owns message-signalled interrupts, by address.

    These are the ones whose affinity can be set one by one; a legacy line may be shared by several devices.
    """
    devices: dict[str, PciDevice] = {}
    bus = root.directory(_BUS)
    for address in sorted(root.names(bus)):
        if ADDRESS.fullmatch(address):
            directory = root.child(bus, address)
            irqs = tuple(numbers(root.names(root.child(directory, "msi_irqs")), 0, MAX_IRQ))
            if irqs:
                devices[address] = PciDevice(address, node_of(root, directory), irqs)
    return devices


def read_irqs(root: Root, devices: Mapping[str, PciDevice]) -> dict[int, model.Irq]:
    """Return every interrupt by its number; ``devices`` tells the owners.

    The node of a device's interrupt is the device's own: the kernel allocates its descriptor there.
    """
    owners = {irq: device for device in devices.values() for irq in device.irqs}
    base = root.directory(_DIRECTORY)
    there = numbers(root.directories(base), 0, MAX_IRQ)
    if not there:
        root.notes.add(f"no interrupts in {_DIRECTORY}: they are unknown")
    values = root.each(base, [f"{irq}/{file}" for irq in there for file in _AFFINITIES])
    irqs: dict[int, model.Irq] = {}
    for irq, affinity, effective in zip(there, values[::2], values[1::2], strict=True):
        directory = Directory(f"{base}/{irq}")
        owner = owners.get(irq)
        if affinity is None:
            root.notes.add("affinity unreadable", directory)
        irqs[irq] = model.Irq(
            irq,
            _action(root, directory),
            None if owner is None else owner.address,
            root.cpu_list(affinity, directory),
            root.cpu_list(effective, directory),
            owner.node if owner is not None and owner.node is not None else node_of(root, directory, "node"),
        )
    return irqs


def _action(root: Root, directory: Directory) -> str | None:
    """Return the handlers' names: whatever is in the directory and is none of the kernel's files."""
    names = [name for name in root.names(directory) if name not in FILES and name.isprintable()]
    if len(names) > 1:
        names.sort()
    return ",".join(names) or None
