# SPDX-License-Identifier: Apache-2.0
"""One pass: facts, plan, difference, writes. It acts on the current state, not on the event.

What the plan wants and the host does not hold is written through the transaction, so every
original is in the journal. What we wrote and the plan no longer wants is put back. What others
keep changing, and what the kernel keeps refusing, is written ever more rarely
(:mod:`nova_perf_tuning.agent.rewrite_limit`). A CPU without a free vector and an interrupt that
the kernel manages are facts for the next plan (:mod:`nova_perf_tuning.host.transaction.refusals`).
What a person applied is theirs until they restore it.
"""

import collections
import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.agent import forecast, host_info, rewrite_limit
from nova_perf_tuning.agent.journal_session import JournalSession
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.plan.refused import NOTHING, Refused
from nova_perf_tuning.host.transaction import apply, refusals, restore, verify
from nova_perf_tuning.host.transaction.journal import AGENT_RULES, Entry, Journal
from nova_perf_tuning.host.transaction.restore import Restoration, RestoreResult

LOG = logging.getLogger(__name__)

Setting = host_model.Setting


@dataclasses.dataclass(slots=True)
class Pass:
    """What one pass did.

    :ivar written: settings that were written, pending ones included.
    :ivar drifted: found changed by others since we wrote them; of those held back what has come
        since.
    :ivar foreign: wanted otherwise than a person has applied it, whose entry this is; left alone.
    :ivar withdrawn: put back because no plan has them any longer.
    :ivar faults: what this pass could not bring into force; see also
        :meth:`Reconciler.not_in_force`.
    """

    facts: host_model.HostFacts
    plan: planner.Plan
    written: list[apply.Outcome]
    drifted: list[Setting]
    foreign: list[tuple[Setting, Entry]]
    withdrawn: list[Restoration]
    faults: list[apply.Outcome]


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """What a round begins with.

    :ivar entries: of the journal, of earlier boots as far as they are owed; :ivar current: those
        of this boot.
    :ivar wanted: what should hold; :ivar foreign: see :class:`Pass`.
    """

    facts: host_model.HostFacts
    boot: str
    plan: planner.Plan
    kinds: Mapping[str, base.SettingKind]
    entries: Mapping[rewrite_limit.Key, Entry]
    current: Mapping[rewrite_limit.Key, Entry]
    wanted: list[Setting]
    foreign: list[tuple[Setting, Entry]]


class TunedHost:
    """The running host, or a generated one below ``root``.

    :param nova_config: files of nova-compute; those that do not exist are passed over. None named:
        those found.
    :param housekeeping: CPUs for interrupts and the host's own work, as a cpulist.
    :param leave: patterns of interrupts that are left alone.
    """

    def __init__(
        self,
        root: str,
        nova_config: Sequence[str] = (),
        housekeeping: str | None = None,
        rps: bool = False,
        leave: Sequence[str] = (),
    ) -> None:
        self.root = root
        self._leave = tuple(leave)
        self._nova_config = tuple(nova_config)
        self._housekeeping = housekeeping
        self._rps = rps

    def facts(self) -> host_model.HostFacts:
        """Read the host.

        :raises FactsError: it cannot be read at all.
        """
        return reader.read_host(self.root)

    def plan(self, facts: host_model.HostFacts, refused: Refused = NOTHING) -> planner.Plan:
        """Return what should hold.

        :param refused: what the kernel does not do.
        :raises PlanError: the CPU sets contradict each other or the host.
        :raises NovaConfigError: a nova.conf cannot be used.
        """
        # agent.json is for everybody's eyes, and a title is what a tenant calls an instance:
        # libvirt's name alone.
        guests: list[host_model.GuestProcess] = []
        for guest in facts.guests:
            domain = guest.domain
            if domain is not None:
                domain = dataclasses.replace(domain, title=None)
            guests.append(dataclasses.replace(guest, domain=domain))
        root = Root(self.root)
        if self._nova_config:
            files = novaconf.texts([path for path in self._nova_config if os.path.exists(path)])
        else:
            files = novaconf.found(root, strict=True)
        sets = dataclasses.replace(novaconf.cpu_sets(files), housekeeping=self._housekeeping)
        warnings = list(facts.warnings)
        warnings += root.notes.all()
        seen = dataclasses.replace(facts, guests=tuple(guests), warnings=tuple(warnings))
        # What guests gain from the rest is not measured: people apply it, the agent does not.
        refused = dataclasses.replace(refused, left=self._leave)
        return planner.plan(seen, sets, rps=self._rps, refused=refused, background=False)

    def plan_digest(self, plan: planner.Plan, mode: str) -> str:
        """Return a short name for what a plan depends on whichever guests run."""
        basis = host_info.PlanBasis(mode, self._housekeeping, self._rps, self._leave)
        return basis.digest(plan.owners)

    def nova_files(self) -> Sequence[str]:
        """Return the files of nova-compute that count now; see :func:`nova_perf_tuning.host.input.novaconf.find`."""
        if self._nova_config:
            return self._nova_config
        prefix = self.root.rstrip("/")
        return [f"{prefix}/{path}" for path in novaconf.find(Root(self.root))]

    def kinds(self) -> Mapping[str, base.SettingKind]:
        """Return the kinds; they remember who owns which interrupt, so each pass takes new ones."""
        return registry.kinds(self.root)

    def boot(self) -> str:
        """Return what names this boot of the host."""
        return apply.boot_id(self.root)


