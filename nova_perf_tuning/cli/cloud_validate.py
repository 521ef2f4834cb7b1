"""``openstack perf validate``: the compute hosts of a cloud, measured pair by pair and judged."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from openstack import connection

from nova_perf_tuning import atomic_write, errors
from nova_perf_tuning.cli import (
    cloud_command,
    command,
    judge_options,
    option_types,
    progress,
    result_tables,
    spec_options,
    validate_options,
)
from nova_perf_tuning.printing import counted, one_line
from nova_perf_tuning.specs import crosscheck
from nova_perf_tuning.validation.cloud import (
    baselines,
    campaign,
    cloud_identity,
    fleet,
    fleet_plan,
    fleet_results,
    heat_pair,
    host_cpu,
    model,
    pairing,
    run_store,
)
from nova_perf_tuning.validation.database import engine
from nova_perf_tuning.validation.judge import budget_file, measure_plan, trial_filter, verdict
from nova_perf_tuning.validation.measure import model as results_model
from nova_perf_tuning.validation.measure import store
from nova_perf_tuning.validation.report import report, summary

_PROGRAM: Final = "openstack perf validate"
_HOSTS: Final = re.compile(r"[^,\s]{1,255}(,[^,\s]{1,255})*").fullmatch
_TIME: Final = option_types.duration(20)
_RUN: Final = campaign.Settings()
_BLOCKS: Final = 3
_MAX_LOSS: Final = 0.15
_PAIR_LIMIT_S: Final = 20 * 60.0

#: What can be given beside --resume; all else stays as the run was begun, since its pairs are compared.
_FREE: Final = {"resume", "database", "output", "format", "junit", "budget", "bare_host"} | {
    "time_limit",
    "max_parallel",
    "max_loss",
}


class Validate(cloud_command.CloudCommand):
    """Measure compute hosts in pairs, untuned and tuned guests in turn, and judge each host.

    Every host meets several peers, so that a bad host is told from a bad peer, and is in one pair at a time.
    Everything is kept in a database: after Ctrl-C or a crash the run goes on with --resume. Writes results.json
    and report.html. Needs admin rights, but for --hosts any.

    Exit code: 0 PASS, 1 FAIL (a bad host, or a broken budget), 2 INCONCLUSIVE, 3 INVALID (a host gave no result)
    or error. Interrupted by Ctrl-C: 130.

    Example: openstack perf validate --hosts all --peers 3 --max-parallel 8 --profile network-throughput
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        _add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        config = self.app.client_manager._cli_options
        # Every thread that asks has a connection of its own, all with the program's credentials.
        cloud = cloud_identity.HeatCloud(
            self.app.options.cloud or "", lambda: connection.Connection(config=config)
        )
        return Run(parsed_args, cloud).run()


