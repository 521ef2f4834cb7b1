# SPDX-License-Identifier: Apache-2.0
"""What a rule is, what it finds and what runs it: one engine for hosts, flavors and images."""

import abc
import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from nova_perf_tuning import errors

Subject = TypeVar("Subject")
Value = TypeVar("Value")


class Level(enum.Enum):
    """Severity of a finding; later members are more severe.

    INFO: worth knowing, or worth trying with a measurement. WARNING: costs guests performance.
    ERROR: something that was configured cannot work as meant, or guests run at a fraction of their
    speed.
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
    """A rule cannot judge this subject: what it looks at is not there or not known."""

    code = "not_applicable"


class NoDataError(NotApplicableError):
    """What it looks at cannot be read, or is not in this record."""

    code = "no_data"


#: In a remedy: where the options go that name the same host and files to another of our commands.
GIVEN: Final = "{given}"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One recommendation that a subject does not follow.

    :ivar subject: the device, guest or option it is about; empty for the subject as a whole.
    :ivar why: why it matters here, with names and figures.
    :ivar remedy: what to do, as a configuration or as commands, one a line; what explains one
        comes after ``#``.
    :ivar settings: what ``nova-perf apply --rule`` would write
        (:class:`nova_perf_tuning.host.model.host_model.Setting`).
    :ivar safe: ``--all-safe`` applies it; a safe rule may find a host where it is not.
    :ivar plain: the remedy in domain XML, where it is not that of the rule.
    :ivar pending: what the remedy would write is written, and comes into force later by itself.
    """

    rule: str
    level: Level
    subject: str
    evidence: tuple[Evidence, ...]
    why: str
    remedy: str
    source: str
    settings: tuple[Any, ...] = ()
    safe: bool = False
    plain: str = ""
    pending: bool = False

    @property
    def appliable(self) -> bool:
        """Whether ``nova-perf apply --rule`` can bring the remedy into force."""
        return bool(self.settings)


class Rule(abc.ABC, Generic[Subject]):
    """Judges one thing; the first line of its docstring says what should hold.

    :cvar id: short name, as in ``--rule``. :cvar level: of its findings, unless a finding says
        otherwise.
    :cvar why, remedy, source: as in a finding, for any subject.
    :cvar appliable: its findings carry settings; :cvar safe: so harmless that ``--all-safe``
        applies them: in force at once, undone by one write, no traffic interrupted and no guest
        moved.
    """

    id: ClassVar[str]
    level: ClassVar[Level] = Level.WARNING
    why: ClassVar[str]
    remedy: ClassVar[str]
    source: ClassVar[str]
    appliable: ClassVar[bool] = False
    safe: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """What should hold, in one line."""
        return (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".")

    @abc.abstractmethod
    def check(self, subject: Subject, /) -> Iterator[Finding]:
        """Yield a finding for each place where the rule does not hold.

        :raises NotApplicableError: it cannot be judged here; after findings, that it cannot be
            judged everywhere, which matters only where there are none: a rule without its facts
            never holds.
        """

    def seen(self, subject: Subject, /) -> Iterator[tuple[str, object]]:
        """Yield what was read of a subject of which the rule holds: why it does."""
        yield from ()

    def finding(
        self,
        evidence: Iterable[tuple[str, object]],
        why: str = "",
        remedy: str = "",
        *,
        subject: str = "",
        settings: Iterable[Any] = (),
        level: Level | None = None,
        safe: bool | None = None,
    ) -> Finding:
        """Return a finding of this rule; what is not given is as for any subject."""
        if safe is None:
            safe = self.safe
        return Finding(
            rule=self.id,
            level=level or self.level,
            subject=subject,
            evidence=_shown(evidence),
            why=why or self.why,
            remedy=remedy or self.remedy,
            source=self.source,
            settings=tuple(settings),
            safe=safe,
        )


def _shown(evidence: Iterable[tuple[str, object]]) -> tuple[Evidence, ...]:
    """Return evidence as texts; a dash for what is not known."""
    read: list[Evidence] = []
    for path, value in evidence:
        shown = "-" if value is None else str(value)
        read.append(Evidence(path, shown))
    return tuple(read)


class Unjudged(NamedTuple):
    """A rule that has judged nothing, and why."""

    rule: str
    text: str
    code: str


@dataclasses.dataclass(slots=True)
class Report:
    """What rules found.

    :ivar findings: the most severe first, in the order of the rules among equals.
    :ivar clean: ids of the rules that hold; :ivar held: of those what was read, where a rule says it.
    :ivar unknown: those that could not judge.
    :ivar failed: rules that are broken themselves, so that one hides no other.
    :ivar given: what takes the place of :data:`GIVEN`.
    """

    findings: list[Finding] = dataclasses.field(default_factory=list)
    clean: list[str] = dataclasses.field(default_factory=list)
    held: dict[str, tuple[Evidence, ...]] = dataclasses.field(default_factory=dict)
    unknown: list[Unjudged] = dataclasses.field(default_factory=list)
    failed: list[Unjudged] = dataclasses.field(default_factory=list)
    given: str = ""


def run(rules: Iterable[Rule[Subject]], subject: Subject, *, strict: bool = False) -> Report:
    """Return what ``rules`` say of a subject.

    :param strict: let what a broken rule raises pass.
    """
    report = Report()
    for rule in rules:
        findings: list[Finding] = []
        seen: tuple[Evidence, ...] = ()
        try:
            findings.extend(rule.check(subject))
            if not findings:
                seen = _shown(rule.seen(subject))
        except NotApplicableError as reason:
            if not findings:
                report.unknown.append(Unjudged(rule.id, str(reason), reason.code))
        except Exception as error:
            if strict:
                raise
            text = f"{type(error).__name__}: {error}"
            report.failed.append(Unjudged(rule.id, text, errors.code(error)))
        else:
            if not findings:
                report.clean.append(rule.id)
                if seen:
                    report.held[rule.id] = seen
        report.findings += findings
    report.findings.sort(key=lambda finding: -finding.level.rank)
    return report


def defined_in(module: Mapping[str, object]) -> list[Any]:
    """Return an instance of each rule that a module (its ``vars``) defines, in order of definition."""
    classes = [
        thing for thing in module.values() if isinstance(thing, type) and issubclass(thing, Rule)
    ]
    return [
        rule() for rule in classes if rule.__module__ == module["__name__"] and "id" in vars(rule)
    ]


def need(
    condition: object, lacking: str, error: type[NotApplicableError] = NotApplicableError
) -> None:
    """Go on only when ``condition`` holds.

    :raises NotApplicableError: it does not, as ``error``; ``lacking`` says why the rule cannot
        judge.
    """
    if not condition:
        raise error(lacking)


def known(
    value: Value | None, lacking: str, error: type[NotApplicableError] = NotApplicableError
) -> Value:
    """Return a value that a rule cannot do without.

    :raises NotApplicableError: it is None, as ``error``.
    """
    if value is None:
        raise error(lacking)
    return value


def named(names: Iterable[str], limit: int = 3) -> str:
    """Return the first names and the number of the others: ``a, b, c and 4 more``."""
    every = list(names)
    first = ", ".join(every[:limit])
    if len(every) <= limit:
        return first
    return f"{first} and {len(every) - limit} more"
