# SPDX-License-Identifier: Apache-2.0
"""What netperf prints: the tables of its classic tests, and omni's columns and key=value lines."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import (
    base,
    netperf_classic,
    netperf_omni,
    netperf_table,
    pasted,
)
from nova_perf_tuning.validation.bench.netperf_omni import Test

BANNER: Final = re.compile(
    r"^(?:MIGRATED )?((?:TCP|UDP|SCTP|OMNI)[A-Za-z0-9 /_|-]{0,40}) TEST[ :].*$", re.IGNORECASE
)
#: The same in a line of a log.
_HIDDEN_BANNER: Final = re.compile(
    r"^.{1,200}\b(?:TCP|UDP|SCTP|OMNI)[A-Za-z0-9 /_|-]{0,40} TEST from ", re.IGNORECASE
)
#: Banner -> name of the test, as -t takes it.
_TESTS: Final[Mapping[str, str]] = {
    "TCP STREAM": "TCP_STREAM",
    "TCP MAERTS": "TCP_MAERTS",
    "TCP SENDFILE": "TCP_SENDFILE",
    "UDP STREAM": "UDP_STREAM",
    "UDP UNIDIRECTIONAL SEND": "UDP_STREAM",
    "TCP REQUEST/RESPONSE": "TCP_RR",
    "UDP REQUEST/RESPONSE": "UDP_RR",
    "TCP CONNECT/REQUEST/RESPONSE": "TCP_CRR",
}
REQUESTS: Final = ("TCP_RR", "UDP_RR", "TCP_CRR", "OMNI_Send|Recv")
#: Letters of -f -> the unit in the head of a table.
_OF_LETTER: Final[Mapping[str, str]] = {
    "k": "10^3bits/s",
    "m": "10^6bits/s",
    "g": "10^9bits/s",
    "K": "KBytes/s",
    "M": "MBytes/s",
    "G": "GBytes/s",
}
_BY_COMMAND: Final = ": of the command"
_BY_COLUMNS: Final = ": of the columns"
#: What to say of a banner that is missing.
_TEST_OF_COMMAND: Final = "the line that names the test is missing: it is that of the command"
_TEST_UNKNOWN: Final = (
    "the line that names the test is missing, and a command that does: neither the protocol nor"
    " the direction is known, nor whether each transaction has a connection of its own"
)
_TEST_OF_COLUMNS: Final = (
    "the line that names the test is missing, and a command that does: only its columns say what"
    " it was"
)
_KNOWN: Final = netperf_omni.NUMBERS | frozenset(netperf_omni.TEXTS)
#: The first line of a table's head.
_TABLE_HEAD: Final = re.compile(
    r"^(?:Recv[ ]+Send[ ]+Send\b|Socket[ ]+Message[ ]+Elapsed|Socket[ ]+Size[ ]+Request)"
)
#: What omni's figures have in their names.
_OMNI_TRACES: Final = (
    "Latency",
    "hroughput",
    "ransaction",
    "TRANSACTION_RATE=",
    "THROUGHPUT_UNITS=",
)
#: What each line that shows netperf's output has: quick to look for in long texts.
_TRACES: Final = ("-P 0", "TEST", "Recv ", "Socket ", "atency", "hroughput", "ransaction")
_CONFIDENCE: Final = re.compile(r"^!!! Desired confidence was not achieved")
_FAILED: Final = re.compile(
    r"^(?:netperf: \w{2,40}: |establish control: |(?:[a-z]{2,10}_)?send(?:_\w{1,30})?: |recv_\w{1,30}: )"
    r".{1,200}$"
)
#: What the banner of a test says behind the addresses.
_BURST: Final = re.compile(r" : first burst ([1-9][0-9]{0,8})(?:[ ]|$)")
_NO_DELAY: Final = " : nodelay"
#: The unit of omni's requests and answers, as a value.
_TRANSACTIONS: Final = "Trans/s"
_OF_REQUESTS: Final = re.compile(rf"(?:^|[=, ]){_TRANSACTIONS}(?:[, ]|$)")
#: A value of omni's columns or keys, whichever stand beside it.
_OF_UDP: Final = re.compile(
    r"^PROTOCOL=UDP$|^(?:[^,]{0,80},){0,60}UDP(?:,|$)|^[0-9][^\s,]*(?:[ ]+[^\s,]+){0,40}[ ]+UDP(?:[ ]|$)"
    r"|^UDP[ ]+(?:[A-Z|a-z]{4,9}[ ]+)?[0-9]"
)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, with the banners that it leaves out.

    They are those of commands that print none, nor a unit (-P 0), and of what omni's selectors print.
    """
    lines = pasted.lines_of(text)
    if any(trace in text for trace in _OMNI_TRACES) and not any(map(BANNER.match, lines)):
        lines = _with_banners(lines)
    if "netperf" not in text:
        return lines
    shown = []
    for line in lines:
        shown.append(line)
        if "netperf" in line:
            shown += _head_of(pasted.command(line, "netperf"))
    return shown


