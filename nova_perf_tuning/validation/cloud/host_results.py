# SPDX-License-Identifier: Apache-2.0
"""Verdicts of single hosts out of what a validation wrote: of one host, of a run over many, or trials alone."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from nova_perf_tuning import rules
from nova_perf_tuning.nova import host_result
from nova_perf_tuning.validation.cloud import fleet, model
from nova_perf_tuning.validation.environment import Environment
from nova_perf_tuning.validation.judge import budget_file, verdict
from nova_perf_tuning.validation.measure import schema, store
from nova_perf_tuning.validation.measure.reasons import Reason, reason
from nova_perf_tuning.validation.measure.reasons import ReasonCode as _C
from nova_perf_tuning.validation.report import summary


@dataclasses.dataclass(frozen=True, slots=True)
class HostResults:
    """The verdict on each host that a file tells of.

    :ivar recorded: in the file; else judged now. :ivar left_out: why budgets were not judged.
    """

    hosts: Sequence[host_result.HostResult]
    recorded: bool
    left_out: Sequence[Reason] = ()


def read(
    path: str,
    budgets: Sequence[verdict.Budget] | None = None,
    name: str = "",
    places: tuple[str | None, str | None] = (None, None),
) -> HostResults:
    """Return the verdict on each host that a file tells of.

    :param path: the result file of one host, or results of ``nova-perf validate``, whose trials budgets judge.
        Without budgets hosts of a fleet have their recorded verdicts, but FAIL where their comparison gives that.
    :param name: of ``budgets`` taken together, for the host's trait; empty: they have none.
    :param places: host group and flavor, if given.
    :raises InputError, ResultError, CloudError: unreadable, not of either schema, nothing to be judged by or to
        judge, or an A/A run.
    """
    data = schema.load_json(path, store.MAX_BYTES)
    if not isinstance(data, dict) or "trials" not in data:
        if budgets:
            raise model.CloudError(f"{path}: a verdict without trials, which --budget could judge; leave it out")
        result = host_result.read(path)
        return HostResults([result] if result else [], recorded=True)
    results = store.from_dict(data, path)
    if summary.is_aa(results.environment):
        raise model.CloudError(f"{path}: {_aa(results.environment)}")
    created = results.environment.began.replace(tzinfo=datetime.UTC)
    if not created.timestamp():
        raise model.CloudError(f"{path}: environment.created: no time when this was measured")
    many = results.environment.fleet
    if not budgets and not many:
        raise model.CloudError(f"{path}: these are trials without a verdict; give --budget FILE to judge them by")
    results.environment = results.environment.placed(*places)
    left_out = budget_file.left_out(results, budgets) if budgets else []
    of_bare: Mapping[str, float | None]
    if many:
        _, judged = fleet.judge(results, budgets or [])
        judgements, of_bare = judged.judgements, judged.of_bare
        words = {host.host: host.verdict for host in judged.hosts}
        if not budgets:
            slow = {host for host, word in words.items() if word == verdict.Verdict.FAIL}
            words = {host.host: "FAIL" if host.host in slow else host.verdict for host in many.hosts}
            of_bare = {}
        elif not judgements:
            left_out.insert(0, budget_file.why_none(results).noting(reason(_C.ONLY_COMPARED)))
    else:
        host = results.environment.host
        if not host:
            raise model.CloudError(f"{path}: environment.host is missing: which host was measured?")
        judgements = verdict.judge_all(results, budgets or [])
        words, of_bare = {host: verdict.overall(judgements).value}, {host: _of_bare(judgements)}
    hosts = []
    for host, known in words.items():
        word = known or verdict.Verdict.INCONCLUSIVE.value
        named = {name: word} if name and judgements else {}
        share = of_bare.get(host)
        score = None if share is None else round(100 * min(1.0, max(0.0, share)), 1)
        losses = {
            " ".join(filter(None, (budget.benchmark, budget.metric, f"{budget.arm}/{budget.baseline}"))): (
                loss.value,
                budget.max_loss,
            )
            for budget, loss in ((entry.budget, entry.loss) for entry in judgements if not many)
            if loss is not None and budget.max_loss is not None
        }
        hosts.append(host_result.HostResult(host, created, word, named, score, losses))
    return HostResults(hosts, recorded=not budgets, left_out=left_out)


def of_host(hosts: Sequence[host_result.HostResult], name: str, path: str) -> host_result.HostResult:
    """Return the verdict on one host; CloudError: there is none among them."""
    for result in hosts:
        if host_result.same_host(result.host, name):
            return result
    names = rules.named((result.host for result in hosts), 10)
    raise model.CloudError(f"{path}: there is no result of host '{name}' in it; there is {names or 'none at all'}")


def _aa(environment: Environment) -> str:
    if environment.launcher == "host":
        what = "every arm is the host itself (launcher host), so it says nothing about guests"
    else:
        what = "both pairs of guests are untuned (an A/A run), so it says nothing about tuned ones"
    return f"{what}; publish what 'nova-perf validate' measured in guests, without --noise-floor"


def _of_bare(judged: Sequence[verdict.Judgement]) -> float | None:
    """Return what guests reach of the bare host in their worst figure, 0.93; None: not known."""
    losses = (entry.loss.value for entry in judged if entry.budget.baseline == "host" and entry.loss is not None)
    return min((1 - loss for loss in losses), default=None)
