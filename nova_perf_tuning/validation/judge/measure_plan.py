"""What a validation measures and by which budgets, from typed arguments: refused before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.specs import crosscheck, parsing, profiles, request
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.environment import Benchmark
from nova_perf_tuning.validation.judge import budget_file, noise
from nova_perf_tuning.validation.measure import host_environment, reasons


class PlanError(errors.PerfTuningError):
    """Budgets that cannot judge the run that was asked for."""


def tuned_request(
    specs: Mapping[str, str], profile_directory: str | None, vcpus: int | None
) -> tuple[request.Request, dict[str, str]]:
    """Return what the tuned guests ask for, and spec -> reason as the profile gives it.

    :param vcpus: of each guest: what does not fit them is refused, where a guest would silently get less.
    """
    known = profiles.load(profile_directory)
    tuned = parsing.parse(specs, {}, known)
    crosscheck.refuse(crosscheck.findings(tuned, specs, vcpus=vcpus))
    chosen = known[tuned.profile].specs if tuned.profile else {}
    return tuned, {key: entry.reason for key, entry in chosen.items() if key not in specs}


def budgets_for(
    budgets: Sequence[budget_file.Budget],
    path: str,
    places: Mapping[str, str],
    jobs: Sequence[plugins.Job],
    arms: Sequence[str],
) -> list[budget_file.Budget]:
    """Return the budgets of the file at ``path`` that a run is judged by.

    :param places: host group and flavor.
    :raises PlanError: none is left, or one is for a benchmark or arm that the run does not have.
    """
    kinds = {job.label: job.benchmark.kind for job in jobs}
    budgets = budget_file.for_measured(budgets, kinds, list(arms), None)
    chosen = budget_file.applicable(budgets, places, {job.label: job.benchmark.primary[0] for job in jobs})
    if not chosen:
        if not budgets:
            why = "all are optional, and this run lacks their benchmarks or arms; run one of these"
        else:
            named = ", ".join(f"{name} '{places.get(name, '')}'" for name in ("host_group", "flavor"))
            why = f"none is for {named}; give --host-group or --flavor"
        raise PlanError(f"--budget {path}: no budget applies: {why}, or another file")
    for budget in chosen:
        for what, name, known in (
            ("benchmark", budget.benchmark, list(kinds)),
            ("arm", budget.arm, arms),
            ("baseline", budget.baseline, arms),
        ):
            if name not in known:
                raise PlanError(f"--budget: {what} '{name[:80]}' is not in this run, which has {', '.join(known)}")
    return chosen


class TightBudgetError(reasons.ReasonError):
    """A budget is tighter than the noise of this host."""


def check_noise_floors(
    budgets: Sequence[budget_file.Budget], jobs: Sequence[plugins.Job], entries: Sequence[noise.Entry]
) -> None:
    """Refuse budgets tighter than the noise floors of this host.

    :param entries: of the floor file.
    :raises TightBudgetError: a budget is tighter than that.
    """
    by_label = {job.label: job for job in jobs}
    environment = host_environment.read()
    environment.benchmarks = {job.label: Benchmark(job.benchmark.kind, parameters=job.parameters) for job in jobs}
    known = noise.holding(environment, entries)
    for budget in budgets:
        metric = budget.metric or by_label[budget.benchmark].benchmark.primary[0]
        if fault := noise.refusal(known, budget.benchmark, metric, budget.max_loss):
            raise TightBudgetError(
                reasons.reason(reasons.ReasonCode.BUDGET, benchmark=budget.benchmark, figure="loss", why=(fault,))
            )
