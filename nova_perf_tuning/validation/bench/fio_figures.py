# SPDX-License-Identifier: Apache-2.0
"""What a report of fio says, whichever form it has, and the figures that are made of it."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base, pasted

_PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
#: fio prints so many percentiles where the job does not choose any.
_DEFAULT_COUNT: Final = 17
#: Engines of files and disks of the kernel that can use the page cache.
CACHED_ENGINES: Final = frozenset(
    ("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap")
)
DIRECT_UNKNOWN: Final = (
    "direct: the output does not say whether the job went through the page cache"
    " (--direct=1 does not)"
)
#: Of the option runtime.
ASKED_SECONDS: Final = "seconds asked for"
_SIGNAL: Final = re.compile(r"^[ \t]*fio: terminating on signal ([0-9]{1,2})\b", re.MULTILINE)
#: All directions added up (unified_rw_reporting).
MIXED: Final = "mixed"
DIRECTIONS: Final = ("read", "write", "trim")
#: More jobs than that are no report that a person reads.
_MOST_GROUPS: Final = 32
#: fio prints times in text with four digits or more.
_ROUNDING: Final = 0.01
#: Pattern of a job -> the directions that it has of its own; others are of a phase that verifies.
OWN: Final[Mapping[str, Sequence[str]]] = {
    "read": ("read",),
    "randread": ("read",),
    "write": ("write",),
    "randwrite": ("write",),
    "trim": ("trim",),
    "randtrim": ("trim",),
    "rw": ("read", "write"),
    "readwrite": ("read", "write"),
    "randrw": ("read", "write"),
    "trimwrite": ("trim", "write"),
    "randtrimwrite": ("trim", "write"),
}
#: Directions of one job run as long as each other, but for what the last request of each takes.
_SAME_TIME: Final = 0.1
_SAME_SECONDS: Final = 0.1
#: With fewer requests for each sync the sync is a part of what a write takes.
_FEW_SYNCS: Final = 100
#: Options with which a job makes its writes safe; its report has a part of its own for that.
_SYNC_CALLS: Final = ("fdatasync", "fsync")
#: A job of less seconds is over before caches and queues are full.
_SHORT: Final = 1.0
#: Engines that wait for each request, so that their depth is 1 whatever was asked for.
_WAITING: Final = frozenset(
    ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "falloc", "ftruncate")
)
#: Engines whose requests move no data.
_NO_DATA: Final = frozenset(
    ("falloc", "ftruncate", "null", "filecreate", "filestat", "filedelete")
)
#: fio's name of the sum of all clients (fio --client).
ALL_CLIENTS: Final = "All clients"


@dataclasses.dataclass(slots=True)
class Times:
    """Latencies of one kind, in microseconds.

    :ivar tails: percentile -> latency.
    """

    mean: float
    least: float
    most: float
    tails: dict[float, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class Way:
    """One direction of a group of jobs.

    :ivar bandwidth: bytes a second; :ivar requests: None where the report does not count them.
    :ivar clat: completion latencies; :ivar lat: those from submission on; None: not taken.
    """

    name: str
    iops: float
    bandwidth: float
    seconds: float
    requests: float | None = None
    clat: Times | None = None
    lat: Times | None = None


@dataclasses.dataclass(slots=True)
class JobGroup:
    """One job, or a group of jobs that fio has added up (group_reporting).

    :ivar verifies: whether a job that writes may read back what it has written.
    :ivar run: number of its run where a text has several; 0: there is one.
    :ivar jobs: how many jobs are added up; :ivar old_units: KB is 1,024 bytes there.
    :ivar missing: what the output does not say of the workload, as lines for a person.
    :ivar syncs: how many syncs there were; None: the report does not count them.
    :ivar cached: its options, which are known, let it read and write the page cache.
    :ivar implied: as in :class:`.BenchmarkReport`.
    """

    name: str
    ways: list[Way] = dataclasses.field(default_factory=list)
    sync: Times | None = None
    workload: dict[str, str] = dataclasses.field(default_factory=dict)
    run: int = 0
    jobs: int = 1
    old_units: bool = False
    verifies: bool = True
    missing: list[str] = dataclasses.field(default_factory=list)
    syncs: float | None = None
    cached: bool = False
    implied: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def verified(self) -> list[Way]:
        """The directions that the pattern does not have: what was written is read back."""
        own = OWN.get(self.workload.get("pattern", ""))
        if (
            not self.verifies
            or own is None
            or "read" in own
            or not {way.name for way in self.ways} & set(own)
        ):
            return []
        return [way for way in self.ways if way.name == "read"]


def tidy_seconds(workload: dict[str, str]) -> None:
    """Write the length that was asked for, such as ``5m``, as seconds; 0 is none."""
    asked = pasted.seconds(workload.pop(ASKED_SECONDS, None))
    if asked:
        workload[ASKED_SECONDS] = f"{asked:g}"


def stopped(text: str, workload: Mapping[str, str]) -> str:
    """Return what to say of a run that a signal has ended; empty: none has."""
    found = _SIGNAL.search(text)
    if found is None:
        return ""
    ran = ""
    if ASKED_SECONDS in workload and "seconds" in workload:
        ran = f" ({workload['seconds']} of {workload[ASKED_SECONDS]} s)"
    return f"fio was ended by signal {found[1]}: the run is as long as somebody let it run{ran}"


def report(tool: base.Benchmark, groups: Sequence[JobGroup]) -> base.BenchmarkReport:
    """Return the figures of all groups; those of one group have no prefix, of several none is judged.

    :raises base.BenchmarkOutputError: a group did nothing, its figures contradict each other, or there are
        too many.
    """
    if len(groups) > _MOST_GROUPS:
        raise tool.fault(
            f"the output has {len(groups)} jobs one by one; give it --group_reporting"
        )
    for group in groups:
        if not group.ways:
            raise tool.fault(f"the job '{pasted.metric(group.name)}' did no I/O")
    if len(groups) == 1:
        return _of_group(tool, groups[0])
    parts = {}
    names = [group.name for group in groups]
    runs = {group.run for group in groups}
    if len(runs) > 1:
        names = [f"run{group.run}_{group.name}" for group in groups]
    if len(runs) == len(groups):
        names = [f"run{group.run}" for group in groups]
    prefixes = pasted.distinct(names)
    for prefix, group in zip(prefixes, groups, strict=True):
        parts[prefix] = _of_group(tool, group)
    shown = base.several(parts)
    if len(runs) > 1:
        shown.remarks["several_runs"] = (
            f"the text has {len(runs)} runs of fio: none of them is judged"
        )
    else:
        shown.remarks["several_groups"] = (
            f"{len(groups)} jobs are reported one by one: none of them is judged"
        )
    if any(group.name == ALL_CLIENTS for group in groups):
        shown.remarks["all_clients"] = f"'{ALL_CLIENTS}' is the sum of the other reports"
    return shown


def _of_group(tool: base.Benchmark, group: JobGroup) -> base.BenchmarkReport:
    verified = group.verified
    ways = [way for way in group.ways if way not in verified]
    if sum(way.iops for way in group.ways) == 0 and not any(way.requests for way in ways):
        raise tool.fault(f"the job '{pasted.metric(group.name)}' did no I/O (0 IOPS)")
    found = base.BenchmarkReport(workload=dict(group.workload), implied=dict(group.implied))
    _add_engine(found)
    if group.sync is not None:
        found.implied["syncs"] = "yes"
    elif group.syncs is not None:
        found.implied["syncs"] = "no"
    at_once = _ran_at_once(ways)
    if at_once:
        found.readings += _sums(tool, ways)
    for way in ways:
        prefix = f"{way.name}_"
        if len(ways) == 1 and way.name != MIXED:
            prefix = ""
        _add_way(tool, found, way, prefix)
    for way in verified:
        _add_way(tool, found, way, f"verify_{way.name}_")
    if group.sync is not None:
        found.readings += _of_times(tool, group.sync, "sync_latency")
        found.remarks.update(_of_syncs(group))
    else:
        found.remarks.update(_without_syncs(group))
    counts = [way.requests for way in ways if way.requests is not None]
    if len(counts) == len(ways) and at_once:
        found.readings.append(
            base.Reading("requests", tool.work_unit, "higher", sum(counts) / 1e3)
        )
    _add_remarks(found, group, ways, at_once)
    found.left_out += group.missing
    found.left_out.append(
        "other percentiles, the least and submission latencies, samples of bandwidth and IOPS,"
        " distributions, short and dropped requests, zone resets, steady state, CPU,"
        " disk statistics"
    )
    return found


def _of_syncs(group: JobGroup) -> dict[str, str]:
    """Return what to say of the latency of syncs: it is what a write waits for where each has its own."""
    requests = sum(way.requests or 0.0 for way in group.ways)
    if group.syncs and _FEW_SYNCS * group.syncs <= requests:
        return {
            "few_syncs": f"{requests:g} requests had {group.syncs:g} sync(s): 'sync_latency' is not"
            " what an application waits for"
        }
    return {
        "synchronised": "a write is safe after its sync: 'sync_latency' is what an application"
        " waits for"
    }


def _without_syncs(group: JobGroup) -> dict[str, str]:
    """Return what to say of a job that makes its writes safe, and whose report has no latency of that."""
    called = ""
    for call in _SYNC_CALLS:
        for name in (call, f"{call} after"):
            if group.workload.get(name, "0") != "0":
                called = f"the job calls {call}"
    if not called and group.syncs:
        called = f"the job made {group.syncs:g} syncs"
    if not called:
        return {}
    return {
        "sync_latency_missing": f"{called}, and the output has no latencies of them ('sync'): how"
        " long a write takes until it is safe is not known; fio since version 3.5 prints it"
    }


def _add_engine(found: base.BenchmarkReport) -> None:
    """Say what an engine makes of its depth, and whether it moves data."""
    engine, depth = found.workload.get("engine", ""), found.workload.get("depth", "1")
    if engine in _WAITING and depth != "1":
        found.workload["depth"] = "1"
        found.workload["depth asked for"] = depth
    if engine in _NO_DATA:
        found.remarks["no_data"] = (
            f"the engine '{engine}' moves no data: 'bandwidth' is of the sizes that its calls name,"
            " and of no disk"
        )


def _sums(tool: base.Benchmark, ways: Sequence[Way]) -> list[base.Reading]:
    bandwidth = sum(way.bandwidth for way in ways) / 1e6
    return [
        base.Reading(*tool.primary, sum(way.iops for way in ways), primary=True),
        base.Reading("bandwidth", "MB/s", "higher", bandwidth),
    ]


def _ran_at_once(ways: Sequence[Way]) -> bool:
    """Return whether directions ran side by side, so that a sum of their rates was ever reached."""
    times = [way.seconds for way in ways]
    return max(times) - min(times) <= max(_SAME_SECONDS, _SAME_TIME * max(times))


def _add_remarks(
    found: base.BenchmarkReport, group: JobGroup, ways: Sequence[Way], at_once: bool
) -> None:
    """Say what the sums are of, and what the figures of a phase are."""
    names = [way.name for way in ways]
    if not at_once:
        times = [f"{way.name} {way.seconds:g} s" for way in ways]
        found.remarks["not_at_once"] = (
            f"the directions did not run for the same time ({', '.join(times)}):"
            " no sum is made of them, and none is judged"
        )
    elif len(names) > 1:
        found.remarks["several_directions"] = (
            f"'iops', 'bandwidth' and 'requests' are of {' and '.join(names)} together"
        )
    elif names == [MIXED]:
        found.remarks["mixed_directions"] = (
            "fio has added up reads and writes (unified_rw_reporting)"
        )
    if group.cached and group.sync is None:
        found.remarks["page_cache"] = (
            "the job had no direct=1 and no sync: its figures may be of the page cache, not of a disk"
        )
    if max(way.seconds for way in ways) < _SHORT:
        found.remarks["short"] = "the job took less than a second: its figures say little"
    if group.verified:
        found.remarks["verify_phase"] = (
            "'verify_read_…' is of the phase that reads back what was written:"
            " no sum has these reads"
        )


def _add_way(tool: base.Benchmark, found: base.BenchmarkReport, way: Way, prefix: str) -> None:
    """Add the figures of one direction, and what of it is none."""
    contradiction = _contradiction(way)
    if contradiction:
        found.left_out.append(contradiction)
        way = dataclasses.replace(way, clat=None)
    readings = _of_way(tool, way, prefix)
    if way.iops == 0:
        if not prefix:
            raise tool.fault(_below_one(way))
        readings = [reading for reading in readings if reading.metric != f"{prefix}iops"]
        found.left_out.append(f"{prefix}iops: {_below_one(way)}")
    found.readings += readings
    times = [part for part in (way.clat, way.lat) if part is not None]
    if times and way.clat is None and not contradiction:
        found.left_out.append(f"completion latency of {way.name}: the output has none")
    if times and not any(part.tails for part in times):
        found.left_out.append(f"percentiles of {way.name}: the output has none")
    if not times:
        found.left_out.append(
            f"latencies of {way.name}: the job did not take them (gtod_reduce, disable_clat)"
        )


def _contradiction(way: Way) -> str:
    """Return what to say of completions that took longer than their requests; empty: nothing.

    Both means are rounded to a microsecond at worst.
    """
    if way.clat is None or way.lat is None or way.clat.mean <= 1.05 * way.lat.mean + 1:
        return ""
    return (
        f"completion latency of {way.name}: its mean of {way.clat.mean:,.0f} µs is above that from"
        f" submission on ({way.lat.mean:,.0f} µs), which it is a part of"
    )


def _below_one(way: Way) -> str:
    """Return what is to be said of requests whose rate is printed as 0."""
    requests = ""
    if way.requests is not None:
        requests = f"{way.requests:g} requests in "
    return (
        f"'{way.name}' has {requests}{way.seconds:g} s and 0 IOPS:"
        " fio's text rounds what is below 1 down; its JSON (--output-format=json) has it"
    )


def _of_way(tool: base.Benchmark, way: Way, prefix: str) -> list[base.Reading]:
    readings = []
    if prefix:
        readings.append(base.Reading(f"{prefix}iops", "IO/s", "higher", way.iops))
        readings.append(base.Reading(f"{prefix}bandwidth", "MB/s", "higher", way.bandwidth / 1e6))
    if way.clat is not None:
        readings += _of_times(tool, way.clat, f"{prefix}latency")
    if way.lat is not None:
        readings += _of_times(tool, way.lat, f"{prefix}total_latency")
    return readings


def _of_times(tool: base.Benchmark, times: Times, name: str) -> list[base.Reading]:
    """Return mean, maximum and percentiles under their own names."""
    tails = times.tails
    # Of text the last digit is rounded; a percentile of milliseconds is whole.
    rounding = max(_ROUNDING, times.most * 1e-3)
    if any(value >= 1000 and value % 1000 == 0 for value in tails.values()):
        rounding = max(rounding, 1000.0)
    tool.check_latencies(tails, times.mean, times.least, times.most, rounding)
    readings = [base.Reading(f"{name}_mean", "µs", "lower", times.mean)]
    for share in sorted(tails):
        # Of fio's own list of 17 these four; of a list that somebody has chosen, all.
        if share in _PERCENTILES or len(tails) != _DEFAULT_COUNT:
            metric = base.percentile_name(share).replace("latency", name)
            readings.append(base.Reading(metric, "µs", "lower", tails[share]))
    readings.append(base.Reading(f"{name}_max", "µs", "lower", times.most))
    return readings
