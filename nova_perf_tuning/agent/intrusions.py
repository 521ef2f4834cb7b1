# SPDX-License-Identifier: Apache-2.0
"""How often work of the host reached guests' CPUs since the agent's metrics were first read.

Two files of /proc are read, at most once a minute, and so seldom that it takes a four-thousandth of
a CPU: on a large host the kernel formats a million counters for them. None is read while no guest
has CPUs of its own.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from nova_perf_tuning.host.interference import counters, tables, window
from nova_perf_tuning.host.interference.tables import CounterChanges
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.channels import Channel

#: Seconds from one reading to the next at least, and as a multiple of the CPU time that one takes;
#: in between the figures stay.
LEAST_S: Final = 60.0
LEAST_MULTIPLE: Final = 4000
#: What the two files know; each has a figure from the beginning.
CHANNELS: Final = (
    Channel.INTERRUPTS,
    Channel.RPS,
    Channel.TICK_AND_TIMERS,
    Channel.WATCHDOGS,
    Channel.PROCESSOR_INTERRUPTS,
    Channel.MACHINE_CHECKS,
)


#: Reads the tables; see :func:`.counters.read_changes`.
_Read = Callable[
    [CounterChanges, frozenset[int]], tuple[tables.CounterTables, tables.CounterTables] | None
]


class IntrusionCounter:
    """Adds up what the counters of guests' CPUs grew by, from one reading to the next."""

    def __init__(
        self,
        read: _Read = counters.read_changes,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._read = read
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._due = -LEAST_S
        self._changes: CounterChanges | None = None
        self._cpus = frozenset[int]()
        self._counts = {channel.value: 0 for channel in CHANNELS}
        #: Each client of the metrics has a thread.
        self._lock = threading.Lock()

    def collect(self, guests: Sequence[host_model.GuestProcess]) -> dict[str, float]:
        """Return channel -> how often; a CPU counts from the first reading on with its guest."""
        cpus = frozenset(window.guest_cpus(guests))
        with self._lock:
            now = self._clock()
            if now >= self._due:
                begin_s = self._cpu_clock()
                self._add(cpus)
                spent_s = self._cpu_clock() - begin_s
                self._due = now + max(LEAST_S, spent_s * LEAST_MULTIPLE)
            return {channel: float(count) for channel, count in self._counts.items()}

    def _add(self, cpus: frozenset[int]) -> None:
        if not cpus:
            self._changes = None
            return
        if self._changes is None:
            self._changes = CounterChanges()
        try:
            readings = self._read(self._changes, self._cpus & cpus)
        except OSError:
            return
        if readings is not None:
            found, _notes = window.of_tables(*readings)
            for intrusion in found:
                self._counts[intrusion.channel.value] += intrusion.count
        self._cpus = cpus
