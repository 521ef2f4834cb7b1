"""What a rule is; each is one small class found by the entry point ``nova_perf_tuning.audit``."""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.audit import host as host_module


class Level(enum.Enum):
    """How grave a finding is; later members are graver.

    INFO: worth knowing, or worth trying with a measurement. WARNING: costs guests performance on this host.
    ERROR: something that was configured cannot work as meant, or guests run at a fraction of their speed.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Level).index(self)


class Evidence(NamedTuple):
    """Something that was read: where (``/sys/kernel/mm/ksm/run``), and what it said."""

    path: str
    value: str


class NotApplicableError(Exception):
    """Raised by a rule that cannot judge this host: what it looks at is not there or not known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One recommendation that this host does not follow.

    :ivar subject: the device, guest or option it is about; empty for the host as a whole.
    :ivar why: why it matters on this host, with its names and figures.
    :ivar remedy: what to do, as a command or a configuration; commands one a line, as a shell takes them: what is
        said about one comes after ``#``.
    :ivar settings: what ``nova-perf apply --rule`` would write; empty when it cannot do it.
    :ivar safe: ``--all-safe`` applies it; a rule that is safe may find a host where it is not.
    """

    rule: str
    level: Level
    subject: str
    evidence: tuple[Evidence, ...]
    why: str
    remedy: str
    source: str
    settings: tuple[setting_module.Setting, ...] = ()
    safe: bool = False

    @property
    def appliable(self) -> bool:
        """Whether ``nova-perf apply --rule`` can bring the remedy into force."""
        return bool(self.settings)


class Rule(abc.ABC):
    """Judges one thing on one host. A rule reads through its host alone, so it works on recorded ones.

    Nothing that is in the files of a host may make it raise anything but :class:`NotApplicableError`.

    :cvar id: short name, as in ``--rule``; equal to the entry point's.
    :cvar level: of its findings, where the host does not make them more or less grave.
    :cvar title: what should hold, one line for the reference page.
    :cvar reads: the files it looks at, for the reference page.
    :cvar why, remedy, source: as in a finding, for any host.
    :cvar appliable: its findings carry settings; :cvar safe: so harmless that ``--all-safe`` applies them: at
        once in force, undone by one write, no traffic interrupted and no guest moved.
    """

    id: ClassVar[str]
    level: ClassVar[Level] = Level.WARNING
    title: ClassVar[str]
    reads: ClassVar[str]
    why: ClassVar[str]
    remedy: ClassVar[str]
    source: ClassVar[str]
    appliable: ClassVar[bool] = False
    safe: ClassVar[bool] = False

    @abc.abstractmethod
    def check(self, host: host_module.Host) -> Iterator[Finding]:
        """Yield a finding for each place on ``host`` where it does not hold.

        :raises NotApplicableError: it cannot be judged here.
        """

    def finding(
        self,
        evidence: Iterable[Evidence | tuple[str, object]],
        why: str = "",
        remedy: str = "",
        *,
        subject: str = "",
        settings: Iterable[setting_module.Setting] = (),
        level: Level | None = None,
        safe: bool | None = None,
    ) -> Finding:
        """Return a finding of this rule; what is not given is as for any host."""
        return Finding(
            self.id,
            level or self.level,
            subject,
            tuple(Evidence(path, "-" if value is None else str(value)) for path, value in evidence),
            why or self.why,
            remedy or self.remedy,
            self.source,
            tuple(settings),
            self.safe if safe is None else safe,
        )

    def setting(
        self, kind: str, target: str, value: str, current: str | None, reason: str = ""
    ) -> setting_module.Setting:
        """Return a setting that this rule asks for."""
        return setting_module.Setting(kind, target, value, current, reason or self.title, f"audit-{self.id}")


def named(names: Iterable[str], limit: int = 3) -> str:
    """Return the first names and the number of the others: ``a, b, c and 4 more``."""
    every = list(names)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def plural(number: int, what: str) -> str:
    """Return ``1 guest``, ``2 guests``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
