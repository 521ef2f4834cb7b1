"""The verdict on every host of a fleet, from budgets and from the comparison with its peers.

A host FAILs when the comparison says that it is bad, or when a budget is broken on its pairs for certain; pairs
whose peer is bad are left out of the latter, since the peer has spoilt them. A host without any result is INVALID,
and so is one too many of whose trials failed or do not count (:mod:`nova_perf_tuning.cloud.spoilt`).

Budgets are judged for each host by its own boots: those of its pairs.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import model as results
from nova_perf_tuning.budget import reasons, text
from nova_perf_tuning.budget import verdict as judging
from nova_perf_tuning.cloud import attribution, cpu_gaps, model, spoilt

#: How the reason of a host begins with which no pair worked.
GIVEN_UP: Final = "given up: "


@dataclasses.dataclass(frozen=True, slots=True)
class HostVerdict:
    """What became of a host.

    :ivar verdict: None when nothing was to be judged: no budget, and too few hosts to compare.
    :ivar reasons: one line each, first those that the verdict comes from.
    :ivar judgements: by the budgets, from its pairs.
    :ivar peers, measured: how many different peers were planned for it, and with how many it has figures.
    """

    host: str
    verdict: judging.Verdict | None
    reasons: tuple[str, ...]
    judgements: tuple[judging.Judgement, ...]
    peers: int
    measured: int

    def as_data(self) -> dict[str, Any]:
        """Return it as ``fleet.hosts`` of a results file has it; ``codes``: why budgets say so."""
        deciding = [one for one in self.judgements if one.verdict is self.verdict]
        return {
            "host": self.host or "any",
            "verdict": self.verdict.value if self.verdict else None,
            "reasons": list(self.reasons),
            "codes": sorted({code for one in deciding for why in one.reasons for code in why.codes}),
            "peers": self.peers,
            "measured": self.measured,
        }


def judge(
    run: model.StoredRun,
    of_pair: Mapping[int, Sequence[results.Trial]],
    paired: Mapping[str, bool],
    budgets: Sequence[judging.Budget],
    findings: Sequence[attribution.Finding],
    environment: Mapping[str, object],
    examined: spoilt.Examined,
) -> list[HostVerdict]:
    """Return the verdict on every host of ``run``, by name.

    :param of_pair: number of a pair -> its trials, whose group is that number, or another where they are of the
        server alone.
    :param paired: benchmark -> whether its server takes part; otherwise only the host is judged that it ran on.
    :param examined: what :func:`nova_perf_tuning.cloud.spoilt.examine` says of the same trials.
    :param findings: of :func:`nova_perf_tuning.cloud.attribution.find` for those of them that count.
    """
    bad = {host for one in findings for host, state in one.states.items() if state is attribution.State.BAD}
    planned: dict[str, set[str]] = collections.defaultdict(set)
    measured: dict[str, set[str]] = collections.defaultdict(set)
    trials: dict[str, list[results.Trial]] = collections.defaultdict(list)
    has_results: set[str] = set()
    for task in run.tasks:
        pair = task.pair
        for host, peer in {pair.client: pair.server, pair.server: pair.client}.items():
            if task.state != "dropped":
                planned[host].add(peer)
            if not of_pair.get(task.number):
                continue
            has_results.add(host)
            mine = _trials_of(host, task, of_pair, paired)
            if any(one.value is not None for one in mine):
                measured[host].add(peer)
            if host in bad or peer == host or peer not in bad:
                trials[host] += mine
    usable: dict[str, results.Results] = {}
    for host in run.hosts:
        left_out = examined.left_out.get(host, set())
        if mine := [one for one in trials[host] if (one.benchmark, one.group) not in left_out]:
            usable[host] = results.Results(environment, spoilt.numbered(mine))
    tasks = {task.number: task for task in run.tasks}
    with_pair = ((pair_of(tasks[number], one), one) for number, some in of_pair.items() for one in some)
    gaps = cpu_gaps.find(with_pair, paired)
    judged = judging.judge_hosts(usable, budgets, gaps)
    found = []
    for host in run.hosts:
        told = _out(run, host, host in has_results) + _spoilt(host, examined) + _compared(host, findings)
        told += _by_budgets(judged.get(host, ()), examined.told.get(host, ()))
        judgements = tuple(judged.get(host, ()))
        told += _cpu_unknown(gaps.get(host, {}), judgements)
        found.append(_verdict(host, told, judgements, len(planned[host]), len(measured[host])))
    return found


def overall(hosts: Iterable[HostVerdict]) -> judging.Verdict | None:
    """Return the verdict on the fleet: the worst of its hosts', None when none has one."""
    verdicts = {one.verdict for one in hosts}
    return next((one for one in _ORDER if one in verdicts), None)


_ORDER: Final = (
    judging.Verdict.FAIL,
    judging.Verdict.INVALID,
    judging.Verdict.INCONCLUSIVE,
    judging.Verdict.PASS,
    None,
)

#: What one part of the judgement says of a host, and why; None: a remark, which decides nothing.
_Told = tuple[judging.Verdict | None, str]


