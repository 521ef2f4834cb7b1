"""The noise floor of a host: the smallest loss that its own A/A run cannot tell from none.

In an A/A run both arms are the same, so all that it finds is noise. The floor of a figure is the far end of its
interval, as a loss. A budget tighter than that would judge the noise, and is refused.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning import errors, whole_file
from nova_perf_tuning.budget import counted, model, schema, statistics, store

#: Arms of an A/A run: the first, and the same again.
ARMS = ("untuned", "again")

#: Where a host's floors are kept.
DEFAULT_PATH = "/var/lib/nova-perf-tuning/noise.json"

_MAX_BYTES = 4 * 1024 * 1024

#: Most figures of a benchmark in a floor file; the primary one is the first.
_MAX_METRICS = 100

#: Floors hold only where all of these are the same.
_FINGERPRINT = ("host", "cpu_model", "cpus", "kernel", "launcher", "accelerator", "qemu", "guest")


class NoFloorError(errors.PerfTuningError):
    """An A/A run has too few trials that count for a floor: says how many there are."""


def floors(results: model.Results, confidence: float = 0.95) -> dict[str, dict[str, float]]:
    """Return benchmark -> metric -> floor of an A/A run, of secondary figures where they have one.

    :raises NoFloorError: a primary figure has too few pairs or boots for an interval, or guards reject too many.
    """
    found: dict[str, dict[str, float]] = {}
    of_figure: dict[tuple[str, str], list[model.Trial]] = {}
    for one in sorted(results.trials, key=lambda one: not one.primary):
        of_figure.setdefault((one.benchmark, one.metric), []).append(one)
    for (label, metric), trials in of_figure.items():
        picked = counted.select(results, trials, ARMS[1], ARMS[0])
        if picked.invalid and trials[0].primary:
            raise NoFloorError(f"{label}: {picked.invalid}; measure again without that")
        ratio = None if picked.invalid else statistics.ratio(picked.trials, ARMS[1], ARMS[0], confidence)
        if ratio is None or ratio.low is None or ratio.high is None or ratio.groups < 2:
            if not trials[0].primary:
                continue
            pairs, boots = (ratio.n, ratio.groups) if ratio is not None else (0, 0)
            raise NoFloorError(
                f"{label}: {pairs} pairs of {boots} boots give no noise floor; at least {statistics.MIN_VALUES}"
                " pairs of 2 boots are needed, 4 boots are better"
            )
        mine = found.setdefault(label, {})
        if len(mine) < _MAX_METRICS:
            mine[metric] = 1 - min(ratio.low, 1 / ratio.high)
    return found


def fingerprint(results: model.Results, label: str) -> dict[str, Any]:
    """Return what must be the same for a floor to hold: the host, its software and how the benchmark is run."""
    environment = results.environment
    known = {name: environment[name] for name in _FINGERPRINT if name in environment}
    benchmark = environment.get("benchmarks", {}).get(label, {})
    return {**known, "benchmark": {name: benchmark.get(name) for name in ("kind", "parameters")}}


def before_run(
    entries: Sequence[Mapping[str, Any]], host: Mapping[str, Any], benchmarks: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return an environment with the floors that may hold for a run that has not begun, as far as is known then.

    :param entries: of the floor file; :param host: facts of the host.
    :param benchmarks: label -> ``kind`` and ``parameters``.
    """
    known = {name: host[name] for name in _FINGERPRINT if name in host}
    return _environment(
        {label: _matching(entries, {**known, "benchmark": dict(one)}) for label, one in benchmarks.items()}
    )


