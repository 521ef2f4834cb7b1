# SPDX-License-Identifier: Apache-2.0
"""What netperf's omni tests print: columns and key=value lines with names that somebody chose."""

import csv
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted

STREAMS: Final = ("TCP_STREAM", "TCP_MAERTS", "TCP_SENDFILE")
UDP_STREAM: Final = "UDP_STREAM"
UDP: Final = "UDP"
#: Unit of a table -> Mbit/s.
UNITS: Final[Mapping[str, float]] = {
    "10^3bits": 1e-3,
    "10^6bits": 1.0,
    "10^9bits": 1e3,
    "KBytes": 8 * 1024e-6,
    "MBytes": 8 * 1.048576,
    "GBytes": 8 * 1073.741824,
}
_KEY: Final = re.compile(r"^([A-Z][A-Z0-9_]{2,40})=(.{0,100})$")
#: Names of omni's columns and keys -> metric, unit.
COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "minimum latency microseconds": ("latency_min", "µs"),
    "mean latency microseconds": ("latency_mean", "µs"),
    "maximum latency microseconds": ("latency_max", "µs"),
    "stddev latency microseconds": ("latency_deviation", "µs"),
    "50th percentile latency microseconds": ("latency_p50", "µs"),
    "90th percentile latency microseconds": ("latency_p90", "µs"),
    "99th percentile latency microseconds": ("latency_p99", "µs"),
    "min_latency": ("latency_min", "µs"),
    "mean_latency": ("latency_mean", "µs"),
    "max_latency": ("latency_max", "µs"),
    "stddev_latency": ("latency_deviation", "µs"),
    "p50_latency": ("latency_p50", "µs"),
    "p90_latency": ("latency_p90", "µs"),
    "p99_latency": ("latency_p99", "µs"),
}
#: A head of so many lines, and the row below it.
_HEAD_LINES: Final = 12
RATE_NAMES: Final = ("transaction rate tran/s", "transaction_rate")
THROUGHPUT: Final = "throughput"
#: What was sent of UDP; of other protocols it is what arrived.
_SENT: Final = ("local send throughput", "local_send_throughput")
THROUGHPUT_UNITS: Final = ("throughput units", "throughput_units")
_WORKLOAD: Final[Mapping[str, str]] = {
    "elapsed time (sec)": "seconds",
    "elapsed_time": "seconds",
    "protocol": "protocol",
    "direction": "direction",
    "local_send_size": "message",
    "local send size": "message",
    "request_size": "request",
    "response_size": "response",
    "request size bytes": "request",
    "response size bytes": "response",
    "initial burst requests": "first burst",
    "burst_size": "first burst",
    "local send socket size final": "sending socket",
    "remote recv socket size final": "receiving socket",
    "lss_size_end": "sending socket",
    "rsr_size_end": "receiving socket",
}
#: Names of omni's columns that are no figure here, and whose values are numbers.
_OTHER_NUMBERS: Final = (
    "local cpu util %",
    "remote cpu util %",
    "confidence iterations run",
    "local bytes sent",
    "local bytes received",
    "remote bytes sent",
    "remote bytes received",
    "local transport retransmissions",
    "remote transport retransmissions",
    "round trip latency usec/tran",
    "throughput confidence width (%)",
    "local cpu confidence width (%)",
    "remote cpu confidence width (%)",
    "local send throughput",
    "local recv throughput",
    "remote send throughput",
    "remote recv throughput",
    "local send calls",
    "local recv calls",
    "remote send calls",
    "remote recv calls",
    "local service demand",
    "remote service demand",
    "transport mss bytes",
    "local send socket size requested",
    "local send socket size initial",
    "remote recv socket size requested",
    "remote recv socket size initial",
)
#: The same with a text for value.
_OTHER_TEXTS: Final = ("service demand units", "socket type", "result tag")
#: Of the workload, too, with a text for value.
TEXTS: Final = (*THROUGHPUT_UNITS, "protocol", "direction", *_OTHER_TEXTS)
NUMBERS: Final = frozenset(
    (*COLUMNS, *RATE_NAMES, THROUGHPUT, *_OTHER_NUMBERS, *_WORKLOAD)
) - frozenset(TEXTS)
TRANSACTIONS: Final = ("transactions_per_second", "1/s")


