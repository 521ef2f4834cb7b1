"""What a check of a flavor or an image is made of: rules as data, findings as their result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from nova_perf_tuning.specs import crosscheck

Level = crosscheck.Level
Facts = TypeVar("Facts")


@dataclasses.dataclass(frozen=True, slots=True)
class Rule(Generic[Facts]):
    """One thing that can be wrong.

    :ivar broken: yields the evidence, key and value, for each place where it is; it looks at facts only.
    :ivar why: what it costs the guest; ``remedy``: what to change; ``source``: where this is known from.
    """

    name: str
    level: Level
    broken: Callable[[Facts], Iterator[str]]
    why: str
    remedy: str
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule with its evidence; ERROR: Nova refuses it or it is not what was asked, WARNING: a waste."""

    rule: str
    level: Level
    evidence: str
    why: str
    remedy: str
    source: str


def apply(rules: Iterable[Rule[Facts]], facts: Facts) -> list[Finding]:
    """Return a finding for each place where a rule is broken, in the order of the rules."""
    return [
        Finding(rule.name, rule.level, evidence, rule.why, rule.remedy, rule.source)
        for rule in rules
        for evidence in rule.broken(facts)
    ]


def crosschecked(found: Iterable[crosscheck.Finding]) -> list[Finding]:
    """Return findings of :mod:`nova_perf_tuning.specs.crosscheck`, whose message holds evidence and remedy."""
    why = {rule.name: rule.why for rule in crosscheck.RULES}
    return [
        Finding(one.rule, one.level, evidence, why[one.rule], remedy, "specification of the perf: extra specs")
        for one in found
        for evidence, _, remedy in [one.message.rpartition("; ")]
    ]