def _add_options(parser: argparse.ArgumentParser) -> None:
    command.add_format(parser)
    validate_options.add(
        parser,
        blocks=f"pair of hosts (default: {_BLOCKS})",
        budget="",
        time_limit="none",
        flavor=False,
    )
    parser.add_argument(
        "--hosts",
        metavar="A,B,...",
        help="compute hosts or host aggregates by name, 'all' that are up and enabled (administrators only), or "
        "'any': one pair where the scheduler puts it",
    )
    parser.add_argument(
        "--peers",
        metavar="K",
        type=option_types.whole(1, 1000),
        help="how many different peers each host is measured with; 2 tell a bad host from a bad peer, 3 do so "
        f"where several hosts are bad (default: {_RUN.peers})",
    )
    parser.add_argument(
        "--max-parallel",
        metavar="N",
        type=option_types.whole(1, 1000),
        help="pairs measured at a time, no host in two of them; lower it where hosts share a network or the quota "
        f"is small, raise it for large fleets (default: {_RUN.max_parallel})",
    )
    parser.add_argument(
        "--max-loss",
        metavar="SHARE",
        type=option_types.number(0.01, 0.9),
        help="a host whose pairs all lose more than this against the other hosts FAILs; not below twice the noise "
        f"of an A/A run (default: {_MAX_LOSS}, 15 %%)",
    )
    parser.add_argument(
        "--bare-host",
        metavar="RESULTS.json",
        action="append",
        default=[],
        help="what 'nova-perf validate --launcher host' with the same --benchmark wrote on one of the hosts: "
        "shown beside its guests, and what budgets against 'host' are judged by; may be repeated, once for a host",
    )
    parser.add_argument(
        "--retries",
        metavar="N",
        type=option_types.whole(0, 10),
        help=f"further attempts for a pair that gave nothing (default: {_RUN.retries})",
    )
    parser.add_argument(
        "--pair-time-limit",
        metavar="TIME",
        type=_TIME,
        help="for one pair from its first stack to its last result; raise it where guests boot slowly "
        "(default: 20m)",
    )
    parser.add_argument(
        "--slot-time",
        metavar="TIME",
        type=option_types.duration(5),
        help="length of a turn, in which a pair of guests runs every benchmark once; raise it where a trial ends "
        "with 'no time was left in the slot' (default: what the benchmarks take and 5 s for each run)",
    )
    parser.add_argument(
        "--boot-time",
        metavar="TIME",
        type=_TIME,
        help="how long guests get until they are ready; lower it where they boot fast, since turns begin no "
        "earlier (default: 60s)",
    )
    parser.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with a run that was interrupted or has died, as it was begun; beside it only --time-limit,"
        " --max-parallel, --max-loss, --bare-host, budgets and files count. One that is complete is judged and"
        " written again",
    )
    parser.add_argument(
        "--agent-metrics",
        metavar="URL",
        help="where a host's nova-perf-agent serves its metrics, by the hypervisor's name, as in "
        "'http://{host}:9751/metrics' (default: host CPU is not known)",
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="SQLAlchemy URL where runs are kept; in $NOVA_PERF_DATABASE a password in it is not seen by others "
        "(default: a SQLite file in the state directory)",
    )
    parser.add_argument("--image", metavar="NAME", help="of the guests (default: perf-guest)")
    parser.add_argument(
        "--flavor",
        metavar="NAME",
        action="append",
        default=[],
        help="measure this flavor, which exists, instead of untuned against tuned; may be repeated to compare",
    )
    parser.add_argument(
        "--external-network", metavar="NAME", help="by which guests reach Heat (default: the only)"
    )
    parser.add_argument(
        "--guest-vcpus",
        metavar="N",
        type=option_types.whole(1, 1024),
        help="of flavors that are made (default: 2)",
    )
    parser.add_argument(
        "--guest-ram",
        metavar="MIB",
        type=option_types.whole(128, 1 << 24),
        help="of flavors that are made (default: 256)",
    )
    parser.add_argument(
        "--no-guest-tx-offload",
        action="store_true",
        help="for hosts whose Open vSwitch runs in user space on tap devices, where TCP of guests gets lost else",
    )


