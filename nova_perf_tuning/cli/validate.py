# SPDX-License-Identifier: Apache-2.0
"""``nova-perf validate``: guests untuned and tuned, and the host itself, measured in turn and judged."""

import argparse
import contextlib
import dataclasses
import os
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Final

from nova_perf_tuning import atomic_write, errors, signals
from nova_perf_tuning.cli import command, options, result_tables
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.cli.options import validate as validate_options
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import ablation, budget_file, noise, verdict
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import registry as launchers
from nova_perf_tuning.validation.measure import collectors, results_file, session
from nova_perf_tuning.validation.report import report, summary
from nova_perf_tuning.validation.results import messages, model
from nova_perf_tuning.validation.results.environment import AblatedSpec, Environment
from nova_perf_tuning.validation.results.reasons import ReasonError

_PROGRAM: Final = "nova-perf validate"
#: Trials per arm and boot, without a budget and with one: with five an outlier or two do not move
#: the median of a boot, with seven three do not.
BLOCKS, BLOCKS_JUDGED = 5, 7
#: Boots, and the seconds they may take, without a budget and with one. Twelve boots of seven
#: blocks find a loss of 10 % against a budget of 5 % where blocks spread by 2 %:
#: doc/source/contributor/statistics.rst.
BOOTS, BOOTS_JUDGED = 4, 12
_TIME_LIMIT_S, _TIME_LIMIT_JUDGED_S = 40 * 60.0, 150 * 60.0
#: Where --noise-floor keeps the noise floors of this host.
NOISE_FILE: Final = "/var/lib/nova-perf-tuning/noise.json"


