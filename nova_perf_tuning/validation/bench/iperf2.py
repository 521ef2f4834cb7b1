# SPDX-License-Identifier: Apache-2.0
"""What iperf 2 prints; its client counts what it sent, its server what arrived."""

import collections
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, iperf_rows, pasted
from nova_perf_tuning.validation.bench.iperf_rows import IperfRow

_CLIENT: Final = re.compile(r"^Client connecting to (\S{1,200}), (TCP|UDP) port ([0-9]{1,5})")
_SERVER: Final = re.compile(r"^Server listening on (TCP|UDP) port ([0-9]{1,5})")
_CONNECTED: Final = re.compile(
    r"^\[[ ]*(\*?[0-9]{1,5})\] local (\S{1,100}) port ([0-9]{1,5}) connected (?:with|to) \S{1,100}"
    r" port ([0-9]{1,5})\b"
)
_SERVER_REPORT: Final = re.compile(r"^\[[ ]*(\*?[0-9]{1,5})\] Server Report:")
#: Writes and retransmits behind the figures of -e.
_RETRIES: Final = re.compile(r"^[0-9]{1,12}/[0-9]{1,9}[ ]+([0-9]{1,9})(?:[ ]|$)")
#: A line of figures, whether or not they can be read.
_ANY_ROW: Final = re.compile(
    r"^\[[ ]*(?:\*?[0-9]{1,5}|SUM)\][ ]+[0-9.]{3,12}[ ]*-[ ]*[0-9.]{3,12}[ ]+sec[ ]"
)
_HEADING: Final = re.compile(
    r"^\[ ?ID\][ ]+Interval[ ]+Transfer[ ]+(?:Bandwidth|Bitrate)[ ]+(.{1,200})$"
)
#: The name of a column behind the rate; some have a second word.
_COLUMN: Final = re.compile(r"[A-Z][^ ]{1,40}(?: avg[^ ]{1,40})?")
_READ_COLUMNS: Final = ("Rtry", "Jitter", "Lost/Total", "Total", "Datagrams")
_DATAGRAM: Final = re.compile(r"^(?:Sending|Receiving) ([0-9]{1,6}) byte datagrams")
_NO_ANSWER: Final = re.compile(
    r"^\[[ ]*\*?[0-9]{1,5}\] WARNING: did not receive ack of last datagram"
)
_SENT: Final = re.compile(r"^\[[ ]*(\*?[0-9]{1,5}|SUM)\] Sent ([0-9]{1,15}) datagrams$")
_FAILED: Final = re.compile(r"^.{0,80}(?:connect failed|bind failed|tcp connect failed).{0,160}$")
#: A row of -y C: time, both ends, stream, interval, bytes; since 2.1.9 with a zone, since 2.2 with a head.
_CSV_ROW: Final = (
    r"(?:[+-][0-9]{4}:)?[0-9]{14}(?:\.[0-9]{1,6})?,[^,\s]{2,60},[0-9]{1,5},[^,\s]{2,60},[0-9]{1,5},"
    r"-?[0-9]{1,9},[0-9.]{1,12}[-,][0-9.]{1,12},[0-9]{1,18},"
)
_CSV: Final = re.compile(f"^{_CSV_ROW}")
#: How far a sum may be from its streams, which have three digits.
_SUM_AGREES: Final = 0.05
_FORWARD: Final = "client to server"
_REVERSE: Final = "server to client"
#: Whether the client's direction is meant, and whether its sender has counted -> who counted.
_COUNTED: Final = {
    (_FORWARD, True): "the client, what it sent",
    (_FORWARD, False): "the server, what arrived",
    (_REVERSE, True): "the server, what it sent",
    (_REVERSE, False): "the client, what arrived",
}


@dataclasses.dataclass(slots=True)
class _Direction:
    """One direction of a test.

    :ivar twice: why what its receiver has counted is no throughput; empty: it may be one.
    """

    name: str
    rows: list[IperfRow] = dataclasses.field(default_factory=list)
    reports: list[IperfRow] = dataclasses.field(default_factory=list)
    streams: int = 0
    by_sender: bool = False
    twice: str = ""

    @property
    def ends(self) -> list[float]:
        """When each stream ended, in seconds; those of lines of the whole test alone."""
        last = {
            row.stream: row.end
            for row in self.rows
            if row.begin == 0 and row.stream != iperf_rows.SUM
        }
        return list(last.values())

    @property
    def counted_by(self) -> str:
        return _COUNTED[self.name, self.by_sender and (not self.reports or bool(self.twice))]


