"""What ``nova-perf validate`` finds out before it measures, where it would else be lost after hours."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nova_perf_tuning.cli import command, spec_options

if TYPE_CHECKING:
    from nova_perf_tuning.bench import plugins
    from nova_perf_tuning.budget import budget_file, session


def programs(jobs: Sequence[plugins.Job]) -> None:
    """Say which benchmarks this host cannot run; the others go on, and in guests they all do.

    :raises plugins.MissingProgramError: it can run none of them.
    """
    from nova_perf_tuning.bench import plugins

    without = [job for job in jobs if plugins.missing(job.benchmark, job.parameters)]
    if len(without) == len(jobs):
        plugins.check_installed(without[0].benchmark, without[0].parameters)
    for job in without:
        absent = plugins.missing(job.benchmark, job.parameters)[0]
        how = plugins.how_to_get(job.benchmark, job.parameters)
        print(f"nova-perf validate: {job.label}: {absent} is not on this host; {how}", file=sys.stderr)


def applicable(
    budgets: list[budget_file.Budget], about: Mapping[str, object], path: str, jobs: Sequence[plugins.Job]
) -> list[budget_file.Budget]:
    """Return the budgets for the host group and flavor of a run.

    :param budgets: without the optional ones that it has no benchmark or arm for; :param path: their file.
    :raises spec_options.OptionError: none is left, so that the run could not be judged.
    """
    from nova_perf_tuning.budget import budget_file

    found = budget_file.applicable(budgets, about, {job.label: job.benchmark.primary[0] for job in jobs})
    if found:
        return found
    if not budgets:
        why = "all are optional, and this run lacks their benchmarks or arms; run one of these"
    else:
        named = ", ".join(f"{name} '{about.get(name, '')}'" for name in ("host_group", "flavor"))
        why = f"none is for {named}; give --host-group or --flavor"
    raise spec_options.OptionError(f"--budget {path}: no budget applies: {why}, or another file")


def database(url: str | None) -> None:
    """See now, not after the run, that the database of runs can be opened.

    :raises nova_perf_tuning.errors.PerfTuningError: it cannot.
    """
    from nova_perf_tuning.budget import history

    history.History(url).close()


def names(budgets: list[budget_file.Budget], labels: list[str], arms: list[str]) -> None:
    """Refuse budgets for a benchmark or arm that a run does not have.

    :raises spec_options.OptionError: naming it and what there is.
    """
    for one in budgets:
        for what, name, known in (
            ("benchmark", one.benchmark, labels),
            ("arm", one.arm, arms),
            ("baseline", one.baseline, arms),
        ):
            if name not in known:
                raise spec_options.OptionError(
                    f"--budget: {what} '{name[:80]}' is not in this run, which has {', '.join(known)}"
                )


def told_of_host(args: argparse.Namespace) -> dict[str, str]:
    """Return the host group and flavor that budgets are chosen by.

    :raises spec_options.OptionError: a flavor where there are no guests, or more than one.
    """
    if args.flavor and args.launcher == "host":
        raise spec_options.OptionError("--flavor: launcher 'host' has no guests of a flavor; leave it out")
    if len(args.flavor) > 1:
        raise spec_options.OptionError(
            "--flavor: on this host one run is judged for one flavor; give it once (several: --launcher heat)"
        )
    told = {"host_group": args.host_group, "flavor": "".join(args.flavor)}
    return {name: text for name, text in told.items() if text}


def noise_floors(
    budgets: list[budget_file.Budget], plan: session.Plan, entries: Sequence[Mapping[str, Any]], named: str
) -> None:
    """Refuse budgets tighter than the noise of this host, as far as it is known before anything is measured.

    :param entries: of the floor file.
    :param named: its path if the user gave it, who is told if it has nothing for this run; else empty.
    :raises spec_options.OptionError: with the floor.
    """
    from nova_perf_tuning.budget import host_environment, noise, text

    jobs = {job.label: job for job in plan.jobs}
    told = {label: {"kind": job.benchmark.kind, "parameters": dict(job.parameters)} for label, job in jobs.items()}
    known = noise.before_run(entries, host_environment.read(), told)
    if named and not known:
        why = "it has no noise floor for this host and these benchmarks, and changes nothing"
        why = f"--noise-file {named}: {why}"
        print(command.plain(f"nova-perf validate: {why}"), file=sys.stderr)
    for one in budgets:
        if one.max_loss is None:
            continue
        metric = one.metric or jobs[one.benchmark].benchmark.primary[0]
        if fault := noise.refusal(known, one.benchmark, metric, one.max_loss):
            raise spec_options.OptionError(f"--budget: {one.benchmark}: {text.of(fault)}")