def _with_banners(lines: Sequence[str]) -> list[str]:
    """Return lines with a banner before each of omni's tables, rows and keys whose test is known."""
    shown = list(lines)
    text = "\n".join(lines).replace("\\\n", " ")
    asked = _selectors(pasted.command(text, "netperf"))
    found: list[tuple[int, Mapping[str, str]]] = []
    end, above = 0, frozenset[str]()
    for table in netperf_table.find(lines, _KNOWN, netperf_omni.NUMBERS, asked):
        # Selectors with a semicolon between them are of one test, whose figures stand in several tables.
        goes_on = bool(found) and not any("netperf" in line for line in lines[end : table.begin])
        if not goes_on or not above or above & set(table.columns):
            found.append((table.begin, table.columns))
            above = frozenset()
        above |= set(table.columns)
        end = table.row
    if not found:
        words = pasted.command(text, "netperf")
        found += netperf_omni.headed(lines, protocol_of(words) == netperf_omni.UDP)
    for begin, columns in reversed(found):
        name = _name_of(lines[:begin], columns)
        if name:
            shown.insert(begin, f"{name} TEST {_BY_COLUMNS}")
    return shown


def _selectors(words: Sequence[str]) -> list[str]:
    """Return the selectors that a command has for a table."""
    return (pasted.option(words, "-O") or "").lower().replace(";", ",").split(",")


def _name_of(before: Sequence[str], columns: Mapping[str, str]) -> str:
    """Return the test of figures as a banner names it, by the command before them or the unit; empty: unknown."""
    units = ""
    for key in netperf_omni.THROUGHPUT_UNITS:
        units = columns.get(key, units)
    of_bulk = units.removesuffix("/s") in netperf_omni.UNITS
    of_requests = not of_bulk and (
        units == "Trans/s" or bool(set(netperf_omni.RATE_NAMES) & set(columns))
    )
    # A command may go on in the next line.
    for line in reversed("\n".join(before).replace("\\\n", " ").split("\n")):
        if "netperf" not in line:
            continue
        words = pasted.command(line, "netperf")
        name = (pasted.option(words, "-t") or "TCP_STREAM").upper()
        if name == "OMNI" and protocol_of(words) == netperf_omni.UDP and not of_requests:
            name = netperf_omni.UDP_STREAM
        banners = [banner for banner, test in _TESTS.items() if test == name]
        if words and banners and (name in REQUESTS or not of_requests):
            return banners[0]
        if words:
            break
    if of_requests:
        return "OMNI Send|Recv"
    if of_bulk:
        return "OMNI Send"
    return ""


