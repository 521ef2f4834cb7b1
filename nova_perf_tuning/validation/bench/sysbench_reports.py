# SPDX-License-Identifier: Apache-2.0
"""Tests of sysbench that this project does not run: memory, fileio and other scripts for databases."""

import abc
import contextlib
import re
from typing import Final

from nova_perf_tuning.validation.bench import base, pasted, sysbench

_SIZE: Final = r"([0-9]{1,15}[KMGT]?i?[Bb])"
#: fileio's lines of sysbench 0.4 and 0.5, whose Mb is 1,024 Kb of 1,024 bytes.
_OLD_COUNTS: Final = r"^[ \t]*Operations performed:[ \t]+([0-9]{1,15}) Read,"
_OLD_MOVED: Final = re.compile(
    r"^[ \t]*Read .{1,30} Written .{1,30} Total transferred .{1,20}[ \t]+"
    rf"\({base.NUMBER}([KMGT]?)b/sec\)",
    re.M,
)
_OLD_RATE: Final = rf"^[ \t]*{base.NUMBER} Requests/sec executed"
#: fileio's lines of sysbench 1.1: "read:  IOPS=3042.12 47.53 MiB/s (49.84 MB/s)".
_NEW_IO: Final = re.compile(
    rf"^[ \t]*(read|write|fsync):[ \t]*IOPS={base.NUMBER}(?:[ \t]+{base.NUMBER} MiB/s .*)?[ \t]*$",
    re.M,
)


#: How versions of sysbench print that there is none.
_NO_FLAGS: Final = ("(none)", "none", "0")


class _Report(sysbench.Sysbench, base.ForeignTool):
    """A report of sysbench."""

    @abc.abstractmethod
    def parse(self, output: str) -> list[base.Reading]:
        """Return the figures; OutputError: see :meth:`check`."""

    def report(self, output: str) -> base.BenchmarkReport:
        return sysbench.Sysbench.report(self, output)

    def remarks(self, output: str) -> dict[str, str]:
        return dict(sysbench.Sysbench.remarks(self, output))

    def check(self, text: str) -> None:
        """Refuse what is no report of this test, or of a run that did nothing."""
        self.check_output(text)
        if not self.printed(text):
            raise self.fault(f"the output is cut off or foreign{self.wanted_form()}")
        if self.figure(text, "total number of events") == 0:
            raise self.fault(
                f"the run made no operation (0 events in {self.seconds(text):g} s):"
                " nothing was measured; a report with events is read"
            )


class MemoryReport(_Report):
    """Writing or reading memory in blocks."""

    kind = "sysbench_memory"
    summary = "memory throughput as 'sysbench memory' prints it"
    primary = ("throughput", "MiB/s", "higher")
    form = "sysbench memory run"
    marks = (
        r"^[ \t]*(?:Running memory speed test|Total operations: [0-9]|Doing memory operations speed"
        r"|Operations performed: [0-9]{1,15} \()|Mi?B transferred \("
    )
    needed = ("operation", "block size")
    #: Versions before 1.0 have other names.
    options = (
        ("block size", r"^[ \t]*(?:Memory )?block size:[ \t]*([0-9]{1,15}[KMGT]?(?:iB)?)$"),
        (
            "total size",
            r"^[ \t]*(?:total|Memory transfer) size:[ \t]*([0-9]{1,15}[KMGT]?(?:iB)?)$",
        ),
        ("operation", r"^[ \t]*(?:operation|Memory operations type):[ \t]*(\w{1,20})"),
        ("access", r"^[ \t]*access mode:[ \t]*(\w{1,20})"),
        ("scope", r"^[ \t]*(?:scope|Memory scope type):[ \t]*(\w{1,20})"),
    )
    reads_old = True

    def parse(self, output: str) -> list[base.Reading]:
        self.check(output)
        rate = self.labelled(
            output,
            rf"^[ \t]*[0-9.]{{1,20}} Mi?B transferred \({base.NUMBER} Mi?B/sec\)",
            "MiB transferred",
        )
        if rate == 0:
            raise self.fault("nothing was transferred (0 MiB/s)")
        operations = self.labelled(
            output,
            r"^[ \t]*(?:Total operations|Operations performed): [0-9]{1,15}"
            rf" \([ ]*{base.NUMBER} (?:per second|ops/sec)\)",
            "Total operations",
        )
        readings = [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("operations_per_second", "1/s", "higher", operations),
            *self.latencies(output),
        ]
        return self.without_speed(output, readings)

    def remarks(self, output: str) -> dict[str, str]:
        remarks = super().remarks(output)
        if " MB transferred (" in output:
            remarks["old_units"] = "sysbench before version 1.0 prints MB for 1024 x 1024 bytes"
        return remarks