@dataclasses.dataclass(slots=True)
class Test:
    """One test of netperf.

    :ivar figures: the figure that counts comes first.
    :ivar fault: why it is not read, of one test of several; None: it is.
    """

    name: str
    figures: list[base.Reading] = dataclasses.field(default_factory=list)
    workload: dict[str, str] = dataclasses.field(default_factory=dict)
    remarks: dict[str, str] = dataclasses.field(default_factory=dict)
    left_out: list[str] = dataclasses.field(default_factory=list)
    fault: base.BenchmarkOutputError | None = None

    @property
    def is_stream(self) -> bool:
        """Whether it is bulk data over TCP; an omni test may say that it is not."""
        if self.name.upper().startswith("OMNI"):
            over_tcp = self.workload.get("protocol", "TCP") == "TCP"
            return over_tcp and self.figures[0].metric == "throughput"
        return self.name in STREAMS

    @property
    def is_requests(self) -> bool:
        """Whether it is requests and answers, as an omni test may say by its unit."""
        return self.name.upper() == "OMNI" and self.figures[0].metric == TRANSACTIONS[0]

    @property
    def is_udp(self) -> bool:
        """Whether it is bulk data over UDP; an omni test may say that it is."""
        if self.name.upper().startswith("OMNI"):
            return self.workload.get("protocol") == UDP and self.figures[0].metric == "throughput"
        return self.name == UDP_STREAM


def chosen(tool: base.Benchmark, text: str) -> Test:
    """Return what key=value lines say beside the throughput."""
    return test_of(tool, "TCP", columns_of(tool, pasted.lines_of(text)))


def columns_of(tool: base.Benchmark, lines: Sequence[str]) -> dict[str, str]:
    """Return name -> value of omni's output, whether columns or key=value lines; empty: it is neither."""
    keys: dict[str, str] = {}
    for found in map(_KEY.match, lines):
        if found is None:
            continue
        value = pasted.without_remark(found[2])
        if keys.setdefault(found[1].lower(), value) != value:
            raise tool.fault(f"the text has several tests: '{found[1]}' twice; keep one")
    if keys:
        return keys
    for at, (head, row) in enumerate(zip(lines, lines[1:], strict=False)):
        names = head.lower().split(",")
        known = [name for name in names if name in COLUMNS or name in RATE_NAMES]
        if not known and THROUGHPUT not in names:
            continue
        columns = _row(names, row)
        if columns and any(_row(names, line) for line in lines[at + 2 :]):
            raise tool.fault("the text has several rows of figures below one head; keep one")
        if columns:
            return columns
        columns = _below_wrapped_head(lines[at : at + _HEAD_LINES])
        if columns:
            return columns
    return {}


def headed(lines: Sequence[str], udp: bool) -> list[tuple[int, dict[str, str]]]:
    """Return the first line of omni's columns or keys, with name -> value, of a text without a banner.

    :param udp: whether the command is of a test over UDP.
    """
    for at, line in enumerate(lines):
        key = _KEY.match(line)
        if key is not None and key[1].lower() in (*RATE_NAMES, *THROUGHPUT_UNITS):
            keys = [found for found in map(_KEY.match, lines) if found is not None]
            columns = {found[1].lower(): pasted.without_remark(found[2]) for found in keys}
            # Without a banner those of bulk data over TCP are read as they are.
            requests = columns.get(THROUGHPUT_UNITS[1], "Trans/s") == "Trans/s"
            over_udp = columns.get("protocol", UDP if udp else "") == UDP
            first = min(number for number, text in enumerate(lines) if _KEY.match(text))
            return [(first, columns)] if requests or over_udp else []
        names = line.lower().split(",")
        if len(names) < 2 or not set(names) & {THROUGHPUT, *COLUMNS, *RATE_NAMES}:
            continue
        if at + 1 < len(lines):
            columns = _row(names, lines[at + 1])
            if columns:
                return [(at, columns)]
    return []


