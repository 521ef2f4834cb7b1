"""Figures for Prometheus, made when they are fetched and not before.

They are those of the loop's last snapshot: this runs in a thread of its own, beside the loop. Per guest CPU time
by class is read from /proc at each scrape, by the threads that the last pass found.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from nova_perf_tuning import errors
from nova_perf_tuning.agent import service, stats
from nova_perf_tuning.host import model

_PREFIX = "nova_perf"
_PROC = "/proc"
_TICKS = os.sysconf("SC_CLK_TCK")
_CLASSES = ("vcpu", "emulator", "iothread", "vhost")


class MetricsError(errors.PerfTuningError):
    """The port cannot be opened."""


class Collector:
    """Makes all figures of one agent."""

    def __init__(self, agent: service.Service) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Any]:
        """Yield the metric families."""
        snapshot = self._agent.snapshot
        if snapshot is None:  # the first pass is still at work
            yield _up(False)
            return
        counted, state = snapshot.stats, snapshot.state
        yield _counter("passes", "Passes by what caused them", "cause", counted.passes)
        yield _counter("writes", "Values written to the kernel", "kind", counted.written)
        yield _counter("drift", "Objects that others had changed", "kind", counted.drifted)
        yield CounterMetricFamily(f"{_PREFIX}_verifies", "Full readings", value=counted.verifies)
        yield CounterMetricFamily(f"{_PREFIX}_errors", "Passes that could not be made", value=counted.errors)
        yield CounterMetricFamily(
            f"{_PREFIX}_skipped", "Passes put off while a command changed the host", value=counted.skipped
        )
        yield CounterMetricFamily(
            f"{_PREFIX}_withdrawn", "Values put back that nobody asked for any more", value=counted.withdrawn
        )
        yield GaugeMetricFamily(f"{_PREFIX}_settings", "Values that are kept", value=state["settings"])
        yield GaugeMetricFamily(f"{_PREFIX}_guests", "Guests that run", value=state["guests"] or 0)
        findings = GaugeMetricFamily(f"{_PREFIX}_findings", "What people should look at", labels=["what"])
        for what in ("written by others", "applied by a person", "not in force", "irqbalance", "rival"):
            findings.add_metric([what], state["findings_total"].get(what, 0))
        yield findings
        yield _up(not state["error"])
        yield self._latency(counted)
        yield CounterMetricFamily(
            f"{_PREFIX}_agent_cpu_seconds", "CPU time of the agent itself", value=time.process_time()
        )
        yield self._guest_cpu(snapshot.facts)

    def _latency(self, counted: stats.Stats) -> HistogramMetricFamily:
        total, buckets = 0, []
        for bound, number in zip(stats.BOUNDS, counted.latency, strict=True):
            total += number
            buckets.append((str(bound), float(total)))
        buckets.append(("+Inf", float(counted.latency_count)))
        family = HistogramMetricFamily(
            f"{_PREFIX}_event_to_placed_seconds",
            "From an event to the end of the pass that wrote for it, also while the agent was busy with others",
        )
        family.add_metric([], buckets, counted.latency_sum)
        return family

    def _guest_cpu(self, facts: model.HostFacts | None) -> CounterMetricFamily:
        family = CounterMetricFamily(
            f"{_PREFIX}_guest_host_cpu_seconds",
            "Host CPU time of a guest by class; worker: all that no other class has",
            labels=["guest", "class"],
        )
        for guest in facts.guests if facts is not None else ():
            for kind, seconds in _spent(guest.pid, guest.threads).items():
                family.add_metric([guest.name, kind], seconds)
        return family


def _up(good: bool) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_up", "1 while the last pass could be made", value=int(good))


def _spent(pid: int, threads: Sequence[model.Thread]) -> dict[str, float]:
    """Return class -> CPU seconds of a guest; nothing when its process has ended.

    Pool threads come and go between two passes. So ``worker`` is what the process has used beside the threads that
    are known, which counts those that nobody has seen, and those that have ended.
    """
    spent = dict.fromkeys(_CLASSES, 0.0)
    outside = 0.0
    for thread in threads:
        if thread.kind in spent:
            seconds = _thread_s(pid, thread)
            spent[thread.kind] += seconds
            outside += seconds if thread.kernel else 0.0
    try:
        if any(thread.tid == pid and thread.start != _start(pid) for thread in threads):
            return {}  # another process has its number
        # clock_getcpuclockid(3) in the kernel's form. Last, so that no thread can have more than its process.
        total = time.clock_gettime_ns((~pid << 3) | 2) / 1e9 + outside
    except (OSError, IndexError, ValueError):
        return {}
    return {**spent, "worker": max(0.0, total - sum(spent.values()))}


def _start(pid: int) -> int:
    """Return when a process began, in clock ticks after boot (proc(5), stat)."""
    return int(_stat(f"{_PROC}/{pid}")[19])


def _stat(folder: str) -> list[bytes]:
    """Return the fields of a process or thread after its name: the first is the third of proc(5)."""
    with open(f"{folder}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _thread_s(pid: int, thread: model.Thread) -> float:
    """Return the time that a thread has run; 0 when it has ended.

    A kernel worker's number may belong to any process since; a thread of the guest's process is one of the guest.
    """
    folder = f"{_PROC}/{thread.tid if thread.kernel else pid}/task/{thread.tid}"
    try:
        if thread.kernel and int(_stat(folder)[19]) != thread.start:
            return 0.0
        with open(f"{folder}/schedstat", "rb") as file:
            return int(file.read().split()[0]) / 1e9
    except FileNotFoundError:
        pass  # it has ended, or the kernel was built without CONFIG_SCHED_INFO
    except (OSError, IndexError, ValueError):
        return 0.0
    try:
        fields = _stat(folder)
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, IndexError, ValueError):
        return 0.0


def _counter(name: str, text: str, label: str, values: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def serve(agent: service.Service, address: str, port: int) -> Callable[[], None]:
    """Answer on ``address``:``port`` in a thread and return a function that ends it.

    :raises MetricsError: the port is taken or the address is not ours.
    """
    registry = CollectorRegistry()
    registry.register(Collector(agent))
    try:
        server, _thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise MetricsError(
            f"[agent] metrics_address {address}, metrics_port {port}: {error.strerror}: choose another port"
        ) from None

    def end() -> None:
        server.shutdown()
        server.server_close()

    return end