class Run:
    """One call of the command, from the check of the cloud to the exit code.

    What is refused leaves nothing behind: database and folder are made when the checks are done.
    """

    _opened: contextlib.ExitStack
    _store: run_store.RunStore

    def __init__(self, args: argparse.Namespace, cloud: cloud_identity.HeatCloud) -> None:
        self._args = args
        self._cloud = cloud
        self._budgets: list[verdict.Budget] = []
        self._bare: dict[str, results_model.Results] = {}
        self._results_file, self._report_file = validate_options.output_files(args.output)

    def run(self) -> int:
        """Validate the hosts and return the exit code.

        :raises nova_perf_tuning.errors.PerfTuningError: a mistake, or the cloud or the database fails.
        """
        judge_options.begin_junit(self._args.junit)
        with contextlib.ExitStack() as self._opened:
            return self._run()

    def _run(self) -> int:
        stored, plan, launcher = self._resumed() if self._args.resume else self._begun()
        if launcher is None:
            self._warn(f"run {stored.run_id} is complete; its results are judged and written again")
            if stored.leftovers:
                self._warn_of_leftovers(stored.run_id)
            return self._some(self._judged(stored.run_id, plan, "complete"), stored.run_id, "complete")
        broken: errors.PerfTuningError | None = None
        ended = "error"
        tell = progress.shower(self._args.format == "json")
        one = campaign.Campaign(self._store, launcher, stored, plan.arms, plan.measure, plan.settings, tell)
        try:
            ended = one.run()
        except errors.PerfTuningError as error:
            broken = error
        if one.unclean:
            self._warn_of_leftovers(stored.run_id)
        # One that came when all was measured has cut off nothing but the last removal of stacks.
        stopped_by = one.stopped_by if ended != "complete" else 0
        try:
            code = self._judged(stored.run_id, plan, ended)
        finally:
            if ended != "complete":
                self._warn(f"not complete; go on with: {self._resume_command(stored.run_id)}")
        if broken is not None:
            raise broken
        if stopped_by:
            kept = "results so far are kept" if code is not None else "nothing was measured, no file is written"
            self._warn(f"interrupted; {kept}")
            return 128 + stopped_by
        return self._some(code, stored.run_id, ended)

    # -- before

    def _open(self, *, make: bool) -> None:
        self._store = run_store.RunStore(self._args.database, make=make)
        self._opened.callback(self._store.close)

    def _begun(self) -> tuple[model.StoredRun, fleet_plan.FleetPlan, Any]:
        engine.file_of(self._args.database)  # a wrong URL shows before the cloud is asked
        if not self._args.hosts or not _HOSTS(self._args.hosts):
            raise option_types.OptionError(
                "--hosts: give compute hosts or aggregates by name (a,b,c), 'all', or 'any' for one pair anywhere"
            )
        plan = _new_plan(self._args, run_store.new_id())
        name = self._cloud.name or os.environ.get("OS_AUTH_URL", "")
        environment = fleet_plan.environment(plan, name, self._args.host_group)
        self._check_budgets(plan, environment)
        launcher = self._cloud.launcher(plan.guests)
        chosen = self._cloud.choose(self._args.hosts.split(","))
        for host, why in chosen.left_out.items():
            self._warn(f"host {host} is left out: it is {why}")
        launcher.check(plan.arms, plan.measure)
        validate_options.make_output_directory(self._args.output)
        self._open(make=True)
        pairs = pairing.schedule(chosen.hosts, plan.settings.peers, plan.settings.seed)
        kept = {**fleet_plan.to_dict(plan), "cloud": self._cloud.place()}
        stored = self._store.create(plan.measure.run_id, chosen.hosts, pairs, kept, environment)
        self._warn(f"run {stored.run_id}: {counted(len(chosen.hosts), 'host')}, {counted(len(pairs), 'pair')}")
        return stored, plan, launcher

    def _resumed(self) -> tuple[model.StoredRun, fleet_plan.FleetPlan, model.PairLauncher | None]:
        """Take up a run; a complete one needs no launcher, and no cloud."""
        self._open(make=False)
        before = self._store.load(self._args.resume)
        plan = _resumed_plan(self._args, before)
        self._check_budgets(plan, before.environment)
        complete = before.state == "complete"
        if not complete and before.cloud != (here := self._cloud.place()):
            raise run_store.RunError(
                f"run {before.run_id} was begun on another cloud or project: {before.cloud}; this is {here}"
            )
        validate_options.make_output_directory(self._args.output)
        if complete:
            return before, plan, None
        launcher = self._cloud.launcher(plan.guests)
        stored = self._store.claim(before.run_id)
        try:
            if stored.leftovers:
                # Before the check: what is left may be what fills the quota.
                self._warn("removing what the run left when it was cut off")
                launcher.cleanup(stored.run_id)
                stored.leftovers = False
            launcher.check(plan.arms, plan.measure)
        except BaseException:
            self._store.end(stored.run_id, "interrupted", leftovers=stored.leftovers)
            raise
        return stored, plan, launcher

    def _check_budgets(self, plan: fleet_plan.FleetPlan, environment: Mapping[str, Any]) -> None:
        """Refuse budgets for what the run does not have; read what is known of the bare hosts."""
        jobs, budget = plan.measure.jobs, self._args.budget
        self._bare = baselines.load(self._args.bare_host, {job.label: job.benchmark.kind for job in jobs})
        arms = [*([results_model.HOST] if self._bare else []), *(arm.name for arm in plan.arms)]
        if budget:
            loaded = budget_file.load(budget)
            self._budgets = measure_plan.budgets_for(loaded, budget, environment, jobs, arms)

    # -- after

    def _judged(self, run_id: str, plan: fleet_plan.FleetPlan, ended: str) -> int | None:
        """Judge what the database has, write and print it; return the exit code, None where there is no trial.

        :raises nova_perf_tuning.errors.PerfTuningError: a file cannot be written; says how to do it again.
        """
        results, judged = fleet_results.collect(
            self._store, run_id, self._budgets, plan.max_loss, ended, self._bare
        )
        try:
            return self._finish(results, judged) if results.trials else None
        except (OSError, atomic_write.OutputError) as error:
            how = "written by" if ended == "complete" else "written when the run has gone on, by"
            raise errors.PerfTuningError(
                f"{one_line(error)}; what was measured is kept, and {how}: {self._resume_command(run_id)}"
            ) from error

    def _finish(self, results: results_model.Results, judged: fleet.FleetVerdict) -> int:
        """Write results and report, print the tables and return the exit code."""
        store.save(results, self._results_file)
        summaries = summary.summarise(results, limits=trial_filter.limits(self._budgets))
        store.write_atomically(self._report_file, report.render(results, summaries, []))
        judge_options.write_junit(self._args.junit, results, [], self._args.budget)
        with contextlib.suppress(BrokenPipeError):  # whoever read it, as the other side of "| tee"
            self._show(results, summaries, judged)
        if not any(one.value is not None for one in results.trials):
            return int(errors.ExitCode.ERROR)
        if judged.whole is None:
            return int(errors.ExitCode.ERROR if self._args.budget else errors.ExitCode.PASS)
        return int(judged.whole.exit_code)

    def _show(
        self, results: results_model.Results, told: Sequence[summary.BenchmarkSummary], judged: fleet.FleetVerdict
    ) -> None:
        if self._args.format == "json":
            command.print_json(report.as_json(results, told, []))
            return
        print()
        result_tables.print_summary(told)
        result_tables.print_headline(results, told)
        command.say(*host_cpu.notes(results.environment), prefix="note: ")
        print()
        result_tables.print_hosts(judged.hosts)
        result_tables.print_diagnosis(results, [])
        command.say(*verdict.left_out(results, self._budgets), prefix="note: ")
        print(f"\n{judged.whole.value}" if judged.whole else "")
        result_tables.print_paths(self._results_file, self._report_file)

    def _some(self, code: int | None, run_id: str, ended: str) -> int:
        """Return the exit code, unless there is none.

        :raises nova_perf_tuning.errors.PerfTuningError: no pair gave a figure; says why.
        """
        if code is not None:
            return code
        for fault in (fault for task in self._store.load(run_id).tasks for fault in task.faults):
            told = f"{fault.error.kind.value}: {fault.error.reason}"
            raise errors.PerfTuningError(f"no pair gave a result; first error: {told}")
        more = "; give more --time-limit" if ended == "time limit" else ""
        raise errors.PerfTuningError(f"no pair was measured{more}")

    def _resume_command(self, run_id: str) -> str:
        """Return the command that goes on with a run, with what the run does not keep itself."""
        kept = {"--output": "" if self._args.output == "." else self._args.output, "--budget": self._args.budget}
        words = [word for option, value in kept.items() if value for word in (option, value)]
        return self._command("validate", *words, "--resume", run_id)

    def _warn_of_leftovers(self, run_id: str) -> None:
        self._warn(f"stacks of this run may be left; this removes them: {self._command('cleanup', run_id)}")

    def _command(self, *words: str) -> str:
        """Return a command for this cloud and this database, without the password that is in its URL."""
        cloud = ["--os-cloud", self._cloud.name] if self._cloud.name else []
        url = self._args.database
        database = ["--database", engine.without_password(url)] if url else []
        return shlex.join(["openstack", *cloud, "perf", *words, *database])

    def _warn(self, text: str) -> None:
        with contextlib.suppress(OSError):  # who reads it may have gone, and stacks are still to be removed
            command.warn(_PROGRAM, text)


