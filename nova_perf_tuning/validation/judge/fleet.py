# SPDX-License-Identifier: Apache-2.0
"""The verdict on every host of a fleet, from the comparison with the other hosts and from budgets.

Hosts are of one kind, so a budget is judged over the pairs of all of them, each a boot. A host
FAILs when it is slower than the others (:mod:`.peer_comparison`), or when the figure that a budget
limits is beyond the limit in all its pairs, by more than hosts differ. Pairs with such hosts are
left out of the judgement over all pairs. A host without any result is INVALID, and so is a host
that lost too many trials (:mod:`.lost_trials`). :func:`judge` says in which order this is decided,
and why.
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.judge import (
    budget_file,
    lost_trials,
    peer_comparison,
    quantities,
)
from nova_perf_tuning.validation.judge import statistics as intervals
from nova_perf_tuning.validation.judge.fleet_places import Places, Trials
from nova_perf_tuning.validation.judge.verdict import Budget, Judgement, Verdict, judge_all
from nova_perf_tuning.validation.measure import fleet_model, overhead
from nova_perf_tuning.validation.results import messages, model
from nova_perf_tuning.validation.results.environment import Environment, FleetHost, HostDetail
from nova_perf_tuning.validation.results.reasons import Reason, ReasonCode, reason

_C = ReasonCode
_V = Verdict

#: In place of 0, which has no logarithm.
_LEAST_VALUE: Final = 1e-9
#: Verdicts from the worst to the best.
_ORDER: Final = (_V.FAIL, _V.INVALID, _V.INCONCLUSIVE, _V.PASS)


@dataclasses.dataclass(frozen=True, slots=True)
class FleetVerdict:
    """What a run says; ``whole`` is the worst verdict on any of its hosts, None when none has one.

    :ivar hosts: a host's verdict is None when nothing was to be judged: no budget, and too few
        hosts to compare.
    :ivar of_bare: host -> what guests reach of the bare host in their worst figure, 0.93.
    :ivar comparisons: (benchmark, arm) -> what it says about hosts.
    :ivar judgements: of budgets, over all pairs.
    """

    whole: Verdict | None
    hosts: Sequence[FleetHost]
    of_bare: Mapping[str, float]
    comparisons: Mapping[tuple[str, str], peer_comparison.PeerComparison]
    judgements: Sequence[Judgement]


@dataclasses.dataclass(frozen=True, slots=True)
class _Finding:
    """What one pass says about a host; ``why`` is None where there is nothing to report."""

    verdict: Verdict
    why: Reason | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _LimitedFigure:
    """A figure that a budget limits.

    :ivar name: ``loss``, ``cpu`` or ``value``.
    :ivar limit, of_pairs: its limit, and what pairs have; logarithms, turned so that more is
        better.
    :ivar about: what a reason says of it; :ivar turn: -1 of a value of which less is better.
    """

    judgement: Judgement
    name: str
    limit: float
    of_pairs: Mapping[fleet_model.HostPair, float]
    about: Mapping[str, object]
    turn: int = -1

    def figure(self, log: float) -> float:
        """Return a figure of a pair as people know it."""
        if self.name == "loss":
            return -math.expm1(log)
        return math.exp(self.turn * log)


def judge(
    measured: model.Results, budgets: Sequence[Budget]
) -> tuple[model.Results, FleetVerdict]:
    """Return the results of a fleet with new verdicts in place of those in them, and the verdicts.

    A host gets the worst verdict that any of four passes finds. Each pass needs the one before:

    1. :func:`.lost_trials.screen` leaves out boots that lost too many trials. What is left of such a boot is a
       selection: compared or judged, it would give a wrong verdict on the host and on its peers.
    2. :func:`_slower_than_others` compares hosts with each other. It needs no budget, and a slow
       host makes all its pairs slow: until it is known, a budget would FAIL for its good peers,
       too.
    3. :func:`_beyond_budgets` finds hosts that break a budget in all their pairs. Which budgets
       can be judged at all is found over the pairs without slow hosts.
    4. :func:`_by_budgets` gives the verdict of budgets over all pairs to the hosts that neither
       FAIL nor are INVALID by now. So it comes last, and budgets are judged anew where pass 3
       found hosts.

    A host without any trial is INVALID before. What a host lost counts where no pass found anything
    (``lesser_losses``). Where budgets are required and none is for the run, hosts were only
    compared: they are INVALID.
    """
    environment = measured.environment
    places = Places(environment)
    known = [trial for trial in measured.trials if trial.primary and trial.boot in places.boots]
    guests = [(places.hosts(trial), trial) for trial in known if trial.arm != model.HOST]
    planned = _planned_meetings(places)
    findings: dict[str, list[_Finding]] = {host: [] for host, _ in sorted(planned)}
    for host in findings.keys() - _hosts_with_trials(places, known):
        findings[host].append(_Finding(_V.INVALID, reason(_C.NO_RESULT)))

    kept, losses = lost_trials.screen(guests, places, environment, budgets)
    lesser_losses: dict[str, list[_Finding]] = collections.defaultdict(list)
    for loss in losses:
        finding = _Finding(_V.INVALID, loss.why)
        if loss.mostly:
            findings[loss.host].append(finding)
        else:
            lesser_losses[loss.host].append(finding)
    counting = _with_bare_hosts(kept, known, places)

    comparisons = peer_comparison.compare(kept, places.fleet.max_loss)
    for host, finding in _slower_than_others(comparisons):
        findings[host].append(finding)

    slow = _failing(findings)
    judgements = _over_all_pairs(slow, counting, budgets, environment)
    beyond, of_bare = _beyond_budgets(judgements, counting)
    for host, finding in beyond:
        findings[host].append(finding)

    failing = _failing(findings)
    if failing != slow:
        judgements = _over_all_pairs(failing, counting, budgets, environment)
    for host, finding in _by_budgets(findings, judgements, kept):
        findings[host].append(finding)

    # Whether a budget is for the run does not depend on the trials that were lost.
    applies = judgements or _over_all_pairs(set(), guests, budgets, environment)
    if not applies and not all(budget.optional for budget in budgets):
        for mine in findings.values():
            mine.insert(0, _Finding(_V.INVALID, budget_file.why_none(measured)))
    peers = collections.Counter(host for host, _ in planned)
    peers_measured = collections.Counter(
        host for host, _ in _meetings_with_figures(places, guests)
    )
    hosts = []
    for host, mine in findings.items():
        deciding = mine or lesser_losses[host]
        hosts.append(_verdict(host, deciding, peers[host], peers_measured[host]))
    whole = _worst(hosts)
    word = None
    if whole is not None:
        word = whole.value
    fleet = dataclasses.replace(places.fleet, verdict=word, hosts=hosts)
    changed = dataclasses.replace(
        measured, environment=dataclasses.replace(environment, fleet=fleet)
    )
    return changed, FleetVerdict(whole, hosts, of_bare, comparisons, judgements)


def _worst(hosts: Iterable[FleetHost]) -> Verdict | None:
    verdicts = [_V(host.verdict) for host in hosts if host.verdict]
    return min(verdicts, key=_ORDER.index, default=None)


# -- who met whom


def _meetings(pair: fleet_model.HostPair) -> list[tuple[str, str]]:
    return [(pair.client, pair.server), (pair.server, pair.client)]


def _planned_meetings(places: Places) -> set[tuple[str, str]]:
    """Return every host with each of its peers."""
    planned = set()
    for pair, _ in places.boots.values():
        planned.update(_meetings(pair))
    return planned


def _meetings_with_figures(places: Places, guests: Trials) -> set[tuple[str, str]]:
    """Return every host with each peer with which it has a figure."""
    met = set()
    for about, trial in guests:
        if trial.value is None:
            continue
        pair, _ = places.boots[trial.boot]
        for host, peer in _meetings(pair):
            if host in about.hosts:
                met.add((host, peer))
    return met


def _hosts_with_trials(places: Places, trials: Iterable[model.Trial]) -> set[str]:
    hosts: set[str] = set()
    for trial in trials:
        pair, _ = places.boots[trial.boot]
        hosts |= pair.hosts
    return hosts


def _with_bare_hosts(kept: Trials, known: Iterable[model.Trial], places: Places) -> Trials:
    """Return ``kept``, then trials of bare hosts in the boots that count."""
    boots = {(trial.benchmark, trial.boot) for _, trial in kept}
    counting = list(kept)
    for trial in known:
        if trial.arm == model.HOST and (trial.benchmark, trial.boot) in boots:
            counting.append((places.hosts(trial), trial))
    return counting


# -- passes 2 and 3: hosts that are slow, and hosts that are beyond a budget


def _slower_than_others(
    comparisons: Mapping[tuple[str, str], peer_comparison.PeerComparison],
) -> Iterator[tuple[str, _Finding]]:
    """Yield what the comparison of hosts with each other says about each of them."""
    for (benchmark, arm), comparison in comparisons.items():
        if not comparison.enough:
            continue
        for host, logs in comparison.logs.items():
            losses = [-math.expm1(log - comparison.middle) for log in logs]
            yield (
                host,
                _compared(comparison, host, losses, slow=True, benchmark=benchmark, arm=arm),
            )


def _compared(
    comparison: peer_comparison.PeerComparison,
    host: str,
    figures: Sequence[float],
    *,
    slow: bool,
    **params: object,
) -> _Finding:
    """Return what a comparison says about a host, and why.

    :param figures: those of its pairs, the best last.
    :param slow: it was compared with other hosts; False: with a budget.
    """
    word = comparison.states[host]
    if word is _V.PASS:
        return _Finding(word)
    if slow:
        certain, perhaps = _C.SLOW, _C.MAYBE_SLOW
    else:
        certain, perhaps = _C.HOST_BEYOND, _C.HOST_MAYBE_BEYOND
    code = perhaps
    if word is _V.FAIL:
        code = certain
    params |= {"low": min(figures), "high": max(figures), "spread": comparison.spread}
    return _Finding(word, Reason(code, params))


def _failing(findings: Mapping[str, Sequence[_Finding]]) -> set[str]:
    failing = set()
    for host, mine in findings.items():
        if any(finding.verdict is _V.FAIL for finding in mine):
            failing.add(host)
    return failing


def _over_all_pairs(
    failing: Collection[str],
    trials: Trials,
    budgets: Sequence[Budget],
    environment: Environment,
) -> Sequence[Judgement]:
    """Judge budgets by the pairs without a host that FAILs; by all pairs if none is left."""
    usable = [trial for pair, trial in trials if pair.hosts.isdisjoint(failing)]
    if not usable:
        usable = [trial for _, trial in trials]
    if not usable:
        return ()
    return judge_all(model.Results(environment, usable), budgets)


def _beyond_budgets(
    judgements: Sequence[Judgement], trials: Trials
) -> tuple[Sequence[tuple[str, _Finding]], Mapping[str, float]]:
    """Return findings on hosts beyond a budget, and what guests reach of bare hosts."""
    limits: list[_LimitedFigure] = []
    for judgement in judgements:
        if judgement.verdict is not _V.INVALID:
            limits.extend(_limited_figures(judgement, trials))
    findings: list[tuple[str, _Finding]] = []
    of_bare: dict[str, float] = {}
    for limited in limits:
        budget = limited.judgement.budget
        against_host = limited.name == "loss" and budget.baseline == model.HOST
        comparison = peer_comparison.judge(limited.of_pairs, 0.0, len(limits), limited.limit)
        params: dict[str, object] = {
            "benchmark": budget.benchmark,
            "arm": budget.arm,
            "baseline": budget.baseline,
            "figure": limited.name,
            **limited.about,
        }
        for host, logs in comparison.logs.items():
            figures = [limited.figure(log) for log in logs]
            if against_host:
                of_bare[host] = min(of_bare.get(host, math.inf), math.exp(logs[-1]))
            findings.append((host, _compared(comparison, host, figures, slow=False, **params)))
    return findings, of_bare


def _limited_figures(judgement: Judgement, trials: Trials) -> Iterator[_LimitedFigure]:
    """Yield each figure that the budget of a judgement limits, if any pair has it."""
    budget = judgement.budget
    mine, of_arm = [], []
    boots = {}
    for pair, trial in trials:
        if trial.benchmark != budget.benchmark or budget.metric not in (None, trial.metric):
            continue
        mine.append(trial)
        if trial.arm == budget.arm:
            of_arm.append(trial)
            boots[trial.boot] = pair
    if budget.max_loss is not None:
        ratios = intervals.log_ratios(mine, budget.arm, budget.baseline)
        of_pairs = _of_pairs(boots, ratios)
        if of_pairs:
            about: dict[str, object] = {"unit": judgement.unit, "limit": budget.max_loss}
            yield _LimitedFigure(judgement, "loss", math.log(1 - budget.max_loss), of_pairs, about)
    if budget.max_host_cpu_per_unit:
        of_pairs = _of_pairs(boots, intervals.by_boot(of_arm, _log_cost))
        if of_pairs:
            about = {"unit": judgement.unit, "limit": budget.max_host_cpu_per_unit}
            log = -math.log(budget.max_host_cpu_per_unit)
            yield _LimitedFigure(judgement, "cpu", log, of_pairs, about)
    if of_arm:
        yield from _limited_values(judgement, of_arm, boots)


def _limited_values(
    judgement: Judgement,
    of_arm: Sequence[model.Trial],
    boots: Mapping[int, fleet_model.HostPair],
) -> Iterator[_LimitedFigure]:
    """Yield the figure itself for each absolute limit on it."""
    metric, unit = of_arm[0].metric, of_arm[0].unit
    for limit in judgement.budget.limits:
        number = limit.quantity.within(unit)
        if not number:
            continue
        turn, bound = -1, "max"
        if limit.least:
            turn, bound = 1, "min"
        samples: dict[int, list[float]] = {}
        for trial in of_arm:
            if trial.value is not None:
                log = turn * math.log(max(trial.value, _LEAST_VALUE))
                samples.setdefault(trial.boot, []).append(log)
        if quantities.is_maximum(metric):  # one run breaks the limit
            samples = {boot: [min(logs)] for boot, logs in samples.items()}
        about = {"metric": metric, "unit": unit, "bound": bound, "limit": number}
        about["written"] = limit.quantity.written
        of_pairs = _of_pairs(boots, samples)
        if of_pairs:
            log_limit = turn * math.log(number)
            yield _LimitedFigure(judgement, "value", log_limit, of_pairs, about, turn)


def _log_cost(trial: model.Trial) -> float | None:
    cost = overhead.per_unit(overhead.cost(trial).service_s, trial)
    if cost is None or cost <= 0:
        return None
    return -math.log(cost)


def _of_pairs(
    boots: Mapping[int, fleet_model.HostPair], samples: Mapping[int, Sequence[float]]
) -> dict[fleet_model.HostPair, float]:
    """Return the median of each boot; that of the better boot where a pair has two."""
    medians: dict[fleet_model.HostPair, float] = {}
    for boot, some in samples.items():
        pair = boots[boot]
        medians[pair] = max(statistics.median(some), medians.get(pair, -math.inf))
    return medians


# -- pass 4: budgets over all pairs


def _by_budgets(
    findings: Mapping[str, Sequence[_Finding]],
    judgements: Sequence[Judgement],
    trials: Trials,
) -> Iterator[tuple[str, _Finding]]:
    """Yield what budgets say over all pairs, about the hosts that neither FAIL nor are INVALID."""
    undecided = set()
    for host, mine in findings.items():
        if not any(finding.verdict in (_V.FAIL, _V.INVALID) for finding in mine):
            undecided.add(host)
    measured: dict[str, set[str]] = collections.defaultdict(set)
    for pair, trial in trials:
        measured[trial.benchmark] |= pair.hosts
    for judgement in judgements:
        benchmark = judgement.budget.benchmark
        hosts = undecided
        if measured[benchmark]:  # a benchmark that no host has was wanted of all of them
            hosts = undecided & measured[benchmark]
        for host in hosts:
            yield host, _Finding(_V.PASS)
            for word, why in judgement.verdicts_and_reasons:
                if word is not _V.PASS:
                    figure = why.params.get("figure", "")
                    of_budget = reason(_C.BUDGET, benchmark=benchmark, figure=figure, why=(why,))
                    yield host, _Finding(word, of_budget)


def _verdict(host: str, findings: Iterable[_Finding], peers: int, measured: int) -> FleetHost:
    """Return the worst finding on a host, with every reason; those of the verdict come first."""
    ordered = sorted(findings, key=lambda finding: _ORDER.index(finding.verdict))
    whole = None
    if ordered:
        whole = ordered[0].verdict.value
    details = []
    texts = []
    for finding in ordered:
        why = finding.why
        if why is None:
            continue
        benchmark, figure = why.params.get("benchmark", ""), why.params.get("figure", "")
        details.append(HostDetail(finding.verdict.value, sorted(why.codes), benchmark, figure))
        texts.append(messages.of(why))
    return FleetHost(host, whole, list(dict.fromkeys(texts)), peers, measured, details)
