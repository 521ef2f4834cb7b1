"""Figures for Prometheus, made when they are fetched and not before.

They are those of the loop's last snapshot: this runs in a thread of its own, beside the loop. Per guest CPU time
by class is read from /proc at each scrape, by the threads that the last pass found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from nova_perf_tuning import errors
from nova_perf_tuning.agent import guest_cpu, service, stats
from nova_perf_tuning.host import model

_PREFIX = "nova_perf"


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
            for kind, seconds in guest_cpu.spent(guest.pid, guest.threads).items():
                family.add_metric([guest.name, kind], seconds)
        return family


def _up(good: bool) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_up", "1 while the last pass could be made", value=int(good))


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
