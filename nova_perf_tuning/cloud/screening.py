"""Which trials of a fleet count, and which hosts cannot be judged since they do not.

A *cell* is what one boot of a pair gave of one benchmark in one arm. A trial in it is lost when it failed, is
missing, is rejected by a guard, or lacks the service CPU that a budget limits. A cell that lost more than 20 %
is a selection, not a sample: with it this benchmark of this boot is left out of everything. A host more than
half of whose cells of a benchmark and arm are left out is INVALID; of the others that is remarked, so that one
sick host spoils no verdict on its peers.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import guards, overhead, reasons, trial_filter, verdict
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.cloud import model

#: Share of a host's cells from which on they are the rule with it.
_FAILING: Final = 0.5
#: What marks results as those of many hosts.
_MANY: Final[Mapping[str, Any]] = {"fleet": {}}

_C = reasons.ReasonCode


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

    :param measured: trials with the hosts that they are about, twice the same where there is one. A boot has a
        group, and a run a number of its own.
    :param cpu_wanted: benchmarks and arms whose trials must have service CPU.
    """
    mine = [(pair, trial) for pair, trial in measured if trial.primary]
    places = {(trial.benchmark, trial.group): pair for pair, trial in mine}
    trials = [trial for _, trial in mine]
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


def _cell(
    benchmark: str,
    arm: str,
    pair: model.HostPair,
    trials: Sequence[results.Trial],
    rejected: Mapping[guards.Run, reasons.Reason],
    cpu_wanted: bool,
) -> _Cell:
    """:param trials: of all arms of the boot."""
    missing = trial_filter.lost(trials, _MANY, arm).missing
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


def _judge(cells: Sequence[_Cell]) -> Iterator[tuple[str, tuple[verdict.Verdict | None, reasons.Reason]]]:
    """Yield what the cells of one benchmark and arm say of each host."""
    of: dict[str, list[_Cell]] = collections.defaultdict(list)
    for cell in cells:
        for host in cell.hosts:
            of[host].append(cell)
    for host, mine in of.items():
        left_out = [cell for cell in mine if cell.left_out]
        params: dict[str, Any] = {"benchmark": mine[0].benchmark, "arm": mine[0].arm}
        if len(left_out) > _FAILING * len(mine):
            params["count"] = sum(cell.lost for cell in mine)
            params["of"] = sum(cell.whole for cell in mine)
            params["failed"] = sum(cell.failed for cell in mine)
            params["missing"] = sum(cell.missing for cell in mine)
            params["excluded"] = sum(len(cell.why) for cell in mine)
            params |= {"zeros": 0, "limit": trial_filter.MAX_LOST}
            why = reasons.distinct(why for cell in mine for why in cell.why)
            yield host, (verdict.Verdict.INVALID, reasons.reason(_C.HOST_LOST_TRIALS, **params, why=why))
        elif left_out:
            peers = sorted({peer for cell in left_out for peer in cell.hosts - {host}})
            yield host, (None, reasons.reason(_C.PAIRS_LEFT_OUT, **params, peers=peers))
