# SPDX-License-Identifier: Apache-2.0
"""A fleet at a glance: what each host and each pair lost against the median host."""

import collections
import math
from typing import NamedTuple

from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import model


class Overview(NamedTuple):
    """Losses are shares; None where there is no figure.

    :ivar hosts: and their losses, the worst first: of each figure that of its best pair, of these the worst.
    :ivar pairs: the places of both hosts, a pair and its loss in its worst figure.
    """

    hosts: list[tuple[environments.FleetHost, float | None]]
    pairs: list[tuple[int, int, environments.FleetPair, float | None]]


def overview(results: model.Results) -> Overview:
    """Return it for results of a fleet."""
    fleet, lost = results.environment.fleet or environments.Fleet(), dict[int, float]()
    turned = {trial.benchmark for trial in results.trials if trial.primary and trial.better == "lower"}
    figures: dict[str, dict[tuple[str, str], list[float]]] = collections.defaultdict(dict)
    for pair in fleet.pairs:
        for figure in (figure for figure in pair.figures if figure.against_median):
            ratio = figure.against_median or 1.0
            loss = 1 - (1 / ratio if figure.benchmark in turned else ratio)
            lost[pair.number] = max(loss, lost.get(pair.number, loss))
            kind = plugins.of_label(figure.benchmark, results.environment.benchmarks)
            alone = kind is not None and not kind.paired and figure.host
            for host in [figure.host] if alone else {pair.client, pair.server}:
                figures[host].setdefault((figure.benchmark, figure.arm), []).append(loss)
    worst = {host: max(map(min, mine.values())) for host, mine in figures.items()}
    hosts = [(host, worst.get(host.host)) for host in fleet.hosts]
    hosts.sort(key=lambda known: -math.inf if known[1] is None else known[1], reverse=True)
    places = {host.host: index for index, (host, _) in enumerate(hosts)}
    known = [pair for pair in fleet.pairs if {pair.client, pair.server} <= places.keys()]
    pairs = [(places[pair.client], places[pair.server], pair, lost.get(pair.number)) for pair in known]
    return Overview(hosts, pairs)
