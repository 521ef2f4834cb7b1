# SPDX-License-Identifier: Apache-2.0
"""Figures for Prometheus, made when they are fetched and not before.

They are those of the loop's last snapshot: this runs in a thread of its own, beside the loop. Read
at each scrape are CPU time and wait of guests, by the threads that the last pass found, the host's
pressure, and its verdict.

The answers are those of prometheus_client's own handler; the server around it is ours, since that
of the library (``start_http_server``, 0.26) cuts no client. There 64 connections that sent nothing
held 64 threads for as long as they stayed open, and the agent's unit allows 128 tasks. Here they
hold 16 places, and none after five seconds. The price is some 70 lines.
"""

import contextlib
import http.server
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from nova_perf_tuning import bounded_read, errors
from nova_perf_tuning.agent import conditions, findings, host_info, intrusions, service
from nova_perf_tuning.agent.state import AgentState
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.nova import host_result

#: Maximum concurrent clients, and seconds allowed for each: a client costs the agent a thread and
#: a file.
_CLIENTS: Final = 16
DEADLINE_S: Final = 5.0
#: Counters of a NIC, Documentation/ABI/testing/sysfs-class-net-statistics.
_DROPS: Final = ("rx_dropped", "rx_missed_errors", "tx_dropped")
#: /proc/net/softnet_stat has a line of some 140 bytes for each CPU.
_MAX_SOFTNET: Final = 1 << 20


class MetricsCollector:
    """Makes all figures of one agent."""

    def __init__(self, agent: service.Service, result_file: str = "") -> None:
        """:param result_file: where the verdict on this host is, see :mod:`nova_perf_tuning.nova.host_result`."""
        self._agent = agent
        self._result_file = result_file
        self._host_info = host_info.HostInfo()
        self._intrusions = intrusions.IntrusionCounter()

    def collect(self) -> Iterator[Any]:
        """Yield the metric families."""
        up = "up", "1 if the last pass succeeded"
        if self._agent.snapshot is None:  # the first pass is still at work
            yield _family(GaugeMetricFamily, *up, 0)
            return
        state, facts = self._agent.snapshot
        codes = {
            code.value: state.findings_total.get(code.value, 0)
            for code in findings.AgentFindingCode
        }
        counter, gauge = CounterMetricFamily, GaugeMetricFamily
        yield _family(counter, "passes", "Passes, by cause", state.passes, "cause")
        yield _family(counter, "writes", "Values written to the kernel", state.written, "kind")
        yield _family(
            counter,
            "drift",
            "Objects found changed by other programs or by drivers",
            state.drifted,
            "kind",
        )
        yield _family(
            counter, "verifies", "Verifications of everything that was placed", state.verifies
        )
        yield _family(counter, "errors", "Passes that failed", state.errors)
        yield _family(
            counter, "skipped", "Passes postponed while a command changed the host", state.skipped
        )
        yield _family(
            counter,
            "withdrawn",
            "Values put back because the plan no longer has them",
            state.withdrawn,
        )
        yield _family(gauge, "settings", "Values that the agent manages", state.settings)
        yield _family(gauge, "guests", "Running guests", state.guests or 0)
        if state.mode == "observe":
            yield from _forecast(state)
        yield _conditions(state)
        if state.plan_digest:  # else nobody knows yet what the host is kept as
            info = self._host_info.read() | {"plan": state.plan_digest}
            text = "Always 1; the labels are what a verdict on this host depends on"
            yield _family(gauge, "host_info", text, {tuple(info.values()): 1.0}, *info)
        yield _family(gauge, "findings", "Findings that need attention", codes, "code")
        yield _family(gauge, *up, int(not state.error))
        yield _family(
            counter, "agent_cpu_seconds", "CPU time of the agent itself", time.process_time()
        )
        names: dict[tuple[str, ...], float] = {}
        spent: dict[tuple[str, ...], float] = {}
        waited: dict[tuple[str, ...], float] = {}
        guests: Sequence[host_model.GuestProcess] = ()
        if facts is not None:
            guests = facts.guests
        for guest in guests:
            instance_id = ""
            if guest.domain is not None:
                instance_id = guest.domain.uuid
            names[guest.name, guest.name, instance_id] = 1.0
            times = guest_cpu.read(guest.pid, guest.threads)
            if times is None:
                continue
            for kind, seconds in times.spent.items():
                spent[guest.name, kind] = seconds
            waited[guest.name,] = times.waited_s
        # The labels that exporters of libvirt have, for joins.
        text = "Always 1; domain is the name in libvirt, instance_id the UUID in libvirt and Nova"
        yield _family(gauge, "guest_info", text, names, "guest", "domain", "instance_id")
        text = "Host CPU time of a guest by class; worker is all time in no other class"
        yield _family(counter, "guest_host_cpu_seconds", text, spent, "guest", "class")
        text = "Time that vCPUs of a guest were ready to run but had no host CPU"
        yield _family(counter, "guest_vcpu_wait_seconds", text, waited, "guest")
        text = "Interrupts and packets of other work on CPUs dedicated to guests"
        seen = self._intrusions.collect(guests)
        yield _family(counter, "guest_cpu_intrusions", text, seen, "channel")
        nics: Sequence[host_model.Nic] = ()
        if facts is not None:
            nics = facts.nics
        text = "Packets dropped by a NIC or, without a nic, by CPUs whose backlog was full"
        drops = dict(_packet_drops(nics))
        yield _family(counter, "packet_drops", text, drops, "nic", "counter")
        text = "Time that some or all tasks of the host waited for a resource"
        yield _family(
            counter, "host_pressure_seconds", text, dict(_pressure()), "resource", "tasks"
        )
        yield from self._verdict()

    def _verdict(self) -> Iterator[Any]:
        result = None
        with contextlib.suppress(
            host_result.ResultError
        ):  # nova-compute, which acts on it, says so
            result = host_result.read(self._result_file) if self._result_file else None
        if result is None:
            return
        gauge = GaugeMetricFamily
        words = {"": result.verdict} | dict(result.budgets)
        text = "1 for the verdict of the last published validation, overall and by budget"
        yield _family(
            gauge, "verdict", text, dict.fromkeys(words.items(), 1.0), "budget", "verdict"
        )
        text = "Start time of that validation"
        yield _family(gauge, "verdict_timestamp_seconds", text, result.created_at.timestamp())
        text = "Share of a figure lost against its baseline; a negative share is a gain"
        lost: dict[str, float] = {}
        allowed: dict[str, float] = {}
        for figure, (loss, limit) in result.losses.items():
            lost[figure] = loss
            allowed[figure] = limit
        yield _family(gauge, "loss_ratio", text, lost, "figure")
        yield _family(gauge, "loss_limit_ratio", "Loss that the budget allows", allowed, "figure")


