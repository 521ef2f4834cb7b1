# SPDX-License-Identifier: Apache-2.0
"""The history of hosts in the database of runs: results are kept there, and runs are put beside each other.

Comparable are figures of the same benchmark with the same parameters, in the same arm with the same request, on
hosts with the same fingerprint. Versions are no part of it, since what they change is what a history is to show.
"""

import collections
import dataclasses
import datetime
import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nova_perf_tuning.validation.database import engine as database  # first: it says which extra SQLAlchemy is of

# isort: split
import numpy as np
import sqlalchemy as sa
from scipy import stats

from nova_perf_tuning import bounded_json, printing
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.measure import model, reasons, store

#: What may change between runs and explain a change of figures.
_VERSIONS = ("kernel", "qemu", "libvirt", "nova_perf_tuning")
#: A shift must last for so many runs: one strange run is no change.
LEAST_RUNS = 3
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
    """One run. :ivar value: median of its trials; :ivar versions: of kernel, QEMU, libvirt and this program."""

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
        before, after = self.points[change.index - 1].versions, self.points[change.index]
        known = {name: (before.get(name, "?"), new) for name, new in after.versions.items()}
        versions = {name: (old, new) for name, (old, new) in known.items() if old != new}
        improved = (change.ratio > 1) == (self.better == "higher")
        code = reasons.ReasonCode.IMPROVED if improved else reasons.ReasonCode.WORSENED
        return reasons.reason(code, ratio=change.ratio, at=after.at.isoformat(), versions=versions)

    @property
    def tuning(self) -> str:
        """The request in words: the profile and all extra specs; ``-`` for none."""
        specs = bounded_json.parse(self.request or "{}")
        profile = specs.pop("perf:profile", "")
        text = ", ".join(f"{name.removeprefix('perf:')}={value}" for name, value in specs.items())
        return f"{profile} ({text})" if profile and text else profile or text or "-"


def _fingerprint(environment: environments.Environment, collectors: Sequence[str]) -> str:
    """Return what hosts must have in common to be compared, in words; empty where the CPU is not known."""
    if not environment.cpu_model:
        return ""
    gib = "?" if environment.memory_mib is None else round(environment.memory_mib / 1024)
    cpus = "?" if environment.cpus is None else environment.cpus
    parts = [f"{environment.cpu_model}, {cpus} CPUs, {gib} GiB", environment.accelerator or "?"]
    if guest := environment.guest:
        parts.append(f"guest {guest.get('vcpus', '?')} vCPU {guest.get('memory_mib', '?')} MiB")
    parts += [f"watched by {name}" for name in collectors]
    return printing.key(", ".join(parts), 200)


def _request(environment: environments.Environment, arm: str) -> str:
    """Return what an arm asked for, profile and extra specs, as JSON in one form; empty for nothing or unknown."""
    wanted = environment.arms.get(arm, environments.Arm()).request
    specs = {key: value for key, value in wanted.items() if key != "perf:budget"}  # it judges, and changes nothing
    return json.dumps(specs, sort_keys=True) if specs else ""


