# SPDX-License-Identifier: Apache-2.0
"""What ran on a guest's CPU: plain values, and how they are added up."""

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from nova_perf_tuning.host.model.channels import Channel


class Basis(enum.StrEnum):
    """How an intrusion is known.

    COUNTED: by the kernel's counters, complete. SAMPLED: a thread may use other CPUs too, and was
    seen to have run here last: the count is a lower bound. TRACED: by the kernel's events.
    """

    COUNTED = "counted"
    SAMPLED = "sampled"
    TRACED = "traced"


@dataclasses.dataclass(frozen=True, slots=True)
class Intrusion:
    """Work of one source on CPUs of guests in the window.

    :ivar cpus: cpulist: one CPU, or those among which a thread may choose.
    :ivar source: what it was: ``irq 36 virtio1-req.0``, ``softirq NET_RX``, a thread's name.
    :ivar count: how often it ran; of sampled threads the looks at which each was seen, added up.
    :ivar seconds: CPU time there; None: the counter has none.
    :ivar seconds_at_most: CPU time that sampled threads used on all CPUs, or the whole window.
    :ivar longest_s: the longest time without a break, of a trace.
    """

    cpus: str
    channel: Channel
    source: str
    count: int
    basis: Basis
    seconds: float | None = None
    seconds_at_most: float | None = None
    longest_s: float | None = None


class WindowCode(enum.StrEnum):
    """What a reader of the figures must know.

    COUNTER_RESET: a counter began again in the window, the figure is a lower bound. CPU_OFFLINE: a
    guest's CPU is offline and not watched. CPU_GONE: a CPU went offline, its work in the window is
    unknown. CPU_CAME: a CPU came online in the window, and has no figures. SHORT_LIVED: threads
    that began and ended between two looks are not seen. RFS_TOO: the host uses RFS, and the
    counter of RPS has both. NO_SCHEDSTAT: the kernel counts no runs of threads. EVENTS_MISSING:
    this kernel lacks some events. TRACE_FULL: the buffer of a CPU was full before the end, the
    trace ends there. SENDERS_FULL: that of a CPU that sends interrupts was, some are not counted.
    TRACE_UNREAD: lines of the trace were not understood.
    """

    COUNTER_RESET = "counter_reset"
    CPU_OFFLINE = "cpu_offline"
    CPU_GONE = "cpu_gone"
    CPU_CAME = "cpu_came"
    SHORT_LIVED = "short_lived"
    RFS_TOO = "rfs_too"
    NO_SCHEDSTAT = "no_schedstat"
    EVENTS_MISSING = "events_missing"
    TRACE_FULL = "trace_full"
    SENDERS_FULL = "senders_full"
    TRACE_UNREAD = "trace_unread"


@dataclasses.dataclass(frozen=True, slots=True)
class WindowNote:
    """One note; :ivar params: its figures and names, as JSON has them."""

    code: WindowCode
    params: Mapping[str, object] = dataclasses.field(default_factory=dict)


def merged(intrusions: Iterable[Intrusion]) -> list[Intrusion]:
    """Return intrusions with those of one source on the same CPUs added up, sorted."""
    sums: dict[tuple[str, Channel, str, Basis], Intrusion] = {}
    for intrusion in intrusions:
        key = intrusion.cpus, intrusion.channel, intrusion.source, intrusion.basis
        before = sums.get(key)
        if before is None:
            sums[key] = intrusion
        else:
            sums[key] = dataclasses.replace(
                before,
                count=before.count + intrusion.count,
                seconds=_sum(before.seconds, intrusion.seconds),
                seconds_at_most=_sum(before.seconds_at_most, intrusion.seconds_at_most),
                longest_s=_longest(before.longest_s, intrusion.longest_s),
            )
    return sorted(sums.values(), key=_order)


def _sum(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return None
    return first + second


def _longest(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return None
    return max(first, second)


def _order(intrusion: Intrusion) -> tuple[int, float, int, str, str]:
    """Return the place in the table: by CPU, what took the most time first."""
    first_cpu = int(intrusion.cpus.split(",")[0].split("-")[0])
    seconds = intrusion.seconds or intrusion.seconds_at_most or 0.0
    return first_cpu, -seconds, -intrusion.count, intrusion.channel.value, intrusion.source


def totals(intrusions: Iterable[Intrusion], basis: Iterable[Basis]) -> dict[Channel, int]:
    """Return channel -> how often it was seen, of intrusions known in one of these ways."""
    kinds = frozenset(basis)
    counts: dict[Channel, int] = {}
    for intrusion in intrusions:
        if intrusion.basis in kinds:
            counts[intrusion.channel] = counts.get(intrusion.channel, 0) + intrusion.count
    return counts
