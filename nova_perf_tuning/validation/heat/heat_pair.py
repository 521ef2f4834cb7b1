# SPDX-License-Identifier: Apache-2.0
"""Measures pairs of hosts by Heat stacks: one for each arm, all at once, in turn by the clock."""

import contextlib
import dataclasses
import functools
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from openstack import connection

from nova_perf_tuning import errors
from nova_perf_tuning.placement import api
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.heat import cloud_check, collector, host_cpu, stacks
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import model

POLL_S: Final = 2.0
#: Of the pair's time limit, kept for removing stacks.
CLOSING_S: Final = 30.0
#: What guests take after their last slot until Heat has everything.
_HAND_OVER_S: Final = 20.0
#: Between the end of a wait condition and the pair's own: Heat's own steps, and ours between two
#: looks.
_NOTICE_S: Final = 10.0
#: Least time that guests get to report.
_LEAST_WAIT_S: Final = 30
#: Lines of a guest's console in an error.
_CONSOLE_LINES: Final = 12
#: Keep the timeline of at most this many runs of a pair; it goes into the database.
_MAX_COURSES: Final = 1000


@dataclasses.dataclass(slots=True)
class _Running:
    """One arm's stack while a pair is measured.

    :ivar stack: without an id until Heat has confirmed it. :ivar servers: role -> id of the guest.
    :ivar done: its guests have handed over everything, or it failed.
    """

    number: int
    arm: fleet_model.FleetArm
    stack: stacks.Stack
    begun: float
    done: bool = False
    servers: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class HeatCloud:
    """A cloud.

    :ivar name: its entry of clouds.yaml, or empty.
    :ivar connect: see :class:`.api.Api`.
    """

    name: str
    connect: Callable[[], connection.Connection]

    def choose(self, words: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str]]:
        return cloud_check.choose(api.Api(self.connect), words)

    def launcher(self, guests: fleet_model.GuestSettings) -> "HeatPairLauncher":
        return HeatPairLauncher(guests, api.Api(self.connect))

    def identity(self) -> str:
        return cloud_check.identity(api.Api(self.connect))


class HeatPairLauncher:
    """Launches, measures and removes the guests of pairs; several threads may call it at once."""

    def __init__(self, settings: fleet_model.GuestSettings, cloud_api: api.Api) -> None:
        self.settings = settings
        self._api = cloud_api
        self._patient = cloud_api.patient()
        self._closing = stacks.Stacks(self._patient)

    def own(self, lease: api.Lease) -> None:
        """Use the cloud for a run from now on, as long as this process has it."""
        self._api.lease = self._patient.lease = lease

    def check(self, plan: fleet_model.MeasurePlan) -> None:
        """Check that the cloud has what every pair needs; make nothing.

        :raises errors.CloudError: something is missing.
        """
        need = self.expected_s(plan) + CLOSING_S
        if plan.time_limit_s < need:
            raise errors.CloudError(
                f"a pair needs about {need:.0f} s for {len(plan.arms)} arms of {plan.trials}"
                f" trials, {self.settings.boot_s:.0f} s of it until its guests are ready (--boot-time); "
                f"the time limit is {plan.time_limit_s:.0f} s (--pair-time-limit)"
            )
        cloud_check.check(self._api, self.settings, plan.arms)

    def expected_s(self, plan: fleet_model.MeasurePlan) -> float:
        """Return about how long a pair takes, from its first stack to its results."""
        return self.settings.boot_s + _measuring_s(_grid(self.settings, plan), plan)

    def measure(
        self, pair: fleet_model.HostPair, plan: fleet_model.MeasurePlan
    ) -> fleet_model.PairOutcome:
        """Measure all arms on a pair and remove what was made; failures are in the outcome.

        :raises errors.CloudError: the credentials are refused; no pair can be measured with them.
        :raises PerfTuningError: another process has the run; what was made for the pair is that
            one's to remove.
        """
        measured = _Pair(self._api, self.settings, pair, plan)
        try:
            self._remove_strangers()
            measured.measure()
        except api.Interrupted:
            measured.note(fleet_model.ErrorClass.INTERRUPTED, "the run was interrupted")
        except api.ERRORS as error:
            if api.http_status(error) == 401:
                raise errors.CloudError(
                    f"the cloud cannot be used: {api.text_of(error)}"
                ) from error
            measured.note(fleet_model.ErrorClass.API, api.text_of(error))
        finally:
            for problem in self._closing.delete([running.stack for running in measured.running]):
                how = "run 'openstack perf cleanup', with the --database of this run if it had one"
                measured.note(fleet_model.ErrorClass.NOT_REMOVED, f"{problem}; {how}")
        return measured.outcome

    def interrupt(self) -> None:
        """Let every running :meth:`measure` end soon; later ones return at once."""
        self._api.stop.set()

    def cleanup(self, run_id: str) -> list[str]:
        """Remove the stacks that a run left; return their names.

        :raises errors.CloudError: the cloud cannot be reached, or a stack cannot be removed.
        """
        with api.one_line("the cloud cannot be used"):
            owned = self._closing.owned(run_id)
        problems = self._closing.delete(owned)
        if problems:
            raise errors.CloudError("; ".join(problems))
        return [stack.name for stack in owned]

    def left(self) -> list[str]:
        """Return the names of the stacks of all runs; CloudError: the cloud cannot be reached."""
        with api.one_line("the cloud cannot be used"):
            return [stack.name for stack in self._closing.all()]

    def _remove_strangers(self) -> None:
        """Remove what an earlier owner made after it had lost the run: Heat got a request late.

        It would stand beside what is measured. What stays is tried again at the end of the run.
        """
        lease = self._api.lease
        if lease is None or not lease.had_owner:
            return
        owned = stacks.Stacks(self._api).owned(lease.run_id)
        self._closing.delete([stack for stack in owned if stack.token != lease.token])


