# SPDX-License-Identifier: Apache-2.0
"""The noise floor of a host: the smallest loss that its own A/A run cannot tell from none.

In an A/A run both arms are the same, so all that it finds is noise. The floor of a figure is the
far end of its interval, as a loss. A budget tighter than that would judge the noise, and is
refused.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import atomic_write
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.nova import host_result
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import budget_file, statistics, trial_filter
from nova_perf_tuning.validation.measure import host_environment, results_file
from nova_perf_tuning.validation.results import model, reasons, schema
from nova_perf_tuning.validation.results.environment import (
    Environment,
    NoiseFloor,
    RecordedBenchmark,
)
from nova_perf_tuning.validation.results.reasons import reason

_MAX_BYTES: Final = 4 * 1024 * 1024

#: Floors hold only where all of these are the same.
_FINGERPRINT: Final = (
    "host",
    "cpu_model",
    "cpus",
    "kernel",
    "launcher",
    "accelerator",
    "qemu",
    "guest",
)

Entry = Mapping[str, Any]
_C = reasons.ReasonCode


def floors(results: model.Results) -> dict[str, dict[str, float]]:
    """Return benchmark -> metric -> floor of an A/A run, of secondary figures where they have one.

    :raises reasons.ReasonError: a primary figure has too few boots for an interval, or too few
        trials of it count.
    """
    losses: dict[str, dict[str, float]] = {}
    ordered = sorted(results.trials, key=lambda trial: not trial.primary)
    figures = grouped(((trial.benchmark, trial.metric), trial) for trial in ordered)
    first, again = model.AA_ARMS
    gaps = trial_filter.Gaps.of(results.environment)
    accelerator = results.environment.accelerator
    limits = trial_filter.Limits()
    for (label, metric), trials in figures.items():
        judged = trials[0].primary
        figure = trial_filter.Figure.of(trials)
        picked = trial_filter.select_of(figure, gaps, accelerator, again, first, limits)
        if picked.invalid is not None:
            if judged:
                raise reasons.ReasonError(_C.NO_FLOOR, benchmark=label, why=(picked.invalid,))
            continue
        ratio = statistics.ratio_of(statistics.log_ratios(picked.trials, again, first))
        if ratio is not None and ratio.low is not None and ratio.high is not None:
            losses.setdefault(label, {})[metric] = 1 - min(ratio.low, 1 / ratio.high)
        elif judged:
            about = {"benchmark": label, "boots": 0, "needed": statistics.MIN_BOOTS}
            if ratio is not None:
                about["boots"] = ratio.boots
            raise reasons.ReasonError(_C.NO_FLOOR_OF_SO_FEW, **about)
    return losses


def fingerprint(environment: Environment, label: str) -> dict[str, Any]:
    """Return what must be the same for a floor to hold.

    These are the host, its software and how the benchmark is run.
    """
    same: dict[str, Any] = {}
    for name in _FINGERPRINT:
        value = getattr(environment, name)
        if value not in (None, "", {}):
            same[name] = value
    benchmark = environment.benchmarks.get(label, RecordedBenchmark())
    same["benchmark"] = {"kind": benchmark.kind, "parameters": dict(benchmark.parameters)}
    return same


def holding(environment: Environment, entries: Sequence[Entry]) -> NoiseFloor | None:
    """Return the noise floor of a run out of entries of the floor file.

    None: none holds for its benchmarks. A floor holds where its fingerprint agrees with all that
    is known, and always the host: a floor of one says nothing of another. Of several the lowest
    counts: not all is known before a run.
    """
    losses: dict[str, dict[str, float]] = {}
    created = ""
    wanted = {label: fingerprint(environment, label) for label in environment.benchmarks}
    for entry in entries:
        measured = entry["fingerprint"]
        if not host_result.same_host(measured.get("host", ""), environment.host):
            continue
        for label, known in wanted.items():
            others = known.keys() - {"host"}
            if not all(measured.get(name) == known[name] for name in others):
                continue
            created = max(created, str(entry["created"]))
            lowest = losses.setdefault(label, {})
            for metric, loss in entry["losses"].items():
                lowest[metric] = min(loss, lowest.get(metric, loss))
    if not losses:
        return None
    return NoiseFloor(created, losses)


def save(results: model.Results, path: str) -> dict[str, dict[str, float]]:
    """Write the floors of an A/A run to ``path`` and return them.

    Those that other set-ups have there are kept.

    :raises reasons.ReasonError: the run has none.
    :raises schema.InputError: what is there already cannot be read.
    :raises atomic_write.OutputError: another process keeps changing the file.
    :raises OSError: it cannot be written.
    """
    run_floors = floors(results)
    created = results.environment.created
    new: list[Entry] = []
    for label, losses in run_floors.items():
        known = fingerprint(results.environment, label)
        new.append(
            {"fingerprint": known, "benchmark": label, "created": created, "losses": losses},
        )
    replaced = [entry["fingerprint"] for entry in new]
    atomic_write.make_directory(os.path.dirname(path))
    with atomic_write.changing(path):
        kept = [entry for entry in load(path) if entry["fingerprint"] not in replaced]
        document = {"schema": 1, "floors": kept + new}
        results_file.write_atomically(path, json.dumps(document, indent=1) + "\n")
    return run_floors


def check_writable(path: str) -> None:
    """Find out before an A/A run that its floors cannot be kept.

    :raises schema.InputError: what is there is no such file, or none can be made there.
    :raises atomic_write.OutputError: something else than a file is there, or another process keeps
        changing it.
    """
    try:
        atomic_write.make_directory(os.path.dirname(path))
        atomic_write.check(path)
        with atomic_write.changing(path):
            load(path)
    except OSError as error:
        why = f"noise floors cannot be kept there: {error.strerror}"
        raise schema.InputError(f"{path}: {why}") from None


def load(path: str) -> list[Entry]:
    """Return the entries of a floor file, none when there is no such file.

    :raises schema.InputError: it is another file.
    """
    if not os.path.exists(path):
        return []
    data = schema.load_json(path, _MAX_BYTES)
    schema.check("noise", data, path)
    entries: list[Entry] = data["floors"]
    return entries


def refusal(
    known: NoiseFloor | None, benchmark: str, metric: str, max_loss: float | None
) -> reasons.Reason | None:
    """Return why a budget cannot be judged on a host with this noise floor; None if it can."""
    if known is None or max_loss is None:
        return None
    least = known.losses.get(benchmark, {}).get(metric, 0.0)
    if abs(max_loss) >= least or math.isclose(abs(max_loss), least):
        return None
    return reason(_C.BELOW_NOISE_FLOOR, limit=max_loss, floor=least, created=known.created)


def check_budgets(
    budgets: Sequence[budget_file.Budget], jobs: Sequence[plugins.Job], entries: Sequence[Entry]
) -> None:
    """Refuse budgets tighter than the noise floors of this host, before anything is measured.

    :param entries: of the floor file; :raises reasons.ReasonError: a budget is tighter than that.
    """
    primary: dict[str, str] = {}
    planned: dict[str, RecordedBenchmark] = {}
    for job in jobs:
        primary[job.label] = job.benchmark.primary[0]
        planned[job.label] = RecordedBenchmark(job.benchmark.kind, parameters=job.parameters)
    environment = host_environment.read()
    environment.benchmarks = planned
    known = holding(environment, entries)
    for budget in budgets:
        benchmark = budget.benchmark
        metric = budget.metric or primary[benchmark]
        fault = refusal(known, benchmark, metric, budget.max_loss)
        if fault is not None:
            raise reasons.ReasonError(_C.BUDGET, benchmark=benchmark, figure="loss", why=(fault,))
