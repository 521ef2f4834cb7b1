"""Host-side CPU time of guests: by class from the agents' metrics where they tell, else from Nova's diagnostics.

A run of a benchmark has all of its CPU time from one source. What both know is never mixed: Nova's vCPU time and
an agent's other classes are not of the same moments.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from nova_perf_tuning.bench import output
from nova_perf_tuning.budget import overhead
from nova_perf_tuning.cloud import agent_metrics, cpu_series, diagnostics
from nova_perf_tuning.cloud import api as api_module

#: What each source knows, for people.
KNOWS: Final[Mapping[str, str]] = {
    agent_metrics.SOURCE: "all classes",
    diagnostics.SOURCE: "vCPU time only, no service CPU",
}
_AND: Final = " and "
#: No host has more CPUs: the most that Linux can be built for.
_MAX_CPUS: Final = 8192
_MAX_NOTES: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Used:
    """What guests used between two moments.

    :ivar seconds: class -> CPU seconds, as ``host_cpu_s`` of a trial has it; ``total`` where it has all classes.
    """

    source: str
    seconds: Mapping[str, float]


class _Source(Protocol):
    @property
    def series(self) -> Mapping[str, cpu_series.Series]: ...

    def close(self) -> None: ...


class Sampler:
    """Samples the host CPU of some guests from every source until :meth:`close`.

    :ivar faults: "source: why" for every window that a source could not tell; one for each source and host.
    """

    def __init__(
        self,
        api: api_module.Api,
        servers: Sequence[str],
        begin: float = 0.0,
        agents: agent_metrics.Agents | None = None,
        interval_s: float = 1.0,
        vcpus: int = _MAX_CPUS,
    ) -> None:
        """Start to sample ``servers`` (ids).

        :param begin: seconds since the epoch before which nothing is asked.
        :param agents: None: only Nova is asked. :param interval_s: between two questions to Nova.
        :param vcpus: of each guest, where that is known.
        """
        self.faults: dict[str, str] = {}
        self._vcpus = vcpus
        self._sources: dict[str, _Source] = {}
        self._agents = agent_metrics.Sampler(api, agents, servers, begin) if agents is not None else None
        if self._agents is not None:
            self._sources[agent_metrics.SOURCE] = self._agents
        self._sources[diagnostics.SOURCE] = diagnostics.Sampler(api, servers, interval_s, begin)

    def close(self) -> None:
        """End it, which may have been done before; samples stay."""
        for source in self._sources.values():
            source.close()

    def used(self, servers: Sequence[str], begin: float, end: float) -> Used | None:
        """Return what ``servers`` used between two moments of the wall clock, by the first source that knows."""
        for name, source in self._sources.items():
            parts = [(server, source.series[server].used(begin, end)) for server in servers]
            known = [part for _, part in parts if part is not None]
            doubts = {
                server: self._doubt(part, round(end - begin, 3)) for server, part in parts if part is not None
            }
            if len(known) == len(parts) and not any(doubts.values()):
                return Used(name, _together(known))
            for server, part in parts:
                why = doubts.get(server, "")
                if part is None:
                    why = source.series[server].fault or "samples are missing, or a counter fell"
                if why:
                    self.faults[self._place(name, server)] = output.printable(why, 200)
        return None

    def _doubt(self, part: Mapping[str, float], window_s: float) -> str:
        """Return why a guest cannot have used so much, empty if it can: what a source tells is only its word."""
        limits = {"vCPUs": (part["vcpu"], self._vcpus), "CPUs": (math.fsum(part.values()), _MAX_CPUS)}
        for what, (seconds, cpus) in limits.items():
            if seconds > overhead.most_s(cpus, window_s):
                return f"it tells {seconds:.4g} s of CPU in {window_s:.1f} s of {cpus} {what}; not used"
        return ""

    def _place(self, source: str, server: str) -> str:
        host = self._agents.hosts.get(server, "") if self._agents is not None else ""
        return f"{source} of {output.printable(host, 80)}" if host else source


def joined(sources: str, source: str) -> str:
    """Return the sources of a pair's figures with one more."""
    return _AND.join(sorted({*filter(None, sources.split(_AND)), source}))


def told(pairs: Mapping[str, int]) -> str:
    """Return for people where the CPU figures of a run come from.

    :param pairs: sources as :func:`joined` words them, empty where a pair has no figures -> how many pairs.
    """
    found = []
    for sources, number in pairs.items():
        known = _AND.join(f"{one} ({KNOWS[one]})" if one in KNOWS else one for one in sources.split(_AND) if one)
        found.append(f"{known or 'none'}" + (f" in {number} pairs" if len(pairs) > 1 else ""))
    return "; ".join(found) or "none"


def notes(environment: Mapping[str, Any]) -> list[str]:
    """Return for people where the host CPU of a run over many hosts comes from, and why not from elsewhere."""
    faults = environment.get("host_cpu_faults", {})
    shown = [f"host CPU is not known from {where}: {why}" for where, why in list(faults.items())[:_MAX_NOTES]]
    if len(faults) > _MAX_NOTES:
        shown.append(f"so with {len(faults) - _MAX_NOTES} more; see host_cpu_faults in the results")
    return [f"host CPU of guests: {environment['host_cpu_source']}", *shown]


def _together(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found = {name: round(math.fsum(part[name] for part in parts), 6) for name in parts[0]} if parts else {}
    if len(found) > 1:  # more than what vCPUs used: all there is
        found["total"] = round(math.fsum(found.values()), 6)
    return found