class Iperf2(base.ForeignTool):
    """TCP or UDP with iperf 2: the client's rate is what it sent, unless the server reported."""

    kind = "iperf2"
    summary = "TCP or UDP throughput as iperf 2 prints it"
    primary = ("throughput", "Mbit/s", "higher")
    form = "iperf -c HOST (iperf 2)"
    marks = (
        r"^[ \t]*(?:Client connecting to \S+, (?:TCP|UDP) port [0-9]"
        r"|Server listening on (?:TCP|UDP) port [0-9]"
        # iperf3 prints times with two decimals.
        r"|\[[ ]*\*?(?:[0-9]{1,5}|SUM)\][ ]+[0-9]{1,9}\.(?:[0-9]|[0-9]{4})[ ]*-[ ]*"
        r"[0-9]{1,9}\.(?:[0-9]|[0-9]{4})[ ]+sec[ ]+[0-9.]{1,14}[ ]*[KMGT]?B"
        rf"|{_CSV_ROW})"
    )

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        lines = iperf_rows.unwrapped(pasted.lines_of(output))
        if any(_CSV.match(line) for line in lines):
            beside = ""
            if any(_CLIENT.match(line) or _SERVER.match(line) for line in lines):
                beside = "the text has several runs, of one of them "
            raise self.fault(
                f"{beside}the rows of -y C are not read, run it without -y{self.wanted_form()}"
            )
        if not self.printed(output):
            raise self.fault(f"the output has no head of iperf 2{self.wanted_form()}")
        clients = [line for line in lines if _CLIENT.match(line)]
        servers = [line for line in lines if _SERVER.match(line)]
        reported = any(_SERVER_REPORT.match(line) for line in lines)
        if not clients and not servers and not reported:
            raise self._headless(lines)
        if len(clients) > 2 or (len(clients) == 2 and not servers):
            raise self.fault(f"the text has {len(clients)} tests of iperf 2; keep one")
        for line in lines:
            if _FAILED.match(line):
                raise self.failed(f"it said '{one_line(line, 160)}'")
        _check_sides(self, lines)
        runs = _runs(lines)
        if len(runs) == 1:
            return self._report_run(lines, bool(clients) or not servers)
        self.check_runs(len(runs), "tests of iperf 2")
        if clients:
            raise self.fault("the text has several tests of iperf 2 (a stream twice); keep one")
        return self._report_runs(runs)

    def _report_runs(self, runs: Sequence[Sequence[str]]) -> base.BenchmarkReport:
        """Return the figures of all tests that a server has logged, of which none is judged."""
        found = {}
        for number, lines in enumerate(runs, start=1):
            found[f"run{number}"] = self._report_run(lines, False)
        shown = base.several(found)
        shown.remarks["several_tests"] = f"the text has {len(runs)} tests: none of them is judged"
        return shown

    def _headless(self, lines: Sequence[str]) -> base.BenchmarkOutputError:
        """Return the error of figures of which nothing says who has counted them."""
        rows = [row for row in map(iperf_rows.row, lines) if row is not None]
        tests = totals = 0
        last: dict[str, float] = {}
        for row in rows:
            if row.begin > 0:
                last[row.stream] = row.end
            elif row.end < last.get(row.stream, row.end + 1):
                tests += 1
                last[row.stream] = row.end
            else:
                totals += 1
        longest = max((row.end for row in rows), default=0.0)
        if not totals and len(rows) > 1:
            return self.fault(
                f"the text has intervals alone, up to {longest:g} s, of {max(1, tests)} tests:"
                f" the line of the whole test is missing, and the head{self.wanted_form()}"
            )
        return self.fault(
            "the head is missing ('Client connecting to …' or 'Server listening on …'): whether"
            f" the client or the server has counted is not known{self.wanted_form()}"
        )

    def _report_run(self, lines: Sequence[str], client: bool) -> base.BenchmarkReport:
        """Return the figures of one test; ``client``: its text is the client's."""
        directions = self._directions(lines, client)
        shown = base.BenchmarkReport()
        for direction in directions:
            readings = self._add_direction(shown, direction, lines)
            if len(directions) > 1:
                prefix = pasted.metric(direction.name)
                readings = [
                    dataclasses.replace(
                        reading, metric=f"{prefix}_{reading.metric}", primary=False
                    )
                    for reading in readings
                ]
            shown.readings += readings
        shown.workload = self._workload(lines, directions, client)
        if client and _is_interrupted(lines):
            shown.remarks["interrupted"] = (
                "somebody interrupted the run (^C) before its last line: it is as long as it was let run"
            )
        if client and "UDP" in shown.workload.get("protocol", ""):
            self._add_unreported(shown, lines, directions)
        if len(directions) > 1:
            shown.remarks["both_directions"] = "the test has both directions: none is judged"
        if any(direction.by_sender and not direction.reports for direction in directions):
            shown.left_out.append("what the receiver counted: iperf 2's sender does not print it")
        again = any(reading.metric.endswith("retransmits") for reading in shown.readings)
        if not again and any(" Rtry" in line for line in lines):
            shown.left_out.append("retransmits (Rtry)")
        self._add_rate(shown, lines, directions)
        if any(len(item.reports) > 1 and not item.twice for item in directions):
            shown.left_out.append("jitter: each stream has its own")
            shown.remarks["sum_computed"] = (
                "'throughput', 'lost' and 'lost_share' are calculated: the sums of the server's"
                " reports of all streams"
            )
        elif any(reading.metric.endswith("lost_share") for reading in shown.readings):
            shown.remarks["share_computed"] = (
                "'lost_share' is calculated: datagrams lost by those that were counted"
            )
        shown.left_out += [*iperf_rows.out_of_order(lines), *_unread_columns(lines)]
        shown.left_out.append("single intervals and streams, windows, round trip times")
        return shown

    def _add_direction(
        self, shown: base.BenchmarkReport, direction: _Direction, lines: Sequence[str]
    ) -> list[base.Reading]:
        """Return the figures of a direction; what is to know of them is added to the report."""
        readings = self._readings(direction, lines)
        total = self._total(direction, lines)
        counted = [row.losses for row in direction.reports or [total] if row.losses]
        if direction.twice:
            shown.remarks["counted_twice"] = direction.twice
            shown.left_out.append("throughput, datagrams lost and jitter, as the receiver counted")
        elif len(counted) == 1:
            shown.left_out += iperf_rows.faults(counted[0], total.end)
        lengths = iperf_rows.lengths_remark(direction.ends)
        if lengths:
            shown.remarks["different_lengths"] = f"{lengths}, and is not judged"
            readings = [dataclasses.replace(reading, primary=False) for reading in readings]
        return readings

    def _add_unreported(
        self,
        shown: base.BenchmarkReport,
        lines: Sequence[str],
        directions: Sequence[_Direction],
    ) -> None:
        """Say that the server's reports of datagrams are missing, and count what was sent."""
        if not any(item.by_sender and not item.reports for item in directions):
            return
        why = ""
        if any(_NO_ANSWER.match(line) for line in lines):
            why = " (iperf 2 got no acknowledgement of the last datagram)"
        shown.remarks["no_server_report"] = (
            f"the server's report is missing{why}: the rate is what was sent; what arrived and what"
            " was lost is not known"
        )
        [direction, *others] = directions
        counts = {
            found[1]: float(found[2]) for found in map(_SENT.match, lines) if found is not None
        }
        total = counts.pop(iperf_rows.SUM, None)
        if total is None and len(counts) == max(1, direction.streams):
            total = sum(counts.values())
        if why and total is not None and not others:
            shown.readings.append(base.Reading("sent", "datagrams", "higher", total))

    def _directions(self, lines: Sequence[str], client: bool) -> list[_Direction]:
        """Return the rows of each direction; which one a stream has its ports say."""
        of_stream = _streams(lines, client)
        at_server = not client or _is_server(lines, of_stream)
        by_name: dict[str, _Direction] = {}
        reported: set[str] = set()
        for line in lines:
            report = _SERVER_REPORT.match(line)
            if report:
                reported.add(report[1])
                continue
            row = iperf_rows.row(line)
            if row is None:
                if reported and _ANY_ROW.match(line):
                    raise self.fault(f"the server's report has no rate: '{one_line(line, 100)}'")
                continue
            name = of_stream.get(row.stream, _FORWARD)
            direction = by_name.setdefault(name, _Direction(name))
            direction.by_sender = at_server == (name == _REVERSE)
            if row.stream in reported and row.losses is not None:
                direction.reports.append(row)
                reported.discard(row.stream)
            else:
                direction.rows.append(row)
        if not by_name:
            raise self.fault("the output is cut off: no line of figures")
        if of_stream and len(set(of_stream.values())) != len(by_name):
            raise self.fault("the output is cut off: a direction has no line of figures")
        for direction in by_name.values():
            direction.streams = list(of_stream.values()).count(direction.name)
            if direction.reports and not of_stream:
                seen = {row.stream for row in direction.rows}
                direction.streams = len(seen - {iperf_rows.SUM})
        sums = [row for item in by_name.values() for row in item.rows if row.stream == "SUM"]
        if len(by_name) > 1 and sums:
            raise self.fault("[SUM] of both directions at once is not read; use one stream each")
        return list(by_name.values())

    def _readings(self, direction: _Direction, lines: Sequence[str]) -> list[base.Reading]:
        total = self._total(direction, lines)
        reports = direction.reports
        if reports and len(reports) != max(1, direction.streams):
            why = "the output is cut off"
            if any(_NO_ANSWER.match(line) for line in lines):
                why = "iperf 2 got no acknowledgement of the last datagram of each stream"
            raise self.fault(
                f"{why}: server reports of {len(reports)} of {direction.streams} streams"
            )
        direction.twice = iperf_rows.counted_twice(None, [total], lines)
        if reports:
            direction.twice = iperf_rows.counted_twice(total, reports, lines)
        if direction.twice:
            return self._sent(direction, total)
        rate = total.rate
        counts = [row.losses for row in reports or [total] if row.losses is not None]
        if reports:
            rate = sum(row.rate for row in reports)
        if rate == 0:
            raise self.fault("nothing was transferred (0 bit/s)")
        readings = [base.Reading(*self.primary, rate / 1e6, primary=True)]
        if reports:
            readings.append(base.Reading("sent_throughput", "Mbit/s", "higher", total.rate / 1e6))
        readings.append(base.Reading("transferred", "Gbit", "higher", total.amount * 8 / 1e9))
        again = _RETRIES.match(total.rest)
        # A number at the end of a text may be cut off.
        whole = iperf_rows.row(lines[-1]) != total
        if again and whole and any(" Rtry" in line for line in lines):
            readings.append(base.Reading("retransmits", "segments", "lower", float(again[1])))
        if len(counts) == 1 and not iperf_rows.jitter_fault(counts[0][0], total.end):
            readings.append(base.Reading("jitter", "ms", "lower", counts[0][0]))
        return readings + self._losses(counts)

    def _losses(self, counts: Sequence[tuple[float, float, float]]) -> list[base.Reading]:
        """Return the datagrams lost and their share; ``counts``: jitter, lost and counted of each report."""
        if not counts:
            return []
        lost = sum(lost for _jitter, lost, _counted in counts)
        counted = sum(counted for _jitter, _lost, counted in counts)
        if lost > counted:
            raise self.fault(
                f"{lost:.0f} datagrams of {counted:.0f} are lost: the server's report"
                " contradicts itself"
            )
        if len(counts) == 1 and iperf_rows.counts_fault(counted):
            return []
        readings = [base.Reading("lost", "datagrams", "lower", lost)]
        if counted:
            share = self.check_number("lost", 100 * lost / counted)
            readings.append(base.Reading("lost_share", "%", "lower", share))
        return readings

    def _sent(self, direction: _Direction, total: IperfRow) -> list[base.Reading]:
        """Return what was sent where the receiver has counted datagrams twice; OutputError: it is not known."""
        if not direction.reports:
            raise self.fault(direction.twice)
        return [
            base.Reading("sent_throughput", "Mbit/s", "higher", total.rate / 1e6),
            base.Reading("transferred", "Gbit", "higher", total.amount * 8 / 1e9),
        ]

    def _add_rate(
        self,
        shown: base.BenchmarkReport,
        lines: Sequence[str],
        directions: Sequence[_Direction],
    ) -> None:
        """Say whether a rate that was set was reached."""
        text = shown.workload.get("rate asked for")
        if text is None:
            return
        asked = iperf_rows.asked_rate(text)
        if asked is None:
            shown.remarks["rate_set"] = f"a rate was set (-b {text})"
            return
        rates = [self._total(direction, lines).rate for direction in directions]
        streams = pasted.whole_number(shown.workload.get("streams")) or 1
        shown.remarks.update(iperf_rows.rate_remarks(asked, streams, min(rates)))

    def _total(self, direction: _Direction, lines: Sequence[str]) -> IperfRow:
        """Return the row that sums the test up: from its begin to its end, of all streams."""
        longest: dict[str, IperfRow] = {}
        last = 0.0
        for row in direction.rows:
            last = max(last, row.end)
            if row.begin == 0 and (
                row.stream not in longest or row.end >= longest[row.stream].end
            ):
                longest[row.stream] = row
        if not longest:
            raise self.fault("the output is cut off: no line of the whole test")
        total = iperf_rows.total(
            self, list(longest.values()), f"'{direction.name}'", direction.streams
        )
        wholes = [row for row in direction.rows if row.stream == total.stream]
        if _are_several(wholes):
            heads = [line for line in lines if _CLIENT.match(line) or _SERVER.match(line)]
            raise self.fault(
                f"the text has several tests: {_totals(direction.rows)} lines of a whole test and"
                f" {len(heads)} heads ('Client connecting to …'); keep one with its head"
            )
        words = pasted.command("\n".join(lines), "iperf")
        interval = pasted.option(words, "-i", "--interval")
        counts = collections.Counter(row.stream for row in direction.rows)
        several = max(counts.values()) > 1
        if total.end < last * 0.9 or (interval is not None and not several):
            raise self.fault("the output is cut off: intervals without the whole test")
        if not several and interval is None and total.end <= 1.0 and not words:
            raise self.fault("the output is cut off: one interval of a second")
        self._check_sum(direction, total, list(longest.values()))
        return total

    def _check_sum(self, direction: _Direction, total: IperfRow, rows: Sequence[IperfRow]) -> None:
        """Refuse a sum that is not that of its streams, as servers of iperf 2 before 2.1 print it."""
        single = [row for row in rows if row.stream != iperf_rows.SUM]
        ended = [row for row in single if row.end > 0.9 * total.end]
        if total.stream != iperf_rows.SUM or len(ended) < direction.streams:
            return
        amount = sum(row.amount for row in ended)
        if abs(total.amount - amount) > _SUM_AGREES * amount:
            raise self.fault(
                f"[SUM] has {total.amount / 1e6:g} MB, and its streams together {amount / 1e6:g} MB:"
                " one of them is wrong; keep the report of the other side"
            )

    def _workload(
        self, lines: Sequence[str], directions: Sequence[_Direction], client: bool
    ) -> dict[str, str]:
        workload: dict[str, str] = {}
        for line in lines:
            found, server = _CLIENT.match(line), _SERVER.match(line)
            datagram = _DATAGRAM.match(line)
            if found:
                workload["protocol"] = found[2]
            elif server:
                workload.setdefault("protocol", server[1])
            elif datagram:
                workload["datagram"] = f"{datagram[1]} bytes"
        if any(direction.reports for direction in directions):
            workload.setdefault("protocol", "UDP")
        names = [direction.name for direction in directions]
        workload["direction"] = " and ".join(names)
        streams = {row.stream for item in directions for row in item.rows}
        streams.discard(iperf_rows.SUM)
        workload["streams"] = str(max(1, len(streams) // len(names)))
        workload["seconds"] = f"{max(row.end for row in directions[0].rows):g}"
        counted = [direction.counted_by for direction in directions]
        workload["counted by"] = counted[0]
        if len(directions) > 1:
            shown = [f"{item.name}: {item.counted_by}" for item in directions]
            workload["counted by"] = "; ".join(shown)
        words = pasted.command("\n".join(lines), "iperf")
        rate = pasted.option(words, "-b", "--bandwidth")
        if rate is not None:
            workload["rate asked for"] = one_line(rate, 20)
        return workload


def _unread_columns(lines: Sequence[str]) -> list[str]:
    """Return the columns of -e that are no figure here, as one line; none: there are none."""
    names: dict[str, None] = {}
    for heading in map(_HEADING.match, lines):
        if heading is not None:
            names.update(dict.fromkeys(_COLUMN.findall(heading[1])))
    unread = [name for name in names if name not in _READ_COLUMNS]
    if not unread:
        return []
    return [one_line(f"columns of -e: {', '.join(unread)}", 200)]


def _is_interrupted(lines: Sequence[str]) -> bool:
    """Return whether somebody pressed ^C before the last line of figures."""
    pressed = False
    for line in lines:
        if line == pasted.INTERRUPTED:
            pressed = True
        elif pressed and iperf_rows.row(line) is not None:
            return True
    return False


def _check_sides(tool: base.Benchmark, lines: Sequence[str]) -> None:
    """Refuse a text that has one connection twice, as its client and as its server saw it."""
    ends: set[tuple[str, str]] = set()
    for connected in map(_CONNECTED.match, lines):
        if connected is None:
            continue
        here, there = connected[3], connected[4]
        if here != there and (there, here) in ends:
            raise tool.fault(
                "the text has the reports of client and server of one test; keep the server's,"
                " which has counted what arrived"
            )
        ends.add((here, there))


def _runs(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each test, with those before the first: a test has each stream once."""
    heads: list[str] = []
    runs: list[list[str]] = []
    streams: set[str] = set()
    for line in lines:
        connected = _CONNECTED.match(line)
        if connected and (not runs or connected[1] in streams):
            runs.append([])
            streams = set()
        if connected:
            streams.add(connected[1])
        if runs:
            runs[-1].append(line)
        else:
            heads.append(line)
    if not runs:
        return [heads]
    return [[*heads, *run] for run in runs]


def _totals(rows: Sequence[IperfRow]) -> int:
    """Return how many rows are as long as a test: those that begin at 0, less first intervals."""
    later: dict[str, int] = {}
    count = 0
    for row in rows:
        if row.begin > 0:
            later[row.stream] = 1
        else:
            count += 1 - later.pop(row.stream, 0)
    return count


def _are_several(rows: Sequence[IperfRow]) -> bool:
    """Return whether rows of one stream are of several tests.

    One test has the first interval and the whole that begin at 0. They are the same where the
    interval is as long as the test.
    """
    begins = [at for at, row in enumerate(rows) if row.begin == 0]
    if len(begins) < 2:
        return False
    first, whole = rows[begins[0]], rows[begins[1]]
    if len(begins) > 2 or whole.end < first.end:
        return True
    alone = begins[1] == begins[0] + 1
    return alone and abs(whole.rate - first.rate) > 0.01 * whole.rate


def _is_server(lines: Sequence[str], streams: Mapping[str, object]) -> bool:
    """Return whether a text of both directions is the server's, whose first connection came in.

    :param streams: those that are connected; one alone is the client's.
    """
    words = pasted.command("\n".join(lines), "iperf")
    if len(streams) < 2 or pasted.option(words, "-c", "--client") is not None:
        return False
    ports = {found[3] for found in map(_CLIENT.match, lines) if found is not None}
    for connected in map(_CONNECTED.match, lines):
        if connected is not None:
            return connected[4] not in ports and connected[3] in ports
    return False


def _streams(lines: Sequence[str], client: bool) -> dict[str, str]:
    """Return stream -> direction: a stream to the server's port is the client's.

    :param client: the text has a client's head; that of both directions is printed by both sides.
    """
    ports = {found[3] for found in map(_CLIENT.match, lines) if found is not None}
    outgoing: dict[str, bool] = {}
    marked: set[str] = set()
    for line in lines:
        connected = _CONNECTED.match(line)
        if not connected:
            continue
        comes_in = client and connected[4] not in ports and connected[3] in ports
        outgoing[connected[1]] = not comes_in
        if line.endswith("(reverse)") or connected[1].startswith("*"):
            marked.add(connected[1])
    swapped = client and _is_server(lines, outgoing)
    of_stream: dict[str, str] = {}
    for stream, goes_out in outgoing.items():
        forward = goes_out != swapped
        of_stream[stream] = _REVERSE
        if forward and stream not in marked:
            of_stream[stream] = _FORWARD
    return of_stream
