"""The verdict on every host of a fleet, from the comparison with the other hosts and from budgets.

Hosts are of one kind, so that a budget is judged over the pairs of all of them, each a boot. A host FAILs when it
is slow beside the others (:mod:`nova_perf_tuning.cloud.peer_comparison`), or when the figure that a budget limits
is beyond the limit in all its pairs, by more than hosts differ; pairs with such hosts are left out of the
judgement over all pairs. A host without any result is INVALID, and so is one too many of whose trials failed or do
not count (:mod:`nova_perf_tuning.cloud.screening`).
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import overhead, text, trial_filter
from nova_perf_tuning.budget import statistics as intervals
from nova_perf_tuning.budget import verdict as judging
from nova_perf_tuning.budget.reasons import Reason, ReasonCode, reason
from nova_perf_tuning.cloud import model, peer_comparison, screening

#: Arm of what a bare host does, without guests.
BARE: Final = "host"

_C = ReasonCode
_V = judging.Verdict
_State = peer_comparison.State

#: The worst first; None: nothing was to be judged.
_ORDER: Final = (_V.FAIL, _V.INVALID, _V.INCONCLUSIVE, _V.PASS, None)

#: What one part of the judgement says of a host. Verdict None: a remark; reason None: it found nothing.
_Told = tuple[judging.Verdict | None, Reason | None]
_Trials = Sequence[tuple[model.HostPair, results.Trial]]


@dataclasses.dataclass(frozen=True, slots=True)
class HostVerdict:
    """What became of a host.

    :ivar verdict: None when nothing was to be judged: no budget, and too few hosts to compare.
    :ivar told: every reason with the verdict on it alone, first those that the verdict comes from.
    :ivar peers, measured: how many different peers were planned for it, and with how many it has figures.
    :ivar of_bare: what guests reach of the bare host in their worst figure, 0.93; None: not compared with it.
    """

    host: str
    verdict: judging.Verdict | None
    told: tuple[tuple[judging.Verdict | None, Reason], ...]
    peers: int
    measured: int
    of_bare: float | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return why in words, one line each."""
        return tuple(dict.fromkeys(text.of(why) for _, why in self.told))

    def as_data(self) -> dict[str, Any]:
        """Return it as ``fleet.hosts`` of a results file has it."""
        details = [
            {
                "verdict": word.value if word else None,
                "codes": sorted(why.codes),
                "benchmark": why.params.get("benchmark", ""),
                "figure": why.params.get("figure", ""),
            }
            for word, why in self.told
        ]
        return {
            "host": self.host or "any",
            "verdict": self.verdict.value if self.verdict else None,
            "reasons": list(self.reasons),
            "details": details,
            "peers": self.peers,
            "measured": self.measured,
        }

    def invalid(self, why: Reason) -> HostVerdict:
        """Return it with a reason why it cannot be judged; a host that FAILs does so anyway."""
        whole = _V.FAIL if self.verdict is _V.FAIL else _V.INVALID
        return dataclasses.replace(self, verdict=whole, told=((_V.INVALID, why), *self.told))


@dataclasses.dataclass(frozen=True, slots=True)
class FleetVerdict:
    """What a run says.

    :ivar judgements: of the budgets, over all pairs.
    """

    hosts: tuple[HostVerdict, ...]
    comparisons: tuple[peer_comparison.Comparison, ...]
    judgements: tuple[judging.Judgement, ...]

    @property
    def whole(self) -> judging.Verdict | None:
        """Return the verdict on the fleet: the worst of its hosts', None when none has one."""
        return min((host.verdict for host in self.hosts), key=_ORDER.index, default=None)

    def bad_pairs(self) -> dict[model.HostPair, list[str]]:
        """Return pairs of two good hosts that lost, with the benchmarks and arms in which they did."""
        found: dict[model.HostPair, list[str]] = collections.defaultdict(list)
        for comparison in self.comparisons:
            for pair in comparison.bad_pairs:
                found[pair].append(f"{comparison.benchmark} ({comparison.arm})")
        return found


