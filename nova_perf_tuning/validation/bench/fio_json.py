# SPDX-License-Identifier: Apache-2.0
"""fio's JSON: times are nanoseconds since fio 3, before µs, and bandwidths KiB a second."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, fio_figures, pasted
from nova_perf_tuning.validation.bench.fio_figures import JobGroup, Times, Way

_SHARE: Final = re.compile(r"[0-9]{1,3}\.[0-9]{1,6}")
#: fio 2 fills its list of percentiles up with these.
_NO_SHARE: Final = "0.00"
_OLD_VERSION: Final = re.compile(r"fio-[12]\.")
#: What fio says of a failed job before its JSON.
_ERROR: Final = re.compile(r"^fio: pid=.{1,200}, error=(.{1,200})$", re.MULTILINE)
#: Jobs of a group that run as long as each other are whole times its length.
_ONE_MORE: Final = 0.5
#: Options with which a job takes longer than its requests.
_LONGER: Final = frozenset(("end_fsync", "fsync_on_close", "ramp_time", "thinktime"))
#: Options that say what a job does; with one of the others it does not stay in the page cache.
_PATTERN: Final = frozenset(("rw", "readwrite"))
_SAFE: Final = ("direct", "sync", "fsync", "fdatasync", "end_fsync", "fsync_on_close")
#: What they are called in the workload where others are added up.
_OF_ONE_JOB: Final = "one of its jobs"
_OF_ONE: Final = ("pattern", "block size", "block sizes", "depth", "jobs", "engine", "size")
#: Options of a job -> their names in the workload.
_OPTIONS: Final[Mapping[str, str]] = {
    "runtime": fio_figures.ASKED_SECONDS,
    "rw": "pattern",
    "readwrite": "pattern",
    "rwmixread": "reads in per cent",
    "rwmixwrite": "writes in per cent",
    "bs": "block size",
    "blocksize": "block size",
    "bsrange": "block sizes",
    "bssplit": "block sizes",
    "iodepth": "depth",
    "numjobs": "jobs",
    "ioengine": "engine",
    "direct": "direct",
    "fsync": "fsync after",
    "fdatasync": "fdatasync after",
    "sync": "sync",
    "rate": "rate",
    "rate_iops": "rate in IOPS",
    "size": "size",
}
#: What an option that is not repeated was, since fio repeats all that were given.
_DEFAULTS: Final[Mapping[str, str]] = {
    "depth": "1",
    "jobs": "1",
    "direct": "0",
    "fsync after": "0",
    "fdatasync after": "0",
    "sync": "0",
    "rate": "0",
    "rate in IOPS": "0",
    "size": "none",
}
#: Of fio 3 on all systems but Windows.
_DEFAULT_ENGINE: Final = "psync"


def read(tool: base.Benchmark, text: str) -> list[JobGroup]:
    """Return the groups of fio's JSON; OutputError: a job failed, or its units are not known."""
    document = tool.load_json(text)
    if "jobs" not in document and "client_stats" in document:
        jobs = tool.find(document, "client_stats")
    else:
        jobs = tool.find(document, "jobs")
    if not isinstance(jobs, list) or not jobs:
        raise tool.fault(f"the output has no jobs{tool.wanted_form()}")
    common = document.get("global options")
    version = document.get("fio version")
    groups = []
    for job in jobs:
        if not isinstance(job, dict):
            raise tool.fault("the output has a job that is no object")
        if code := tool.number(job, "error"):
            raise _of_error(tool, text, code)
        group = _group(tool, job, version)
        options = _options(common, job.get("job options"))
        group.workload = _workload(options, group, version)
        group.cached = _is_cached(options)
        _check_pattern(group, options)
        if "group_reporting" in options:
            group.jobs = pasted.whole_number(group.workload.get("jobs")) or 1
        if not set(options) & _LONGER:
            _check_jobs(tool, job, group)
        if "pattern" in group.workload:  # the options are repeated, and those of all its jobs
            group.implied = dict(_DEFAULTS)
            if not group.old_units:
                group.implied["engine"] = _DEFAULT_ENGINE
        _add_missing(group, len(jobs))
        groups.append(group)
    return groups