class Reconciler:
    """Keeps one host as planned; used by one thread.

    :param journal: the journal, held while a pass writes; between two passes others may write to
        it.
    :param extra: settings that follow from the ones planned, such as what irqbalance leaves alone.
    :param memory: what the kernel refused before; None: nothing but this object remembers.
    """

    def __init__(
        self,
        host: TunedHost,
        journal: JournalSession,
        limit: rewrite_limit.RewriteLimit,
        *,
        extra: Callable[[Sequence[Setting]], list[Setting]] = lambda _settings: [],
        clock: Callable[[], float] = time.monotonic,
        memory: refusals.RefusalMemory | None = None,
    ) -> None:
        self._host = host
        self.refusals = memory or refusals.RefusalMemory(clock=clock)
        self.journal = journal
        self.limit = limit
        self._extra = extra
        self._clock = clock
        #: What should hold, as of the last pass.
        self.wanted: list[Setting] = []
        #: What is wanted and was not brought into force, and what is not wanted and could not be
        #: put back.
        self._unmet: dict[rewrite_limit.Key, apply.Outcome] = {}
        self._stuck: dict[rewrite_limit.Key, apply.Outcome] = {}
        #: Of the unmet: what the kernel will not take unless something around it changes.
        self._settled: set[rewrite_limit.Key] = set()
        self._is_announced = False
        #: What would be written, where this only observes.
        self.forecast: forecast.Forecast | None = None

    def reconcile(self, *, excused: bool = False) -> Pass:
        """Bring the plan into force and say what was done.

        :param excused: an event explains what has changed: it is not held against anybody.
        :raises BusyError: a command is changing this host; nothing was written.
        :raises PerfTuningError: the host, the sets or the journal cannot be used; nothing was
            written then.
        """
        with self.journal.writing() as journal:
            rounds = refusals.ROUNDS
            done, learned = self._round(journal, excused, last=rounds == 1)
            for number in range(2, rounds + 1):
                if not learned:
                    break
                more, learned = self._round(journal, excused, last=number == rounds)
                done = _together(done, more)
        self.limit.forget(self._clock())
        return done

    def _round(self, journal: Journal, excused: bool, *, last: bool) -> tuple[Pass, bool]:
        """Plan with what is known, write the difference; return whether the kernel refused news.

        :param last: no round follows in this pass.
        """
        view = self._look(journal)
        wanted, kinds = view.wanted, view.kinds
        self._forget_unwanted(wanted)
        todo, drifted = self._differences(wanted, view.current, kinds, excused)
        self._announce(todo)
        outcomes, learned = self._write(todo, kinds, journal, view.boot, view.facts, last=last)
        self.wanted = wanted
        self._note(outcomes)
        withdrawn: list[Restoration] = []
        if not learned:  # else the next round may want elsewhere what was refused now
            withdrawn = self._withdraw(journal, view.entries, kinds, view.boot, excused)
        written, faults = _sorted(outcomes)
        done = Pass(view.facts, view.plan, written, drifted, view.foreign, withdrawn, faults)
        return done, learned

    def _announce(self, todo: Sequence[Setting]) -> None:
        """Log once, at the start, what is about to be written."""
        if self._is_announced:
            return
        self._is_announced = True
        rules: collections.Counter[str] = collections.Counter()
        for setting in todo:
            if setting.current is None or setting.current != setting.value:
                rules[str(setting.rule)] += 1
        if rules:
            named = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))
            LOG.info("about to write: %s; 'nova-perf restore' undoes it", named)

    def _look(self, journal: Journal) -> "_View":
        """Read the host and the journal, and plan."""
        facts, boot = self._host.facts(), self._host.boot()
        plan = self._host.plan(facts, self.refusals.known(facts, boot))
        kinds = self._host.kinds()
        earlier: dict[rewrite_limit.Key, Entry] = {}
        current: dict[rewrite_limit.Key, Entry] = {}
        for entry in journal.entries():
            if entry.is_current(boot):
                current[_key(entry)] = entry
            elif not verify.is_ended(entry, boot, kinds):
                earlier[_key(entry)] = entry
        entries = earlier | current
        loud: list[Setting] = []
        silent: list[Setting] = []
        for setting in plan.settings:
            if _is_silent(setting):
                silent.append(setting)
            else:
                loud.append(setting)
        wanted, foreign = _ours(loud, entries, kinds)
        wanted += self._extra(wanted + silent)
        return _View(facts, boot, plan, kinds, entries, current, wanted, foreign)

    def _write(
        self,
        settings: Iterable[Setting],
        kinds: Mapping[str, base.SettingKind],
        journal: Journal,
        boot: str,
        facts: host_model.HostFacts,
        *,
        last: bool,
    ) -> tuple[list[apply.Outcome], bool]:
        """Write settings; return what became of them and whether the kernel refused what is news.

        Interrupts come first: what else is wanted follows from where the kernel lets them be. The
        last round writes everything: guests' threads must not wait for interrupts without end.
        """
        interrupts: list[Setting] = []
        others: list[Setting] = []
        for setting in settings:
            if setting.kind == host_model.IrqTarget.kind:
                interrupts.append(setting)
            else:
                others.append(setting)
        outcomes: list[apply.Outcome] = []
        if interrupts:
            outcomes += apply.apply(interrupts, kinds, journal, boot)
        learned = self.refusals.learn(outcomes, facts, boot)
        if others and (last or not learned):
            outcomes += apply.apply(others, kinds, journal, boot)
        return outcomes, learned

    def _forget_unwanted(self, wanted: Iterable[Setting]) -> None:
        """Forget problems with settings and full CPUs that are no longer wanted."""
        values = {_key(setting): setting.value for setting in wanted}
        for key, outcome in list(self._unmet.items()):
            elsewhere = (
                outcome.failure is base.FailureClass.NO_ROOM
                and values.get(key) != outcome.setting.value
            )
            if key not in values or elsewhere:
                self._forget(key)

    def _differences(
        self,
        wanted: Sequence[Setting],
        entries: Mapping[rewrite_limit.Key, Entry],
        kinds: Mapping[str, base.SettingKind],
        excused: bool,
    ) -> tuple[list[Setting], list[Setting]]:
        """Return what is to be given to apply, and what others have changed.

        The values were read a moment ago with the facts, so nothing is read again here. What holds
        and is not in the journal is given too: apply notes it as watched.
        """
        now = self._clock()
        todo: list[Setting] = []
        drifted: list[Setting] = []
        for setting in wanted:
            key, kind, current = _key(setting), kinds[setting.kind], setting.current
            entry, failed = entries.get(key), self._unmet.get(key)
            if current is not None and kind.holds(setting.target, setting.value, current):
                self._forget(key)
                self.limit.holds(key)
                if entry is None or entry.wanted != setting.value or entry.state == "intended":
                    todo.append(setting)
                continue
            if self._is_settled(setting):
                continue
            # The plan may take what others did as given and want yet another value: changed it is
            # all the same.
            changed = entry is not None and _was_changed(entry, kind, current)
            if changed and not self.limit.is_known(key, now, current or ""):
                drifted.append(setting)
            if not (changed or failed is not None) or self.limit.allow(
                key, now, excused=excused, held=failed is None, current=current or ""
            ):
                todo.append(setting)
        return todo, drifted

    def _note(self, outcomes: Iterable[apply.Outcome]) -> None:
        """Remember what is not in force, and what the kernel never accepts (managed interrupts)."""
        for outcome in outcomes:
            key, unsupported = (
                _key(outcome.setting),
                outcome.result is apply.Result.UNSUPPORTED,
            )
            self._forget(key)
            if unsupported or outcome.result in apply.FAULTS:
                self._unmet[key] = outcome
                if unsupported or outcome.failure is base.FailureClass.PERMANENT:
                    self._settled.add(key)

    def _forget(self, key: rewrite_limit.Key) -> None:
        self._unmet.pop(key, None)
        self._settled.discard(key)

    def _is_settled(self, setting: Setting) -> bool:
        """Whether it is known that this value will not be taken."""
        key = _key(setting)
        return key in self._settled and self._unmet[key].setting.value == setting.value

    def plan_digest(self, plan: planner.Plan) -> str:
        """Return a short name for what a plan depends on whichever guests run."""
        mode = "enforce"
        if self.forecast is not None:
            mode = "observe"
        return self._host.plan_digest(plan, mode)

    def retry_refused(self) -> None:
        """Try again at the next pass what was refused: something around it may have changed."""
        self._settled.clear()

    def not_in_force(self) -> list[apply.Outcome]:
        """Return settings that do not hold after a failed attempt and are still wanted."""
        every = (*self._unmet.values(), *self._stuck.values())
        return [outcome for outcome in every if outcome.result is not apply.Result.UNSUPPORTED]

    def conflicts(self) -> dict[rewrite_limit.Key, rewrite_limit.Conflict]:
        """Return what is held back because others keep changing it."""
        waiting = self.limit.held_back(self._clock())
        if not waiting:
            return {}
        ours = {_key(setting) for setting in self.wanted}
        return {
            key: conflict for key, conflict in waiting.items() if key in ours and conflict.others
        }

    def _withdraw(
        self,
        journal: Journal,
        entries: Mapping[rewrite_limit.Key, Entry],
        kinds: Mapping[str, base.SettingKind],
        boot: str,
        excused: bool,
    ) -> list[Restoration]:
        """Put back what we wrote and no plan wants any longer; forget what is gone for good."""
        keep = {_key(setting) for setting in self.wanted}
        unwanted: dict[rewrite_limit.Key, Entry] = {}
        for key, entry in entries.items():
            if key not in keep and _is_ours(entry):
                unwanted[key] = entry
        for key in list(self._stuck):
            if key not in unwanted:
                del self._stuck[key]
        chosen: set[rewrite_limit.Key] = set()
        for key, entry in unwanted.items():
            if self._is_due(entry, kinds.get(entry.kind), excused):
                chosen.add(key)
        if not chosen:
            return []
        withdrawn: list[Restoration] = []
        done = restore.restore(journal, kinds, boot, only=lambda entry: _key(entry) in chosen)
        for restoration in done:
            key = _key(restoration.entry)
            self._stuck.pop(key, None)
            if restoration.result in restore.KEPT:
                self._stuck[key] = _not_put_back(restoration)
            elif restoration.result is RestoreResult.RESTORED:
                withdrawn.append(restoration)
        return withdrawn

    def _is_due(self, entry: Entry, kind: base.SettingKind | None, excused: bool) -> bool:
        """Whether a setting that is no longer wanted is put back, or forgotten, now."""
        key = _key(entry)
        with contextlib.suppress(
            OSError, errors.PerfTuningError
        ):  # restore says what is wrong with it
            if kind is not None and entry.kind == host_model.IrqTarget.kind:
                now = host_model.IrqTarget.parse(entry.target, kind.identity(entry.target))
                if host_model.IrqTarget.parse(entry.target, entry.identity).is_asleep(now):
                    # When its NIC comes up, the kernel has our value there, and the plan wants it
                    # again.
                    self._stuck.pop(key, None)
                    return False
        return key not in self._stuck or self.limit.allow(
            key, self._clock(), excused=excused, held=False
        )

    def overdue(self) -> bool:
        """Whether it is time to try again what failed: to be put back, or to be brought into force."""
        waiting = self.limit.held_back(self._clock())
        failed = self._stuck.keys() | (self._unmet.keys() - self._settled)
        return bool(failed - waiting.keys()) or self.refusals.is_over()

    def drifting(self, targets: Collection[str] | None = None) -> list[Setting]:
        """Read back what should hold; return what drifted and is not held back. Writes nothing.

        :param targets: only these; None: everything.
        """
        wanted = [
            setting for setting in self.wanted if targets is None or setting.target in targets
        ]
        kinds = self._host.kinds()
        waiting = self.limit.held_back(self._clock())
        drifting: list[Setting] = []
        for setting in verify.drifted(wanted, kinds):
            if _key(setting) not in waiting and not self._is_settled(setting):
                drifting.append(setting)
        return drifting

    def restore(self) -> list[Restoration]:
        """Put back what is ours; what people applied by hand is theirs to undo."""
        boot = self._host.boot()
        with self.journal.ending() as journal:
            return restore.restore(journal, self._host.kinds(), boot, only=_is_ours)


