# SPDX-License-Identifier: Apache-2.0
"""Latencies that tracers of the kernel measure: of hardware with hwlatdetect, of timers with rtla timerlat.

Both need root and a kernel that was built with the tracer.
"""

import contextlib
import gzip
import math
import os
import pathlib
import platform
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted, rt_tests

_TRACEFS: Final = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
#: A kernel's configuration is 300 KB of text.
_MAX_CONFIG: Final = 4 << 20
#: Latencies of the histogram, in µs; longer ones are counted together.
_ENTRIES: Final = 10_000
_CPUS: Final = "[0-9]{1,5}(-[0-9]{1,5})?"
_ALL: Final = "all"
#: Percentiles of timer latencies; the first is judged.
_SHARES: Final = (0.99, 0.5, 0.95, 0.999, 0.9999)
#: So many CPUs have a longest latency of their own.
_MOST_SHOWN: Final = 16
_UNIT: Final = re.compile(r"^# Time unit is (nano|micro)seconds \((?:ns|us)\)$", re.MULTILINE)
_HEAD: Final = re.compile(r"^Index((?:[ \t]+(?:IRQ|Thr|Usr)-[0-9]{3,5}){1,8192})$")
#: The rest of a head that a mail has wrapped.
_COLUMNS: Final = re.compile(r"^(?:IRQ|Thr|Usr)-[0-9]{3,5}(?:[ \t]|$)")
_ROW: Final = re.compile(
    r"^([0-9]{1,9}|over:|count:|min:|avg:|max:)((?:[ \t]+(?:[0-9]{1,15}|-)){1,8192})$"
)
#: hwlatdetect prints its figures, too, where somebody has ended it.
_BY_HAND: Final = r"^(?:\^C)?interrupted$"
_DURATION: Final = re.compile(r"^# Duration:[ \t]*([0-9]{1,5} [0-9:]{8})$", re.MULTILINE)


def lack(tracer: str, option: str, root: str = "/") -> str:
    """Return why a tracer of the kernel cannot be used on this host; empty: it can.

    :param option: of the kernel's configuration; :param root: directory that files are read below.
    """
    release = platform.release()
    absent = f"the kernel {release} has no tracer '{tracer}': it was built without {option}"
    configured = _is_configured(option, release, root)
    if configured is False:
        return absent
    for directory in _TRACEFS:
        with contextlib.suppress(OSError):
            path = pathlib.Path(root, directory, "available_tracers")
            names = path.read_text("ascii", "replace").split()
            if tracer in names:
                return ""
            return absent
    if os.geteuid() != 0:
        return "tracers of the kernel are for root alone; run it as root"
    if configured:  # the programs mount what they need
        return ""
    return (
        f"whether the kernel {release} has the tracer '{tracer}' cannot be read;"
        " mount -t tracefs tracefs /sys/kernel/tracing"
    )


def _is_configured(option: str, release: str, root: str) -> bool | None:
    """Return whether a kernel was built with an option; None: its configuration is not there."""
    text = ""
    with contextlib.suppress(OSError, EOFError, zlib.error):
        with gzip.open(pathlib.Path(root, "proc/config.gz")) as packed:
            text = packed.read(_MAX_CONFIG).decode("ascii", "replace")
    if not text:
        with contextlib.suppress(OSError):
            with open(pathlib.Path(root, f"boot/config-{release}"), "rb") as file:
                text = file.read(_MAX_CONFIG).decode("ascii", "replace")
    if not text:
        return None
    return f"\n{option}=y\n" in text


class _Traced(base.Benchmark):
    """A benchmark of the bare host.

    :cvar tracer: its name in the kernel; :cvar option: what the kernel was built with for it.
    """

    image_variant = "own"
    tracer: ClassVar[str]
    option: ClassVar[str]
    parameters: ClassVar[Sequence[base.Parameter]] = (
        base.SECONDS,
        base.Parameter(
            "cpus",
            _ALL,
            f"CPUs to measure, such as 2-3+8; {_ALL}: all of them",
            rf"{_ALL}|{_CPUS}(\+{_CPUS}){{0,255}}",
            f"{_ALL} or CPUs, such as 2-3+8",
        ),
    )

    def host_fault(self) -> str:
        return lack(self.tracer, self.option)

    def chosen(self, given: Mapping[str, str]) -> str:
        """Return the CPUs as the programs take them; empty: all."""
        cpus = self.values(given).text("cpus")
        if cpus == _ALL:
            return ""
        return cpus.replace("+", ",")


