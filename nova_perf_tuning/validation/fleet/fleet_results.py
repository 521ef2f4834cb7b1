# SPDX-License-Identifier: Apache-2.0
"""The results of a run over many hosts, from the database, in the form that reports are made of.

Beside them may stand what bare hosts do, as ``nova-perf validate`` measures it there, at another
time than the guests: each sample is used once, so that boots and pairs of guests stay independent.
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

from nova_perf_tuning import errors
from nova_perf_tuning.nova import host_result
from nova_perf_tuning.printing import counted, one_line
from nova_perf_tuning.specs import native
from nova_perf_tuning.validation.judge import fleet, fleet_places, verdict
from nova_perf_tuning.validation.measure import fleet_model, results_file, session
from nova_perf_tuning.validation.results import model, schema
from nova_perf_tuning.validation.results.environment import (
    Ended,
    Environment,
    Fleet,
    FleetPair,
    Incident,
    IncidentCode,
    PairFigure,
    RecordedArm,
    RecordedBenchmark,
)
from nova_perf_tuning.validation.store import run_store

#: With more trials than that only primary ones are kept, so that files stay small.
MAX_TRIALS = 40_000
#: Planned with more runs than that, results have no courses: each takes 10 KB of memory.
_MAX_COURSES: Final = 2000
#: More causes why host CPU is not known help nobody.
_MAX_CPU_FAULTS: Final = 50


def environment(
    plan: fleet_model.FleetPlan,
    cloud: str,
    host_group: str | None,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> Environment:
    """Return what the results of a run rest on, as far as it is known when it begins."""
    guests = plan.guests
    guest: dict[str, int | str] = {}
    if any(not arm.flavor for arm in plan.measure.arms):
        guest["vcpus"] = guests.vcpus
        guest["memory_mib"] = guests.ram_mib
    guest["image"] = guests.image
    arms = {}
    encryption = ""
    for arm in plan.measure.arms:
        specs = dict(arm.extra_specs)
        if not specs and arm.flavor:
            specs["flavor"] = arm.flavor
        arms[arm.name] = RecordedArm(specs)
        if not encryption:
            encryption = native.memory_encryption(arm.extra_specs)
    return Environment(
        launcher="heat",
        host=f"cloud {cloud}".strip(),
        nova_perf_tuning=metadata.version("nova-perf-tuning"),
        host_group=host_group or "",
        tags=dict(tags),
        seed=plan.settings.seed,
        blocks=plan.measure.trials,
        memory_encryption=encryption,
        guest=guest,
        arms=arms,
        benchmarks={job.label: session.describe(job) for job in plan.measure.jobs},
        shown={"settings": dataclasses.asdict(plan.settings)},
    )


def load_bare(paths: Iterable[str], labels: Collection[str]) -> dict[str, model.Results]:
    """Return host -> what it did without guests, in the order of time.

    :param labels: benchmarks of the run; others are left out.
    :raises InputError: a file cannot be read or is no results file.
    :raises CloudError: a file names no host, or has none of the benchmarks for the host itself.
    """
    bare: dict[str, model.Results] = {}
    for path in paths:
        read = results_file.load(path)
        name = read.environment.host
        if not name:
            raise errors.CloudError(
                f"{path}: environment.host is missing: which host was measured?"
            )
        if name in bare:
            raise errors.CloudError(
                f"{path}: host {name} has been given already; give one file for each host"
            )
        alone = read.environment.launcher == "host"  # then it is every arm
        mine = []
        for trial in read.trials:
            is_bare = alone or trial.arm == model.HOST
            has_figure = trial.primary and trial.value is not None
            if is_bare and has_figure and trial.benchmark in labels:
                mine.append(trial)
        if not mine:
            raise errors.CloudError(
                f"{path}: nothing of {', '.join(labels)} on the host itself; measure it there"
                " with 'nova-perf validate --launcher host' and the same --benchmark options"
            )
        bare[name] = dataclasses.replace(read, trials=sorted(mine, key=lambda trial: trial.order))
    return bare


def of_hosts(bare: Mapping[str, model.Results], hosts: Iterable[str]) -> dict[str, model.Results]:
    """Return host of a run -> what it did without guests.

    :param bare: see :func:`load_bare`; a file whose host is not among those of the run is left out.
    :raises CloudError: a file may be of several hosts, or a host may have several files.
    """
    names = list(hosts)
    found: dict[str, model.Results] = {}
    files: dict[str, str] = {}
    for name, read in bare.items():
        fitting = host_result.matching(names, name)
        if len(fitting) > 1:
            raise errors.CloudError(
                f"--bare-host: host {name} may be {' or '.join(sorted(fitting)[:4])}; measure it"
                " again with its full name"
            )
        for host in fitting:
            if host in found:
                raise errors.CloudError(
                    f"--bare-host: {files[host]} and {name} are both host {host}; give one file for"
                    " each host"
                )
            found[host], files[host] = read, name
    return found


@dataclasses.dataclass(slots=True)
class _Gathered:
    """What the pairs of a run gave, gathered from one outcome after the other.

    :ivar pairs: number of pairs of the run.
    :ivar keeps_courses: whether trials keep their courses.
    :ivar count: number of trials, also of those that were left out for their number.
    :ivar unusable: of each pair, benchmark and arm, why results cannot hold a trial. An older
        release stored such trials.
    :ivar sources: where host CPU comes from -> number of pairs.
    :ivar first_pair: the hosts and guests of the first pair that has results.
    :ivar workloads: label of a benchmark, arm, and what its outputs say of the work; each once.
    """

    pairs: int
    keeps_courses: bool
    trials: list[model.Trial] = dataclasses.field(default_factory=list)
    count: int = 0
    courses_left_out: int = 0
    sources: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    cpu_faults: dict[str, str] = dataclasses.field(default_factory=dict)
    first_pair: dict[str, object] = dataclasses.field(default_factory=dict)
    workloads: list[tuple[str, str, Mapping[str, str]]] = dataclasses.field(default_factory=list)
    unusable: dict[tuple[int, str, str], str] = dataclasses.field(default_factory=dict)

    def add(self, number: int, outcome: fleet_model.PairOutcome) -> None:
        usable = self._usable(number, outcome.trials)
        self.count += len(usable)
        for trial in usable:
            trial.boot = number + self.pairs * trial.boot
            if not self.keeps_courses and trial.course is not None:
                trial.course = None
                self.courses_left_out += 1
            if trial.primary or self.count <= MAX_TRIALS:
                self.trials.append(trial)
        self.sources[outcome.host_cpu_source or "none"] += 1
        for where, why in outcome.host_cpu_faults.items():
            self.cpu_faults.setdefault(where, why)
        for label, arms in outcome.workloads.items():
            for arm, workloads in arms.items():
                for workload in workloads:
                    if (label, arm, workload) not in self.workloads:
                        self.workloads.append((label, arm, workload))
        if not self.first_pair:
            self.first_pair = {"hosts": outcome.hosts, "guests": outcome.guests}

    def _usable(self, number: int, trials: Iterable[model.Trial]) -> list[model.Trial]:
        """Return the trials that results can hold, and note the others."""
        usable = []
        for trial in trials:
            try:
                results_file.check_trial(trial, "a trial is left out")
            except schema.InputError as error:
                place = number, trial.benchmark, trial.arm
                self.unusable.setdefault(place, one_line(error))
            else:
                usable.append(trial)
        return usable

    def incidents(self) -> list[Incident]:
        """Return what was left out since results cannot hold it."""
        incidents = []
        for (number, benchmark, arm), why in self.unusable.items():
            incident = Incident(
                why, number, arm, benchmark, code=IncidentCode.PAIR, kind="bad_results"
            )
            incidents.append(incident)
        return incidents

    def kept(self) -> list[model.Trial]:
        """Return the trials for the results; only primary ones where there are too many."""
        if self.count <= MAX_TRIALS:
            return self.trials
        return [trial for trial in self.trials if trial.primary]

    def source(self) -> str:
        """Return where the host CPU comes from, for reports."""
        if len(self.sources) <= 1:
            return next(iter(self.sources), "none")
        parts = [
            f"{source} in {counted(number, 'pair')}" for source, number in self.sources.items()
        ]
        return "; ".join(parts)


def collect(
    store: run_store.RunStore,
    run_id: str,
    budgets: Sequence[verdict.Budget],
    max_loss: float,
    ended: Ended,
    bare: Mapping[str, model.Results] = MappingProxyType({}),
) -> tuple[model.Results, fleet.FleetVerdict]:
    """Read a run from the database and judge it; return its results for reports, and the verdict.

    :param ended: ``complete`` or why the run ended before.
    :param bare: of :func:`load_bare`; budgets against ``host`` are judged by it.
    """
    run = store.load(run_id)
    measure = run.plan.measure
    runs = len(run.tasks) * measure.trials * len(measure.arms) * len(measure.jobs)
    gathered = _Gathered(len(run.tasks), keeps_courses=runs <= _MAX_COURSES)
    for number, outcome in store.outcomes(run_id):
        gathered.add(number, outcome)
    trials = gathered.kept()
    shown = dict(run.environment.shown)
    if gathered.first_pair:
        shown["first_pair"] = gathered.first_pair
    if bare:
        shown["bare_hosts"] = {name: read.environment.created for name, read in bare.items()}
    benchmarks = run.environment.benchmarks
    for label, arm, workload in gathered.workloads:
        if label in benchmarks:
            benchmarks[label].ran(arm, workload)
    for read in bare.values():
        _add_bare_workloads(benchmarks, read.environment)
    faults = gathered.cpu_faults
    pairs = [_pair(task) for task in run.tasks]
    environment = dataclasses.replace(
        run.environment,
        created=run.created_at.isoformat(timespec="seconds"),
        boots=len(run.tasks),
        boots_run=len({trial.boot % len(run.tasks) for trial in trials}),
        ended=ended,
        host_cpu_source=gathered.source(),
        host_cpu_faults=dict(itertools.islice(faults.items(), _MAX_CPU_FAULTS)),
        trials_left_out=gathered.count - len(trials) or None,
        courses_left_out=gathered.courses_left_out or None,
        host_cpu_faults_left_out=max(0, len(faults) - _MAX_CPU_FAULTS) or None,
        errors=_incidents(run.tasks) + gathered.incidents(),
        fleet=Fleet(run_id, pairs=pairs, max_loss=max_loss),
        shown=shown,
    )
    places = fleet_places.Places(environment)
    hosts = {host for _pair, host in places.boots.values()}
    trials += _dealt_out(of_hosts(bare, hosts), places, trials)
    measured, judged = fleet.judge(model.Results(environment, _numbered(trials)), budgets)
    _add_figures(measured, places, judged)
    return measured, judged


def _add_bare_workloads(benchmarks: Mapping[str, RecordedBenchmark], bare: Environment) -> None:
    """Add what a bare host's outputs say of the work; alone, it is every arm of its file."""
    for label, recorded in benchmarks.items():
        own = bare.benchmarks.get(label, RecordedBenchmark())
        for arm, workloads in own.workloads.items():
            if arm == model.HOST or bare.launcher == "host":
                for workload in workloads:
                    recorded.ran(model.HOST, workload)


