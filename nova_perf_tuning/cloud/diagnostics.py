"""Host-side CPU time of guests from Nova's diagnostics: vCPU time only, sampled while a pair measures.

Nova tells a guest's vCPU time as libvirt counts it, not that of emulator or I/O threads and vhost workers; where
the agent's metrics can be reached, they tell more. Administrators only, by Nova's default policy.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from collections.abc import Mapping, Sequence

from nova_perf_tuning.cloud import api as api_module

#: What reports say of figures that come from here.
SOURCE = "nova diagnostics"
_MICROVERSION = "2.48"
#: Samples further apart than this do not tell a trial's share of what lies between them.
_MAX_GAP_S = 5.0


class Sampler:
    """Samples the vCPU time of some guests in a thread of its own until :meth:`close`.

    Samples are stamped with the wall clock, as the guests' trials are.
    """

    def __init__(
        self, api: api_module.Api, servers: Sequence[str], interval_s: float = 1.0, begin: float = 0.0
    ) -> None:
        """Start to sample ``servers`` (ids).

        :param begin: seconds since the epoch before which nothing is asked: a guest that is being built has no
            diagnostics, and asking takes time that its start needs.
        """
        self._api = api
        self._begin = begin
        self._interval_s = interval_s
        self._samples: dict[str, list[tuple[float, float]]] = {server: [] for server in servers}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_all, name="nova-diagnostics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; samples stay."""
        self._stop.set()
        self._thread.join()

    def used_s(self, servers: Sequence[str], begin: float, end: float) -> float | None:
        """Return the vCPU seconds of ``servers`` between two moments of the wall clock; None if not known."""
        total = 0.0
        for server in servers:
            first, last = self._at(server, begin), self._at(server, end)
            if first is None or last is None:
                return None
            total += max(0.0, last - first)
        return total

    def _at(self, server: str, moment: float) -> float | None:
        """Return the counter at ``moment``, on the straight line between the samples around it."""
        samples = self._samples[server]
        after = bisect.bisect_left(samples, (moment, 0.0))
        if not 0 < after < len(samples):
            return None
        (before_at, before), (after_at, later) = samples[after - 1], samples[after]
        if after_at - before_at > _MAX_GAP_S:
            return None
        return before + (later - before) * (moment - before_at) / (after_at - before_at)

    def _sample_all(self) -> None:
        if self._stop.wait(max(0.0, self._begin - time.time())):
            return
        while not self._stop.wait(self._interval_s):
            for server in self._samples:
                # A guest that is being built or gone has none; that is no reason to stop.
                with contextlib.suppress(*api_module.ERRORS):
                    self._sample(server)

    def _sample(self, server: str) -> None:
        begun = time.time()
        answer = self._api.connection.compute.get(f"/servers/{server}/diagnostics", microversion=_MICROVERSION)
        if answer.status_code != 200:
            return
        seconds = vcpu_seconds(answer.json())
        if seconds is not None:
            self._samples[server].append(((begun + time.time()) / 2, seconds))


def vcpu_seconds(answer: Mapping[str, object]) -> float | None:
    """Return the vCPU seconds in Nova's answer (microversion 2.48); None if it has none."""
    details = answer.get("cpu_details")
    if not isinstance(details, list) or not details:
        return None
    total = 0.0
    for one in details:
        nanoseconds = one.get("time") if isinstance(one, dict) else None
        if isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int | float):
            return None
        total += nanoseconds / 1e9
    return total
