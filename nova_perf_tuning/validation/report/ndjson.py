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
from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.measure import model, reasons

#: Keys of a trial that are counts; other numbers are figures.
_COUNTS: Final = frozenset({"boot", "block", "order", "cpus", "memory_mib"})
#: Mappings to figures, with the keys that hosts of ours tell; others in a file are left out.
_CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "softirq")
_CONDITIONS: Final = ("steal_share", "busy_mhz", "max_mhz", "throttle_events", "sender_packets", "sender_dropped")
#: Fields of the environment that dashboards filter by.
_ENVIRONMENT: Final = ("host_group", "flavor", "launcher", "accelerator", "cpu_model", "cpus", "memory_mib")
_VERSIONS: Final = ("kernel", "libvirt", "qemu", "nova_perf_tuning")


def lines(
    results: model.Results,
    excluded: Mapping[trial_filter.Run, reasons.Reason],
    hosts: Callable[[model.Trial], tuple[str, str | None]],
) -> Iterator[str]:
    """Yield a line of JSON for each trial.

    :param excluded: run -> why it does not count, as :func:`.summary.excluded` has it.
    :param hosts: gives the host that a trial ran on, and the one of its peer if that took part.
    """
    environment = results.environment
    shared: dict[str, Any] = {name: getattr(environment, name) for name in (*_ENVIRONMENT, *_VERSIONS)}
    shared["@timestamp"] = environment.began.isoformat(timespec="seconds") + "Z"
    shared["run"] = environment.fleet.run if environment.fleet else ""
    for trial in results.trials:
        document = shared | dataclasses.asdict(trial)
        document["host"], document["peer"] = hosts(trial)
        reason = excluded.get(trial_filter.run(trial))
        document["excluded"] = reason and reason.code.value
        parameters = environment.benchmarks.get(trial.benchmark, environments.Benchmark()).parameters
        request = environment.arms.get(trial.arm, environments.Arm()).request
        document["parameters"] = [f"{name}={value}" for name, value in sorted(parameters.items())]
        document["request"] = [f"{name}={value}" for name, value in sorted(request.items())]
        document |= {key: float(value) for key, value in document.items() if _is_figure(key, value)}
        for field, keys in (("host_cpu_s", _CLASSES), ("conditions", _CONDITIONS)):
            known = document[field]
            document[field] = {key: float(known[key]) if key in known else None for key in keys}
        named = ("@timestamp", "run", "host", "benchmark", "metric", "arm", "boot", "block", "order")
        text = json.dumps([document[key] for key in named])
        document["id"] = hashlib.sha256(text.encode()).hexdigest()[:32]
        yield json.dumps(document, sort_keys=True, allow_nan=False) + "\n"


def _is_figure(key: str, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and key not in _COUNTS
