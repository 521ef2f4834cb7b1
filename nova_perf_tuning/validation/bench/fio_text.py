# SPDX-License-Identifier: Apache-2.0
"""fio's normal output, that of fio 3 and, with its older units, of fio 1 and 2."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted
from nova_perf_tuning.validation.bench.fio_figures import (
    ALL_CLIENTS,
    ASKED_SECONDS,
    CACHED_ENGINES,
    DIRECT_UNKNOWN,
    MIXED,
    OWN,
    JobGroup,
    Times,
    Way,
    tidy_seconds,
)

_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([kKMG]?)"
_AMOUNT: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)[ ]?([KkMGTP]?)(i?)B"
VERSION: Final = re.compile(r"^fio[ -]([0-9]\.[0-9][0-9A-Za-z.+-]{0,30})$")
#: Some of the second prints nothing else in the line between the heads and the start of the jobs.
_VERSION_ALONE: Final = re.compile(
    r"^([12]\.[0-9]{1,3}(?:\.[0-9]{1,3})?(?:-[0-9A-Za-z.-]{1,30})?)$"
)
_HEAD: Final = re.compile(
    r"^(.{0,200}?): \(g=([0-9]{1,5})\): rw=([a-z]{1,20}), bs=(.{1,100}?), ioengine=([\w:/.-]{1,60}),"
    rf" iodepth=([0-9]{{1,9}})(?: \.\.\.)?{pasted.REMARK}$"
)
#: Of --minimal and --output-format=terse.
#: Its second version has no version of fio; the error follows name and group.
_TERSE: Final = re.compile(
    r"^(?:2(?=(?:;[^;]{0,80}){30})|[3-9];fio-[0-9][^;]{0,40});[^;]{0,200};[0-9]{1,5};([0-9]{1,5});"
)
_STARTED: Final = re.compile(r"^Starting (.{1,60}?)$")
_COUNT: Final = re.compile(r"([0-9]{1,5}) (?:process|thread)")
_GROUP: Final = re.compile(
    r"^(.{0,200}?): \(groupid=([0-9]{1,5}), jobs=([0-9]{1,5})\): err=[ ]*(-?[0-9]{1,5})(.*)$"
)
#: A bandwidth; the sum of all clients has no unit, and bits are counted with unit_base=1.
_SPEED: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)[ ]?([KkMGTP]?)(i?)(B/s|bit/s|)"
#: Since fio 3.
_WAY: Final = re.compile(
    rf"^(read|write|trim|mixed)[ ]*: IOPS={_NUMBER}, BW={_SPEED} \({_SPEED}\)"
    rf"\({_AMOUNT}/([0-9]{{1,12}})(msec|sec|usec)\)"
)
#: Before: KB is 1,024 bytes there.
_OLD_WAY: Final = re.compile(
    rf"^(read|write|trim|mixed)[ ]*: io={_AMOUNT}, bw={_AMOUNT}/s, iops={_NUMBER}[ ]*,"
    r" runt=[ ]*([0-9]{1,12})[ ]*(msec|sec|usec)$"
)
_TIMES: Final = re.compile(
    rf"^(clat|lat|slat|sync) \((nsec|usec|msec|sec)\)[ ]*: min=[ ]*{_NUMBER}[ ]*, max=[ ]*{_NUMBER}[ ]*,"
    rf" avg=[ ]*{_NUMBER}[ ]*, stdev=[ ]*[0-9]"
)
_TAILS: Final = re.compile(r"^(.{0,40}?)[ ]*percentiles \((nsec|usec|msec|sec)\)[ ]*:$")
_TAIL_ROW: Final = re.compile(r"^\|?[ ]*[0-9]{1,3}\.[0-9]{1,6}th=\[")
_TAIL: Final = re.compile(rf"([0-9]{{1,3}}\.[0-9]{{1,6}})th=\[[ ]*{_NUMBER}\]")
_ISSUED: Final = re.compile(
    r"^issued[ ]*(?:rwts?|r/w/d|r/w)?[ ]*:[ ]*total=((?:r=)?[0-9]+(?:[,/](?:[wd]=)?[0-9]+)*),?[ ]*short="
)
_STATUS: Final = re.compile(r"^Run status group ([0-9]{1,5}) \(all jobs\):$")
#: Of the summary at the end: since fio 3, and before.
_TOTAL: Final = re.compile(
    rf"^(READ|WRITE|TRIM|MIXED): (?:io={_AMOUNT}, aggrb|bw)={_AMOUNT}/s[ ,(].*"
    r"(?:run=[0-9]{1,12}-([0-9]{1,12})|maxt=([0-9]{1,12}))[ ]?msec$"
)
#: A line of a direction, whether or not its form is known.
_ANY_WAY: Final = re.compile(r"^(read|write|trim|mixed)[ ]*: (?:IOPS=|io=)")
_ANY_TIMES: Final = re.compile(r"^(?:clat|lat|slat|sync) \([^)]{1,8}\)[ ]*: ?min=")
_HEAD_BEGIN: Final = re.compile(r"^.{0,200}?: \(g=[0-9]{1,5}\): rw=")
#: The line that fio rewrites while it runs: rates that are set, and what each job does.
_RUNNING: Final = re.compile(r"^Jobs: [0-9]{1,6} \(f=[0-9]{1,6}\)(.{0,60}?): \[([^\]]{1,300})\]")
#: What a job does there -> its pattern (fio's eta.c); other letters are phases of any job.
_LETTERS: Final[Mapping[str, str]] = {
    "R": "read",
    "r": "randread",
    "W": "write",
    "w": "randwrite",
    "M": "rw",
    "m": "randrw",
    "D": "trim",
    "d": "randtrim",
}
#: Of a job file: a section, and whether its jobs go round the page cache.
_SECTION: Final = re.compile(r"^\[([A-Za-z][\w .+-]{0,60})\]$")
_DIRECT: Final = re.compile(
    r"^(direct|buffered)[ ]{0,4}=[ ]{0,4}([01])(?:[ ]{0,9}(?:[;#]|//).{0,200})?$"
)
_GLOBAL: Final = "global"
_DEPTH: Final = re.compile(r"^latency[ ]*: target=0,.{1,60}, depth=([0-9]{1,9})$")
#: Options of the command line -> their names in the workload.
_CHOSEN: Final[Mapping[str, str]] = {
    "runtime": ASKED_SECONDS,
    "direct": "direct",
    "rwmixread": "reads in per cent",
    "rwmixwrite": "writes in per cent",
    "fsync": "fsync after",
    "fdatasync": "fdatasync after",
    "sync": "sync",
    "rate_iops": "rate in IOPS",
    "rate": "rate",
    "size": "size",
}
#: How far a bandwidth without a unit may be from the bytes by the time.
_AGREES: Final = 0.05
#: One of them is in each line that shows fio's output: quick to look for in long texts.
_TRACES: Final = ("): rw=", "(groupid=", "IOPS=", "fio", "Run status group", "%=", "th=[")


def printed(text: str) -> bool:
    """Return whether a text has a head, a group's line or percentiles of fio's normal output."""
    if not any(trace in text for trace in _TRACES):
        return False
    for line in pasted.lines_of(text):
        for mark in (_HEAD, _GROUP, _WAY, VERSION, _TERSE, _STATUS, _TAILS):
            if mark.match(line):
                return True
    return False


def read(tool: base.Benchmark, text: str) -> list[JobGroup]:
    """Return the groups of fio's normal output.

    :raises base.BenchmarkOutputError: a job failed, a group is cut off, or jobs are missing.
    """
    tool.check_length(text)
    lines = _unwrapped(pasted.lines_of(text))
    groups = []
    runs = _runs(lines)
    for number, run in enumerate(runs, start=1):
        heads = _heads(run)
        if len(runs) > 1 and heads and not any(_GROUP.match(line) for line in run):
            raise tool.fault(
                f"the output is cut off: '{one_line(heads[0][1], 40)}', run {number} of {len(runs)},"
                " has its head alone and no result; keep the runs that have ended"
            )
        found = _read_run(tool, run)
        for group in found:
            if len(runs) > 1:
                group.run = number
        groups += found
    return groups


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Return lines with the head of a job in one, where a mail has wrapped it."""
    whole: list[str] = []
    for line in lines:
        begun = bool(whole) and _HEAD_BEGIN.match(whole[-1]) is not None
        if begun and line and not _HEAD.match(whole[-1]) and len(whole[-1]) < 400:
            whole[-1] += f" {line}"
        else:
            whole.append(line)
    return whole


