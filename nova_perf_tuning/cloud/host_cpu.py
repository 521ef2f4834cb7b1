"""Host CPU of a pair's guests while they measure, sampled from the agents on their hosts.

A window is known only where samples are dense and no counter fell in it; else its trials have no host CPU, and
:attr:`Sampler.faults` says why.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
import operator
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from nova_perf_tuning import errors
from nova_perf_tuning.bench import output
from nova_perf_tuning.budget import overhead
from nova_perf_tuning.cloud import agent_metrics, faults
from nova_perf_tuning.cloud import api as api_module

#: What results say of figures that come from here.
SOURCE: Final = "agent metrics"

#: Samples further apart than this, in seconds, do not tell a trial's share of what lies between them.
_MAX_GAP_S: Final = 5.0
_INTERVAL_S: Final = 1.0
_LIMIT_S: Final = 0.5
#: Between two questions to Nova where a guest is, in seconds; and how long before the first trial it is asked.
_FIND_S, _LEAD_S = 5.0, 5.0
_MAX_NOTES: Final = 5

#: Moment of the wall clock, and class -> CPU seconds so far.
_Sample: TypeAlias = tuple[float, Mapping[str, float]]


class Series:
    """Counters of one guest over time."""

    def __init__(self) -> None:
        self._samples: list[_Sample] = []

    def add(self, moment: float, seconds: Mapping[str, float]) -> None:
        """Keep a sample: class -> CPU seconds at a moment of the wall clock.

        One before the last (the clock was set back) begins a new series.
        """
        if self._samples and moment <= self._samples[-1][0]:
            self._samples = []
        self._samples.append((moment, seconds))

    def used(self, begin: float, end: float) -> dict[str, float] | None:
        """Return class -> CPU seconds between two moments, on straight lines between samples.

        None if that is not known: no samples on either side, or a counter fell: it is another process's, or lacks
        the time of a thread that has ended.
        """
        samples = self._samples
        first, last = (bisect.bisect_left(samples, moment, key=_moment) for moment in (begin, end))
        if not first or last >= len(samples):
            return None
        if any(_is_fault(samples[index - 1], samples[index]) for index in range(first, last + 1)):
            return None
        before = _between(samples[first - 1], samples[first], begin)
        after = _between(samples[last - 1], samples[last], end)
        return {name: after[name] - before[name] for name in after}


_moment = operator.itemgetter(0)


def _between(before: _Sample, after: _Sample, moment: float) -> dict[str, float]:
    share = (moment - before[0]) / (after[0] - before[0])
    return {name: before[1][name] + (after[1][name] - before[1][name]) * share for name in after[1]}


def _is_fault(before: _Sample, after: _Sample) -> bool:
    """Return whether nothing is known of what was used between two samples."""
    grown = math.fsum(after[1].values()) - math.fsum(before[1].values())
    # A thread that runs is read up to a tick late, and what is its own is then taken for another class's.
    slack = overhead.SLACK_S + overhead.TICK_S * max(0.0, grown)
    return (
        after[0] - before[0] > _MAX_GAP_S
        or grown < -overhead.TICK_S
        or any(before[1][name] - after[1][name] > slack for name in after[1])
    )


@dataclasses.dataclass(slots=True)
class _Guest:
    """A guest that is sampled.

    :ivar name: libvirt's. :ivar url: of the agent of its host; empty: not known yet.
    :ivar find_at: by the wall clock, when Nova is asked where it is. :ivar fault: why the last sample is missing.
    """

    find_at: float
    name: str = ""
    host: str = ""
    url: str = ""
    fault: str = "no answer yet"
    series: Series = dataclasses.field(default_factory=Series)


class Sampler:
    """Samples the guests of a pair in a thread of its own until :meth:`close`.

    :ivar faults: "agent metrics of HOST" -> why a window is not known; one for each host.
    """

    def __init__(self, api: api_module.Api, url: str, interval_s: float = _INTERVAL_S) -> None:
        """Ask nobody yet.

        :param url: of the agents' metrics, see :func:`agent_metrics.checked`.
        """
        self.faults: dict[str, str] = {}
        self._api = api
        self._url = url
        self._interval_s = interval_s
        self._guests: dict[str, _Guest] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent-metrics", daemon=True)

    def watch(self, servers: Iterable[str], begin: float) -> None:
        """Sample some servers (ids), too.

        :param begin: seconds since the epoch of their first trial; nothing is asked long before it, since that
            takes time that guests need to start.
        """
        self._guests = {**self._guests, **{server: _Guest(begin - _LEAD_S) for server in servers}}
        if not self._thread.ident:
            self._thread.start()

    def close(self) -> None:
        """End it; samples stay. What is being asked is not waited for."""
        self._stop.set()

    def used(self, servers: Sequence[str], begin: float, end: float) -> dict[str, float] | None:
        """Return what ``servers`` used between two moments of the wall clock, by class, and ``total``.

        None if that is not known of one of them.
        """
        if not self._guests.keys() >= set(servers):
            return None
        guests = [self._guests[server] for server in servers]
        parts = [guest.series.used(begin, end) for guest in guests]
        for guest, part in zip(guests, parts, strict=True):
            if part is None:
                where = f"{SOURCE} of {guest.host}" if guest.host else SOURCE
                self.faults[where] = guest.fault or "samples are missing, or a counter fell"
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        found = {name: round(math.fsum(part[name] for part in known), 6) for name in overhead.CLASSES}
        return {**found, "total": round(math.fsum(found.values()), 6)}

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            now = time.time()
            by_url: dict[str, list[_Guest]] = {}
            for server, guest in self._guests.items():
                if not guest.url and now >= guest.find_at:
                    guest.find_at = now + _FIND_S
                    self._find(server, guest)
                if guest.url:
                    by_url.setdefault(guest.url, []).append(guest)
            for url, guests in by_url.items():
                _ask(url, guests)

    def _find(self, server: str, guest: _Guest) -> None:
        try:
            found = api_module.read(lambda: self._api.connection.compute.get_server(server))
            name, host = found.instance_name, found.hypervisor_hostname
            if not (isinstance(name, str) and name and isinstance(host, str) and host):
                raise agent_metrics.AgentError("Nova does not tell where the guest runs; it tells administrators")
            guest.name, guest.host = name, output.printable(host, 80)
            guest.url = agent_metrics.at(self._url, host, self._address(host))
        except (*api_module.ERRORS, errors.PerfTuningError) as error:
            guest.fault = output.printable(faults.told(error), 200)

    def _address(self, host: str) -> str:
        """Return the IP address of a hypervisor, empty if it is not needed or not known."""
        if "{host_ip}" not in self._url:
            return ""
        compute = self._api.connection.compute
        known = api_module.read(lambda: list(compute.hypervisors(details=True, hypervisor_hostname_pattern=host)))
        return next((str(hypervisor.host_ip or "") for hypervisor in known if hypervisor.name == host), "")


def _ask(url: str, guests: Sequence[_Guest]) -> None:
    begun = time.time()
    try:
        told = agent_metrics.ask(url, [guest.name for guest in guests], _LIMIT_S)
    except agent_metrics.AgentError as error:
        for guest in guests:
            guest.fault = str(error)
        return
    moment = (begun + time.time()) / 2
    for guest in guests:
        if guest.name in told:
            guest.series.add(moment, told[guest.name])
            guest.fault = ""
        else:
            guest.fault = f"it does not know the guest {output.printable(guest.name, 60)}, or not all classes"


def told(pairs: Mapping[str, int]) -> str:
    """Return for people where the CPU figures of a run come from.

    :param pairs: source, empty where a pair has no figures -> how many pairs.
    """
    if len(pairs) < 2:
        return next(iter(pairs), "") or "none"
    return "; ".join(f"{source or 'none'} in {number} pairs" for source, number in pairs.items())


def notes(environment: Mapping[str, Any]) -> list[str]:
    """Return for people where the host CPU of a run over many hosts comes from, and why it is not known."""
    lacking = environment.get("host_cpu_faults", {})
    shown = [f"host CPU is not known from {where}: {why}" for where, why in list(lacking.items())[:_MAX_NOTES]]
    if len(lacking) > _MAX_NOTES:
        shown.append(f"so with {len(lacking) - _MAX_NOTES} more; see host_cpu_faults in the results")
    return [f"host CPU of guests: {environment['host_cpu_source']}", *shown]
