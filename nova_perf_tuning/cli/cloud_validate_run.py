# SPDX-License-Identifier: Apache-2.0
"""One call of ``openstack perf validate``: its options become a plan, its results files and tables.

The run itself is :mod:`.fleet_validation`'s.
"""

import argparse
import contextlib
import dataclasses
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning import atomic_write, errors
from nova_perf_tuning.cli import command, options, result_tables
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.cli.options import validate as validate_options
from nova_perf_tuning.printing import counted, one_line
from nova_perf_tuning.specs import crosscheck, vocabulary
from nova_perf_tuning.validation.fleet import fleet_results, fleet_validation
from nova_perf_tuning.validation.heat import heat_pair, host_cpu
from nova_perf_tuning.validation.judge import budget_file, fleet
from nova_perf_tuning.validation.measure import fleet_model, results_file
from nova_perf_tuning.validation.report import report, summary
from nova_perf_tuning.validation.results import messages, model
from nova_perf_tuning.validation.results.environment import Ended, Environment
from nova_perf_tuning.validation.store import engine, run_store

_PROGRAM: Final = "openstack perf validate"
_HOSTS: Final = re.compile(r"[^,\s]{1,255}(,[^,\s]{1,255})*").fullmatch
_TRAIT: Final = re.compile(r"[A-Z0-9_]{1,255}").fullmatch
_RUN: Final = fleet_model.RunSettings()
_PAIR_LIMIT_S: Final = 20 * 60.0
#: More causes why host CPU is not known are only in the results.
_MAX_CPU_FAULTS: Final = 5

#: What can be given beside --resume; all else stays as the run was begun, since its pairs are
#: compared.
_FREE: Final = frozenset(
    "resume database output format junit budget bare_host time_limit max_parallel max_loss".split()
)

#: Arms are named by their flavors, and in results these names are the bare host and an A/A run.
_RESERVED: Final = frozenset((model.HOST, *model.AA_ARMS))


