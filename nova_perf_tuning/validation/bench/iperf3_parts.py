# SPDX-License-Identifier: Apache-2.0
"""Which lines of a text are of which test of iperf3."""

import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation.bench import iperf_rows, pasted

CONNECTING: Final = re.compile(r"^Connecting to host .{1,200}, port [0-9]{1,5}$")
ACCEPTED: Final = re.compile(r"^Accepted connection from .{1,200}$")
SENDER: Final = "sender"
RECEIVER: Final = "receiver"
#: Before the totals of iperf3 3.0 and its versions before.
SUMMARY: Final = "Test Complete. Summary Results:"
DONE: Final = "iperf Done."
#: Before what the server has printed (--get-server-output), which follows the totals of each direction.
SERVER_OUTPUT: Final = "Server output:"
#: What ``-T`` puts before each line of figures.
TITLED: Final = re.compile(r"^([\w.-]{1,40}):[ ]+(?=\[)")


def command(text: str) -> list[str]:
    return pasted.command(text, iperf_rows.COMMAND)


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
    if len(starts) < 2:
        return [lines]
    ends = [*starts[1:], len(lines)]
    return [lines[begin:end] for begin, end in zip(starts, ends, strict=True)]


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
