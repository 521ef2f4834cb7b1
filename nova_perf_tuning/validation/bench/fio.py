"""Disk I/O with fio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nova_perf_tuning.validation.bench import base

_PATTERNS = ("randwrite", "randread", "write", "read")
#: fio's own list has them.
_PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_ENGINES = ("psync", "libaio", "io_uring")


class Fio(base.Benchmark):
    """One fio job on files in a directory of the machine's scratch disk.

    The default is the job that is published for virtual disks: random writes of 16 KiB, direct, one at a
    time (psync), for a fixed time and on a smaller file. ``size=512M,seconds=0`` with jobs 1 to 16 is the
    published one itself, which ends when every job has written its file once. Latencies are completion latencies
    (``clat``) of the whole group.
    """

    kind = "fio"
    summary = "disk I/O per second: random writes of 16 KiB, direct, one at a time"
    packages = ("fio",)
    programs = ("fio",)
    primary = ("iops", "IO/s", "higher")
    parameters = (
        base.Integer(
            "seconds", "10", "length of the run; 0: until every job has done its whole file once", 0, 3600
        ),
        base.Choice("pattern", "randwrite", ", ".join(_PATTERNS), _PATTERNS),
        base.Size("block_size", "16k", "bytes per request", 512, "4m"),
        base.Size("size", "64M", "size of each job's file", "1m", "1024g"),
        base.Integer("jobs", "1", "processes, each with a file of its own", 1, 64),
        base.Choice("engine", "psync", ", ".join(_ENGINES), _ENGINES),
        base.Integer("depth", "1", "requests in flight per job (libaio and io_uring)", 1, 1024),
        # fio splits directories at ':'.
        base.Parameter(
            *("directory", ".", "directory of the files; by default the machine's scratch disk"),
            *("[^:\0]+", "a path without ':'"),
        ),
    )
    work_metric = "requests"
    work_unit = "1,000 IO"

    def scratch_mib(self, given: Mapping[str, str]) -> int:
        values = self.values(given)
        if values["directory"] != ".":
            return 0
        jobs = values.number("jobs")
        return jobs * values.number("size") // (1 << 20) + 16

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, jobs, depth, block, size = values.numbers("seconds", "jobs", "depth", "block_size", "size")
        engine = values.text("engine")
        pattern = values.text("pattern")
        if engine == "psync" and depth > 1:
            raise self.refusal(f"depth={depth} needs engine=libaio or io_uring: psync waits for each")
        argv = ["fio", "--name=nova-perf", "--group_reporting", "--direct=1"]
        argv += [f"--rw={pattern}", f"--bs={block}", f"--size={size}", f"--numjobs={jobs}"]
        argv += [f"--ioengine={engine}", f"--iodepth={depth}"]
        argv += ["--time_based", f"--runtime={seconds}"] if seconds else []
        argv += [f"--directory={values['directory']}", "--output-format=json"]
        # The first run writes the files before it begins; slow disks manage 10 MB/s.
        # Written once to lay them out, once more by a run without a time; an emulated guest does 200 blocks/s.
        timeout_s = seconds + base.MARGIN_S + jobs * size / 10e6
        if not seconds:
            timeout_s += jobs * size / min(10e6, block * 200)
        return (base.Step(tuple(argv), "client", timeout_s),)

    def parse(self, text: str) -> list[base.Reading]:
        data = self.load_json(text)
        jobs = self.find(data, "jobs")
        if not isinstance(jobs, list) or len(jobs) != 1:
            raise self.fault("the output must have one group of jobs (--group_reporting)")
        job = jobs[0]
        code = self.number(job, "error")
        if code:
            raise self.fault(f"the job ended with error {code:.0f} (errno)")
        name = max(("read", "write"), key=lambda way: self.number(job, way, "total_ios"))
        way = self.find(job, name)
        requests = self.number(way, "total_ios")
        iops = self.number(way, "iops")
        if requests == 0 or iops == 0:
            raise self.fault("the job did no I/O")
        mean = self.number(way, "clat_ns", "mean")
        tails = [self.number(way, "clat_ns", "percentile", f"{share:.6f}") for share in _PERCENTILES]
        return [
            base.Reading(*self.primary, iops, primary=True),
            base.Reading("bandwidth", "MB/s", "higher", self.number(way, "bw_bytes") / 1e6),
            base.Reading("latency_mean", "µs", "lower", mean / 1e3),
            *(
                base.Reading(f"latency_p{share:g}".replace(".", ""), "µs", "lower", tail / 1e3)
                for share, tail in zip(_PERCENTILES, tails, strict=True)
            ),
            base.Reading("requests", self.work_unit, "higher", requests / 1e3),
        ]

    def span(self, text: str) -> base.Span:
        data = self.load_json(text)
        # Of the longest job; job_runtime is the sum of all.
        runtime_ms = max(self.number(data, "jobs", 0, way, "runtime") for way in ("read", "write"))
        # It stamps its output when it has seen the last job end, and takes its time to clear up after that.
        return base.Span(runtime_ms / 1e3, self.number(data, "timestamp_ms") / 1e3)
