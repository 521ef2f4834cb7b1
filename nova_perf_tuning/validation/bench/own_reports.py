# SPDX-License-Identifier: Apache-2.0
"""Reports of programs that this project has counterparts of: himenobmtxp, tpcc-mysql, dd, rtla."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted

_MFLOPS: Final = re.compile(
    rf"^MFLOPS(?: measured)?[ ]*:[ ]*{base.NUMBER}(?:[ ]+(?:cpu|time\(s\))[ ]*:[ ]*{base.NUMBER}\b.*)?$"
)
#: Of the older programs, which print the time in a line of its own before the loops.
_CPU: Final = re.compile(rf"^cpu[ ]*:[ ]*{base.NUMBER} sec\.$")
_LOOPS: Final = re.compile(r"^Loop executed for[ ]+([0-9]{1,9})[ ]+times")
_SCORE: Final = re.compile(rf"^Score based on (.{{1,60}}?)[ ]*:[ ]*{base.NUMBER}$")
_GRID: Final = re.compile(
    r"^mimax[ ]*=[ ]*([0-9]{1,5})[ ]+mjmax[ ]*=[ ]*([0-9]{1,5})[ ]+mkmax[ ]*=[ ]*([0-9]{1,5})"
)
#: Of the programs with MPI: the grid of one process follows the second, how many there are the third.
_WHOLE: Final = re.compile(r"^Sequential version array size")
_PART: Final = re.compile(r"^Parallel version array size")
_PROCESSES: Final = re.compile(
    r"^I-decomp[ ]*=[ ]*([0-9]{1,5})[ ]+J-decomp[ ]*=[ ]*([0-9]{1,5})[ ]+K-decomp[ ]*=[ ]*([0-9]{1,5})"
)
_NODES: Final = re.compile(r"^([0-9]{1,5}) nodes? used\.?$")
#: A command that runs one of the programs, behind a prompt.
_HIMENO: Final = re.compile(
    r"^(?:.{0,80}[#$%>][ ]+)?((?:[\w./=-]{1,60}[ ]){0,12}?(?:[\w./-]{0,60}/)?(?:himeno\w{0,20}|bmt)(?:[ ].{0,80})?)$"
)
_BEGIN: Final = re.compile(r"^(?:mimax[ ]*=|Start rehearsal measurement process)")
#: MFLOPS of the machine that the score compares with: a score is the quotient.
_PENTIUM_III: Final = (80.0, 85.0)

_LOAD_GENERATOR: Final = re.compile(r"^\*+ ###easy### TPC-C Load Generator")
_RAW: Final = re.compile(
    r"^\[([0-4])\] sc:([0-9]{1,12})[ ]+lt:([0-9]{1,12})[ ]+rt:([0-9]{1,12})[ ]+fl:([0-9]{1,12})"
    rf"(?: avg_rt: (?:{base.NUMBER}|-?nan) \([0-9]{{1,6}}\))?$"
)
#: What only the rows of the first list of raw results have.
_MEAN_TIME: Final = " avg_rt: "
_TPMC: Final = re.compile(rf"^{base.NUMBER} TpmC{pasted.REMARK}$")
_MEASURED: Final = re.compile(r"^\[measure\]:[ ]*([0-9]{1,9})\b")
_TOOK: Final = re.compile(r"^in ([0-9]{1,9}) sec\.$")
_CONSTRAINT: Final = re.compile(
    r"^([A-Z][A-Za-z-]{2,20}): ([0-9.]{1,10}|-?nan)%([ ]+\(.{1,12}\))?[ ]+\[(OK|NG)\]"
)
_INTERVAL: Final = re.compile(
    rf"^([0-9]{{1,9}}), trx: ([0-9]{{1,12}}), 95%: {base.NUMBER}, 99%: {base.NUMBER}, max_rt: {base.NUMBER},"
)
_TRANSACTIONS: Final = ("new_order", "payment", "order_status", "delivery", "stock_level")

#: In any language: "524288000 octets (524 MB, 500 MiB) copiés, 1,24566 s, 421 MB/s".
_COPIED: Final = re.compile(
    r"^([0-9]{1,18})[ ]?[^\W0-9_]\w{0,19}(?:[ ]?\([^()]{1,40}\))?[ ]?[^,()0-9]{2,40},"
    r"[ ]+([0-9.,e+-]{1,20})[ ]+\w{1,12}\.?[ ]*,[ ]*([0-9.,]{1,12})[ ]?([kKMGT]?)(i?)B/[ ]?s$"
)
#: Of BSD: "1073741824 bytes transferred in 0.585 secs (1835008922 bytes/sec)".
_TRANSFERRED: Final = re.compile(
    r"^([0-9]{1,18}) bytes transferred in ([0-9.]{1,20}) (?:secs?|seconds) \(([0-9]{1,18}) bytes/sec\)$"
)
_RECORDS: Final = re.compile(r"^[^0-9+]{0,10}([0-9]{1,12})\+([0-9]{1,12})[ ]\S")
#: What dd says of a run that it did not end.
_DD_SAID: Final = re.compile(r"^(?:[\w./-]{0,60}/)?dd: .{1,200}$")
_DD_WARNING: Final = re.compile(r"^(?:[\w./-]{0,60}/)?dd: (?:warning|Warnung|attention)\b")
#: A size as bs= has it; suffixes of two letters count in thousands.
_DD_SIZE: Final = re.compile(r"([0-9]{1,12})(c|w|b|[kKmMgG](?:iB|B)?)?")
_DD_SUFFIXES: Final = {"": 1.0, "c": 1.0, "w": 2.0, "b": 512.0}
#: Operands of dd -> their values with which the time is that of the disk.
_FLUSHING: Final = {
    "conv": {"fsync", "fdatasync"},
    "iflag": {"direct"},
    "oflag": {"direct", "sync", "dsync"},
}
#: Chinese and Japanese texts: wide signs, and the unit of a second.
_WIDE: Final = str.maketrans({"（": " (", "）": ")", "，": ", ", "、": ", ", "秒": " s "})
#: Their letters.
_LETTERS: Final = "[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
#: Programs of rt-tests beside cyclictest and oslat.
_OTHERS: Final = (
    "ptsematest|svsematest|sigwaittest|signaltest|pmqtest|pip_stress|pi_stress|rt-migrate-test"
    "|hackbench|cyclicdeadline|deadline_test|ssdd|queuelat|get_cyclictest_snapshot"
)
_OTHER: Final = re.compile(
    rf"(?:\"cmdline:?\"[ ]*:[ ]*\"(?:\S{{0,80}}/)?|^[ \t]*(?:.{{0,80}}[#$%>][ ])?(?:sudo )?)({_OTHERS})(?=[ ]-)",
    re.M,
)
_PAIR: Final = r"^[ \t]*#[0-9]{1,4} -> #[0-9]{1,4}, Min\b"
#: Tool of rtla -> words of its output or its command; the last that is found counts.
_RTLA_NAMES: Final = {
    "osnoise": "osnoise",
    "timerlat": "timerlat",
    "hwnoise": "hwnoise",
    "osnoise top": "Operating System Noise",
    "timerlat top": "Timer Latency",
}
_RTLA: Final = (
    r"^[ \t]*(?:.{0,80}\brtla[ ]+(?:osnoise|timerlat|hwnoise)\b|Operating System Noise$"
    r"|Timer Latency[ \t]*$|RTLA timerlat|# RTLA (?:osnoise|timerlat))"
)


class Himenobmtxp(base.ForeignTool):
    """The Himeno benchmark's own programs; their figures are no other build's."""

    kind = "himenobmtxp"
    summary = "MFLOPS of the Himeno benchmark's own programs"
    primary = ("mflops", "MFLOPS", "higher")
    form = "himenobmtxp SIZE"
    marks = r"^[ \t]*(?:MFLOPS measured[ ]*:|Start rehearsal measurement process|Score based on .{1,60}:)"

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        lines = pasted.lines_of(output)
        starts = [at for at, line in enumerate(lines) if _LOOPS.match(line)]
        if not starts:
            raise self.fault(
                f"the output is cut off or foreign: no line 'Loop executed'{self.wanted_form()}"
            )
        self.check_runs(len(starts), "runs of himenobmtxp")
        shown = base.BenchmarkReport()
        ends = [*starts[1:], len(lines)]
        # What stands before the loops of a run holds for it and those after it.
        facts: dict[str, str] = {}
        before = 0
        for number, (begin, end) in enumerate(zip(starts, ends, strict=True), start=1):
            facts.pop("command", None)
            facts.update(_before_loops(lines[before:begin]))
            before = begin
            prefix = ""
            if len(starts) > 1:
                prefix = f"run{number}_"
            self._add_run(shown, lines[begin:end], prefix, facts.get("seconds", ""))
            for fact in ("grid", "processes", "command"):
                if fact in facts:
                    shown.workload[f"{prefix}{fact}"] = facts[fact]
        if any(_BEGIN.match(line) for line in lines[before:]):
            raise self.fault("the output is cut off: its last run has no line 'Loop executed'")
        if len(starts) > 1:
            shown.remarks["several_runs"] = (
                f"the text has {len(starts)} runs: none of them is judged"
            )
        shown.left_out.append("the rehearsal, the score and the residual (Gosa)")
        return shown

    def _add_run(
        self, shown: base.BenchmarkReport, lines: Sequence[str], prefix: str, seconds: str
    ) -> None:
        """Add the figures of one run.

        :param lines: those from its loops on; :param seconds: of a line before them, or empty.
        """
        found = score = None
        if len([line for line in lines if _SCORE.match(line)]) > 1:
            raise self.fault("the output is cut off: a run has no line 'Loop executed'")
        for line in lines:
            found = found or _MFLOPS.match(line)
            score = score or _SCORE.match(line)
        if found is None or score is None:
            raise self.fault("the output is cut off: a run has no line 'Score based on'")
        rate = float(found[1])
        seconds = found[2] or seconds
        if rate == 0:
            raise self.fault("a run has 0 MFLOPS")
        low, high = _PENTIUM_III
        if "Pentium III" in score[1] and not low < rate / max(float(score[2]), 1e-9) < high:
            raise self.fault(f"{rate:g} MFLOPS contradict the score {score[2]}")
        shown.readings.append(
            base.Reading(f"{prefix}mflops", "MFLOPS", "higher", rate, primary=not prefix)
        )
        loops = _LOOPS.match(lines[0])
        if loops:
            shown.workload[f"{prefix}loops"] = loops[1]
        if seconds:
            shown.workload[f"{prefix}seconds"] = f"{float(seconds):g}"


def _before_loops(lines: Sequence[str]) -> dict[str, str]:
    """Return what the lines before the loops of a run say of it."""
    facts: dict[str, str] = {}
    of_a_part = False
    for line in lines:
        if _PART.match(line) or _WHOLE.match(line):
            of_a_part = _PART.match(line) is not None
        time, grid, command = _CPU.match(line), _GRID.match(line), None
        if "himeno" in line or "bmt" in line:
            command = _HIMENO.match(pasted.without_remark(line[:300]))
        processes, nodes = _PROCESSES.match(line), _NODES.match(line)
        if time:
            facts["seconds"] = time[1]
        if grid and not of_a_part:
            facts["grid"] = " x ".join(grid.groups())
        if processes:
            facts["processes"] = " x ".join(processes.groups())
        if nodes:
            facts["processes"] = nodes[1]
        if command:
            facts["command"] = one_line(command[1], 120)
    return facts


class TpccMysql(base.ForeignTool):
    """tpcc-mysql's report; its own rule is that all constraints must be OK."""

    kind = "tpcc_mysql"
    summary = "New-Orders per minute as tpcc-mysql prints them"
    primary = ("tpmc", "1/min", "higher")
    form = "tpcc_start"
    marks = r"^[ \t]*(?:\*+ ###easy### TPC-C Load Generator|<TpmC>|<Constraint Check>)"

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        runs = _tpcc_runs(pasted.lines_of(output))
        if not runs:
            raise self._no_rate(output)
        if len(runs) == 1:
            return self._report_run(runs[0])
        self.check_runs(len(runs), "runs of tpcc-mysql")
        found: dict[str, base.BenchmarkReport] = {}
        refusals: dict[str, base.BenchmarkOutputError] = {}
        for number, run in enumerate(runs, start=1):
            try:
                found[f"run{number}"] = self._report_run(run)
            except base.BenchmarkOutputError as error:
                refusals[f"run{number}"] = error
        if not found:
            raise next(iter(refusals.values()))
        shown = base.several(found)
        for name, refusal in refusals.items():
            shown.left_out.append(f"{name}: {refusal}")
        shown.remarks["several_runs"] = f"the text has {len(runs)} runs: none of them is judged"
        return shown

    def _no_rate(self, output: str) -> base.BenchmarkOutputError:
        """Return why an output without a rate is not read: it is cut off, or another program's."""
        lines = pasted.lines_of(output)
        for own in (_LOAD_GENERATOR, _RAW, _INTERVAL, _CONSTRAINT):
            if any(own.match(line) for line in lines):
                return self.fault(
                    f"the output is cut off: it has no line 'TpmC'{self.wanted_form()}"
                )
        return self.fault(
            "it is not a form of tpcc-mysql's report that is read: it has no lines of raw results"
            f" ('[0] sc:… lt:… rt:… fl:…') and no line 'TpmC'{self.wanted_form()}"
        )

    def _report_run(self, lines: Sequence[str]) -> base.BenchmarkReport:
        """Return the figures of one run."""
        rates = [found for found in map(_TPMC.match, lines) if found is not None]
        if not rates:
            raise self.fault("the run is cut off: it has no line 'TpmC'")
        rate = float(rates[0][1])
        raw = [found for found in map(_RAW.match, lines) if found is not None]
        # The second list of raw results has no latencies.
        rows = {found[1]: found for found in raw if _MEAN_TIME in found[0]}
        rows = rows or {found[1]: found for found in raw}
        if rate == 0 or "0" not in rows:
            raise self.fault("no New-Order was finished, or the raw results are cut off")
        shown = base.BenchmarkReport([base.Reading(*self.primary, rate, primary=True)])
        seconds = self._seconds(lines)
        self._check_rate(rows["0"], rate, seconds)
        self._add_rows(shown, rows)
        finished = float(rows["0"][2]) + float(rows["0"][3])
        self._add_tails(shown, lines, finished, seconds)
        self._add_constraints(shown, lines)
        shown.left_out.append(
            "single intervals, transactions in time and late, retries, percentiles of the other"
            " transactions"
        )
        if _MEAN_TIME not in rows["0"][0]:
            shown.left_out.append("mean latencies: the lines of <Raw Results> are missing")
        self._add_workload(shown, lines, seconds)
        return shown

    def _add_rows(self, shown: base.BenchmarkReport, rows: Mapping[str, re.Match[str]]) -> None:
        """Add the mean latencies of the raw results, and how many transactions of all kinds failed.

        :param rows: number of a kind of transaction -> its row.
        """
        for at, name in enumerate(_TRANSACTIONS):
            row = rows.get(str(at))
            if row is not None and row[6]:
                metric = f"{name}_latency_mean"
                shown.readings.append(base.Reading(metric, "ms", "lower", float(row[6])))
            elif row is not None and _MEAN_TIME in row[0]:
                shown.left_out.append(f"mean latency of {name}: none was finished")
        if len(rows) < len(_TRANSACTIONS):
            shown.left_out.append(
                f"transactions that failed: the raw results have {len(rows)} of"
                f" {len(_TRANSACTIONS)} rows"
            )
            return
        failed = sum(float(row[5]) for row in rows.values())
        shown.readings.append(base.Reading("failed", "transactions", "lower", failed))
        shown.remarks["failed_computed"] = (
            "'failed' is calculated: those of all five kinds of transactions together"
        )

    def _add_workload(
        self, shown: base.BenchmarkReport, lines: Sequence[str], seconds: float | None
    ) -> None:
        """Add what the head says of a run, or that it is missing."""
        for option, name in (
            ("warehouse", "warehouses"),
            ("connection", "connections"),
            ("rampup", "ramp-up in seconds"),
            ("measure", "seconds"),
        ):
            chosen = re.search(rf"\[{option}\]:[ ]*([0-9]{{1,9}})", "\n".join(lines))
            if chosen:
                shown.workload[name] = chosen[1]
        if seconds is not None:
            shown.workload.setdefault("seconds", f"{seconds:g}")
        absent = [name for name in ("warehouses", "connections") if name not in shown.workload]
        if absent:
            shown.left_out.append(f"{', '.join(absent)}: the lines of the head are missing")

    def _seconds(self, lines: Sequence[str]) -> float | None:
        for pattern in (_MEASURED, _TOOK):
            found = [float(line[1]) for line in map(pattern.match, lines) if line is not None]
            if len(found) == 1:
                return found[0]
        return None

    def _check_rate(self, row: re.Match[str], rate: float, seconds: float | None) -> None:
        """Refuse a rate that is not that of the New-Orders counted, in time and late."""
        if not seconds:
            return
        counted = (float(row[2]) + float(row[3])) * 60 / seconds
        if abs(counted - rate) > 0.01 * rate + 1:
            raise self.fault(f"{rate:g} TpmC contradict the raw results ({counted:g})")

    def _add_tails(
        self,
        shown: base.BenchmarkReport,
        lines: Sequence[str],
        finished: float,
        seconds: float | None,
    ) -> None:
        """Add the percentiles of New-Order where one interval is the whole run, with all that it finished."""
        rows = [found for found in map(_INTERVAL.match, lines) if found is not None]
        whole = len(rows) == 1 and seconds is not None and float(rows[0][1]) == seconds
        if not whole or float(rows[0][2]) < 0.9 * finished:
            shown.left_out.append("percentiles and maximum: they are printed of single intervals")
            return
        [row] = rows
        for name, value in (("p95", row[3]), ("p99", row[4]), ("max", row[5])):
            metric = f"new_order_latency_{name}"
            shown.readings.append(base.Reading(metric, "ms", "lower", float(value)))

    def _add_constraints(self, shown: base.BenchmarkReport, lines: Sequence[str]) -> None:
        found = [row for row in map(_CONSTRAINT.match, lines) if row is not None]
        failed = [row for row in found if row[4] == "NG"]
        shares = [f"{row[1]} {row[2]} %" for row in failed if row[3]]
        in_time = [f"{row[1]} {row[2]} %" for row in failed if not row[3]]
        named = []
        if shares:
            named.append(f"share of all: {', '.join(shares)}")
        if in_time:
            named.append(f"in time: {', '.join(in_time)}")
        if failed:
            shown.remarks["constraints_failed"] = (
                f"{len(failed)} of {len(found)} constraints are NG ({'; '.join(named)}):"
                " by tpcc-mysql's rule the run does not count"
            )


