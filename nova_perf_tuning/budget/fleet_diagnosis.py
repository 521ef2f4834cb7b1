"""The verdict on a fleet in one sentence, what its hosts have in common, and what to do about them.

All is read from ``fleet`` of a results file's environment, where the verdicts and reasons of its hosts stand.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import definitions, diagnosis, reasons, verdict

#: So many hosts are named; a sentence of a thousand names is none.
_NAMED: Final = 5

#: What the reason of a loss says (:mod:`nova_perf_tuning.cloud.fleet`, :func:`wording.limited_loss`).
_LOSSES: Final = ("worse than the other hosts by ", " is beyond a loss of ", " misses the demanded gain of ")

#: In the reason of a loss that was taken back.
_WITHDRAWN: Final = "Holm's correction"

#: How the reason of a host ends whose peers have good trials with others (:mod:`nova_perf_tuning.cloud.spoilt`).
OWN_FAULT: Final = "its peers do better with others"

_V = verdict.Verdict

_KEEP_OFF = (
    "Keep guests off what fails until it is mended: openstack perf publish RESULTS.json --disable-on-fail (with"
    " the --budget and other options of this verdict) takes its traits and its nova-compute out; validate it again"
    " afterwards."
)
_PATHS = "Look at the paths between the pairs that lost although both hosts are good: switches, cables, tunnels."


def diagnose(environment: Mapping[str, Any]) -> diagnosis.Diagnosis | None:
    """Return what the verdicts on the hosts of ``environment["fleet"]`` say together; None where none has one."""
    told = environment["fleet"]
    kinds = {label: definitions.kind(label, environment) for label in environment.get("benchmarks", ())}
    hosts: Sequence[Mapping[str, Any]] = told["hosts"]
    judged = [one for one in hosts if one["verdict"]]
    if not judged:
        return None
    whole = verdict.worst(_V(one["verdict"]) for one in judged)
    deciding = [one for one in judged if one["verdict"] == whole.value]
    if whole is _V.INVALID:
        deciding.sort(key=lambda one: not any(str(reason).endswith(OWN_FAULT) for reason in one["reasons"]))
    culprit = _culprit(deciding, kinds) if whole is _V.FAIL else ""
    actions = _actions(whole, deciding, culprit)
    if told.get("bad_pairs"):
        actions = (*actions, _PATHS)
    return diagnosis.Diagnosis(_sentence(whole, deciding, len(hosts), culprit), culprit, actions)


def _sentence(whole: verdict.Verdict, deciding: Sequence[Mapping[str, Any]], of: int, culprit: str) -> str:
    if whole is _V.PASS:
        if len(deciding) == of:
            return (
                f"PASS: all {of} hosts are as good as asked for."
                if of > 1
                else "PASS: the host is as good as asked for."
            )
        return f"PASS: {len(deciding)} of {of} hosts are as good as asked for; of the others nothing was judged."
    few = len(deciding) == 1
    verbs = {
        _V.FAIL: "fails" if few else "fail",
        _V.INVALID: "cannot be judged",
        _V.INCONCLUSIVE: "is undecided" if few else "are undecided",
    }
    names = ", ".join(str(one["host"]) for one in deciding[:_NAMED])
    more = f" and {len(deciding) - _NAMED} more" if len(deciding) > _NAMED else ""
    reason = next((str(one["reasons"][0]) for one in deciding if one["reasons"]), "")
    first = f" ({deciding[0]['host']}: {reason})" if reason else ""
    points = f" It points at the {culprit}." if culprit else ""
    return f"{whole.value}: {len(deciding)} of {of} hosts {verbs[whole]}: {names}{more}{first}.{points}"


def _actions(whole: verdict.Verdict, deciding: Sequence[Mapping[str, Any]], culprit: str) -> tuple[str, ...]:
    if whole is _V.PASS:
        return (
            "Let the scheduler know: openstack perf publish RESULTS.json, or nova-perf publish on each host"
            " (with the --budget and other options of this verdict).",
        )
    if whole is _V.FAIL:
        return (*diagnosis.actions(culprit), _KEEP_OFF)
    if whole is _V.INVALID:
        lost = [reasons.ReasonCode.TOO_MANY_LOST]  # where the pairs tell it, no budget has to
        known = ({code for code in reasons.ReasonCode if code in (one.get("codes") or lost)} for one in deciding)
        return tuple(dict.fromkeys(map(diagnosis.advice, known)))
    return (
        "Give these hosts more time or more peers (--blocks, --time-limit, --peers), best with --hosts for them"
        " alone and some that pass.",
    )


def _culprit(deciding: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> str:
    """Return what most hosts that fail have lost in; empty where their reasons name no benchmark that is known."""
    found = collections.Counter(_lost([str(reason) for reason in one["reasons"]], kinds) for one in deciding)
    return found.most_common(1)[0][0]


def _lost(told: Sequence[str], kinds: Mapping[str, str]) -> str:
    """Return what the losses of a host point at; reasons begin with the benchmark that they are of."""
    broken = [one for one in told if any(mark in one for mark in _LOSSES) and _WITHDRAWN not in one]
    labels = [label for label in kinds for one in broken if one.startswith((f"{label}: ", f"{label} ("))]
    if broken and not labels:
        return ""
    return diagnosis.resource(kinds[label] for label in labels) if labels else "host CPU"