def judge(
    run: model.StoredRun,
    of_pair: Mapping[int, Sequence[results.Trial]],
    paired: Mapping[str, bool],
    budgets: Sequence[judging.Budget],
    environment: Mapping[str, Any],
    max_loss: float,
    bare: Iterable[results.Trial] = (),
) -> FleetVerdict:
    """Return the verdict on every host of ``run``.

    :param of_pair: number of a pair -> the trials of its guests, whose group is that number, or another where they
        are of the server alone.
    :param paired: benchmark -> whether its server takes part; otherwise only the host is judged that it ran on.
        One that is missing is taken for paired.
    :param max_loss: loss against the other hosts from which a host is slow, 0.1 for a tenth.
    :param bare: trials of the bare hosts in the groups and blocks of the guests.
    """
    measured = [
        (_concerned(task, trial, paired), trial) for task in run.tasks for trial in of_pair.get(task.number, ())
    ]
    wanted = {(budget.benchmark, budget.arm) for budget in budgets if budget.max_host_cpu_per_unit is not None}
    screened = screening.screen(measured, environment, trial_filter.limits(budgets), wanted)
    comparisons = peer_comparison.compare(screened.counting, max_loss)
    told: dict[str, list[_Told]] = {host: [] for host in run.hosts}
    with_results = {
        host for task in run.tasks if of_pair.get(task.number) for host in (task.pair.client, task.pair.server)
    }
    for host, mine in told.items():
        if host in run.out:
            mine.append((_V.INVALID, reason(_C.GIVEN_UP, text=run.out[host])))
        elif host not in with_results:
            mine.append((_V.INVALID, reason(_C.NO_RESULT)))
        mine += screened.told.get(host, ())
    for comparison in comparisons:
        if len(comparison.states) >= peer_comparison.MIN_HOSTS:
            for host, state in comparison.states.items():
                losses = comparison.losses[host]
                params: dict[str, Any] = {"benchmark": comparison.benchmark, "arm": comparison.arm}
                params |= {"low": losses[-1], "high": losses[0], "spread": comparison.spread}
                told[host].append(_placed(state, _C.SLOW, _C.MAYBE_SLOW, params))
    places = {(trial.benchmark, trial.group): pair for pair, trial in screened.kept}
    beside = [
        (places[trial.benchmark, trial.group], trial) for trial in bare if (trial.benchmark, trial.group) in places
    ]
    usable = [*screened.kept, *beside] or measured
    of_bare: dict[str, float] = {}
    judgements = _over_all_pairs(told, usable, budgets, environment)
    before = _failing(told)
    _by_hosts(told, judgements, [*screened.counting, *beside], of_bare)
    if before != _failing(told):
        judgements = _over_all_pairs(told, usable, budgets, environment)
    _by_budgets(told, judgements, screened.kept)
    peers = _peers(run, of_pair, paired)
    hosts = tuple(_verdict(host, mine, *peers[host], of_bare.get(host)) for host, mine in told.items())
    return FleetVerdict(hosts, tuple(comparisons), judgements)


def measured_on(task: model.Task, trial: results.Trial) -> str:
    """Return the host that a trial of a pair ran on; with a peer it began there."""
    return task.pair.client if trial.group == task.number else task.pair.server


def _concerned(task: model.Task, trial: results.Trial, paired: Mapping[str, bool]) -> model.HostPair:
    """Return the hosts that a trial is about: without a peer's part the one that it ran on is both."""
    if paired.get(trial.benchmark, True):
        return task.pair
    host = measured_on(task, trial)
    return model.HostPair(host, host)


def _placed(state: peer_comparison.State, slow: ReasonCode, maybe: ReasonCode, params: Mapping[str, Any]) -> _Told:
    """Return what the state of a host means for its verdict."""
    if state is _State.GOOD:
        return _V.PASS, None
    return (_V.FAIL, Reason(slow, params)) if state is _State.SLOW else (_V.INCONCLUSIVE, Reason(maybe, params))


def _failing(told: Mapping[str, Sequence[_Told]]) -> set[str]:
    return {host for host, mine in told.items() if any(word is _V.FAIL for word, _ in mine)}


def _without(hosts: Collection[str], trials: _Trials) -> _Trials:
    """Return trials of pairs without these hosts."""
    return [(pair, trial) for pair, trial in trials if pair.client not in hosts and pair.server not in hosts]


def _over_all_pairs(
    told: Mapping[str, Sequence[_Told]],
    trials: _Trials,
    budgets: Sequence[judging.Budget],
    environment: Mapping[str, Any],
) -> tuple[judging.Judgement, ...]:
    """Judge budgets by the pairs without a host that FAILs; where there are none, by all, to have a judgement."""
    usable = _without(_failing(told), trials) or trials
    found = results.Results(environment, [trial for _, trial in usable])
    return tuple(judging.judge_all(found, budgets)) if usable else ()


