# SPDX-License-Identifier: Apache-2.0
"""Finds benchmarks by their entry points (``nova_perf_tuning.benchmarks``), and by their labels in results."""

import dataclasses
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import cache_directory, entry_points, errors
from nova_perf_tuning.validation.bench import base
from nova_perf_tuning.validation.results.environment import RecordedBenchmark

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
    found: type[base.Benchmark] | None = entry_points.find(NAMESPACE, kind)
    if found is None:
        text = why_absent(NAMESPACE, "benchmark", kind)
        raise UnknownBenchmarkError(text + similar(kind, load_all()))
    return found()


def similar(name: str, tools: Sequence[base.Benchmark]) -> str:
    """Return which kinds are of a program of that name, or have a name like it; empty: none."""
    kinds = []
    for tool in tools:
        shared = name in tool.kind or tool.kind in name.split("_")
        if name and (shared or name == program_of(tool) or name in tool.programs):
            kinds.append(tool.kind)
    if not kinds:
        return ""
    return f"; of '{name[:40]}' are {', '.join(kinds)}"


def program_of(tool: base.Benchmark) -> str:
    """Return the program that prints what a reader reads; some programs have several readers."""
    if tool.tool or tool.programs:
        return tool.tool or tool.programs[0]
    return tool.kind.partition("_")[0]


def of_label(
    label: str, benchmarks: Mapping[str, RecordedBenchmark]
) -> type[base.Benchmark] | None:
    """Return the class of a benchmark of some results; None: it is not installed here.

    A label begins with the kind. What ``benchmarks`` of the environment says of it counts only
    where that is none of those installed.
    """
    for kind in (
        label.partition(":")[0],
        benchmarks.get(label, RecordedBenchmark()).kind,
    ):
        found: type[base.Benchmark] | None = entry_points.find(NAMESPACE, kind)
        if found is not None:
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