def _incidents(tasks: Iterable[fleet_model.Task]) -> list[Incident]:
    """Return what went wrong in each attempt at each pair."""
    incidents = []
    for task in tasks:
        hosts = f"{task.pair.client or 'any'} with {task.pair.server or 'any'}"
        for fault in task.faults:
            incident = Incident(
                f"{hosts}, attempt {fault.attempt}: {fault}",
                task.number,
                fault.arm,
                code=IncidentCode.PAIR,
                kind=fault.kind.name.lower(),
            )
            incidents.append(incident)
    return incidents


def _dealt_out(
    bare: Mapping[str, model.Results],
    places: fleet_places.Places,
    measured: Sequence[model.Trial],
) -> list[model.Trial]:
    """Return samples of bare hosts as trials in the boots and blocks of the guests on them.

    Those of a host are dealt out to all boots of guests on it, benchmark by benchmark.

    :param bare: see :func:`of_hosts`.
    """
    if not bare:
        return []
    boots: dict[tuple[str, str], dict[int, set[int]]] = {}
    for trial in measured:
        if trial.primary:
            of_host = boots.setdefault((places.boots[trial.boot][1], trial.benchmark), {})
            of_host.setdefault(trial.boot, set()).add(trial.block)
    dealt: list[model.Trial] = []
    for (name, benchmark), blocks_of in boots.items():
        samples: list[model.Trial] = []
        if name in bare:
            samples = [trial for trial in bare[name].trials if trial.benchmark == benchmark]
        for index, (boot, blocks) in enumerate(blocks_of.items()):
            for block, sample in zip(
                sorted(blocks), samples[index :: len(blocks_of)], strict=False
            ):
                order = len(measured) + len(dealt)  # behind the guests' own
                alone = dataclasses.replace(
                    sample, arm=model.HOST, boot=boot, block=block, order=order
                )
                dealt.append(alone)
    return dealt


