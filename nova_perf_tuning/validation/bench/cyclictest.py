# SPDX-License-Identifier: Apache-2.0
"""Scheduling jitter with cyclictest."""

from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base

#: Latencies below this are listed one by one; fewer where threads are so many that their entries, of so many bytes
#: each, would be more than a guest on a cloud keeps (256 KiB).
_HISTOGRAM_US: Final = 10_000
_BYTES: Final = 240_000
_ENTRY: Final = 24


class Cyclictest(base.Benchmark):
    """How late threads wake that sleep for a fixed time: what real-time guests and busy-polling ones feel.

    The figure is a percentile over all wake-ups, interpolated within its bar of the histogram: whole microseconds
    would make medians of boots tie. The histogram reaches 10 ms with one thread, 5 ms with two, 0.6 ms with 16; a
    percentile beyond it is the longest wake-up of all. The maximum of a short run says little.
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
        argv = ["cyclictest", "--quiet", "--mlockall", f"--threads={threads}", f"--interval={interval}"]
        argv += [f"--priority={priority}"] if priority else ["--policy=other"]
        argv += [f"--duration={seconds}", f"--histogram={min(_HISTOGRAM_US, _BYTES // (_ENTRY * threads))}"]
        argv += ["--histfile=/dev/null", "--json=-"]
        return (base.Step(tuple(argv), "client", seconds + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        threads = self.find(self.load_json(text), "thread")
        if not isinstance(threads, dict) or not 1 <= len(threads) <= 1024:
            raise self.fault("the output has no threads")
        seen: dict[int, float] = {}
        cycles = total_us = longest = 0.0
        for name, thread in threads.items():
            histogram = self.find(thread, "histogram")
            if not isinstance(histogram, dict):
                raise self.fault(f"thread {name[:20]} has no histogram")
            for late in histogram:
                if not (late.isascii() and late.isdigit() and len(late) <= 6):
                    raise self.fault(f"'{late[:20]}' is no latency")
                seen[int(late)] = seen.get(int(late), 0) + self.number(histogram, late)
            count = self.number(thread, "cycles")
            cycles += count
            # cyclictest's means are of all wake-ups, those beyond the histogram too.
            total_us += count * self.number(thread, "avg")
            longest = max(longest, self.number(thread, "max"))
        beyond = cycles - sum(seen.values())
        if not (cycles and seen) or beyond < 0:
            raise self.fault(f"{cycles:g} wake-ups were counted, {sum(seen.values()):g} are in the histogram")
        most = max(longest, 1.0 + max(seen))  # beyond the histogram
        p50, p99, p999 = (_quantile(seen, cycles, most, share) for share in (0.5, 0.99, 0.999))
        return [
            base.Reading(*self.primary, p99, primary=True),
            base.Reading("latency_p50", "µs", "lower", p50),
            base.Reading("latency_p999", "µs", "lower", p999),
            base.Reading("latency_mean", "µs", "lower", self.check_number("avg", total_us / cycles)),
            base.Reading("latency_max", "µs", "lower", longest),
            base.Reading("wake_ups", self.work_unit, "higher", cycles / 1e3),
        ]


def _quantile(seen: Mapping[int, float], count: float, longest: float, share: float) -> float:
    """Return the latency that ``share`` of ``count`` wake-ups stay below, never 0; ``longest``: of the rest.

    The bar of n µs holds what took n to n + 1, since cyclictest cuts off the rest, and is taken for even.
    """
    wanted = count * share
    for late in sorted(seen):
        if seen[late] and wanted <= seen[late]:
            return late + wanted / seen[late]
        wanted -= seen[late]
    return longest
