"""Judges the recorded results of a run over many hosts again, host by host, as the run itself did.

What a verdict needs stands in the file: the pairs with their hosts, which hosts were given up, and the trials,
whose group tells the pair and the host (see :mod:`nova_perf_tuning.cloud.fleet_results`).
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import budget_file, reasons, verdict
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.cloud import fleet, model

#: Loss against other hosts from which a host is slow, where the file does not say it.
_MAX_LOSS: Final = 0.15


def judge(
    found: results.Results, budgets: Sequence[budget_file.Budget]
) -> tuple[results.Results, fleet.FleetVerdict]:
    """Return a recorded run with new verdicts in place of those in the file, and these.

    Where budgets have to hold and none is for the run, hosts were only compared with each other: INVALID.

    :param found: whose environment has ``fleet``.
    """
    environment = found.environment
    told = environment["fleet"]
    run = _run(told, environment)
    tasks = {task.number: task for task in run.tasks}
    of_pair: dict[int, list[results.Trial]] = {}
    bare: list[results.Trial] = []
    for trial in found.trials:
        task = tasks.get(trial.group) or tasks.get(trial.group - len(tasks))
        if task is None or not trial.primary:
            continue
        if trial.arm == fleet.BARE and "bare_hosts" in environment:
            bare.append(trial)
        else:
            of_pair.setdefault(task.number, []).append(trial)
    max_loss = float(told.get("max_loss", _MAX_LOSS))
    judged = fleet.judge(run, of_pair, _paired(environment), budgets, environment, max_loss, bare)
    if unmet := unmet_budgets(found, judged, budgets):
        why = reasons.reason(reasons.ReasonCode.NO_BUDGET_APPLIES, text=unmet)
        judged = dataclasses.replace(judged, hosts=tuple(host.invalid(why) for host in judged.hosts))
    whole = judged.whole or verdict.Verdict.INVALID
    told = {**told, "verdict": whole.value, "hosts": [host.as_data() for host in judged.hosts]}
    return dataclasses.replace(found, environment={**environment, "fleet": told}), judged


def unmet_budgets(
    found: results.Results, judged: fleet.FleetVerdict, budgets: Sequence[budget_file.Budget]
) -> str:
    """Return why no budget was for a run although some have to hold; empty: one was, or none has to."""
    if judged.judgements or all(budget.optional for budget in budgets):
        return ""
    return budget_file.why_none(found)


def _run(told: Mapping[str, Any], environment: Mapping[str, Any]) -> model.StoredRun:
    tasks = [
        model.Task(pair["number"], model.HostPair(pair["client"], pair["server"]), pair["state"], pair["attempts"])
        for pair in told["pairs"]
    ]
    scheduled = any(task.pair.client == "" for task in tasks)  # hosts without a name are written as 'any'
    listed = ["" if scheduled and host["host"] == "any" else host["host"] for host in told["hosts"]]
    planned = (name for task in tasks if task.state != "dropped" for name in (task.pair.client, task.pair.server))
    created = datetime.datetime.fromtimestamp(0, datetime.UTC)  # no verdict asks for it
    hosts, out = list(dict.fromkeys([*listed, *planned])), dict(told.get("out", {}))
    return model.StoredRun(told["run"], "done", {}, dict(environment), hosts, out, tasks, created)


def _paired(environment: Mapping[str, Any]) -> dict[str, bool]:
    """Return benchmark -> whether its server takes part; one that is not installed here is missing."""
    kinds = {benchmark.kind: benchmark.paired for benchmark in plugins.load_all()}
    labels = {label: str(one.get("kind", "")) for label, one in environment.get("benchmarks", {}).items()}
    return {label: kinds[kind] for label, kind in labels.items() if kind in kinds}
