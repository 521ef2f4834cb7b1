"""Which figure of a benchmark is judged, as the benchmark itself defines it: a results file does not choose it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

from nova_perf_tuning.budget import model


class Figure(NamedTuple):
    """What a benchmark is judged by, and the unit in which it counts its work; empty: not told."""

    metric: str
    unit: str
    better: str
    work_unit: str


def of_label(label: str, environment: Mapping[str, Any]) -> Figure | None:
    """Return the figure that a benchmark of some results is judged by; None: it is not installed here.

    A label begins with the kind of benchmark. What the environment says of the kind counts only where that is
    none of those installed.
    """
    return _figure(label.partition(":")[0]) or _figure(
        str(environment.get("benchmarks", {}).get(label, {}).get("kind", ""))
    )


def of_labels(labels: Iterable[str], environment: Mapping[str, Any]) -> dict[str, Figure]:
    """Return :func:`of_label` of those labels that it knows."""
    return {label: found for label in labels if (found := of_label(label, environment)) is not None}


def correct(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> None:
    """Set :attr:`model.Trial.primary` as the benchmarks define it.

    Another version may have judged by another figure. Where its file has ours too, ours counts; where it does not,
    the flags stay as they are.
    """
    known = of_labels({one.benchmark for one in trials}, environment)
    there = {
        one.benchmark for one in trials if one.benchmark in known and one.metric == known[one.benchmark].metric
    }
    for one in trials if there else ():
        if one.benchmark in there:
            one.primary = one.metric == known[one.benchmark].metric


@functools.lru_cache(maxsize=1000)
def _figure(kind: str) -> Figure | None:
    entry = _installed().get(kind)  # to load all of them takes longer than to read most files
    with contextlib.suppress(Exception):  # one that is broken says nothing of the file
        if entry is not None:
            benchmark = entry.load()
            metric, unit, better = benchmark.primary
            return Figure(metric, unit, better, benchmark.work_unit)
    return None


@functools.cache
def _installed() -> dict[str, metadata.EntryPoint]:
    """Return kind -> where its benchmark is."""
    from nova_perf_tuning.bench import plugins

    return {entry.name: entry for entry in metadata.entry_points(group=plugins.NAMESPACE)}
