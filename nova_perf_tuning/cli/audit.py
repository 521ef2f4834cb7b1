# SPDX-License-Identifier: Apache-2.0
"""``nova-perf audit``: what this host does not do that is known to pay, with evidence."""

import argparse
import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning import atomic_write, errors, junit_xml, rules
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.cli.options import output
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.audit import base, comparison, runner
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.model import messages, notes
from nova_perf_tuning.host.plan import untouched
from nova_perf_tuning.junit_xml import JunitCase
from nova_perf_tuning.printing import counted, printable

_LEVELS = [level.value for level in rules.Level]
_NOUNS = {"info": "hint"}
#: Of the plan's sets those that say whose CPUs are.
_SETS = ("housekeeping", "shared", "dedicated", "isolated", "tickless", "excluded", "programs")
#: Columns of the row of a host -> the level that they count.
_HOST_COUNTS = {"errors": "error", "warnings": "warning", "hints": "info"}
#: What a rule says of a host, in one letter.
_MARKS = {
    "error": "E",
    "warning": "W",
    "info": "i",
    comparison.HOLDS: ".",
    comparison.NOT_HERE: "-",
    comparison.UNKNOWN: "?",
    comparison.FAILED: "!",
}
_LEGEND = (
    "rules, in the order of the list below: E error, W warning, i hint, . holds, - does not apply here, "
    "? cannot judge, ! broken; "
    "for the findings of one host: nova-perf audit --sysroot HOST"
)
#: A letter for each rule must not be cut.
_WIDE = 400
#: Class of the test cases of rules in JUnit XML.
_SUITE = "nova-perf.audit"


class Audit(command.PerfCommand):
    """Check this host, or a recorded one, against published tuning recommendations.

    It changes nothing. A finding shows what was read, why it matters on this host, the remedy and
    its source. It says whether 'nova-perf apply --rule' can apply the remedy. A rule that cannot
    judge the host names the data that it lacks. With several hosts, a table shows which rules found
    something on which hosts.

    Exit code: 0 clean, 1 findings at the level of --fail-on or above, 3 error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        host_options.add_sysroots(parser)
        host_options.add_files(parser)
        host_options.add_path(parser)
        options.add_repeated(parser, "--rule", "ID", "rule to check (default: all rules)")
        parser.add_argument(
            "--fail-on",
            choices=_LEVELS,
            default="warning",
            help="exit with 1 if a finding has this level or higher (default: warning)",
        )
        options.add(
            parser, "--junit", "FILE", "also write JUnit XML with a test case for each rule"
        )
        parser.add_argument(
            "--all",
            action="store_true",
            help="also list the CPU sets, and the rules that found nothing (with the values they read), do "
            "not apply here, or lack data",
        )
        parser.add_argument("--list", action="store_true", help="list the rules and check nothing")

    def take_action(self, args: argparse.Namespace) -> int | None:
        chosen: Sequence[base.HostRule] = runner.load()
        if args.rule:
            chosen = runner.chosen(args.rule)
        if args.list:
            _list_rules(args, chosen)
            return None
        sysroots = host_options.sysroots(args)
        from_directory = any(path not in sysroots for path in args.sysroot or ["/"])
        if len(sysroots) > 1 or from_directory:  # a directory may begin with one report
            return _several(args, sysroots, chosen)
        args = argparse.Namespace(**{**vars(args), "sysroot": sysroots[0]})
        output.check([args.junit], [*host_options.files(args), args.kernel_log])
        try:
            host = host_options.view(args)
            report = runner.run(host, chosen)
        except Exception as fault:  # a file of an earlier audit would stay
            line = _plain(command.error_line(fault, "nova-perf"))
            case = JunitCase(_SUITE, "audit", junit_xml.ERROR, line)
            _write_junit(args.junit, junit_xml.document("nova-perf audit", [case]))
            raise
        _write_junit(args.junit, junit(report, args.fail_on))
        # The rules' own reads are among these: what they could not read they judge as if it were
        # not there.
        warnings = _warnings(host)
        if args.format == "json":
            document = {**as_json(report, warnings), "nova_config": host.nova_paths}
            command.print_json({**document, "sets": _sets(host)})
        else:
            sets: dict[str, str] = {}
            if args.all:
                sets = _sets(host)
            show(report, args.all, warnings, sets)
            host_options.show_nova_config(args, host.nova_paths)
        for name, error, _code in report.failed:
            command.warn("nova-perf audit", f"rule {name} is broken, please report: {error}")
        if report.failed:
            return int(errors.ExitCode.ERROR)
        if any(_fails(finding, args.fail_on) for finding in report.findings):
            return int(errors.ExitCode.FAIL)
        return int(errors.ExitCode.PASS)


def _several(
    args: argparse.Namespace, sysroots: Sequence[str], chosen: Sequence[base.HostRule]
) -> int:
    """Judge several hosts; one that cannot be read is shown as such, and the others all the same."""
    _refuse_options_of_one(args)
    documents: list[dict[str, Any]] = []
    judged: list[comparison.Judged] = []
    for name, path in _named(sysroots):
        try:
            of_one = argparse.Namespace(**{**vars(args), "sysroot": path})
            host = host_options.view(of_one)
            report = runner.run(host, chosen)
        except errors.PerfTuningError as error:
            judged.append(comparison.Judged(name, path, None, str(error)))
            documents.append({"host": name, "sysroot": path, "error": str(error)})
            continue
        judged.append(comparison.Judged(name, path, report))
        document = as_json(report, _warnings(host))
        document |= {"nova_config": host.nova_paths, "sets": _sets(host)}
        documents.append({"host": name, "sysroot": path, "report": document})
    if args.format == "json":
        command.print_json({"hosts": documents})
    else:
        _show_several(judged, args.all)
    broken = False
    worst = False
    for each in judged:
        if each.report is None:
            command.warn("nova-perf audit", each.error)
            broken = True
        else:
            broken = broken or bool(each.report.failed)
            findings = each.report.findings
            worst = worst or any(_fails(finding, args.fail_on) for finding in findings)
    if broken:
        return int(errors.ExitCode.ERROR)
    if worst:
        return int(errors.ExitCode.FAIL)
    return int(errors.ExitCode.PASS)


def _warnings(host: Host) -> list[notes.Note]:
    """Return what could not be read, and patterns of the agent's configuration that name nothing."""
    warnings = list(host.root.notes.all())
    warnings += untouched.unmatched(host.facts, host.options.refused)
    return warnings


