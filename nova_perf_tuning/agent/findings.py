"""What people should look at, as ``nova-perf status`` and the metrics tell it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.agent import rewrite_limit
from nova_perf_tuning.host import model
from nova_perf_tuning.host.kinds import irqbalance
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import rivals

LOG = logging.getLogger(__name__)

WRITTEN_BY_OTHERS: Final = "written by others"
APPLIED_BY_A_PERSON: Final = "applied by a person"
NOT_IN_FORCE: Final = "not in force"
IRQBALANCE: Final = "irqbalance"
RIVAL: Final = "rival"
#: What findings are about.
KINDS: Final = (WRITTEN_BY_OTHERS, APPLIED_BY_A_PERSON, NOT_IN_FORCE, IRQBALANCE, RIVAL)

#: Findings of one sort that are listed; the others are counted.
NAMED: Final = 50
#: Seconds between two searches for other programs that tune hosts: one reads the name of every process.
_LOOK_S: Final = 300.0
#: Seconds after which irqbalance is made to ask the script again: it may have passed over the last signal.
_RESCAN_S: Final = 30.0
_NO_SCRIPT: Final = (
    "it moves interrupts placed here: install nova-perf-tuning's drop-in for irqbalance.service and restart it "
    f"(--policyscript=/usr/share/nova-perf-tuning/{irqbalance.SCRIPT})"
)


#: What people should look at: ``what`` (one of :data:`KINDS`), fields for programs, ``detail`` for people.
Finding = dict[str, Any]


def named(found: Iterable[Finding]) -> list[Finding]:
    """Return the first findings of each sort."""
    sorts: dict[str, list[Finding]] = {}
    for finding in found:
        sorts.setdefault(finding["what"], []).append(finding)
    return [finding for findings in sorts.values() for finding in findings[:NAMED]]


def applied_by_a_person(one: model.Setting, entry: journal_module.Entry) -> Finding:
    """Return that a value is wanted otherwise than a person has applied it."""
    detail = f"a person applied {entry.wanted} ({entry.rule or 'no rule'}), left so until 'nova-perf restore'"
    return _about(APPLIED_BY_A_PERSON, one, detail)


def not_in_force(unmet: Iterable[apply_module.Outcome]) -> list[Finding]:
    """Return what could not be brought into force, with the cause."""
    return [_about(NOT_IN_FORCE, outcome.setting, outcome.detail) for outcome in unmet]


def _about(what: str, one: model.Setting, detail: str) -> Finding:
    return {"what": what, "kind": one.kind, "target": one.target, "wanted": one.value, "detail": detail}


class Neighbours:
    """Other programs that place things on this host: irqbalance is kept from what is ours, all are reported."""

    def __init__(self, root: str = "/", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._kind = irqbalance.IrqbalanceBan(root)
        self._rivals: dict[str, int] = {}
        self._looked = self._rescanned = -math.inf
        self._known: frozenset[rewrite_limit.Key] = frozenset()

    def ban(self, placed: Sequence[model.Setting]) -> list[model.Setting]:
        """Return the list for irqbalance's policy script, given all that is placed."""
        numbers = [model.IrqTarget.parse(one.target).number for one in placed if one.kind == model.IrqTarget.kind]
        if not numbers:
            return []
        return [
            model.Setting(
                self._kind.kind,
                irqbalance.TARGET,
                irqbalance.as_text(numbers),
                self._kind.read(irqbalance.TARGET),
                f"irqbalance leaves alone the {len(numbers)} interrupts placed here",
                "irqbalance-ban",
            )
        ]

    def moved(self) -> None:
        """Note that others have moved interrupts: an irqbalance may have come, or have missed the last signal."""
        now = self._clock()
        if now - self._rescanned >= _RESCAN_S:
            self._rescanned, self._looked = now, -math.inf
            if self._root == "/":
                irqbalance.rescan()

    def _look(self) -> None:
        self._looked, self._rivals = self._clock(), rivals.running(self._root)

    def findings(self) -> Iterator[Finding]:
        """Yield programs that run and may place what is placed here."""
        if self._clock() - self._looked >= _LOOK_S:
            self._look()
        for name, pid in self._rivals.items():
            if name != "irqbalance":
                kinds = ", ".join(sorted(rivals.RIVALS[name]))
                yield {"what": RIVAL, "pid": pid, "detail": f"{name} runs, which may write {kinds}"}
            elif not irqbalance.uses_our_script(pid):
                yield {"what": IRQBALANCE, "pid": pid, "detail": _NO_SCRIPT}

    def contested(self, contests: Mapping[rewrite_limit.Key, rewrite_limit.Contest], now: float) -> list[Finding]:
        """Return what others keep changing and is held back, with the likely writer; a new one is logged.

        :param now: monotonic clock.
        """
        known, self._known = self._known, frozenset(contests)
        if self._known - known:
            self._look()
        found = []
        for (kind, target, identity), contest in contests.items():
            writer, wait = rivals.likely(kind, self._rivals), round(contest.until - now, 1)
            if (kind, target, identity) not in known:
                LOG.warning(
                    "%s %s keeps being changed, now to %s, perhaps by %s: it is tried again in %.0f s",
                    *(kind, target, contest.found, writer, wait),
                )
            fields = {"kind": kind, "target": target, "found": contest.found, "rewrites": contest.rewrites}
            detail = f"may be written by {writer}"
            found.append({"what": WRITTEN_BY_OTHERS, **fields, "next_try_s": wait, "detail": detail})
        return found
