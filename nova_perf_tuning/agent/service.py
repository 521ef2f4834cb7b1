"""The loop: waits for events and timers, answers bursts with one pass, keeps systemd and people informed."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol

from nova_perf_tuning import errors
from nova_perf_tuning.agent import findings, inbox, notify, pace, reconcile, sources, stats, watch
from nova_perf_tuning.agent import state as state_module
from nova_perf_tuning.host import model
from nova_perf_tuning.host.settings import irq
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import restore as restore_module

LOG = logging.getLogger(__name__)

#: Looks after an event: drivers go on setting their masks after they have announced themselves.
FOLLOW_UPS: Final = (0.25, 1.0, 3.0)
#: Seconds after an event for which it explains a change.
_EXCUSED_FOR: Final = 5.0
#: Seconds after which a pass is tried again that met a command at work.
_BUSY_PAUSE: Final = 0.5


class Timing(Protocol):
    """The seconds between two looks, readings and looks at passed-through devices (group ``[agent]``)."""

    interval: float
    verify_interval: float
    passthrough_interval: float


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What other threads may look at: the loop changes nothing of it.

    :ivar state: as ``nova-perf status`` gets it.
    """

    state: dict[str, Any]
    stats: stats.Stats
    facts: model.HostFacts | None


class Service:
    """Runs until a signal or :meth:`stop` ends it.

    :param guests_fault: says why libvirt is not connected, empty when it is; None where it is not wanted.
    :param neighbours: other programs on this host.
    """

    def __init__(
        self,
        reconciler: reconcile.Reconciler,
        look: watch.Watch,
        timing: Timing,
        run_dir: str,
        neighbours: findings.Neighbours,
        *,
        waker: sources.Waker | None = None,
        notifier: notify.Notifier | None = None,
        guests_fault: Callable[[], str] | None = None,
    ) -> None:
        self._reconciler = reconciler
        self._watch = look
        self._timing = timing
        self._run_dir = run_dir
        self._notifier = notifier or notify.Notifier({})
        self._guests_fault = guests_fault
        self._neighbours = neighbours
        #: What was told last of what may change without a pass.
        self._told_of: tuple[object, ...] = ()
        self._inbox = inbox.Inbox()
        self.waker = waker or sources.Waker()
        self._files: sources.FileWatch | None = None
        self.add(self.waker)
        self.stats = stats.Stats()
        self.facts: model.HostFacts | None = None
        #: As of the last pass, reading or fault; None before the first.
        self.snapshot: Snapshot | None = None
        self._stopping = False
        self._began = time.time()
        self._next_look = self._next_verify = self._next_passthrough = 0.0
        #: When it was last tried to write what is held back.
        self._tried = time.monotonic()
        self._due: list[float] = []
        #: When the last event before the looks that are due came; None: no event made them due.
        self._followed: float | None = None
        self._excused_until = 0.0
        self._rests, self._retries = pace.Rests(), pace.Retries()
        #: Causes of a pass that met a command at work, when the first of them came, and when it is tried again.
        self._owed: set[str] = set()
        self._owed_since = self._owed_until = 0.0
        self._fault = ""
        self._last: reconcile.Pass | None = None
        self._passed_through = False
        #: Interrupts of passed-through devices that are placed, and those that the last pass left as they are.
        self._passed: frozenset[str] = frozenset()
        self._left: frozenset[str] = frozenset()
        self._told = ""

    def add(self, source: sources.Source) -> None:
        """Listen to one more source of events."""
        self._inbox.add(source)
        if isinstance(source, sources.FileWatch):
            self._files = source

    def stop(self) -> None:
        """End the loop soon; may be called from a signal handler or another thread."""
        self._stopping = True
        self.waker.wake("stop")

    def catch_signals(self) -> None:
        """Stop on SIGTERM and SIGINT, make a pass on SIGHUP."""

        def on_signal(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGHUP:
                self.waker.wake("signal")
            else:
                self.stop()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, on_signal)

    def run(self) -> None:
        """Make the first pass, tell systemd that all is placed, and go on until stopped."""
        begin = time.monotonic()
        self._excused_until = begin + _EXCUSED_FOR  # what happened while no agent was there is held against nobody
        self.make_pass({"start"}, begin)
        self._notifier.send(READY=1, STATUS=self._line())
        while not self._stopping:
            self.turn()
        self._notifier.send(STOPPING=1)

    def close(self) -> None:
        """Give back what :meth:`add` was given."""
        self._inbox.close()

    def turn(self) -> None:
        """Wait for the next event or timer and answer it."""
        causes: set[str] = set()
        came = time.monotonic()
        if self._inbox.wait(max(0.0, self._next_deadline() - came)):
            came = time.monotonic()
            if not self._stopping:
                # In a storm of events those are collected that come while the host gets on with its work.
                time.sleep(max(0.0, self._rests.until - came))
            causes = self._inbox.take()
        if self._notifier.watchdog:
            self._notifier.send(WATCHDOG=1)
        if causes and not self._stopping:
            begin = self._inbox.polled
            self._answer(causes, came)
            if self._tried < begin:
                self._rests.after_reading(begin, time.monotonic())
        now = time.monotonic()
        if self._stopping:
            return
        # After events too: those that come all the time shall not keep the timers from their turn.
        if not self._owed:
            self._on_timer(now)
        elif now >= self._owed_until:
            self.make_pass(set(), now)

    def _next_deadline(self) -> float:
        """Return when the next timer is due; all but the watchdog's stay where they are whatever comes between."""
        if self._owed:
            times = [self._owed_until]
        elif self._retries.next:
            times = [self._next_look, self._retries.next]
        else:
            times = [self._next_look, self._next_verify, *self._due]
            held_back = self._reconciler.arbiter.due(self._tried)
            if held_back is not None:
                times.append(held_back)
            if self._passed_through:
                times.append(self._next_passthrough)
        if self._notifier.watchdog:
            times.append(time.monotonic() + self._notifier.watchdog / 3)
        return min(times)

    def _answer(self, causes: set[str], came: float) -> None:
        if sources.LOST in causes:
            self._next_look = came
        causes = causes - {sources.LOST}
        if causes & sources.EXCUSES:
            self._excused_until = came + _EXCUSED_FOR
            self._reconciler.retry_refused()
            self._due = [came + pause for pause in FOLLOW_UPS]
            self._followed = self._inbox.arrivals[-1] if self._inbox.arrivals else None
        if self._retries.next and "signal" not in causes:
            # The pass that is due answers it, too: none may work until something else is mended.
            if causes & sources.EXCUSES:
                self._retries.hasten(came)
                self._excused_until = max(came, self._retries.next) + _EXCUSED_FOR
            return
        written = set()
        if self._files is not None:
            written, self._files.written = self._files.written, set()
        if causes <= {sources.WRITTEN}:
            # Our own writes come here too; a read of the few that were written is all they cost.
            targets = {f"irq:{number}" for number in written}
            if not targets or not self._reconciler.drifting(targets):
                return
        self.make_pass(causes, came)

    def _changed(self) -> bool:
        """Whether anything came or went, or somebody else wrote to the journal."""
        return self._watch.changed() or self._reconciler.book.changed()

    def _is_amiss(self) -> bool:
        """Whether there is a reason for a pass without an event."""
        return self._changed() or bool(self._reconciler.drifting()) or self._reconciler.overdue()

    def _on_timer(self, now: float) -> None:
        if now < self._retries.next:
            if now >= self._next_look:
                self._next_look = now + self._timing.interval
                if self._changed():  # whoever mends a file shall not wait for the end of a pause
                    self.make_pass({"look"}, now)
            return
        if now >= self._next_verify or self._retries.next:
            self._verify(now)
            return
        late = [one for one in self._due if one <= now]
        held_back = self._reconciler.arbiter.due(self._tried)
        if late or (held_back is not None and held_back <= now):
            self._due = [one for one in self._due if one > now]
            self._tried = now
            if self._is_amiss():
                if late and self._followed is not None:
                    self._inbox.arrivals.append(self._followed)
                self.make_pass({"drift"}, now)
        elif now >= self._next_look:
            self._look(now)
        elif self._passed_through and now >= self._next_passthrough:
            self._look_at_passed_through(now)

    def _look(self, now: float) -> None:
        """See what came or went without an event, and whether there is something new to tell."""
        self._next_look = now + self._timing.interval
        if self._files is not None:
            self._files.renew()
        if self._changed():
            self.make_pass({"look"}, now)
        elif self._news() != self._told_of:
            self._tell()

    def _look_at_passed_through(self, now: float) -> None:
        """See what a guest's driver did to the vectors of its device, of which the host hears nothing.

        One that is made anew may have its old number, so those that are placed are read back too. Nobody is blamed
        for what no write was seen of.
        """
        self._next_passthrough = now + self._timing.passthrough_interval
        moved = self._watch.interrupts_changed()
        drifting = [] if moved else self._reconciler.drifting(self._passed)
        wrong = frozenset(one.target for one in drifting)
        if not moved and wrong <= self._left:
            self._left = wrong
            return
        if moved or (self._files is not None and all(self._files.watches(one[4:]) for one in wrong)):
            self._due = [now + pause for pause in FOLLOW_UPS]
            self._followed = None
            self._excused_until = now + _EXCUSED_FOR
        before = self._last
        self.make_pass({"look"}, now)
        if self._last is not None and self._last is not before:
            # A full reading tries again what cannot be mended now; a pass every two seconds would cost too much.
            self._left = wrong - {one.setting.target for one in self._last.written}

    def _verify(self, now: float) -> None:
        """Read everything back, and say what state we are in."""
        self.stats.verifies += 1
        self._next_verify = now + self._timing.verify_interval
        self._next_look = now + self._timing.interval
        if self._retries.next or self._is_amiss():
            self.make_pass({"verify"}, now)
        else:
            self._watch_writers()
            self._tell()

    def make_pass(self, causes: set[str], came: float) -> None:
        """Make one pass; what cannot be done is reported and tried again later."""
        begin = self._tried = time.monotonic()
        if self._owed:
            causes, came = causes | self._owed, self._owed_since
        # Before the facts are read: what changes while they are is found at the next look.
        self._watch.changed()
        try:
            done = self._reconciler.reconcile(excused=begin < self._excused_until)
        except journal_module.BusyError as error:
            self._put_off(causes, came, begin, str(error))
            return
        except (errors.PerfTuningError, OSError) as error:
            self._count(causes)
            self._failed(begin, " ".join(str(error).split()))
            return
        now = time.monotonic()
        self._count(causes)
        self._rests.after_pass(begin, now)
        self._fault = ""
        self._retries.succeeded()
        self._note(done, causes, now, now - came)
        if self._next_verify <= now:
            self._next_verify = now + self._timing.verify_interval
        self._next_look = now + self._timing.interval
        self._next_passthrough = now + self._timing.passthrough_interval
        self._tell()

    def _count(self, causes: set[str]) -> None:
        self.stats.passes[min(causes)] += 1
        self._owed = set()

    def _put_off(self, causes: set[str], came: float, begin: float, text: str) -> None:
        """A command is changing this host: say so once, and come back soon with the same causes."""
        self.stats.skipped += 1
        self._rests.after_pass(begin, time.monotonic())
        if not self._owed:
            LOG.info("%s: the pass waits for it", text)
        self._owed, self._owed_since, self._owed_until = set(causes), came, begin + _BUSY_PAUSE
        if begin < self._excused_until:
            self._excused_until = max(self._excused_until, self._owed_until + _EXCUSED_FOR)
        self._tell()

    def _failed(self, begin: float, text: str) -> None:
        """Say once what is wrong, and try again later."""
        self.stats.errors += 1
        self._rests.after_pass(begin, time.monotonic())
        if text != self._fault:
            LOG.error("%s", text)
        self._fault = text
        self._retries.failed(begin)
        self._next_verify = self._retries.next
        self._next_look = begin + self._timing.interval
        if begin < self._excused_until:
            self._excused_until = max(self._excused_until, self._next_verify + _EXCUSED_FOR)
        self._tell()

    def _note(self, done: reconcile.Pass, causes: set[str], now: float, seconds: float) -> None:
        self._tell_foreign(done)
        self._last, self.facts = done, done.facts
        if any(one.kind == irq.IrqAffinity.kind for one in done.drifted):
            self._neighbours.moved()
        for outcome in done.written:
            self.stats.written[outcome.setting.kind] += 1
        for one in done.drifted:
            self.stats.drifted[one.kind] += 1
        self.stats.withdrawn += len(done.withdrawn)
        for came in self._inbox.arrivals if done.written else ():
            self.stats.placed_after(now - came)
        self._inbox.arrivals.clear()
        if done.written or done.withdrawn:
            LOG.info(
                "%s: %d of %d settings written, %d put back, in %.0f ms",
                "+".join(sorted(causes)),
                len(done.written),
                done.wanted,
                len(done.withdrawn),
                seconds * 1e3,
            )
        for outcome in done.faults:
            one = outcome.setting
            LOG.warning(
                "%s %s = %s: %s: %s", one.kind, one.target, one.value, outcome.result.value, outcome.detail
            )
        self._passed = frozenset(
            one.target for one in self._reconciler.wanted if one.rule.startswith("passthrough-")
        )
        self._passed_through = bool(self._passed) or any(
            guest.domain is not None
            and guest.domain.hostdevs
            and guest.domain.request is not None
            and guest.domain.request.irq_placement in ("numa", "vcpu")
            for guest in done.facts.guests
        )
        self._watch_writers()

    def _watch_writers(self) -> None:
        """Hear of writes to the interrupts that are placed, also where they or the folders were made anew."""
        if self._files is not None:
            self._files.renew()
            self._files.watch_interrupts(
                {one.target[4:] for one in self._reconciler.wanted if one.kind == "irq_affinity"}
            )

    def _tell_foreign(self, done: reconcile.Pass) -> None:
        """Log what a person has applied otherwise, once."""
        known = self._last.foreign if self._last is not None else []
        before = {(one.kind, one.target, entry.wanted) for one, entry in known}
        for one, entry in done.foreign:
            if (one.kind, one.target, entry.wanted) not in before:
                said = findings.applied_by_a_person(one, entry).detail
                LOG.warning("%s %s: %s; planned is %s", one.kind, one.target, said, one.value)

    def restore(self) -> list[restore_module.Restoration]:
        """Put back before the end what the agent placed.

        :raises BusyError: a command held the journal for as long as a stop may wait; nothing was put back.
        """
        return self._reconciler.restore()

    def _line(self) -> str:
        if self._fault:
            return self._fault
        if self._last is None:
            return "waiting for a command that is changing this host"
        held = len(self._reconciler.contested())
        guests = len(self.facts.guests) if self.facts is not None else 0
        more = f", {held} held back: others keep changing them" if held else ""
        return f"{len(self._reconciler.wanted)} settings kept, {guests} guests{more}"

    def _news(self) -> tuple[object, ...]:
        """Return what people are told of and what may change without a pass."""
        return (
            list(self._neighbours.findings()),
            self._guests_fault() if self._guests_fault is not None else None,
            sorted(self._reconciler.contested()),
            [(one.setting.kind, one.setting.target, one.detail) for one in self._reconciler.not_in_force()],
        )

    def _tell(self) -> None:
        line = self._line()
        if line != self._told:
            self._told = line
            self._notifier.send(STATUS=line)
        self._told_of = self._news()
        state = self.as_state()
        self.snapshot = Snapshot(state, self.stats.copy(), self.facts)
        try:
            state_module.write(self._run_dir, state)
        except (errors.PerfTuningError, OSError) as error:
            LOG.warning("state for 'nova-perf status': %s", error)

    def as_state(self) -> dict[str, Any]:
        """Return what ``nova-perf status`` shows; lists are cut to a bounded length, and counted whole."""
        now = time.monotonic()
        found = self._findings(now)
        return {
            "pid": os.getpid(),
            "pid_start": state_module.process_start(os.getpid()),
            "started": self._began,
            "updated": time.time(),
            "updated_monotonic": now,
            "told_within_s": max(self._timing.verify_interval, self._retries.next - now),
            "settings": len(self._reconciler.wanted),
            "guests": len(self.facts.guests) if self.facts is not None else None,
            "cpu_s": round(time.process_time(), 3),
            **self.stats.as_state(),
            "error": self._fault,
            "libvirt": self._guests_fault() if self._guests_fault is not None else None,
            "findings": [one.as_state() for one in findings.named(found)],
            "findings_total": dict(collections.Counter(one.what for one in found)),
            "warnings": list(self._last.plan.warnings[: findings.NAMED]) if self._last is not None else [],
        }

    def _findings(self, now: float) -> list[findings.Finding]:
        found = [*self._neighbours.findings(), *self._neighbours.contested(self._reconciler.contested(), now)]
        if self._last is not None:
            found += itertools.starmap(findings.applied_by_a_person, self._last.foreign)
        return found + findings.not_in_force(self._reconciler.not_in_force())