def _refuse_options_of_one(args: argparse.Namespace) -> None:
    """Refuse options that name files of one host.

    :raises OptionError: one of them is given.
    """
    for option in ("junit", "nova_config", "domain", "kernel_log"):
        if getattr(args, option):
            name = option.replace("_", "-")
            raise options.OptionError(
                f"--{name} is about one host, and --sysroot names several; give one --sysroot"
            )


def _named(sysroots: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and path of each host: the last part of the path where that is enough."""
    short = [os.path.basename(os.path.abspath(path)).partition(".tar")[0] for path in sysroots]
    named: list[tuple[str, str]] = []
    for name, path in zip(short, sysroots, strict=True):
        if short.count(name) > 1:
            name = path
        named.append((name, path))
    return named


def _show_several(judged: Sequence[comparison.Judged], everything: bool) -> None:
    """Print a row for each host and one for each rule that finds something, with ``everything`` for all rules."""
    compared = comparison.over_hosts(judged)
    shown = [each for each in compared if each.found or each.failed or everything]
    columns = [each.rule for each in shown]
    hosts: list[dict[str, object]] = []
    for each in judged:
        row: dict[str, object] = {"host": each.name, "rules": "cannot be read"}
        row |= dict.fromkeys((*_HOST_COUNTS, "hold", "n/a", "unknown"))
        if each.report is not None:
            counts = _counts(each.report)
            row |= {plural: counts[level] for plural, level in _HOST_COUNTS.items()}
            row |= {"hold": counts["clean"], "n/a": len(_not_here(each.report))}
            row["unknown"] = len(_lacking(each.report))
            states = each.states()
            row["rules"] = "".join(_MARKS[states[rule]] for rule in columns if rule in states)
        hosts.append(row)
    head = ("host", *_HOST_COUNTS, "hold", "n/a", "unknown", "rules")
    command.print_rows(head, hosts, limit=_WIDE)
    command.say("", _LEGEND, "")
    rows: list[dict[str, object]] = []
    for number, rule in enumerate(shown, 1):
        level = None
        if rule.level is not None:
            level = rule.level.value
        row = {"#": number, "rule": rule.rule, "level": level, "found": len(rule.found)}
        row |= {"holds": rule.holds, "unknown": rule.unknown}
        rows.append({**row, "on": rules.named(rule.found) or None})
    command.print_rows(("#", "rule", "level", "found", "holds", "unknown", "on"), rows)


def _sets(host: Host) -> dict[str, str]:
    """Return name -> cpulist of the CPUs of the host and of its guests, without empty ones."""
    if host.plan is None:
        return {}
    sets = host.plan.sets
    return {name: sets[name] for name in _SETS if sets.get(name)}


def _fails(finding: rules.Finding, fail_on: str) -> bool:
    return finding.level.rank >= rules.Level(fail_on).rank


def _list_rules(args: argparse.Namespace, chosen: Sequence[base.HostRule]) -> None:
    rows: list[dict[str, Any]] = []
    for rule in chosen:
        row = {
            "rule": rule.id,
            "level": rule.level.value,
            "appliable": rule.appliable,
            "safe": rule.safe,
            "title": rule.title,
            "why": rule.why,
            "remedy": rule.remedy.replace(rules.GIVEN, ""),
            "source": rule.source,
        }
        rows.append(row)
    if args.format == "json":
        command.print_json({"rules": rows})
    else:
        table = [(row["rule"], row["level"], _applied_with(row), row["title"]) for row in rows]
        command.print_table(("rule", "level", "apply with", "title"), table)


def _applied_with(rule: Mapping[str, Any]) -> str | None:
    """Return the option of ``nova-perf apply`` that applies a rule's remedy; None: there is none."""
    if rule["safe"]:
        return "--all-safe"
    if rule["appliable"]:
        return "--rule"
    return None


def as_json(report: rules.Report, warnings: Sequence[notes.Note] = ()) -> dict[str, Any]:
    """Return the report in the documented form (``host/audit/report.schema.json``)."""
    unknown = []
    for name, reason, code in report.unknown:
        unknown.append({"rule": name, "reason": reason, "code": code})
    held = []
    for name, seen in report.held.items():
        held.append({"rule": name, "evidence": [evidence._asdict() for evidence in seen]})
    failed = []
    for name, error, code in report.failed:
        failed.append({"rule": name, "error": error, "code": code})
    return {
        "findings": [_finding(finding) for finding in report.findings],
        "clean": report.clean,
        "held": held,
        "unknown": unknown,
        "failed": failed,
        "counts": _counts(report),
        **messages.as_json(warnings),
    }


def _finding(finding: rules.Finding) -> dict[str, Any]:
    fields = dataclasses.asdict(finding)
    del fields["plain"], fields["pending"]
    fields["level"] = finding.level.value
    fields["appliable"] = finding.appliable
    fields["safe"] = finding.appliable and finding.safe
    fields["evidence"] = [evidence._asdict() for evidence in finding.evidence]
    for setting in fields["settings"]:
        del setting["persistent"]
    return fields


def _counts(report: rules.Report) -> dict[str, int]:
    levels = [finding.level.value for finding in report.findings]
    counts = {}
    for level in reversed(_LEVELS):
        counts[level] = levels.count(level)
    counts["clean"] = len(report.clean)
    counts["unknown"] = len(report.unknown)
    counts["failed"] = len(report.failed)
    return counts


def _write_junit(path: str | None, text: str) -> None:
    if path:
        with atomic_write.writing(path) as file:
            file.write(text.encode())


def junit(report: rules.Report, fail_on: str) -> str:
    """Return JUnit XML: a test case a rule, a failure for findings of ``fail_on`` or more severe, else output."""
    cases: list[JunitCase] = []
    for rule in sorted({finding.rule for finding in report.findings}):
        findings = [finding for finding in report.findings if finding.rule == rule]
        text = "\n\n".join(_lines(finding, report.given) for finding in findings)
        if any(_fails(finding, fail_on) for finding in findings):
            first = findings[0]
            why = _plain(first.why)
            case = JunitCase(_SUITE, rule, junit_xml.FAILURE, why, text, first.level.value)
        else:
            case = JunitCase(_SUITE, rule, output=text)
        cases.append(case)
    for rule in report.clean:
        cases.append(JunitCase(_SUITE, rule))
    for rule, reason, _code in report.unknown:
        cases.append(JunitCase(_SUITE, rule, junit_xml.SKIPPED, _plain(reason)))
    for rule, error, _code in report.failed:
        cases.append(JunitCase(_SUITE, rule, junit_xml.ERROR, _plain(error)))
    return junit_xml.document("nova-perf audit", cases)


def _plain(text: str) -> str:
    """Return a text of several lines as a terminal and XML can take it."""
    return printable(text.replace("\t", " "), keep="\n")


def _lines(finding: rules.Finding, given: str) -> str:
    title = f"{finding.level.value.upper()} {finding.rule}"
    if finding.subject:
        title += f" ({finding.subject})"
    lines = [title, f"  {finding.why}"]
    for path, value in finding.evidence:
        lines.append(f"  read: {path}: {value}")
    for line in finding.remedy.splitlines():
        lines.append(f"  remedy: {line}")
    if finding.appliable:
        apply = f"  apply: nova-perf apply --rule {finding.rule}{given}"
        if finding.safe:
            apply += " (also with --all-safe)"
        lines.append(apply)
    lines.append(f"  source: {finding.source}")
    return _plain("\n".join(lines))


def show(
    report: rules.Report,
    everything: bool,
    warnings: Sequence[notes.Note] = (),
    sets: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
    for finding in report.findings:
        command.say(*_lines(finding, report.given).splitlines(), "")
    if everything:
        for set_name, cpus in sets.items():
            command.say(f"CPUs     {set_name}: {cpus}")
        for name in report.clean:
            command.say(f"holds    {name}")
            for evidence in report.held.get(name, ()):
                command.say(f"  read: {evidence.path}: {evidence.value}")
        for name, reason, _code in _not_here(report):
            command.say(f"n/a      {name}: {reason}")
        for name, reason, _code in _lacking(report):
            command.say(f"unknown  {name}: {reason}")
        command.say("")
    else:
        _show_lacking(report)
    for note in warnings:
        command.say(f"warning: {messages.of(note)}")
    counts = _counts(report)
    elsewhere = len(_not_here(report))
    lacking = len(_lacking(report))
    apply = "do not apply here"
    if elsewhere == 1:
        apply = "does not apply here"
    line = f"{_severe(counts)}; {_held(counts)}, {elsewhere} {apply}, {lacking} cannot judge"
    if not everything:
        line += "; --all lists them"
    command.say(line)


def _not_here(report: rules.Report) -> list[rules.Unjudged]:
    """Return the rules whose subject this host does not have."""
    lacking = _lacking(report)
    return [unjudged for unjudged in report.unknown if unjudged not in lacking]


def _lacking(report: rules.Report) -> list[rules.Unjudged]:
    """Return the rules for which data of this host are missing."""
    no_data = rules.NoDataError.code
    return [unjudged for unjudged in report.unknown if unjudged.code == no_data]


def _show_lacking(report: rules.Report) -> None:
    """Print what data are missing, and for which rules; what several lack is said once."""
    lacking = _lacking(report)
    names_of = grouped((reason, name) for name, reason, _code in lacking)
    for reason, names in names_of.items():
        command.say(f"cannot judge {', '.join(names)}: {reason}")
    if lacking:
        command.say("")


def _severe(counts: Mapping[str, int]) -> str:
    """Return how many findings there are of each level, the most severe first."""
    parts = []
    for level in reversed(_LEVELS):
        if counts[level]:
            parts.append(counted(counts[level], _NOUNS.get(level, level)))
    if not parts:
        return "no findings"
    return ", ".join(parts)


def _held(counts: Mapping[str, int]) -> str:
    rules_held = counted(counts["clean"], "rule")
    if counts["clean"] == 1:
        return f"{rules_held} holds"
    return f"{rules_held} hold"
