# SPDX-License-Identifier: Apache-2.0
"""The time course of trials as strips of bars and a map of CPU x time; positions are steps and per cent."""

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.validation.measure import model
from nova_perf_tuning.validation.report import summary, text

#: Stacking order: the guest, what the host does for it, and what vCPUs wanted and did not get.
CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "wait")
_MOVED: Final = {"net": "sent to the network, MB/s", "disk": "disk, MB/s"}
#: Shades of the map; the busiest has this number.
LEVELS: Final = 8
#: More rows of the map have no numbers each.
_LABELS: Final = 16


class Strip(NamedTuple):
    """:ivar top: value of the full height; :ivar bars: class of the colour, its name and its path of each part."""

    title: str
    top: float
    bars: Sequence[tuple[str, str, str]]


class Panel(NamedTuple):
    """The course of one trial.

    :ivar what: why it is shown; :ivar steps: number of steps; :ivar seconds: of all of them.
    :ivar cpus: number, label or nothing, and words of each row of the map; :ivar heat: shade -> path.
    """

    trial: model.Trial
    what: str
    steps: int
    seconds: float
    strips: Sequence[Strip]
    cpus: Sequence[tuple[str, str, str]]
    heat: Mapping[int, str]
    hidden: int


def panels(measured: summary.BenchmarkSummary, trials: Iterable[model.Trial]) -> list[Panel]:
    """Return the median trial of each arm and its worst, of those that count; all have the same scales."""
    mine = [trial for trial in trials if trial.benchmark == measured.label and trial.course and trial.primary]
    known = {(trial.arm, trial.boot, trial.block): trial for trial in mine}
    medians, worst = [], []
    for arm in measured.arms:
        places = [(arm.arm, boot, block) for boot, block, _ in arm.values]
        ordered = sorted(
            (known[place] for place in places if place in known),
            key=lambda trial: (trial.value or 0.0) * (-1 if trial.better == "lower" else 1),
        )
        if ordered:
            medians.append((ordered[len(ordered) // 2], "median"))
            worst += [(ordered[0], "worst")] * (len(ordered) > 2)
    chosen = medians + worst
    courses = [trial.course for trial, _ in chosen if trial.course]
    tops = {
        kind: max((max(_known(course["moved"].get(kind, ()))) for course in courses), default=0.0)
        for kind in _MOVED
    }
    cpus = max((max(map(math.fsum, _stacked(course))) for course in courses), default=0.0)
    return [_panel(trial, trial.course, what, tops, cpus) for trial, what in chosen if trial.course]


def _panel(trial: model.Trial, course: model.Course, what: str, tops: Mapping[str, float], cpus: float) -> Panel:
    strips = [
        Strip(
            title, tops[kind] / 1e6, [(f"moved-{kind}", title, _bars(course["moved"].get(kind, ()), tops[kind]))]
        )
        for kind, title in _MOVED.items()
        if tops[kind] >= 1e5  # what is less is metadata
    ]
    if cpus:
        parts, base = [], [0.0] * len(_stacked(course))
        for name in CLASSES:
            if name in course["host_cpu"]:
                values = _known(course["host_cpu"][name])
                mean = text.number(statistics.fmean(values))
                parts.append((f"seg-{name}", f"{name}: {mean} CPU on average", _bars(values, cpus, base)))
                base = [low + value for low, value in zip(base, values, strict=True)]
        strips.append(Strip("host CPU by class, CPUs", cpus, parts))
    steps = max(map(len, (*course["host_cpu"].values(), *_shares(course))), default=0)
    return Panel(
        *(trial, what, steps, steps * course["step_s"], strips, list(_rows(course["busy"]))),
        _heat(_shares(course)),
        course["hidden"],
    )


def _shares(course: model.Course) -> list[Sequence[int | None]]:
    return list(course["busy"].values())


def _known(values: Sequence[float | None]) -> list[float]:
    return [value or 0.0 for value in values] or [0.0]


def _stacked(course: model.Course) -> list[tuple[float, ...]]:
    """Return the values of all classes, step by step."""
    rows = [_known(course["host_cpu"][name]) for name in CLASSES if name in course["host_cpu"]]
    return list(zip(*rows, strict=False)) or [()]


def _bars(values: Sequence[float | None], top: float, base: Sequence[float] = ()) -> str:
    """Return the path of bars, a unit wide, in a box 100 units high; :param base: what they stand on."""
    path = []
    for step, (value, low) in enumerate(itertools.zip_longest(values, base, fillvalue=0.0)):
        if value and top:
            height, below = 100 * value / top, 100 * (low or 0.0) / top
            path.append(f"M{step} {max(0.0, 100 - below - height):.1f}h1v{height:.1f}h-1z")
    return "".join(path)


def _rows(busy: Mapping[str, Sequence[int | None]]) -> Iterator[tuple[str, str, str]]:
    every = math.ceil(len(busy) / _LABELS) if busy else 1
    for index, (cpu, shares) in enumerate(busy.items()):
        known = _known(shares)
        words = f"CPU {cpu}: busy {statistics.fmean(known):.0f} %, at most {max(known):.0f} %"
        yield cpu, "" if index % every else cpu, words


def _heat(rows: Sequence[Sequence[int | None]]) -> dict[int, str]:
    """Return shade -> path of cells of a unit each, runs of one shade as one."""
    paths: dict[int, list[str]] = {}
    for row, shares in enumerate(rows):
        step = 0
        for shade, cells in itertools.groupby(math.ceil((share or 0) * LEVELS / 100) for share in shares):
            length = len(list(cells))
            if shade:
                paths.setdefault(shade, []).append(f"M{step} {row}h{length}v1h-{length}z")
            step += length
    return {shade: "".join(path) for shade, path in sorted(paths.items())}
