# SPDX-License-Identifier: Apache-2.0
"""How many guests of a flavor a host carries before one of its resources runs out, from measured CPU per unit.

A guest that does R units of work per second and costs C CPU seconds per unit beside its vCPUs takes R * C of the
host's shared CPUs; N guests fit while N * R * C stays below what may be busy of them. That is linear: caches,
memory bandwidth and full queues are not in it, so a run at the number that is found must confirm it.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import statistics, trial_filter
from nova_perf_tuning.validation.measure import model, overhead, reasons
from nova_perf_tuning.validation.measure.reasons import reason

#: Classes of a guest's CPU that run on shared CPUs; ``worker`` are QEMU's own threads for I/O.
CLASSES: Final = ("emulator", "iothread", "worker", "vhost", "softirq")
ALL: Final = "all shared work"
#: A cost that was measured at so many times a guest's rate, or so much less, is taken for its cost.
_SAME_RATE: Final = 2.0

_C = reasons.ReasonCode


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """One resource; :ivar per_guest: CPUs that one guest takes of it.

    :ivar guests: how many fit; :ivar fewest, most: at the costly and the cheap end of the interval, None without.
    """

    resource: str
    per_unit_s: float
    per_guest: float
    guests: int | None
    fewest: int | None
    most: int | None

    @property
    def careful(self) -> int | None:
        """The number to plan with: at the costly end where there is an interval; None: it does not limit."""
        return self.guests if self.fewest is None else self.fewest


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """What a host carries of one flavor's load, by so many trials; ``limits``: the tightest resource first.

    :ivar rate: units of work per second of each guest; :ivar notes: what else the figures do not hold for.
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
    return math.floor(cpus / per_guest + 1e-9) if per_guest > 0 else None


def capacity(
    results: model.Results, benchmark: str, arm: str, shared_cpus: float, busy: float, rate: float | None = None
) -> Capacity:
    """Return how many guests fit, resource by resource.

    :param shared_cpus: CPUs of the host for emulators, vhost workers and interrupts.
    :param busy: share of them that may be busy, above 0 to 1.
    :param rate: units per second that each guest does; None: the median of what the measured one did.
    :raises reasons.ReasonError: no trial counted its work or CPU by class, too many do not count for the rest to
        be a sample, or counters contradict each other.
    """
    trials, notes = _counting(results, benchmark, arm)
    classes = [name for name in CLASSES if any(trial.host_cpu_s.get(name) for trial in trials)]
    if not classes:
        raise reasons.ReasonError(_C.NO_SHARED_WORK, benchmark=benchmark, arm=arm)
    unit = trials[0].work_unit
    rates = [trial.work / trial.window_s for trial in trials if trial.work and trial.window_s > 0]
    own = statistics.median(rates) or 0.0
    rate = own if rate is None else rate
    guests = _guests(results.environment, benchmark)
    resources = {ALL: classes, **{name: [name] for name in classes}}
    limits = [_limit(name, trials, some, guests, rate, shared_cpus * busy) for name, some in resources.items()]
    limits.sort(key=lambda limit: math.inf if limit.careful is None else limit.careful)
    if not any("softirq" in trial.host_cpu_s for trial in trials):
        notes.append(reason(_C.NO_SOFTIRQ))
    if own and not 1 / _SAME_RATE <= rate / own <= _SAME_RATE:
        notes.append(reason(_C.OTHER_RATE, measured=own, rate=rate, unit=unit))
    if limits[0].fewest is None and limits[0].most is None:
        notes.append(reason(_C.ONE_BOOT))
    waits = [share for trial in trials if (share := overhead.wait_share(trial)) is not None]
    if over := sum(share > overhead.MAX_WAIT for share in waits):
        notes.append(reason(_C.SOME_WAITED, count=over, of=len(waits)))
    return Capacity(benchmark, arm, unit, rate, shared_cpus, tuple(limits), len(trials), tuple(notes))


def _counting(results: model.Results, benchmark: str, arm: str) -> tuple[list[model.Trial], list[reasons.Reason]]:
    """Return the trials that count, with their work and CPU, and what is to be said of the others.

    :raises reasons.ReasonError: as for :func:`capacity`.
    """
    where = {"benchmark": benchmark, "arm": arm}
    mine = [trial for trial in results.trials if trial.benchmark == benchmark]
    figure = [trial for trial in mine if trial.primary or trial.value is None]
    picked = trial_filter.select(results, figure, arm, arm)
    if picked.invalid is not None and any(trial.arm == arm for trial in figure):
        raise reasons.ReasonError(_C.NO_SAMPLE, **where, why=(picked.invalid,))
    working = [trial for trial in picked.trials if trial.value is not None and trial.work]
    if not working:
        known = sorted({trial.benchmark for trial in results.trials if trial.work and trial.arm == arm})
        raise reasons.ReasonError(_C.NO_WORK, **where, known=known)
    if not any("vcpu" in trial.host_cpu_s for trial in working):
        raise reasons.ReasonError(_C.NO_GUEST, **where)
    trials = [trial for trial in working if {"vcpu", "total"} <= trial.host_cpu_s.keys()]
    lacking = len(working) - len(trials)
    count = {"count": lacking, "of": len(working)}
    if lacking > trial_filter.MAX_LOST * len(working):
        raise reasons.ReasonError(_C.TOO_FEW_WITH_WORK, **where, **count, limit=trial_filter.MAX_LOST)
    if faults := list(filter(None, (overhead.cost(trial).contradiction for trial in trials))):
        raise reasons.ReasonError(_C.NO_SAMPLE, **where, why=(faults[0],))
    return trials, [*picked.notes, *([reason(_C.UNCOUNTED, **count)] if lacking else [])]


def _guests(environment: environments.Environment, benchmark: str) -> int:
    """Return of how many guests the trials count the CPU; one takes its part, the mean of both roles."""
    commands = environment.benchmarks.get(benchmark, environments.Benchmark()).commands
    if not commands and trial_filter.of_many_hosts(environment):  # tells no commands
        kind = plugins.of_label(benchmark, environment.benchmarks)
        return 2 if kind is not None and kind.paired else 1
    return 2 if len(commands) > 1 else 1


def _limit(
    name: str, trials: Sequence[model.Trial], classes: Sequence[str], guests: int, rate: float, cpus: float
) -> Limit:
    """Return how many guests fit by what they use of some classes; ``trials`` count the CPU of ``guests``."""

    def per_unit(trial: model.Trial) -> float | None:
        return overhead.per_unit(sum(trial.host_cpu_s.get(name, 0.0) for name in classes) / guests, trial)

    cost = statistics.estimate(statistics.by_boot(trials, per_unit), positive=True)
    assert cost is not None
    ends = (cost.value, cost.high, cost.low)
    likely, fewest, most = (None if end is None else fits(cpus, end * rate) for end in ends)
    return Limit(name, cost.value, cost.value * rate, likely, fewest, most)
