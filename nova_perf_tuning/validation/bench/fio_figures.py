# SPDX-License-Identifier: Apache-2.0
"""What a report of fio says, whichever form it has, and the figures that are made of it."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base, pasted

_PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
#: fio prints so many percentiles where the job does not choose any.
_DEFAULT_COUNT: Final = 17
#: All directions added up (unified_rw_reporting).
MIXED: Final = "mixed"
DIRECTIONS: Final = ("read", "write", "trim")
#: More jobs than that are no report that a person reads.
_MOST_GROUPS: Final = 32
#: fio prints times in text with four digits or more.
_ROUNDING: Final = 0.01


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
    """One job, or a group of jobs that fio has added up (group_reporting)."""

    name: str
    ways: list[Way] = dataclasses.field(default_factory=list)
    sync: Times | None = None
    workload: dict[str, str] = dataclasses.field(default_factory=dict)


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
        [group] = groups
        found = _of_group(tool, group)
        found.workload = dict(group.workload)
        return found
    shown = base.BenchmarkReport()
    prefixes = pasted.distinct([group.name for group in groups])
    for prefix, group in zip(prefixes, groups, strict=True):
        part = _of_group(tool, group)
        for reading in part.readings:
            metric = f"{prefix}_{reading.metric}"
            shown.readings.append(dataclasses.replace(reading, metric=metric, primary=False))
        named = [f"{name} {value}" for name, value in group.workload.items()]
        shown.workload[prefix] = ", ".join(named)
        shown.remarks.update(part.remarks)
        shown.left_out += [line for line in part.left_out if line not in shown.left_out]
    shown.remarks["several_groups"] = (
        f"{len(groups)} jobs are reported one by one: none of them is judged"
    )
    return shown


def _of_group(tool: base.Benchmark, group: JobGroup) -> base.BenchmarkReport:
    ways = group.ways
    if sum(way.iops for way in ways) == 0:
        raise tool.fault(f"the job '{pasted.metric(group.name)}' did no I/O (0 IOPS)")
    found = base.BenchmarkReport()
    found.readings += [
        base.Reading(*tool.primary, sum(way.iops for way in ways), primary=True),
        base.Reading("bandwidth", "MB/s", "higher", sum(way.bandwidth for way in ways) / 1e6),
    ]
    for way in ways:
        prefix = f"{way.name}_"
        if len(ways) == 1 and way.name != MIXED:
            prefix = ""
        found.readings += _of_way(tool, way, prefix)
        if way.clat is None and way.lat is None:
            found.left_out.append(
                f"latencies of {way.name}: the job did not take them (gtod_reduce, disable_clat)"
            )
    if group.sync is not None:
        found.readings += _of_times(tool, group.sync, "sync_latency")
        found.remarks["synchronised"] = (
            "a write is safe after its sync: 'sync_latency' is what an application waits for"
        )
    counts = [way.requests for way in ways if way.requests is not None]
    if len(counts) == len(ways):
        found.readings.append(
            base.Reading("requests", tool.work_unit, "higher", sum(counts) / 1e3)
        )
    names = [way.name for way in ways]
    if len(names) > 1:
        found.remarks["several_directions"] = (
            f"'iops' and 'bandwidth' are of {' and '.join(names)} together"
        )
    elif names == [MIXED]:
        found.remarks["mixed_directions"] = (
            "fio has added up reads and writes (unified_rw_reporting)"
        )
    found.left_out.append(
        "other percentiles, the least and submission latencies, samples of bandwidth and IOPS,"
        " distributions, CPU, disk statistics"
    )
    return found


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
