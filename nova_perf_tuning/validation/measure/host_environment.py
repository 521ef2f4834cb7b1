# SPDX-License-Identifier: Apache-2.0
"""Reads what is known of this host: hardware and versions once, conditions around every trial.

Conditions that a host does not report are missing. The guards of ``judge/trial_filter`` decide
which trials they exclude.
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

from nova_perf_tuning.host.input.facts import reader, root
from nova_perf_tuning.validation.results.environment import Environment

_STAT = re.compile(r"^cpu([0-9]+) +" + " ".join(["([0-9]+)"] * 8), re.MULTILINE)


def read() -> Environment:
    """Return CPU model, CPU count, memory in MiB, kernel, load and versions of this host and this program."""
    cpu_model = platform.machine()
    named = re.search(
        r"^model name\s*:\s*(.+)$", _text(pathlib.Path("/proc/cpuinfo")), re.MULTILINE
    )
    if named is not None:
        cpu_model = named[1].strip()
    return Environment(
        host=platform.node(),
        cpu_model=cpu_model,
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

    :ivar counters: condition -> the counter whose growth it is; missing where this host does not
        tell it.
    """

    stat: Mapping[int, Ticks]
    counters: Mapping[str, float]
    max_mhz: list[float]


def look(interface: str | None = None, root: str = "/") -> Circumstances:
    """Look at this host's circumstances.

    :param interface: host side of the sending machine's NIC (its tap), None if it has none of its
        own.
    :param root: directory that /proc and /sys are read below.
    """
    devices = pathlib.Path(root, "sys/devices/system")
    counters = {"clock_step_s": time.time() - time.monotonic()}
    throttled = list(_numbers(devices, "cpu/cpu[0-9]*/thermal_throttle/*_throttle_count"))
    if throttled:
        counters["throttle_events"] = sum(throttled)
    # What a guest sends its tap receives.
    for condition, name in (("sender_packets", "rx_packets"), ("sender_dropped", "rx_dropped")):
        for number in _numbers(
            pathlib.Path(root, "sys/class/net"), f"{interface}/statistics/{name}"
        ):
            counters[condition] = number
    limits = [
        khz / 1000 for khz in _numbers(devices, "cpu/cpufreq/policy*/scaling_max_freq") if khz
    ]
    return Circumstances(_stat(root), counters, limits)


def mhz_by_cpu(root: str = "/") -> dict[str, float]:
    """Return CPU -> frequency in MHz at this moment, of those that tell it."""
    frequencies = {}
    directory = pathlib.Path(root, "sys/devices/system/cpu")
    for path in directory.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
        khz = _number(path)
        if khz is not None:
            frequencies[path.parts[-3].removeprefix("cpu")] = khz / 1000
    return frequencies


def conditions(
    before: Circumstances, after: Circumstances, mhz: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the conditions of the window between two looks.

    :param mhz: CPU -> mean frequency while work was done. On a large host most of them rest, so
        that those count that were at least half as busy as the busiest.
    """
    measured: dict[str, float] = {}
    for name, counter in after.counters.items():
        if name in before.counters:
            measured[name] = counter - before.counters[name]
    spent: dict[int, Ticks] = {}
    for cpu, ticks in after.stat.items():
        if cpu in before.stat:
            spent[cpu] = ticks.since(before.stat[cpu])
    window = max(map(sum, spent.values()), default=0)
    if window:
        # Of the time that CPUs were wanted.
        stolen = sum(ticks.steal for ticks in spent.values())
        busy = sum(ticks.busy for ticks in spent.values())
        measured["steal_share"] = stolen / max(window, stolen + busy)
    seen = _busy_mhz(spent, mhz or {})
    if seen:
        measured["busy_mhz"] = sum(seen) / len(seen)
    if after.max_mhz:
        measured["max_mhz"] = sum(after.max_mhz) / len(after.max_mhz)
    return {name: round(float(value), 6) for name, value in sorted(measured.items())}


def _busy_mhz(spent: Mapping[int, Ticks], mhz: Mapping[str, float]) -> list[float]:
    """Return the frequencies of the CPUs that were at least half as busy as the busiest."""
    busy = {str(cpu): ticks.busy for cpu, ticks in spent.items()}
    least = max(1, max(busy.values(), default=0) / 2)
    return [value for cpu, value in mhz.items() if busy.get(cpu, 0) >= least]


def softirq_by_cpu() -> dict[int, float]:
    """Return CPU -> seconds it has spent in interrupts and softirqs since boot.

    They belong to no process, or are booked on whatever ran at that moment
    (``CONFIG_IRQ_TIME_ACCOUNTING`` decides), so they are never added to a process's time.
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
    return sum(after[cpu] - before[cpu] for cpu in before.keys() & after.keys()) / (
        time.monotonic() - begun
    )


def _stat(root: str) -> dict[int, Ticks]:
    """Return CPU -> its ticks since boot."""
    text = _text(pathlib.Path(root, "proc/stat"))
    by_cpu = {}
    for match in _STAT.finditer(text):
        cpu, *ticks = map(int, match.groups())
        by_cpu[cpu] = Ticks(*ticks)
    return by_cpu


def _numbers(directory: pathlib.Path, pattern: str) -> Iterator[int]:
    for path in directory.glob(pattern):
        number = _number(path)
        if number is not None:
            yield number


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
