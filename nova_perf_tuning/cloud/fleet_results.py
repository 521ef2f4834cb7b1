"""The results of a run over many hosts in the form that every report is made of.

A pair is a boot of its own: its number is the ``group`` of its trials. What ran on its server alone is of another
boot, that of the server's guest: its ``group`` is that number plus the number of all pairs. What concerns hosts
and pairs stands in the environment under ``fleet`` (see ``results.schema.json``).
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.bench import output
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import verdict
from nova_perf_tuning.cloud import baselines, fleet, host_cpu, model, peer_comparison, run_store

#: With more trials than that a file cannot be read again (see the schema): those that are only shown beside the
#: others are left out, and where that is not enough pairs have one trial, their median.
MAX_TRIALS = 40_000
#: More causes why host CPU is not known help nobody.
_MAX_CPU_FAULTS = 50
_OF_EACH_PAIR = frozenset({"runs", "host_cpu_faults"})


def collect(
    store: run_store.RunStore,
    run_id: str,
    paired: Mapping[str, bool],
    budgets: Sequence[verdict.Budget],
    max_loss: float,
    ended: str,
    bare: Sequence[baselines.BareHost] = (),
) -> tuple[results.Results, fleet.FleetVerdict]:
    """Read a run from the database and judge it; return its results for reports, and the verdict.

    :param paired: benchmark -> whether its server takes part.
    :param max_loss: loss against the other hosts from which a host is slow.
    :param ended: ``complete`` or why the run ended before.
    :param bare: what hosts do without guests; budgets against ``host`` are judged by it.
    """
    run = store.load(run_id)
    of_pair: dict[int, list[results.Trial]] = {}
    beside: list[results.Trial] = []
    count = 0
    for number, trial in store.trials(run_id):
        count += 1
        trial.group = number + len(run.tasks) * trial.group
        if trial.primary:
            of_pair.setdefault(number, []).append(trial)
        elif count <= MAX_TRIALS:
            beside.append(trial)
    spread = baselines.spread(bare, run.tasks, of_pair)
    shown = [*(trial for trials in of_pair.values() for trial in trials), *spread]
    if count <= MAX_TRIALS:
        shown += beside
    _number(shown)
    judged = fleet.judge(run, of_pair, paired, budgets, run.environment, max_loss, spread)
    environment = _environment(store, run, of_pair, judged, max_loss, ended)
    if bare:
        environment["bare_hosts"] = {one.name: one.created for one in bare}
    if len(shown) > MAX_TRIALS:
        shown = [*(trial for trials in of_pair.values() for trial in _medians(trials)), *spread]
        _number(shown)
    return results.Results(environment, shown), judged


def _number(trials: list[results.Trial]) -> None:
    """Sort trials, and number their runs through: every pair numbers its own from the same number on."""
    trials.sort(key=lambda trial: (trial.group, trial.order))
    runs: dict[tuple[int, int], int] = {}
    for trial in trials:
        trial.order = runs.setdefault((trial.group, trial.order), len(runs))


def _medians(trials: Sequence[results.Trial]) -> list[results.Trial]:
    series: dict[tuple[int, str, str], list[results.Trial]] = {}
    for one in trials:
        series.setdefault((one.group, one.benchmark, one.arm), []).append(one)
    found = []
    for some in series.values():
        good = sorted((one for one in some if one.value is not None), key=lambda one: one.value or 0.0)
        middle = good[len(good) // 2] if good else some[0]
        found.append(dataclasses.replace(middle, block=0))
    return found


def _environment(
    store: run_store.RunStore,
    run: model.StoredRun,
    of_pair: Mapping[int, Sequence[results.Trial]],
    judged: fleet.FleetVerdict,
    max_loss: float,
    ended: str,
) -> dict[str, Any]:
    return {
        "created": run.created_at.isoformat(timespec="seconds"),
        **run.environment,
        "groups": sum(task.state != "dropped" for task in run.tasks),
        "groups_run": len(of_pair),
        "ended": ended,
        **_of_pairs(store, run.run_id),
        "errors": [
            {
                "group": task.number,
                "error": f"{task.pair.client} with {task.pair.server}, attempt {fault.attempt}: "
                f"{fault.error.kind.value}: {fault.error.reason}",
                **({"arm": fault.error.arm} if fault.error.arm else {}),
            }
            for task in run.tasks
            for fault in task.faults
        ],
        "fleet": {
            "run": run.run_id,
            "verdict": judged.whole.value if judged.whole else None,
            "max_loss": max_loss,
            "out": run.out,
            "hosts": [host.as_data() for host in judged.hosts],
            "pairs": _pairs(run, of_pair, judged.comparisons),
            "bad_pairs": [
                {"client": pair.client, "server": pair.server, "in": where}
                for pair, where in judged.bad_pairs().items()
            ],
        },
    }


def _printable(data: Any) -> Any:
    """Return JSON data with all its text fit for files and terminals: some of it is what guests told."""
    if isinstance(data, dict):
        return {key: _printable(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_printable(one) for one in data]
    return output.printable(data, 1000) if isinstance(data, str) else data


def _of_pairs(store: run_store.RunStore, run_id: str) -> dict[str, Any]:
    """Return what the environments of the pairs say: the first as an example, and whence host CPU is known."""
    sources: collections.Counter[str] = collections.Counter()
    first: dict[str, Any] = {}
    cpu_faults: dict[str, str] = {}
    for environment in store.pair_environments(run_id):
        sources[environment.pop("host_cpu_source")] += 1
        first = first or {key: value for key, value in environment.items() if key not in _OF_EACH_PAIR}
        for where, why in environment.get("host_cpu_faults", {}).items():
            if len(cpu_faults) < _MAX_CPU_FAULTS:
                cpu_faults.setdefault(where, why)
    found = {"host_cpu_source": host_cpu.told(sources), "first_pair": _printable(first)}
    return {**found, "host_cpu_faults": _printable(cpu_faults)} if cpu_faults else found


def _pairs(
    run: model.StoredRun,
    of_pair: Mapping[int, Sequence[results.Trial]],
    comparisons: Sequence[peer_comparison.Comparison],
) -> list[dict[str, Any]]:
    reference = {(one.benchmark, one.arm): one.reference for one in comparisons}
    return [
        {
            "number": task.number,
            "client": task.pair.client,
            "server": task.pair.server,
            "state": task.state,
            "attempts": task.attempts,
            "seconds": round(task.seconds, 1) if task.seconds is not None else None,
            "errors": [f"{one.error.kind.value}: {one.error.reason}"[:2000] for one in task.faults],
            "figures": _figures(task, of_pair.get(task.number, ()), reference),
        }
        for task in run.tasks
    ]


def _figures(
    task: model.Task, trials: Sequence[results.Trial], reference: Mapping[tuple[str, str], float]
) -> list[dict[str, Any]]:
    values: dict[tuple[str, str, str, str], list[float]] = {}
    for one in trials:
        if one.value is not None:
            key = (one.benchmark, one.arm, one.unit, fleet.measured_on(task, one))
            values.setdefault(key, []).append(one.value)
    found = []
    for (benchmark, arm, unit, host), some in values.items():
        middle = statistics.median(some)
        against = reference.get((benchmark, arm), 0.0)
        found.append(
            {
                "benchmark": benchmark,
                "arm": arm,
                "host": host,
                "unit": unit,
                "median": middle,
                "against_median": middle / against if against else None,
            }
        )
    return found
