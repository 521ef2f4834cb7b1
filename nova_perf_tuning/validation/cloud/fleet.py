"""The verdict on every host of a fleet, from the comparison with the other hosts and from budgets.

Hosts are of one kind, so that a budget is judged over the pairs of all of them, each a boot. A host FAILs when it
is slow beside the others (:mod:`.peer_comparison`), or when the figure that a budget limits is beyond the limit in
all its pairs, by more than hosts differ; pairs with such hosts are left out of the judgement over all pairs. A
host without any result is INVALID, and so is one too many of whose trials are lost (:func:`_screen`).

All that a verdict needs stands in the results, as they are written and read again: under ``fleet`` of their
environment the pairs with their hosts (see ``results.schema.json``), and the trials. A pair is a boot of its own:
its number is the ``boot`` of its trials. What ran on its server alone is of another boot, that of the server's
guest: its ``boot`` is that number plus the number of all pairs.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.cloud import model, peer_comparison
from nova_perf_tuning.validation.judge import budget_file, trial_filter
from nova_perf_tuning.validation.judge import statistics as intervals
from nova_perf_tuning.validation.judge import verdict as judging
from nova_perf_tuning.validation.measure import model as results
from nova_perf_tuning.validation.measure import overhead
from nova_perf_tuning.validation.measure.reasons import Reason, ReasonCode, reason
from nova_perf_tuning.validation.report import text

_C = ReasonCode
_V = judging.Verdict

#: The worst first; None: nothing was to be judged.
_ORDER: Final = (_V.FAIL, _V.INVALID, _V.INCONCLUSIVE, _V.PASS, None)

#: Share of a host's cells from which on lost ones are the rule with it.
_FAILING: Final = 0.5

#: Trials with the hosts that they are about, twice the same where there is one.
Trials = Sequence[tuple[model.HostPair, results.Trial]]
#: What one part of the judgement says of a host; None: it found nothing to tell.
_Finding = tuple[judging.Verdict, Reason | None]


@dataclasses.dataclass(frozen=True, slots=True)
class HostVerdict:
    """What became of a host.

    :ivar verdict: None when nothing was to be judged: no budget, and too few hosts to compare.
    :ivar findings: every reason with the verdict on it alone, first those that the verdict comes from.
    :ivar peers, measured: how many different peers were planned for it, and with how many it has figures.
    :ivar of_bare: what guests reach of the bare host in their worst figure, 0.93; None: not compared with it.
    """

    host: str
    verdict: judging.Verdict | None
    findings: tuple[tuple[judging.Verdict, Reason], ...]
    peers: int
    measured: int
    of_bare: float | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return why in words, one line each."""
        return tuple(dict.fromkeys(text.of(why) for _, why in self.findings))

    def as_data(self) -> environments.FleetHost:
        """Return it as ``fleet.hosts`` of a results file has it."""
        details = [
            environments.HostDetail(
                word.value, sorted(why.codes), why.params.get("benchmark", ""), why.params.get("figure", "")
            )
            for word, why in self.findings
        ]
        word = self.verdict.value if self.verdict else None
        return environments.FleetHost(self.host, word, list(self.reasons), self.peers, self.measured, details)


@dataclasses.dataclass(frozen=True, slots=True)
class FleetVerdict:
    """What a run says.

    :ivar comparisons: (benchmark, arm) -> what it says of the hosts.
    :ivar judgements: of the budgets, over all pairs.
    """

    hosts: tuple[HostVerdict, ...]
    comparisons: Mapping[tuple[str, str], peer_comparison.Comparison]
    judgements: tuple[judging.Judgement, ...]

    @property
    def whole(self) -> judging.Verdict | None:
        """Return the verdict on the fleet: the worst of its hosts', None when none has one."""
        return min((host.verdict for host in self.hosts), key=_ORDER.index, default=None)


class Places:
    """Which hosts the trials of a fleet's results are of.

    :ivar pairs: by number.
    """

    def __init__(self, environment: environments.Environment) -> None:
        """Read the pairs; a benchmark that is not installed here is taken for one whose server takes part."""
        pairs = fleet_of(environment).pairs
        self.pairs = {pair.number: model.HostPair(pair.client, pair.server) for pair in pairs}
        self._alone = {host: model.HostPair(host, host) for pair in pairs for host in (pair.client, pair.server)}
        kinds = {benchmark.kind for benchmark in plugins.load_all() if not benchmark.paired}
        self._unpaired = {label for label, run in environment.benchmarks.items() if run.kind in kinds}

    def pair(self, trial: results.Trial) -> model.HostPair | None:
        """Return the pair of a trial; None where there is no such pair."""
        return self.pairs.get(trial.boot) or self.pairs.get(trial.boot - len(self.pairs))

    def host(self, trial: results.Trial) -> str:
        """Return the host that a trial ran on; with a peer it began there."""
        pair = self.pair(trial) or model.HostPair()
        return pair.client if trial.boot in self.pairs else pair.server

    def hosts(self, trial: results.Trial) -> model.HostPair:
        """Return the hosts that a trial is about: without a peer's part the one that it ran on is both."""
        if trial.benchmark in self._unpaired:
            return self._alone[self.host(trial)]
        return self.pair(trial) or model.HostPair()