def _pair(task: fleet_model.Task) -> FleetPair:
    seconds = task.seconds
    if seconds is not None:
        seconds = round(seconds, 1)
    errors, codes = [], []
    for fault in task.faults:
        errors.append(str(fault)[:2000])
        codes.append(fault.kind.name.lower())
    return FleetPair(
        number=task.number,
        client=task.pair.client or "any",
        server=task.pair.server or "any",
        state=task.state,
        attempts=task.attempts,
        seconds=seconds,
        errors=errors,
        figures=[],
        error_codes=codes,
    )


def _numbered(trials: Iterable[model.Trial]) -> list[model.Trial]:
    """Sort trials, and number their runs through: each pair numbers its own from 0 on."""
    ordered = sorted(trials, key=lambda trial: (trial.boot, trial.order))
    runs: dict[tuple[int, int], int] = {}
    for trial in ordered:
        trial.order = runs.setdefault((trial.boot, trial.order), len(runs))
    return ordered


def _add_figures(
    measured: model.Results, places: fleet_places.Places, judged: fleet.FleetVerdict
) -> None:
    """Give every pair its figures: the median of each, also against that of the median host."""
    values: dict[tuple[int, str, str, str, str], list[float]] = {}
    better: dict[str, str] = {}
    pairs = {pair.number: pair for pair in places.fleet.pairs}
    for trial in measured.trials:
        if trial.value is not None and trial.primary and trial.arm != model.HOST:
            number, better[trial.benchmark] = trial.boot % len(pairs), trial.better
            figure = number, trial.benchmark, trial.arm, trial.unit, places.boots[trial.boot][1]
            values.setdefault(figure, []).append(trial.value)
    for (number, benchmark, arm, unit, host), some in values.items():
        median, against = statistics.median(some), None
        comparison = judged.comparisons.get((benchmark, arm))
        if comparison is not None and math.isfinite(comparison.middle):
            middle = comparison.middle
            if better[benchmark] == "lower":
                middle = -middle
            against = median / math.exp(middle)
        pairs[number].figures.append(PairFigure(benchmark, arm, unit, median, host, against))
