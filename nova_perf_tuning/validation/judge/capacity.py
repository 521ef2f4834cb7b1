# SPDX-License-Identifier: Apache-2.0
"""How many guests of a flavor a host carries before one of its resources runs out.

This is worked out from measured CPU per unit of work.

A guest that does R units of work per second and costs C CPU seconds per unit beside its vCPUs
takes R * C of the host's shared CPUs; N guests fit while N * R * C stays below what may be busy of
them. That is linear: caches, memory bandwidth and full queues are not in it, so a run at the
number that is found must confirm it.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import statistics, trial_filter
from nova_perf_tuning.validation.measure import overhead
from nova_perf_tuning.validation.results import model, reasons
from nova_perf_tuning.validation.results.environment import Environment, RecordedBenchmark
from nova_perf_tuning.validation.results.reasons import reason

#: Classes of a guest's CPU that run on shared CPUs; ``worker`` are QEMU's own threads for I/O.
CLASSES: Final = ("emulator", "iothread", "worker", "vhost", "softirq")
ALL: Final = "all shared work"
#: A cost that was measured at so many times a guest's rate, or so much less, is taken for its
#: cost.
_SAME_RATE: Final = 2.0

_C = reasons.ReasonCode


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """One resource; :ivar per_guest: CPUs that one guest takes of it.

    :ivar guests: how many fit; :ivar fewest, most: at the costly and the cheap end of the
        interval, None without.
    """

    resource: str
    per_unit_s: float
    per_guest: float
    guests: int | None
    fewest: int | None
    most: int | None

    @property
    def careful(self) -> int | None:
        """The number to plan with: at the costly end of the interval; None: it does not limit."""
        return self.guests if self.fewest is None else self.fewest


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """What a host carries of one flavor's load.

    :ivar limits: the tightest resource first; :ivar trials: how many it rests on.
    :ivar rate: units of work per second of each guest; :ivar notes: what else the figures do not
        hold for.
    """

    benchmark: str
    arm: str
    work_unit: str
    rate: float
    shared_cpus: float
    limits: tuple[Limit, ...]
    trials: int
    notes: tuple[reasons.Reason, ...] = ()


def fits(cpus: float, per_guest: float) -> int | None:
    """Return how many guests fit; None: the resource is not used, so it does not limit."""
    if per_guest <= 0:
        return None
    return math.floor(cpus / per_guest + 1e-9)


def capacity(
    results: model.Results,
    benchmark: str,
    arm: str,
    shared_cpus: float,
    busy: float,
    rate: float | None = None,
) -> Capacity:
    """Return how many guests fit, resource by resource.

    :param shared_cpus: CPUs of the host for emulators, vhost workers and interrupts.
    :param busy: share of them that may be busy, above 0 to 1.
    :param rate: units per second that each guest does; None: the median of what the measured one
        did.
    :raises reasons.ReasonError: no trial counted its work or CPU by class, too many do not count
        for the rest to be a sample, or counters contradict each other.
    """
    trials, notes = _counting(results, benchmark, arm)
    used: set[str] = set()
    rates: list[float] = []
    for trial in trials:
        used.update(name for name, seconds in trial.host_cpu_s.items() if seconds)
        if trial.work and trial.window_s > 0:
            rates.append(trial.work / trial.window_s)
    classes = [name for name in CLASSES if name in used]
    if not classes:
        raise reasons.ReasonError(_C.NO_SHARED_WORK, benchmark=benchmark, arm=arm)
    measured_rate = statistics.median(rates) or 0.0
    if rate is None:
        rate = measured_rate
    guests = _guests(results.environment, benchmark)
    free_cpus = shared_cpus * busy
    limits = [_limit(ALL, trials, classes, guests, rate, free_cpus)]
    for name in classes:
        limits.append(_limit(name, trials, [name], guests, rate, free_cpus))
    limits.sort(key=lambda limit: math.inf if limit.careful is None else limit.careful)
    unit = trials[0].work_unit
    if not any("softirq" in trial.host_cpu_s for trial in trials):
        notes.append(reason(_C.NO_SOFTIRQ))
    if measured_rate and not 1 / _SAME_RATE <= rate / measured_rate <= _SAME_RATE:
        notes.append(reason(_C.OTHER_RATE, measured=measured_rate, rate=rate, unit=unit))
    if limits[0].fewest is None and limits[0].most is None:
        notes.append(reason(_C.ONE_BOOT))
    notes += _waits(trials)
    return Capacity(
        benchmark=benchmark,
        arm=arm,
        work_unit=unit,
        rate=rate,
        shared_cpus=shared_cpus,
        limits=tuple(limits),
        trials=len(trials),
        notes=tuple(notes),
    )


def _waits(trials: Sequence[model.Trial]) -> list[reasons.Reason]:
    """Return a note where vCPUs waited for a host CPU: their host was not idle."""
    known = over = 0
    for trial in trials:
        share = overhead.wait_share(trial)
        if share is None:
            continue
        known += 1
        if share > overhead.MAX_WAIT:
            over += 1
    if not over:
        return []
    return [reason(_C.SOME_WAITED, count=over, of=known)]


def _counting(
    results: model.Results,
    benchmark: str,
    arm: str,
) -> tuple[list[model.Trial], list[reasons.Reason]]:
    """Return the trials that count, with their work and CPU, and notes on the others.

    :raises reasons.ReasonError: as for :func:`capacity`.
    """
    where = {"benchmark": benchmark, "arm": arm}
    figure = []
    for trial in results.trials:
        # A run that failed is one trial without a value.
        if trial.benchmark == benchmark and (trial.primary or trial.value is None):
            figure.append(trial)
    picked = trial_filter.select(results, figure, arm, arm)
    measured = any(trial.arm == arm for trial in figure)
    if measured and picked.invalid is not None:
        raise reasons.ReasonError(_C.NO_SAMPLE, **where, why=(picked.invalid,))

    working = [trial for trial in picked.trials if trial.value is not None and trial.work]
    if not working:
        known = {trial.benchmark for trial in results.trials if trial.work and trial.arm == arm}
        raise reasons.ReasonError(_C.NO_WORK, **where, known=sorted(known))
    if not any("vcpu" in trial.host_cpu_s for trial in working):
        raise reasons.ReasonError(_C.NO_GUEST, **where)

    trials = [trial for trial in working if {"vcpu", "total"} <= trial.host_cpu_s.keys()]
    lacking = len(working) - len(trials)
    count = {"count": lacking, "of": len(working)}
    limit = trial_filter.MAX_LOST
    if lacking > limit * len(working):
        raise reasons.ReasonError(_C.TOO_FEW_WITH_WORK, **where, **count, limit=limit)
    for trial in trials:
        contradiction = overhead.cost(trial).contradiction
        if contradiction is not None:
            raise reasons.ReasonError(_C.NO_SAMPLE, **where, why=(contradiction,))

    notes = list(picked.notes)
    if lacking:
        notes.append(reason(_C.UNCOUNTED, **count))
    return trials, notes


def _guests(environment: Environment, benchmark: str) -> int:
    """Return of how many guests the trials count the CPU; one takes the mean of both roles."""
    commands = environment.benchmarks.get(benchmark, RecordedBenchmark()).commands
    paired = len(commands) > 1
    if not commands and trial_filter.of_many_hosts(environment):  # whose results have no commands
        kind = plugins.of_label(benchmark, environment.benchmarks)
        paired = kind is not None and kind.paired
    return 2 if paired else 1


def _limit(
    name: str,
    trials: Sequence[model.Trial],
    classes: Sequence[str],
    guests: int,
    rate: float,
    cpus: float,
) -> Limit:
    """Return how many guests fit by their use of some classes.

    :param trials: count the CPU of so many ``guests``.
    """

    def per_unit(trial: model.Trial) -> float | None:
        seconds = sum(trial.host_cpu_s.get(name, 0.0) for name in classes)
        return overhead.per_unit(seconds / guests, trial)

    cost = statistics.estimate(statistics.by_boot(trials, per_unit), positive=True)
    assert cost is not None
    fewest = most = None
    if cost.high is not None:
        fewest = fits(cpus, cost.high * rate)
    if cost.low is not None:
        most = fits(cpus, cost.low * rate)
    per_guest = cost.value * rate
    return Limit(name, cost.value, per_guest, fits(cpus, per_guest), fewest, most)
