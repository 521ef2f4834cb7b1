# SPDX-License-Identifier: Apache-2.0
"""What cyclictest and oslat print for people."""

import dataclasses
import email.utils
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted

#: The maximum has eight places: where it has fewer, it is cut off or somebody has changed spaces.
_THREAD: Final = re.compile(
    r"^T:[ ]*([0-9]{1,5}) \([ ]*[0-9]{1,9}\)[ ]+P:[ ]*([0-9]{1,3})[ ]+I:[ ]*([0-9]{1,12})[ ]+C:[ ]*([0-9]{1,15})"
    r"[ ]+Min:[ ]*([0-9]{1,12})[ ]+Act:[ ]*[0-9]{1,12}[ ]+Avg:[ ]*([0-9]{1,12})[ ]+Max:([ ]*)([0-9]{1,12})"
    rf"{pasted.REMARK}$"
)
_MAX_PLACES: Final = 8
#: Numbers below a histogram have leading zeros up to so many places.
_SUMMARY_PLACES: Final = 5
_POLICY_LINE: Final = re.compile(r"^policy: (\w{2,12}): loadavg: ")
_BIN: Final = re.compile(r"^([0-9]{6,9})((?:[ \t]+[0-9]{6,15})+)$")
_SUMMARY: Final = re.compile(
    r"^#[ ]{1,3}(Total|Min Latencies|Avg Latencies|Max Latencies|Histogram Overflows):"
    rf"((?:[ \t]+[0-9]{{1,15}})+){pasted.REMARK}$"
)
_DMA_LATENCY: Final = re.compile(r"^# /dev/cpu_dma_latency set to ")
_ANY_THREAD: Final = re.compile(r"^T(?::|$)")
_THREAD_BEGIN: Final = re.compile(r"^T:[ ]*[0-9]{1,5} \([ ]*[0-9]{1,9}\)[ ]*P:")
#: Each wake-up in a line of its own (-v).
_VERBOSE: Final = re.compile(r"^[0-9]{1,5}:[ ]+[0-9]{1,12}:[ ]+[0-9]{1,12}$")
#: How long cyclictest's first thread sleeps where its command does not say it.
_INTERVAL_US: Final = "1000"
_NSECS: Final = ("-N", "--nsecs")
#: No thread sleeps so long that its quickest wake-up comes so many µs late: these are nanoseconds.
_LEAST_NS: Final = 500.0
_ROW: Final = re.compile(
    r"^([A-Z][A-Za-z -]{2,20}|[0-9]{3,6}(?:\.[0-9]{1,6})?(?: \([a-z]{2}\))?):\s+(.*)$"
)
_OVERFLOWS: Final = " (including overflows)"
_CYCLICTEST: Final = re.compile(
    r"^[ \t]*(?:T:[ ]*[0-9]{1,5} \([ ]*[0-9]{1,9}\) P:|# (?:Min|Max) Latencies:|# /dev/cpu_dma_latency)",
    re.M,
)
_OSLAT: Final = re.compile(
    r"^[ \t]*(?:oslat V [0-9]|Core:\s+[0-9]|core_i:\s+[0-9]|(?:Maximum|Max-Min):\s+[0-9. ]{1,400}\([mun]s\))",
    re.MULTILINE,
)
#: Rows of oslat before it was a part of rt-tests -> their names today.
_OLD_ROWS: Final[Mapping[str, str]] = {
    "core_i": "Core",
    "cpu_mhz": "Counter Freq",
    "maxlat": "Maximum",
    "runtime": "Duration",
}
_OLD_ROW: Final = re.compile(rf"^({'|'.join(_OLD_ROWS)})(?=:)")
_OSLAT_HEAD: Final = re.compile(r"^(?:oslat V [0-9]|Version: v?[0-9])")
_OSLAT_CPUS: Final = re.compile(r"^(?:Core|core_i):\s+[0-9]")
#: A row below the CPUs of a report.
_OSLAT_ROW: Final = re.compile(r"^(?:Counter Freq|cpu_mhz|[0-9]{3,6}(?:\.[0-9]{1,6})? \(us\)):")
_OLD_VERSION: Final = re.compile(r"^[ \t]*Version: v?([0-9][0-9.]{1,12})$", re.MULTILINE)
#: Of one thread's object in JSON, without the head of the document.
_FRAGMENT: Final = re.compile(r'^[ \t]*"[0-9]{1,4}"\s*:\s*\{\s*"(?:histogram|cpu|cycles)"', re.M)


