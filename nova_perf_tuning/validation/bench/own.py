# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of this project's own program, nova-perf-bench: the same static file on host and guest."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base

#: Static, built by tools/programs/build, the same file on host and guest.
PROGRAM: Final = "nova-perf-bench"
#: Test -> unit, and its factor from the program's operations or bytes per second.
TESTS: Final[Mapping[str, tuple[str, float]]] = {
    "syscall": ("1/s", 1.0),  # getppid
    "pipe": ("1/s", 1.0),  # 512 bytes written and read back
    "context": ("1/s", 1.0),  # a number passed to another process and back
    "process": ("1/s", 1.0),  # made, ended and waited for
    "exec": ("1/s", 1.0),  # a small program started, ended and waited for
    "copy_256": ("MB/s", 1e-6),  # through the page cache, in blocks of so many bytes
    "copy_1024": ("MB/s", 1e-6),
    "copy_4096": ("MB/s", 1e-6),
    "shell": ("1/s", 1.0),  # a script of six small programs, all of them busybox
}
#: Grid -> points in i, j, k.
GRIDS: Final[Mapping[str, tuple[int, int, int]]] = {
    "XS": (32, 32, 64),  # 4 MiB
    "S": (64, 64, 128),  # 31 MiB
    "M": (128, 128, 256),  # 230 MiB
    "L": (256, 256, 512),  # 1.8 GiB
}
#: The server accepts with so many processes.
_ACCEPTORS = 16
_SERVER: Final = "nova-perf-share"
#: Bytes per second, more than memory copies at: a time that says so was not measured.
_MAX_RATE: Final = 1e11
_FILE: Final = "nova-perf-copy.data"


class OwnBenchmark(base.Benchmark):
    """A benchmark that is a part of nova-perf-bench."""

    packages: ClassVar[tuple[str, ...]] = ()
    programs: ClassVar[tuple[str, ...]] = (PROGRAM,)
    #: Its name in the program's output; empty: its kind.
    part: ClassVar[str] = ""
    json_keys = frozenset(("benchmark",))
    marked = True

    def printed(self, output: str) -> bool:
        name = re.escape(self.part or self.kind)
        return re.search(rf'"benchmark"\s*:\s*"{name}"', output) is not None

    def wanted_form(self) -> str:
        return f"; the output of '{PROGRAM} {self.part or self.kind}' is read"

    def data(self, text: str) -> dict[str, object]:
        data, part = self.load_json(text), self.part or self.kind
        if (benchmark := data.get("benchmark")) != part:
            raise self.fault(f"the output is not of '{part}' but of '{one_line(benchmark, 40)}'")
        return data

    def positive(self, data: object, *path: str | int) -> float:
        value = self.number(data, *path)
        if value == 0:
            raise self.fault(f"'{'.'.join(map(str, path))}' is 0; the test did not work")
        return value


