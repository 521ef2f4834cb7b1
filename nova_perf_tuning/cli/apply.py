# SPDX-License-Identifier: Apache-2.0
"""``nova-perf apply``."""

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.audit import persist, runner
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.model import host_model, messages, notes
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.transaction import apply, planfile, refusals, verify
from nova_perf_tuning.host.transaction.journal import Journal, is_agents, running_agent
from nova_perf_tuning.rules import Report

#: Results that the table passes over.
_PLAIN: Final = ("unchanged", "written", "pending")


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be applied.

    :ivar facts: of the host for which it was planned; None where nothing is planned again: the
        plan is a file's, or files bring back all that was proposed.
    """

    facts: host_model.HostFacts | None
    settings: list[host_model.Setting]
    warnings: list[Note]


class Apply(command.PerfCommand):
    """Apply the plan to this host; everything can be undone.

    It reads the host, computes the plan and writes every setting that differs from it. With
    --from it reads the plan from a file; with --rule or --all-safe it applies proposals of the
    audit instead. All originals are saved to disk before the first write. 'nova-perf restore' puts
    them back, even after a crash. A second apply writes nothing. If the kernel refuses a setting,
    the others are still written. If a CPU has no free interrupt vector, apply plans again with
    another CPU. Settings that a running nova-perf-agent manages are refused ("owned").

    Exit code: 0 all settings are as planned; 1 some are not; 3 error. After an error nothing has
    changed, unless the message says that settings were written. After Ctrl-C (130), SIGTERM or
    SIGHUP, 'nova-perf restore' puts back what apply had written.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        host_options.add_plan(parser)
        journal_options.add_state_dir(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="print the exact writes and change nothing"
        )
        parser.add_argument(
            "--from",
            dest="plan_file",
            metavar="PLAN.json",
            help="apply this plan (from 'nova-perf plan -f json') instead of computing one; - is stdin",
        )
        options.add_repeated(
            parser,
            "--rule",
            "ID",
            "apply the proposals of this rule of 'nova-perf audit' instead of the plan",
        )
        parser.add_argument(
            "--all-safe",
            action="store_true",
            help="apply all safe proposals: those that take effect at once, are undone by one "
            "write, interrupt no traffic and move no guest",
        )
        parser.add_argument(
            "--persist",
            action="store_true",
            help="also write files that set the same values at each boot (in sysctl.d, tmpfiles.d "
            "and udev/rules.d); requires --rule or --all-safe",
        )
        host_options.add_path(parser)

    def take_action(self, args: argparse.Namespace) -> int:
        if not args.dry_run:
            privileged.require(args.sysroot)
        memory = refusals.RefusalMemory(args.sysroot)
        wanted = _wanted(args, memory)
        if args.dry_run:
            kinds = registry.kinds(args.sysroot)
            settings, owned = _beside_agent(
                wanted.settings, kinds, journal_options.directory(args)
            )
            lines, rest = apply.preview(settings, kinds)
            return _show(args, [*owned, *rest], wanted.warnings, writes=lines)
        undo = journal_options.command_line(args)
        try:
            with journal_options.open_journal(args, writer=True) as journal:
                done, warnings = _write(args, wanted, memory, journal)
        except KeyboardInterrupt:
            command.warn("nova-perf apply", f"interrupted; undo what it has written with: {undo}")
            return 130
        try:
            code = _show(args, done, warnings, path=journal.path)
            sys.stdout.flush()
        except Exception:  # whose exit code alone would be read as: nothing is changed
            command.warn(
                "nova-perf apply",
                f"settings were written, the output was not; undo them with: {undo}",
            )
            raise
        return code


def _beside_agent(
    settings: list[host_model.Setting], kinds: Mapping[str, base.SettingKind], state_dir: str
) -> tuple[list[host_model.Setting], list[apply.Outcome]]:
    """Return what may be applied while an agent runs, if one does, and what became of the rest."""
    agent = running_agent(state_dir)
    if agent is None:
        return settings, []
    places, free = [], []
    for setting in settings:
        if is_agents(setting):
            places.append(setting)
        else:
            free.append(setting)
    outcomes = []
    for setting, observation in zip(places, verify.verify(places, kinds), strict=True):
        result, detail = apply.Result.UNCHANGED, ""
        if observation.state not in (base.State.HOLDS, base.State.PENDING):
            result = apply.Result.OWNED
            detail = (
                f"nova-perf-agent (process {agent}) places these and would undo it: stop it first"
            )
        outcomes.append(apply.Outcome(setting, result, setting.current, None, detail))
    return free, outcomes


def _write(
    args: argparse.Namespace,
    wanted: _Wanted,
    memory: refusals.RefusalMemory,
    journal: Journal,
) -> tuple[list[apply.Outcome], list[Note]]:
    """Bring what is wanted into force, and return what became of it, with warnings.

    What the kernel refuses to do with interrupts is a fact for the next plan, and that is written
    then.
    """
    boot = apply.boot_id(args.sysroot)
    last, owned = _write_once(args, wanted, journal, boot)
    done = last
    for _round in range(1, refusals.ROUNDS):
        try:
            if wanted.facts is None or not memory.learn(last, wanted.facts, boot):
                break
            wanted = _wanted(args, memory)
            last, owned = _write_once(args, wanted, journal, boot)
        except Exception:  # whose exit code alone would be read as: nothing is changed
            undo = journal_options.command_line(args)
            command.warn(
                "nova-perf apply",
                f"settings were written before this error; undo them with: {undo}",
            )
            raise
        done = refusals.together(done, last)
    return [*owned, *done], wanted.warnings


