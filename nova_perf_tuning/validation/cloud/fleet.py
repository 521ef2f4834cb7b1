# SPDX-License-Identifier: Apache-2.0
"""The verdict on every host of a fleet, from the comparison with the other hosts and from budgets.

Hosts are of one kind, so that a budget is judged over the pairs of all of them, each a boot. A host FAILs when it
is slow beside the others (:mod:`.peer_comparison`), or when the figure that a budget limits is beyond the limit in
all its pairs, by more than hosts differ; pairs with such hosts are left out of the judgement over all pairs. A
host without any result is INVALID, and so is one too many of whose trials are lost (:func:`_screen`).
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.grouping import grouped
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

#: The worst first.
_ORDER: Final = (_V.FAIL, _V.INVALID, _V.INCONCLUSIVE, _V.PASS)

#: Share of a host's cells from which on lost ones are the rule with it.
_FAILING: Final = 0.5

#: Trials with the hosts that they are about, twice the same where there is one.
Trials = Sequence[tuple[model.HostPair, results.Trial]]
#: What one part of the judgement says of a host; None: it found nothing to tell.
_Finding = tuple[judging.Verdict, Reason | None]


@dataclasses.dataclass(frozen=True, slots=True)
class FleetVerdict:
    """What a run says; ``whole`` is the worst of the verdicts on its hosts, None when none has one.

    :ivar hosts: their verdict is None when nothing was to be judged: no budget, and too few hosts to compare.
    :ivar of_bare: host -> what guests reach of the bare host in their worst figure, 0.93.
    :ivar comparisons: (benchmark, arm) -> what it says of hosts; :ivar judgements: of budgets, over all pairs.
    """

    whole: judging.Verdict | None
    hosts: Sequence[environments.FleetHost]
    of_bare: Mapping[str, float]
    comparisons: Mapping[tuple[str, str], peer_comparison.Comparison]
    judgements: Sequence[judging.Judgement]


class Places:
    """Which hosts the trials of a fleet's results are of.

    The number of a pair is the boot of its trials; what ran on its server alone has that plus the number of all
    pairs, since it is of another boot, that of the server's guest.

    :ivar boots: boot -> its pair, and the host that its trials ran on; those with a peer began there.
    """

    def __init__(self, environment: environments.Environment) -> None:
        """Read the pairs; a benchmark that is not installed here is taken for one whose server takes part."""
        assert environment.fleet is not None
        self.fleet = environment.fleet
        pairs = {pair.number: model.HostPair(pair.client, pair.server) for pair in self.fleet.pairs}
        self.boots = {number + len(pairs): (pair, pair.server) for number, pair in pairs.items()}
        self.boots |= {number: (pair, pair.client) for number, pair in pairs.items()}
        kinds = {benchmark.kind for benchmark in plugins.load_all() if not benchmark.paired}
        self._unpaired = {label for label, run in environment.benchmarks.items() if run.kind in kinds}

    def hosts(self, trial: results.Trial) -> model.HostPair:
        """Return the hosts that a trial is about: without a peer's part the one that it ran on is both."""
        pair, host = self.boots[trial.boot]
        return model.HostPair(host, host) if trial.benchmark in self._unpaired else pair

    def ran_on(self, trial: results.Trial) -> tuple[str, str | None]:
        """Return the host that a trial ran on, empty if not known, and its peer's if that took part."""
        pair = self.hosts(trial) if trial.boot in self.boots else model.HostPair("", "")
        return pair.client, pair.server if pair.server != pair.client else None


