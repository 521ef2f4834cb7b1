"""Measures pairs of hosts by Heat stacks: one stack for each arm, all alive at once, taking turns by the clock."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from openstack import connection

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.cloud import api as api_module
from nova_perf_tuning.validation.cloud import cloud_check, collector, host_cpu, model, sdk_errors, slots, stacks

_POLL_S: Final = 2.0
#: Of the pair's time limit, kept for removing stacks.
_CLOSING_S: Final = 30.0
#: What guests take after their last slot until Heat has everything.
_HAND_OVER_S: Final = 20.0
#: Between the end of a wait condition and the pair's own: Heat's own steps, and ours between two looks.
_NOTICE_S: Final = 10.0
#: Least time that guests get to report.
_LEAST_WAIT_S: Final = 30
#: Lines of a guest's console in an error.
_CONSOLE_LINES: Final = 12
#: The database of the run is where cleaning up looks for what was left.
_CLEAN_UP: Final = "run 'openstack perf cleanup', with the --database of this run if it had one"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How the guests of every pair are made; the parameters of heat/benchmark_pair.yaml.

    :ivar image: name or id of what tools/image/upload made.
    :ivar external_network: through which the guests reach Heat; empty: the only one that the cloud has.
    :ivar vcpus, ram_mib, disk_gib: of the flavors that are made.
    :ivar guest_tx_offload: False where the hosts' Open vSwitch runs in user space on tap devices.
    :ivar slot_s: length of a turn; 0: worked out from the benchmarks.
    :ivar boot_s: time, in seconds, that guests get from the first stack until they are ready and turns begin.
    :ivar agent_metrics: where agents tell the host CPU of guests, see :func:`host_cpu.check_url`, or empty.
    """

    image: str = "perf-guest"
    external_network: str = ""
    vcpus: int = 2
    ram_mib: int = 256
    disk_gib: int = 1
    guest_tx_offload: bool = True
    slot_s: float = 0
    boot_s: float = 60.0
    agent_metrics: str = ""


@dataclasses.dataclass(slots=True)
class _Running:
    """One arm's stack while a pair is measured.

    :ivar stack: without an id until Heat has confirmed it.
    :ivar done: its guests have told everything, or it failed.
    :ivar servers: role -> id of the guest.
    """

    number: int
    arm: model.Arm
    stack: stacks.Stack
    begun: float
    done: bool = False
    servers: dict[str, str] = dataclasses.field(default_factory=dict)


