"""Which figure of a benchmark is judged, as the benchmark itself defines it: a results file does not choose it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.environment import Benchmark

#: Label -> how it was run, as an environment has it.
_Benchmarks = Mapping[str, Benchmark]


class Figure(NamedTuple):
    """What a benchmark is judged by, and the unit in which it counts its work; empty: not told."""

    metric: str
    unit: str
    better: str
    work_unit: str


def of_label(label: str, benchmarks: _Benchmarks) -> Figure | None:
    """Return the figure that a benchmark of some results is judged by; None: it is not installed here."""
    found = benchmark(label, benchmarks)
    with contextlib.suppress(Exception):  # one that is broken says nothing of the file
        if found is not None:
            return Figure(*found.primary, found.work_unit)
    return None


def benchmark(label: str, benchmarks: _Benchmarks) -> type[bench.Benchmark] | None:
    """Return the class of a benchmark of some results; None: not installed here.

    A label begins with the kind of benchmark. What the environment says of the kind counts only where that is
    none of those installed.
    """
    return plugins.find(label.partition(":")[0]) or plugins.find(benchmarks.get(label, Benchmark()).kind)


def kind(label: str, benchmarks: _Benchmarks) -> str:
    """Return the kind of a benchmark of some results: as they say, else its label's, where it is not installed."""
    found = benchmark(label, benchmarks)
    return found.kind if found is not None else benchmarks.get(label, Benchmark()).kind or label.partition(":")[0]