def protocol_of(words: Sequence[str]) -> str:
    """Return the protocol that a command names: by its test, or by ``-T`` of an omni test; empty: none."""
    name = (pasted.option(words, "-t") or "").upper()
    if name.partition("_")[0] in ("TCP", "UDP", "SCTP"):
        return name.partition("_")[0]
    own = words
    if "--" in words:
        own = words[words.index("--") :]
    asked = pasted.option(own, "-T")
    if name == "OMNI" and asked is not None:
        return asked.upper()
    return ""


def _head_of(words: Sequence[str]) -> list[str]:
    """Return what would stand before the row of a command with -P 0; nothing: it has a head, or keys."""
    if pasted.option(words, "-P") != "0" or {"-k", "-o", "-O", "-j"} & set(words):
        return []
    name = (pasted.option(words, "-t") or "TCP_STREAM").upper()
    # netperf's default is -f m.
    unit = _OF_LETTER.get(pasted.option(words, "-f") or "m")
    banners = [banner for banner, test in _TESTS.items() if test == name]
    if unit is None or not banners:
        return []
    return [f"{banners[0]} TEST {_BY_COMMAND}", f"{unit}, per sec"]


def printed(text: str) -> bool:
    """Return whether a text has a banner of netperf, or the head of one of its tables or rows."""
    if not any(trace in text for trace in _TRACES):
        return False
    lines = lines_of(text)
    for line in lines:
        if BANNER.match(line) or _TABLE_HEAD.match(line):
            return True
        names = line.lower().split(",")
        known = [
            name
            for name in names
            if name in netperf_omni.COLUMNS or name in netperf_omni.RATE_NAMES
        ]
        if len(known) > 1 or {netperf_omni.THROUGHPUT, netperf_omni.THROUGHPUT_UNITS[0]} <= set(
            names
        ):
            return True
    return bool(netperf_table.find(lines, _KNOWN, netperf_omni.NUMBERS, ()))


def read(tool: base.Benchmark, text: str) -> list[Test]:
    """Return all tests of a text, in order; OutputError: one is cut off or of a form that is not read."""
    tool.check_length(text)
    lines = lines_of(text)
    starts = [at for at, line in enumerate(lines) if BANNER.match(line)]
    tool.check_runs(len(starts), "tests of netperf")
    for line in lines[: (starts or [len(lines)])[0]]:
        _check_said(tool, line)
    if not starts:
        hidden = [line for line in lines if _HIDDEN_BANNER.match(line)]
        if hidden:
            raise tool.fault(
                f"{len(hidden)} banners of tests stand behind other words"
                f" ('{one_line(hidden[0], 40)}'): give the output without what is before its lines,"
                f" each test in a file of its own{tool.wanted_form()}"
            )
        tables = netperf_table.find(lines, _KNOWN, netperf_omni.NUMBERS, ())
        if any(not table.columns for table in tables):
            raise netperf_table.unfit(tool, tables[0])
        if tables:
            raise tool.fault(
                "its columns are those of -O, and neither a banner ('… TEST from …') nor a command"
                f" nor a rate with its unit says which test it is{tool.wanted_form()}"
            )
        raise tool.fault(
            f"the output has no banner of a test ('… TEST from …'){tool.wanted_form()}"
        )
    words = pasted.command(text.replace("\\\n", " "), "netperf")
    asked: list[str] = []
    if len(starts) == 1:
        asked = _selectors(words)
    tests = _tests_at(tool, lines, starts, asked)
    tool.check_runs(len(tests), "tests of netperf")
    if not any(test.figures for test in tests):
        raise next(test.fault for test in tests if test.fault is not None)
    headless = [line for line in lines[: starts[0]] if netperf_classic.UDP_RECEIVED.match(line)]
    if headless:
        tests[0].left_out.append(
            f"{len(headless)} rows before the first test: their head is missing"
        )
    if len(tests) == 1:
        _add_command(tests[0], words)
    return tests


