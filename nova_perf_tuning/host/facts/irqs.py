"""Interrupts: /proc/irq/N, one directory each (Documentation/core-api/irq/irq-affinity.rst).

/proc/interrupts is read only where no directory has an action's name in it (recordings made of files alone drop
empty directories): on a large host the kernel must format millions of counters for it and takes every interrupt's
lock while it does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import pci
from nova_perf_tuning.host.facts.pci import MAX_IRQ, PciDevice
from nova_perf_tuning.host.facts.root import Directory, Root, decimal, numbers

_DIRECTORY: Final = "proc/irq"
#: What the kernel itself puts into an interrupt's directory; anything else is the name of a handler.
FILES: Final = frozenset(
    "smp_affinity smp_affinity_list effective_affinity effective_affinity_list affinity_hint node spurious".split()
)
_AFFINITIES: Final = ("smp_affinity_list", "effective_affinity_list")
#: 1024 CPUs and 2048 interrupts make 23 MB.
_TABLE_LIMIT: Final = 256 << 20
_TRIGGER: Final = re.compile(r"edge|level|fasteoi|none|simple", re.IGNORECASE)


def read_irqs(root: Root, devices: Mapping[str, PciDevice]) -> dict[int, model.Irq]:
    """Return every interrupt by its number; ``devices`` tells the owners.

    The node of a device's interrupt is the device's own: the kernel allocates its descriptor there.
    """
    owners = {irq: device for device in devices.values() for irq in device.irqs}
    base = root.directory(_DIRECTORY)
    found = numbers(root.directories(base), 0, MAX_IRQ)
    if not found:
        root.notes.add(f"no interrupts in {_DIRECTORY}: they are unknown")
    values = root.each(base, [f"{irq}/{file}" for irq in found for file in _AFFINITIES])
    irqs: dict[int, model.Irq] = {}
    for irq, affinity, effective in zip(found, values[::2], values[1::2], strict=True):
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
            owner.node if owner is not None and owner.node is not None else pci.node_of(root, directory, "node"),
        )
    if irqs and not any(irq.name for irq in irqs.values()):
        for number, name in read_names(root).items():
            if number in irqs:
                irqs[number].name = name
    return irqs


def _action(root: Root, directory: Directory) -> str | None:
    """Return the handlers' names: whatever is in the directory and is none of the kernel's files."""
    names = [name for name in root.names(directory) if name not in FILES and name.isprintable()]
    if len(names) > 1:
        names.sort()
    return ",".join(names) or None


def read_names(root: Root) -> dict[int, str]:
    """Return the handlers' names in /proc/interrupts by interrupt number.

    The columns after the counters differ between architectures and kernels: chip, hardware number and trigger
    may each be missing. The name is what follows the trigger, else the last column set off by two spaces.
    """
    data = root.read(root.directory("proc"), "interrupts", _TABLE_LIMIT) or b""
    header, _, rows = data.partition(b"\n")
    columns = header.count(b"CPU")
    names = {}
    for row in rows.split(b"\n"):
        number, colon, rest = row.partition(b":")
        irq = decimal(number.strip().decode("ascii", "replace"))
        fields = rest.split(None, columns)
        if not colon or irq is None or irq < 0 or len(fields) <= columns:
            continue
        name = _name_column(fields[columns].decode("utf-8", "replace").strip())
        if name:
            names[irq] = name
    return names


def _name_column(text: str) -> str | None:
    words = text.split()
    for index, word in enumerate(words[:-1]):
        if _TRIGGER.search(word) and index:
            text = " ".join(words[index + 1 :])
            break
    else:
        text = re.split(r"\s{2,}", text)[-1]
    return text.replace(", ", ",") if text.isprintable() else None
