# SPDX-License-Identifier: Apache-2.0
"""The tables that netperf's classic tests print."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, netperf_omni, pasted
from nova_perf_tuning.validation.bench.netperf_omni import Test

_UNIT: Final = re.compile(r"(10\^[369]bits|[KMG]Bytes)[ ]{0,4}/[ ]?s(?:ec)?\b")
_NUMBER: Final = r"([0-9]{1,15}\.[0-9]{2,3})"
#: A rate; with one place only where another number follows: it may be cut off.
_UDP_RATE: Final = r"([0-9]{1,15}\.(?:[0-9]{2,3}|[0-9](?=[ ]+-?[0-9])))"
STREAM_ROW: Final = re.compile(
    rf"^([0-9]{{1,12}})[ ]+([0-9]{{1,12}})[ ]+([0-9]{{1,12}})[ ]+{_NUMBER}[ ]+{_NUMBER}"
    rf"((?:[ ]+-?[0-9.]{{1,20}}){{0,9}}){pasted.REMARK}$"
)
_UDP_SENT: Final = re.compile(
    rf"^[0-9]{{1,12}}[ ]+([0-9]{{1,9}})[ ]+{_NUMBER}[ ]+([0-9]{{1,15}})[ ]+([0-9]{{1,15}})[ ]+{_UDP_RATE}"
    rf"((?:[ ]+-?[0-9.]{{1,20}}){{0,4}})"
)
UDP_RECEIVED: Final = re.compile(rf"^[0-9]{{1,12}}[ ]+{_NUMBER}[ ]+([0-9]{{1,15}})[ ]+{_UDP_RATE}")
INTERIM: Final = "Interim result"
RATE_ROW: Final = re.compile(
    rf"^[0-9]{{1,12}}[ ]+[0-9]{{1,12}}[ ]+([0-9]{{1,9}})[ ]+([0-9]{{1,9}})[ ]+{_NUMBER}[ ]+{_NUMBER}"
    rf"((?:[ ]+-?[0-9.]{{1,20}}){{0,9}}){pasted.REMARK}$"
)
#: The second table of -v 2: transactions a second behind the round trip latency, before both throughputs.
_VERBOSE_HEAD: Final = re.compile(r"\busec/Tran[ ]+per sec\b")
_VERBOSE_ROW: Final = re.compile(
    r"^[0-9]{1,9}(?:[ ]+[0-9]{1,9}){3}[ ]+[0-9.]{1,20}[ ]+([0-9]{1,15}\.[0-9]{2,3})(?:[ ]+[0-9.]{1,20}){2}$"
)
#: Tests of bulk data -> their direction.
DIRECTIONS: Final[Mapping[str, str]] = {
    "TCP_STREAM": "client to server",
    "TCP_SENDFILE": "client to server",
    "TCP_MAERTS": "server to client",
}


def _unit(tool: base.Benchmark, lines: Sequence[str]) -> float:
    for line in lines:
        found = _UNIT.search(line)
        if found and not line.startswith("Interim"):
            return netperf_omni.UNITS[found[1]]
    raise tool.fault("the output is cut off or its unit is missing ('10^6bits/sec')")


def _only_row(tool: base.Benchmark, name: str, rows: Sequence[re.Match[str]]) -> re.Match[str]:
    """Return the one row of a test's table.

    :raises base.BenchmarkOutputError: there is none, or there are several.
    """
    if len(rows) > 1:
        raise tool.fault(f"the text has {len(rows)} rows of {name} below one head; keep one")
    if not rows:
        raise tool.fault(
            f"the output is cut off, or its columns are those of -O: no row of {name};"
            " the table of its test and the forms of -o and -k are read"
        )
    return rows[0]


def of_stream(tool: base.Benchmark, name: str, lines: Sequence[str]) -> Test:
    factor = _unit(tool, lines)
    rows = [found for found in map(STREAM_ROW.match, lines) if found is not None]
    row = _only_row(tool, name, rows)
    rate = float(row[5]) * factor
    if rate == 0:
        raise tool.fault("nothing was transferred")
    workload = {"direction": DIRECTIONS[name], "message": f"{row[3]} bytes", "seconds": row[4]}
    workload["sockets"] = f"{row[1]} and {row[2]} bytes"
    figures = [base.Reading("throughput", "Mbit/s", "higher", rate, primary=True)]
    test = Test(name, figures, workload)
    _add_cpu(test, row[6])
    return test


def _add_cpu(test: Test, columns: str) -> None:
    """Add the CPU of both machines, the first of the columns behind a rate (-c and -C)."""
    values = columns.split()
    if not values:
        return
    if len(values) != 4:
        test.left_out.append("CPU utilisation and service demand")
        return
    for name, value in zip(("local_cpu", "remote_cpu"), values, strict=False):
        share = float(value)
        if 0 <= share <= 100:
            test.figures.append(base.Reading(name, "%", "lower", share))
        else:
            test.left_out.append(f"'{name}': netperf printed {one_line(value, 20)} %")
    test.left_out.append("service demand")


def of_udp_stream(tool: base.Benchmark, name: str, lines: Sequence[str]) -> Test:
    factor = _unit(tool, lines)
    for sent_line, received_line in zip(lines, lines[1:], strict=False):
        sent, received = _UDP_SENT.match(sent_line), UDP_RECEIVED.match(received_line)
        if not sent or not received:
            continue
        counted, arrived = float(sent[3]), float(received[2])
        if not 0 < arrived <= counted:
            raise tool.fault(f"{arrived:g} messages arrived of {counted:g} that were sent")
        figures = [
            base.Reading(
                "throughput", "Mbit/s", "higher", float(received[3]) * factor, primary=True
            ),
            base.Reading("sent_throughput", "Mbit/s", "higher", float(sent[5]) * factor),
            base.Reading("lost_share", "%", "lower", 100 * (1 - arrived / counted)),
            base.Reading("lost", "messages", "lower", counted - arrived),
            base.Reading("received", "1,000 messages", "higher", arrived / 1e3),
        ]
        workload = {"protocol": "UDP", "message": f"{sent[1]} bytes", "seconds": sent[2]}
        found = Test(name, figures, workload)
        found.left_out.append(f"errors of sends ({sent[4]}), socket sizes")
        if sent[6]:
            found.left_out.append("CPU utilisation and service demand")
        found.remarks["lost_computed"] = (
            "'lost' and 'lost_share' are calculated: messages that did not arrive, and their share"
            " of those that were sent"
        )
        return found
    raise tool.fault(f"the output is cut off: {name} has no two rows of sender and receiver")


def of_requests(tool: base.Benchmark, name: str, lines: Sequence[str]) -> Test:
    verbose = _transactions(name, lines)
    if verbose is not None:
        return verbose
    if _is_in_bits(lines):
        raise tool.fault(
            f"the table of {name} has its rate in bits or bytes a second (-f): how many"
            " transactions there were is not in it; run it without -f, or with -v 2"
        )
    if not any(re.search(r"per[ ]sec\b|Trans\.?[ ]*/s", line) for line in lines):
        raise tool.fault("the output is cut off or its unit is missing ('per sec')")
    rows = _rate_rows(lines)
    row = _only_row(tool, name, rows)
    rate = float(row[4])
    if rate == 0:
        raise tool.fault("no transaction was finished")
    workload = {"request": f"{row[1]} bytes", "response": f"{row[2]} bytes", "seconds": row[3]}
    test = Test(
        name, [base.Reading(*netperf_omni.TRANSACTIONS, "higher", rate, primary=True)], workload
    )
    test.left_out.append(f"percentiles of latency: the table of {name} has none")
    _add_cpu(test, row[5])
    return test


def _rate_rows(lines: Sequence[str]) -> list[re.Match[str]]:
    """Return the rows of the first table of requests and answers; that of -v 2 may look like one."""
    rows = []
    for head, line in zip(["", *lines], lines, strict=False):
        found = RATE_ROW.match(line)
        if found is not None and not _VERBOSE_HEAD.search(head):
            rows.append(found)
    return rows


def _is_in_bits(lines: Sequence[str]) -> bool:
    """Return whether the head above the row of a test names a unit of throughput, as with -f."""
    for line in lines:
        if RATE_ROW.match(line):
            return False
        if _UNIT.search(line) and not line.startswith(INTERIM) and "per sec" not in line:
            return True
    return False


def _transactions(name: str, lines: Sequence[str]) -> Test | None:
    """Return a test by the second table of -v 2, where the first has its rate in bits; None: it has not."""
    if not _is_in_bits(lines):
        return None
    rows = _rate_rows(lines)
    for head, line in zip(lines, lines[1:], strict=False):
        found = _VERBOSE_ROW.match(line)
        if found is None or not _VERBOSE_HEAD.search(head) or len(rows) != 1:
            continue
        rate = base.Reading(*netperf_omni.TRANSACTIONS, "higher", float(found[1]), primary=True)
        workload = {
            "request": f"{rows[0][1]} bytes",
            "response": f"{rows[0][2]} bytes",
            "seconds": rows[0][3],
        }
        left_out = ["the throughput of both directions, the round trip latency, alignment"]
        return Test(name, [rate], workload, left_out=left_out)
    return None
