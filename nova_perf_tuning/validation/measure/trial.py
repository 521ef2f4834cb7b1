# SPDX-License-Identifier: Apache-2.0
"""One trial: a benchmark's server and client, with CPU counted while the client measured."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping
from typing import Final, Literal

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import host_environment, sampling
from nova_perf_tuning.validation.results import model

#: How long a server may take until it listens; an emulated guest on a busy host needs seconds.
_SERVER_START_S = 30.0
_RETRY_S = 0.25
#: Most that a machine's clock may be wrong against the host's for its stamps to count.
MAX_ERROR_S: Final = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """The time over which a trial's CPU is counted: begin and end by the host's CLOCK_MONOTONIC.

    ``measuring``: what the benchmark itself measured (:class:`.bench.base.Span`), without start
    and warm-up. ``program``: from the start of its program to its end, where its output does not
    tell more. ``execution``: from asking for the program until its end was seen, where the
    machine's clock is unknown.
    """

    kind: Literal["measuring", "program", "execution"]
    begin: float
    end: float


@dataclasses.dataclass(slots=True)
class TrialOutcome:
    """What one run gave; after ``lost`` the machine itself failed, further trials on it are pointless.

    :ivar trial: the run by itself, of no arm yet: what it cost, and why there is no figure.
    :ivar workload: what the output says of the work, see :class:`.RecordedBenchmark`.
    """

    trial: model.Trial
    readings: list[bench.Reading] = dataclasses.field(default_factory=list)
    lost: bool = False
    workload: Mapping[str, str] = dataclasses.field(default_factory=dict)


def run(
    job: plugins.Job, pair: launch.Pair, limit_s: float, idle_softirq: float = 0.0
) -> TrialOutcome:
    """Run ``job`` on ``pair`` once; whatever fails is in the outcome, but for Ctrl-C.

    :param limit_s: wall time that the trial may take at most.
    :param idle_softirq: what the idle host spends on interrupts and softirqs, in CPU seconds per
        second.
    """
    deadline = time.monotonic() + limit_s
    try:
        return _run(job, pair, deadline, idle_softirq)
    except bench.BenchmarkOutputError as error:
        return TrialOutcome(failed(job, one_line(error, 600), model.TrialFailure.OUTPUT))
    except launch.ProgramError as error:
        return TrialOutcome(failed(job, one_line(error, 600), model.TrialFailure.SERVER))
    except launch.LaunchError as error:
        return TrialOutcome(
            failed(job, one_line(error, 600), model.TrialFailure.MACHINE), lost=True
        )


def failed(job: plugins.Job, error: str, failure: model.TrialFailure) -> model.Trial:
    """Return a trial that has no figure and cost nothing that is known."""
    return model.Trial(
        job.label,
        *job.benchmark.primary,
        "",
        0,
        0,
        None,
        {},
        None,
        0.0,
        error=error,
        failure=failure,
    )


def _run(
    job: plugins.Job, pair: launch.Pair, deadline: float, idle_softirq: float
) -> TrialOutcome:
    machines, server = [pair.client], None
    if job.benchmark.paired:
        machines, server = [pair.client, pair.server], pair.server.address
    steps = job.benchmark.steps(job.parameters, server)
    [client] = [step for step in steps if step.role == "client"]
    with contextlib.ExitStack() as servers:
        for step in steps:
            if step.role == "server":
                servers.enter_context(pair.server.serving(step.argv))
        for load in job.beside:
            _begin_load(load, pair, servers)
        give_up = time.monotonic() + _SERVER_START_S
        while True:
            circumstances = host_environment.look(pair.client.interface)
            counters = sampling.Counters(machines)
            limit_s = max(0.1, min(client.timeout_s, deadline - time.monotonic()))
            with counters.running():
                finished = pair.client.run(client.argv, limit_s)
            clock = pair.client.clock()
            later = host_environment.look(pair.client.interface)
            conditions = host_environment.conditions(circumstances, later, counters.speeds.means())
            try:
                if finished.returncode is None:
                    raise job.benchmark.fault(
                        f"did not end within {limit_s:.3g} s and was stopped"
                    )
                readings = job.benchmark.readings(
                    finished.returncode, finished.stdout, finished.stderr
                )
            except bench.NotReadyError:
                if time.monotonic() >= min(give_up, deadline):
                    raise
                time.sleep(_RETRY_S)
                continue
            begun, ended = counters.host.limits
            window = find_window(job.benchmark, finished, clock, (begun, ended))
            host_cpu_s, guest_cpu_s, wait_s = counters.spent(window.begin, window.end)
            host_cpu_s["softirq"] -= idle_softirq * (window.end - window.begin)
            for name, seconds in host_cpu_s.items():
                host_cpu_s[name] = round(seconds, 6)
            cost = dataclasses.replace(
                failed(job, "no figure in the output", model.TrialFailure.NO_FIGURE),
                host_cpu_s=host_cpu_s,
                guest_cpu_s=guest_cpu_s,
                wait_s=wait_s,
                window=window.kind,
                window_s=window.end - window.begin,
                exec_s=ended - begun,
                conditions=conditions,
                course=counters.course(window.begin, window.end),
            )
            workload = job.benchmark.checked_workload(finished.stdout)
            if job.beside:
                workload["beside"] = job.loads
            return TrialOutcome(cost, readings, workload=workload)


def _begin_load(load: plugins.Job, pair: launch.Pair, until: contextlib.ExitStack) -> None:
    """Run a load on the client, with its server on the peer, until the stack is closed."""
    peer = None
    if load.benchmark.paired:
        peer = pair.server.address
    for step in load.benchmark.steps(load.parameters, peer):
        if step.role == "server":
            until.enter_context(pair.server.serving(step.argv))
        else:
            until.enter_context(pair.client.loading(step.argv))


def find_window(
    benchmark: bench.Benchmark,
    finished: launch.Finished,
    clock: launch.Clock | None,
    limits: tuple[float, float],
) -> Window:
    """Return the window of a run whose output ``Benchmark.parse`` has read.

    :param clock: of the machine it ran on; None: unknown.
    :param limits: begin and end of the whole execution, in which counters were read.
    """
    if clock is None or clock.error_s > MAX_ERROR_S or finished.lived is None:
        return Window("execution", *limits)
    began, ended = map(clock.monotonic, finished.lived)
    # A guest may say what it likes.
    if not limits[0] - MAX_ERROR_S <= began < ended <= limits[1] + MAX_ERROR_S:
        return Window("execution", *limits)
    program = Window("program", max(began, limits[0]), min(ended, limits[1]))
    # Other versions of a tool may print less.
    with contextlib.suppress(bench.BenchmarkOutputError):
        span = benchmark.checked_span(finished.stdout)
        if span is not None:
            until = program.end
            if span.until is not None:
                until = clock.monotonic(span.until)
            since = until - span.seconds
            if program.begin <= since < until <= program.end:
                return Window("measuring", since, until)
    return program
