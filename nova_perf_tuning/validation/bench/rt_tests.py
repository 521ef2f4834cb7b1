# SPDX-License-Identifier: Apache-2.0
"""How quiet CPUs are, by two programs of rt-tests: cyclictest sleeps and wakes, oslat never leaves its CPUs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted, rt_text

#: Latencies below this are listed one by one; fewer where threads are so many that their entries,
#: of so many bytes each, would be more than a guest on a cloud keeps (256 KiB).
_HISTOGRAM_US: Final = 10_000
_BYTES: Final = 240_000
_ENTRY: Final = 24
#: In place of oslat's CPUs: those that the plan keeps free, which the command line knows.
PLANNED: Final = "planned"
#: So many CPUs or threads have a longest latency of their own; of more, the worst three.
_MOST_SHOWN: Final = 16
_NOISIEST: Final = 3
#: Percentiles of cyclictest's histogram; the first is judged.
_SHARES: Final = (0.99, 0.5, 0.95, 0.999, 0.9999)
_PERCENTILES_COMPUTED: Final = (
    "percentiles and 'wake_ups' are calculated of the histogram of all threads, percentiles"
    " within a bucket by its share"
)
#: Where a run took no histogram, or one that no wake-up fell into.
_NO_PERCENTILES: Final = "latency_p99, which is judged, and the other percentiles"
_NO_HISTOGRAM: Final = "the output has no histogram; run it with --histogram=10000"
_TAKES_HISTOGRAM: Final = ("-h", "--histogram", "-H", "--histofall")
_WAKE_UPS_COMPUTED: Final = "'wake_ups' is calculated: the cycles of all threads"
#: How far the means of threads, which are rounded, may be from the sum of their wake-ups.
_ROUNDED: Final = 1.1
_MEAN_COMPUTED: Final = "'latency_mean' is calculated of the threads' means by their wake-ups"
#: oslat's buckets may be parts of a microsecond (--bucket-width).
_LATENCY: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_CPUS: Final = "[0-9]{1,5}(-[0-9]{1,5})?"


#: Of the command line that the JSON repeats.
_ASKED: Final = (
    ("priority", ("-p", "--priority", "-f", "--rtprio")),
    ("policy", ("--policy",)),
    ("interval in µs", ("-i", "--interval")),
    ("duration", ("-D", "--duration")),
)


class _RtTests(base.Benchmark):
    """A program whose JSON has a histogram of whole microseconds for each of its threads."""

    packages = ("rt-tests",)
    latency = True
    json_keys = frozenset(("thread", "num_threads"))

    def threads(
        self, text: str, needed: bool = True
    ) -> Iterator[tuple[object, dict[float, float]]]:
        """Yield what the output says of each thread, and its histogram: latency -> count.

        :param needed: a thread without a histogram is refused; else it has an empty one.
        """
        threads = self.mapping(self.load_json(text), "thread")
        if not 1 <= len(threads) <= 8192:
            raise self.fault("the output has no threads")
        for name, thread in threads.items():
            if "histogram" not in self.mapping(threads, name):
                if not needed:
                    yield thread, {}
                    continue
                raise self.fault(f"thread {name[:20]} has no histogram{self.wanted_form()}")
            histogram: dict[float, float] = {}
            for late in self.mapping(thread, "histogram"):
                if not _LATENCY.fullmatch(late):
                    raise self.fault(f"'{late[:20]}' is no latency")
                histogram[float(late)] = self.number(thread, "histogram", late)
            yield thread, histogram

    def has_histograms(self, text: str) -> bool:
        """Return whether a thread has a histogram; without one rt-tests print it empty, or not at all."""
        threads = self.mapping(self.load_json(text), "thread")
        return any(self.mapping(threads, name).get("histogram") for name in threads)

    def check_whole(self, text: str, count: str) -> None:
        """Refuse a part of a document; ``count``: a key that its threads have."""
        self.check_length(text)
        if rt_text.is_fragment(text, count):
            raise self.fault(
                "the text is a part of the JSON: its head, with the number of threads and the unit"
                f" of the times, is missing{self.wanted_form()} as a whole"
            )

    def json_workload(self, text: str) -> dict[str, str]:
        """Return what the run was, as the document repeats it."""
        data = self.load_json(text)
        workload: dict[str, str] = {}
        for name, key in (
            ("threads", "num_threads"),
            ("command", "cmdline:"),
            ("command", "cmdline"),
            ("version", "rt_test_version:"),
            ("version", "rt_test_version"),
        ):
            if key in data:
                workload[name] = one_line(data[key], 200)
        words = pasted.command(workload.get("command", ""), self.kind)
        for name, options in _ASKED:
            value = pasted.option(words, *options)
            if value is not None:
                workload[name] = one_line(value, 40)
        seconds = self._seconds(data, workload.get("command", ""))
        if seconds is not None:
            workload["seconds"] = f"{seconds:g}"
        system = data.get("sysinfo")
        if isinstance(system, dict) and "release" in system:
            workload["kernel"] = one_line(system["release"], 60)
        return workload

    def _seconds(self, data: Mapping[str, Any], command: str) -> float | None:
        """Return how long a run was: what its threads say, else the command and its begin and end."""
        threads = data.get("thread")
        durations: list[float] = []
        if isinstance(threads, dict):
            for thread in threads.values():
                if isinstance(thread, dict) and "duration" in thread:
                    durations.append(self.number(thread, "duration"))
        asked = rt_text.asked_seconds(command)
        if asked is not None:
            durations.append(asked)
        begin, end = rt_text.stamp(data.get("start_time")), rt_text.stamp(data.get("end_time"))
        if begin is not None and end is not None and end > begin:
            durations.append(end - begin)
        counted = self.counted_seconds(data, command)
        if asked is None and counted is not None:
            durations.append(
                counted
            )  # begin and end hold the program's start, and steps of the clock
        return min(durations, default=None)

    def counted_seconds(self, _data: Mapping[str, Any], _command: str) -> float | None:
        """Return how long a run was at least by what its threads have counted; None: they count nothing."""
        return None


class Cyclictest(_RtTests):
    """How late threads wake that sleep for a fixed time: what real-time guests and busy-polling ones feel.

    The figure is a percentile over all wake-ups, interpolated within its bar of the histogram:
    whole microseconds would make medians of boots tie. The histogram reaches 10 ms with one
    thread, 5 ms with two, 0.6 ms with 16; a percentile beyond it is the longest wake-up of all.
    The maximum of a short run says little.
    """

    kind = "cyclictest"
    summary = "scheduling jitter: how late sleeping threads wake (cyclictest)"
    programs = ("cyclictest",)
    image_variant = "full"
    marked = True
    form = "cyclictest --json=- --histogram=10000"
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
        seconds, threads, interval, priority = values.numbers(
            "seconds", "threads", "interval", "priority"
        )
        argv = [
            "cyclictest",
            "--quiet",
            "--mlockall",
            f"--threads={threads}",
            f"--interval={interval}",
        ]
        if priority:
            argv.append(f"--priority={priority}")
        else:
            argv.append("--policy=other")
        argv += [
            f"--duration={seconds}",
            f"--histogram={min(_HISTOGRAM_US, _BYTES // (_ENTRY * threads))}",
        ]
        argv += ["--histfile=/dev/null", "--json=-"]
        return (base.Step(tuple(argv), "client", seconds + base.MARGIN_S),)

    def counted_seconds(self, data: Mapping[str, Any], command: str) -> float | None:
        threads = data.get("thread")
        first = threads.get("0") if isinstance(threads, dict) else None
        words = pasted.command(command, self.kind)
        if not words or not isinstance(first, dict) or "cycles" not in first:
            return None
        return rt_text.slept_seconds(words, self.number(first, "cycles"))

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        values = self.values(given)
        work = {"threads": values.text("threads"), "duration": values.text("seconds")}
        work["interval in µs"] = values.text("interval")
        if values["priority"]:
            work["priority"] = values.text("priority")
        return work

    def printed(self, output: str) -> bool:
        if rt_text.is_fragment(output, "cycles"):
            return True
        if self.has_json(output):
            return rt_text.has_head(output) and "cyclictest" in output
        return rt_text.is_cyclictest(output)

    def parse(self, text: str) -> list[base.Reading]:
        return self.report(text).readings

    def remarks(self, text: str) -> Mapping[str, str]:
        return self.report(text).remarks

    def report(self, text: str) -> base.BenchmarkReport:
        self.check_whole(text, "cycles")
        if self.has_json(text) or not rt_text.is_cyclictest(text):
            return self._report_json(text)
        parts = rt_text.runs(self, text)
        if len(parts) == 1:
            return self._report_text(rt_text.read_cyclictest(self, text))
        self.check_runs(len(parts), "runs of cyclictest")
        found = {}
        for number, part in enumerate(parts, start=1):
            found[f"run{number}"] = self._report_text(rt_text.read_cyclictest(self, part))
        shown = base.several(found)
        shown.remarks["several_runs"] = f"the text has {len(parts)} runs: none of them is judged"
        return shown

    def _report_text(self, found: rt_text.Cyclictest) -> base.BenchmarkReport:
        shown = base.BenchmarkReport(workload=found.workload)
        threads, per_us = found.threads, found.per_us
        longest = max(thread.longest for thread in threads)
        least = min(thread.least for thread in threads)
        count = sum(found.bins.values()) + found.beyond
        if found.bins and count:
            self._add_tails(shown, found, count)
        else:
            shown.left_out.append(f"{_NO_PERCENTILES}: {found.fault or _NO_HISTOGRAM}")
        shown.remarks.update(_beyond(found))
        weights = [thread.cycles or 1.0 for thread in threads]
        total = sum(thread.mean * weight for thread, weight in zip(threads, weights, strict=True))
        mean = total / sum(weights)
        if len(threads) == 1 or all(thread.cycles for thread in threads):
            shown.readings.append(base.Reading("latency_mean", "µs", "lower", mean / per_us))
            if len(threads) > 1:
                shown.remarks["mean_computed"] = _MEAN_COMPUTED
        else:
            shown.left_out.append("latency_mean: the threads' cycles are not known")
        shown.readings.append(base.Reading("latency_min", "µs", "lower", least / per_us))
        shown.readings.append(base.Reading("latency_max", "µs", "lower", longest / per_us))
        maxima = {f"thread{thread.number}": thread.longest / per_us for thread in threads}
        if len(maxima) > _MOST_SHOWN:
            shown.left_out.append(f"the maxima of all but {_NOISIEST} of {len(maxima)} threads")
        shown.readings += _maxima(maxima)
        shown.left_out.append(
            "the last latency of each thread (Act), its mean and least, buckets of the histogram"
        )
        if not found.unit_known:
            shown.remarks["unit_unknown"] = (
                "the output does not name its unit: without --nsecs on the command line it is µs"
            )
        return shown

    def _add_tails(
        self, shown: base.BenchmarkReport, found: rt_text.Cyclictest, count: float
    ) -> None:
        """Add the percentiles that lie within the histogram; of others only their least is known."""
        for share in _SHARES:
            metric = base.percentile_name(round(share * 100, 2))
            if count * (1 - share) < found.beyond:
                at_least = found.reach / found.per_us
                shown.left_out.append(
                    f"{metric}: {found.beyond:g} of {count:g} wake-ups lie beyond the histogram,"
                    f" at least {at_least:g} µs"
                )
                continue
            longest = max(thread.longest for thread in found.threads)
            late = min(longest, quantile(found.bins, count, found.reach, share)) / found.per_us
            shown.readings.append(base.Reading(metric, "µs", "lower", late, primary=share == 0.99))
        shown.readings.append(base.Reading("wake_ups", self.work_unit, "higher", count / 1e3))
        shown.remarks["percentiles_computed"] = _PERCENTILES_COMPUTED

    def _report_json(self, text: str) -> base.BenchmarkReport:
        per_us = self._per_us(text)
        taken = self.has_histograms(text)
        maxima: dict[str, float] = {}
        least: list[float] = []
        seen: dict[float, float] = {}
        cycles = total = longest = 0.0
        for thread, histogram in self.threads(text, needed=taken):
            for late, count in histogram.items():
                seen[late] = seen.get(late, 0) + count
            count = self.number(thread, "cycles")
            cycles += count
            # cyclictest's means are of all wake-ups, those beyond the histogram too.
            total += count * self.number(thread, "avg")
            longest = max(longest, self.number(thread, "max"))
            fields = self.mapping(thread)
            if "min" in fields:
                least.append(self.number(thread, "min"))
            if "cpu" in fields:
                cpu = f"cpu{self.number(thread, 'cpu'):.0f}"
                maxima[cpu] = max(maxima.get(cpu, 0.0), self.number(thread, "max") / per_us)
        if not cycles:
            raise self.fault("no wake-up was counted")
        shown = base.BenchmarkReport(workload=self.json_workload(text))
        if taken:
            self._add_json_tails(shown, seen, cycles, total, longest, per_us)
        else:
            fault = _NO_HISTOGRAM
            asked = pasted.option(self._words(shown), *_TAKES_HISTOGRAM) is not None
            if asked and '"histogram"' in text:
                fault = f"none of {cycles:g} wake-ups lies within the histogram"
            shown.left_out.append(f"{_NO_PERCENTILES}: {fault}")
        if len(self.mapping(self.load_json(text), "thread")) > 1:
            shown.remarks["mean_computed"] = _MEAN_COMPUTED
            shown.remarks.setdefault("percentiles_computed", _WAKE_UPS_COMPUTED)
        mean = self.check_number("avg", total / cycles / per_us)
        shown.readings += [
            base.Reading("latency_mean", "µs", "lower", mean),
            base.Reading("latency_max", "µs", "lower", longest / per_us),
            base.Reading("wake_ups", self.work_unit, "higher", cycles / 1e3),
        ]
        if least:
            shown.readings.append(base.Reading("latency_min", "µs", "lower", min(least) / per_us))
        shown.readings += _maxima(maxima)
        shown.left_out.append("the mean and least of each thread, buckets of the histogram")
        if len(maxima) > _MOST_SHOWN:
            shown.left_out.append(f"the maxima of all but {_NOISIEST} of {len(maxima)} CPUs")
        return shown

    def _add_json_tails(
        self,
        shown: base.BenchmarkReport,
        seen: Mapping[float, float],
        cycles: float,
        total: float,
        longest: float,
        per_us: float,
    ) -> None:
        """Add percentiles; ``total``: of the times of all wake-ups, as the means of the threads have it."""
        beyond = cycles - sum(seen.values())
        if not seen or beyond < 0:
            raise self.fault(
                f"{cycles:g} wake-ups were counted, {sum(seen.values()):g} are in the histogram"
            )
        asked = pasted.option(self._words(shown), *_TAKES_HISTOGRAM)
        reach = pasted.whole_number(asked) or 1 + max(seen)
        if beyond * reach > total * _ROUNDED:
            shown.left_out.append(
                f"percentiles: {beyond:g} of {cycles:g} wake-ups are not in the histogram, and the"
                f" mean is too short for them to lie beyond it ({reach / per_us:g} µs):"
                " entries are missing"
            )
            return
        shown.remarks["percentiles_computed"] = _PERCENTILES_COMPUTED
        most = max(longest, 1.0 + max(seen))  # beyond the histogram
        for share in _SHARES:
            metric = base.percentile_name(round(share * 100, 2))
            late_us = min(quantile(seen, cycles, most, share), longest) / per_us
            shown.readings.append(
                base.Reading(metric, "µs", "lower", late_us, primary=share == 0.99)
            )
        if beyond:
            shown.remarks["beyond_histogram"] = (
                f"{beyond:g} of {cycles:g} wake-ups lie beyond the histogram:"
                " a percentile among them is the longest of all"
            )

    def _words(self, shown: base.BenchmarkReport) -> list[str]:
        """Return the words of the command that the document repeats."""
        return pasted.command(shown.workload.get("command", ""), self.kind)

    def _per_us(self, text: str) -> float:
        """Return how many units of the output's times are a microsecond: with ``--nsecs`` they are nanoseconds."""
        data = self.load_json(text)
        if "resolution_in_ns" not in data:  # rt-tests before 1.9, and a part of a document
            command = str(data.get("cmdline:", data.get("cmdline", "")))
            return rt_text.per_microsecond(command.split())
        resolution = self.number(data, "resolution_in_ns")
        if resolution not in (0, 1):
            raise self.fault(
                f"the unit of the times is not known: 'resolution_in_ns' is {resolution:g}"
            )
        return 1000.0 if resolution else 1.0


