"""Which trials of a fleet count, and which hosts cannot be judged since they do not.

A *cell* is what one boot of a pair gave of one benchmark in one arm. A trial in it is lost when it failed, is
missing, is rejected by a guard, or lacks the service CPU that a budget limits. A cell that lost more than 20 %
is a selection, not a sample: with it this benchmark of this boot is left out of everything. A host more than
half of whose cells of a benchmark and arm are left out is INVALID, so that one sick host spoils no verdict on its
peers.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.validation.cloud import model
from nova_perf_tuning.validation.judge import guards, trial_filter
from nova_perf_tuning.validation.measure import model as results
from nova_perf_tuning.validation.measure import overhead, reasons

#: Share of a host's cells from which on they are the rule with it.
_FAILING: Final = 0.5

Trials = Sequence[tuple[model.HostPair, results.Trial]]


@dataclasses.dataclass(frozen=True, slots=True)
class Screened:
    """What was found.

    :ivar kept: the trials of boots that are not left out, with the hosts that they are about.
    :ivar counting: those of them that no guard rejects.
    :ivar lost: host -> why it is INVALID.
    """

    kept: Trials
    counting: Trials
    lost: Mapping[str, Sequence[reasons.Reason]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Cell:
    """See the module. :ivar why: of those trials that have a figure and do not count."""

    lost: trial_filter.Lost
    why: Sequence[reasons.Reason]

    @property
    def left_out(self) -> bool:
        return self.lost.failed + self.lost.missing + len(self.why) > trial_filter.MAX_LOST * self.lost.of


def screen(
    measured: Trials,
    environment: Mapping[str, Any],
    limits: guards.Limits,
    cpu_wanted: Collection[tuple[str, str]],
) -> Screened:
    """Return which of ``measured`` counts.

    :param measured: trials with the hosts that they are about, twice the same where there is one.
    :param environment: of results of many hosts.
    :param cpu_wanted: benchmarks and arms whose service CPU a budget limits.
    """
    rejected = trial_filter.alone(results.Results(environment, [trial for _, trial in measured]), limits)
    boots: dict[tuple[str, int], list[results.Trial]] = collections.defaultdict(list)
    places = {}
    for pair, trial in measured:
        boots[trial.benchmark, trial.boot].append(trial)
        places[trial.benchmark, trial.boot] = pair
    figures = dict.fromkeys((trial.benchmark, trial.arm) for _, trial in measured)
    left_out = set()
    of_host: dict[tuple[str, str, str], list[_Cell]] = collections.defaultdict(list)
    for boot, trials in boots.items():
        for benchmark, arm in figures:
            if benchmark != boot[0]:
                continue
            cell = _cell(arm, trials, environment, rejected, (benchmark, arm) in cpu_wanted)
            if not cell.lost.of:
                continue
            if cell.left_out:
                left_out.add(boot)
            for host in {places[boot].client, places[boot].server}:
                of_host[host, benchmark, arm].append(cell)
    lost: dict[str, list[reasons.Reason]] = collections.defaultdict(list)
    for (host, benchmark, arm), cells in of_host.items():
        if sum(cell.left_out for cell in cells) > _FAILING * len(cells):
            lost[host].append(_lost(benchmark, arm, cells))
    kept = [(pair, trial) for pair, trial in measured if (trial.benchmark, trial.boot) not in left_out]
    return Screened(kept, [entry for entry in kept if guards.run(entry[1]) not in rejected], lost)


def _cell(
    arm: str,
    trials: Sequence[results.Trial],
    environment: Mapping[str, Any],
    rejected: Mapping[guards.Run, reasons.Reason],
    cpu_wanted: bool,
) -> _Cell:
    """:param trials: of all arms of the boot."""
    why = []
    for trial in trials:
        if trial.arm == arm and trial.value is not None:
            if (fault := rejected.get(guards.run(trial))) is not None:
                why.append(fault)
            elif cpu_wanted and overhead.cost(trial).service_s is None:
                why.append(reasons.reason(reasons.ReasonCode.NO_SERVICE_CPU, arm=arm))
    return _Cell(trial_filter.lost(trials, environment, arm), why)


def _lost(benchmark: str, arm: str, cells: Sequence[_Cell]) -> reasons.Reason:
    """Return that too many of a host's trials are lost."""
    of, failed, missing = (sum(getattr(cell.lost, name) for cell in cells) for name in ("of", "failed", "missing"))
    why = [fault for cell in cells for fault in cell.why]
    return trial_filter.Lost(arm, of, failed, 0, missing, frozenset()).told(
        reasons.ReasonCode.HOST_LOST_TRIALS,
        benchmark=benchmark,
        count=failed + missing + len(why),
        excluded=len(why),
        limit=trial_filter.MAX_LOST,
        why=reasons.distinct(why),
    )
