"""How many guests of a flavor a host carries before one of its resources runs out, from measured CPU per unit.

What a guest costs beside its vCPUs comes out of the host's shared CPUs: emulator, I/O threads, vhost workers and
interrupt work (softirq). A resource is one of these classes, or all of them together, which is what limits a host
whose shared CPUs serve them all. A guest that does R units of work per second and costs C CPU seconds per unit
takes R * C CPUs; N guests fit while N * R * C stays below the shared CPUs times the share that may be busy.

The trials of a benchmark with a peer count the CPU of both guests, the sender's and the receiver's; one guest
takes half of it here, the mean of the two roles.

Linear in the number of guests: caches, memory bandwidth and queues that fill up are not in it, so a run at the
number that is found must confirm it. The interval is that of the measured cost; its dear end is the number to
plan with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.budget import counted, definitions, model, overhead, presence, statistics

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

    :ivar per_guest: CPUs that one guest takes of it; its interval is None with too few trials.
    :ivar guests: how many fit; :ivar fewest, most: at the dear and at the cheap end of the interval.
    :ivar note: what the figure does not hold for, and what is not in its interval.
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
        """The number to plan with: at the dear end where there is an interval; None: it does not limit."""
        return self.guests if self.fewest is None else self.fewest


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """What a host carries of one flavor's load.

    :ivar rate: units of work per second of each guest; :ivar limits: the tightest resource first.
    :ivar trials: how many counted; :ivar note: what was left out, and what else the figures do not hold for.
    """

    benchmark: str
    arm: str
    work_unit: str
    rate: float
    shared_cpus: float
    limits: tuple[Limit, ...]
    trials: int
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Housekeeping:
    """CPUs to keep for a NIC's speed.

    :ivar cpus: by the middle of the measured cost; :ivar cautious: by its dear end, None with too few trials.
    :ivar note: what is not in the cost.
    """

    speed_gbit: float
    cpus: int
    cautious: int | None
    note: str = ""


def _good(results: model.Results, benchmark: str, arm: str) -> tuple[list[model.Trial], str]:
    """Return the trials that count, and in words what was left out.

    :raises CapacityError: none is there, too many do not count for the rest to be a sample, or the CPU beside the
        vCPUs of too many is not known.
    """
    figure = [one for one in results.trials if one.benchmark == benchmark and (one.primary or one.value is None)]
    mine = [one for one in figure if one.arm == arm]
    picked = counted.select(results, mine, arm, arm, known=[counted.lost(figure, results.environment, arm)])
    if mine and picked.invalid:
        raise CapacityError(f"'{benchmark[:80]}' on '{arm[:40]}': {picked.invalid}")
    found = [one for one in picked.trials if one.value is not None and one.work]
    if not found:
        known = sorted({one.benchmark for one in results.trials if one.work and one.arm == arm})
        names = ", ".join(known) or "none"
        raise CapacityError(
            f"no trial of '{benchmark[:80]}' on '{arm[:40]}' counted its work; benchmarks that did: {names}"
        )
    if not any("vcpu" in one.host_cpu_s for one in found):
        raise CapacityError(f"'{arm}' is no guest: its CPU was not measured per class")
    told = [picked.failed]
    if picked.left_out:
        told.append(f"trials left out: {len(picked.left_out)}, since {counted.reasons(picked.left_out.values())}")
    measured = _measured(found, benchmark, arm)
    if len(measured) < len(found):
        told.append(f"{len(found) - len(measured)} of {len(found)} trials have no CPU by class and do not count")
    return measured, "; ".join(filter(None, told))


def _measured(trials: Sequence[model.Trial], benchmark: str, arm: str) -> list[model.Trial]:
    """Return those of which more than the vCPUs' time is known.

    :raises CapacityError: too many are not, or counters contradict each other.
    """
    where = f"'{benchmark[:80]}' on '{arm[:40]}'"
    found = [one for one in trials if {"vcpu", "total"} <= one.host_cpu_s.keys()]
    if len(trials) - len(found) > counted.MAX_FAILED * len(trials):
        raise CapacityError(
            f"{where}: {len(trials) - len(found)} of {len(trials)} trials have no CPU beside that of the vCPUs"
            f" (limit {counted.MAX_FAILED:.0%}); on a cloud the agents' metrics have it, Nova alone does not"
        )
    doubts = filter(None, (overhead.cost(one).contradiction for one in found))
    if doubt := next(doubts, "") or overhead.contradiction(found):
        raise CapacityError(f"{where}: {doubt}")
    return found


def _present(trials: Sequence[model.Trial], classes: Sequence[str]) -> list[str]:
    """Return the classes that took CPU.

    :raises CapacityError: none did, so that nothing can be said of them.
    """
    found = [name for name in classes if any(one.host_cpu_s.get(name) for one in trials)]
    if not found:
        others = ", ".join(name for name in CLASSES if any(one.host_cpu_s.get(name) for one in trials))
        raise CapacityError(f"{', '.join(classes)}: took no CPU in these trials; these did: {others or 'none'}")
    return found


def _no_softirq(trials: Sequence[model.Trial], classes: Sequence[str]) -> str:
    if "softirq" not in classes or any("softirq" in one.host_cpu_s for one in trials):
        return ""
    return "interrupts and softirqs were not measured: what they cost is not in it"


def _guests(results: model.Results, benchmark: str) -> int:
    """Return how many guests' CPU a trial counts: two where there is a server on a peer."""
    told = results.environment.get("benchmarks", {})
    commands = told.get(benchmark, {}).get("commands", []) if isinstance(told, dict) else []
    if not commands and presence.of_many_hosts(results.environment):  # tells no commands
        kind = definitions.benchmark(benchmark, results.environment)
        return 2 if kind is not None and kind.paired else 1
    return 2 if isinstance(commands, list) and len(commands) > 1 else 1


