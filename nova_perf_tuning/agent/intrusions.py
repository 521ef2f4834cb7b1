# SPDX-License-Identifier: Apache-2.0
"""How often work of the host reached guests' CPUs since the agent's metrics were first read.

Two files of /proc are read, at most once a minute: on a large host the kernel formats a million
counters for them. None is read while no guest has CPUs of its own.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from nova_perf_tuning.host.interference import counters, tables, window
from nova_perf_tuning.host.interference.tables import CounterTexts
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.channels import Channel

#: Seconds from one reading to the next; in between the figures stay.
LEAST_S: Final = 60.0
#: What the two files know; each has a figure from the beginning.
CHANNELS: Final = (
    Channel.INTERRUPTS,
    Channel.RPS,
    Channel.TICK_AND_TIMERS,
    Channel.WATCHDOGS,
    Channel.PROCESSOR_INTERRUPTS,
    Channel.MACHINE_CHECKS,
)


def _read() -> CounterTexts:
    return counters.read_tables(softirqs=False)


class IntrusionCounter:
    """Adds up what the counters of guests' CPUs grew by, from one reading to the next."""

    def __init__(
        self,
        read: Callable[[], CounterTexts] = _read,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._clock = clock
        self._due = -LEAST_S
        self._last: CounterTexts | None = None
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
                self._due = now + LEAST_S
                self._add(cpus)
            return {channel: float(count) for channel, count in self._counts.items()}

    def _add(self, cpus: frozenset[int]) -> None:
        if not cpus:
            self._last = None
            return
        try:
            now = self._read()
        except OSError:
            return
        if self._last is not None:
            lines_before, lines_now = tables.changed_lines(self._last.interrupts, now.interrupts)
            before = CounterTexts(lines_before, self._last.softnet).parse(self._cpus)
            after = CounterTexts(lines_now, now.softnet).parse(cpus)
            found, _notes = window.of_tables(before, after)
            for intrusion in found:
                self._counts[intrusion.channel.value] += intrusion.count
        self._last, self._cpus = now, cpus