def is_cyclictest(text: str) -> bool:
    return _CYCLICTEST.search(text) is not None


def has_head(text: str) -> bool:
    """Return whether a text has the head of rt-tests' JSON: the number of threads, or the unit of its times."""
    return '"num_threads"' in text or '"resolution_in_ns"' in text


def is_fragment(text: str, count: str) -> bool:
    """Return whether a text is a part of rt-tests' JSON without its head; ``count``: a key of its threads."""
    if has_head(text) or f'"{count}"' not in text:
        return False
    return _FRAGMENT.search(text) is not None


def is_oslat(text: str) -> bool:
    return _OSLAT.search(text) is not None


@dataclasses.dataclass(slots=True)
class MeasuredThread:
    """One thread of cyclictest, times in the output's unit.

    :ivar cycles: None: the output does not count them.
    """

    number: str
    least: float
    mean: float
    longest: float
    cycles: float | None = None
    interval: str = ""
    priority: str = ""

    @property
    def slept_s(self) -> float | None:
        """Return how long it ran, by its cycles and its interval in µs; None: it is not known."""
        if self.cycles is None or not self.interval:
            return None
        return self.cycles * float(self.interval) / 1e6


@dataclasses.dataclass(slots=True)
class Cyclictest:
    """What cyclictest's normal output says.

    :ivar per_us: how many units of its times are a microsecond.
    :ivar bins: latency -> wake-ups of all threads; empty: no histogram was taken.
    :ivar beyond: wake-ups beyond the histogram, :ivar reach: where it ends.
    :ivar fault: why the histogram is not read; empty: it is, or there is none.
    """

    threads: list[MeasuredThread]
    per_us: float
    unit_known: bool
    bins: dict[float, float] = dataclasses.field(default_factory=dict)
    beyond: float = 0.0
    reach: float = 0.0
    fault: str = ""
    workload: dict[str, str] = dataclasses.field(default_factory=dict)


def runs(tool: base.Benchmark, text: str) -> list[str]:
    """Return the text of each run of cyclictest: it begins with its command or its first line.

    The line ``policy:`` is none of them: it is printed again and again while a run goes on.
    """
    tool.check_length(text)
    parts: list[list[str]] = [[]]
    ended = False
    for line in pasted.lines_of(text):
        begins = _DMA_LATENCY.match(line) or pasted.command(line, "cyclictest")
        if ended and begins:
            parts.append([])
            ended = False
        elif _THREAD_BEGIN.match(line) or _SUMMARY.match(line):
            ended = True
        parts[-1].append(line)
    begun = any(_DMA_LATENCY.match(line) for line in parts[-1])
    if len(parts) > 1 and not ended and not begun:
        parts.pop()  # a command behind the last run, which has no output
    return ["\n".join(part) for part in parts]


def asked_seconds(command: str) -> float | None:
    """Return how long a command was to run (``-D 1m``); None: it does not say so."""
    return pasted.seconds(pasted.option(command.split(), "-D", "--duration"))


def stamp(text: object) -> float | None:
    """Return a time of rt-tests in seconds since the epoch; None: it is none."""
    try:
        return email.utils.parsedate_to_datetime(str(text)).timestamp()
    except (ValueError, OverflowError):
        return None