def _of_error(tool: base.Benchmark, text: str, code: float) -> base.FailedRunError:
    """Return the error of a job that failed, with what fio said of it before its JSON."""
    said = _ERROR.search(text[: text.index("{")])
    reason = " (errno)"
    if said:
        reason = f", '{one_line(said[1], 120)}'"
    return tool.failed(
        f"the job ended with error {code:.0f}{reason}; the output of a run whose jobs have error 0"
        " is read"
    )


def _add_missing(group: JobGroup, groups: int) -> None:
    """Name what a document does not say of a group's work; :param groups: how many it has."""
    of_one = group.workload.get(_OF_ONE_JOB, "")
    names = ["pattern", "block size", "version"]
    if "pattern" not in group.workload and "engine" not in group.workload:
        names += ["engine", "depth"]
    for name in names:
        is_named = name in group.workload or f"{name}s" in group.workload
        if not is_named and f"{name} " not in of_one:
            group.missing.append(f"{name}: the output does not name it")
    if "pattern" not in group.workload and "direct" not in group.workload:
        group.missing.append(fio_figures.DIRECT_UNKNOWN)
    if group.name == fio_figures.ALL_CLIENTS and groups == 1:
        group.missing.append("the reports of single clients: there is their sum alone")


def _check_jobs(tool: base.Benchmark, job: dict[str, Any], group: JobGroup) -> None:
    """Show options that are not of all as those of one job: fio repeats those of one of the jobs it has added up.

    That there are others shows their time: that of all jobs is more than that of so many.
    """
    phases = [way.seconds for way in group.ways]
    seconds = max(phases, default=0.0)
    if group.verifies:
        seconds = sum(phases)
    if "job_runtime" not in job or not seconds:
        return
    ran = tool.number(job, "job_runtime") / 1e3 / seconds
    own = pasted.whole_number(group.workload.get("jobs")) or 1
    if ran < own + _ONE_MORE:
        return
    names = _of_one_job(group, _OF_ONE)
    group.missing.append(
        f"{names} of the other jobs: about {ran:.0f} jobs are added up (group_reporting), and fio"
        " repeats the options of one; give each a group of its own (new_group)"
    )


def _of_one_job(group: JobGroup, names: Sequence[str]) -> str:
    """Show options that are not of all jobs as those of one, and return which; the directions are of all."""
    known = [name for name in names if name in group.workload]
    options = [f"{name} {group.workload.pop(name)}" for name in known]
    before = group.workload.pop(_OF_ONE_JOB, None)
    if before is not None:
        options.insert(0, before)
    if options:
        group.workload[_OF_ONE_JOB] = ", ".join(options)
    group.workload["direction"] = " and ".join(way.name for way in group.ways)
    return ", ".join(known)


def _group(tool: base.Benchmark, job: dict[str, Any], version: object) -> JobGroup:
    group = JobGroup(one_line(job.get("jobname", "job"), 60))
    group.old_units = isinstance(version, str) and _OLD_VERSION.match(version) is not None
    for name in _names(tool, job, group.old_units):
        part = tool.mapping(job, name)
        if group.old_units:
            bandwidth = tool.number(part, "bw") * 1024
            completion, total = _times(tool, part, "clat", 1.0), _times(tool, part, "lat", 1.0)
        elif "clat_ns" in part:
            # fio 3.0 and 3.1 have the bandwidth in KiB a second alone.
            if "bw_bytes" in part:
                bandwidth = tool.number(part, "bw_bytes")
            else:
                bandwidth = tool.number(part, "bw") * 1024
            completion, total = _times(tool, part, "clat_ns"), _times(tool, part, "lat_ns")
        else:
            raise tool.fault(
                f"'{name}' has no 'clat_ns', and no version of fio before 3 is named:"
                f" its units are not known{tool.wanted_form()}"
            )
        seconds = tool.number(part, "runtime") / 1e3
        requests = None
        if _counts(part, group.old_units):
            requests = tool.number(part, "total_ios")
        iops = tool.number(part, "iops")
        group.ways.append(Way(name, iops, bandwidth, seconds, requests, completion, total))
    # fio 3.33 counts 0 of them in ``total_ios``: their times count.
    if "sync" in job:
        syncs = tool.mapping(job, "sync")
        group.sync = _times(tool, syncs, "lat_ns")
        if "lat_ns" in syncs and "N" in tool.mapping(syncs, "lat_ns"):
            group.syncs = tool.number(syncs, "lat_ns", "N")
    return group


