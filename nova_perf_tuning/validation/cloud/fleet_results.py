# SPDX-License-Identifier: Apache-2.0
"""The results of a run over many hosts in the form that every report is made of, out of the database of runs.

Beside them may stand what bare hosts do, as ``nova-perf validate`` measures it there, at another time than the
guests: each sample is used once, so that boots and pairs of guests stay independent.
"""

import collections
import dataclasses
import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Final

from nova_perf_tuning.nova import host_result
from nova_perf_tuning.printing import counted
from nova_perf_tuning.specs import native
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.cloud import fleet, model, run_store
from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.measure import model as results
from nova_perf_tuning.validation.measure import session, store

#: With more trials than that only primary ones are kept, so that files stay small.
MAX_TRIALS = 40_000
#: Planned with more runs than that, results have no courses: each takes 10 KB of memory.
_MAX_COURSES: Final = 2000
#: More causes why host CPU is not known help nobody.
_MAX_CPU_FAULTS: Final = 50


def environment(
    plan: model.FleetPlan, cloud: str, host_group: str | None, tags: Mapping[str, str] = MappingProxyType({})
) -> environments.Environment:
    """Return what the results of a run rest on, as far as it is known when it begins."""
    arms, guests = plan.measure.arms, plan.guests
    made = {"vcpus": guests.vcpus, "memory_mib": guests.ram_mib} if any(not arm.flavor for arm in arms) else {}
    return environments.Environment(
        launcher="heat",
        host=f"cloud {cloud}".strip(),
        nova_perf_tuning=metadata.version("nova-perf-tuning"),
        host_group=host_group or "",
        tags=dict(tags),
        seed=plan.settings.seed,
        blocks=plan.measure.trials,
        memory_encryption=next(filter(None, (native.memory_encryption(arm.extra_specs) for arm in arms)), ""),
        guest={**made, "image": guests.image},
        arms={
            arm.name: environments.Arm(dict(arm.extra_specs) or ({"flavor": arm.flavor} if arm.flavor else {}))
            for arm in arms
        },
        benchmarks={job.label: session.describe(job) for job in plan.measure.jobs},
        shown={"settings": dataclasses.asdict(plan.settings)},
    )


def load_bare(paths: Iterable[str], labels: Collection[str]) -> dict[str, results.Results]:
    """Return host -> what it did without guests, in the order of time.

    :param labels: benchmarks of the run; others are left out.
    :raises InputError: a file cannot be read or is no results file.
    :raises CloudError: a file names no host, or has none of the benchmarks for the host itself.
    """
    bare: dict[str, results.Results] = {}
    for path in paths:
        read = store.load(path)
        name = read.environment.host
        if not name:
            raise model.CloudError(f"{path}: environment.host is missing: which host was measured?")
        if any(host_result.same_host(name, other) for other in bare):
            raise model.CloudError(f"{path}: host {name} has been given already; give one file for each host")
        alone = read.environment.launcher == "host"  # then it is every arm
        mine = [trial for trial in read.trials if alone or trial.arm == results.HOST]
        mine = [trial for trial in mine if trial.primary and trial.value is not None and trial.benchmark in labels]
        if not mine:
            raise model.CloudError(
                f"{path}: nothing of {', '.join(labels)} on the host itself; measure it there with "
                "'nova-perf validate --launcher host' and the same --benchmark options"
            )
        bare[name] = dataclasses.replace(read, trials=sorted(mine, key=lambda trial: trial.order))
    return bare


