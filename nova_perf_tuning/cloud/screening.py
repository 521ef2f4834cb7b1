"""Which trials of a fleet count, and which host is at fault where they do not.

A *cell* is what one boot of a pair gave of one benchmark in one arm. A trial in it is lost when it failed, is
missing, is rejected by a guard, or lacks the service CPU that a budget limits. A cell that lost more than 20 %
is a selection, not a sample: with it this benchmark of this boot is left out of everything. For each benchmark
and arm a host is *failing* when more than half of its cells are left out, and *at fault* when a peer in one of
them is not failing itself. Failing hosts are INVALID; but one of whose lost cells all have a peer at fault
cannot be judged by this run: INCONCLUSIVE. Of the others only the pairs that are left out are remarked, so that
one sick host spoils no verdict on its peers.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import guards, overhead, reasons, trial_filter, verdict
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.cloud import model

#: Share of a host's cells from which on they are the rule with it.
_FAILING: Final = 0.5
#: What marks results as those of many hosts.
_MANY: Final[Mapping[str, Any]] = {"fleet": {}}

_C = reasons.ReasonCode
_V = verdict.Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Screened:
    """What was found.

    :ivar kept: the trials of boots that are not left out, with the hosts that they are about.
    :ivar counting: those of them that no guard rejects.
    :ivar told: host -> what is lost of it; a reason without a verdict is a remark.
    """

    kept: Sequence[tuple[model.HostPair, results.Trial]]
    counting: Sequence[tuple[model.HostPair, results.Trial]]
    told: Mapping[str, Sequence[tuple[verdict.Verdict | None, reasons.Reason]]]


@dataclasses.dataclass(slots=True)
class _Cell:
    """See the module.

    :ivar whole: all trials that there ought to be; :ivar why: of those that do not count.
    """

    benchmark: str
    arm: str
    hosts: frozenset[str]
    whole: int
    failed: int
    missing: int
    why: list[reasons.Reason]

    @property
    def lost(self) -> int:
        return self.failed + self.missing + len(self.why)

    @property
    def left_out(self) -> bool:
        return self.lost > trial_filter.MAX_LOST * self.whole


def screen(
    measured: Iterable[tuple[model.HostPair, results.Trial]],
    environment: Mapping[str, Any],
    limits: guards.Limits,
    cpu_wanted: Collection[tuple[str, str]] = (),
) -> Screened:
    """Return which trials of a run count and what the others say of its hosts.

    :param measured: trials with the hosts that they are about, twice the same where there is one; a boot has a
        group.
    :param cpu_wanted: benchmarks and arms whose trials must have service CPU.
    """
    mine = [(pair, trial) for pair, trial in measured if trial.primary]
    places = {(trial.benchmark, trial.group): pair for pair, trial in mine}
    trials = numbered(trial for _, trial in mine)
    rejected = trial_filter.alone(results.Results({**environment, **_MANY}, trials), limits)
    left_out: set[tuple[str, int]] = set()
    parts: dict[tuple[str, int], list[results.Trial]] = collections.defaultdict(list)
    figures: dict[tuple[str, str], list[_Cell]] = {}
    for trial in trials:
        parts[trial.benchmark, trial.group].append(trial)
        figures.setdefault((trial.benchmark, trial.arm), [])
    for (benchmark, arm), cells in figures.items():
        for part, some in parts.items():
            if part[0] != benchmark:
                continue
            cell = _cell(benchmark, arm, places[part], some, rejected, (benchmark, arm) in cpu_wanted)
            if cell.whole:
                cells.append(cell)
            if cell.left_out:
                left_out.add(part)
    kept = [(places[part], trial) for trial in trials if (part := (trial.benchmark, trial.group)) not in left_out]
    told: dict[str, list[tuple[verdict.Verdict | None, reasons.Reason]]] = collections.defaultdict(list)
    for cells in figures.values():
        for host, entry in _judge(cells):
            told[host].append(entry)
    return Screened(kept, [entry for entry in kept if guards.run(entry[1]) not in rejected], told)


def numbered(trials: Iterable[results.Trial]) -> list[results.Trial]:
    """Return trials numbered through: every pair numbers its runs from the same number on, and guards go by it."""
    runs: dict[tuple[int, int], int] = {}
    return [
        dataclasses.replace(trial, order=runs.setdefault((trial.group, trial.order), len(runs)))
        for trial in sorted(trials, key=lambda trial: (trial.group, trial.order))
    ]


def _cell(
    benchmark: str,
    arm: str,
    pair: model.HostPair,
    trials: Sequence[results.Trial],
    rejected: Mapping[guards.Run, reasons.Reason],
    cpu_wanted: bool,
) -> _Cell:
    """:param trials: of all arms of the boot."""
    missing = trial_filter.missing(trials, _MANY, arm)
    cell = _Cell(benchmark, arm, frozenset((pair.client, pair.server)), missing, 0, missing, [])
    for trial in trials:
        if trial.arm == arm:
            cell.whole += 1
            if trial.value is None:
                cell.failed += 1
            elif (why := rejected.get(guards.run(trial))) is not None:
                cell.why.append(why)
            elif cpu_wanted and overhead.cost(trial).service_s is None:
                cell.why.append(reasons.reason(_C.NO_SERVICE_CPU, arm=arm))
    return cell


def _judge(cells: Sequence[_Cell]) -> Iterable[tuple[str, tuple[verdict.Verdict | None, reasons.Reason]]]:
    """Yield what the cells of one benchmark and arm say of each host."""
    of: dict[str, list[_Cell]] = collections.defaultdict(list)
    for cell in cells:
        for host in cell.hosts:
            of[host].append(cell)
    lost = {host: [cell for cell in mine if cell.left_out] for host, mine in of.items()}
    failing = {host for host, mine in of.items() if len(lost[host]) > _FAILING * len(mine)}
    at_fault = {host for host in failing if any(not (cell.hosts - {host}) & failing for cell in lost[host])}
    for host, mine in of.items():
        peers = {peer for cell in lost[host] for peer in cell.hosts - {host}}
        where = {"benchmark": mine[0].benchmark, "arm": mine[0].arm}
        if host in failing and (host in at_fault or not peers or not peers <= at_fault):
            code = _C.HOST_AT_FAULT if host in at_fault and peers else _C.HOST_LOST_TRIALS
            yield host, (_V.INVALID, _lost(code, mine))
        elif host in failing:
            yield host, (_V.INCONCLUSIVE, reasons.reason(_C.ONLY_FAILING_PEERS, **where))
        elif lost[host]:
            yield host, (None, reasons.reason(_C.PAIRS_LEFT_OUT, **where, peers=sorted(peers)))


def _lost(code: reasons.ReasonCode, cells: Sequence[_Cell]) -> reasons.Reason:
    """Return how many trials of a host are lost in one benchmark and arm."""
    return reasons.reason(
        code,
        benchmark=cells[0].benchmark,
        arm=cells[0].arm,
        count=sum(cell.lost for cell in cells),
        of=sum(cell.whole for cell in cells),
        failed=sum(cell.failed for cell in cells),
        zeros=0,
        missing=sum(cell.missing for cell in cells),
        excluded=sum(len(cell.why) for cell in cells),
        limit=trial_filter.MAX_LOST,
        why=reasons.distinct(why for cell in cells for why in cell.why),
    )
