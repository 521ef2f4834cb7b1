"""Which interrupts irqbalance leaves alone: ``irqbalance`` = ``43,44``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nova_perf_tuning.host import irqbalance, privileged
from nova_perf_tuning.host.kinds import base, files

TARGET: Final = "irqbalance"
#: The value of an empty list.
NONE: Final = "none"


class IrqbalanceBan(base.SettingKind):
    """The list that irqbalance's policy script reads.

    A file below /run: it outlives irqbalance and the agent, not the boot, and holds any number of interrupts.
    What others have banned, by irqbalance's options or its socket, is not in it and stays banned.
    """

    kind = "irqbalance_ban"
    order = 57  # before the interrupts themselves

    def read(self, target: str) -> str:
        _check(target)
        try:
            return as_text(int(line) for line in files.read_text(self.prefix, f"/{irqbalance.LIST}").split())
        except FileNotFoundError:
            return NONE
        except ValueError:
            raise base.TargetError(f"{self.prefix}/{irqbalance.LIST} is damaged: remove it") from None

    def write(self, target: str, value: str) -> None:
        _check(target)
        privileged.list_interrupts(self.root, _numbers(value))

    def describe(self, target: str, value: str) -> str:
        path, numbers = f"{self.prefix}/{irqbalance.LIST}", " ".join(map(str, sorted(_numbers(value))))
        write = f"printf '%s\\n' {numbers} > {path}" if numbers else f"rm -f {path}"
        return f"{write}; pkill -HUP -x irqbalance"


def as_text(numbers: Iterable[int]) -> str:
    """Return interrupts as a setting's value."""
    return ",".join(map(str, sorted(numbers))) or NONE


def _check(target: str) -> None:
    if target != TARGET:
        raise base.TargetError(f"irqbalance_ban target {target[:40]!r}: write {TARGET}")


def _numbers(value: str) -> set[int]:
    return set() if value == NONE else {base.whole_number("irqbalance_ban", part) for part in value.split(",")}
