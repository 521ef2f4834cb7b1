# SPDX-License-Identifier: Apache-2.0
"""Watches CPUs for a while: reads counters and threads, and traces where that is asked for."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.host.interference import (
    attribute,
    counters,
    events,
    senders,
    trace,
    window,
)
from nova_perf_tuning.host.interference.attribute import Role
from nova_perf_tuning.host.interference.counters import ThreadWatch
from nova_perf_tuning.host.interference.intrusions import (
    Intrusion,
    WindowCode,
    WindowNote,
    merged,
)
from nova_perf_tuning.host.interference.senders import IpiSender
from nova_perf_tuning.host.interference.window import VcpuWindow, WatchedCpus
from nova_perf_tuning.host.model import host_model

#: Threads are looked at this often, and no more than a twentieth of the time is spent on it.
_LOOK_S: Final = 0.5
_LOOK_SHARE: Final = 20
_OWN_NAME: Final = "nova-perf interference (this command)"


class InterferenceError(errors.PerfTuningError):
    """There is no CPU to watch, or one that is named is not online."""


@dataclasses.dataclass(frozen=True)
class Interference:
    """What was seen in a window.

    :ivar cpus: cpulist of the CPUs that were watched; :ivar guests: CPU -> guests that have it.
    :ivar window_s: how long; :ivar traced: whether there was a trace beside the counters.
    :ivar senders: who sent interrupts to these CPUs, by the trace.
    """

    cpus: str
    guests: Mapping[int, frozenset[str]]
    window_s: float
    traced: bool
    intrusions: tuple[Intrusion, ...]
    vcpus: tuple[VcpuWindow, ...]
    notes: tuple[WindowNote, ...]
    senders: tuple[IpiSender, ...] = ()


def watched_cpus(facts: host_model.HostFacts, named: frozenset[int] | None) -> WatchedCpus:
    """Return what is to be watched.

    :param named: the CPUs; None: those of running guests.
    :raises InterferenceError: there are none, or one of them is not online.
    """
    guests = window.guest_cpus(facts.guests)
    cpus, option = named, "--cpus: "
    if cpus is None:
        cpus, option = frozenset(guests), ""
    if not cpus:
        why = "no running guest has a CPU of its own"
        if os.geteuid() != 0:
            why += ", as far as this user may read"
        raise InterferenceError(f"{why}; name the CPUs with --cpus")
    absent = cpus - counters.online_cpus()
    if absent and (named is not None or absent == cpus):
        raise InterferenceError(
            f"{option}{cpulist.named(absent)} not online; name CPUs of "
            f"{cpulist.format(counters.online_cpus())}"
        )
    roles = window.roles_of(facts.guests, facts.programs)
    return WatchedCpus(cpus - absent, guests, roles, absent)


def watch(facts: host_model.HostFacts, watched: WatchedCpus, seconds: float) -> Interference:
    """Watch CPUs by the counters alone.

    :raises OSError: /proc cannot be read.
    """
    return _Window(facts, watched).watch(seconds)


def watch_traced(
    facts: host_model.HostFacts, watched: WatchedCpus, seconds: float
) -> Interference:
    """Watch CPUs by counters and a trace of the same window.

    :raises TraceError: the kernel cannot trace.
    :raises OSError: /proc cannot be read.
    """
    with trace.tracing(watched.cpus) as session:
        current = _Window(facts, watched)
        seen = current.watch(seconds)
        session.stop()
        role = _roles(watched, current.threads)
        traced, notes = _read_trace(session, watched, role)
        sent = senders.of_lines(session.sender_lines(), watched.cpus, role)
    return dataclasses.replace(
        seen,
        traced=True,
        intrusions=seen.intrusions + tuple(merged(traced)),
        senders=tuple(sent),
        notes=seen.notes + tuple(notes),
    )


class _Window:
    """One window of the counters."""

    def __init__(self, facts: host_model.HostFacts, watched: WatchedCpus) -> None:
        self._facts = facts
        roles = {**watched.roles, **_own_threads()}
        self._watched = dataclasses.replace(watched, roles=roles)
        self.threads = ThreadWatch(
            lambda: counters.read_threads(watched.cpus), counters.boot_ticks()
        )

    def watch(self, seconds: float) -> Interference:
        cpus = self._watched.cpus
        begin = time.monotonic()
        preempted = self._preemptions()
        self.threads.look()
        before = counters.read_tables()
        self._look_until(begin + seconds)
        after = counters.read_tables()
        self.threads.look()
        preempted_after = self._preemptions()
        window_s = time.monotonic() - begin
        found, notes = window.of_tables(before.parse(cpus), after.parse(cpus))
        by_threads, uncounted = window.of_threads(self.threads, self._watched)
        notes.append(WindowNote(WindowCode.SHORT_LIVED))
        if self._watched.offline:
            offline = {"cpus": cpulist.format(self._watched.offline)}
            notes.append(WindowNote(WindowCode.CPU_OFFLINE, offline))
        if uncounted:
            notes.append(WindowNote(WindowCode.NO_SCHEDSTAT))
        if counters.uses_rfs():
            notes.append(WindowNote(WindowCode.RFS_TOO))
        vcpus = window.losses(
            preempted, preempted_after, self.threads, self._facts.guests, window_s
        )
        intrusions = window.bounded(merged([*found, *by_threads]), window_s)
        return Interference(
            cpulist.format(cpus),
            {cpu: self._watched.guests[cpu] for cpu in sorted(cpus & self._watched.guests.keys())},
            window_s,
            False,
            tuple(intrusions),
            tuple(vcpus),
            tuple(notes),
        )

    def _look_until(self, end: float) -> None:
        pause = _LOOK_S
        while True:
            left = end - time.monotonic()
            if left <= pause:
                time.sleep(max(0.0, left))
                return
            time.sleep(pause)
            begin = time.monotonic()
            self.threads.look()
            pause = max(_LOOK_S, (time.monotonic() - begin) * _LOOK_SHARE)

    def _preemptions(self) -> dict[int, int | None]:
        counts: dict[int, int | None] = {}
        for guest in self._facts.guests:
            for thread in guest.threads:
                if thread.kind == "vcpu":
                    counts[thread.tid] = counters.preemptions(guest.pid, thread.tid)
        return counts


def _own_threads() -> dict[int, Role]:
    """Return the roles of this process's threads: the command itself may be the intruder."""
    role = Role(attribute.user_thread("", "").channel, _OWN_NAME)
    return {int(tid): role for tid in os.listdir("/proc/self/task")}


