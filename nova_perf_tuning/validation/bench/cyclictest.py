"""Scheduling jitter with cyclictest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base

#: Latencies below this have a line each; fewer do where more threads would make the lines too long together.
_HISTOGRAM_US: Final = 10_000
#: Characters of a thread's count in each line, and of all lines; a guest on a cloud keeps 256 KiB.
_COUNT: Final = 7
_LINES: Final = 250_000
_LINE: Final = re.compile(r"^[0-9]{6,9}[ \t]+[0-9]{6,12}(?:[ \t]+[0-9]{6,12}){0,63}[ \t]*$", re.M)


class Cyclictest(base.Benchmark):
    """How late threads wake that sleep for a fixed time: what real-time guests and busy-polling ones feel.

    One thread per CPU or as many as are asked for, with a real-time priority, all memory locked. The
    figure is a percentile over all wake-ups, interpolated within its bar of the histogram: whole microseconds
    would make medians of boots tie. The maximum of a short run is shown but says little.

    The histogram reaches 10 ms with one or two threads, 8.9 ms with three, 2.1 ms with 16. A percentile beyond it
    is told as the longest wake-up of all: no less than it was.
    """

    kind = "cyclictest"
    summary = "scheduling jitter: how late sleeping threads wake (cyclictest)"
    packages = ("rt-tests",)
    programs = ("cyclictest",)
    image_variant = "full"
    primary = ("latency_p99", "µs", "lower")
    parameters = (
        base.SECONDS,
        base.Integer("threads", "1", "threads", 1, 16),
        base.Integer("interval", "1000", "time to sleep in µs", 100, 1_000_000),
        base.Integer("priority", "80", "of SCHED_FIFO; 0: the usual scheduler", 0, 99),
    )
    work_metric = "wake_ups"
    work_unit = "1,000 wake-ups"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, threads, interval, priority = values.numbers("seconds", "threads", "interval", "priority")
        argv = ["cyclictest", "--quiet", "--mlockall", "--distance=0"]
        argv += [f"--threads={threads}", f"--interval={interval}"]
        argv += [f"--priority={priority}"] if priority else ["--policy=other"]
        width = min(_HISTOGRAM_US, _LINES // (_COUNT * (threads + 1)))
        argv += [f"--duration={seconds}", f"--histogram={width}"]
        return (base.Step(tuple(argv), "client", seconds + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        self.check_length(text)
        if "# Histogram" not in text:
            raise self.fault(f"no histogram in the output, it begins '{one_line(text, 60)}'")
        totals, overflows = self._summary(text, "Total"), self._summary(text, "Histogram Overflows")
        longest, means = self._summary(text, "Max Latencies"), self._summary(text, "Avg Latencies")
        threads = len(totals)
        seen: dict[int, int] = {}
        for line in _LINE.findall(text):
            late, *counts = map(int, line.split())
            if len(counts) < threads or late in seen:
                raise self.fault(f"the histogram's line of {late} µs is cut off or there twice")
            seen[late] = sum(counts[:threads])
        cycles = sum(totals) + sum(overflows)
        if (
            not (cycles and seen)
            or sum(seen.values()) != sum(totals)
            or not threads == len(means) == len(longest) == len(overflows)
        ):
            raise self.fault(f"{sum(totals)} wake-ups were counted, {sum(seen.values())} are in the histogram")
        # Later than the histogram is wide; the largest of them is known.
        width = 1 + max(seen)
        seen[max(width, *longest)] = sum(overflows)
        # cyclictest's means are of all wake-ups, those beyond the histogram too.
        counts = [within + beyond for within, beyond in zip(totals, overflows, strict=True)]
        mean = sum(mean * count for mean, count in zip(means, counts, strict=True)) / cycles
        return [
            base.Reading(*self.primary, _quantile(seen, cycles, width, 0.99), primary=True),
            base.Reading("latency_p50", "µs", "lower", _quantile(seen, cycles, width, 0.5)),
            base.Reading("latency_p999", "µs", "lower", _quantile(seen, cycles, width, 0.999)),
            base.Reading("latency_mean", "µs", "lower", mean),
            base.Reading("latency_max", "µs", "lower", float(max(longest))),
            base.Reading("wake_ups", self.work_unit, "higher", cycles / 1e3),
        ]

    def _summary(self, text: str, name: str) -> list[int]:
        """Return the numbers of a line below the histogram, one per thread."""
        lines = re.findall(rf"^# {name}:((?: [0-9]{{1,12}}){{1,64}})[ \t]*$", text, re.M)
        if len(lines) != 1:
            raise self.fault(f"the output is cut off: {len(lines)} lines '# {name}'")
        return [int(number) for number in lines[0].split()]


def _quantile(seen: Mapping[int, int], count: int, width: int, share: float) -> float:
    """Return the latency that ``share`` of the wake-ups stay below, never 0.

    :param width: of the histogram in µs.

    The bar of n µs holds what took n to n + 1, since cyclictest cuts off the rest, and is taken for even.
    """
    wanted, passed = count * share, 0
    for late in sorted(seen):
        if passed + seen[late] >= wanted and seen[late]:
            within = (wanted - passed) / seen[late] if late < width else 0.0
            return late + within
        passed += seen[late]
    return float(max(seen))
