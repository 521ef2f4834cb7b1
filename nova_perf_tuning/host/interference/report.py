# SPDX-License-Identifier: Apache-2.0
"""What was seen on guests' CPUs as a document, and the English of its notes."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning.host.interference.intrusions import (
    Basis,
    Intrusion,
    WindowCode,
    WindowNote,
    totals,
)
from nova_perf_tuning.host.interference.measure import Interference
from nova_perf_tuning.host.interference.window import VcpuWindow
from nova_perf_tuning.printing import counted

#: The text of each code; the names in braces are the parameters of its notes.
TEXTS: Final[Mapping[WindowCode, str]] = {
    WindowCode.COUNTER_RESET: "these counters restarted in the window, so they are lower bounds: {counters}",
    WindowCode.CPU_OFFLINE: "offline CPUs of guests are not watched: {cpus}",
    WindowCode.CPU_GONE: "offline at the end of the window, interrupts unknown: CPUs {cpus}",
    WindowCode.CPU_CAME: "offline at the start of the window, interrupts unknown: CPUs {cpus}",
    WindowCode.SHORT_LIVED: (
        "sampled counts are lower bounds, and threads that live less than half a second may be "
        "missing; --trace sees them all"
    ),
    WindowCode.RFS_TOO: "RFS is on: the kernel counts its packets as those of RPS",
    WindowCode.NO_SCHEDSTAT: "this kernel does not count how often threads run: all are sampled",
    WindowCode.EVENTS_MISSING: "this kernel lacks these events, so their work is not traced: {events}",
    WindowCode.TRACE_FULL: (
        "CPU {cpu}: the trace was full after {seconds} s, and {dropped} later events are missing"
    ),
    WindowCode.SENDERS_FULL: "the trace of senders was full, and {dropped} interrupts are missing",
    WindowCode.TRACE_UNREAD: "lines of the trace that have no start or were not understood: {lines}",
}


def text(note: WindowNote) -> str:
    """Return a note as a line for people."""
    shown: dict[str, object] = {}
    for name, value in note.params.items():
        if isinstance(value, list):
            value = ", ".join(value)
        shown[name] = value
    return TEXTS[note.code].format(**shown)


def as_json(seen: Interference) -> dict[str, Any]:
    """Return what was seen in the documented form (``host/interference/report.schema.json``)."""
    notes: list[dict[str, object]] = []
    for note in seen.notes:
        notes.append({"code": note.code.value, "params": dict(note.params), "text": text(note)})
    return {
        "schema": 1,
        "cpus": seen.cpus,
        "guests": {str(cpu): sorted(names) for cpu, names in seen.guests.items()},
        "window_s": round(seen.window_s, 3),
        "traced": seen.traced,
        "channels": _channels(seen),
        "intrusions": [_intrusion(intrusion) for intrusion in seen.intrusions],
        "senders": [dataclasses.asdict(sender) for sender in seen.senders],
        "vcpus": [_vcpu(vcpu) for vcpu in seen.vcpus],
        "notes": notes,
    }


def _channels(seen: Interference) -> dict[str, dict[str, int | bool | None]]:
    """Return channel -> how often, by counters and by the trace; null without a trace."""
    sampled = totals(seen.intrusions, (Basis.SAMPLED,))
    by_counters = totals(seen.intrusions, (Basis.COUNTED, Basis.SAMPLED))
    by_trace = totals(seen.intrusions, (Basis.TRACED,))
    channels: dict[str, dict[str, int | bool | None]] = {}
    for channel in sorted(by_counters.keys() | by_trace.keys()):
        traced: int | None = None
        if seen.traced:
            traced = by_trace.get(channel, 0)
        channels[channel.value] = {
            "counters": by_counters.get(channel, 0),
            "lower_bound": channel in sampled,
            "trace": traced,
        }
    return channels


def _intrusion(intrusion: Intrusion) -> dict[str, object]:
    return {
        "cpus": intrusion.cpus,
        "channel": intrusion.channel.value,
        "source": intrusion.source,
        "count": intrusion.count,
        "seconds": _rounded(intrusion.seconds),
        "seconds_at_most": _rounded(intrusion.seconds_at_most),
        "longest_s": _rounded(intrusion.longest_s),
        "basis": intrusion.basis.value,
    }


def _vcpu(vcpu: VcpuWindow) -> dict[str, object]:
    return {
        "guest": vcpu.guest,
        "vcpu": vcpu.vcpu,
        "cpus": vcpu.cpus,
        "waited_s": _rounded(vcpu.waited_s),
        "preempted": vcpu.preempted,
    }


def _rounded(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    return round(seconds, 6)


def rows(seen: Interference, basis: tuple[Basis, ...]) -> list[tuple[object, ...]]:
    """Return the rows of the table of intrusions that are known in one of these ways."""
    table: list[tuple[object, ...]] = []
    for intrusion in seen.intrusions:
        if intrusion.basis not in basis:
            continue
        count = str(intrusion.count)
        if intrusion.basis is Basis.SAMPLED:
            count = f">= {count}"
        row = (
            intrusion.cpus,
            intrusion.channel.value,
            count,
            _time(intrusion),
            _longest(intrusion),
            _known(intrusion),
            intrusion.source,
        )
        table.append(row)
    return table


#: Head of :func:`rows`.
HEAD: Final = ("CPUs", "channel", "times", "CPU ms", "longest us", "known by", "source")
_KNOWN: Final = {
    Basis.COUNTED: "counted",
    Basis.SAMPLED: "sampled, lower bound",
    Basis.TRACED: "traced",
}


def _known(intrusion: Intrusion) -> str:
    return _KNOWN[intrusion.basis]


def _time(intrusion: Intrusion) -> str | None:
    if intrusion.seconds is not None:
        return f"{intrusion.seconds * 1e3:.3f}"
    if intrusion.seconds_at_most is not None:
        return f"<= {intrusion.seconds_at_most * 1e3:.3f}"
    return None


def _longest(intrusion: Intrusion) -> str | None:
    if intrusion.longest_s is None:
        return None
    return f"{intrusion.longest_s * 1e6:.0f}"


def summary(seen: Interference) -> str:
    """Return what was watched, in one line."""
    names: set[str] = set()
    for guests in seen.guests.values():
        names |= guests
    line = f"CPUs {seen.cpus}, {seen.window_s:.1f} s"
    if names:
        line += f", {counted(len(names), 'guest')}"
    return line
