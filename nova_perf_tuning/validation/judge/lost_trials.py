# SPDX-License-Identifier: Apache-2.0
"""Which trials of a fleet count, and which hosts lost too many: the first pass of a judgement."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.judge.fleet_places import Places, Trials
from nova_perf_tuning.validation.judge.verdict import Budget
from nova_perf_tuning.validation.measure import fleet_model, overhead
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.results.reasons import Reason, ReasonCode, reason

_C = ReasonCode

#: A host that lost more than this share of its cells of a benchmark and arm is INVALID.
_FAILING: Final = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class _Cell:
    """What one boot of a pair gave of one benchmark in one arm.

    :ivar lost: its trials that failed, gave 0 where more is better, or are missing.
    :ivar without_cpu: number of its trials that have a figure, but lack the service CPU.
    :ivar left_out: so much of it is lost that nothing of this benchmark in this boot counts.
    """

    lost: trial_filter.Lost
    without_cpu: int
    left_out: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LossOfHost:
    """Why a host lost cells of one benchmark and arm; ``mostly``: it lost most of them."""

    host: str
    why: Reason
    mostly: bool


def screen(
    measured: Trials,
    places: Places,
    environment: Environment,
    budgets: Iterable[Budget],
) -> tuple[Trials, Sequence[LossOfHost]]:
    """Return which of ``measured`` counts, and the hosts that lost cells.

    A *cell* is what one boot of a pair gave of one benchmark in one arm. Every boot that has any
    trial has a cell of each benchmark and arm of the run, also of those without any trial. A trial
    in a cell is lost when it failed, is missing, gave 0 where more is better, or lacks the service
    CPU that a budget limits. A cell that lost more than 20 % is a selection, not a sample: with it
    this benchmark of this boot is left out of everything. A host more than half of whose cells of
    a benchmark and arm are left out is INVALID, so that one failing host changes no verdict on its
    peers. A host that lost fewer cells is INVALID where what is left can be neither compared nor
    judged.
    """
    cpu_limited = set()
    for budget in budgets:
        if budget.max_host_cpu_per_unit is not None:
            cpu_limited.add((budget.benchmark, budget.arm))
    arms = _arms(measured, environment)
    gaps = trial_filter.Gaps.of(environment)
    cells: dict[tuple[str, str, str], list[_Cell]] = collections.defaultdict(list)
    excluded = set()
    for (benchmark, boot, pair), trials in _boots(measured, places, environment).items():
        figure = trial_filter.Figure.of(trials)
        for arm in arms:
            if arm in figure.arms:
                cell = _cell(figure, gaps, arm, (benchmark, arm) in cpu_limited)
            else:
                cell = _empty_cell(arm, len(figure.blocks) or environment.blocks or 1)
            if cell.left_out:
                excluded.add((benchmark, boot))
            for host in pair.hosts:
                cells[host, benchmark, arm].append(cell)

    losses = []
    for (host, benchmark, arm), of_host in cells.items():
        left_out = [cell for cell in of_host if cell.left_out]
        if left_out:
            mostly = len(left_out) > _FAILING * len(of_host)
            losses.append(LossOfHost(host, _why_lost(benchmark, arm, left_out), mostly))
    kept = [
        (pair, trial) for pair, trial in measured if (trial.benchmark, trial.boot) not in excluded
    ]
    return kept, losses


def _arms(measured: Trials, environment: Environment) -> list[str]:
    """Return the arms of guests that the run has, also those of which no guest was measured."""
    arms = dict.fromkeys(environment.arms)
    for _, trial in measured:
        arms[trial.arm] = None
    arms.pop(model.HOST, None)
    return list(arms)


def _boots(
    measured: Trials, places: Places, environment: Environment
) -> dict[tuple[str, int, fleet_model.HostPair], list[model.Trial]]:
    """Return (benchmark, boot, hosts) -> trials, also without any where the pair has others."""
    boots: dict[tuple[str, int, fleet_model.HostPair], list[model.Trial]] = {}
    begun = {trial.boot for _, trial in measured}
    for pair in places.fleet.pairs:
        if begun.isdisjoint((pair.number, pair.number + len(places.fleet.pairs))):
            continue
        for benchmark in environment.benchmarks:
            for boot, hosts in places.boots_of(benchmark, pair.number):
                boots[benchmark, boot, hosts] = []
    for hosts, trial in measured:
        boots.setdefault((trial.benchmark, trial.boot, hosts), []).append(trial)
    return boots


def _empty_cell(arm: str, blocks: int) -> _Cell:
    """Return a cell of which every trial is missing."""
    return _Cell(trial_filter.Lost(arm, blocks, 0, 0, blocks, frozenset()), 0, True)


def _cell(
    figure: trial_filter.Figure, gaps: trial_filter.Gaps, arm: str, cpu_limited: bool
) -> _Cell:
    """Return what the trials of one boot and benchmark gave in an arm."""
    lost = trial_filter.lost(figure, gaps, arm)
    if any(trial.better == "lower" for trial in figure.arms[arm]):
        lost = dataclasses.replace(lost, zeros=0)  # there a 0 is the best figure
    without_cpu = 0
    if cpu_limited:
        for trial in figure.arms[arm]:
            has_figure = trial.value is not None and (trial.value != 0 or trial.better == "lower")
            if has_figure and overhead.cost(trial).service_s is None:
                without_cpu += 1
    count = lost.count + without_cpu
    return _Cell(lost, without_cpu, count > trial_filter.MAX_LOST * lost.of)


def _why_lost(benchmark: str, arm: str, cells: Sequence[_Cell]) -> Reason:
    of = failed = zeros = missing = without_cpu = 0
    for cell in cells:
        of += cell.lost.of
        failed += cell.lost.failed
        zeros += cell.lost.zeros
        missing += cell.lost.missing
        without_cpu += cell.without_cpu
    why: tuple[Reason, ...] = ()
    if without_cpu:
        why = (reason(_C.NO_SERVICE_CPU, arm=arm),)
    lost = trial_filter.Lost(arm, of, failed, zeros, missing, frozenset())
    return lost.reason(
        _C.HOST_LOST_TRIALS,
        benchmark=benchmark,
        count=lost.count + without_cpu,
        excluded=without_cpu,
        limit=trial_filter.MAX_LOST,
        why=why,
    )
