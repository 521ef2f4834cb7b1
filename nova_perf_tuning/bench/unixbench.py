"""UnixBench where an operator has installed it: its text and CSV reports, index and score worked out here.

Published definition: the index of a test is its result divided by a baseline, times ten; the score is the
geometric mean of the indexes. The baselines are those of the machine that UnixBench calls "George" (a
SPARCstation 20-61), as printed in every report.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.bench import base, output, parameter

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
_NAMES = "|".join(re.escape(name) for name in TESTS)
_NUMBER = output.NUMBER
_HEADER = re.compile(r"BYTE UNIX Benchmarks \(Version ([0-9]{1,3}(?:\.[0-9]{1,4}){1,3})\)")
_RESULT = re.compile(
    rf"^({_NAMES})[ \t]+{_NUMBER}[ \t]+(lps|MWIPS|KBps|lpm)[ \t]+\([0-9.]{{1,9}} s, ([0-9]{{1,6}}) samples\)", re.M
)
_INDEX = re.compile(rf"^({_NAMES})[ \t]+{_NUMBER}[ \t]+{_NUMBER}[ \t]+{_NUMBER}[ \t]*$", re.M)
_SCORE = re.compile(rf"^System Benchmarks Index Score[ \t]+{_NUMBER}", re.M)
#: Starts Run in its own folder, which 5.1.3 takes for the place of its programs and both run make in. Results,
#: logs and the files that are copied go to the folder that a launcher has made for the run, and takes away.
_START: Final = (
    "my $folder = shift; $ENV{UB_RESULTDIR} = $ENV{UB_TMPDIR} = getcwd;"
    " chdir $folder or die qq($folder: $!\\n); exec @ARGV or die qq($ARGV[0]: $!\\n)"
)
#: Figures of other versions must not be compared with it.
_VERSION: Final = "5.1.3"
#: Printed with one decimal each.
_HALF: Final = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One test of a report; ``printed``: the index that the report prints."""

    test: str
    result: float
    printed: float

    @property
    def baseline(self) -> float:
        return TESTS[self.test][1]

    @property
    def index(self) -> float:
        """The index worked out from the printed result."""
        return self.result / self.baseline * 10

    def agrees(self) -> bool:
        """Whether the printed index can come from the printed result, whose last digit is rounded as well."""
        tolerance = _HALF / self.baseline * 10 + _HALF + 1e-9
        return abs(self.printed - self.index) <= tolerance


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """One run of UnixBench; figures of different versions must never be compared."""

    version: str
    rows: tuple[Row, ...]
    printed_score: float

    @property
    def score(self) -> float:
        """Geometric mean of the indexes before rounding."""
        return math.exp(math.fsum(math.log(row.index) for row in self.rows) / len(self.rows))

    def agrees(self) -> bool:
        """Whether the printed score can come from the printed results."""
        spread = math.fsum(_HALF / row.result for row in self.rows) / len(self.rows)
        return abs(self.printed_score - self.score) <= self.score * spread + _HALF + 1e-9


def read(kind: str, text: str) -> list[Report]:
    """Return every whole report in a text, in its order; other words around them do not matter.

    :raises base.OutputError: there is none, or one is cut off, or its baselines are not UnixBench's.
    """
    output.check_length(kind, text)
    headers = list(_HEADER.finditer(text))
    if not headers:
        raise base.OutputError(f"{kind}: there is no report of UnixBench in the output")
    ends = [one.start() for one in headers[1:]] + [len(text)]
    return [_report(kind, found[1], text[found.end() : end]) for found, end in zip(headers, ends, strict=True)]


