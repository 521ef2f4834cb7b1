# SPDX-License-Identifier: Apache-2.0
"""The loop: waits for events and timers, makes the passes that are due, and reports them.

What is due, and when, is the decision of ``schedule.py``.
"""

import copy
import logging
import os
import selectors
import signal
import time
from collections.abc import Iterator
from typing import Any, Final

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.agent import (
    cause,
    conditions,
    findings,
    own_cpus,
    reconcile,
    schedule,
    sources,
    state,
)
from nova_perf_tuning.host.model import host_model, messages, notes
from nova_perf_tuning.host.transaction.journal import BusyError
from nova_perf_tuning.printing import counted

LOG = logging.getLogger(__name__)

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
    :param own: where this process runs; None: anywhere.
    """

    def __init__(
        self,
        reconciler: reconcile.Reconciler,
        poller: sources.Poller,
        timing: schedule.Intervals,
        run_dir: str,
        daemons: findings.CompetingDaemons,
        notifier: state.Notifier | None = None,
        sysroot: str = "",
        own: own_cpus.OwnCpus | None = None,
    ) -> None:
        self._own = own
        self._reconciler = reconciler
        self._poller = poller
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
        self._schedule = schedule.AgentSchedule(timing, time.monotonic(), self._notifier.watchdog)
        self._fault = self._fault_code = ""
        self._last: reconcile.Pass | None = None
        self._conditions: list[conditions.Condition] = []
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
        self.waker.wake(cause.STOP)

    def catch_signals(self) -> None:
        """Stop on SIGTERM and SIGINT, make a pass on SIGHUP."""
        signal.signal(signal.SIGHUP, lambda _number, _frame: self.waker.wake(cause.SIGNAL))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.stop())

    def run(self) -> None:
        """Make the first pass, tell systemd that all is placed, and go on until stopped."""
        self._schedule.explain(time.monotonic())  # changes from before the start are no conflict
        self.make_pass({cause.START})
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
        time.sleep(self._schedule.rest_s(time.monotonic()))
        now = time.monotonic()
        deadline = self._schedule.next_deadline(now, self._pauses())
        ready = self._selector.select(max(0.0, deadline - now))
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
            self._on_timer()

    def _pauses(self) -> list[float]:
        """Return when the pauses end of what is held back."""
        return self._reconciler.limit.due(self._schedule.tried)

    def _answer(self, causes: set[str]) -> None:
        if causes & cause.EXCUSES:
            self._reconciler.retry_refused()
        if self._schedule.event(causes, time.monotonic()):
            self.make_pass(causes)

    def _on_timer(self) -> None:
        step = self._schedule.due(time.monotonic(), self._pauses())
        if step is schedule.AgentStep.RETRY:
            self.make_pass(set())
        elif step is schedule.AgentStep.VERIFY:
            self._verify()
        elif step is schedule.AgentStep.FOLLOW_UP:
            if self._needs_pass():
                self.make_pass({cause.DRIFT})
        elif step is schedule.AgentStep.LOOK:
            self._look()
        elif step is schedule.AgentStep.DEVICES:
            self._look_at_passed_through()

    def _changed(self) -> bool:
        """Whether anything came or went, or another process wrote to the journal."""
        return self._poller.changed() or self._reconciler.journal.changed()

    def _needs_pass(self) -> bool:
        """Whether there is a reason for a pass without an event."""
        return self._changed() or bool(self._reconciler.drifting()) or self._reconciler.overdue()

    def _look(self) -> None:
        """See what came or went without an event."""
        if self._files is not None:
            self._files.renew()
        if self._changed():
            self.make_pass({cause.LOOK})
        else:
            self._tell()

    def _look_at_passed_through(self) -> None:
        """See what a guest's driver did to the vectors of its device; no event reports it.

        One that is made anew may have its old number, so those that are placed are read back too.
        """
        if self._poller.changed() or self._reconciler.drifting(self._passed):
            self._schedule.explain(time.monotonic())
            self.make_pass({cause.LOOK})

    def _verify(self) -> None:
        """Read everything back, and say what state we are in."""
        self.stats.verifies += 1
        if self._needs_pass():
            self.make_pass({cause.VERIFY})
        else:
            self._tell()

    def make_pass(self, causes: set[str]) -> None:
        """Make one pass; what cannot be done is reported and tried again later."""
        begin = time.monotonic()
        excused = self._schedule.begin(causes, begin)
        # Before the facts are read: what changes while they are is found at the next look.
        self._poller.changed()
        try:
            done = self._reconciler.reconcile(excused=excused)
        except BusyError as error:
            self.stats.skipped += 1
            if self._schedule.put_off():
                LOG.info("%s: the pass waits for it", error)
        except (errors.PerfTuningError, OSError) as error:
            self._failed(error)
        else:
            self._fault, self._fault_code = "", ""
            self._note(done, time.monotonic() - begin)
        self._schedule.ended(time.monotonic())
        self._tell()

    def _failed(self, error: Exception) -> None:
        """Say once what is wrong; the pass is tried again later."""
        text = " ".join(str(error).split())
        self.stats.errors += 1
        self.stats.passes[min(self._schedule.owed)] += 1
        if text != self._fault:
            LOG.error("%s", text)
        self._fault, self._fault_code = text, errors.code(error)
        self._schedule.failed()

    def _note(self, done: reconcile.Pass, seconds: float) -> None:
        """Count what a pass did, and log it."""
        devices = any(_places_devices(guest) for guest in done.facts.guests)
        causes = self._schedule.succeeded(time.monotonic(), devices=devices)
        self._last = done
        if self._own is not None:
            self._own.follow(cpulist.parse(done.plan.sets.get("housekeeping", "")))
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

    def _line(self) -> str:
        if self._fault:
            return self._fault
        if self._last is None:
            return "waiting for a command that is changing this host"
        held = len(self._reconciler.conflicts())
        more = f", {held} held back: others keep changing them" if held else ""
        settings, guests = len(self._reconciler.wanted), len(self._last.facts.guests)
        changes = self._reconciler.forecast
        if changes is not None:
            due = len(changes.due)
            return f"observes: would change {due} of {counted(settings, 'setting')}, {counted(guests, 'guest')}"
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
        digest = ""
        if last is not None:
            digest = self._reconciler.plan_digest(last.plan)
            guests = len(last.facts.guests)
            nova_config = list(last.plan.nova_config)
            warnings = last.plan.warnings
        changes = self._reconciler.forecast
        due: int | None = None
        if changes is not None:
            due = len(changes.due)
        self._conditions = conditions.judge(
            fault=self._fault,
            looked=last is not None,
            due=due,
            settings=len(self._reconciler.wanted),
            totals=totals,
            earlier=self._conditions,
            now=time.time(),
        )
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
            conditions=self._conditions,
            plan_digest=digest,
            **self._forecast(),
            warnings_total=len(warnings),
            **_shortened(messages.as_json(warnings[: findings.NAMED])),
        )

    def _forecast(self) -> dict[str, Any]:
        """Return what an observer would change."""
        changes = self._reconciler.forecast
        if changes is None:
            return {}
        return {
            "mode": "observe",
            "would_change": changes.by_rule(),
            "would_change_begun": dict(changes.begun),
            "would_change_since": changes.oldest(),
        }

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
