# SPDX-License-Identifier: Apache-2.0
"""What iperf3 prints for people, for TCP and UDP, one direction or both."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, iperf_rows, pasted
from nova_perf_tuning.validation.bench.iperf_rows import IperfRow

_MARKS: Final = re.compile(
    r"^(?:Connecting to host .{1,200}, port [0-9]{1,5}|iperf 3\.[0-9].*|iperf Done\.|iperf3: .{1,300}"
    r"|Server listening on [0-9]{1,5}.*"
    r"|\[ ?ID\](?:\[Role\])?[ ]+Interval[ ]+Transfer[ ]+Bitrate.*"
    r"|\[[ ]*(?:[0-9]{1,5}|SUM)\].{1,200}[ ](?:sender|receiver))$",
    re.MULTILINE,
)
_UDP: Final = re.compile(
    r"[0-9] ms[ ]+[0-9]{1,15}/[ ]*[0-9]{1,15} \(|Total Datagrams|protocol: UDP", re.MULTILINE
)
_VERSION: Final = re.compile(r"^iperf (3\.[0-9][0-9A-Za-z.+-]{0,20})")
_STARTING: Final = re.compile(
    r"^Starting Test: protocol: (\w{1,10}), ([0-9]{1,5}) streams?, ([0-9]{1,9}) byte blocks,"
    r" omitting ([0-9]{1,5}) seconds"
)
_CPU: Final = re.compile(
    r"^CPU Utilization: local/(?:sender|receiver) ([0-9]{1,6}\.[0-9]{1,3})% \(.{1,60}?\),"
    r" remote/(?:sender|receiver) ([0-9]{1,6}\.[0-9]{1,3})% "
)
_RETRANSMITS: Final = re.compile(r"^([0-9]{1,12})[ ].*sender$|^([0-9]{1,12})[ ]*sender$")
_CONNECTED: Final = re.compile(
    r"^\[[ ]*([0-9]{1,5})\] local \S{1,100} port [0-9]{1,5} connected to "
)
_CONNECTING: Final = re.compile(r"^Connecting to host .{1,200}, port [0-9]{1,5}$")
_SAID: Final = re.compile(r"^iperf3: ((?:error|interrupt) - .{1,200})$")
_FORWARD: Final = "client to server"
_REVERSE: Final = "server to client"
_ROLES: Final[Mapping[str, str]] = {"TX-C": _FORWARD, "RX-C": _REVERSE}
_SENDER: Final = "sender"
_RECEIVER: Final = "receiver"


def printed(text: str) -> bool:
    return _MARKS.search(_stripped(text)) is not None


def is_udp(text: str) -> bool:
    return _UDP.search(text) is not None or "-u" in _command(text)


@dataclasses.dataclass(frozen=True, slots=True)
class _Direction:
    """The two totals of one direction."""

    name: str
    sent: IperfRow | None
    received: IperfRow


def report(tool: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return the figures of a client's test; those of several are numbered, and none is judged.

    :raises base.BenchmarkOutputError: one of them cannot be read.
    """
    tool.check_length(text)
    parts = _tests(text)
    if len(parts) == 1:
        return _report_test(tool, text)
    shown = base.BenchmarkReport()
    for number, part in enumerate(parts, start=1):
        found = _report_test(tool, part)
        for reading in found.readings:
            metric = f"test{number}_{reading.metric}"
            shown.readings.append(dataclasses.replace(reading, metric=metric, primary=False))
        facts = [f"{name} {value}" for name, value in found.workload.items()]
        shown.workload[f"test{number}"] = ", ".join(facts)
        shown.remarks.update(found.remarks)
        shown.left_out = found.left_out
    shown.remarks["several_tests"] = f"the text has {len(parts)} tests: none of them is judged"
    return shown


def _tests(text: str) -> list[str]:
    """Return the text of each test of a client, with the command line before it."""
    lines = pasted.lines_of(text)
    starts = []
    for at, line in enumerate(lines):
        if not _CONNECTING.match(line):
            continue
        if at and _command(lines[at - 1]):
            starts.append(at - 1)
        else:
            starts.append(at)
    if len(starts) < 2:
        return [text]
    ends = [*starts[1:], len(lines)]
    return ["\n".join(lines[begin:end]) for begin, end in zip(starts, ends, strict=True)]