def add(engine: sa.Engine, results: model.Results) -> tuple[str, bool]:
    """Keep the results of a single host, without trials that guards reject by their defaults.

    Return the run's id, and False if it was there already; DatabaseError: it cannot be written.
    """
    text = json.dumps(store.to_dict(results), sort_keys=True, default=str).encode("utf-8", "replace")
    at = results.environment.began
    run_id = f"{at:%Y%m%d-%H%M%S}-{hashlib.sha256(text).hexdigest()[:8]}"
    # Domain XML and pictures would be most of the database.
    arms = {name: dataclasses.replace(arm, xml="", picture="") for name, arm in results.environment.arms.items()}
    environment = environments.to_dict(dataclasses.replace(results.environment, arms=arms))
    host = printing.key(results.environment.host or "unknown", 200)
    excluded = trial_filter.alone(results)
    trials = [dataclasses.asdict(trial) for trial in results.trials if trial_filter.run(trial) not in excluded]
    run = {"id": run_id, "kind": "libvirt", "state": "complete", "owner": "", "created_at": at, "seen_at": at}
    run |= {"leftovers": False, "plan": {}, "environment": environment, "hosts": [host]}
    pair = {"run_id": run_id, "number": 0, "client": host, "server": host, "state": "done", "attempts": 1}
    pair |= {"faults": [], "environment": {}, "trials": trials}

    def insert(connection: sa.Connection) -> bool:
        if connection.scalar(sa.select(database.runs.c.id).where(database.runs.c.id == run_id)) is not None:
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
    """Return histories by host, benchmark, arm and request, or of one host, benchmark, arm, or runs with tags."""
    runs, pairs = database.runs.c, database.pairs.c
    points: dict[_Key, list[Point]] = collections.defaultdict(list)
    with database.reading(engine) as connection:
        by_time = sa.select(runs.id, runs.created_at).order_by(runs.created_at, runs.id)
        for run_id, created in connection.execute(by_time).all():
            kept = connection.scalar(sa.select(runs.environment).where(runs.id == run_id)) or {}
            environment = environments.from_dict(kept)
            if not tags.items() <= environment.tags.items():
                continue
            versions = {name: value for name in _VERSIONS if (value := getattr(environment, name))}
            done = sa.select(pairs.client, pairs.trials).where(pairs.run_id == run_id, pairs.state == "done")
            if host is not None:
                done = done.where(pairs.client == host)
            values: dict[_Key, list[float]] = collections.defaultdict(list)
            for client, trials in connection.execute(done.execution_options(yield_per=20)):
                for trial in (model.Trial(**row) for row in trials):
                    wanted = benchmark in (None, trial.benchmark) and arm in (None, trial.arm)
                    if wanted and trial.primary and trial.value is not None and trial.value > 0:
                        values[_key(client, environment, trial)].append(trial.value)
            for key, some in values.items():
                points[key].append(
                    Point(run_id, created, statistics.median(some), len(some), versions, environment.tags)
                )
    return [
        Series(*key, tuple(some), tuple(changes([point.value for point in some])))
        for key, some in sorted(points.items())
    ]


def _key(host: str, environment: environments.Environment, trial: model.Trial) -> _Key:
    benchmark = environment.benchmarks.get(trial.benchmark, environments.Benchmark())
    parameters = json.dumps(dict(benchmark.parameters), sort_keys=True)
    return (
        *(host, trial.benchmark, trial.metric, trial.arm, _fingerprint(environment, trial.collectors)),
        *(parameters, _request(environment, trial.arm), trial.unit, trial.better),
    )


def changes(values: Sequence[float]) -> list[Change]:
    """Return the change points of a history of positive figures, in the order of time.

    Binary segmentation with Student's t, corrected for the number of places to cut (as Hunter does, Fleming et al.
    2023).
    """
    logs = np.log(values)
    ends = [0, *_cuts(logs), len(logs)]
    shifts = [
        Change(cut, math.exp(statistics.median(logs[cut:after]) - statistics.median(logs[before:cut])))
        for before, cut, after in zip(ends, ends[1:], ends[2:], strict=False)
    ]
    return [change for change in shifts if abs(change.ratio - 1) >= _LEAST_SHARE]


def _cuts(logs: np.ndarray, offset: int = 0) -> list[int]:
    n = len(logs)
    if n < 2 * LEAST_RUNS:
        return []
    part = logs - logs.mean()
    index = np.arange(LEAST_RUNS, n - LEAST_RUNS + 1)
    weight = 1 / index + 1 / (n - index)
    first = part.cumsum()[index - 1]  # what is behind an index has the same sum with the other sign
    error = np.sqrt(np.maximum((part**2).sum() - first**2 * weight, 0) / (n - 2) * weight)
    shifts = np.abs(first) * weight / np.maximum(error, _LEAST_ERROR)
    best = int(shifts.argmax())
    if shifts[best] <= stats.t.ppf(1 - _LEVEL / (2 * len(index)), n - 2):
        return []
    cut = int(index[best])
    return [*_cuts(logs[:cut], offset), offset + cut, *_cuts(logs[cut:], offset + cut)]
