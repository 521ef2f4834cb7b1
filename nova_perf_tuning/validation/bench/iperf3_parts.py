# SPDX-License-Identifier: Apache-2.0
"""Which lines of a text are of which test of iperf3."""

import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, iperf_rows, pasted
from nova_perf_tuning.validation.bench.iperf_rows import IperfRow

CONNECTING: Final = re.compile(r"^Connecting to host .{1,200}, port [0-9]{1,5}$")
ACCEPTED: Final = re.compile(r"^Accepted connection from .{1,200}$")
HEADING: Final = re.compile(
    r"^\[ ?ID\](?:\[Role\])?[ ]+Interval[ ]+Transfer[ ]+(?:Bitrate|Bandwidth)(.{0,60})$"
)
CONNECTED: Final = re.compile(
    r"^\[[ ]*([0-9]{1,5})\] local \S{1,100} port ([0-9]{1,5}) connected to \S{1,100}"
    r" port ([0-9]{1,5})\b"
)
#: Behind the totals of iperf3 3.0 and 3.1.
SENT: Final = re.compile(r"^\[[ ]*[0-9]{1,5}\] Sent [0-9]{1,15} datagrams$")
SENDER: Final = "sender"
RECEIVER: Final = "receiver"
#: Before the totals of iperf3 3.0 and its versions before.
SUMMARY: Final = "Test Complete. Summary Results:"
DONE: Final = "iperf Done."
#: Before what the server has printed (--get-server-output), which follows the totals of each direction.
SERVER_OUTPUT: Final = "Server output:"
#: What ``-T`` puts before each line of figures.
TITLED: Final = re.compile(
    r"^([\w.-]{1,40}):[ ]+(?=\[|Test Complete|CPU Utilization|Starting Test|Connecting to|iperf |- - -)"
)


#: The end of a total's line, perhaps with somebody's remark behind.
_ENDED: Final = re.compile(r"(?:^|[ ])(sender|receiver)(?:[ ]+\S.{0,200})?$")
#: How many datagrams came out of order.
_LATE: Final = re.compile(r"^\[.{1,60} datagrams received out-of-order")
#: The line of a stream, up to wherever it is cut off.
_BEGUN: Final = re.compile(
    r"^\[(?:[ ]*(?:[0-9]{0,5}|SU?M?)|[ ]*(?:[0-9]{1,5}|SUM)\](?:\[(?:[TR](?:X(?:-[CS]?)?)?)?\]?)?"
    r"(?:[ ]+[0-9.]{1,9}(?:[ -].{0,200})?)?)$"
)
#: Before an object of JSON that -d (--debug) prints; the parameters come before the line of the connection.
_DEBUGGING: Final = re.compile(r"^((?:send|get)_(?:parameters|results)):?[ ]{0,4}(\{.{0,4000})?$")
_PARAMETER: Final = re.compile(r'"(\w{1,30})":[ ]{0,40}("[^"]{0,40}"|-?[\w.]{1,20})')
#: Fewer objects than lines of an output have.
_DEBUGGING_LINES: Final = 20_000


def command(text: str) -> list[str]:
    """Return the words of the command in a text; of a server's and a client's that of the output's side."""
    first = pasted.command(text, iperf_rows.COMMAND)
    if "-s" not in first or "-c" not in text:
        return first
    lines = pasted.lines_of(text)
    if any(ACCEPTED.match(line) or line.startswith("Server listening on ") for line in lines):
        return first
    for line in lines:
        words = pasted.command(line, iperf_rows.COMMAND)
        if pasted.option(words, "-c", "--client") is not None:
            return words
    return first


def without_debugging(text: str) -> str:
    """Return a text without the JSON that -d prints between the lines.

    Of the parameters in it stay version and form of the test, in the words in which ``-V`` prints them.
    """
    if "_results" not in text and "_parameters" not in text:
        return text
    kept: list[str] = []
    said: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        begun = _DEBUGGING.match(line)
        follows = at + 1 < len(lines) and lines[at + 1].strip().startswith("{")
        if begun and (begun[2] or follows):
            end = _end_of_object(lines, at)
            if begun[1].endswith("parameters"):
                said = _as_verbose("\n".join(lines[at:end]))
            at = end
            continue
        kept.append(lines[at])
        at += 1
        if said and (CONNECTING.match(line) or ACCEPTED.match(line)):
            kept += said
            said = []
    return "\n".join(kept)


def _end_of_object(lines: Sequence[str], begin: int) -> int:
    """Return the number of the line behind an object of JSON, or of the first that is no part of it."""
    depth = 0
    for at in range(begin, min(len(lines), begin + _DEBUGGING_LINES)):
        line = lines[at].strip()
        if at > begin and iperf_rows.row(line) is not None:
            return at
        depth += line.count("{") - line.count("}")
        if depth <= 0 and "}" in line:
            return at + 1
    return len(lines)


def _as_verbose(text: str) -> list[str]:
    """Return the lines of ``-V`` that say what the parameters of a test do."""
    found = {name: value.strip('"') for name, value in _PARAMETER.findall(text)}
    said = []
    if "client_version" in found:
        said.append(f"iperf {found['client_version']}")
    protocols = [name for name in ("tcp", "udp", "sctp") if found.get(name) == "true"]
    streams, length = found.get("parallel", "1"), found.get("len", "")
    if len(protocols) == 1 and length.isdigit() and streams.isdigit():
        said.append(
            f"Starting Test: protocol: {protocols[0].upper()}, {streams} streams, {length} byte"
            f" blocks, omitting {found.get('omit', '0')} seconds"
        )
    return said