class HeatPairLauncher:
    """A :class:`nova_perf_tuning.validation.cloud.model.PairLauncher` on openstacksdk and Heat."""

    def __init__(self, settings: Settings, connect: Callable[[], connection.Connection]) -> None:
        """Connect nothing yet.

        :param connect: makes a connection; called once for each thread.
        """
        self.settings = settings
        self._api = api_module.Api(connect)
        self._closing = stacks.Stacks(self._api.patient())

    def check(self, arms: Sequence[model.Arm], plan: model.MeasurePlan) -> None:
        """See that the cloud has what every pair needs; makes nothing.

        :raises model.CloudError: naming what is missing.
        """
        need = self.expected_s(arms, plan)
        if plan.time_limit_s < need:
            raise model.CloudError(
                f"a pair needs about {need:.0f} s for {len(arms)} arms of {plan.trials} trials, "
                f"{self.settings.boot_s:.0f} s of it until its guests are ready (--boot-time); "
                f"the time limit is {plan.time_limit_s:.0f} s (--pair-time-limit)"
            )
        cloud_check.check(self._api, self.settings.image, self.settings.external_network, arms)

    def expected_s(self, arms: Sequence[model.Arm], plan: model.MeasurePlan) -> float:
        """Return about how long a pair takes: until its guests are ready, the slots of all blocks, removal."""
        grid = _grid(self.settings, arms, plan)
        return self.settings.boot_s + _measuring_s(grid, plan) + _CLOSING_S

    def measure(
        self, pair: model.HostPair, arms: Sequence[model.Arm], plan: model.MeasurePlan
    ) -> model.PairOutcome:
        """Measure all arms on one pair; see :class:`nova_perf_tuning.validation.cloud.model.PairLauncher`.

        :raises model.CloudError: the credentials are refused; no pair can be measured with them.
        """
        measured = _Pair(self._api, self.settings, pair, arms, plan)
        try:
            measured.measure(arms)
        except api_module.Interrupted:
            measured.note(model.ErrorClass.INTERRUPTED, "the run was interrupted")
        except api_module.ERRORS as error:
            if api_module.credentials_refused(error):
                raise model.CloudError(f"the cloud cannot be used: {sdk_errors.told(error)}") from error
            measured.note(model.ErrorClass.API, sdk_errors.told(error))
        finally:
            begun = time.monotonic()
            for problem in self._closing.delete([one.stack for one in measured.running]):
                measured.note(model.ErrorClass.NOT_REMOVED, f"{problem}; {_CLEAN_UP}")
            measured.outcome.seconds["delete"] = round(time.monotonic() - begun, 1)
        return measured.outcome

    def interrupt(self) -> None:
        """Let every running :meth:`measure` end soon; later ones return at once."""
        self._api.stop.set()

    def cleanup(self, run_id: str) -> list[str]:
        """Remove the stacks that a run left; return their names.

        :raises model.CloudError: the cloud cannot be reached, or a stack cannot be removed.
        """
        with sdk_errors.one_line("the cloud cannot be used"):
            found = self._closing.owned(run_id)
        problems = self._closing.delete(found)
        if problems:
            raise model.CloudError("; ".join(problems))
        return [one.name for one in found]