class Run:
    """One call of the command, from the check of the cloud to the exit code.

    What is refused leaves nothing behind: database and directory are made when the checks are
    done.
    """

    _opened: contextlib.ExitStack
    _store: run_store.RunStore
    _output: atomic_write.Directory | None
    _junit_file: result_options.JunitFile
    _criteria: fleet_validation.Criteria

    def __init__(self, args: argparse.Namespace, cloud: heat_pair.HeatCloud) -> None:
        self._args = args
        self._cloud = cloud
        self._results_file, self._report_file = validate_options.output_files(args.output)

    def run(self) -> int:
        """Validate the hosts and return the exit code."""
        database = engine.files(self._args.database)
        validate_options.check_files(self._args, [*self._args.bare_host, *database])
        with contextlib.ExitStack() as self._opened:
            self._void_output()
            self._junit_file = self._opened.enter_context(
                result_options.JunitFile(self._args.junit)
            )
            report.require_packages()
            if self._args.resume:
                started = self._resumed()
            else:
                started = self._begun()
            progress = validate_options.progress(self._args.format == "json")
            measured = fleet_validation.measure(self._store, started, progress)
            return self._reported(started.run, measured)

    # -- before

    def _open(self, *, make: bool) -> None:
        self._store = run_store.RunStore(self._args.database, make=make)
        self._opened.callback(self._store.close)

    def _void_output(self) -> None:
        """Rename results of an earlier run: what is refused later must not leave them as those of this one."""
        self._output = validate_options.open_output(self._args.output)
        if self._output is not None:
            self._opened.callback(self._output.close)
        for previous in validate_options.void_output(self._output):
            self._warn(f"results of an earlier run are now {previous}")

    def _prepare_output(self) -> None:
        self._output = validate_options.make_output_directory(self._args.output, self._output)
        self._opened.callback(self._output.close)

    def _begun(self) -> fleet_validation.Started:
        engine.without_password(self._args.database)  # a wrong URL shows before the cloud is asked
        if not self._args.hosts or not _HOSTS(self._args.hosts):
            raise options.OptionError(
                "--hosts: give compute hosts or aggregates by name (a,b,c), 'all', or 'any' for one pair anywhere"
            )
        plan = _new_plan(self._args, run_store.new_id())
        name = self._cloud.name or os.environ.get("OS_AUTH_URL", "")
        environment = fleet_results.environment(
            plan, name, self._args.host_group, options.tags(self._args)
        )
        validate_options.check_planned(environment)
        self._read_criteria(plan.measure, environment)
        hosts = self._args.hosts.split(",")
        new = fleet_validation.prepare(plan, environment, self._cloud, hosts, self._warn)
        fleet_results.of_hosts(self._criteria.bare, new.hosts)  # refused before anything runs
        self._prepare_output()
        self._open(make=True)
        started = fleet_validation.create(self._store, new, self._cloud)
        sizes = f"{counted(len(new.hosts), 'host')}, {counted(len(new.pairs), 'pair')}"
        self._warn(f"run {started.run.run_id}: {sizes}")
        return started

    def _resumed(self) -> fleet_validation.Started:
        """Take up a run; of a complete one only the judgement is new."""
        self._open(make=False)
        before = self._store.load(self._args.resume)
        before.plan = _resumed_plan(self._args, before)
        self._read_criteria(before.plan.measure, before.environment)
        fleet_results.of_hosts(self._criteria.bare, before.hosts)
        fleet_validation.check_cloud(before, self._cloud)
        self._prepare_output()
        started = fleet_validation.take_up(self._store, before, self._cloud, self._warn)
        if started.launcher is None:
            self._warn(
                f"run {before.run_id} is complete; its results are judged and written again"
            )
        return started

    def _read_criteria(self, plan: fleet_model.MeasurePlan, environment: Environment) -> None:
        self._criteria = fleet_validation.criteria(
            plan, environment, self._args.budget, self._args.bare_host
        )

    # -- after

    def _reported(
        self, run: fleet_model.StoredRun, measured: fleet_validation.FleetMeasurement
    ) -> int:
        """Judge, write and print what was measured; return the exit code, or raise why there is none."""
        ended = measured.ended
        if measured.has_leftovers:
            self._warn_of_leftovers(run.run_id)
        try:
            code = self._judged(run, ended)
        finally:
            if ended is not Ended.COMPLETE:
                self._warn(f"not complete; go on with: {self.resume_command(run.run_id)}")
        if measured.error is not None:
            raise measured.error
        # A signal that came when all was measured has cut off nothing but the last removal of
        # stacks.
        if measured.stopped_by and ended is not Ended.COMPLETE:
            kept = "nothing was measured, no file is written"
            if code is not None:
                kept = "results so far are kept"
            self._warn(f"interrupted; {kept}")
            return 128 + measured.stopped_by
        if code is None:
            raise fleet_validation.why_no_result(self._store.load(run.run_id), ended)
        return code

    def _judged(self, run: fleet_model.StoredRun, ended: Ended) -> int | None:
        """Judge what the database has, write and print it; return the exit code, None where there is no trial."""
        by = self._criteria
        results, judged = fleet_results.collect(
            self._store, run.run_id, by.budgets, run.plan.max_loss, ended, by.bare
        )
        if not results.trials:
            return None
        try:
            return self._finish(results, judged)
        except (OSError, atomic_write.OutputError) as error:
            how = "written when the run has gone on, by"
            if ended is Ended.COMPLETE:
                how = "written by"
            raise errors.PerfTuningError(
                f"{one_line(error)}; what was measured is kept, and {how}: {self.resume_command(run.run_id)}"
            ) from error

    def _finish(self, results: model.Results, judged: fleet.FleetVerdict) -> int:
        """Write results and report, print the tables and return the exit code."""
        results_file.save(results, self._results_file, self._output)
        summaries = summary.summarise(results, limits=budget_file.limits(self._criteria.budgets))
        page = report.render(results, summaries, [])
        results_file.write_atomically(self._report_file, page, self._output)
        self._junit_file.write(results, [], self._args.budget)
        with contextlib.suppress(BrokenPipeError):  # whoever read it, as the other side of "| tee"
            self._show(results, summaries, judged)
        if not any(trial.value is not None for trial in results.trials):
            return int(errors.ExitCode.ERROR)
        if judged.whole is not None:
            return int(judged.whole.exit_code)
        if self._args.budget:
            return int(errors.ExitCode.ERROR)
        return int(errors.ExitCode.PASS)

    def _show(
        self,
        results: model.Results,
        summaries: Sequence[summary.BenchmarkSummary],
        judged: fleet.FleetVerdict,
    ) -> None:
        if self._args.format == "json":
            command.print_json(report.as_json(results, summaries, []))
            return
        result_tables.print_fleet(results, summaries)
        source = f"host CPU of guests: {results.environment.host_cpu_source}"
        command.say(source, *cpu_faults(results.environment), prefix="note: ")
        print()
        result_tables.print_hosts(judged.hosts)
        result_tables.print_diagnosis(results, [])
        for reason in budget_file.left_out(results, self._criteria.budgets):
            command.say(f"note: {messages.of(reason)}")
        print()
        if judged.whole:
            command.say(judged.whole.value)
        result_tables.print_paths(self._results_file, self._report_file)

    def resume_command(self, run_id: str) -> str:
        """Return the command that goes on with a run, with what the run does not keep itself."""
        words = []
        if self._args.output and self._args.output != ".":
            words += ["--output", self._args.output]
        if self._args.budget:
            words += ["--budget", self._args.budget]
        return self._command("validate", *words, "--resume", run_id)

    def _warn_of_leftovers(self, run_id: str) -> None:
        self._warn(
            f"stacks of this run may be left; this removes them: {self._command('cleanup', run_id)}"
        )

    def _command(self, *words: str) -> str:
        """Return a command for this cloud and this database, without the password that is in its URL."""
        whole = ["openstack"]
        if self._cloud.name:
            whole += ["--os-cloud", self._cloud.name]
        whole += ["perf", *words]
        if self._args.database:
            whole += ["--database", engine.without_password(self._args.database)]
        return shlex.join(whole)

    def _warn(self, text: str) -> None:
        with contextlib.suppress(
            OSError
        ):  # who reads it may have gone, and stacks are still to be removed
            command.warn(_PROGRAM, text)