def _add_command(test: Test, words: Sequence[str]) -> None:
    """Add what the command of a test says of it."""
    for fact, option in (
        ("seconds asked for", "-l"),
        ("CPUs (-T)", "-T"),
        ("request and response (-r)", "-r"),
    ):
        asked = pasted.option(words, option)
        if option == "-T" and "--" in words:
            # Behind that it is the protocol of an omni test.
            asked = pasted.option(words[: words.index("--")], option)
        if asked is None:
            continue
        if option == "-l" and asked.startswith("-"):
            # So many transactions, or bytes, end the test.
            fact, asked = "amount asked for (-l)", asked[1:]
        test.workload[fact] = one_line(asked, 20)


def _tests_at(
    tool: base.Benchmark, lines: Sequence[str], starts: Sequence[int], asked: Sequence[str]
) -> list[Test]:
    """Return the tests that begin at some lines; of several one may have a fault instead of figures.

    :param asked: the selectors of -O that the command of the one test has.
    """
    tests = []
    ends = [*starts[1:], len(lines)]
    for begin, end in zip(starts, ends, strict=True):
        found = BANNER.match(lines[begin])
        assert found is not None
        name = _TESTS.get(found[1].upper(), found[1].replace(" ", "_"))
        own = list(lines[begin + 1 : end])
        by_command = lines[begin].endswith(_BY_COMMAND)
        runs = [own]
        if by_command:
            runs = _rows_apart(own)
        for run in runs:
            try:
                tests.append(_test(tool, name, run, end < len(lines), asked))
                tests[-1].workload.update(_of_banner(lines[begin]))
                if lines[begin].endswith(_BY_COLUMNS):
                    tests[-1].remarks["no_banner"] = _without_banner(tests[-1])
                if by_command:
                    tests[-1].remarks["by_the_command"] = (
                        "the head is left out (-P 0): test and unit are those of the command"
                    )
            except base.BenchmarkOutputError as error:
                if len(starts) == 1 and len(runs) == 1:
                    raise
                tests.append(Test(name, fault=error))
    return tests


def _without_banner(test: Test) -> str:
    """Return what to say of a test whose banner is missing."""
    if test.name in _TESTS.values():
        return _TEST_OF_COMMAND
    if "protocol" in test.workload:
        return _TEST_OF_COLUMNS
    return _TEST_UNKNOWN


def _of_banner(line: str) -> dict[str, str]:
    """Return what a banner says of the work behind its addresses."""
    workload: dict[str, str] = {}
    burst = _BURST.search(line)
    if burst:
        workload["first burst"] = burst[1]
        workload["transactions in flight"] = str(int(burst[1]) + 1)
    if _NO_DELAY in line:
        workload["nodelay"] = "yes"
    return workload