def read_cyclictest(tool: base.Benchmark, text: str) -> Cyclictest:
    """Return what cyclictest's normal output says; OutputError: it is cut off, or its unit is not known."""
    tool.check_length(text)
    lines = _unwrapped(pasted.lines_of(text))
    words = pasted.command(text, "cyclictest")
    by_number: dict[str, MeasuredThread] = {}
    for line in lines:
        found = _THREAD.match(line)
        if found:
            thread = _thread(tool, found, line is lines[-1])
            _check_one_run(tool, by_number.get(found[1]), thread)
            by_number[found[1]] = thread
    written = [line for line in lines if line]
    if written and _ANY_THREAD.match(written[-1]) and not _THREAD.match(written[-1]):
        raise tool.fault("the output is cut off within the line of a thread")
    summaries = _summaries(tool, lines)
    threads = list(by_number.values())
    if not threads and "Max Latencies" in summaries:
        threads = _threads_of(tool, summaries)
    if not threads and any(_VERBOSE.match(line) for line in lines):
        raise tool.fault(
            f"single wake-ups (-v) are not read; run it with --quiet{tool.wanted_form()}"
        )
    if not threads:
        raise tool.fault(f"the output is cut off: no line of a thread{tool.wanted_form()}")
    summed_up = len(summaries.get("Max Latencies", ()))
    if summed_up > len(threads):
        raise tool.fault(
            f"the output is cut off: lines of {len(threads)} of the {summed_up} threads that stand"
            " below the histogram"
        )
    numbers = sorted(int(thread.number) for thread in threads)
    if numbers != list(range(len(threads))):
        raise tool.fault(f"threads are missing: {len(threads)} lines, the last of {numbers[-1]}")
    asked = pasted.whole_number(pasted.option(words, "-t", "--threads"))
    if asked is not None and asked > len(threads):
        raise tool.fault(f"the output is cut off: {len(threads)} of {asked} threads")
    if not words and min(thread.least for thread in threads) >= _LEAST_NS:
        raise tool.fault(
            "the unit of the times is not known (µs, or ns with --nsecs): add the command line"
        )
    found_all = Cyclictest(threads, per_microsecond(words), bool(words))
    _add_histogram(tool, found_all, lines, summaries)
    found_all.workload = _cyclictest_workload(lines, words, threads)
    return found_all


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Return lines with those of a thread in one, where a mail has wrapped them."""
    whole: list[str] = []
    for line in lines:
        begun = bool(whole) and _THREAD_BEGIN.match(whole[-1]) is not None
        if begun and line and not _THREAD.match(whole[-1]) and len(whole[-1]) < 120:
            whole[-1] += f" {line}"
        else:
            whole.append(line)
    return whole


def _thread(tool: base.Benchmark, found: re.Match[str], last: bool) -> MeasuredThread:
    if last and len(found[7]) + len(found[8]) < _MAX_PLACES:
        raise tool.fault("the output is cut off within the maximum of its last line")
    thread = MeasuredThread(found[1], float(found[5]), float(found[6]), float(found[8]))
    thread.cycles, thread.interval, thread.priority = float(found[4]), found[3], found[2]
    if not thread.least <= thread.longest:
        raise tool.fault(f"thread {thread.number} has a minimum above its maximum")
    return thread


def _check_one_run(
    tool: base.Benchmark, before: MeasuredThread | None, thread: MeasuredThread
) -> None:
    """Refuse a later line of a thread whose cycles or maximum are less: they only grow in a run."""
    if before is None or before.cycles is None or thread.cycles is None:
        return
    shrunk = thread.cycles < before.cycles or thread.longest < before.longest
    if shrunk or thread.least > before.least:
        raise tool.fault(
            f"the text has several runs of cyclictest: thread {thread.number} begins anew; keep one"
        )


def _summaries(tool: base.Benchmark, lines: Sequence[str]) -> dict[str, list[float]]:
    """Return the lines below the histogram: name -> number of each thread."""
    summaries: dict[str, list[float]] = {}
    for line in lines:
        found = _SUMMARY.match(line)
        if found:
            if found[1] in summaries:
                raise tool.fault("the text has several outputs of cyclictest; keep one")
            numbers = found[2].split()
            if line is lines[-1] and any(len(number) < _SUMMARY_PLACES for number in numbers):
                raise tool.fault(f"the output is cut off within its last line, '{found[1]}'")
            summaries[found[1]] = [float(number) for number in numbers]
    return summaries


def per_microsecond(words: Sequence[str]) -> float:
    """Return how many units of cyclictest's times are a microsecond, by its command line."""
    if any(word in _NSECS for word in words):
        return 1000.0
    return 1.0