def _new_plan(args: argparse.Namespace, run_id: str) -> fleet_model.FleetPlan:
    if args.agent_metrics:
        host_cpu.check_url(args.agent_metrics)
    if args.network and args.external_network:
        raise options.OptionError(
            "--external-network: guests on a --network have no router; leave one out"
        )
    guests = _guests(args)
    settings = fleet_model.RunSettings(
        peers=_RUN.peers,
        seed=secrets.randbelow(1 << 32),
        max_parallel=args.max_parallel or _RUN.max_parallel,
        time_limit_s=args.time_limit,
    )
    if args.peers is not None:
        settings = dataclasses.replace(settings, peers=args.peers)
    measure = fleet_model.MeasurePlan(
        run_id,
        _arms(args, guests.vcpus),
        validate_options.jobs(args.benchmark, args.seconds),
        args.blocks or fleet_model.BLOCKS,
        args.pair_time_limit or _PAIR_LIMIT_S,
    )
    return fleet_model.FleetPlan(
        measure=measure,
        settings=settings,
        guests=guests,
        max_loss=args.max_loss or fleet_model.MAX_LOSS,
    )


def _guests(args: argparse.Namespace) -> fleet_model.GuestSettings:
    """Return the settings of the guests; what no option gives is the model's default."""
    options_given = {
        "image": args.image,
        "network": args.network,
        "external_network": args.external_network,
        "vcpus": args.guest_vcpus,
        "ram_mib": args.guest_ram,
        "slot_s": args.slot_time,
        "boot_s": args.boot_time,
        "agent_metrics": args.agent_metrics,
    }
    given = {name: value for name, value in options_given.items() if value}
    return fleet_model.GuestSettings(guest_tx_offload=not args.no_guest_tx_offload, **given)