def _tpcc_runs(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each run, which ends with its line 'TpmC', and what is left of a last one."""
    runs: list[list[str]] = [[]]
    for line in lines:
        runs[-1].append(line)
        if _TPMC.match(line):
            runs.append([])
    rest = runs.pop()
    if runs and any(_RAW.match(line) or _CONSTRAINT.match(line) for line in rest):
        runs.append(rest)
    return runs


class Dd(base.ForeignTool):
    """What dd copied and how fast; rates are bytes by seconds, in 1,000,000 bytes a second."""

    kind = "dd"
    summary = "the rate of dd, with what it does not measure"
    primary = ("throughput", "MB/s", "higher")
    form = "dd (GNU coreutils, BusyBox or BSD)"
    commas = True
    marks = (
        r"^[ \t]*[0-9]{1,12}\+[0-9]{1,12}[ ](?:records|enregistrements|Datens|\S{2,20}[ ]\S{2,20}"
        rf"|{_LETTERS}{{3,20}})"
        rf"|^[ \t]*{_LETTERS}{{2,12}}[ ]?[0-9]{{1,12}}\+[0-9]{{1,12}}[ ]"
        r"|^.{0,20}\b[0-9]{1,18} bytes (?:\(.{1,40}\) copied, [0-9]|transferred in [0-9])"
    )

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        lines = [line for line in pasted.lines_of(output.translate(_WIDE)) if line]
        results: list[str] = []
        counts: list[re.Match[str]] = []
        for line in lines:
            if _DD_SAID.match(line) and not _DD_WARNING.match(line):
                raise self.failed(
                    f"it said '{one_line(line, 120)}': a run that ended without an error is read"
                )
        for before, line in zip(lines, lines[1:], strict=False):
            # Lines of status=progress have no records before them.
            records = _RECORDS.match(before)
            if records and not _RECORDS.match(line):
                results.append(line)
                counts.append(records)
        runs = [self._run(line, len(results)) for line in results]
        if not runs:
            raise self.fault(
                f"the output has no result of dd below its lines of records{self.wanted_form()}"
            )
        self.check_runs(len(runs), "runs of dd")
        shown = base.BenchmarkReport()
        named = [line for line in lines if re.search(r"\bdd [a-z]{1,9}=", line)]
        commands = [pasted.without_remark(line) for line in named]
        for number, (size, seconds) in enumerate(runs, start=1):
            prefix = ""
            if len(runs) > 1:
                prefix = f"run{number}_"
            rate = self.check_number("rate", size / seconds / 1e6)
            shown.readings.append(
                base.Reading(f"{prefix}throughput", "MB/s", "higher", rate, primary=not prefix)
            )
            shown.workload[f"{prefix}bytes"] = f"{size:.0f}"
            shown.workload[f"{prefix}seconds"] = f"{seconds:g}"
            if len(commands) == len(runs):
                self._add_command(shown, prefix, commands[number - 1], counts[number - 1], size)
        self._add_remarks(shown, commands, len(runs))
        shown.remarks["rate_computed"] = "'throughput' is calculated: the bytes by the seconds"
        shown.left_out.append("records, and the rate that dd has rounded")
        return shown

    def _add_command(
        self,
        shown: base.BenchmarkReport,
        prefix: str,
        line: str,
        records: re.Match[str],
        size: float,
    ) -> None:
        """Add the command of a run, unless its records of bs= bytes are not the bytes that were copied."""
        command = one_line("dd " + line.partition("dd ")[2].partition("`")[0].strip(), 120)
        block = _block_size(command)
        whole, cut_off = float(records[1]), float(records[2])
        if block is not None and not whole * block <= size <= (whole + cut_off) * block:
            shown.left_out.append(
                f"{prefix}command: '{command}' is another run's: {records[1]}+{records[2]} records"
                f" of it are not {size:.0f} bytes"
            )
        else:
            shown.workload[f"{prefix}command"] = command

    def _run(self, line: str, count: int) -> tuple[float, float]:
        """Return bytes and seconds of a result; ``count``: results that the text has."""
        found = _TRANSFERRED.match(line) or _COPIED.match(line)
        if not found:
            of = ""
            if count > 1:
                of = f"; it is one of {count} results in the text"
            raise self.fault(
                f"'{one_line(line, 80)}' is no whole result of dd, or of a locale that is not read:"
                f" print it with LC_ALL=C{of}"
            )
        size, seconds = float(found[1]), self._decimal(found[2])
        if size == 0 or seconds == 0:
            raise self.fault("nothing was copied, or in no time")
        printed = self._printed_rate(found)
        if printed and not 0.5 < printed * seconds / size < 2:
            raise self.fault(f"'{one_line(line, 80)}': its rate contradicts its bytes and seconds")
        return size, seconds

    def _printed_rate(self, found: re.Match[str]) -> float:
        """Return the rate of a result in bytes a second; 0: it is too small to be printed."""
        if found.re is _TRANSFERRED:
            return float(found[3])
        factor = pasted.DECIMAL[found[4]]
        if found[5]:
            factor = pasted.BINARY[found[4]]
        return self._decimal(found[3]) * factor

    def _decimal(self, text: str) -> float:
        """Return a number whose decimal sign is a point or, as in most of Europe, a comma."""
        written = text.replace(",", ".")
        if written.count(".") > 1 or not re.fullmatch(
            r"[0-9.]{1,20}(?:e[+-][0-9]{1,2})?", written
        ):
            raise self.fault(f"'{one_line(text, 20)}' is no number of seconds")
        return float(written)

    def _add_remarks(
        self, shown: base.BenchmarkReport, commands: Sequence[str], runs: int
    ) -> None:
        if runs > 1:
            shown.remarks["several_runs"] = f"the text has {runs} runs: none of them is judged"
        flushed = [line for line in commands if _reaches_the_disk(line)]
        if len(flushed) < max(1, len(commands)):
            shown.remarks["page_cache"] = (
                "the output does not say oflag=direct or conv=fdatasync: without them it has"
                " copied through the page cache and measured no disk; use fio"
            )
        if any("/dev/urandom" in line or "/dev/random" in line for line in commands):
            shown.remarks["random_source"] = (
                "it reads /dev/urandom, which is slower than many disks"
            )


def _block_size(command: str) -> float | None:
    """Return the bytes of a record that dd's operands name; None: they are written in another way."""
    text = "512"
    for word in command.split():
        name, _, value = word.partition("=")
        if name in ("ibs", "obs", "cbs"):
            return None
        if name == "bs":
            text = value
    found = _DD_SIZE.fullmatch(text)
    if found is None:
        return None
    suffix = found[2] or ""
    if suffix in _DD_SUFFIXES:
        return float(found[1]) * _DD_SUFFIXES[suffix]
    factor = pasted.BINARY[suffix[0].upper().replace("K", "k")]
    if suffix.endswith("B") and not suffix.endswith("iB"):
        factor = pasted.DECIMAL[suffix[0]]
    return float(found[1]) * factor


def _reaches_the_disk(command: str) -> bool:
    """Return whether dd's operands keep the page cache out of its time; conv=sync only pads."""
    for word in command.split():
        name, _, value = word.partition("=")
        if set(value.split(",")) & _FLUSHING.get(name, set()):
            return True
    return False


class Rtla(base.ForeignTool):
    """Other tools of rtla are near to oslat and cyclictest, and their figures are not theirs."""

    kind = "rtla"
    summary = "rtla osnoise and timerlat top: not read; timerlat hist, oslat and cyclictest are"
    primary = ("latency_max", "µs", "lower")
    form = "rtla timerlat hist, oslat --json=- or cyclictest --json=- --histogram=10000"
    marks = _RTLA

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        tool = "rtla"
        for name, mark in _RTLA_NAMES.items():
            if mark in output:
                tool = f"rtla {name}"
        if not self.printed(output):
            raise self.fault(f"the output is not rtla's{self.wanted_form()}")
        raise self.fault(
            f"the output of {tool} is not read, and its figures are not oslat's or cyclictest's"
            f"{self.wanted_form()}"
        )


class OtherRtTests(base.ForeignTool):
    """Other programs of rt-tests; what they measure is not what oslat and cyclictest do."""

    kind = "rt_tests"
    summary = "other programs of rt-tests, such as ptsematest: not read; oslat and cyclictest are"
    primary = ("latency_max", "µs", "lower")
    form = "oslat --json=- or cyclictest --json=- --histogram=10000"

    def printed(self, output: str) -> bool:
        return _OTHER.search(output) is not None or re.search(_PAIR, output, re.M) is not None

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        found = _OTHER.search(output)
        tool = "a program of rt-tests such as ptsematest"
        if found:
            tool = found[1]
        if not self.printed(output):
            raise self.fault(f"the output is of no such program{self.wanted_form()}")
        raise self.fault(
            f"the output of {tool} is not read, and its figures are not oslat's or cyclictest's"
            f"{self.wanted_form()}"
        )
