"""The verdict on every host of a fleet, from budgets and from the comparison with its peers.

A host FAILs when the comparison says that it is bad, or when a budget is broken on its pairs for certain; pairs
whose peer is bad are left out of the latter, since the peer has spoilt them. A host without any result is INVALID.

Budgets are judged for all hosts together: they are of one kind, and how much boots differ is known from all of
them (:mod:`nova_perf_tuning.budget.pooling`).
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import verdict as judging
from nova_perf_tuning.cloud import attribution, model, stored_run

#: How the reason of a host begins with which no pair worked.
GIVEN_UP: Final = "given up: "


@dataclasses.dataclass(frozen=True, slots=True)
class HostVerdict:
    """What became of a host.

    :ivar verdict: None when nothing was to be judged: no budget, and too few hosts to compare.
    :ivar reasons: one line each. :ivar judgements: by the budgets, from its pairs.
    :ivar peers, measured: how many different peers were planned for it, and with how many it has results.
    """

    host: str
    verdict: judging.Verdict | None
    reasons: tuple[str, ...]
    judgements: tuple[judging.Judgement, ...]
    peers: int
    measured: int

    def as_data(self) -> dict[str, Any]:
        """Return it as ``fleet.hosts`` of a results file has it."""
        return {
            "host": self.host or "any",
            "verdict": self.verdict.value if self.verdict else None,
            "reasons": list(self.reasons),
            "peers": self.peers,
            "measured": self.measured,
        }


def judge(
    run: stored_run.StoredRun,
    of_pair: Mapping[int, Sequence[results.Trial]],
    paired: Mapping[str, bool],
    budgets: Sequence[judging.Budget],
    findings: Sequence[attribution.Finding],
    environment: Mapping[str, object],
) -> list[HostVerdict]:
    """Return the verdict on every host of ``run``, by name.

    :param of_pair: number of a pair -> its trials, whose group is that number, or another where they are of the
        server alone.
    :param paired: benchmark -> whether its server takes part; otherwise only the host is judged that it ran on.
    :param findings: of :func:`nova_perf_tuning.cloud.attribution.find` for the same trials.
    """
    bad = {host for one in findings for host, state in one.states.items() if state is attribution.State.BAD}
    planned: dict[str, set[str]] = collections.defaultdict(set)
    measured: dict[str, set[str]] = collections.defaultdict(set)
    pairs: dict[str, list[stored_run.Task]] = collections.defaultdict(list)
    for task in run.tasks:
        for host, peer in ((task.pair.client, task.pair.server), (task.pair.server, task.pair.client)):
            if task.state != "dropped":
                planned[host].add(peer)
            if of_pair.get(task.number):
                measured[host].add(peer)
                if task not in pairs[host]:
                    pairs[host].append(task)
    usable: dict[str, results.Results] = {}
    for host in run.hosts:
        tasks = [task for task in pairs[host] if host in bad or not _peers(task, host) & bad]
        if mine := [trial for task in tasks for trial in _trials_of(host, task, of_pair, paired)]:
            usable[host] = results.Results(environment, _numbered(mine))
    judged = judging.judge_hosts(usable, budgets)
    return [
        _host(
            run, host, findings, judged.get(host, []), len(planned[host]), len(measured[host]), bool(pairs[host])
        )
        for host in run.hosts
    ]


def overall(hosts: Iterable[HostVerdict]) -> judging.Verdict | None:
    """Return the verdict on the fleet: the worst of its hosts', None when none has one."""
    verdicts = {one.verdict for one in hosts}
    order = (judging.Verdict.FAIL, judging.Verdict.INVALID, judging.Verdict.INCONCLUSIVE, judging.Verdict.PASS)
    return next((one for one in order if one in verdicts), None)


