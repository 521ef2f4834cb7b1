# SPDX-License-Identifier: Apache-2.0
"""The verdict as a headline, what it points at, and what to do about it.

What a loss points at follows from which benchmarks lose: work in registers loses only where vCPUs
get less of a CPU, and then everything else loses with it; packets or blocks that lose alone were
held up on their own way.
"""

import dataclasses
from collections.abc import Collection, Sequence, Set

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import more_boots, verdict
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import FleetHost
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C

#: Kind of benchmark -> what it loads, in the order in which one drags the others along.
_RESOURCES = {
    "cpu": "CPU",
    "cyclictest": "scheduling",
    "oslat": "scheduling",
    "timerlat": "scheduling",
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
#: Of work that differs, in files and in runs -> what to do.
_OF_WORK = {
    _C.MIXED_WORKLOADS: _C.JUDGE_ONE_WORKLOAD,
    _C.WORKLOADS_DIFFER: _C.MEASURE_SAME_WORK,
    _C.OTHER_WORKLOAD: _C.MEASURE_SAME_WORK,
}
#: Of what becomes of trials: the report shows it.
_OF_TRIALS = (_C.TOO_MANY_LOST, _C.HOST_LOST_TRIALS, _C.NO_RESULT)


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """:ivar headline: the verdict and its reason; :ivar actions: what to do.

    :ivar culprit: what the verdict points at, such as ``network``, or empty.
    """

    headline: Reason
    culprit: str
    actions: tuple[Reason, ...]


def diagnose(results: model.Results, judged: Sequence[verdict.Judgement]) -> Diagnosis | None:
    """Return what judgements, or of a fleet the verdicts on its hosts, say together.

    None: there are none.
    """
    if results.environment.fleet is not None:
        return _of_fleet(results, results.environment.fleet.hosts)
    if not judged:
        return None
    whole = verdict.overall(judged)
    if whole is verdict.Verdict.PASS and len(judged) > 1:
        return Diagnosis(reason(_C.ALL_MET, count=len(judged)), "", ())
    deciding = [judgement for judgement in judged if judgement.verdict is whole]
    first, culprit = deciding[0], ""
    actions: list[Reason] = []
    if whole is verdict.Verdict.INVALID:
        actions = [_advice(_why(first).codes, files=bool(results.environment.unpaired))]
    elif whole is verdict.Verdict.INCONCLUSIVE:
        actions = [reason(_C.MORE_FILES)]
        if not results.environment.unpaired:
            advice = more_boots.of(deciding, results.environment)
            actions = [reason(_C.MORE_BOOTS, **advice.params())]
    elif whole is verdict.Verdict.FAIL:
        first, culprit, actions = _failed(results, deciding)
    baseline = first.budget.baseline
    if first.budget.is_absolute:
        baseline = ""
    headline = reason(
        _C.JUDGED,
        benchmark=first.budget.benchmark,
        arm=first.budget.arm,
        baseline=baseline,
        verdict=whole.value,
        culprit=culprit,
        why=(_why(first),),
        more=len(deciding) - 1,
        of=len(judged),
    )
    return Diagnosis(headline, culprit, tuple(actions))


def _of_fleet(results: model.Results, hosts: Sequence[FleetHost]) -> Diagnosis | None:
    known = [verdict.Verdict(host.verdict) for host in hosts if host.verdict]
    if not known:
        return None
    whole = verdict.worst(known)
    names: list[str] = []
    example = ""
    codes: set[str] = set()
    lossy: set[str] = set()
    for host in hosts:
        if host.verdict != whole.value:
            continue
        names.append(host.host)
        if host.reasons and not example:
            example = f"{host.host}: {host.reasons[0]}"
        for detail in host.details:
            if detail.verdict == whole.value:
                codes.update(detail.codes)
                if detail.figure != "cpu":
                    lossy.add(_resource(results, detail.benchmark))
    headline = reason(
        _C.HOSTS_JUDGED,
        verdict=whole.value,
        hosts=names,
        of=len(hosts),
        example=example,
        codes=sorted(codes),
    )
    if whole in _OF_FLEETS:
        actions = [reason(_OF_FLEETS[whole])]
    else:
        actions = [_advice(codes)]
    culprit = ""
    if whole is verdict.Verdict.FAIL:
        culprit = _first(lossy)
    if culprit:
        actions.append(_check(culprit))
    return Diagnosis(headline, culprit, tuple(actions))


def _resource(results: model.Results, label: str) -> str:
    """Return what a benchmark loads; empty: it is not known."""
    benchmark = plugins.of_label(label, results.environment.benchmarks)
    if benchmark is None:
        return ""
    return _RESOURCES.get(benchmark.kind, "")


def _check(culprit: str) -> Reason:
    """Return where to look for what holds a resource up."""
    return reason(_C(f"check_{culprit.lower()}"))


def _first(resources: Collection[str]) -> str:
    """Return the resource that drags the others along; empty: there is none."""
    for name in _RESOURCES.values():
        if name in resources:
            return name
    return ""


def _why(judgement: verdict.Judgement) -> Reason:
    return judgement.deciding or judgement.reasons[0]


def _failed(
    results: model.Results, failed: Sequence[verdict.Judgement]
) -> tuple[verdict.Judgement, str, list[Reason]]:
    """Return the broken budget that points at something, at what, and what to do."""
    by_culprit: dict[str, verdict.Judgement] = {}
    for judgement in failed:
        if not judgement.by_cpu:
            culprit = _resource(results, judgement.budget.benchmark)
            by_culprit.setdefault(culprit, judgement)
    if not by_culprit:
        return failed[0], "host CPU", [reason(_C.CHECK_HOST_CPU)]
    culprit = _first(by_culprit)
    first = by_culprit[culprit]
    baseline = first.budget.baseline
    compared = not first.budget.is_absolute
    if compared and baseline == model.HOST and results.environment.accelerator == "tcg":
        return first, "", [reason(_C.JUDGE_UNDER_KVM)]
    actions: list[Reason] = []
    if results.environment.unpaired:
        return first, culprit, [reason(_C.CHECK_WHERE_FILES_COME_FROM, arm=first.budget.arm)]
    if model.HOST == first.budget.arm or results.environment.launcher == "host":
        return first, culprit, [reason(_C.CHECK_HOST, arm=first.budget.arm)]
    if compared and baseline != model.HOST:
        actions.append(reason(_C.ABLATE, arm=first.budget.arm, baseline=baseline))
    if culprit:
        actions.append(_check(culprit))
    else:
        actions.append(reason(_C.MEASURE_PARTS))
    return first, culprit, actions


def _advice(codes: Set[str], *, files: bool = False) -> Reason:
    """Return what to do about what could not be judged, for these reasons.

    :param files: trials were read from files.
    """
    for code, advice in _OF_WORK.items():
        if code in codes:
            return reason(advice)
    if codes.isdisjoint(_OF_TRIALS):
        return reason(_C.CORRECT_BUDGET)
    if files:
        return reason(_C.SEE_FILES)
    return reason(_C.SEE_TRIALS)


def guest_findings(results: model.Results) -> list[str]:
    texts = []
    for name, arm in results.environment.arms.items():
        for finding in arm.findings:
            texts.append(f"{name}: {finding.text}")
    return texts
