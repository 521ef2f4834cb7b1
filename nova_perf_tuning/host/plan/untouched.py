# SPDX-License-Identifier: Apache-2.0
"""What ``[agent] leave_interrupts`` names on a host: plan, audit and agent ask here alone."""

import fnmatch
from collections.abc import Iterator

from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.plan import nics
from nova_perf_tuning.host.plan.refused import Refused


def irqs(facts: host_model.HostFacts, refused: Refused) -> frozenset[int]:
    """Return the numbers of the interrupts that are left alone, by handler, device or NIC."""
    if not refused.left:
        return frozenset()
    found = {number for number, irq in facts.irqs.items() if refused.is_left(irq)}
    for nic in facts.nics:
        for irq in nics.firing(facts, nic, ()):
            if refused.is_left(irq, nic.name):
                found.add(irq.number)
    return frozenset(found)


def devices(facts: host_model.HostFacts, refused: Refused) -> frozenset[str]:
    """Return the network devices whose masks and NAPI threads are left alone, too: by their names
    or PCI addresses.
    """
    if not refused.left:
        return frozenset()
    return frozenset(nic.name for nic in facts.nics if refused.is_left_device(nic))


def unmatched(facts: host_model.HostFacts, refused: Refused) -> Iterator[Note]:
    """Yield the patterns that name nothing on this host; their device may come later."""
    if not refused.left:
        return
    names: set[str] = set()
    for irq in facts.irqs.values():
        names.update((irq.name or "").split(","))
        names.add((irq.device or "").lower())
    for nic in facts.nics:
        names.update((nic.name, (nic.pci or "").lower()))
    names.discard("")
    if not names:  # a record without interrupts and devices
        return
    lost: dict[str, None] = {}
    for pattern in refused.left:
        if not fnmatch.filter(names, pattern):
            lost[pattern] = None
    if lost:
        yield Note.of(NoteCode.LEAVE_UNMATCHED, patterns=tuple(lost))
