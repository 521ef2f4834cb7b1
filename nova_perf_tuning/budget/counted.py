"""Which trials count: the one place that leaves out what guards reject, for verdicts and for all other figures.

Figures that no budget judges (medians, ratios, ablation, noise floors, exports) go by the limits of the budgets
that were given, else by the defaults. What was left out is counted and told with every figure.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nova_perf_tuning.budget import guards, model, presence

if TYPE_CHECKING:
    from nova_perf_tuning.budget import budget_file

#: More trials than this share of an arm that failed, are missing or do not count, and what is left is a selection,
#: not a sample.
MAX_FAILED: Final = 0.2

_DEFAULT: Final = guards.Limits()


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """What is left of the trials of one figure.

    :ivar trials: all but those left out; failed ones are among them.
    :ivar left_out: run -> why it does not count.
    :ivar pairs, pairs_left_out: blocks that have a figure of both arms, and those of them that lost one.
    :ivar invalid: why no ratio can be made of what is left; empty if it can.
    :ivar failed: how many trials of which arm failed, in words; empty: none.
    :ivar lost: share of the trials that an arm lacks, of the one that lacks more.
    """

    trials: Sequence[model.Trial]
    left_out: Mapping[guards.Run, str]
    pairs: int = 0
    pairs_left_out: int = 0
    invalid: str = ""
    failed: str = ""
    lost: float = 0.0

    @property
    def remark(self) -> str:
        """Return how many failed, how many were left out and why, in words; empty: none."""
        return "; ".join(filter(None, (self.failed, self._left_out())))

    def _left_out(self) -> str:
        if not self.left_out:
            return ""
        if self.pairs_left_out:
            count = f"{self.pairs_left_out} of {self.pairs} pairs"
        else:
            count = f"{len(self.left_out)} trial{'s' if len(self.left_out) > 1 else ''}"
        return f"{count} left out: {reasons(self.left_out.values())}"


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """Trials of an arm of which no ratio can be made.

    :ivar count: those that failed, gave 0 or are missing; :ivar whole: all that there ought to be.
    :ivar zeros: those that gave 0; :ivar missing: those that are missing.
    :ivar boots: those that lost some; one that gave 0 where that is best lost nothing. :ivar of: all boots.
    """

    arm: str
    count: int
    whole: int
    zeros: int
    missing: presence.Missing
    boots: int
    of: int

    def told(self, why: str = "") -> str:
        """Return it in words; empty: there are none.

        :param why: what is said of 0.
        """
        if not self.count:
            return ""
        what = "failed or are missing" if self.missing.count else "failed"
        return f"{self.count} of {self.whole} trials of '{self.arm}' {what}{f' or gave 0{why}' * bool(self.zeros)}"

    @property
    def too_many(self) -> bool:
        """Whether what is left is a selection."""
        return self.count > MAX_FAILED * self.whole


def failed(trial: model.Trial) -> bool:
    """Return whether no ratio can be made of a trial: it has no figure, or 0."""
    return not trial.value


def best(trial: model.Trial) -> bool:
    """Return whether a figure can be no better: 0 of errors or of time, which has no ratio all the same."""
    return trial.value == 0 and trial.better == "lower"


def zero_is_best(trials: Iterable[model.Trial]) -> bool:
    """Return whether most figures are 0 and can be no better, as counts of errors: then 0 is no failure."""
    told = [one for one in trials if one.value is not None]
    return 2 * sum(map(best, told)) > len(told)


def lost(trials: Sequence[model.Trial], environment: Mapping[str, Any], arm: str) -> Lost:
    """Return of which trials of ``arm`` no ratio can be made.

    :param trials: of one benchmark and one figure, failed ones included, of all arms that are compared.
    """
    mine = [one for one in trials if one.arm == arm]
    missing = presence.missing(trials, environment, arm)
    count = sum(map(failed, mine)) + missing.count
    zeros = sum(one.value == 0 for one in mine) if count else 0
    boots = {one.group for one in mine if failed(one) and not best(one)} if count else set()
    boots |= {group for group, _ in missing.blocks} | missing.boots
    of = len(boots | {one.group for one in mine})
    return Lost(arm, count, len(mine) + missing.count, zeros, missing, len(boots), of)


def fails_more(arm: Lost, baseline: Lost) -> float:
    """Return how likely ``arm`` loses trials in so many boots by chance if both do alike (Fisher's exact test).

    Boots are what is independent: trials of one fail together.
    """
    lost, drawn, whole = arm.boots + baseline.boots, arm.of, arm.of + baseline.of
    if arm.boots * baseline.of <= baseline.boots * arm.of:
        return 1.0

    def log_choose(of: int, some: int) -> float:
        return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)

    return math.fsum(
        math.exp(log_choose(lost, one) + log_choose(whole - lost, drawn - one) - log_choose(whole, drawn))
        for one in range(max(arm.boots, drawn - (whole - lost)), min(lost, drawn) + 1)
    )


def limits(budgets: Sequence[budget_file.Budget]) -> guards.Limits:
    """Return the limits of guards that budgets of one file set, the defaults without any."""
    return budgets[0].guards if budgets else _DEFAULT


def reasons(faults: Iterable[str]) -> str:
    """Return faults in words: the first of each guard."""
    first: dict[str, str] = {}
    for one in faults:
        first.setdefault(one.partition(":")[0], one)
    return "; ".join(first.values())


def select(
    results: model.Results,
    trials: Sequence[model.Trial],
    arm: str,
    baseline: str,
    limits: guards.Limits = _DEFAULT,
    min_link_mbps: float | None = None,
    *,
    link: str | None = None,
    known: Sequence[Lost] | None = None,
) -> Selection:
    """Return which of ``trials`` count where ``arm`` is compared with ``baseline``.

    :param trials: of one benchmark and one figure, failed ones included.
    :param link: pattern of the links that ``min_link_mbps`` is about.
    :param known: what :func:`lost` says of both arms, where that is known already.
    """
    arms = (arm, baseline)
    judged = [one for one in trials if one.arm in arms]
    left_out = faults(results, judged, limits, min_link_mbps, link)
    gone = known or [lost(trials, results.environment, one) for one in arms]
    told = "; ".join(filter(None, (one.told() for one in gone)))
    if not left_out:
        return Selection(trials, left_out, invalid=_failing(gone), failed=told, lost=_share(trials, gone, {}))
    counting = [one for one in trials if guards.run(one) not in left_out]
    before, after = (_pairs(some, arms) for some in (trials, counting))
    invalid = next(filter(None, (_too_few(trials, one, left_out) for one in gone)), "") or _failing(gone)
    share = _share(trials, gone, left_out)
    return Selection(counting, left_out, before, before - after, invalid, told, share)


def alone(results: model.Results, limits: guards.Limits = _DEFAULT) -> dict[guards.Run, str]:
    """Return run -> why, for each run that does not count among those of its own arm."""
    series: dict[tuple[str, str], list[model.Trial]] = {}
    for one in results.trials:
        series.setdefault((one.benchmark, one.arm), []).append(one)
    found: dict[guards.Run, str] = {}
    for some in series.values():
        found |= faults(results, some, limits, None)
    return found


def faults(
    results: model.Results,
    trials: Sequence[model.Trial],
    limits: guards.Limits,
    min_link_mbps: float | None,
    link: str | None = None,
) -> dict[guards.Run, str]:
    """Return run -> why it does not count, of trials that are compared with each other.

    :param trials: of one benchmark and one figure, failed ones included.
    """
    sender: dict[int, float] = {}
    if trials and (min_link_mbps is not None or limits.max_sender_cpu is not None):
        sender = {
            one.order: one.value
            for one in results.trials
            if one.benchmark == trials[0].benchmark
            and one.metric == "client_cpu"
            and one.unit == "%"
            and one.value is not None
        }
    found: dict[guards.Run, str] = {}
    many = presence.of_many_hosts(results.environment)
    for some in _of_pairs_of_hosts(trials) if many else [trials]:
        ordered = sorted(some, key=lambda one: one.order)
        known = guards.context(ordered, results.environment, limits, min_link_mbps, sender, link)
        found |= guards.faults(ordered, known)
    return found


def _of_pairs_of_hosts(trials: Sequence[model.Trial]) -> list[list[model.Trial]]:
    """Return trials boot by boot: links and frequencies of different hosts differ, and nothing is wrong then."""
    found: dict[int, list[model.Trial]] = {}
    for one in trials:
        found.setdefault(one.group, []).append(one)
    return list(found.values())


def _pairs(trials: Sequence[model.Trial], arms: tuple[str, str]) -> int:
    first, second = (
        {(one.group, one.block) for one in trials if one.arm == arm and not failed(one)} for arm in arms
    )
    return len(first & second)


def _share(trials: Sequence[model.Trial], gone: Sequence[Lost], left_out: Mapping[guards.Run, str]) -> float:
    """Return which share of its trials the arm lacks that lacks more."""
    rejected = collections.Counter(one.arm for one in trials if not failed(one) and guards.run(one) in left_out)
    return max(((one.count + rejected[one.arm]) / one.whole for one in gone if one.whole), default=1.0)


def _failing(gone: Sequence[Lost]) -> str:
    """Return that too many trials failed; empty: they did not."""
    return next((f"{one.told()} (limit {MAX_FAILED:.0%})" for one in gone if one.too_many), "")


def _too_few(trials: Sequence[model.Trial], gone: Lost, left_out: Mapping[guards.Run, str]) -> str:
    """Return why what is left of an arm is a selection; empty if it is a sample."""
    mine = [one for one in trials if one.arm == gone.arm and not failed(one)]
    told = [left_out[guards.run(one)] for one in mine if guards.run(one) in left_out]
    count = gone.count + len(told)
    if not told or count <= MAX_FAILED * gone.whole:
        return ""
    what = f"{'failed or ' if gone.count else ''}do not count (limit {MAX_FAILED:.0%}): {told[0]}"
    return f"{count} of {gone.whole} trials of '{gone.arm}' {what}"