class FileIo(_Report):
    """Requests to files; latencies are of reads, writes and fsyncs together."""

    kind = "sysbench_fileio"
    summary = "file I/O as 'sysbench fileio' prints it"
    primary = ("requests_per_second", "1/s", "higher")
    form = "sysbench fileio run"
    marks = (
        r"^[ \t]*(?:File operations:|Operations performed:[ \t]+[0-9]{1,15} Read,"
        r"|Extra file open flags:|fsync:[ \t]+IOPS="
        rf"|Doing (?:random|sequential|combined|mixed) .{{1,30}} test{pasted.REMARK}$)"
    )
    options = (
        ("pattern", r"^[ \t]*Doing (.{1,30}) test"),
        ("block size", rf"^[ \t]*Block size {_SIZE}"),
        ("files", r"^[ \t]*([0-9]{1,9} files, [0-9]{1,12}[KMGT]?i?[Bb]) each"),
        ("total size", rf"^[ \t]*{_SIZE} total file size"),
        (
            "reads to writes",
            rf"^[ \t]*Read/Write ratio for combined random IO test: {base.NUMBER}",
        ),
        ("mode", r"^[ \t]*Using (.{1,30}) I/O mode"),
        ("fsync", r"calling fsync\(\) (?:each|after each) ([0-9]{1,9} requests)"),
        (
            "open flags",
            rf"^[ \t]*Extra file open flags: (\(none\)|[\w |,-]{{1,40}}?){pasted.REMARK}[ \t]*$",
        ),
    )
    chosen = (
        ("pattern", ("--file-test-mode",)),
        ("total size", ("--file-total-size",)),
        ("block size", ("--file-block-size",)),
        # The report has the word fsync for each of them.
        ("sync call", ("--file-fsync-mode",)),
        ("open flags", ("--file-extra-flags",)),
    )
    needed = ("pattern", "block size", "total size")
    reads_old = True

    def check(self, text: str) -> None:
        if self.has_time(text):
            super().check(text)
        else:
            self.check_output(text)

    def has_time(self, text: str) -> bool:
        """Return whether a report says how long its run was; that of 1.1 has neither time nor events."""
        timed = re.search(r"^[ \t]*(?:total time|time elapsed):", text, re.MULTILINE)
        return timed is not None or not _NEW_IO.search(text)

    def parse(self, output: str) -> list[base.Reading]:
        self.check(output)
        if re.search(_OLD_COUNTS, output, re.MULTILINE):
            return self.without_speed(output, self._oldest(output))
        rates, moved = self._old(output) or self._new(output)
        readings = [
            base.Reading(*self.primary, rates["read"] + rates["write"], primary=True),
        ]
        for way in ("read", "write"):
            if rates[way]:
                readings.append(base.Reading(f"{way}s_per_second", "1/s", "higher", rates[way]))
                readings.append(base.Reading(f"{way}_throughput", "MiB/s", "higher", moved[way]))
        if rates["fsync"]:
            readings.append(base.Reading("fsyncs_per_second", "1/s", "higher", rates["fsync"]))
        if readings[0].value == 0:
            raise self.fault("the run has neither read nor written")
        readings += self.latencies(output)
        return self.without_speed(output, readings)

    def report(self, output: str) -> base.BenchmarkReport:
        report = super().report(output)
        report.remarks["latency_of_all"] = "latencies are of reads, writes and fsyncs together"
        _add_page_cache(report)
        if re.search(_OLD_COUNTS, output, re.MULTILINE):
            report.left_out.append(
                "reads, writes and fsyncs apart: their counts are printed alone"
            )
            return report
        metrics = {reading.metric for reading in report.readings}
        for way in ("read", "write"):
            if f"{way}s_per_second" not in metrics:
                report.left_out.append(f"{way}s: none were made")
        report.remarks["rate_computed"] = (
            "'requests_per_second' is calculated: reads and writes together, without fsyncs"
        )
        return report

    def _oldest(self, text: str) -> list[base.Reading]:
        """Return the figures of sysbench 0.4 and 0.5."""
        rate = self.labelled(text, _OLD_RATE, "Requests/sec executed")
        moved = _OLD_MOVED.search(text)
        if moved is None:
            raise self.fault("the output is cut off: no line 'Total transferred'")
        if rate == 0:
            raise self.fault("the run has neither read nor written")
        mebibytes = float(moved[1]) * pasted.BINARY[moved[2]] / pasted.BINARY["M"]
        return [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("throughput", "MiB/s", "higher", mebibytes),
            *self.latencies(text),
        ]

    def _old(self, text: str) -> tuple[dict[str, float], dict[str, float]] | None:
        """Return requests and MiB a second of sysbench 1.0; None: it is of 1.1."""
        if not re.search(r"^[ \t]*File operations:", text, re.MULTILINE):
            return None
        rates = {way: self.figure(text, f"{way}s/s") for way in ("read", "write", "fsync")}
        moved = {
            "read": self.figure(text, "read, MiB/s"),
            "write": self.figure(text, "written, MiB/s"),
        }
        return rates, moved

    def _new(self, text: str) -> tuple[dict[str, float], dict[str, float]]:
        rows = _NEW_IO.findall(text)
        rates = {way: float(rate) for way, rate, _moved in rows}
        moved = {way: float(amount) for way, _rate, amount in rows if amount}
        if len(rows) > 3:
            raise self.fault(f"the text has {len(rows) // 3} reports of sysbench; keep one")
        if set(rates) != {"read", "write", "fsync"} or len(rows) != 3:
            raise self.fault(f"the output is cut off: {len(rows)} of 3 lines with IOPS")
        return rates, moved


