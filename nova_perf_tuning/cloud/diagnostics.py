"""Host-side CPU time of guests from Nova's diagnostics: vCPU time only, sampled while a pair measures.

Nova tells a guest's vCPU time as libvirt counts it, not that of emulator or I/O threads and vhost workers; where
the agent's metrics can be reached, they tell more (:mod:`nova_perf_tuning.cloud.agent_metrics`). Administrators
only, by Nova's default policy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.bench import output
from nova_perf_tuning.cloud import api as api_module
from nova_perf_tuning.cloud import cpu_series, faults

#: What reports say of figures that come from here.
SOURCE = "nova diagnostics"
_MICROVERSION = "2.48"
#: A counter of nanoseconds is no larger.
_MAX_NS = 1 << 63
#: How long a call that is under way may hold up the end.
_CLOSE_S = 5.0


class Sampler:
    """Samples the vCPU time of some guests in a thread of its own until :meth:`close`.

    Samples are stamped with the wall clock, as the guests' trials are.

    :ivar series: server -> its samples; class ``vcpu``.
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
        self.series = {server: cpu_series.Series() for server in servers}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_all, name="nova-diagnostics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; samples stay."""
        self._stop.set()
        self._thread.join(_CLOSE_S)

    def _sample_all(self) -> None:
        if self._stop.wait(max(0.0, self._begin - time.time())):
            return
        while not self._stop.wait(self._interval_s):
            for server, series in self.series.items():
                # A guest that is being built or gone has none; that is no reason to stop.
                try:
                    series.fault = self._sample(server, series)
                except (*api_module.ERRORS, errors.PerfTuningError) as error:
                    series.fault = faults.told(error)

    def _sample(self, server: str, series: cpu_series.Series) -> str:
        """Take one sample; return why there is none."""
        begun = time.time()
        answer = self._api.connection.compute.get(f"/servers/{server}/diagnostics", microversion=_MICROVERSION)
        if answer.status_code != 200:
            return f"HTTP {answer.status_code}"
        try:
            content = answer.json()
        except (ValueError, RecursionError) as error:
            return f"no JSON: {output.printable(error, 80)}"
        seconds = vcpu_seconds(content)
        if seconds is None:
            return "no vCPU times in the answer"
        series.add((begun + time.time()) / 2, {"vcpu": seconds})
        return ""


def vcpu_seconds(answer: object) -> float | None:
    """Return the vCPU seconds in Nova's answer (microversion 2.48); None if it has none."""
    details = answer.get("cpu_details") if isinstance(answer, Mapping) else None
    if not isinstance(details, list) or not details:
        return None
    total = 0.0
    for one in details:
        nanoseconds = one.get("time") if isinstance(one, dict) else None
        if isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int | float):
            return None
        if not 0 <= nanoseconds < _MAX_NS:  # NaN and infinity are JSON for Python
            return None
        total += nanoseconds / 1e9
    return total