def _report_test(tool: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return the figures of one test.

    :param tool: the benchmark of TCP or of UDP.
    :raises base.BenchmarkOutputError: iperf3 said an error, or the totals are missing or of several tests.
    """
    lines = pasted.lines_of(text)
    _check_errors(tool, lines)
    udp = tool.kind == "packets"
    if is_udp(text) != udp:
        raise tool.fault("the output is of a test of the other protocol (TCP or UDP)")
    directions = _directions(tool, lines)
    shown = base.BenchmarkReport()
    for direction in directions:
        if udp:
            readings = _udp_readings(tool, direction)
        else:
            readings = _tcp_readings(tool, direction)
        if len(directions) > 1:
            prefix = pasted.metric(direction.name)
            readings = [
                dataclasses.replace(reading, metric=f"{prefix}_{reading.metric}", primary=False)
                for reading in readings
            ]
        shown.readings += readings
    if len(directions) > 1:
        shown.remarks["both_directions"] = "both directions ran at once: none of them is judged"
    shown.readings += _cpu(lines)
    shown.workload = _workload(text, lines, directions, udp)
    rate = shown.workload.get("rate asked for")
    if not udp and rate is not None and rate != "0":
        shown.remarks["held_to_a_rate"] = f"the sender was held to a rate (-b {rate})"
    shown.left_out.append("single intervals and streams, windows, round trip times")
    return shown


def _check_errors(tool: base.Benchmark, lines: Sequence[str]) -> None:
    for line in lines:
        said = _SAID.match(line)
        if not said:
            continue
        message = one_line(said[1], 160)
        if "refused" in message:
            raise base.NotReadyError(f"{tool.kind}: {message}")
        raise tool.fault(message)


def _directions(tool: base.Benchmark, lines: Sequence[str]) -> list[_Direction]:
    """Return the directions of the test that the last part of the output sums up."""
    rows = [row for row in map(iperf_rows.row, lines) if row is not None]
    ended = [row for row in rows if row.rest.endswith((_SENDER, _RECEIVER))]
    if not ended:
        old = _old_udp(tool, lines)
        if old is not None:
            return [old]
        raise tool.fault(
            f"the output is cut off or no client's: no line of the receiver{tool.wanted_form()}"
        )
    directions = []
    for role in dict.fromkeys(row.role for row in ended):
        name = _ROLES.get(role, _FORWARD)
        if not role and _reverse(lines):
            name = _REVERSE
        own = [row for row in ended if row.role == role]
        received = [row for row in own if row.rest.endswith(_RECEIVER)]
        sent = [row for row in own if row.rest.endswith(_SENDER)]
        if not received:
            raise tool.fault(
                f"the output is cut off: no whole line of the receiver of '{name}',"
                " so what arrived is not known"
            )
        streams = {row.stream for row in rows if row.role == role} - {iperf_rows.SUM}
        if not role:
            streams |= {found[1] for found in map(_CONNECTED.match, lines) if found is not None}
        sent_total = None
        if sent:
            sent_total = iperf_rows.total(tool, sent, f"'{name}' sent", len(streams))
        received_total = iperf_rows.total(tool, received, f"'{name}' received", len(streams))
        directions.append(_Direction(name, sent_total, received_total))
    bidirectional = any("[Role]" in line for line in lines) or any(row.role for row in rows)
    if bidirectional and len(directions) == 1:
        raise tool.fault("the output is cut off: one direction of two has no totals")
    return directions


def _old_udp(tool: base.Benchmark, lines: Sequence[str]) -> _Direction | None:
    """Return the total of iperf3 3.0 and 3.1, which print one line: the sender's rate, the receiver's losses."""
    if "iperf Done." not in lines:
        return None
    rule = max((at for at, line in enumerate(lines) if line.startswith("- - -")), default=0)
    rows = [row for row in map(iperf_rows.row, lines[rule:]) if row is not None]
    totals = [row for row in rows if row.losses is not None]
    if not totals:
        return None
    found = iperf_rows.total(tool, totals, "datagrams")
    name = _FORWARD
    if _reverse(lines):
        name = _REVERSE
    return _Direction(name, None, found)


def _tcp_readings(tool: base.Benchmark, direction: _Direction) -> list[base.Reading]:
    received, sent = direction.received, direction.sent
    if received.rate == 0:
        raise tool.fault("the receiver got nothing (0 bit/s)")
    readings = [base.Reading(*tool.primary, received.rate / 1e6, primary=True)]
    if sent is not None:
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", sent.rate / 1e6))
    amount = received.amount * 8 / 1e9
    readings.append(base.Reading("transferred", tool.work_unit, "higher", amount))
    if sent is not None:
        again = _RETRANSMITS.match(sent.rest)
        if again:
            count = float(again[1] or again[2])
            readings.append(base.Reading("retransmits", "segments", "lower", count))
    return readings


def _udp_readings(tool: base.Benchmark, direction: _Direction) -> list[base.Reading]:
    received, sent = direction.received, direction.sent
    losses = received.losses
    if losses is None:
        raise tool.fault("the receiver's line has no losses")
    jitter, lost, counted = losses
    seconds = received.end - received.begin
    arrived = counted - lost
    if arrived <= 0 or seconds <= 0:
        raise tool.fault(f"{arrived:g} datagrams arrived in {seconds:g} s")
    readings = [base.Reading(*tool.primary, arrived / seconds, primary=True)]
    if sent is None and not received.rest.endswith(_RECEIVER):
        # The one line of iperf3 3.0 has the sender's rate.
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", received.rate / 1e6))
    else:
        readings.append(base.Reading("throughput", "Mbit/s", "higher", received.rate / 1e6))
    if sent is not None:
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", sent.rate / 1e6))
    sent_count = counted
    if sent is not None and sent.losses is not None:
        sent_count = max(counted, sent.losses[2])
    # Of what was sent: the receiver does not see what is missing after its last datagram.
    share = 100 * (1 - arrived / sent_count)
    readings.append(base.Reading("lost_share", "%", "lower", share))
    readings.append(base.Reading("lost", "datagrams", "lower", lost))
    readings.append(base.Reading("jitter", "ms", "lower", jitter))
    readings.append(base.Reading("received", tool.work_unit, "higher", arrived / 1e3))
    return readings


def _cpu(lines: Sequence[str]) -> list[base.Reading]:
    for line in lines:
        found = _CPU.match(line)
        if found:
            return [
                base.Reading("client_cpu", "%", "lower", float(found[1])),
                base.Reading("server_cpu", "%", "lower", float(found[2])),
            ]
    return []


def _workload(
    text: str, lines: Sequence[str], directions: Sequence[_Direction], udp: bool
) -> dict[str, str]:
    names = [direction.name for direction in directions]
    workload = {"protocol": "TCP", "direction": " and ".join(names)}
    if udp:
        workload["protocol"] = "UDP"
    streams = {row.stream for row in map(iperf_rows.row, lines) if row is not None}
    streams.discard(iperf_rows.SUM)
    if streams:
        workload["streams"] = str(len(streams) // len(names) or 1)
    workload["seconds"] = f"{directions[0].received.end:g}"
    for line in lines:
        version, starting = _VERSION.match(line), _STARTING.match(line)
        if version:
            workload["version"] = version[1]
        if starting:
            workload["block size"] = f"{starting[3]} bytes"
            if starting[4] != "0":
                workload["omitted seconds"] = starting[4]
    words = _command(text)
    for name, options in (
        ("rate asked for", ("-b", "--bitrate", "--bandwidth")),
        ("streams", ("-P", "--parallel")),
        ("block size", ("-l", "--length")),
        ("window", ("-w", "--window")),
        ("seconds asked for", ("-t", "--time")),
    ):
        value = pasted.option(words, *options)
        if value is not None:
            workload[name] = one_line(value, 20)
    if "Accepted connection from" in text and "Connecting to host" not in text:
        workload["side"] = "server"
    return workload


def _reverse(lines: Sequence[str]) -> bool:
    said = any(line.startswith("Reverse mode, remote host") for line in lines)
    return said or "-R" in _command("\n".join(lines))


def _command(text: str) -> list[str]:
    return pasted.command(text, r"iperf3?[\w.-]{0,20}")


def _stripped(text: str) -> str:
    return "\n".join(pasted.lines_of(text))