def judge(measured: results.Results, budgets: Sequence[judging.Budget]) -> tuple[results.Results, FleetVerdict]:
    """Return the results of a fleet with new verdicts in place of those in them, and these.

    Where budgets have to hold and none is for the run, hosts were only compared with each other: INVALID.

    :param measured: whose environment has ``fleet``.
    """
    environment, fleet = measured.environment, fleet_of(measured.environment)
    places = Places(environment)
    known = [trial for trial in measured.trials if trial.primary and places.pair(trial) is not None]
    guests = [(places.hosts(trial), trial) for trial in known if trial.arm != results.HOST]
    wanted = {(budget.benchmark, budget.arm) for budget in budgets if budget.max_host_cpu_per_unit is not None}
    kept, lost = _screen(guests, environment, wanted)
    comparisons = peer_comparison.compare(kept, fleet.max_loss)
    planned, with_figures = _peers(places, guests)
    findings: dict[str, list[_Finding]] = {host: [] for host in sorted(planned)}
    with_results = {host for pair in map(places.pair, known) if pair for host in (pair.client, pair.server)}
    for host, mine in findings.items():
        if host not in with_results:
            mine.append((_V.INVALID, reason(_C.NO_RESULT)))
        mine += ((_V.INVALID, why) for why in lost.get(host, ()))
    for (benchmark, arm), comparison in comparisons.items():
        if len(comparison.states) >= peer_comparison.MIN_HOSTS:
            for host, logs in comparison.logs.items():
                losses = [-math.expm1(log - comparison.middle) for log in logs]
                findings[host].append(_placed(comparison, host, losses, slow=True, benchmark=benchmark, arm=arm))
    boots = {(trial.benchmark, trial.boot): pair for pair, trial in kept}
    bare = [
        (boots[trial.benchmark, trial.boot], trial)
        for trial in known
        if trial.arm == results.HOST and (trial.benchmark, trial.boot) in boots
    ]
    usable = [*kept, *bare] or guests
    judgements = _over_all_pairs(findings, usable, budgets, environment)
    before = _failing(findings)
    beyond, of_bare = _by_hosts(judgements, [*kept, *bare])
    for host, words in beyond.items():
        findings[host] += words
    if before != _failing(findings):
        judgements = _over_all_pairs(findings, usable, budgets, environment)
    for host, words in _by_budgets(findings, judgements, kept).items():
        findings[host] += words
    if not judgements and not all(budget.optional for budget in budgets):
        for mine in findings.values():
            mine.insert(0, (_V.INVALID, budget_file.why_none(measured)))
    hosts = [
        _verdict(host, mine, len(planned[host]), len(with_figures[host]), of_bare.get(host))
        for host, mine in findings.items()
    ]
    judged = FleetVerdict(tuple(hosts), comparisons, judgements)
    whole = judged.whole and judged.whole.value
    fleet = dataclasses.replace(fleet, verdict=whole, hosts=[host.as_data() for host in hosts])
    return dataclasses.replace(measured, environment=dataclasses.replace(environment, fleet=fleet)), judged


def fleet_of(environment: environments.Environment) -> environments.Fleet:
    """Return the run over many hosts that an environment has."""
    assert environment.fleet is not None  # a caller looks first
    return environment.fleet