def _report(kind: str, version: str, text: str) -> Report:
    results = {found[1]: float(found[2]) for found in _RESULT.finditer(text)}
    indexes = {found[1]: found for found in _INDEX.finditer(text)}
    score = _SCORE.search(text)
    missing = [name for name in TESTS if name not in results or name not in indexes]
    if missing or score is None:
        what = f"test '{missing[0]}'" if missing else "its score"
        raise base.OutputError(f"{kind}: the report is cut off or of few tests: {what} is missing")
    rows = []
    for name, (_short, baseline, _unit) in TESTS.items():
        result, found = results[name], indexes[name]
        if float(found[2]) != baseline or float(found[3]) != result:
            raise base.OutputError(f"{kind}: '{name}': baseline or result differ between the report's two tables")
        if result <= 0:
            raise base.OutputError(f"{kind}: '{name}' has the result {result:g}; the test did not work")
        rows.append(Row(name, result, float(found[4])))
    return Report(version, tuple(rows), float(score[1]))


class UnixBench(base.Benchmark):
    """UnixBench 5.1.3, which the published comparisons of PV and HVM guests used.

    It is not shipped and not in Debian: an operator unpacks and builds it (``make``) on the host, and adds that
    folder, perl, make and the programs of its shell tests to a guest image (``tools/image/build --add``). Its
    shell tests write in that folder, the others into the scratch folder. Every index is worked out here from the
    result, and a report whose own index contradicts its result is refused. The score is shown, but a gate on it
    alone passes a guest with slow system calls: put budgets on the single tests.
    """

    kind = "unixbench"
    summary = "UnixBench 5.1.3: indexes of twelve tests and their score"
    packages = ("perl", "make", "gcc")
    #: All but the first two are what its shell tests run: a guest must have the host's, not busybox's.
    programs = ("perl", "make", "sh", "expr", "sort", "od", "grep", "tee", "wc", "rm")
    primary = ("score", "index", "higher")
    parameters = (
        parameter.Text(
            "directory",
            "/opt/UnixBench",
            "folder of the built UnixBench, the same on host and guest",
            r"/[^\0]*",
            "an absolute path",
        ),
        parameter.Integer(
            "passes", "10", "runs of each short test, a third of it for long ones (10: 28 minutes)", 1, 100
        ),
        parameter.Integer("copies", "1", "copies of each test side by side", 1, 1024),
    )
    image_variant = "own"
    brought = "unpack and make UnixBench 5.1.3 in its 'directory'"
    self_check = (
        "the report must be of this very version; each printed index must follow from its result, the score from"
        " the indexes"
    )

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        passes, copies = values.numbers("passes", "copies")
        run = ("perl", "./Run", "-i", str(passes), "-c", str(copies))
        argv = ("perl", "-MCwd", "-e", _START, values.text("directory"), *run)
        return (base.Step(argv, "client", passes * 200 + 600.0),)

    def files(self, given: Mapping[str, str]) -> Sequence[str]:
        return (f"{self.values(given).text('directory')}/Run",)

    def scratch_mib(self, given: Mapping[str, str]) -> int:
        values = self.values(given)
        # The largest file that is copied has 8000 blocks of 1 KiB, and each copy of the test its own two.
        return 16 * values.number("copies")

    def parse(self, text: str) -> list[base.Reading]:
        reports = read(self.kind, text)
        if len(reports) != 1:
            raise base.OutputError(
                f"{self.kind}: there are {len(reports)} reports where one was expected; run it with one -c, or"
                " read the reports of a text one by one"
            )
        [report] = reports
        if report.version != _VERSION:
            raise base.OutputError(
                f"{self.kind}: this is version {report.version}; its figures must not be set against"
                f" {_VERSION}'s (other compiler flags); install {_VERSION}"
            )
        wrong = [row.test for row in report.rows if not row.agrees()]
        if wrong or not report.agrees():
            raise base.OutputError(
                f"{self.kind}: the printed {wrong[0] if wrong else 'score'} contradicts the results"
            )
        found = [base.Reading(*self.primary, report.score, primary=True)]
        for row in report.rows:
            short, _baseline, unit = TESTS[row.test]
            found.append(base.Reading(f"{short}_index", "index", "higher", row.index))
            found.append(base.Reading(short, _UNITS[unit], "higher", row.result))
        return found