def judge(measured: results.Results, budgets: Sequence[judging.Budget]) -> tuple[results.Results, FleetVerdict]:
    """Return the results of a fleet with new verdicts in place of those in them, and these.

    Where budgets have to hold and none is for the run, hosts were only compared with each other: INVALID.
    """
    environment, places = measured.environment, Places(measured.environment)
    known = [trial for trial in measured.trials if trial.primary and trial.boot in places.boots]
    guests = [(places.hosts(trial), trial) for trial in known if trial.arm != results.HOST]
    wanted = {(budget.benchmark, budget.arm) for budget in budgets if budget.max_host_cpu_per_unit is not None}
    kept, lost = _screen(guests, environment, wanted)
    boots = {(trial.benchmark, trial.boot) for _, trial in kept}
    bare = [trial for trial in known if trial.arm == results.HOST and (trial.benchmark, trial.boot) in boots]
    counting = [*kept, *((places.hosts(trial), trial) for trial in bare)]
    planned = {meeting for pair, _ in places.boots.values() for meeting in _meetings(pair)}
    met = {
        meeting
        for hosts, trial in guests
        if trial.value is not None
        for meeting in _meetings(places.boots[trial.boot][0])
        if meeting[0] in hosts.hosts
    }
    findings: dict[str, list[_Finding]] = {host: [] for host, _ in sorted(planned)}
    for host in findings.keys() - {host for trial in known for host in places.boots[trial.boot][0].hosts}:
        findings[host].append((_V.INVALID, reason(_C.NO_RESULT)))
    otherwise: dict[str, list[_Finding]] = collections.defaultdict(list)  # where nothing else is found
    for host, why, mostly in lost:
        (findings if mostly else otherwise)[host].append((_V.INVALID, why))
    comparisons = peer_comparison.compare(kept, places.fleet.max_loss)
    for (benchmark, arm), comparison in comparisons.items():
        if comparison.enough:
            for host, logs in comparison.logs.items():
                losses = [-math.expm1(log - comparison.middle) for log in logs]
                findings[host].append(_placed(comparison, host, losses, slow=True, benchmark=benchmark, arm=arm))
    slow = _failing(findings)
    judgements = _over_all_pairs(slow, counting or guests, budgets, environment)
    beyond, of_bare = _by_hosts(judgements, counting)
    for host, finding in beyond:
        findings[host].append(finding)
    if (failing := _failing(findings)) != slow:
        judgements = _over_all_pairs(failing, counting or guests, budgets, environment)
    for host, finding in _by_budgets(findings, judgements, kept):
        findings[host].append(finding)
    if not judgements and not all(budget.optional for budget in budgets):
        for mine in findings.values():
            mine.insert(0, (_V.INVALID, budget_file.why_none(measured)))
    peers, with_figures = (collections.Counter(host for host, _ in meetings) for meetings in (planned, met))
    findings = {host: mine or otherwise[host] for host, mine in findings.items()}
    hosts = [_verdict(host, mine, peers[host], with_figures[host]) for host, mine in findings.items()]
    whole = min((_V(host.verdict) for host in hosts if host.verdict), key=_ORDER.index, default=None)
    fleet = dataclasses.replace(places.fleet, verdict=whole and whole.value, hosts=hosts)
    changed = dataclasses.replace(measured, environment=dataclasses.replace(environment, fleet=fleet))
    return changed, FleetVerdict(whole, hosts, of_bare, comparisons, judgements)


