# SPDX-License-Identifier: Apache-2.0
"""A validation: boots, blocks and trials, interleaved, with everything that happens written down.

In every boot the guests are made anew, since where they land is a source of variance. A block has
one trial of every benchmark in every arm. The order of arms is random in one block and mirrored in
the next (A B C, C B A), so that a drift over time falls on all arms alike; the seed is recorded.
"""

import dataclasses
import datetime
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from nova_perf_tuning import signals
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import collectors, host_environment, trial
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import (
    AblatedSpec,
    Ended,
    Environment,
    Incident,
    IncidentCode,
    NoiseFloor,
    RecordedArm,
    RecordedBenchmark,
)

_I = IncidentCode
#: Left of the time limit for removing guests and writing the report.
CLOSING_S: Final = 10.0
#: Guesses, until it is known: of one boot, and of a trial beyond the run of its benchmark.
_BOOT_S, _OVERHEAD_S = 10.0, 0.5
#: A warm-up need not be long: it lays out files, fills caches and opens connections once. Guests
#: get one after each boot, the host one for the session.
_WARM_UP_S = 1
#: Minimum boots for an interim look; half of fewer cannot decide.
_LEAST_BOOTS_FOR_A_LOOK: Final = 6


class TimeUp(Exception):
    """The time limit is reached; raised in the main thread by whoever watches the clock."""


def look_due(boots: int, planned: int) -> bool:
    """Return whether to take the one interim look when ``boots`` of the ``planned`` boots are made: at half."""
    return planned >= _LEAST_BOOTS_FOR_A_LOOK and boots == (planned + 1) // 2


@dataclasses.dataclass(frozen=True, slots=True)
class SessionPlan:
    """What to measure.

    :ivar arms: the guests' arms; the host's own arm is added by :attr:`with_host`.
    :ivar reasons: arm -> extra spec -> why it has its value, for the report.
    :ivar host_group, flavor: what the operator says of the host, for choosing budgets; ``tags``:
        of the run.
    :ivar ablation: arm -> what an ablation leaves out there; :ivar attached: tools that watch each
        trial.
    :ivar time_limit_s: for everything from the first boot to the last trial.
    """

    arms: tuple[launch.Arm, ...]
    jobs: tuple[plugins.Job, ...]
    boots: int
    blocks: int
    seed: int
    time_limit_s: float
    with_host: bool = True
    reasons: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    host_group: str = ""
    flavor: str = ""
    ablation: Mapping[str, AblatedSpec] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    attached: collectors.Attachment = collectors.Attachment()