class _Pair:
    """One pair while it is measured."""

    def __init__(
        self,
        api: api_module.Api,
        settings: Settings,
        pair: model.HostPair,
        arms: Sequence[model.Arm],
        plan: model.MeasurePlan,
    ) -> None:
        self._api = api
        self._stacks = stacks.Stacks(api)
        self._settings = settings
        self._plan = plan
        self._grid = _grid(settings, arms, plan)
        self._sampler = host_cpu.Sampler(api, settings.agent_metrics) if settings.agent_metrics else None
        self.running: list[_Running] = []
        self.outcome = model.PairOutcome(pair)
        self.outcome.environment = {
            "launcher": "heat",
            "image": settings.image,
            "run_id": plan.run_id,
            "slot_seconds": self._grid.length_s,
            "settings": dataclasses.asdict(settings),
            "guests": {},
        }

    def measure(self, arms: Sequence[model.Arm]) -> None:
        """Make the stacks of all arms and take over what their guests tell; stacks stay."""
        begun = time.monotonic()
        deadline = begun + self._plan.time_limit_s - min(_CLOSING_S, self._plan.time_limit_s / 4)
        # Guests that are ready have a slot's time before it to warm up.
        start = math.ceil(time.time() + self._settings.boot_s + self._grid.length_s)
        for number, arm in enumerate(arms):
            self._api.sleep(0)
            self._make(number, arm, start, deadline - time.monotonic())
        with contextlib.closing(self._sampler) if self._sampler else contextlib.nullcontext():
            self._api.wait_until(self._step, deadline, _POLL_S)
        for one in self.running:
            if not one.done:
                reason = f"no result after {time.monotonic() - begun:.0f} s; {self._consoles(one)}"
                self.note(model.ErrorClass.TIME_LIMIT, reason, one.arm.name)
        self.outcome.seconds["measure"] = round(time.monotonic() - begun, 1)
        _number_blocks(self.outcome)

    def note(self, kind: model.ErrorClass, reason: str, arm: str = "") -> None:
        """Note an error of the pair, or of one of its arms."""
        self.outcome.errors.append(model.PairError(kind, one_line(reason, 2000), arm))

    def _make(self, number: int, arm: model.Arm, start: int, left_s: float) -> None:
        """Ask Heat for the stack of an arm.

        :param start: seconds since the epoch before which no trial begins. :param left_s: until the pair's end.
        """
        run = f"{model.NAME_PREFIX}{self._plan.run_id}"
        name = _stack_name(run, self.outcome.pair, arm.name)
        parameters = self.parameters(number, arm)
        parameters |= {"start_epoch": start, "time_limit": self._wait_condition_s(left_s)}
        # Noted before it is made: when the answer is lost, Heat has a stack all the same.
        one = _Running(number, arm, stacks.Stack("", name), time.time())
        self.running.append(one)
        try:
            one.stack = self._stacks.create(name, parameters, [run], math.ceil(left_s / 60) + 2)
        except stacks.StackError as error:
            self.running.remove(one)
            self.note(error.kind, str(error), arm.name)

    def _step(self) -> bool:
        """Look after every stack once; True when all are done."""
        for one in self.running:
            if one.done:
                continue
            status, reason = self._stacks.status(one.stack)
            self._find_servers(one)
            if status == "CREATE_IN_PROGRESS":
                continue
            one.done = True
            try:
                if status != "CREATE_COMPLETE":
                    raise self._stacks.failure(one.stack, reason)
                self.collect(one)
            except stacks.StackError as error:
                text = str(error)
                if error.kind in (model.ErrorClass.NO_SIGNAL, model.ErrorClass.TIME_LIMIT):
                    text = f"{text}; {self._consoles(one)}"
                self.note(error.kind, text, one.arm.name)
            except collector.DocumentError as error:
                self.note(model.ErrorClass.BAD_RESULTS, str(error), one.arm.name)
        return all(one.done for one in self.running)

    def collect(self, one: _Running) -> None:
        """Take over what one arm's guests told.

        :raises collector.DocumentError: it cannot be used.
        """
        outcome, sampler, plan = self.outcome, self._sampler, self._plan
        told = self._stacks.outputs(one.stack)
        expected = collector.Expected(
            plan.run_id, one.arm.name, one.number, self._grid, plan.jobs, plan.trials, one.begun, time.time()
        )
        times = len(stacks.signals(self._stacks.events(one.stack), "documents_handle"))
        if times > 1:  # Heat itself lets a second signal replace the first
            raise collector.DocumentError(f"the client signalled {times} times instead of once; nothing is used")
        document = collector.read(told.get("documents"), expected)
        order = 1 + max((trial.order for trial in outcome.trials), default=-1)
        trials = collector.trials(document, expected, order)
        by_order = {order + index: run for index, run in enumerate(document.runs)}
        for trial in trials:
            run = by_order[trial.order]
            roles = collector.roles(run)
            servers = [one.servers[role] for role in roles if role in one.servers]
            used = sampler.used(servers, run.begin, run.end) if sampler and len(servers) == len(roles) else None
            if used is not None:
                trial.host_cpu_s = used
                outcome.host_cpu_source = host_cpu.SOURCE
        if sampler is not None and sampler.faults:
            outcome.environment.setdefault("host_cpu_faults", {}).update(sampler.faults)
        outcome.trials += trials
        for run in document.runs:
            if run.error:
                reason = f"{run.job.label} on the {run.role} in slot {run.slot}: {run.error}"
                self.note(model.ErrorClass.BENCHMARK_FAILED, reason, one.arm.name)
        hosts = told.get("hosts")
        if isinstance(hosts, dict) and all(isinstance(hosts.get(role), str) for role in ("client", "server")):
            outcome.hosts[one.arm.name] = model.HostPair(hosts["client"], hosts["server"])
        outcome.environment["guests"][one.arm.name] = document.guests

    def _find_servers(self, one: _Running) -> None:
        """Learn the guests' ids as soon as there are some; then their CPU time can be sampled."""
        if len(one.servers) == 2:
            return
        one.servers |= self._stacks.servers(one.stack)
        if len(one.servers) == 2 and self._sampler is not None:
            self._sampler.watch(one.servers.values())

    def _consoles(self, one: _Running) -> str:
        """Return the tails of both guests' consoles as one line."""
        tails = []
        for role in ("client", "server"):
            if role not in one.servers:
                tails.append(f"the {role} was not made")
                continue
            try:
                ask = functools.partial(
                    self._api.connection.compute.get_server_console_output,
                    one.servers[role],
                    length=_CONSOLE_LINES,
                )
                found = self._api.read(ask)
                text = found.get("output", "") if isinstance(found, dict) else found
            except api_module.ERRORS as error:
                text = f"(cannot be read: {sdk_errors.told(error)})"
            tails.append(f"{role}'s console ends: {one_line(str(text)[-1200:], 600) or '(empty)'}")
        return "; ".join(tails)

    def parameters(self, number: int, arm: model.Arm) -> dict[str, Any]:
        """Return those of the template that are the same whenever the stack is made."""
        settings, pair, plan = self._settings, self.outcome.pair, self._plan
        size: dict[str, Any] = {"flavor": arm.flavor}
        if not arm.flavor:
            size = {"vcpus": settings.vcpus, "ram": settings.ram_mib, "disk": settings.disk_gib}
            size["extra_specs"] = dict(arm.extra_specs)
        return {
            **size,
            "image": settings.image,
            "client_host": pair.client,
            "server_host": pair.server,
            "external_network": settings.external_network or cloud_check.external_network(self._api),
            "guest_tx_offload": settings.guest_tx_offload,
            "benchmarks": [_benchmark(job) for job in plan.jobs],
            "trials": plan.trials,
            "run_id": plan.run_id,
            "arm": number,
            "arms": self._grid.arms,
            "slot_seconds": self._grid.length_s,
        }

    def _wait_condition_s(self, left_s: float) -> int:
        """Return how long Heat waits for the guests' signals, which it does from when both are active.

        It ends before the pair does, since it says who was silent: what guests take until they are ready, which
        holds what they take until they are active, is left out. It lasts as long as guests need that work.
        """
        boot_s = self._settings.boot_s
        need_s = boot_s + _measuring_s(self._grid, self._plan)
        wait_s = max(left_s - boot_s - _NOTICE_S, min(left_s, need_s))
        return max(_LEAST_WAIT_S, min(43200, int(wait_s)))