def _verdict(
    host: str, told: Sequence[_Told], judgements: tuple[judging.Judgement, ...], peers: int, measured: int
) -> HostVerdict:
    """Return the worst of what was told of a host; without a reason a part says only that it found nothing."""
    ordered = sorted(told, key=lambda one: _ORDER.index(one[0]))
    whole = ordered[0][0] if ordered else None
    return HostVerdict(host, whole, tuple(why for _, why in ordered if why), judgements, peers, measured)


def _out(run: model.StoredRun, host: str, has_results: bool) -> list[_Told]:
    """Return why a host has no results, or not all."""
    if host in run.out:
        return [(judging.Verdict.INVALID, f"{GIVEN_UP}{run.out[host]}")]
    return [] if has_results else [(judging.Verdict.INVALID, "no pair of it gave a result")]


def _spoilt(host: str, examined: spoilt.Examined) -> list[_Told]:
    """Return what the trials that failed or do not count say of a host."""
    told: list[_Told] = [(judging.Verdict.INVALID, why) for why in examined.invalid.get(host, ())]
    told += [(judging.Verdict.INCONCLUSIVE, why) for why in examined.undecided.get(host, ())]
    return told + [(None, why) for why in examined.remarks.get(host, ())]


def _by_budgets(judgements: Iterable[judging.Judgement], spoilt_benchmarks: Collection[str]) -> list[_Told]:
    """Return what budgets say of a host.

    :param spoilt_benchmarks: those of which has been said already how many trials failed or do not count.
    """
    told: list[_Told] = []
    for one in judgements:
        benchmark = one.budget.benchmark
        if one.verdict is judging.Verdict.PASS:
            told.append((one.verdict, ""))
            continue
        for why in one.reasons:
            again = benchmark in spoilt_benchmarks and why.code is reasons.ReasonCode.TOO_MANY_LOST
            told.append((one.verdict, "" if again else f"{benchmark}: {text.of(why)}"))
    return told


def _cpu_unknown(gaps: Mapping[spoilt.Part, str], judgements: Iterable[judging.Judgement]) -> list[_Told]:
    """Return remarks of pairs whose service CPU no budget took, since the peer's agent tells nothing."""
    told: dict[str, _Told] = {}
    for one in judgements:
        benchmark = one.budget.benchmark
        peers = sorted({peer for (name, _), peer in gaps.items() if name == benchmark})
        if peers and one.budget.max_host_cpu_per_unit is not None:
            why = f"its service CPU is judged without pairs with {spoilt.listed(peers)}, where it is never known"
            told[benchmark] = (None, f"{benchmark}: {why}")
    return list(told.values())


def _compared(host: str, findings: Sequence[attribution.Finding]) -> list[_Told]:
    """Return what the comparison with the other hosts says of one, and why."""
    told: list[_Told] = []
    for one in findings:
        what = f"{one.benchmark} ({one.arm})"
        if one.unfit:
            told.append((None, f"{what}: not compared with other hosts: {one.unfit}"))
        if len(one.states) < attribution.MIN_HOSTS or host not in one.states:
            continue
        state = one.states[host]
        if state is attribution.State.GOOD:
            told.append((judging.Verdict.PASS, ""))
            continue
        losses = one.of(host)
        span = f"{-losses[0]:.0%}" if len(losses) == 1 else f"{-losses[-1]:.0%} to {-losses[0]:.0%}"
        if state is attribution.State.BAD:
            why = f"worse than the other hosts by {span} in all its {len(losses)} pairs"
            told.append((judging.Verdict.FAIL, f"{what}: {why}"))
            continue
        if host in one.uncertain:
            noise = f"the noise of the pairs ({one.noise:.1%})" if math.isfinite(one.noise) else "noise"
            why = f"worse by {span}, which {noise} may explain; measure it with more hosts (--peers)"
        else:
            why = f"worse by {span}, but its peers may be the reason; measure it with others (--peers)"
        told.append((judging.Verdict.INCONCLUSIVE, f"{what}: {why}"))
    return told


def _trials_of(
    host: str,
    task: model.Task,
    of_pair: Mapping[int, Sequence[results.Trial]],
    paired: Mapping[str, bool],
) -> list[results.Trial]:
    return [
        trial
        for trial in of_pair.get(task.number, ())
        if host == measured_on(task, trial) or paired.get(trial.benchmark, True)
    ]


def measured_on(task: model.Task, trial: results.Trial) -> str:
    """Return the host that a trial of a pair ran on; with a peer it began there."""
    return pair_of(task, trial).client


def pair_of(task: model.Task, trial: results.Trial) -> model.HostPair:
    """Return the pair that a trial belongs to, the host that it ran on as the client."""
    pair = task.pair
    return pair if trial.group == task.number else model.HostPair(pair.server, pair.client)


def bad_pairs(findings: Sequence[attribution.Finding]) -> dict[model.HostPair, list[str]]:
    """Return pairs of two good hosts that lost, with the benchmarks and arms in which they did."""
    found: dict[model.HostPair, list[str]] = {}
    for one in findings:
        for pair in one.bad_pairs:
            found.setdefault(pair, []).append(f"{one.benchmark} ({one.arm})")
    return found
