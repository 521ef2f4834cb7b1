# SPDX-License-Identifier: Apache-2.0
"""The interface of a benchmark; each one is a small class found by an entry point.

A benchmark never runs anything itself: a launcher does, in a guest or on the host, with the same
steps.
"""

import abc
import contextlib
import csv
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from nova_perf_tuning import bounded_json, errors
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import pasted

# A benchmark of another package imports this module alone.
from nova_perf_tuning.validation.bench.parameters import SECONDS as SECONDS
from nova_perf_tuning.validation.bench.parameters import Choice as Choice
from nova_perf_tuning.validation.bench.parameters import Integer as Integer
from nova_perf_tuning.validation.bench.parameters import Parameter as Parameter
from nova_perf_tuning.validation.bench.parameters import ParameterError as ParameterError
from nova_perf_tuning.validation.bench.parameters import Size as Size
from nova_perf_tuning.validation.bench.parameters import Values as Values
from nova_perf_tuning.validation.bench.parameters import split as split
from nova_perf_tuning.validation.results.model import Better as Better
from nova_perf_tuning.validation.results.model import Reading as Reading

#: Added to the length of a run for its time limit: emulated guests and busy hosts start processes
#: slowly. It is to end a program that hangs, so it costs nothing where none does.
MARGIN_S: Final = 60.0
#: A group for a number of whatever kind, of bounded length.
NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
#: Longest output that is read, in characters.
MAX_CHARACTERS: Final = 4 * 1024 * 1024
#: Most that is kept of what an output says of the work.
_MOST_WORDS: Final = 38
#: Where a document of JSON begins.
_OBJECT: Final = re.compile(r"^[ \t]*\{", re.MULTILINE)
#: A text that begins within an object.
_MEMBER: Final = re.compile(r"[\]},\s]{0,99}\"[^\"\n]{1,80}\"[ \t]*:")
#: Percentiles lie on the edges of a histogram's buckets: fio's are 1.6 % wide, sysbench's 1.8 %.
_BUCKET: Final = 1.03
#: A text with more runs than that is a log: nobody reads a table of all their figures.
MOST_RUNS: Final = 200
#: No figure of any benchmark is larger (a terabit per second is 1e12, an hour in nanoseconds
#: 3.6e12).
MAX_NUMBER: Final = 1e15


class BenchmarkOutputError(errors.PerfTuningError):
    """A benchmark's output cannot be read: says which one and what is wrong with it.

    :ivar complete: whether it says which form is read.
    """

    complete: bool = False


class FailedRunError(BenchmarkOutputError):
    """The output is whole, and says itself that its run failed: there is a run, and no figure."""


class NotReadyError(FailedRunError):
    """The benchmark's server did not listen yet; the same run may succeed a moment later."""


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """When a client measured, as its output tells; CPU is counted over that time.

    :ivar seconds: without starting, connecting, warming up and printing.
    :ivar until: seconds since the epoch by the clock of its machine; None: the end of the program.
    """

    seconds: float
    until: float | None = None


@dataclasses.dataclass(slots=True)
class BenchmarkReport:
    """All that an output says.

    :ivar readings: the figures; of several runs in one output none is judged.
    :ivar workload: what was measured: name -> text.
    :ivar remarks: what to know of the figures: code -> text for a person.
    :ivar left_out: what the output has, or a reader expects of it, and is no figure.
    :ivar implied: what an output says of the work by not naming it, since its form repeats all
        that was chosen: name -> default of the program.
    :ivar parts: reports of the runs that this one is made of; their workloads are in ``workload``
        as one text each.
    """

    readings: list[Reading] = dataclasses.field(default_factory=list)
    workload: dict[str, str] = dataclasses.field(default_factory=dict)
    remarks: dict[str, str] = dataclasses.field(default_factory=dict)
    left_out: list[str] = dataclasses.field(default_factory=list)
    implied: dict[str, str] = dataclasses.field(default_factory=dict)
    parts: Mapping[str, "BenchmarkReport"] = dataclasses.field(default_factory=dict)


