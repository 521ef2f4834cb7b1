# SPDX-License-Identifier: Apache-2.0
"""Which trials count: the one place that excludes what guards reject.

Verdicts and all other figures use it.

A guard finds in the conditions of a trial, or in how trials of a run differ, what makes figures
worthless. A condition that a host could not read is missing from
:attr:`model.Trial.conditions` and trips no guard. Every figure says how many trials failed, are
missing or were excluded; where they are too many of an arm, the rest is a selection, not a sample.
"""

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.validation.judge import speeds, workloads
from nova_perf_tuning.validation.measure import overhead
from nova_perf_tuning.validation.results import model, reasons
from nova_perf_tuning.validation.results.environment import (
    Environment,
    IncidentCode,
    RecordedBenchmark,
)
from nova_perf_tuning.validation.results.reasons import reason

#: Most trials of an arm that may have failed, be missing or be excluded.
MAX_LOST: Final = 0.2

_C = reasons.ReasonCode
#: Boot and block.
Block = tuple[int, int]
#: One run: benchmark, arm and number of the run, which its figures share.
Run = tuple[str, str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What guards allow; a budget file's ``guards`` changes them.

    :ivar max_steal: share of the time wanted that the host's own CPUs were taken away (host is a
        guest itself).
    :ivar max_wait: share of the time wanted that vCPUs waited for a host CPU. None: 0.1, and no
        limit under emulation, where all arms wait alike and only compare with each other.
    :ivar max_frequency_gap: how far the CPU frequencies of the judged arms may lie apart.
    :ivar max_clock_step_s: seconds by which the wall clock may move against the monotonic one in a
        trial.
    :ivar max_drops: packets dropped on the sender's way out, as a share of those it sent.
    """

    max_steal: float = 0.05
    max_wait: float | None = None
    max_frequency_gap: float = 0.05
    max_clock_step_s: float = 0.05
    max_drops: float = 0.001


_DEFAULT: Final = Limits()


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """Trials of an arm of which no ratio can be made.

    :ivar count, of: those, and all that there ought to be; :ivar failed, zeros, missing: of which
        kinds they are.
    :ivar blocks: blocks of other arms in which it has no figure, but may have a 0 that is best.
    :ivar what: what they are, ``trials`` or ``files``.
    """

    arm: str
    of: int
    failed: int
    zeros: int
    missing: int
    blocks: frozenset[Block]
    what: str = "trials"

    @property
    def count(self) -> int:
        return self.failed + self.zeros + self.missing

    def reason(self, code: reasons.ReasonCode = _C.FAILED, **more: Any) -> reasons.Reason:
        params: dict[str, Any] = {
            "arm": self.arm,
            "count": self.count,
            "of": self.of,
            "failed": self.failed,
            "zeros": self.zeros,
            "missing": self.missing,
            "what": self.what,
        }
        return reasons.Reason(code, params | more)


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """What is left of the trials of one figure, failed ones among them.

    :ivar excluded: run -> why it does not count.
    :ivar pairs, pairs_excluded: blocks that have a figure of both arms, and those of them that
        lost one.
    :ivar invalid: why no ratio can be made of what is left; None if it can.
    :ivar lost: of the arm and of its baseline; :ivar speeds: of each that has two.
    """

    trials: Sequence[model.Trial]
    excluded: Mapping[Run, reasons.Reason]
    pairs: int
    pairs_excluded: int
    invalid: reasons.Reason | None
    lost: tuple[Lost, ...]
    speeds: tuple[reasons.Reason, ...] = ()

    @property
    def notes(self) -> tuple[reasons.Reason, ...]:
        """Return what was lost, which arm has two speeds, and what was excluded."""
        notes = [lost.reason() for lost in self.lost if lost.count]
        notes += self.speeds
        if not self.excluded:
            return tuple(notes)
        if self.pairs_excluded:
            count, of, what = self.pairs_excluded, self.pairs, "pairs"
        else:
            runs = {run(trial) for trial in self.trials}
            count = len(self.excluded)
            of, what = len(runs) + count, "trials"
        why = reasons.distinct(self.excluded.values())
        notes.append(reason(_C.EXCLUDED, count=count, of=of, what=what, why=why))
        return tuple(notes)


def of_many_hosts(environment: Environment) -> bool:
    """Return whether results are of a run over many hosts, or of one of its hosts.

    It is the same while the run goes on and afterwards.
    """
    return environment.fleet is not None or environment.launcher == "heat"


def failed(trial: model.Trial) -> bool:
    """Return whether no ratio can be made of a trial: it has no figure, or 0."""
    return not trial.value


@dataclasses.dataclass(frozen=True, slots=True)
class Gaps:
    """What the environment says of trials and of those that are missing, looked up once for all figures.

    :ivar many: of a run over many hosts; :ivar cut: boots of which the time limit cut the blocks.
    :ivar unbooted: arm -> boots in which its guests did not come up.
    :ivar unpaired: nothing says which trials of arms belong together, so that none is missing.
    :ivar benchmarks: how they were run, by label.
    """

    many: bool
    cut: Set[int | None]
    unbooted: Mapping[str, Set[int]]
    unpaired: bool = False
    benchmarks: Mapping[str, RecordedBenchmark] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, environment: Environment) -> "Gaps":
        cut: set[int | None] = set()
        unbooted: dict[str, set[int]] = {}
        for incident in environment.errors:
            if incident.code == IncidentCode.TIME_LIMIT:
                cut.add(incident.boot)
            if not incident.benchmark and incident.boot is not None:
                unbooted.setdefault(incident.arm, set()).add(incident.boot)
        return cls(
            of_many_hosts(environment),
            cut,
            unbooted,
            bool(environment.unpaired),
            environment.benchmarks,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """The trials of one benchmark and one figure, failed ones included.

    They are sorted once for all that compare arms.

    :ivar arms: arm -> its trials; :ivar blocks: of all arms, in order.
    :ivar sizes: boot -> how many blocks it has; :ivar last: boot -> its last block.
    """

    arms: Mapping[str, Sequence[model.Trial]]
    blocks: Sequence[Block]
    sizes: Mapping[int, int]
    last: Mapping[int, int]

    @classmethod
    def of(cls, trials: Iterable[model.Trial]) -> "Figure":
        arms: dict[str, list[model.Trial]] = {}
        every_block: set[Block] = set()
        for trial in trials:
            arms.setdefault(trial.arm, []).append(trial)
            every_block.add((trial.boot, trial.block))
        in_order = sorted(every_block)
        sizes = collections.Counter(boot for boot, _ in in_order)
        return cls(arms, in_order, sizes, dict(in_order))


def lost(figure: Figure, gaps: Gaps, arm: str, *, levels: bool = False) -> Lost:
    """Return of which trials of ``arm`` no ratio can be made.

    :param figure: has all arms that are compared.
    :param levels: no ratio is made: a 0 is a figure as any other.
    """
    mine = figure.arms.get(arm, ())
    absent, unbooted = _missing(figure, gaps, arm)
    without = zeros = 0
    worst: set[Block] = set()
    good: set[Block] = set()
    for trial in mine:
        block = (trial.boot, trial.block)
        if trial.value is None:
            without += 1
            worst.add(block)
        elif levels or not failed(trial):
            good.add(block)
        else:
            zeros += 1
            if trial.better != "lower":  # else a 0 may be the best: its block has not failed
                worst.add(block)
    missing = len(absent) + unbooted
    blocks_lost = frozenset((worst - good) | absent)
    what = "trials"
    if gaps.unpaired:
        what = "files"
    return Lost(arm, len(mine) + missing, without, zeros, missing, blocks_lost, what)


def blocks(trials: Iterable[model.Trial]) -> set[Block]:
    return {(trial.boot, trial.block) for trial in trials}


def _missing(figure: Figure, gaps: Gaps, arm: str) -> tuple[set[Block], int]:
    """Return the blocks that ``arm`` lacks, and how many more in boots of which no arm has any.

    The last block of a boot may be missing where the time limit cut it: in the last boot, and
    where it was noted.
    """
    if gaps.unpaired:
        return set(), 0
    if arm == model.HOST and gaps.many:
        # The host is not booted: it has fewer samples than guests, dealt out to them.
        return set(), 0
    mine = blocks(figure.arms.get(arm, ()))
    absent = {block for block in figure.blocks if block not in mine}
    lacking = collections.Counter(boot for boot, _ in absent)
    last_boot = max(figure.last, default=0)
    for boot, block in figure.last.items():
        cut = boot == last_boot or boot in gaps.cut
        if cut and lacking[boot] == 1:
            absent.discard((boot, block))
    if gaps.many:  # there a pair that failed was tried again, or has no results
        return absent, 0
    unbooted = gaps.unbooted.get(arm, frozenset())
    if not figure.sizes or not unbooted:
        return absent, 0
    usual = round(statistics.median(figure.sizes.values()))
    measured = sum(boot in unbooted for boot in figure.sizes)
    return absent, (len(unbooted) - measured) * usual


def run(trial: model.Trial) -> Run:
    return trial.benchmark, trial.arm, trial.order


def faults(
    trials: Sequence[model.Trial],
    accelerator: str | None,
    limits: Limits,
) -> dict[Run, reasons.Reason]:
    """Return run -> first fault, for every run that does not count.

    :param trials: those of the judged arms and benchmark; :param accelerator: what guests ran on.
    """
    in_order = sorted(trials, key=lambda trial: trial.order)
    usual_mhz: float | None = None
    speeds: dict[str, list[float]] = {}
    for trial in in_order:
        if usual_mhz is None:
            usual_mhz = trial.conditions.get("max_mhz")
        if "busy_mhz" in trial.conditions:
            speeds.setdefault(trial.arm, []).append(trial.conditions["busy_mhz"])
    mhz = {arm: statistics.median(values) for arm, values in speeds.items()}
    if limits.max_wait is None:
        max_wait = 0.1
        if accelerator in ("tcg", "none"):
            max_wait = 1.0
        limits = dataclasses.replace(limits, max_wait=max_wait)
    found: dict[Run, reasons.Reason] = {}
    for trial in in_order:
        fault = next(_faults(trial, limits, usual_mhz or 0.0, mhz), None)
        if fault is not None:
            found[run(trial)] = fault
    return found


def _faults(
    trial: model.Trial, limits: Limits, usual_mhz: float, mhz: Mapping[str, float]
) -> Iterator[reasons.Reason]:
    """Yield what is wrong with a trial.

    :param usual_mhz: highest frequency allowed when the run began.
    :param mhz: arm -> median of the frequencies that its CPUs had.
    """
    conditions = trial.conditions
    steal = conditions.get("steal_share", 0.0)
    if steal > limits.max_steal:
        yield reason(_C.STEAL, share=steal, limit=limits.max_steal)
    waited = overhead.wait_share(trial) or 0.0
    max_wait = limits.max_wait or 0.0
    if waited > max_wait:
        yield reason(_C.WAITING_VCPUS, share=waited, limit=max_wait)
    throttled = conditions.get("throttle_events", 0.0)
    if throttled > 0:
        yield reason(_C.THROTTLING, count=throttled)
    max_mhz = conditions.get("max_mhz", usual_mhz)
    if abs(max_mhz - usual_mhz) > 1:
        yield reason(_C.FREQUENCY_LIMIT, first=usual_mhz, now=max_mhz)
    gap = limits.max_frequency_gap
    if len(mhz) > 1 and max(mhz.values()) > min(mhz.values()) * (1 + gap):
        yield reason(_C.FREQUENCY_GAP, mhz=mhz, limit=gap)
    dropped = conditions.get("sender_dropped", 0.0)
    sent = conditions.get("sender_packets", 0.0)
    if dropped > limits.max_drops * max(sent, 1.0):
        share = dropped / max(sent + dropped, 1.0)
        yield reason(_C.DROPS, share=share, limit=limits.max_drops)
    step = conditions.get("clock_step_s", 0.0)
    if abs(step) > limits.max_clock_step_s:
        yield reason(_C.CLOCK_STEP, seconds=step, limit=limits.max_clock_step_s)


def select(
    results: model.Results,
    trials: Sequence[model.Trial],
    arm: str,
    baseline: str,
    limits: Limits = _DEFAULT,
) -> Selection:
    """Return which of ``trials`` count where ``arm`` is compared with ``baseline``.

    :param trials: of one benchmark and one figure, failed ones included.
    :param baseline: another arm, or the same.
    """
    figure, gaps = Figure.of(trials), Gaps.of(results.environment)
    return select_of(figure, gaps, results.environment.accelerator, arm, baseline, limits)


def select_of(
    figure: Figure,
    gaps: Gaps,
    accelerator: str | None,
    arm: str,
    baseline: str,
    limits: Limits,
    *,
    levels: bool = False,
) -> Selection:
    """As :func:`select`, where many arms of one figure are compared.

    :param levels: as for :func:`lost`.
    """
    arms = tuple(dict.fromkeys((arm, baseline)))
    judged: list[model.Trial] = []
    for name in arms:
        judged += figure.arms.get(name, ())
    excluded = faults(judged, accelerator, limits)
    counting = [trial for trial in judged if run(trial) not in excluded]
    gone: list[Lost] = []
    invalid: reasons.Reason | None = None
    if judged:
        benchmark = gaps.benchmarks.get(judged[0].benchmark, RecordedBenchmark())
        invalid = workloads.fault(benchmark, arms)
    for name in arms:
        lost_of_arm = lost(figure, gaps, name, levels=levels)
        gone.append(lost_of_arm)
        if invalid is None:
            invalid = _too_many(judged, lost_of_arm, excluded, levels)
    before = _pairs(judged, arms)
    after = _pairs(counting, arms)
    of_two: list[reasons.Reason] = []
    for name in arms:
        found = speeds.find([trial for trial in counting if trial.arm == name])
        if found is not None:
            of_two.append(found)
    return Selection(
        trials=counting,
        excluded=excluded,
        pairs=before,
        pairs_excluded=before - after,
        invalid=invalid,
        lost=tuple(gone),
        speeds=tuple(of_two),
    )


def _too_many(
    trials: Sequence[model.Trial],
    lost: Lost,
    excluded: Mapping[Run, reasons.Reason],
    levels: bool,
) -> reasons.Reason | None:
    """Return that what is left of an arm is a selection; None: it is a sample."""
    why: list[reasons.Reason] = []
    for trial in trials:
        if trial.arm != lost.arm or trial.value is None or (failed(trial) and not levels):
            continue
        fault = excluded.get(run(trial))
        if fault is not None:
            why.append(fault)
    count = lost.count + len(why)
    if count <= MAX_LOST * lost.of:
        return None
    params = {"count": count, "excluded": len(why), "limit": MAX_LOST}
    return lost.reason(_C.TOO_MANY_LOST, **params, why=reasons.distinct(why))


def alone(results: model.Results, limits: Limits = _DEFAULT) -> dict[Run, reasons.Reason]:
    """Return run -> why, for each run that does not count among those of its own arm."""
    accelerator = results.environment.accelerator
    of_arm = grouped(((trial.benchmark, trial.arm), trial) for trial in results.trials)
    run_faults: dict[Run, reasons.Reason] = {}
    for trials in of_arm.values():
        run_faults |= faults(trials, accelerator, limits)
    return run_faults


def _pairs(trials: Sequence[model.Trial], arms: Sequence[str]) -> int:
    """Return in how many blocks each of ``arms`` has a figure; ``trials`` are theirs alone."""
    measured: dict[str, set[Block]] = {arm: set() for arm in arms}
    for trial in trials:
        if not failed(trial):
            measured[trial.arm].add((trial.boot, trial.block))
    return len(set.intersection(*measured.values()))