def _together(earlier: Pass, later: Pass) -> Pass:
    """Return what two rounds did, of which the later one knew more of what the kernel refuses."""
    before = earlier.written + earlier.faults
    written, faults = _sorted(refusals.together(before, later.written + later.faults))
    drifted = {_key(setting): setting for setting in earlier.drifted + later.drifted}
    return dataclasses.replace(
        later,
        written=written,
        drifted=list(drifted.values()),
        withdrawn=earlier.withdrawn + later.withdrawn,
        faults=faults,
    )


def _sorted(
    outcomes: Iterable[apply.Outcome],
) -> tuple[list[apply.Outcome], list[apply.Outcome]]:
    """Return the outcomes of settings that were written, and of those that could not be."""
    written: list[apply.Outcome] = []
    faults: list[apply.Outcome] = []
    for outcome in outcomes:
        if outcome.result in (apply.Result.WRITTEN, apply.Result.PENDING):
            written.append(outcome)
        elif outcome.result in apply.FAULTS:
            faults.append(outcome)
    return written, faults


def _not_put_back(restoration: Restoration) -> apply.Outcome:
    """Return the restoration of an entry that is kept as an outcome that failed."""
    original = dataclasses.replace(restoration.entry.setting(), value=restoration.entry.original)
    what = "is not"
    if restoration.result is RestoreResult.FAILED:
        what = "cannot be"
    detail = f"it {what} put back: {restoration.detail}"
    return apply.Outcome(original, apply.Result.FAILED, detail=detail)