def _runs(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each run of fio: a run has its heads before its groups."""
    runs: list[list[str]] = [[]]
    ended = False
    for line in lines:
        if ended and (_HEAD.match(line) or VERSION.match(line)):
            runs.append(_command_of_next(runs[-1]))
            ended = False
        elif _GROUP.match(line):
            ended = True
        runs[-1].append(line)
    return runs


def _command_of_next(run: list[str]) -> list[str]:
    """Take the lines from the last command of fio on out of a run: it is that of the next run."""
    for at in range(len(run) - 1, -1, -1):
        if _GROUP.match(run[at]):
            break
        if "fio" in run[at] and pasted.command(run[at], "fio"):
            taken = run[at:]
            del run[at:]
            return taken
    return []


def _read_run(tool: base.Benchmark, lines: Sequence[str]) -> list[JobGroup]:
    starts = [at for at, line in enumerate(lines) if _GROUP.match(line)]
    for line in lines:
        terse = _TERSE.match(line)
        if terse and not starts:
            raise _of_terse(tool, int(terse[1]))
    if not starts:
        raise tool.fault(
            "the output has no line of a finished job ('NAME: (groupid=0, jobs=1): err= 0'), it is"
            f" a part of a report{tool.wanted_form()}"
        )
    heads = _heads(lines)
    groups = []
    jobs = 0
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        section = lines[begin:end]
        groups.append(_Section(tool, section).read())
        found = _GROUP.match(section[0])
        assert found is not None
        groups[-1].jobs = int(found[3])
        if found[1] == ALL_CLIENTS and len(starts) == 1:
            groups[-1].missing.append("the reports of single clients: there is their sum alone")
        if found[1] != ALL_CLIENTS or len(starts) == 1:
            jobs += groups[-1].jobs
        _add_workload(heads, found, groups[-1], lines, section)
    _check_whole(tool, lines, jobs)
    return groups


def _of_terse(tool: base.Benchmark, code: int) -> base.BenchmarkOutputError:
    """Return why a line of the terse form is not read: its job failed, or its form."""
    if code:
        return tool.failed(
            f"the job ended with error {code}, '{os.strerror(code)}'; a run without an error is"
            f" read, and not in the terse form{tool.wanted_form()}"
        )
    return tool.fault(f"the terse form of fio is not read{tool.wanted_form()}")


def has_summary_alone(text: str) -> bool:
    """Return whether a text has the end of fio's output, and no job's own lines."""
    lines = pasted.lines_of(text)
    summed = any(_STATUS.match(line) for line in lines)
    return summed and not any(_GROUP.match(line) for line in lines)


def summary(tool: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return the bandwidths of the summary, which has no IOPS and no latencies.

    :raises base.BenchmarkOutputError: a group has two, or none.
    """
    shown = base.BenchmarkReport()
    number = "0"
    lines = pasted.lines_of(text)
    numbers = [found[1] for found in map(_STATUS.match, lines) if found is not None]
    if len(set(numbers)) < len(numbers):
        raise tool.fault(f"the text has summaries of {len(numbers)} runs of fio; keep one")
    for line in lines:
        status, total = _STATUS.match(line), _TOTAL.match(line)
        if status:
            number = status[1]
        if not total:
            continue
        prefix = total[1].lower()
        if len(numbers) > 1:
            prefix = f"group{number}_{prefix}"
        # fio before 3 prints KB for 1,024 bytes.
        binary = total[2] is not None or total[7] == "i"
        bandwidth = _bytes(total[5], total[6], binary) / 1e6
        shown.readings.append(base.Reading(f"{prefix}_bandwidth", "MB/s", "higher", bandwidth))
        milliseconds = total[8] or total[9]
        shown.workload[f"{prefix} seconds"] = f"{float(milliseconds) / 1e3:g}"
    if not shown.readings:
        raise tool.fault("the output is cut off: its summary has no bandwidth")
    shown.left_out.append("IOPS and latencies: the output has the summary alone")
    return shown


def _check_whole(tool: base.Benchmark, lines: Sequence[str], jobs: int) -> None:
    """Refuse a report in which not every job that was started has its part."""
    for line in lines:
        started = _STARTED.match(line)
        if not started:
            continue
        wanted = sum(int(count) for count in _COUNT.findall(started[1]))
        if wanted and jobs < wanted:
            raise tool.fault(f"the output is cut off: {jobs} of {wanted} jobs are reported")
        if wanted and jobs > wanted:
            raise tool.fault(
                f"the output has several reports of its {wanted} jobs (--status-interval);"
                " keep the last"
            )


def _heads(lines: Sequence[str]) -> list[re.Match[str]]:
    found = [_HEAD.match(line) for line in lines]
    return [head for head in found if head is not None]


def _add_workload(
    heads: Sequence[re.Match[str]],
    of: re.Match[str],
    group: JobGroup,
    lines: Sequence[str],
    section: Sequence[str],
) -> None:
    """Add what the jobs of a group did, and what the text does not say of it.

    :param of: the group's line; :param lines: of the whole run; :param section: of the group.
    """
    own = [head for head in heads if head[2] == of[2] and head[1] == of[1]]
    if int(of[3]) > 1 or not own:
        own = [head for head in heads if head[2] == of[2]]
    workload = group.workload
    for name, at in (("pattern", 3), ("block size", 4), ("engine", 5), ("depth", 6)):
        values = list(dict.fromkeys(_tidy(head[at]) for head in own))
        if values:
            workload[name] = " and ".join(values[:4])
    if not own:
        _add_without_head(group, lines, section)
    workload["jobs"] = of[3]
    ended = [at for at, line in enumerate(lines) if _GROUP.match(line)]
    before = lines[: ended[0]]
    words = pasted.command(_continued(before), "fio")
    for option, name in _CHOSEN.items():
        value = pasted.option(words, f"--{option}", f"-{option}")
        if value is not None:
            workload[name] = one_line(value, 40)
    tidy_seconds(workload)
    _add_direct(group, words, before)
    seconds = max((way.seconds for way in group.ways), default=0.0)
    workload["seconds"] = f"{seconds:g}"
    version = _version(lines)
    if version:
        workload["version"] = version
    else:
        group.missing.append("version: the line 'fio-…' is missing")


def _version(lines: Sequence[str]) -> str:
    """Return the version that the lines of a run name; empty: none."""
    found = [version[1] for version in map(VERSION.match, lines) if version is not None]
    if found:
        return str(found[-1])
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        alone = _VERSION_ALONE.match(line)
        if alone and (_HEAD.match(before) or _STARTED.match(after)):
            return alone[1]
    return ""


def _continued(lines: Sequence[str]) -> str:
    """Return lines with a command in one that has a backslash at the end of each of its lines."""
    return re.sub(r"\\\n[ ]*", " ", "\n".join(lines))


def _add_direct(group: JobGroup, words: Sequence[str], before: Sequence[str]) -> None:
    """Add whether a job went round the page cache, by its command or its job file, or that neither says it.

    :param before: the lines above the results.
    """
    workload = group.workload
    value = workload.get("direct", "")
    if not value:
        value = _opposite(pasted.option(words, "--buffered", "-buffered") or "")
    if value.startswith("-") or not value and {"--direct", "-direct"} & set(words):
        # An option without a value is set.
        value = "1"
    value = value or _of_job_file(before)
    engine = workload.get("engine", "")
    if value not in ("0", "1"):
        workload.pop("direct", None)
        if not engine or engine in CACHED_ENGINES:
            group.missing.append(DIRECT_UNKNOWN)
        return
    workload["direct"] = value
    safe = {"fsync after", "fdatasync after", "sync"} & set(workload)
    group.cached = value == "0" and engine in CACHED_ENGINES and not safe


def _opposite(value: str) -> str:
    """Return what ``direct`` is where ``buffered`` has a value; empty: it has none."""
    return {"0": "1", "1": "0"}.get(value, "")


def _of_job_file(lines: Sequence[str]) -> str:
    """Return the value of ``direct`` that all jobs of a job file have; empty: it is not known."""
    section = ""
    sections: set[str] = set()
    values: dict[str, str] = {}
    for line in lines:
        header, option = _SECTION.match(line), _DIRECT.match(line)
        if header:
            section = header[1]
            sections.add(section)
        elif option and option[1] == "direct":
            values[section] = option[2]
        elif option:
            values[section] = _opposite(option[2])
    jobs = sections - {_GLOBAL}
    common = values.get(_GLOBAL, values.get("", ""))
    found = {values.get(job, common) for job in jobs} or {common}
    if len(found) > 1:
        return ""
    return found.pop()


def _add_without_head(group: JobGroup, lines: Sequence[str], section: Sequence[str]) -> None:
    """Add what other lines say of jobs whose line with rw= and bs= is missing."""
    group.workload["direction"] = " and ".join(way.name for way in group.ways)
    pattern = _pattern_while_running(lines)
    if {way.name for way in group.ways} <= set(OWN.get(pattern, ())):
        group.workload["pattern"] = pattern
    for line in section:
        depth = _DEPTH.match(line)
        if depth:
            group.workload["depth"] = depth[1]
    absent = [
        name for name in ("pattern", "block size", "engine", "depth") if name not in group.workload
    ]
    group.missing.append(
        f"{', '.join(absent)}: the line with rw=, bs= and iodepth= is missing or cut off"
    )


def _pattern_while_running(lines: Sequence[str]) -> str:
    """Return the pattern that all jobs had by the lines ``Jobs: …``; empty: not known."""
    letters: set[str] = set()
    for line in lines:
        running = _RUNNING.match(line)
        if running:
            letters |= set(re.sub(r"\([0-9]{1,6}\)", "", running[2])) & set(_LETTERS)
    if len(letters) != 1:
        return ""
    return _LETTERS[letters.pop()]


def _tidy(text: str) -> str:
    """Return a block size once where all directions have the same."""
    sizes = re.findall(r"([0-9.]{1,12}[KkMG]?i?B?)-([0-9.]{1,12}[KkMG]?i?B?)", text)
    ends = {size for pair in sizes for size in pair}
    if len(ends) == 1:
        return str(ends.pop())
    return one_line(text, 60)


class _Section:
    """The lines of one group."""

    def __init__(self, tool: base.Benchmark, lines: Sequence[str]) -> None:
        self._tool, self._lines = tool, lines
        found = _GROUP.match(lines[0])
        assert found is not None
        self._found = found
        self._group = JobGroup(found[1])
        #: Where percentiles belong that follow.
        self._tails: dict[float, float] | None = None
        self._tail_unit = 1.0

    def read(self) -> JobGroup:
        code = int(self._found[4])
        if code:
            said = re.search(r"error=([^)]{1,200})", self._found[5])
            reason = "no reason given"
            if said:
                reason = one_line(said[1], 160)
            raise self._tool.failed(
                f"fio ended with error {code}, '{reason}';"
                " a report of a run with err= 0 or its JSON is read"
            )
        counts: list[float] | None = None
        for line in self._lines[1:]:
            if _STATUS.match(line):
                break
            issued = _ISSUED.match(line)
            if issued:
                counts = [float(count) for count in re.findall("[0-9]+", issued[1])]
            else:
                self._read_line(line)
        if counts is None:
            raise self._tool.fault(
                f"the output is cut off: '{one_line(self._group.name, 40)}' has no line 'issued'"
            )
        self._count(counts)
        return self._group

    def _read_line(self, line: str) -> None:
        for pattern, old in ((_WAY, False), (_OLD_WAY, True)):
            found = pattern.match(line)
            if found:
                if any(way.name == found[1] for way in self._group.ways):
                    raise self._tool.fault(
                        f"'{one_line(self._group.name, 40)}' has two lines '{found[1]}'; keep one"
                    )
                if old:
                    self._group.old_units = True
                    self._group.ways.append(_old_way(found))
                else:
                    self._group.ways.append(_way(self._tool, found))
                self._tails = None
                return
        found = _TIMES.match(line)
        if found:
            self._add_times(found)
            return
        if _ANY_WAY.match(line) or _ANY_TIMES.match(line):
            raise self._tool.fault(
                f"the line '{one_line(line, 60)}' is cut off or wrapped, or its form is not read"
                f"{self._tool.wanted_form()}"
            )
        found = _TAILS.match(line)
        if found:
            self._begin_tails(found)
            return
        if _TAIL_ROW.match(line):
            if self._tails is not None:
                tails = _TAIL.findall(line)
                if len(tails) < line.count("th=["):
                    self._group.missing.append(
                        f"percentiles of the line '{one_line(line, 60)}', which is cut off or wrapped"
                    )
                for share, value, prefix in tails:
                    latency = float(value) * pasted.DECIMAL[prefix] * self._tail_unit
                    self._tails[float(share)] = latency

    def _add_times(self, found: re.Match[str]) -> None:
        unit = pasted.MICROSECONDS[found[2]]
        values = []
        for value, prefix in ((found[3], found[4]), (found[5], found[6]), (found[7], found[8])):
            values.append(float(value) * pasted.DECIMAL[prefix] * unit)
        least, most, mean = values
        times = Times(mean, least, most)
        kind = found[1]
        if kind == "sync":
            self._group.sync = times
        elif self._group.ways and kind == "clat":
            self._group.ways[-1].clat = times
        elif self._group.ways and kind == "lat":
            self._group.ways[-1].lat = times

    def _begin_tails(self, found: re.Match[str]) -> None:
        self._tail_unit = pasted.MICROSECONDS[found[2]]
        times: Times | None = None
        kind = found[1]
        if kind == "sync":
            times = self._group.sync
        elif self._group.ways and kind == "clat":
            times = self._group.ways[-1].clat
        elif self._group.ways and kind == "lat":
            times = self._group.ways[-1].lat
        self._tails = None
        if times is not None:
            self._tails = times.tails

    def _count(self, counts: Sequence[float]) -> None:
        """Give each direction the number of its requests."""
        order = ("read", "write", "trim")
        by_name = dict(zip(order, counts, strict=False))
        if len(counts) > len(order):
            self._group.syncs = counts[len(order)]
        shown = {way.name for way in self._group.ways}
        for name, count in by_name.items():
            if count and MIXED not in shown and name not in shown:
                raise self._tool.fault(
                    f"the output is cut off: '{one_line(self._group.name, 40)}' has issued"
                    f" requests of '{name}', and has no line of it"
                )
        for way in self._group.ways:
            if way.name == MIXED:
                way.requests = sum(by_name.values())
            else:
                way.requests = by_name.get(way.name)


def _seconds(value: str, unit: str) -> float:
    return float(value) * pasted.MICROSECONDS[unit] / 1e6


def _bytes(value: str, prefix: str, binary: bool) -> float:
    if binary:
        return float(value) * pasted.BINARY[prefix]
    return float(value) * pasted.DECIMAL[prefix]


def _way(tool: base.Benchmark, found: re.Match[str]) -> Way:
    """Return a direction of fio 3, which prints the bandwidth in both systems.

    :raises base.BenchmarkOutputError: it has no unit, and is not what the bytes by the time are.
    """
    iops = float(found[2]) * pasted.DECIMAL[found[3]]
    bandwidth = _bytes(found[4], found[5], found[6] == "i")
    unit = found[7]
    if unit == "bit/s":
        bandwidth /= 8
    seconds = _seconds(found[15], found[16])
    if not unit:
        moved = _bytes(found[12], found[13], found[14] == "i")
        if not seconds or abs(moved / seconds - bandwidth) > _AGREES * bandwidth:
            raise tool.fault(f"the bandwidth of '{found[1]}' has no unit, and its bytes another")
    return Way(found[1], iops, bandwidth, seconds)


def _old_way(found: re.Match[str]) -> Way:
    """Return a direction of fio 1 and 2."""
    bandwidth = _bytes(found[5], found[6], True)
    iops = float(found[8]) * pasted.DECIMAL[found[9]]
    return Way(found[1], iops, bandwidth, _seconds(found[10], found[11]))
