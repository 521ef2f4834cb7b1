"""``nova-perf validate --launcher heat`` and ``openstack perf validate``: the hosts of a cloud, pair by pair."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nova_perf_tuning import errors, whole_file
from nova_perf_tuning.cli import (
    command,
    export_options,
    progress,
    spec_options,
    validate,
    validate_checks,
    validate_hints,
    validate_plan,
    validate_resume,
)

if TYPE_CHECKING:
    from nova_perf_tuning.budget import verdict
    from nova_perf_tuning.cloud import (
        baselines,
        fleet_plan,
        fleet_results,
        heat_pair,
        host_choice,
        model,
        run_store,
    )

_HOSTS = re.compile(r"[^,\s]{1,255}(,[^,\s]{1,255})*").fullmatch


class NoResultsError(errors.PerfTuningError):
    """No pair gave a figure."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only a cloud has."""
    group = parser.add_argument_group("on a cloud (--launcher heat)")
    group.add_argument(
        "--hosts",
        metavar="A,B,...",
        help="compute hosts or host aggregates by name, 'all' that are up and enabled (administrators only), or "
        "'any': one pair where the scheduler puts it",
    )
    group.add_argument(
        "--peers",
        metavar="K",
        help="how many different peers each host is measured with; 1 shows that hosts work, 2 tell a bad host "
        f"from a bad peer, 3 do so where several hosts are bad (default: {validate_plan.PEERS})",
    )
    group.add_argument(
        "--max-parallel",
        metavar="N",
        help="pairs measured at a time, no host in two of them; lower it where hosts share a network or the quota "
        f"is small, raise it for large fleets (default: {validate_plan.PARALLEL})",
    )
    group.add_argument(
        "--max-loss",
        metavar="SHARE",
        help="a host whose pairs all lose more than this against the other hosts FAILs; not below twice the noise "
        f"of an A/A run (default: {validate_plan.MAX_LOSS}, 15 %%)",
    )
    group.add_argument(
        "--bare-host",
        metavar="RESULTS.json",
        action="append",
        default=[],
        help="what 'validate --launcher host' with the same --benchmark options wrote on one of the hosts: shown "
        "beside its guests, and what budgets against 'host' are judged by; may be repeated, once for each host",
    )
    group.add_argument(
        "--retries",
        metavar="N",
        help=f"further attempts for a pair that gave nothing (default: {validate_plan.RETRIES})",
    )
    group.add_argument(
        "--pair-time-limit",
        metavar="TIME",
        help="for one pair from its first stack to its last result; raise it where guests boot slowly "
        f"(default: {validate_plan.PAIR_LIMIT})",
    )
    group.add_argument(
        "--slot-time",
        metavar="TIME",
        help="length of a turn, in which a pair of guests runs every benchmark once; raise it where a trial ends "
        "with 'no time was left in the slot' (default: what the benchmarks take, those that need no peer twice, "
        "and 5 s for each run)",
    )
    group.add_argument(
        "--boot-time",
        metavar="TIME",
        help="how long the first pair's guests get until they are ready, later ones get what was seen; lower it "
        f"where guests boot fast, since turns begin no earlier (default: {validate_plan.BOOT})",
    )
    group.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with a run that was interrupted or has died; "
        "one that is complete is judged and written again. Of the other options only limits, --retries, "
        "--agent-metrics, budgets and output files can differ from those that it was begun with",
    )
    group.add_argument(
        "--agent-metrics",
        metavar="URL",
        help="where a host's nova-perf-agent serves its metrics, {host} or {host_ip} being the hypervisor's name "
        "or address, as in 'http://{host}:9751/metrics': host CPU of guests is then known by class, and budgets "
        "on it can be judged (default, and '' with --resume: Nova's diagnostics alone, vCPU time only)",
    )
    group.add_argument(
        "--database",
        metavar="URL",
        help="SQLAlchemy URL where runs are kept; in $NOVA_PERF_DATABASE a password in it is not seen by others "
        "(default: a SQLite file in the state directory)",
    )
    group.add_argument("--os-cloud", metavar="NAME", help="entry of clouds.yaml (default: $OS_CLOUD, OS_*)")
    group.add_argument("--image", metavar="NAME", help="of the guests (default: perf-guest)")
    group.add_argument(
        "--flavor",
        metavar="NAME",
        action="append",
        default=[],
        help="measure this flavor, which exists, instead of untuned against tuned; may be repeated to compare",
    )
    group.add_argument("--external-network", metavar="NAME", help="by which guests reach Heat (default: the only)")
    group.add_argument("--guest-vcpus", metavar="N", help="of flavors that are made (default: 2)")
    group.add_argument("--guest-ram", metavar="MIB", help="of flavors that are made (default: 256)")
    group.add_argument("--mtu", metavar="BYTES", help="of the pair's own network (default: Neutron's choice)")
    group.add_argument(
        "--no-guest-tx-offload",
        action="store_true",
        help="for hosts whose Open vSwitch runs in user space on tap devices, where TCP of guests gets lost else",
    )


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
        from nova_perf_tuning.cloud import api, host_choice

        return host_choice.choose(api.Api(self.connect), words)

    def launcher(self, guests: heat_pair.Settings) -> model.PairLauncher:
        """Return what measures pairs; nothing is made before it is used."""
        from nova_perf_tuning.cloud import heat_pair

        return heat_pair.HeatPairLauncher(guests, connect=self.connect)

    def place(self) -> str:
        """Return where stacks are made, see :mod:`nova_perf_tuning.cloud.place`."""
        from nova_perf_tuning.cloud import api, place

        return place.of(api.Api(self.connect))

    def connect(self) -> Any:
        """Return a new connection.

        :raises model.CloudError: neither clouds.yaml nor the environment says how.
        """
        if self._connect_by is not None:
            return self._connect_by()
        from keystoneauth1 import exceptions as keystone_errors
        from openstack.config import exceptions as config_errors

        from nova_perf_tuning.cloud import api, model

        # What it warns of before it raises is in the exception, too.
        logging.getLogger("keystoneauth.identity").setLevel(logging.ERROR)
        try:
            return api.connect(self._os_cloud)
        except (config_errors.OpenStackConfigException, keystone_errors.MissingRequiredOptions) as error:
            raise model.CloudError(
                f"no way to the cloud: {' '.join(str(error).split())[:300]}; see --os-cloud, clouds.yaml and OS_*"
            ) from None