def several(parts: Mapping[str, BenchmarkReport]) -> BenchmarkReport:
    """Return the reports of several runs as one, of which no figure is judged.

    :param parts: name of a run -> its report; the name comes before all that is not of all runs.
    """
    shown = BenchmarkReport(parts=parts)
    codes: dict[str, dict[str, str]] = {}
    for name, part in parts.items():
        for reading in part.readings:
            metric = f"{name}_{reading.metric}"
            shown.readings.append(dataclasses.replace(reading, metric=metric, primary=False))
        facts = [f"{key} {value}" for key, value in part.workload.items()]
        if facts:
            shown.workload[name] = ", ".join(facts)
        for code, text in part.remarks.items():
            codes.setdefault(code, {})[name] = text
    for code, texts in codes.items():
        if len(texts) == len(parts) and len(set(texts.values())) == 1:
            shown.remarks[code] = next(iter(texts.values()))
        else:
            lines = [f"{name}: {text}" for name, text in texts.items()]
            shown.remarks[code] = "; ".join(lines)
    shown.left_out = _left_out_of(parts)
    return shown


def _left_out_of(parts: Mapping[str, BenchmarkReport]) -> list[str]:
    """Return what several runs have left out, what all have once."""
    lines: dict[str, list[str]] = {}
    for name, part in parts.items():
        for line in dict.fromkeys(part.left_out):
            lines.setdefault(line, []).append(name)
    shown = []
    for line, names in lines.items():
        if len(names) == len(parts):
            shown.append(line)
        else:
            shown.append(f"{', '.join(names[:8])}: {line}")
    return shown


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One process of a benchmark.

    :ivar role: ``client`` (its output is parsed) or ``server`` (started first on the other side,
        ended after).
    :ivar timeout_s: after this long it is killed and the trial is an error.
    """

    argv: tuple[str, ...]
    role: Literal["client", "server"]
    timeout_s: float


#: What to do with a list of documents.
ONE_OF_LIST: Final = "give one document of it, as jq '.[0]' prints it"


def percentile_name(share: float) -> str:
    """Return the name of a percentile of latencies: ``latency_p99``, ``latency_p999`` for 99.9."""
    if share == 99.9:
        return "latency_p999"  # the name that results have had since the first of them
    return "latency_p" + f"{share:g}".replace(".", "_")


class Benchmark(abc.ABC):
    """One benchmark.

    :cvar kind: its name on the command line and of the entry point.
    :cvar packages: Debian packages that a guest image needs for it; :cvar programs: what the host
        has on PATH.
    :cvar primary: metric, unit and better way of the figure that is judged; also that of a run
        that failed.
    :cvar paired: it needs a server, which runs on the peer.
    :cvar work_metric: the reading that counts the work done; None: there is none.
    :cvar work_unit: the unit of that reading, by which results that name another are refused;
        empty: unknown.
    :cvar image_variant: guest image that has its programs; ``own``: one that an operator has put
        them into with ``tools/image/build --add``.
    :cvar json_keys: keys of which each document of its own has one; others beside it, such as lines
        of a log, are passed over. Empty: each object is a document of its own.
    :cvar equal_keys: what it means that its JSON has a key twice, as the end of a sentence.
    :cvar form: the command whose output is read, as its user types it.
    :cvar marks: a pattern of what only outputs of this tool have; empty: only reading it shows.
    :cvar marked: whether :meth:`printed` is true of every output that is read, with or without ``marks``.
    :cvar brought: what an operator has to put on host and guest, since no package has it; empty:
        nothing.
    :cvar latency: it measures how late CPUs are, also beside a load.
    :cvar commas: it reads numbers with a comma for the decimal point.
    :cvar tool: the program whose version its output names; empty: that of its kind.
    """

    kind: ClassVar[str]
    summary: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    programs: ClassVar[tuple[str, ...]]
    parameters: ClassVar[Sequence[Parameter]]
    primary: ClassVar[tuple[str, str, Better]]
    paired: ClassVar[bool] = False
    work_metric: ClassVar[str | None] = None
    work_unit: ClassVar[str] = ""
    image_variant: ClassVar[Literal["small", "full", "own"]] = "small"
    json_keys: ClassVar[frozenset[str]] = frozenset()
    equal_keys: ClassVar[str] = ""
    form: ClassVar[str] = ""
    marks: ClassVar[str] = ""
    marked: ClassVar[bool] = False
    brought: ClassVar[str] = ""
    latency: ClassVar[bool] = False
    commas: ClassVar[bool] = False
    tool: ClassVar[str] = ""
    #: The last text with JSON, and its objects: figures, workload and remarks are made of them.
    _document: tuple[str, list[bounded_json.Object]] | None = None

    @property
    def defaults(self) -> dict[str, str]:
        return {parameter.name: parameter.default for parameter in self.parameters}

    def values(self, given: Mapping[str, str]) -> Values:
        """Return the values of all parameters, defaults included; ParameterError: an unknown or a wrong one."""
        texts, values = self.merged(given), Values()
        for parameter in self.parameters:
            text = texts[parameter.name]
            try:
                values[parameter.name] = parameter.read(text)
            except ValueError as error:
                raise self.refusal(f"{parameter.name}='{text[:60]}' must be {error}") from None
        return values

    def merged(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the texts of all parameters, defaults included; ParameterError: an unknown name."""
        for name in given:
            if name not in self.defaults:
                has = ", ".join(sorted(self.defaults))
                raise ParameterError(f"{self.kind} has no parameter '{name[:40]}'; it has {has}")
        return {**self.defaults, **given}

    def fault(self, text: str) -> BenchmarkOutputError:
        """Return the error of an output that is foreign, cut off, or of a form that is not read."""
        return BenchmarkOutputError(f"{self.kind}: {text}")

    def failed(self, text: str) -> FailedRunError:
        """Return the error of an output in which the program says that its run failed."""
        return FailedRunError(f"{self.kind}: {text}")

    def refusal(self, text: str) -> ParameterError:
        """Return the error of parameters that do not go together."""
        return ParameterError(f"{self.kind}: {text}")

    def server(self, peer: str | None) -> str:
        """Return the address of a paired benchmark's server; ParameterError: it is missing."""
        if peer is None:
            raise self.refusal("the address of the server is missing")
        return peer

    def asked(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return what a run with these parameters must say of its work: name in the workload -> text."""
        return {}

    def host_fault(self) -> str:
        """Return what this host lacks for it besides programs; empty: nothing."""
        return ""

    def files(self, given: Mapping[str, str]) -> Sequence[str]:
        """Return absolute paths of files that must be there beside the programs, on the host and in guests."""
        return ()

    def memory_mib(self, given: Mapping[str, str]) -> int:
        """Return the memory in MiB that it takes beyond what a small guest has; 0: next to nothing."""
        return 0

    def scratch_mib(self, given: Mapping[str, str]) -> int:
        """Return the space in MiB that its files take in the directory it runs in; 0: next to nothing."""
        return 0

    @abc.abstractmethod
    def steps(self, parameters: Mapping[str, str], peer: str | None = None) -> Sequence[Step]:
        """Return what to run; ``peer`` is the server's address for a paired benchmark.

        :raises ParameterError: a parameter is unknown or out of range.
        """

    @abc.abstractmethod
    def parse(self, output: str) -> list[Reading]:
        """Return the figures in the client's standard output; OutputError: it is cut off, empty or foreign."""

    def readings(self, status: int, output: str, errors: str) -> list[Reading]:
        """Return the figures of a client that ended by itself; OutputError: it failed, in its own words first."""
        if status == 0:
            return self.judged(self.checked_figures(output))
        message = one_line(errors.strip()[-600:], 300)
        if not message and output.strip():
            self.checked_figures(output)  # iperf3 tells its error in the JSON
        if self.paired and "refused" in message.lower():  # its server does not listen yet
            raise NotReadyError(f"{self.kind}: {message}")
        raise self.fault(f"ended with status {status}: {message or 'no message'}")

    def judged(self, readings: list[Reading]) -> list[Reading]:
        """Return the figures of one run; OutputError: they are of several, of which none is judged."""
        if all(reading.metric != self.primary[0] for reading in readings):
            raise self.fault(
                f"the output has no '{self.primary[0]}' of one run to judge{self.wanted_form()}"
            )
        return readings

    def printed(self, output: str) -> bool:
        """Return whether a text has the marks of this tool, whether or not it can be read."""
        return bool(self.marks) and re.search(self.marks, output, re.MULTILINE) is not None

    def may_read(self, output: str) -> bool:
        """Return whether a text may be an output of this tool: it has its marks, or there are none."""
        if self.marked or self.marks:
            return self.printed(output)
        return True

    def reader(self, output: str) -> "Benchmark":
        """Return what reads an output: itself, where its name stands for no more than one kind."""
        return self

    def report(self, output: str) -> BenchmarkReport:
        """Return all that an output says; raises what :meth:`parse` raises."""
        return BenchmarkReport(self.parse(output), remarks=dict(self.remarks(output)))

    def remarks(self, output: str) -> Mapping[str, str]:
        """Return what to know of an output that :meth:`parse` has read: code -> text for a person."""
        return {}

    def span(self, output: str) -> Span | None:
        """Return when the client measured, by an output that :meth:`parse` has read; None: all of its run."""
        return None

    # -- the border: of a hostile output a caller gets figures that results hold, or an OutputError

    def checked_figures(self, output: str) -> list[Reading]:
        """Return what :meth:`parse` returns; OutputError: it cannot, or a figure is out of range."""
        with self._border(output):
            readings = self.parse(output)
        self._check_figures(readings)
        return readings

    def checked_report(self, output: str) -> BenchmarkReport:
        """Return what :meth:`report` returns; OutputError: it cannot, or a figure is out of range."""
        with self._border(output):
            report = self.report(output)
        self._check_figures(report.readings)
        said = [f"'{one_line(line, 160)}'" for line in pasted.own_warnings(output)]
        if said:
            report.remarks["own_warnings"] = f"the tool itself warned: {'; '.join(said)}"
        return report

    def checked_workload(self, output: str) -> dict[str, str]:
        """Return what an output says of the work, bounded; empty where it cannot be read."""
        workload: dict[str, str] = {}
        with contextlib.suppress(BenchmarkOutputError):
            report = self.checked_report(output)
            for name, value in itertools.islice(report.workload.items(), _MOST_WORDS):
                workload[one_line(name, 100)] = one_line(value, 1000)
            more = len(report.workload) - _MOST_WORDS
            if more > 0:
                workload["left out"] = f"{more} more"
        return workload

    def checked_span(self, output: str) -> Span | None:
        """Return what :meth:`span` returns; OutputError: it cannot, or a time is out of range."""
        with self._border(output):
            span = self.span(output)
        if span is not None:
            self.check_number("seconds", span.seconds)
            if span.until is not None:
                self.check_number("until", span.until)
        return span

    @contextlib.contextmanager
    def _border(self, output: str) -> Iterator[None]:
        """Turn an error that a parser did not expect into that of an output that cannot be read."""
        try:
            yield
        except BenchmarkOutputError as error:
            raise self._completed(error, output) from None
        except (ArithmeticError, LookupError, ValueError, csv.Error) as error:
            problem = one_line(f"{type(error).__name__}: {error}", 120)
            raise self.fault(
                f"the output cannot be read ({problem}){self.wanted_form()}"
            ) from error

    def _completed(self, error: BenchmarkOutputError, output: str) -> BenchmarkOutputError:
        """Return an error with what the program said, a comma that it has printed, and the form that is read."""
        if error.complete:
            return error
        text, kind = str(error), type(error)
        said = pasted.own_error(output, self.form.partition(" ")[0])
        if said and said not in text:
            reason = text.removeprefix(f"{self.kind}: ")
            text = f"{self.kind}: it said '{one_line(said, 160)}'; {reason}"
            kind = kind if issubclass(kind, FailedRunError) else FailedRunError
        comma = pasted.COMMA.search(output)
        if comma is not None and not self.commas:
            text += f"; '{comma[0]}' has a comma: print it with LC_ALL=C"
        wanted = self.wanted_form()
        if not issubclass(kind, FailedRunError) and wanted not in text:
            text += wanted
        completed = kind(text)
        completed.complete = True
        return completed

    def _check_figures(self, readings: Sequence[Reading]) -> None:
        for reading in readings:
            self.check_number(reading.metric, reading.value)

    # -- what it printed may be a hostile guest's: bounded, checked, and a fault is an OutputError

    def check_length(self, text: str) -> None:
        if not text.strip():
            raise self.fault("the output is empty")
        if len(text) > MAX_CHARACTERS:
            raise self.fault(f"the output has more than {MAX_CHARACTERS} characters")

    def check_runs(self, count: int, what: str) -> None:
        """Refuse a text of more runs than a person reads; ``what``: what they are."""
        if count > MOST_RUNS:
            raise self.fault(
                f"the text has {count} {what}; at most {MOST_RUNS} are read, so keep some of them"
            )

    def load_json(self, text: str) -> dict[str, Any]:
        """Return the JSON object in an output; text around it (warnings, the report for people) is passed over.

        A document that is printed twice is one.

        :raises BenchmarkOutputError: there is none, it is cut off, or there are several that differ.
        """
        first, *others = self.json_objects(text)
        if any(other != first for other in others):
            raise self.fault(f"the output has {1 + len(others)} reports that differ; keep one")
        return first

    def json_objects(self, text: str) -> list[bounded_json.Object]:
        """Return the tool's own JSON objects in an output; all of them where none is its own, at least one."""
        self.check_length(text)
        start = _OBJECT.search(text)
        if start is None and text.lstrip().startswith("["):
            raise self.fault(f"the output is a list of JSON: {ONE_OF_LIST}")
        if start is None and _MEMBER.match(text.lstrip()):
            raise self.fault("the output is cut off: the JSON has no beginning; give all of it")
        if start is None:
            raise self.fault(
                f"no JSON in the output, it begins '{one_line(text[:300], 60)}'{self.wanted_form()}"
            )
        if self._document is None or self._document[0] != text:
            try:
                self._document = (text, bounded_json.objects(text[start.start() :]))
            except bounded_json.CutError as error:
                raise self.fault(f"the output is cut off: {error}; give all of it") from None
            except bounded_json.JsonError as error:
                reason = one_line(error, 80)
                raise self.fault(f"the output is cut off or no JSON: {reason}") from None
        found = self._document[1]
        own = [document for document in found if self.json_keys & document.keys()]
        return own or found

    def has_json(self, text: str) -> bool:
        return _OBJECT.search(text) is not None

    def wanted_form(self) -> str:
        """Return the end of a refusal: which program's output is read."""
        if not self.form:
            return ""
        return f"; the output of '{self.form}' is read"

    def labelled(self, text: str, pattern: str, name: str) -> float:
        """Return the number that the one group of ``pattern`` finds; it must be found exactly once."""
        matches = re.findall(pattern, text, re.MULTILINE)
        begin = rf"^[ \t]*{re.escape(name)}:"
        if not matches and re.search(rf"{begin}[ \t]*[0-9.]{{1,15}},[0-9]", text, re.MULTILINE):
            raise self.fault(f"'{name}' has a comma for the decimal point: print it with LC_ALL=C")
        if not matches and re.search(begin, text, re.MULTILINE):
            raise self.fault(
                f"the output is cut off: its line '{name}' has no whole figure{self.wanted_form()}"
            )
        if not matches:
            raise self.fault(
                f"the output is cut off or foreign: 0 lines '{name}'{self.wanted_form()}"
            )
        if len(matches) > 1:
            raise self.fault(f"the output is ambiguous: {len(matches)} lines '{name}'")
        return self.check_number(name, float(matches[0]))

    def find(self, data: Any, *path: str | int) -> Any:
        """Return what is at ``path``; OutputError: nothing, or a key of the path stands there twice."""
        for key in path:
            if isinstance(data, bounded_json.Object) and key in data.repeated:
                raise self.fault(
                    f"the output has '{one_line(key, 40)}' twice in one object{self.equal_keys}"
                )
            try:
                data = data[key]
            except (LookupError, TypeError):
                name = ".".join(map(str, path))
                problem = (
                    f"the output has no '{name}': it is a part of a document, or lies in another"
                )
                raise self.fault(problem + self.wanted_form()) from None
        return data

    def mapping(self, data: object, *path: str | int) -> dict[str, Any]:
        """Return the object at ``path``; OutputError: it is no object, or a key stands in it twice."""
        found = self.find(data, *path)
        name = ".".join(map(str, path))
        if not isinstance(found, dict):
            raise self.fault(f"'{name}' is no object: {one_line(found, 40)!r}")
        for key in found:
            self.find(found, key)
        return found

    def number(self, data: object, *path: str | int) -> float:
        """Return the number at ``path``, see :meth:`check_number`."""
        return self.check_number(".".join(map(str, path)), self.find(data, *path))

    def check_number(self, name: str, value: object) -> float:
        """Return ``value`` as a float; OutputError: no number, NaN, infinite, negative or absurdly large."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(f"'{name}' is no number: {one_line(value, 40)!r}")
        if not 0 <= value <= MAX_NUMBER:
            raise self.fault(f"'{name}' is out of range: {one_line(value, 40)}")
        return float(value)

    def check_latencies(
        self,
        tails: Mapping[float, float],
        mean: float,
        least: float,
        most: float,
        rounding: float = 0.0,
    ) -> None:
        """Check the figures of one group of latencies against each other.

        :param tails: percentile -> latency; all have the same unit.
        :param rounding: the last digit that is printed.
        :raises BenchmarkOutputError: they contradict each other, by more than rounding and the width of a bucket.
        """
        named = [
            ("min", least),
            *((f"p{share:g}", tails[share]) for share in sorted(tails)),
            ("max", most),
        ]
        for (low_name, low), (high_name, high) in itertools.pairwise(named):
            if low > high * _BUCKET + rounding:
                raise self.fault(
                    f"latencies contradict each other: {low_name} {low:g} is above {high_name} {high:g}"
                )
        if least > mean * _BUCKET + rounding or mean > most * _BUCKET + rounding:
            raise self.fault(
                f"latencies contradict each other: mean {mean:g}, min {least:g}, max {most:g}"
            )


class ReportBenchmark(Benchmark):
    """A benchmark that is read by :meth:`report` as a whole."""

    @abc.abstractmethod
    def report(self, output: str) -> BenchmarkReport:
        """Return all that an output says; OutputError: it is cut off, empty or foreign."""

    def parse(self, output: str) -> list[Reading]:
        return self.report(output).readings

    def remarks(self, output: str) -> Mapping[str, str]:
        return self.report(output).remarks


class ForeignTool(ReportBenchmark):
    """A tool whose reports are read, and which this project does not run."""

    packages: ClassVar[tuple[str, ...]] = ()
    programs: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[Sequence[Parameter]] = ()

    def steps(self, parameters: Mapping[str, str], peer: str | None = None) -> Sequence[Step]:
        raise self.refusal("its reports are read, but it is not run here")