def _roles(watched: WatchedCpus, threads: ThreadWatch) -> Callable[[int, str], Role]:
    """Return what says what a thread is for by its id, else by the name that the trace has."""
    roles = dict(watched.roles)
    for thread in threads.last.values():
        roles.setdefault(thread.tid, watched.role(thread))
    roles.update(_own_threads())

    def role(tid: int, name: str) -> Role:
        return roles.get(tid) or attribute.unknown_thread(name)

    return role


def _read_trace(
    session: trace.TraceSession, watched: WatchedCpus, role: Callable[[int, str], Role]
) -> tuple[list[Intrusion], list[WindowNote]]:
    found: list[Intrusion] = []
    notes: list[WindowNote] = []
    unread = 0

    def count_unread() -> None:
        nonlocal unread
        unread += 1

    for cpu in sorted(watched.cpus):
        one = events.CpuTrace(cpu, session.begin_s, role, watched.guests)
        last_s = session.begin_s
        for event in events.parse_events(session.lines(cpu), count_unread):
            one.feed(event)
            last_s = event.time_s
        dropped = session.dropped(cpu)
        end_s = session.end_s
        if dropped:
            end_s = last_s
            seconds = round(last_s - session.begin_s, 3)
            params = {"cpu": cpu, "seconds": seconds, "dropped": dropped}
            notes.append(WindowNote(WindowCode.TRACE_FULL, params))
        found += one.end(end_s)
        unread += one.misfits
    senders_dropped = session.senders_dropped()
    if senders_dropped:
        notes.append(WindowNote(WindowCode.SENDERS_FULL, {"dropped": senders_dropped}))
    if session.missing:
        notes.append(WindowNote(WindowCode.EVENTS_MISSING, {"events": session.missing}))
    if unread:
        notes.append(WindowNote(WindowCode.TRACE_UNREAD, {"lines": unread}))
    return found, notes
