# SPDX-License-Identifier: Apache-2.0
"""CPU time of a guest by class since it began, by the threads that the last reading of the host found."""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from nova_perf_tuning import bounded_read
from nova_perf_tuning.host.model import host_model

_CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost")


class GuestTimes(NamedTuple):
    """Times of a guest since it began, in seconds.

    Pool threads come and go between two passes, and so does a migration's. So ``emulator`` is the main thread
    alone, and ``worker`` what the process has used beside the threads that are known, which counts those that
    nobody has seen, and those that have ended: a figure that falls would be taken for a new counter.

    :ivar spent: class -> CPU time. :ivar waited_s: for how long its vCPUs were runnable without a CPU.
    """

    spent: dict[str, float]
    waited_s: float


def read(pid: int, threads: Sequence[host_model.Thread]) -> GuestTimes | None:
    """Return the times of a guest, None when its process has ended; each thread has one file to read."""
    spent_s = dict.fromkeys(_CLASSES, 0.0)
    outside = waited_s = 0.0
    for thread in threads:
        if thread.kind not in spent_s or (thread.kind == "emulator" and thread.tid != pid):
            continue
        ran_s, thread_waited_s = _times_s(pid, thread)
        spent_s[thread.kind] += ran_s
        if thread.kernel:
            outside += ran_s
        if thread.kind == "vcpu":
            waited_s += thread_waited_s
    try:
        if any(
            thread.tid == pid and thread.start != started(f"/proc/{pid}") for thread in threads
        ):
            return None  # another process has its number
        # Last, so that no thread can have more than its process.
        total = process_s(pid) + outside
    except (OSError, IndexError, ValueError):
        return None
    worker = max(0.0, total - sum(spent_s.values()))
    return GuestTimes({**spent_s, "worker": worker}, waited_s)


def process_s(pid: int) -> float:
    """Return the CPU seconds of all threads, living and ended, of a process.

    :raises OSError: there is no such process.
    """
    # clock_getcpuclockid(3) in the kernel's form: inverted process id, CPUCLOCK_SCHED in the low bits
    # (include/linux/posix-timers.h).
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def started(directory: str) -> int:
    """Return when a process or thread began, in clock ticks after boot (proc(5), field 22 of stat).

    :param directory: its directory, /proc/PID or /proc/PID/task/TID.
    :raises OSError: it has ended.
    """
    stat = bounded_read.kernel_bytes(f"{directory}/stat")
    return int(stat.rpartition(b")")[2].split()[19])


def _times_s(pid: int, thread: host_model.Thread) -> tuple[float, float]:
    """Return the time that a thread has run and that it was in the run queue; (0, 0) when it has ended.

    A kernel worker's number may belong to any process since; a thread of the guest's process is one of the guest.
    """
    directory = f"/proc/{thread.tid if thread.kernel else pid}/task/{thread.tid}"
    try:
        if thread.kernel and started(directory) != thread.start:
            return 0.0, 0.0
        ran, waited, _slices = bounded_read.kernel_bytes(f"{directory}/schedstat").split()
        return int(ran) / 1e9, int(waited) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0, 0.0
