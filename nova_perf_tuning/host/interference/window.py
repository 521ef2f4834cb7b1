# SPDX-License-Identifier: Apache-2.0
"""What the counters of a window come to: pure functions of its readings."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.interference import attribute, tables
from nova_perf_tuning.host.interference.attribute import Role
from nova_perf_tuning.host.interference.counters import ThreadReading, ThreadWatch
from nova_perf_tuning.host.interference.intrusions import (
    Basis,
    Intrusion,
    WindowCode,
    WindowNote,
)
from nova_perf_tuning.host.interference.tables import CounterTables
from nova_perf_tuning.host.model import host_model, owners
from nova_perf_tuning.host.model.channels import Channel


@dataclasses.dataclass(frozen=True)
class WatchedCpus:
    """The CPUs that are watched, and the guests on them.

    :ivar guests: CPU -> guests that have it for themselves.
    :ivar roles: threads of guests and of the virtual switch -> what they are for.
    :ivar offline: CPUs of guests that are not watched, since they are offline.
    """

    cpus: frozenset[int]
    guests: Mapping[int, frozenset[str]]
    roles: Mapping[int, Role]
    offline: frozenset[int] = frozenset()

    def role(self, thread: ThreadReading) -> Role:
        """Return what a thread is for."""
        known = self.roles.get(thread.tid)
        if known is not None:
            return known
        if thread.kernel:
            return attribute.kernel_thread(thread.name)
        return attribute.user_thread(thread.process, thread.name)


def guest_cpus(guests: Iterable[host_model.GuestProcess]) -> dict[int, frozenset[str]]:
    """Return CPU -> running guests of which a vCPU has it for itself."""
    found: dict[int, frozenset[str]] = {}
    for guest in guests:
        for cpu in owners.running_cpus(guest):
            found[cpu] = found.get(cpu, frozenset()) | {guest.name}
    return found


def roles_of(
    guests: tuple[host_model.GuestProcess, ...], programs: tuple[host_model.ProgramThread, ...]
) -> dict[int, Role]:
    """Return thread -> role of the threads that the facts of the host name."""
    roles: dict[int, Role] = {}
    for program in programs:
        roles[program.tid] = attribute.user_thread(program.program, program.name)
    for guest in guests:
        for thread in guest.threads:
            roles[thread.tid] = attribute.of_guest(thread.kind, thread.index, guest.name)
    return roles


def of_tables(
    before: CounterTables, after: CounterTables
) -> tuple[list[Intrusion], list[WindowNote]]:
    """Return what the tables of a window come to, and what is to be known of it.

    A CPU that was offline at the end has no figures. Of one that came online meanwhile the
    counters of interrupts are those since it was last online, so it has none either.
    """
    notes: list[WindowNote] = []
    for code, cpus in (
        (WindowCode.CPU_GONE, before.cpus - after.cpus),
        (WindowCode.CPU_CAME, after.cpus - before.cpus),
    ):
        if cpus:
            notes.append(WindowNote(code, {"cpus": cpulist.format(cpus)}))
    both = before.cpus & after.cpus
    found: list[Intrusion] = []
    reset: set[str] = set()
    for cpu, channel, source, count in _interrupts(before, after, both, reset):
        found.append(Intrusion(str(cpu), channel, source, count, Basis.COUNTED))
    for cpu, channel, source, count in _softirqs(before, after, both, reset):
        found.append(Intrusion(str(cpu), channel, source, count, Basis.COUNTED))
    if reset:
        notes.append(WindowNote(WindowCode.COUNTER_RESET, {"counters": sorted(reset)}))
    return found, notes


#: Lines of /proc/interrupts: TLB shootdowns, and all functions that other CPUs called.
_SHOOTDOWNS: Final = "TLB"
_CALLS: Final = "CAL"
#: CPU, channel, source, how often.
_Counted = tuple[int, Channel, str, int]


def _interrupts(
    before: CounterTables, after: CounterTables, cpus: frozenset[int], reset: set[str]
) -> Iterator[_Counted]:
    # On x86 a shootdown is a function call too, and counted in both lines.
    shot = _table_growth(before, after, _SHOOTDOWNS)
    for name, (about, counts) in after.interrupts.items():
        known = attribute.interrupt(name, about)
        if known is None:
            continue
        channel, source = known
        _about, old = before.interrupts.get(name, ("", {}))
        for cpu in sorted(cpus.intersection(counts)):
            # An interrupt without a line before was made meanwhile, and began at 0.
            count, again = tables.growth(old.get(cpu, 0), counts[cpu])
            if again:
                reset.add(source)
            if name == _CALLS:
                count = max(0, count - shot.get(cpu, 0))
            if count:
                yield cpu, channel, source, count


def _table_growth(before: CounterTables, after: CounterTables, name: str) -> dict[int, int]:
    """Return CPU -> growth of one line of the interrupts."""
    _about, old = before.interrupts.get(name, ("", {}))
    _about, new = after.interrupts.get(name, ("", {}))
    grown: dict[int, int] = {}
    for cpu, count in new.items():
        grown[cpu], _again = tables.growth(old.get(cpu, 0), count)
    return grown


def _softirqs(
    before: CounterTables, after: CounterTables, cpus: frozenset[int], reset: set[str]
) -> Iterator[_Counted]:
    """Yield the softirqs; of NET_RX those for which another CPU woke this one are RPS."""
    woken: dict[int, int] = {}
    for cpu in sorted(cpus.intersection(after.received_rps, before.received_rps)):
        woken[cpu], again = tables.growth(before.received_rps[cpu], after.received_rps[cpu])
        if again:
            reset.add("received_rps")
        if woken[cpu]:
            yield cpu, Channel.RPS, "packets handed over by other CPUs", woken[cpu]
    for name, (_about, counts) in after.softirqs.items():
        channel, source = attribute.softirq(name)
        _about, old = before.softirqs.get(name, ("", {}))
        for cpu in sorted(cpus.intersection(counts, old)):
            count, again = tables.growth(old[cpu], counts[cpu])
            if again:
                reset.add(source)
            if name == "NET_RX":
                count = max(0, count - woken.get(cpu, 0))
            if count:
                yield cpu, channel, source, count


def of_threads(watch: ThreadWatch, watched: WatchedCpus) -> tuple[list[Intrusion], bool]:
    """Return what threads did on the watched CPUs, and whether runs of some are not counted."""
    found: list[Intrusion] = []
    uncounted = False
    for key, last in watch.last.items():
        first = watch.first[key]
        if first.runs is None and last.runs is None and last.ran_ns:
            uncounted = True
        role = watched.role(last)
        channels: dict[int, Channel] = {}
        for cpu in watched.cpus & (last.allowed | first.allowed):
            channel = attribute.on_cpu(role, cpu, watched.guests)
            if channel is not None:
                channels[cpu] = channel
        found += _of_thread(first, last, role, channels, watch.seen.get(key, {}))
    return found, uncounted


def _of_thread(
    first: ThreadReading,
    last: ThreadReading,
    role: Role,
    channels: Mapping[int, Channel],
    seen: Mapping[int, int],
) -> Iterator[Intrusion]:
    """Yield a thread's intrusions: counted where it may run on these CPUs alone, else sampled."""
    ran_ns = max(0, last.ran_ns - first.ran_ns)
    runs = (last.runs or 0) - (first.runs or 0)
    if not channels or not (ran_ns or runs):
        return
    is_bound = first.allowed == last.allowed and last.allowed <= channels.keys()
    if is_bound and last.runs is not None:
        channel = channels[min(last.allowed)]
        cpus = cpulist.format(last.allowed)
        # One that ran all the time was given the CPU before the window began.
        count = max(1, runs)
        yield Intrusion(cpus, channel, role.source, count, Basis.COUNTED, ran_ns / 1e9)
        return
    for cpu, looks in sorted(seen.items()):
        if cpu in channels:
            yield Intrusion(
                str(cpu),
                channels[cpu],
                role.source,
                looks,
                Basis.SAMPLED,
                seconds_at_most=ran_ns / 1e9,
            )


