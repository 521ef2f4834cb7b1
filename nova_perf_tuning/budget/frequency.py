"""The frequency at which work was done: read while it is done, of the CPUs that do it.

Once a window has ended its CPUs go to rest, and on a large host the mean over all CPUs is that of the idle ones.
"""

from __future__ import annotations

import collections
import contextlib
import pathlib
import statistics
import threading
from collections.abc import Mapping
from types import TracebackType

#: When the first sample is taken. The wait doubles each time: few samples in a long window, some in a short one.
_FIRST_S = 0.25


class Sampler:
    """Samples the frequencies of this host's CPUs while it is entered; none where the host does not tell them."""

    def __init__(self, root: str = "/", first_s: float = _FIRST_S) -> None:
        """:param root: directory that /sys is read below; :param first_s: when the first sample is taken."""
        cpus = pathlib.Path(root, "sys/devices/system/cpu")
        self._files = {int(path.parts[-3][3:]): path for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")}
        self._wait_s = first_s
        self._seen: dict[int, list[float]] = collections.defaultdict(list)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="frequency", daemon=True)

    def __enter__(self) -> Sampler:
        if self._files:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._files:
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
        while not self._ended.wait(self._wait_s):
            self._wait_s *= 2
            for cpu, path in self._files.items():
                with contextlib.suppress(OSError, ValueError):  # offline, or it does not tell
                    self._seen[cpu].append(int(path.read_text(encoding="ascii")) / 1000)
