# SPDX-License-Identifier: Apache-2.0
"""The history of hosts in the database of runs: results are kept there, and runs compared.

Comparable are figures of the same benchmark with the same parameters, in the same arm with the
same request, on hosts with the same fingerprint. Versions are no part of it, since what they
change is what a history is to show.
"""

import collections
import dataclasses
import datetime
import hashlib
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

# First: it names the extra that SQLAlchemy is of.
from nova_perf_tuning.validation.store import engine as database

# isort: split
import sqlalchemy as sa

from nova_perf_tuning import bounded_json, printing
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import statistics as intervals
from nova_perf_tuning.validation.judge import trial_filter, workloads
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.results import model, reasons
from nova_perf_tuning.validation.results.environment import (
    Environment,
    RecordedArm,
    RecordedBenchmark,
)

#: What may change between runs and explain a change of figures.
_VERSIONS = ("kernel", "qemu", "libvirt", "nova_perf_tuning")
#: A shift must last for so many runs: one strange run is no change.
LEAST_RUNS = 3
_NORMAL: Final = statistics.NormalDist()
#: Smaller shifts are not worth a word, however certain.
_LEAST_SHARE = 0.01
#: Probability of a change point in a history that has none.
_LEVEL = 0.01
#: Standard errors of logarithms below this are rounding.
_LEAST_ERROR = 1e-12

