"""What a results file says against itself, where a schema cannot see it: no run has written such a file.

All of it is refused before anything is judged, since a verdict out of it would say nothing of a host.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import definitions, model, overhead

#: Smallest figure but 0 that is read: means and ratios of far smaller ones become 0 or infinite.
MIN_FIGURE = 1e-9

#: So many equal trials of two boots are copies where windows are rounded; one of them may be chance.
_MANY = 2


def find(environment: Mapping[str, Any], trials: Sequence[model.Trial], *, numbered: bool) -> str:
    """Return the first contradiction, the place in the file first; empty: none.

    :param numbered: whether the file numbers its runs; it need not.
    """
    fault = _spent_twice(environment) or _other_groups(environment, trials) or _lost_pairs(environment, trials)
    fault = fault or next(filter(None, _faults(trials)), "")
    fault = fault or (_numbers(trials) if numbered else "") or _copies(trials)
    return fault or _turned(environment, trials) or _primaries(trials) or _second_runs(trials, numbered)


def _spent_twice(environment: Mapping[str, Any]) -> str:
    """Return what is wrong with the looks that were taken: they share one error probability."""
    spent = sum(one["share"] for one in environment.get("looks", ()))
    return f"environment.looks: shares add up to {spent:.6g}, and there is only 1" if spent > 1 + 1e-6 else ""


def _other_groups(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return what is wrong with the number of boots.

    One that is split up would pass for several. Where some are gone, the rest would be judged as if nobody had
    looked at them, or as if they had been chosen by chance.
    """
    run = environment.get("groups_run")
    if "fleet" in environment or not isinstance(run, int | float):  # there a pair's server is a group of its own
        return ""
    found = len({one.group for one in trials})
    return f"environment.groups_run: is {run:g}, but there are trials of {found} groups" if found != run else ""


