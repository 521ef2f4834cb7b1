# SPDX-License-Identifier: Apache-2.0
"""Brings settings into force: read, journal, write, read back."""

import contextlib
import dataclasses
import enum
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning import bounded_read, errors
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.transaction import undo_script, verify
from nova_perf_tuning.host.transaction.journal import ANY_BOOT, Entry, Journal
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import named

#: Seconds before another try of what failed for a passing reason; once for all settings of a kind.
PAUSES = (0.02, 0.1)
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class Result(enum.Enum):
    """What became of one setting."""

    UNCHANGED = "unchanged"
    WRITTEN = "written"
    #: Written and accepted; an interrupt moves when it fires next.
    PENDING = "pending"
    #: Written, but something else is in force: the kernel cut it, or another program wrote at the
    #: same time.
    DIFFERS = "differs"
    #: Not written: the object is gone, or its number belongs to another one now.
    STALE = "stale"
    #: Not written: this kind has nothing to write here (a sysroot has no netlink).
    UNSUPPORTED = "unsupported"
    #: Not written: nova-perf-agent runs and would undo it.
    OWNED = "owned"
    FAILED = "failed"


@dataclasses.dataclass(slots=True)
class Outcome:
    """What became of one setting.

    :ivar previous: the value before, None when it could not be read.
    :ivar failure: how a refusal is classed; None when nothing was refused.
    :ivar detail: one clause for people.
    """

    setting: Setting
    result: Result
    previous: str | None = None
    failure: base.FailureClass | None = None
    detail: str = ""


#: Results after which the host is not as asked.
FAULTS = frozenset((Result.DIFFERS, Result.STALE, Result.OWNED, Result.FAILED))


class BootIdError(errors.PerfTuningError):
    """The boot id of the host cannot be read, so nothing says which originals are still owed."""


class ApplyError(errors.PerfTuningError):
    """Apply stopped; what it had written was undone, or the message says what was not."""


def boot_id(root: str = "/") -> str:
    """Return what names this boot of the host below ``root``; empty for a record without that file.

    :raises BootIdError: it cannot be read, or is empty.
    """
    prefix = root.rstrip("/")
    try:
        boot = bounded_read.kernel_text(prefix, BOOT_ID)[:64]
        fault = "" if boot else "it is empty"
    except FileNotFoundError as error:
        if prefix:
            return ""
        boot, fault = "", base.clause(error)
    except OSError as error:
        boot, fault = "", base.clause(error)
    if fault:
        raise BootIdError(
            f"{prefix}{BOOT_ID}: {fault}: without the boot id nothing is written and the journal stays as it is: "
            "run this where /proc/sys is visible (ProcSubset=all in a unit, the host's /proc in a container)"
        )
    return boot


def in_order(settings: Iterable[Setting], kinds: Mapping[str, base.SettingKind]) -> list[Setting]:
    """Return settings in the order of writing, without repetitions.

    What resets others goes before them (channels, rings and offloads before queue masks and
    interrupts). A guest's threads move before queues and interrupts are steered to their CPUs.

    :raises TargetError: an unknown kind, or two values for one target.
    """
    unique: dict[tuple[str, str], Setting] = {}
    for setting in settings:
        if setting.kind not in kinds:
            raise base.TargetError(f"{setting.kind[:40]!r} is not an installed kind of setting")
        other = unique.setdefault((setting.kind, setting.target), setting)
        if other.value != setting.value:
            raise base.TargetError(
                f"{setting.kind} {setting.target[:60]}: two values are requested, "
                f"{other.value[:40]} and {setting.value[:40]}: keep one"
            )
    return sorted(unique.values(), key=lambda setting: kinds[setting.kind].order)


def preview(
    settings: Iterable[Setting], kinds: Mapping[str, base.SettingKind]
) -> tuple[list[str], list[Outcome]]:
    """Return the exact writes, in their order, and the outcomes of settings without a write."""
    lines, rest = [], []
    for setting in in_order(settings, kinds):
        outcome, _identity = _look(setting, kinds[setting.kind])
        if outcome.result is Result.WRITTEN:
            lines.append(kinds[setting.kind].describe(setting.target, setting.value))
        else:
            rest.append(outcome)
    return lines, rest


def apply(
    settings: Iterable[Setting],
    kinds: Mapping[str, base.SettingKind],
    journal: Journal,
    boot: str,
) -> list[Outcome]:
    """Bring ``settings`` into force and return what became of each, in the order of writing.

    All originals are on the disk before the first write. A setting that is refused does not stop
    the others. When the journal fails, everything that this call wrote is undone; when the process
    is interrupted or killed,
    :func:`nova_perf_tuning.host.transaction.restore.restore` does that later.

    :param boot: :func:`boot_id` of the host.
    :raises JournalError: nothing was changed, or what was changed has been undone.
    :raises ApplyError: not everything could be undone.
    """
    return _Run(kinds, journal, boot).run(in_order(settings, kinds))


