# SPDX-License-Identifier: Apache-2.0
"""The loop: waits for events and timers, and answers bursts of events with one pass."""

import copy
import logging
import math
import os
import selectors
import signal
import time
from collections.abc import Iterator
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.agent import findings, reconcile, sources, state
from nova_perf_tuning.host.model import host_model, messages, notes
from nova_perf_tuning.host.transaction.journal import BusyError
from nova_perf_tuning.printing import counted

LOG = logging.getLogger(__name__)

#: Looks after an event: drivers go on setting their masks after they have announced themselves.
FOLLOW_UPS: Final = (0.25, 1.0, 3.0)
#: Seconds after an event for which it explains a change.
_EXCUSED_FOR: Final = 5.0
#: Seconds after which a pass is tried again that met a command at work.
_BUSY_PAUSE: Final = 0.5
#: Seconds of the first and the longest pause after passes that failed, and between two that events
#: bring about.
_FIRST_PAUSE, _LONGEST_PAUSE, _EARLY = 1.0, 60.0, 2.0
#: Longest pause after a pass, in seconds. Otherwise the pause lasts as long as the pass: the host
#: has its own work.
_LONGEST_REST: Final = 1.0


_PASSTHROUGH: Final = frozenset(
    {host_model.PlanRule.PASSTHROUGH_NUMA, host_model.PlanRule.PASSTHROUGH_VCPU}
)

#: What other threads may look at, of which the loop changes nothing: the agent's state and the
#: host.
Snapshot = tuple[state.AgentState, host_model.HostFacts | None]


