# SPDX-License-Identifier: Apache-2.0
"""A fleet at a glance: what each host and each pair lost against the median host."""

import collections
import math
from collections.abc import Collection
from typing import NamedTuple

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Fleet, FleetHost, FleetPair, PairFigure

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


class HostFigure(NamedTuple):
    """What one host measured in one benchmark and arm, in the best of its pairs.

    :ivar against_median: its share of the figure of the median host; None: not known.
    :ivar loss: against the median host, positive where the host is worse; None: not known.
    :ivar pairs: how many of its pairs have the figure.
    """

    host: str
    benchmark: str
    arm: str
    unit: str
    median: float
    against_median: float | None
    loss: float | None
    pairs: int


def host_figures(results: model.Results) -> list[HostFigure]:
    """Return each figure of each host of a fleet, the largest loss first."""
    fleet = results.environment.fleet or Fleet()
    lower_is_better = _lower_is_better(results)
    found: dict[tuple[str, str, str], list[HostFigure]] = {}
    for pair in fleet.pairs:
        for figure in pair.figures:
            loss = _loss(figure, lower_is_better)
            for name in _hosts_of(figure, pair, results):
                row = HostFigure(
                    name,
                    figure.benchmark,
                    figure.arm,
                    figure.unit,
                    figure.median,
                    figure.against_median,
                    loss,
                    1,
                )
                found.setdefault((name, figure.benchmark, figure.arm), []).append(row)
    rows: list[HostFigure] = []
    for of_pairs in found.values():
        best = min(of_pairs, key=_known_loss)
        rows.append(best._replace(pairs=len(of_pairs)))
    rows.sort(key=lambda row: (-_known_loss(row), row.host, row.benchmark, row.arm))
    return rows


def _known_loss(row: HostFigure) -> float:
    """Return a loss for sorting; what is not known comes after all others."""
    if row.loss is None:
        return -math.inf
    return row.loss


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
    lower_is_better = _lower_is_better(results)
    of_pair: dict[int, float] = {}
    of_host: dict[str, dict[_Figure, list[float]]] = collections.defaultdict(dict)
    for pair in fleet.pairs:
        for figure in pair.figures:
            loss = _loss(figure, lower_is_better)
            if loss is None:
                continue
            of_pair[pair.number] = max(loss, of_pair.get(pair.number, loss))
            for name in _hosts_of(figure, pair, results):
                losses = of_host[name].setdefault((figure.benchmark, figure.arm), [])
                losses.append(loss)
    return of_pair, of_host


def _lower_is_better(results: model.Results) -> set[str]:
    """Return the benchmarks of which less is better."""
    labels: set[str] = set()
    for trial in results.trials:
        if trial.primary and trial.better == "lower":
            labels.add(trial.benchmark)
    return labels


def _loss(figure: PairFigure, lower_is_better: Collection[str]) -> float | None:
    """Return the loss of a figure against the median host; None: not known."""
    ratio = figure.against_median
    if not ratio:
        return None
    if figure.benchmark in lower_is_better:
        return 1 - 1 / ratio
    return 1 - ratio


def _hosts_of(figure: PairFigure, pair: FleetPair, results: model.Results) -> Collection[str]:
    """Return the hosts that a figure is of: both of a pair, unless the benchmark needs no peer."""
    kind = plugins.of_label(figure.benchmark, results.environment.benchmarks)
    if figure.host and kind is not None and not kind.paired:
        return (figure.host,)
    return dict.fromkeys((pair.client, pair.server))
