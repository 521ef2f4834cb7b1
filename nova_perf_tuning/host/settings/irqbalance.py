"""Which interrupts irqbalance leaves alone: ``irqbalance`` = ``43,44``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from nova_perf_tuning.host import irqbalance, privileged
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import base, files

TARGET = "irqbalance"
#: The value of an empty list.
NONE = "none"
#: The value of a list for the policy script that irqbalance may not have been made to read.
UNREAD = "unread"
_LINE: Final = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII).fullmatch
_MAX_BYTES: Final = 1 << 20


class IrqbalanceBan(base.SettingKind):
    """The list that ``settings ban irqs`` replaces, of the irqbalance that runs now.

    Identity is ``PID:START``: the list is lost with the process. More than about 100 interrupts do not fit into a
    command and are refused here; a policy script bans those (see the agent's documentation).
    """

    kind = "irqbalance_ban"
    order = 58
    needs_identity = True
    ephemeral = True
    shared = True

    @property
    def writable(self) -> bool:
        return self.live

    def _pid(self, target: str) -> int:
        if target != TARGET:
            raise base.TargetError(f"irqbalance_ban target {target[:40]!r}: write {TARGET}")
        if not self.live:
            raise base.UnsupportedError("irqbalance is spoken to on the running host only")
        pid = irqbalance.running()
        if pid is None:
            raise ProcessLookupError(3, "irqbalance does not run")
        return pid

    def read(self, target: str) -> str:
        return as_text(irqbalance.banned(self._pid(target)))

    def write(self, target: str, value: str) -> None:
        privileged.ban_interrupts(self._pid(target), as_numbers(value))

    def observe(self, setting: setting_module.Setting) -> base.Observation:
        return _unless_busy(super().observe(setting), base.State.UNREADABLE)

    def describe(self, target: str, value: str) -> str:
        return f"irqbalance's socket: {irqbalance.ban_command(as_numbers(value))}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return as_numbers(value) == as_numbers(current)

    def original(self, original: str, asked: Sequence[str], current: str) -> str:
        lists, now = [as_numbers(one) for one in asked], as_numbers(current)
        # What was on the list whichever of them irqbalance took, and is not now, somebody has lifted.
        lifted = frozenset.intersection(*lists) - now if lists else frozenset()
        return as_text(as_numbers(original) - lifted | now.difference(*lists))

    def identity(self, target: str) -> str:
        return irqbalance.identity(self._pid(target))


class IrqbalanceList(base.SettingKind):
    """The list that our policy script of irqbalance reads, for more interrupts than fit into a command.

    A file below /run: it outlives irqbalance and the agent, not the boot. irqbalance runs the script once for each
    interrupt, so a write also makes it look again; only then the file gets its last line, without which it is
    :data:`UNREAD` and written again. So it is where an irqbalance can be spoken to that is not the one named in
    that line: it may have asked the script for the last time before there was a list, when it had no socket yet.
    """

    kind = "irqbalance_list"
    order = 57

    @property
    def writable(self) -> bool:
        return self.live

    def _check(self, target: str) -> None:
        if target != TARGET:
            raise base.TargetError(f"irqbalance_list target {target[:40]!r}: write {TARGET}")
        if not self.live:
            raise base.UnsupportedError("irqbalance is spoken to on the running host only")

    def read(self, target: str) -> str:
        self._check(target)
        try:
            lines = _lines()
        except FileNotFoundError:
            return NONE
        heard = [line for line in lines if line.startswith(irqbalance.LIST_HEARD)]
        if not heard or not _has_heard(heard[-1].removeprefix(irqbalance.LIST_HEARD).strip()):
            return UNREAD
        return as_text(_numbers(lines))

    def lists(self, value: str) -> bool:
        """Whether this is what the file lists, heard of or not."""
        try:
            return _numbers(_lines()) == _listed(value)
        except OSError:
            return False

    def write(self, target: str, value: str) -> None:
        self._check(target)
        privileged.list_interrupts(_listed(value))

    def observe(self, setting: setting_module.Setting) -> base.Observation:
        found = super().observe(setting)
        if found.current != UNREAD or not self.lists(setting.value):
            return found
        return _unless_busy(found, base.State.DRIFTED)

    def describe(self, target: str, value: str) -> str:
        numbers = sorted(_listed(value))
        path = irqbalance.LIST
        write = f"printf '%s\\n' {' '.join(map(str, numbers))} > {path}" if numbers else f"rm -f {path}"
        return f"{write}; irqbalance is made to run its policy script again"

    def holds(self, target: str, value: str, current: str) -> bool:
        return current != UNREAD and _listed(value) == as_numbers(current)

    def is_cut(self, current: str) -> bool:
        return current == UNREAD


def _unless_busy(found: base.Observation, state: base.State) -> base.Observation:
    """Return ``found``; what is of that ``state`` because irqbalance works at what we have told it is pending."""
    pid = irqbalance.running() if found.state is state else None
    if pid is None or not irqbalance.is_busy(pid):
        return found
    return base.Observation(base.State.PENDING, found.current, "irqbalance answers again after its interval")


def _lines() -> list[str]:
    return files.read_bytes(irqbalance.LIST, limit=_MAX_BYTES).decode("ascii", "replace").splitlines()


def _numbers(lines: Iterable[str]) -> frozenset[int]:
    return frozenset(int(line) for line in lines if _LINE(line))


def _listed(value: str) -> frozenset[int]:
    # As an original: what was there before had nobody's word, so nothing is put back.
    return frozenset() if value == UNREAD else as_numbers(value)


def _has_heard(name: str) -> bool:
    """Whether the irqbalance that can be spoken to is the one of that name, or has no business with the list."""
    pid = irqbalance.running()
    try:
        return pid is None or not irqbalance.uses_our_script(pid) or irqbalance.identity(pid) == name
    except OSError:
        return True  # it has ended


def as_text(numbers: frozenset[int]) -> str:
    """Return interrupts as a setting's value."""
    return ",".join(map(str, sorted(numbers))) or NONE


def as_numbers(text: str) -> frozenset[int]:
    """Return the interrupts of a setting's value.

    :raises TargetError: it is none.
    """
    if text == NONE:
        return frozenset()
    return frozenset(base.whole_number("irqbalance_ban", part) for part in text.split(","))
