# SPDX-License-Identifier: Apache-2.0
"""What the benchmark may change on this machine, and the time that its hypervisor took."""

import glob
import os
import pathlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

#: Masks of interrupts, of unbound work, and of RPS; those of single interrupts come first.
_INTERRUPTS = "/proc/irq/[0-9]*/smp_affinity"
_WORKQUEUES = (
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/*/cpumask",
)
_MASKS = (
    _INTERRUPTS,
    "/proc/irq/default_smp_affinity",
    "/sys/devices/virtual/workqueue/cpumask_*",
    *_WORKQUEUES,
    "/sys/class/net/*/queues/rx-*/rps_cpus",
    "/proc/sys/net/core/rps_default_mask",
)
#: What TuneD's profile cpu-partitioning writes beside masks, with the profiles that it includes (TuneD 2.25.1).
_SETTINGS = (
    "/proc/irq/default_smp_affinity",
    "/proc/sys/kernel/hung_task_timeout_secs",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/timer_migration",
    "/proc/sys/net/core/busy_*",
    "/proc/sys/net/ipv4/tcp_fastopen",
    "/proc/sys/vm/dirty_*ratio",
    "/proc/sys/vm/stat_interval",
    "/proc/sys/vm/swappiness",
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/energy_performance_preference",
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu[0-9]*/power/energy_perf_bias",
    "/sys/devices/system/cpu/intel_pstate/*_perf_pct",
    "/sys/devices/system/machinecheck/machinecheck*/ignore_ce",
    "/sys/firmware/acpi/platform_profile",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/mm/transparent_hugepage/enabled",
)
#: Parent of all threads of the kernel.
_KTHREADD = 2
_STEAL = 8
#: Columns of a CPU in /proc/net/softnet_stat, from 0 (net/core/net-procfs.c).
_PROCESSED, _RECEIVED_RPS, _CPU = 0, 9, 12


def _texts(patterns: Iterable[str]) -> dict[str, str]:
    """Return path -> text of files; one of several words in turn has the chosen one in brackets."""
    found = {}
    for pattern in patterns:
        for path in glob.glob(pattern):
            text = pathlib.Path(path).read_text().strip()
            found[path] = text.partition("[")[2].partition("]")[0] or text
    return found


def workqueues() -> dict[str, str]:
    """Return path -> text of the masks of unbound work that can be written, that of all work first."""
    return _texts(_WORKQUEUES)


def settings() -> dict[str, str]:
    """Return path -> text of what TuneD writes beside masks."""
    return _texts(_SETTINGS)


class Thread(NamedTuple):
    """A thread of the machine.

    :ivar tid: its number; :ivar start: when it began, in ticks since boot; both name it for good.
    :ivar process: number of its process; :ivar parent: of its process's parent.
    :ivar name: of kernel threads without what it works on; :ivar allowed: list of the CPUs that it may use.
    """

    tid: int
    start: int
    process: int
    parent: int
    name: str
    allowed: str


def threads() -> dict[tuple[int, int], Thread]:
    """Return all threads by number and start, in order of their starts."""
    found = []
    for path in glob.glob("/proc/[0-9]*/task/[0-9]*"):
        try:
            stat = pathlib.Path(path, "stat").read_text()
            status = pathlib.Path(path, "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = stat.rpartition(")")[2].split()
        parent, start = int(fields[1]), int(fields[19])
        name = stat.partition("(")[2].rpartition(")")[0].partition("/")[0]
        allowed = status.partition("Cpus_allowed_list:")[2].split()[0]
        process, tid = int(path.split("/")[2]), int(path.split("/")[4])
        found.append(Thread(tid, start, process, parent, name, allowed))
    found.sort(key=lambda thread: (thread.start, thread.tid))
    return {(thread.tid, thread.start): thread for thread in found}


def _named(thread: Thread) -> str:
    return f"thread {thread.tid} {thread.name} {thread.start}"


def kernel_threads() -> dict[str, str]:
    """Return a thread of the kernel, with its start time -> the CPUs that it may use."""
    found = {}
    for thread in threads().values():
        if thread.parent == _KTHREADD:
            found[_named(thread)] = thread.allowed
    return found


def other_threads() -> dict[str, str]:
    """Return every other thread as :func:`kernel_threads` does: on a machine with other work it may move itself."""
    found = {}
    for thread in threads().values():
        if thread.parent != _KTHREADD:
            found[_named(thread)] = thread.allowed
    return found


def state() -> dict[str, str]:
    """Return every mask and setting, the threads of the kernel, and the block devices that are files."""
    found = {**_texts(_MASKS), **settings(), **kernel_threads()}
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        found[path] = pathlib.Path(path).read_text().strip()
    return found


#: What comes and goes without the benchmark.
_PASSING: Final = ("thread ", "/sys/class/net/")


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return what is not as it was; threads of the kernel, and devices with their queues, come and go."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        is_lasting = name in before and name in after
        if name.startswith(_PASSING) and not is_lasting:
            continue
        found.append(f"{name}: {before.get(name)} before, {after.get(name)} after")
    return found