def collect(
    store: run_store.RunStore,
    run_id: str,
    budgets: Sequence[verdict.Budget],
    max_loss: float,
    ended: environments.Ended,
    bare: Mapping[str, results.Results] = MappingProxyType({}),
) -> tuple[results.Results, fleet.FleetVerdict]:
    """Read a run from the database and judge it; return its results for reports, and the verdict.

    :param ended: ``complete`` or why the run ended before.
    :param bare: of :func:`load_bare`; budgets against ``host`` are judged by it.
    """
    run = store.load(run_id)
    trials: list[results.Trial] = []
    hidden = 0  # courses
    count, sources, faults = 0, collections.Counter[str](), dict[str, str]()
    shown: dict[str, object] = {}
    measure = run.plan.measure
    runs = len(run.tasks) * measure.trials * len(measure.arms) * len(measure.jobs)
    for number, outcome in store.outcomes(run_id):
        count += len(outcome.trials)
        for trial in outcome.trials:
            trial.boot = number + len(run.tasks) * trial.boot
            if runs > _MAX_COURSES and trial.course is not None:
                trial.course, hidden = None, hidden + 1
        trials += [trial for trial in outcome.trials if trial.primary or count <= MAX_TRIALS]
        sources[outcome.host_cpu_source or "none"] += 1
        faults |= {where: why for where, why in outcome.host_cpu_faults.items() if where not in faults}
        shown = shown or {"first_pair": {"hosts": outcome.hosts, "guests": outcome.guests}}
    trials = [trial for trial in trials if trial.primary or count <= MAX_TRIALS]
    if bare:
        shown["bare_hosts"] = {name: read.environment.created for name, read in bare.items()}
    each = "; ".join(f"{source} in {counted(number, 'pair')}" for source, number in sources.items())
    pairs = [_pair(task) for task in run.tasks]
    environment = dataclasses.replace(
        run.environment,
        created=run.created_at.isoformat(timespec="seconds"),
        boots=len(run.tasks),
        boots_run=len({trial.boot % len(run.tasks) for trial in trials}),
        ended=ended,
        host_cpu_source=each if len(sources) > 1 else next(iter(sources), "none"),
        host_cpu_faults=dict(itertools.islice(faults.items(), _MAX_CPU_FAULTS)),
        trials_left_out=count - len(trials) or None,
        courses_left_out=hidden or None,
        host_cpu_faults_left_out=len(faults) - _MAX_CPU_FAULTS if len(faults) > _MAX_CPU_FAULTS else None,
        errors=[
            environments.Incident(
                f"{pair.client} with {pair.server}, attempt {fault.attempt}: {fault}",
                task.number,
                fault.arm,
                code=environments.IncidentCode.PAIR,
                kind=fault.kind.name.lower(),
            )
            for task, pair in zip(run.tasks, pairs, strict=True)
            for fault in task.faults
        ],
        fleet=environments.Fleet(run_id, pairs=pairs, max_loss=max_loss),
        shown={**run.environment.shown, **shown},
    )
    places = fleet.Places(environment)
    trials += _dealt_out(bare, places, trials)
    measured, judged = fleet.judge(results.Results(environment, _numbered(trials)), budgets)
    _add_figures(measured, places, judged)
    return measured, judged


def _dealt_out(
    bare: Mapping[str, results.Results], places: fleet.Places, measured: Sequence[results.Trial]
) -> list[results.Trial]:
    """Return samples of the hosts that guests were measured on, as trials in the boots and blocks of the guests.

    Those of a host are dealt out to all boots of guests on it, benchmark by benchmark.
    """
    boots: dict[tuple[str, str], dict[int, set[int]]] = {}
    for trial in measured if bare else ():
        if trial.primary:
            of_host = boots.setdefault((places.boots[trial.boot][1], trial.benchmark), {})
            of_host.setdefault(trial.boot, set()).add(trial.block)
    dealt: list[results.Trial] = []
    for (name, benchmark), blocks_of in boots.items():
        mine = [read.trials for host, read in bare.items() if host_result.same_host(host, name)]
        samples = [trial for trials in mine for trial in trials if trial.benchmark == benchmark]
        for index, (boot, blocks) in enumerate(blocks_of.items()):
            for block, sample in zip(sorted(blocks), samples[index :: len(blocks_of)], strict=False):
                order = len(measured) + len(dealt)  # behind the guests' own
                alone = dataclasses.replace(sample, arm=results.HOST, boot=boot, block=block, order=order)
                dealt.append(alone)
    return dealt


def _pair(task: model.Task) -> environments.FleetPair:
    return environments.FleetPair(
        number=task.number,
        client=task.pair.client or "any",
        server=task.pair.server or "any",
        state=task.state,
        attempts=task.attempts,
        seconds=round(task.seconds, 1) if task.seconds is not None else None,
        errors=[str(fault)[:2000] for fault in task.faults],
        figures=[],
        error_codes=[fault.kind.name.lower() for fault in task.faults],
    )


def _numbered(trials: Iterable[results.Trial]) -> list[results.Trial]:
    """Sort trials, and number their runs through: every pair numbers its own from the same number on."""
    ordered = sorted(trials, key=lambda trial: (trial.boot, trial.order))
    runs: dict[tuple[int, int], int] = {}
    for trial in ordered:
        trial.order = runs.setdefault((trial.boot, trial.order), len(runs))
    return ordered


def _add_figures(measured: results.Results, places: fleet.Places, judged: fleet.FleetVerdict) -> None:
    """Give every pair its figures: the median of each, also against that of the median host."""
    values: dict[tuple[int, str, str, str, str], list[float]] = {}
    better: dict[str, str] = {}
    pairs = {pair.number: pair for pair in places.fleet.pairs}
    for trial in measured.trials:
        if trial.value is not None and trial.primary and trial.arm != results.HOST:
            number, better[trial.benchmark] = trial.boot % len(pairs), trial.better
            figure = number, trial.benchmark, trial.arm, trial.unit, places.boots[trial.boot][1]
            values.setdefault(figure, []).append(trial.value)
    for (number, benchmark, arm, unit, host), some in values.items():
        median, against = statistics.median(some), None
        comparison = judged.comparisons.get((benchmark, arm))
        if comparison is not None and math.isfinite(comparison.middle):
            turn = -1 if better[benchmark] == "lower" else 1
            against = median / math.exp(turn * comparison.middle)
        pairs[number].figures.append(environments.PairFigure(benchmark, arm, unit, median, host, against))
