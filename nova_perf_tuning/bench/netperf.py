"""Network throughput and request rate with netperf, where it is installed (Debian: non-free until 12)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning.bench import base, output, parameter

_SELECTED: Final = (
    "THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,MEAN_LATENCY,P50_LATENCY,P99_LATENCY,TRANSACTION_RATE,PROTOCOL"
)
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_KEY = re.compile(r"^([A-Z][A-Z0-9_]{1,60})=(.{0,100})$", re.M)
#: Socket sizes, message size, seconds, rate: the table of bulk data. That of requests has six columns.
_TABLE = re.compile(rf"^[ \t]*([0-9]+)[ \t]+([0-9]+)[ \t]+([0-9]+)[ \t]+({_NUMBER})[ \t]+({_NUMBER})[ \t]*$", re.M)
#: What the table's head says of the rate; without a head (-P 0) nobody knows its unit.
_HEADER = re.compile(r"^bytes[ \t]+bytes[ \t]+bytes[ \t]+secs\.[ \t]+10\^6bits/s(?:ec)?[ \t]*$", re.M)


class Netperf(base.Benchmark):
    """Bulk data with netperf: TCP_STREAM to the server, TCP_MAERTS from it.

    Reads both the classic table (as published for 10 Gbit/s tuning) and key=value output, which is what it asks
    for. Requests are the benchmark ``netperf-requests``, whose figure is another.
    """

    kind = "netperf"
    summary = "TCP throughput with netperf, where it is installed"
    #: What the parameter ``test`` may name, and the units that netperf gives their figure.
    tests: ClassVar[tuple[str, ...]] = ("TCP_STREAM", "TCP_MAERTS")
    units: ClassVar[str] = "10^6bits/s"
    packages = ("netperf",)
    programs = ("netperf", "netserver")
    primary = ("throughput", "Mbit/s", "higher")
    parameters = (
        parameter.SECONDS,
        parameter.Choice("test", "TCP_STREAM", ", ".join(tests), tests),
        parameter.Integer("port", "12865", "control port of netserver", 1, 65535),
    )
    self_check = "the units must be those that were asked for"
    paired = True
    image_variant = "own"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, port = values.numbers("seconds", "port")
        test = values.text("test")
        peer = self.server(peer)
        client = ["netperf", "-H", peer, "-p", str(port), "-t", test, "-l", str(seconds), "-P", "0", "-j"]
        if self.units == "10^6bits/s":
            client += ["-f", "m"]
        limit_s = seconds + base.MARGIN_S
        return (
            base.Step(("netserver", "-D", "-L", peer, "-p", str(port)), "server", limit_s),
            base.Step((*client, "--", "-k", _SELECTED), "client", limit_s),
        )

    def parse(self, text: str) -> list[base.Reading]:
        output.check_length(self.kind, text)
        if "could not establish the control connection" in text:
            raise base.NotReadyError(f"{self.kind}: could not establish the control connection")
        found = _KEY.findall(text)
        keys = dict(found)
        if len(keys) != len(found):
            raise base.OutputError(f"{self.kind}: the output is ambiguous: it is of more than one run")
        return self._from_keys(keys) if "THROUGHPUT" in keys else self._from_table(text)

    def _from_keys(self, keys: Mapping[str, str]) -> list[base.Reading]:
        units = keys.get("THROUGHPUT_UNITS", "")
        rate = self._number(keys, "THROUGHPUT")
        if units != self.units:
            told = output.printable(units, 30)
            raise base.OutputError(f"{self.kind}: the figure is in '{told}', not in {self.units}")
        found = [base.Reading(*self.primary, rate, primary=True)]
        for name, key in (
            ("latency_mean", "MEAN_LATENCY"),
            ("latency_p50", "P50_LATENCY"),
            ("latency_p99", "P99_LATENCY"),
        ):
            if re.fullmatch(_NUMBER, keys.get(key, "")):
                found.append(base.Reading(name, "µs", "lower", self._number(keys, key)))
        if rate == 0:
            raise base.OutputError(f"{self.kind}: nothing was transferred")
        return found

    def _from_table(self, text: str) -> list[base.Reading]:
        rows = _TABLE.findall(text)
        if len(rows) != 1 or float(rows[0][3]) == 0 or float(rows[0][4]) == 0:
            raise base.OutputError(
                f"{self.kind}: neither key=value nor one row of a TCP_STREAM table in the output"
            )
        if not _HEADER.search(text):
            raise base.OutputError(
                f"{self.kind}: the table does not say that it is in 10^6bits/sec; run netperf with -f m and"
                " without -P 0"
            )
        rate = output.check_number(self.kind, "throughput", float(rows[0][4]))
        return [base.Reading(*self.primary, rate, primary=True)]

    def _number(self, keys: Mapping[str, str], key: str) -> float:
        text = keys[key]
        if not re.fullmatch(_NUMBER, text):
            raise base.OutputError(f"{self.kind}: {key}='{output.printable(text, 40)}' is no number")
        return output.check_number(self.kind, key, float(text))


class NetperfRequests(Netperf):
    """Requests of one byte and answers of one byte with netperf, over TCP, a connection each (TCP_CRR) or UDP.

    Reads key=value output, which is what it asks for.
    """

    kind = "netperf-requests"
    summary = "requests or connections per second with netperf, where it is installed"
    primary = ("transactions_per_second", "1/s", "higher")
    tests = ("TCP_RR", "TCP_CRR", "UDP_RR")
    units = "Trans/s"
    parameters = (
        parameter.SECONDS,
        parameter.Choice("test", "TCP_RR", ", ".join(tests), tests),
        Netperf.parameters[-1],
    )

    def _from_table(self, text: str) -> list[base.Reading]:
        raise base.OutputError(f"{self.kind}: no key=value in the output")