def bounded(intrusions: Iterable[Intrusion], window_s: float) -> Iterator[Intrusion]:
    """Yield intrusions with times that fit into the window, which each CPU has once.

    Several threads of one source may have used other CPUs as long, and the kernel brings the CPU
    time of a running thread up to date at its tick alone.
    """
    for intrusion in intrusions:
        longest_s = window_s * len(cpulist.parse(intrusion.cpus))
        yield dataclasses.replace(
            intrusion,
            seconds=_at_most(longest_s, intrusion.seconds),
            seconds_at_most=_at_most(longest_s, intrusion.seconds_at_most),
        )


def _at_most(longest_s: float, seconds: float | None) -> float | None:
    if seconds is None:
        return None
    return min(longest_s, seconds)


def losses(
    before: Mapping[int, int | None],
    after: Mapping[int, int | None],
    watch: ThreadWatch,
    guests: tuple[host_model.GuestProcess, ...],
    window_s: float,
) -> list["VcpuWindow"]:
    """Return what the vCPUs of guests lost that were there all the time.

    The kernel counts a wait when it ends, also the part before the window.

    :param before, after: thread -> involuntary context switches.
    """
    readings = {key[0]: key for key in watch.last}
    lost: list[VcpuWindow] = []
    for guest in guests:
        for thread in guest.threads:
            key = readings.get(thread.tid)
            if thread.kind != "vcpu" or key is None:
                continue
            first, last = watch.first[key], watch.last[key]
            waited_s = max(0, last.waited_ns - first.waited_ns) / 1e9
            waited_s = min(window_s, waited_s)
            old, new = before.get(thread.tid), after.get(thread.tid)
            preempted: int | None = None
            if old is not None and new is not None:
                preempted = max(0, new - old)
            cpus = cpulist.format(last.allowed)
            lost.append(VcpuWindow(guest.name, thread.index, cpus, waited_s, preempted))
    return lost


@dataclasses.dataclass(frozen=True, slots=True)
class VcpuWindow:
    """What a vCPU lost in the window.

    :ivar waited_s: time that it was ready to run and had no CPU.
    :ivar preempted: how often it had to leave its CPU to others; None: unknown.
    """

    guest: str
    vcpu: int | None
    cpus: str
    waited_s: float
    preempted: int | None
