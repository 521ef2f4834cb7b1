"""Verdicts of single hosts out of what a validation wrote: of one host, of a run over many, or trials alone."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import budget_file, schema, store, text, verdict
from nova_perf_tuning.budget import model as results_model
from nova_perf_tuning.cloud import fleet, model
from nova_perf_tuning.virt import host_result


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The verdict on each host that a file tells of.

    :ivar recorded: they are those of the file; else its trials were judged now.
    :ivar left_out: budgets that were not judged, a line for each cause.
    """

    hosts: Sequence[host_result.HostResult]
    recorded: bool
    left_out: Sequence[str] = ()


def read(
    path: str,
    budgets: Sequence[verdict.Budget] | None = None,
    name: str = "",
    told: Callable[[results_model.Results], results_model.Results] | None = None,
) -> Found:
    """Return the verdict on each host that a file tells of.

    :param path: the result file of one host, or results of ``nova-perf validate``. Budgets judge their trials, of
        one host and of many; without budgets those of a run over many hosts have the verdicts that the file holds,
        but FAIL where the comparison of hosts gives that now.
    :param name: of ``budgets`` taken together, for the host's trait; empty: they have none.
    :param told: adds to results what is known of their hosts beside them.
    :raises InputError, ResultError, CloudError: unreadable, not of either schema, nothing to be judged by or to
        judge, or an A/A run, in which nothing was tuned.
    """
    data = schema.load_json(path, store.MAX_BYTES)
    if not isinstance(data, dict) or "trials" not in data:
        result = host_result.read(path)
        if result is None:
            raise model.CloudError(f"{path}: it has just been removed")
        if budgets:
            raise model.CloudError(f"{path}: a verdict without trials, which --budget could judge; leave it out")
        return Found([result], recorded=True)
    results = store.from_dict(data, path)
    if text.is_aa(results.environment):
        raise model.CloudError(f"{path}: {_aa(results.environment)}")
    created = _created(results.environment, path)
    many = "fleet" in results.environment
    if many and not budgets:
        return Found(_recorded_fleet(results, created), recorded=True)
    if not budgets:
        raise model.CloudError(f"{path}: these are trials without a verdict; give --budget FILE to judge them by")
    results = told(results) if told is not None else results
    if many:
        return _judged_fleet(results, budgets, name, created)
    host = results.environment.get("host")
    if not isinstance(host, str) or not host:
        raise model.CloudError(f"{path}: environment.host is missing: which host was measured?")
    judged = verdict.judge_all(results, budgets)
    one = _result(host, created, verdict.overall(judged), name if judged else "", _of_bare(judged))
    return Found([one], recorded=False, left_out=verdict.left_out(results, budgets))


def _recorded_fleet(results: results_model.Results, created: datetime.datetime) -> list[host_result.HostResult]:
    """Return the verdicts that a run over many hosts has, but FAIL where its trials show a slow host."""
    _, judged = fleet.judge(results, [])
    slow = {host.host for host in judged.hosts if host.verdict is verdict.Verdict.FAIL}
    words = {host["host"]: host["verdict"] or "INCONCLUSIVE" for host in results.environment["fleet"]["hosts"]}
    return [
        host_result.HostResult(host, created, "FAIL" if host in slow else word, {}) for host, word in words.items()
    ]


def _judged_fleet(
    results: results_model.Results, budgets: Sequence[verdict.Budget], name: str, created: datetime.datetime
) -> Found:
    """Return what budgets, and the comparison of the hosts, say of each host of a run over many.

    :raises CloudError: budgets have to hold, and none is for the run.
    """
    _, judged = fleet.judge(results, budgets)
    left_out = verdict.left_out(results, budgets)
    if why := fleet.unmet_budgets(results, judged.judgements, budgets):
        raise model.CloudError("; ".join([why, *left_out]))
    if not judged.judgements:
        why = budget_file.why_none(results)
        left_out.insert(0, f"{why}; hosts were only compared with each other")
    name = name if judged.judgements else ""
    found = [
        _result(one.host, created, one.verdict or verdict.Verdict.INCONCLUSIVE, name, one.of_bare)
        for one in judged.hosts
    ]
    return Found(found, recorded=False, left_out=left_out)


def _result(
    host: str, created: datetime.datetime, whole: verdict.Verdict, name: str, of_bare: float | None
) -> host_result.HostResult:
    """Return the verdict on a host.

    :param name: of budgets of which some were for it; they earn a trait of their own.
    :param of_bare: what guests reach of the bare host in their worst figure, 0.93; None: not compared with it.
    """
    score = None if of_bare is None else round(100 * min(1.0, max(0.0, of_bare)), 1)
    return host_result.HostResult(host, created, whole.value, {name: whole.value} if name else {}, score=score)


def of_host(found: Sequence[host_result.HostResult], name: str, path: str) -> host_result.HostResult:
    """Return the verdict on one host.

    :raises CloudError: there is none among them.
    """
    for one in found:
        if host_result.same_host(one.host, name):
            return one
    names = ", ".join(one.host for one in found[:10]) + (" …" if len(found) > 10 else "")
    raise model.CloudError(f"{path}: there is no result of host '{name}' in it; there is {names or 'none at all'}")


def _aa(environment: Mapping[str, Any]) -> str:
    if environment.get("launcher") == "host":
        what = "every arm is the host itself (launcher host), so it says nothing about guests"
    else:
        what = "both pairs of guests are untuned (an A/A run), so it says nothing about tuned ones"
    return f"{what}; publish what 'nova-perf validate' measured in guests, without --noise-floor"


def _of_bare(judged: Sequence[verdict.Judgement]) -> float | None:
    losses = (one.loss.value for one in judged if one.budget.baseline == "host" and one.loss is not None)
    return min((1 - loss for loss in losses), default=None)


def _created(environment: Mapping[str, Any], path: str) -> datetime.datetime:
    """Return when the measuring began; a time without zone is UTC, as the database has it."""
    try:
        time = datetime.datetime.fromisoformat(str(environment["created"]))
        return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)
    except (KeyError, ValueError, OverflowError):
        raise model.CloudError(f"{path}: environment.created: no time when this was measured") from None