def interrupts() -> dict[str, tuple[str, str]]:
    """Return directory of an interrupt -> its mask, and the CPU that takes it."""
    found = {}
    for path in glob.glob(_INTERRUPTS):
        directory = os.path.dirname(path)
        mask = pathlib.Path(path).read_text().strip()
        effective = pathlib.Path(directory, "effective_affinity").read_text().strip()
        found[directory] = (mask, effective)
    return found


def moved_interrupts(before: dict[str, tuple[str, str]]) -> list[str]:
    """Return the directories of the interrupts that are not as they were."""
    found = []
    for directory, now in interrupts().items():
        if directory in before and now != before[directory]:
            found.append(directory)
    return found


def put_interrupts_back(before: dict[str, tuple[str, str]]) -> int:
    """Put back the interrupts that another program has moved, and return how many there were."""
    moved = moved_interrupts(before)
    for directory in moved:
        mask, effective = before[directory]
        # The kernel leaves an interrupt where it is while the mask allows it.
        for text in (effective, mask):
            pathlib.Path(directory, "smp_affinity").write_text(text)
    return len(moved)


def put_files_back(before: dict[str, str]) -> int:
    """Write what another program has changed, and return how many files that were."""
    now = _texts(before)
    changed = [path for path, text in before.items() if now.get(path, text) != text]
    for path in changed:
        pathlib.Path(path).write_text(before[path])
    return len(changed)


def put_threads_back(before: dict[tuple[int, int], Thread], only_cpu: str) -> int:
    """Move threads back that another program has moved to one CPU, and return how many they were.

    A thread that has begun since then has the CPUs of its parent, which was moved.
    """
    moved = 0
    allowed: dict[int, str] = {}
    for key, thread in threads().items():
        above = thread.parent
        if thread.tid != thread.process:
            above = thread.process
        wanted = thread.allowed
        if thread.allowed == only_cpu:
            wanted = allowed.get(above, only_cpu)
        if key in before and thread.allowed == only_cpu:
            wanted = before[key].allowed
        if wanted != thread.allowed:
            try:
                os.sched_setaffinity(thread.tid, _cpus(wanted))
                moved += 1
            except (OSError, ProcessLookupError):  # workers of the kernel follow their masks
                wanted = thread.allowed
        allowed[thread.tid] = wanted
    return moved


def _cpus(text: str) -> set[int]:
    """Return the CPUs of the kernel's list format."""
    found: set[int] = set()
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def stolen_ticks() -> dict[str, int]:
    """Return CPU -> ticks of which its hypervisor gave it none, since boot (proc(5), steal)."""
    found = {}
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            found[name] = int(fields[_STEAL - 1])
    return found


def _schedstat(pid: int, tid: int) -> list[int]:
    """Return for how many ns a thread has run, and for how many it has waited for its CPU."""
    text = pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text()
    return [int(field) for field in text.split()[:2]]


def softnet(text: str, cpu: int) -> tuple[int, int]:
    """Return how many packets a CPU has worked on, and how often RPS has interrupted it for some."""
    for line in text.splitlines():
        fields = [int(field, 16) for field in line.split()]
        if fields[_CPU] == cpu:
            return fields[_PROCESSED], fields[_RECEIVED_RPS]
    raise RuntimeError(f"/proc/net/softnet_stat has no CPU {cpu}")


class Counters(NamedTuple):
    """What the kernel has counted up to now.

    :ivar stolen: as of :func:`stolen_ticks`; :ivar waited_ns: of the vCPU for its CPU.
    :ivar emulator_ns: time for which the emulator thread ran.
    :ivar packets: that the guest's CPU has worked on; :ivar rps: interrupts by which RPS sent it some.
    """

    stolen: dict[str, int]
    waited_ns: int
    emulator_ns: int
    packets: int
    rps: int


def counters(pid: int, vcpu: int, cpu: int) -> Counters:
    """Return what is counted of a guest, whose emulator thread is its process's first, and its CPU."""
    _ran, waited = _schedstat(pid, vcpu)
    ran, _waited = _schedstat(pid, pid)
    packets = softnet(pathlib.Path("/proc/net/softnet_stat").read_text(), cpu)
    return Counters(stolen_ticks(), waited, ran, *packets)


def rates(before: Counters, after: Counters, elapsed_s: float) -> dict[str, Any]:
    """Return the figures of a round that come from counters; counters of packets have 32 bits."""
    ticks = os.sysconf("SC_CLK_TCK") * elapsed_s
    steal = {}
    for cpu, count in after.stolen.items():
        steal[cpu] = round((count - before.stolen[cpu]) / ticks, 4)
    packets = (after.packets - before.packets) % 2**32
    interrupts_of_rps = (after.rps - before.rps) % 2**32
    return {
        "vcpu_wait": round((after.waited_ns - before.waited_ns) / 1e9 / elapsed_s, 4),
        "emulator_busy": round((after.emulator_ns - before.emulator_ns) / 1e9 / elapsed_s, 4),
        "cpu1_packets_per_s": round(packets / elapsed_s, 1),
        "cpu1_rps_per_s": round(interrupts_of_rps / elapsed_s, 1),
        "steal": steal,
    }
