# SPDX-License-Identifier: Apache-2.0
"""Disk I/O with fio."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base

_PATTERNS = ("randwrite", "randread", "write", "read")
_PERCENTILES = (50.0, 95.0, 99.0, 99.9)
#: fio prints so many percentiles where the job does not choose any.
_DEFAULT_COUNT: Final = 17
_SHARE: Final = re.compile(r"[0-9]{1,3}\.[0-9]{1,6}")
_DIRECTIONS: Final = ("read", "write", "trim")
#: All directions added up (unified_rw_reporting).
_MIXED: Final = "mixed"
_ENGINES = ("psync", "libaio", "io_uring")


class Fio(base.Benchmark):
    """One fio job on files in a directory of the machine's scratch disk.

    The default is the job that is published for virtual disks, but for a fixed time and on a
    smaller file. The published one itself is ``size=512M,seconds=0`` with jobs 1 to 16: it ends
    when every job has written its file once.

    Latencies are completion latencies (``clat``) of the whole group; ``total_latency`` counts from
    submission, ``sync_latency`` is that of fsync or fdatasync. A job of several directions has
    figures for each of them.
    """

    kind = "fio"
    summary = "disk I/O per second: random writes of 16 KiB, direct, one at a time"
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
    form = "fio --group_reporting --output-format=json"
    work_metric = "requests"
    work_unit = "1,000 IO"

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
        if values["engine"] == "psync" and depth > 1:
            raise self.refusal(
                f"depth={depth} needs engine=libaio or io_uring: psync waits for each"
            )
        argv = ["fio", "--name=nova-perf", "--group_reporting", "--direct=1"]
        argv += [
            f"--rw={values['pattern']}",
            f"--bs={block}",
            f"--size={size}",
            f"--numjobs={jobs}",
        ]
        argv += [f"--ioengine={values['engine']}", f"--iodepth={depth}"]
        if seconds:
            argv += ["--time_based", f"--runtime={seconds}"]
        argv += [f"--directory={values['directory']}", "--output-format=json"]
        # The first run lays the files out, at 10 MB/s on slow disks; one without a time writes
        # them once more, an emulated guest 200 blocks a second.
        timeout_s = seconds + base.MARGIN_S + jobs * size / 10e6
        if not seconds:
            timeout_s += jobs * size / min(10e6, block * 200)
        return (base.Step(tuple(argv), "client", timeout_s),)

    def parse(self, text: str) -> list[base.Reading]:
        job = self._job(text)
        ways = self._ways(job)
        requests = sum(self.number(job, way, "total_ios") for way in ways)
        readings = [
            base.Reading(
                *self.primary, sum(self.number(job, way, "iops") for way in ways), primary=True
            ),
            base.Reading("bandwidth", "MB/s", "higher", self._bandwidth(job, ways)),
        ]
        for way in ways:
            prefix = f"{way}_"
            if ways == [way] and way != _MIXED:
                prefix = ""
            if prefix:
                readings.append(
                    base.Reading(f"{prefix}iops", "IO/s", "higher", self.number(job, way, "iops"))
                )
                readings.append(
                    base.Reading(
                        f"{prefix}bandwidth", "MB/s", "higher", self._bandwidth(job, [way])
                    )
                )
            readings += self._latencies(job, way, prefix)
        readings += self._sync_latencies(job)
        readings.append(base.Reading("requests", self.work_unit, "higher", requests / 1e3))
        return readings

    def remarks(self, text: str) -> Mapping[str, str]:
        job = self._job(text)
        ways = self._ways(job)
        remarks = {}
        if len(ways) > 1:
            remarks["several_directions"] = (
                f"'iops' and 'bandwidth' are of {' and '.join(ways)} together"
            )
        elif ways == [_MIXED]:
            remarks["mixed_directions"] = (
                "fio has added up reads and writes (unified_rw_reporting)"
            )
        if self._sync_latencies(job):
            remarks["synchronised"] = (
                "a write is safe after its sync: 'sync_latency' is what an application waits for"
            )
        return remarks

    def span(self, text: str) -> base.Span:
        job = self._job(text)
        # Of the longest job; job_runtime is the sum of all.
        runtime_ms = max(self.number(job, way, "runtime") for way in self._ways(job))
        # It stamps its output when the last job has ended, and clears up after that.
        return base.Span(runtime_ms / 1e3, self.number(self.load_json(text), "timestamp_ms") / 1e3)

    def _job(self, text: str) -> dict[str, object]:
        """Return the one group of jobs."""
        jobs = self.find(self.load_json(text), "jobs")
        if not isinstance(jobs, list) or len(jobs) != 1 or not isinstance(jobs[0], dict):
            raise self.fault("the output must have one group of jobs (--group_reporting)")
        job: dict[str, object] = jobs[0]
        if code := self.number(job, "error"):
            raise self.fault(f"the job ended with error {code:.0f} (errno)")
        return job

    def _ways(self, job: dict[str, object]) -> list[str]:
        """Return the directions that moved data; ``mixed`` alone where fio has added them up."""
        ways: list[str] = []
        for way in (_MIXED, *_DIRECTIONS):
            if way in job and self.number(job, way, "total_ios") and self.number(job, way, "iops"):
                ways.append(way)
        if not ways:
            raise self.fault("the job did no I/O")
        if (
            len(ways) > 1 and _MIXED in ways
        ):  # unified_rw_reporting=both prints the sum beside its parts
            ways.remove(_MIXED)
        return ways

    def _bandwidth(self, job: dict[str, object], ways: Sequence[str]) -> float:
        return sum(self.number(job, way, "bw_bytes") for way in ways) / 1e6

    def _latencies(self, job: dict[str, object], way: str, prefix: str) -> list[base.Reading]:
        """Return the completion latencies; where the job did not take them, those from submission on."""
        if self.number(job, way, "clat_ns", "mean"):
            return self._of_times(self.mapping(job, way, "clat_ns"), f"{prefix}latency")
        if self.number(job, way, "lat_ns", "mean"):
            return self._of_times(self.mapping(job, way, "lat_ns"), f"{prefix}total_latency")
        return []  # disable_clat, disable_lat or gtod_reduce

    def _sync_latencies(self, job: dict[str, object]) -> list[base.Reading]:
        """Return the latencies of fsync and fdatasync; fio 3.33 counts 0 of them in ``total_ios``."""
        if "sync" not in job or "lat_ns" not in self.mapping(job, "sync"):
            return []
        times = self.mapping(job, "sync", "lat_ns")
        if not self.number(times, "mean"):
            return []
        return self._of_times(times, "sync_latency")

    def _of_times(self, times: dict[str, object], name: str) -> list[base.Reading]:
        """Return mean and percentiles of fio's times in nanoseconds, under their own names."""
        tails: dict[float, float] = {}
        if "percentile" in times:
            for text in self.mapping(times, "percentile"):
                if not _SHARE.fullmatch(text):
                    raise self.fault(f"'{one_line(text, 20)}' is no percentile")
                tails[float(text)] = self.number(times, "percentile", text)
        mean_ns = self.number(times, "mean")
        self.check_latencies(tails, mean_ns, self.number(times, "min"), self.number(times, "max"))
        readings = [base.Reading(f"{name}_mean", "µs", "lower", mean_ns / 1e3)]
        for share in sorted(tails):
            # Of fio's own list of 17 these four; of a list that somebody has chosen, all.
            if share in _PERCENTILES or len(tails) != _DEFAULT_COUNT:
                metric = base.percentile_name(share).replace("latency", name)
                readings.append(base.Reading(metric, "µs", "lower", tails[share] / 1e3))
        return readings