def _threads_of(tool: base.Benchmark, summaries: dict[str, list[float]]) -> list[MeasuredThread]:
    """Return threads by the lines below the histogram alone, as cyclictest prints them with -q."""
    least = summaries.get("Min Latencies", [])
    mean = summaries.get("Avg Latencies", [])
    longest = summaries.get("Max Latencies", [])
    if not len(least) == len(mean) == len(longest):
        raise tool.fault("the lines below the histogram differ in their threads")
    threads = []
    for at in range(len(least)):
        threads.append(MeasuredThread(str(at), least[at], mean[at], longest[at]))
    return threads


def _add_histogram(
    tool: base.Benchmark,
    found: Cyclictest,
    lines: Sequence[str],
    summaries: dict[str, list[float]],
) -> None:
    totals, beyond = summaries.get("Total"), summaries.get("Histogram Overflows")
    if totals is not None and beyond is not None:
        for at, thread in enumerate(found.threads):
            if thread.cycles is None and at < min(len(totals), len(beyond)):
                thread.cycles = totals[at] + beyond[at]
    found.beyond = sum((beyond or [])[: len(found.threads)])
    rows = [row for row in map(_BIN.match, lines) if row is not None]
    if not rows:
        return
    columns: list[dict[float, float]] = [{} for _thread in found.threads]
    for row in rows:
        # With several threads and -H the last column of newer versions sums the others up.
        numbers = [float(number) for number in row[2].split()][: len(columns)]
        late = float(row[1])
        found.bins[late] = found.bins.get(late, 0.0) + sum(numbers)
        for column, number in zip(columns, numbers, strict=False):
            column[late] = number
    if beyond is None:
        raise tool.fault("the output is cut off: the histogram has no line 'Histogram Overflows'")
    if totals is None:
        found.fault = _fault_of_columns(found, columns, beyond)
    else:
        total = sum(totals[: len(found.threads)])
        found.fault = _fault_of_total(tool, sum(found.bins.values()), total)
    found.reach = max(found.bins) + 1.0
    if found.fault:
        found.bins = {}
        if found.beyond:
            found.fault += f"; {found.beyond:.0f} wake-ups lie beyond it"


def _fault_of_total(tool: base.Benchmark, count: float, total: float) -> str:
    """Return why a histogram has fewer wake-ups than its total; empty: it has all."""
    if count > total:
        raise tool.fault(
            f"the histogram has {count:.0f} wake-ups, more than its total says ({total:.0f})"
        )
    if count == total:
        return ""
    return f"the histogram has {count:.0f} wake-ups, its total says {total:.0f}: lines are missing"


def _fault_of_columns(
    found: Cyclictest, columns: Sequence[Mapping[float, float]], beyond: Sequence[float]
) -> str:
    """Return why a histogram without its totals has not all that the threads' lines have; empty: it has.

    They are printed a moment before it: it has as many wake-ups or more, and their least and
    longest.
    """
    for thread, column, over in zip(found.threads, columns, beyond, strict=False):
        seen = [late for late, number in column.items() if number]
        counted = sum(column.values()) + over
        whole = bool(seen) and min(seen) <= thread.least and counted >= (thread.cycles or 0.0)
        if not whole or (not over and max(seen) < thread.longest):
            return (
                f"the histogram of thread {thread.number} has {counted:g} wake-ups, and has not"
                " all of its line: lines are missing"
            )
    return ""


