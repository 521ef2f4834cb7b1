"""Finds benchmarks by their entry points (``nova_perf_tuning.benchmarks``)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata

from nova_perf_tuning import cache_directory, errors
from nova_perf_tuning.validation.bench import base, parameter

NAMESPACE = "nova_perf_tuning.benchmarks"


class UnknownBenchmarkError(errors.PerfTuningError):
    """There is no such benchmark; the message lists those there are."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A benchmark with its parameters.

    :ivar label: its name in the results: the kind, or the whole text when one kind is run in several ways.
    :ivar parameters: all of them, defaults included.
    """

    label: str
    benchmark: base.Benchmark
    parameters: Mapping[str, str]


def load_all() -> list[base.Benchmark]:
    """Return every installed benchmark, ordered by kind."""
    return [found() for found in _installed().values()]


def load(kind: str) -> base.Benchmark:
    """Return one benchmark.

    :raises UnknownBenchmarkError: nothing installed has that name.
    """
    found = find(kind)
    if found is None:
        raise UnknownBenchmarkError(f"there is no benchmark '{kind[:40]}'; there are {', '.join(_installed())}")
    return found()


def find(kind: str) -> type[base.Benchmark] | None:
    """Return the class of a kind of benchmark, None where it is not installed, or broken."""
    return _installed().get(kind)


@functools.cache
def _installed() -> dict[str, type[base.Benchmark]]:
    """Return kind -> its benchmark."""
    found = {}
    for entry in sorted(metadata.entry_points(group=NAMESPACE)):
        with contextlib.suppress(Exception):  # one that is broken takes no other along
            found[entry.name] = entry.load()
    return found


class MissingProgramError(errors.PerfTuningError):
    """A benchmark's program is not on this host; names the package to install."""


def check_installed(benchmark: base.Benchmark, given: Mapping[str, str] | None = None) -> None:
    """See that the host can run ``benchmark`` with the parameters that are given.

    :raises MissingProgramError: a program is not on PATH, or a file not where it should be.
    """
    if absent := missing(benchmark, given):
        how = how_to_get(benchmark, given)
        raise MissingProgramError(f"{benchmark.kind}: {absent[0][:160]} is not on this host; {how}")


def missing(benchmark: base.Benchmark, given: Mapping[str, str] | None = None) -> list[str]:
    """Return the programs of ``benchmark`` that are not on this host, and the files that are not there."""
    path = cache_directory.program_path()
    absent = [program for program in benchmark.programs if shutil.which(program, path=path) is None]
    return absent + [file for file in benchmark.files(given or {}) if not os.path.exists(file)]


def how_to_get(benchmark: base.Benchmark, given: Mapping[str, str] | None = None) -> str:
    """Return what to do to have a benchmark's programs on this host."""
    absent = missing(benchmark, given)
    own = any(program.startswith("nova-perf-") for program in absent)
    ways = ["build it with tools/programs/build"] if own else []
    if benchmark.packages and any(program in absent for program in benchmark.programs):
        ways.append(f"install {' '.join(benchmark.packages)}")
    return " and ".join([*ways, *filter(None, [benchmark.brought])])


def needs(found: Sequence[Job]) -> tuple[set[str], int, int]:
    """Return what jobs need in a guest: programs, memory of the largest in MiB, space of all files in MiB.

    Files that must be there beside the programs are among these, by their paths.
    """
    programs = {program for job in found for program in job.benchmark.programs}
    programs |= {file for job in found for file in job.benchmark.files(job.parameters)}
    memory = max((job.benchmark.memory_mib(job.parameters) for job in found), default=0)
    return programs, memory, sum(job.benchmark.scratch_mib(job.parameters) for job in found)


def jobs(texts: Sequence[str], seconds: int | None = None) -> list[Job]:
    """Return the jobs that ``KIND[:k=v,…]`` texts name.

    :param seconds: length of a run for every benchmark that has such a parameter and is given none.
    :raises UnknownBenchmarkError: an unknown kind. :raises parameter.ParameterError: a wrong parameter, or one
        benchmark named twice with the same parameters.
    """
    named = [text.partition(":")[::2] for text in texts]
    kinds = [kind for kind, _ in named]
    by_label: dict[str, Job] = {}
    for kind, given in named:
        benchmark = load(kind)
        chosen = parameter.split(given)
        if seconds is not None and "seconds" in benchmark.defaults:
            chosen = {"seconds": str(seconds), **chosen}
        merged = benchmark.merged(chosen)
        label = kind if kinds.count(kind) == 1 or not given else f"{kind}:{given}"
        # Range errors show now, not after the guests have booted.
        benchmark.steps(merged, "192.0.2.1" if benchmark.paired else None)
        if label in by_label:
            raise parameter.ParameterError(f"benchmark '{label[:80]}' is named twice; name it once")
        by_label[label] = Job(label, benchmark, merged)
    return list(by_label.values())