class System(OwnBenchmark):
    """System calls, pipes, context switches, process creation, exec, file copy and shell, one after the other.

    In such tests the published PV guests lost a factor of 4 to 8 while their arithmetic lost
    nothing. The judged figure is their geometric mean, which hides a single bad test, so put
    budgets on the tests. Not comparable with UnixBench's figures.
    """

    kind = "system"
    summary = "system calls, pipes, switches, processes, exec, file copy, shell: own small tests"
    packages = ("busybox-static",)
    programs = (PROGRAM, "busybox")
    primary = ("geometric_mean", "1/s", "higher")
    parameters = (base.Integer("seconds", "1", "length of each test", 1, 3600),)

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        seconds = self.values(given).number("seconds")
        argv = (PROGRAM, "system", str(seconds), *TESTS)
        return (base.Step(argv, "client", seconds * len(TESTS) + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        rates = self.data(text).get("rates")
        if not isinstance(rates, dict) or not rates or not set(rates) <= set(TESTS):
            raise self.fault("the output has no rates, or such of unknown tests")
        readings, logs = [], []
        for name, (unit, factor) in TESTS.items():
            if name in rates:
                rate = self.positive(rates, name)
                logs.append(math.log(rate))
                readings.append(base.Reading(name, unit, "higher", rate * factor))
        mean = math.exp(math.fsum(logs) / len(logs))
        return [base.Reading(*self.primary, mean, primary=True), *readings]


class Himeno(OwnBenchmark):
    """Jacobi's method on Poisson's equation, 19 points, single precision: bound by memory for the larger grids.

    Written from the definition that the Himeno benchmark publishes, with its count of 34 floating
    point operations per inner point. The processes take slabs of one grid in shared memory (the
    published runs used MPI). Other builds, even of the same source, differ up to threefold. Size M
    needs 230 MiB of memory, L 1.8 GiB.
    """

    kind = "himeno"
    summary = "floating point and memory: the Himeno benchmark's stencil"
    primary = ("mflops", "MFLOPS", "higher")
    parameters = (
        base.Integer("seconds", "10", "length of the timed part", 1, 3600),
        base.Choice(
            "size",
            "S",
            "grid: XS (32x32x64), S (64x64x128), M (128x128x256), L (256x256x512)",
            [*GRIDS],
        ),
        base.Integer(
            "processes", "1", "processes on one grid: at most its points in i less two", 1, 254
        ),
    )
    work_metric = "work"
    work_unit = "GFLOP"

    def memory_mib(self, given: Mapping[str, str]) -> int:
        i, j, k = GRIDS[self.values(given).text("size")]
        return 14 * 4 * (i + 1) * (j + 1) * (k + 1) // (1 << 20) + 1

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        size, (seconds, processes) = values.text("size"), values.numbers("seconds", "processes")
        if processes > GRIDS[size][0] - 2:
            raise self.refusal(
                f"processes={processes} must be at most {GRIDS[size][0] - 2} for size {size}"
            )
        argv = (PROGRAM, "himeno", size, str(seconds), str(processes))
        # Filling the grid and three sweeps come before, 34 operations a point; an emulated guest
        # does 10 MFLOPS.
        return (
            base.Step(
                argv, "client", seconds + base.MARGIN_S + 6 * 34 * math.prod(GRIDS[size]) / 10e6
            ),
        )

    def parse(self, text: str) -> list[base.Reading]:
        data = self.data(text)
        rate = self.positive(data, "mflops")
        return [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading(
                "work", self.work_unit, "higher", rate * self.positive(data, "seconds") / 1e3
            ),
        ]


class Memory(OwnBenchmark):
    """Memory bandwidth: ``a[i] = b[i] + s * c[i]`` on arrays larger than the caches, 24 bytes counted per element.

    Writing into ``a`` makes most CPUs read it first, which is not counted (the usual convention).
    """

    kind = "memory"
    summary = "memory bandwidth: a triad of three arrays"
    part = "triad"
    primary = ("bandwidth", "MB/s", "higher")
    parameters = (
        base.Integer("seconds", "10", "length of the timed part", 1, 3600),
        base.Size(
            "array", "32m", "size of each of the three arrays; more than the caches", "1m", "64g"
        ),
        base.Integer("processes", "1", "processes, each with its part of the arrays", 1, 1024),
    )
    work_metric = "work"
    work_unit = "GB"

    def memory_mib(self, given: Mapping[str, str]) -> int:
        return 3 * self.values(given).number("array") // (1 << 20)

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, processes, array = values.numbers("seconds", "processes", "array")
        if array % (1 << 20):
            raise self.refusal(f"array={given['array']} must be whole MiB, such as 32m")
        argv = (PROGRAM, "triad", str(array >> 20), str(seconds), str(processes))
        return (base.Step(argv, "client", seconds + base.MARGIN_S + array / 10e6),)

    def parse(self, text: str) -> list[base.Reading]:
        data = self.data(text)
        rate = self.positive(data, "mb_per_second")
        return [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("best_pass", "MB/s", "higher", self.positive(data, "best_mb_per_second")),
            base.Reading(
                "work", self.work_unit, "higher", rate * self.positive(data, "seconds") / 1e3
            ),
        ]


class _Pair(OwnBenchmark):
    """A client of ``nova-perf-bench serve``."""

    paired = True

    def pair(
        self, values: base.Values, peer: str | None, before: tuple[str, ...], *after: str
    ) -> list[base.Step]:
        """Return server and client; :param before, after: its arguments around address, port and seconds."""
        server, port, seconds = self.server(peer), str(values["port"]), str(values["seconds"])
        serve = (PROGRAM, "serve", server, port)
        client = (PROGRAM, self.kind, *before, server, port, seconds, *after)
        limit_s = values.number("seconds") + base.MARGIN_S
        return [base.Step(serve, "server", limit_s), base.Step(client, "client", limit_s)]

    def parse(self, text: str) -> list[base.Reading]:
        if "refused" in text[:300]:
            raise base.NotReadyError(f"{self.kind}: {one_line(text.strip(), 120)}")
        data = self.data(text)
        rate, count = self.positive(data, "per_second"), self.positive(data, "count")
        readings = [base.Reading(*self.primary, rate, primary=True)]
        for name in ("mean", "p50", "p99", "p999", "max"):
            latency = self.number(data, f"{name}_us")
            readings.append(base.Reading(f"latency_{name}", "µs", "lower", latency))
        readings.append(base.Reading("lost", "requests", "lower", self.number(data, "lost")))
        readings.append(base.Reading(str(self.work_metric), self.work_unit, "higher", count / 1e3))
        return readings

    def span(self, text: str) -> base.Span:
        return base.Span(self.positive(self.data(text), "seconds"))


class Request(_Pair):
    """A request and its answer, and only then the next: the time of a whole round trip, TCP or UDP.

    Latencies are those of whole rounds as the client sees them (not halved); the buckets are 1.6 %
    wide.
    """

    kind = "request"
    summary = "requests and answers per second and their latency, TCP or UDP"
    primary = ("transactions_per_second", "1/s", "higher")
    parameters = (
        base.SECONDS,
        base.Choice("protocol", "tcp", "tcp or udp", ("tcp", "udp")),
        base.Integer(
            "connections", "1", "clients side by side, each in a process of its own", 1, _ACCEPTORS
        ),
        base.Integer(
            "bytes",
            "1",
            "size of request and answer (udp: a packet holds 1472 of them)",
            1,
            65_000,
        ),
        base.Integer("port", "5301", "TCP and UDP port of the server", 1, 65_535),
    )
    work_metric = "transactions"
    work_unit = "1,000 transactions"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        after = (str(values["connections"]), str(values["bytes"]))
        return self.pair(values, peer, (values.text("protocol"),), *after)


class Connect(_Pair):
    """Connections made, one byte sent and answered, closed: new connections per second.

    The client closes with a reset so that no port stays in TIME_WAIT; its socket calls are as many
    as usual.
    """

    kind = "connect"
    summary = "TCP connections per second: made, used once, closed"
    primary = ("connections_per_second", "1/s", "higher")
    parameters = (
        base.SECONDS,
        base.Integer("processes", "1", "clients side by side", 1, _ACCEPTORS),
        base.Integer("port", "5302", "TCP port of the server", 1, 65_535),
    )
    work_metric = "connections"
    work_unit = "1,000 connections"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        return self.pair(values, peer, (), str(values["processes"]))


class Smb(OwnBenchmark):
    """A file copied to or from a share, timed from outside: 5 runs, best and worst dropped, as published.

    The peer serves it with Samba, without a password, for the time of the run. Connecting is part
    of each run. Sizes are in 1,000,000 bytes. Median and deviation stand beside that mean, since a
    mean of three says nothing of how far runs lie apart.
    """

    kind = "smb"
    summary = "file copy over SMB: bytes per second, mean of the middle runs"
    part = "copy"
    packages = ("samba", "smbclient")
    programs = (PROGRAM, _SERVER, "smbd", "smbclient")
    image_variant = "full"
    primary = ("throughput", "MB/s", "higher")
    parameters = (
        base.Integer("megabytes", "100", "size of the file; published: 100 and 1000", 1, 100_000),
        base.Integer("runs", "5", "copies; the best and the worst do not count", 3, 100),
        base.Choice("direction", "put", "put: to the share; get: from it", ("put", "get")),
        base.Integer("port", "5445", "TCP port of the server", 1, 65_535),
    )
    paired = True

    def scratch_mib(
        self, given: Mapping[str, str]
    ) -> int:  # of the file and, copied from the share, of its copy
        return 2 * self.values(given).number("megabytes") + 64

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        size, runs, port = values.numbers("megabytes", "runs", "port")
        peer = self.server(peer)
        # The address is a word of its own: Heat's guests put theirs in its place.
        client = [
            "smbclient",
            "//bench/bench",
            "-I",
            peer,
            "--configfile=/dev/null",
            "-p",
            str(port),
            "-N",
        ]
        put, get = f"put {_FILE}", f"get {_FILE} {_FILE}.back"
        # What is to be fetched is put there first, which is not timed.
        what = [put] if values.text("direction") == "put" else [get, "--before", put]
        argv = (PROGRAM, "copy", _FILE, str(size), str(runs), *client, "-c", *what)
        # Emulated guests on a busy host managed 0.7 MB/s.
        limit_s = 2 * base.MARGIN_S + (runs + 1) * size * 4
        return base.Step((_SERVER, peer, str(port)), "server", limit_s), base.Step(
            argv, "client", limit_s
        )

    def parse(self, text: str) -> list[base.Reading]:
        data = self.data(text)
        size = self.positive(data, "bytes")
        seconds = self.find(data, "seconds")
        if not isinstance(seconds, list) or not 3 <= len(seconds) <= 1000:
            raise self.fault("the output has no list of at least three runs")
        times = [self.positive(data, "seconds", at) for at in range(len(seconds))]
        if size / min(times) > _MAX_RATE:
            raise self.fault(f"{size:g} bytes in {min(times):g} s cannot be")
        rates = [size / time_s / 1e6 for time_s in times]
        mean = self.check_number("mean", math.fsum(sorted(rates)[1:-1]) / (len(rates) - 2))
        median = statistics.median(rates)
        return [
            base.Reading(*self.primary, mean, primary=True),
            base.Reading("median", "MB/s", "higher", median),
            base.Reading(
                "deviation",
                "MB/s",
                "lower",
                statistics.median(abs(rate - median) for rate in rates),
            ),
            base.Reading("slowest", "MB/s", "higher", min(rates)),
            base.Reading("fastest", "MB/s", "higher", max(rates)),
        ]