def _host(
    run: stored_run.StoredRun,
    host: str,
    findings: Sequence[attribution.Finding],
    judgements: Sequence[judging.Judgement],
    peers: int,
    measured: int,
    has_results: bool,
) -> HostVerdict:
    verdicts = {one.verdict for one in judgements}
    reasons = [
        f"{one.budget.benchmark}: {reason}"
        for one in judgements
        if one.verdict is not judging.Verdict.PASS
        for reason in one.reasons
    ]
    if host in run.out:
        verdicts.add(judging.Verdict.INVALID)
        reasons.insert(0, f"{GIVEN_UP}{run.out[host]}")
    elif not has_results:
        verdicts.add(judging.Verdict.INVALID)
        reasons.insert(0, "no pair of it gave a result")
    compared, told = _compared(host, findings)
    verdicts |= compared
    reasons = told + reasons
    whole = next((one for one in _ORDER if one in verdicts), None)
    return HostVerdict(host, whole, tuple(reasons), tuple(judgements), peers, measured)


_ORDER = (judging.Verdict.FAIL, judging.Verdict.INVALID, judging.Verdict.INCONCLUSIVE, judging.Verdict.PASS)


def _compared(host: str, findings: Sequence[attribution.Finding]) -> tuple[set[judging.Verdict], list[str]]:
    """Return what the comparison with the other hosts says of one, and why."""
    verdicts, reasons = set(), []
    for one in findings:
        if len(one.states) < attribution.MIN_HOSTS or host not in one.states:
            continue
        state = one.states[host]
        losses = one.of(host)
        span = f"{-losses[0]:.0%}" if len(losses) == 1 else f"{-losses[-1]:.0%} to {-losses[0]:.0%}"
        what = f"{one.benchmark} ({one.arm})"
        if state is attribution.State.BAD:
            verdicts.add(judging.Verdict.FAIL)
            reasons.append(f"{what}: worse than the other hosts by {span} in all its {len(losses)} pairs")
        elif state is attribution.State.UNKNOWN:
            verdicts.add(judging.Verdict.INCONCLUSIVE)
            if host in one.uncertain:
                noise = f"the noise of the pairs ({one.noise:.1%})" if math.isfinite(one.noise) else "noise"
                why = f"which {noise} may explain; measure it with more hosts (--peers)"
                reasons.append(f"{what}: worse by {span}, {why}")
                continue
            reasons.append(
                f"{what}: worse by {span}, but its peers may be the reason; measure it with others (--peers)"
            )
        else:
            verdicts.add(judging.Verdict.PASS)
    return verdicts, reasons


def _trials_of(
    host: str,
    task: stored_run.Task,
    of_pair: Mapping[int, Sequence[results.Trial]],
    paired: Mapping[str, bool],
) -> list[results.Trial]:
    return [
        trial
        for trial in of_pair.get(task.number, ())
        if host == measured_on(task, trial) or paired.get(trial.benchmark, True)
    ]


def _numbered(trials: Iterable[results.Trial]) -> list[results.Trial]:
    """Return trials numbered through: every pair numbers its runs from the same number on, and guards go by it."""
    runs: dict[tuple[int, int], int] = {}
    return [
        dataclasses.replace(one, order=runs.setdefault((one.group, one.order), len(runs)))
        for one in sorted(trials, key=lambda one: (one.group, one.order))
    ]


def measured_on(task: stored_run.Task, trial: results.Trial) -> str:
    """Return the host that a trial of a pair ran on; with a peer it began there."""
    return pair_of(task, trial).client


def pair_of(task: stored_run.Task, trial: results.Trial) -> model.HostPair:
    """Return the pair that a trial belongs to, the host that it ran on as the client."""
    pair = task.pair
    return pair if trial.group == task.number else model.HostPair(pair.server, pair.client)


def _peers(task: stored_run.Task, host: str) -> set[str]:
    return {task.pair.client, task.pair.server} - {host}


def bad_pairs(findings: Sequence[attribution.Finding]) -> dict[model.HostPair, list[str]]:
    """Return pairs of two good hosts that lost, with the benchmarks and arms in which they did."""
    found: dict[model.HostPair, list[str]] = {}
    for one in findings:
        for pair in one.bad_pairs:
            found.setdefault(pair, []).append(f"{one.benchmark} ({one.arm})")
    return found
