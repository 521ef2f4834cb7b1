"""Which interrupts irqbalance leaves alone: ``irqbalance`` = ``43,44``."""

from __future__ import annotations

from nova_perf_tuning.host import irqbalance, privileged
from nova_perf_tuning.host.settings import base, files

TARGET = "irqbalance"
#: The value of an empty list.
NONE = "none"


class IrqbalanceBan(base.SettingKind):
    """The list that ``settings ban irqs`` replaces, of the irqbalance that runs now.

    Identity is ``PID:START``: the list is lost with the process. More than about 100 interrupts do not fit into a
    command and are refused here; a policy script bans those (see the agent's documentation).
    """

    kind = "irqbalance_ban"
    order = 58
    needs_identity = True
    ephemeral = True

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

    def describe(self, target: str, value: str) -> str:
        return f"irqbalance's socket: {irqbalance.ban_command(as_numbers(value))}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return as_numbers(value) == as_numbers(current)

    def identity(self, target: str) -> str:
        pid = self._pid(target)
        stat = files.read_bytes(f"/proc/{pid}/stat")
        return f"{pid}:{stat.rpartition(b')')[2].split()[19].decode('ascii', 'replace')}"


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
