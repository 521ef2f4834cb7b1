# SPDX-License-Identifier: Apache-2.0
"""Who sent interrupts to guests' CPUs, by the text of a trace of all CPUs: pure."""

import collections
import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.interference import events
from nova_perf_tuning.host.interference.attribute import Role

#: Events of the CPU that sends (Linux 6.4), and the field of each to filter by (Linux 6.6).
EVENTS: Final = {
    "ipi/ipi_send_cpu": "cpu",
    "ipi/ipi_send_cpumask": "cpumask",
    "csd/csd_queue_cpu": "cpu",
}

_TO: Final = re.compile(r"(cpu|cpumask)=([\da-f,]+) callsite=(\S+) (?:callback|func)=(\S+)").match
_NONE: Final = "0x0"
#: Interrupts for calls: the event of each call has its function.
_CALLS: Final = "generic_smp_call_function_single_interrupt"


@dataclasses.dataclass(frozen=True, slots=True)
class IpiSender:
    """Interrupts that one sender sent to a CPU.

    :ivar sender: the thread that ran when it was sent; ``idle`` for none.
    :ivar function: what the CPU was to call, else the function of the kernel that sent it.
    """

    cpu: int
    sender: str
    function: str
    count: int


def of_lines(
    lines: Iterable[str], cpus: frozenset[int], role: Callable[[int, str], Role]
) -> list[IpiSender]:
    """Return who sent interrupts to some CPUs, who sent the most first.

    :param role: thread and its name -> what it is for.
    """
    counts: collections.Counter[tuple[int, str, str]] = collections.Counter()
    for event in events.parse_events(lines, lambda: None):
        match = _TO(event.about)
        if match is None:
            continue
        sender = "idle"
        if event.task:
            sender = role(event.task, event.name).source
        function = match[4]
        if function.startswith(_CALLS):
            continue
        if function == _NONE:
            function = match[3]
        for cpu in _targets(match[1], match[2]) & cpus:
            counts[cpu, sender, function.partition("+")[0]] += 1
    found: list[IpiSender] = []
    for (cpu, sender, function), count in sorted(counts.items()):
        found.append(IpiSender(cpu, sender, function, count))
    return sorted(found, key=lambda item: (item.cpu, -item.count))


def _targets(field: str, text: str) -> frozenset[int]:
    if field == "cpu":
        return cpulist.find(text) or frozenset()
    if not cpulist.is_mask(text):
        return frozenset()
    return cpulist.parse_mask(text)
