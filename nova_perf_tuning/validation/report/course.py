# SPDX-License-Identifier: Apache-2.0
"""The time course of trials as strips of bars and a map of CPU x time.

Positions are steps and per cent.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.validation.report import summary
from nova_perf_tuning.validation.results import model

#: Stacking order: the guest, what the host does for it, and what vCPUs wanted and did not get.
_CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "wait")
_MOVED: Final = ("net", "disk")
#: Bytes per second below which nothing but metadata moved.
_LEAST_MOVED: Final = 1e5
#: Shades of the map: the busiest has this number.
_SHADES: Final = 8


class Strip(NamedTuple):
    """:ivar kind: ``net``, ``disk`` or ``cpu``; :ivar bars: part -> path.

    :ivar top: the value that the full height stands for.
    """

    kind: str
    top: float
    bars: Mapping[str, str]


class Panel(NamedTuple):
    """The course of one trial; :ivar what: why it is shown.

    :ivar heat: shade -> path, a row for each CPU.
    """

    trial: model.Trial
    course: model.Course
    what: str
    steps: int
    strips: Sequence[Strip]
    heat: Mapping[int, str]


@dataclasses.dataclass(slots=True)
class _Shown:
    """A trial with a course; :ivar what: why it is shown, ``median`` or ``worst``."""

    trial: model.Trial
    course: model.Course
    what: str = ""


def panels(measured: summary.BenchmarkSummary, trials: Iterable[model.Trial]) -> list[Panel]:
    """Return the median trial of each arm and its worst, of those that count.

    All have the same scales.
    """
    shown = _chosen(measured, trials)
    strips_of: dict[str, list[Strip]] = {}
    for kind in (*_MOVED, "cpu"):
        stacks = [_stack(kind, each.course) for each in shown]
        strips_of[kind] = _strips(kind, stacks)
    drawn = []
    for index, each in enumerate(shown):
        rows = list(each.course["busy"].values())
        host_cpu = each.course["host_cpu"].values()
        lengths = [*map(len, host_cpu), *map(len, rows)]
        steps = max(lengths, default=0)
        strips = [strips[index] for strips in strips_of.values() if strips]
        drawn.append(Panel(each.trial, each.course, each.what, steps, strips, _heat(rows)))
    return drawn


def _chosen(measured: summary.BenchmarkSummary, trials: Iterable[model.Trial]) -> list[_Shown]:
    """Return the median trial of each arm, then the worst of each arm with more than two."""
    known: dict[tuple[str, int, int], _Shown] = {}
    for trial in trials:
        if trial.benchmark == measured.label and trial.course and trial.primary:
            known[trial.arm, trial.boot, trial.block] = _Shown(trial, trial.course)
    medians: list[_Shown] = []
    worst: list[_Shown] = []
    for arm in measured.arms:
        ordered: list[_Shown] = []
        for boot, block, _ in arm.values:
            if (arm.arm, boot, block) in known:
                ordered.append(known[arm.arm, boot, block])
        largest_first = measured.better == "lower"
        ordered.sort(key=lambda each: each.trial.value or 0.0, reverse=largest_first)
        if ordered:
            median = ordered[len(ordered) // 2]
            median.what = "median"
            medians.append(median)
        if len(ordered) > 2:
            ordered[0].what = "worst"
            worst.append(ordered[0])
    return medians + worst


def _stack(kind: str, course: model.Course) -> Mapping[str, Sequence[float | None]]:
    """Return what a strip of this kind shows of a course: part -> its values step by step."""
    if kind in _MOVED:
        return {kind: course["moved"].get(kind, [])}
    host_cpu = course["host_cpu"]
    return {name: host_cpu[name] for name in _CLASSES if name in host_cpu}


def _strips(kind: str, stacks: Sequence[Mapping[str, Sequence[float | None]]]) -> list[Strip]:
    """Return a strip for each of several stacks of values, on one scale.

    There are none where there is too little to see.
    """
    top = 0.0
    for stack in stacks:
        for step_values in zip(*stack.values(), strict=False):
            top = max(top, math.fsum(value or 0.0 for value in step_values))
    least = 1e-9
    if kind in _MOVED:
        least = _LEAST_MOVED
    if top < least:
        return []
    strips = []
    for stack in stacks:
        base = [0.0] * model.MAX_STEPS
        bars: dict[str, str] = {}
        for name, values in stack.items():
            path = []
            for step, value in enumerate(values):
                height = 100 * (value or 0.0) / top
                below = base[step]
                base[step] += height
                if height:
                    bar_top = max(0.0, 100 - below - height)
                    path.append(f"M{step} {bar_top:.1f}h1v{height:.1f}h-1z")
            bars[name] = "".join(path)
        strips.append(Strip(kind, top, bars))
    return strips


def _heat(rows: Sequence[Sequence[int | None]]) -> dict[int, str]:
    """Return shade -> path of cells of a unit each, runs of one shade as one."""
    paths: dict[int, str] = {}
    for row, shares in enumerate(rows):
        shades = [math.ceil((share or 0) * _SHADES / 100) for share in shares]
        step = 0
        for shade, cells in itertools.groupby(shades):
            length = len(list(cells))
            if shade:
                paths[shade] = paths.get(shade, "") + f"M{step} {row}h{length}v1h-{length}z"
            step += length
    return paths