class Validate(command.PerfCommand):
    """Measure what a flavor's tuning gains on this host.

    It compares untuned guests, tuned guests and the host itself: it boots two pairs of guests and
    runs the benchmarks in all arms, in random order. It repeats this over several boots, and
    measures how much host CPU the guests use. It writes results.json and report.html. Those of an
    earlier run are renamed to results.previous.json and report.previous.html first. At the end it
    removes or restores everything that it made or changed, even after Ctrl-C or SIGTERM.

    Exit code with --budget: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 INVALID or error; without: 0 or 3.
    Interrupted by Ctrl-C: 130; terminated by SIGTERM: 143.

    Example: nova-perf validate --profile network-throughput --benchmark iperf3:streams=4 --time-limit 8m
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--launcher",
            choices=launchers.NAMES,
            default="libvirt",
            help="place to run the benchmarks: libvirt guests (default), or the host itself",
        )
        validate_options.add_measurement(parser)
        options.add(
            parser,
            "--blocks",
            "N",
            f"trials per arm and boot (default: {BLOCKS}; with --budget {BLOCKS_JUDGED})",
            options.whole(1, 1000),
        )
        options.add(
            parser,
            "--budget",
            "FILE",
            "overhead budgets to judge the run against (YAML; 'default': those shipped); the run ends "
            "after half of its boots if the verdict is clear",
        )
        result_options.add_host_group(parser)
        result_options.add_flavor(parser)
        result_options.add_junit(parser)
        options.add(
            parser,
            "--time-limit",
            "TIME",
            "time limit of the whole run, such as 90s, 8m or 1h; the results so far are kept "
            "(default: 40m, with --budget 150m)",
            options.duration(20),
        )
        validate_options.add_beside(parser)
        validate_options.add_output(parser)
        parser.add_argument(
            "--noise-floor",
            action="store_true",
            help="measure the noise floor: both pairs of guests are untuned, so every difference "
            "is noise (an A/A run). Run it once per host, and after a change of hardware or kernel, "
            "with the benchmarks and --seconds of the runs that you will judge. The floor is kept in "
            f"{NOISE_FILE}; a budget below it is then refused",
        )
        parser.add_argument(
            "--ablation",
            action="store_true",
            help="also run guests that lack one extra spec at a time, and report which specs pay "
            "off and which can be removed. Each spec adds a pair of guests and the time to measure them. With "
            "--budget the run ends after half of its boots only if every spec is decided too",
        )
        collectors_here = ", ".join(plugins.installed(collectors.NAMESPACE))
        options.add_repeated(
            parser,
            "--collect",
            "KIND",
            f"tool to record each trial with: {collectors_here}; its data goes to "
            f"{collectors.DIRECTORY}/",
        )
        options.add(
            parser,
            "--boots",
            "N",
            f"number of boots (default: {BOOTS}; with --budget {BOOTS_JUDGED}, or {BOOTS_JUDGED // 2} if"
            " the verdict is clear by then)",
            options.whole(1, 1000),
        )

    def take_action(self, args: argparse.Namespace) -> int:
        with signals.guarded(), contextlib.ExitStack() as opened:
            try:
                validate_options.check_files(args, [NOISE_FILE])
                output = validate_options.open_output(args.output)
                if output is not None:
                    opened.enter_context(output)
                renamed = validate_options.void_output(output)
                junit_file = opened.enter_context(result_options.JunitFile(args.junit))
                run = _planned(args, junit_file, output)
                opened.enter_context(run.output)
            except (KeyboardInterrupt, SystemExit) as stop:
                return _tell_stop(stop, measured=False)
            for previous in renamed:
                command.warn(_PROGRAM, f"results of an earlier run are now {previous}")
            return run.run()


@dataclasses.dataclass(frozen=True, slots=True)
class _Judged:
    """Results with their figures and verdicts."""

    results: model.Results
    summaries: Sequence[summary.BenchmarkSummary]
    judgements: Sequence[verdict.Judgement]
    knobs: Sequence[ablation.Knob]


@dataclasses.dataclass
class _Run:
    """One validation from its first boot to its exit code.

    :ivar output: the open directory of the run's files.
    :ivar floors: noise floors of this host as they were before the run; it asks after every block.
    """

    args: argparse.Namespace
    plan: session.SessionPlan
    launcher: launch.Launcher
    budgets: list[budget_file.Budget]
    floors: Sequence[noise.Entry]
    output: atomic_write.Directory
    junit_file: result_options.JunitFile

    def run(self) -> int:
        results_path, _report = validate_options.output_files(self.args.output)
        stopped: KeyboardInterrupt | SystemExit | None = None
        results: model.Results | None = None
        try:
            with self.launcher, _alarm(self.plan.time_limit_s):
                running = session.Session(
                    self.launcher,
                    self.plan,
                    lambda measured: results_file.save(measured, results_path, self.output),
                    validate_options.progress(self.args.format == "json"),
                    lambda environment: noise.holding(environment, self.floors),
                )
                results = running.results
                undecided = None
                if self.budgets:
                    undecided = self._undecided
                with contextlib.suppress(
                    session.TimeUp
                ):  # rang while the results were being saved
                    running.run(undecided)
        except (
            KeyboardInterrupt,
            SystemExit,
        ) as stop:  # also one that was held back while guests were removed
            stopped = stop
        if results is None or not results.trials:
            if stopped is not None:
                return _tell_stop(stopped, measured=False)
            advice = "give more --time-limit"
            if results is not None and results.environment.errors:
                advice = f"first error: {results.environment.errors[0].error}"
            raise errors.PerfTuningError(f"nothing was measured before the time limit; {advice}")
        code = self.finish(results)
        if stopped is not None:
            return _tell_stop(stopped, measured=True)
        return code

    def finish(self, results: model.Results) -> int:
        """Judge and show what was measured, write the files and return the exit code."""
        limits = budget_file.limits(self.budgets)
        judged = _Judged(
            results,
            summary.summarise(results, limits=limits),
            verdict.judge_all(results, self.budgets),
            ablation.judge(results, self.budgets),
        )
        unjudged = ""
        if not judged.judgements:
            unjudged = messages.of(budget_file.why_none(results))
        _results_path, report_file = validate_options.output_files(self.args.output)
        page = report.render(results, judged.summaries, judged.judgements, judged.knobs)
        results_file.write_atomically(report_file, page, self.output)
        if self.args.format == "json":
            document = report.as_json(results, judged.summaries, judged.judgements, judged.knobs)
            command.print_json(document)
        else:
            self._show(judged, unjudged)
        # What fails now is reported after all that was measured is shown.
        self.junit_file.write(results, judged.judgements, self.args.budget, unjudged)
        if self.args.noise_floor:
            floors = _store_floors(results, NOISE_FILE)
            if self.args.format != "json":
                command.say(*floors)
        if not any(trial.value is not None for trial in results.trials):
            raise errors.PerfTuningError("no trial gave a figure; see the report for the errors")
        if self.args.budget:
            return int(verdict.overall(judged.judgements).exit_code)
        return int(errors.ExitCode.PASS)

    def _undecided(self, now: model.Results) -> bool:
        return ablation.undecided(now, self.budgets)

    def _show(self, judged: _Judged, unjudged: str) -> None:
        """Print what was measured; ``unjudged``: why no budget applies, if so."""
        results = judged.results
        result_tables.print_summary(results, judged.summaries)
        for warning in summary.warnings(results.environment):
            command.say(f"warning: {messages.of(warning)}")
        result_tables.print_findings(results)
        for reason in budget_file.left_out(results, self.budgets):
            command.say(f"note: {messages.of(reason)}")
        if self.args.budget:
            print()
            result_tables.print_verdicts(judged.judgements)
            result_tables.print_diagnosis(results, judged.judgements)
            if unjudged:
                command.say(unjudged)
                command.say("", verdict.overall(judged.judgements).value)
        result_tables.print_ablation(judged.knobs)
        result_tables.print_paths(*validate_options.output_files(self.args.output))


def _store_floors(results: model.Results, path: str) -> list[str]:
    """Keep the noise floors of an A/A run and return lines that name them, or say why there are none."""
    if results.environment.stopped:
        return ["note: no noise floor was stored: the run was stopped before its end"]
    try:
        floors = noise.save(results, path)
    except ReasonError as error:
        return [f"note: no noise floor was stored: {messages.of(error.reason)}"]
    except OSError as error:
        raise errors.PerfTuningError(
            f"no noise floor was stored: {path}: {error.strerror}"
        ) from None
    lines = []
    for label, losses in floors.items():
        for metric, floor in losses.items():
            lines.append(
                f"noise floor: {label} {metric}: losses below {floor:.1%} are within the noise here"
            )
    lines.append(f"noise floors: {path}")
    return lines


def _planned(
    args: argparse.Namespace,
    junit_file: result_options.JunitFile,
    output: atomic_write.Directory | None,
) -> _Run:
    """Check everything that can be checked before guests are booted; what is refused leaves nothing behind.

    :param output: the directory of the run's files, None: it is not there yet.
    """
    report.require_packages()
    budgets: list[budget_file.Budget] = []
    if args.budget:
        budgets = budget_file.load(args.budget)
    launcher = launchers.load(args.launcher)
    plan = session_plan(args, launcher.vcpus)
    validate_options.check_planned(session.planned(plan, Environment()))
    _check_programs(plan.jobs)
    launcher.require(*plugins.needs(plan.jobs))
    floors: Sequence[noise.Entry] = []
    if args.noise_floor:
        noise.check_writable(NOISE_FILE)
    else:
        floors = noise.load(NOISE_FILE)
    if budgets:
        arms = [model.HOST, *(arm.name for arm in plan.arms)]
        places = {"host_group": plan.host_group, "flavor": plan.flavor}
        budgets = budget_file.for_run(budgets, args.budget, places, plan.jobs, arms)
        try:
            noise.check_budgets(budgets, plan.jobs, floors)
        except ReasonError as error:
            raise errors.PerfTuningError(f"--budget: {messages.of(error.reason)}") from None
    output = validate_options.make_output_directory(args.output, output)
    plan = dataclasses.replace(plan, attached=dataclasses.replace(plan.attached, output=output))
    return _Run(args, plan, launcher, budgets, floors, output, junit_file)


def session_plan(args: argparse.Namespace, vcpus: int | None) -> session.SessionPlan:
    """Return the plan that the options ask for; ``vcpus``: of each guest, None where there are none."""
    tuned, reasons = _tuned(args, vcpus)
    tuned_arm = ablation.FULL
    if args.noise_floor:
        tuned_arm = model.AA_ARMS[1]
    without: Mapping[str, launch.Arm] = {}
    if args.ablation:
        without = ablation.arms(tuned)
        if len(without) < 2:
            raise options.OptionError(
                "--ablation needs a profile or at least two --spec, and no --noise-floor"
            )
    values = tuned.extra_specs()
    left_out = {}
    for spec, arm in without.items():
        left_out[arm.name] = AblatedSpec(spec, values[spec])
    cpus = vcpus or os.cpu_count() or 1
    jobs = []
    for job in validate_options.jobs(args.benchmark, args.seconds):
        jobs.append(plugins.beside(job, args.beside, cpus))
    boots, blocks, time_limit_s = BOOTS, BLOCKS, _TIME_LIMIT_S
    if args.budget:
        boots, blocks, time_limit_s = BOOTS_JUDGED, BLOCKS_JUDGED, _TIME_LIMIT_JUDGED_S
    return session.SessionPlan(
        arms=(
            launch.Arm("untuned", request.Request()),
            launch.Arm(tuned_arm, tuned),
            *without.values(),
        ),
        jobs=tuple(jobs),
        boots=args.boots or boots,
        blocks=args.blocks or blocks,
        seed=secrets.randbelow(1 << 32),
        time_limit_s=args.time_limit or time_limit_s,
        reasons={tuned_arm: reasons},
        host_group=args.host_group or "",
        flavor=args.flavor or "",
        tags=options.tags(args),
        attached=collectors.attach(args.collect, args.output),
        ablation=left_out,
    )


def _tuned(args: argparse.Namespace, vcpus: int | None) -> tuple[request.Request, dict[str, str]]:
    """Return the request of the tuned guests, and its reasons by extra spec."""
    # Both arms of these are the same: A/A runs, whose interval shows the noise.
    untuned = ""
    if args.noise_floor:
        untuned = "--noise-floor"
    elif args.launcher == "host":
        untuned = "--launcher host"
    if untuned and (args.profile or args.spec):
        raise options.OptionError(f"{untuned} tunes nothing; leave out --profile and --spec")
    if args.flavor and args.launcher == "host":
        raise options.OptionError(
            "--flavor: launcher 'host' has no guests of a flavor; leave it out"
        )
    if untuned:
        return request.Request(), {}
    return validate_options.tuned_request(args, vcpus)


def _check_programs(jobs: Sequence[plugins.Job]) -> None:
    """Say which benchmarks this host, but not a guest, cannot run; MissingProgramError: it can run none."""
    faults = []
    for job in jobs:
        try:
            plugins.check_job(job)
        except plugins.MissingProgramError as fault:
            faults.append(fault)
    if len(faults) == len(jobs):
        raise faults[0]
    for missing in faults:
        command.warn(_PROGRAM, str(missing))


def _tell_stop(stop: KeyboardInterrupt | SystemExit, *, measured: bool) -> int:
    """Say as the last line what became of a run that was stopped, and return its exit code: 128 + signal."""
    if isinstance(stop, SystemExit) and isinstance(stop.code, int):
        word, code = "terminated", stop.code
    else:
        word, code = "interrupted", 128 + signal.SIGINT
    rest = "nothing was measured, no guest is left and no file written"
    if measured:
        rest = "guests are removed, results so far are kept"
    command.warn(_PROGRAM, f"{word}; {rest}")
    return code


@contextlib.contextmanager
def _alarm(limit_s: float) -> Iterator[None]:
    """Raise ``session.TimeUp`` in the main thread when the limit is reached whatever is going on then."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise session.TimeUp

    with signals.handled([signal.SIGALRM], ring):
        signal.setitimer(signal.ITIMER_REAL, max(1.0, limit_s - session.CLOSING_S / 2))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
