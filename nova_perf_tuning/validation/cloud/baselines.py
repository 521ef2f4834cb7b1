"""What hosts do without a guest, beside which the guests of a fleet are judged.

``nova-perf validate --launcher host`` (or libvirt) measures that on the host itself; with the former every arm is
the host. Its samples were taken at another time than the guests': each is used once, so that boots and pairs of
guests stay independent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from nova_perf_tuning.nova import host_result
from nova_perf_tuning.validation.cloud import fleet, model
from nova_perf_tuning.validation.measure import model as results
from nova_perf_tuning.validation.measure import store

#: Runs of a host are numbered from here on within a pair, behind those of its guests.
_FIRST_ORDER = 1_000_000


def load(paths: Iterable[str], labels: Collection[str]) -> dict[str, results.Results]:
    """Return host -> what it did without guests, in the order of time.

    :param labels: benchmarks of the run; others are left out.
    :raises InputError: a file cannot be read or is no results file.
    :raises CloudError: a file names no host, or has none of the benchmarks for the host itself.
    """
    found: dict[str, results.Results] = {}
    for path in paths:
        read = store.load(path)
        name = read.environment.get("host")
        if not isinstance(name, str) or not name:
            raise model.CloudError(f"{path}: environment.host is missing: which host was measured?")
        if any(host_result.same_host(name, one) for one in found):
            raise model.CloudError(f"{path}: host {name} has been given already; give one file for each host")
        every_arm = read.environment.get("launcher") == "host"
        mine = [
            dataclasses.replace(one, arm=results.HOST)
            for one in sorted(read.trials, key=lambda one: one.order)
            if (one.arm == results.HOST or every_arm)
            and one.primary
            and one.value is not None
            and one.benchmark in labels
        ]
        if not mine:
            raise model.CloudError(
                f"{path}: nothing of {', '.join(labels)} on the host itself; measure it there with "
                "'nova-perf validate --launcher host' and the same --benchmark options"
            )
        found[name] = dataclasses.replace(read, trials=mine)
    return found


def spread(
    hosts: Mapping[str, results.Results], places: fleet.Places, measured: Iterable[results.Trial]
) -> list[results.Trial]:
    """Return samples of the hosts that guests were measured on, as trials in the boots and blocks of the guests.

    Those of a host are dealt out to all boots of guests on it, benchmark by benchmark.
    """
    boots: dict[tuple[str, str], dict[int, set[int]]] = {}
    for trial in measured if hosts else ():
        if trial.primary:
            of_host = boots.setdefault((places.host(trial), trial.benchmark), {})
            of_host.setdefault(trial.boot, set()).add(trial.block)
    found: list[results.Trial] = []
    for (name, benchmark), blocks_of in boots.items():
        mine = [read.trials for host, read in hosts.items() if host_result.same_host(host, name)]
        samples = [trial for trials in mine for trial in trials if trial.benchmark == benchmark]
        for index, (boot, blocks) in enumerate(blocks_of.items()):
            for block, sample in zip(sorted(blocks), samples[index :: len(blocks_of)], strict=False):
                order = _FIRST_ORDER + len(found)
                found.append(dataclasses.replace(sample, boot=boot, block=block, order=order))
    return found
