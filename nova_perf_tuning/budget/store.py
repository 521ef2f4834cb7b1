"""Results on disk: one JSON document, written atomically, checked when read."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from nova_perf_tuning import whole_file
from nova_perf_tuning.budget import model, overhead, schema

#: Largest results file that is read, in bytes: more than 50,000 trials need.
MAX_BYTES = 64 * 1024 * 1024

#: Smallest figure but 0 that is read: means and ratios of far smaller ones become 0 or infinite.
MIN_FIGURE = 1e-9

_FIELDS = operator.itemgetter(*(field.name for field in dataclasses.fields(model.Trial)))


def to_dict(results: model.Results) -> dict[str, Any]:
    """Return ``results`` as the JSON contract has it."""
    return {
        "schema": results.schema,
        "environment": dict(results.environment),
        "trials": [{**dataclasses.asdict(one), "host_cpu_s": dict(one.host_cpu_s)} for one in results.trials],
    }


def from_dict(data: Any, where: str) -> model.Results:
    """Return results from a JSON document.

    :param where: the file's name, for messages.
    :raises schema.InputError: the document breaks the schema or itself.
    """
    schema.check("results", data, where)
    trials = _trials(data["trials"])
    environment = data["environment"]
    fault = _spent_twice(environment) or _more_groups(environment, trials)
    if fault := fault or next(filter(None, _faults(trials)), "") or _turned(environment, trials):
        raise schema.InputError(f"{where}: {fault}")
    return model.Results(environment, trials)


def _trials(rows: Sequence[Mapping[str, Any]]) -> list[model.Trial]:
    try:
        return [model.Trial(*_FIELDS(row)) for row in rows]  # four times as fast as by keywords
    except KeyError:  # what has a default may be missing
        return [model.Trial(**row) for row in rows]


def _spent_twice(environment: Mapping[str, Any]) -> str:
    """Return what is wrong with the looks that were taken: they share one error probability."""
    spent = sum(one["share"] for one in environment.get("looks", ()))
    return f"environment.looks: shares add up to {spent:.6g}, and there is only 1" if spent > 1 + 1e-6 else ""


def _more_groups(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return what is wrong with the number of boots: one that is split up would pass for several."""
    run = environment.get("groups_run")
    if "fleet" in environment or type(run) is not int:  # there a pair's server is a group of its own
        return ""
    found = len({one.group for one in trials})
    return f"environment.groups_run: is {run}, but there are trials of {found} groups" if found > run else ""


def _turned(environment: Mapping[str, Any], trials: Sequence[model.Trial]) -> str:
    """Return which metric has another better way than its benchmark says: a loss would be a gain."""
    kinds = {label: str(one.get("kind", "")) for label, one in environment.get("benchmarks", {}).items()}
    primary = {label: known for label, kind in kinds.items() if (known := _primary(kind)) is not None}
    for index, one in enumerate(trials if primary else ()):
        metric, _, better = primary.get(one.benchmark, ("", "", ""))
        if one.metric == metric and one.better != better:
            return f"trials[{index}].better: is '{one.better}', but {metric} of {one.benchmark} is better {better}"
    return ""


@functools.lru_cache(maxsize=1000)
def _primary(kind: str) -> tuple[str, str, str] | None:
    """Return metric, unit and better way of the figure of a kind of benchmark; None: it is not installed."""
    entry = _installed().get(kind)  # to load all of them takes longer than to read most files
    with contextlib.suppress(Exception):  # one that is broken says nothing of the file
        if entry is not None:
            found: tuple[str, str, str] = entry.load().primary
            return found
    return None


@functools.cache
def _installed() -> dict[str, metadata.EntryPoint]:
    """Return kind -> where its benchmark is."""
    from nova_perf_tuning.bench import plugins

    return {entry.name: entry for entry in metadata.entry_points(group=plugins.NAMESPACE)}


def _faults(trials: Sequence[model.Trial]) -> Iterator[str]:
    """Yield for each trial what a schema cannot say against it, the place in it first; empty: nothing."""
    figures: dict[tuple[str, str], model.Trial] = {}
    works: dict[str, model.Trial] = {}
    runs: dict[tuple[str, str, str, int], model.Trial] = {}
    numbered = any(one.order for one in trials)  # a file need not number its runs
    for index, one in enumerate(trials):
        fault = _fault(one) or _mixed(one, figures.setdefault((one.benchmark, one.metric), one), works)
        if numbered and not fault:
            fault = _copied(one, runs.setdefault((one.benchmark, one.metric, one.arm, one.order), one))
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


def _copied(one: model.Trial, first: model.Trial) -> str:
    """Return whether a trial is one that the file has already: copies would pass for replicates.

    :param first: the first trial with the number of its run, its figure and its arm.
    """
    if one is first or ((one.group, one.block) == (first.group, first.block) and one != first):
        return ""  # a benchmark may print one figure twice
    return f": is run {one.order} of '{one.arm}' again, which an earlier trial is"


def load(path: str) -> model.Results:
    """Read a results file.

    :raises schema.InputError: unreadable, too large, no JSON or not of the schema.
    """
    return from_dict(schema.load_json(path, MAX_BYTES), path)


def save(results: model.Results, path: str) -> None:
    """Write a results file; a reader sees the old one or the new one, never a part.

    :raises OSError: the folder cannot be written or the disk is full; the old file is untouched.
    """
    text = json.dumps(to_dict(results), ensure_ascii=False, allow_nan=False, indent=1)
    write_atomically(path, text + "\n")


def write_atomically(path: str, text: str) -> None:
    """Replace the file at ``path`` by one with ``text``.

    :raises whole_file.OutputError: something else than a file is there, or the folder is missing.
    :raises OSError: as for :func:`save`.
    """
    with whole_file.writing(path) as file:
        file.write(text.encode("utf-8"))