class Oslat(_RtTests):
    """For how long a CPU was taken from a thread that never gives it up: how quiet dedicated CPUs are.

    A thread on each CPU reads the time stamp counter in a loop; a gap is an interrupt, another
    thread or an exit to a hypervisor. Its priority is the usual one: with SCHED_FIFO the kernel's
    throttling would be the longest gap. Run it on CPUs that nobody uses: it takes all of them.
    """

    kind = "oslat"
    summary = "interruptions of CPUs that are to be quiet: longest gap of a busy loop (oslat)"
    programs = ("oslat",)
    image_variant = "own"
    marked = True
    form = "oslat --json=-"
    primary = ("latency_max", "µs", "lower")
    parameters = (
        base.SECONDS,
        base.Parameter(
            "cpus",
            PLANNED,
            f"CPUs to measure, such as 2-3+8; {PLANNED}: those that the plan keeps free",
            rf"{PLANNED}|{_CPUS}(\+{_CPUS}){{0,255}}",
            f"{PLANNED} or CPUs, such as 2-3+8",
        ),
    )

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, cpus = values.number("seconds"), values.text("cpus")
        if cpus == PLANNED:
            raise self.refusal(
                "only 'nova-perf bench run' knows the plan; name the CPUs, as in cpus=2-3+8"
            )
        argv = (
            "oslat",
            "--quiet",
            f"--cpu-list={cpus.replace('+', ',')}",
            f"--duration={seconds}",
            "--json=-",
        )
        return (base.Step(argv, "client", seconds + base.MARGIN_S),)

    def printed(self, output: str) -> bool:
        if rt_text.is_oslat(output) or '"oslat ' in output:
            return True
        return rt_text.is_fragment(output, "duration")

    def parse(self, text: str) -> list[base.Reading]:
        return self.report(text).readings

    def report(self, text: str) -> base.BenchmarkReport:
        self.check_whole(text, "duration")
        if self.has_json(text) or not rt_text.is_oslat(text):
            taken = self.has_histograms(text)
            readings, passes = self._parse_json(text, taken)
            shown = base.BenchmarkReport(readings, self.json_workload(text))
            if taken:
                shown.remarks.update(_of_gaps(passes))
            else:
                shown.left_out.append("interruptions: the output has no histogram")
            shown.left_out.append("the least and mean latency and the histogram of each CPU")
            cpus = len(passes)
            if cpus > _MOST_SHOWN:
                shown.left_out.append(f"the maxima of all but {_NOISIEST} of {cpus} CPUs")
            return shown
        parts = rt_text.oslat_runs(self, text)
        if len(parts) == 1:
            return self._report_text(text)
        self.check_runs(len(parts), "reports of oslat")
        reports = {f"run{at}": self._report_text(part) for at, part in enumerate(parts, start=1)}
        several = base.several(reports)
        several.remarks["several_runs"] = f"the text has {len(parts)} runs: none of them is judged"
        return several

    def _report_text(self, text: str) -> base.BenchmarkReport:
        found = rt_text.read_oslat(self, text)
        maxima = {}
        for cpu, late in zip(found.cpus, found.longest, strict=True):
            maxima[f"cpu{cpu}"] = late
        readings = [
            base.Reading(*self.primary, max(found.longest), primary=True),
            *_maxima(maxima),
        ]
        left_out = ["the least and mean latency and the histogram of each CPU"]
        remarks: dict[str, str] = {}
        if found.means:
            mean = sum(found.means) / len(found.means)
            readings.insert(1, base.Reading("latency_mean", "µs", "lower", mean))
        else:
            left_out.append("latency_mean: this version of oslat does not print it")
        if len(maxima) > _MOST_SHOWN:
            left_out.append(f"the maxima of all but {_NOISIEST} of {len(maxima)} CPUs")
        if found.fault:
            left_out.append(f"interruptions: {found.fault}")
        else:
            rate = found.gaps / found.seconds
            readings.insert(1, base.Reading("interruptions", "1/s", "lower", rate))
            remarks.update(_of_gaps(found.usual))
        if found.means:
            remarks["passes"] = (
                "'latency_mean' is of all passes of the loop on all CPUs, not of interruptions"
            )
        return base.BenchmarkReport(readings, found.workload, remarks, left_out)

    def _parse_json(self, text: str, taken: bool) -> tuple[list[base.Reading], list[float]]:
        """Return the figures, and of each thread the latency of most passes of its loop.

        :param taken: whether the document has histograms, without which gaps are not counted.
        """
        passes: list[float] = []
        longest: dict[int, float] = {}
        gaps = seconds = 0.0
        for thread, histogram in self.threads(text, needed=taken):
            usual = max(
                histogram, key=lambda late: histogram[late], default=0
            )  # of the loop itself
            passes.append(float(usual))
            gaps += sum(count for late, count in histogram.items() if late > usual)
            seconds += self.number(thread, "duration")
            longest[int(self.number(thread, "cpu"))] = self.number(thread, "max")
        if not seconds or not all(longest.values()):
            raise self.fault("a thread has measured nothing")
        maxima = {f"cpu{cpu}": late for cpu, late in longest.items()}
        readings = [base.Reading(*self.primary, max(longest.values()), primary=True)]
        if taken:
            readings.append(base.Reading("interruptions", "1/s", "lower", gaps / seconds))
        return readings + _maxima(maxima), passes