def _screen(
    measured: Trials, environment: environments.Environment, cpu_wanted: Collection[tuple[str, str]]
) -> tuple[Trials, Mapping[str, Sequence[Reason]]]:
    """Return which of ``measured`` counts, and host -> why it is INVALID.

    A *cell* is what one boot of a pair gave of one benchmark in one arm. A trial in it is lost when it failed, is
    missing, or lacks the service CPU that a budget limits. A cell that lost more than 20 % is a selection, not a
    sample: with it this benchmark of this boot is left out of everything. A host more than half of whose cells
    of a benchmark and arm are left out is INVALID, so that one sick host spoils no verdict on its peers.

    :param cpu_wanted: benchmarks and arms whose service CPU a budget limits.
    """
    boots: dict[tuple[str, int], list[results.Trial]] = collections.defaultdict(list)
    pairs = {}
    for pair, trial in measured:
        boots[trial.benchmark, trial.boot].append(trial)
        pairs[trial.benchmark, trial.boot] = pair
    figures = dict.fromkeys((trial.benchmark, trial.arm) for _, trial in measured)
    excluded = set()
    # The number beside what is lost: trials that have a figure and lack the service CPU.
    cells: dict[tuple[str, str, str], list[tuple[trial_filter.Lost, int]]] = collections.defaultdict(list)
    failing: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for boot, trials in boots.items():
        for benchmark, arm in figures:
            cell = trial_filter.lost(trials, environment, arm)
            if benchmark != boot[0] or not cell.of:
                continue
            mine = [trial for trial in trials if trial.arm == arm and (benchmark, arm) in cpu_wanted]
            without_cpu = sum(trial.value is not None and overhead.cost(trial).service_s is None for trial in mine)
            left_out = cell.failed + cell.missing + without_cpu > trial_filter.MAX_LOST * cell.of
            excluded |= {boot} if left_out else set()
            for host in {pairs[boot].client, pairs[boot].server}:
                cells[host, benchmark, arm].append((cell, without_cpu))
                failing[host, benchmark, arm] += left_out
    lost: dict[str, list[Reason]] = collections.defaultdict(list)
    for figure, of_host in cells.items():
        if failing[figure] > _FAILING * len(of_host):
            lost[figure[0]].append(_lost(*figure[1:], of_host))
    return [(pair, trial) for pair, trial in measured if (trial.benchmark, trial.boot) not in excluded], lost


def _lost(benchmark: str, arm: str, cells: Sequence[tuple[trial_filter.Lost, int]]) -> Reason:
    """Return that too many of a host's trials are lost."""
    of, failed, missing = (sum(getattr(lost, name) for lost, _ in cells) for name in ("of", "failed", "missing"))
    without_cpu = sum(without for _, without in cells)
    return trial_filter.Lost(arm, of, failed, 0, missing, frozenset()).reason(
        _C.HOST_LOST_TRIALS,
        benchmark=benchmark,
        count=failed + missing + without_cpu,
        excluded=without_cpu,
        limit=trial_filter.MAX_LOST,
        why=(reason(_C.NO_SERVICE_CPU, arm=arm),) if without_cpu else (),
    )


def _peers(places: Places, measured: Trials) -> tuple[Mapping[str, set[str]], Mapping[str, set[str]]]:
    """Return host -> the different peers that were planned for it, and those with which it has figures."""
    planned, with_figures = (collections.defaultdict[str, set[str]](set) for _ in range(2))
    for pair in places.pairs.values():
        planned[pair.client].add(pair.server)
        planned[pair.server].add(pair.client)
    for hosts, trial in measured:
        met = places.pair(trial)
        if met is not None and trial.value is not None:
            for host in (hosts.client, hosts.server):
                with_figures[host].add(met.server if host == met.client else met.client)
    return planned, with_figures


def _placed(
    comparison: peer_comparison.Comparison, host: str, figures: Sequence[float], *, slow: bool, **params: object
) -> _Finding:
    """Return what the state of a host means for its verdict.

    :param figures: of each of its pairs, the best last.
    :param slow: beside the other hosts; False: held against a budget.
    """
    state = comparison.states[host]
    if state is peer_comparison.State.GOOD:
        return _V.PASS, None
    params |= {"low": figures[-1], "high": figures[0], "spread": comparison.spread}
    if state is peer_comparison.State.SLOW:
        return _V.FAIL, Reason(_C.SLOW if slow else _C.HOST_BEYOND, params)
    return _V.INCONCLUSIVE, Reason(_C.MAYBE_SLOW if slow else _C.HOST_MAYBE_BEYOND, params)


def _failing(findings: Mapping[str, Sequence[_Finding]]) -> set[str]:
    return {host for host, mine in findings.items() if any(word is _V.FAIL for word, _ in mine)}


def _over_all_pairs(
    findings: Mapping[str, Sequence[_Finding]],
    trials: Trials,
    budgets: Sequence[judging.Budget],
    environment: environments.Environment,
) -> tuple[judging.Judgement, ...]:
    """Judge budgets by the pairs without a host that FAILs; where there are none, by all, to have a judgement."""
    failing = _failing(findings)
    usable = [trial for pair, trial in trials if not failing & {pair.client, pair.server}]
    usable = usable or [trial for _, trial in trials]
    return tuple(judging.judge_all(results.Results(environment, usable), budgets)) if usable else ()