def _cyclictest_workload(
    lines: Sequence[str], words: Sequence[str], threads: Sequence[MeasuredThread]
) -> dict[str, str]:
    workload = {"threads": str(len(threads))}
    for line in lines:
        policy = _POLICY_LINE.match(line)
        if policy:
            workload["policy"] = policy[1]
    for name, values in (
        ("priority", [thread.priority for thread in threads]),
        ("interval in µs", [thread.interval for thread in threads]),
    ):
        distinct = [value for value in dict.fromkeys(values) if value]
        if distinct:
            workload[name] = ", ".join(distinct[:16])
    counted = [thread.cycles for thread in threads if thread.cycles is not None]
    if counted:
        workload["cycles"] = f"{sum(counted):.0f}"
    for name, options in (
        ("duration", ("-D", "--duration")),
        ("affinity", ("-a", "--affinity")),
        ("loops", ("-l", "--loops")),
        ("priority", ("-p", "--priority")),
        ("interval in µs", ("-i", "--interval")),
    ):
        value = pasted.option(words, *options)
        if value is not None:
            workload.setdefault(name, one_line(value, 200))
    ran = _ran_s(words, threads)
    if ran is not None:
        workload["seconds"] = f"{ran:g}"
    return workload


def _ran_s(words: Sequence[str], threads: Sequence[MeasuredThread]) -> float | None:
    """Return how long a run was: by what its threads slept, else by its command; None: it is not known."""
    slept = [thread.slept_s for thread in threads if thread.slept_s is not None]
    if len(slept) == len(threads):
        return min(slept)
    lengths: list[float] = []
    asked = asked_seconds(" ".join(words))
    if asked is not None:
        lengths.append(asked)
    # Of a run that was ended early the first thread has fewer cycles.
    cycles = threads[0].cycles
    if words and cycles is not None:
        counted = slept_seconds(words, cycles)
        if counted is not None:
            lengths.append(counted)
    return min(lengths, default=None)


def slept_seconds(words: Sequence[str], cycles: float) -> float | None:
    """Return how long cyclictest's first thread slept, by its cycles and the interval of its command.

    A run in which it was late is longer. None: the interval is no number.
    """
    interval = pasted.option(words, "-i", "--interval") or _INTERVAL_US
    micros = pasted.whole_number(interval)
    return None if micros is None else cycles * micros / 1e6


@dataclasses.dataclass(slots=True)
class Oslat:
    """What oslat's normal output says: a list has a number for each CPU, times are µs.

    :ivar fault: why gaps cannot be counted; empty: they can.
    :ivar usual: the bucket of most passes of the loop; those above it count as gaps.
    """

    cpus: list[int]
    longest: list[float]
    means: list[float]
    seconds: float
    gaps: float
    usual: list[float]
    fault: str
    workload: dict[str, str]


def read_oslat(tool: base.Benchmark, text: str) -> Oslat:
    """Return what oslat's normal output says; OutputError: it is cut off or its columns differ."""
    tool.check_length(text)
    rows: dict[str, str] = {}
    buckets: list[tuple[float, list[float]]] = []
    for line in pasted.lines_of(text):
        found = _ROW.match(_OLD_ROW.sub(lambda row: _OLD_ROWS[row[1]], line))
        if not found:
            continue
        name, values = found[1], pasted.without_remark(found[2])
        if name[0].isdigit():
            late = float(name.partition(" ")[0])
            buckets.append((late, _numbers(tool, values.removesuffix(_OVERFLOWS))))
        elif name in rows and name in ("Core", "Maximum"):
            raise tool.fault("the text has several reports of oslat; keep one")
        else:
            rows[name] = values
    cpus = [int(number) for number in _numbers(tool, _needed(tool, rows, "Core"))]
    columns: dict[str, list[float]] = {}
    for name in ("Minimum", "Average", "Maximum"):
        # The first versions print the longest alone.
        if name == "Maximum" or name in rows or not _OLD_VERSION.search(text):
            columns[name] = _times(tool, _needed(tool, rows, name))
    durations = _times(tool, _needed(tool, rows, "Duration"))
    widths = {len(column) for column in (durations, *columns.values())}
    if widths != {len(cpus)} or not cpus:
        raise tool.fault("the rows 'Core', 'Maximum' and 'Duration' differ in their columns")
    longest = columns["Maximum"]
    if not all(longest) or not all(durations):
        raise tool.fault("a thread has measured nothing")
    fault = _fault_of_buckets(buckets, len(cpus))
    gaps = 0.0
    passes: list[float] = []
    for at in range(len(cpus)):
        counts = {late: column[at] for late, column in buckets if at < len(column)}
        usual = max(counts, key=lambda late: counts[late], default=0.0)  # of the loop itself
        passes.append(usual)
        gaps += sum(count for late, count in counts.items() if late > usual)
    return Oslat(
        cpus,
        longest,
        columns.get("Average", []),
        sum(durations) / 1e6,
        gaps,
        passes,
        fault,
        _oslat_workload(text, rows, min(durations) / 1e6),
    )