class Service:
    """Runs until a signal or :meth:`stop` ends it.

    :param timing: has the intervals of group ``[agent]``.
    :param daemons: other programs on this host.
    :param sysroot: the recorded host that ``run_dir`` belongs to, out of which no link leads; empty: this host.
    """

    def __init__(
        self,
        reconciler: reconcile.Reconciler,
        poller: sources.Poller,
        timing: Any,
        run_dir: str,
        daemons: findings.CompetingDaemons,
        notifier: state.Notifier | None = None,
        sysroot: str = "",
    ) -> None:
        self._reconciler = reconciler
        self._poller = poller
        self._timing = timing
        self._run_dir = run_dir
        self._sysroot = sysroot
        self._notifier = notifier or state.Notifier({})
        self._daemons = daemons
        self._selector = selectors.DefaultSelector()
        self.waker = sources.Waker()
        self._files: sources.GuestWatch | None = None
        self.add(self.waker)
        self.stats = state.Stats()
        #: As of the last pass, reading or fault; None before the first.
        self.snapshot: Snapshot | None = None
        self._stopping = False
        self._began = time.time()
        self._next_look = self._next_verify = self._next_passthrough = self._rest_until = 0.0
        #: When the last pass began, or it was last tried to write what is held back.
        self._tried = time.monotonic()
        #: Looks that follow an event.
        self._due: list[float] = []
        self._excused_until = 0.0
        #: Causes of a pass that could not be made, when it is tried again (0: there is none), and
        #: its pause.
        self._owed: set[str] = set()
        self._retry_at = self._pause = 0.0
        self._fault = self._fault_code = ""
        self._last: reconcile.Pass | None = None
        #: Interrupts of passed-through devices that are placed.
        self._passed: frozenset[str] = frozenset()
        self._last_line = ""

    def add(self, source: sources.Source) -> None:
        """Listen to one more source of events."""
        self._selector.register(source, selectors.EVENT_READ, source)
        if isinstance(source, sources.GuestWatch):
            self._files = source

    def stop(self) -> None:
        """End the loop soon; may be called from a signal handler or another thread."""
        self._stopping = True
        self.waker.wake("stop")

    def catch_signals(self) -> None:
        """Stop on SIGTERM and SIGINT, make a pass on SIGHUP."""
        signal.signal(signal.SIGHUP, lambda _number, _frame: self.waker.wake("signal"))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.stop())

    def run(self) -> None:
        """Make the first pass, tell systemd that all is placed, and go on until stopped."""
        self._excuse()  # changes from before the start are no conflict
        self.make_pass({"start"})
        self._notifier.send(READY=1, STATUS=self._line())
        while not self._stopping:
            self.turn()
        self._notifier.send(STOPPING=1)

    def close(self) -> None:
        """Give back what :meth:`add` was given."""
        for key in list(self._selector.get_map().values()):
            key.data.close()
        self._selector.close()

    def turn(self) -> None:
        """Wait for the next event or timer and answer it."""
        # In a storm of events those are collected that come while the host gets on with its work.
        time.sleep(max(0.0, self._rest_until - time.monotonic()))
        ready = self._selector.select(max(0.0, self._next_deadline() - time.monotonic()))
        causes: set[str] = set()
        for key, _mask in ready:
            causes |= key.data.drain()
        if self._notifier.watchdog:
            self._notifier.send(WATCHDOG=1)
        if causes and not self._stopping:
            self._answer(causes)
        if not self._stopping:
            # After events too: those that come all the time shall not keep the timers from their
            # turn.
            self._on_timer(time.monotonic())

    def _next_deadline(self) -> float:
        """Return when the next timer is due; events move only the watchdog's."""
        if self._retry_at:
            times = [self._retry_at]
        else:
            times = self._follow_ups()
            times += [self._next_look, self._next_verify, self._next_passthrough]
        if self._notifier.watchdog:
            times.append(time.monotonic() + self._notifier.watchdog / 3)
        return min(times)

    def _excuse(self) -> None:
        """Note something that explains changes now and soon, of which there may be more to see."""
        now = time.monotonic()
        self._excused_until = now + _EXCUSED_FOR
        self._due = [now + pause for pause in FOLLOW_UPS]

    def _answer(self, causes: set[str]) -> None:
        if causes & sources.EXCUSES:
            self._excuse()
            self._reconciler.retry_refused()
        if self._retry_at and "signal" not in causes:
            # The pass that is due answers it, too: none may work until something else changes.
            self._owed |= causes
            self._retry_at = min(self._retry_at, max(time.monotonic(), self._tried + _EARLY))
        else:
            self.make_pass(causes)

    def _on_timer(self, now: float) -> None:
        if self._retry_at:
            if now >= self._retry_at:
                self.make_pass(set())
        elif now >= self._next_verify:
            self._verify(now)
        elif any(due <= now for due in self._follow_ups()):
            self._due = [due for due in self._due if due > now]
            self._tried = now
            if self._is_amiss():
                self.make_pass({"drift"})
        elif now >= self._next_look:
            self._look(now)
        elif now >= self._next_passthrough:
            self._look_at_passed_through(now)

    def _follow_ups(self) -> list[float]:
        times = list(self._due)
        times += self._reconciler.limit.due(self._tried)
        return times

    def _changed(self) -> bool:
        """Whether anything came or went, or another process wrote to the journal."""
        return self._poller.changed() or self._reconciler.journal.changed()

    def _is_amiss(self) -> bool:
        """Whether there is a reason for a pass without an event."""
        return self._changed() or bool(self._reconciler.drifting()) or self._reconciler.overdue()

    def _look(self, now: float) -> None:
        """See what came or went without an event."""
        self._next_look = now + self._timing.interval
        if self._files is not None:
            self._files.renew()
        if self._changed():
            self.make_pass({"look"})
        else:
            self._tell()

    def _look_at_passed_through(self, now: float) -> None:
        """See what a guest's driver did to the vectors of its device; no event reports it.

        One that is made anew may have its old number, so those that are placed are read back too.
        """
        self._next_passthrough = now + self._timing.passthrough_interval
        if self._poller.changed() or self._reconciler.drifting(self._passed):
            self._excuse()
            self.make_pass({"look"})

    def _verify(self, now: float) -> None:
        """Read everything back, and say what state we are in."""
        self.stats.verifies += 1
        self._next_verify = now + self._timing.verify_interval
        self._next_look = now + self._timing.interval
        if self._is_amiss():
            self.make_pass({"verify"})
        else:
            self._tell()

    def make_pass(self, causes: set[str]) -> None:
        """Make one pass; what cannot be done is reported and tried again later."""
        begin = self._tried = time.monotonic()
        self._owed |= causes
        excused = begin < self._excused_until or bool(self._owed & (sources.EXCUSES | {"start"}))
        # Before the facts are read: what changes while they are is found at the next look.
        self._poller.changed()
        try:
            done = self._reconciler.reconcile(excused=excused)
        except BusyError as error:
            self.stats.skipped += 1
            if not self._retry_at:
                LOG.info("%s: the pass waits for it", error)
            self._retry_at = begin + _BUSY_PAUSE
        except (errors.PerfTuningError, OSError) as error:
            self._failed(begin, error)
        else:
            self._fault, self._fault_code, self._retry_at, self._pause = "", "", 0.0, 0.0
            self._note(done, time.monotonic() - begin)
        now = time.monotonic()
        self._rest_until = now + min(_LONGEST_REST, now - begin)
        self._tell()

    def _failed(self, begin: float, error: Exception) -> None:
        """Say once what is wrong, and try again later."""
        text = " ".join(str(error).split())
        self.stats.errors += 1
        self.stats.passes[min(self._owed)] += 1
        if text != self._fault:
            LOG.error("%s", text)
        self._fault, self._fault_code = text, errors.code(error)
        self._pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * self._pause))
        self._retry_at = begin + self._pause

    def _note(self, done: reconcile.Pass, seconds: float) -> None:
        """Count what a pass did, log it, and set the timers anew."""
        causes, self._owed, self._last = self._owed, set(), done
        now = time.monotonic()
        if self._next_verify <= now:
            self._next_verify = now + self._timing.verify_interval
        self._next_look = now + self._timing.interval
        if any(setting.kind == host_model.IrqTarget.kind for setting in done.drifted):
            self._daemons.moved()
        self.stats.passes[min(causes)] += 1
        self.stats.written.update(outcome.setting.kind for outcome in done.written)
        self.stats.drifted.update(setting.kind for setting in done.drifted)
        self.stats.withdrawn += len(done.withdrawn)
        if done.written or done.withdrawn:
            LOG.info(
                "%s: %d of %d settings written, %d put back, in %.0f ms",
                "+".join(sorted(causes)),
                len(done.written),
                len(self._reconciler.wanted),
                len(done.withdrawn),
                seconds * 1e3,
            )
        for outcome in done.faults:
            failed, result = outcome.setting, outcome.result.value
            LOG.warning(
                "%s %s = %s: %s: %s",
                failed.kind,
                failed.target,
                failed.value,
                result,
                outcome.detail,
            )
        wanted = self._reconciler.wanted
        self._passed = frozenset(
            setting.target for setting in wanted if setting.rule in _PASSTHROUGH
        )
        self._next_passthrough = math.inf
        if any(_places_devices(guest) for guest in done.facts.guests):
            self._next_passthrough = now + self._timing.passthrough_interval

    def _line(self) -> str:
        if self._fault:
            return self._fault
        if self._last is None:
            return "waiting for a command that is changing this host"
        held = len(self._reconciler.conflicts())
        more = f", {held} held back: others keep changing them" if held else ""
        settings, guests = len(self._reconciler.wanted), len(self._last.facts.guests)
        return f"{counted(settings, 'setting')} kept, {counted(guests, 'guest')}{more}"

    def _tell(self) -> None:
        line = self._line()
        if line != self._last_line:
            self._last_line = line
            self._notifier.send(STATUS=line)
        current = self.state()
        self.snapshot = current, self._last.facts if self._last is not None else None
        try:
            state.write(self._run_dir, current, self._sysroot)
        except (errors.PerfTuningError, OSError) as error:
            LOG.warning("state for 'nova-perf status': %s", error)

    def state(self) -> state.AgentState:
        """Return what ``nova-perf status`` shows; long lists are cut, and counted in full."""
        now, last = time.monotonic(), self._last
        by_code: dict[str, list[findings.AgentFinding]] = {}
        for finding in self._findings(now):
            by_code.setdefault(finding.code.value, []).append(finding)
        listed: list[dict[str, Any]] = []
        totals: dict[str, int] = {}
        for code, members in sorted(by_code.items()):
            totals[code] = len(members)
            listed += [finding.as_json() for finding in members[: findings.NAMED]]
        guests: int | None = None
        nova_config: list[str] = []
        warnings: list[notes.Note] = []
        if last is not None:
            guests = len(last.facts.guests)
            nova_config = list(last.plan.nova_config)
            warnings = last.plan.warnings
        return state.AgentState(
            pid=os.getpid(),
            pid_start=state.process_start(os.getpid()),
            started=self._began,
            updated=time.time(),
            updated_monotonic=now,
            settings=len(self._reconciler.wanted),
            guests=guests,
            cpu_s=round(time.process_time(), 3),
            **vars(copy.deepcopy(self.stats)),
            error=self._fault,
            error_code=self._fault_code,
            findings=listed,
            findings_total=totals,
            nova_config=nova_config,
            warnings_total=len(warnings),
            **_shortened(messages.as_json(warnings[: findings.NAMED])),
        )

    def _findings(self, now: float) -> Iterator[findings.AgentFinding]:
        yield from self._daemons.findings()
        yield from self._daemons.conflicts(self._reconciler.conflicts(), now)
        if self._last is not None:
            for setting, entry in self._last.foreign:
                yield findings.AgentFinding(
                    findings.AgentFindingCode.APPLIED_BY_PERSON,
                    entry.rule,
                    setting.kind,
                    setting.target,
                    setting.value,
                    entry.wanted,
                )
        for outcome in self._reconciler.not_in_force():
            failed = outcome.setting
            yield findings.AgentFinding(
                findings.AgentFindingCode.NOT_IN_FORCE,
                outcome.detail,
                failed.kind,
                failed.target,
                failed.value,
            )


def _shortened(noted: dict[str, Any]) -> dict[str, Any]:
    """Cut long lists in the parameters of notes, and count them in full as ``NAME_total``.

    Any user can start processes that are places of a note.
    """
    for note in noted["notes"]:
        params = note["params"]
        for name, value in list(params.items()):
            if isinstance(value, tuple) and len(value) > findings.NAMED:
                params[name] = value[: findings.NAMED]
                params[f"{name}_total"] = len(value)
    return noted


def _places_devices(guest: host_model.GuestProcess) -> bool:
    """Whether a guest has devices of its own whose interrupts are placed."""
    domain = guest.domain
    if domain is None or domain.request is None or not domain.hostdevs:
        return False
    return domain.request.irq_placement in ("numa", "vcpu")
