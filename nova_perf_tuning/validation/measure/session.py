"""A validation: boots, blocks and trials, interleaved, with everything that happens written down.

In every boot the guests are made anew, since where they land is a source of variance. A block has one
trial of every benchmark in every arm. The order of arms is random in one block and mirrored in the next
(A B C, C B A), so that a drift over time falls on all arms alike; the seed is recorded.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import time
from collections.abc import Callable, Mapping, Sequence

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import host_environment, interim, model, timetable, trial

#: A warm-up need not be long: it lays out files, fills caches and opens connections once. Guests get one after
#: each boot, the host one for the session.
_WARM_UP_S = 1


class TimeUp(Exception):
    """The time limit is reached; raised in the main thread by whoever watches the clock."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    :ivar arms: the guests' arms; the host's own arm is added by :attr:`with_host`.
    :ivar seed: of the order of trials.
    :ivar reasons: arm -> extra spec -> why it has its value, for the report.
    :ivar host_group, flavor: what the operator says of the host, for choosing budgets.
    :ivar ablation: arm -> what an ablation leaves out there.
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
    ablation: Mapping[str, environments.LeftOut] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Where a session is.

    :ivar done, total: trials, warm-up included; those that the time limit has cut count as done.
    :ivar left_s: estimated seconds to the end: of the plan, or of what the time limit leaves of it.
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
        plan: Plan,
        save: Callable[[model.Results], None],
        progress: Callable[[Progress], None] = lambda _: None,
        noise_floor: Callable[[environments.Environment], environments.NoiseFloor | None] = lambda _: None,
    ) -> None:
        """Prepare the session; nothing runs yet.

        :param save: called after every block and at the end with all results so far, once there is a trial.
        :param progress: called before every boot and trial.
        :param noise_floor: asked after every block which holds for the run.
        """
        self._launcher = launcher
        self._plan = plan
        self._save = save
        self._tell = progress
        self._noise_floor = noise_floor
        self._random = random.Random(plan.seed)  # noqa: S311  an order that can be repeated, no secret
        self._times = timetable.Timetable(
            plan.jobs,
            len(plan.arms),
            len(plan.arms) + plan.with_host,
            plan.boots,
            plan.blocks,
            plan.time_limit_s,
        )
        self._pairs: dict[str, launch.Pair] = {}
        self._lost: set[str] = set()
        self._order = 0
        self._idle_softirq = 0.0
        self._cut = False
        environment = dataclasses.replace(
            host_environment.read(),
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            host_group=plan.host_group,
            flavor=plan.flavor,
            ablation=plan.ablation,
            seed=plan.seed,
            boots=plan.boots,
            blocks=plan.blocks,
            time_limit_s=plan.time_limit_s,
            arms={
                arm.name: environments.Arm(arm.request.extra_specs(), dict(plan.reasons.get(arm.name, {})))
                for arm in plan.arms
            },
            benchmarks={job.label: describe(job) for job in plan.jobs},
            ended="running",
        )
        self.results = model.Results(environment, [])

    def run(self, more: Callable[[model.Results], bool] | None = None) -> model.Results:
        """Run the plan to its end or to the time limit and return the results.

        :param more: asked once, at half of the boots (:mod:`.interim`): when it says False
            the session ends there. None: no such look.
        :raises launch.LaunchError: no guest of the first boot could be booted, or the launcher has no rig.
        :raises KeyboardInterrupt: Ctrl-C; results so far are saved.
        :raises SystemExit: SIGTERM or SIGHUP where a guard turns them into this; likewise.
        """
        ended = "error"
        try:
            self._tell(self._progress("preparing the launcher"))
            self._launcher.prepare()
            self._idle_softirq = host_environment.idle_softirq()
            self._warn_of_limit()
            ended = "complete" if self._run_boots(more) and not self._cut else "time limit"
        except TimeUp:
            ended = "time limit"
        except (KeyboardInterrupt, SystemExit):  # a launcher turns SIGTERM into SystemExit
            ended = "interrupted"
            raise
        finally:
            environment = self.results.environment
            environment.ended = ended
            environment.boots_run = len({trial.boot for trial in self.results.trials})
            environment.elapsed_s = round(self._times.elapsed_s(), 1)
            if self.results.trials:
                self._save(self.results)
        return self.results

    def _run_boots(self, more: Callable[[model.Results], bool] | None) -> bool:
        """Run boots until the plan or ``more`` says enough; False when time was up before."""
        for boot in range(self._plan.boots):
            if boot and not self._times.fits_boot():
                return False
            self._run_boot(boot)
            if more is not None and not self._cut and interim.due(boot + 1, self._plan.boots):
                # Whoever judges these results later has to know it.
                self.results.environment.looks = [len({trial.boot for trial in self.results.trials})]
                if not more(self.results):
                    return True
        return True

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
                order = order[::-1] if block % 2 else self._random.sample(arms, len(arms))
                if not self._run_block(boot, block, order):
                    self._tell_cut(boot, block)
                    break
                self._read_environment()
                self._save(self.results)
        finally:
            for arm in [name for name in self._pairs if name != model.HOST]:
                self._launcher.destroy(arm)
            self._pairs.clear()
            self._lost.clear()

    def _boot(self, boot: int) -> None:
        if self._plan.with_host:
            self._pairs[model.HOST] = self._launcher.host_pair()
        failed: list[launch.LaunchError] = []
        for arm in self._random.sample(self._plan.arms, len(self._plan.arms)):
            self._tell(self._progress(f"boot {boot + 1}/{self._plan.boots}: booting {arm.name}"))
            begun = time.monotonic()
            try:
                self._pairs[arm.name] = self._launcher.boot(arm)
            except launch.LaunchError as error:
                failed.append(error)
                self._note(boot, one_line(error, 2000), arm=arm.name)
            self._times.booted(time.monotonic() - begun)
        if failed and len(failed) == len(self._plan.arms):
            raise failed[0]

    def _run_block(self, boot: int, block: int, order: Sequence[str]) -> bool:
        """Run one block; False when time is up."""
        for job in self._plan.jobs:
            for arm in order:
                if not self._times.fits(job, boot, block):
                    return False
                where = f"boot {boot + 1}/{self._plan.boots} block {block + 1}/{self._plan.blocks}"
                self._tell(self._progress(f"{where}: {job.label} on {arm}"))
                begun = time.monotonic()
                outcome = self._trial(job, arm)
                if outcome.error is None:
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
        self._tell(self._progress(f"boot {boot + 1}/{self._plan.boots}: warm-up, {job.label} on {arm}"))
        outcome = self._trial(dataclasses.replace(job, parameters=parameters), arm)
        if outcome.error:
            self._note(boot, f"warm-up: {outcome.error}", arm=arm, benchmark=job.label)

    def _trial(self, job: plugins.Job, arm: str) -> trial.Outcome:
        self._times.done += 1
        if arm in self._lost:
            return trial.Outcome(error=f"not run: the machines of '{arm}' were lost before", lost=True)
        limit_s = self._times.deadline - time.monotonic()
        if limit_s <= 0:
            raise TimeUp
        self._launcher.activate(None if arm == model.HOST else arm)
        outcome = trial.run(job, self._pairs[arm], limit_s, self._idle_softirq)
        if outcome.lost:
            self._lost.add(arm)
        return outcome

    # -- what is written down

    def _record(self, job: plugins.Job, arm: str, boot: int, block: int, outcome: trial.Outcome) -> None:
        work = next((reading for reading in outcome.readings if reading.metric == job.benchmark.work_metric), None)
        window = outcome.window
        figures = [reading for reading in outcome.readings if reading is not work]
        failed = model.Trial(
            job.label,
            *job.benchmark.primary,
            arm,
            boot,
            block,
            value=None,
            host_cpu_s={name: round(value, 6) for name, value in outcome.host_cpu_s.items()},
            guest_cpu_s=outcome.guest_cpu_s,
            window_s=window.end - window.begin if window else 0.0,
            wait_s=outcome.wait_s,
            order=self._order,
            error=outcome.error or "no figure in the output",
            work=work.value if work else None,
            work_unit=work.unit if work else "",
            conditions=outcome.conditions,
            window=window.kind if window else "",
            exec_s=outcome.exec_s if window else None,
        )
        self.results.trials += [
            dataclasses.replace(failed, **dataclasses.asdict(figure), error=None) for figure in figures
        ] or [failed]
        self._order += 1

    def _note(self, boot: int, error: str, *, arm: str = "", benchmark: str = "", code: str = "") -> None:
        incident = environments.Incident(error, boot, arm, benchmark, code=code)
        self.results.environment.errors.append(incident)

    def _read_environment(self) -> None:
        """Take over what the launcher knows; only now have all arms run and their host settings been in force."""
        before, launched = self.results.environment, self._launcher.environment()
        arms = dict(before.arms)
        for name, arm in launched.arms.items():
            known = arms.get(name, environments.Arm())
            # What was wrong with the guests of one boot is not forgotten when those of the next are sound.
            findings = {finding.text: finding for finding in [*known.findings, *arm.findings]}
            arms[name] = dataclasses.replace(arm, reasons=known.reasons, findings=list(findings.values()))
        environment = dataclasses.replace(before.updated(launched), arms=arms)
        environment.noise_floor = self._noise_floor(environment)
        self.results.environment = environment

    # -- time

    def _warn_of_limit(self) -> None:
        expected_s = self._times.expected_s()
        if time.monotonic() + expected_s > self._times.deadline:
            long = datetime.timedelta(seconds=round(expected_s))
            text = f"the plan takes about {long}, more than the time limit leaves; it will end with fewer trials"
            self._tell(dataclasses.replace(self._progress(text), important=True))

    def _tell_cut(self, boot: int, blocks: int) -> None:
        self._cut = True
        text = f"the time limit left room for {blocks} of {self._plan.blocks} blocks"
        self._note(boot, text, code="time_limit")
        text = f"boot {boot + 1}/{self._plan.boots}: {text}"
        self._tell(dataclasses.replace(self._progress(text), important=True))

    def _progress(self, text: str) -> Progress:
        return Progress(self._times.done, self._times.total, self._times.left_s(), text)


def describe(job: plugins.Job) -> environments.Benchmark:
    """Return a job as the environment of results has it."""
    peer = "PEER" if job.benchmark.paired else None
    return environments.Benchmark(
        job.benchmark.kind,
        job.benchmark.summary,
        dict(job.parameters),
        [list(step.argv) for step in job.benchmark.steps(job.parameters, peer)],
    )
