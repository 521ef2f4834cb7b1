# SPDX-License-Identifier: Apache-2.0
"""The masks of this machine that the benchmark may change, and the time that its hypervisor took."""

import glob
import os
import pathlib
from typing import Any, Final, NamedTuple

#: Masks of interrupts, of unbound work, and of RPS; those of single interrupts come first.
_INTERRUPTS = "/proc/irq/[0-9]*/smp_affinity"
_MASKS = (
    _INTERRUPTS,
    "/proc/irq/default_smp_affinity",
    "/sys/devices/virtual/workqueue/cpumask*",
    "/sys/devices/virtual/workqueue/*/cpumask",
    "/sys/class/net/*/queues/rx-*/rps_cpus",
    "/proc/sys/net/core/rps_default_mask",
)
#: Parent of all threads of the kernel.
_KTHREADD = 2
_STEAL = 8
#: Columns of a CPU in /proc/net/softnet_stat, from 0 (net/core/net-procfs.c).
_PROCESSED, _RECEIVED_RPS, _CPU = 0, 9, 12


def masks() -> dict[str, str]:
    """Return path -> text of every mask."""
    found = {}
    for pattern in _MASKS:
        for path in glob.glob(pattern):
            found[path] = pathlib.Path(path).read_text().strip()
    return found


def kernel_threads() -> dict[str, str]:
    """Return a thread of the kernel, with its start time -> the CPUs that it may use."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
            status = pathlib.Path(f"/proc/{entry}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = stat.rpartition(")")[2].split()
        if int(fields[1]) == _KTHREADD:
            name = stat.partition("(")[2].rpartition(")")[0].partition("/")[0]
            allowed = status.partition("Cpus_allowed_list:")[2].split()[0]
            found[f"thread {entry} {name} {fields[19]}"] = allowed
    return found


def state() -> dict[str, str]:
    """Return every mask, the threads of the kernel, and the block devices that are files."""
    found = {**masks(), **kernel_threads()}
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


def put_interrupts_back(before: dict[str, tuple[str, str]]) -> int:
    """Put back the interrupts that another program has moved, and return how many there were."""
    moved = 0
    for directory, now in interrupts().items():
        if directory not in before or now == before[directory]:
            continue
        moved += 1
        mask, effective = before[directory]
        # The kernel leaves an interrupt where it is while the mask allows it.
        for text in (effective, mask):
            pathlib.Path(directory, "smp_affinity").write_text(text)
    return moved


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