def _resumed_plan(args: argparse.Namespace, run: fleet_model.StoredRun) -> fleet_model.FleetPlan:
    """Return the run's own plan with the limits of the options; OptionError: others say what is measured."""
    given = []
    for name, value in vars(args).items():
        absent = value is None or value is False or value == []
        if name not in _FREE and not absent:
            given.append(f"--{name.replace('_', '-')}")
    if given:
        raise options.OptionError(
            f"{', '.join(given)}: run {run.run_id} goes on as it was begun, since its pairs are compared with each"
            " other; leave it out or begin a new run"
        )
    before = run.plan
    parallel = args.max_parallel or before.settings.max_parallel
    settings = dataclasses.replace(
        before.settings, max_parallel=parallel, time_limit_s=args.time_limit
    )
    return dataclasses.replace(
        before, settings=settings, max_loss=args.max_loss or before.max_loss
    )


def _arms(args: argparse.Namespace, vcpus: int) -> tuple[fleet_model.FleetArm, ...]:
    if args.flavor:
        if args.require_trait:
            raise options.OptionError(
                "--require-trait: an existing flavor has its specs; leave out one of the two"
            )
        if args.profile or args.spec or args.common_spec:
            raise options.OptionError(
                "--flavor: an existing flavor has its specs; leave out --profile, --spec and --common-spec"
            )
        if len(set(args.flavor)) < len(args.flavor):
            raise options.OptionError("--flavor: the same flavor is given twice; name it once")
        for name in args.flavor:
            if name in _RESERVED:
                raise options.OptionError(
                    f"--flavor: '{name}' means something else in results; give the flavor's id"
                )
        return tuple(fleet_model.FleetArm(name, flavor=name) for name in args.flavor)
    wanted, _ = validate_options.tuned_request(args, vcpus)
    specs = {**flavor_options.extra_specs(args.spec), **wanted.extra_specs()}
    native = crosscheck.needed_native(wanted, specs, {}, vcpus)
    both = _common_specs(args, {**native, **specs})
    if args.require_trait:
        if not _TRAIT(args.require_trait):
            raise options.OptionError(
                f"--require-trait: '{args.require_trait[:80]}' is not a trait; give a name like CUSTOM_PERF_VALIDATED"
            )
        both[f"trait:{args.require_trait}"] = "required"
    return (
        fleet_model.FleetArm("untuned", extra_specs=both),
        fleet_model.FleetArm("tuned", extra_specs={**native, **specs, **both}),
    )


def _common_specs(args: argparse.Namespace, specs: Mapping[str, str]) -> dict[str, str]:
    """Return the extra specs of both arms; ``specs``: those of tuned guests."""
    common = options.pairs("--common-spec", args.common_spec)
    for key, value in common.items():
        if not key.startswith(vocabulary.NATIVE_PREFIX):
            raise options.OptionError(
                f"--common-spec {vocabulary.shown(key)}: only Nova's own specs, such as hw:cpu_policy, may be of "
                "both kinds of guests; give it with --spec"
            )
        if specs.get(key, value) != value:
            raise options.OptionError(
                f"--spec and --common-spec give {vocabulary.shown(key)} different values; leave one out"
            )
    return common


def cpu_faults(environment: Environment) -> list[str]:
    """Return why host CPU is not known, the first places, and of how many more it is not."""
    faults = []
    for where, why in environment.host_cpu_faults.items():
        faults.append(f"host CPU is not known from {where}: {why}")
    shown = faults[:_MAX_CPU_FAULTS]
    left_out = len(faults) - len(shown) + (environment.host_cpu_faults_left_out or 0)
    if left_out:
        shown.append(f"host CPU is not known from {left_out} more places")
    return shown