class HwLatency(_Traced):
    """How long firmware takes a CPU away from the kernel: system management interrupts, for instance.

    The tracer holds one CPU after the other for half of each second, with interrupts off, and looks
    for gaps. What runs on the host feels that: use it before guests come. Gaps of less than 1 µs
    are not counted; where there are none, the figure is that limit.
    """

    kind = "hwlatdetect"
    summary = "hardware latency: longest gap with interrupts off (hwlatdetect, tracer hwlat)"
    packages = ("rt-tests",)
    programs = ("hwlatdetect",)
    primary = ("latency_max", "µs", "lower")
    form = "hwlatdetect"
    marks = r"^hwlatdetect:[ \t]+test duration [0-9]"
    tracer = "hwlat"
    option = "CONFIG_HWLAT_TRACER"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        seconds, cpus = self.values(given).number("seconds"), self.chosen(given)
        # Without so high a limit a gap above the threshold is its exit code.
        argv = ["hwlatdetect", f"--duration={seconds}s", "--threshold=1us"]
        argv.append("--hardlimit=1000000000us")
        if cpus:
            argv.append(f"--cpu-list={cpus}")
        return (base.Step(tuple(argv), "client", seconds + base.MARGIN_S),)

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        return {"duration": self.values(given).text("seconds")}

    def parse(self, output: str) -> list[base.Reading]:
        return self.report(output).readings

    def remarks(self, output: str) -> Mapping[str, str]:
        return self.report(output).remarks

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        text = "\n".join(pasted.lines_of(output))
        threshold = self.labelled(text, r"^Latency threshold:[ \t]+([0-9]{1,9})us$", "threshold")
        count = self.labelled(
            text, r"^Samples exceeding threshold: ([0-9]{1,9})$", "Samples exceeding threshold"
        )
        found = base.BenchmarkReport()
        if re.search(r"^Max Latency: Below threshold$", text, re.MULTILINE):
            longest = threshold
            found.remarks["below_threshold"] = (
                f"no gap was longer than {threshold:g} µs, the threshold: 'latency_max' is that"
            )
        else:
            longest = self.labelled(text, r"^Max Latency: ([0-9]{1,9})us$", "Max Latency")
        found.readings = [
            base.Reading(*self.primary, longest, primary=True),
            base.Reading("gaps", "gaps", "lower", count),
        ]
        for name, pattern in (
            ("duration", r"^hwlatdetect:[ \t]+test duration ([0-9]{1,9}) seconds$"),
            ("cpus", r"^CPU list:[ \t]+([0-9][0-9,-]{0,59})"),
            ("threshold", r"^Latency threshold:[ \t]+([0-9]{1,9}us)$"),
            ("window", r"^Sample window:[ \t]+([0-9]{1,9}us)$"),
            ("width", r"^Sample width:[ \t]+([0-9]{1,9}us)$"),
        ):
            shown = re.search(pattern, text, re.MULTILINE)
            if shown:
                found.workload[name] = shown[1]
        if "duration" in found.workload and not re.search(_BY_HAND, text, re.MULTILINE):
            found.workload["seconds"] = found.workload["duration"]
        found.left_out.append("each gap by itself, and counts of SMIs")
        return found


