"""The frequency at which work was done: read while it is done, of the CPUs that do it.

Once a window has ended its CPUs go to rest, and on a large host the mean over all CPUs is that of the idle ones.
"""

from __future__ import annotations

import os
import re
import statistics
import threading
from collections.abc import Mapping
from types import TracebackType

#: When the first sample is taken. The wait doubles each time: few samples in a long window, some in a short one.
_FIRST_S = 0.25


class Sampler:
    """Samples the frequencies of this host's CPUs while it is entered; none where the host does not tell them."""

    def __init__(self, root: str = "/", first_s: float = _FIRST_S) -> None:
        """:param root: folder that /sys is read below; :param first_s: when the first sample is taken."""
        self._folder = os.path.join(root, "sys/devices/system/cpu")
        self._wait_s = first_s
        self._seen: dict[int, list[float]] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Sampler:
        if os.path.isdir(os.path.join(self._folder, "cpufreq")):
            self._thread = threading.Thread(target=self._run, name="frequency", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def conditions(self, busy: Mapping[int, int]) -> dict[str, float]:
        """Return ``busy_mhz`` of a trial; nothing if it was shorter than the first wait.

        :param busy: CPU -> how busy it was in the window. Those count that were at least half as busy as the
            busiest.
        """
        least = max(1, max(busy.values(), default=0) / 2)
        known = [statistics.fmean(some) for cpu, some in self._seen.items() if busy.get(cpu, 0) >= least]
        return {"busy_mhz": round(statistics.fmean(known), 6)} if known else {}

    def _run(self) -> None:
        files = {
            int(name[3:]): os.path.join(self._folder, name, "cpufreq/scaling_cur_freq")
            for name in os.listdir(self._folder)
            if re.fullmatch(r"cpu[0-9]+", name)
        }
        while not self._ended.wait(self._wait_s):
            self._wait_s *= 2
            for cpu, path in files.items():
                if (khz := _khz(path)) is not None:
                    self._seen.setdefault(cpu, []).append(khz / 1000)


def _khz(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(20))
    except (OSError, ValueError):  # offline, or it does not tell
        return None
