# SPDX-License-Identifier: Apache-2.0
"""What ``[agent] leave_interrupts`` names on a host: plan, audit and agent ask here alone."""

import fnmatch
from collections.abc import Iterator

from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.plan.refused import Refused


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
