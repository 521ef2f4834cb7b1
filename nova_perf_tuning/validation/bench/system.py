"""What the kernel does for programs: own small tests, the same program on host and guest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base, own, parameter

#: Test -> (unit, what one operation is, factor from the program's operations per second or bytes per second).
TESTS: Final[Mapping[str, tuple[str, str, float]]] = {
    "syscall": ("1/s", "one system call (getppid)", 1.0),
    "pipe": ("1/s", "512 bytes written into a pipe and read back", 1.0),
    "context": ("1/s", "a number passed to another process and back", 1.0),
    "process": ("1/s", "a process made, ended and waited for", 1.0),
    "exec": ("1/s", "a small program started, ended and waited for", 1.0),
    "copy_256": ("MB/s", "file copy through the page cache in blocks of 256 bytes", 1e-6),
    "copy_1024": ("MB/s", "file copy in blocks of 1,024 bytes", 1e-6),
    "copy_4096": ("MB/s", "file copy in blocks of 4,096 bytes", 1e-6),
    "shell": ("1/s", "a script of six small programs, all of them busybox", 1.0),
}


class System(own.OwnBenchmark):
    """System calls, pipes, context switches, process creation, exec, file copy and shell, one after the other.

    These are the tests in which the published PV guests lost a factor of 4 to 8 while their arithmetic lost
    nothing. Each test is a figure of its own; the judged one is their geometric mean, which hides a single bad
    test, so put budgets on the tests. Not comparable with UnixBench's figures.
    """

    kind = "system"
    summary = "system calls, pipes, switches, processes, exec, file copy, shell: own small tests"
    part = "system"
    packages = ("busybox-static",)
    programs = (own.PROGRAM, "busybox")
    primary = ("geometric_mean", "1/s", "higher")
    parameters = (parameter.Integer("seconds", "1", "length of each test", 1, 3600),)

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        seconds = self.values(given).number("seconds")
        argv = (own.PROGRAM, "system", str(seconds), *TESTS)
        return (base.Step(argv, "client", seconds * len(TESTS) + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        rates = self.data(text).get("rates")
        if not isinstance(rates, dict) or not rates or not set(rates) <= set(TESTS):
            raise self.fault("the output has no rates, or such of unknown tests")
        found, logs = [], []
        for name, (unit, _what, factor) in TESTS.items():
            if name in rates:
                rate = self.positive(rates, name)
                logs.append(math.log(rate))
                found.append(base.Reading(name, unit, "higher", rate * factor))
        mean = math.exp(math.fsum(logs) / len(logs))
        return [base.Reading(*self.primary, mean, primary=True), *found]
