"""``nova-perf apply``."""

from __future__ import annotations

import argparse
import sys

from nova_perf_tuning import errors, interrupt
from nova_perf_tuning.cli import command, plan_options, state
from nova_perf_tuning.cli import plan as plan_module
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import registry
from nova_perf_tuning.host.transaction import apply as apply_module


class Apply(command.PerfCommand):
    """Bring the plan into force, so that it can be undone.

    Reads the host, computes the plan (or takes one from a file) and writes what does not hold yet. Every
    original is on disk before the first write; 'nova-perf restore' puts it back, also after a crash. A second
    apply writes nothing. A setting that the kernel refuses does not stop the others. Exit code 0 all is as
    planned, 1 some settings are not, 3 error (nothing is changed then, unless the message says that settings
    were written and only the output failed); 129, 130 or 143 ended by SIGHUP, Ctrl-C or SIGTERM, after undoing
    what it had written (unless, again, the message says that only the output is missing).
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        plan_options.add_plan_options(parser)
        state.add_state_options(parser, sysroot=False)
        parser.add_argument("--dry-run", action="store_true", help="print the exact writes and change nothing")
        parser.add_argument(
            "--from",
            dest="plan_file",
            metavar="PLAN.json",
            help="apply this plan (from 'nova-perf plan -f json') instead of computing one; - is stdin",
        )

    def run_command(self, args: argparse.Namespace) -> int:
        if not args.dry_run:
            privileged.require(args.sysroot)
        settings, warnings = _plan(args)
        kinds = registry.Kinds(args.sysroot)
        if args.dry_run:
            lines, rest = apply_module.preview(settings, kinds)
            return _show_preview(args, lines, rest, warnings)
        outcomes: list[apply_module.Outcome] | None = None
        try:
            with interrupt.Guard():  # also while telling, which waits for whoever reads it
                with state.open_journal(args, writer=True) as journal:
                    outcomes = apply_module.apply(settings, kinds, journal, apply_module.boot_id(args.sysroot))
                return _tell(args, outcomes, warnings, journal.path)
        except interrupt.Interrupted as error:
            fate = "what it had written is undone" if outcomes is None else _done(args)
            print(f"nova-perf apply: {error}; {fate}", file=sys.stderr)
            return error.exit_code


def _tell(args: argparse.Namespace, outcomes: list[apply_module.Outcome], warnings: list[str], path: str) -> int:
    try:
        code = _show(args, outcomes, warnings, path)
        sys.stdout.flush()
    except OSError:
        print(f"nova-perf apply: {_done(args)}", file=sys.stderr)
        raise
    return code


def _plan(args: argparse.Namespace) -> tuple[list[setting_module.Setting], list[str]]:
    if args.plan_file:
        from nova_perf_tuning.host.transaction import planfile

        return planfile.load(args.plan_file), []
    _facts, plan = plan_module.plan_from(args)
    return plan.settings, plan.warnings


def _show_preview(
    args: argparse.Namespace, lines: list[str], rest: list[apply_module.Outcome], warnings: list[str]
) -> int:
    counts = {"to write": len(lines)} if lines else {}
    counts |= state.count(one.result for one in rest)
    if args.format == "json":
        others = [_as_json(one) for one in rest]
        command.print_json({"writes": lines, "settings": others, "counts": counts, "warnings": warnings})
    else:
        for line in lines:
            print(line)
        _print_faults(rest, warnings, prefix="# ")
        print(f"# {state.summary(counts, 'setting')}; nothing was changed")
    return _exit_code(rest)


def _done(args: argparse.Namespace) -> str:
    # Said where the exit code alone would be read as: nothing is changed.
    return f"the settings were written, the output was not; undo them with: {state.restore_command(args)}"


def _show(args: argparse.Namespace, outcomes: list[apply_module.Outcome], warnings: list[str], path: str) -> int:
    counts = state.count(one.result for one in outcomes)
    if args.format == "json":
        rows = [_as_json(one) for one in outcomes]
        command.print_json({"settings": rows, "counts": counts, "warnings": warnings, "journal": path})
    else:
        _print_faults(outcomes, warnings)
        print(state.summary(counts, "setting"))
        if apply_module.Result.PENDING.value in counts:
            print("pending: accepted by the kernel; these interrupts move when they fire next")
        print(f"journal: {path}; undo it with: {state.restore_command(args)}")
    return _exit_code(outcomes)


def _print_faults(outcomes: list[apply_module.Outcome], warnings: list[str], prefix: str = "") -> None:
    plain = (apply_module.Result.UNCHANGED, apply_module.Result.WRITTEN, apply_module.Result.PENDING)
    rows = [
        (
            prefix + one.result.value,
            one.failure.value if one.failure else "",
            one.setting.kind,
            one.setting.target,
            one.setting.value,
            one.detail,
        )
        for one in outcomes
        if one.result not in plain
    ]
    state.print_table((f"{prefix}result", "class", "kind", "target", "value", "detail"), rows)
    for warning in warnings:
        print(f"{prefix}warning: {warning}")


def _exit_code(outcomes: list[apply_module.Outcome]) -> int:
    faults = any(one.result in apply_module.FAULTS for one in outcomes)
    return int(errors.ExitCode.FAIL if faults else errors.ExitCode.PASS)


def _as_json(one: apply_module.Outcome) -> dict[str, object]:
    setting = one.setting
    return {
        "kind": setting.kind,
        "target": setting.target,
        "value": setting.value,
        "previous": one.previous,
        "result": one.result.value,
        "class": one.failure.value if one.failure else None,
        "detail": one.detail,
        "reason": setting.reason,
        "rule": setting.rule,
    }
