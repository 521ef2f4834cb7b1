# SPDX-License-Identifier: Apache-2.0
"""The verdict as a headline, what it points at, and what to do about it.

What a loss points at follows from which benchmarks lose: work in registers loses only where vCPUs get less of a
CPU, and then everything else loses with it; packets or blocks that lose alone were held up on their own way.
"""

import dataclasses
from collections.abc import Collection, Sequence, Set

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.environment import FleetHost
from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.measure import model
from nova_perf_tuning.validation.measure.reasons import Reason, reason
from nova_perf_tuning.validation.measure.reasons import ReasonCode as _C

#: Kind of benchmark -> what it loads, in the order in which one drags the others along.
_RESOURCES = {
    "cpu": "CPU",
    "cyclictest": "scheduling",
    "himeno": "memory",
    "memory": "memory",
    "iperf3": "network",
    "netperf": "network",
    "packets": "network",
    "request": "network",
    "connect": "network",
    "fio": "disk",
}

#: Verdict on a fleet -> what to do.
_OF_FLEETS = {
    verdict.Verdict.PASS: _C.PUBLISH,
    verdict.Verdict.FAIL: _C.DISABLE_HOSTS,
    verdict.Verdict.INCONCLUSIVE: _C.MORE_PEERS,
}
#: Of what becomes of trials: the report shows it.
_OF_TRIALS = (_C.TOO_MANY_LOST, _C.HOST_LOST_TRIALS, _C.NO_RESULT)


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """:ivar headline: the verdict and its reason; :ivar culprit: what it points at, such as ``network``, or empty;
    :ivar actions: what to do."""

    headline: Reason
    culprit: str
    actions: tuple[Reason, ...]


def diagnose(results: model.Results, judged: Sequence[verdict.Judgement]) -> Diagnosis | None:
    """Return what judgements, or of a fleet the verdicts on its hosts, say together; None where there is none."""
    if results.environment.fleet is not None:
        return _of_fleet(results, results.environment.fleet.hosts)
    if not judged:
        return None
    whole = verdict.overall(judged)
    deciding = [judgement for judgement in judged if judgement.verdict is whole]
    first, culprit, actions = deciding[0], "", list[Reason]()
    if whole is verdict.Verdict.PASS and len(judged) > 1:
        return Diagnosis(reason(_C.ALL_MET, count=len(judged)), "", ())
    if whole is verdict.Verdict.INVALID:
        actions = [_advice(_why(first).codes)]
    elif whole is verdict.Verdict.INCONCLUSIVE:
        actions = [reason(_C.MORE_BOOTS)]
    elif whole is verdict.Verdict.FAIL:
        first, culprit, actions = _failed(results, deciding)
    about = {"benchmark": first.budget.benchmark, "arm": first.budget.arm, "baseline": first.budget.baseline}
    about |= {"verdict": whole.value, "culprit": culprit}
    headline = reason(_C.JUDGED, **about, why=(_why(first),), more=len(deciding) - 1, of=len(judged))
    return Diagnosis(headline, culprit, tuple(actions))


def _of_fleet(results: model.Results, hosts: Sequence[FleetHost]) -> Diagnosis | None:
    known = [verdict.Verdict(host.verdict) for host in hosts if host.verdict]
    if not known:
        return None
    whole = verdict.worst(known)
    deciding = [host for host in hosts if host.verdict == whole.value]
    example = next((f"{host.host}: {host.reasons[0]}" for host in deciding if host.reasons), "")
    names = [host.host for host in deciding]
    details = [detail for host in deciding for detail in host.details if detail.verdict == whole.value]
    codes = frozenset(code for detail in details for code in detail.codes)
    said = {"hosts": names, "of": len(hosts), "example": example, "codes": sorted(codes)}
    headline = reason(_C.HOSTS_JUDGED, verdict=whole.value, **said)
    actions = [reason(_OF_FLEETS[whole]) if whole in _OF_FLEETS else _advice(codes)]
    lossy = {_resource(results, detail.benchmark) for detail in details if detail.figure != "cpu"}
    culprit = _first(lossy) if whole is verdict.Verdict.FAIL else ""
    actions += [reason(_C(f"check_{culprit.lower()}"))] if culprit else []
    return Diagnosis(headline, culprit, tuple(actions))


def _resource(results: model.Results, label: str) -> str:
    """Return what a benchmark loads; empty: nobody knows."""
    benchmark = plugins.of_label(label, results.environment.benchmarks)
    return _RESOURCES.get(benchmark.kind, "") if benchmark else ""


def _first(resources: Collection[str]) -> str:
    return next((name for name in _RESOURCES.values() if name in resources), "")


def _why(judgement: verdict.Judgement) -> Reason:
    return judgement.deciding or judgement.reasons[0]


def _failed(
    results: model.Results, failed: Sequence[verdict.Judgement]
) -> tuple[verdict.Judgement, str, list[Reason]]:
    """Return the broken budget that points at something, at what, and what to do."""
    lossy = [judgement for judgement in failed if not judgement.by_cpu]
    if not lossy:
        return failed[0], "host CPU", [reason(_C.CHECK_HOST_CPU)]
    by_culprit: dict[str, verdict.Judgement] = {}
    for judgement in lossy:
        by_culprit.setdefault(_resource(results, judgement.budget.benchmark), judgement)
    culprit = _first(by_culprit)
    first = by_culprit[culprit]
    if first.budget.baseline == model.HOST and results.environment.accelerator == "tcg":
        return first, "", [reason(_C.JUDGE_UNDER_KVM)]
    actions = [reason(_C(f"check_{culprit.lower()}") if culprit else _C.MEASURE_PARTS)]
    if first.budget.baseline != model.HOST:
        actions.insert(0, reason(_C.ABLATE, arm=first.budget.arm, baseline=first.budget.baseline))
    return first, culprit, actions


def _advice(codes: Set[str]) -> Reason:
    """Return what to do about what could not be judged, for these reasons."""
    return reason(_C.CORRECT_BUDGET if codes.isdisjoint(_OF_TRIALS) else _C.SEE_TRIALS)


def guest_findings(results: model.Results) -> list[str]:
    arms = results.environment.arms.items()
    return [f"{name}: {finding.text}" for name, arm in arms for finding in arm.findings]