class _Pair:
    """One pair while it is measured."""

    def __init__(
        self,
        cloud_api: api.Api,
        settings: fleet_model.GuestSettings,
        pair: fleet_model.HostPair,
        plan: fleet_model.MeasurePlan,
    ) -> None:
        self._api = cloud_api
        self._stacks = stacks.Stacks(cloud_api)
        self._settings = settings
        self._plan = plan
        self._grid = _grid(settings, plan)
        self.running: list[_Running] = []
        self.outcome = fleet_model.PairOutcome(pair)
        self._sampler: host_cpu.Sampler | None = None
        if settings.agent_metrics:
            self._sampler = host_cpu.Sampler(cloud_api, settings.agent_metrics)
            self.outcome.host_cpu_faults = self._sampler.faults

    def measure(self) -> None:
        """Make the stacks of all arms and take over what their guests tell; stacks stay."""
        begun = time.monotonic()
        deadline = begun + self._plan.time_limit_s - min(CLOSING_S, self._plan.time_limit_s / 4)
        # Guests that are ready have a slot's time before it to warm up.
        start = math.ceil(time.time() + self._settings.boot_s + self._grid.length_s)
        sampling: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if self._sampler is not None:
            sampling = contextlib.closing(self._sampler)
        with sampling:
            for number, arm in enumerate(self._plan.arms):
                self._api.sleep(0)
                self._make(number, arm, start, deadline - time.monotonic())
            while not self._step() and (left_s := deadline - time.monotonic()) > 0:
                self._api.sleep(min(POLL_S, left_s))
        for running in self.running:
            if not running.done:
                reason = (
                    f"no result after {time.monotonic() - begun:.0f} s; {self._consoles(running)}"
                )
                self.note(fleet_model.ErrorClass.TIME_LIMIT, reason, running.arm.name)

    def note(self, kind: fleet_model.ErrorClass, reason: str, arm: str = "") -> None:
        if kind is fleet_model.ErrorClass.NO_HOST and not self.outcome.pair.client:
            reason = f"a pair where the scheduler puts it needs two hosts; on one give --hosts all: {reason}"
        self.outcome.errors.append(fleet_model.PairError(kind, one_line(reason, 2000), arm))

    def _make(self, number: int, arm: fleet_model.FleetArm, start: int, left_s: float) -> None:
        """Make the stack of an arm; no trial begins before ``start``, seconds since the epoch."""
        run = f"{fleet_model.NAME_PREFIX}{self._plan.run_id}"
        name = _stack_name(run, self.outcome.pair, arm.name)
        parameters = self.parameters(number, arm)
        parameters |= {"start_epoch": start, "time_limit": self._wait_condition_s(left_s)}
        # Noted before it is made: when the answer is lost, Heat has a stack all the same.
        running = _Running(number, arm, stacks.Stack("", name), time.time())
        self.running.append(running)
        try:
            running.stack = self._stacks.create(
                name, parameters, [run], math.ceil(left_s / 60) + 2
            )
        except stacks.StackError as error:
            self.running.remove(running)
            self.note(error.kind, str(error), arm.name)

    def _step(self) -> bool:
        """Look after every stack once; True when all are done."""
        for running in self.running:
            if running.done:
                continue
            status, reason = self._stacks.status(running.stack)
            if len(running.servers) < 2:
                running.servers |= self._stacks.servers(running.stack)
            if self._sampler is not None:
                self._sampler.watch(running.servers.values())
            if status in ("CREATE_IN_PROGRESS", "unknown"):
                continue
            running.done = True
            self._take_over(running, status, reason)
        return all(running.done for running in self.running)

    def _take_over(self, running: _Running, status: str, reason: str) -> None:
        """Take over the results of a stack that Heat has finished, or note why there are none."""
        try:
            if status != "CREATE_COMPLETE":
                raise self._stacks.failure(running.stack, reason)
            self.collect(running)
        except stacks.StackError as error:
            text = str(error)
            if error.kind is fleet_model.ErrorClass.NO_SIGNAL:
                text = f"{text}; {self._consoles(running)}"
            self.note(error.kind, text, running.arm.name)
        except collector.DocumentError as error:
            self.note(fleet_model.ErrorClass.BAD_RESULTS, str(error), running.arm.name)

    def collect(self, running: _Running) -> None:
        """Take over what one arm's guests handed to Heat.

        :raises collector.DocumentError: it cannot be used, or the guests ran on other hosts.
        """
        outcome, arm = self.outcome, running.arm.name
        outputs = self._stacks.outputs(running.stack)
        ran_on = _ran_on(outputs.get("hosts"))
        if ran_on is not None:
            _check_hosts(outcome.pair, ran_on)
        expected = collector.Expected(
            self._plan, arm, running.number, self._grid, running.begun, time.time()
        )
        guests, runs = collector.read(outputs.get("documents"), expected)
        first = 1 + max((trial.order for trial in outcome.trials), default=-1)
        made = [collector.trials(run, expected, order) for order, run in enumerate(runs, first)]
        for run, trials in zip(runs, made, strict=True):
            if self._sampler is not None:
                servers = [running.servers.get(role, "") for role in run.roles]
                self._add_host_cpu(self._sampler, run, servers, trials)
            outcome.trials += trials
            outcome.ran(run.job.label, arm, run.workload)
            if run.error:
                reason = f"{run.job.label} on the {run.role} in slot {run.slot}: {run.error}"
                self.note(fleet_model.ErrorClass.BENCHMARK_FAILED, reason, arm)
        if ran_on is not None:
            outcome.hosts[arm] = ran_on
        outcome.guests[arm] = guests

    def _add_host_cpu(
        self,
        sampler: host_cpu.Sampler,
        run: collector.GuestRun,
        servers: Sequence[str],
        trials: Sequence[model.Trial],
    ) -> None:
        """Give the trials of a run the host CPU of the guests that took part, if it is known."""
        used = sampler.used(servers, run.begin, run.end)
        if not used:
            return
        self.outcome.host_cpu_source = host_cpu.SOURCE
        wait_s = used.pop(host_cpu.WAIT, None)
        course = None
        if trials[0].order < _MAX_COURSES:
            course = sampler.course(servers, run.begin, run.end)
        for trial in trials:
            trial.host_cpu_s, trial.wait_s = used, wait_s
            if trial.primary:
                trial.course = course

    def _consoles(self, running: _Running) -> str:
        tails = []
        for role in ("client", "server"):
            if role not in running.servers:
                tails.append(f"the {role} was not made")
                continue
            ask = self._api.connection.compute.get_server_console_output
            try:
                console = self._api.call(
                    functools.partial(ask, running.servers[role], length=_CONSOLE_LINES)
                )
                text = str(console.get("output", ""))
            except api.ERRORS as error:
                text = f"(cannot be read: {api.text_of(error)})"
            tails.append(f"{role}'s console ends: {one_line(text[-1200:], 600) or '(empty)'}")
        return "; ".join(tails)

    def parameters(self, number: int, arm: fleet_model.FleetArm) -> dict[str, object]:
        """Return those of the template that are the same whenever the stack is made."""
        settings, pair, plan = self._settings, self.outcome.pair, self._plan
        external_network = settings.external_network
        if not external_network and not settings.network:
            external_network = cloud_check.external_network(self._api)
        parameters: dict[str, object] = {
            "image": settings.image,
            "client_host": pair.client,
            "server_host": pair.server,
            "guest_network": settings.network,
            "external_network": external_network,
            "guest_tx_offload": settings.guest_tx_offload,
            "benchmarks": [_benchmark(job) for job in plan.jobs],
            "trials": plan.trials,
            "run_id": plan.run_id,
            "arm": number,
            "arms": self._grid.arms,
            "slot_seconds": self._grid.length_s,
        }
        if arm.flavor:
            parameters["flavor"] = arm.flavor
        else:
            parameters["vcpus"] = settings.vcpus
            parameters["ram"] = settings.ram_mib
            parameters["disk"] = settings.disk_gib
            parameters["extra_specs"] = dict(arm.extra_specs)
        return parameters

    def _wait_condition_s(self, left_s: float) -> int:
        """Return how long Heat waits for the guests' signals after both are active.

        It ends before the pair does, since it says who was silent, but lasts as long as guests
        need that work.
        """
        boot_s = self._settings.boot_s
        need_s = boot_s + _measuring_s(self._grid, self._plan)
        wait_s = max(left_s - boot_s - _NOTICE_S, min(left_s, need_s))
        return max(_LEAST_WAIT_S, min(43200, int(wait_s)))


