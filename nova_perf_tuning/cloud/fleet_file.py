"""Judges the recorded results of a run over many hosts again, host by host, as the run itself did.

What a verdict needs stands in the file: the pairs with their hosts, which hosts were given up, and the trials,
whose group tells the pair and the host (see :mod:`nova_perf_tuning.cloud.fleet_results`). A file of a very large
run has only medians of pairs: by budgets its hosts are INCONCLUSIVE then.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import budget_file, trial_filter, verdict
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.cloud import attribution, bare_hosts, fleet, model, spoilt

#: Loss against other hosts from which a host is bad, where the file does not say it.
_MAX_LOSS = 0.15


def judge(found: results.Results, budgets: Sequence[budget_file.Budget]) -> list[fleet.HostVerdict]:
    """Return the verdict on every host of a recorded run.

    :param found: whose environment has ``fleet``.
    """
    environment = found.environment
    told = environment["fleet"]
    run = _run(told, environment)
    tasks = {task.number: task for task in run.tasks}
    bare = {bare_hosts.ARM} if "bare_hosts" in environment else set()
    of_pair: dict[int, list[results.Trial]] = {}
    measured: list[tuple[model.HostPair, results.Trial]] = []
    for one in found.trials:
        task = tasks.get(one.group) or tasks.get(one.group - len(tasks))
        if task is None or not one.primary:
            continue
        of_pair.setdefault(task.number, []).append(one)
        if one.arm not in bare:
            measured.append((fleet.pair_of(task, one), one))
    paired = _paired(environment)
    examined = spoilt.examine(measured, paired, environment, trial_filter.limits(budgets))
    findings = attribution.find(examined.counting, paired, float(told.get("max_loss", _MAX_LOSS)))
    hosts = fleet.judge(run, of_pair, paired, budgets, findings, environment, examined)
    lacking = _lacking(told, run, of_pair)
    return [_with_fault(one, lacking[one.host]) if one.host in lacking else one for one in hosts]


def judged_again(
    found: results.Results, budgets: Sequence[budget_file.Budget]
) -> tuple[results.Results, list[fleet.HostVerdict]]:
    """Return a recorded run with the verdicts of :func:`judge` in place of those in the file, and these.

    Where budgets have to hold and none is for the run, hosts were only compared with each other: INVALID.
    """
    hosts = judge(found, budgets)
    if why := unmet(found, hosts, budgets):
        hosts = [_with_fault(one, why) for one in hosts]
    whole = fleet.overall(hosts) or verdict.Verdict.INVALID
    told = {**found.environment["fleet"], "verdict": whole.value, "hosts": [one.as_data() for one in hosts]}
    return dataclasses.replace(found, environment={**found.environment, "fleet": told}), hosts


def unmet(
    found: results.Results, hosts: Sequence[fleet.HostVerdict], budgets: Sequence[budget_file.Budget]
) -> str:
    """Return why no budget was for a run although some have to hold; empty: one was, or none has to."""
    if any(one.judgements for one in hosts) or all(one.optional for one in budgets):
        return ""
    return budget_file.why_none(budgets, found)


def _run(told: Mapping[str, Any], environment: Mapping[str, Any]) -> model.StoredRun:
    tasks = [
        model.Task(one["number"], model.HostPair(one["client"], one["server"]), one["state"], one["attempts"])
        for one in told["pairs"]
    ]
    scheduled = any(task.pair.client == "" for task in tasks)  # hosts without a name are written as 'any'
    listed = ["" if scheduled and one["host"] == "any" else one["host"] for one in told["hosts"]]
    out = {
        host: reason.removeprefix(fleet.GIVEN_UP)
        for host, one in zip(listed, told["hosts"], strict=True)
        for reason in one["reasons"]
        if reason.startswith(fleet.GIVEN_UP)
    }
    planned = (name for task in tasks if task.state != "dropped" for name in (task.pair.client, task.pair.server))
    hosts = list(dict.fromkeys([*listed, *planned]))
    created = datetime.datetime.fromtimestamp(0, datetime.UTC)  # no verdict asks for it
    return model.StoredRun(told["run"], "done", {}, dict(environment), hosts, out, tasks, created)


def _lacking(
    told: Mapping[str, Any], run: model.StoredRun, of_pair: Mapping[int, Sequence[results.Trial]]
) -> dict[str, str]:
    """Return host -> what the file ought to have of it and does not."""
    found: dict[str, str] = {}
    for task in run.tasks:
        if task.state == "done" and not of_pair.get(task.number):
            what = f"pair {task.number} ({task.pair.client or 'any'} with {task.pair.server or 'any'}) is done"
            for name in (task.pair.client, task.pair.server):
                found.setdefault(name, f"{what}, but the results have no trial of it")
    for name in run.hosts[len(told["hosts"]) :]:
        found[name] = "it has pairs, but is not among the hosts of the run"
    return found


def _with_fault(host: fleet.HostVerdict, fault: str) -> fleet.HostVerdict:
    """Return a host's verdict, INVALID unless it FAILs anyway."""
    whole = verdict.Verdict.FAIL if host.verdict is verdict.Verdict.FAIL else verdict.Verdict.INVALID
    return dataclasses.replace(host, verdict=whole, reasons=(fault, *host.reasons))


def _paired(environment: Mapping[str, Any]) -> dict[str, bool]:
    """Return benchmark -> whether its server takes part; one that is not installed here is taken for paired."""
    found = {}
    for label, one in environment.get("benchmarks", {}).items():
        try:
            found[label] = plugins.load(str(one.get("kind", ""))).paired
        except plugins.UnknownBenchmarkError:
            found[label] = True
    return found