def tests(text: str) -> list[list[str]]:
    """Return the lines of each test, of a client with the command line before it."""
    lines = _of_one_side(unwrapped(pasted.lines_of(text)))
    starts: list[int] = []
    # A command begins a test, unless another command follows before any figure.
    begun = False
    for at, line in enumerate(lines):
        if iperf_rows.row(line) is not None:
            begun = False
        elif "iperf" in line and "-c" in command(line):
            if begun:
                starts.pop()
            starts.append(at)
            begun = True
        elif CONNECTING.match(line) or ACCEPTED.match(line):
            if not begun:
                starts.append(at)
            begun = False
    if len(starts) < 2:
        summaries = [at for at, line in enumerate(lines) if line == SUMMARY]
        if len(summaries) > 1:
            starts = summaries
    if not starts:
        starts = _headings_of_tests(lines)
    if len(starts) < 2:
        return [lines]
    ends = [*starts[1:], len(lines)]
    return [lines[begin:end] for begin, end in zip(starts, ends, strict=True)]


def _headings_of_tests(lines: Sequence[str]) -> list[int]:
    """Return where tests without a head begin: a heading behind totals is the next one's."""
    starts = [0]
    ended = False
    for at, line in enumerate(lines):
        if ended and HEADING.match(line):
            starts.append(at)
            ended = False
        row = iperf_rows.row(line)
        if row is not None and (side(row) or SENT.match(_next(lines, at))):
            ended = True
    return starts


def _next(lines: Sequence[str], at: int) -> str:
    if at + 1 < len(lines):
        return lines[at + 1]
    return ""


def two_ends(parts: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[str]] | None:
    """Return the client's and the server's lines of one test; None: these parts are no such two.

    Their connections have the same ports.
    """
    if len(parts) != 2:
        return None
    ports: list[set[tuple[str, str]]] = []
    for part in parts:
        found = [connected for connected in map(CONNECTED.match, part) if connected is not None]
        ports.append({(connected[2], connected[3]) for connected in found})
    if not ports[0] or {(there, here) for here, there in ports[0]} != ports[1]:
        return None
    accepting = [any(ACCEPTED.match(line) for line in part) for part in parts]
    if accepting == [False, True]:
        return parts[0], parts[1]
    if accepting == [True, False]:
        return parts[1], parts[0]
    return None


def _of_one_side(lines: Sequence[str]) -> list[str]:
    """Return a client's lines without those that the server has sent it, but the line before them."""
    kept: list[str] = []
    of_server = False
    for line in lines:
        row = iperf_rows.row(line)
        if line == DONE or (row is not None and row.role.endswith("C")):
            of_server = False
        elif CONNECTING.match(line) or "-c" in command(line):
            of_server = False
        if not of_server:
            kept.append(line)
        of_server = of_server or line == SERVER_OUTPUT
    return kept


def titled(text: str) -> dict[str, list[str]]:
    """Return title -> lines of clients whose lines are mixed with each other's (-T), with their commands."""
    parts: dict[str, list[str]] = {}
    commands: dict[str, str] = {}
    for line in unwrapped(pasted.lines_of(text)):
        found = TITLED.match(line)
        if found:
            parts.setdefault(found[1], []).append(line[found.end() :])
        elif "iperf" in line and command(line):
            title = pasted.option(command(line), "-T", "--title")
            if title is not None:
                commands[title] = line
    for title, lines in parts.items():
        if title in commands:
            lines.insert(0, commands[title])
    return {pasted.metric(title): parts[title] for title in sorted(parts)}


def unwrapped(lines: Sequence[str]) -> list[str]:
    """Return lines with the word ``sender`` or ``receiver`` where it belongs, if a mail has wrapped it."""
    whole: list[str] = []
    for line in iperf_rows.unwrapped([line.removeprefix("^C") for line in lines]):
        if line in (SENDER, RECEIVER) and whole and iperf_rows.row(whole[-1]) is not None:
            whole[-1] += f" {line}"
        else:
            whole.append(line)
    return whole


def side(row: IperfRow) -> str:
    """Return ``sender`` or ``receiver`` of a total's line; empty: it is an interval's."""
    found = _ENDED.search(row.rest)
    if found is None:
        return ""
    return found[1]


def sends(lines: Sequence[str]) -> bool | None:
    """Return whether the side that printed a test sends, by the columns of its intervals; None: not known."""
    for at, line in enumerate(lines):
        heading = HEADING.match(line)
        if not heading or "[Role]" in line or (at and lines[at - 1].startswith("- - -")):
            continue
        following = [row for row in map(iperf_rows.row, lines[at + 1 : at + 2]) if row is not None]
        if not following or side(following[0]):
            continue
        if "Cwnd" in heading[1] or "Jitter" not in heading[1] and "Datagrams" in heading[1]:
            return True
        if "Jitter" in heading[1]:
            return False
    return None


def check_one_test(tool: base.Benchmark, rows: Sequence[IperfRow]) -> None:
    """Refuse intervals behind a total, which are of another test; ``rows``: from the first total on."""
    last = rows[0].end
    for row in rows:
        # A total that is cut off has no side, and is as long as the other.
        if not side(row) and (row.begin > 0 or row.end < 0.9 * last):
            raise tool.fault(
                "the text has several tests: intervals stand behind a total; keep one, or the line"
                " 'Connecting to host' of each"
            )


def check_last(tool: base.Benchmark, lines: Sequence[str]) -> None:
    """Refuse a text that ends within the line of a stream: which streams there are is not known."""
    written = [line for line in lines if line]
    last = written[-1]
    if not _BEGUN.match(last) or iperf_rows.row(last) or _LATE.match(last):
        return
    raise tool.fault(f"the output is cut off within its last line, '{one_line(last, 60)}'")
