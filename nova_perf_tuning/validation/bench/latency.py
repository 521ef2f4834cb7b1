"""Request and response, and connections per second: own client and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nova_perf_tuning.validation.bench import base, output, own, parameter

#: The server accepts with so many processes.
_ACCEPTORS = 16


class _Pair(own.OwnBenchmark):
    """A client of ``nova-perf-bench serve``."""

    paired = True

    def _server(self, peer: str | None, port: int, limit_s: float) -> base.Step:
        return base.Step((own.PROGRAM, "serve", self.server(peer), str(port)), "server", limit_s)

    def _readings(self, text: str, work: str) -> list[base.Reading]:
        if "refused" in text[:300]:
            raise base.NotReadyError(f"{self.kind}: {output.printable(text.strip(), 120)}")
        data = self.data(text)
        rate, count = self.positive(data, "per_second"), self.positive(data, "count")
        return [
            base.Reading(*self.primary, rate, primary=True),
            *(
                base.Reading(f"latency_{name}", "µs", "lower", output.number(self.kind, data, f"{name}_us"))
                for name in ("mean", "p50", "p99", "p999", "max")
            ),
            base.Reading("lost", "requests", "lower", output.number(self.kind, data, "lost")),
            base.Reading(work, self.work_unit, "higher", count / 1e3),
        ]

    def span(self, text: str) -> base.Span:
        return base.Span(self.positive(self.data(text), "seconds"))


class Request(_Pair):
    """A request and its answer, and only then the next: the time of a whole round trip, TCP or UDP.

    Latencies are those of whole rounds as the client sees them (not halved); the buckets are 1.6 % wide.
    """

    kind = "request"
    summary = "requests and answers per second and their latency, TCP or UDP"
    part = "request"
    primary = ("transactions_per_second", "1/s", "higher")
    parameters = (
        parameter.SECONDS,
        parameter.Choice("protocol", "tcp", "tcp or udp", ("tcp", "udp")),
        parameter.Integer("connections", "1", "clients side by side, each in a process of its own", 1, _ACCEPTORS),
        parameter.Integer(
            "bytes",
            "1",
            "size of request and answer, 1 to 65000 (udp: 1472 fit one packet of MTU 1500)",
            1,
            65_000,
        ),
        parameter.Integer("port", "5301", "TCP and UDP port of the server", 1, 65_535),
    )
    work_metric = "transactions"
    work_unit = "1,000 transactions"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, count, length, port = values.numbers("seconds", "connections", "bytes", "port")
        protocol = values.text("protocol")
        limit_s = seconds + base.MARGIN_S
        server = self._server(peer, port, limit_s)
        client = (own.PROGRAM, "request", protocol, str(peer), str(port), str(seconds), str(count), str(length))
        return (server, base.Step(client, "client", limit_s))

    def parse(self, text: str) -> list[base.Reading]:
        return self._readings(text, "transactions")


class Connect(_Pair):
    """Connections made, one byte sent and answered, closed: new connections per second.

    The client closes with a reset so that no port stays in TIME_WAIT; its socket calls are as many as usual.
    """

    kind = "connect"
    summary = "TCP connections per second: made, used once, closed"
    part = "connect"
    primary = ("connections_per_second", "1/s", "higher")
    parameters = (
        parameter.SECONDS,
        parameter.Integer("processes", "1", "clients side by side", 1, _ACCEPTORS),
        parameter.Integer("port", "5302", "TCP port of the server", 1, 65_535),
    )
    work_metric = "connections"
    work_unit = "1,000 connections"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, count, port = values.numbers("seconds", "processes", "port")
        limit_s = seconds + base.MARGIN_S
        server = self._server(peer, port, limit_s)
        client = (own.PROGRAM, "connect", str(peer), str(port), str(seconds), str(count))
        return (server, base.Step(client, "client", limit_s))

    def parse(self, text: str) -> list[base.Reading]:
        return self._readings(text, "connections")