def _look(setting: Setting, kind: base.SettingKind) -> tuple[Outcome, str]:
    """Return what applying a setting will come to (WRITTEN: it needs a write) and its identity."""
    outcome, identity = Outcome(setting, Result.UNCHANGED), ""
    try:
        identity = kind.identity(setting.target)
        if setting.identity and identity not in ("", setting.identity):
            outcome.result = Result.STALE
            outcome.detail = f"planned for {setting.identity}, which is {identity} now"
        elif kind.needs_identity and not setting.identity:
            outcome.result = Result.STALE
            outcome.detail = (
                f"the plan names no identity (it is {identity} now), and its number may be reused"
            )
        else:
            outcome.previous = kind.read(setting.target)
            if not kind.holds(setting.target, setting.value, outcome.previous):
                outcome.result = Result.WRITTEN
    except (OSError, errors.PerfTuningError) as error:
        _refused(outcome, error)
    return outcome, identity


def _refused(outcome: Outcome, error: Exception) -> None:
    outcome.detail = base.clause(error)
    if isinstance(error, base.UnsupportedError):
        outcome.result = Result.UNSUPPORTED
    else:
        outcome.result = Result.STALE if base.is_gone(error) else Result.FAILED
        outcome.failure = base.classify(error)


class _Run:
    """One call of :func:`apply`."""

    def __init__(self, kinds: Mapping[str, base.SettingKind], journal: Journal, boot: str) -> None:
        self.kinds = kinds
        self.journal = journal
        self.boot = boot
        self.now = time.time()
        self.known = {entry.key: entry for entry in journal.entries()}
        self.by_target: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.known.values():
            self.by_target.setdefault((entry.kind, entry.target), []).append(entry)
        #: What this call journals.
        self.entries: list[tuple[Outcome, Entry]] = []
        #: Entries of this boot that become entries of any boot, since a file brings their values
        #: back now.
        self.replaced: list[Entry] = []
        #: Entries of earlier boots: of those objects that may still hold what we wrote, and the
        #: others.
        self.earlier: dict[tuple[str, str, str], Entry] = {}
        self.ended: list[Entry] = []
        for entry in self.known.values():
            if verify.is_ended(entry, boot, kinds):
                self.ended.append(entry)
            elif not entry.is_current(boot):
                self.earlier[entry.kind, entry.target, entry.identity] = entry
        #: Those of them that become entries of this boot, by their new keys.
        self.adopted: dict[tuple[str, str, str, str], Entry] = {}
        self.written: list[Outcome] = []

    def run(self, settings: Sequence[Setting]) -> list[Outcome]:
        outcomes = [self._plan(setting) for setting in settings]
        begun = [entry for _outcome, entry in self.entries if self._differs(entry)]
        if begun:
            with self.journal.transaction():
                self.journal.drop(self.replaced)
                self.journal.put(begun)
            undo_script.keep(self.journal, self.kinds)
        try:
            self._write_all(outcomes)
            self._read_back(outcomes)
            self._record()
        except Exception as error:
            self._undo(error)
            raise
        return outcomes

    def _plan(self, setting: Setting) -> Outcome:
        kind = self.kinds[setting.kind]
        outcome, identity = _look(setting, kind)
        if outcome.result in (Result.WRITTEN, Result.UNCHANGED):
            target = setting.target
            of_any = self.known.get((setting.kind, target, identity, ANY_BOOT))
            of_boot = self.known.get((setting.kind, target, identity, self.boot))
            known = of_any or of_boot
            earlier = self.earlier.get((setting.kind, target, identity))
            if known is None and earlier is None:
                earlier = self._renamed(setting, identity)
            entry = self._entry(outcome, identity, known or earlier)
            if of_any is not None or setting.persistent or kind.persistent:
                entry.boot_id = ANY_BOOT
                if of_boot is not None:
                    self.replaced.append(of_boot)
            if known is None and earlier is not None:
                self.adopted[entry.key] = earlier
                self.replaced.append(earlier)
            self.entries.append((outcome, entry))
        return outcome

    def _renamed(self, setting: Setting, identity: str) -> Entry | None:
        """Return the entry of the same object under the identity that it had before, if any.

        Its original is the object's: what holds now is what we wrote.
        """
        for entry in self.by_target.get((setting.kind, setting.target), ()):
            if entry.identity in ("", identity) or not entry.is_current(self.boot):
                continue
            with contextlib.suppress(OSError, errors.PerfTuningError):
                if self.kinds[setting.kind].is_same(entry.setting()):
                    return entry
        return None

    def _entry(self, outcome: Outcome, identity: str, old: Entry | None) -> Entry:
        """Return the entry before the write: what was there, and what may be there if it is cut."""
        setting, kind, current = (
            outcome.setting,
            self.kinds[outcome.setting.kind],
            outcome.previous or "",
        )
        first = old
        if old is not None and old.state == "held":
            first = None  # what was only watched so far has no original of ours
        original, since = current, self.now
        if first is not None:
            original, since = first.original, first.since
        written: str | None = current
        if outcome.result is Result.WRITTEN:
            state = "intended"
            if first is None:
                written = None
            elif not kind.holds(setting.target, first.wanted, current):
                written = first.written
        elif first is not None:
            state = "applied"  # also a write that was cut before its outcome was noted
        else:
            state = "held"
        return Entry(
            kind=setting.kind,
            target=setting.target,
            identity=identity,
            boot_id=self.boot,
            original=original,
            wanted=setting.value,
            written=written,
            reason=setting.reason,
            rule=setting.rule,
            state=state,
            since=since,
            changed=self.now,
        )

    def _differs(self, entry: Entry) -> bool:
        """Whether the journal has to be written for this entry: times alone are no news."""
        old = self.known.get(entry.key)
        return (
            old is None
            or dataclasses.replace(old, since=entry.since, changed=entry.changed) != entry
        )

    def _write_all(self, outcomes: list[Outcome]) -> None:
        """Write kind by kind; transient failures are tried again before the next kind."""
        by_order: dict[int, list[Outcome]] = {}
        for outcome in outcomes:
            if outcome.result is Result.WRITTEN:
                order = self.kinds[outcome.setting.kind].order
                by_order.setdefault(order, []).append(outcome)
        for waiting in by_order.values():
            for outcome in waiting:
                self._write(outcome)
            for pause in PAUSES:
                waiting = [each for each in waiting if each.failure is base.FailureClass.TRANSIENT]
                if waiting:
                    time.sleep(pause)
                for outcome in waiting:
                    self._write(outcome)

    def _write(self, outcome: Outcome) -> None:
        setting, kind = outcome.setting, self.kinds[outcome.setting.kind]
        outcome.result, outcome.failure, outcome.detail = Result.WRITTEN, None, ""
        try:
            # Channels written a moment ago may have given the number to another vector.
            if kind.is_same(setting):
                self.written.append(outcome)
                kind.write(setting.target, setting.value)
            else:
                outcome.result, outcome.detail = (
                    Result.STALE,
                    "another object has its number since a moment ago",
                )
        except (OSError, errors.PerfTuningError) as error:
            _refused(outcome, error)

    def _read_back(self, outcomes: list[Outcome]) -> None:
        """Look once all is written: a later write may have undone an earlier one."""
        written = [outcome for outcome in outcomes if outcome.result is Result.WRITTEN]
        seen = verify.verify([outcome.setting for outcome in written], self.kinds)
        for outcome, observation in zip(written, seen, strict=True):
            if observation.state is base.State.PENDING:
                outcome.result, outcome.detail = Result.PENDING, observation.detail
            elif observation.state is not base.State.HOLDS:
                outcome.result = Result.DIFFERS
                outcome.detail = (
                    observation.detail or f"the kernel holds {observation.current or 'nothing'}"
                )

    def _record(self) -> None:
        """Note what is in force now; forget what was never written, and threads that have ended."""
        keep, drop = [], self._ended()
        for outcome, entry in self.entries:
            if outcome.result is Result.UNCHANGED:
                continue
            old, held = self.known.get(entry.key), None
            if old is None and entry.key in self.adopted:
                old = dataclasses.replace(
                    self.adopted[entry.key], boot_id=entry.boot_id, identity=entry.identity
                )
            with contextlib.suppress(OSError, errors.PerfTuningError):
                written = outcome.result is Result.WRITTEN
                held = entry.wanted if written else self.kinds[entry.kind].read(entry.target)
            if outcome.result in (Result.WRITTEN, Result.PENDING, Result.DIFFERS):
                entry.state, entry.written = "applied", held
                keep.append(entry)
            elif old is not None:  # refused: what held before is what can be expected and undone
                keep.append(dataclasses.replace(old, written=held))
            elif held in (None, entry.original):
                drop.append(entry)
        if keep or drop:
            with self.journal.transaction():
                self.journal.put(keep)
                self.journal.drop(drop)
            undo_script.keep(self.journal, self.kinds)

    def _ended(self) -> list[Entry]:
        """Return the entries of earlier boots and of threads that have nothing left to undo."""
        mortal: list[Entry] = []
        for entry in self.known.values():
            kind = self.kinds.get(entry.kind)
            if kind is not None and kind.ephemeral and entry.boot_id == self.boot:
                mortal.append(entry)
        seen = verify.verify([entry.setting() for entry in mortal], self.kinds)
        ended = list(self.ended)
        for entry, observation in zip(mortal, seen, strict=True):
            if observation.state is base.State.GONE:
                ended.append(entry)
        return ended

    def _undo(self, cause: BaseException) -> None:
        """Put back what this call wrote, last first."""
        kept = []
        for outcome in reversed(self.written):
            setting, kind = outcome.setting, self.kinds[outcome.setting.kind]
            try:
                if outcome.previous is not None and kind.is_same(setting):
                    kind.write(setting.target, outcome.previous)
            except (OSError, errors.PerfTuningError):
                if outcome.result is not Result.FAILED:
                    kept.append(f"{setting.kind} {setting.target}")
        if kept:
            raise ApplyError(
                f"{str(cause) or type(cause).__name__}; {counted(len(kept), 'setting')} with the new value, "
                f"'nova-perf restore' puts them back: {named(kept, 5)}"
            ) from cause