def _oslat_workload(text: str, rows: Mapping[str, str], seconds: float) -> dict[str, str]:
    """Return what a run was, by its rows and its command."""
    workload = {"seconds": f"{seconds:g}"}
    for row, name in (
        ("Total runtime", "duration"),
        ("Thread priority", "priority"),
        ("CPU list", "cpus"),
        ("CPU for main thread", "CPU of the main thread"),
        ("Workload", "workload"),
        ("Workload mem", "memory of the workload"),
    ):
        if row in rows:
            workload[name] = one_line(rows[row], 80)
    version = re.search(r"^[ \t]*oslat V ([0-9.]{1,12})", text, re.MULTILINE)
    version = version or _OLD_VERSION.search(text)
    if version:
        workload["version"] = version[1]
    priority = pasted.option(pasted.command(text, "oslat"), "--rtprio", "-f")
    if priority is not None:
        workload.setdefault("priority", one_line(priority, 20))
    return workload


def oslat_runs(tool: base.Benchmark, text: str) -> list[str]:
    """Return the text of each report of oslat: it begins with its version, else with its CPUs."""
    tool.check_length(text)
    parts: list[list[str]] = [[]]
    begun = False
    for line in pasted.lines_of(text):
        if _OSLAT_CPUS.match(line) or _OSLAT_HEAD.match(line):
            if begun:
                parts.append([])
            begun = False
        if _OSLAT_ROW.match(line):
            begun = True
        parts[-1].append(line)
    return ["\n".join([*part, ""]) for part in parts]


def _fault_of_buckets(buckets: Sequence[tuple[float, Sequence[float]]], cpus: int) -> str:
    """Return why the counts of buckets are not all there: wrapped, or not one after the other; empty: they are."""
    if not buckets:
        return "the output has no buckets"
    for late, column in buckets:
        if len(column) != cpus:
            return f"the bucket of {late:g} µs has {len(column)} of {cpus} columns"
    width = min(late for late, _column in buckets)
    for at, (late, _column) in enumerate(buckets, start=1):
        if abs(late - at * width) > 0.01 * width * at:
            return f"lines of buckets are missing before that of {late:g} µs"
    return ""


def _needed(tool: base.Benchmark, rows: dict[str, str], name: str) -> str:
    if name not in rows:
        raise tool.fault(f"the output is cut off or foreign: no row '{name}'{tool.wanted_form()}")
    return rows[name]


def _numbers(tool: base.Benchmark, text: str) -> list[float]:
    words = text.split()
    if any(not re.fullmatch(base.NUMBER, word) for word in words):
        raise tool.fault(f"'{one_line(text, 60)}' is no row of numbers")
    return [float(word) for word in words]


def _times(tool: base.Benchmark, text: str) -> list[float]:
    """Return the times of a row in µs, by the unit at its end."""
    numbers, _, unit = text.strip().rpartition(" ")
    name = unit.strip("()")
    if unit != f"({name})" or name not in pasted.MICROSECONDS:
        raise tool.fault(f"the output is cut off: '{one_line(text, 60)}' has no unit")
    return [number * pasted.MICROSECONDS[name] for number in _numbers(tool, numbers)]
