"""The verdict on a fleet in one sentence, what its hosts have in common, and what to do about them.

All is read from ``fleet`` of a results file's environment, where the verdicts of its hosts stand with their codes.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import definitions, diagnosis, reasons, verdict

#: So many hosts are named; a sentence of a thousand names is none.
_NAMED: Final = 5

_C = reasons.ReasonCode
_V = verdict.Verdict
_Host = Mapping[str, Any]

_KEEP_OFF = (
    "Keep guests off what fails until it is mended: openstack perf publish RESULTS.json --disable-on-fail (with"
    " the --budget and other options of this verdict) takes its traits and its nova-compute out; validate it again"
    " afterwards."
)


def diagnose(environment: Mapping[str, Any]) -> diagnosis.Diagnosis | None:
    """Return what the verdicts on the hosts of ``environment["fleet"]`` say together; None where none has one."""
    told = environment["fleet"]
    hosts: Sequence[_Host] = told["hosts"]
    judged = [host for host in hosts if host["verdict"]]
    if not judged:
        return None
    whole = verdict.worst(_V(host["verdict"]) for host in judged)
    deciding = [host for host in judged if host["verdict"] == whole.value]
    culprit = _culprit(deciding, environment) if whole is _V.FAIL else ""
    actions = _actions(whole, deciding, culprit)
    return diagnosis.Diagnosis(_sentence(whole, deciding, len(hosts), culprit), culprit, actions)


def _sentence(whole: verdict.Verdict, deciding: Sequence[_Host], of: int, culprit: str) -> str:
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
    names = ", ".join(str(host["host"]) for host in deciding[:_NAMED])
    more = f" and {len(deciding) - _NAMED} more" if len(deciding) > _NAMED else ""
    reason = next((str(host["reasons"][0]) for host in deciding if host["reasons"]), "")
    first = f" ({deciding[0]['host']}: {reason})" if reason else ""
    points = f" It points at the {culprit}." if culprit else ""
    return f"{whole.value}: {len(deciding)} of {of} hosts {verbs[whole]}: {names}{more}{first}.{points}"


def _actions(whole: verdict.Verdict, deciding: Sequence[_Host], culprit: str) -> tuple[str, ...]:
    if whole is _V.PASS:
        return (
            "Let the scheduler know: openstack perf publish RESULTS.json, or nova-perf publish on each host"
            " (with the --budget and other options of this verdict).",
        )
    if whole is _V.FAIL:
        return (*diagnosis.actions(culprit), _KEEP_OFF)
    if whole is _V.INVALID:
        known = ({code for code in _C for one in _deciding(host) if code in one["codes"]} for host in deciding)
        return tuple(dict.fromkeys(map(diagnosis.advice, known)))
    return (
        "Give these hosts more time or more peers (--blocks, --time-limit, --peers), best with --hosts for them"
        " alone and some that pass.",
    )


def _culprit(deciding: Sequence[_Host], environment: Mapping[str, Any]) -> str:
    """Return what most hosts that fail have lost in; empty where that is no benchmark that is known."""
    found = collections.Counter(_lost(host, environment) for host in deciding)
    return found.most_common(1)[0][0]


def _lost(host: _Host, environment: Mapping[str, Any]) -> str:
    """Return what the losses of a host point at."""
    labels = [one["benchmark"] for one in _deciding(host) if one["figure"] != "cpu"]
    if not labels and any(_deciding(host)):
        return "host CPU"
    return diagnosis.resource(definitions.kind(label, environment) for label in labels)


def _deciding(host: _Host) -> Iterator[Mapping[str, Any]]:
    """Yield why a host has its verdict; files of earlier versions do not tell it."""
    return (one for one in host.get("details", ()) if one["verdict"] == host["verdict"])