def _beyond(found: rt_text.Cyclictest) -> dict[str, str]:
    """Return how many wake-ups were later than the histogram reaches, whether or not it is there."""
    if not found.beyond:
        return {}
    cycles = sum(thread.cycles or 0.0 for thread in found.threads)
    count = max(cycles, sum(found.bins.values()) + found.beyond)
    share = 100 * found.beyond / count
    text = f"{found.beyond:.0f} of {count:.0f} wake-ups ({share:.2g} %) lie beyond the histogram"
    return {"beyond_histogram": text}


def _of_gaps(passes: Sequence[float]) -> dict[str, str]:
    """Return what to say of the gaps that are counted; ``passes``: of each CPU the usual bucket."""
    named = [f"{late:g}" for late in sorted(set(passes))]
    if len(named) > 4:
        named = [named[0], "…", named[-1]]
    return {
        "interruptions": "'interruptions' is calculated: gaps in the buckets above that of"
        f" {', '.join(named)} µs (the usual pass of the loop) by the duration, a CPU"
    }


def quantile(seen: Mapping[float, float], count: float, longest: float, share: float) -> float:
    """Return the latency that ``share`` of ``count`` wake-ups stay below, never 0; ``longest``: of the rest.

    The bar of n holds what took n to n + 1 (µs or ns), since cyclictest cuts off the rest, and is
    taken for even.
    """
    wanted = count * share
    for late in sorted(seen):
        if seen[late] and wanted <= seen[late]:
            return late + wanted / seen[late]
        wanted -= seen[late]
    return longest


def _maxima(longest: Mapping[str, float]) -> list[base.Reading]:
    """Return the longest latency of each CPU or thread; of many the worst ones."""
    names = list(longest)
    if len(names) > _MOST_SHOWN:
        names = sorted(longest, key=lambda name: -longest[name])[:_NOISIEST]
    return [base.Reading(f"latency_max_{name}", "µs", "lower", longest[name]) for name in names]