#: What the runs of a series have in common: the fields of :class:`Series` up to its points.
_Key = tuple[str, str, str, str, str, str, str, str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """:ivar index: first run after the change; :ivar ratio: median after / median before."""

    index: int
    ratio: float


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One run; :ivar value: median of its trials.

    :ivar versions: of kernel, QEMU, libvirt, this program and the benchmark's.
    """

    run_id: str
    at: datetime.datetime
    value: float
    n: int
    versions: Mapping[str, str]
    tags: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """The history of one figure of one arm on one host.

    :ivar parameters: of the benchmark, as JSON; :ivar request: of the arm, see :func:`_request`.
    :ivar changes: see :func:`changes`.
    """

    host: str
    benchmark: str
    metric: str
    arm: str
    fingerprint: str
    parameters: str
    request: str
    unit: str
    better: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]

    def change(self, change: Change) -> reasons.Reason:
        """Return a change as a reason, with the versions that changed at the same time."""
        before, after = self.points[change.index - 1], self.points[change.index]
        versions: dict[str, tuple[str, str]] = {}
        for name, new in after.versions.items():
            old = before.versions.get(name, "?")
            if old != new:
                versions[name] = (old, new)
        code = reasons.ReasonCode.WORSENED
        if (change.ratio > 1) == (self.better == "higher"):
            code = reasons.ReasonCode.IMPROVED
        return reasons.reason(code, ratio=change.ratio, at=after.at.isoformat(), versions=versions)

    @property
    def tuning(self) -> str:
        """The request in words: the profile and all extra specs; ``-`` for none."""
        specs = bounded_json.parse(self.request or "{}")
        profile = specs.pop("perf:profile", "")
        text = ", ".join(f"{name.removeprefix('perf:')}={value}" for name, value in specs.items())
        if profile and text:
            return f"{profile} ({text})"
        return profile or text or "-"


def _fingerprint(environment: Environment, collectors: Sequence[str]) -> str:
    """Return what hosts must have in common to be compared, in words.

    It is empty where the CPU is not known.
    """
    if not environment.cpu_model:
        return ""
    cpus = gib = "?"
    if environment.cpus is not None:
        cpus = str(environment.cpus)
    if environment.memory_mib is not None:
        gib = str(round(environment.memory_mib / 1024))
    parts = [f"{environment.cpu_model}, {cpus} CPUs, {gib} GiB", environment.accelerator or "?"]
    guest = environment.guest
    if guest:
        memory = guest.get("memory_mib", "?")
        parts.append(f"guest {guest.get('vcpus', '?')} vCPU {memory} MiB")
    for name in collectors:
        parts.append(f"watched by {name}")
    return printing.key(", ".join(parts), 200)


def _request(environment: Environment, arm: str) -> str:
    """Return what an arm asked for, profile and extra specs, as JSON in one form.

    It is empty for nothing or unknown.
    """
    specs = dict(environment.arms.get(arm, RecordedArm()).request)
    specs.pop("perf:budget", None)  # it judges, and changes nothing
    if not specs:
        return ""
    return json.dumps(specs, sort_keys=True)


def add(engine: sa.Engine, results: model.Results) -> tuple[str, bool]:
    """Keep the results of a single host, without trials that guards reject by their defaults.

    Return the run's id, and False if it was there already; DatabaseError: it cannot be written.
    """
    text = json.dumps(results_file.to_dict(results), sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    at = results.environment.began
    run_id = f"{at:%Y%m%d-%H%M%S}-{digest[:8]}"
    # Domain XML and pictures would be most of the database.
    arms: dict[str, RecordedArm] = {}
    for name, arm in results.environment.arms.items():
        arms[name] = dataclasses.replace(arm, xml="", picture="")
    environment = dataclasses.replace(results.environment, arms=arms).to_dict()
    host = printing.key(results.environment.host or "unknown", 200)
    rejected = trial_filter.alone(results)
    trials = []
    for trial in results.trials:
        if trial_filter.run(trial) not in rejected:
            trials.append(dataclasses.asdict(trial))
    run = {
        "id": run_id,
        "kind": "libvirt",
        "state": "complete",
        "owner": "",
        "created_at": at,
        "seen_at": at,
        "leftovers": False,
        "plan": {},
        "environment": environment,
        "hosts": [host],
    }
    pair = {
        "run_id": run_id,
        "number": 0,
        "client": host,
        "server": host,
        "state": "done",
        "attempts": 1,
        "faults": [],
        "environment": {},
        "trials": trials,
    }

    def insert(connection: sa.Connection) -> bool:
        there = sa.select(database.runs.c.id).where(database.runs.c.id == run_id)
        if connection.scalar(there) is not None:
            return False
        connection.execute(sa.insert(database.runs), run)
        connection.execute(sa.insert(database.pairs), pair)
        return True

    return run_id, database.write(engine, insert)


def series(
    engine: sa.Engine,
    host: str | None = None,
    benchmark: str | None = None,
    arm: str | None = None,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> list[Series]:
    """Return histories by host, benchmark, arm and request.

    :param host, benchmark, arm: those of one alone; None: of all.
    :param tags: of runs with all of these tags.
    """
    runs = database.runs.c
    points: dict[_Key, list[Point]] = collections.defaultdict(list)
    with database.reading(engine) as connection:
        by_time = sa.select(runs.id, runs.created_at).order_by(runs.created_at, runs.id)
        for run_id, created in connection.execute(by_time).all():
            with database.readable(run_id):
                wanted = sa.select(runs.environment, runs.plan).where(runs.id == run_id)
                kept, plan = connection.execute(wanted).one()
                environment = Environment.from_dict(kept or {})
                cloud = str(plan.get("cloud", ""))
                if cloud:
                    _add_workloads(connection, run_id, environment)
                if not tags.items() <= environment.tags.items():
                    continue
                values: dict[_Key, list[float]] = collections.defaultdict(list)
                for measured, trial in _trials(connection, run_id):
                    if host not in (None, measured):
                        continue
                    if benchmark not in (None, trial.benchmark) or arm not in (None, trial.arm):
                        continue
                    if trial.primary and trial.value is not None and trial.value > 0:
                        key = _key(measured, cloud, environment, trial)
                        values[key].append(trial.value)
            versions: dict[str, str] = {}
            for name in _VERSIONS:
                version = getattr(environment, name)
                if version:
                    versions[name] = version
            for key, some in values.items():
                middle = statistics.median(some)
                known = versions | _program(environment, label=key[1], arm=key[3])
                points[key].append(
                    Point(run_id, created, middle, len(some), known, environment.tags),
                )
    histories = []
    for key, of_key in sorted(points.items()):
        found = changes([point.value for point in of_key])
        histories.append(Series(*key, tuple(of_key), tuple(found)))
    return histories


def _add_workloads(connection: sa.Connection, run_id: str, environment: Environment) -> None:
    """Add what the pairs of a fleet's run say of the work; results of a single host have it."""
    pairs = database.pairs.c
    done = sa.select(pairs.environment).where(pairs.run_id == run_id, pairs.state == "done")
    for known in connection.scalars(done.execution_options(yield_per=20)):
        for label, arms in known.get("workloads", {}).items():
            recorded = environment.benchmarks.get(label, RecordedBenchmark())
            for arm, done_work in arms.items():
                for workload in done_work:
                    recorded.ran(arm, workload)


def _program(environment: Environment, label: str, arm: str) -> dict[str, str]:
    """Return the program of a benchmark and its version in an arm; empty: results do not say it."""
    benchmark = environment.benchmarks.get(label, RecordedBenchmark())
    version = workloads.versions(benchmark, arm)
    if not version:
        return {}
    kind = plugins.of_label(label, environment.benchmarks)
    name = benchmark.kind or label
    if kind is not None:
        name = kind.tool or kind.kind
    return {name: version}


def _trials(connection: sa.Connection, run_id: str) -> Iterator[tuple[str, model.Trial]]:
    """Yield the host that was measured and each trial of the pairs of a run that are done.

    Boot 1 of a pair of a fleet is what ran on its server alone, see the collector of heat; a single
    host is the client and the server of its pair.
    """
    pairs = database.pairs.c
    done = sa.select(pairs.client, pairs.server, pairs.trials)
    done = done.where(pairs.run_id == run_id, pairs.state == "done")
    for client, server, rows in connection.execute(done.execution_options(yield_per=20)):
        for row in rows:
            trial = model.Trial(**row)
            if trial.boot == 1:
                yield server, trial
            else:
                yield client, trial


def _key(host: str, cloud: str, environment: Environment, trial: model.Trial) -> _Key:
    """Return what figures must have in common to be one history.

    :param cloud: of a fleet: hosts of two clouds may have one name; empty: of a single host.
    """
    benchmark = environment.benchmarks.get(trial.benchmark, RecordedBenchmark())
    fingerprint = _fingerprint(environment, trial.collectors)
    if cloud:
        fingerprint = printing.key(f"{cloud}: {fingerprint}", 200)
    parameters = json.dumps(dict(benchmark.parameters), sort_keys=True)
    request = _request(environment, trial.arm)
    figure = (host, trial.benchmark, trial.metric, trial.arm)
    return (*figure, fingerprint, parameters, request, trial.unit, trial.better)


def changes(values: Sequence[float]) -> list[Change]:
    """Return the change points of a history of positive figures, in the order of time.

    Binary segmentation with Student's t, corrected for the number of places to cut (as Hunter
    does, Fleming et al. 2023).
    """
    logs = [math.log(value) for value in values]
    cuts = _cuts(logs)
    ends = [0, *cuts, len(logs)]
    shifts = []
    for number, cut in enumerate(cuts):
        before = logs[ends[number] : cut]
        after = logs[cut : ends[number + 2]]
        ratio = math.exp(statistics.median(after) - statistics.median(before))
        if abs(ratio - 1) >= _LEAST_SHARE:
            shifts.append(Change(cut, ratio))
    return shifts


def _cuts(logs: Sequence[float], offset: int = 0) -> list[int]:
    """Return the places to cut, counted from ``offset``; short histories have none.

    Python alone does the sums: NumPy would take longer to load than thousands of runs to add up.
    """
    n = len(logs)
    places = n - 2 * LEAST_RUNS + 1
    if places < 1:
        return []
    mean = math.fsum(logs) / n
    squares = math.fsum((log - mean) ** 2 for log in logs)
    cut = 0
    largest = -1.0
    first = 0.0  # sum before an index; what is behind it has the same with the other sign
    for index, log in enumerate(logs[: n - LEAST_RUNS], start=1):
        first += log - mean
        if index < LEAST_RUNS:
            continue
        weight = 1 / index + 1 / (n - index)
        unexplained = max(squares - first**2 * weight, 0.0)
        error = math.sqrt(unexplained / (n - 2) * weight)
        shift = abs(first) * weight / max(error, _LEAST_ERROR)
        if shift > largest:
            cut, largest = index, shift
    probability = 1 - _LEVEL / (2 * places)
    # A quantile of Student's t is above the normal one: below that SciPy need not be loaded, which
    # takes longer than all the rest.
    if largest <= _NORMAL.inv_cdf(probability):
        return []
    if largest <= intervals.student_t(probability, n - 2):
        return []
    return [*_cuts(logs[:cut], offset), offset + cut, *_cuts(logs[cut:], offset + cut)]
