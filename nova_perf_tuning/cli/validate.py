"""``nova-perf validate``: guests untuned and tuned, and the host itself, measured in turn and judged."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from nova_perf_tuning import errors, interrupt, whole_file
from nova_perf_tuning.cli import budget_options, command, export_options, progress, spec_options, validate_checks

if TYPE_CHECKING:
    from nova_perf_tuning.budget import budget_file, history, model, session, summary, verdict
    from nova_perf_tuning.launch import base as launch
    from nova_perf_tuning.specs import request

_DURATION = re.compile(r"([0-9]{1,6})([smh]?)").fullmatch
DEFAULT_BENCHMARKS = ["iperf3", "fio", "cpu"]
_DEFAULT_PROFILE = "balanced"
_LAST_SEED = 2**32

#: Trials per arm and boot, without a budget and with one: with five an outlier or two do not move the median of a
#: boot, with seven three do not.
BLOCKS, BLOCKS_JUDGED = 5, 7
#: Boots, and the time they may take, without a budget and with one. Twelve boots of seven blocks find a loss of
#: 10 % against a budget of 5 % where blocks spread by 2 %: doc/source/contributor/statistics.rst.
GROUPS, GROUPS_JUDGED = 4, 12
_TIME_LIMIT, _TIME_LIMIT_JUDGED = "40m", "150m"
_NOISE_FILE = "/var/lib/nova-perf-tuning/noise.json"


class _NothingMeasuredError(errors.PerfTuningError):
    """The run ended without a single trial."""


class Validate(command.PerfCommand):
    """Measure what a flavor's tuning is worth on this host: untuned and tuned guests, and the host itself.

    Boots two pairs of guests, runs the benchmarks in all arms in turn (order random and mirrored, seed
    recorded), boots anew between groups, counts the host's CPU while they measured, and writes results.json
    and report.html. Everything it made or changed is removed or restored at the end, also on Ctrl-C and when
    terminated; neither file is written when nothing was measured.

    Exit code with --budget: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 INVALID or error; without: 0 or 3. Interrupted
    by Ctrl-C: 130; terminated by SIGTERM: 143.

    Example: nova-perf validate --profile network-throughput --benchmark iperf3:streams=4 --time-limit 8m
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--launcher", default="libvirt", help="what makes the guests: libvirt (default), host or heat"
        )
        spec_options.add_flavor(parser, _DEFAULT_PROFILE)
        parser.add_argument(
            "--noise-floor",
            action="store_true",
            help="A/A run: both pairs of guests are untuned, so every difference is noise; run it once per host"
            " and after a change of hardware or kernel, with the benchmarks and --seconds that will be judged",
        )
        parser.add_argument(
            "--ablation",
            action="store_true",
            help="run guests with one extra spec left out at a time beside the tuned ones, and say which spec paid"
            " and which is removable; takes a pair of guests and their time for each spec. With --budget the run"
            " ends at half of its boots only if each spec is decided too",
        )
        parser.add_argument(
            "--benchmark",
            metavar="KIND[:KEY=VALUE,...]",
            action="append",
            default=[],
            help="what to run, see 'nova-perf bench list'; may be repeated (default: iperf3, fio, cpu)",
        )
        parser.add_argument(
            "--groups",
            metavar="N",
            help=f"number of boots (default: {GROUPS}; with --budget {GROUPS_JUDGED}, or half if that is clear)",
        )
        parser.add_argument(
            "--blocks",
            metavar="N",
            help=f"trials per arm and boot (default: {BLOCKS}; with --budget {BLOCKS_JUDGED}; heat: 3 per pair of"
            " hosts)",
        )
        parser.add_argument("--seconds", metavar="N", help="length of each trial (default: 10)")
        parser.add_argument(
            "--budget",
            metavar="FILE",
            help="judge by these overhead budgets (YAML; 'default': those shipped); the run ends at half of its"
            " boots if the verdict is clear then",
        )
        budget_options.add(parser, _NOISE_FILE, flavor=False)
        export_options.add(parser)
        parser.add_argument(
            "--history",
            action="store_true",
            help="keep the results in the database of runs (--database), and show in the report how this host did"
            " before",
        )
        parser.add_argument(
            "--time-limit",
            metavar="TIME",
            help="90s, 8m or 1h: the whole run ends by then with what it has (default: 40m, with"
            " --budget 150m; none on a cloud)",
        )
        parser.add_argument(
            "--output", metavar="DIR", default=".", help="folder for results.json and report.html (default: here)"
        )
        parser.add_argument("--seed", metavar="N", help="of the order of trials; default: a new one, recorded")
        from nova_perf_tuning.cli import validate_cloud

        validate_cloud.add_options(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        from nova_perf_tuning.cli import validate_cloud

        if args.launcher == "heat":
            return validate_cloud.run(args, "nova-perf validate --launcher heat")
        # Before anything is started: the launcher's own guard comes only with its preparation.
        guard = interrupt.Guard(interrupt.TERMINATION)
        guard.install()
        try:
            try:
                export_options.begin(args, made=output_files(args.output))
                run = _planned(args)
            except (KeyboardInterrupt, SystemExit) as stop:
                return _tell_stop(stop, measured=False)
            return run.run()
        finally:
            guard.remove()


class _Run:
    """One validation from its first boot to its exit code."""

    def __init__(
        self,
        args: argparse.Namespace,
        plan: session.Plan,
        launcher: launch.Launcher,
        budgets: list[budget_file.Budget],
        folder: str,
        floors: Sequence[Mapping[str, Any]],
    ) -> None:
        """:param floors: noise floors of this host as they were before the run; it asks after every block."""
        self._args = args
        self._plan = plan
        self._launcher = launcher
        self._budgets = budgets
        self._floors = floors
        self._results_file = os.path.join(folder, "results.json")
        self._report_file = os.path.join(folder, "report.html")

    def run(self) -> int:
        from nova_perf_tuning.budget import noise, session, store

        def save(results: model.Results) -> None:
            store.save(results, self._results_file)

        def floors(results: model.Results) -> Mapping[str, object]:
            return noise.for_results(results, self._floors)

        stopped: KeyboardInterrupt | SystemExit | None = None
        results: model.Results | None = None
        try:
            with progress.showing(self._args.format == "json") as tell:
                with self._launcher, _alarm(self._plan.time_limit_s):
                    running = session.Session(self._launcher, self._plan, save, tell, floors)
                    results = running.results
                    try:
                        running.run(self._undecided if self._budgets else None)
                    except session.TimeUp:
                        pass  # rang while the results were being saved
        except (KeyboardInterrupt, SystemExit) as stop:  # also one that was held back while guests were removed
            stopped = stop
        if results is None or not results.trials:
            if stopped is not None:
                return _tell_stop(stopped, measured=False)
            raise _NothingMeasuredError(_why_nothing(results))
        code = self._finish(results)
        return code if stopped is None else _tell_stop(stopped, measured=True)

    def _undecided(self, results: model.Results) -> bool:
        from nova_perf_tuning.budget import ablation, verdict

        judged = verdict.judge_all(results, self._budgets)
        if any(one.open for one in judged):
            return True
        return any(one.call is ablation.Call.UNDECIDED for one in ablation.judge(results, self._budgets))

    def _store_floors(self, results: model.Results) -> list[str]:
        """Keep the noise floors of an A/A run and return lines that tell them, or why there are none.

        :raises nova_perf_tuning.errors.PerfTuningError: the file for them has gone bad meanwhile.
        """
        from nova_perf_tuning.budget import noise

        path = self._args.noise_file
        try:
            found = noise.save(results, path)
        except noise.NoFloorError as error:
            return [f"note: no noise floor was stored: {error}"]
        except OSError as error:
            raise errors.PerfTuningError(f"no noise floor was stored: {path}: {error.strerror}") from None
        told = [
            f"noise floor: {label} {metric}: losses below {floor:.1%} cannot be told from noise here"
            for label, losses in found.items()
            for metric, floor in losses.items()
        ]
        return [*told, f"noise floors: {path}"]

    def _kept(self, results: model.Results, judged: list[verdict.Judgement]) -> list[history.Series]:
        """Keep the results in the database of runs and return the history of this host."""
        from nova_perf_tuning.budget import history
        from nova_perf_tuning.cli import report

        kept = history.History(self._args.database)
        try:
            kept.add(results)
        finally:
            kept.close()
        return report.histories(results, self._args.database)

    def _finish(self, results: model.Results) -> int:
        """Write the report, print the table and return the exit code."""
        from nova_perf_tuning.budget import ablation, budget_file, report, store, summary, trial_filter, verdict
        from nova_perf_tuning.cli import figures

        summaries = summary.summarise(results, limits=trial_filter.limits(self._budgets))
        judged = verdict.judge_all(results, self._budgets)
        knobs = ablation.judge(results, self._budgets)
        late, exported, floors = list[str](), list[str](), list[str]()
        store.write_atomically(self._report_file, report.render(results, summaries, judged, knobs))
        with _put_off(late):
            unjudged = "" if judged else budget_file.why_none(self._budgets, results)
            exported = export_options.write(self._args, results, judged, unjudged=unjudged)
        if self._args.history:
            with _put_off(late):
                series = self._kept(results, judged)
                store.write_atomically(self._report_file, report.render(results, summaries, judged, knobs, series))
        if self._args.noise_floor:
            with _put_off(late):
                floors = self._store_floors(results)
        if self._args.format == "json":
            command.print_json(report.as_json(results, summaries, judged, knobs))
        else:
            print()
            figures.print_summary(summaries)
            self._print_told(results, summaries, judged)
            figures.print_ablation(knobs)
            if "measured_share" in results.environment:
                share = results.environment["measured_share"]
                print(f"\n{share:.1%} of the time after boot lay inside measuring windows")
            for line in floors:
                command.say(line)
            for path in exported:
                command.say(f"written: {path}")
            print()
            command.say(f"results: {self._results_file}")
            command.say(f"report: {self._report_file}")
        if not any(one.value is not None for one in results.trials):
            late.append("no trial gave a figure; see the report for the errors")
        for line in late:
            print(command.plain(f"nova-perf validate: {line}"), file=sys.stderr)
        code = verdict.overall(judged).exit_code if self._args.budget else errors.ExitCode.PASS
        return int(errors.ExitCode.ERROR if late and code is errors.ExitCode.PASS else code)

    def _print_told(
        self,
        results: model.Results,
        summaries: Sequence[summary.BenchmarkSummary],
        judged: Sequence[verdict.Judgement],
    ) -> None:
        """Print what the figures say: the headline, what to beware of, and the verdict."""
        from nova_perf_tuning.budget import budget_file, diagnosis, verdict, wording
        from nova_perf_tuning.cli import figures

        print()
        command.say(wording.headline(summaries))
        for note in wording.headline_notes(results, summaries) + wording.cautions(summaries):
            command.say(f"note: {note}")
        for warning in wording.environment_warnings(results.environment):
            command.say(f"warning: {warning}")
        figures.print_findings(results)
        figures.print_left_out(verdict.left_out(results, self._budgets))
        told = diagnosis.diagnose(results, judged)
        if told is not None:
            print()
            figures.print_verdicts(judged)
            figures.print_diagnosis(told)
        elif self._args.budget:
            print()
            command.say(budget_file.why_none(self._budgets, results))
            print(f"\n{verdict.overall(judged).value}")


@contextlib.contextmanager
def _put_off(late: list[str]) -> Iterator[None]:
    """Add an error to ``late``, to be told when all that was measured is shown."""
    try:
        yield
    except (errors.PerfTuningError, OSError) as error:
        late.append(" ".join(str(error).split()))


def _planned(args: argparse.Namespace) -> _Run:
    """Check everything that can be checked before guests are booted."""
    from nova_perf_tuning.bench import plugins
    from nova_perf_tuning.budget import budget_file, launchers, noise

    budgets = budget_file.load(args.budget) if args.budget else []
    launcher = launchers.load(args.launcher)
    plan = _plan(args, launcher.vcpus)
    launcher.require(*plugins.needs(plan.jobs))
    floors: list[dict[str, Any]] = []
    if args.noise_floor:
        noise.check_writable(args.noise_file)
    else:
        floors = noise.load(args.noise_file, named=args.noise_file != _NOISE_FILE)
    if budgets:
        kinds = {job.label: job.benchmark.kind for job in plan.jobs}
        arms = ["host", *(arm.name for arm in plan.arms)]
        budgets = budget_file.for_measured(budgets, kinds, arms, None)
        budgets = validate_checks.applicable(budgets, plan.about, args.budget, plan.jobs)
        validate_checks.names(budgets, list(kinds), arms)
        named = args.noise_file if args.noise_file != _NOISE_FILE else ""
        validate_checks.noise_floors(budgets, plan, floors, named)
    # What is refused leaves neither folder nor database behind.
    folder = output_folder(args.output)
    if args.history:
        validate_checks.database(args.database)
    return _Run(args, plan, launcher, budgets, folder, floors)


def _tell_stop(stop: KeyboardInterrupt | SystemExit, *, measured: bool) -> int:
    """Say as the last line what became of a run that was stopped, and return its exit code: 128 + signal."""
    if isinstance(stop, SystemExit) and isinstance(stop.code, int):
        word, code = "terminated", stop.code
    else:
        word, code = "interrupted", 128 + signal.SIGINT
    rest = (
        "guests are removed, results so far are kept"
        if measured
        else "nothing was measured, no guest is left and no file written"
    )
    print(f"nova-perf validate: {word}; {rest}", file=sys.stderr)
    return code


def _why_nothing(results: model.Results | None) -> str:
    faults = results.environment["errors"] if results is not None else []
    first = f"; first error: {faults[0]['error']}" if faults else "; give more --time-limit"
    return f"nothing was measured before the time limit{first}"


def _plan(args: argparse.Namespace, vcpus: int | None) -> session.Plan:
    from nova_perf_tuning.bench import plugins
    from nova_perf_tuning.budget import noise, session
    from nova_perf_tuning.launch import base as launch
    from nova_perf_tuning.specs import request

    limit_s = duration("--time-limit", args.time_limit or (_TIME_LIMIT_JUDGED if args.budget else _TIME_LIMIT))
    seed = secrets.randbelow(_LAST_SEED) if args.seed is None else number("--seed", args.seed, 0, _LAST_SEED - 1)
    seconds = number("--seconds", args.seconds or "10", 1, 3600)
    tuned, reasons = tuned_request(args, vcpus)
    jobs = plugins.jobs(args.benchmark or DEFAULT_BENCHMARKS, seconds)
    second = noise.ARMS[1] if args.noise_floor else "tuned"
    left_out = _left_out(args, tuned)
    validate_checks.programs(jobs)
    return session.Plan(
        arms=(launch.Arm("untuned", request.Request()), launch.Arm(second, tuned), *left_out.values()),
        jobs=tuple(jobs),
        groups=number("--groups", args.groups or str(GROUPS_JUDGED if args.budget else GROUPS), 1, 1000),
        blocks=number("--blocks", args.blocks or str(BLOCKS_JUDGED if args.budget else BLOCKS), 1, 1000),
        seed=seed,
        time_limit_s=limit_s,
        reasons={second: reasons},
        about={
            **validate_checks.told_of_host(args),
            **_ablation_facts(tuned, left_out),
        },
    )


def _left_out(args: argparse.Namespace, tuned: request.Request) -> dict[str, launch.Arm]:
    """Return extra spec -> arm without it, for an ablation.

    :raises spec_options.OptionError: there is nothing to leave out.
    """
    from nova_perf_tuning.budget import ablation

    found = ablation.arms(tuned) if args.ablation else {}
    if args.ablation and len(found) < 2:
        raise spec_options.OptionError("--ablation needs a profile or at least two --spec, and no --noise-floor")
    return found


def _ablation_facts(tuned: request.Request, left_out: Mapping[str, launch.Arm]) -> dict[str, object]:
    from nova_perf_tuning.budget import ablation

    values = ablation.knobs(tuned)
    facts = {arm.name: {"spec": spec, "value": values[spec]} for spec, arm in left_out.items()}
    return {"ablation": facts} if facts else {}


def tuned_request(args: argparse.Namespace, vcpus: int | None) -> tuple[request.Request, dict[str, str]]:
    """Return what the tuned guests ask for, and spec -> reason as the profile gives it.

    :param vcpus: of each guest: what does not fit them is refused, where a guest would silently get less.
    """
    from nova_perf_tuning.specs import crosscheck, parsing, profiles, request

    if getattr(args, "noise_floor", False):
        if args.profile or args.spec:
            raise spec_options.OptionError("--noise-floor tunes nothing; leave out --profile and --spec")
        return request.Request(), {}
    if args.launcher == "host":
        # Both arms are the host as it is: an A/A run, whose interval shows the noise.
        if args.profile or args.spec:
            raise spec_options.OptionError("--launcher host tunes nothing; leave out --profile and --spec")
        return request.Request(), {}
    specs = spec_options.flavor(args, _DEFAULT_PROFILE)
    known = profiles.load(args.profile_dir)
    wanted = parsing.parse(specs, {}, known)
    crosscheck.check(wanted, specs, vcpus=vcpus)
    chosen = known[wanted.profile].specs if wanted.profile else {}
    return wanted, {key: entry.reason for key, entry in chosen.items() if key not in specs}


def number(option: str, text: str, low: int, high: int) -> int:
    """Return a whole number.

    :raises spec_options.OptionError: it is none, or not from ``low`` to ``high``.
    """
    if text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high:
        return int(text)
    raise spec_options.OptionError(f"{option} '{text[:40]}': give a whole number from {low} to {high}")


def duration(option: str, text: str, least_s: int = 20) -> float:
    """Return a duration in seconds.

    :raises spec_options.OptionError: it is none, or not from ``least_s`` to 168 h.
    """
    match = _DURATION(text)
    seconds = int(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0
    if not least_s <= seconds <= 7 * 86400:
        raise spec_options.OptionError(f"{option} '{text[:40]}': give {least_s}s to 168h, such as 90s, 8m or 1h")
    return float(seconds)


def output_folder(path: str) -> str:
    """Make the output folder and see now, not after ten minutes, that files can be made in it.

    :raises spec_options.OptionError: it cannot be made or written.
    :raises whole_file.OutputError: something else than a file has a name that is needed.
    """
    probe = os.path.join(path, f".nova-perf-{os.getpid()}")
    try:
        os.makedirs(path, exist_ok=True)
        with open(probe, "x", encoding="ascii"):
            os.unlink(probe)
    except OSError as error:
        raise spec_options.OptionError(f"--output {path}: {error.strerror}") from None
    for file in output_files(path):
        whole_file.check(file)
    return path


def output_files(folder: str) -> list[str]:
    """Return the files that a validation writes."""
    return [os.path.join(folder, name) for name in ("results.json", "report.html")]


@contextlib.contextmanager
def _alarm(limit_s: float) -> Iterator[None]:
    """Raise ``session.TimeUp`` in the main thread when the limit is reached whatever is going on then."""
    from nova_perf_tuning.budget import session, timetable

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise session.TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, limit_s - timetable.CLOSING_S / 2))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
