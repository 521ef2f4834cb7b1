"""How many guests of a flavor a host carries before one of its resources runs out, from measured CPU per unit.

What a guest costs beside its vCPUs comes out of the host's shared CPUs. A guest that does R units of work per
second and costs C CPU seconds per unit takes R * C CPUs; N guests fit while N * R * C stays below the shared CPUs
times the share that may be busy. That is linear: caches, memory bandwidth and full queues are not in it, so a run
at the number that is found must confirm it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.budget import definitions, model, overhead, statistics, text, trial_filter

#: Classes of a guest's CPU that run on shared CPUs; ``worker`` are QEMU's own threads for I/O.
CLASSES: Final = ("emulator", "iothread", "worker", "vhost", "softirq")
ALL: Final = "all shared work"
#: Of a CPU that a single vhost worker or I/O thread may take before its queue is the limit.
_ONE_THREAD: Final = 1.0

#: A cost that was measured at so many times a guest's rate, or so much less, is taken for its cost.
_SAME_RATE: Final = 2.0


class CapacityError(errors.PerfTuningError):
    """The results cannot say what a guest costs: names what is missing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """One resource.

    :ivar per_guest: CPUs that one guest takes of it.
    :ivar guests: how many fit; :ivar fewest, most: at the costly and the cheap end of the interval, None without.
    :ivar note: what the figure does not hold for.
    """

    resource: str
    per_unit_s: float
    per_guest: float
    guests: int | None
    fewest: int | None
    most: int | None
    note: str = ""

    @property
    def careful(self) -> int | None:
        """The number to plan with: at the costly end where there is an interval; None: it does not limit."""
        return self.guests if self.fewest is None else self.fewest


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """What a host carries of one flavor's load.

    :ivar rate: units of work per second of each guest; :ivar limits: the tightest resource first.
    :ivar trials: how many counted; :ivar note: what was excluded, and what else the figures do not hold for.
    """

    benchmark: str
    arm: str
    work_unit: str
    rate: float
    shared_cpus: float
    limits: tuple[Limit, ...]
    trials: int
    note: str = ""


class Measured:
    """What the guests of an arm cost in one benchmark.

    :ivar trials: those that count; :ivar rate: units per second that each guest did, the median.
    :ivar note: what was excluded.
    """

    def __init__(self, results: model.Results, benchmark: str, arm: str) -> None:
        """Find the trials.

        :raises CapacityError: none counted its work or CPU by class, too many do not count for the rest to be a
            sample, or counters contradict each other.
        """
        self.benchmark, self.arm, self.environment = benchmark, arm, results.environment
        where = f"'{benchmark[:80]}' on '{arm[:40]}'"
        figure = [
            one for one in results.trials if one.benchmark == benchmark and (one.primary or one.value is None)
        ]
        mine = [one for one in figure if one.arm == arm]
        picked = trial_filter.select(results, figure, arm, arm)
        if mine and picked.invalid is not None:
            raise CapacityError(f"{where}: {text.of(picked.invalid)}")
        working = [one for one in picked.trials if one.value is not None and one.work]
        if not working:
            known = sorted({one.benchmark for one in results.trials if one.work and one.arm == arm})
            raise CapacityError(f"no trial of {where} counted its work; benchmarks that did: {text.listed(known)}")
        if not any("vcpu" in one.host_cpu_s for one in working):
            raise CapacityError(f"'{arm}' is no guest: its CPU was not measured per class")
        self.trials = [one for one in working if {"vcpu", "total"} <= one.host_cpu_s.keys()]
        without = f"{len(working) - len(self.trials)} of {len(working)} trials have no CPU by class"
        if len(working) - len(self.trials) > trial_filter.MAX_LOST * len(working):
            raise CapacityError(
                f"{where}: {without} (limit {trial_filter.MAX_LOST:.0%}); on a cloud agents tell it"
            )
        if faults := list(filter(None, (overhead.cost(one).contradiction for one in self.trials))):
            raise CapacityError(f"{where}: {text.of(faults[0])}")
        self.classes = [name for name in CLASSES if any(one.host_cpu_s.get(name) for one in self.trials)]
        if not self.classes:
            raise CapacityError(f"{where}: took no CPU beside its vCPUs")
        self.work_unit = self.trials[0].work_unit
        rates = [one.work / one.window_s for one in self.trials if one.work and one.window_s > 0]
        self.rate = statistics.median(rates) or 0.0
        no_softirq = not any("softirq" in one.host_cpu_s for one in self.trials)
        self.note = _joined(
            text.lines(picked.notes),
            without if len(self.trials) < len(working) else "",
            "interrupts and softirqs were not measured: what they cost is not in it" if no_softirq else "",
        )

    def cost(self, classes: Sequence[str]) -> statistics.Estimate:
        """Return CPU seconds of one guest per unit of work.

        The trials of a benchmark with a peer count the CPU of both guests; one guest takes half, the mean of both
        roles.
        """
        samples: dict[int, list[float]] = {}
        for one in self.trials:
            seconds = sum(one.host_cpu_s.get(name, 0.0) for name in classes)
            value = overhead.per_unit(seconds / self._guests(), one)
            if value is not None:
                samples.setdefault(one.group, []).append(value)
        found = statistics.estimate(samples, positive=True)
        assert found is not None
        return found

    def _guests(self) -> int:
        environment = self.environment
        commands = environment.get("benchmarks", {}).get(self.benchmark, {}).get("commands", [])
        if not commands and trial_filter.of_many_hosts(environment):  # tells no commands
            kind = definitions.benchmark(self.benchmark, environment)
            return 2 if kind is not None and kind.paired else 1
        return 2 if len(commands) > 1 else 1


