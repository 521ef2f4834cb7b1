"""The verdict in one sentence, what it points at, and what to do about it.

What a loss points at follows from which benchmarks lose: work in registers loses only where vCPUs get less of a
CPU, and then everything else loses with it; packets or blocks that lose alone were held up on their own way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.environment import FleetHost
from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.measure import model, reasons
from nova_perf_tuning.validation.report import text

_C = reasons.ReasonCode

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

_ACTIONS = {
    "CPU": (
        "Look for a limit on the guests' CPUs: virsh schedinfo DOMAIN (vcpu_quota, cpu_shares) and quota:cpu_* of"
        " the flavor.",
        "Look for other work on their CPUs: nova-perf plan shows what shares a CPU with vCPUs, nova-perf audit"
        " what the host gets wrong.",
    ),
    "scheduling": (
        "Give the vCPUs CPUs of their own (hw:cpu_policy=dedicated) and keep other threads off them: nova-perf"
        " plan shows who shares a CPU with them.",
        "Look for sleep states and interrupts that hold these CPUs up: nova-perf audit.",
    ),
    "memory": (
        "See where the guest's memory lies (numastat -c qemu): on the nodes of its vCPUs (hw:numa_nodes), in huge"
        " pages (hw:mem_page_size=large).",
        "Look for guests that load the memory of the same node.",
    ),
    "network": (
        "Look for a rate limit: tc qdisc show dev TAP, virsh domiftune DOMAIN TAP, quota:vif_* of the flavor, QoS"
        " policies of the port.",
        "Compare queues and offloads inside the guest with what was asked for ('Settings in force' in the"
        " report).",
    ),
    "disk": (
        "Look for a limit: virsh blkdeviotune DOMAIN DISK, quota:disk_* of the flavor.",
        "Compare cache mode, I/O threads and disk queues of the arms ('Settings in force' in the report).",
    ),
    "host CPU": (
        "See which class of CPU the host spends ('Host CPU by class' in the report); nova-perf plan shows where"
        " its threads run.",
    ),
}


_MIXED = (
    "This benchmark loads several things at once: measure --benchmark cpu, --benchmark iperf3 and --benchmark fio"
    " beside it, and see which of them loses as well.",
)

_ENOUGH = "Enough: the budget is met. More tuning may gain more, but nothing asks for it."
_UNDECIDED = (
    "Give it more time (--time-limit, --boots): boots are added until the verdict is certain.",
    "Stop other work on the host, which makes trials unlike each other; nova-perf validate --noise-floor"
    " tells what this host can tell apart.",
)
#: Verdict on a fleet -> what to do.
_OF_FLEETS = {
    verdict.Verdict.PASS: (
        "Let the scheduler know: openstack perf publish RESULTS.json, or nova-perf publish on each host (with the"
        " --budget and other options of this verdict)."
    ),
    verdict.Verdict.FAIL: (
        "Keep guests off what fails until it is mended: openstack perf publish RESULTS.json --disable-on-fail"
        " (with the --budget and other options of this verdict) takes its traits and nova-compute out; validate"
        " it again afterwards."
    ),
    verdict.Verdict.INCONCLUSIVE: (
        "Give these hosts more time or more peers (--blocks, --time-limit, --peers), best with --hosts for them"
        " alone and some that pass."
    ),
}
_EMULATED = (
    "Nothing is wrong with these guests for it: beside the host the emulator itself is measured. Judge them under"
    " KVM, or one arm against another."
)

_FREQUENCY = (
    "Fix the CPUs' frequency while measuring: cpupower frequency-set -g performance, no other power profile."
)
_COUNTERS = "Measure where the host's CPU can be counted, or judge by a budget without max_host_cpu_per_unit."
#: Why a budget cannot be judged, or why too many trials do not count -> what to do, where the reason does not
#: say it itself; the first that fits.
_ADVICE = {
    **dict.fromkeys((*reasons.CONTRADICTIONS, _C.NO_SERVICE_CPU, _C.LITTLE_SERVICE_CPU), _COUNTERS),
    _C.STEAL: (
        "Ask for a quieter machine: this host is a guest whose CPUs others take. To judge it all the same, allow"
        " more in the budget file (guards: max_steal)."
    ),
    _C.WAITING_VCPUS: (
        "Take other work off the guests' CPUs, or give them CPUs of their own (hw:cpu_policy=dedicated), and"
        " measure again."
    ),
    _C.THROTTLING: (
        "Look at cooling and power limits of the host (dmesg, turbostat), and measure again when it is cool."
    ),
    _C.FREQUENCY_LIMIT: _FREQUENCY,
    _C.FREQUENCY_GAP: _FREQUENCY,
    **dict.fromkeys(
        (_C.TOO_MANY_LOST, _C.HOST_LOST_TRIALS, _C.NO_RESULT),
        "See what became of these trials in the report, remove the cause and measure again.",
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """:ivar sentence: the verdict and its reason; :ivar culprit: ``CPU``, ``network``, ``disk``, ``host CPU`` or
    empty; :ivar actions: what to do, a sentence each."""

    sentence: str
    culprit: str
    actions: tuple[str, ...]


def diagnose(results: model.Results, judged: Sequence[verdict.Judgement]) -> Diagnosis | None:
    """Return what judgements, of a fleet the verdicts on its hosts, say together; None where there is none."""
    if results.environment.fleet is not None:
        return _of_fleet(results.environment.fleet.hosts)
    if not judged:
        return None
    whole = verdict.overall(judged)
    deciding = [judgement for judgement in judged if judgement.verdict is whole]
    if whole is verdict.Verdict.FAIL:
        return _failed(results, deciding, len(judged))
    first, sentence = deciding[0], _sentence(deciding[0], deciding, len(judged))
    if whole is verdict.Verdict.PASS:
        met = f"all {len(judged)} budgets are met" if len(judged) > 1 else f"the budget is met; {_told(first)}"
        return Diagnosis(f"PASS: {met}.", "", (_ENOUGH,))
    if whole is verdict.Verdict.INVALID:
        return Diagnosis(sentence, "", (advice((first.deciding or first.reasons[-1]).codes),))
    return Diagnosis(sentence, "", _UNDECIDED)


def _of_fleet(hosts: Sequence[FleetHost]) -> Diagnosis | None:
    known = [verdict.Verdict(host.verdict) for host in hosts if host.verdict]
    if not known:
        return None
    whole = verdict.worst(known)
    deciding = [host for host in hosts if host.verdict == whole.value]
    count = f"{len(deciding)} of {len(hosts)} hosts"
    if whole is verdict.Verdict.PASS:
        return Diagnosis(f"PASS: {count} are as good as asked for.", "", (_OF_FLEETS[whole],))
    why = next((f" ({host.host}: {host.reasons[0]})" for host in deciding if host.reasons), "")
    told = [detail for host in deciding for detail in host.details if detail.verdict == whole.value]
    action = _OF_FLEETS.get(whole) or advice([code for detail in told for code in detail.codes])
    names = text.listed(host.host for host in deciding)
    return Diagnosis(f"{whole.value}: {count}: {names}{why}.", "", (action,))


def _sentence(first: verdict.Judgement, deciding: Sequence[verdict.Judgement], of: int) -> str:
    more = f" (and {len(deciding) - 1} more of {of} budgets)" if len(deciding) > 1 else ""
    return f"{first.verdict.value}: {_told(first)}{more}."


def _told(one: verdict.Judgement) -> str:
    """Return the figure that decided, or why none did."""
    budget, why = one.budget, one.deciding or one.reasons[0]
    return f"{budget.arm} against {budget.baseline} in {budget.benchmark}: {text.of(why)}"


def _failed(results: model.Results, failed: Sequence[verdict.Judgement], of: int) -> Diagnosis:
    """Return what broken budgets point at; the sentence is of the one that points there."""
    lossy = [judgement for judgement in failed if not judgement.by_cpu]
    benchmarks = [
        plugins.of_label(judgement.budget.benchmark, results.environment.benchmarks) for judgement in lossy
    ]
    kinds = [benchmark.kind if benchmark is not None else "" for benchmark in benchmarks]
    named = {_RESOURCES.get(kind, ""): one for kind, one in reversed([*zip(kinds, lossy, strict=True)])}
    culprit = next((name for name in _RESOURCES.values() if name in named), "") if lossy else "host CPU"
    first = named.get(culprit, failed[0])
    sentence = _sentence(first, failed, of)
    if lossy and first.budget.baseline == "host" and results.environment.accelerator == "tcg":
        return Diagnosis(f"{sentence} The guests are emulated.", "", (_EMULATED,))
    advised = _ACTIONS.get(culprit, _MIXED)
    if lossy and first.budget.baseline != "host":
        advised = (
            f"'{first.budget.arm}' and '{first.budget.baseline}' are guests of one host, which differ in what"
            " was asked for: leave a spec out and measure again; nova-perf validate --ablation finds the one that"
            " costs.",
            *advised,
        )
    return Diagnosis(f"{sentence}{f' It points at the {culprit}.' if culprit else ''}", culprit, advised)


def advice(codes: Collection[str]) -> str:
    """Return what to do about what could not be judged, for these reasons."""
    usual = "Correct the budget, or mend what is named and measure again."
    return next((told for code, told in _ADVICE.items() if code in codes), usual)


def spoilt(results: model.Results) -> list[str]:
    """Return where guests are not what was asked for, a line each."""
    return [
        f"{name}: {finding.text}" for name, arm in results.environment.arms.items() for finding in arm.findings
    ]