def _key(setting: Setting | Entry) -> rewrite_limit.Key:
    return setting.kind, setting.target, setting.identity


def _is_ours(entry: Entry) -> bool:
    return entry.rule in AGENT_RULES


def _ours(
    settings: Sequence[Setting],
    entries: Mapping[rewrite_limit.Key, Entry],
    kinds: Mapping[str, base.SettingKind],
) -> tuple[list[Setting], list[tuple[Setting, Entry]]]:
    """Return the settings that no person has applied, and conflicts with those of a person."""
    ours, foreign = [], []
    for setting in settings:
        entry = entries.get(_key(setting))
        if entry is None or _is_ours(entry):
            ours.append(setting)
        elif not kinds[setting.kind].holds(setting.target, setting.value, entry.wanted):
            foreign.append((setting, entry))
    return ours, foreign


def _was_changed(entry: Entry, kind: base.SettingKind, current: str | None) -> bool:
    """Whether another program has changed an object since we wrote or watched it."""
    if entry.written is None:
        return False
    ours = {entry.written}
    if entry.state == "intended":  # a write was only begun
        ours.add(entry.wanted)
    return current is None or not any(kind.holds(entry.target, value, current) for value in ours)


def _is_silent(setting: Setting) -> bool:
    """Whether this is an interrupt without a handler.

    A NIC that is down keeps its vectors and drops their handlers: they never fire until it comes
    up. Written under the name that they have meanwhile, their originals would be lost then.
    """
    if setting.kind != host_model.IrqTarget.kind:
        return False
    return not host_model.IrqTarget.parse(setting.target, setting.identity).action
