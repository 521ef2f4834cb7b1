"""Runs the rules that are installed on one host."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from importlib import metadata

from nova_perf_tuning import errors
from nova_perf_tuning.host.audit import base, host

GROUP = "nova_perf_tuning.audit"


class AuditError(errors.PerfTuningError):
    """A rule that was asked for is not installed, or what is installed is no rule."""


@dataclasses.dataclass(slots=True)
class Report:
    """What the rules found.

    :ivar findings: the gravest first, in the order of the rules among equals.
    :ivar clean: ids of the rules that hold here; :ivar unknown: (id, reason) of those that could not judge.
    :ivar failed: (id, what happened) of rules that are broken themselves, so that one hides no other.
    """

    findings: list[base.Finding] = dataclasses.field(default_factory=list)
    clean: list[str] = dataclasses.field(default_factory=list)
    unknown: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    failed: list[tuple[str, str]] = dataclasses.field(default_factory=list)


@functools.cache
def load() -> tuple[base.Rule, ...]:
    """Return the installed rules in the order of their modules and names.

    :raises AuditError: an entry point leads to something else than a rule of its name.
    """
    rules = []
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.module, point.name)):
        made = point.load()()
        if not isinstance(made, base.Rule) or made.id != point.name:
            raise AuditError(f"entry point {GROUP} {point.name}: {point.value} is no rule of that name")
        rules.append(made)
    return tuple(rules)


def chosen(names: Iterable[str]) -> list[base.Rule]:
    """Return the rules of these names.

    :raises AuditError: one is not installed.
    """
    known = {rule.id: rule for rule in load()}
    for name in names:
        if name not in known:
            raise AuditError(f"there is no rule {name[:60]!r}; nova-perf audit --list names them")
    return [known[name] for name in dict.fromkeys(names)]


def run(view: host.Host, rules: Sequence[base.Rule] | None = None, *, strict: bool = False) -> Report:
    """Return what ``rules`` (default: all installed) say of a host.

    :param strict: let what a broken rule raises pass, for tests.
    """
    report = Report()
    for rule in load() if rules is None else rules:
        try:
            found = list(rule.check(view))
        except base.NotApplicableError as reason:
            report.unknown.append((rule.id, str(reason)))
        except Exception as error:
            if strict:
                raise
            report.failed.append((rule.id, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"))
        else:
            report.findings += found
            if not found:
                report.clean.append(rule.id)
    report.findings.sort(key=lambda one: -one.level.rank)
    return report