class TimerLatency(_Traced):
    """How late timers and the threads that wait for them are, as the kernel itself sees it.

    ``latency`` is that of the thread, as cyclictest's is, ``irq_latency`` that of the interrupt
    before it. Percentiles are over all CPUs, interpolated within their bar of the histogram, which
    reaches 10 ms.
    """

    kind = "timerlat"
    summary = "timer latency of interrupt and thread (rtla timerlat, tracer timerlat)"
    packages = ("rtla",)
    programs = ("rtla",)
    primary = ("latency_p99", "µs", "lower")
    form = "rtla timerlat hist"
    marks = r"^# RTLA timerlat histogram"
    tracer = "timerlat"
    option = "CONFIG_TIMERLAT_TRACER"
    latency = True

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        seconds, cpus = self.values(given).number("seconds"), self.chosen(given)
        argv = ["rtla", "timerlat", "hist", f"--duration={seconds}s", f"--entries={_ENTRIES}"]
        if cpus:
            argv.append(f"--cpus={cpus}")
        return (base.Step(tuple(argv), "client", seconds + base.MARGIN_S),)

    def parse(self, output: str) -> list[base.Reading]:
        return self.report(output).readings

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        unit = _UNIT.search(output)
        if unit is None:
            raise self.fault(f"the output does not name its unit{self.wanted_form()}")
        per_us = 1.0
        if unit[1] == "nano":
            per_us = 1000.0
        columns, rows = self._table(output)
        found = base.BenchmarkReport()
        width = math.gcd(*[int(name) for name in rows if name.isdecimal()])
        for kind, prefix in (("Thr", ""), ("IRQ", "irq_"), ("Usr", "user_")):
            places = [at for at, name in enumerate(columns) if name.startswith(kind)]
            if places:
                readings = self._of_kind(prefix, places, columns, rows, per_us)
                if width > 1:
                    readings = [item for item in readings if "latency_p" not in item.metric]
                found.readings += readings
        found.workload = {"cpus": str(len({name.partition("-")[2] for name in columns}))}
        duration = _DURATION.search(output)
        if duration:
            found.workload["seconds"] = f"{pasted.seconds(duration[1]) or 0:g}"
        words = pasted.command(output, "rtla") or pasted.command(output, "timerlat")
        period = pasted.option(words, "-p", "--period")
        if period is not None:
            found.workload["period in µs"] = one_line(period, 20)
        if width > 1:
            found.left_out.append(
                f"percentiles: the buckets may be {width} wide (--bucket-size), and are read where"
                " they are 1 wide"
            )
        else:
            found.remarks["percentiles_computed"] = (
                "percentiles are calculated of the histogram of all CPUs, within a bucket by its"
                " share"
            )
        found.left_out.append("averages, which rtla cuts to whole numbers, and the histogram")
        return found

    def _table(self, output: str) -> tuple[list[str], dict[str, list[float]]]:
        """Return the names of the columns, and what stands in them by row; those of all CPUs are not read."""
        columns: list[str] = []
        rows: dict[str, list[float]] = {}
        for line in pasted.lines_of(output):
            head, row = _HEAD.match(line), _ROW.match(line)
            if head:
                if columns:
                    raise self.fault("the text has several histograms; keep one")
                columns = head[1].split()
            elif _COLUMNS.match(line):
                raise self.fault(
                    f"the lines of the histogram are wrapped (by a mail){self.wanted_form()}"
                )
            elif row and columns:
                values = [0.0 if word == "-" else float(word) for word in row[2].split()]
                if len(values) == len(columns):
                    rows.setdefault(row[1], values)
        for name in ("over:", "count:", "min:", "max:"):
            if name not in rows:
                raise self.fault(
                    f"the output is cut off or foreign: no row '{name}'{self.wanted_form()}"
                )
        return columns, rows

    def _of_kind(
        self,
        prefix: str,
        places: Sequence[int],
        columns: Sequence[str],
        rows: Mapping[str, Sequence[float]],
        per_us: float,
    ) -> list[base.Reading]:
        """Return percentiles, least and longest of one kind of latency, and the longest of each CPU."""
        seen: dict[float, float] = {}
        for name, values in rows.items():
            if name.isdecimal():
                seen[float(name)] = sum(values[at] for at in places)
        over = sum(rows["over:"][at] for at in places)
        count = sum(rows["count:"][at] for at in places)
        if not count or sum(seen.values()) + over != count:
            raise self.fault(
                f"{count:g} latencies were counted, {sum(seen.values()) + over:g} are in the histogram"
            )
        longest = max(rows["max:"][at] for at in places)
        least = min(rows["min:"][at] for at in places)
        if least > longest:
            raise self.fault(f"the least latency {least:g} is above the longest {longest:g}")
        readings = []
        for share in _SHARES:
            late = min(longest, rt_tests.quantile(seen, count, longest, share)) / per_us
            metric = prefix + base.percentile_name(round(share * 100, 2))
            primary = not prefix and share == _SHARES[0]
            readings.append(base.Reading(metric, "µs", "lower", late, primary=primary))
        readings.append(base.Reading(f"{prefix}latency_min", "µs", "lower", least / per_us))
        readings.append(base.Reading(f"{prefix}latency_max", "µs", "lower", longest / per_us))
        if not prefix and len(places) <= _MOST_SHOWN:
            for at in places:
                cpu = int(columns[at].partition("-")[2])
                value = rows["max:"][at] / per_us
                readings.append(base.Reading(f"latency_max_cpu{cpu}", "µs", "lower", value))
        return readings
