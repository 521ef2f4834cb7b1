# SPDX-License-Identifier: Apache-2.0
"""Which trials count: the one place that excludes what guards reject, for verdicts and for all other figures.

A guard finds in the conditions of a trial, or in how trials of a run differ, what makes figures worthless. What a
host could not tell (it is missing from :attr:`model.Trial.conditions`) trips nothing. What failed, is missing or
was excluded stands with every figure; where it is too much of an arm, the rest is a selection, not a sample.
"""

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.validation.environment import Environment, IncidentCode
from nova_perf_tuning.validation.measure import model, overhead, reasons
from nova_perf_tuning.validation.measure.reasons import reason

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

    :ivar max_steal: share of the time wanted that the host's own CPUs were taken away (host is a guest itself).
    :ivar max_wait: share of the time wanted that vCPUs waited for a host CPU. None: 0.1, and no limit under
        emulation, where all arms wait alike and only compare with each other.
    :ivar max_frequency_gap: how far the CPU frequencies of the judged arms may lie apart.
    :ivar max_clock_step_s: seconds by which the wall clock may move against the monotonic one in a trial.
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

    :ivar count, of: those, and all that there ought to be; :ivar failed, zeros, missing: of which kinds they are.
    :ivar blocks: blocks of other arms in which it has no figure, but may have a 0 that is best.
    """

    arm: str
    of: int
    failed: int
    zeros: int
    missing: int
    blocks: frozenset[Block]

    @property
    def count(self) -> int:
        return self.failed + self.zeros + self.missing

    def reason(self, code: reasons.ReasonCode = _C.FAILED, **more: Any) -> reasons.Reason:
        kinds = {"failed": self.failed, "zeros": self.zeros, "missing": self.missing}
        return reason(code, **{"arm": self.arm, "count": self.count, "of": self.of, **kinds, **more})


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """What is left of the trials of one figure, failed ones among them; ``excluded``: run -> why it is not.

    :ivar pairs, pairs_excluded: blocks that have a figure of both arms, and those of them that lost one.
    :ivar invalid: why no ratio can be made of what is left; None if it can.
    :ivar lost: of the arm and of its baseline.
    """

    trials: Sequence[model.Trial]
    excluded: Mapping[Run, reasons.Reason]
    pairs: int
    pairs_excluded: int
    invalid: reasons.Reason | None
    lost: tuple[Lost, ...]

    @property
    def notes(self) -> tuple[reasons.Reason, ...]:
        failed = tuple(lost.reason() for lost in self.lost if lost.count)
        if not self.excluded:
            return failed
        count, of, what = self.pairs_excluded, self.pairs, "pairs"
        if not count:
            count, of, what = len(self.excluded), len({run(trial) for trial in self.trials}), "trials"
            of += count
        why = reasons.distinct(self.excluded.values())
        return (*failed, reason(_C.EXCLUDED, count=count, of=of, what=what, why=why))


def of_many_hosts(environment: Environment) -> bool:
    """Return whether results are of a run over many hosts, or of one of its hosts, as it runs and afterwards."""
    return environment.fleet is not None or environment.launcher == "heat"


def failed(trial: model.Trial) -> bool:
    """Return whether no ratio can be made of a trial: it has no figure, or 0."""
    return not trial.value


@dataclasses.dataclass(frozen=True, slots=True)
class Gaps:
    """What incidents of a run explain, looked up once for all figures.

    :ivar many: of a run over many hosts; :ivar cut: boots of which the time limit cut the blocks.
    :ivar unbooted: arm -> boots in which its guests did not come up.
    """

    many: bool
    cut: frozenset[int | None]
    unbooted: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, environment: Environment) -> "Gaps":
        cut = frozenset(one.boot for one in environment.errors if one.code == IncidentCode.TIME_LIMIT)
        without = [one for one in environment.errors if not one.benchmark and one.boot is not None]
        unbooted = grouped((one.arm, one.boot) for one in without if one.boot is not None)
        boots = {arm: frozenset(numbers) for arm, numbers in unbooted.items()}
        return cls(of_many_hosts(environment), cut, boots)


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """The trials of one benchmark and one figure, failed ones included, sorted once for all that compare arms.

    :ivar arms: arm -> its trials; :ivar blocks: of all arms, in order.
    """

    arms: Mapping[str, Sequence[model.Trial]]
    blocks: Sequence[Block]

    @classmethod
    def of(cls, trials: Iterable[model.Trial]) -> "Figure":
        arms = grouped((trial.arm, trial) for trial in trials)
        every = {(trial.boot, trial.block) for mine in arms.values() for trial in mine}
        return cls(arms, sorted(every))


def lost(figure: Figure, gaps: Gaps, arm: str) -> Lost:
    """Return of which trials of ``arm`` no ratio can be made; ``figure`` has all arms that are compared."""
    mine = figure.arms.get(arm, ())
    absent, unbooted = _missing(figure, gaps, arm)
    without = sum(trial.value is None for trial in mine)
    zeros = sum(trial.value == 0 for trial in mine)
    # A 0 may be the best, so that its block has not failed.
    worst = blocks(trial for trial in mine if trial.value is None or (failed(trial) and trial.better != "lower"))
    worst -= blocks(trial for trial in mine if not failed(trial))
    missing = len(absent) + unbooted
    return Lost(arm, len(mine) + missing, without, zeros, missing, frozenset(worst | absent))


def blocks(trials: Iterable[model.Trial]) -> set[Block]:
    return {(trial.boot, trial.block) for trial in trials}


def _missing(figure: Figure, gaps: Gaps, arm: str) -> tuple[set[Block], int]:
    """Return the blocks that ``arm`` lacks, and how many more it ought to have in boots of which no arm has any.

    The last block of a boot may be missing where the time limit cut it: in the last boot, and where it was noted.
    """
    if arm == model.HOST and gaps.many:  # not booted; it has fewer samples than guests, dealt out to them
        return set(), 0
    there = blocks(figure.arms.get(arm, ()))
    absent = {block for block in figure.blocks if block not in there}
    last = dict(figure.blocks)
    cut = {max(last, default=0), *gaps.cut}
    lacking = collections.Counter(boot for boot, _ in absent)
    absent -= {(boot, block) for boot, block in last.items() if boot in cut and lacking[boot] == 1}
    if gaps.many:  # there a pair that failed was tried again, or has no results
        return absent, 0
    unbooted = gaps.unbooted.get(arm, frozenset())
    sizes = collections.Counter(boot for boot, _ in figure.blocks)
    usual = round(statistics.median(sizes.values())) if sizes else 0
    return absent, len(unbooted - sizes.keys()) * usual


def run(trial: model.Trial) -> Run:
    return trial.benchmark, trial.arm, trial.order


def faults(trials: Sequence[model.Trial], accelerator: str | None, limits: Limits) -> dict[Run, reasons.Reason]:
    """Return run -> first fault, for every run that does not count.

    :param trials: those of the judged arms and benchmark; :param accelerator: what guests ran on.
    """
    trials = sorted(trials, key=lambda trial: trial.order)
    usual = next((trial.conditions["max_mhz"] for trial in trials if "max_mhz" in trial.conditions), 0.0)
    with_clock = [trial for trial in trials if "busy_mhz" in trial.conditions]
    speeds = grouped((trial.arm, trial.conditions["busy_mhz"]) for trial in with_clock)
    mhz = {arm: statistics.median(values) for arm, values in speeds.items()}
    if limits.max_wait is None:
        limits = dataclasses.replace(limits, max_wait=1.0 if accelerator in ("tcg", "none") else 0.1)
    return {run(trial): fault for trial in trials if (fault := next(_faults(trial, limits, usual, mhz), None))}


def _faults(
    trial: model.Trial, limits: Limits, usual_mhz: float, mhz: Mapping[str, float]
) -> Iterator[reasons.Reason]:
    """Yield what is wrong with a trial.

    :param usual_mhz: highest frequency allowed when the run began; :param mhz: arm -> median of what its CPUs had.
    """
    condition = trial.conditions.get
    if (share := condition("steal_share", 0.0)) > limits.max_steal:
        yield reason(_C.STEAL, share=share, limit=limits.max_steal)
    if (share := overhead.wait_share(trial) or 0.0) > (limit := limits.max_wait or 0.0):
        yield reason(_C.WAITING_VCPUS, share=share, limit=limit)
    if (count := condition("throttle_events", 0.0)) > 0:
        yield reason(_C.THROTTLING, count=count)
    if abs((now := condition("max_mhz", usual_mhz)) - usual_mhz) > 1:
        yield reason(_C.FREQUENCY_LIMIT, first=usual_mhz, now=now)
    if len(mhz) > 1 and max(mhz.values()) > min(mhz.values()) * (1 + limits.max_frequency_gap):
        yield reason(_C.FREQUENCY_GAP, mhz=mhz, limit=limits.max_frequency_gap)
    dropped, sent = condition("sender_dropped", 0.0), condition("sender_packets", 0.0)
    if dropped > limits.max_drops * max(sent, 1.0):
        yield reason(_C.DROPS, share=dropped / max(sent + dropped, 1.0), limit=limits.max_drops)
    if abs(step := condition("clock_step_s", 0.0)) > limits.max_clock_step_s:
        yield reason(_C.CLOCK_STEP, seconds=step, limit=limits.max_clock_step_s)


def select(
    results: model.Results, trials: Sequence[model.Trial], arm: str, baseline: str, limits: Limits = _DEFAULT
) -> Selection:
    """Return which of ``trials`` count where ``arm`` is compared with ``baseline``; they may be the same.

    :param trials: of one benchmark and one figure, failed ones included.
    """
    figure, gaps = Figure.of(trials), Gaps.of(results.environment)
    return select_of(figure, gaps, results.environment.accelerator, arm, baseline, limits)


def select_of(
    figure: Figure, gaps: Gaps, accelerator: str | None, arm: str, baseline: str, limits: Limits
) -> Selection:
    """As :func:`select`, where many arms of one figure are compared."""
    arms = tuple(dict.fromkeys((arm, baseline)))
    judged = [trial for arm in arms for trial in figure.arms.get(arm, ())]
    excluded = faults(judged, accelerator, limits)
    gone = tuple(lost(figure, gaps, arm) for arm in arms)
    counting = [trial for trial in judged if run(trial) not in excluded]
    before, after = (_pairs(some, arms) for some in (judged, counting))
    invalid = next(filter(None, (_too_many(judged, each, excluded) for each in gone)), None)
    return Selection(counting, excluded, before, before - after, invalid, gone)


def _too_many(
    trials: Sequence[model.Trial], lost: Lost, excluded: Mapping[Run, reasons.Reason]
) -> reasons.Reason | None:
    """Return that what is left of an arm is a selection; None: it is a sample."""
    mine = [trial for trial in trials if trial.arm == lost.arm and not failed(trial)]
    why = [excluded[run(trial)] for trial in mine if run(trial) in excluded]
    count = lost.count + len(why)
    if count <= MAX_LOST * lost.of:
        return None
    params = {"count": count, "excluded": len(why), "limit": MAX_LOST, "why": reasons.distinct(why)}
    return lost.reason(_C.TOO_MANY_LOST, **params)


def alone(results: model.Results, limits: Limits = _DEFAULT) -> dict[Run, reasons.Reason]:
    """Return run -> why, for each run that does not count among those of its own arm."""
    run_faults: dict[Run, reasons.Reason] = {}
    for some in grouped(((trial.benchmark, trial.arm), trial) for trial in results.trials).values():
        run_faults |= faults(some, results.environment.accelerator, limits)
    return run_faults


def _pairs(trials: Sequence[model.Trial], arms: Sequence[str]) -> int:
    good = [trial for trial in trials if not failed(trial)]
    return len(set.intersection(*(blocks(trial for trial in good if trial.arm == arm) for arm in arms)))
