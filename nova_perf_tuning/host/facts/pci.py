"""PCI devices: which interrupts each one owns, and its NUMA node."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from nova_perf_tuning.host.facts.root import Directory, Root, numbers

#: Domain (16 or 32 bits), bus, device, function.
ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_BUS: Final = "sys/bus/pci/devices"
MAX_IRQ: Final = 1 << 24  # far above any nr_irqs; a bound for hostile names


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


def vectors(root: Root, directory: Directory | None) -> tuple[int, ...]:
    """Return the numbers of a device's MSI and MSI-X interrupts, ascending."""
    return tuple(numbers(root.names(root.child(directory, "msi_irqs")), 0, MAX_IRQ))


def read_devices(root: Root) -> dict[str, PciDevice]:
    """Return every PCI device that owns message-signalled interrupts, by address.

    These are the ones whose affinity can be set one by one; a legacy line may be shared by several devices.
    """
    devices: dict[str, PciDevice] = {}
    bus = root.directory(_BUS)
    for address in sorted(root.names(bus)):
        if ADDRESS.fullmatch(address):
            directory = root.child(bus, address)
            irqs = vectors(root, directory)
            if irqs:
                devices[address] = PciDevice(address, node_of(root, directory), irqs)
    return devices
