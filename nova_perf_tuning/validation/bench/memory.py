"""Floating point and memory: the Himeno benchmark's stencil and a triad, own implementations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base, own, parameter

#: Grid -> points in i, j, k.
GRIDS: Final[Mapping[str, tuple[int, int, int]]] = {
    "XS": (32, 32, 64),
    "S": (64, 64, 128),
    "M": (128, 128, 256),
    "L": (256, 256, 512),
}


class Himeno(own.OwnBenchmark):
    """Jacobi's method on Poisson's equation, 19 points, single precision: bound by memory for the larger grids.

    Written from the definition that the Himeno benchmark publishes, with its count of 34 floating point
    operations per inner point. The processes take slabs of one grid in shared memory (the published runs
    used MPI). One binary for host and guest: the same source gives a third of the speed when arrays are
    declared otherwise or flags differ, so figures of other builds say little beside it. Size M needs 230 MiB
    of memory, L 1.8 GiB.
    """

    kind = "himeno"
    summary = "floating point and memory: the Himeno benchmark's stencil"
    part = "himeno"
    primary = ("mflops", "MFLOPS", "higher")
    parameters = (
        parameter.Integer("seconds", "10", "length of the timed part", 1, 3600),
        parameter.Choice(
            "size",
            "S",
            "grid: XS (32x32x64, 4 MiB), S (64x64x128, 31 MiB), M (128x128x256), L (256x256x512)",
            tuple(GRIDS),
        ),
        parameter.Integer("processes", "1", "processes on one grid: at most its points in i less two", 1, 254),
    )
    work_metric = "work"
    work_unit = "GFLOP"

    def memory_mib(self, given: Mapping[str, str]) -> int:
        i, j, k = GRIDS[self.values(given).text("size")]
        return 14 * 4 * (i + 1) * (j + 1) * (k + 1) // (1 << 20) + 1

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds = values.number("seconds")
        size = values.text("size")
        processes = values.number("processes")
        if processes > GRIDS[size][0] - 2:
            raise self.refusal(f"processes={processes} must be at most {GRIDS[size][0] - 2} for size {size}")
        argv = (own.PROGRAM, "himeno", size, str(seconds), str(processes))
        # Filling the grid and three sweeps come before, 34 operations a point; an emulated guest does 10 MFLOPS.
        return (base.Step(argv, "client", seconds + base.MARGIN_S + 6 * 34 * math.prod(GRIDS[size]) / 10e6),)

    def parse(self, text: str) -> list[base.Reading]:
        data = self.data(text)
        rate = self.positive(data, "mflops")
        return [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("work", self.work_unit, "higher", rate * self.positive(data, "seconds") / 1e3),
        ]


class Memory(own.OwnBenchmark):
    """Memory bandwidth: ``a[i] = b[i] + s * c[i]`` on arrays larger than the caches, 24 bytes counted per element.

    Writing into ``a`` makes most CPUs read it first, which is not counted (the usual convention).
    """

    kind = "memory"
    summary = "memory bandwidth: a triad of three arrays"
    part = "triad"
    primary = ("bandwidth", "MB/s", "higher")
    parameters = (
        parameter.Integer("seconds", "10", "length of the timed part", 1, 3600),
        parameter.Size(
            "array", "32m", "size of each of the three arrays; more than the caches", 1 << 20, 64 << 30
        ),
        parameter.Integer("processes", "1", "processes, each with its part of the arrays", 1, 1024),
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
        argv = (own.PROGRAM, "triad", str(array >> 20), str(seconds), str(processes))
        return (base.Step(argv, "client", seconds + base.MARGIN_S + array / 10e6),)

    def parse(self, text: str) -> list[base.Reading]:
        data = self.data(text)
        rate = self.positive(data, "mb_per_second")
        return [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("best_pass", "MB/s", "higher", self.positive(data, "best_mb_per_second")),
            base.Reading("work", self.work_unit, "higher", rate * self.positive(data, "seconds") / 1e3),
        ]
