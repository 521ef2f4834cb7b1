"""The results of a run over many hosts in the form that every report is made of, out of the database of runs."""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.cloud import baselines, fleet, host_cpu, model, run_store
from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.measure import model as results

#: With more trials than that a file cannot be read again (see the schema): then those that are only shown beside
#: the others are left out, and pairs have one trial, their median.
MAX_TRIALS = 40_000
#: More causes why host CPU is not known help nobody.
_MAX_CPU_FAULTS = 50


def collect(
    store: run_store.RunStore,
    run_id: str,
    budgets: Sequence[verdict.Budget],
    max_loss: float,
    ended: str,
    bare: Mapping[str, results.Results] = MappingProxyType({}),
) -> tuple[results.Results, fleet.FleetVerdict]:
    """Read a run from the database and judge it; return its results for reports, and the verdict.

    :param max_loss: loss against the other hosts from which a host is slow.
    :param ended: ``complete`` or why the run ended before.
    :param bare: what hosts do without guests; budgets against ``host`` are judged by it.
    """
    run = store.load(run_id)
    trials: list[results.Trial] = []
    count = 0
    for number, trial in store.trials(run_id):
        count += 1
        trial.boot = number + len(run.tasks) * trial.boot
        if trial.primary or count <= MAX_TRIALS:
            trials.append(trial)
    if count > MAX_TRIALS:
        trials = [trial for trial in trials if trial.primary]
    environment = {
        "created": run.created_at.isoformat(timespec="seconds"),
        **run.environment,
        "boots": len(run.tasks),
        "boots_run": len({trial.boot % len(run.tasks) for trial in trials}),
        "ended": ended,
        **_of_pairs(store, run_id),
        "errors": [
            {
                "boot": task.number,
                "error": f"{_named(task.pair.client)} with {_named(task.pair.server)}, attempt {fault.attempt}: "
                f"{fault.error.kind.value}: {fault.error.reason}",
                **({"arm": fault.error.arm} if fault.error.arm else {}),
            }
            for task in run.tasks
            for fault in task.faults
        ],
        "fleet": {
            "run": run_id,
            "verdict": None,
            "max_loss": max_loss,
            "hosts": [],
            "pairs": [_pair(task) for task in run.tasks],
        },
    }
    if bare:
        environment["bare_hosts"] = {name: str(one.environment.get("created", "")) for name, one in bare.items()}
    places = fleet.Places(environment)
    trials += baselines.spread(bare, places, trials)
    found, judged = fleet.judge(results.Results(environment, _numbered(trials)), budgets)
    _add_figures(found, places, judged)
    if len(trials) > MAX_TRIALS:
        found = dataclasses.replace(found, trials=_numbered(_medians(trials)))
    return found, judged


def _named(host: str) -> str:
    """Return the name of a host; one of the scheduler's choice has none."""
    return host or "any"


def _pair(task: model.Task) -> dict[str, Any]:
    return {
        "number": task.number,
        "client": _named(task.pair.client),
        "server": _named(task.pair.server),
        "state": task.state,
        "attempts": task.attempts,
        "seconds": round(task.seconds, 1) if task.seconds is not None else None,
        "errors": [f"{one.error.kind.value}: {one.error.reason}"[:2000] for one in task.faults],
        "figures": [],
    }


def _numbered(trials: Iterable[results.Trial]) -> list[results.Trial]:
    """Sort trials, and number their runs through: every pair numbers its own from the same number on."""
    found = sorted(trials, key=lambda trial: (trial.boot, trial.order))
    runs: dict[tuple[int, int], int] = {}
    for trial in found:
        trial.order = runs.setdefault((trial.boot, trial.order), len(runs))
    return found


def _medians(trials: Iterable[results.Trial]) -> list[results.Trial]:
    """Return one trial for each figure that is judged, but all of bare hosts."""
    found = []
    series: dict[tuple[int, str, str], list[results.Trial]] = {}
    for one in trials:
        if one.arm == results.HOST:
            found.append(one)
        else:
            series.setdefault((one.boot, one.benchmark, one.arm), []).append(one)
    for some in series.values():
        good = sorted((one for one in some if one.value is not None), key=lambda one: one.value or 0.0)
        middle = good[len(good) // 2] if good else some[0]
        found.append(dataclasses.replace(middle, block=0))
    return found


def _printable(data: Any) -> Any:
    """Return JSON data with all its text fit for files and terminals: some of it is what guests told."""
    if isinstance(data, dict):
        return {key: _printable(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_printable(one) for one in data]
    return one_line(data, 1000) if isinstance(data, str) else data


def _of_pairs(store: run_store.RunStore, run_id: str) -> dict[str, Any]:
    """Return what the environments of the pairs say: the first as an example, and whence host CPU is known."""
    sources: collections.Counter[str] = collections.Counter()
    first: dict[str, Any] = {}
    cpu_faults: dict[str, str] = {}
    for environment in store.pair_environments(run_id):
        sources[environment.pop("host_cpu_source")] += 1
        first = first or {key: value for key, value in environment.items() if key != "host_cpu_faults"}
        for where, why in environment.get("host_cpu_faults", {}).items():
            if len(cpu_faults) < _MAX_CPU_FAULTS:
                cpu_faults.setdefault(where, why)
    found = {"host_cpu_source": host_cpu.told(sources), "first_pair": _printable(first)}
    return {**found, "host_cpu_faults": _printable(cpu_faults)} if cpu_faults else found


def _add_figures(found: results.Results, places: fleet.Places, judged: fleet.FleetVerdict) -> None:
    """Give every pair its figures: the median of each, also against that of the median host."""
    values: dict[tuple[int, str, str, str, str], list[float]] = {}
    better: dict[str, str] = {}
    pairs: Mapping[int, dict[str, Any]] = {one["number"]: one for one in found.environment["fleet"]["pairs"]}
    for one in found.trials:
        if one.value is not None and one.primary and one.arm != results.HOST:
            number, better[one.benchmark] = one.boot % len(pairs), one.better
            values.setdefault((number, one.benchmark, one.arm, one.unit, places.host(one)), []).append(one.value)
    for (number, benchmark, arm, unit, host), some in values.items():
        median, against = statistics.median(some), None
        comparison = judged.comparisons.get((benchmark, arm))
        if comparison is not None and math.isfinite(comparison.middle):
            turn = -1 if better[benchmark] == "lower" else 1
            against = median / math.exp(turn * comparison.middle)
        figure = {"benchmark": benchmark, "arm": arm, "host": host, "unit": unit, "median": median}
        pairs[number]["figures"].append({**figure, "against_median": against})