def _grid(settings: Settings, arms: Sequence[model.Arm], plan: model.MeasurePlan) -> slots.Grid:
    return slots.Grid(len(arms), int(settings.slot_s) or slots.length_s(plan.jobs))


def _measuring_s(grid: slots.Grid, plan: model.MeasurePlan) -> float:
    """Return the seconds from ready guests to their results: a slot to warm up in, a block's begin, the trials."""
    return grid.length_s * (1 + grid.arms * (plan.trials + 1)) + _HAND_OVER_S


def _benchmark(job: Any) -> dict[str, Any]:
    """Return a job as the template's parameter holds it: with its commands, so that every plug-in can run."""
    steps = job.benchmark.steps(job.parameters, "PEER" if job.benchmark.paired else None)
    found: dict[str, Any] = {
        "label": job.label,
        "benchmark": job.benchmark.kind,
        "parameters": dict(job.parameters),
        "paired": job.benchmark.paired,
    }
    for step in steps:
        found[step.role] = list(step.argv)
    return found


def _number_blocks(outcome: model.PairOutcome) -> None:
    """Let block N hold the N-th slot of every arm: one that came up a round later still has its counterpart."""
    for arm in {trial.arm for trial in outcome.trials}:
        own = [trial for trial in outcome.trials if trial.arm == arm]
        rank = {block: number for number, block in enumerate(sorted({trial.block for trial in own}))}
        for trial in own:
            trial.block = rank[trial.block]


def _stack_name(run: str, pair: model.HostPair, arm: str) -> str:
    """Return a name that Heat takes (letters, digits, '_.-'), with a random end: hosts may meet twice."""
    parts = [pair.client or "any", pair.server or "any", arm]
    words = "-".join(re.sub(r"[^A-Za-z0-9_.-]", "_", part)[:60] for part in parts)
    return f"{run}-{words}-{secrets.token_hex(3)}"