def _lost_pairs(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return what a run over many hosts lacks of its pairs: hosts whose pairs are gone would not be judged."""
    if "fleet" not in environment:
        return ""
    pairs = environment["fleet"]["pairs"]
    planned = environment.get("groups")
    found = sum(one["state"] != "dropped" for one in pairs)
    if isinstance(planned, int | float) and found != planned:
        return f"environment.groups: is {planned:g}, but fleet.pairs has {found} that were not dropped"
    numbers = {one["number"] for one in pairs}
    if len(numbers) < len(pairs):
        return "environment.fleet.pairs: has a number twice; every pair has one of its own"
    if max(numbers, default=0) >= len(pairs) > 0:  # behind them are the groups of what servers ran alone
        return f"environment.fleet.pairs: has number {max(numbers)}, but {len(pairs)} pairs are numbered from 0 on"
    hosts = collections.Counter(one["host"] for one in environment["fleet"]["hosts"])
    if twice := [name for name, times in hosts.items() if times > 1]:
        return f"environment.fleet.hosts: has '{twice[0]}' twice; leave one of them out"
    for index, one in enumerate(trials):
        if one.group not in numbers and one.group - len(pairs) not in numbers:
            return f"trials[{index}].group: is {one.group}, which no pair in environment.fleet.pairs has"
    return ""


def _turned(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return which figure has another better way or unit than its benchmark says: a loss would be a gain."""
    known = definitions.of_labels({one.benchmark for one in trials}, environment)
    for index, one in enumerate(trials if known else ()):
        metric, unit, better, work_unit = known.get(one.benchmark, ("", "", "", ""))
        if one.metric == metric and one.better != better:
            return f"trials[{index}].better: is '{one.better}', but {metric} of {one.benchmark} is better {better}"
        if one.metric == metric and one.unit != unit:
            return f"trials[{index}].unit: is '{one.unit}', but {metric} of {one.benchmark} is in {unit}"
        if work_unit and one.work is not None and one.work_unit != work_unit:
            return f"trials[{index}].work_unit: is '{one.work_unit}', but {one.benchmark} counts in {work_unit}"
    return ""


def _primaries(trials: Sequence[model.Trial]) -> str:
    """Return which benchmark has two figures that are judged: the choice would be the file's."""
    first: dict[str, tuple[int, str]] = {}
    for index, one in enumerate(trials):
        if one.primary:
            where, metric = first.setdefault(one.benchmark, (index, one.metric))
            if one.metric != metric:
                return (
                    f"trials[{index}].primary: true for '{one.metric}', but for '{metric}' in trials[{where}]; a"
                    " benchmark has one figure that is judged, so set false for the other"
                )
    return ""


def _faults(trials: Sequence[model.Trial]) -> Iterator[str]:
    """Yield for each trial what a schema cannot say against it, the place in it first; empty: nothing."""
    figures: dict[tuple[str, str], model.Trial] = {}
    works: dict[str, model.Trial] = {}
    for index, one in enumerate(trials):
        fault = _fault(one) or _mixed(one, figures.setdefault((one.benchmark, one.metric), one), works)
        yield f"trials[{index}]{fault}" if fault else ""


def _fault(one: model.Trial) -> str:
    if (one.value is None) != (one.error is not None):
        return ": needs either a value or an error"
    for name, figure in (("value", one.value), ("work", one.work), ("window_s", one.window_s)):
        if figure and figure < MIN_FIGURE:
            return f".{name}: {figure} is too small, the least is 0 or {MIN_FIGURE}"
    if one.wait_s is not None and one.wait_s < -overhead.SLACK_S:
        return f".wait_s: is {one.wait_s}, and nothing waits for less than no time"
    return ""


def _mixed(one: model.Trial, first: model.Trial, works: dict[str, model.Trial]) -> str:
    """Return whether a trial's figures compare with earlier ones.

    :param first: the first trial of its metric.
    :param works: benchmark -> the first trial that counted its work.
    """
    if one.better != first.better:
        return ".better: contradicts an earlier trial of its metric"
    if one.unit != first.unit:
        return f".unit: '{one.unit}', where an earlier trial of its metric has '{first.unit}'"
    if one.work is not None and one.work_unit != (unit := works.setdefault(one.benchmark, one).work_unit):
        return f".work_unit: '{one.work_unit}', where an earlier trial of its benchmark has '{unit}'"
    return ""


def _numbers(trials: Sequence[model.Trial]) -> str:
    """Return which run has the number of another: guards go by it, and copies would pass for replicates."""
    runs: dict[int, tuple[int, model.Trial]] = {}
    figures: dict[tuple[str, str, int], model.Trial] = {}
    for index, one in enumerate(trials):
        where, first = runs.setdefault(one.order, (index, one))
        like = figures.setdefault((one.metric, one.arm, one.order), one)
        if like is not one and like.benchmark == one.benchmark and (_run(like) != _run(one) or like == one):
            return f"trials[{index}]: is run {one.order} of '{one.arm}' again, which an earlier trial is"
        if _run(one) != _run(first):
            return (
                f"trials[{index}].order: is {one.order}, which trials[{where}] of another run has; every run has a"
                " number of its own"
            )
        if one is not first and (name := _measured_apart(one, first)):
            return (
                f"trials[{index}].{name}: is not that of trials[{where}], and both are run {one.order}; give every"
                " validation a results file of its own"
            )
    return ""


def _measured_apart(one: model.Trial, other: model.Trial) -> str:
    """Return what the figures of one run share, and these two do not."""
    names = ("window_s", "host_cpu_s", "guest_cpu_s", "wait_s", "conditions")
    return next((name for name in names if getattr(one, name) != getattr(other, name)), "")


def _second_runs(trials: Sequence[model.Trial], numbered: bool) -> str:
    """Return which benchmark was run twice where it runs once: two validations in one file would be averaged."""
    runs: dict[tuple[str, str, int, int], tuple[int, model.Trial]] = {}
    for index, one in enumerate(trials):
        where, first = runs.setdefault(_run(one), (index, one))
        if first is one:
            continue
        apart = not numbered and _measured_apart(one, first)  # of one number they have been compared already
        if apart or one.order != first.order or (one.primary and first.primary):
            return (
                f"trials[{index}]: runs '{one.benchmark}' in group {one.group}, block {one.block} of '{one.arm}'"
                f" once more, after trials[{where}]; give every validation a results file of its own"
            )
        if one.primary:
            runs[_run(one)] = index, one
    return ""


def _run(one: model.Trial) -> tuple[str, str, int, int]:
    """Return what the figures of one run share beside its number."""
    return one.benchmark, one.arm, one.group, one.block


def _copies(trials: Sequence[model.Trial]) -> str:
    """Return which trial is another one once more under another number.

    A window by the monotonic clock has nine digits and never comes twice together with figure and CPU times. On a
    cloud windows are rounded, so there one such trial may be chance, and several of the same boots are not.
    """
    seen: dict[tuple[float, float], tuple[int, model.Trial]] = {}
    like: collections.Counter[tuple[int, int]] = collections.Counter()
    for index, one in enumerate(trials):
        if one.value is None:
            continue
        where, first = seen.setdefault((one.value, one.window_s), (index, one))
        if first is one or not (_fine(one.window_s) or _fine(one.value)) or not _same(one, first):
            continue
        like[first.group, one.group] += 1
        if _fine(one.window_s) or like[first.group, one.group] >= _MANY:
            return (
                f"trials[{index}]: has figure, window and CPU times of trials[{where}], another run; no two runs"
                " are that equal, so leave copies out"
            )
    return ""


def _fine(figure: float) -> bool:
    """Return whether a figure has so many digits that chance does not repeat it."""
    return abs(figure * 1000 - round(figure * 1000)) > 1e-6


def _same(one: model.Trial, other: model.Trial) -> bool:
    """Return whether what was measured in two runs is the same."""
    if (_run(one), one.order) == (_run(other), other.order):
        return False  # a benchmark may print one figure twice
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("benchmark", "metric", "host_cpu_s", "guest_cpu_s", "wait_s", "work")
    )
