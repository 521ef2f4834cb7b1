# SPDX-License-Identifier: Apache-2.0
"""UnixBench where an operator has installed it; index and score are worked out here by the published definition.

The index of a test is its result divided by a baseline, times ten; the score is the geometric mean of the indexes.
The baselines are those of the machine that UnixBench calls "George", as printed in every report.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted

#: Test -> (short name, baseline, unit).
TESTS: Final[Mapping[str, tuple[str, float, str]]] = {
    "Dhrystone 2 using register variables": ("dhrystone", 116700.0, "lps"),
    "Double-Precision Whetstone": ("whetstone", 55.0, "MWIPS"),
    "Execl Throughput": ("exec", 43.0, "lps"),
    "File Copy 1024 bufsize 2000 maxblocks": ("file_copy_1024", 3960.0, "KBps"),
    "File Copy 256 bufsize 500 maxblocks": ("file_copy_256", 1655.0, "KBps"),
    "File Copy 4096 bufsize 8000 maxblocks": ("file_copy_4096", 5800.0, "KBps"),
    "Pipe Throughput": ("pipe", 12440.0, "lps"),
    "Pipe-based Context Switching": ("context", 4000.0, "lps"),
    "Process Creation": ("process", 126.0, "lps"),
    "Shell Scripts (1 concurrent)": ("shell1", 42.4, "lpm"),
    "Shell Scripts (8 concurrent)": ("shell8", 6.0, "lpm"),
    "System Call Overhead": ("syscall", 15000.0, "lps"),
}
_UNITS: Final = {"lps": "1/s", "lpm": "1/min", "MWIPS": "MWIPS", "KBps": "KiB/s"}
_HEADER = re.compile(r"BYTE UNIX Benchmarks \(Version ([0-9]{1,3}(?:\.[0-9]{1,4}){1,3})\)")
_VERSION_6: Final = re.compile(r"BYTE UNIX Benchmarks \(Version 6\.")
_COPIES = re.compile(
    r"^[0-9]{1,5} CPUs? in system; running ([0-9]{1,5}) parallel cop(?:y|ies) of tests", re.M
)
_SCORE: Final = "\nSystem Benchmarks Index Score "
#: Of a run of chosen tests.
_PARTIAL: Final = "System Benchmarks Index Score (Partial Only)"
_SCORE_LINE: Final = re.compile(r"^System Benchmarks Index Score[ ]")
#: Between columns, also where somebody has made a table of Markdown of them.
_GAP: Final = r"[ \t|,;]{1,80}"
_END: Final = r"[ \t|,;]{0,80}$"
_PRINTED_SCORE: Final = re.compile(
    rf"^System Benchmarks Index Score(?: \(Partial Only\))?{_GAP}{base.NUMBER}{_END}", re.M
)
#: A printed score agrees with the results, which are rounded, by more than that.
_AGREES: Final = 0.01
#: UnixBench 5 skips every test of more copies, and then prints a report without rows ("maxCopies" in its Run).
_MOST_COPIES: Final = 16
#: Test, baseline and result; the index beside them is rounded.
_NAMES: Final = "|".join(map(re.escape, TESTS))
_INDEX = re.compile(
    rf"^({_NAMES}){_GAP}{base.NUMBER}{_GAP}{base.NUMBER}{_GAP}[0-9.]{{1,20}}{_END}", re.M
)
#: Test, result and unit, as they stand before the table of indexes.
_SAMPLE: Final = re.compile(
    rf"^({_NAMES}){_GAP}{base.NUMBER}[ ]{{1,9}}(lps|lpm|MWIPS|KBps)[ ]{{1,9}}"
    rf"\({base.NUMBER} s, [0-9]{{1,5}} samples?\){_END}",
    re.M,
)
#: How a line begins that a mail may have wrapped, into so many lines at most.
_BEGIN_OF_ROW: Final = re.compile(rf"^(?:{_NAMES}|System Benchmarks Index Score)")
_MOST_LINES: Final = 3
#: Starts Run in its own directory, where its programs are. Results, logs and the files that are copied go to the
#: directory that a launcher has made for the run, and takes away.
_START: Final = (
    "my $directory = shift; $ENV{UB_RESULTDIR} = $ENV{UB_TMPDIR} = getcwd;"
    " chdir $directory or die qq($directory: $!\\n); exec @ARGV or die qq($ARGV[0]: $!\\n)"
)
#: Where an operator has built it, on host and guest.
DIRECTORY: Final = "/opt/UnixBench"
#: Figures of other versions must not be compared with it.
_VERSION: Final = "5.1.3"


_LEFT_OUT: Final = "samples and times of each test, baselines"


def index(test: str, result: float) -> float:
    return result / TESTS[test][1] * 10


def score(results: Mapping[str, float]) -> float:
    """Return the geometric mean of the indexes before rounding; ``results``: test -> its result."""
    return math.exp(
        math.fsum(math.log(index(test, result)) for test, result in results.items()) / len(results)
    )


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Return lines with the rows in one that a mail has wrapped."""
    whole: list[str] = []
    skipped = 0
    for at, line in enumerate(lines):
        if skipped:
            skipped -= 1
            continue
        joined = line
        if _BEGIN_OF_ROW.match(line) and not _is_row(line):
            for count in range(1, _MOST_LINES):
                wrapped = " ".join(lines[at : at + count + 1])
                if _is_row(wrapped):
                    joined, skipped = wrapped, count
                    break
        whole.append(joined)
    return whole


