# SPDX-License-Identifier: Apache-2.0
"""Reads what a guest handed to Heat, untrusted: bounded, checked for form and against the plan.

Nothing here talks to a cloud. A document is the ``data`` of a wait condition: JSON of one signal
whose data is base64 of gzip of JSON (``document.schema.json``). The figures in it are worked out
here, by the same plug-ins as everywhere; the guest only passes on what the benchmarks printed.
"""

import base64
import binascii
import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.printing import counted, one_line
from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import fleet_model, results_file
from nova_perf_tuning.validation.results import model, schema

#: Heat's API takes no larger request (max_json_body_size).
MAX_ENCODED: Final = 1 << 20
#: Of the JSON inside: 8,192 trials of 1 KiB. Its worst takes fifty times as much memory.
MAX_DECODED: Final = 8 << 20
#: The one signal's id.
SIGNAL: Final = "results"
#: Seconds that a trial may overlap its slot by: the kill of a late program, and what clocks differ
#: by.
_TOLERANCE_S: Final = 5.0


class DocumentError(errors.PerfTuningError):
    """What the guest handed over cannot be used; one line that says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """What one arm's client has to hand over.

    :ivar arm: its number in the grid; :ivar begun, ended: by our clock, between which all trials
        must lie.
    """

    plan: fleet_model.MeasurePlan
    name: str
    arm: int
    grid: fleet_model.Grid
    begun: float
    ended: float


@dataclasses.dataclass(slots=True)
class GuestRun:
    """One run of one benchmark, checked; without readings :attr:`error` says why.

    :ivar role: the guest whose host it measures: ``client``, or ``server`` where it needs no peer
        and ran there.
    :ivar block: the N-th slot of each arm is block N, also where one came up a round later.
    :ivar begin, end: seconds since the epoch by the guest's clock; :ivar cpu_s: busy by role;
        None: unknown.
    :ivar workload: what the output says of the work.
    """

    job: plugins.Job
    role: str
    slot: int
    block: int
    begin: float
    end: float
    cpu_s: Mapping[str, float | None]
    readings: list[bench.Reading]
    error: str
    workload: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def roles(self) -> tuple[str, ...]:
        return ("client", "server") if self.job.benchmark.paired else (self.role,)


def read(
    data: object, expected: Expected
) -> tuple[dict[str, Mapping[str, object]], list[GuestRun]]:
    """Return what guests say about themselves, and the runs by time, from a wait condition.

    :raises DocumentError: missing, too long, truncated, no JSON, of another form, twice there, not
        as planned.
    """
    try:
        content = schema.parse_json(_unpacked(_signal(data)), "the client's document")
        schema.check("document", content, "the client's document", __package__)
    except schema.InputError as error:
        raise DocumentError(one_line(error, 240)) from None
    run, grid = expected.plan.run_id, expected.grid
    wanted = {"run_id": run, "arm": expected.arm, "arms": grid.arms, "slot_seconds": grid.length_s}
    for key, value in wanted.items():
        if content[key] != value:
            raise DocumentError(
                f"the client's document has {key} {one_line(content[key], 40)}, not {value}"
            )
    runs = [_run(trial, expected) for trial in content["trials"]]
    _check_complete(content["trials"], expected.plan)
    return content["guests"], sorted(runs, key=lambda run: run.begin)


def trials(run: GuestRun, expected: Expected, order: int) -> list[model.Trial]:
    """Return a trial for each figure of a run; what ran on the server alone is of boot 1.

    :raises DocumentError: results cannot hold one of them. All hosts of a fleet share one results
        file, which would be refused as a whole.
    """
    busy = [run.cpu_s[role] for role in run.roles]
    known = [seconds for seconds in busy if seconds is not None]
    guest_cpu_s = None
    if len(known) == len(busy):
        guest_cpu_s = sum(known)
    error, failure = run.error, model.TrialFailure.OUTPUT
    if not error:
        error, failure = "no figure in the output", model.TrialFailure.NO_FIGURE
    metric, unit, better = run.job.benchmark.primary
    failed = model.Trial(
        benchmark=run.job.label,
        metric=metric,
        unit=unit,
        better=better,
        arm=expected.name,
        boot=int(run.role == "server"),
        block=run.block,
        value=None,
        host_cpu_s={},
        guest_cpu_s=guest_cpu_s,
        window_s=round(run.end - run.begin, 3),
        order=order,
        error=error,
        failure=failure,
    )
    made = model.figures(failed, run.readings, run.job.benchmark.work_metric)
    try:
        for trial in made:
            results_file.check_trial(trial, f"a trial of {trial.benchmark} on the {run.role}")
    except schema.InputError as error:
        raise DocumentError(
            f"the client's document has figures that results cannot hold: {one_line(error, 240)}"
        ) from None
    return made


def _signal(data: object) -> str:
    if not isinstance(data, str):
        raise DocumentError("the client handed over no document")
    if len(data) > MAX_ENCODED:
        raise DocumentError(f"the client's document is longer than {MAX_ENCODED >> 10} KiB")
    signals = schema.parse_json(data or "{}", "wait condition data")
    if (
        not isinstance(signals, dict)
        or signals.keys() != {SIGNAL}
        or not isinstance(signals[SIGNAL], str)
    ):
        raise DocumentError(
            f"the client did not signal the document '{SIGNAL}', once and nothing else"
        )
    return signals[SIGNAL]


def _unpacked(text: str) -> str:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(base64.b64decode(text, validate=True), MAX_DECODED + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise DocumentError("the client's document is not gzip in base64, or cut off") from None
    if len(content) > MAX_DECODED:
        raise DocumentError(f"the client's document unpacks to more than {MAX_DECODED >> 20} MiB")
    if not unpacker.eof or unpacker.unused_data:
        raise DocumentError("the client's document is cut off, or something follows it")
    return content.decode("utf-8", "replace")


def _check_complete(trials: list[Mapping[str, Any]], plan: fleet_model.MeasurePlan) -> None:
    keys = [(trial["trial"], trial["label"], trial["role"]) for trial in trials]
    wanted: set[tuple[int, str, str]] = set()
    for job in plan.jobs:
        roles = ["client"]
        if not job.benchmark.paired:
            roles.append("server")
        for number in range(1, plan.trials + 1):
            for role in roles:
                wanted.add((number, job.label, role))
    missing = wanted - set(keys)
    if missing:
        number, label, role = min(missing)
        lacking = f"{counted(len(missing), 'trial')}, such as {label} {number} on the {role}"
        raise DocumentError(f"the client's document lacks {lacking}")
    if len(keys) != len(wanted):  # one twice, or one too many
        raise DocumentError(
            f"the client's document has {counted(len(keys), 'trial')} instead of {len(wanted)}"
        )
    places, numbers, slots = set(), set(), set()
    for trial in trials:
        places.add((trial["trial"], trial["slot"]))
        numbers.add(trial["trial"])
        slots.add(trial["slot"])
    if not len(places) == len(numbers) == len(slots):
        raise DocumentError(
            "the client's document has trials that share a slot or are spread over several"
        )


def _run(trial: Mapping[str, Any], expected: Expected) -> GuestRun:
    job = next((job for job in expected.plan.jobs if job.label == trial["label"]), None)
    if job is None:
        raise DocumentError(
            f"the client's document has a benchmark '{one_line(trial['label'], 60)}'"
        )
    slot, begin, end = int(trial["slot"]), float(trial["begin"]), float(trial["end"])
    grid = expected.grid
    if grid.arm(slot) != expected.arm:
        raise DocumentError(f"slot {slot} does not belong to arm '{expected.name}'")
    if not grid.begin(slot) - _TOLERANCE_S <= begin <= end <= grid.begin(slot + 1) + _TOLERANCE_S:
        raise DocumentError(f"a trial of {job.label} lies outside its slot {slot}")
    if begin < expected.begun - _TOLERANCE_S or end > expected.ended + _TOLERANCE_S:
        raise DocumentError(
            f"the guest's clock is wrong: a trial at {begin:.0f}, our time {expected.ended:.0f}"
        )
    readings, problem = [], ""
    workload: Mapping[str, str] = {}
    try:
        if trial["status"] in (124, 137, 143):  # timeout: GNU coreutils, SIGKILL, busybox
            raise job.benchmark.fault("did not end within its slot and was stopped")
        readings = job.benchmark.readings(trial["status"], trial["stdout"], trial["stderr"])
        workload = job.benchmark.checked_workload(trial["stdout"])
    except bench.BenchmarkOutputError as error:
        problem = one_line(error, 600)
    return GuestRun(
        job=job,
        role=trial["role"],
        slot=slot,
        block=trial["trial"] - 1,
        begin=begin,
        end=end,
        cpu_s=trial["cpu"],
        readings=readings,
        error=problem,
        workload=workload,
    )
