# SPDX-License-Identifier: Apache-2.0
"""Reads the kernel's counters of CPUs and of the threads that may run on them."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from nova_perf_tuning import bounded_read, cpulist
from nova_perf_tuning.host.interference import tables

#: Tables of a host with hundreds of CPUs and thousands of interrupts have several megabytes.
_MAX_TABLE: Final = 64 << 20
_MAX_RECORD: Final = 4096
#: A row of /proc/interrupts has 11 bytes for each CPU, which is more than Python's buffer.
_BUFFER: Final = 1 << 16
_INTERRUPTS: Final = "/proc/interrupts"
_SOFTNET: Final = "/proc/net/softnet_stat"
#: PF_KTHREAD of include/linux/sched.h, in the field "flags" of stat.
_PF_KTHREAD: Final = 0x00200000
#: Places of the fields behind the name in /proc/PID/stat (proc(5) counts from 1, the name is 2).
_FLAGS, _UTIME, _STIME, _START, _PROCESSOR = 6, 11, 12, 19, 36
_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(slots=True)
class ThreadReading:
    """A thread at one time.

    :ivar start: in clock ticks after boot: with ``tid`` it names the thread for ever.
    :ivar kernel: whether it is a thread of the kernel.
    :ivar cpu: where it runs or ran last.
    :ivar ran_ns: CPU time; :ivar runs: how often it was given a CPU; None: not counted.
    :ivar waited_ns: time that it was ready to run without a CPU.
    :ivar allowed: the CPUs that it may use.
    """

    tid: int
    pid: int
    start: int
    process: str
    name: str
    kernel: bool
    cpu: int
    ran_ns: int
    waited_ns: int
    runs: int | None
    allowed: frozenset[int]

    @property
    def key(self) -> tuple[int, int]:
        return self.tid, self.start


def read_tables() -> tables.CounterTexts:
    """Return the counters of all CPUs.

    :raises OSError: /proc cannot be read.
    """
    texts: list[str] = []
    for path in (_INTERRUPTS, _SOFTNET, "/proc/softirqs"):
        with open(path, "rb") as file:  # a table of /proc comes in pieces
            texts.append(file.read(_MAX_TABLE).decode("ascii", "replace"))
    return tables.CounterTexts(*texts)


def read_changes(
    changes: tables.CounterChanges, cpus: frozenset[int]
) -> tuple[tables.CounterTables, tables.CounterTables] | None:
    """Read interrupts and packets, and return what :class:`.tables.CounterChanges` says.

    :raises OSError: /proc cannot be read.
    """
    with open(_SOFTNET, "rb") as file:
        softnet = file.read(_MAX_TABLE).decode("ascii", "replace")
    with open(_INTERRUPTS, "rb", _BUFFER) as rows:
        return changes.read(rows, softnet, cpus)


def read_threads(cpus: frozenset[int]) -> Iterator[ThreadReading]:
    """Yield the threads that may run on one of these CPUs, but those that end meanwhile."""
    for pid in _numbers("/proc"):
        process = ""
        for tid in _numbers(f"/proc/{pid}/task"):
            allowed = _allowed(tid)
            if not allowed & cpus:
                continue
            thread = read_thread(pid, tid, allowed)
            if thread is None:
                continue
            if not process:
                process = thread.name
                if tid != pid:
                    process = _name(pid) or process
            thread.process = process
            yield thread


def read_thread(pid: int, tid: int, allowed: frozenset[int]) -> ThreadReading | None:
    """Return a thread, its process named as itself; None when it has ended."""
    directory = f"/proc/{pid}/task/{tid}"
    stat = _record(f"{directory}/stat")
    if stat is None:
        return None
    return parse_thread(pid, tid, allowed, stat, _record(f"{directory}/schedstat") or "")


def parse_thread(
    pid: int, tid: int, allowed: frozenset[int], stat: str, schedstat: str
) -> ThreadReading | None:
    """Return a thread as its files have it; None: they are not of the form that the kernel writes.

    :param schedstat: CPU time, waiting time and runs; empty where the kernel does not count them.
    """
    front, _, rest = stat.rpartition(")")
    fields = rest.split()
    try:
        ticks = int(fields[_UTIME]) + int(fields[_STIME])
        start, cpu = int(fields[_START]), int(fields[_PROCESSOR])
        flags = int(fields[_FLAGS])
    except (ValueError, IndexError):
        return None
    name = front.partition("(")[2]
    ran_ns, waited_ns, runs = ticks * _TICK_NS, 0, None
    counts = schedstat.split()
    # Kernels without these counts write zeros.
    if len(counts) == 3 and all(count.isdigit() for count in counts) and counts[2] != "0":
        ran_ns, waited_ns, runs = int(counts[0]), int(counts[1]), int(counts[2])
    is_kernel = bool(flags & _PF_KTHREAD)
    return ThreadReading(
        tid, pid, start, name, name, is_kernel, cpu, ran_ns, waited_ns, runs, allowed
    )


def preemptions(pid: int, tid: int) -> int | None:
    """Return how often a thread had to leave its CPU; None when it has ended."""
    status = _record(f"/proc/{pid}/task/{tid}/status")
    if status is None:
        return None
    _before, found, rest = status.rpartition("nonvoluntary_ctxt_switches:")
    number = rest.strip()
    if not found or not number.isdecimal():
        return None
    return int(number)


def uses_rfs() -> bool:
    """Whether RFS is on for sockets of this host (Documentation/networking/scaling.rst)."""
    entries = _record("/proc/sys/net/core/rps_sock_flow_entries")
    return entries is not None and entries.strip() not in ("", "0")


def boot_ticks() -> int:
    """Return the time since boot in clock ticks, as start times of threads are."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // _TICK_NS


