# SPDX-License-Identifier: Apache-2.0
"""Runs the pairs of a fleet: several at a time, each host in one at most, outcomes stored at once.

One thread, the caller's, decides and writes to the database; each pair that is measured has a
thread of its own. What goes wrong with a pair stays with the pair, which is tried again and then
recorded as failed. The run ends early only for what concerns all pairs: Ctrl-C, the time limit,
wrong credentials, a quota too small for a single pair, or a streak of failures that are no host's.
``fleet_schedule.py`` decides; this module runs threads, stores outcomes and reports.
"""

import contextlib
import dataclasses
import functools
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, TypeAlias

from nova_perf_tuning import errors, signals
from nova_perf_tuning.printing import counted, one_line
from nova_perf_tuning.validation.fleet import fleet_schedule
from nova_perf_tuning.validation.heat import heat_pair
from nova_perf_tuning.validation.measure import fleet_model, session
from nova_perf_tuning.validation.results.environment import Ended
from nova_perf_tuning.validation.store import run_store

#: How often the owner says in the database that it is alive, in seconds; see
#: :data:`.owner.SILENCE_S`.
HEARTBEAT_S: Final = 30.0
#: How long stacks may take to go after Ctrl-C, in seconds.
STOP_S: Final = 600.0
#: A signal that comes so much later than the first, in seconds, is another one; what comes sooner
#: is the same sent twice, as SIGHUP is by the kernel and by the shell.
SECOND_S: Final = 1.0
#: What the thread of a pair gives: its outcome, or why no pair can be measured.
Outcome: TypeAlias = fleet_model.PairOutcome | errors.PerfTuningError


class HopelessError(errors.PerfTuningError):
    """Going on makes no sense: no pair works (any more), or not even one fits the quota."""


class Workers:
    """Runs jobs in threads of their own and hands over outcomes in the order in which they end.

    A simulation takes the place of this class with one whose time is virtual.
    """

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[int, Outcome] | None] = queue.SimpleQueue()

    def now(self) -> float:
        """Return a clock that only goes forward, in seconds."""
        return time.monotonic()

    def start(self, number: int, job: Callable[[], Outcome]) -> None:
        """Run ``job`` in a thread; it ends with the process if nobody waits for it."""
        threading.Thread(
            target=lambda: self._hand_over(number, job()), name=f"pair-{number}", daemon=True
        ).start()

    def wait(self, limit_s: float) -> tuple[int, Outcome] | None:
        """Return the next job that ended; None after ``limit_s`` or when woken."""
        try:
            return self._ended.get(timeout=limit_s)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """End :meth:`wait` now; may be called from a signal handler."""
        self._ended.put(None)

    def _hand_over(self, number: int, outcome: Outcome) -> None:
        self._ended.put((number, outcome))