def _screen(
    measured: Trials, environment: environments.Environment, cpu_wanted: Collection[tuple[str, str]]
) -> tuple[Trials, Sequence[tuple[str, Reason, bool]]]:
    """Return which of ``measured`` counts, and each host that lost cells with the reason; True: it is INVALID.

    A *cell* is what one boot of a pair gave of one benchmark in one arm. A trial in it is lost when it failed, is
    missing, or lacks the service CPU that a budget limits. A cell that lost more than 20 % is a selection, not a
    sample: with it this benchmark of this boot is left out of everything. A host more than half of whose cells
    of a benchmark and arm are left out is INVALID, so that one sick host changes no verdict on its peers. A host
    that lost fewer cells is INVALID where what is left can be neither compared nor judged.

    :param cpu_wanted: benchmarks and arms whose service CPU a budget limits.
    """
    boots = grouped(((trial.benchmark, trial.boot, pair), trial) for pair, trial in measured)
    figures = dict.fromkeys((trial.benchmark, trial.arm) for _, trial in measured)
    excluded = set()
    # Each cell with its number of trials that have a figure and lack the service CPU, and whether it is left out.
    cells: dict[tuple[str, str, str], list[tuple[trial_filter.Lost, int, bool]]] = collections.defaultdict(list)
    gaps = trial_filter.Gaps.of(environment)
    for (benchmark, boot, pair), trials in boots.items():
        figure = trial_filter.Figure.of(trials)
        for arm in [arm for kind, arm in figures if kind == benchmark]:
            cell = trial_filter.lost(figure, gaps, arm)
            if not cell.of:
                continue
            mine = [trial for trial in trials if trial.arm == arm and (benchmark, arm) in cpu_wanted]
            without_cpu = sum(trial.value is not None and overhead.cost(trial).service_s is None for trial in mine)
            left_out = cell.failed + cell.missing + without_cpu > trial_filter.MAX_LOST * cell.of
            excluded |= {(benchmark, boot)} if left_out else set()
            for host in pair.hosts:
                cells[host, benchmark, arm].append((cell, without_cpu, left_out))
    lost = [
        (host, _lost(benchmark, arm, of_host), cells_lost > _FAILING * len(of_host))
        for (host, benchmark, arm), of_host in cells.items()
        if (cells_lost := sum(left_out for *_, left_out in of_host))
    ]
    return [(pair, trial) for pair, trial in measured if (trial.benchmark, trial.boot) not in excluded], lost


def _lost(benchmark: str, arm: str, cells: Sequence[tuple[trial_filter.Lost, int, bool]]) -> Reason:
    of, failed, missing = (sum(getattr(cell, name) for cell, *_ in cells) for name in ("of", "failed", "missing"))
    without_cpu = sum(without for _, without, _ in cells)
    return trial_filter.Lost(arm, of, failed, 0, missing, frozenset()).reason(
        _C.HOST_LOST_TRIALS,
        benchmark=benchmark,
        count=failed + missing + without_cpu,
        excluded=without_cpu,
        limit=trial_filter.MAX_LOST,
        why=(reason(_C.NO_SERVICE_CPU, arm=arm),) if without_cpu else (),
    )


def _meetings(pair: model.HostPair) -> list[tuple[str, str]]:
    return [(pair.client, pair.server), (pair.server, pair.client)]


def _placed(
    comparison: peer_comparison.Comparison, host: str, figures: Sequence[float], *, slow: bool, **params: object
) -> _Finding:
    """Return what a comparison says of a host, and why.

    :param figures: of its pairs, the best last; :param slow: beside other hosts; False: held against a budget.
    """
    word = comparison.states[host]
    if word is _V.PASS:
        return word, None
    params |= {"low": figures[-1], "high": figures[0], "spread": comparison.spread}
    certain, perhaps = (_C.SLOW, _C.MAYBE_SLOW) if slow else (_C.HOST_BEYOND, _C.HOST_MAYBE_BEYOND)
    return word, Reason(certain if word is _V.FAIL else perhaps, params)


def _failing(findings: Mapping[str, Sequence[_Finding]]) -> set[str]:
    return {host for host, mine in findings.items() if any(word is _V.FAIL for word, _ in mine)}


def _over_all_pairs(
    failing: Collection[str],
    trials: Trials,
    budgets: Sequence[judging.Budget],
    environment: environments.Environment,
) -> Sequence[judging.Judgement]:
    """Judge budgets by the pairs without a host that FAILs; where there are none, by all, to have a judgement."""
    usable = [trial for pair, trial in trials if pair.hosts.isdisjoint(failing)] or [trial for _, trial in trials]
    return judging.judge_all(results.Results(environment, usable), budgets) if usable else ()