def _matching(entries: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries whose fingerprint agrees with all that is known."""
    return [one for one in entries if all(one["fingerprint"].get(name) == value for name, value in known.items())]


def _environment(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what a results' environment says of floors; of several for a benchmark the lowest of each metric."""
    losses: dict[str, dict[str, float]] = {}
    for label, entries in found.items():
        for one in entries:
            for metric, loss in one["losses"].items():
                mine = losses.setdefault(label, {})
                mine[metric] = min(loss, mine.get(metric, loss))
    if not losses:
        return {}
    created = max(str(one["created"]) for entries in found.values() for one in entries)
    return {"noise_floor": {"created": created, "losses": losses}}


def save(results: model.Results, path: str) -> dict[str, dict[str, float]]:
    """Write the floors of an A/A run to ``path`` beside those that other set-ups have there, and return them.

    :raises NoFloorError: the run has none.
    :raises schema.InputError: what is there already cannot be read.
    :raises whole_file.OutputError: somebody else does not end changing it.
    :raises OSError: it cannot be written.
    """
    found = floors(results)
    known = {label: fingerprint(results, label) for label in found}
    created = str(results.environment.get("created", ""))
    new = [
        {"fingerprint": known[label], "benchmark": label, "created": created, "losses": losses}
        for label, losses in found.items()
    ]
    os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
    with whole_file.changing(path):
        kept = [one for one in load(path) if one["fingerprint"] not in known.values()]
        store.write_atomically(path, json.dumps({"schema": 1, "floors": [*kept, *new]}, indent=1) + "\n")
    return found


def check(path: str, *, named: bool) -> list[dict[str, Any]]:
    """Return the entries of a floor file, read once before anything is measured or judged.

    :param named: the user gave it, so that it must be there.
    :raises schema.InputError: it is missing then, or it is no such file.
    """
    if named and not os.path.exists(path):
        raise schema.InputError(
            f"--noise-file {path}: there is no such file; make it with validate --noise-floor, or leave it out"
        )
    return load(path)


def check_writable(path: str) -> None:
    """Find out before an A/A run that its floors cannot be kept.

    :raises schema.InputError: what is there is no such file, or none can be made there.
    :raises whole_file.OutputError: something else than a file is there.
    """
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        whole_file.check(path)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise schema.InputError(
            f"--noise-file {path}: noise floors cannot be kept there: {error.strerror}; give another file"
        ) from None
    load(path)


def load(path: str) -> list[dict[str, Any]]:
    """Return the entries of a floor file, none when there is no such file.

    :raises schema.InputError: it is no such file.
    """
    if not os.path.exists(path):
        return []
    data = schema.load_json(path, _MAX_BYTES)
    schema.check("noise", data, path)
    entries: list[dict[str, Any]] = data["floors"]
    return entries


def for_results(results: model.Results, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what belongs into the environment of ``results``: the floors that hold for them, if there are any.

    :param entries: of the floor file.
    """
    labels = dict.fromkeys(one.benchmark for one in results.trials)
    return _environment({label: _matching(entries, fingerprint(results, label)) for label in labels})


def merged(recorded: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``noise_floor`` of an environment with what results carry and what a file says of them.

    Where both have a floor for a metric the larger counts: a quiet A/A run later or earlier does not make those
    trials quiet which this one was made for.
    """
    known = [one for one in (recorded, found) if one]
    losses: dict[str, dict[str, float]] = {}
    for one in known:
        for label, mine in one["losses"].items():
            both = losses.setdefault(label, {})
            for metric, loss in mine.items():
                both[metric] = max(loss, both.get(metric, loss))
    created = ", ".join(dict.fromkeys(str(one["created"]) for one in known))
    return {"created": created, "losses": losses} if known else {}


#: How a refusal goes on where what was measured is beyond the floor.
BEYOND = "which is beyond that floor"


def floor(environment: Mapping[str, Any], benchmark: str, metric: str) -> float | None:
    """Return the floor of a figure on this host, None where none is known."""
    known = environment.get("noise_floor") or {}
    found: float | None = known.get("losses", {}).get(benchmark, {}).get(metric)
    return found


def refusal(environment: Mapping[str, Any], benchmark: str, metric: str, max_loss: float) -> str:
    """Return why a budget cannot be judged on this host, in words with the figure; empty if it can."""
    least = floor(environment, benchmark, metric)
    if least is None or abs(max_loss) >= least or math.isclose(abs(max_loss), least):
        return ""
    return (
        f"a budget of {max_loss:.1%} is tighter than this host's noise floor of {least:.1%} (A/A run of"
        f" {environment['noise_floor']['created']}); allow more, or measure longer and renew the floor with"
        " validate --noise-floor"
    )


def unknown(environment: Mapping[str, Any], benchmark: str, metric: str) -> str:
    """Return that a figure has no floor where the host has some, in words; empty if it has one, or none has."""
    known = environment.get("noise_floor") or {}
    if not known or metric in known["losses"].get(benchmark, {}):
        return ""
    return (
        f"no noise floor of {benchmark} {metric} is known on this host, so whether the limit is above its noise is"
        " not; validate --noise-floor measures it"
    )
