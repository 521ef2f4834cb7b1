# SPDX-License-Identifier: Apache-2.0
"""The time course of trials as strips of bars and a map of CPU x time; positions are steps and per cent."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.validation.measure import model
from nova_perf_tuning.validation.report import summary

#: Stacking order: the guest, what the host does for it, and what vCPUs wanted and did not get.
_CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "wait")
_MOVED: Final = ("net", "disk")
#: Bytes per second below which nothing but metadata moved.
_LEAST_MOVED: Final = 1e5
#: Shades of the map: the busiest has this number.
_SHADES: Final = 8


class Strip(NamedTuple):
    """:ivar kind: ``net``, ``disk`` or ``cpu``; :ivar top: what the full height is; :ivar bars: part -> path."""

    kind: str
    top: float
    bars: Mapping[str, str]


class Panel(NamedTuple):
    """The course of one trial; :ivar what: why it is shown; :ivar heat: shade -> path, a row for each CPU."""

    trial: model.Trial
    course: model.Course
    what: str
    steps: int
    strips: Sequence[Strip]
    heat: Mapping[int, str]


def panels(measured: summary.BenchmarkSummary, trials: Iterable[model.Trial]) -> list[Panel]:
    """Return the median trial of each arm and its worst, of those that count; all have the same scales."""
    mine = [trial for trial in trials if trial.benchmark == measured.label and trial.course and trial.primary]
    known = {(trial.arm, trial.boot, trial.block): trial for trial in mine}
    medians, worst = [], []
    for arm in measured.arms:
        places = [(arm.arm, boot, block) for boot, block, _ in arm.values]
        there = (known[place] for place in places if place in known)
        ordered = sorted(there, key=lambda trial: trial.value or 0.0, reverse=measured.better == "lower")
        if ordered:
            medians.append((ordered[len(ordered) // 2], "median"))
            worst += [(ordered[0], "worst")] * (len(ordered) > 2)
    chosen = [(trial, trial.course, what) for trial, what in medians + worst if trial.course]
    strips = {kind: [{kind: course["moved"].get(kind, [])} for _, course, _ in chosen] for kind in _MOVED}
    strips["cpu"] = [
        {name: course["host_cpu"][name] for name in _CLASSES if name in course["host_cpu"]}
        for _, course, _ in chosen
    ]
    drawn = [list(_strips(kind, stacks)) for kind, stacks in strips.items()]
    return [
        Panel(
            *(trial, course, what, max(map(len, (*course["host_cpu"].values(), *_rows(course))), default=0)),
            [strip for strips in drawn for strip in strips[index : index + 1]],
            _heat(_rows(course)),
        )
        for index, (trial, course, what) in enumerate(chosen)
    ]


def _strips(kind: str, stacks: Sequence[Mapping[str, Sequence[float | None]]]) -> Iterator[Strip]:
    """Yield a strip for each of several stacks of values, on one scale; none where there is too little to see."""
    sums = [
        [math.fsum(value or 0.0 for value in step) for step in zip(*stack.values(), strict=False)]
        for stack in stacks
    ]
    top = max(map(max, filter(None, sums)), default=0.0)
    for stack in stacks if top >= (_LEAST_MOVED if kind in _MOVED else 1e-9) else ():
        base, bars = [0.0] * model.MAX_STEPS, {}
        for name, values in stack.items():
            path = []
            for step, value in enumerate(values):
                height, below = 100 * (value or 0.0) / top, base[step]
                base[step] += height
                if height:
                    path.append(f"M{step} {max(0.0, 100 - below - height):.1f}h1v{height:.1f}h-1z")
            bars[name] = "".join(path)
        yield Strip(kind, top, bars)


def _rows(course: model.Course) -> list[Sequence[int | None]]:
    return list(course["busy"].values())


def _heat(rows: Sequence[Sequence[int | None]]) -> dict[int, str]:
    """Return shade -> path of cells of a unit each, runs of one shade as one."""
    paths: dict[int, str] = {}
    for row, shares in enumerate(rows):
        step = 0
        for shade, cells in itertools.groupby(math.ceil((share or 0) * _SHADES / 100) for share in shares):
            length = len(list(cells))
            if shade:
                paths[shade] = paths.get(shade, "") + f"M{step} {row}h{length}v1h-{length}z"
            step += length
    return paths