def _new_plan(args: argparse.Namespace, run_id: str) -> fleet_plan.FleetPlan:
    """Return the plan that the options ask for."""
    if args.agent_metrics:
        host_cpu.check_url(args.agent_metrics)
    asked = {
        "image": args.image,
        "external_network": args.external_network,
        "vcpus": args.guest_vcpus,
        "ram_mib": args.guest_ram,
        "slot_s": args.slot_time,
        "boot_s": args.boot_time,
        "agent_metrics": args.agent_metrics,
    }
    guests = heat_pair.Settings(
        guest_tx_offload=not args.no_guest_tx_offload, **{name: value for name, value in asked.items() if value}
    )
    limit_s = args.pair_time_limit or _PAIR_LIMIT_S
    return fleet_plan.FleetPlan(
        arms=_arms(args, guests.vcpus),
        measure=model.MeasurePlan(
            run_id, validate_options.jobs(args.benchmark, args.seconds), args.blocks or _BLOCKS, limit_s
        ),
        settings=campaign.Settings(
            peers=args.peers or _RUN.peers,
            seed=secrets.randbelow(1 << 32),
            max_parallel=args.max_parallel or _RUN.max_parallel,
            retries=_RUN.retries if args.retries is None else args.retries,
            time_limit_s=args.time_limit,
        ),
        guests=guests,
        max_loss=args.max_loss or _MAX_LOSS,
    )