def _by_hosts(
    told: Mapping[str, list[_Told]],
    judgements: Sequence[judging.Judgement],
    trials: _Trials,
    of_bare: dict[str, float],
) -> None:
    """Add to ``told`` which hosts are beyond a budget in all their pairs; note what they reach of bare hosts."""
    limits = [
        (judgement, *limit)
        for judgement in judgements
        if judgement.verdict is not _V.INVALID
        for limit in _limited(judgement.budget, trials)
    ]
    for judgement, figure, limit, of_pair in limits:
        budget = judgement.budget
        by = peer_comparison.judge(of_pair, 0.0, len(limits), limit)
        for host, state in by.states.items():
            if figure == "loss" and budget.baseline == BARE:
                of_bare[host] = min(of_bare.get(host, math.inf), math.exp(by.logs[host][-1]))
            found = [-math.expm1(log) if figure == "loss" else math.exp(-log) for log in by.logs[host]]
            params = {
                "benchmark": budget.benchmark,
                "arm": budget.arm,
                "baseline": budget.baseline,
                "figure": figure,
                "low": found[-1],
                "high": found[0],
                "limit": budget.max_loss if figure == "loss" else budget.max_host_cpu_per_unit,
                "unit": judgement.unit,
                "spread": by.spread,
            }
            told[host].append(_placed(state, _C.HOST_BEYOND, _C.HOST_MAYBE_BEYOND, params))


def _limited(budget: judging.Budget, trials: _Trials) -> Iterator[tuple[str, float, dict[model.HostPair, float]]]:
    """Yield each figure that a budget limits: its name, its limit, and what pairs have.

    Both are logarithms, turned so that more is better.
    """
    mine = [
        (pair, trial)
        for pair, trial in trials
        if trial.benchmark == budget.benchmark and budget.metric in (None, trial.metric)
    ]
    boots = {trial.group: pair for pair, trial in mine if trial.arm == budget.arm}
    if budget.max_loss is not None:
        ratios = intervals.log_ratios((trial for _, trial in mine), budget.arm, budget.baseline)
        if ratios:
            yield "loss", math.log(1 - budget.max_loss), _of_pairs(boots, ratios)
    if budget.max_host_cpu_per_unit:
        costs: dict[int, list[float]] = collections.defaultdict(list)
        for _, trial in mine:
            if trial.arm == budget.arm and (cost := overhead.per_unit(overhead.cost(trial).service_s, trial)):
                costs[trial.group].append(-math.log(cost))
        if costs:
            yield "cpu", -math.log(budget.max_host_cpu_per_unit), _of_pairs(boots, costs)


def _of_pairs(
    boots: Mapping[int, model.HostPair], samples: Mapping[int, Sequence[float]]
) -> dict[model.HostPair, float]:
    """Return the median of each boot, that of the better one where a pair has two."""
    found: dict[model.HostPair, float] = {}
    for group, some in samples.items():
        pair = boots[group]
        found[pair] = max(statistics.median(some), found.get(pair, -math.inf))
    return found


def _by_budgets(told: Mapping[str, list[_Told]], judgements: Sequence[judging.Judgement], trials: _Trials) -> None:
    """Add to ``told`` what budgets say over all pairs, of the hosts that have no worse verdict already."""
    decided = {host for host, mine in told.items() if any(word in (_V.FAIL, _V.INVALID) for word, _ in mine)}
    measured: dict[str, set[str]] = collections.defaultdict(set)
    for pair, trial in trials:
        measured[trial.benchmark] |= {pair.client, pair.server}
    for judgement in judgements:
        benchmark = judgement.budget.benchmark
        words: list[_Told] = [(_V.PASS, None)]
        for word, why in judgement.told:
            if word is not _V.PASS:
                figure = why.params.get("figure", "")
                words.append((word, reason(_C.BUDGET, benchmark=benchmark, figure=figure, why=(why,))))
        # A benchmark that no host has was asked of all of them.
        for host in (measured[benchmark] or told.keys()) - decided:
            told[host] += words


def _peers(
    run: model.StoredRun, of_pair: Mapping[int, Sequence[results.Trial]], paired: Mapping[str, bool]
) -> Mapping[str, tuple[int, int]]:
    """Return host -> how many different peers were planned for it, and with how many it has figures."""
    planned, measured = (collections.defaultdict[str, set[str]](set) for _ in range(2))
    for task in run.tasks:
        hosts = (task.pair.client, task.pair.server)
        known = [
            _concerned(task, trial, paired) for trial in of_pair.get(task.number, ()) if trial.value is not None
        ]
        with_figures = {host for pair in known for host in (pair.client, pair.server)}
        for host, peer in (hosts, hosts[::-1]):
            if task.state != "dropped":
                planned[host].add(peer)
            if host in with_figures:
                measured[host].add(peer)
    return {host: (len(planned[host]), len(measured[host])) for host in run.hosts}


def _verdict(host: str, told: Iterable[_Told], peers: int, measured: int, of_bare: float | None) -> HostVerdict:
    """Return the worst of what was told of a host."""
    ordered = sorted(told, key=lambda entry: _ORDER.index(entry[0]))
    whole = ordered[0][0] if ordered else None
    found = tuple((word, why) for word, why in ordered if why is not None)
    return HostVerdict(host, whole, found, peers, measured, of_bare)
