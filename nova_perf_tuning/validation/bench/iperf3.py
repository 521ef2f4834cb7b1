# SPDX-License-Identifier: Apache-2.0
"""TCP throughput and small UDP packets with iperf3."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from nova_perf_tuning import bounded_json
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import (
    base,
    iperf3_parts,
    iperf3_text,
    iperf_rows,
    own,
    pasted,
)

_DIRECTION: Final = base.Choice(
    "direction", "forward", "forward: client sends; reverse: server sends", ("forward", "reverse")
)


_DIRECTIONS: Final = {"forward": "client to server", "reverse": "server to client"}
RATE: Final = "rate asked for"
_UNLIMITED: Final = "none"
#: What a system without TCP_INFO has for retransmits.
_NOT_COUNTED: Final = -1
#: Keys of its JSON, also where somebody has cut a part out of it.
_KEYS: Final = re.compile(
    r'(?<!\\)"iperf 3\.|"(?:sum_sent|sum_received|test_start|num_streams|bits_per_second)"[ ]?:'
    r'|"event"[ ]?:[ ]?"(?:start|interval|end|error)"'
)
#: Of the sums of the way back in a bidirectional run, since 3.12.
_REVERSE: Final = "_bidir_reverse"


def _is_bidirectional(end: object) -> bool:
    return isinstance(end, dict) and f"sum_sent{_REVERSE}" in end


def _is_negative(count: object) -> bool:
    """Return whether a count is below 0, which iperf3 prints where datagrams came twice."""
    return isinstance(count, int | float) and count < 0


def _ends(end: Mapping[str, object]) -> list[float]:
    """Return when each stream of a document ended, in seconds, as its sender counted."""
    streams = end.get("streams")
    ends: list[float] = []
    if not isinstance(streams, list):
        return ends
    for stream in streams:
        if not isinstance(stream, dict):
            continue
        total = stream.get("sender", stream.get("udp"))
        if isinstance(total, dict) and isinstance(total.get("end"), int | float):
            ends.append(float(total["end"]))
    return ends


def fan(argv: Sequence[str], processes: int, port: int) -> tuple[str, ...]:
    """Return the command that runs ``argv`` on so many ports side by side; ``@PORT@`` in it is the port."""
    if processes == 1:
        return tuple(str(port) if word == "@PORT@" else word for word in argv)
    return (own.PROGRAM, "fan", str(processes), str(port), *argv)


class _Iperf(base.Benchmark):
    """A benchmark of iperf3, whose JSON and whose text are read; ``protocol``: ``TCP`` or ``UDP``."""

    packages = ("iperf3",)
    programs = ("iperf3",)
    tool = "iperf3"
    paired = True
    marked = True
    form = "iperf3 -c HOST -J"
    json_keys = frozenset(("start", "end", "error", "event", "outputs"))
    equal_keys = (
        ": iperf3 before 3.12 prints a bidirectional run so; measure one direction at a time"
    )
    protocol: ClassVar[str]

    def pair(self, values: base.Values, peer: str | None, *options: str) -> list[base.Step]:
        """Return server and client, which has ``options`` besides; ``@PORT@`` stands for each process's port."""
        seconds, port, processes = (
            *values.numbers("seconds", "port"),
            int(values.get("processes", 1)),
        )
        if port + processes > 65_536:
            raise self.refusal(f"port={port} leaves no {processes} ports for the processes")
        server = ["iperf3", "-s", "-1", "-B", self.server(peer), "-p", "@PORT@"]
        client = ["iperf3", "-c", self.server(peer), "-p", "@PORT@", "-t", str(seconds), *options]
        # A report each second would make the output of a long run longer than what is read.
        client += ["-i", "0", "-J", "--connect-timeout", "20000"]
        if values["direction"] == "reverse":
            client.append("-R")
        if self.protocol == "TCP" and (bitrate := values["bitrate"]):
            client += ["-b", f"{bitrate}M"]
        limit_s = seconds + base.MARGIN_S
        return [
            base.Step(fan(server, processes, port), "server", limit_s),
            base.Step(fan(client, processes, port), "client", limit_s),
        ]

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        values = self.values(given)
        work = {
            "protocol": self.protocol,
            "direction": _DIRECTIONS[values.text("direction")],
            "seconds asked for": values.text("seconds"),
            RATE: _UNLIMITED,
        }
        if values["bitrate"]:
            work[RATE] = f"{values['bitrate']} Mbit/s a stream"
        return work

    def has_json(self, text: str) -> bool:
        return super().has_json(iperf3_parts.without_debugging(text))

    def json_objects(self, text: str) -> list[bounded_json.Object]:
        return super().json_objects(iperf3_parts.without_debugging(text))

    def is_text(self, text: str) -> bool:
        return not self.has_json(text) and iperf3_text.printed(text)

    def printed(self, output: str) -> bool:
        if self.has_json(output):
            of_iperf3 = _KEYS.search(output) is not None
            udp = re.search(r'"protocol":\s*"UDP"', output) is not None
        else:
            shown = iperf3_parts.without_debugging(output)
            of_iperf3 = iperf3_text.printed(shown)
            udp = of_iperf3 and iperf3_text.is_udp(shown)
        return of_iperf3 and udp == (self.protocol == "UDP")

    def report(self, output: str) -> base.BenchmarkReport:
        if self.is_text(output):
            return iperf3_text.report(self, output)
        found = base.BenchmarkReport(self.parse(output), remarks=dict(self.remarks(output)))
        document = self.documents(output)[0]
        found.workload = self._workload(document)
        self._add_command(found, output)
        if _is_bidirectional(document["end"]):
            found.workload["direction"] = "client to server and server to client"
            found.remarks["both_directions"] = (
                "both directions ran at once: none of them is judged"
            )
        self.add_calculated(found, document)
        said = pasted.own_error(output, self.tool)
        if said:
            found.remarks["said"] = f"iperf3 said '{one_line(said, 160)}' beside its JSON"
        found.left_out.append(
            "single intervals and streams, windows, round trip times, CPU of user and system"
        )
        return found

    def add_calculated(self, found: base.BenchmarkReport, document: Mapping[str, Any]) -> None:
        """Say which figures are calculated, of what; of TCP none is."""

    def _add_command(self, found: base.BenchmarkReport, output: str) -> None:
        """Add the rate that the command before a document has, which iperf3 before 3.6 does not repeat."""
        words = iperf3_parts.command(output[: output.index("{")])
        rate = pasted.option(words, "-b", "--bitrate", "--bandwidth")
        if rate is None or "rate asked for" in found.workload:
            return
        found.workload["rate asked for"] = one_line(rate, 20)
        sent = [item.value for item in found.readings if item.metric == "sent_throughput"]
        asked = iperf_rows.asked_rate(rate)
        if asked is not None and sent:
            streams = int(found.workload.get("streams", "1"))
            remarks = iperf_rows.rate_remarks(asked, streams, sent[0] * 1e6)
            found.remarks = {**remarks, **found.remarks}

    def _workload(self, document: dict[str, Any]) -> dict[str, str]:
        """Return what the test was, as iperf3's JSON repeats it."""
        start = self.mapping(document, "start")
        test = self.mapping(start, "test_start")
        workload = {"protocol": self.protocol, "direction": _DIRECTIONS["forward"]}
        if test.get("reverse"):
            workload["direction"] = _DIRECTIONS["reverse"]
        rate = start.get("target_bitrate", test.get("target_bitrate"))
        if rate == 0:
            workload[RATE] = _UNLIMITED
        elif isinstance(rate, int) and 0 < rate <= base.MAX_NUMBER:
            workload[RATE] = f"{rate / 1e6:g} Mbit/s a stream"
        for name, key in (
            ("streams", "num_streams"),
            ("block size", "blksize"),
            ("seconds asked for", "duration"),
            ("bytes asked for", "bytes"),
            ("blocks asked for", "blocks"),
            ("omitted seconds", "omit"),
        ):
            value = test.get(key)
            if isinstance(value, int) and value:
                workload[name] = str(value)
        end = self.find(document, "end")
        received = end.get("sum_received") or end.get("sum")
        if isinstance(received, dict) and "seconds" in received:
            workload["seconds"] = f"{self.number(received, 'seconds'):.5g}"
        if "version" in start:
            workload["version"] = one_line(start["version"], 40)
        return workload

    def documents(self, text: str) -> list[dict[str, Any]]:
        """Return iperf3's JSON of every process; NotReadyError: a server did not listen yet."""
        objects = self.json_objects(text)
        if "event" in objects[0]:
            data = self._joined(objects)
        else:
            data = self.load_json(text)
        documents = data.get("outputs", [data])
        if not isinstance(documents, list) or not documents:
            raise self.fault("the output has no list of processes")
        for document in documents:
            self._check(document)
        return documents

    def _joined(self, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the one document whose parts ``iperf3 --json-stream`` prints, a line each."""
        document: dict[str, Any] = {}
        for event in events:
            name = event.get("event")
            if name is None:  # the whole document behind the events (--json-stream-full-output)
                return dict(event)
            if name in ("start", "end") and name in document:
                raise self.fault("the output has the events of several tests; keep those of one")
            if name in ("start", "end", "error"):
                document[name] = self.find(event, "data")
        return document

    def _check(self, document: object) -> None:
        """Refuse a document of a failed run, of another protocol or direction, and the server's."""
        if isinstance(document, dict) and "error" in document:
            message = one_line(
                document["error"], 160
            )  # the first of two: it says which side refused
            if "refused" in message:
                raise base.NotReadyError(f"{self.kind}: {message}")
            if message.startswith("interrupt"):
                message += ": the test was stopped, and what the receiver counted is missing"
            raise self.failed(message)
        if (protocol := self.find(document, "start", "test_start", "protocol")) != self.protocol:
            raise self.fault(
                f"the output is of a {one_line(protocol, 20)} test, not of {self.protocol}"
            )
        start = self.find(document, "start")
        if "accepted_connection" in start and "connecting_to" not in start:
            raise self.fault(
                "the output is the server's, whose CPU and losses are the other side's; give the client's"
            )
        end = self.find(document, "end")
        if self.protocol == "UDP" and _is_bidirectional(end):
            raise self.fault(
                "the output is of a bidirectional run; measure one direction at a time"
            )

    def span(self, text: str) -> base.Span | None:
        if self.is_text(text):
            return None
        # It ends some 10 ms after the last of them.
        documents = self.documents(text)
        return base.Span(
            max(self.number(document, "end", "sum_sent", "seconds") for document in documents)
        )

    def remarks(self, text: str) -> Mapping[str, str]:
        if self.is_text(text):
            return iperf3_text.report(self, text).remarks
        remarks: dict[str, str] = {}
        for document in self.documents(text):
            lengths = iperf_rows.lengths_remark(_ends(document["end"]))
            if lengths:
                remarks["different_lengths"] = lengths
            asked = document["start"].get("target_bitrate")
            if isinstance(asked, int) and 0 < asked <= base.MAX_NUMBER:
                end = self.mapping(document, "end")
                name = "sum"
                if "sum_sent" in end:
                    name = "sum_sent"
                sent = self.number(end, name, "bits_per_second")
                streams = self.find(document, "start", "test_start").get("num_streams")
                if not isinstance(streams, int):
                    streams = 1
                remarks.update(iperf_rows.rate_remarks(float(asked), streams, sent))
        return remarks

    def cpu_shares(self, ends: Sequence[object]) -> list[base.Reading]:
        """Return the CPU of iperf3's own processes on both sides in per cent of one CPU, summed up."""
        readings = []
        for name, field in (("client_cpu", "host_total"), ("server_cpu", "remote_total")):
            share = sum(self.number(end, "cpu_utilization_percent", field) for end in ends)
            readings.append(base.Reading(name, "%", "lower", share))
        return readings


class Iperf3(_Iperf):
    """One TCP test between two machines; the receiver's rate counts, in Mbit/s of 1,000,000 bit/s.

    iperf3 before 3.16 serves all streams with one thread, so several streams show queues, not
    several CPUs; ``processes`` starts several pairs, on ports one after the other. With
    ``bitrate`` the sender holds itself to a rate: what a host pays at 50, 100, 200 … Mbit/s (the
    published runs made steps with window sizes instead).
    """

    kind = "iperf3"
    protocol = "TCP"
    summary = "TCP throughput between two machines, as the receiver counts it"
    primary = ("throughput", "Mbit/s", "higher")
    parameters = (
        base.Integer("seconds", "10", "length of the measured part", 1, 3600),
        base.Integer("streams", "1", "parallel connections of each process", 1, 128),
        base.Integer(
            "processes",
            "1",
            "pairs of iperf3 side by side; more than one needs nova-perf-bench",
            1,
            64,
        ),
        base.Integer(
            "bitrate", "0", "Mbit/s that each stream is held to; 0: as fast as it goes", 0, 400_000
        ),
        _DIRECTION,
        base.Integer(
            "port", "5201", "TCP port of the server, or of the first of several", 1, 65_535
        ),
    )
    work_metric = "transferred"
    work_unit = "Gbit"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        return self.pair(values, peer, "-P", str(values["streams"]))

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        return {**super().asked(given), "streams": self.values(given).text("streams")}

    def parse(self, text: str) -> list[base.Reading]:
        if self.is_text(text):
            return iperf3_text.report(self, text).readings
        ends = [self.find(document, "end") for document in self.documents(text)]
        if any(_is_bidirectional(end) for end in ends):
            return self._both_directions(ends)
        rates = [self.number(end, "sum_received", "bits_per_second") for end in ends]
        if not all(rates):
            raise self.fault("the receiver got nothing (0 bit/s)")
        work = sum(self.number(end, "sum_received", "bytes") for end in ends)
        readings = [
            base.Reading(*self.primary, sum(rates) / 1e6, primary=True),
            base.Reading("transferred", self.work_unit, "higher", work * 8 / 1e9),
        ]
        sent = [self.number(end, "sum_sent", "bits_per_second") for end in ends]
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", sum(sent) / 1e6))
        retransmits = self._retransmits(ends)
        if retransmits is not None:
            readings.append(base.Reading("retransmits", "segments", "lower", retransmits))
        return readings + self.cpu_shares(ends)

    def _both_directions(self, ends: Sequence[object]) -> list[base.Reading]:
        """Return the figures of a run of both directions at once, of which none is judged."""
        readings = []
        for prefix, suffix in (("client_to_server", ""), ("server_to_client", _REVERSE)):
            received = [
                self.number(end, f"sum_received{suffix}", "bits_per_second") for end in ends
            ]
            sent = [self.number(end, f"sum_sent{suffix}", "bits_per_second") for end in ends]
            if not all(received):
                raise self.fault(f"nothing arrived of '{prefix}' (0 bit/s)")
            for name, rates in (("throughput", received), ("sent_throughput", sent)):
                rate = sum(rates) / 1e6
                readings.append(base.Reading(f"{prefix}_{name}", "Mbit/s", "higher", rate))
            counts = [self.mapping(end, f"sum_sent{suffix}").get("retransmits") for end in ends]
            if None not in counts:
                count = sum(self.check_number("retransmits", count) for count in counts)
                metric = f"{prefix}_retransmits"
                readings.append(base.Reading(metric, "segments", "lower", count))
        return readings + self.cpu_shares(ends)

    def _retransmits(self, ends: Sequence[object]) -> float | None:
        """Return the segments that were sent again; None: a system without TCP_INFO does not count them."""
        totals = []
        for end in ends:
            sent = self.find(end, "sum_sent")
            if not isinstance(sent, dict) or "retransmits" not in sent:
                return None
            if sent["retransmits"] == _NOT_COUNTED:
                return None
            totals.append(sent)
        return sum(self.number(total, "retransmits") for total in totals)


class Packets(_Iperf):
    """Small UDP packets as fast as the sender can, counted where they arrive; the lost share stands beside it."""

    kind = "packets"
    protocol = "UDP"
    summary = "UDP packets per second that arrive, small ones by default (iperf3)"
    primary = ("packets_per_second", "1/s", "higher")
    parameters = (
        base.SECONDS,
        base.Integer("bytes", "64", "payload of each packet", 16, 65_000),
        base.Integer(
            "bitrate", "0", "payload in Mbit/s of the sender; 0: as fast as it goes", 0, 400_000
        ),
        _DIRECTION,
        base.Integer("port", "5211", "port of the server", 1, 65_535),
    )
    form = "iperf3 -c HOST -u -J"
    work_metric = "received"
    work_unit = "1,000 packets"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        bitrate = "0"
        if values["bitrate"]:
            bitrate = f"{values['bitrate']}M"
        return self.pair(values, peer, "-u", "-b", bitrate, "-l", str(values["bytes"]))

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        return {**super().asked(given), "block size": self.values(given).text("bytes")}

    def parse(self, text: str) -> list[base.Reading]:
        if self.is_text(text):
            return iperf3_text.report(self, text).readings
        [document, *_] = self.documents(text)
        end = self.mapping(document, "end")
        sent = self.number(end, "sum", "packets")
        # The receiver's own bytes: as lost it tells the gaps alone, and not what is missing after
        # its last packet.
        length = self.number(document, "start", "test_start", "blksize")
        began = sent
        if "sum_received" in end:
            arrived = self.number(end, "sum_received", "bytes") / max(1.0, length)
            # Of the receiver: it has counted until the last packet came.
            seconds = self.number(end, "sum_received", "seconds")
        else:  # iperf3 before 3.7 has one sum of both sides
            arrived = sent - self.number(end, "sum", "lost_packets")
            seconds = self.number(end, "sum", "seconds")
            # Packets are the receiver's count there, bytes are the sender's.
            began = self.number(end, "sum", "bytes") / max(1.0, length)
        count_fault = iperf_rows.counts_fault(sent)
        count_fault = count_fault or iperf_rows.more_than_sent(
            sent * length, arrived * length, self._late(end) or 0.0, sent
        )
        if count_fault:
            raise self.fault(count_fault)
        if not 0 < arrived <= sent or seconds == 0:
            raise self.fault(
                f"{arrived:g} packets arrived in {seconds:g} s, of {sent:g} that were sent"
            )
        readings = [
            base.Reading(
                *self.primary, self.check_number("rate", arrived / seconds), primary=True
            ),
            base.Reading(
                "sent_per_second", "1/s", "higher", self.check_number("rate", began / seconds)
            ),
            base.Reading("throughput", "Mbit/s", "higher", arrived * length * 8 / seconds / 1e6),
            base.Reading("lost_share", "%", "lower", 100 * (1 - arrived / sent)),
            *self._lost(end),
            base.Reading("sent", "datagrams", "higher", sent),
            base.Reading("received", self.work_unit, "higher", arrived / 1e3),
            *self.cpu_shares([end]),
        ]
        if not self._jitter_fault(document):
            jitter = self.number(end, "sum", "jitter_ms")
            readings.append(base.Reading("jitter", "ms", "lower", jitter))
        name = "sum"
        if "sum_sent" in end:
            name = "sum_sent"
        rate = self.number(end, name, "bits_per_second")
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", rate / 1e6))
        return readings

    def _lost(self, end: Mapping[str, Any]) -> list[base.Reading]:
        """Return the datagrams that the receiver missed; none where it counted more than were sent."""
        total = self._received(end)
        if total.get("lost_packets") is None or _is_negative(total["lost_packets"]):
            return []
        lost = self.number(total, "lost_packets")
        return [base.Reading("lost", "datagrams", "lower", lost)]

    def _received(self, end: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the sum that has the receiver's losses."""
        if "sum_received" in end:
            return self.mapping(end, "sum_received")
        return self.mapping(end, "sum")

    def _late(self, end: Mapping[str, Any]) -> float | None:
        """Return the datagrams out of order, of all streams together; None: they are not counted."""
        late: float | None = None
        streams = end.get("streams")
        if not isinstance(streams, list):
            return None
        for stream in streams:
            if not isinstance(stream, dict) or not isinstance(stream.get("udp"), dict):
                continue
            count = stream["udp"].get("out_of_order")
            if isinstance(count, int | float) and count >= 0:
                late = (late or 0.0) + self.check_number("out_of_order", count)
        return late

    def _jitter_fault(self, document: Mapping[str, Any]) -> str:
        """Return why the jitter is none; empty: it is one."""
        total = self.mapping(document, "end", "sum")
        jitter, seconds = self.number(total, "jitter_ms"), self.number(total, "seconds")
        return iperf_rows.jitter_fault(jitter, seconds)

    def add_calculated(self, found: base.BenchmarkReport, document: Mapping[str, Any]) -> None:
        fault = self._jitter_fault(document)
        if fault:
            found.left_out.append(fault)
        end = self.mapping(document, "end")
        lost = self._received(end).get("lost_packets")
        if lost is None:
            found.left_out.append("datagrams lost: the output does not count them")
        elif _is_negative(lost):
            found.left_out.append(
                f"datagrams lost: the receiver counted {one_line(lost, 20)}, since some came twice"
            )
        else:
            counted = self._received(end).get("packets")
            if isinstance(counted, int | float):
                sent = self.number(end, "sum", "packets")
                found.remarks.update(iperf_rows.unseen_remark(sent, counted))
        late = self._late(end)
        if late is None:
            found.left_out.append("datagrams out of order: the output does not count them")
        else:
            found.left_out.append(iperf_rows.late(late))
        names = "'packets_per_second', 'sent_per_second', 'received' and 'lost_share' are"
        of = "the bytes that arrived by the size of a datagram and by the receiver's seconds"
        if "sum_received" not in end:
            names = "'throughput', " + names
            of = "the packets counted less those lost, by the sender's seconds"
            found.left_out.append(
                "the receiver's own rate: iperf3 before 3.7 does not print it in JSON of UDP"
            )
        found.remarks["rate_computed"] = f"{names} calculated of {of}"
