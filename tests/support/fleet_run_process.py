# SPDX-License-Identifier: Apache-2.0
"""A controller in a process of its own for :mod:`tests.functional.test_fleet_run_kill`: begins or resumes a run.

``python -m tests.support.fleet_run_process URL DIRECTORY SCALE [RUN]`` prints the run's id when it begins. Stacks
are files in DIRECTORY/stacks, and every begin of a pair is a line in DIRECTORY/log, written at once.
"""

import os
import sys

from nova_perf_tuning.validation.cloud import fleet_run, model, run_store
from nova_perf_tuning.validation.environment import Environment
from tests.support import simulated_cloud as simulation

HOSTS = [f"h{number:02d}" for number in range(12)]
PEERS = 3


class LoggingLauncher(simulation.SimulatedLauncher):
    """Tells a file what it does; the file outlives the process."""

    def __init__(self, directory, scale):
        cloud = simulation.Cloud(faults=0.05, directory=os.path.join(directory, "stacks"))
        super().__init__(cloud, simulation.RealTime(scale))
        self._log = os.open(os.path.join(directory, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def measured(self, pair, *rest):
        os.write(self._log, f"begin {pair.client} {pair.server}\n".encode())
        return super().measured(pair, *rest)


def main():
    url, directory, scale, *resumed = sys.argv[1:]
    store = run_store.RunStore(url)
    if resumed:
        run = store.claim(resumed[0])
    else:
        plan = simulation.fleet_plan(run_store.new_id(), ["cpu"], 3, peers=PEERS, seed=1, max_parallel=4)
        run = store.create(plan, HOSTS, model.schedule(HOSTS, PEERS, 1), Environment())
    launcher = LoggingLauncher(directory, float(scale))
    launcher.cleanup(run.run_id)
    print(run.run_id, flush=True)
    print(fleet_run.FleetRun(store, launcher, run).run(), flush=True)


if __name__ == "__main__":
    main()
