# SPDX-License-Identifier: Apache-2.0
"""Trials as NDJSON, a document a line, for OpenSearch and the like.

Every document has the same keys. Such a store fixes the type of a key by the first document that it sees: figures
are always written as floats, and extra specs, whose names have dots, as a list of texts and not as keys.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.measure import model, reasons

#: Fields of a trial that are figures.
_FIGURES: Final = ("value", "guest_cpu_s", "window_s", "wait_s", "work", "exec_s")
#: Fields that are mappings to figures, with the keys that are written: those that our hosts tell.
_MAPPINGS: Final = {
    "host_cpu_s": ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "softirq"),
    "conditions": (
        *("steal_share", "busy_mhz", "max_mhz", "throttle_events", "sender_packets", "sender_dropped"),
        "clock_step_s",
    ),
}
#: Fields of the environment that dashboards filter by.
_ENVIRONMENT: Final = (
    *("host_group", "flavor", "launcher", "accelerator", "cpu_model", "cpus", "memory_mib", "kernel"),
    *("libvirt", "qemu", "nova_perf_tuning"),
)


def lines(
    results: model.Results,
    excluded: Mapping[tuple[str, str, int], reasons.Reason],
    hosts: Callable[[model.Trial], tuple[str, str | None]],
) -> Iterator[str]:
    """Yield a line of JSON for each trial.

    :param excluded: run -> why it does not count, as :func:`.summary.excluded` has it.
    :param hosts: gives the host that a trial ran on, and the one of its peer if that took part.
    """
    environment = results.environment
    shared: dict[str, Any] = {"@timestamp": environment.began.isoformat(timespec="seconds") + "Z"}
    shared["run"] = environment.fleet.run if environment.fleet else ""
    shared |= {name: getattr(environment, name) for name in _ENVIRONMENT}
    for trial in results.trials:
        host, peer = hosts(trial)
        reason = excluded.get((trial.benchmark, trial.arm, trial.order))
        document = shared | dataclasses.asdict(trial) | {"host": host, "peer": peer}
        del document["course"]  # its CPUs would each be a key
        document["excluded"] = reason and reason.code.value
        run = environment.benchmarks.get(trial.benchmark, environments.Benchmark())
        arm = environment.arms.get(trial.arm, environments.Arm())
        document |= {"parameters": _texts(run.parameters), "request": _texts(arm.request)}
        document |= {name: _float(document[name]) for name in _FIGURES}
        for field, keys in _MAPPINGS.items():
            document[field] = {key: _float(document[field].get(key)) for key in keys}
        named = [environment.created, shared["run"], host, trial.benchmark, trial.metric, trial.arm]
        text = json.dumps([*named, trial.boot, trial.block, trial.order])
        document["id"] = hashlib.sha256(text.encode()).hexdigest()[:32]
        yield json.dumps(document, sort_keys=True, allow_nan=False) + "\n"


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _texts(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(values.items())]
