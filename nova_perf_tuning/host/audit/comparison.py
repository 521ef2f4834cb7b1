# SPDX-License-Identifier: Apache-2.0
"""The rules of the audit over several hosts: which rule finds what where."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning import rules

#: What a rule says of a host, by the severity of its findings and else by its part of the report.
HOLDS: Final = "holds"
NOT_HERE: Final = "n/a"
UNKNOWN: Final = "unknown"
FAILED: Final = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """One host and what the rules say of it.

    :ivar name: how it is shown; :ivar path: where it was read.
    :ivar report: None where the host could not be read, for the reason ``error``.
    """

    name: str
    path: str
    report: rules.Report | None
    error: str = ""

    def states(self) -> dict[str, str]:
        """Return rule -> ``error``, ``warning`` or ``info`` of its most severe finding, or one of
        the names above.
        """
        states: dict[str, str] = {}
        if self.report is None:
            return states
        states |= dict.fromkeys(self.report.clean, HOLDS)
        for unjudged in self.report.unknown:
            states[unjudged.rule] = UNKNOWN
            if unjudged.code != rules.NoDataError.code:
                states[unjudged.rule] = NOT_HERE
        for broken in self.report.failed:
            states[broken.rule] = FAILED
        for finding in reversed(self.report.findings):  # the most severe come first
            states[finding.rule] = finding.level.value
        return states


@dataclasses.dataclass(frozen=True, slots=True)
class RuleOverHosts:
    """What one rule says of all hosts.

    :ivar level: of its most severe finding; None: it has none.
    :ivar found: names of the hosts with a finding.
    :ivar unknown: number of hosts that it cannot judge, since they could not be read or lack data.
    """

    rule: str
    level: rules.Level | None
    found: tuple[str, ...]
    holds: int
    unknown: int
    failed: int


def over_hosts(hosts: Sequence[Judged]) -> list[RuleOverHosts]:
    """Return the rules, those that find most first: by severity, then by the number of hosts."""
    by_host = {host.name: host.states() for host in hosts}
    names: dict[str, None] = {}
    for states in by_host.values():
        names |= dict.fromkeys(states)
    compared = [_compared(rule, by_host) for rule in names]
    return sorted(compared, key=_order)


def _compared(rule: str, by_host: Mapping[str, Mapping[str, str]]) -> RuleOverHosts:
    found: list[str] = []
    levels: list[rules.Level] = []
    others: list[str] = []
    for name, states in by_host.items():
        state = states.get(rule, UNKNOWN)
        if state in (HOLDS, NOT_HERE, UNKNOWN, FAILED):
            others.append(state)
        else:
            found.append(name)
            levels.append(rules.Level(state))
    counts = (others.count(HOLDS), others.count(UNKNOWN), others.count(FAILED))
    level = max(levels, key=lambda each: each.rank, default=None)
    return RuleOverHosts(rule, level, tuple(found), *counts)


def _order(compared: RuleOverHosts) -> tuple[int, int, str]:
    rank = -1
    if compared.level is not None:
        rank = compared.level.rank
    return -rank, -len(compared.found), compared.rule
