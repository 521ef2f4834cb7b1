# SPDX-License-Identifier: Apache-2.0
"""Where the agent itself runs: it wakes up all the time, and shall not do so on guests' CPUs."""

import logging
import os
from collections.abc import Set

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import privileged

LOG = logging.getLogger(__name__)


class OwnCpus:
    """Lets this process run on the host's own CPUs only, within those that it was started on."""

    def __init__(self) -> None:
        self._allowed = self._current = frozenset(os.sched_getaffinity(0))

    def follow(self, housekeeping: Set[int]) -> None:
        """Move all threads of this process to these CPUs; none that it may use: to all that it may."""
        wanted = self._allowed & housekeeping or self._allowed
        if wanted == self._current:
            return
        try:
            privileged.move_own_threads(wanted)
        except OSError as error:  # its cpuset has changed, or a CPU has just gone
            LOG.debug("the agent stays where it is: %s", error)
            return
        self._current = wanted
        LOG.info("the agent itself runs on CPUs %s", cpulist.format(wanted))
