# SPDX-License-Identifier: Apache-2.0
"""What people should look at, as ``nova-perf status`` and the metrics tell it."""

import dataclasses
import enum
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.agent import rewrite_limit
from nova_perf_tuning.host.input.facts import writers
from nova_perf_tuning.host.kinds import irqbalance
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.transaction import verify
from nova_perf_tuning.printing import counted

LOG = logging.getLogger(__name__)

#: Findings of one code that are listed; the others are counted.
NAMED: Final = 50
#: Seconds between two searches for other programs that tune hosts: one reads the name of every
#: process.
_LOOK_S: Final = 300.0
#: Seconds after which irqbalance is made to ask the script again: it may have passed over the last
#: signal.
_RESCAN_S: Final = 30.0


class AgentFindingCode(enum.StrEnum):
    """What a finding is about."""

    WRITTEN_BY_OTHERS = "written_by_others"
    APPLIED_BY_PERSON = "applied_by_person"
    NOT_IN_FORCE = "not_in_force"
    IRQBALANCE_WITHOUT_SCRIPT = "irqbalance_without_script"
    COMPETING_DAEMON = "competing_daemon"


#: The text of each code, with fields of the finding, its ``rule`` and ``kinds``.
_TEXTS: Final[Mapping[AgentFindingCode, str]] = {
    AgentFindingCode.WRITTEN_BY_OTHERS: "may be written by {cause}",
    AgentFindingCode.APPLIED_BY_PERSON: (
        "{current} was applied by hand ({rule}), and stays until 'nova-perf restore'"
    ),
    AgentFindingCode.NOT_IN_FORCE: "{cause}",
    AgentFindingCode.IRQBALANCE_WITHOUT_SCRIPT: (
        "it moves interrupts placed here: install nova-perf-tuning's drop-in for irqbalance.service and restart it"
        f" (--policyscript=/usr/share/nova-perf-tuning/{irqbalance.SCRIPT})"
    ),
    AgentFindingCode.COMPETING_DAEMON: (
        "{cause} (process {pid}) runs and may change settings of kind {kinds}"
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class AgentFinding:
    """One thing that people should look at; what does not belong to its code is None.

    :ivar kind, target, wanted: the setting.
    :ivar current: the value that others, or a person, have set.
    :ivar cause: why it is not in force; the rule that a person applied; the likely writer; the
        daemon's name.
    :ivar rewrites: how often it was found changed; :ivar next_try_s: seconds to the next attempt.
    """

    code: AgentFindingCode
    cause: str
    kind: str | None = None
    target: str | None = None
    wanted: str | None = None
    current: str | None = None
    rewrites: int | None = None
    next_try_s: float | None = None
    pid: int | None = None

    @property
    def text(self) -> str:
        """One clause for people."""
        kinds = ", ".join(sorted(verify.DAEMONS.get(self.cause, ())))
        return _TEXTS[self.code].format(
            **dataclasses.asdict(self), rule=self.cause or "no rule", kinds=kinds
        )

    def as_json(self) -> dict[str, object]:
        """Return it for the state file: its code and values for programs, its text for people."""
        values = {
            name: value for name, value in dataclasses.asdict(self).items() if value is not None
        }
        return {**values, "code": self.code.value, "text": self.text}


class CompetingDaemons:
    """Other programs that place things on this host.

    irqbalance is kept from what the agent places; all programs are reported.
    """

    def __init__(self, root: str = "/", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._kind = irqbalance.IrqbalanceBan(root)
        self._processes: list[tuple[str, int]] = []
        self._files: list[writers.Writer] = []
        self._looked = self._rescanned = -math.inf
        self._known: frozenset[rewrite_limit.Key] = frozenset()

    def ban(self, placed: Sequence[host_model.Setting]) -> list[host_model.Setting]:
        """Return the list for irqbalance's policy script, given all that is placed."""
        numbers: list[int] = []
        for setting in placed:
            if setting.kind == host_model.IrqTarget.kind:
                numbers.append(host_model.IrqTarget.parse(setting.target).number)
        if not numbers:
            return []
        ban = host_model.Setting(
            kind=self._kind.kind,
            target=irqbalance.TARGET,
            value=irqbalance.as_text(numbers),
            current=self._kind.read(irqbalance.TARGET),
            reason=f"irqbalance leaves alone what is placed here: {counted(len(numbers), 'interrupt')}",
            rule=host_model.PlanRule.IRQBALANCE_BAN,
        )
        return [ban]

    def moved(self) -> None:
        """Note that others have moved interrupts.

        An irqbalance may have started, or have missed the last signal.
        """
        now = self._clock()
        if now - self._rescanned >= _RESCAN_S:
            self._rescanned, self._looked = now, -math.inf
            if self._root == "/":
                irqbalance.rescan()

    def _look(self) -> None:
        self._looked, self._processes = self._clock(), verify.daemon_processes(self._root)
        self._files = verify.file_writers(self._root)

    def findings(self) -> Iterator[AgentFinding]:
        """Yield programs that run and may place what is placed here."""
        if self._clock() - self._looked >= _LOOK_S:
            self._look()
        for name, pid in verify.lowest(self._processes).items():
            if name != "irqbalance":
                yield AgentFinding(AgentFindingCode.COMPETING_DAEMON, name, pid=pid)
        for (
            name,
            pid,
        ) in self._processes:  # each irqbalance: one with our script must not hide another
            if name == "irqbalance" and not irqbalance.uses_our_script(pid):
                yield AgentFinding(AgentFindingCode.IRQBALANCE_WITHOUT_SCRIPT, name, pid=pid)

    def conflicts(
        self, conflicts: Mapping[rewrite_limit.Key, rewrite_limit.Conflict], now: float
    ) -> Iterator[AgentFinding]:
        """Yield conflicts: settings that others keep changing. New ones are logged.

        :param now: monotonic clock.
        """
        known, self._known = self._known, frozenset(conflicts)
        if self._known - known:
            self._look()
        for (kind, target, identity), conflict in conflicts.items():
            writer, wait = (
                verify.likely_writer(kind, verify.lowest(self._processes), self._files),
                round(conflict.until - now, 1),
            )
            if (kind, target, identity) not in known:
                LOG.warning(
                    "%s %s keeps being changed, now to %s, perhaps by %s: it is tried again in %.0f s",
                    kind,
                    target,
                    conflict.current,
                    writer,
                    wait,
                )
            yield AgentFinding(
                AgentFindingCode.WRITTEN_BY_OTHERS,
                writer,
                kind,
                target,
                current=conflict.current,
                rewrites=conflict.rewrites,
                next_try_s=wait,
            )
