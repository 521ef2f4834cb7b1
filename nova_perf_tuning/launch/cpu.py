"""CPU time of a guest by class, from outside: QEMU's process, its threads and kernel vhost workers.

Everything is read from /proc in one pass (libvirt's domain statistics are the same counters, one call later and
with cpu.time of some set-ups taken from a cgroup that has other threads in it):

* the whole process by its CPU clock, in nanoseconds, threads that have ended included;
* each thread by ``schedstat``: time on a CPU and time in the run queue, in nanoseconds. Of a thread that is
  running it lags by up to one scheduler tick (4 ms at 250 Hz).

vhost workers are threads of QEMU since Linux 6.4 and then lie in the process's time; kernel threads of the
same name, before that, are added to it. Either way each counts once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from nova_perf_tuning.host import model

_CLASSES = ("vcpu", "emulator", "iothread", "vhost")


def process_clock_s(pid: int) -> float:
    """Return the CPU seconds of all threads, living and ended, of a process.

    :raises OSError: there is no such process.
    """
    # clock_getcpuclockid(3) in the kernel's form: inverted process id, CPUCLOCK_SCHED in the low bits
    # (include/linux/posix-timers.h).
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def thread_times_s(tid: int) -> tuple[float, float]:
    """Return CPU seconds and seconds in the run queue of one thread, (0, 0) when it has ended."""
    try:
        with open(f"/proc/{tid}/schedstat", encoding="ascii") as file:
            on_cpu, waiting, _slices = file.read(128).split()
    except OSError:
        return 0.0, 0.0
    return int(on_cpu) / 1e9, int(waiting) / 1e9


def read(pid: int, threads: Iterable[model.Thread]) -> dict[str, float]:
    """Return what :meth:`nova_perf_tuning.launch.base.Machine.counter` reads.

    ``worker`` is what is left of the process beside the other classes: pool threads come and go, so only
    the difference counts those that have ended.

    :raises OSError: the process is gone.
    """
    spent = dict.fromkeys(_CLASSES, 0.0)
    wait = outside = 0.0
    for thread in threads:
        if thread.kind not in spent:
            continue
        on_cpu, waiting = thread_times_s(thread.tid)
        spent[thread.kind] += on_cpu
        if thread.kind == "vcpu":
            wait += waiting
        if thread.kernel:
            outside += on_cpu
    # Last, so that no thread can have more than its process.
    total = process_clock_s(pid) + outside
    spent["worker"] = max(0.0, total - sum(spent.values()))
    spent["total"] = total
    spent["wait_s"] = wait
    return spent
