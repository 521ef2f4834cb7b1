"""The noise floor of a host: the smallest loss that its own A/A run cannot tell from none.

In an A/A run both arms are the same, so all that it finds is noise. The floor of a figure is the far end of its
interval, as a loss. A budget tighter than that would judge the noise, and is refused.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nova_perf_tuning import errors, whole_file
from nova_perf_tuning.budget import counted, model, schema, statistics, store
from nova_perf_tuning.virt import host_result

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

    Of several the lowest: what the others refuse may be allowed once all is known.

    :param entries: of the floor file; :param host: facts of the host.
    :param benchmarks: label -> ``kind`` and ``parameters``.
    """
    known = {name: host[name] for name in _FINGERPRINT if name in host}
    wanted = {label: {**known, "benchmark": dict(one)} for label, one in benchmarks.items()}
    return _alone(_of_hosts(entries, wanted, [host.get("host")], min))


def _of_hosts(
    entries: Iterable[Mapping[str, Any]],
    wanted: Mapping[str, Mapping[str, Any]],
    hosts: Iterable[str | None],
    pick: Callable[[Sequence[float]], float],
) -> dict[str | None, dict[str, Any]]:
    """Return host -> its ``noise_floor``, of the hosts that have one.

    A floor holds where its fingerprint agrees with all that is known. The host has always to agree: a floor of one
    says nothing of another, nor of results that do not tell theirs.

    :param wanted: label -> fingerprint, as far as it is known; of all labels the same is.
    :param hosts: None: a host without a name. :param pick: which of several floors of a metric counts.
    """
    names = sorted({name for one in wanted.values() for name in one} - {"host"})
    labels: dict[str, list[str]] = {}
    for label, known in wanted.items():
        labels.setdefault(_key(known, names), []).append(label)
    places: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for one in entries:
        key = _key(one["fingerprint"], names)
        if key in labels:
            place = places.setdefault(_short(one["fingerprint"].get("host")), {})
            place.setdefault(key, []).append(one)
    found: dict[str | None, dict[str, Any]] = {}
    for host in hosts:
        losses: dict[str, dict[str, float]] = {}
        created = ""
        for key, some in places.get(_short(host), {}).items():
            mine = [one for one in some if _same(one["fingerprint"].get("host"), host)]
            created = max([created, *(str(one["created"]) for one in mine)])
            if floors_of := _picked(mine, pick):
                losses |= dict.fromkeys(labels[key], floors_of)
        if losses:
            found[host] = {"created": created, "losses": losses}
    return found


def _alone(found: Mapping[str | None, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the environment of results of one host; :param found: its floor, if it has one."""
    return {"noise_floor": next(iter(found.values()))} if found else {}


def _key(known: Mapping[str, Any], names: Iterable[str]) -> str:
    return json.dumps([known.get(name) for name in names], sort_keys=True)


def _short(host: object) -> str:
    return host.lower().split(".")[0] if isinstance(host, str) else ""


def _same(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return host_result.same_host(one, other)
    return one is None and other is None


def _picked(entries: Iterable[Mapping[str, Any]], pick: Callable[[Sequence[float]], float]) -> dict[str, float]:
    """Return metric -> the floor that counts."""
    known: dict[str, list[float]] = {}
    for one in entries:
        for metric, loss in one["losses"].items():
            known.setdefault(metric, []).append(loss)
    return {metric: pick(some) for metric, some in known.items()}


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

    Of a run over many hosts it is ``noise_floors``, by host. Where several floors agree with what is known, the
    largest counts: which of them holds is not known.

    :param entries: of the floor file.
    """
    environment = results.environment
    wanted = {one: fingerprint(results, one) for one in dict.fromkeys(one.benchmark for one in results.trials)}
    if "fleet" not in environment:
        return _alone(_of_hosts(entries, wanted, [environment.get("host")], max))
    found = _of_hosts(entries, wanted, hosts_of(environment), max)
    return {"noise_floors": found} if found else {}


def hosts_of(environment: Mapping[str, Any]) -> list[str]:
    """Return the hosts of a run over many."""
    fleet = environment["fleet"]
    paired = (one[end] for one in fleet["pairs"] for end in ("client", "server"))
    return list(dict.fromkeys([*(one["host"] for one in fleet["hosts"]), *paired]))


def added(environment: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an environment has of floors once those found for it are merged into it.

    :param found: as :func:`for_results` returns it.
    """
    both: dict[str, Any] = {}
    if floor := merged(environment.get("noise_floor"), found.get("noise_floor")):
        both["noise_floor"] = floor
    recorded, more = environment.get("noise_floors", {}), found.get("noise_floors", {})
    if names := dict.fromkeys([*recorded, *more]):
        both["noise_floors"] = {host: merged(recorded.get(host), more.get(host)) for host in names}
    return both


def of_host(results: model.Results, host: str) -> model.Results:
    """Return results of one host of a run over many, with the floors of that host as their own."""
    environment = results.environment
    if "noise_floors" not in environment:
        return results
    floor = merged(environment.get("noise_floor"), environment["noise_floors"].get(host))
    return dataclasses.replace(results, environment={**environment, "noise_floor": floor})


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