def _is_row(line: str) -> bool:
    return any(form.match(line) for form in (_INDEX, _SAMPLE, _PRINTED_SCORE))


def _all_results(text: str) -> dict[str, tuple[float, float]]:
    """Return test -> its baseline and result by the lines above the table; empty: they are not all there."""
    rows: dict[str, tuple[float, float]] = {}
    for test, result, unit, _seconds in _SAMPLE.findall(text):
        _short, baseline, own = TESTS[test]
        if test in rows or unit != own:
            return {}
        rows[test] = baseline, float(result)
    if len(rows) < len(TESTS):
        return {}
    return rows


class UnixBench(base.Benchmark):
    """UnixBench 5.1.3, which the published comparisons of PV and HVM guests used.

    It is not shipped and not in Debian: an operator unpacks and builds it (``make``) on the host, and adds that
    directory, perl, make and the programs of its shell tests to a guest image (``tools/image/build --add``). Put
    budgets on the single tests: the score alone passes a guest with slow system calls.
    """

    kind = "unixbench"
    summary = "UnixBench 5.1.3: indexes of twelve tests and their score"
    packages = ("perl", "make", "gcc")
    #: All but the first two are what its shell tests run: a guest must have the host's, not busybox's.
    programs = ("perl", "make", "sh", "expr", "sort", "od", "grep", "tee", "wc", "rm")
    primary = ("score", "index", "higher")
    parameters = (
        base.Integer(
            "passes", "10", "runs of each short test; long ones: a third (10: 28 minutes)", 1, 100
        ),
        base.Integer("copies", "1", "copies of each test side by side", 1, 1024),
    )
    image_variant = "own"
    marks = (
        r"BYTE UNIX Benchmarks|System Benchmarks Index|Dhrystone 2 using register variables"
        r"|^[0-9]{1,5} CPUs? in system; running [0-9]"
    )
    form = "./Run (UnixBench 5.1.3, from its head to its score)"
    brought = f"unpack and make UnixBench 5.1.3 in {DIRECTORY}"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        passes, copies = values.numbers("passes", "copies")
        argv = (
            "perl",
            "-MCwd",
            "-e",
            _START,
            DIRECTORY,
            "perl",
            "./Run",
            "-i",
            str(passes),
            "-c",
            str(copies),
        )
        return (base.Step(argv, "client", passes * 200 + 600.0),)

    def files(self, given: Mapping[str, str]) -> Sequence[str]:
        return (f"{DIRECTORY}/Run",)

    def scratch_mib(self, given: Mapping[str, str]) -> int:
        # The largest file that is copied has 8000 blocks of 1 KiB, and each copy of the test its own two.
        return 16 * self.values(given).number("copies")

    def printed(self, output: str) -> bool:
        return super().printed(output) and not _VERSION_6.search(output)

    def parts(self, text: str) -> list[tuple[str, str]]:
        """Return number of copies and text of each run of a report; the first has the head.

        A report has a run for one copy and another for as many as there are CPUs.
        """
        lines = _unwrapped(pasted.lines_of(text))
        starts = [at for at, line in enumerate(lines) if _COPIES.match(line)]
        if len(starts) < 2:
            return [("", "\n".join(lines))]
        parts = []
        begins = [0]
        for before, start in itertools.pairwise(starts):
            scores = [at for at in range(before, start) if _SCORE_LINE.match(lines[at])]
            begins.append(max(scores, default=start - 1) + 1)
        ends = [*begins[1:], len(lines)]
        for start, begin, end in zip(starts, begins, ends, strict=True):
            found = _COPIES.match(lines[start])
            assert found is not None
            parts.append((found[1], "\n".join(lines[begin:end])))
        return parts

    def results(self, text: str) -> dict[str, float]:
        """Return the result of each test in the one report of a text; its head may be missing.

        :raises base.BenchmarkOutputError: it is cut off, of another version, or its baselines are not UnixBench's.
        """
        self.check_length(text)
        versions, copies = _HEADER.findall(text), _COPIES.findall(text)
        if (count := max(len(versions), len(copies), text.count(_SCORE))) > 1:
            of = f" (of {', '.join(copies[:4])} copies)" if copies else ""
            raise self.fault(
                f"the text has {count} reports{of}; give one, head and score included"
            )
        if copies and _SCORE in text[: text.index(" parallel cop")]:
            raise self.fault(
                f"the text begins within a report, and a run of {copies[0]} copies follows it; give"
                " one, head and score included"
            )
        self.check_version(versions)
        rows: dict[str, tuple[float, float]] = {}
        for test, baseline, result in _INDEX.findall(text):
            if test in rows:
                raise self.fault(
                    f"the text has several reports: '{test}' is in it twice; give one, head and"
                    " score included"
                )
            rows[test] = float(baseline), float(result)
        missing = [test for test in TESTS if test not in rows]
        if not rows and copies and int(copies[0]) > _MOST_COPIES:
            raise self.fault(
                f"no test ran: {copies[0]} copies were asked for, it runs at most {_MOST_COPIES}"
            )
        if missing and (said := re.search(r"^.*(?:; aborting|Error [0-9]+)[ \t]*$", text, re.M)):
            raise self.failed(f"it said '{one_line(said[0], 200)}'")
        partial = bool(rows) and _PARTIAL in text
        if _SCORE not in text:
            # Without a table the results above it are as good; a table that has begun is there whole, or it is cut off.
            rows = rows or _all_results(text)
            missing = [test for test in TESTS if test not in rows]
            partial = False
        if (missing and not partial) or not rows:
            raise self.fault(f"the report is cut off or of few tests: '{missing[0]}' is missing")
        for test, (baseline, result) in rows.items():
            if baseline != TESTS[test][1] or result <= 0:
                raise self.fault(
                    f"'{test}' has the baseline {baseline:g} and the result {result:g}"
                )
        results = {test: rows[test][1] for test in TESTS if test in rows}
        printed = _PRINTED_SCORE.search(text)
        computed = score(results)
        if printed and abs(float(printed[1]) - computed) > _AGREES * computed:
            raise self.fault(
                f"the score {printed[1]} is of other results than those in the text, whose score is"
                f" {computed:.1f}: it has parts of several reports; give one, head and score included"
            )
        return results

    def check_version(self, versions: Sequence[str]) -> None:
        """Refuse a report of another version; a report may have lost its head."""
        if versions and versions != [_VERSION]:
            raise self.fault(
                f"the report is of version {versions[0]}; figures compare only with {_VERSION}'s"
            )

    def report(self, output: str) -> base.BenchmarkReport:
        self.check_length(output)
        if not re.search(self.marks, output, re.MULTILINE):
            raise self.fault("the output has no line of a report of UnixBench")
        parts = self.parts(output)
        shown = base.BenchmarkReport(remarks=dict(self.remarks(output)))
        shown.remarks["indexes_computed"] = (
            "indexes and the score are calculated of results and baselines, before rounding"
        )
        head = _HEADER.search(output)
        if head:
            shown.workload["version"] = head[1]
        if len(parts) == 1:
            shown.readings = self._readings(self.results(parts[0][1]))
            running = _COPIES.search(parts[0][1])
            if running:
                shown.workload["copies"] = running[1]
            shown.left_out.append(_LEFT_OUT)
            return shown
        numbers = [copies for copies, _part in parts]
        if len(set(numbers)) < len(numbers):
            raise self.fault(
                f"the text has {len(parts)} reports (of {', '.join(numbers[:4])} copies); give one,"
                " head and score included"
            )
        for copies, part in parts:
            try:
                results = self.results(part)
            except base.BenchmarkOutputError as error:
                if copies == numbers[0] or copies != numbers[-1]:
                    raise
                shown.left_out.append(f"the run of {copies} copies: {error}")
                continue
            for reading in self._readings(results):
                metric = f"copies{copies}_{reading.metric}"
                shown.readings.append(dataclasses.replace(reading, metric=metric, primary=False))
        shown.left_out.append(_LEFT_OUT)
        shown.workload["copies"] = " and then ".join(numbers)
        shown.remarks["several_runs"] = (
            f"the report has runs of {' and '.join(numbers)} copies: none of them is judged"
        )
        return shown

    def parse(self, text: str) -> list[base.Reading]:
        return self.report(text).readings

    def remarks(self, text: str) -> Mapping[str, str]:
        remarks = {}
        shown = "\n".join(pasted.lines_of(text))
        if not _HEADER.search(text):
            remarks["version_unknown"] = (
                f"the report has no head: it may be of another version than {_VERSION}"
            )
        if _SCORE not in f"\n{shown}":
            remarks["score_missing"] = (
                "the score is missing in the text: it is calculated of the results of all tests"
            )
        if _PARTIAL in text:
            remarks["partial"] = "the report is of chosen tests: its score is no index of all"
        copies = _COPIES.search(shown)
        if copies and int(copies[1]) > 1:
            remarks["several_copies"] = f"the figures are of {copies[1]} copies side by side"
        return remarks

    def _readings(self, results: Mapping[str, float]) -> list[base.Reading]:
        metric, unit_of_score, better = self.primary
        whole = len(results) == len(TESTS)
        if not whole:
            metric = f"partial_{metric}"
        readings = [base.Reading(metric, unit_of_score, better, score(results), primary=whole)]
        for test, (short, _baseline, unit) in TESTS.items():
            if test not in results:
                continue
            readings.append(
                base.Reading(f"{short}_index", "index", "higher", index(test, results[test]))
            )
            readings.append(base.Reading(short, _UNITS[unit], "higher", results[test]))
        return readings


class UnixBench6(UnixBench):
    """UnixBench 6, whose programs and compiler options are others: read, and never compared with 5.1.3."""

    kind = "unixbench6"
    summary = "UnixBench 6: indexes and score, which do not compare with those of 5.1.3"
    form = "./Run (UnixBench 6, from its head to its score)"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        raise self.refusal("its reports are read, but it is not run here")

    def printed(self, output: str) -> bool:
        return _VERSION_6.search(output) is not None

    def check_version(self, versions: Sequence[str]) -> None:
        if versions and not versions[0].startswith("6."):
            raise self.fault(f"the report is of version {versions[0]}")

    def remarks(self, text: str) -> Mapping[str, str]:
        if not self.printed(text):
            raise self.fault("the report does not say that it is of UnixBench 6")
        remarks = dict(super().remarks(text))
        remarks["other_version"] = (
            "figures of UnixBench 6 do not compare with those of 5.1.3, which 'unixbench' runs"
        )
        return remarks