def online_cpus() -> frozenset[int]:
    """Return the CPUs that are online now."""
    return cpulist.parse(_record("/sys/devices/system/cpu/online") or "")


def _numbers(directory: str) -> list[int]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [int(name) for name in names if name.isdecimal()]


def _name(pid: int) -> str:
    return (_record(f"/proc/{pid}/comm") or "").rstrip("\n")


def _allowed(tid: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(tid))
    except OSError:
        return frozenset()


def _record(path: str) -> str | None:
    try:
        return bounded_read.kernel_bytes(path, limit=_MAX_RECORD).decode("utf-8", "replace")
    except OSError:
        return None


class ThreadWatch:
    """Follows threads through a window by looking at them now and then.

    :ivar first, last: of each thread that was seen, its first and its last reading.
    :ivar seen: thread -> CPU -> number of looks at which it had run since the look before, and
        had run there last.
    """

    def __init__(self, read: Callable[[], Iterator[ThreadReading]], since: int) -> None:
        """:param read: gives all threads that count, see :func:`read_threads`.

        :param since: when the window began, in clock ticks after boot.
        """
        self._read = read
        self._since = since
        self.first: dict[tuple[int, int], ThreadReading] = {}
        self.last: dict[tuple[int, int], ThreadReading] = {}
        self.seen: dict[tuple[int, int], dict[int, int]] = {}

    def look(self) -> None:
        """Read all threads once."""
        for thread in self._read():
            before = self.last.get(thread.key)
            if before is None:
                self._begin(thread)
            elif _has_run(before, thread):
                self._count(thread)
            self.last[thread.key] = thread

    def _begin(self, thread: ThreadReading) -> None:
        if thread.start <= self._since:
            self.first[thread.key] = thread
            return
        # It began within the window, so all that it has done counts.
        begin = dataclasses.replace(thread, ran_ns=0, waited_ns=0)
        if thread.runs is not None:
            begin.runs = 0
        self.first[thread.key] = begin
        if thread.ran_ns:
            self._count(thread)

    def _count(self, thread: ThreadReading) -> None:
        cpus = self.seen.setdefault(thread.key, {})
        cpus[thread.cpu] = cpus.get(thread.cpu, 0) + 1


def _has_run(before: ThreadReading, after: ThreadReading) -> bool:
    return (after.ran_ns, after.runs) != (before.ran_ns, before.runs)