def _conditions(state: AgentState) -> Any:
    """Return the agent's conditions, with 0 for each status that does not hold."""
    shown: dict[tuple[str, str], float] = {}
    for condition in state.conditions:
        for status in conditions.ConditionStatus:
            holds = condition["status"] == status.value
            shown[condition["type"], status.value] = float(holds)
    text = "1 for the status of a condition (Applied, Degraded), 0 for the others"
    return _family(GaugeMetricFamily, "condition", text, shown, "condition", "status")


def _forecast(state: AgentState) -> Iterator[Any]:
    """Yield what an observer would change, by rule."""
    gauge = GaugeMetricFamily
    text = "Values that would be written now"
    yield _family(gauge, "would_change", text, state.would_change, "rule")
    text = "Values that have come to need a write since the agent started"
    yield _family(
        CounterMetricFamily, "would_change_begun", text, state.would_change_begun, "rule"
    )
    now = time.time()
    ages = {rule: max(0.0, now - since) for rule, since in state.would_change_since.items()}
    text = "How long the oldest value has needed a write"
    yield _family(gauge, "would_change_age_seconds", text, ages, "rule")


def _packet_drops(nics: Sequence[host_model.Nic]) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield NIC and counter, and packets, of hardware's NICs; then those of the CPUs' backlogs.

    The second column of softnet_stat has them, as softnet_seq_show() of the kernel prints it.
    """
    for nic in nics:
        if nic.kind not in ("physical", "vf"):
            continue
        for name in _DROPS:
            path = f"/sys/class/net/{nic.name}/statistics/{name}"
            with contextlib.suppress(OSError, ValueError):
                yield (nic.name, name), float(bounded_read.kernel_text("", path))
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = bounded_read.read_text("/proc/net/softnet_stat", _MAX_SOFTNET)
        backlog = sum(int(line.split()[1], 16) for line in text.splitlines())
        yield ("", "backlog"), float(backlog)


def _pressure() -> Iterator[tuple[tuple[str, str], float]]:
    """Yield resource and tasks (``some``, ``full``), and seconds (Documentation/accounting/psi.rst).

    With psi=0 there are none.
    """
    for resource in ("cpu", "memory", "io"):
        with contextlib.suppress(OSError, ValueError):
            for line in bounded_read.kernel_text("", f"/proc/pressure/{resource}").splitlines():
                tasks, *_averages, total = line.split()
                yield (resource, tasks), int(total.removeprefix("total=")) / 1e6


def _family(
    made: Any, name: str, text: str, value: float | Mapping[Any, float], *labels: str
) -> Any:
    """Return a family of metrics with one value, or with one for each value of its labels."""
    if not isinstance(value, Mapping):
        return made(f"nova_perf_{name}", text, value=value)
    family = made(f"nova_perf_{name}", text, labels=labels)
    for key, number in sorted(value.items()):
        family.add_metric([key] if isinstance(key, str) else key, number)
    return family


class _Handler(MetricsHandler):
    """Answers one client in the time that it has."""

    server: "_Server"

    def handle(self) -> None:
        timer = threading.Timer(DEADLINE_S, _cut, (self.request,))
        timer.start()
        try:
            super().handle()
        finally:
            timer.cancel()

    def do_GET(self) -> None:
        self.server.has_asked(self.request)
        super().do_GET()


def _cut(client: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has gone
        client.shutdown(socket.SHUT_RDWR)


class _Server(http.server.ThreadingHTTPServer):
    """Answers few clients at a time.

    Anybody on this host may connect and say nothing. Where all places are taken, the oldest client
    that has not sent a whole request gives up its place; only while all are being answered is a
    new client refused.
    """

    request_queue_size = 128

    def __init__(
        self, family: socket.AddressFamily, place: Any, registry: CollectorRegistry
    ) -> None:
        self.address_family = family
        self._lock = threading.Lock()
        #: Clients, the oldest first -> whether a whole request has come.
        self._clients: dict[socket.socket, bool] = {}
        super().__init__(place, _Handler.factory(registry))

    def server_bind(self) -> None:
        """Take the port without a lookup of this host's name.

        Where the DNS does not answer, the lookup takes half a minute.
        """
        socketserver.TCPServer.server_bind(self)

    def has_asked(self, client: socket.socket) -> None:
        """Note that a whole request of this client has come."""
        with self._lock:
            if client in self._clients:
                self._clients[client] = True

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._make_room(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _make_room(self, request: socket.socket) -> bool:
        """Give a new client a place; return False while all places are being answered."""
        with self._lock:
            if len(self._clients) >= _CLIENTS:
                silent = [client for client, asked in self._clients.items() if not asked]
                if not silent:
                    return False
                del self._clients[silent[0]]
                _cut(silent[0])
            self._clients[request] = False
            return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._clients.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client has gone, or was too slow."""


def serve(
    agent: service.Service, address: str, port: int, result_file: str = ""
) -> Callable[[], None]:
    """Answer on ``address``:``port`` in threads and return a function that ends them.

    :raises PerfTuningError: the port is taken or the address is not ours.
    """
    registry = CollectorRegistry()
    registry.register(MetricsCollector(agent, result_file))
    try:
        [(family, _type, _protocol, _name, place), *_others] = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        server = _Server(family, place, registry)
    except OSError as error:
        raise errors.PerfTuningError(
            f"[agent] metrics_address {address}, metrics_port {port}: {error.strerror}: it must be "
            "an address of this host and a free port from 1024 on"
        ) from None
    # Without an interval it sleeps until a client comes: by default it wakes twice a second.
    waiting = {"poll_interval": None}
    threading.Thread(target=server.serve_forever, kwargs=waiting, daemon=True).start()

    def end() -> None:
        server.socket.shutdown(socket.SHUT_RDWR)  # wakes it
        server.shutdown()
        server.server_close()

    return end