def _write_once(
    args: argparse.Namespace, wanted: _Wanted, journal: Journal, boot: str
) -> tuple[list[apply.Outcome], list[apply.Outcome]]:
    """Return what became of the settings that were written, and of those that an agent keeps."""
    kinds = registry.kinds(args.sysroot)
    settings, owned = _beside_agent(wanted.settings, kinds, journal.state_dir)
    return apply.apply(settings, kinds, journal, boot), owned


def _wanted(args: argparse.Namespace, memory: refusals.RefusalMemory) -> _Wanted:
    """Return what the options ask for; ``memory``: what the kernel refused, which a plan does not ask for."""
    if args.rule or args.all_safe:
        if args.plan_file or args.rps or args.housekeeping:
            raise options.OptionError(
                "--rule and --all-safe cannot be combined with --from, --rps or --housekeeping"
            )
        return _proposed(args)
    if args.persist:
        why = "numbers of interrupts change with each boot"
        raise options.OptionError(f"--persist goes with --rule or --all-safe: {why}")
    if args.plan_file:
        return _Wanted(None, planfile.load(args.plan_file), [])
    facts, plan = host_options.facts_and_plan(args, memory)
    return _Wanted(facts, plan.settings, plan.warnings)


def _proposed(args: argparse.Namespace) -> _Wanted:
    """Return what the rules propose, with the files that make it last where that is asked for."""
    rules = runner.chosen(args.rule)
    for rule in rules:
        if not rule.appliable:
            raise options.OptionError(
                f"--rule {rule.id} cannot be applied, only followed: {rule.remedy}"
            )
    if args.all_safe:
        rules += [rule for rule in runner.load() if rule.safe and rule not in rules]
    novaconf.read(args.nova_config)  # which refuses what is wrong
    host = host_options.view_to_act(args)
    report = runner.run(host, rules)
    warnings = _unjudged(args, report)
    if host.options.refused and host.plan is not None:
        warnings += [note for note in host.plan.warnings if note.code in notes.REFUSALS]
    proposed: dict[tuple[str, str], host_model.Setting] = {}
    for finding in report.findings:
        if finding.pending:
            continue
        # A rule that is safe may find a host where its own remedy is not.
        if not finding.settings:
            about = f"{finding.rule} ({finding.subject})" if finding.subject else finding.rule
            remedy = " ".join(finding.remedy.split())
            warnings.append(Note.of(NoteCode.RULE_MANUAL, rule=about, remedy=remedy))
        elif finding.safe or finding.rule in args.rule:
            for setting in finding.settings:
                proposed[setting.kind, setting.target] = setting
        else:
            warnings.append(Note.of(NoteCode.RULE_UNSAFE, rule=finding.rule, why=finding.why))
    settings = list(proposed.values())
    if not args.persist:
        return _Wanted(host.facts, settings, warnings)
    settings, lost = persist.plan(host, settings)
    return _Wanted(None, settings, [*warnings, *lost])


def _unjudged(args: argparse.Namespace, report: Report) -> list[Note]:
    """Return warnings about rules that are named and could not judge the host, and about broken ones."""
    warnings = []
    for name, reason, code in report.unknown:
        if name in args.rule:
            warnings.append(Note.of(NoteCode.RULE_UNKNOWN, rule=name, reason=reason, error=code))
    for name, error, _code in report.failed:
        warnings.append(Note.of(NoteCode.RULE_BROKEN, rule=name, error=error))
    return warnings


def _show(
    args: argparse.Namespace,
    outcomes: list[apply.Outcome],
    warnings: list[Note],
    *,
    path: str = "",
    writes: list[str] | None = None,
) -> int:
    """Show what became of settings and return the exit code.

    :param path: the journal's; :param writes: what a dry run would write, None: it was none.
    """
    counts = command.count(outcome.result for outcome in outcomes)
    if writes:
        counts = {"to write": len(writes), **counts}
    rows = [_as_json(outcome) for outcome in outcomes]
    document = {"settings": rows, "counts": counts, **messages.as_json(warnings)}
    if args.format == "json" and writes is None:
        command.print_json({**document, "journal": path})
    elif args.format == "json":
        command.print_json({"writes": writes, **document})
    elif writes is None:
        _print_table(rows, warnings, prefix="")
        command.say(command.summary(counts, "setting", apply.FAULTS))
        if apply.Result.PENDING.value in counts:
            print("pending: accepted by the kernel; these interrupts move the next time they fire")
        command.say(f"journal: {path}; undo it with: {journal_options.command_line(args)}")
    else:
        _print_table(rows, warnings, prefix="# ")
        command.say(*writes)
        whole = command.summary(counts, "setting", apply.FAULTS)
        command.say(f"# {whole}; nothing was changed")
    if any(outcome.result in apply.FAULTS for outcome in outcomes):
        return int(errors.ExitCode.FAIL)
    return int(errors.ExitCode.PASS)


def _print_table(rows: list[dict[str, object]], warnings: list[Note], *, prefix: str) -> None:
    """Print the settings that are not simply written or held, and the warnings."""
    shown = [row for row in rows if row["result"] not in _PLAIN]
    head = ("result", "class", "kind", "target", "value", "detail")
    command.print_rows(head, shown, prefix)
    for note in warnings:
        command.say(f"{prefix}warning: {messages.of(note)}")


def _as_json(outcome: apply.Outcome) -> dict[str, object]:
    failure = None
    if outcome.failure:
        failure = outcome.failure.value
    return {
        "kind": outcome.setting.kind,
        "target": outcome.setting.target,
        "value": outcome.setting.value,
        "reason": outcome.setting.reason,
        "rule": outcome.setting.rule,
        "previous": outcome.previous,
        "result": outcome.result.value,
        "class": failure,
        "detail": outcome.detail,
    }
