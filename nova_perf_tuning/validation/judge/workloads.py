# SPDX-License-Identifier: Apache-2.0
"""Whether runs did the work that was asked for, and the same work in all arms that are compared.

Figures of other work, or of another version of a program, answer another question. What an output
does not say differs from nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.bench import pasted
from nova_perf_tuning.validation.results.environment import MEASURED, RecordedBenchmark
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C

#: What differs from run to run of the same work, or says where it ran.
NOT_COMPARED: Final = MEASURED | {
    "command",
    "kernel",
    "cpus",
    "CPU of the main thread",
    "affinity",
}
#: The same within the description of one of several jobs or tests.
_MEASURED_PART: Final = re.compile(r"(?:^|, )(?:seconds|cycles|loops|reads|writes) [^,]*")
#: What work has or has not: where an output does not name it, the work had none.
_EXTRAS: Final = frozenset(
    {
        "fsync",
        "fsync after",
        "fdatasync",
        "fdatasync after",
        "sync",
        "rate",
        "rate_iops",
        "rate in IOPS",
    }
)
_NONE: Final = "none"
#: Sizes are written as 4096, 4k, 4KiB, 4096B or 4096 bytes.
_SIZE: Final = re.compile(
    r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kmgt]?)(?:i?b|bytes)?", re.IGNORECASE
)
#: The same as operands of dd.
_BLOCK_SIZES: Final = frozenset(("bs", "ibs", "obs"))
_FACTORS: Final[Mapping[str, int]] = {
    "": 1,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
}
#: Lengths are written as 60, 1m or 60 seconds.
_LENGTHS: Final = frozenset(("duration", "seconds asked for"))
#: Rates are written as 100M, 100 Mbit/s or 0 for none.
_RATE: Final = re.compile(
    r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kmg]?)(?:bit/s)?(?: a stream)?", re.IGNORECASE
)
_DECIMAL: Final[Mapping[str, int]] = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_NUMBER: Final = re.compile(r"[0-9]{1,6}(?:\.[0-9A-Za-z]{1,20}){1,6}")


def fault(benchmark: RecordedBenchmark, arms: Sequence[str]) -> Reason | None:
    """Return why runs of a benchmark in these arms do not compare; None: nothing says so."""
    for arm in arms:
        for workload in benchmark.workloads.get(arm, ()):
            other = _other(arm, workload, benchmark.asked)
            if other is not None:
                return other
    found: dict[str, dict[str, None]] = {}  # name -> what it is in some run
    where: dict[tuple[str, str], str] = {}  # name and what it is -> first arm
    count = 0
    for arm in arms:
        for workload in benchmark.workloads.get(arm, ()):
            count += 1
            for name, value in workload.items():
                if name not in NOT_COMPARED:
                    shown = compared(name, value)
                    found.setdefault(name, {})[shown] = None
                    where.setdefault((name, shown), arm)
            for name in _EXTRAS - workload.keys():
                found.setdefault(name, {})[_NONE] = None
                where.setdefault((name, _NONE), arm)
    for name, values in found.items():
        if len(values) > 1:
            by_value = {value: where[name, value] for value in values}
            return reason(_C.WORKLOADS_DIFFER, name=name, values=by_value)
    return None


def _other(arm: str, workload: Mapping[str, str], asked: Mapping[str, str]) -> Reason | None:
    """Return what a run did that was not asked for."""
    for name, wanted in asked.items():
        if name not in workload:
            continue
        done = workload[name]
        if compared(name, done) != compared(name, wanted):
            return reason(_C.OTHER_WORKLOAD, arm=arm, name=name, found=done, asked=wanted)
    return None


def compared(name: str, value: str) -> str:
    """Return a value in the form in which it is compared: bytes, bit/s, seconds, the number of a version."""
    if name == "version":
        return version(value)
    if name in _LENGTHS:
        seconds = pasted.seconds(value)
        if seconds is not None:
            return f"{seconds:g}"
    if "size" in name or name in _BLOCK_SIZES:
        size = _SIZE.fullmatch(value)
        if size is not None:
            return f"{float(size[1]) * _FACTORS[size[2].lower()]:.15g}"
    if name.startswith("rate"):
        rate = _RATE.fullmatch(value)
        if rate is not None and float(rate[1]) == 0:
            return _NONE
        if rate is not None:
            return f"{float(rate[1]) * _DECIMAL[rate[2].lower()]:.15g}"
    return _MEASURED_PART.sub("", value)


def version(text: str) -> str:
    """Return the number in what a program calls its version: ``3.33`` of ``fio-3.33``."""
    found = _NUMBER.search(text)
    if found is None:
        return text
    return found[0]


def versions(benchmark: RecordedBenchmark, arm: str) -> str:
    """Return the versions of the program in an arm, joined by ``and``; empty: outputs name none."""
    numbers: dict[str, None] = {}
    for workload in benchmark.workloads.get(arm, ()):
        if "version" in workload:
            numbers[version(workload["version"])] = None
    return " and ".join(numbers)