def _cost(trials: Sequence[model.Trial], classes: Sequence[str], guests: int) -> statistics.Estimate | None:
    samples: dict[int, list[float]] = {}
    for one in trials:
        seconds = sum(one.host_cpu_s.get(name, 0.0) for name in classes)
        value = overhead.per_unit(seconds / guests, one)
        if value is not None:
            samples.setdefault(one.group, []).append(value)
    return statistics.estimate(samples, positive=True)


def own_rate(trials: Sequence[model.Trial]) -> float:
    """Return the units per second that the measured guest itself did, the median over trials."""
    rates = [one.work / one.window_s for one in trials if one.work and one.window_s > 0]
    return statistics.median(rates) or 0.0


def fits(cpus: float, per_guest: float) -> int | None:
    """Return how many guests fit; None: the resource is not used, so it does not limit."""
    return math.floor(cpus / per_guest + 1e-9) if per_guest > 0 else None


def capacity(
    results: model.Results,
    benchmark: str,
    arm: str,
    shared_cpus: float,
    busy: float,
    rate: float | None = None,
    vcpus: int | None = None,
    dedicated_cpus: int | None = None,
    classes: Sequence[str] = CLASSES,
) -> Capacity:
    """Return how many guests fit, resource by resource.

    :param shared_cpus: CPUs of the host for emulators, vhost workers and interrupts.
    :param busy: share of them that may be busy, above 0 to 1.
    :param rate: units per second that each guest does; None: what the measured one did.
    :param vcpus: of each guest, with ``dedicated_cpus`` of the host for pinned ones.
    :param classes: of :data:`CLASSES`, those that the shared CPUs serve; the others run elsewhere.
    :raises CapacityError: the results have no such trial, or no work was counted, or no CPU of these classes.
    """
    trials, note = _good(results, benchmark, arm)
    own = own_rate(trials)
    rate = own if rate is None else rate
    limits = []
    guests = _guests(results, benchmark)
    present = _present(trials, classes)
    for name, some in [(ALL, present), *((one, [one]) for one in present)]:
        found = _cost(trials, some, guests)
        if found is not None:
            limits.append(_limit(name, found, rate, shared_cpus * busy))
    if vcpus and dedicated_cpus is not None:
        count = dedicated_cpus // vcpus
        limits.append(Limit("dedicated CPUs", 0.0, float(vcpus), count, count, count))
    limits.sort(key=lambda one: math.inf if one.careful is None else one.careful)
    notes = [note, _other_rate(own, rate, trials[0].work_unit), _no_softirq(trials, classes)]
    waits = [share for one in trials if (share := overhead.wait_share(one)) is not None]
    over = sum(share > overhead.MAX_WAIT for share in waits)
    if over:
        notes.append(f"vCPUs waited for a host CPU in {over} of {len(waits)} trials: the host was not idle")
    note = "; ".join(filter(None, notes))
    return Capacity(benchmark, arm, trials[0].work_unit, rate, shared_cpus, tuple(limits), len(trials), note)


def _other_rate(own: float, rate: float, unit: str) -> str:
    """Return a warning where the cost is that of guests that did much more or less; empty: it is not."""
    if not own or 1 / _SAME_RATE <= rate / own <= _SAME_RATE:
        return ""
    return (
        f"the cost was measured at {own:.3g} {unit} per second, not {rate:.3g}: a guest costs something at rest"
        " too, so measure guests at the rate at which they work"
    )


def _limit(name: str, found: statistics.Estimate, rate: float, cpus: float) -> Limit:
    per_guest = found.value * rate
    dear = None if found.high is None else fits(cpus, found.high * rate)
    cheap = None if found.low is None else fits(cpus, found.low * rate)
    notes = [found.note]
    if name in ("vhost", "iothread", "emulator") and per_guest > _ONE_THREAD:
        notes.append("more than one CPU per guest: it takes several queues or threads to get there")
    note = "; ".join(filter(None, notes))
    return Limit(name, found.value, per_guest, fits(cpus, per_guest), dear, cheap, note)


def housekeeping(
    results: model.Results,
    benchmark: str,
    arm: str,
    speed_gbit: float,
    busy: float,
    classes: Sequence[str] = CLASSES,
) -> Housekeeping:
    """Return how many CPUs the guests' traffic at a NIC's full speed takes beside their vCPUs, at least one.

    :param speed_gbit: both directions together, as the guests are to use it.
    :param classes: as of :func:`capacity`.
    :raises CapacityError: the benchmark's unit of work is not Gbit.
    """
    trials, _ = _good(results, benchmark, arm)
    if trials[0].work_unit != "Gbit":
        raise CapacityError(f"'{benchmark}' counts its work in {trials[0].work_unit}; a NIC's speed needs iperf3")
    found = _cost(trials, _present(trials, classes), _guests(results, benchmark))
    assert found is not None

    def cpus(per_unit: float) -> int:
        return max(1, math.ceil(speed_gbit * per_unit / busy - 1e-9))

    cautious = None if found.high is None else cpus(found.high)
    note = "; ".join(filter(None, (found.note, _no_nic(results), _no_softirq(trials, classes))))
    return Housekeeping(speed_gbit, cpus(found.value), cautious, note)


def _no_nic(results: model.Results) -> str:
    if results.environment.get("launcher") != "libvirt":
        return ""
    return "both guests were on one bridge of the host: the NIC's own interrupts and driver are not in the cost"
