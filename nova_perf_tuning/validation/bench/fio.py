# SPDX-License-Identifier: Apache-2.0
"""Disk I/O with fio."""

from collections.abc import Mapping, Sequence

from nova_perf_tuning.validation.bench import base

_PATTERNS = ("randwrite", "randread", "write", "read")
_PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_ENGINES = ("psync", "libaio", "io_uring")


class Fio(base.Benchmark):
    """One fio job on files in a directory of the machine's scratch disk.

    The default is the job that is published for virtual disks, but for a fixed time and on a smaller file. The
    published one itself is ``size=512M,seconds=0`` with jobs 1 to 16: it ends when every job has written its file
    once. Latencies are completion latencies (``clat``) of the whole group.
    """

    kind = "fio"
    summary = "disk I/O per second: random writes of 16 KiB, direct, one at a time"
    packages = ("fio",)
    programs = ("fio",)
    primary = ("iops", "IO/s", "higher")
    parameters = (
        base.Integer("seconds", "10", "length of the run; 0: until every job has done its file once", 0, 3600),
        base.Choice("pattern", "randwrite", ", ".join(_PATTERNS), _PATTERNS),
        base.Size("block_size", "16k", "bytes per request", 512, "4m"),
        base.Size("size", "64M", "size of each job's file", "1m", "1024g"),
        base.Integer("jobs", "1", "processes, each with a file of its own", 1, 64),
        base.Choice("engine", "psync", ", ".join(_ENGINES), _ENGINES),
        base.Integer("depth", "1", "requests in flight per job (libaio and io_uring)", 1, 1024),
        # fio splits directories at ':'.
        base.Parameter("directory", ".", "where files lie; .: the scratch disk", "[^:\0]+", "a path without ':'"),
    )
    work_metric = "requests"
    work_unit = "1,000 IO"

    def scratch_mib(self, given: Mapping[str, str]) -> int:
        values = self.values(given)
        size, jobs = values.numbers("size", "jobs")
        return jobs * size // (1 << 20) + 16 if values["directory"] == "." else 0

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, jobs, depth, block, size = values.numbers("seconds", "jobs", "depth", "block_size", "size")
        if values["engine"] == "psync" and depth > 1:
            raise self.refusal(f"depth={depth} needs engine=libaio or io_uring: psync waits for each")
        argv = ["fio", "--name=nova-perf", "--group_reporting", "--direct=1"]
        argv += [f"--rw={values['pattern']}", f"--bs={block}", f"--size={size}", f"--numjobs={jobs}"]
        argv += [f"--ioengine={values['engine']}", f"--iodepth={depth}"]
        argv += ["--time_based", f"--runtime={seconds}"] if seconds else []
        argv += [f"--directory={values['directory']}", "--output-format=json"]
        # The first run lays the files out, at 10 MB/s on slow disks; one without a time writes them once more, an
        # emulated guest 200 blocks a second.
        timeout_s = seconds + base.MARGIN_S + jobs * size / 10e6
        if not seconds:
            timeout_s += jobs * size / min(10e6, block * 200)
        return (base.Step(tuple(argv), "client", timeout_s),)

    def parse(self, text: str) -> list[base.Reading]:
        data = self.load_json(text)
        jobs = self.find(data, "jobs")
        if not isinstance(jobs, list) or len(jobs) != 1:
            raise self.fault("the output must have one group of jobs (--group_reporting)")
        [job] = jobs
        if code := self.number(job, "error"):
            raise self.fault(f"the job ended with error {code:.0f} (errno)")
        way = self.find(job, max(("read", "write"), key=lambda name: self.number(job, name, "total_ios")))
        requests, iops = self.number(way, "total_ios"), self.number(way, "iops")
        if requests == 0 or iops == 0:
            raise self.fault("the job did no I/O")
        tails = {
            f"p{share:g}".replace(".", ""): self.number(way, "clat_ns", "percentile", f"{share:.6f}")
            for share in _PERCENTILES
        }
        latencies_ns = {"mean": self.number(way, "clat_ns", "mean"), **tails}
        return [
            base.Reading(*self.primary, iops, primary=True),
            base.Reading("bandwidth", "MB/s", "higher", self.number(way, "bw_bytes") / 1e6),
            *(base.Reading(f"latency_{name}", "µs", "lower", value / 1e3) for name, value in latencies_ns.items()),
            base.Reading("requests", self.work_unit, "higher", requests / 1e3),
        ]

    def span(self, text: str) -> base.Span:
        data = self.load_json(text)
        # Of the longest job; job_runtime is the sum of all.
        runtime_ms = max(self.number(data, "jobs", 0, way, "runtime") for way in ("read", "write"))
        # It stamps its output when the last job has ended, and clears up after that.
        return base.Span(runtime_ms / 1e3, self.number(data, "timestamp_ms") / 1e3)
