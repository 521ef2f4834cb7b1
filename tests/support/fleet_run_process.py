# SPDX-License-Identifier: Apache-2.0
"""``openstack perf validate`` in a process of its own, on a simulated cloud that outlives it.

``python -m tests.support.fleet_run_process URL DIRECTORY SCALE [RUN]`` begins a run, or goes on with one. Stacks
are files in DIRECTORY/stacks, and every begin of a pair is a line in DIRECTORY/log, written at once.
"""

import os
import sys

from nova_perf_tuning.cli import cloud_validate_run
from tests.support import fleet_case
from tests.support import simulated_cloud as simulation

HOSTS, PEERS = 12, 3


class LoggingLauncher(simulation.SimulatedLauncher):
    """Tells a file what it does; the file outlives the process."""

    def __init__(self, directory, scale):
        cloud = simulation.Cloud(faults=0.05, directory=os.path.join(directory, "stacks"))
        super().__init__(cloud, simulation.RealTime(scale))
        self._log = os.open(
            os.path.join(directory, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )

    def measured(self, pair, *rest):
        os.write(self._log, f"begin {pair.client} {pair.server}\n".encode())
        return super().measured(pair, *rest)


def main():
    url, directory, scale, *resumed = sys.argv[1:]
    begun = ("--hosts", "all", "--peers", str(PEERS), "--max-parallel", "4", "--benchmark", "cpu")
    how = ("--resume", *resumed) if resumed else begun
    cloud = fleet_case.SimulatedCloud(count=HOSTS)
    cloud.launcher = lambda _guests: LoggingLauncher(directory, float(scale))
    files = ("--database", url, "--output", os.path.join(directory, "out"))
    return cloud_validate_run.Run(fleet_case.parse(*how, *files), cloud).run()


if __name__ == "__main__":
    sys.exit(main())
