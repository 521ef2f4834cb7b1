# SPDX-License-Identifier: Apache-2.0
"""Finds benchmarks by their entry points (``nova_perf_tuning.benchmarks``), and by their labels in results."""

import dataclasses
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import cache_directory, entry_points, errors
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, foreign, pasted
from nova_perf_tuning.validation.results.environment import RecordedBenchmark

#: Seconds that are less than one.
_SHORT: Final = re.compile(r"0(?:\.[0-9]{1,9})?|[0-9.]{1,9}e-[0-9]{2}")
NAMESPACE = "nova_perf_tuning.benchmarks"

#: Benchmarks that are loads too; they run so long unless they are ended before, in seconds.
_LOADS: Final = ("cpu", "iperf3")
_LOAD_S: Final = 3600
#: Longest run beside a load: it starts, warms up and ends while the load is there.
_LOADED_S: Final = 3400

LOG = logging.getLogger(__name__)


class UnknownBenchmarkError(errors.PerfTuningError):
    """No benchmark of that name is installed, or it cannot be imported."""


class MissingProgramError(errors.PerfTuningError):
    """A benchmark's program or file is not on this host; says how to get it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A benchmark with its parameters.

    :ivar label: its name in the results: the kind, or the whole text when one kind is run in
        several ways.
    :ivar parameters: all of them, defaults included.
    :ivar beside: loads that run at the same time, see :func:`beside`.
    """

    label: str
    benchmark: base.Benchmark
    parameters: Mapping[str, str]
    beside: tuple["Job", ...] = ()

    @property
    def loads(self) -> str:
        """What runs beside it, as the option names it; empty: nothing."""
        return " and ".join(load.label for load in self.beside)

    @property
    def recorded_parameters(self) -> dict[str, str]:
        """Return the parameters and the loads: with both of them results compare."""
        recorded = dict(self.parameters)
        if self.beside:
            recorded["beside"] = self.loads
        return recorded


def load_all() -> list[base.Benchmark]:
    return [kind() for kind in installed(NAMESPACE).values()]


def load(kind: str) -> base.Benchmark:
    """Return one benchmark.

    :raises UnknownBenchmarkError: none of that name is installed, or it cannot be imported.
    """
    known = installed(NAMESPACE)
    if kind not in known:
        text = why_absent(NAMESPACE, "benchmark", kind)
        raise UnknownBenchmarkError(text + _similar(kind, load_all()))
    benchmark: base.Benchmark = known[kind]()
    return benchmark


def load_reader(kind: str) -> base.Benchmark:
    """Return one benchmark or foreign tool whose outputs are read, or raise :class:`UnknownBenchmarkError`."""
    for tool in foreign.TOOLS:
        if tool.kind == kind:
            return tool()
    _classes, faults = entry_points.imported(NAMESPACE)
    if kind in installed(NAMESPACE) or kind in faults:
        return load(kind)
    known = ", ".join([*installed(NAMESPACE), *(tool.kind for tool in foreign.TOOLS)])
    name, colon, _ = kind.partition(":")
    if colon and name in known.split(", "):
        raise UnknownBenchmarkError(
            f"'{kind[:80]}': outputs say themselves which work they are of; give '{name}' without"
            " parameters"
        )
    readers = [*load_all(), *(tool() for tool in foreign.TOOLS)]
    raise UnknownBenchmarkError(
        f"there is no benchmark '{kind[:40]}'; there are {known}{_similar(kind, readers)}"
    )


def _similar(name: str, tools: Sequence[base.Benchmark]) -> str:
    """Return which kinds are of a program of that name, or have a name like it; empty: none."""
    kinds = []
    for tool in tools:
        shared = name in tool.kind or tool.kind in name.split("_")
        if name and (shared or name == _program(tool) or name in tool.programs):
            kinds.append(tool.kind)
    if not kinds:
        return ""
    return f"; of '{name[:40]}' are {', '.join(kinds)}"


def recognise(text: str) -> base.Benchmark:
    """Return the benchmark or foreign tool that printed ``text``: the one that can read it.

    :raises base.BenchmarkOutputError: none can, with what is wrong if the text has a tool's marks; or
        several can.
    """
    readers = []
    refusals: dict[str, base.BenchmarkOutputError] = {}
    tools = [benchmark for benchmark in load_all() if benchmark.may_read(text)]
    for foreign_tool in (tool() for tool in foreign.TOOLS):
        if foreign_tool.printed(text):
            tools.append(foreign_tool)
    for benchmark in tools:
        try:
            benchmark.checked_figures(text)
        except base.BenchmarkOutputError as error:
            if benchmark.printed(text):
                refusals[benchmark.kind] = error
            continue
        readers.append(benchmark)
    if len(readers) > 1:
        kinds = ", ".join(benchmark.kind for benchmark in readers)
        raise base.BenchmarkOutputError(
            f"the output may be of {kinds}; name the benchmark before the file"
        )
    if readers:
        return readers[0]
    said = pasted.around_json(text)
    if said:
        raise base.BenchmarkOutputError(said)
    if refusals:
        raise _of_several(tools, refusals, text)
    raise _read_by_none(text)


