"""What a figure rests on, as far as this host can tell by itself: hardware, kernel, versions, and the
circumstances of each trial.

Conditions of a trial (:func:`conditions`), all numbers; what a host does not have is left out:

``steal_share``
    share of the CPUs' time that was taken from this host by its own hypervisor, idle time included
``steal_of_busy``
    the same as a share of the time that was wanted (busy or stolen): of all CPUs or of the guests' own, whichever
    is more. Less than one CPU's time counts as that much, so that a tick of an idle host is nothing
``throttle_events``
    how often CPUs were slowed down for their temperature
``mhz``, ``max_mhz``
    mean frequency when the window ended, and mean of the highest frequency that is allowed then
``busy_mhz``
    mean frequency within the window of the CPUs that did the work (:mod:`nova_perf_tuning.budget.frequency`)
``clock_step_s``
    how far the wall clock moved against the monotonic one; more than NTP's 500 ppm slew is a jump
``clocksource_changed``
    1 when the kernel took another clock source
``link:NAME``
    Mbit/s of a physical link when the window ended, 0 when it was down at either end
``sender_packets``, ``sender_dropped``
    what the host took from the sending machine's interface, and dropped there
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import time
from collections.abc import Collection, Mapping
from importlib import metadata
from typing import Any, NamedTuple

import psutil


def read() -> dict[str, Any]:
    """Return CPU model, CPU count, memory in MiB, kernel, load and versions of this host and this program."""
    return {
        "host": platform.node(),
        "cpu_model": _cpu_model(),
        "cpus": psutil.cpu_count() or 0,
        "memory_mib": psutil.virtual_memory().total >> 20,
        "kernel": platform.release(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "nova_perf_tuning": metadata.version("nova-perf-tuning"),
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            head = file.read(8192)
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", head, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


class Ticks(NamedTuple):
    """Clock ticks of a CPU."""

    busy: int
    idle: int
    stolen: int


@dataclasses.dataclass(frozen=True, slots=True)
class Circumstances:
    """What :func:`look` saw at one moment; None or an empty mapping: this host cannot tell.

    :ivar softirq_s: CPU -> seconds it has spent in interrupts and softirqs since boot.
    :ivar ticks: CPU -> what it has spent on anything, on nothing, and what was stolen from it, since boot.
    """

    steal: int
    cpu_time: int
    throttled: int | None
    mhz: float | None
    max_mhz: float | None
    wall_minus_monotonic_s: float
    clocksource: str
    links: Mapping[str, float]
    packets: int | None
    dropped: int | None
    softirq_s: Mapping[int, float] = dataclasses.field(default_factory=dict)
    ticks: Mapping[int, Ticks] = dataclasses.field(default_factory=dict)


def look(interface: str | None = None, root: str = "/") -> Circumstances:
    """Look at this host's circumstances.

    :param interface: host side of the sending machine's NIC (its tap), None if it has none of its own.
    :param root: folder that /proc and /sys are read below.
    """
    devices = os.path.join(root, "sys/devices/system")
    stat = _text(os.path.join(root, "proc/stat"))
    cpu = [int(one) for one in stat.partition("\n")[0].split()[1:9]]
    taken = os.path.join(root, "sys/class/net", interface, "statistics") if interface else None
    return Circumstances(
        steal=cpu[7] if len(cpu) == 8 else 0,
        cpu_time=sum(cpu),
        throttled=_throttled(os.path.join(devices, "cpu")),
        mhz=_mean_mhz(devices, "scaling_cur_freq"),
        max_mhz=_mean_mhz(devices, "scaling_max_freq"),
        wall_minus_monotonic_s=time.time() - time.monotonic(),
        clocksource=_text(os.path.join(devices, "clocksource/clocksource0/current_clocksource")).strip(),
        links=_links(os.path.join(root, "sys/class/net")),
        # What a guest sends its tap receives.
        packets=_number(os.path.join(taken, "rx_packets")) if taken else None,
        dropped=_number(os.path.join(taken, "rx_dropped")) if taken else None,
        softirq_s=_softirq_s(stat),
        ticks=_ticks(stat),
    )


def _ticks(stat: str) -> dict[int, Ticks]:
    found = {}
    for line in re.finditer(r"^cpu([0-9]+)((?: [0-9]+){8})", stat, re.MULTILINE):
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, line[2].split())
        found[int(line[1])] = Ticks(user + nice + system + irq + softirq, idle + iowait, steal)
    return found


def busy_ticks(before: Circumstances, after: Circumstances) -> dict[int, int]:
    """Return CPU -> ticks that it was busy between two looks."""
    return {cpu: now.busy - before.ticks[cpu].busy for cpu, now in after.ticks.items() if cpu in before.ticks}


def _steal_of_busy(before: Circumstances, after: Circumstances, own_cpus: Collection[int]) -> float | None:
    """Return which share of the time wanted was stolen; None: the host cannot tell."""
    spent = {
        cpu: Ticks(*(max(0, new - old) for new, old in zip(now, before.ticks[cpu], strict=True)))
        for cpu, now in after.ticks.items()
        if cpu in before.ticks
    }
    window = max(map(sum, spent.values()), default=0)
    if not window:
        return None
    shares = []
    for some in (spent.values(), [one for cpu, one in spent.items() if cpu in own_cpus]):
        stolen = sum(one.stolen for one in some)
        shares.append(stolen / max(window, stolen + sum(one.busy for one in some)))
    return max(shares)


def _softirq_s(stat: str) -> dict[int, float]:
    hertz = os.sysconf("SC_CLK_TCK")
    return {
        int(found[1]): (int(found[2]) + int(found[3])) / hertz
        for found in re.finditer(r"^cpu([0-9]+)(?: [0-9]+){5} ([0-9]+) ([0-9]+)", stat, re.MULTILINE)
    }


def softirq_by_cpu() -> dict[int, float]:
    """Return CPU -> seconds it has spent in interrupts and softirqs since boot."""
    return _softirq_s(_text("/proc/stat"))


def softirq_s(before: Circumstances, after: Circumstances, but: Collection[int] = ()) -> float:
    """Return the CPU seconds of interrupts and softirqs between two looks.

    They belong to no process, or are booked on whatever ran at that moment (``CONFIG_IRQ_TIME_ACCOUNTING``
    decides), so they are never added to a process's time.

    :param but: CPUs that do not count, since they are the guests' own.
    """
    return sum(
        after.softirq_s[cpu] - seconds
        for cpu, seconds in before.softirq_s.items()
        if cpu in after.softirq_s and cpu not in but
    )


def idle_softirq(seconds: float = 0.5) -> float:
    """Watch this host do nothing and return its CPU seconds of interrupts and softirqs per second."""
    before = look()
    begun = time.monotonic()
    time.sleep(seconds)
    return softirq_s(before, look()) / (time.monotonic() - begun)


def conditions(before: Circumstances, after: Circumstances, own_cpus: Collection[int] = ()) -> dict[str, float]:
    """Return the conditions of the window between two looks.

    :param own_cpus: CPUs that are the guests' own, as far as pins say so.
    """
    found: dict[str, float] = {}
    if after.cpu_time > before.cpu_time:
        found["steal_share"] = max(0, after.steal - before.steal) / (after.cpu_time - before.cpu_time)
    if (wanted := _steal_of_busy(before, after, own_cpus)) is not None:
        found["steal_of_busy"] = wanted
    if before.throttled is not None and after.throttled is not None:
        found["throttle_events"] = max(0, after.throttled - before.throttled)
    found |= {name: value for name, value in (("mhz", after.mhz), ("max_mhz", after.max_mhz)) if value is not None}
    found["clock_step_s"] = after.wall_minus_monotonic_s - before.wall_minus_monotonic_s
    if after.clocksource != before.clocksource:
        found["clocksource_changed"] = 1
    for name in before.links.keys() | after.links.keys():
        speeds = (before.links.get(name, 0.0), after.links.get(name, 0.0))
        found[f"link:{name}"] = 0.0 if 0.0 in speeds else speeds[1]
    for name, first, last in (
        ("sender_packets", before.packets, after.packets),
        ("sender_dropped", before.dropped, after.dropped),
    ):
        if first is not None and last is not None:
            found[name] = max(0, last - first)
    return {name: round(float(value), 6) for name, value in sorted(found.items())}


def _throttled(folder: str) -> int | None:
    counts = [
        _number(os.path.join(folder, cpu, "thermal_throttle", name))
        for cpu in _names(folder)
        if re.fullmatch(r"cpu[0-9]+", cpu)
        for name in ("core_throttle_count", "package_throttle_count")
    ]
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def _mean_mhz(devices: str, name: str) -> float | None:
    folder = os.path.join(devices, "cpu/cpufreq")
    speeds = [
        _number(os.path.join(folder, policy, name)) for policy in _names(folder) if policy.startswith("policy")
    ]
    known = [one / 1000 for one in speeds if one]
    return sum(known) / len(known) if known else None


def _links(folder: str) -> dict[str, float]:
    """Return Mbit/s of every physical NIC that is up by the administrator's will, 0 without a carrier."""
    found = {}
    for name in _names(folder):
        nic = os.path.join(folder, name)
        flags = _text(os.path.join(nic, "flags")).strip()
        if not os.path.exists(os.path.join(nic, "device")) or not flags or not int(flags, 16) & 1:
            continue
        carrier = _number(os.path.join(nic, "carrier"))
        speed = _number(os.path.join(nic, "speed"))
        if carrier == 0:
            found[name] = 0.0
        elif speed is not None and speed > 0:  # virtual NICs say -1 or nothing
            found[name] = float(speed)
    return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
