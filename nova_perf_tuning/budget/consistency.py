"""What a results file says against itself, where a schema cannot see it: a verdict out of it would say nothing."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import definitions, model, overhead

#: Smallest figure but 0 that is read: means and ratios of far smaller ones become 0 or infinite.
MIN_FIGURE = 1e-9


def find(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return the first contradiction, the place in the file first; empty: none."""
    return (
        next((f"trials[{index}]{fault}" for index, one in enumerate(trials) if (fault := _trial(one))), "")
        or _figures(environment, trials)
        or _runs(trials)
        or _copied_boots(environment, trials)
    )


def _trial(one: model.Trial) -> str:
    if (one.value is None) != (one.error is not None):
        return ": needs either a value or an error"
    for name, figure in (("value", one.value), ("work", one.work), ("window_s", one.window_s)):
        if figure and figure < MIN_FIGURE:
            return f".{name}: {figure} is too small, the least is 0 or {MIN_FIGURE}"
    if one.wait_s is not None and one.wait_s < -overhead.SLACK_S:
        return f".wait_s: is {one.wait_s}, and nothing waits for less than no time"
    return ""


def _figures(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return which figure has another unit or better way than another of its metric, or than its benchmark says.

    A loss would be a gain. A benchmark has one figure that is judged: the choice would be the file's.
    """
    metrics: dict[tuple[str, str], tuple[str, str]] = {}
    works: dict[str, str] = {}
    judged: dict[str, str] = {}
    for label in {one.benchmark for one in trials}:
        if (known := definitions.of_label(label, environment)) is not None:
            metrics[label, known.metric] = known.unit, known.better
            if known.work_unit:
                works[label] = known.work_unit
    for index, one in enumerate(trials):
        unit, better = metrics.setdefault((one.benchmark, one.metric), (one.unit, one.better))
        work_unit = works.setdefault(one.benchmark, one.work_unit) if one.work is not None else one.work_unit
        metric = judged.setdefault(one.benchmark, one.metric) if one.primary else one.metric
        what = f"of {one.benchmark}"
        for name, wanted, where in (
            ("better", better, f"{one.metric} {what}"),
            ("unit", unit, f"{one.metric} {what}"),
            ("work_unit", work_unit, f"the work {what}"),
            ("metric", metric, f"the judged figure {what}"),
        ):
            if getattr(one, name) != wanted:
                return f"trials[{index}].{name}: is '{getattr(one, name)}', but '{wanted}' for {where}"
    return ""


def _runs(trials: Sequence[model.Trial]) -> str:
    """Return which run is there twice: guards go by its number, and copies would pass for replicates."""
    runs: dict[int, tuple[str, str, int, int]] = {}
    places: dict[tuple[str, str, int, int], int] = {}
    figures: set[tuple[str, str, int]] = set()
    merged = "give every validation a results file of its own"
    for index, one in enumerate(trials):
        place = (one.benchmark, one.arm, one.group, one.block)
        if runs.setdefault(one.order, place) != place:
            return f"trials[{index}].order: is {one.order}, which another run has; {merged}"
        figure = (one.metric, one.arm, one.order)
        if places.setdefault(place, one.order) != one.order or (one.primary and figure in figures):
            return f"trials[{index}]: '{one.benchmark}' ran in this block of '{one.arm}' before; {merged}"
        figures.add(figure)
    return ""


def _copied_boots(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return which boot is there under two numbers: the interval is over boots, and copies would narrow it."""
    if "fleet" in environment:  # there each boot is of a pair that is told of, with its hosts
        return ""
    boots: dict[tuple[str, int], set[object]] = collections.defaultdict(set)
    for one in trials:
        if one.value:  # boots without a figure are alike, and no interval has them
            seconds = (*sorted(one.host_cpu_s.items()), one.guest_cpu_s, one.window_s)
            boots[one.benchmark, one.group].add((one.metric, one.arm, one.block, one.value, seconds))
    first: dict[tuple[str, frozenset[object]], int] = {}
    for (benchmark, group), figures in boots.items():
        if (other := first.setdefault((benchmark, frozenset(figures)), group)) != group:
            return f"trials: groups {other} and {group} are the same boot of {benchmark}; leave one of them out"
    return ""
