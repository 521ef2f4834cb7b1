# SPDX-License-Identifier: Apache-2.0
"""CPU speed and OLTP on MariaDB with sysbench, and a TPC-C mix of this project's own."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted

_SCRIPT: Final = "nova-perf-database"
_KINDS: Final = ("new_order", "payment", "order_status", "delivery", "stock_level")
_THREAD = re.compile(
    r"^tpcc thread ([0-9]{1,5}): "
    + " ".join(f"{name}=([0-9]{{1,12}})" for name in (*_KINDS, "rolled_back", "retried"))
    + r"[ \t]*$",
    re.M,
)
_CONDITION = re.compile(r"^tpcc condition ([0-9]{1,2}): ([0-9]{1,12}) violations[ \t]*$", re.M)
#: Clause 3.3.2 of the specification; 11 holds for a fresh load only.
CONDITIONS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)
#: A line's end: a number at the end of a text may be cut off.
END: Final = rf"{pasted.REMARK}[ \t]*(?=\n)"
#: A count, which has no decimal places: 9.083 events are 9,083 with a sign between thousands.
_WHOLE: Final = rf"([0-9]{{1,15}}){END}"
#: Of a line such as "transactions:    1234   (56.78 per sec.)".
_COUNT: Final = r"([0-9]{1,15})[ \t]+\("
_PER_SECOND: Final = rf"[0-9]{{1,15}}[ \t]+\({base.NUMBER} per sec\.\)"
#: A percentile of the latencies.
_PERCENTILE: Final = re.compile(
    rf"^[ \t]*(?:approx\.[ \t]+)?([0-9]{{1,3}})(?:st|[nr]d|th)? percentile:[ \t]*{base.NUMBER}(?:m?s)?{END}",
    re.M,
)
_IN_SECONDS: Final = re.compile(rf"^[ \t]*avg:[ \t]*{base.NUMBER}s{END}", re.M)
_OLD_REQUESTS: Final = r"^[ \t]*read/write requests:[ \t]+[0-9]"
_TARGET: Final = re.compile(r"^[ \t]*Target transaction rate: ([0-9]{1,12})", re.M)
#: A run that comes so near to a rate was held back by it.
_REACHED: Final = 0.95
#: Where sysbench's histogram of latencies ends: longer ones are printed as that.
_HISTOGRAM_MS: Final = 100_000.0
#: sysbench prints latencies with two decimals.
_ROUNDING_MS: Final = 0.01
#: Loading a row takes an emulated guest about a millisecond.
_LOAD_ROW_S: Final = 2e-3


VERSION: Final = r"^[ \t]*sysbench ([0-9]\.[0-9A-Za-z.-]{1,20})"
COMMON: Final = (
    ("threads", r"^[ \t]*Number of threads:[ \t]*([0-9]{1,6})"),
    ("threads", r"^\[ [0-9]{1,9}s \] thds: ([0-9]{1,6}) "),
)


def _command(text: str) -> list[str]:
    """Return the words of the last command line that runs sysbench; none where there is none."""
    for line in reversed(text.split("\n")):
        if "sysbench" in line:
            words = pasted.command(line, "sysbench")
            if "run" in words:
                return words
    return []


class Sysbench(base.Benchmark):
    """A benchmark whose output is sysbench's.

    :cvar options: name in the workload -> pattern of a line with it.
    :cvar chosen: name in the workload -> options of the command line.
    :cvar needed: names in the workload without which figures do not compare.
    :cvar reads_old: whether reports of sysbench 0.4 and 0.5 are read, too.
    """

    options: ClassVar[Sequence[tuple[str, str]]] = ()
    tool = "sysbench"
    chosen: ClassVar[Sequence[tuple[str, Sequence[str]]]] = ()
    needed: ClassVar[Sequence[str]] = ()
    reads_old: ClassVar[bool] = False

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        return {"threads": self.values(given).text("threads")}

    def check_output(self, text: str) -> None:
        """Refuse the output of a run that died and that of a version before 1.0, whose report has other lines."""
        self.check_length(text)
        if fatal := re.search(r"^[ \t]*FATAL: .*$", text, re.MULTILINE):
            raise self.failed(f"sysbench ended with '{one_line(fatal[0].strip(), 200)}'")
        old = re.search(r"^[ \t]*sysbench (0\.[0-9.]{1,9})", text, re.MULTILINE)
        if old and not self.reads_old:
            raise self.fault(
                f"the output of sysbench {old[1].rstrip('.')} is not read; use 1.0 or later"
            )
        reports = len(re.findall(r"^[ \t]*total number of events:", text, re.MULTILINE))
        if reports > 1:
            raise self.fault(f"the text has {reports} reports of sysbench; keep one")

    def readings(self, status: int, output: str, errors: str) -> list[base.Reading]:
        """Return the figures of a run; OutputError: it was held to a rate (--rate), or it failed."""
        if status == 0:
            self.checked_figures(output)
            said = self._held(output)
            if said:
                raise self.fault(said)
        return super().readings(status, output, errors)

    def without_speed(self, text: str, readings: list[base.Reading]) -> list[base.Reading]:
        """Return the figures of a report that say something: of a run that was held to a rate no speed does."""
        said = self._held(text)
        if not said:
            return readings
        others = [reading for reading in readings if not reading.unit.endswith("/s")]
        if not others:
            raise self.fault(said)
        return others

    def _held(self, text: str) -> str:
        """Return what to say of a run that came to the rate that was set (--rate); empty: none was."""
        asked, done = self._rates(text)
        if not asked or done < _REACHED * asked:
            return ""
        return (
            f"the run was held to {asked:g} a second (--rate), and did {done:.5g}:"
            " it shows no speed"
        )

    def _rates(self, text: str) -> tuple[float, float]:
        """Return the events a second that were asked for and done; 0 and 0: no rate was set."""
        target = _TARGET.search(text)
        if target is None:
            return 0.0, 0.0
        events = self.figure(text, "total number of events", _WHOLE)
        return float(target[1]), events / max(self.seconds(text), 1e-9)

    def figure(self, text: str, name: str, form: str = rf"{base.NUMBER}(?:m?s)?{END}") -> float:
        """Return the figure of the one line ``name: FORM``; ``form`` is a pattern with one group."""
        return self.labelled(text, rf"^[ \t]*{name}:[ \t]*{form}", name)

    def has_time(self, text: str) -> bool:
        """Return whether a report says how long its run was."""
        return True

    def seconds(self, text: str) -> float:
        """Return the length of the run; sysbench 1.1 gives it another name than 1.0."""
        form = rf"^[ \t]*(?:total time|time elapsed):[ \t]*{base.NUMBER}s{END}"
        return self.labelled(text, form, "total time")

    def latencies(self, text: str) -> list[base.Reading]:
        """Return mean and percentile in milliseconds, under the name of the percentile; none where none was taken.

        What sysbench cannot show is left out, with a remark: latencies that it rounds to 0, and a
        percentile at the end of its histogram.
        """
        mean, tails, most = self._times(text)
        readings = []
        if mean > 0:
            readings.append(base.Reading("latency_mean", "ms", "lower", mean))
        for share, value in tails.items():
            if value < _HISTOGRAM_MS:
                readings.append(base.Reading(base.percentile_name(share), "ms", "lower", value))
        if most > 0:
            readings.append(base.Reading("latency_max", "ms", "lower", most))
        return readings

    def remarks(self, text: str) -> Mapping[str, str]:
        mean, tails, _most = self._times(text)
        remarks = {}
        asked, done = self._rates(text)
        held = self._held(text)
        if held:
            remarks["held_to_a_rate"] = held
        elif asked:
            remarks["rate_not_reached"] = (
                f"a rate of {asked:g} events a second was set (--rate), and the run did {done:.5g}"
            )
        if mean == 0:
            remarks["latency_too_short"] = (
                "latencies below 0.005 ms are left out: sysbench prints 0.00"
            )
        for share, value in tails.items():
            if value >= _HISTOGRAM_MS:
                remarks["latency_beyond_histogram"] = (
                    f"the {share:g}th percentile is left out: sysbench's histogram ends at {_HISTOGRAM_MS:g} ms"
                )
        return remarks

    def report(self, output: str) -> base.BenchmarkReport:
        report = base.BenchmarkReport(self.parse(output), remarks=dict(self.remarks(output)))
        report.workload = self.workload(output)
        report.left_out = [
            "single reports, counts of operations and queries, the least latency and the sum,"
            " the threads' shares"
        ]
        if "held_to_a_rate" in report.remarks:
            report.left_out.append(
                f"'{self.primary[0]}' and all figures a second: the run was held to a rate (--rate)"
            )
        absent = [
            name for name in ("version", "threads", *self.needed) if name not in report.workload
        ]
        if absent:
            report.left_out.append(f"{', '.join(absent)}: the lines of the head are missing")
        return report

    def workload(self, text: str) -> dict[str, str]:
        """Return what the run was: its version, threads, options and length."""
        workload = {}
        lines = [("version", VERSION)]
        lines += COMMON
        lines += self.options
        for name, pattern in lines:
            found = re.search(pattern, text, re.MULTILINE)
            if found:
                workload[name] = one_line(found[1], 60)
        words = _command(text)
        chosen: list[tuple[str, Sequence[str]]] = [("threads", ("--threads", "--num-threads"))]
        chosen += self.chosen
        for name, options in chosen:
            value = pasted.option(words, *options)
            if value is not None:
                workload.setdefault(name, one_line(value, 60))
        if self.has_time(text):
            workload["seconds"] = f"{self.seconds(text):g}"
        return workload

    def transactions(self, text: str) -> list[base.Reading]:
        """Return the figures of a run whatever its statements are."""
        count, rate = (self.figure(text, "transactions", form) for form in (_COUNT, _PER_SECOND))
        if count == 0:
            raise self.fault("no transaction was finished; give it more seconds")
        if re.search(_OLD_REQUESTS, text, re.MULTILINE):
            return self._old_transactions(text, rate)
        failed, lost = (
            self.figure(text, name, _COUNT) for name in ("ignored errors", "reconnects")
        )
        if lost or failed > count / 10:
            raise self.fault(
                f"{failed:g} errors and {count:g} transactions, {lost:g} connections lost"
            )
        readings = [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading(
                "queries_per_second", "1/s", "higher", self.figure(text, "queries", _PER_SECOND)
            ),
            base.Reading("errors", "transactions", "lower", failed),
            *self.latencies(text),
        ]
        return self.without_speed(text, readings)

    def _old_transactions(self, text: str, rate: float) -> list[base.Reading]:
        """Return the figures of sysbench 0.4 and 0.5, which count requests instead of queries."""
        requests = self.figure(text, "read/write requests", _PER_SECOND)
        others = self.figure(text, "other operations", _PER_SECOND)
        deadlocks = self.labelled(
            text, rf"^[ \t]*(?:deadlocks|ignored errors):[ \t]*{_COUNT}", "deadlocks"
        )
        readings = [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("requests_per_second", "1/s", "higher", requests),
            base.Reading("other_operations_per_second", "1/s", "higher", others),
            base.Reading("errors", "transactions", "lower", deadlocks),
            *self.latencies(text),
        ]
        return self.without_speed(text, readings)

    def _times(self, text: str) -> tuple[float, dict[float, float], float]:
        """Return the mean latency, the percentiles, none with ``--percentile=0``, and the maximum."""
        mean = self.figure(text, "avg")
        factor = 1.0
        if _IN_SECONDS.search(text):
            factor = 1000.0  # sysbench before 0.4.9 prints seconds
        tails = {}
        for share, value in _PERCENTILE.findall(text):
            if float(value) > 0:
                tails[float(share)] = float(value) * factor
        if not _PERCENTILE.search(text):
            self.figure(text, "sum")  # what follows the maximum, where there is no percentile
        least, most = self.figure(text, "min") * factor, self.figure(text, "max") * factor
        mean *= factor
        self.check_latencies(tails, mean, least, most, _ROUNDING_MS)
        return mean, tails, most


class Cpu(Sysbench):
    """``sysbench cpu``: how often per second all primes up to a limit are found by trial division.

    One event is one such search: integer division and square roots in registers, hardly any
    memory.
    """

    kind = "cpu"
    summary = "CPU: prime searches per second (sysbench cpu)"
    packages = ("sysbench",)
    programs = ("sysbench",)
    form = "sysbench cpu run"
    primary = ("events_per_second", "events/s", "higher")
    parameters = (
        base.SECONDS,
        base.Integer("threads", "1", "threads", 1, 1024),
        base.Integer(
            "limit",
            "10000",
            "largest number tried, which is the size of one event",
            100,
            1_000_000,
        ),
    )
    work_metric = "events"
    work_unit = "1,000 events"
    marks = r"^[ \t]*(?:Prime numbers limit:|Maximum prime number|CPU speed:)"
    options = (
        (
            "largest number",
            r"^[ \t]*(?:Prime numbers limit|Maximum prime number checked in CPU test):[ \t]*"
            r"([0-9]{1,12})",
        ),
    )
    chosen = (("largest number", ("--cpu-max-prime",)),)
    needed = ("largest number",)
    reads_old = True

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        argv = (
            "sysbench",
            "cpu",
            f"--threads={values['threads']}",
            f"--time={values['seconds']}",
            "--events=0",
        )
        limit_s = values.number("seconds") + base.MARGIN_S
        return (
            base.Step((*argv, f"--cpu-max-prime={values['limit']}", "run"), "client", limit_s),
        )

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        return {**super().asked(given), "largest number": self.values(given).text("limit")}

    def parse(self, text: str) -> list[base.Reading]:
        self.check_output(text)
        if not self.printed(text):
            raise self.fault(
                f"the output is cut off or foreign: 0 lines 'CPU speed'{self.wanted_form()}"
            )
        events = self.figure(text, "total number of events", _WHOLE)
        if self._has_rate(text):
            rate = self.figure(text, "events per second")
        else:
            rate = events / max(self.seconds(text), 1e-9)
        if rate == 0 or events == 0 or self.seconds(text) == 0:
            raise self.fault("no event was finished; give it more seconds or a lower limit")
        readings = [
            base.Reading(*self.primary, rate, primary=True),
            *self.latencies(text),
            base.Reading("events", self.work_unit, "higher", events / 1e3),
        ]
        return self.without_speed(text, readings)

    def _has_rate(self, text: str) -> bool:
        """Return whether the report has the rate, which sysbench 1.0.7 and before do not print."""
        return re.search(r"^[ \t]*CPU speed:", text, re.MULTILINE) is not None

    def remarks(self, text: str) -> Mapping[str, str]:
        remarks = dict(super().remarks(text))
        if not self._has_rate(text):
            remarks["rate_computed"] = (
                "this sysbench prints no rate: 'events_per_second' is the number of events by the"
                " total time"
            )
        return remarks

    def span(self, text: str) -> base.Span:
        return base.Span(self.seconds(text))


class _Database(Sysbench):
    """A benchmark of nova-perf-database: a MariaDB server for this run alone, on a socket in its directory."""

    packages = ("mariadb-server", "sysbench")
    programs = (_SCRIPT, "mariadbd", "sysbench")
    image_variant = "full"

    def memory_mib(self, given: Mapping[str, str]) -> int:
        return 256


class Oltp(_Database):
    """sysbench's ``oltp_read_write``: 18 statements per transaction, with commits that reach the disk.

    The server starts and ends within each run (its data stay), so its CPU is not divided by
    transactions.
    """

    kind = "oltp"
    summary = "database transactions per second: sysbench oltp_read_write on MariaDB"
    form = "sysbench oltp_read_write run"
    marks = r"^[ \t]*(?:SQL|OLTP test) statistics:"
    reads_old = True
    options = (
        ("test", r"^[ \t]*Running (.{1,30}) OLTP test"),
        ("mode", rf"^[ \t]*Doing (.{{1,30}}?) test{pasted.REMARK}$"),
        ("distribution", r"^[ \t]*Using (.{1,30}) distribution"),
        ("skips", rf"^[ \t]*Skipping (.{{1,30}}?){pasted.REMARK}$"),
        ("reads", r"^[ \t]*read:[ \t]*([0-9]{1,15})"),
        ("writes", r"^[ \t]*write:[ \t]*([0-9]{1,15})"),
    )
    primary = ("transactions_per_second", "1/s", "higher")
    parameters = (
        base.SECONDS,
        base.Integer("threads", "3", "connections", 1, 1000),
        base.Integer("tables", "2", "tables", 1, 1000),
        base.Integer(
            "rows",
            "10000",
            "rows per table; loaded by the first run on a machine",
            100,
            100_000_000,
        ),
    )

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, threads, tables, rows = values.numbers("seconds", "threads", "tables", "rows")
        argv = (_SCRIPT, "oltp", str(seconds), str(threads), str(tables), str(rows))
        return (
            base.Step(argv, "client", seconds + 3 * base.MARGIN_S + tables * rows * _LOAD_ROW_S),
        )

    def parse(self, text: str) -> list[base.Reading]:
        self.check_output(text)
        if "tpcc thread" in text:
            raise self.fault("this is the output of the benchmark tpcc")
        readings = self.transactions(text)
        for way in ("read", "write"):
            if self.figure(text, way) == 0:
                raise self.fault(f"the run has no statement of '{way}': it is not oltp_read_write")
        return readings


class Tpcc(_Database):
    """The five transactions of TPC-C in their mix, New-Orders per minute, by this project's own driver.

    Written from the specification (revision 5.11): tables, population, transactions, the mix as a
    deck of cards; but without terminals and think times. The figure compares machines and is no
    TPC result. ``scale=1`` has the specified number of rows (about 100 MB per warehouse, minutes
    to load); the default has a tenth. As published:
    ``warehouses=2,threads=3,scale=1,seconds=1800``.
    """

    kind = "tpcc"
    summary = "TPC-C mix on MariaDB: New-Orders per minute, consistency checked"
    form = "nova-perf-database tpcc"
    marks = r"^[ \t]*tpcc (?:thread|condition) [0-9]"
    primary = ("tpmc", "1/min", "higher")
    parameters = (
        base.Integer("seconds", "10", "length of the run", 1, 86_400),
        base.Integer("threads", "3", "connections", 1, 1000),
        base.Integer(
            "warehouses", "1", "warehouses; loaded by the first run on a machine", 1, 1000
        ),
        base.Integer(
            "scale", "10", "divisor of the rows of items, stock, customers and orders", 1, 100
        ),
    )

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        seconds, threads, warehouses, scale = values.numbers(
            "seconds", "threads", "warehouses", "scale"
        )
        argv = (_SCRIPT, "tpcc", str(seconds), str(threads), str(warehouses), str(scale))
        rows = 600_000 * warehouses / scale
        return (base.Step(argv, "client", seconds + 4 * base.MARGIN_S + rows * _LOAD_ROW_S),)

    def parse(self, text: str) -> list[base.Reading]:
        self.check_output(text)
        seconds, threads = self.seconds(text), self.figure(text, "Number of threads")
        by_thread = _THREAD.findall(text)
        numbers = {number for number, *_counts in by_thread}
        violations = {int(number): int(count) for number, count in _CONDITION.findall(text)}
        if tuple(sorted(violations)) != CONDITIONS:
            raise self.fault(
                f"the consistency check is cut off: {len(violations)} of {len(CONDITIONS)}"
            )
        for number in CONDITIONS:
            if violations[number]:
                raise self.fault(
                    f"consistency condition {number} of TPC-C is violated {violations[number]} times"
                )
        if len(by_thread) != threads or len(numbers) != threads:
            raise self.fault(f"{len(by_thread)} of {threads:g} threads printed what they did")
        counts = []
        for column in range(1, len(by_thread[0])):
            counts.append(sum(int(row[column]) for row in by_thread))
        done, rolled_back, retried = counts[:-2], counts[-2], counts[-1]
        if done[0] == 0 or seconds == 0:
            raise self.fault("no New-Order was finished; give it more seconds")
        return [
            base.Reading(*self.primary, done[0] * 60 / seconds, primary=True),
            base.Reading("transactions_per_minute", "1/min", "higher", sum(done) * 60 / seconds),
            *self.latencies(text),
            base.Reading("rolled_back", "transactions", "lower", float(rolled_back)),
            base.Reading("retried", "transactions", "lower", float(retried)),
        ]
