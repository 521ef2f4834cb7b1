"""``nova-perf validate --launcher heat`` and ``openstack perf validate``: the hosts of a cloud, pair by pair."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1 import exceptions as keystone_errors
from openstack.config import exceptions as config_errors

from nova_perf_tuning import errors, whole_file
from nova_perf_tuning.budget import budget_file, report, store, summary, trial_filter, verdict
from nova_perf_tuning.budget import model as results_model
from nova_perf_tuning.cli import (
    command,
    figures,
    junit_option,
    option_types,
    progress,
    validate_cloud_plan,
    validate_plan,
)
from nova_perf_tuning.cloud import (
    api,
    baselines,
    campaign,
    fleet,
    fleet_plan,
    fleet_results,
    heat_pair,
    host_choice,
    host_cpu,
    model,
    pairing,
    place,
    run_store,
)
from nova_perf_tuning.database import engine
from nova_perf_tuning.printing import counted, one_line

_HOSTS = re.compile(r"[^,\s]{1,255}(,[^,\s]{1,255})*").fullmatch


class NoResultsError(errors.PerfTuningError):
    """No pair gave a figure."""


class HeatCloud:
    """A cloud that is reached through openstacksdk.

    :ivar name: for the report.
    """

    def __init__(self, os_cloud: str | None, connect: Callable[[], Any] | None = None) -> None:
        """Connect nothing yet.

        :param connect: makes a connection; None: by the entry of clouds.yaml, or the variables OS_*.
        """
        self._os_cloud = os_cloud
        self._connect_by = connect
        self.name = os_cloud or os.environ.get("OS_CLOUD") or os.environ.get("OS_AUTH_URL") or ""

    def choose(self, words: list[str]) -> host_choice.Chosen:
        """Return the hosts that are meant, see :mod:`nova_perf_tuning.cloud.host_choice`."""
        return host_choice.choose(api.Api(self.connect), words)

    def launcher(self, guests: heat_pair.Settings) -> model.PairLauncher:
        """Return what measures pairs; nothing is made before it is used."""
        return heat_pair.HeatPairLauncher(guests, self.connect)

    def place(self) -> str:
        """Return where stacks are made, see :mod:`nova_perf_tuning.cloud.place`."""
        return place.of(api.Api(self.connect))

    def connect(self) -> Any:
        """Return a new connection.

        :raises model.CloudError: neither clouds.yaml nor the environment says how.
        """
        if self._connect_by is not None:
            return self._connect_by()
        # What it warns of before it raises is in the exception, too.
        logging.getLogger("keystoneauth.identity").setLevel(logging.ERROR)
        try:
            return api.connect(self._os_cloud)
        except (config_errors.OpenStackConfigException, keystone_errors.MissingRequiredOptions) as error:
            raise model.CloudError(
                f"no way to the cloud: {one_line(error, 300)}; see --os-cloud, clouds.yaml and OS_*"
            ) from None


def run(args: argparse.Namespace, program: str, cloud: HeatCloud | None = None, os_cloud: str = "") -> int:
    """Validate the hosts of a cloud and return the exit code.

    :param program: as the user calls it, for the hint how to go on.
    :param cloud: None: the one that the options name.
    :param os_cloud: the entry of clouds.yaml that was named before the command (``openstack --os-cloud X perf``).
    :raises nova_perf_tuning.errors.PerfTuningError: a mistake, or the cloud or the database fails.
    """
    cloud = cloud or HeatCloud(args.os_cloud)
    junit_option.begin(args)
    budgets = budget_file.load(args.budget) if args.budget else []
    with contextlib.ExitStack() as opened:
        return _Run(args, program, os_cloud, cloud, budgets, opened).run()


class _Run:
    """One call of the command, from the check of the cloud to the exit code.

    What is refused leaves nothing behind: database and folder are made when the checks are done.
    """

    _store: run_store.RunStore

    def __init__(
        self,
        args: argparse.Namespace,
        program: str,
        os_cloud: str,
        cloud: HeatCloud,
        budgets: list[verdict.Budget],
        opened: contextlib.ExitStack,
    ) -> None:
        self._args = args
        self._program = program
        self._os_cloud = os_cloud
        self._cloud = cloud
        self._budgets = budgets
        self._opened = opened
        self._results_file, self._report_file = validate_plan.output_files(args.output)
        self._bare: list[baselines.BareHost] = []

    def run(self) -> int:
        if self._args.resume:
            self._open(make=False)
            before = self._store.load(self._args.resume)
            if before.state == "complete":
                return self._again(before)
            stored, plan, launcher = self._resumed(before)
        else:
            stored, plan, launcher = self._begun()
        ended = "error"
        broken: errors.PerfTuningError | None = None
        tell = progress.shower(self._args.format == "json")
        one = campaign.Campaign(self._store, launcher, stored, plan.arms, plan.measure, plan.settings, tell)
        try:
            ended = one.run()
        except errors.PerfTuningError as error:
            broken = error
        if one.unclean:
            self._warn_of_leftovers(stored.run_id)
        if one.unheard is not None:
            self._warn(f"progress could not be shown: {one_line(one.unheard, 200)}")
        # One that came when all was measured has cut off nothing but the last removal of stacks.
        stopped_by = one.stopped_by if ended != "complete" else 0
        try:
            code = self._judged(stored.run_id, plan, ended)
        except BrokenPipeError:  # the reader has gone; files are written
            if broken is None and not stopped_by:
                raise
            code = int(errors.ExitCode.ERROR)
        finally:
            if ended != "complete":
                self._warn(f"not complete; go on with: {self._resume_command(stored.run_id)}")
        if broken is not None:
            raise broken
        if stopped_by:
            kept = "results so far are kept" if code is not None else "nothing was measured, no file is written"
            self._warn(f"interrupted; {kept}")
            return 128 + stopped_by
        if code is None:
            raise NoResultsError(_why_nothing(self._store, stored.run_id, ended))
        return code

    def _again(self, run: model.StoredRun) -> int:
        """Judge and write what a complete run gave; nothing is measured and no cloud is needed."""
        plan = validate_cloud_plan.resumed(self._args, run)
        self._check_budgets(plan, run.environment)
        validate_plan.make_output_folder(self._args.output)
        self._warn(f"run {run.run_id} is complete; its results are judged and written again")
        if run.leftovers:
            self._warn_of_leftovers(run.run_id)
        code = self._judged(run.run_id, plan, "complete")
        if code is None:
            raise NoResultsError(_why_nothing(self._store, run.run_id, "complete"))
        return code

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
        plan = validate_cloud_plan.new(self._args, run_store.new_id())
        environment = validate_cloud_plan.environment(self._cloud.name, plan, self._args.host_group)
        self._check_budgets(plan, environment)
        launcher = self._cloud.launcher(plan.guests)
        chosen = self._cloud.choose(self._args.hosts.split(","))
        for host, why in chosen.left_out.items():
            self._warn(f"host {host} is left out: it is {why}")
        launcher.check(plan.arms, plan.measure)
        validate_plan.make_output_folder(self._args.output)
        self._open(make=True)
        pairs = pairing.schedule(chosen.hosts, plan.settings.peers, plan.settings.seed)
        kept = {**fleet_plan.to_dict(plan), "cloud": self._cloud.place()}
        stored = self._store.create(plan.measure.run_id, chosen.hosts, pairs, kept, environment)
        self._warn(f"run {stored.run_id}: {counted(len(chosen.hosts), 'host')}, {counted(len(pairs), 'pair')}")
        return stored, plan, launcher

    def _resumed(self, before: model.StoredRun) -> tuple[model.StoredRun, fleet_plan.FleetPlan, Any]:
        plan = validate_cloud_plan.resumed(self._args, before)
        self._check_budgets(plan, before.environment)
        self._check_cloud(before)
        validate_plan.make_output_folder(self._args.output)
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

    def _check_cloud(self, run: model.StoredRun) -> None:
        """See that this is the cloud on which a run began.

        :raises nova_perf_tuning.cloud.run_store.RunError: it is another one.
        """
        if run.cloud != (here := self._cloud.place()):
            raise run_store.RunError(
                f"run {run.run_id} was begun on another cloud or project: {run.cloud}; this is {here}"
            )

    def _check_budgets(self, plan: fleet_plan.FleetPlan, environment: Mapping[str, Any]) -> None:
        """Refuse budgets for what the run does not have; read what is known of the bare hosts."""
        jobs = plan.measure.jobs
        self._bare = baselines.load(self._args.bare_host, {job.label: job.benchmark.kind for job in jobs})
        arms = [*([fleet.BARE] if self._bare else []), *(arm.name for arm in plan.arms)]
        if self._args.budget:
            self._budgets = validate_plan.budgets_for(self._budgets, self._args.budget, environment, jobs, arms)

    # -- after

    def _judged(self, run_id: str, plan: fleet_plan.FleetPlan, ended: str) -> int | None:
        """Judge what the database has, write and print it; return the exit code, None where there is no trial.

        :raises nova_perf_tuning.errors.PerfTuningError: a file cannot be written; says how to do it again.
        """
        results, judged = fleet_results.collect(
            self._store, run_id, plan.paired, self._budgets, plan.max_loss, ended, self._bare
        )
        try:
            return self._finish(results, judged) if results.trials else None
        except BrokenPipeError:
            raise
        except (OSError, whole_file.OutputError) as error:
            how = "written by" if ended == "complete" else "written when the run has gone on, by"
            raise errors.PerfTuningError(
                f"{one_line(error)}; what was measured is kept, and {how}: {self._resume_command(run_id)}"
            ) from error

    def _finish(self, results: results_model.Results, judged: fleet.FleetVerdict) -> int:
        """Write results and report, print the tables and return the exit code."""
        store.save(results, self._results_file)
        summaries = summary.summarise(results, limits=trial_filter.limits(self._budgets))
        store.write_atomically(self._report_file, report.render(results, summaries, []))
        junit_option.write(self._args, results, [])
        if self._args.format == "json":
            command.print_json(report.as_json(results, summaries, []))
        else:
            print()
            figures.print_summary(summaries)
            figures.print_headline(results, summaries)
            for note in host_cpu.notes(results.environment):
                command.say(f"note: {note}")
            print()
            figures.print_hosts(judged.hosts, judged.whole)
            figures.print_fleet_diagnosis(results)
            figures.print_left_out(verdict.left_out(results, self._budgets))
            figures.print_paths(self._results_file, self._report_file)
        if not any(one.value is not None for one in results.trials):
            return int(errors.ExitCode.ERROR)
        if judged.whole is None:
            return int(errors.ExitCode.ERROR if self._args.budget else errors.ExitCode.PASS)
        return int(judged.whole.exit_code)

    def _resume_command(self, run_id: str) -> str:
        """Return the command that goes on with a run, with what the run does not keep itself."""
        first, *rest = self._program.split()
        words = [first, *_option("--os-cloud", self._os_cloud), *rest]
        words += _option("--os-cloud", self._args.os_cloud)
        words += self._database()
        words += _option("--output", "" if self._args.output == "." else self._args.output)
        words += _option("--budget", self._args.budget)
        return shlex.join([*words, "--resume", run_id])

    def _warn_of_leftovers(self, run_id: str) -> None:
        cloud = _option("--os-cloud", self._os_cloud or self._args.os_cloud)
        cleanup = shlex.join(["openstack", *cloud, "perf", "cleanup", run_id, *self._database()])
        self._warn(f"stacks of this run may be left; this removes them: {cleanup}")

    def _database(self) -> list[str]:
        url = self._args.database
        return _option("--database", engine.without_password(url) if url else "")

    def _warn(self, text: str) -> None:
        with contextlib.suppress(OSError):  # who reads it may have gone, and stacks are still to be removed
            command.warn(self._program, text)


def _option(name: str, value: str | None) -> list[str]:
    return [name, value] if value else []


def _why_nothing(store: run_store.RunStore, run_id: str, ended: str) -> str:
    for task in store.load(run_id).tasks:
        for fault in task.faults:
            return f"no pair gave a result; first error: {fault.error.kind.value}: {fault.error.reason}"
    return "no pair was measured" + ("; give more --time-limit" if ended == "time limit" else "")
