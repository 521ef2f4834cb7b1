# SPDX-License-Identifier: Apache-2.0
"""TCP throughput with netperf, where it is installed (Debian: non-free until 12)."""

import re
from collections.abc import Mapping, Sequence

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, netperf_omni, netperf_text

_TESTS = ("TCP_STREAM", "TCP_MAERTS")
#: Test -> the kind that reads it where it is alone in a text.
_READ_ELSEWHERE = {
    **dict.fromkeys(netperf_text.REQUESTS, "netperf_rr"),
    netperf_omni.UDP_STREAM: "netperf_udp",
}
_UNITS = "THROUGHPUT_UNITS=10^6bits/s"


class Netperf(base.Benchmark):
    """Bulk data with netperf: TCP_STREAM to the server, TCP_MAERTS from it."""

    kind = "netperf"
    summary = "TCP throughput with netperf, where it is installed"
    packages = ("netperf",)
    programs = ("netperf", "netserver")
    primary = ("throughput", "Mbit/s", "higher")
    parameters = (
        base.SECONDS,
        base.Choice("test", "TCP_STREAM", ", ".join(_TESTS), _TESTS),
        base.Integer("port", "12865", "control port of netserver", 1, 65535),
    )
    paired = True
    marked = True
    form = "netperf -f m -- -k THROUGHPUT,THROUGHPUT_UNITS,PROTOCOL"
    image_variant = "own"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, port = values.numbers("seconds", "port")
        peer = self.server(peer)
        client = [
            "netperf",
            "-H",
            peer,
            "-p",
            str(port),
            "-t",
            values.text("test"),
            "-l",
            str(seconds),
        ]
        client += [
            "-P",
            "0",
            "-j",
            "-f",
            "m",
            "--",
            "-k",
            "THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,PROTOCOL",
        ]
        limit_s = seconds + base.MARGIN_S
        return (
            base.Step(("netserver", "-D", "-L", peer, "-p", str(port)), "server", limit_s),
            base.Step(tuple(client), "client", limit_s),
        )

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        return {"protocol": "TCP"}

    def printed(self, output: str) -> bool:
        if netperf_text.alone(output) in _READ_ELSEWHERE:
            return False
        return f"{_UNITS}\n" in output or netperf_text.printed(output)

    def _is_table(self, text: str) -> bool:
        """Return whether it is netperf's output for people, or of figures that somebody chose."""
        banners = [line for line in netperf_text.lines_of(text) if netperf_text.BANNER.match(line)]
        return bool(banners) or (f"{_UNITS}\n" not in text and self.printed(text))

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        if self._is_table(output):
            return self._report_table(output)
        others = netperf_omni.chosen(self, output)
        readings = self.parse(output)
        readings += [reading for reading in others.figures if not reading.primary]
        return base.BenchmarkReport(
            readings, others.workload, dict(self.remarks(output)), others.left_out
        )

    def _report_table(self, text: str) -> base.BenchmarkReport:
        tests = netperf_text.read(self, text)
        if len(tests) == 1 and not tests[0].is_stream:
            raise self._of_another(tests[0])
        return netperf_text.report(self, tests)

    def _of_another(self, test: netperf_omni.Test) -> base.BenchmarkOutputError:
        """Return the error of a test that is no bulk data over TCP."""
        name = one_line(test.name, 20)
        if test.name.upper().startswith("OMNI") and "protocol" in test.workload:
            name += f" ({one_line(test.workload['protocol'], 20)})"
        kind = _READ_ELSEWHERE.get(test.name, "")
        if test.is_requests:
            kind = _READ_ELSEWHERE["TCP_RR"]
        if test.is_udp:
            kind = _READ_ELSEWHERE[netperf_omni.UDP_STREAM]
        reader = ""
        if kind:
            reader = f"; 'bench parse {kind}' reads it"
        return self.fault(f"the output is of a {name} test, not of TCP_STREAM{reader}")

    def remarks(self, text: str) -> Mapping[str, str]:
        if self._is_table(text):
            return self._report_table(text).remarks
        if re.search(r"^PROTOCOL=", text, re.MULTILINE):
            return {}
        return {
            "protocol_unknown": "the output does not name the protocol (-k PROTOCOL): it is taken for TCP"
        }

    def parse(self, text: str) -> list[base.Reading]:
        self.check_length(text)
        if "could not establish the control connection" in text:
            raise base.NotReadyError(f"{self.kind}: could not establish the control connection")
        if self._is_table(text):
            return self._report_table(text).readings
        if f"{_UNITS}\n" not in text:
            raise self.fault(f"the output has no line '{_UNITS}'{self.wanted_form()}")
        protocols = re.findall(r"^PROTOCOL=(.*)$", text, re.MULTILINE)
        if protocols and protocols != ["TCP"]:
            raise self.fault(f"the output is of a {one_line(protocols[0], 20)} test, not of TCP")
        rate = self.labelled(text, rf"^THROUGHPUT={base.NUMBER}$", "THROUGHPUT")
        if rate == 0:
            raise self.fault("nothing was transferred")
        return [base.Reading(*self.primary, rate, primary=True)]
