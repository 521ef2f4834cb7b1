# SPDX-License-Identifier: Apache-2.0
"""A run over the hosts of a cloud, step by step: checked, begun or taken up again, measured.

What is refused leaves nothing behind: :func:`prepare` asks the cloud and makes nothing. A caller
makes its own files between that and :func:`create`, and judges by :func:`.fleet_results.collect`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.printing import counted
from nova_perf_tuning.validation.fleet import fleet_results, fleet_run
from nova_perf_tuning.validation.heat import heat_pair
from nova_perf_tuning.validation.judge import budget_file, verdict
from nova_perf_tuning.validation.measure import fleet_model, results_file, session
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Ended, Environment
from nova_perf_tuning.validation.store import run_store


class TooManyTrialsError(errors.PerfTuningError):
    """A run would have more trials than results can hold."""


@dataclasses.dataclass(frozen=True, slots=True)
class Criteria:
    """What a run is judged by.

    :ivar budgets: those that apply to it; none where no budget was given.
    :ivar bare: what hosts do without guests, see :func:`.fleet_results.load_bare`.
    """

    budgets: Sequence[verdict.Budget]
    bare: Mapping[str, model.Results]


@dataclasses.dataclass(frozen=True, slots=True)
class NewRun:
    """A run that the cloud can measure; nothing of it has been made."""

    plan: fleet_model.FleetPlan
    environment: Environment
    hosts: Sequence[str]
    pairs: Sequence[fleet_model.HostPair]
    launcher: heat_pair.HeatPairLauncher


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """A run that this process has.

    :ivar launcher: None: the run is complete, and needs no cloud.
    """

    run: fleet_model.StoredRun
    launcher: heat_pair.HeatPairLauncher | None


@dataclasses.dataclass(frozen=True, slots=True)
class FleetMeasurement:
    """How measuring a run ended.

    :ivar has_leftovers: stacks of the run may be left.
    :ivar stopped_by: the number of the signal that stopped it, 0 if none did.
    :ivar error: why it could not go on; what was measured before is in the database.
    """

    ended: Ended
    has_leftovers: bool
    stopped_by: int = 0
    error: errors.PerfTuningError | None = None


def criteria(
    plan: fleet_model.MeasurePlan,
    environment: Environment,
    budget: str | None,
    bare_files: Sequence[str],
) -> Criteria:
    """Read the budgets and what is known of bare hosts.

    :param budget: a budget file; None: no budgets.
    :raises PerfTuningError: a file cannot be used, or has a budget for what the run does not have.
    """
    labels = [job.label for job in plan.jobs]
    bare = fleet_results.load_bare(bare_files, labels)
    arms = [arm.name for arm in plan.arms]
    if bare:
        arms.insert(0, model.HOST)
    budgets: list[verdict.Budget] = []
    if budget:
        loaded = budget_file.load(budget)
        budgets = budget_file.for_run(loaded, budget, environment.places, plan.jobs, arms)
    return Criteria(budgets, bare)


def prepare(
    plan: fleet_model.FleetPlan,
    environment: Environment,
    cloud: heat_pair.HeatCloud,
    names: Sequence[str],
    warn: Callable[[str], None],
) -> NewRun:
    """Choose the hosts, pair them, and check that the cloud can measure the pairs.

    :param names: hosts and aggregates, or ``all``, or ``any``.
    :param warn: called with a line for each host that is left out.
    :raises errors.CloudError: no such host, or the cloud lacks something.
    :raises TooManyTrialsError: results could not hold what the run would measure.
    """
    launcher = cloud.launcher(plan.guests)
    hosts, unusable = cloud.choose(names)
    for host, why in unusable.items():
        warn(f"host {host} is left out: it is {why}")
    pairs = fleet_model.schedule(hosts, plan.settings.peers, plan.settings.seed)
    trials = len(pairs) * _trials_of_a_pair(plan.measure)
    if trials > results_file.MAX_TRIALS:
        raise TooManyTrialsError(
            f"{counted(len(pairs), 'pair')} have {trials} trials, results hold"
            f" {results_file.MAX_TRIALS}; give fewer --blocks, --peers or --hosts"
        )
    launcher.check(plan.measure)
    return NewRun(plan, environment, hosts, pairs, launcher)


def _trials_of_a_pair(plan: fleet_model.MeasurePlan) -> int:
    runs = 0
    for job in plan.jobs:
        runs += 1
        if not job.benchmark.paired:  # it runs on both hosts of a pair
            runs += 1
    return plan.trials * len(plan.arms) * runs


def create(store: run_store.RunStore, new: NewRun, cloud: heat_pair.HeatCloud) -> Started:
    """Record a new run, which this process has from now on."""
    plan = dataclasses.replace(new.plan, cloud=cloud.identity())
    run = store.create(plan, new.hosts, new.pairs, new.environment)
    return Started(run, new.launcher)


def check_cloud(run: fleet_model.StoredRun, cloud: heat_pair.HeatCloud) -> None:
    """Refuse to take up a run on another cloud; a complete one needs none.

    :raises RunError: the run was begun elsewhere.
    """
    if run.state == "complete":
        return
    here = cloud.identity()
    if run.plan.cloud != here:
        raise run_store.RunError(
            f"run {run.run_id} was begun on another cloud or project: {run.plan.cloud}; this is {here}"
        )


def take_up(
    store: run_store.RunStore,
    before: fleet_model.StoredRun,
    cloud: heat_pair.HeatCloud,
    warn: Callable[[str], None],
) -> Started:
    """Make a run this process's own, and remove what was left of it when it was cut off.

    :param before: the run as it is stored, with the plan by which it goes on.
    :raises RunError: another process has it.
    :raises errors.CloudError: the cloud lacks something; the run is given back.
    """
    if before.state == "complete":
        return Started(before, None)
    launcher = cloud.launcher(before.plan.guests)
    claimed = store.claim(before.run_id)
    run = dataclasses.replace(claimed, plan=before.plan)
    launcher.own(store.lease(run.run_id))
    try:
        if run.leftovers:
            # Before the check: what is left may be what fills the quota.
            warn("removing what the run left when it was cut off")
            launcher.cleanup(run.run_id)
            run.leftovers = False
        launcher.check(run.plan.measure)
    except BaseException:
        store.end(run.run_id, "interrupted", leftovers=run.leftovers)
        raise
    return Started(run, launcher)


def measure(
    store: run_store.RunStore,
    started: Started,
    progress: Callable[[session.Progress], None],
) -> FleetMeasurement:
    """Measure what is left of a run; an error is returned, since what was measured counts.

    :raises run_store.TakenOverError: another process has the run; results, files and stacks are
        for that one.
    """
    if started.launcher is None:
        return FleetMeasurement(Ended.COMPLETE, started.run.leftovers)
    going = fleet_run.FleetRun(store, started.launcher, started.run, progress)
    ended = Ended.ERROR
    stopped_for: errors.PerfTuningError | None = None
    try:
        ended = going.run()
    except run_store.TakenOverError:
        raise
    except errors.PerfTuningError as error:
        stopped_for = error
    return FleetMeasurement(ended, going.unclean, going.stopped_by, stopped_for)


def why_no_result(run: fleet_model.StoredRun, ended: Ended) -> errors.PerfTuningError:
    """Return the error of a run in which no pair gave a figure."""
    faults = [fault for task in run.tasks for fault in task.faults]
    if faults:
        return errors.PerfTuningError(f"no pair gave a result; first error: {faults[0]}")
    if ended is Ended.TIME_LIMIT:
        return errors.PerfTuningError("no pair was measured; give more --time-limit")
    return errors.PerfTuningError("no pair was measured")
