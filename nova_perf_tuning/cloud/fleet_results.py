"""The results of a run over many hosts in the form that every report is made of.

A pair is a boot of its own: its number is the ``group`` of its trials. What ran on its server alone is of another
boot, that of the server's guest: its ``group`` is that number plus the number of all pairs. What concerns hosts
and pairs stands in the environment under ``fleet`` (see ``results.schema.json``).
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nova_perf_tuning.bench import output
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import trial_filter, verdict
from nova_perf_tuning.cloud import attribution, bare_hosts, fleet, host_cpu, model, run_store, spoilt

#: More trials than that make a file that cannot be read again: then pairs have one trial, their median.
MAX_TRIALS = 40_000
#: More causes why host CPU is not known help nobody.
_MAX_CPU_FAULTS = 50
_OF_EACH_PAIR = frozenset({"runs", "host_cpu_faults"})


@dataclasses.dataclass(frozen=True, slots=True)
class FleetResults:
    """What a run gave.

    :ivar results: for reports; :ivar hosts: the verdicts; :ivar whole: the verdict on the fleet.
    """

    results: results.Results
    hosts: tuple[fleet.HostVerdict, ...]
    whole: verdict.Verdict | None


def collect(
    store: run_store.RunStore,
    run_id: str,
    paired: Mapping[str, bool],
    budgets: Sequence[verdict.Budget],
    max_loss: float,
    ended: str,
    bare: Sequence[bare_hosts.BareHost] = (),
) -> FleetResults:
    """Read a run from the database and judge it.

    :param paired: benchmark -> whether its server takes part.
    :param max_loss: loss against the other hosts from which a host is bad.
    :param ended: ``complete`` or why the run ended before.
    :param bare: what hosts do without guests; budgets against ``host`` are judged by it.
    """
    run = store.load(run_id)
    of_pair: dict[int, list[results.Trial]] = {}
    for number, trial in store.trials(run_id):
        if trial.primary:
            of_pair.setdefault(number, []).append(_of_boot(number, trial, len(run.tasks)))
    examined = spoilt.examine(_measured(run, of_pair), paired, run.environment, trial_filter.limits(budgets))
    findings = attribution.find(examined.counting, paired, max_loss)
    beside = bare_hosts.spread(bare, run.tasks, of_pair)
    judged = {number: [*beside.get(number, ()), *trials] for number, trials in of_pair.items()}
    hosts = fleet.judge(run, judged, paired, budgets, findings, run.environment, examined)
    whole = fleet.overall(hosts)
    environment = _environment(store, run, of_pair, hosts, findings, whole, max_loss, ended)
    if bare:
        environment["bare_hosts"] = {one.name: one.created for one in bare}
    shown = [*_shown(store, run, of_pair), *(one for trials in beside.values() for one in trials)]
    _number(shown)
    return FleetResults(results.Results(environment, shown), tuple(hosts), whole)


def _of_boot(number: int, trial: results.Trial, pairs: int) -> results.Trial:
    """Return a trial of pair ``number`` with the number of its boot as its group; see the module."""
    return dataclasses.replace(trial, group=number + pairs * trial.group)


def _measured(
    run: model.StoredRun, of_pair: Mapping[int, Sequence[results.Trial]]
) -> Iterator[tuple[model.HostPair, results.Trial]]:
    """Yield every trial with its pair, the host that it ran on as the client."""
    tasks = {task.number: task for task in run.tasks}
    for number, trials in of_pair.items():
        for one in trials:
            yield fleet.pair_of(tasks[number], one), one


def _shown(
    store: run_store.RunStore,
    run: model.StoredRun,
    of_pair: Mapping[int, Sequence[results.Trial]],
) -> list[results.Trial]:
    """Return the trials that go into the file: all, or the median of each pair where there are too many."""
    found: list[results.Trial] = []
    if sum(map(len, of_pair.values())) > MAX_TRIALS:
        for trials in of_pair.values():
            found += _medians(trials)
    else:
        for number, trial in store.trials(run.run_id):
            found.append(_of_boot(number, trial, len(run.tasks)))
            if len(found) > MAX_TRIALS:  # without the figures that are only shown beside it fits
                found = [one for trials in of_pair.values() for one in trials]
                break
    return found


def _number(trials: Sequence[results.Trial]) -> None:
    """Number the runs through over all pairs; the figures of one run keep sharing a number."""
    runs: dict[tuple[int, int], int] = {}
    for one in trials:
        one.order = runs.setdefault((one.group, one.order), len(runs))


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
    hosts: Sequence[fleet.HostVerdict],
    findings: Sequence[attribution.Finding],
    whole: verdict.Verdict | None,
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
            "verdict": whole.value if whole else None,
            "max_loss": max_loss,
            "hosts": [one.as_data() for one in hosts],
            "pairs": _pairs(run, of_pair, findings),
            "bad_pairs": [
                {"client": pair.client, "server": pair.server, "in": where}
                for pair, where in fleet.bad_pairs(findings).items()
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
    findings: Sequence[attribution.Finding],
) -> list[dict[str, Any]]:
    reference = {(one.benchmark, one.arm): one.reference for one in findings}
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
                "against_best_quarter": middle / against if against else None,
            }
        )
    return found