def _ran_on(hosts: object) -> fleet_model.HostPair | None:
    """Return the hosts of the guests from a stack's output ``hosts``, None where it has none.

    A name is empty where Nova does not show it.
    """
    if not isinstance(hosts, dict):
        return None
    return fleet_model.HostPair(str(hosts.get("client") or ""), str(hosts.get("server") or ""))


def _check_hosts(pair: fleet_model.HostPair, ran_on: fleet_model.HostPair) -> None:
    """Check that guests ran on the hosts of their pair, as far as both are known.

    :raises collector.DocumentError: they ran elsewhere, as after a live migration.
    """
    roles = (("client", pair.client, ran_on.client), ("server", pair.server, ran_on.server))
    for role, planned, found in roles:
        if planned and found and planned != found:
            raise collector.DocumentError(
                f"guests ran on another host: the {role} on {found} instead of {planned}; their results"
                " are dropped; keep instances from migrating and measure again"
            )


def _grid(settings: fleet_model.GuestSettings, plan: fleet_model.MeasurePlan) -> fleet_model.Grid:
    return fleet_model.Grid(len(plan.arms), int(settings.slot_s) or fleet_model.slot_s(plan.jobs))


def _measuring_s(grid: fleet_model.Grid, plan: fleet_model.MeasurePlan) -> float:
    """Return the seconds from ready guests to results: warm-up, a block's begin, trials."""
    return grid.length_s * (1 + grid.arms * (plan.trials + 1)) + _HAND_OVER_S


def _benchmark(job: plugins.Job) -> dict[str, object]:
    """Return a job for the template's parameter, with the commands of its plug-in."""
    peer = None
    if job.benchmark.paired:
        peer = "PEER"
    parameter: dict[str, object] = {
        "label": job.label,
        "benchmark": job.benchmark.kind,
        "parameters": dict(job.parameters),
        "paired": job.benchmark.paired,
    }
    for step in job.benchmark.steps(job.parameters, peer):
        parameter[step.role] = list(step.argv)
    return parameter


def _stack_name(run: str, pair: fleet_model.HostPair, arm: str) -> str:
    """Return a name for Heat (letters, digits, '_.-'); its end is random: hosts may meet twice."""
    parts = [pair.client or "any", pair.server or "any", arm]
    words = "-".join(re.sub(r"[^A-Za-z0-9_.-]", "_", part)[:60] for part in parts)
    return f"{run}-{words}-{secrets.token_hex(3)}"