def fits(cpus: float, per_guest: float) -> int | None:
    """Return how many guests fit; None: the resource is not used, so it does not limit."""
    return math.floor(cpus / per_guest + 1e-9) if per_guest > 0 else None


def capacity(
    measured: Measured,
    shared_cpus: float,
    busy: float,
    rate: float | None = None,
) -> Capacity:
    """Return how many guests fit, resource by resource.

    :param shared_cpus: CPUs of the host for emulators, vhost workers and interrupts.
    :param busy: share of them that may be busy, above 0 to 1.
    :param rate: units per second that each guest does; None: what the measured one did.
    """
    own = measured.rate
    rate = own if rate is None else rate
    parts = [(ALL, measured.classes), *((name, [name]) for name in measured.classes)]
    limits = [_limit(name, measured.cost(classes), rate, shared_cpus * busy) for name, classes in parts]
    limits.sort(key=lambda one: math.inf if one.careful is None else one.careful)
    other_rate, waited = "", ""
    if own and not 1 / _SAME_RATE <= rate / own <= _SAME_RATE:
        other_rate = (
            f"the cost was measured at {own:.3g} {measured.work_unit} per second, not {rate:.3g}: a guest costs"
            " something at rest too, so measure guests at the rate at which they work"
        )
    waits = [share for one in measured.trials if (share := overhead.wait_share(one)) is not None]
    if over := sum(share > overhead.MAX_WAIT for share in waits):
        waited = f"vCPUs waited for a host CPU in {over} of {len(waits)} trials: the host was not idle"
    note = _joined(measured.note, other_rate, waited)
    count, unit = len(measured.trials), measured.work_unit
    return Capacity(measured.benchmark, measured.arm, unit, rate, shared_cpus, tuple(limits), count, note)


def _limit(name: str, found: statistics.Estimate, rate: float, cpus: float) -> Limit:
    per_guest = found.value * rate
    dear = None if found.high is None else fits(cpus, found.high * rate)
    cheap = None if found.low is None else fits(cpus, found.low * rate)
    several = name in ("vhost", "iothread", "emulator") and per_guest > _ONE_THREAD
    note = _joined(
        _one_boot(found),
        "more than one CPU per guest: it takes several queues or threads to get there" if several else "",
    )
    return Limit(name, found.value, per_guest, fits(cpus, per_guest), dear, cheap, note)


def _one_boot(found: statistics.Estimate) -> str:
    return "" if found.low is not None else "one boot only, so no interval"


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))
