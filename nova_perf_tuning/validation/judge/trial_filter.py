"""Which trials count: the one place that excludes what guards reject, for verdicts and for all other figures.

Figures that no budget judges (medians, ratios, ablation, noise floors) go by the limits of the budgets
that were given, else by the defaults. What failed, is missing or was excluded is told with every figure; where it
is too much of an arm, what is left is a selection, not a sample.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nova_perf_tuning.validation.environment import Environment
from nova_perf_tuning.validation.judge import guards
from nova_perf_tuning.validation.measure import model, reasons
from nova_perf_tuning.validation.measure.reasons import reason

if TYPE_CHECKING:
    from nova_perf_tuning.validation.judge import budget_file

#: Most trials of an arm that may have failed, be missing or be excluded.
MAX_LOST: Final = 0.2

#: Code of what a session notes of a boot for whose blocks there was no time left.
TIME_LIMIT: Final = "time_limit"

_DEFAULT: Final = guards.Limits()
_C = reasons.ReasonCode

#: Boot and block.
Block = tuple[int, int]


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
    """What is left of the trials of one figure.

    :ivar trials: all but those excluded; failed ones are among them.
    :ivar excluded: run -> why it does not count.
    :ivar pairs, pairs_excluded: blocks that have a figure of both arms, and those of them that lost one.
    :ivar invalid: why no ratio can be made of what is left; None if it can.
    :ivar lost: of the arm and of its baseline.
    """

    trials: Sequence[model.Trial]
    excluded: Mapping[guards.Run, reasons.Reason]
    pairs: int
    pairs_excluded: int
    invalid: reasons.Reason | None
    lost: tuple[Lost, ...]

    @property
    def notes(self) -> tuple[reasons.Reason, ...]:
        """Return how many trials failed, how many were excluded and why."""
        failed = tuple(lost.reason() for lost in self.lost if lost.count)
        if not self.excluded:
            return failed
        count, of, what = self.pairs_excluded, self.pairs, "pairs"
        if not count:
            count, of, what = len(self.excluded), len({guards.run(trial) for trial in self.trials}), "trials"
            of += count
        why = reasons.distinct(self.excluded.values())
        return (*failed, reason(_C.EXCLUDED, count=count, of=of, what=what, why=why))


def of_many_hosts(environment: Environment) -> bool:
    """Return whether results are of a run over many hosts, or of one of its hosts, as it runs and afterwards."""
    return environment.fleet is not None or environment.launcher == "heat"


def failed(trial: model.Trial) -> bool:
    """Return whether no ratio can be made of a trial: it has no figure, or 0."""
    return not trial.value


def lost(trials: Collection[model.Trial], environment: Environment, arm: str) -> Lost:
    """Return of which trials of ``arm`` no ratio can be made.

    :param trials: of one benchmark and one figure, failed ones included, of all arms that are compared.
    """
    mine = [trial for trial in trials if trial.arm == arm]
    absent, unbooted = _missing(trials, environment, arm)
    without = sum(trial.value is None for trial in mine)
    zeros = sum(trial.value == 0 for trial in mine)
    # A 0 may be the best, so that its block has not failed.
    blocks = {
        (trial.boot, trial.block)
        for trial in mine
        if trial.value is None or (not trial.value and trial.better != "lower")
    }
    blocks -= {(trial.boot, trial.block) for trial in mine if not failed(trial)}
    missing = len(absent) + unbooted
    return Lost(arm, len(mine) + missing, without, zeros, missing, frozenset(blocks | absent))


def _missing(trials: Collection[model.Trial], environment: Environment, arm: str) -> tuple[set[Block], int]:
    """Return the blocks that ``arm`` lacks, and how many more it ought to have in boots of which no arm has any.

    The last block of a boot may be missing where the time limit cut it: in the last boot, and where it was noted.
    """
    many = of_many_hosts(environment)
    if arm == model.HOST and many:  # it is not booted; it has fewer samples than the guests, dealt out to them
        return set(), 0
    blocks = {(trial.boot, trial.block) for trial in trials}
    absent = blocks - {(trial.boot, trial.block) for trial in trials if trial.arm == arm}
    last: dict[int, int] = {}
    for boot, block in blocks:
        last[boot] = max(block, last.get(boot, block))
    errors = environment.errors
    cut = {incident.boot for incident in errors if incident.code == TIME_LIMIT} | {max(last, default=0)}
    lacking = collections.Counter(boot for boot, _ in absent)
    absent = {
        (boot, block) for boot, block in absent if not (boot in cut and lacking[boot] == 1 and block == last[boot])
    }
    if many:  # there a pair that failed was tried again, or has no results
        return absent, 0
    unbooted = {
        incident.boot
        for incident in errors
        if incident.arm == arm and not incident.benchmark and incident.boot is not None
    }
    sizes = collections.Counter(boot for boot, _ in blocks)
    usual = round(statistics.median(sizes.values())) if sizes else 0
    return absent, len(unbooted - sizes.keys()) * usual


def limits(budgets: Sequence[budget_file.Budget]) -> guards.Limits:
    """Return the limits of guards that budgets of one file set, the defaults without any."""
    return budgets[0].guards if budgets else _DEFAULT


def select(
    results: model.Results,
    trials: Sequence[model.Trial],
    arm: str,
    baseline: str,
    limits: guards.Limits = _DEFAULT,
) -> Selection:
    """Return which of ``trials`` count where ``arm`` is compared with ``baseline``; they may be the same.

    :param trials: of one benchmark and one figure, failed ones included.
    """
    arms = tuple(dict.fromkeys((arm, baseline)))
    judged = [trial for trial in trials if trial.arm in arms]
    excluded = guards.faults(judged, results.environment.accelerator, limits)
    gone = tuple(lost(trials, results.environment, arm) for arm in arms)
    counting = [trial for trial in judged if guards.run(trial) not in excluded]
    before, after = (_pairs(some, arms) for some in (judged, counting))
    invalid = next((found for each in gone if (found := _too_many(judged, each, excluded)) is not None), None)
    return Selection(counting, excluded, before, before - after, invalid, gone)


def _too_many(
    trials: Sequence[model.Trial], lost: Lost, excluded: Mapping[guards.Run, reasons.Reason]
) -> reasons.Reason | None:
    """Return that what is left of an arm is a selection; None: it is a sample."""
    mine = [trial for trial in trials if trial.arm == lost.arm and not failed(trial)]
    why = [excluded[guards.run(trial)] for trial in mine if guards.run(trial) in excluded]
    count = lost.count + len(why)
    if count <= MAX_LOST * lost.of:
        return None
    causes = reasons.distinct(why)
    return lost.reason(_C.TOO_MANY_LOST, count=count, excluded=len(why), limit=MAX_LOST, why=causes)


def alone(results: model.Results, limits: guards.Limits = _DEFAULT) -> dict[guards.Run, reasons.Reason]:
    """Return run -> why, for each run that does not count among those of its own arm."""
    series: dict[tuple[str, str], list[model.Trial]] = {}
    for trial in results.trials:
        series.setdefault((trial.benchmark, trial.arm), []).append(trial)
    found: dict[guards.Run, reasons.Reason] = {}
    for some in series.values():
        found |= guards.faults(some, results.environment.accelerator, limits)
    return found


def _pairs(trials: Sequence[model.Trial], arms: Sequence[str]) -> int:
    blocks = [
        {(trial.boot, trial.block) for trial in trials if trial.arm == arm and not failed(trial)} for arm in arms
    ]
    return len(set.intersection(*blocks))
