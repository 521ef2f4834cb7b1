# SPDX-License-Identifier: Apache-2.0
"""Which hosts the trials in the results of a fleet are about."""

from collections.abc import Sequence

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Environment

#: Trials, each with the hosts that it is about: twice the same host where there is one.
Trials = Sequence[tuple[fleet_model.HostPair, model.Trial]]


class Places:
    """Which hosts the trials of a fleet's results are about.

    The number of a pair is the boot of its trials. What ran on the pair's server alone is of
    another boot, that of the server's guest: the number of the pair plus the number of all pairs.

    :ivar boots: boot -> its pair, and the host that its trials ran on; those with a peer began
        there.
    """

    def __init__(self, environment: Environment) -> None:
        """Read the pairs; a benchmark that is not installed counts as one with a server."""
        assert environment.fleet is not None
        self.fleet = environment.fleet
        pairs: dict[int, fleet_model.HostPair] = {}
        for pair in self.fleet.pairs:
            pairs[pair.number] = fleet_model.HostPair(pair.client, pair.server)
        self.boots: dict[int, tuple[fleet_model.HostPair, str]] = {}
        for number, hosts in pairs.items():
            self.boots[number + len(pairs)] = (hosts, hosts.server)
        for number, hosts in pairs.items():
            self.boots[number] = (hosts, hosts.client)
        unpaired_kinds = {
            benchmark.kind for benchmark in plugins.load_all() if not benchmark.paired
        }
        self._unpaired = set()
        for label, run in environment.benchmarks.items():
            if run.kind in unpaired_kinds:
                self._unpaired.add(label)

    def hosts(self, trial: model.Trial) -> fleet_model.HostPair:
        """Return the hosts that a trial is about; without a peer, its own host twice."""
        return self._hosts_of(trial.benchmark, trial.boot)

    def boots_of(self, benchmark: str, number: int) -> list[tuple[int, fleet_model.HostPair]]:
        """Return the boots that a pair has of a benchmark, each with the hosts that it is about."""
        boots = [number]
        if benchmark in self._unpaired:
            boots.append(number + len(self.fleet.pairs))
        return [(boot, self._hosts_of(benchmark, boot)) for boot in boots]

    def _hosts_of(self, benchmark: str, boot: int) -> fleet_model.HostPair:
        pair, host = self.boots[boot]
        if benchmark in self._unpaired:
            return fleet_model.HostPair(host, host)
        return pair

    def ran_on(self, trial: model.Trial) -> tuple[str, str | None]:
        """Return a trial's host, empty if unknown, and the host of its peer if any."""
        if trial.boot not in self.boots:
            return "", None
        pair = self.hosts(trial)
        if pair.server == pair.client:
            return pair.client, None
        return pair.client, pair.server
