# SPDX-License-Identifier: Apache-2.0
"""fio's normal output, that of fio 3 and, with its older units, of fio 1 and 2."""

import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted
from nova_perf_tuning.validation.bench.fio_figures import MIXED, JobGroup, Times, Way

_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([kKMG]?)"
_AMOUNT: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)[ ]?([KkMGTP]?)(i?)B"
VERSION: Final = re.compile(r"^fio[ -]([0-9]\.[0-9][0-9A-Za-z.+-]{0,30})$")
_HEAD: Final = re.compile(
    r"^(.{0,200}?): \(g=([0-9]{1,5})\): rw=([a-z]{1,20}), bs=(.{1,100}?), ioengine=([\w:/.-]{1,60}),"
    r" iodepth=([0-9]{1,9})$"
)
#: Of --minimal and --output-format=terse.
_TERSE: Final = re.compile(r"^[0-9];fio-[0-9]\.[0-9]{1,3}[^;]{0,30};")
_STARTED: Final = re.compile(r"^Starting (.{1,60}?)$")
_COUNT: Final = re.compile(r"([0-9]{1,5}) (?:process|thread)")
_GROUP: Final = re.compile(
    r"^(.{0,200}?): \(groupid=([0-9]{1,5}), jobs=([0-9]{1,5})\): err=[ ]*(-?[0-9]{1,5})(.*)$"
)
#: Since fio 3.
_WAY: Final = re.compile(
    rf"^(read|write|trim|mixed)[ ]*: IOPS={_NUMBER}, BW={_AMOUNT}/s \({_AMOUNT}/s\)"
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
_CHOSEN: Final = (
    "direct",
    "rwmixread",
    "rwmixwrite",
    "fsync",
    "fdatasync",
    "sync",
    "rate_iops",
    "rate",
)


def printed(text: str) -> bool:
    """Return whether a text has a head or a group's line of fio's normal output."""
    for line in pasted.lines_of(text):
        for mark in (_HEAD, _GROUP, _WAY, VERSION, _TERSE, _STATUS):
            if mark.match(line):
                return True
    return False


def read(tool: base.Benchmark, text: str) -> list[JobGroup]:
    """Return the groups of fio's normal output.

    :raises base.BenchmarkOutputError: a job failed, a group is cut off, or jobs are missing.
    """
    tool.check_length(text)
    lines = pasted.lines_of(text)
    groups = []
    for run in _runs(lines):
        groups += _read_run(tool, run)
    return groups


def _runs(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each run of fio: a run has its heads before its groups."""
    runs: list[list[str]] = [[]]
    ended = False
    for line in lines:
        if ended and (_HEAD.match(line) or VERSION.match(line)):
            runs.append([])
            ended = False
        elif _GROUP.match(line):
            ended = True
        runs[-1].append(line)
    return runs


def _read_run(tool: base.Benchmark, lines: Sequence[str]) -> list[JobGroup]:
    starts = [at for at, line in enumerate(lines) if _GROUP.match(line)]
    if not starts and any(_TERSE.match(line) for line in lines):
        raise tool.fault(f"the terse form of fio is not read{tool.wanted_form()}")
    if not starts:
        raise tool.fault(f"the output has no line of a finished job{tool.wanted_form()}")
    heads = _heads(lines)
    groups = []
    jobs = 0
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        section = lines[begin:end]
        groups.append(_Section(tool, section).read())
        found = _GROUP.match(section[0])
        assert found is not None
        jobs += int(found[3])
        groups[-1].workload = _workload(heads, found, groups[-1], lines)
    _check_whole(tool, lines, jobs)
    return groups


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


def _workload(
    heads: Sequence[re.Match[str]], of: re.Match[str], group: JobGroup, lines: Sequence[str]
) -> dict[str, str]:
    """Return what the jobs of a group did; ``of`` is the group's line."""
    own = [head for head in heads if head[2] == of[2] and head[1] == of[1]]
    if int(of[3]) > 1 or not own:
        own = [head for head in heads if head[2] == of[2]]
    workload: dict[str, str] = {}
    for name, at in (("pattern", 3), ("block size", 4), ("engine", 5), ("depth", 6)):
        values = list(dict.fromkeys(_tidy(head[at]) for head in own))
        if values:
            workload[name] = " and ".join(values[:4])
    if not own:
        workload["pattern"] = " and ".join(way.name for way in group.ways)
    workload["jobs"] = of[3]
    words = pasted.command("\n".join(lines), "fio")
    for option in _CHOSEN:
        value = pasted.option(words, f"--{option}")
        if value is not None:
            workload[option] = one_line(value, 40)
    seconds = max((way.seconds for way in group.ways), default=0.0)
    workload["seconds"] = f"{seconds:g}"
    for line in lines:
        version = VERSION.match(line)
        if version:
            workload["version"] = version[1]
    return workload


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
            raise self._tool.fault(
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
                    self._group.ways.append(_old_way(found))
                else:
                    self._group.ways.append(_way(found))
                self._tails = None
                return
        found = _TIMES.match(line)
        if found:
            self._add_times(found)
            return
        found = _TAILS.match(line)
        if found:
            self._begin_tails(found)
            return
        if _TAIL_ROW.match(line):
            if self._tails is not None:
                for share, value, prefix in _TAIL.findall(line):
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


def _way(found: re.Match[str]) -> Way:
    """Return a direction of fio 3, which prints the bandwidth in both systems."""
    iops = float(found[2]) * pasted.DECIMAL[found[3]]
    bandwidth = _bytes(found[4], found[5], found[6] == "i")
    return Way(found[1], iops, bandwidth, _seconds(found[13], found[14]))


def _old_way(found: re.Match[str]) -> Way:
    """Return a direction of fio 1 and 2."""
    bandwidth = _bytes(found[5], found[6], True)
    iops = float(found[8]) * pasted.DECIMAL[found[9]]
    return Way(found[1], iops, bandwidth, _seconds(found[10], found[11]))
