"""``nova-perf audit``: what this host does not do that is known to pay, with evidence."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from nova_perf_tuning import errors
from nova_perf_tuning.cli import audit_options, command

if TYPE_CHECKING:
    from nova_perf_tuning.host.audit import base, runner

_LEVELS = ("info", "warning", "error")

_SETTING = {
    "type": "object",
    "required": ["kind", "target", "value", "current", "reason", "rule", "identity"],
    "properties": {
        "kind": {"type": "string"},
        "target": {"type": "string"},
        "value": {"type": "string"},
        "current": {"type": ["string", "null"]},
        "reason": {"type": "string"},
        "rule": {"type": "string"},
        "identity": {"type": "string"},
    },
}
#: What ``nova-perf audit -f json`` prints.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["findings", "clean", "unknown", "failed", "counts", "warnings"],
    "properties": {
        "findings": {
            "type": "array",
            "description": "the gravest first",
            "items": {
                "type": "object",
                "required": [
                    "rule",
                    "level",
                    "subject",
                    "evidence",
                    "why",
                    "remedy",
                    "source",
                    "appliable",
                    "safe",
                ],
                "properties": {
                    "rule": {"type": "string", "description": "id of the rule, as in --rule"},
                    "level": {"enum": list(_LEVELS)},
                    "subject": {"type": "string", "description": "device, guest or option; empty for the host"},
                    "evidence": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["path", "value"],
                            "properties": {
                                "path": {"type": "string", "description": "what was read"},
                                "value": {"type": "string", "description": "what it said"},
                            },
                        },
                    },
                    "why": {"type": "string", "description": "why it matters on this host"},
                    "remedy": {"type": "string", "description": "commands, one a line, or a configuration"},
                    "source": {"type": "string", "description": "where the recommendation is from"},
                    "appliable": {"type": "boolean", "description": "nova-perf apply --rule can do it"},
                    "safe": {"type": "boolean", "description": "so can nova-perf apply --all-safe"},
                    "settings": {"type": "array", "items": _SETTING},
                },
            },
        },
        "clean": {"type": "array", "items": {"type": "string"}, "description": "rules that hold here"},
        "unknown": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["rule", "reason"],
                "properties": {
                    "rule": {"type": "string"},
                    "reason": {"type": "string", "description": "what is not there or not known"},
                },
            },
        },
        "failed": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["rule", "error"],
                "properties": {
                    "rule": {"type": "string"},
                    "error": {"type": "string", "description": "what is broken in the rule itself"},
                },
            },
        },
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "warnings": {"type": "array", "items": {"type": "string"}, "description": "what could not be read"},
    },
}


class Audit(command.PerfCommand):
    """Judge this host, or a recorded one, by every published recommendation that has a rule; changes nothing.

    A finding has the file and value that were read, why it matters on this host, the remedy, its source, and
    whether 'nova-perf apply --rule' can do it. A rule that cannot judge the host says what it lacks. Exit code 0
    clean, 1 findings of the level of --fail-on or graver, 3 error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        audit_options.add_host_options(parser)
        audit_options.add_path_options(parser)
        parser.add_argument(
            "--rule", metavar="ID", action="append", default=[], help="only this rule; may be repeated"
        )
        parser.add_argument(
            "--fail-on",
            choices=_LEVELS,
            default="warning",
            help="the least level for exit code 1 (default: warning)",
        )
        parser.add_argument(
            "--junit", metavar="FILE", help="also write the result as JUnit XML, a test case a rule"
        )
        parser.add_argument(
            "--all", action="store_true", help="also list the rules that hold and those that cannot judge"
        )
        parser.add_argument(
            "--list", action="store_true", help="list the installed rules instead of judging a host"
        )

    def run_command(self, args: argparse.Namespace) -> int:
        from nova_perf_tuning.host.audit import runner

        rules = runner.chosen(args.rule) if args.rule else runner.load()
        if args.list:
            return _list(args, rules)
        host = audit_options.view(args)
        report = runner.run(host, rules)
        if args.junit:
            from nova_perf_tuning import whole_file

            with whole_file.writing(args.junit) as file:
                file.write(junit(report, args.fail_on))
        # The rules' own reads are among these: what they could not read they judge as if it were not there.
        warnings = host.root.notes.lines()
        if args.format == "json":
            command.print_json(as_json(report, warnings))
        else:
            _show(report, args.all, warnings)
        for name, error in report.failed:
            print(f"nova-perf audit: rule {name} is broken, please report: {error}", file=sys.stderr)
        if report.failed:
            return int(errors.ExitCode.ERROR)
        grave = any(_LEVELS.index(one.level.value) >= _LEVELS.index(args.fail_on) for one in report.findings)
        return int(errors.ExitCode.FAIL if grave else errors.ExitCode.PASS)


