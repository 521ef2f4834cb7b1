# SPDX-License-Identifier: Apache-2.0
"""UnixBench where an operator has installed it; index and score are worked out here by the published definition.

The index of a test is its result divided by a baseline, times ten; the score is the geometric mean of the indexes.
The baselines are those of the machine that UnixBench calls "George", as printed in every report.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base

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
_COPIES = re.compile(
    r"^[0-9]{1,5} CPUs? in system; running ([0-9]{1,5}) parallel cop(?:y|ies) of tests", re.M
)
_SCORE: Final = "\nSystem Benchmarks Index Score "
#: UnixBench 5 skips every test of more copies, and then prints a report without rows ("maxCopies" in its Run).
_MOST_COPIES: Final = 16
#: Test, baseline and result; the index beside them is rounded.
_INDEX = re.compile(
    rf"^({'|'.join(map(re.escape, TESTS))})[ \t]+{base.NUMBER}[ \t]+{base.NUMBER}[ \t]+[0-9.]+[ \t]*$",
    re.M,
)
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


def index(test: str, result: float) -> float:
    return result / TESTS[test][1] * 10


def score(results: Mapping[str, float]) -> float:
    """Return the geometric mean of the indexes before rounding; ``results``: test -> its result."""
    return math.exp(
        math.fsum(math.log(index(test, result)) for test, result in results.items()) / len(results)
    )


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
        if versions and versions != [_VERSION]:
            raise self.fault(
                f"the report is of version {versions[0]}; figures compare only with {_VERSION}'s"
            )
        rows = {
            test: (float(baseline), float(result))
            for test, baseline, result in _INDEX.findall(text)
        }
        missing = [test for test in TESTS if test not in rows]
        if not rows and copies and int(copies[0]) > _MOST_COPIES:
            raise self.fault(
                f"no test ran: {copies[0]} copies were asked for, it runs at most {_MOST_COPIES}"
            )
        if missing and (said := re.search(r"^.*(?:; aborting|Error [0-9]+)[ \t]*$", text, re.M)):
            raise self.fault(f"it said '{one_line(said[0], 200)}'")
        if missing or _SCORE not in text:
            raise self.fault(
                f"the report is cut off or of few tests: '{[*missing, 'score'][0]}' is missing"
            )
        for test, (baseline, result) in rows.items():
            if baseline != TESTS[test][1] or result <= 0:
                raise self.fault(
                    f"'{test}' has the baseline {baseline:g} and the result {result:g}"
                )
        return {test: rows[test][1] for test in TESTS}

    def remarks(self, text: str) -> Mapping[str, str]:
        remarks = {}
        if not _HEADER.search(text):
            remarks["version_unknown"] = (
                f"the report has no head: it may be of another version than {_VERSION}"
            )
        if (copies := _COPIES.search(text)) and int(copies[1]) > 1:
            remarks["several_copies"] = f"the figures are of {copies[1]} copies side by side"
        return remarks

    def parse(self, text: str) -> list[base.Reading]:
        results = self.results(text)
        readings = [base.Reading(*self.primary, score(results), primary=True)]
        for test, (short, _baseline, unit) in TESTS.items():
            readings.append(
                base.Reading(f"{short}_index", "index", "higher", index(test, results[test]))
            )
            readings.append(base.Reading(short, _UNITS[unit], "higher", results[test]))
        return readings