class FleetRun:
    """One run, new or taken up again.

    :ivar unclean: whether stacks of this run may be left.
    :ivar stopped_by: the number of the signal that stopped the run, 0 if none did.
    """

    def __init__(
        self,
        store: run_store.RunStore,
        launcher: heat_pair.HeatPairLauncher,
        run: fleet_model.StoredRun,
        progress: Callable[[session.Progress], None] = lambda _: None,
        threads: Workers | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        :param run: owned by this process, see :meth:`~.run_store.RunStore.claim`; nothing of it is
            left.
        :param progress: called from the caller's thread whenever a pair begins or ends.
        """
        self._store = store
        self._launcher = launcher
        launcher.own(store.lease(run.run_id))
        self._run = run
        self._plan = run.plan.measure
        self._tell = progress
        self._threads = threads or Workers()
        self.unclean = False
        self.stopped_by = 0
        self._stopped_at = 0.0
        self._broken: errors.PerfTuningError | None = None
        self._seen = self._threads.now()
        self._said = ""
        arms = [arm.name for arm in self._plan.arms]
        expected_s = min(launcher.expected_s(self._plan), self._plan.time_limit_s)
        self._schedule = fleet_schedule.PairSchedule(
            run.tasks, len(run.hosts), arms, run.plan.settings, expected_s, self._seen
        )

    def run(self) -> Ended:
        """Run what is left and return how it ended; all stacks are removed, also after an error.

        SIGINT, SIGTERM and SIGHUP stop it; what removes stacks goes on until another one comes.

        :raises errors.CloudError, HopelessError, engine.DatabaseError: nothing can be measured (any
            more).
        :raises run_store.TakenOverError: another process has the run; its stacks and its state are
            left alone.
        """
        ended = Ended.INTERRUPTED
        with self._signals_noted():
            try:
                ended = self._go_through()
            except run_store.TakenOverError as error:
                self._broken = error
            finally:
                self._close(Ended.COMPLETE if ended is Ended.COMPLETE else Ended.INTERRUPTED)
        if self._broken is not None:
            raise self._broken
        return ended

    @contextlib.contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """Note the first signal, raise KeyboardInterrupt at the second; ignored ones stay so."""

        def note(number: int, _frame: FrameType | None) -> None:
            if not self.stopped_by:
                self.stopped_by, self._stopped_at = number, time.monotonic()
            elif time.monotonic() - self._stopped_at >= SECOND_S:
                raise KeyboardInterrupt
            self._threads.wake()

        heard = [
            number for number in signals.SIGNALS if signal.getsignal(number) is not signal.SIG_IGN
        ]
        with signals.handled(heard, note):
            yield

    # -- the loop

    def _go_through(self) -> Ended:
        is_out_of_time = False
        while not self._halted():
            is_out_of_time = self._schedule.is_out_of_time(self._threads.now())
            if not is_out_of_time:
                self._begin_what_can()
            if not self._schedule.running:
                break
            if not self._hear(HEARTBEAT_S):
                self._say(self._said)  # so that the time left is seen to pass
        left = len(self._schedule.pending)
        if left and not is_out_of_time and not self._halted():
            self._give_up(f"{counted(left, 'pair')} not measured: stacks stayed on their hosts")
        if self._halted():
            return Ended.INTERRUPTED
        if left:
            return Ended.TIME_LIMIT
        return Ended.COMPLETE

    def _halted(self) -> bool:
        return bool(self.stopped_by) or self._broken is not None

    def _begin_what_can(self) -> None:
        while not self._halted():
            task = self._schedule.next_task()
            if task is None:
                break
            self._store.mark(self._run.run_id, task, "running")
            self._schedule.begin(task, self._threads.now())
            self._threads.start(task.number, functools.partial(self._measured, task.pair))
            self._say(f"measuring {_shown(task.pair)}")

    def _measured(self, pair: fleet_model.HostPair) -> Outcome:
        """Measure a pair, in its thread; a fault of ours is no reason to lose the run."""
        try:
            return self._launcher.measure(pair, self._plan)
        except errors.PerfTuningError as error:
            return error
        except BaseException as error:
            reason = (
                f"internal error, please report: {type(error).__name__}: {one_line(error, 300)}"
            )
            return fleet_model.PairOutcome(
                pair, errors=[fleet_model.PairError(fleet_model.ErrorClass.STACK_FAILED, reason)]
            )

    def _hear(self, limit_s: float) -> bool:
        """Wait for a pair to end and deal with it; False when none did."""
        ended, now = self._threads.wait(limit_s), self._threads.now()
        if ended is None:
            self._beat(now)
            return False
        number, outcome = ended
        task = self._run.tasks[number]
        taken_s = self._schedule.end(number, now)
        if self._lost():
            return True
        self._beat(now)
        if isinstance(outcome, run_store.TakenOverError):
            raise outcome
        if isinstance(outcome, errors.PerfTuningError):
            self._store.mark(self._run.run_id, task, "planned")
            self._schedule.put_back(task)
            self._broken = self._broken or outcome
            return True
        self._settle(task, outcome, taken_s)
        return True

    def _beat(self, now: float) -> None:
        """Record now and then that this process is alive; check that the run is its own."""
        if now - self._seen >= HEARTBEAT_S and not self._lost():
            self._store.seen(self._run.run_id)
            self._seen = now

    def _lost(self) -> bool:
        return isinstance(self._broken, run_store.TakenOverError)

    # -- what becomes of a pair

    def _settle(
        self, task: fleet_model.Task, outcome: fleet_model.PairOutcome, taken_s: float
    ) -> None:
        """Store and report what the schedule decides about an attempt that has ended."""
        decision = self._schedule.settle(task, outcome, taken_s, halted=self._halted())
        if decision.fate is fleet_schedule.Fate.CUT_OFF:
            self._cut_off(task, outcome)
        elif decision.fate is fleet_schedule.Fate.NO_ROOM:
            self._no_room(task, outcome, decision)
        else:
            task.seconds = round(taken_s, 3)
            if decision.fate is fleet_schedule.Fate.DONE:
                self._done(task, outcome)
            else:
                self._failed(task, outcome, decision)

    def _cut_off(self, task: fleet_model.Task, outcome: fleet_model.PairOutcome) -> None:
        self._store.mark(self._run.run_id, task, "planned")
        for error in outcome.errors:
            if error.kind is not fleet_model.ErrorClass.INTERRUPTED:
                self._say(f"{_shown(task.pair)}: {one_line(error.reason, 300)}", important=True)

    def _no_room(
        self,
        task: fleet_model.Task,
        outcome: fleet_model.PairOutcome,
        decision: fleet_schedule.Decision,
    ) -> None:
        self._store.mark(self._run.run_id, task, "planned")
        reason = next(
            error.reason for error in outcome.errors if error.kind is fleet_model.ErrorClass.QUOTA
        )
        reason = one_line(reason, 160)
        if decision.gives_up:
            self._give_up(f"the project's quota leaves no room for a single pair: {reason}")
        elif decision.is_lowered:
            at_once = counted(self._schedule.limit, "pair")
            self._say(f"quota: at most {at_once} at a time from now ({reason})", important=True)

    def _done(self, task: fleet_model.Task, outcome: fleet_model.PairOutcome) -> None:
        self._store.finish(self._run.run_id, task, outcome, "done")
        faults = ""
        if outcome.errors:
            faults = f" with errors ({outcome.errors[0].kind.value})"
        self._say(f"{_shown(task.pair)} measured{faults}", important=bool(faults))

    def _failed(
        self,
        task: fleet_model.Task,
        outcome: fleet_model.PairOutcome,
        decision: fleet_schedule.Decision,
    ) -> None:
        reason = "no results"
        if outcome.errors:
            reason = one_line(outcome.errors[0], 300)
        later = ""
        if decision.fate is fleet_schedule.Fate.AGAIN:
            later = " and is tried again later"
            # Half a comparison is worth nothing once there is a whole one.
            without_trials = dataclasses.replace(outcome, trials=[])
            self._store.finish(self._run.run_id, task, without_trials, "planned")
        else:
            self._store.finish(self._run.run_id, task, outcome, "failed")
        self._say(f"{_shown(task.pair)} failed{later} ({reason})", important=True)
        if decision.gives_up:
            self._give_up(
                f"{decision.on_end} attempts on end failed, over different hosts;"
                f" the last one: {reason}"
            )
        for failed in decision.put_back:
            self._store.mark(self._run.run_id, failed, "planned")

    def _give_up(self, reason: str) -> None:
        self._broken = self._broken or HopelessError(reason)

    # -- the end

    def _close(self, state: str) -> None:
        """Remove what is left, then record how the run ended, also after a second signal.

        Of a run that another process has, both are for that one.
        """
        self.unclean = True
        try:
            with contextlib.suppress(KeyboardInterrupt):
                self._drain()
                self._sweep()
        finally:
            if self._lost():
                self.unclean = False
            else:
                self._store.end(self._run.run_id, state, leftovers=self.unclean)

    def _drain(self) -> None:
        """Interrupt what still runs, and wait until it has ended; what still arrives is stored."""
        running = self._schedule.running
        if not running:
            return
        self._launcher.interrupt()
        if not self._lost():
            self._say(
                f"stopping: the stacks of {counted(len(running), 'pair')} are being removed",
                important=True,
            )
        stop_by = self._threads.now() + STOP_S
        while running and (left_s := stop_by - self._threads.now()) > 0:
            try:
                self._hear(min(HEARTBEAT_S, left_s))
            except run_store.TakenOverError as error:
                self._broken = error
            except errors.PerfTuningError as error:  # the database; stacks go all the same
                self._broken = self._broken or error

    def _sweep(self) -> None:
        """Remove what a pair could not remove itself; what is left then is said and remembered."""
        if self._lost():
            return
        running = len(self._schedule.running)
        if running:
            self._say(
                f"{counted(running, 'pair')} could not be stopped: stacks are left",
                important=True,
            )
            return
        try:
            names = self._launcher.cleanup(self._run.run_id)
        except run_store.TakenOverError as error:
            self._broken = error
            return
        except errors.PerfTuningError as error:  # the cloud, or the database with the lease
            self._say(f"stacks may be left: {one_line(error, 300)}", important=True)
            return
        self.unclean = False
        if names:
            self._say(f"removed at the end: {', '.join(names)}", important=True)

    def _say(self, text: str, important: bool = False) -> None:
        self._said = text
        done = sum(task.state in ("done", "failed") for task in self._run.tasks)
        left_s = self._schedule.left_s(self._threads.now())
        now = session.Progress(done, len(self._run.tasks), left_s, text, important)
        with contextlib.suppress(OSError):  # the reader has gone; the run goes on
            self._tell(now)


def _shown(pair: fleet_model.HostPair) -> str:
    if not pair.client:
        return "a pair where the scheduler puts it"
    if pair.client == pair.server:
        return f"{pair.client} alone"
    return f"{pair.client} with {pair.server}"
