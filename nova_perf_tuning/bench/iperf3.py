"""TCP throughput with iperf3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.bench import base, output, parameters


class Iperf3(base.Benchmark):
    """One TCP test between two machines; the receiver's rate counts, in Mbit/s of 1,000,000 bit/s.

    iperf3 before 3.16 serves all streams with one thread, so several streams show queues, not several CPUs.
    """

    kind = "iperf3"
    summary = "TCP throughput between two machines, as the receiver counts it"
    packages = ("iperf3",)
    programs = ("iperf3",)
    primary = ("throughput", "Mbit/s", "higher")
    defaults = {"seconds": "10", "omit": "1", "streams": "1", "direction": "forward", "port": "5201"}
    parameter_help = {
        "seconds": "length of the measured part, 1 to 3600",
        "omit": "seconds before it that do not count (TCP start), 0 to 60",
        "streams": "parallel connections, 1 to 128",
        "direction": "forward: client sends; reverse: server sends",
        "port": "TCP port of the server",
    }
    paired = True
    work_metric = "transferred"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = parameters.merge(self.kind, self.defaults, given)
        seconds = parameters.integer(self.kind, values, "seconds", 1, 3600)
        omit = parameters.integer(self.kind, values, "omit", 0, 60)
        streams = parameters.integer(self.kind, values, "streams", 1, 128)
        port = parameters.integer(self.kind, values, "port", 1, 65535)
        direction = parameters.choice(self.kind, values, "direction", ("forward", "reverse"))
        if peer is None:
            raise base.ParameterError(f"{self.kind}: the address of the server is missing")
        client = ["iperf3", "-c", peer, "-p", str(port), "-t", str(seconds), "-O", str(omit)]
        client += ["-P", str(streams), "-J", "--connect-timeout", "20000"]
        if direction == "reverse":
            client.append("-R")
        timeout_s = seconds + omit + base.MARGIN_S
        return (
            base.Step(("iperf3", "-s", "-1", "-B", peer, "-p", str(port)), "server", timeout_s),
            base.Step(tuple(client), "client", timeout_s),
        )

    def parse(self, text: str) -> list[base.Reading]:
        data = output.load_json(self.kind, text)
        self._check_error(data)
        end = output.find(self.kind, data, "end")
        rate = output.number(self.kind, end, "sum_received", "bits_per_second")
        if rate == 0:
            raise base.OutputError(f"{self.kind}: the receiver got nothing (0 bit/s)")
        readings = [
            base.Reading(*self.primary, rate / 1e6, primary=True),
            base.Reading("transferred", "Gbit", "higher", self._transferred(data) * 8 / 1e9),
        ]
        sent = output.find(self.kind, end, "sum_sent")
        if isinstance(sent, dict) and "retransmits" in sent:  # only systems with TCP_INFO count them
            count = output.number(self.kind, sent, "retransmits")
            readings.append(base.Reading("retransmits", "segments", "lower", count))
        for name, field in (("client_cpu", "host_total"), ("server_cpu", "remote_total")):
            share = output.number(self.kind, end, "cpu_utilization_percent", field)
            readings.append(base.Reading(name, "%", "lower", share))
        return readings

    def _check_error(self, data: Mapping[str, Any]) -> None:
        if "error" not in data:
            return
        message = output.printable(data["error"])
        if "refused" in message:
            raise base.NotReadyError(f"{self.kind}: {message}")
        raise base.OutputError(f"{self.kind}: {message}")

    def _transferred(self, data: Mapping[str, Any]) -> float:
        """Return all bytes of the run; ``end`` leaves out the omitted seconds, the intervals do not."""
        intervals = output.find(self.kind, data, "intervals")
        if not isinstance(intervals, list) or not intervals:
            raise base.OutputError(f"{self.kind}: the output has no 'intervals'")
        return sum(output.number(self.kind, interval, "sum", "bytes") for interval in intervals)