def run(args: argparse.Namespace, program: str, cloud: HeatCloud | None = None, os_cloud: str = "") -> int:
    """Validate the hosts of a cloud and return the exit code.

    :param program: as the user calls it, for the hint how to go on.
    :param cloud: None: the one that the options name.
    :param os_cloud: as for :class:`nova_perf_tuning.cli.validate_hints.Hints`.
    :raises nova_perf_tuning.errors.PerfTuningError: a mistake, or the cloud or the database fails.
    """
    try:
        import openstack  # noqa: F401
        import tenacity  # noqa: F401
    except ImportError as error:
        raise errors.PerfTuningError(
            f"{error.name} is missing; install nova-perf-tuning[cloud,report] for clouds"
        ) from None
    cloud = cloud or HeatCloud(args.os_cloud)
    export_options.begin(args, made=validate.output_files(args.output))
    with contextlib.ExitStack() as opened:
        return _Run(args, validate_hints.Hints(args, program, os_cloud), cloud, _budgets(args), opened).run()


class _Run:
    """One call of the command, from the check of the cloud to the exit code.

    What is refused leaves nothing behind: database and folder are made when the checks are done.
    """

    _store: run_store.RunStore

    def __init__(
        self,
        args: argparse.Namespace,
        hints: validate_hints.Hints,
        cloud: HeatCloud,
        budgets: list[verdict.Budget],
        opened: contextlib.ExitStack,
    ) -> None:
        self._args = args
        self._hints = hints
        self._cloud = cloud
        self._budgets = budgets
        self._opened = opened
        self._results_file, self._report_file = validate.output_files(args.output)
        self._bare: list[baselines.BareHost] = []

    def run(self) -> int:
        from nova_perf_tuning.cloud import campaign

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
        with progress.showing(self._args.format == "json") as tell:
            one = campaign.Campaign(self._store, launcher, stored, plan.arms, plan.measure, plan.settings, tell)
            try:
                ended = one.run()
            except errors.PerfTuningError as error:
                broken = error
        if one.unclean:
            self._warn_of_leftovers(stored.run_id)
        if one.unheard is not None:
            self._warn(f"progress could not be shown: {' '.join(str(one.unheard).split())[:200]}")
        # One that came when all was measured has cut off nothing but the last removal of stacks.
        stopped_by = one.stopped_by if ended != "complete" else 0
        try:
            code = self._judged(stored.run_id, plan, ended)
        except (BrokenPipeError, SystemExit):  # rich ends the program where the reader has gone; files are written
            if broken is None and not stopped_by:
                raise
            code = int(errors.ExitCode.ERROR)
        finally:
            if ended != "complete":
                self._warn(f"not complete; go on with: {self._hints.resume(stored.run_id)}")
        if broken is not None:
            raise broken
        if stopped_by:
            self._warn(
                "interrupted; "
                + ("results so far are kept" if code is not None else "nothing was measured, no file is written")
            )
            return 128 + stopped_by
        if code is None:
            raise NoResultsError(_why_nothing(self._store, stored.run_id, ended))
        return code

    def _again(self, run: model.StoredRun) -> int:
        """Judge and write what a complete run gave; nothing is measured and no cloud is needed."""
        plan = validate_resume.plan(self._args, run)
        self._check_budgets(plan, run.environment)
        validate.output_folder(self._args.output)
        self._warn(f"run {run.run_id} is complete; its results are judged and written again")
        if run.leftovers:
            self._warn_of_leftovers(run.run_id)
        code = self._judged(run.run_id, plan, "complete")
        if code is None:
            raise NoResultsError(_why_nothing(self._store, run.run_id, "complete"))
        return code

    # -- before

    def _open(self, *, make: bool) -> None:
        from nova_perf_tuning.cloud import run_store

        self._store = run_store.RunStore(self._args.database, make=make)
        self._opened.callback(self._store.close)

    def _begun(self) -> tuple[model.StoredRun, fleet_plan.FleetPlan, Any]:
        from nova_perf_tuning.cloud import fleet_plan, pairing, run_store
        from nova_perf_tuning.database import engine

        engine.file_of(self._args.database)  # a wrong URL shows before the cloud is asked
        if not self._args.hosts or not _HOSTS(self._args.hosts):
            raise spec_options.OptionError(
                "--hosts: give compute hosts or aggregates by name (a,b,c), 'all', or 'any' for one pair anywhere"
            )
        plan = validate_plan.plan(self._args, run_store.new_id())
        environment = validate_plan.environment(self._cloud.name, plan)
        if self._args.host_group:
            environment["host_group"] = self._args.host_group
        self._check_budgets(plan, environment)
        launcher = self._cloud.launcher(plan.guests)
        chosen = self._cloud.choose(self._args.hosts.split(","))
        for host, why in chosen.left_out.items():
            self._warn(f"host {host} is left out: it is {why}")
        launcher.check(plan.arms, plan.measure)
        validate.output_folder(self._args.output)
        self._open(make=True)
        pairs = pairing.schedule(chosen.hosts, plan.settings.peers, plan.settings.seed)
        kept = {**fleet_plan.to_dict(plan), "cloud": self._cloud.place(), "hosts": self._args.hosts}
        kept["asked"] = validate_resume.asked(self._args)
        stored = self._store.create(
            plan.measure.run_id,
            chosen.hosts,
            pairs,
            kept,
            environment,
        )
        count = command.counted
        self._warn(f"run {stored.run_id}: {count(len(chosen.hosts), 'host')}, {count(len(pairs), 'pair')}")
        return stored, plan, launcher

    def _resumed(self, before: model.StoredRun) -> tuple[model.StoredRun, fleet_plan.FleetPlan, Any]:
        plan = validate_resume.plan(self._args, before)
        self._check_budgets(plan, before.environment)
        if doubt := validate_resume.check_cloud(before, self._cloud.place()):
            self._warn(doubt)
        validate.output_folder(self._args.output)
        launcher = self._cloud.launcher(plan.guests)
        stored = self._store.claim(before.run_id)
        leftovers = stored.leftovers
        try:
            if leftovers:
                # Before the check: what is left may be what fills the quota.
                self._warn("removing what the run left when it was cut off")
                launcher.cleanup(stored.run_id)
                leftovers = not stored.cloud
            launcher.check(plan.arms, plan.measure)
        except BaseException:
            self._store.end(stored.run_id, "interrupted", leftovers=leftovers)
            raise
        return dataclasses.replace(stored, leftovers=leftovers), plan, launcher

    def _check_budgets(self, plan: fleet_plan.FleetPlan, environment: Mapping[str, Any]) -> None:
        """Refuse budgets for what the run does not have; read what is known of the bare hosts."""
        from nova_perf_tuning.budget import budget_file
        from nova_perf_tuning.cloud import baselines, fleet

        kinds = {job.label: job.benchmark.kind for job in plan.measure.jobs}
        self._bare = baselines.load(self._args.bare_host, kinds)
        arms = [*([fleet.BARE] if self._bare else []), *(arm.name for arm in plan.arms)]
        self._budgets = budget_file.for_measured(self._budgets, kinds, arms, None)
        if self._args.budget:
            self._budgets = validate_checks.applicable(
                self._budgets, environment, self._args.budget, plan.measure.jobs
            )
        validate_checks.names(self._budgets, list(kinds), arms)

    # -- after

    def _judged(self, run_id: str, plan: fleet_plan.FleetPlan, ended: str) -> int | None:
        """Judge what the database has, write and print it; return the exit code, None where there is no trial.

        :raises nova_perf_tuning.errors.PerfTuningError: a file cannot be written; says how to do it again.
        """
        from nova_perf_tuning.cloud import fleet_results

        found = fleet_results.collect(
            self._store, run_id, plan.paired, self._budgets, plan.max_loss, ended, self._bare
        )
        try:
            return self._finish(found) if found.results.trials else None
        except BrokenPipeError:
            raise
        except (OSError, whole_file.OutputError) as error:
            how = "written by" if ended == "complete" else "written when the run has gone on, by"
            raise errors.PerfTuningError(
                f"{' '.join(str(error).split())}; what was measured is kept, and {how}: "
                f"{self._hints.resume(run_id)}"
            ) from error

    def _finish(self, found: fleet_results.FleetResults) -> int:
        """Write results and report, print the tables and return the exit code."""
        from nova_perf_tuning.budget import report, store, summary, trial_filter, verdict, wording
        from nova_perf_tuning.cli import figures
        from nova_perf_tuning.cloud import host_cpu

        store.save(found.results, self._results_file)
        summaries = summary.summarise(found.results, limits=trial_filter.limits(self._budgets))
        store.write_atomically(self._report_file, report.render(found.results, summaries, []))
        exported = export_options.write(self._args, found.results, [])
        if self._args.format == "json":
            command.print_json(report.as_json(found.results, summaries, []))
        else:
            print()
            figures.print_summary(summaries)
            print()
            command.say(wording.headline(summaries))
            for note in wording.headline_notes(found.results, summaries) + wording.cautions(summaries):
                command.say(f"note: {note}")
            for note in host_cpu.notes(found.results.environment):
                command.say(f"note: {note}")
            print()
            figures.print_hosts(found.judged.hosts, found.judged.whole)
            figures.print_fleet_diagnosis(found.results)
            figures.print_left_out(verdict.left_out(found.results, self._budgets))
            for path in exported:
                command.say(f"written: {path}")
            print()
            command.say(f"results: {self._results_file}")
            command.say(f"report: {self._report_file}")
        if not any(one.value is not None for one in found.results.trials):
            return int(errors.ExitCode.ERROR)
        if found.judged.whole is None:
            return int(errors.ExitCode.ERROR if self._args.budget else errors.ExitCode.PASS)
        return int(found.judged.whole.exit_code)

    def _warn_of_leftovers(self, run_id: str) -> None:
        self._warn(f"stacks of this run may be left; this removes them: {self._hints.cleanup(run_id)}")

    def _warn(self, text: str) -> None:
        with contextlib.suppress(OSError):  # who reads it may have gone, and stacks are still to be removed
            print(command.plain(f"{self._hints.program}: {text}"), file=sys.stderr)


def _why_nothing(store: run_store.RunStore, run_id: str, ended: str) -> str:
    for task in store.load(run_id).tasks:
        for fault in task.faults:
            return f"no pair gave a result; first error: {fault.error.kind.value}: {fault.error.reason}"
    return "no pair was measured" + ("; give more --time-limit" if ended == "time limit" else "")


def _budgets(args: argparse.Namespace) -> list[verdict.Budget]:
    from nova_perf_tuning.budget import verdict

    return verdict.load(args.budget) if args.budget else []