def _add_page_cache(report: base.BenchmarkReport) -> None:
    """Say whether files were read and written through the page cache, or that it is not known."""
    flags = report.workload.get("open flags", "")
    if not flags:
        report.left_out.append(
            "open flags: the output does not say whether the files went through the page cache"
            " (--file-extra-flags=direct does not)"
        )
    elif flags in _NO_FLAGS:
        report.remarks["page_cache"] = (
            "the files were opened without a flag (--file-extra-flags=direct): figures may be"
            " of the page cache, not of a disk"
        )
    elif set(re.findall(r"[a-z]+", flags)) & {"sync", "dsync"} and "direct" not in flags:
        report.remarks["page_cache"] = (
            f"the files were opened with '{flags}' alone (--file-extra-flags=direct): writes reach"
            " the disk, and reads may be of the page cache"
        )


class Sql(_Report):
    """Another script for databases than oltp_read_write, such as oltp_read_only."""

    kind = "sysbench_oltp"
    summary = "database transactions as other scripts of sysbench print them (oltp_read_only ...)"
    primary = ("transactions_per_second", "1/s", "higher")
    form = "sysbench oltp_read_only run"
    marks = sysbench.Oltp.marks
    reads_old = True
    options = sysbench.Oltp.options

    def parse(self, output: str) -> list[base.Reading]:
        self.check(output)
        readings = self.transactions(output)
        if self.figure(output, "read") and self.figure(output, "write"):
            raise self.fault("the run has reads and writes: it is read as 'oltp'")
        return readings


#: How a report begins, whatever of its head was pasted.
_BEGIN: Final = re.compile(
    r"^[ \t]*(?:sysbench [0-9]\.|Running |Initializing |CPU speed:|SQL statistics:|Operations performed:"
    r"|OLTP test statistics:|File operations:|Total operations:|Throughput:|General statistics:)"
)
#: What is printed while a run goes on (--report-interval).
_INTERVAL: Final = r"\[[ ]*[0-9]{1,7}s[ ]*\][ ]+(?:thds: |threads: |reads: |[0-9.]{1,14} MiB/sec)"
#: The test in a command line.
_COMMAND: Final = re.compile(
    r"\bsysbench [^\n]{0,300}?(?:--test=([a-z_]{2,30})\b|\b([a-z_]{2,30})(?:\.lua)?[ ]+run\b)"
)
_READ: Final = ("cpu", "memory", "fileio")
_EVENTS: Final = re.compile(r"^[ \t]*total number of events:")


