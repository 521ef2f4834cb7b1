# SPDX-License-Identifier: Apache-2.0
"""Counters of a trial read many times while it runs, so that the CPU of any part of it is known.

Between two readings a counter is taken to grow evenly. What the host knows is read by a thread
that takes about one per cent of a CPU; guests are asked for their own busy time a few times per
second, since it costs them CPU.
"""

import bisect
import contextlib
import functools
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import host_environment
from nova_perf_tuning.validation.results import model

#: Seconds between two readings at first. An answer of a guest costs it some 2 ms of CPU where it
#: is emulated.
_HOST_S: Final = 0.05
_GUEST_S: Final = 0.25
_CPUS_S: Final = 0.5
#: Readings of all CPUs that are kept: of a thousand CPUs they are 50 MB.
_CPU_READINGS: Final = 512
#: After a reading so many times the CPU that it took passes without one, as many host CPUs make it
#: expensive.
_REST: Final = 100
#: Name of the vCPUs' wait beside the classes of CPU.
_WAIT: Final = "wait_s"
_BUSY: Final = "busy_s"


class CounterSeries:
    """Cumulative counters at some moments."""

    def __init__(
        self, read: Callable[[], Mapping[str, float]], interval_s: float, most: int = 1 << 30
    ) -> None:
        """:param most: readings that are kept; with more every second one goes, and they get rarer."""
        self._read = read
        self._most = most
        self._interval_s = interval_s
        self._times: list[float] = []
        self._values: list[Mapping[str, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Read at the begin and the end and, in a thread of its own, in between."""
        self.take()
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()
        self.take()

    def take(self) -> None:
        begun = time.monotonic()
        values = self._read()
        self._times.append((begun + time.monotonic()) / 2)
        self._values.append(values)
        if len(self._times) > self._most:
            del self._times[1:-1:2], self._values[1:-1:2]
            self._interval_s *= 2

    def _run(self) -> None:
        pause = self._interval_s
        while not self._ended.wait(pause):
            begun = time.thread_time()
            try:
                self.take()
            except (
                errors.PerfTuningError,
                OSError,
            ):  # who waits for the program learns that it is gone
                return
            pause = max(self._interval_s, _REST * (time.thread_time() - begun))

    @property
    def limits(self) -> tuple[float, float]:
        return self._times[0], self._times[-1]

    def spent(self, begin: float, end: float) -> dict[str, float]:
        """Return what each counter grew by between two moments; one that was missing at either is left out."""
        first, last = self._at(begin), self._at(end)
        grown = {}
        for name in first.keys() & last.keys():
            grown[name] = last[name] - first[name]
        return grown

    def means(self) -> dict[str, float]:
        """Return the mean of each value while it ran, without the first and the last reading."""
        readings: dict[str, list[float]] = {}
        for values in self._values[1:-1]:
            for name, value in values.items():
                readings.setdefault(name, []).append(value)
        return {name: statistics.fmean(values) for name, values in readings.items()}

    def _at(self, when: float) -> Mapping[str, float]:
        after = bisect.bisect_left(self._times, when)
        if after == len(self._times):
            return self._values[-1]
        if after == 0 or self._times[after] == when:
            return self._values[after]
        low, high = self._values[after - 1], self._values[after]
        begun, ended = self._times[after - 1], self._times[after]
        share = (when - begun) / (ended - begun)
        return {
            name: low[name] + share * (high[name] - low[name]) for name in low.keys() & high.keys()
        }


class Counters:
    """All counters of a trial, of the client and, where there is one, the server together.

    :ivar host: CPU seconds on the host by class; :ivar speeds: CPU -> its frequency in MHz, where
        it is known.
    """

    def __init__(self, machines: Sequence[launch.Machine]) -> None:
        self._machines = machines
        self._counters: list[Callable[[], Mapping[str, float]]] = []
        self._softirq: dict[int, float] = {}
        self.host = CounterSeries(self._read_host, _HOST_S)
        self.speeds = CounterSeries(host_environment.mhz_by_cpu, _GUEST_S)
        self._cpus = CounterSeries(host_environment.busy_by_cpu, _CPUS_S, _CPU_READINGS)
        self._guests = [
            CounterSeries(functools.partial(_read_guest, machine), _GUEST_S)
            for machine in machines
        ]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Read as long as the context lasts; nothing may be asked of :meth:`spent` before its end."""
        self._counters = [machine.counter() for machine in self._machines]
        with contextlib.ExitStack() as stack:
            # Guests answer late; the host is read next to the program.
            for series in (self.speeds, self._cpus, *self._guests, self.host):
                stack.enter_context(series.running())
            yield

    def spent(
        self, begin: float, end: float
    ) -> tuple[dict[str, float], float | None, float | None]:
        """Return CPU seconds on the host by class, guests' own and vCPUs' wait between two moments."""
        grown = self.host.spent(begin, end)
        host_s = {}
        for name in sorted(grown):
            if name not in launch.MOVED:
                host_s[name] = grown[name]
        wait_s = host_s.pop(_WAIT, None)
        guest_s = 0.0
        for series in self._guests:
            busy_s = series.spent(begin, end).get(_BUSY)
            if busy_s is None:
                return host_s, None, wait_s
            guest_s += busy_s
        return host_s, guest_s, wait_s

    def course(self, begin: float, end: float) -> model.Course:
        """Return what went on between two moments, second by second or, if they are far apart, in longer steps."""
        step_s, host = rates(self.host.spent, begin, end)
        _step_s, cpus = rates(self._cpus.spent, begin, end)
        if "vcpu" in host:  # all other classes make up the total
            del host["total"]
        moved = {}
        for name, kind in launch.MOVED.items():
            if name in host:
                moved[kind] = host.pop(name)
        host_cpu = {}
        for name in sorted(host):
            host_cpu[name.removesuffix("_s")] = host[name]
        by_load = sorted(cpus, key=lambda cpu: -sum(share or 0 for share in cpus[cpu]))
        busiest = by_load[: model.MAX_CPUS]
        busy = {}
        for cpu in sorted(busiest, key=int):
            busy[cpu] = [_per_cent(share) for share in cpus[cpu]]
        return {
            "step_s": step_s,
            "moved": moved,
            "host_cpu": host_cpu,
            "busy": busy,
            "hidden": len(cpus) - len(busiest),
        }

    def _read_host(self) -> Mapping[str, float]:
        readings = [read() for read in self._counters]
        shared = set(readings[0]).intersection(*readings)  # what a machine tells later is no jump
        counters = {}
        for name in shared:
            counters[name] = sum(reading[name] for reading in readings)
        now = host_environment.softirq_by_cpu()
        # A CPU that goes offline has no counter any more, and one that comes online was not there
        # at the begin.
        softirq = {}
        for cpu, seconds in (self._softirq or now).items():
            softirq[cpu] = now.get(cpu, seconds)
        self._softirq = softirq
        counters["softirq"] = sum(softirq.values())
        return counters


def rates(
    spent: Callable[[float, float], Mapping[str, float]], begin: float, end: float
) -> tuple[float, dict[str, list[float | None]]]:
    """Return the length of a course's steps between two moments, and by how much each counter grew a second.

    :param spent: what counters grew by between two moments.
    """
    count = min(model.MAX_STEPS, max(1, round(end - begin)))
    step_s = (end - begin) / count
    edges = [begin + step_s * index for index in range(count + 1)]
    steps = [spent(since, until) for since, until in itertools.pairwise(edges)]
    courses: dict[str, list[float | None]] = {}
    for name in set[str]().union(*steps):
        courses[name] = [_rate(grown.get(name), step_s) for grown in steps]
    return round(step_s, 6), courses


def _rate(grown: float | None, step_s: float) -> float | None:
    """Return a counter's growth in a step as growth a second, with four digits; None: not known."""
    if grown is None:
        return None
    return float(f"{max(0.0, grown) / step_s:.4g}")


def _per_cent(share: float | None) -> int | None:
    if share is None:
        return None
    return round(100 * min(share, 1.0))


def _read_guest(machine: launch.Machine) -> Mapping[str, float]:
    busy = machine.busy_s()
    if busy is None:
        return {}
    return {_BUSY: busy}
