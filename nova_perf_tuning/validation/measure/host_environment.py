# SPDX-License-Identifier: Apache-2.0
"""What this host tells of itself: hardware and versions once, its circumstances around every trial.

Conditions that a host cannot tell are missing; ``judge/guards`` decides what they are worth.
"""

import os
import pathlib
import platform
import re
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import NamedTuple

import psutil

from nova_perf_tuning.host.facts import reader, root
from nova_perf_tuning.validation.environment import Environment

_STAT = re.compile(r"^cpu([0-9]+) +" + " ".join(["([0-9]+)"] * 8), re.MULTILINE)


def read() -> Environment:
    """Return CPU model, CPU count, memory in MiB, kernel, load and versions of this host and this program."""
    model = re.search(r"^model name\s*:\s*(.+)$", _text(pathlib.Path("/proc/cpuinfo")), re.MULTILINE)
    return Environment(
        host=platform.node(),
        cpu_model=model[1].strip() if model else platform.machine(),
        cpus=psutil.cpu_count() or 0,
        memory_mib=psutil.virtual_memory().total >> 20,
        kernel=platform.release(),
        vhost_mode=reader.read_vhost_mode(root.Root(), platform.release()) or "",
        load_at_start=round(os.getloadavg()[0], 2),
        python=platform.python_version(),
        nova_perf_tuning=metadata.version("nova-perf-tuning"),
    )


class Ticks(NamedTuple):
    """Clock ticks of a CPU since boot, in the order of /proc/stat."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int

    @property
    def busy(self) -> int:
        return self.user + self.nice + self.system + self.irq + self.softirq

    def since(self, before: "Ticks") -> "Ticks":
        """Return what was added; a counter that went back, as of a CPU that was offline, has added nothing."""
        return Ticks(*(max(0, now - then) for now, then in zip(self, before, strict=True)))


class Circumstances(NamedTuple):
    """What :func:`look` saw at one moment.

    :ivar counters: condition -> the counter whose growth it is; missing where this host does not tell it.
    """

    stat: Mapping[int, Ticks]
    counters: Mapping[str, float]
    max_mhz: list[float]


def look(interface: str | None = None, root: str = "/") -> Circumstances:
    """Look at this host's circumstances.

    :param interface: host side of the sending machine's NIC (its tap), None if it has none of its own.
    :param root: directory that /proc and /sys are read below.
    """
    devices = pathlib.Path(root, "sys/devices/system")
    counters = {"clock_step_s": time.time() - time.monotonic()}
    if throttled := list(_numbers(devices, "cpu/cpu[0-9]*/thermal_throttle/*_throttle_count")):
        counters["throttle_events"] = sum(throttled)
    # What a guest sends its tap receives.
    for condition, name in (("sender_packets", "rx_packets"), ("sender_dropped", "rx_dropped")):
        for number in _numbers(pathlib.Path(root, "sys/class/net"), f"{interface}/statistics/{name}"):
            counters[condition] = number
    limits = [khz / 1000 for khz in _numbers(devices, "cpu/cpufreq/policy*/scaling_max_freq") if khz]
    return Circumstances(_stat(root), counters, limits)


def mhz_by_cpu(root: str = "/") -> dict[str, float]:
    """Return CPU -> frequency in MHz at this moment, of those that tell it."""
    files = pathlib.Path(root, "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    return {path.parts[-3].removeprefix("cpu"): khz / 1000 for path in files if (khz := _number(path)) is not None}


def conditions(
    before: Circumstances, after: Circumstances, mhz: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the conditions of the window between two looks.

    :param mhz: CPU -> mean frequency while work was done. On a large host most of them rest, so that those count
        that were at least half as busy as the busiest.
    """
    first = before.counters
    measured = {name: now - first[name] for name, now in after.counters.items() if name in first}
    spent = {cpu: now.since(before.stat[cpu]) for cpu, now in after.stat.items() if cpu in before.stat}
    if window := max(map(sum, spent.values()), default=0):
        # Of the time that CPUs were wanted.
        stolen = sum(times.steal for times in spent.values())
        measured["steal_share"] = stolen / max(window, stolen + sum(times.busy for times in spent.values()))
    busy = {str(cpu): times.busy for cpu, times in spent.items()}
    least = max(1, max(busy.values(), default=0) / 2)
    if seen := [value for cpu, value in (mhz or {}).items() if busy.get(cpu, 0) >= least]:
        measured["busy_mhz"] = sum(seen) / len(seen)
    if after.max_mhz:
        measured["max_mhz"] = sum(after.max_mhz) / len(after.max_mhz)
    return {name: round(float(value), 6) for name, value in sorted(measured.items())}


def softirq_by_cpu() -> dict[int, float]:
    """Return CPU -> seconds it has spent in interrupts and softirqs since boot.

    They belong to no process, or are booked on whatever ran at that moment (``CONFIG_IRQ_TIME_ACCOUNTING``
    decides), so they are never added to a process's time.
    """
    hertz = os.sysconf("SC_CLK_TCK")
    return {cpu: (times.irq + times.softirq) / hertz for cpu, times in _stat("/").items()}


def busy_by_cpu() -> dict[str, float]:
    """Return CPU -> seconds that it has been busy since boot, with whatever."""
    hertz = os.sysconf("SC_CLK_TCK")
    return {str(cpu): times.busy / hertz for cpu, times in _stat("/").items()}


def idle_softirq() -> float:
    """Watch this host do nothing and return its CPU seconds of interrupts and softirqs per second."""
    before, begun = softirq_by_cpu(), time.monotonic()
    time.sleep(0.5)
    after = softirq_by_cpu()
    return sum(after[cpu] - before[cpu] for cpu in before.keys() & after.keys()) / (time.monotonic() - begun)


def _stat(root: str) -> dict[int, Ticks]:
    text = _text(pathlib.Path(root, "proc/stat"))
    return {int(match[1]): Ticks(*map(int, match.groups()[1:])) for match in _STAT.finditer(text)}


def _numbers(directory: pathlib.Path, pattern: str) -> Iterator[int]:
    return (number for path in directory.glob(pattern) if (number := _number(path)) is not None)


def _number(path: pathlib.Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
