"""Guards: what makes measured figures worthless, found in the recorded conditions of each trial.

A guard looks at one trial, or at how trials of a run differ, and says in words why a trial does not count. Where
too many trials of a judged arm do not count the verdict is INVALID. All are pure functions of recorded data: what
they read is written into :attr:`model.Trial.conditions` by :mod:`nova_perf_tuning.budget.host_environment`. What a
host could not tell trips nothing.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import fnmatch
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from nova_perf_tuning.budget import definitions, model, overhead

#: One run: benchmark, arm and number of the run, which its figures share.
Run = tuple[str, str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What guards allow; a budget file's ``guards`` changes them.

    :ivar max_steal: share of the time wanted that the host's own CPUs were taken away (host is a guest itself).
    :ivar max_wait: share of the time wanted that vCPUs waited for a host CPU. None: 0.1, and no limit under
        emulation, where all arms wait alike and only compare with each other.
    :ivar max_frequency_gap: how far the CPU frequencies of the judged arms may lie apart.
    :ivar max_clock_step_s: seconds by which the wall clock may move against the monotonic one in a trial.
    :ivar max_drops: packets dropped on the sender's way out, as a share of those it sent.
    :ivar max_sender_cpu: share of one CPU that the sending process may use. None: 0.95 where a budget declares
        a link speed, since it then speaks of the link, and no limit elsewhere. Where it is given, a network
        benchmark has to tell that CPU.
    """

    max_steal: float = 0.05
    max_wait: float | None = None
    max_frequency_gap: float = 0.05
    max_clock_step_s: float = 0.05
    max_drops: float = 0.001
    max_sender_cpu: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What a guard knows beside a trial.

    :ivar limits, min_link_mbps, link: as the budget declares them.
    :ivar sender_cpu: number of the run -> CPU of the sending process in percent.
    :ivar first: name of a condition -> what it was at the first trial that has it.
    :ivar links: name of a link's condition -> number of the run that had it first, where some trial lacks it,
        the earliest first.
    :ivar mhz: arm -> median CPU frequency.
    :ivar ranges: name of a condition -> its least and greatest value.
    :ivar sends: whether the benchmark has a sending process, as far as is known.
    :ivar waited: the greatest share of the time wanted that vCPUs waited for a host CPU.
    """

    environment: Mapping[str, Any]
    limits: Limits
    min_link_mbps: float | None
    sender_cpu: Mapping[int, float]
    first: Mapping[str, float]
    mhz: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]
    waited: float
    links: Mapping[str, int]
    link: str | None
    sends: bool

    def greatest(self, name: str) -> float:
        """Return the greatest value of a condition, 0 where no trial has it."""
        return self.ranges[name][1] if name in self.ranges else 0.0


def context(
    trials: Sequence[model.Trial],
    environment: Mapping[str, Any],
    limits: Limits,
    min_link_mbps: float | None,
    sender_cpu: Mapping[int, float],
    link: str | None = None,
) -> Context:
    """Return what guards know beside a trial.

    :param trials: those of the judged arms and benchmark, in the order of time.
    :param link: shell pattern of the links that are measured, None: not told.
    """
    first: dict[str, float] = {}
    ranges: dict[str, tuple[float, float]] = {}
    links: dict[str, int] = {}
    count: collections.Counter[str] = collections.Counter()
    speeds: dict[str, dict[str, list[float]]] = {"busy_mhz": {}, "mhz": {}}
    for one in trials:
        count.update(one.conditions.keys())
        for name, value in one.conditions.items():
            low, high = ranges.get(name, (value, value))
            ranges[name] = min(low, value), max(high, value)
            if name not in first:
                first[name] = value
                if name.startswith("link:"):
                    links[name] = one.order
            if name in speeds:
                speeds[name].setdefault(one.arm, []).append(value)
    told = sum(bool(one.conditions) for one in trials)
    mhz = speeds["busy_mhz"] or speeds["mhz"]  # older results have the mean of all CPUs alone
    return Context(
        environment,
        limits,
        min_link_mbps,
        sender_cpu,
        first=first,
        mhz={arm: statistics.median(values) for arm, values in mhz.items()},
        ranges=ranges,
        waited=max((overhead.wait_share(one) or 0.0 for one in trials), default=0.0),
        links={
            name: order for name, order in sorted(links.items(), key=lambda item: item[1]) if count[name] < told
        },
        link=link,
        sends=limits.max_sender_cpu is not None and any(_sends(one.benchmark, environment) for one in trials[:1]),
    )


def _apart(figure: float, limit: float, kind: str = "%", digits: int = 0) -> tuple[str, str]:
    """Return two different figures with as many digits, from ``digits`` on, as tell them from each other.

    :param kind: as a format has it, ``%`` or ``f``.
    """
    while digits < 15 and f"{figure:.{digits}{kind}}" == f"{limit:.{digits}{kind}}":
        digits += 1
    return f"{figure:.{digits}{kind}}", f"{limit:.{digits}{kind}}"


def _sends(label: str, environment: Mapping[str, Any]) -> bool:
    """Return whether a benchmark measures a network; one that is not installed here may do."""
    benchmark = definitions.benchmark(label, environment)
    return benchmark is None or benchmark.paired


class Guard(abc.ABC):
    """One reason not to count a trial.

    :cvar name: one or two words for messages.
    """

    name: ClassVar[str]

    @abc.abstractmethod
    def possible(self, context: Context) -> bool:
        """Return whether any trial can have this fault; most runs have none, and are judged faster for it."""

    @abc.abstractmethod
    def fault(self, trial: model.Trial, context: Context) -> str:
        """Return what is wrong with ``trial`` in words with the figure; empty: nothing."""


class Steal(Guard):
    """Of the two shares that are recorded the one of the time wanted is never less; older results lack it."""

    name = "steal"
    _SHARES = ("steal_share", "steal_of_busy")

    def possible(self, context: Context) -> bool:
        return max(map(context.greatest, self._SHARES)) > context.limits.max_steal

    def fault(self, trial: model.Trial, context: Context) -> str:
        share = max(trial.conditions.get(name, 0.0) for name in self._SHARES)
        if share <= context.limits.max_steal:
            return ""
        what = "time they were wanted" if "steal_of_busy" in trial.conditions else "time"
        figure, limit = _apart(share, context.limits.max_steal)
        return f"the host's CPUs were taken away {figure} of the {what} (limit {limit})"


class WaitingVcpus(Guard):
    name = "waiting vCPUs"

    @staticmethod
    def _limit(context: Context) -> float | None:
        if context.limits.max_wait is not None:
            return context.limits.max_wait
        return None if context.environment.get("accelerator") in ("tcg", "none") else 0.1

    def possible(self, context: Context) -> bool:
        limit = self._limit(context)
        return limit is not None and context.waited > limit

    def fault(self, trial: model.Trial, context: Context) -> str:
        limit = self._limit(context)
        share = overhead.wait_share(trial)
        if limit is None or share is None or share <= limit:
            return ""
        figure, most = _apart(share, limit)
        return f"vCPUs waited {figure} of the time they wanted to run (limit {most})"


class Throttling(Guard):
    name = "throttling"

    def possible(self, context: Context) -> bool:
        return context.greatest("throttle_events") > 0

    def fault(self, trial: model.Trial, context: Context) -> str:
        count = trial.conditions.get("throttle_events", 0.0)
        return f"CPUs were throttled {count:.0f} times by their temperature" if count > 0 else ""


class FrequencyLimit(Guard):
    """Someone or something changed how fast CPUs may run."""

    name = "frequency change"

    def possible(self, context: Context) -> bool:
        low, high = context.ranges.get("max_mhz", (0.0, 0.0))
        return high - low > 1

    def fault(self, trial: model.Trial, context: Context) -> str:
        first = context.first.get("max_mhz")
        now = trial.conditions.get("max_mhz")
        if first is None or now is None or abs(now - first) <= 1:
            return ""
        return f"the CPUs' highest frequency allowed went from {first:.0f} to {now:.0f} MHz during the run"


class FrequencyGap(Guard):
    """One arm ran at another frequency than the other."""

    name = "frequency change"

    def possible(self, context: Context) -> bool:
        known = context.mhz.values()
        return len(known) > 1 and max(known) > min(known) * (1 + context.limits.max_frequency_gap)

    def fault(self, trial: model.Trial, context: Context) -> str:
        if not self.possible(context):
            return ""
        told = ", ".join(f"{arm} {mhz:.0f} MHz" for arm, mhz in context.mhz.items())
        return f"arms ran at different CPU frequencies: {told} (limit {context.limits.max_frequency_gap:.0%})"


class Links(Guard):
    """A link went down or away, changed its speed, or is slower than declared.

    Which links the packets took is not known: one that was down from first to last is taken for an unused port.
    """

    name = "link"

    def possible(self, context: Context) -> bool:
        if context.min_link_mbps is not None or context.links:
            return True
        return any(low != high for name, (low, high) in context.ranges.items() if name.startswith("link:"))

    def fault(self, trial: model.Trial, context: Context) -> str:
        speeds = {
            name.removeprefix("link:"): mbps for name, mbps in trial.conditions.items() if name.startswith("link:")
        }
        for name, mbps in speeds.items():
            first = context.first.get(f"link:{name}")
            if mbps == 0 and first:
                return f"link {name} was down"
            if first is not None and mbps != first:
                before, now = _apart(first, mbps, "f")
                return f"link {name} changed from {before} to {now} Mbit/s"
        for name, since in context.links.items():
            if trial.order <= since:  # so are all that follow
                break
            if trial.conditions and name not in trial.conditions:
                return f"{name.replace(':', ' ', 1)} was there at first and then no more"
        return "" if context.min_link_mbps is None else self._slow(speeds, context.min_link_mbps, context.link)

    @staticmethod
    def _slow(speeds: Mapping[str, float], least: float, link: str | None) -> str:
        """Return which link is too slow: of those named, or of all that are up, of which any may be."""
        mine = {
            name: mbps
            for name, mbps in speeds.items()
            if (mbps > 0 if link is None else fnmatch.fnmatchcase(name, link))
        }
        if not mine:
            what = "no link's speed is known" if link is None else f"no link '{link}' is known"
            return f"the budget needs a link of {least:.0f} Mbit/s, and {what} on this host"
        slowest = min(mine, key=lambda name: mine[name])
        if mine[slowest] >= least:
            return ""
        has, needs = _apart(mine[slowest], least, "f")
        found = f"link {slowest} has {has} Mbit/s, the budget needs {needs}"
        if link is None and max(mine.values()) >= least:
            return f"{found}; if it is not measured, name the one that is with the budget's 'link'"
        return found


class Drops(Guard):
    name = "drops at the generator"

    def possible(self, context: Context) -> bool:
        return context.greatest("sender_dropped") > 0

    def fault(self, trial: model.Trial, context: Context) -> str:
        dropped, sent = (trial.conditions.get(f"sender_{name}", 0.0) for name in ("dropped", "packets"))
        if dropped <= context.limits.max_drops * max(sent, 1.0):
            return ""
        share = dropped / max(sent + dropped, 1.0)
        figure, limit = _apart(share, context.limits.max_drops, digits=2)
        return f"{figure} of the sender's packets were dropped on its side (limit {limit})"


class BusySender(Guard):
    name = "sender CPU-bound"

    @staticmethod
    def _limit(context: Context) -> float | None:
        if context.limits.max_sender_cpu is not None:
            return context.limits.max_sender_cpu
        return 0.95 if context.min_link_mbps is not None else None

    def possible(self, context: Context) -> bool:
        return self._limit(context) is not None

    def fault(self, trial: model.Trial, context: Context) -> str:
        limit = self._limit(context)
        if context.sends and trial.order not in context.sender_cpu:
            return (
                "the budget file has max_sender_cpu, and the sending process's CPU (client_cpu in %) is not known"
            )
        share = context.sender_cpu.get(trial.order, 0.0) / 100
        if limit is None or share <= limit:
            return ""
        return f"the sending process used {share:.0%} of a CPU, so its rate says nothing of the link"


class ClockStep(Guard):
    name = "clock"

    def possible(self, context: Context) -> bool:
        return "clock_step_s" in context.ranges and (
            max(map(abs, context.ranges["clock_step_s"])) > context.limits.max_clock_step_s
        )

    def fault(self, trial: model.Trial, context: Context) -> str:
        step = trial.conditions.get("clock_step_s", 0.0)
        if abs(step) <= context.limits.max_clock_step_s:
            return ""
        figure, limit = _apart(abs(step), context.limits.max_clock_step_s, "f", digits=2)
        return f"the clock jumped by {'-' if step < 0 else '+'}{figure} s (limit {limit} s)"


class ClockSource(Guard):
    name = "clock"

    def possible(self, context: Context) -> bool:
        return context.greatest("clocksource_changed") > 0

    def fault(self, trial: model.Trial, context: Context) -> str:
        if not trial.conditions.get("clocksource_changed", 0.0):
            return ""
        return "the kernel changed its clock source, which it does when it finds one unreliable"


GUARDS: tuple[Guard, ...] = (
    Steal(),
    WaitingVcpus(),
    Throttling(),
    FrequencyLimit(),
    FrequencyGap(),
    Links(),
    Drops(),
    BusySender(),
    ClockStep(),
    ClockSource(),
)


def run(trial: model.Trial) -> Run:
    """Return the run that a trial's figure is of."""
    return trial.benchmark, trial.arm, trial.order


def faults(trials: Sequence[model.Trial], known: Context) -> dict[Run, str]:
    """Return run -> first fault, for every run that does not count."""
    found: dict[Run, str] = {}
    awake = [guard for guard in GUARDS if guard.possible(known)]
    for one in trials if awake else ():
        for guard in awake:
            if told := guard.fault(one, known):
                found[run(one)] = f"{guard.name}: {told}"
                break
    return found