def _by_hosts(
    judgements: Sequence[judging.Judgement], trials: Trials
) -> tuple[Sequence[tuple[str, _Finding]], Mapping[str, float]]:
    """Return what to tell of hosts beyond a budget in all their pairs, and what guests reach of bare hosts."""
    findings: list[tuple[str, _Finding]] = []
    of_bare: dict[str, float] = {}
    valid = [judgement for judgement in judgements if judgement.verdict is not _V.INVALID]
    limits = [(entry, *limit) for entry in valid for limit in _limited(entry.budget, trials) if limit[-1]]
    for judgement, figure, limit, of_pair in limits:
        budget, loss = judgement.budget, figure == "loss"
        by = peer_comparison.judge(of_pair, 0.0, len(limits), limit)
        params: dict[str, object] = {name: getattr(budget, name) for name in ("benchmark", "arm", "baseline")}
        params |= {"figure": figure, "unit": judgement.unit}
        params["limit"] = budget.max_loss if loss else budget.max_host_cpu_per_unit
        for host, logs in by.logs.items():
            if loss and budget.baseline == results.HOST:
                of_bare[host] = min(of_bare.get(host, math.inf), math.exp(logs[-1]))
            figures = [-math.expm1(log) if loss else math.exp(-log) for log in logs]
            findings.append((host, _placed(by, host, figures, slow=False, **params)))
    return findings, of_bare


def _limited(budget: judging.Budget, trials: Trials) -> Iterator[tuple[str, float, dict[model.HostPair, float]]]:
    """Yield each figure that a budget limits: its name, its limit, and what pairs have.

    Both are logarithms, turned so that more is better.
    """
    same = [(pair, trial) for pair, trial in trials if trial.benchmark == budget.benchmark]
    mine = [(pair, trial) for pair, trial in same if budget.metric in (None, trial.metric)]
    boots = {trial.boot: pair for pair, trial in mine if trial.arm == budget.arm}
    if budget.max_loss is not None:
        ratios = intervals.log_ratios((trial for _, trial in mine), budget.arm, budget.baseline)
        yield "loss", math.log(1 - budget.max_loss), _of_pairs(boots, ratios)
    if budget.max_host_cpu_per_unit:
        costs = intervals.by_boot((trial for _, trial in mine if trial.arm == budget.arm), _log_cost)
        yield "cpu", -math.log(budget.max_host_cpu_per_unit), _of_pairs(boots, costs)


def _log_cost(trial: results.Trial) -> float | None:
    cost = overhead.per_unit(overhead.cost(trial).service_s, trial)
    return -math.log(cost) if cost is not None and cost > 0 else None


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
) -> Iterator[tuple[str, _Finding]]:
    """Yield what budgets say over all pairs, of the hosts that have no worse verdict already."""
    decided = {host for host, mine in findings.items() if any(word in (_V.FAIL, _V.INVALID) for word, _ in mine)}
    measured: dict[str, set[str]] = collections.defaultdict(set)
    for pair, trial in trials:
        measured[trial.benchmark] |= pair.hosts
    for judgement in judgements:
        benchmark = judgement.budget.benchmark
        # A benchmark that no host has was asked of all of them.
        for host in (measured[benchmark] or findings.keys()) - decided:
            yield host, (_V.PASS, None)
            for word, why in judgement.verdicts_and_reasons:
                if word is not _V.PASS:
                    figure = why.params.get("figure", "")
                    yield host, (word, reason(_C.BUDGET, benchmark=benchmark, figure=figure, why=(why,)))


def _verdict(host: str, findings: Iterable[_Finding], peers: int, measured: int) -> environments.FleetHost:
    """Return the worst of what was found on a host, with every reason; first those that the verdict comes from."""
    ordered = sorted(findings, key=lambda finding: _ORDER.index(finding[0]))
    known = [(word, why) for word, why in ordered if why is not None]
    details = [
        environments.HostDetail(
            word.value, sorted(why.codes), why.params.get("benchmark", ""), why.params.get("figure", "")
        )
        for word, why in known
    ]
    reasons = list(dict.fromkeys(text.of(why) for _, why in known))
    whole = ordered[0][0].value if ordered else None
    return environments.FleetHost(host, whole, reasons, peers, measured, details)