def _resumed_plan(args: argparse.Namespace, run: model.StoredRun) -> fleet_plan.FleetPlan:
    """Return the plan to go on with: the run's own, with the limits that the options give.

    :raises option_types.OptionError: an option says what is measured.
    """
    values = {name: value for name, value in vars(args).items() if name not in _FREE}
    if given := [name for name, value in values.items() if value not in (None, []) and value is not False]:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise option_types.OptionError(
            f"{named}: run {run.run_id} goes on as it was begun, since its pairs are compared with each other;"
            " leave it out or begin a new run"
        )
    before = fleet_plan.from_dict(run.plan, run.run_id)
    parallel = args.max_parallel or before.settings.max_parallel
    return dataclasses.replace(
        before,
        settings=dataclasses.replace(before.settings, max_parallel=parallel, time_limit_s=args.time_limit),
        max_loss=args.max_loss or before.max_loss,
    )


def _arms(args: argparse.Namespace, vcpus: int) -> tuple[model.Arm, ...]:
    if args.flavor:
        if args.profile or args.spec:
            raise option_types.OptionError(
                "--flavor: an existing flavor has its specs; leave out --profile and --spec"
            )
        if len(set(args.flavor)) < len(args.flavor):
            raise option_types.OptionError("--flavor: the same flavor is given twice; name it once")
        return tuple(model.Arm(name, flavor=name) for name in args.flavor)
    given = spec_options.flavor(args, validate_options.DEFAULT_PROFILE)
    wanted, _ = measure_plan.tuned_request(given, args.profile_dir, vcpus)
    specs = {**spec_options.extra_specs(args.spec), **wanted.extra_specs()}
    native = crosscheck.needed_native(wanted, specs, {}, vcpus)
    return model.Arm("untuned"), model.Arm("tuned", extra_specs={**native, **specs})