def _of_several(
    tools: Sequence[base.Benchmark],
    refusals: Mapping[str, base.BenchmarkOutputError],
    text: str,
) -> base.BenchmarkOutputError:
    """Return the first refusal, with the other tools that have printed in the same text."""
    by_program: dict[str, str] = {}
    for tool in tools:
        if tool.kind in refusals:
            by_program.setdefault(_program(tool), tool.kind)
    kinds = [*by_program.values(), *_unread(text)]
    first = next(iter(refusals.values()))
    if len(kinds) < 2:
        return first
    return type(first)(
        f"{first}; the text has lines of several tools ({', '.join(kinds)}): give each test's output"
        " a file of its own"
    )


def report_as_named(benchmark: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return what :func:`report` does; a refusal names the other benchmark that reads the output.

    :raises base.BenchmarkOutputError: it cannot be read.
    """
    try:
        return report(benchmark, text)
    except base.BenchmarkOutputError as error:
        try:
            other = recognise(text).kind
        except base.BenchmarkOutputError:
            raise error from None
        raise type(error)(f"{error}; 'nova-perf bench parse {other}' reads it") from None


def report(benchmark: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return what an output says, and which other tools have printed in the same text.

    :raises base.BenchmarkOutputError: it cannot be read.
    """
    found = benchmark.checked_report(text)
    if _SHORT.fullmatch(found.workload.get("seconds", "")) and "short" not in found.remarks:
        found.remarks["short"] = "the run took less than a second: its figures say little"
    others: dict[str, str] = {}
    for tool in (*load_all(), *(tool() for tool in foreign.TOOLS)):
        if _program(tool) != _program(benchmark) and tool.printed(text):
            others.setdefault(_program(tool), tool.kind)
    for name in _unread(text):
        others[name] = name
    if others:
        names = ", ".join(others.values())
        found.remarks["other_tools"] = (
            f"the text has lines of {names}, too: no figure here is of them"
        )
    return found


def _unread(text: str) -> list[str]:
    """Return the tools that have printed in a text, and whose output is not read."""
    return [
        name
        for name, mark in foreign.UNREAD.items()
        if re.search(f"^(?:{mark})", text, re.MULTILINE)
    ]


def _program(tool: base.Benchmark) -> str:
    """Return the program that prints what a reader reads; some programs have several readers."""
    if tool.tool or tool.programs:
        return tool.tool or tool.programs[0]
    return tool.kind.partition("_")[0]


def _read_by_none(text: str) -> base.BenchmarkOutputError:
    """Return the error of a text that has no marks of an output that is read."""
    for program, kind in foreign.COMMANDS.items():
        if program not in text:
            continue
        reader = load_reader(kind)
        said = pasted.own_error(text, program)
        if said:
            return reader.fault(f"it said '{one_line(said, 160)}'{reader.wanted_form()}")
        if pasted.command(text, program):
            return reader.fault(
                f"the text has its command, and no output of it that is read{reader.wanted_form()}"
            )
    named = [
        program
        for program in foreign.COMMANDS
        if re.search(rf"(?<![A-Za-z0-9_-]){program}(?!{foreign.ANOTHER})", text)
    ]
    own = ""
    unread = _unread(text)
    if not text.strip():
        own = ": it is empty"
    elif re.match(r"\s*\[\s*\{", text):
        own = f": it is a list of JSON, {base.ONE_OF_LIST}"
    elif unread:
        own = f": it is of {' and '.join(unread)}"
    elif len(named) == 1:
        reader = load_reader(foreign.COMMANDS[named[0]])
        own = f": it names {named[0]}, whose own output ('{reader.form}') is not in it"
    return base.BenchmarkOutputError(
        f"no benchmark reads this output{own}; name the one that printed it, as in 'nova-perf bench parse fio FILE',"
        f" to see what is wrong with it; outputs of {foreign.READ} are read"
    )


def of_label(
    label: str, benchmarks: Mapping[str, RecordedBenchmark]
) -> type[base.Benchmark] | None:
    """Return the class of a benchmark of some results; None: it is not installed here.

    A label begins with the kind. What ``benchmarks`` of the environment says of it counts only
    where that is none of those installed.
    """
    known = installed(NAMESPACE)
    for kind in (
        label.partition(":")[0],
        benchmarks.get(label, RecordedBenchmark()).kind,
    ):
        if kind in known:
            found: type[base.Benchmark] = known[kind]
            return found
    return None


def installed(group: str) -> Mapping[str, Any]:
    """Return name -> class of the plug-ins of a group that can be imported."""
    classes, _faults = entry_points.imported(group)
    return classes


def why_absent(group: str, what: str, name: str) -> str:
    """Return why there is no plug-in of that name, in one line.

    :param what: what the plug-ins of the group are, such as ``benchmark``.
    """
    classes, faults = entry_points.imported(group)
    if name in faults:
        return f"{what} '{name}' cannot be imported: {faults[name]}; repair or remove its package"
    return f"there is no {what} '{name[:40]}'; there are {', '.join(classes)}"


def check_job(job: Job) -> None:
    """Raise :class:`MissingProgramError` if the host cannot run a job or what runs beside it."""
    for part in (job, *job.beside):
        check_installed(part.benchmark, part.parameters)


def check_installed(benchmark: base.Benchmark, given: Mapping[str, str]) -> None:
    """Raise :class:`MissingProgramError` if the host cannot run a benchmark with some parameters."""
    fault = benchmark.host_fault()
    if fault:
        raise MissingProgramError(f"{benchmark.kind}: {fault}")
    path = cache_directory.program_path()
    absent = [
        program for program in benchmark.programs if shutil.which(program, path=path) is None
    ]
    ways = []
    if any(program.startswith("nova-perf-") for program in absent):
        ways.append("build it with tools/programs/build")
    if absent and benchmark.packages:
        ways.append(f"install {' '.join(benchmark.packages)}")
    if benchmark.brought:
        ways.append(benchmark.brought)
    for file in benchmark.files(given):
        if not os.path.exists(file):
            absent.append(file)
    if absent:
        how = " and ".join(ways)
        raise MissingProgramError(
            f"{benchmark.kind}: {absent[0][:160]} is not on this host; {how}"
        )


def needs(jobs: Sequence[Job]) -> tuple[set[str], int, int]:
    """Return what jobs need in a guest: programs and paths of other files, then in MiB memory and disk space."""
    programs: set[str] = set()
    memory = scratch = 0
    for job in jobs:
        programs.update(job.benchmark.programs, job.benchmark.files(job.parameters))
        for load in job.beside:
            programs.update(load.benchmark.programs)
        memory = max(memory, job.benchmark.memory_mib(job.parameters))
        scratch += job.benchmark.scratch_mib(job.parameters)
    return programs, memory, scratch


def beside(job: Job, texts: Sequence[str], cpus: int) -> Job:
    """Return a job with loads that run beside it: ``cpu`` and ``iperf3``, with parameters.

    :param cpus: of the machine, each of which has a thread of the load ``cpu``.
    :raises base.ParameterError: the job measures no latency or runs for too long, or a load is
        none of these.
    """
    if not texts:
        return job
    if not job.benchmark.latency:
        known = ", ".join(benchmark.kind for benchmark in load_all() if benchmark.latency)
        raise base.ParameterError(
            f"--beside: '{job.label[:80]}' measures no latency of CPUs, as {known} do; run it"
            " without a load"
        )
    if int(job.parameters["seconds"]) > _LOADED_S:
        raise base.ParameterError(f"--beside: a run may take {_LOADED_S} seconds at most")
    found: dict[str, Job] = {}
    for text in texts:
        kind, chosen = base.split(text)
        if kind not in _LOADS:
            known = " and ".join(_LOADS)
            raise base.ParameterError(f"--beside: '{kind[:40]}' is no load; loads are {known}")
        if "seconds" in chosen:
            raise base.ParameterError(
                "--beside: a load runs as long as the benchmark; leave seconds out"
            )
        if kind in found:
            raise base.ParameterError(f"--beside: '{kind}' is named twice; name it once")
        benchmark = load(kind)
        if kind == "cpu":
            chosen = {"threads": str(cpus), **chosen}
        merged = benchmark.merged({**chosen, "seconds": str(_LOAD_S)})
        benchmark.steps(merged, "192.0.2.1")
        given = ",".join(f"{name}={value}" for name, value in sorted(chosen.items()))
        found[kind] = Job(f"{kind}:{given}".rstrip(":"), benchmark, merged)
    return dataclasses.replace(job, beside=tuple(found.values()))


def jobs(texts: Sequence[str], seconds: int | None = None) -> list[Job]:
    """Return the jobs that ``KIND[:k=v,…]`` texts name.

    :param seconds: length of a run for every benchmark that has such a parameter and is given
        none.
    :raises UnknownBenchmarkError, base.ParameterError: an unknown kind; a wrong parameter, or a
        job named twice.
    """
    kinds = [text.partition(":")[0] for text in texts]
    by_label: dict[str, Job] = {}
    for text in texts:
        kind, chosen = base.split(text)
        benchmark = load(kind)
        if seconds is not None and "seconds" in benchmark.defaults:
            chosen = {"seconds": str(seconds), **chosen}
        merged = benchmark.merged(chosen)
        label = kind
        if chosen and kinds.count(kind) > 1:
            label = text
        server = None
        if benchmark.paired:
            server = "192.0.2.1"
        benchmark.steps(merged, server)  # range errors show now, not after the guests have booted
        if label in by_label:
            raise base.ParameterError(f"benchmark '{label[:80]}' is named twice; name it once")
        by_label[label] = Job(label, benchmark, merged)
    return list(by_label.values())
