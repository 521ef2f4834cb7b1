# SPDX-License-Identifier: Apache-2.0
"""Trials as NDJSON, a document a line, for OpenSearch and the like.

Every document has the same keys. Such a store fixes the type of a key by the first document that
it sees: figures are always written as floats, and extra specs, whose names have dots, as a list of
texts and not as keys.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.judge.budget import Budget
from nova_perf_tuning.validation.results import model, reasons
from nova_perf_tuning.validation.results.environment import RecordedArm, RecordedBenchmark

#: Keys of a trial that are counts; other numbers are figures.
_COUNTS: Final = frozenset({"boot", "block", "order", "cpus", "memory_mib"})
#: Mappings to figures, with the keys that hosts of ours tell; others in a file are left out.
_CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "softirq")
_CONDITIONS: Final = (
    "steal_share",
    "busy_mhz",
    "max_mhz",
    "throttle_events",
    "sender_packets",
    "sender_dropped",
)
#: Fields of the environment that dashboards filter by.
_ENVIRONMENT: Final = (
    "host_group",
    "flavor",
    "launcher",
    "accelerator",
    "cpu_model",
    "cpus",
    "memory_mib",
)
_VERSIONS: Final = ("kernel", "libvirt", "qemu", "nova_perf_tuning")
#: Keys that a document's id is made of.
_NAMING: Final = (
    "@timestamp",
    "run",
    "host",
    "benchmark",
    "metric",
    "arm",
    "boot",
    "block",
    "order",
)


def lines(
    results: model.Results,
    excluded: Mapping[trial_filter.Run, reasons.Reason],
    hosts: Callable[[model.Trial], tuple[str, str | None]],
    budgets: Sequence[Budget] = (),
) -> Iterator[str]:
    """Yield a line of JSON for each trial.

    :param excluded: run -> why it does not count, as :func:`.summary.excluded` has it.
    :param hosts: gives the host that a trial ran on, and the one of its peer if that took part.
    :param budgets: of the verdict; their absolute limits stand beside the figures.
    """
    limited = grouped(((budget.benchmark, budget.arm), budget) for budget in budgets)
    environment = results.environment
    shared: dict[str, Any] = {}
    for name in (*_ENVIRONMENT, *_VERSIONS):
        shared[name] = getattr(environment, name)
    shared["@timestamp"] = environment.began.isoformat(timespec="seconds") + "Z"
    shared["run"] = ""
    if environment.fleet is not None:
        shared["run"] = environment.fleet.run
    for trial in results.trials:
        document = shared | dataclasses.asdict(trial)
        document["host"], document["peer"] = hosts(trial)
        of_arm = limited.get((trial.benchmark, trial.arm), ())
        document["max_value"], document["min_value"] = _limits(trial, of_arm)
        document["excluded"] = None
        why = excluded.get(trial_filter.run(trial))
        if why is not None:
            document["excluded"] = why.code.value
        benchmark = environment.benchmarks.get(trial.benchmark, RecordedBenchmark())
        document["parameters"] = _pairs(benchmark.parameters)
        arm = environment.arms.get(trial.arm, RecordedArm())
        document["request"] = _pairs(arm.request)
        for key, value in document.items():
            if _is_figure(key, value):
                document[key] = float(value)
        document["host_cpu_s"] = _figures(trial.host_cpu_s, _CLASSES)
        document["conditions"] = _figures(trial.conditions, _CONDITIONS)
        named = [document[key] for key in _NAMING]
        document["id"] = hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]
        yield json.dumps(document, sort_keys=True, allow_nan=False) + "\n"


def _limits(trial: model.Trial, budgets: Sequence[Budget]) -> tuple[float | None, float | None]:
    """Return the largest and the smallest value that budgets allow, in the unit of a trial."""
    most: float | None = None
    least: float | None = None
    for budget in budgets:
        if budget.metric != trial.metric and not (budget.metric is None and trial.primary):
            continue
        for limit in budget.limits:
            number = limit.quantity.within(trial.unit)
            if number is None:
                continue
            if limit.least and (least is None or number > least):
                least = number
            if not limit.least and (most is None or number < most):
                most = number
    return most, least


def _pairs(known: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(known.items())]


def _figures(known: Mapping[str, float], keys: Sequence[str]) -> dict[str, float | None]:
    """Return a value for each of ``keys``, None where it is not known."""
    figures: dict[str, float | None] = dict.fromkeys(keys)
    for key in keys:
        if key in known:
            figures[key] = float(known[key])
    return figures


def _is_figure(key: str, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and key not in _COUNTS