def _by_hosts(
    judgements: Sequence[judging.Judgement], trials: Trials
) -> tuple[Mapping[str, Sequence[_Finding]], Mapping[str, float]]:
    """Return what to tell of hosts beyond a budget in all their pairs, and what guests reach of bare hosts."""
    findings: dict[str, list[_Finding]] = collections.defaultdict(list)
    of_bare: dict[str, float] = {}
    limits = [
        (judgement, *limit)
        for judgement in judgements
        if judgement.verdict is not _V.INVALID
        for limit in _limited(judgement.budget, trials)
        if limit[-1]
    ]
    for judgement, figure, limit, of_pair in limits:
        budget, loss = judgement.budget, figure == "loss"
        by = peer_comparison.judge(of_pair, 0.0, len(limits), limit)
        params = {
            "benchmark": budget.benchmark,
            "arm": budget.arm,
            "baseline": budget.baseline,
            "figure": figure,
            "limit": budget.max_loss if loss else budget.max_host_cpu_per_unit,
            "unit": judgement.unit,
        }
        for host, logs in by.logs.items():
            if loss and budget.baseline == results.HOST:
                of_bare[host] = min(of_bare.get(host, math.inf), math.exp(logs[-1]))
            figures = [-math.expm1(log) if loss else math.exp(-log) for log in logs]
            findings[host].append(_placed(by, host, figures, slow=False, **params))
    return findings, of_bare


def _limited(budget: judging.Budget, trials: Trials) -> Iterator[tuple[str, float, dict[model.HostPair, float]]]:
    """Yield each figure that a budget limits: its name, its limit, and what pairs have.

    Both are logarithms, turned so that more is better.
    """
    mine = [
        (pair, trial)
        for pair, trial in trials
        if trial.benchmark == budget.benchmark and budget.metric in (None, trial.metric)
    ]
    boots = {trial.boot: pair for pair, trial in mine if trial.arm == budget.arm}
    if budget.max_loss is not None:
        ratios = intervals.log_ratios((trial for _, trial in mine), budget.arm, budget.baseline)
        yield "loss", math.log(1 - budget.max_loss), _of_pairs(boots, ratios)
    if budget.max_host_cpu_per_unit:
        costs: dict[int, list[float]] = collections.defaultdict(list)
        for _, trial in mine:
            if trial.arm == budget.arm and (cost := overhead.per_unit(overhead.cost(trial).service_s, trial)):
                costs[trial.boot].append(-math.log(cost))
        yield "cpu", -math.log(budget.max_host_cpu_per_unit), _of_pairs(boots, costs)


def _of_pairs(
    boots: Mapping[int, model.HostPair], samples: Mapping[int, Sequence[float]]
) -> dict[model.HostPair, float]:
    """Return the median of each boot, that of the better one where a pair has two."""
    medians: dict[model.HostPair, float] = {}
    for boot, some in samples.items():
        pair = boots[boot]
        medians[pair] = max(statistics.median(some), medians.get(pair, -math.inf))
    return medians


def _by_budgets(
    findings: Mapping[str, Sequence[_Finding]], judgements: Sequence[judging.Judgement], trials: Trials
) -> Mapping[str, Sequence[_Finding]]:
    """Return what budgets say over all pairs, of the hosts that have no worse verdict already."""
    decided = {host for host, mine in findings.items() if any(word in (_V.FAIL, _V.INVALID) for word, _ in mine)}
    measured: dict[str, set[str]] = collections.defaultdict(set)
    for pair, trial in trials:
        measured[trial.benchmark] |= {pair.client, pair.server}
    said: dict[str, list[_Finding]] = collections.defaultdict(list)
    for judgement in judgements:
        benchmark = judgement.budget.benchmark
        words: list[_Finding] = [(_V.PASS, None)]
        for word, why in judgement.verdicts_and_reasons:
            if word is not _V.PASS:
                figure = why.params.get("figure", "")
                words.append((word, reason(_C.BUDGET, benchmark=benchmark, figure=figure, why=(why,))))
        # A benchmark that no host has was asked of all of them.
        for host in (measured[benchmark] or findings.keys()) - decided:
            said[host] += words
    return said


def _verdict(
    host: str, findings: Iterable[_Finding], peers: int, measured: int, of_bare: float | None
) -> HostVerdict:
    """Return the worst of what was found on a host."""
    ordered = sorted(findings, key=lambda entry: _ORDER.index(entry[0]))
    whole = ordered[0][0] if ordered else None
    reasons = tuple((word, why) for word, why in ordered if why is not None)
    return HostVerdict(host, whole, reasons, peers, measured, of_bare)