def _list(args: argparse.Namespace, rules: Sequence[base.Rule]) -> int:
    from nova_perf_tuning.cli import state

    head = ("rule", "level", "apply", "what should hold")
    how = {rule.id: "safe" if rule.safe else "yes" if rule.appliable else "" for rule in rules}
    if args.format == "json":
        command.print_json(
            {
                "rules": [
                    {
                        "rule": rule.id,
                        "level": rule.level.value,
                        "appliable": rule.appliable,
                        "safe": rule.safe,
                        "title": rule.title,
                        "reads": rule.reads,
                        "why": rule.why,
                        "remedy": rule.remedy,
                        "source": rule.source,
                    }
                    for rule in rules
                ]
            }
        )
    else:
        state.print_table(head, [(rule.id, rule.level.value, how[rule.id], rule.title) for rule in rules])
    return int(errors.ExitCode.PASS)


def as_json(report: runner.Report, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report in the documented form (:data:`SCHEMA`)."""
    return {
        "findings": [
            {
                "rule": one.rule,
                "level": one.level.value,
                "subject": one.subject,
                "evidence": [{"path": path, "value": value} for path, value in one.evidence],
                "why": one.why,
                "remedy": one.remedy,
                "source": one.source,
                "appliable": one.appliable,
                "safe": one.appliable and one.safe,
                "settings": [
                    {
                        "kind": setting.kind,
                        "target": setting.target,
                        "value": setting.value,
                        "current": setting.current,
                        "reason": setting.reason,
                        "rule": setting.rule,
                        "identity": setting.identity,
                    }
                    for setting in one.settings
                ],
            }
            for one in report.findings
        ],
        "clean": report.clean,
        "unknown": [{"rule": name, "reason": reason} for name, reason in report.unknown],
        "failed": [{"rule": name, "error": error} for name, error in report.failed],
        "counts": _counts(report),
        "warnings": list(warnings),
    }


def _counts(report: runner.Report) -> dict[str, int]:
    counts = {level: sum(one.level.value == level for one in report.findings) for level in reversed(_LEVELS)}
    return {**counts, "clean": len(report.clean), "unknown": len(report.unknown), "failed": len(report.failed)}


def junit(report: runner.Report, fail_on: str) -> bytes:
    """Return JUnit XML: a test case a rule, a failure for findings of ``fail_on`` or graver, else output."""
    by_rule: dict[str, list[base.Finding]] = {}
    for one in report.findings:
        by_rule.setdefault(one.rule, []).append(one)
    suite = ElementTree.Element("testsuite", name="nova-perf audit")
    failures = 0
    for rule, found in sorted(by_rule.items()):
        case = ElementTree.SubElement(suite, "testcase", classname="nova-perf.audit", name=rule)
        text = "\n\n".join(_lines(one) for one in found)
        grave = any(_LEVELS.index(one.level.value) >= _LEVELS.index(fail_on) for one in found)
        failures += grave
        if grave:
            ElementTree.SubElement(
                case, "failure", type=found[0].level.value, message=_plain(found[0].why)
            ).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = text
    for rule in report.clean:
        ElementTree.SubElement(suite, "testcase", classname="nova-perf.audit", name=rule)
    for rule, reason in report.unknown:
        case = ElementTree.SubElement(suite, "testcase", classname="nova-perf.audit", name=rule)
        ElementTree.SubElement(case, "skipped", message=_plain(reason))
    for rule, error in report.failed:
        case = ElementTree.SubElement(suite, "testcase", classname="nova-perf.audit", name=rule)
        ElementTree.SubElement(case, "error", message=_plain(error))
    total = len(by_rule) + len(report.clean) + len(report.unknown) + len(report.failed)
    counts = {"tests": total, "failures": failures, "errors": len(report.failed), "skipped": len(report.unknown)}
    for key, count in counts.items():
        suite.set(key, str(count))
    ElementTree.indent(suite)
    whole: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return whole + b"\n"


def _plain(text: str) -> str:
    """Return ``text`` as a terminal and XML can take it: what came from files may hold control characters."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text.replace("\t", " "))


def _lines(one: base.Finding) -> str:
    about = f" ({one.subject})" if one.subject else ""
    lines = [f"{one.level.value.upper()} {one.rule}{about}", f"  {one.why}"]
    lines += [f"  read: {path}: {value}" for path, value in one.evidence]
    lines += [f"  remedy: {line}" for line in one.remedy.splitlines()]
    if one.appliable:
        safe = " (also with --all-safe)" if one.safe else ""
        lines += [f"  apply: nova-perf apply --rule {one.rule}{safe}"]
    return _plain("\n".join([*lines, f"  source: {one.source}"]))


def _show(report: runner.Report, everything: bool, warnings: Sequence[str] = ()) -> None:
    for one in report.findings:
        print(_lines(one))
        print()
    if everything:
        for name in report.clean:
            print(f"holds    {name}")
        for name, reason in report.unknown:
            print(f"unknown  {name}: {_plain(reason)}")
        print()
    for warning in warnings:
        print(f"warning: {_plain(warning)}")
    counts = _counts(report)
    text = (
        ", ".join(f"{count} {name}" for name, count in counts.items() if count and name in _LEVELS)
        or "no findings"
    )
    print(f"{text}; {counts['clean']} rules hold, {counts['unknown']} cannot judge this host")
    if counts["unknown"] and not everything:
        print("--all names them and what they lack")
