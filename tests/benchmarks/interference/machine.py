# SPDX-License-Identifier: Apache-2.0
"""The masks of this machine that the benchmark may change, and the time that its hypervisor took."""

import glob
import os
import pathlib

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


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return what is not as it was; threads of the kernel come and go."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        if name.startswith("thread ") and not (name in before and name in after):
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


def run_delay_ns(pid: int, tid: int) -> int:
    """Return how long a thread has waited for its CPU."""
    return int(pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[1])
