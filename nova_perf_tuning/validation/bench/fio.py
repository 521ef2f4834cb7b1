# SPDX-License-Identifier: Apache-2.0
"""Disk I/O with fio."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, fio_figures, fio_json, fio_text, pasted

#: Keys of its JSON, also where somebody has cut a part out of it.
_KEYS: Final = re.compile(r'"(?:fio version|jobname|job options|bw_bytes|clat_ns)"[ ]?:')
#: A job's line of fio's normal output.
_REPORT: Final = re.compile(r": \(groupid=[0-9]{1,9}, jobs=[0-9]")
#: A rate as fio's options have it, of all directions alike; suffixes are powers of 1024.
_RATE = re.compile("([0-9]{1,12})([kKmMgG]?)(?:i?[bB])?")
#: A run that comes so near to a rate was held back by it.
_REACHED = 0.95
#: Reads and writes at random places, and writes that are safe one by one.
_MIXED: Final = "randrw"
_SYNCED: Final = "fdatasync"
_PATTERNS: Final = ("randwrite", "randread", "write", "read", _MIXED, _SYNCED)
_ENGINES: Final = ("psync", "libaio", "io_uring", "sync")
#: Engines that wait for each request.
_WAITING: Final = ("psync", "sync")
#: What etcd's documentation measures disks by: https://etcd.io/docs/v3.5/faq/
_ETCD: Final = {"seconds": "0", "block_size": "2300", "size": "22m", "engine": "sync"}
_READS: Final = "70"
#: Writes a second that slow disks make safe at least.
_SYNCS: Final = 20


class Fio(base.ReportBenchmark):
    """One fio job on files in a directory of the machine's scratch disk.

    The default is the job that is published for virtual disks, but for a fixed time and on a
    smaller file. The published one itself is ``size=512M,seconds=0`` with jobs 1 to 16: it ends
    when every job has written its file once.

    ``pattern=randrw`` mixes reads and writes, by default 70 to 30, as disks of clouds are compared.
    ``pattern=fdatasync`` is the check of etcd: 22 MiB in writes of 2300 bytes through the page
    cache, each made safe before the next. It ends with the file, or after ``seconds``; every run
    writes a new file.

    Latencies are completion latencies (``clat``) of the whole group; ``total_latency`` counts from
    submission, ``sync_latency`` is that of fsync or fdatasync. A job of several directions has
    figures for each of them. fio's JSON and its normal output are read.
    """

    kind = "fio"
    summary = "disk I/O per second, by default of random writes of 16 KiB, direct, one at a time"
    packages = ("fio",)
    programs = ("fio",)
    primary = ("iops", "IO/s", "higher")
    parameters = (
        base.Integer(
            "seconds",
            "10",
            "length of the run; 0: until every job has done its file once",
            0,
            3600,
        ),
        base.Choice("pattern", "randwrite", ", ".join(_PATTERNS), _PATTERNS),
        base.Size("block_size", "16k", "bytes per request", 512, "4m"),
        base.Size("size", "64M", "size of each job's file", "1m", "1024g"),
        base.Integer("jobs", "1", "processes, each with a file of its own", 1, 64),
        base.Choice("engine", "psync", ", ".join(_ENGINES), _ENGINES),
        base.Integer("reads", _READS, f"reads of {_MIXED} in per cent", 1, 99),
        base.Integer("depth", "1", "requests in flight per job (libaio and io_uring)", 1, 1024),
        # fio splits directories at ':'.
        base.Parameter(
            "directory",
            ".",
            "where files lie; .: the scratch disk",
            "[^:\0]+",
            "a path without ':'",
        ),
    )
    marked = True
    form = "fio --group_reporting --output-format=json"
    json_keys = frozenset(("fio version", "jobs", "client_stats"))
    work_metric = "requests"
    work_unit = "1,000 IO"

    def merged(self, given: Mapping[str, str]) -> dict[str, str]:
        if given.get("pattern") == _SYNCED:
            return super().merged({**_ETCD, **given})
        return super().merged(given)

    def scratch_mib(self, given: Mapping[str, str]) -> int:
        values = self.values(given)
        size, jobs = values.numbers("size", "jobs")
        if values["directory"] != ".":
            return 0
        return jobs * size // (1 << 20) + 16

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, jobs, depth, block, size = values.numbers(
            "seconds", "jobs", "depth", "block_size", "size"
        )
        pattern, engine = values.text("pattern"), values.text("engine")
        if engine in _WAITING and depth > 1:
            raise self.refusal(
                f"depth={depth} needs engine=libaio or io_uring: {engine} waits for each"
            )
        if pattern == _SYNCED and engine not in _WAITING:
            raise self.refusal(f"pattern={_SYNCED} needs engine=sync or psync")
        if pattern != _MIXED and values.text("reads") != _READS:
            raise self.refusal(f"reads={values['reads']} needs pattern={_MIXED}")
        argv = ["fio", "--name=nova-perf", "--group_reporting"]
        if pattern == _SYNCED:
            # What is overwritten has its place on the disk already, and is safe sooner.
            argv += ["--rw=write", "--fdatasync=1", "--unlink=1"]
        else:
            argv += ["--direct=1", f"--rw={pattern}"]
        if pattern == _MIXED:
            argv.append(f"--rwmixread={values['reads']}")
        argv += [f"--bs={block}", f"--size={size}", f"--numjobs={jobs}"]
        argv += [f"--ioengine={values['engine']}", f"--iodepth={depth}"]
        if seconds and pattern != _SYNCED:
            argv.append("--time_based")
        if seconds:
            argv.append(f"--runtime={seconds}")
        argv += [f"--directory={values['directory']}", "--output-format=json"]
        # The first run lays the files out, at 10 MB/s on slow disks; one without a time writes
        # them once more, an emulated guest 200 blocks a second.
        timeout_s = seconds + base.MARGIN_S + jobs * size / 10e6
        if not seconds:
            rate = 200
            if pattern == _SYNCED:
                rate = _SYNCS
            timeout_s += jobs * size / min(10e6, block * rate)
        return (base.Step(tuple(argv), "client", timeout_s),)

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        values = self.values(given)
        names = ("pattern", "block_size", "size", "jobs", "engine", "depth")
        work = {name.replace("_", " "): values.text(name) for name in names}
        if work["pattern"] == _MIXED:
            work["reads in per cent"] = values.text("reads")
        if work["pattern"] == _SYNCED:
            work["pattern"] = "write"
            work["fdatasync after"] = "1"
        return work

    def report(self, text: str) -> base.BenchmarkReport:
        if not self.has_json(text) and fio_text.has_summary_alone(text):
            return fio_text.summary(self, text)
        groups = self._groups(text)
        found = fio_figures.report(self, groups)
        if self.has_json(text) and _REPORT.search(text):
            found.left_out.append("fio's normal output beside the JSON")
        if any(group.old_units for group in groups):
            found.remarks["old_units"] = "fio before version 3 prints KB for 1024 bytes"
        said = fio_figures.stopped(text, found.workload)
        if said:
            found.remarks["stopped"] = said
        for group in groups:
            found.remarks.update(_of_rates(group))
        return found

    def span(self, text: str) -> base.Span:
        ways = [way for group in self._groups(text) for way in group.ways]
        # Of the longest job; job_runtime is the sum of all.
        seconds = max(way.seconds for way in ways)
        # It stamps its output when the last job has ended, and clears up after that.
        return base.Span(seconds, self.number(self.load_json(text), "timestamp_ms") / 1e3)

    def printed(self, output: str) -> bool:
        return _KEYS.search(output) is not None or fio_text.printed(output)

    def _groups(self, text: str) -> list[fio_figures.JobGroup]:
        if not self.has_json(text) and fio_text.printed(text):
            return fio_text.read(self, text)
        return fio_json.read(self, text)


def _of_rates(group: fio_figures.JobGroup) -> dict[str, str]:
    """Return what to say of the rates that a job's options set: code -> text for a person."""
    remarks = {}
    iops = [way.iops for way in group.ways]
    bandwidths = [way.bandwidth for way in group.ways]
    for name, unit, rates in (("rate in IOPS", "IO/s", iops), ("rate", "bytes/s", bandwidths)):
        if name not in group.workload:
            continue
        text = one_line(group.workload[name], 40)
        said = f"a rate of {text} {unit} a job was set"
        found = _RATE.fullmatch(text)
        if found is None:
            remarks["rate_set"] = f"{said}; whether it held the job back is not known"
            continue
        asked = float(found[1]) * pasted.BINARY[found[2].upper().replace("K", "k")] * group.jobs
        if max(rates) >= _REACHED * asked:
            remarks["held_to_a_rate"] = f"{said} and reached: the figures are no speed of the disk"
        else:
            remarks["rate_not_reached"] = f"{said}, and the job stayed below it"
    return remarks
