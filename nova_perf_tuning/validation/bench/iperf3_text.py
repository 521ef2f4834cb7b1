# SPDX-License-Identifier: Apache-2.0
"""What iperf3 prints for people, for TCP and UDP, one direction or both."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, iperf3_parts, iperf_rows, pasted
from nova_perf_tuning.validation.bench.iperf_rows import IperfRow

_MARKS: Final = re.compile(
    r"^(?:Connecting to host .{1,200}, port [0-9]{1,5}|iperf 3\.[0-9].*|iperf Done\.|iperf3: .{1,300}"
    r"|Server listening on [0-9]{1,5}.*"
    r"|\[ ?ID\](?:\[Role\])?[ ]+Interval[ ]+Transfer[ ]+Bitrate.*"
    r"|Test Complete\. Summary Results:"
    r"|\[[ ]*(?:[0-9]{1,5}|SUM)\]\[[TR]X-[CS]\][ ].*"
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
_SAID: Final = re.compile(r"^iperf3: ((?:error|interrupt) - .{1,200})$")
_FORWARD: Final = "client to server"
_REVERSE: Final = "server to client"
_ROLES: Final[Mapping[str, str]] = {"TX-C": _FORWARD, "RX-C": _REVERSE}
_LISTENING: Final = re.compile(r"^Server listening on [0-9]{1,5}\b")
_STOPPED: Final = re.compile(
    r"^iperf3: (?:interrupt - )?(the (?:client|server) has terminated.{0,80})$"
)
#: What iperf3 sends of UDP where -b does not say it.
_DEFAULT_RATE: Final = "1M"


#: One of them is in each line that shows iperf3's output: quick to look for in long texts.
_TRACES: Final = (
    "iperf",
    "Connecting to host",
    "Server listening",
    "Bitrate",
    "sender",
    "receiver",
    iperf3_parts.SUMMARY,
)


def printed(text: str) -> bool:
    if not any(trace in text for trace in _TRACES):
        return False
    return _MARKS.search(_stripped(text)) is not None


def is_udp(text: str) -> bool:
    return _UDP.search(text) is not None or "-u" in iperf3_parts.command(text)


@dataclasses.dataclass(frozen=True, slots=True)
class _Direction:
    """The two totals of one direction, of which at least one is there.

    :ivar name: empty: the text does not say which side sent.
    :ivar ends: when each stream ended, in seconds, as the side counted that counts.
    """

    name: str
    sent: IperfRow | None
    received: IperfRow | None
    ends: Sequence[float] = ()

    @property
    def shown(self) -> str:
        """Its name for a person."""
        return self.name or "the test"

    @property
    def total(self) -> IperfRow:
        """The total that counts: the receiver's, if it is there."""
        found = self.received or self.sent
        assert found is not None
        return found


@dataclasses.dataclass(slots=True)
class _TestText:
    """The text of one test, as one side printed it.

    :ivar client: whether that is the client; None: the text does not say.
    :ivar stopped: what iperf3 said when somebody stopped it; empty: nobody did.
    """

    lines: list[str]
    client: bool | None
    stopped: str = ""

    @property
    def reversed(self) -> bool | None:
        """Whether the server sends; None: the text does not say."""
        if self.client and _reverse(self.lines):
            return True
        known = any(
            iperf3_parts.CONNECTING.match(line) for line in self.lines
        ) or iperf3_parts.command("\n".join(self.lines))
        if self.client and known:
            return False
        sends = iperf3_parts.sends(self.lines)
        if sends is None or self.client is None:
            return None
        return sends != self.client

    @property
    def direction(self) -> str:
        """The direction's name; empty: the text does not say it."""
        way_back = self.reversed
        if way_back is None:
            return ""
        if way_back:
            return _REVERSE
        return _FORWARD