class Timetable:
    """Every boot has an equal share of the time limit, and at least one block of trials.

    :ivar begun, deadline: start of the session, and when everything must be over
        (CLOCK_MONOTONIC).
    :ivar done, total: trials, warm-ups included; those that the time limit has cut count as done.
    """

    def __init__(self, plan: SessionPlan) -> None:
        self.begun = time.monotonic()
        self.deadline = self.begun + plan.time_limit_s - min(CLOSING_S, plan.time_limit_s / 4)
        self._guests, self._boots = len(plan.arms), plan.boots
        self._arms = self._guests + plan.with_host
        self._per_boot = (plan.blocks + 1) * self._arms * len(plan.jobs)
        self.done, self.total = 0, plan.boots * self._per_boot
        self._trials_s = {
            job.label: float(job.parameters.get("seconds", 0)) + _OVERHEAD_S for job in plan.jobs
        }
        self._boot_s, self._starts_left = _BOOT_S, plan.boots * self._guests

    def begin_boot(self, boot: int) -> None:
        """Note that a boot begins: what the boots before it left out will not come any more."""
        self.done, self._starts_left = boot * self._per_boot, (self._boots - boot) * self._guests

    def booted(self, seconds: float) -> None:
        self._starts_left -= 1
        self._boot_s = seconds

    def measured(self, job: plugins.Job, seconds: float) -> None:
        self._trials_s[job.label] = seconds

    def fits(self, job: plugins.Job, boot: int, block: int) -> bool:
        """Whether one more trial ends in time: of a boot's first block by the deadline, of others in its share."""
        share = 1.0
        if block:
            share = (boot + 1) / self._boots
        until = self.begun + share * (self.deadline - self.begun)
        return time.monotonic() + self._trials_s[job.label] <= until

    def fits_boot(self) -> bool:
        """Whether there is time for one more boot: its guests, a warm-up and one block."""
        needed_s = self._guests * self._boot_s + 2 * self._arms * sum(self._trials_s.values())
        return time.monotonic() + needed_s < self.deadline

    def expected_s(self) -> float:
        """Return how long what is left of the plan takes, in seconds, whatever the time limit."""
        trial_s = sum(self._trials_s.values()) / len(self._trials_s)
        return self._starts_left * self._boot_s + max(0, self.total - self.done) * trial_s

    def left_s(self) -> float:
        """Return the estimated seconds to the end: of the plan, or of what the time limit leaves of it."""
        return max(0.0, min(self.expected_s(), self.deadline - time.monotonic()))


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Where a session is.

    :ivar done, total: trials, warm-up included; those that the time limit has cut count as done.
    :ivar left_s: estimated seconds to the end: of the plan, or of what the time limit leaves of
        it.
    :ivar important: to be seen also where most progress is left out.
    """

    done: int
    total: int
    left_s: float
    text: str
    important: bool = False


class Session:
    """Runs a plan on a launcher.

    :ivar results: what there is so far; usable at any moment, also after an exception.
    """

    def __init__(
        self,
        launcher: launch.Launcher,
        plan: SessionPlan,
        save: Callable[[model.Results], None],
        progress: Callable[[Progress], None] = lambda _: None,
        noise_floor: Callable[[Environment], NoiseFloor | None] = lambda _: None,
    ) -> None:
        """Prepare the session; nothing runs yet.

        :param save: called after every block and at the end with all results so far, once there is
            a trial.
        :param progress: called before every boot and trial.
        :param noise_floor: asked after every block which holds for the run.
        """
        self._launcher = launcher
        self._plan = plan
        self._save = save
        self._progress = progress
        self._noise_floor = noise_floor
        self._random = random.Random(plan.seed)  # noqa: S311  an order that can be repeated, no secret
        self._times = Timetable(plan)
        self._pairs: dict[str, launch.Pair] = {}
        self._lost: set[str] = set()
        self._order = 0
        self._idle_softirq = 0.0
        self._cut = False
        environment = dataclasses.replace(
            planned(plan, host_environment.read()),
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            ended="running",
        )
        self.results = model.Results(environment, [])

    def run(self, more: Callable[[model.Results], bool] | None = None) -> model.Results:
        """Run the plan to its end or to the time limit and return the results.

        :param more: asked once, at the interim look: when it says False the session ends there.
            None: no look.
        :raises launch.LaunchError: no guest of the first boot could be booted, or the launcher has
            no rig.
        :raises KeyboardInterrupt: Ctrl-C; results so far are saved.
        :raises SystemExit: SIGTERM or SIGHUP where a guard turns them into this; likewise.
        """
        ended = Ended.ERROR
        try:
            self._tell("preparing the launcher")
            self._launcher.prepare()
            self._idle_softirq = host_environment.idle_softirq()
            expected_s = self._times.expected_s()
            if time.monotonic() + expected_s > self._times.deadline:
                long = datetime.timedelta(seconds=round(expected_s))
                text = f"the plan takes about {long}, more than the time limit leaves"
                self._tell(f"{text}; it will end with fewer trials", important=True)
            for boot in range(self._plan.boots):
                if boot and not self._times.fits_boot():
                    raise TimeUp
                self._run_boot(boot)
                if more is not None and not self._cut and look_due(boot + 1, self._plan.boots):
                    # Whoever judges these results later has to know it.
                    self.results.environment.looks = [
                        len({trial.boot for trial in self.results.trials})
                    ]
                    if not more(self.results):
                        break
            ended = Ended.COMPLETE
            if self._cut:
                ended = Ended.TIME_LIMIT
        except TimeUp:
            ended = Ended.TIME_LIMIT
        except (KeyboardInterrupt, SystemExit):  # a launcher turns SIGTERM into SystemExit
            ended = Ended.INTERRUPTED
            raise
        finally:
            environment = self.results.environment
            environment.ended = ended
            environment.boots_run = len({trial.boot for trial in self.results.trials})
            environment.elapsed_s = round(time.monotonic() - self._times.begun, 1)
            if self.results.trials:
                self._save(self.results)
        return self.results

    # -- one boot

    def _run_boot(self, boot: int) -> None:
        self._times.begin_boot(boot)
        try:
            self._boot(boot)
            arms = sorted(self._pairs)
            for job in self._plan.jobs:
                for arm in arms:
                    self._warm_up(job, arm, boot)
            order: list[str] = []
            for block in range(self._plan.blocks):
                if block % 2:
                    order = order[::-1]
                else:
                    order = self._random.sample(arms, len(arms))
                if not self._run_block(boot, block, order):
                    self._cut = True
                    text = f"the time limit left room for {block} of {self._plan.blocks} blocks"
                    self.results.environment.errors.append(
                        Incident(text, boot, code=_I.TIME_LIMIT)
                    )
                    self._tell(f"boot {boot + 1}/{self._plan.boots}: {text}", important=True)
                    break
                self._read_environment()
                self._save(self.results)
        finally:
            for arm in list(self._pairs):
                if arm != model.HOST:
                    self._launcher.destroy(arm)
            self._pairs.clear()
            self._lost.clear()

    def _boot(self, boot: int) -> None:
        if self._plan.with_host:
            self._pairs[model.HOST] = self._launcher.host_pair()
        failed: list[launch.LaunchError] = []
        for arm in self._random.sample(self._plan.arms, len(self._plan.arms)):
            signals.raise_swallowed()
            self._tell(f"boot {boot + 1}/{self._plan.boots}: booting {arm.name}")
            begun = time.monotonic()
            try:
                self._pairs[arm.name] = self._launcher.boot(arm)
            except launch.LaunchError as error:
                failed.append(error)
                incident = Incident(one_line(error, 2000), boot, arm.name, code=_I.BOOT)
                self.results.environment.errors.append(incident)
            self._times.booted(time.monotonic() - begun)
        if failed and len(failed) == len(self._plan.arms):
            raise failed[0]

    def _run_block(self, boot: int, block: int, order: Sequence[str]) -> bool:
        for job in self._plan.jobs:
            for arm in order:
                if not self._times.fits(job, boot, block):
                    return False
                where = f"boot {boot + 1}/{self._plan.boots} block {block + 1}/{self._plan.blocks}"
                self._tell(f"{where}: {job.label} on {arm}")
                begun = time.monotonic()
                about = {"benchmark": job.label, "arm": arm, "boot": boot, "block": block}
                with self._plan.attached.around(self._order, about):
                    outcome = self._trial(job, arm)
                if outcome.readings:
                    self._times.measured(job, time.monotonic() - begun)
                self._record(job, arm, boot, block, outcome)
        return True

    def _warm_up(self, job: plugins.Job, arm: str, boot: int) -> None:
        parameters = dict(job.parameters)
        if "seconds" in parameters:
            parameters["seconds"] = str(min(_WARM_UP_S, int(parameters["seconds"])))
        if arm == model.HOST and boot > 0:  # guests are new in each boot, the host is not
            self._times.done += 1
            return
        self._tell(f"boot {boot + 1}/{self._plan.boots}: warm-up, {job.label} on {arm}")
        outcome = self._trial(dataclasses.replace(job, parameters=parameters), arm)
        if not outcome.readings:
            incident = Incident(
                f"warm-up: {outcome.trial.error}", boot, arm, job.label, code=_I.WARM_UP
            )
            self.results.environment.errors.append(incident)

    def _trial(self, job: plugins.Job, arm: str) -> trial.TrialOutcome:
        signals.raise_swallowed()
        self._times.done += 1
        if arm in self._lost:
            text = f"not run: the machines of '{arm}' were lost before"
            return trial.TrialOutcome(
                trial.failed(job, text, model.TrialFailure.NOT_RUN), lost=True
            )
        limit_s = self._times.deadline - time.monotonic()
        if limit_s <= 0:
            raise TimeUp
        self._launcher.activate(None if arm == model.HOST else arm)
        outcome = trial.run(job, self._pairs[arm], limit_s, self._idle_softirq)
        if outcome.lost:
            self._lost.add(arm)
        return outcome

    # -- what is written down

    def _record(
        self, job: plugins.Job, arm: str, boot: int, block: int, outcome: trial.TrialOutcome
    ) -> None:
        run = dataclasses.replace(
            outcome.trial, arm=arm, boot=boot, block=block, order=self._order
        )
        run.collectors = [kind.kind for kind in self._plan.attached.kinds]
        rows = model.figures(run, outcome.readings, job.benchmark.work_metric)
        for row in rows:
            if not row.primary:
                row.course = None
            if job.beside:  # the CPU is that of the load too
                row.work, row.work_unit = None, ""
        self.results.trials += rows
        self.results.environment.benchmarks[job.label].ran(arm, outcome.workload)
        self._order += 1

    def _read_environment(self) -> None:
        """Take over what the launcher knows; only now have all arms run and their host settings been in force."""
        before, launched = self.results.environment, self._launcher.environment()
        arms = dict(before.arms)
        for name, arm in launched.arms.items():
            known = arms.get(name, RecordedArm())
            # What was wrong with the guests of one boot is not forgotten when those of the next
            # are sound.
            findings = list(dict.fromkeys([*known.findings, *arm.findings]))
            picture = arm.picture or known.picture
            arms[name] = dataclasses.replace(
                arm, reasons=known.reasons, findings=findings, picture=picture
            )
        environment = dataclasses.replace(before.updated(launched), arms=arms)
        environment.noise_floor = self._noise_floor(environment)
        self.results.environment = environment

    def _tell(self, text: str, *, important: bool = False) -> None:
        times = self._times
        self._progress(Progress(times.done, times.total, times.left_s(), text, important))


def planned(plan: SessionPlan, host: Environment) -> Environment:
    """Return what results of a plan rest on, as far as it is known before anything runs."""
    arms = {}
    for arm in plan.arms:
        reasons = dict(plan.reasons.get(arm.name, {}))
        arms[arm.name] = RecordedArm(arm.request.extra_specs(), reasons)
    return dataclasses.replace(
        host,
        host_group=plan.host_group,
        flavor=plan.flavor,
        tags=plan.tags,
        ablation=plan.ablation,
        seed=plan.seed,
        boots=plan.boots,
        blocks=plan.blocks,
        time_limit_s=plan.time_limit_s,
        arms=arms,
        benchmarks={job.label: describe(job) for job in plan.jobs},
    )


def describe(job: plugins.Job) -> RecordedBenchmark:
    peer = None
    if job.benchmark.paired:
        peer = "PEER"
    commands = [list(step.argv) for step in job.benchmark.steps(job.parameters, peer)]
    for load in job.beside:
        commands += [list(step.argv) for step in load.benchmark.steps(load.parameters, "PEER")]
    return RecordedBenchmark(
        job.benchmark.kind,
        job.benchmark.summary,
        job.recorded_parameters,
        commands,
        job.benchmark.asked(job.parameters),
    )