def _below_wrapped_head(lines: Sequence[str]) -> dict[str, str]:
    """Return name -> value below a line of names that a mail has wrapped; empty: there is none."""
    for end in range(2, len(lines)):
        names = " ".join(lines[:end]).lower().split(",")
        columns = _row(names, lines[end])
        if columns:
            return columns
    return {}


def _row(names: Sequence[str], line: str) -> dict[str, str]:
    """Return name -> value of a row of omni's columns; empty: the line is none."""
    if not line:
        return {}
    [values] = csv.reader([line])
    if len(values) != len(names):
        return {}
    columns = dict(zip(names, values, strict=True))
    for name, value in columns.items():
        if name in (*COLUMNS, *RATE_NAMES, THROUGHPUT) and re.match("-?[0-9]", value):
            return columns
    return {}


def test_of(tool: base.Benchmark, name: str, columns: Mapping[str, str]) -> Test:
    test = Test(name)
    units = ""
    for key in THROUGHPUT_UNITS:
        units = columns.get(key, units)
    for key, value in columns.items():
        rate = _rate(tool, key, columns, units)
        if rate is not None and rate.primary:
            if not any(reading.metric == rate.metric for reading in test.figures):
                test.figures.insert(0, rate)
        elif rate is not None:
            test.figures.append(rate)
        elif key in COLUMNS:
            metric, unit = COLUMNS[key]
            # netperf prints -1 for a latency that it did not take.
            if not value.startswith("-"):
                figure = base.Reading(metric, unit, "lower", _number(tool, key, value))
                test.figures.append(figure)
        elif key in _WORKLOAD:
            test.workload[_WORKLOAD[key]] = _fact(value)
        elif key not in THROUGHPUT_UNITS:
            test.left_out.append(_unread(key, value, units))
    if any(reading.primary and reading.value == 0 for reading in test.figures):
        raise tool.fault("nothing was transferred, or no transaction was finished")
    if not test.figures:
        raise tool.fault(
            "the output has no throughput with its unit and no latency"
            " (-k THROUGHPUT,THROUGHPUT_UNITS)"
        )
    return test


def _rate(
    tool: base.Benchmark, key: str, columns: Mapping[str, str], units: str
) -> base.Reading | None:
    """Return the rate that a column or key has; None: it has none.

    :param units: those of the throughput; empty: they are not known.
    """
    mbit = UNITS.get(units.removesuffix("/s"))
    if mbit is None:
        if key not in RATE_NAMES and (key != THROUGHPUT or units != "Trans/s"):
            return None
        count = _number(tool, key, columns[key])
        return base.Reading(*TRANSACTIONS, "higher", count, primary=True)
    # The transaction rate of bulk data is that of the one answer at its end.
    if key == THROUGHPUT:
        value = _number(tool, key, columns[key]) * mbit
        return base.Reading("throughput", "Mbit/s", "higher", value, primary=True)
    if key in _SENT and columns.get("protocol") == UDP:
        value = _number(tool, key, columns[key]) * mbit
        return base.Reading("sent_throughput", "Mbit/s", "higher", value)
    return None


def _unread(key: str, value: str, units: str) -> str:
    """Return what to say of a key that is no figure here."""
    if key == THROUGHPUT and not units:
        return (
            f"'throughput' ({one_line(value, 20)}): its unit is not in the output"
            " (-k THROUGHPUT,THROUGHPUT_UNITS)"
        )
    return f"'{one_line(key, 40)}'"


def _fact(value: str) -> str:
    """Return a value for the workload: what omni has whole is bytes."""
    fact = one_line(value, 20)
    if fact.isdigit():
        return f"{fact} bytes"
    return fact


def _number(tool: base.Benchmark, name: str, text: str) -> float:
    if not re.fullmatch(base.NUMBER, text):
        raise tool.fault(f"'{one_line(name, 40)}' is no number: '{one_line(text, 40)}'")
    return tool.check_number(name, float(text))
