"""What ``validate`` measures, on this host and on a cloud, and what is found out before anything is measured."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning import atomic_write
from nova_perf_tuning.cli import command, option_types, spec_options
from nova_perf_tuning.cli import validate_options as options
from nova_perf_tuning.specs import crosscheck, parsing, profiles, request
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import ablation, budget_file, noise
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import host_environment, model, session
from nova_perf_tuning.validation.report import text


def local(args: argparse.Namespace, vcpus: int | None) -> session.Plan:
    """Return the plan for this host.

    :param vcpus: of each guest, None where there are none.
    """
    judged = bool(args.budget)
    # Both arms of these are the same: A/A runs, whose interval shows the noise.
    untuned = "--noise-floor" if args.noise_floor else "--launcher host" if args.launcher == "host" else ""
    if untuned and (args.profile or args.spec):
        raise option_types.OptionError(f"{untuned} tunes nothing; leave out --profile and --spec")
    tuned, reasons = (request.Request(), {}) if untuned else tuned_request(args, vcpus)
    wanted = jobs(args)
    second = model.AA_ARMS[1] if args.noise_floor else "tuned"
    left_out = ablation.arms(tuned) if args.ablation else {}
    if args.ablation and len(left_out) < 2:
        raise option_types.OptionError("--ablation needs a profile or at least two --spec, and no --noise-floor")
    values = ablation.knobs(tuned)
    facts = {arm.name: {"spec": spec, "value": values[spec]} for spec, arm in left_out.items()}
    _check_programs(wanted)
    return session.Plan(
        arms=(launch.Arm("untuned", request.Request()), launch.Arm(second, tuned), *left_out.values()),
        jobs=wanted,
        boots=args.boots or (options.BOOTS_JUDGED if judged else options.BOOTS),
        blocks=args.blocks or (options.BLOCKS_JUDGED if judged else options.BLOCKS),
        seed=seed(args),
        time_limit_s=args.time_limit or (options.TIME_LIMIT_JUDGED_S if judged else options.TIME_LIMIT_S),
        reasons={second: reasons},
        about={**_told_of_host(args), **({"ablation": facts} if facts else {})},
    )


def jobs(args: argparse.Namespace) -> tuple[plugins.Job, ...]:
    """Return the benchmarks to run."""
    return tuple(plugins.jobs(args.benchmark or list(options.DEFAULT_BENCHMARKS), args.seconds or options.SECONDS))


def seed(args: argparse.Namespace) -> int:
    """Return the seed that was given, else a new one."""
    return secrets.randbelow(options.LAST_SEED + 1) if args.seed is None else int(args.seed)


def tuned_request(args: argparse.Namespace, vcpus: int | None) -> tuple[request.Request, dict[str, str]]:
    """Return what the tuned guests ask for, and spec -> reason as the profile gives it.

    :param vcpus: of each guest: what does not fit them is refused, where a guest would silently get less.
    """
    specs = spec_options.flavor(args, options.DEFAULT_PROFILE)
    known = profiles.load(args.profile_dir)
    wanted = parsing.parse(specs, {}, known)
    crosscheck.check(wanted, specs, vcpus=vcpus)
    chosen = known[wanted.profile].specs if wanted.profile else {}
    return wanted, {key: entry.reason for key, entry in chosen.items() if key not in specs}


def _check_programs(jobs: Sequence[plugins.Job]) -> None:
    """Say which benchmarks this host cannot run; the others go on, and in guests they all do.

    :raises plugins.MissingProgramError: it can run none of them.
    """
    faults = []
    for job in jobs:
        try:
            plugins.check_installed(job.benchmark, job.parameters)
        except plugins.MissingProgramError as fault:
            faults.append(fault)
    if len(faults) == len(jobs):
        raise faults[0]
    for missing in faults:
        command.warn("nova-perf validate", str(missing))


def _told_of_host(args: argparse.Namespace) -> dict[str, str]:
    """Return the host group and flavor that budgets are chosen by."""
    if args.flavor and args.launcher == "host":
        raise option_types.OptionError("--flavor: launcher 'host' has no guests of a flavor; leave it out")
    told = {"host_group": args.host_group, "flavor": args.flavor}
    return {name: word for name, word in told.items() if word}


# -- budgets and files


def budgets_for(
    budgets: list[budget_file.Budget],
    path: str,
    about: Mapping[str, object],
    jobs: Sequence[plugins.Job],
    arms: Sequence[str],
) -> list[budget_file.Budget]:
    """Return the budgets of the file at ``path`` that a run is judged by.

    :param about: host group and flavor.
    :raises option_types.OptionError: none is left, or one is for a benchmark or arm that the run does not have.
    """
    kinds = {job.label: job.benchmark.kind for job in jobs}
    budgets = budget_file.for_measured(budgets, kinds, list(arms), None)
    found = budget_file.applicable(budgets, about, {job.label: job.benchmark.primary[0] for job in jobs})
    if not found:
        if not budgets:
            why = "all are optional, and this run lacks their benchmarks or arms; run one of these"
        else:
            named = ", ".join(f"{name} '{about.get(name, '')}'" for name in ("host_group", "flavor"))
            why = f"none is for {named}; give --host-group or --flavor"
        raise option_types.OptionError(f"--budget {path}: no budget applies: {why}, or another file")
    for one in found:
        for what, name, known in (
            ("benchmark", one.benchmark, list(kinds)),
            ("arm", one.arm, arms),
            ("baseline", one.baseline, arms),
        ):
            if name not in known:
                raise option_types.OptionError(
                    f"--budget: {what} '{name[:80]}' is not in this run, which has {', '.join(known)}"
                )
    return found


def check_noise_floors(
    budgets: Sequence[budget_file.Budget],
    jobs: Sequence[plugins.Job],
    entries: Sequence[Mapping[str, Any]],
    named: str,
) -> None:
    """Refuse budgets tighter than the noise of this host, as far as it is known before anything is measured.

    :param entries: of the floor file.
    :param named: its path if the user gave it, who is told if it has nothing for this run; else empty.
    :raises option_types.OptionError: with the floor.
    """
    by_label = {job.label: job for job in jobs}
    told = {job.label: {"kind": job.benchmark.kind, "parameters": dict(job.parameters)} for job in jobs}
    known = noise.holding({**host_environment.read(), "benchmarks": told}, entries)
    if named and not known:
        why = "it has no noise floor for this host and these benchmarks, and changes nothing"
        command.warn("nova-perf validate", f"--noise-file {named}: {why}")
    for one in budgets:
        if one.max_loss is None:
            continue
        metric = one.metric or by_label[one.benchmark].benchmark.primary[0]
        if fault := noise.refusal(known, one.benchmark, metric, one.max_loss):
            raise option_types.OptionError(f"--budget: {one.benchmark}: {text.of(fault)}")


def output_files(folder: str) -> tuple[str, str]:
    """Return the files that a validation writes: results and report."""
    return os.path.join(folder, "results.json"), os.path.join(folder, "report.html")


def make_output_folder(path: str) -> None:
    """Make the output folder and see now, not after ten minutes, that files can be made in it.

    :raises option_types.OptionError: it cannot be made or written.
    :raises atomic_write.OutputError: something else than a file has a name that is needed.
    """
    probe = os.path.join(path, f".nova-perf-{os.getpid()}")
    try:
        os.makedirs(path, exist_ok=True)
        with open(probe, "x", encoding="ascii"):
            os.unlink(probe)
    except OSError as error:
        raise option_types.OptionError(f"--output {path}: {error.strerror}") from None
    for file in output_files(path):
        atomic_write.check(file)
