"""One trial: a benchmark's server and client, with CPU read around the client in the same window."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

from nova_perf_tuning.bench import base as bench
from nova_perf_tuning.bench import output, plugins
from nova_perf_tuning.budget import frequency, host_environment
from nova_perf_tuning.launch import base as launch

#: How long a server may take until it listens; an emulated guest on a busy host needs seconds.
_SERVER_START_S = 30.0
_RETRY_S = 0.25


@dataclasses.dataclass(slots=True)
class Outcome:
    """What one run gave.

    :ivar readings: empty when :attr:`error` is set.
    :ivar host_cpu_s, guest_cpu_s, wait_s: differences over the window, see
        :class:`nova_perf_tuning.launch.base.CpuReading`; of both machines for a paired benchmark.
    :ivar conditions: of the host in that window, see :mod:`nova_perf_tuning.budget.host_environment`.
    :ivar lost: the machine itself failed; further trials on it are pointless.
    """

    readings: list[bench.Reading] = dataclasses.field(default_factory=list)
    error: str | None = None
    host_cpu_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    guest_cpu_s: float | None = None
    wait_s: float | None = None
    window_s: float = 0.0
    lost: bool = False
    conditions: Mapping[str, float] = dataclasses.field(default_factory=dict)


def run(job: plugins.Job, pair: launch.Pair, limit_s: float, idle_softirq: float = 0.0) -> Outcome:
    """Run ``job`` on ``pair`` once; whatever fails is in the outcome, but for Ctrl-C.

    :param limit_s: wall time that the trial may take at most.
    :param idle_softirq: what the idle host spends on interrupts and softirqs, in CPU seconds per second.
    """
    deadline = time.monotonic() + limit_s
    try:
        return _run(job, pair, deadline, idle_softirq)
    except launch.ProgramError as error:
        return Outcome(error=output.printable(error, 600))
    except launch.LaunchError as error:
        return Outcome(error=output.printable(error, 600), lost=True)
    except bench.OutputError as error:
        return Outcome(error=output.printable(error, 600))


def _run(job: plugins.Job, pair: launch.Pair, deadline: float, idle_softirq: float) -> Outcome:
    steps = job.benchmark.steps(job.parameters, pair.server.address if job.benchmark.paired else None)
    machines = (pair.client, pair.server) if job.benchmark.paired else (pair.client,)
    [client] = [step for step in steps if step.role == "client"]
    own_cpus = frozenset[int]().union(*(machine.own_cpus() for machine in machines))
    with _servers(pair.server, steps):
        give_up = time.monotonic() + _SERVER_START_S
        while True:
            circumstances = host_environment.look(pair.client.interface)
            before = [machine.cpu() for machine in machines]
            limit_s = max(0.1, min(client.timeout_s, deadline - time.monotonic()))
            with frequency.Sampler() as speeds:
                finished = pair.client.run(client.argv, limit_s)
            after = [machine.cpu() for machine in machines]
            later = host_environment.look(pair.client.interface)
            conditions = host_environment.conditions(circumstances, later, own_cpus)
            conditions |= speeds.conditions(host_environment.busy_ticks(circumstances, later))
            try:
                readings = _readings(job.benchmark, finished, limit_s)
            except bench.NotReadyError:
                if time.monotonic() >= min(give_up, deadline):
                    raise
                time.sleep(_RETRY_S)
                continue
            outcome = _outcome(readings, before, after)
            outcome.conditions = conditions
            softirq_s = host_environment.softirq_s(circumstances, later, own_cpus)
            outcome.host_cpu_s = {**outcome.host_cpu_s, "softirq": softirq_s - idle_softirq * outcome.window_s}
            return outcome


@contextlib.contextmanager
def _servers(machine: launch.Machine, steps: Sequence[bench.Step]) -> Iterator[None]:
    with contextlib.ExitStack() as running:
        for step in steps:
            if step.role == "server":
                running.callback(machine.stop, machine.start(step.argv))
        yield


def _readings(benchmark: bench.Benchmark, finished: launch.Finished, limit_s: float) -> list[bench.Reading]:
    """Return what the client measured.

    :raises bench.OutputError: killed, failed or unreadable; the tool's own words come first.
    """
    if finished.returncode is None:
        raise bench.OutputError(f"{benchmark.kind}: did not end within {limit_s:.3g} s and was stopped")
    if finished.returncode == 0:
        return benchmark.parse(finished.stdout)
    told = output.printable(finished.stderr.strip()[-600:], 300)
    if not told and finished.stdout.strip():
        benchmark.parse(finished.stdout)  # iperf3 tells its error in the JSON
    if benchmark.paired and "refused" in told.lower():  # its server does not listen yet
        raise bench.NotReadyError(f"{benchmark.kind}: {told}")
    raise bench.OutputError(f"{benchmark.kind}: ended with status {finished.returncode}: {told or 'no message'}")


def _outcome(
    readings: list[bench.Reading], before: Sequence[launch.CpuReading], after: Sequence[launch.CpuReading]
) -> Outcome:
    pairs = list(zip(before, after, strict=True))
    classes = {name for reading in after for name in reading.host_s}
    host_cpu_s = {
        name: sum(last.host_s.get(name, 0.0) - first.host_s.get(name, 0.0) for first, last in pairs)
        for name in sorted(classes)
    }
    return Outcome(
        readings=readings,
        host_cpu_s=host_cpu_s,
        guest_cpu_s=_total([(first.guest_s, last.guest_s) for first, last in pairs]),
        wait_s=_total([(first.wait_s, last.wait_s) for first, last in pairs]),
        window_s=after[-1].at - before[0].at,
    )


def _total(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    total = 0.0
    for first, last in pairs:
        if first is None or last is None:
            return None
        total += last - first
    return total