def _counts(part: Mapping[str, Any], old: bool) -> bool:
    """Return whether a direction has the number of its requests; fio 2.1 has none."""
    return "total_ios" in part or not old


def _names(tool: base.Benchmark, job: dict[str, Any], old: bool) -> list[str]:
    """Return the directions that moved data; ``mixed`` alone where fio has added them up."""
    names: list[str] = []
    for name in (fio_figures.MIXED, *fio_figures.DIRECTIONS):
        if name not in job:
            continue
        rate = requests = tool.number(job, name, "iops")
        if _counts(tool.mapping(job, name), old):
            requests = tool.number(job, name, "total_ios")
        if bool(requests) != bool(rate):
            took = tool.number(job, name, "runtime")
            raise tool.fault(
                f"'{name}' has {requests:g} requests and {rate:g} IOPS in {took:g} ms:"
                " its rate is not known; run it for longer"
            )
        if requests:
            names.append(name)
    if len(names) > 1 and fio_figures.MIXED in names:
        names.remove(
            fio_figures.MIXED
        )  # unified_rw_reporting=both prints the sum beside its parts
    return names


def _times(
    tool: base.Benchmark, part: dict[str, Any], key: str, per_us: float = 1e3
) -> Times | None:
    """Return latencies; None: the job did not take them.

    :param per_us: how many of the document's units are a microsecond.
    """
    if key not in part:
        return None
    times = tool.mapping(part, key)
    mean = tool.number(times, "mean") / per_us
    if mean == 0:
        return None
    tails: dict[float, float] = {}
    if "percentile" in times:
        percentiles = tool.find(times, "percentile")
        if not isinstance(percentiles, dict):
            raise tool.fault("'percentile' is no object")
        for share in percentiles:
            if share == _NO_SHARE:
                continue
            if not _SHARE.fullmatch(share):
                raise tool.fault(f"'{one_line(share, 20)}' is no percentile")
            tails[float(share)] = tool.number(times, "percentile", share) / per_us
    least, most = tool.number(times, "min") / per_us, tool.number(times, "max") / per_us
    return Times(mean, least, most, tails)


def _options(common: object, own: object) -> dict[str, Any]:
    """Return the options that fio repeats; a job's own come before those of all."""
    options: dict[str, Any] = {}
    for part in (common, own):
        if isinstance(part, dict):
            options |= part
    return options


def _is_cached(options: Mapping[str, Any]) -> bool:
    """Return whether options let a job use the page cache; they say which they are, or nothing."""
    engine = str(options.get("ioengine", "psync"))
    if not set(options) & _PATTERN or engine not in fio_figures.CACHED_ENGINES:
        return False
    return all(str(options.get(name, "0")) == "0" for name in _SAFE)


def _check_pattern(group: JobGroup, options: Mapping[str, Any]) -> None:
    """Show a pattern that is not of all as that of one job: of a group of jobs fio repeats the options of one."""
    group.verifies = "verify" in options
    own = fio_figures.OWN.get(group.workload.get("pattern", ""))
    names = {way.name for way in group.ways} - {fio_figures.MIXED}
    if own is None or group.verified or names <= set(own):
        return
    _of_one_job(group, ("pattern",))
    group.missing.append(
        "pattern of the other jobs: fio has added them up, and repeats that of one"
    )


def _workload(options: Mapping[str, Any], group: JobGroup, version: object) -> dict[str, str]:
    """Return what a job did, by its options."""
    workload: dict[str, str] = {}
    for option, name in _OPTIONS.items():
        if option in options:
            workload[name] = one_line(options[option], 40)
    fio_figures.tidy_seconds(workload)
    if "pattern" not in workload:
        workload["direction"] = " and ".join(way.name for way in group.ways)
    seconds = max((way.seconds for way in group.ways), default=0.0)
    workload["seconds"] = f"{seconds:g}"
    if version is not None:
        workload["version"] = one_line(version, 40)
    return workload
