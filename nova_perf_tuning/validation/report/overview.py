# SPDX-License-Identifier: Apache-2.0
"""A fleet at a glance: what each host and each pair lost against the median host."""

import collections
import math
from typing import NamedTuple

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Fleet, FleetHost, FleetPair

#: Benchmark and arm.
_Figure = tuple[str, str]


class Overview(NamedTuple):
    """Losses are shares; None where there is no figure.

    :ivar hosts: and their losses, the worst first: of each figure that of its best pair, of these
        the worst.
    :ivar pairs: the places of both hosts, a pair and its loss in its worst figure.
    """

    hosts: list[tuple[FleetHost, float | None]]
    pairs: list[tuple[int, int, FleetPair, float | None]]


def overview(results: model.Results) -> Overview:
    """Return the overview of the results of a fleet."""
    fleet = results.environment.fleet or Fleet()
    of_pair, of_host = _losses(results, fleet)
    rows: list[tuple[FleetHost, float | None]] = []
    for host in fleet.hosts:
        best = [min(losses) for losses in of_host.get(host.host, {}).values()]
        rows.append((host, max(best, default=None)))
    rows.sort(key=lambda row: -math.inf if row[1] is None else row[1], reverse=True)
    places: dict[str, int] = {}
    for place, (host, _) in enumerate(rows):
        places[host.host] = place
    cells: list[tuple[int, int, FleetPair, float | None]] = []
    for pair in fleet.pairs:
        if pair.client in places and pair.server in places:
            loss = of_pair.get(pair.number)
            cells.append((places[pair.client], places[pair.server], pair, loss))
    return Overview(rows, cells)


def _losses(
    results: model.Results, fleet: Fleet
) -> tuple[dict[int, float], dict[str, dict[_Figure, list[float]]]]:
    """Return pair -> loss in its worst figure, and host -> figure -> loss in each of its pairs."""
    lower_is_better: set[str] = set()
    for trial in results.trials:
        if trial.primary and trial.better == "lower":
            lower_is_better.add(trial.benchmark)
    of_pair: dict[int, float] = {}
    of_host: dict[str, dict[_Figure, list[float]]] = collections.defaultdict(dict)
    for pair in fleet.pairs:
        for figure in pair.figures:
            ratio = figure.against_median
            if not ratio:
                continue
            loss = 1 - ratio
            if figure.benchmark in lower_is_better:
                loss = 1 - 1 / ratio
            of_pair[pair.number] = max(loss, of_pair.get(pair.number, loss))
            kind = plugins.of_label(figure.benchmark, results.environment.benchmarks)
            hosts = {pair.client, pair.server}
            if figure.host and kind is not None and not kind.paired:
                hosts = {figure.host}
            for name in hosts:
                losses = of_host[name].setdefault((figure.benchmark, figure.arm), [])
                losses.append(loss)
    return of_pair, of_host
