# SPDX-License-Identifier: Apache-2.0
"""Verdicts of single hosts from the files of a validation: of one host, of many, or trials."""

import dataclasses
import datetime
import itertools
from collections.abc import Mapping, Sequence

from nova_perf_tuning import errors, printing, rules
from nova_perf_tuning.nova import host_result
from nova_perf_tuning.validation.judge import budget_file, fleet, run_notes, verdict
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.results import model, schema
from nova_perf_tuning.validation.results.environment import Environment, Fleet
from nova_perf_tuning.validation.results.model import Results
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C


@dataclasses.dataclass(frozen=True, slots=True)
class HostResults:
    """The verdict on each host that a file has results of.

    :ivar recorded: in the file; else judged now. :ivar left_out: budgets that were not judged and
        losses that the file has no room for, and why.
    :ivar notes: on the run; :ivar stopped: why its verdicts are not to be published; empty: they
        may be.
    """

    hosts: Sequence[host_result.HostResult]
    recorded: bool
    left_out: Sequence[Reason] = ()
    notes: Sequence[Reason] = ()
    stopped: str = ""

    def check_publishable(self, path: str) -> None:
        """Refuse the verdicts of a run that was stopped; CloudError: it was."""
        if self.stopped:
            raise errors.CloudError(f"{path}: {self.stopped}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Judged:
    """What budgets say about one host or about each host of a fleet.

    :ivar words: host -> verdict; None: nothing was to be judged.
    :ivar of_bare: host -> what guests reach of the bare host in their worst figure, if known.
    :ivar losses: of a single host: figure -> loss and its limit.
    """

    words: Mapping[str, str | None]
    of_bare: Mapping[str, float | None]
    judgements: Sequence[verdict.Judgement]
    losses: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


def read(
    path: str,
    budgets: Sequence[verdict.Budget] | None = None,
    name: str = "",
    places: tuple[str | None, str | None] = (None, None),
) -> HostResults:
    """Return the verdict on each host that a file has results of.

    :param path: the result file of one host, or results of ``nova-perf validate``, whose trials
        budgets judge. Without budgets hosts of a fleet have their recorded verdicts, but FAIL
        where their comparison gives that.
    :param name: of ``budgets`` taken together, for the host's trait; empty: they have none.
    :param places: host group and flavor, if given.
    :raises InputError, ResultError, CloudError: unreadable, not of either schema, nothing to be
        judged by or to judge, or an A/A run.
    """
    data = schema.load_json(path, results_file.MAX_BYTES)
    if not isinstance(data, dict) or "trials" not in data:
        if budgets:
            raise errors.CloudError(
                f"{path}: a verdict without trials, which --budget could judge; leave it out"
            )
        # Of what was read: a pipe gives it once.
        return HostResults([host_result.from_data(data, path)], recorded=True)
    results = results_file.from_dict(data, path)
    if model.is_aa(results.environment):
        raise errors.CloudError(f"{path}: {_aa(results.environment)}")
    created = results.environment.began.replace(tzinfo=datetime.UTC)
    if not created.timestamp():
        raise errors.CloudError(f"{path}: environment.created: no time when this was measured")
    many = results.environment.fleet
    if not budgets and not many:
        raise errors.CloudError(
            f"{path}: these are trials without a verdict; give --budget FILE to judge them by"
        )
    results.environment = results.environment.placed(*places)

    left_out: list[Reason] = []
    if budgets:
        left_out = budget_file.left_out(results, budgets)
    if many:
        judged = _judged_fleet(results, many, budgets or [])
        if budgets and not judged.judgements:
            left_out.insert(0, budget_file.why_none(results).noting(reason(_C.ONLY_COMPARED)))
    else:
        judged = _judged_host(results, budgets or [], path)
        count = len(judged.losses)
        if count > host_result.MAX_LOSSES:
            kept = itertools.islice(judged.losses.items(), host_result.MAX_LOSSES)
            judged = dataclasses.replace(judged, losses=dict(kept))
            left_out.append(reason(_C.LOSSES_LEFT_OUT, count=host_result.MAX_LOSSES, of=count))
    hosts = [_host_result(host, judged, created, name) for host in judged.words]
    return HostResults(
        hosts,
        recorded=not budgets,
        left_out=left_out,
        notes=run_notes.of(results),
        stopped=_stopped(results.environment),
    )


def _stopped(environment: Environment) -> str:
    """Return why verdicts of a run that was stopped are not published, empty if it was not."""
    if not environment.stopped:
        return ""
    how = printing.one_line(environment.ended, 80)
    advice = "validate again"
    if environment.fleet is not None:
        advice = "go on with the run: openstack perf validate --resume"
    return (
        f"the run ended before its plan and its time limit ({how}), "
        f"so its verdict may depend on when it was stopped; {advice}"
    )


def _judged_fleet(results: Results, recorded: Fleet, budgets: Sequence[verdict.Budget]) -> _Judged:
    """Judge a fleet; without budgets recorded verdicts stay, unless a host is slow."""
    _, judged = fleet.judge(results, budgets)
    words = {host.host: host.verdict for host in judged.hosts}
    if budgets:
        return _Judged(words, judged.of_bare, judged.judgements)
    kept = {}
    for host in recorded.hosts:
        kept[host.host] = host.verdict
        if words.get(host.host) == verdict.Verdict.FAIL:
            kept[host.host] = verdict.Verdict.FAIL.value
    return _Judged(kept, {}, judged.judgements)


def _judged_host(results: Results, budgets: Sequence[verdict.Budget], path: str) -> _Judged:
    host = results.environment.host
    if not host:
        raise errors.CloudError(f"{path}: environment.host is missing: which host was measured?")
    judgements = verdict.judge_all(results, budgets)
    losses = {}
    for judgement in judgements:
        budget, loss = judgement.budget, judgement.loss
        if loss is None or budget.max_loss is None:
            continue
        parts = [budget.benchmark, budget.metric, f"{budget.arm}/{budget.baseline}"]
        figure = " ".join(part for part in parts if part)
        losses[printing.key(figure, host_result.MAX_FIGURE)] = (loss.value, budget.max_loss)
    word = verdict.overall(judgements).value
    return _Judged({host: word}, {host: _of_bare(judgements)}, judgements, losses)


def _host_result(
    host: str, judged: _Judged, created: datetime.datetime, name: str
) -> host_result.HostResult:
    """Return the result of one host; ``name``: of the budgets, empty if they have none."""
    word = judged.words[host] or verdict.Verdict.INCONCLUSIVE.value
    named = {}
    if name and judged.judgements:
        named[name] = word
    share = judged.of_bare.get(host)
    score = None
    if share is not None:
        score = round(100 * min(1.0, max(0.0, share)), 1)
    return host_result.HostResult(host, created, word, named, score, judged.losses)


def of_host(
    hosts: Sequence[host_result.HostResult], name: str, path: str
) -> host_result.HostResult:
    """Return the verdict on one host; CloudError: none among them is its, or several may be."""
    fitting = host_result.matching((result.host for result in hosts), name)
    if len(fitting) > 1:
        raise errors.CloudError(
            f"{path}: host '{name}' may be {rules.named(fitting, 10)}; give one in full"
        )
    for result in hosts:
        if result.host in fitting:
            return result
    names = "there is no result of any host in it"
    if hosts:
        names = f"it has results of {rules.named((result.host for result in hosts), 10)}"
    raise errors.CloudError(f"{path}: there is no result of host '{name}'; {names}")


def _aa(environment: Environment) -> str:
    if environment.launcher == "host":
        what = "every arm is the host itself (launcher host), so it says nothing about guests"
    else:
        what = "both pairs of guests are untuned (an A/A run), so it says nothing about tuned ones"
    return f"{what}; publish what 'nova-perf validate' measured in guests, without --noise-floor"


def _of_bare(judged: Sequence[verdict.Judgement]) -> float | None:
    """Return what guests reach of the bare host in their worst figure, 0.93; None: not known."""
    shares = []
    for judgement in judged:
        if judgement.budget.baseline == "host" and judgement.loss is not None:
            shares.append(1 - judgement.loss.value)
    return min(shares, default=None)
