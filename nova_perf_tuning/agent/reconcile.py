"""One pass: facts, plan, difference, writes. Level-triggered: what is counts, not what happened.

What the plan wants and the host does not hold is written through the transaction, so every original is in the
journal. What we wrote and the plan wants no longer is put back. What others keep changing is written ever more
rarely (:mod:`nova_perf_tuning.agent.arbiter`). What a person applied is theirs until they restore it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.agent import arbiter as arbiter_module
from nova_perf_tuning.agent import book as book_module
from nova_perf_tuning.agent import host as host_module
from nova_perf_tuning.host import model
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.plan import model as plan_model
from nova_perf_tuning.host.settings import base
from nova_perf_tuning.host.transaction import apply as apply_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import owners
from nova_perf_tuning.host.transaction import restore as restore_module
from nova_perf_tuning.host.transaction import verify as verify_module

Setting = setting_module.Setting
_Object = tuple[str, str, str]  # kind, target, identity

#: Seconds for which the original of an object that is gone is kept: a driver that is loaded again brings it back.
_GRACE: Final = 600.0


@dataclasses.dataclass(slots=True)
class Pass:
    """What one pass did.

    :ivar wanted: settings of the plan; :ivar written: those that were written, pending ones included.
    :ivar drifted: found changed by others since we wrote them, held-back ones included.
    :ivar foreign: wanted otherwise than a person has applied it, whose entry this is; left alone.
    :ivar withdrawn: put back because nobody asks for them any more.
    :ivar faults: what could not be brought into force.
    """

    facts: model.HostFacts
    plan: plan_model.Plan
    wanted: int
    written: list[apply_module.Outcome]
    drifted: list[Setting]
    held_back: list[Setting]
    foreign: list[tuple[Setting, journal_module.Entry]]
    withdrawn: list[restore_module.Restoration]
    faults: list[apply_module.Outcome]


class Reconciler:
    """Keeps one host as planned; used by one thread.

    :param book: the journal, held while a pass writes; between two passes others may write to it.
    :param extra: settings that depend on those planned, such as what irqbalance is told.
    """

    def __init__(
        self,
        host: host_module.Host,
        book: book_module.Book,
        arbiter: arbiter_module.Arbiter,
        *,
        extra: Callable[[Sequence[Setting], Collection[journal_module.Entry]], list[Setting]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self.book = book
        self.arbiter = arbiter
        self._extra = extra
        self._clock = clock
        #: What should hold, as of the last pass.
        self.wanted: list[Setting] = []
        self._by_target: dict[str, list[Setting]] = {}
        self._refused: dict[_Object, str] = {}
        self._gone: dict[_Object, float] = {}

    def reconcile(self, *, excused: bool = False) -> Pass:
        """Bring the plan into force and say what was done.

        :param excused: an event explains what has changed: it is not held against anybody.
        :raises BusyError: a command is changing this host; nothing was written.
        :raises PerfTuningError: the host, the sets or the journal cannot be used; nothing was written then.
        """
        self.book.check_free()
        facts = self._host.facts()
        plan = self._host.plan(facts)
        with self.book.writing() as journal:
            return self._write(journal, facts, plan, excused)

    def _write(
        self, journal: journal_module.Journal, facts: model.HostFacts, plan: plan_model.Plan, excused: bool
    ) -> Pass:
        """Bring ``plan`` into force while the journal is ours."""
        kinds, boot = self._host.kinds(), self._host.boot()
        entries = {
            (entry.kind, entry.target, entry.identity): entry
            for entry in journal.entries()
            if entry.is_current(boot)
        }
        wanted, foreign = _ours(_that_can_fire(plan.settings), entries, kinds)
        if self._extra is not None:
            wanted += self._extra(wanted, entries.values())
        todo, drifted, held_back = self._differences(wanted, entries, kinds, excused)
        outcomes = apply_module.apply(todo, kinds, journal, boot) if todo else []
        self._note_refusals(outcomes)
        self.wanted = wanted
        self._by_target = {}
        for one in wanted:
            self._by_target.setdefault(one.target, []).append(one)
        withdrawn = self._withdraw(journal, entries, kinds, boot)
        self.arbiter.forget([(one.kind, one.target) for one in wanted], self._clock())
        done = (apply_module.Result.WRITTEN, apply_module.Result.PENDING)
        return Pass(
            facts=facts,
            plan=plan,
            wanted=len(wanted),
            written=[one for one in outcomes if one.result in done],
            drifted=drifted,
            held_back=held_back,
            foreign=foreign,
            withdrawn=withdrawn,
            faults=[one for one in outcomes if one.result in apply_module.FAULTS],
        )

    def _differences(
        self,
        wanted: Sequence[Setting],
        entries: Mapping[_Object, journal_module.Entry],
        kinds: Mapping[str, base.SettingKind],
        excused: bool,
    ) -> tuple[list[Setting], list[Setting], list[Setting]]:
        """Return what is to be given to apply, what others have changed, and what of it is held back.

        The values were read a moment ago with the facts, so nothing is read again here. What holds and is not in
        the journal is given too: apply notes it as watched.
        """
        now = self._clock()
        todo, drifted, held_back = [], [], []
        for one in wanted:
            key = (one.kind, one.target, one.identity)
            entry = entries.get(key)
            current = one.current
            if current == one.value or (
                current is not None and kinds[one.kind].holds(one.target, one.value, current)
            ):
                self._refused.pop(key, None)
                if entry is None or entry.wanted != one.value or entry.state == "intended":
                    todo.append(one)
                continue
            if self._refused.get(key) == one.value:
                continue
            # The plan may take what others did as given and want yet another value: changed it is all the same.
            if entry is not None and _was_changed(entry, kinds[one.kind], current):
                drifted.append(one)
                if not self.arbiter.allow((one.kind, one.target), now, excused=excused, found=current or ""):
                    held_back.append(one)
                    continue
            todo.append(one)
        return todo, drifted, held_back

    def _note_refusals(self, outcomes: Iterable[apply_module.Outcome]) -> None:
        """Remember what the kernel will never take: managed interrupts, threads kept elsewhere by a cpuset."""
        for one in outcomes:
            setting = one.setting
            refused = one.result is apply_module.Result.FAILED and one.failure is base.FailureClass.PERMANENT
            if refused or one.result in (apply_module.Result.DIFFERS, apply_module.Result.UNSUPPORTED):
                self._refused[setting.kind, setting.target, setting.identity] = setting.value

    def retry_refused(self) -> None:
        """Try again at the next pass what was refused: something around it may have changed."""
        self._refused.clear()

    def _withdraw(
        self,
        journal: journal_module.Journal,
        entries: Mapping[_Object, journal_module.Entry],
        kinds: Mapping[str, base.SettingKind],
        boot: str,
    ) -> list[restore_module.Restoration]:
        """Put back what we wrote and nobody asks for any more; forget what is gone for good."""
        keep = {(one.kind, one.target, one.identity) for one in self.wanted}
        now = self._clock()
        chosen: set[_Object] = set()
        for key, entry in entries.items():
            if key in keep or entry.rule not in owners.AGENT_RULES or entry.kind not in kinds:
                self._gone.pop(key, None)
                continue
            kind = kinds[entry.kind]
            try:
                present = kind.is_same(entry.setting())
            except OSError:
                present = False
            if present or kind.ephemeral or now - self._gone.setdefault(key, now) > _GRACE:
                chosen.add(key)
        if not chosen:
            return []
        for key in chosen:
            self._gone.pop(key, None)
            self._refused.pop(key, None)
        done = restore_module.restore(
            journal, kinds, boot, only=lambda entry: (entry.kind, entry.target, entry.identity) in chosen
        )
        return [one for one in done if one.result is restore_module.Undone.RESTORED]

    def drifting(self, targets: Collection[str] | None = None) -> list[Setting]:
        """Read back what should hold, and return what does not and is not held back; writes nothing.

        :param targets: only these; None: everything.
        """
        wanted: Sequence[Setting] = self.wanted
        if targets is not None:
            wanted = [one for target in sorted(targets) for one in self._by_target.get(target, ())]
        kinds = self._host.kinds()
        waiting = self.arbiter.held_back(self._clock())
        return [
            one
            for one in verify_module.drifted(wanted, kinds)
            if (one.kind, one.target) not in waiting
            and self._refused.get((one.kind, one.target, one.identity)) != one.value
        ]

    def restore(self) -> list[restore_module.Restoration]:
        """Put back what is ours; what people applied by hand is theirs to undo."""
        boot = self._host.boot()
        with self.book.ending() as journal:
            return restore_module.restore(
                journal, self._host.kinds(), boot, only=lambda entry: entry.rule in owners.AGENT_RULES
            )


def _ours(
    settings: Sequence[Setting],
    entries: Mapping[_Object, journal_module.Entry],
    kinds: Mapping[str, base.SettingKind],
) -> tuple[list[Setting], list[tuple[Setting, journal_module.Entry]]]:
    """Return the settings that no person has applied, and of the others those that are wanted otherwise."""
    ours, foreign = [], []
    for one in settings:
        entry = entries.get((one.kind, one.target, one.identity))
        if entry is None or entry.rule in owners.AGENT_RULES:
            ours.append(one)
        elif not kinds[one.kind].holds(one.target, one.value, entry.wanted):
            foreign.append((one, entry))
    return ours, foreign


def _was_changed(entry: journal_module.Entry, kind: base.SettingKind, current: str | None) -> bool:
    """Whether somebody else has changed an object since we wrote or watched it."""
    if entry.written is None:
        return False
    return current is None or not kind.holds(entry.target, entry.written, current)


def _that_can_fire(settings: Sequence[Setting]) -> list[Setting]:
    """Return ``settings`` without interrupts that have no handler, where others have one.

    A NIC that is down keeps its vectors and drops their handlers: they never fire, and when it comes up they are
    other objects (see :class:`~nova_perf_tuning.host.settings.irq.IrqAffinity`).
    """
    if not any(one.kind == "irq_affinity" and not one.identity.endswith("|") for one in settings):
        return list(settings)
    return [one for one in settings if one.kind != "irq_affinity" or not one.identity.endswith("|")]