def report(tool: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return the figures of a test; those of several are numbered, and none is judged.

    :raises base.BenchmarkOutputError: none of them can be read, or they are of two protocols.
    """
    tool.check_length(text)
    shown = iperf3_parts.without_debugging(text)
    found = _report_text(tool, shown)
    if shown != text:
        found.left_out.append("what -d (--debug) has printed between the lines")
    return found


def _report_text(tool: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return the figures of a text without what -d prints."""
    parts = iperf3_parts.titled(text)
    if len(parts) == 1:
        text = _stripped(text)
    if len(parts) < 2:
        parts = {f"test{at}": part for at, part in enumerate(iperf3_parts.tests(text), start=1)}
    if len(parts) == 1:
        return _report_test(tool, parts["test1"])
    ends = iperf3_parts.two_ends(list(parts.values()))
    if ends is not None:
        return _report_two_ends(tool, *ends)
    tool.check_runs(len(parts), "tests of iperf3")
    found: dict[str, base.BenchmarkReport] = {}
    refusals: dict[str, base.BenchmarkOutputError] = {}
    for name, part in parts.items():
        if is_udp("\n".join(part)) != is_udp(text):
            raise tool.fault("the text has tests of TCP and of UDP; keep those of one protocol")
        try:
            found[name] = _report_test(tool, part)
        except base.BenchmarkOutputError as error:
            refusals[name] = error
    if not found:
        raise next(iter(refusals.values()))
    shown = base.several(found)
    for name, refusal in refusals.items():
        shown.left_out.append(f"{name}: {refusal}")
    shown.remarks["several_tests"] = f"the text has {len(parts)} tests: none of them is judged"
    return shown


def _report_two_ends(
    tool: base.Benchmark, client: Sequence[str], server: Sequence[str]
) -> base.BenchmarkReport:
    """Return the figures of a test of which both ends have printed: the client knows what both have counted."""
    try:
        found = _report_test(tool, client)
        found.left_out.append("the server's own report of the test, behind or before the client's")
    except base.BenchmarkOutputError as error:
        found = _report_test(tool, server)
        found.left_out.append(f"the client's report of the test: {error}")
    return found


def _test_text(lines: Sequence[str]) -> _TestText:
    """Return what a test's lines say of the side that printed them."""
    client: bool | None = None
    if any(iperf3_parts.ACCEPTED.match(line) or _LISTENING.match(line) for line in lines):
        client = False
    if any(row.role.endswith("S") for row in map(iperf_rows.row, lines) if row is not None):
        client = False
    words = iperf3_parts.command("\n".join(lines))
    done = any(iperf3_parts.CONNECTING.match(line) or line == iperf3_parts.DONE for line in lines)
    if done or pasted.option(words, "-c", "--client") is not None:
        client = True
    found = _TestText(list(lines), client)
    idle = False
    for line in lines:
        if _LISTENING.match(line):
            idle = True
        elif iperf3_parts.ACCEPTED.match(line):
            idle = False
        stopped = _STOPPED.match(line)
        # A server that is stopped while it waits for the next test has not cut this one.
        if stopped and not (idle and _ended(lines)):
            found.stopped = one_line(stopped[1], 100)
    return found


def _report_test(tool: base.Benchmark, lines: Sequence[str]) -> base.BenchmarkReport:
    """Return the figures of one test.

    :param tool: the benchmark of TCP or of UDP.
    :raises base.BenchmarkOutputError: iperf3 said an error, or the totals are missing or of several tests.
    """
    _check_errors(tool, lines)
    text = "\n".join(lines)
    udp = tool.kind == "packets"
    protocol = _protocol(lines)
    if protocol == "SCTP":
        raise tool.fault(
            "the output is of an SCTP test, which is not read; tests of TCP and of UDP (-u) are"
        )
    if is_udp(text) != udp:
        raise tool.fault("the output is of a test of the other protocol (TCP or UDP)")
    shown = base.BenchmarkReport()
    if iperf3_parts.SERVER_OUTPUT in lines:
        lines = [line for line in lines if line != iperf3_parts.SERVER_OUTPUT]
        shown.left_out.append("the server's own output (--get-server-output)")
    test = _test_text(lines)
    directions = _directions(tool, test)
    for direction in directions:
        twice = ""
        if udp and direction.received is not None:
            twice = iperf_rows.counted_twice(direction.sent, [direction.received], lines)
        if twice:
            readings = _sent_readings(tool, direction, twice)
            shown.remarks["counted_twice"] = twice
            shown.left_out.append(
                "datagrams a second, throughput, losses and jitter, as the receiver counted"
            )
        elif udp:
            readings = _udp_readings(tool, direction)
        else:
            readings = _tcp_readings(tool, direction)
        if len(directions) > 1:
            prefix = pasted.metric(direction.shown)
            readings = [
                dataclasses.replace(reading, metric=f"{prefix}_{reading.metric}")
                for reading in readings
            ]
        lengths = iperf_rows.lengths_remark(direction.ends)
        if lengths:
            shown.remarks["different_lengths"] = f"{lengths}, and is not judged"
        if len(directions) > 1 or test.stopped or lengths:
            readings = [dataclasses.replace(reading, primary=False) for reading in readings]
        shown.readings += readings
    shown.readings += _cpu(test)
    shown.workload = _workload(test, directions)
    if protocol:
        shown.workload = {"protocol": protocol, **shown.workload}
    else:
        shown.left_out.append("protocol: the output does not say whether it is TCP or SCTP")
    _add_remarks(shown, test, directions, udp)
    return shown


def _ended(lines: Sequence[str]) -> bool:
    """Return whether a text has a total."""
    rows = [row for row in map(iperf_rows.row, lines) if row is not None]
    return any(iperf3_parts.side(row) for row in rows)


def _protocol(lines: Sequence[str]) -> str:
    """Return the protocol of a test; empty: the text does not say it. TCP alone has retransmits."""
    if is_udp("\n".join(lines)):
        return "UDP"
    for line in lines:
        starting = _STARTING.match(line)
        if starting:
            return starting[1]
    words = iperf3_parts.command("\n".join(lines))
    if "--sctp" in words:
        return "SCTP"
    retransmits = any(iperf3_parts.HEADING.match(line) and " Retr" in line for line in lines)
    if retransmits or pasted.option(words, "-c", "--client") is not None:
        return "TCP"
    return ""


def _add_remarks(
    shown: base.BenchmarkReport, test: _TestText, directions: Sequence[_Direction], udp: bool
) -> None:
    """Say what was set, stopped, calculated and left out."""
    if len(directions) > 1:
        shown.remarks["both_directions"] = "both directions ran at once: none of them is judged"
    words = iperf3_parts.command("\n".join(test.lines))
    rate = pasted.option(words, "-b", "--bitrate", "--bandwidth")
    if rate is None and udp and pasted.option(words, "-c", "--client") is not None:
        rate = _DEFAULT_RATE
    if rate is not None:
        asked = iperf_rows.asked_rate(rate)
        if asked is None:
            shown.remarks["rate_set"] = f"a rate was set (-b {one_line(rate, 20)})"
        else:
            streams = pasted.whole_number(shown.workload.get("streams")) or 1
            sent = min((item.sent or item.total).rate for item in directions)
            shown.remarks.update(iperf_rows.rate_remarks(asked, streams, sent))
    if test.stopped:
        after = directions[0].total.end
        shown.remarks["stopped"] = f"the test was stopped after {after:g} s ({test.stopped})"
    calculated = any(reading.metric.endswith("lost_share") for reading in shown.readings)
    if udp and calculated:
        shown.remarks["rate_computed"] = (
            "'packets_per_second', 'received' and 'lost_share' are calculated: datagrams that"
            " arrived, by the receiver's seconds, and by those that were sent"
        )
    if any(not item.name for item in directions):
        shown.left_out.append(
            "direction: the lines 'Connecting to host' and 'Accepted connection' are missing"
        )
    for item in directions:
        _add_counts(shown, item, udp)
    shown.left_out += iperf_rows.out_of_order(test.lines)
    shown.left_out.append(
        "single intervals and streams, windows, round trip times, CPU of user and system"
    )


def _add_counts(shown: base.BenchmarkReport, item: _Direction, udp: bool) -> None:
    """Say what both sides of a direction have not counted, or counted wrongly."""
    if item.received is None:
        shown.left_out.append("what the receiver counted: this side did not get it")
    elif item.sent is None and udp and not iperf3_parts.side(item.received):
        shown.left_out.append("the receiver's rate: iperf3 3.0 and 3.1 do not print it")
    if udp and item.sent is not None and item.received is not None:
        shown.remarks.update(iperf_rows.unseen_of(item.sent, item.received))
    if item.total.losses is not None:
        seconds = item.total.end - item.total.begin
        shown.left_out += iperf_rows.faults(item.total.losses, seconds)


def _check_errors(tool: base.Benchmark, lines: Sequence[str]) -> None:
    for line in lines:
        said = _SAID.match(line)
        if not said or _STOPPED.match(line):
            continue
        message = one_line(said[1], 160)
        if "refused" in message:
            raise base.NotReadyError(f"{tool.kind}: {message}")
        raise tool.failed(f"it said '{message}'{tool.wanted_form()}")


def _directions(tool: base.Benchmark, test: _TestText) -> list[_Direction]:
    """Return the directions of the test that the last part of the output sums up."""
    lines = test.lines
    rows = [row for row in map(iperf_rows.row, lines) if row is not None]
    ended = [row for row in rows if iperf3_parts.side(row)]
    if not ended:
        old = _old_udp(tool, test)
        if old is not None:
            return [old]
        if test.stopped:
            raise tool.fault(
                f"{test.stopped}: the test was stopped before it printed what the receiver counted"
            )
        last = max((row.end for row in rows), default=0.0)
        raise tool.fault(
            f"the output is cut off or no client's: no line of the receiver{_after(test, last)}"
            f"{tool.wanted_form()}"
        )
    iperf3_parts.check_one_test(tool, rows[rows.index(ended[0]) :])
    words = iperf3_parts.command("\n".join(lines))
    asked = pasted.whole_number(pasted.option(words, "-P", "--parallel"))
    directions = []
    for role in dict.fromkeys(row.role for row in ended):
        name = _ROLES.get(role, test.direction)
        own = [row for row in ended if row.role == role]
        streams = {row.stream for row in rows if row.role == role} - {iperf_rows.SUM}
        if not role:
            streams |= {
                found[1] for found in map(iperf3_parts.CONNECTED.match, lines) if found is not None
            }
        count = max(len(streams), asked or 1)
        directions.append(_direction(tool, test, name, own, count))
    bidirectional = any("[Role]" in line for line in lines) or any(row.role for row in rows)
    if bidirectional and len(directions) == 1:
        raise tool.fault("the output is cut off: one direction of two has no totals")
    iperf3_parts.check_last(tool, lines)
    return directions


def _after(test: _TestText, last: float) -> str:
    """Return after how many of its seconds a text ends; ``last``: the end of its last whole interval."""
    asked = pasted.option(iperf3_parts.command("\n".join(test.lines)), "-t", "--time")
    if not last:
        return ""
    if asked is None:
        return f", its intervals end at {last:g} s"
    return f", its intervals end at {last:g} of {one_line(asked, 20)} s"


def _direction(
    tool: base.Benchmark, test: _TestText, name: str, rows: Sequence[IperfRow], streams: int
) -> _Direction:
    """Return one direction.

    :param rows: its totals, of both sides.
    :raises base.BenchmarkOutputError: what the receiver counted is missing, and the text is a client's to its end.
    """
    shown = name or "the test"
    totals: dict[str, IperfRow] = {}
    for side in (iperf3_parts.SENDER, iperf3_parts.RECEIVER):
        own = [row for row in rows if iperf3_parts.side(row) == side]
        if own:
            totals[side] = iperf_rows.total(tool, own, f"'{shown}', {side}", streams)
    sent, arrived = (totals.get(side) for side in (iperf3_parts.SENDER, iperf3_parts.RECEIVER))
    is_uncounted = sent is not None and sent.rate > 0 and arrived is not None and arrived.rate == 0
    if test.client is False or test.stopped or (test.client is None and is_uncounted):
        # 0 of the other side is no count: it was never sent there.
        counted = iperf3_parts.RECEIVER in totals
        totals = {side: row for side, row in totals.items() if row.rate > 0}
        if not totals and not counted and not test.stopped:
            raise tool.fault(
                f"the output is cut off: no whole line of the receiver of '{shown}', and the other"
                " side's line is 0 on a server"
            )
        if not totals:
            raise tool.fault(f"nothing was transferred of '{shown}' (0 bit/s)")
    elif iperf3_parts.RECEIVER not in totals:
        raise tool.fault(
            f"the output is cut off: no whole line of the receiver of '{shown}',"
            " so what arrived is not known"
        )
    if test.client is False and not name and len(totals) == 1:
        name = _FORWARD
        if iperf3_parts.SENDER in totals:
            name = _REVERSE
    received = totals.get(iperf3_parts.RECEIVER)
    ends = [
        row.end
        for row in rows
        if row.stream != iperf_rows.SUM
        and (iperf3_parts.side(row) == iperf3_parts.RECEIVER) == (received is not None)
    ]
    return _Direction(name, totals.get(iperf3_parts.SENDER), received, ends)


def _old_udp(tool: base.Benchmark, test: _TestText) -> _Direction | None:
    """Return the total of iperf3 3.0 and 3.1, which print one line: the sender's rate, the receiver's losses."""
    lines = test.lines
    ends = iperf3_parts.DONE in lines or any(iperf3_parts.SENT.match(line) for line in lines)
    if not ends and iperf3_parts.SUMMARY not in lines:
        return None
    if iperf3_parts.SUMMARY in lines:
        lines = lines[lines.index(iperf3_parts.SUMMARY) :]
    rule = max((at for at, line in enumerate(lines) if line.startswith("- - -")), default=0)
    rows = [row for row in map(iperf_rows.row, lines[rule:]) if row is not None]
    totals = [row for row in rows if row.losses is not None]
    if not totals:
        return None
    found = iperf_rows.total(tool, totals, "datagrams")
    return _Direction(test.direction, None, found)


def _tcp_readings(tool: base.Benchmark, direction: _Direction) -> list[base.Reading]:
    received, sent = direction.received, direction.sent
    readings = []
    if received is not None:
        if received.rate == 0:
            raise tool.fault("the receiver got nothing (0 bit/s)")
        readings.append(base.Reading(*tool.primary, received.rate / 1e6, primary=True))
    if sent is not None:
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", sent.rate / 1e6))
    if received is not None:
        amount = received.amount * 8 / 1e9
        readings.append(base.Reading("transferred", tool.work_unit, "higher", amount))
    if sent is not None:
        again = _RETRANSMITS.match(sent.rest)
        if again:
            count = float(again[1] or again[2])
            readings.append(base.Reading("retransmits", "segments", "lower", count))
        elif sent.rest[:1].isdigit():
            raise tool.fault(f"the sender's line has '{one_line(sent.rest, 40)}' for retransmits")
    return readings


def _sent_readings(tool: base.Benchmark, direction: _Direction, why: str) -> list[base.Reading]:
    """Return what was sent where the receiver's counts are none, as ``why`` says."""
    sent = direction.sent
    if sent is None:
        raise tool.fault(why)
    return [base.Reading("sent_throughput", "Mbit/s", "higher", sent.rate / 1e6)]


def _udp_readings(tool: base.Benchmark, direction: _Direction) -> list[base.Reading]:
    received, sent = direction.received, direction.sent
    if received is None:
        return [base.Reading("sent_throughput", "Mbit/s", "higher", direction.total.rate / 1e6)]
    losses = received.losses
    if losses is None:
        raise tool.fault("the receiver's line has no losses")
    jitter, lost, counted = losses
    seconds = received.end - received.begin
    arrived = counted - lost
    if arrived <= 0 or seconds <= 0:
        raise tool.fault(f"{arrived:g} datagrams arrived in {seconds:g} s")
    readings: list[base.Reading] = []
    counts_known = not iperf_rows.counts_fault(counted)
    if counts_known:
        readings.append(base.Reading(*tool.primary, arrived / seconds, primary=True))
    if sent is None and not iperf3_parts.side(received):
        # The one line of iperf3 3.0 has the sender's rate.
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", received.rate / 1e6))
    else:
        readings.append(base.Reading("throughput", "Mbit/s", "higher", received.rate / 1e6))
    if sent is not None:
        readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", sent.rate / 1e6))
    if not iperf_rows.jitter_fault(jitter, seconds):
        readings.append(base.Reading("jitter", "ms", "lower", jitter))
    if not counts_known:
        return readings
    sent_count = counted
    if sent is not None and sent.losses is not None:
        sent_count = max(counted, sent.losses[2])
    # Of what was sent: the receiver does not see what is missing after its last datagram.
    share = 100 * (1 - arrived / sent_count)
    readings.append(base.Reading("lost_share", "%", "lower", share))
    readings.append(base.Reading("lost", "datagrams", "lower", lost))
    readings.append(base.Reading("received", tool.work_unit, "higher", arrived / 1e3))
    return readings


def _cpu(test: _TestText) -> list[base.Reading]:
    """Return the CPU of both sides; a server prints 0 of a client that has not sent its own."""
    here, there = "local_cpu", "remote_cpu"
    roles = {row.role[-1:] for row in map(iperf_rows.row, test.lines) if row is not None}
    if test.client or "C" in roles:
        here, there = "client_cpu", "server_cpu"
    elif test.client is False:
        here, there = "server_cpu", "client_cpu"
    for line in test.lines:
        found = _CPU.match(line)
        if found:
            own, other = float(found[1]), float(found[2])
            readings = [base.Reading(here, "%", "lower", own)]
            if other or there != "client_cpu":
                readings.append(base.Reading(there, "%", "lower", other))
            return readings
    return []


def _workload(test: _TestText, directions: Sequence[_Direction]) -> dict[str, str]:
    lines = test.lines
    workload: dict[str, str] = {}
    names = [direction.name for direction in directions]
    if all(names):
        workload["direction"] = " and ".join(names)
    streams = {row.stream for row in map(iperf_rows.row, lines) if row is not None}
    streams.discard(iperf_rows.SUM)
    if streams:
        workload["streams"] = str(len(streams) // len(names) or 1)
    workload["seconds"] = f"{directions[0].total.end:g}"
    for line in lines:
        version, starting = _VERSION.match(line), _STARTING.match(line)
        if version:
            workload["version"] = version[1]
        if starting:
            workload["block size"] = f"{starting[3]} bytes"
            if starting[4] != "0":
                workload["omitted seconds"] = starting[4]
    words = iperf3_parts.command("\n".join(lines))
    for name, options in (
        ("rate asked for", ("-b", "--bitrate", "--bandwidth")),
        ("streams", ("-P", "--parallel")),
        ("block size", ("-l", "--length")),
        ("window", ("-w", "--window")),
        ("seconds asked for", ("-t", "--time")),
        ("omitted seconds", ("-O", "--omit")),
    ):
        value = pasted.option(words, *options)
        if value is not None:
            workload[name] = one_line(value, 20)
    if test.client is False:
        workload["side"] = "server"
    return workload


def _reverse(lines: Sequence[str]) -> bool:
    said = any(line.startswith("Reverse mode, remote host") for line in lines)
    return said or "-R" in iperf3_parts.command("\n".join(lines))


def _stripped(text: str) -> str:
    return "\n".join(iperf3_parts.TITLED.sub("", line) for line in pasted.lines_of(text))