def _rows_apart(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each run of a command in a loop, which prints a row each; the first is the unit."""
    rows = [
        line
        for line in lines
        if netperf_classic.STREAM_ROW.match(line) or netperf_classic.RATE_ROW.match(line)
    ]
    if len(rows) < 2:
        return [list(lines)]
    return [[lines[0], row] for row in rows]


def _check_said(tool: base.Benchmark, line: str) -> None:
    """Refuse a line in which netperf says why it failed."""
    if _FAILED.match(line):
        raise tool.failed(f"it said '{one_line(line, 160)}'")


def alone(text: str) -> str:
    """Return the name of the one test of a text; empty: there are none or several."""
    lines = lines_of(text)
    banners = [found for found in map(BANNER.match, lines) if found is not None]
    if len(banners) != 1:
        return ""
    name = banners[0][1].upper()
    if name == "OMNI" and any(_OF_REQUESTS.search(line) for line in lines):
        return "OMNI_Send|Recv"
    if name in ("OMNI", "OMNI SEND") and _names_udp(lines):
        return netperf_omni.UDP_STREAM
    return _TESTS.get(banners[0][1].upper(), "")


def _names_udp(lines: Sequence[str]) -> bool:
    """Return whether omni's columns or keys name UDP for the protocol."""
    return any(_OF_UDP.search(line) for line in lines)


def report(tool: base.Benchmark, tests: Sequence[Test]) -> base.BenchmarkReport:
    """Return the figures of tests; those of several have the test's name before theirs."""
    names = pasted.distinct([test.name.lower() for test in tests])
    parts = {}
    failed = []
    for name, test in zip(names, tests, strict=True):
        if test.fault is not None:
            failed.append(f"{name}: {test.fault}")
            continue
        parts[name] = base.BenchmarkReport(
            test.figures, test.workload, test.remarks, test.left_out
        )
    if len(tests) == 1:
        [shown] = parts.values()
        shown.workload = {"test": tests[0].name, **tests[0].workload}
    else:
        shown = base.several(parts)
        shown.remarks["several_tests"] = f"the text has {len(tests)} tests: none of them is judged"
        shown.left_out += failed
    asked = pasted.whole_number(shown.workload.get("seconds asked for"))
    took = shown.workload.get("seconds", "")
    if asked is not None and re.fullmatch(base.NUMBER, took) and float(took) < 0.9 * asked:
        shown.remarks["stopped"] = f"the run was stopped after {took} s of {asked} s"
    return shown


def _test(
    tool: base.Benchmark, name: str, lines: Sequence[str], whole: bool, asked: Sequence[str]
) -> Test:
    """Return one test.

    :param whole: another follows it, so its last line has its end; :param asked: selectors of -O.
    """
    for line in lines:
        _check_said(tool, line)
    test = _figures(tool, name, lines, whole, asked)
    if any(line.startswith(netperf_classic.INTERIM) for line in lines):
        test.left_out.append("interim results")
    heads = [at for at, line in enumerate(lines) if _TABLE_HEAD.match(line)]
    if heads and any(line.startswith(netperf_classic.INTERIM) for line in lines[heads[-1] :]):
        test.left_out.append("a further run, which has interim results alone and no end")
    if any(line.startswith("Histogram of ") for line in lines):
        test.left_out.append("the histogram")
    if any(_CONFIDENCE.match(line) for line in lines):
        test.remarks["confidence_not_reached"] = (
            "netperf says that the confidence that was asked for was not achieved"
        )
    if name.upper().startswith("OMNI") and "protocol" not in test.workload:
        test.remarks["protocol_unknown"] = (
            "the output does not name the protocol (-k PROTOCOL): it is taken for TCP"
        )
    return test


def _figures(
    tool: base.Benchmark, name: str, lines: Sequence[str], whole: bool, asked: Sequence[str]
) -> Test:
    columns = netperf_omni.columns_of(tool, lines)
    if not columns:
        table = netperf_table.read(lines, _KNOWN, netperf_omni.NUMBERS, asked)
        if table is not None:
            columns = _columns_of(tool, lines, table)
    if columns:
        # The last number has no mark of its end.
        if lines[-1] and not whole:
            raise tool.fault(
                "the last line has no line end, so its last number may be cut off: add the line"
                " end if it is whole"
            )
        found = netperf_omni.test_of(tool, name, columns)
        if name in netperf_classic.DIRECTIONS:
            found.workload.setdefault("direction", netperf_classic.DIRECTIONS[name])
        if name == netperf_omni.UDP_STREAM:
            found.workload.setdefault("protocol", netperf_omni.UDP)
        return found
    if name in netperf_omni.STREAMS:
        return netperf_classic.of_stream(tool, name, lines)
    if name == "UDP_STREAM":
        return netperf_classic.of_udp_stream(tool, name, lines)
    if name in REQUESTS:
        return netperf_classic.of_requests(tool, name, lines)
    raise tool.fault(
        f"the table of '{one_line(name, 40)}' is not read; use -o or -k with the names of figures"
    )


def _columns_of(
    tool: base.Benchmark, lines: Sequence[str], table: netperf_table.OmniTable
) -> dict[str, str]:
    """Return name -> value of a table of -O, and of those that follow it for further selectors.

    :raises base.BenchmarkOutputError: its head does not fit; or there are further rows or tables of the same names.
    """
    columns = dict(table.columns)
    further = lines[table.row + 1 :]
    for more in netperf_table.find(further, _KNOWN, netperf_omni.NUMBERS, ()):
        if set(more.columns) & set(columns):
            raise tool.fault("the text has several tables of the same figures; keep one")
        columns.update(more.columns)
        table = min(table, more, key=lambda each: len(each.columns))
    if not table.columns:
        raise netperf_table.unfit(tool, table)
    if netperf_table.is_row(next(filter(None, further), ""), table.count):
        raise tool.fault("the text has several rows of figures below one head; keep one")
    return columns


class _OneTest(base.ForeignTool):
    """A test of netperf that is alone in a text; several at once are netperf's."""

    tests: ClassVar[Sequence[str]]
    #: Options with which the output has the figure that counts.
    wanted: ClassVar[str] = "-k THROUGHPUT,THROUGHPUT_UNITS"

    def printed(self, output: str) -> bool:
        return re.search(self.marks, "\n".join(lines_of(output)), re.MULTILINE) is not None

    def report(self, output: str) -> base.BenchmarkReport:
        tests = read(self, output)
        if len(tests) > 1 or not self.reads(tests[0]):
            names = ", ".join(test.name for test in tests[:5])
            raise self.fault(f"the output is of {names}; 'bench parse netperf' reads it")
        if tests[0].figures[0].metric != self.primary[0]:
            self._without_rate(tests[0])
        return report(self, tests)

    def reads(self, test: Test) -> bool:
        """Return whether a test is of this kind."""
        return test.name in self.tests

    def _without_rate(self, test: Test) -> None:
        """Show a test that has no figure of this kind to be judged.

        :raises base.BenchmarkOutputError: it has no latencies either.
        """
        if not any(figure.metric.startswith("latency_") for figure in test.figures):
            raise self.fault(f"the output has no '{self.primary[0]}' ({self.wanted})")
        test.figures = [dataclasses.replace(figure, primary=False) for figure in test.figures]
        test.left_out.append(f"'{self.primary[0]}': the output does not have it ({self.wanted})")


class NetperfRequests(_OneTest):
    """Requests and answers with netperf: TCP_RR, UDP_RR, TCP_CRR."""

    kind = "netperf_rr"
    summary = "requests and answers per second as netperf prints them (TCP_RR, UDP_RR, TCP_CRR)"
    primary = ("transactions_per_second", "1/s", "higher")
    form = "netperf -t TCP_RR"
    marks = r"REQUEST/RESPONSE TEST|Connect/Request/Response TEST|OMNI Send\|Recv TEST"
    tests = REQUESTS
    wanted = "-k TRANSACTION_RATE, or THROUGHPUT with THROUGHPUT_UNITS"

    def printed(self, output: str) -> bool:
        if super().printed(output):
            return True
        # Quick to look for in long texts.
        return _TRANSACTIONS in output and alone(output) in REQUESTS

    def reads(self, test: Test) -> bool:
        return super().reads(test) or test.is_requests


class NetperfUdp(_OneTest):
    """What arrived of UDP, and what was sent."""

    kind = "netperf_udp"
    summary = "UDP throughput that arrived, as netperf prints it (UDP_STREAM)"
    primary = ("throughput", "Mbit/s", "higher")
    form = "netperf -t UDP_STREAM"
    marks = r"UDP (?:UNIDIRECTIONAL SEND|STREAM) TEST"
    tests = (netperf_omni.UDP_STREAM,)

    def printed(self, output: str) -> bool:
        if super().printed(output):
            return True
        return "UDP" in output.upper() and alone(output) == netperf_omni.UDP_STREAM

    def reads(self, test: Test) -> bool:
        return test.is_udp
