# SPDX-License-Identifier: Apache-2.0
"""Results on disk: one JSON document, written atomically, checked when read."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import atomic_write
from nova_perf_tuning.validation.bench import base, plugins
from nova_perf_tuning.validation.results import model, schema
from nova_perf_tuning.validation.results.environment import Environment

#: Most trials, as the schema has it, and the largest results file that is read, in bytes: more
#: than they need.
MAX_TRIALS, MAX_BYTES = 100_000, 64 * 1024 * 1024
#: Most names in trials: arms beside the host and benchmarks, as in the environment; figures of a
#: benchmark, as in a noise floor.
MAX_ARMS, MAX_BENCHMARKS, MAX_FIGURES = 100, 1000, 100
#: Smallest figure but 0 that is read: means and ratios of far smaller ones become 0 or infinite.
_MIN_FIGURE = 1e-9
_TOO_SMALL: Final = f"value, work and window_s are 0 or at least {_MIN_FIGURE}"

#: Label -> class of the benchmarks of some results that are installed here.
_Kinds = Mapping[str, type[base.Benchmark]]
#: Of a fleet: pairs x benchmarks x arms. 2,000 pairs with ten benchmarks and four arms are 80,000.
MAX_CELLS: Final = 200_000
#: (benchmark, metric, field) -> what is known of a figure; without a metric: of the benchmark's
#: work and judged figure.
_Said = dict[tuple[str, str, str], str]


def to_dict(results: model.Results) -> dict[str, Any]:
    return {
        "schema": model.SCHEMA,
        "environment": results.environment.to_dict(),
        "trials": [dataclasses.asdict(trial) for trial in results.trials],
    }


def from_dict(data: Any, where: str) -> model.Results:
    """Return results from a JSON document; InputError: it breaks the schema or itself."""
    schema.check("results", data, where)
    environment = Environment.from_dict(data["environment"])
    fault = _too_many_cells(environment)
    if fault:
        raise schema.InputError(f"{where}: {fault}")
    trials = [model.Trial(**row) for row in data["trials"]]
    if not any("order" in row for row in data["trials"]):
        _number(trials)
    fault = _too_many_names(trials)
    if fault:
        raise schema.InputError(f"{where}: {fault}")
    kinds = {}
    for label in {trial.benchmark for trial in trials}:
        kind = plugins.of_label(label, environment.benchmarks)
        if kind is not None:
            kinds[label] = kind
    _correct(kinds, trials)
    fault = _contradiction(kinds, trials)
    if fault:
        raise schema.InputError(f"{where}: {fault}")
    return model.Results(environment, trials)


def check_trial(trial: model.Trial, where: str) -> None:
    """Check that results can hold a trial, before it stands among those of others.

    :raises schema.InputError: a file with it would be refused.
    """
    schema.check_trial(dataclasses.asdict(trial), where)
    if _is_too_small(trial):
        raise schema.InputError(f"{where}: {_TOO_SMALL}")


def _is_too_small(trial: model.Trial) -> bool:
    return any(
        figure and figure < _MIN_FIGURE for figure in (trial.value, trial.work, trial.window_s)
    )


def _number(trials: Sequence[model.Trial]) -> None:
    """Number the runs in the order of a file, which need not do so."""
    runs: dict[tuple[object, ...], int] = {}
    for trial in trials:
        place = (trial.benchmark, trial.arm, trial.boot, trial.block)
        trial.order = runs.setdefault(place, len(runs))


def _too_many_cells(environment: Environment) -> str:
    """Return that a fleet has more pairs, benchmarks and arms than can be judged; empty: it has not.

    Each pair is looked at in each benchmark and arm, also where it has no trial of it.
    """
    if environment.fleet is None:
        return ""
    pairs, benchmarks = len(environment.fleet.pairs), len(environment.benchmarks)
    cells = pairs * benchmarks * len(environment.arms)
    if cells <= MAX_CELLS:
        return ""
    return (
        f"environment: {pairs} pairs in {benchmarks} benchmarks and {len(environment.arms)} arms are"
        f" {cells} to judge; at most {MAX_CELLS} are, so split the fleet"
    )


def _too_many_names(trials: Sequence[model.Trial]) -> str:
    """Return which name in trials is one too many, since each has its place in a report; empty: none."""
    arms: set[str] = {model.HOST}
    figures: dict[str, set[str]] = {}
    for index, trial in enumerate(trials):
        arms.add(trial.arm)
        metrics = figures.setdefault(trial.benchmark, set())
        metrics.add(trial.metric)
        if len(arms) > MAX_ARMS + 1:
            return f"trials[{index}].arm: results have at most {MAX_ARMS} arms besides the host; split them"
        if len(figures) > MAX_BENCHMARKS:
            return f"trials[{index}].benchmark: results have at most {MAX_BENCHMARKS} benchmarks; split them"
        if len(metrics) > MAX_FIGURES:
            return (
                f"trials[{index}].metric: a benchmark has at most {MAX_FIGURES} figures; split it"
            )
    return ""


def _correct(kinds: _Kinds, trials: Sequence[model.Trial]) -> None:
    """Set :attr:`model.Trial.primary` as the benchmarks define it.

    Another version may have judged by another figure. Where its file has ours too, ours counts;
    where it does not, the flags stay as they are.
    """
    judged = {label: kind.primary[0] for label, kind in kinds.items()}
    there = {trial.benchmark for trial in trials if trial.metric == judged.get(trial.benchmark)}
    for trial in trials:
        if trial.benchmark in there:
            trial.primary = trial.metric == judged[trial.benchmark]


def _contradiction(kinds: _Kinds, trials: Sequence[model.Trial]) -> str:
    """Return what a file says against itself, where a schema cannot see it; empty: nothing.

    A figure has the unit and better way that its benchmark says, else those of its first trial: a
    loss would be a gain otherwise. A run is there once: copies would pass for replicates, and
    guards go by its number.
    """
    said: _Said = {}
    for label, kind in kinds.items():
        metric, unit, better = kind.primary
        said[label, metric, "unit"] = unit
        said[label, metric, "better"] = better
        if kind.work_unit:
            said[label, "", "work_unit"] = kind.work_unit
    runs: dict[object, object] = {}  # place -> order, and order -> place
    figures: set[tuple[str, int]] = set()
    for index, trial in enumerate(trials):
        if _is_too_small(trial):
            return f"trials[{index}]: {_TOO_SMALL}"
        fault = _said_before(said, trial)
        if fault:
            return f"trials[{index}].{fault}"
        place = (trial.benchmark, trial.arm, trial.boot, trial.block)
        again = (
            runs.setdefault(trial.order, place) != place
            or runs.setdefault(place, trial.order) != trial.order
        )
        if again or (trial.primary and (trial.metric, trial.order) in figures):
            return (
                f"trials[{index}]: '{trial.benchmark}' ran in this block of '{trial.arm}' before, or another run"
                f" has order {trial.order} too; give every validation a results file of its own"
            )
        figures.add((trial.metric, trial.order))
    return ""


def _said_before(said: _Said, trial: model.Trial) -> str:
    """Note what a trial says of its figure, and return what was said otherwise before; empty: nothing."""
    about = [("better", trial.metric, trial.metric), ("unit", trial.metric, trial.metric)]
    if trial.work is not None:
        about.append(("work_unit", "", "the work"))
    if trial.primary:
        about.append(("metric", "", "the judged figure"))
    for name, metric, what in about:
        value = getattr(trial, name)
        wanted = said.setdefault((trial.benchmark, metric, name), value)
        if wanted != value:
            return f"{name}: is '{value}', but '{wanted}' for {what} of {trial.benchmark}"
    return ""


def load(path: str) -> model.Results:
    """Read a results file; InputError: unreadable, too large, no JSON or not of the schema."""
    return from_dict(schema.load_json(path, MAX_BYTES), path)


def save(
    results: model.Results, path: str, directory: atomic_write.Directory | None = None
) -> None:
    """Write a results file; a reader sees the old one or the new one, never a part.

    :param directory: see :func:`atomic_write.writing`.
    """
    document = to_dict(results)
    trials = [
        json.dumps(trial, ensure_ascii=False, allow_nan=False) for trial in document.pop("trials")
    ]
    head = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1).removesuffix("\n}")
    rows = ",\n  ".join(trials)  # each in a line: a course has many numbers
    write_atomically(path, f'{head},\n "trials": [\n  {rows}\n ]\n}}\n', directory)


def write_atomically(
    path: str, text: str, directory: atomic_write.Directory | None = None
) -> None:
    """Replace the file at ``path`` by one with ``text``.

    What UTF-8 has no bytes for (half a surrogate pair in a name) is replaced, so that what was
    measured is kept.

    :param directory: see :func:`atomic_write.writing`.
    :raises atomic_write.OutputError: something else than a file is there, or the directory is
        missing.
    :raises OSError: the directory cannot be written or the disk is full.
    """
    with atomic_write.writing(path, directory=directory) as file:
        file.write(text.encode("utf-8", "replace"))