def _runs_sysbench(line: str) -> bool:
    """Return whether a line is a command that begins a report."""
    return "sysbench" in line and "run" in pasted.command(line, "sysbench")


class Several(_Report):
    """Several reports in one text; of one report, which kind reads it or why it is not read."""

    kind = "sysbench"
    summary = "several reports of sysbench in one text"
    primary = ("events_per_second", "1/s", "higher")
    form = "sysbench cpu|memory|fileio|oltp_read_write run"
    marks = (
        r"^[ \t]*(?:sysbench [0-9]\.[0-9]|FATAL: |General statistics:|Threads fairness:"
        rf"|events/s \(eps\):|Initializing worker threads|{_INTERVAL})"
    )

    def parse(self, output: str) -> list[base.Reading]:
        return self.report(output).readings

    def remarks(self, output: str) -> dict[str, str]:
        return self.report(output).remarks

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        parts = self._parts(output)
        if len(parts) < 2:
            self.check_output(output)
            raise self._of_one(output)
        self.check_runs(len(parts), "reports of sysbench")
        found = {}
        for number, part in enumerate(parts, start=1):
            tool = self._tool(part, output)
            prefix = f"run{number}_{tool.kind.removeprefix('sysbench_')}"
            found[prefix] = tool.report(part)
        shown = base.several(found)
        shown.remarks["several_runs"] = (
            f"the text has {len(parts)} reports: none of them is judged"
        )
        return shown

    def reader(self, output: str) -> base.Benchmark:
        """Return the kind that reads the one report of a text; of several, itself."""
        if len(self._parts(output)) == 1:
            with contextlib.suppress(base.BenchmarkOutputError):
                return self._tool(output, output)
        return self

    def _of_one(self, output: str) -> base.BenchmarkOutputError:
        """Return the error of a text with one report, or none: its kind's, if it has one."""
        try:
            kind = self._tool(output, output).kind
        except base.BenchmarkOutputError as error:
            return error
        return self.fault(f"the text has one report, which '{kind}' reads; name that benchmark")

    def _parts(self, text: str) -> list[str]:
        """Return the text of each report."""
        parts: list[list[str]] = [[]]
        ended = False
        for line in text.split("\n"):
            if ended and (_BEGIN.match(line) or _runs_sysbench(line)):
                parts.append([])
                ended = False
            elif _EVENTS.match(line):
                ended = True
            parts[-1].append(line)
        reports = []
        for part in parts[:-1]:
            part.append("")  # the last line of a report that another follows is whole
        for part in parts:
            if any(_EVENTS.match(line) for line in part):
                reports.append("\n".join(part))
        return reports

    def _not_read(self, text: str) -> base.BenchmarkOutputError:
        """Return the error of reports that show none of the tests that are read, by their commands."""
        intervals = re.search(rf"^[ \t]*{_INTERVAL}", text, re.MULTILINE)
        if intervals and not any(_EVENTS.match(line) for line in text.split("\n")):
            return self.fault(
                "the text has single intervals alone: the report at the end of the run is missing"
                f"{self.wanted_form()}"
            )
        names: list[str] = []
        for words in _COMMAND.findall(text):
            name = words[0] or words[1]
            if name not in _READ and not name.startswith("oltp") and name not in names:
                names.append(name)
        if names:
            shown = " and ".join(names[:4])
            return self.fault(f"a report of {shown} is not read{self.wanted_form()}")
        if not self.printed(text):
            return self.fault("the output is no report of sysbench")
        if "sysbench" not in text:
            return self.fault(
                "the report is cut off at its beginning: which test of sysbench it was is not known"
                f"{self.wanted_form()}"
            )
        return self.fault(
            "the report is cut off, or of a test that is not read (threads, mutex)"
            f"{self.wanted_form()}"
        )

    def _tool(self, part: str, text: str) -> base.Benchmark:
        """Return what reads one report of a text; BenchmarkOutputError: of the first whose marks it has."""
        refusal = self._not_read(text)
        tools: list[type[base.Benchmark]] = [
            sysbench.Cpu,
            sysbench.Oltp,
            MemoryReport,
            FileIo,
            Sql,
        ]
        for tool in (kind() for kind in tools):
            if not tool.printed(part):
                continue
            try:
                tool.checked_figures(part)
            except base.BenchmarkOutputError as error:
                refusal = error
                continue
            return tool
        raise refusal
