# SPDX-License-Identifier: Apache-2.0
"""Runs the pairs of a fleet: several at a time, each host in one at most, outcomes stored at once.

One thread, the caller's, decides and writes to the database; each pair that is measured has a
thread of its own. What goes wrong with a pair stays with the pair, which is tried again and then
recorded as failed. The run ends early only for what concerns all pairs: Ctrl-C, the time limit,
wrong credentials, a quota too small for a single pair, or a streak of failures that are no host's.
"""

import collections
import contextlib
import dataclasses
import functools
import queue
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, TypeAlias

from nova_perf_tuning import errors, signals
from nova_perf_tuning.printing import counted, one_line
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
#: The run ends when so many attempts on end, over different hosts, failed for the cloud's sake, or
#: while no pair has worked; and at least so many for each pair that is measured at a time, which
#: bridges what is short.
STREAK, _ROUNDS = 8, 2

#: A second attempt may help with all but these: what failed in the guest is a result, and a limit
#: was long enough.
_FINAL: Final = {fleet_model.ErrorClass.BENCHMARK_FAILED, fleet_model.ErrorClass.TIME_LIMIT}
#: What says nothing of the hosts of a pair.
_OF_THE_CLOUD: Final = {
    fleet_model.ErrorClass.API,
    fleet_model.ErrorClass.QUOTA,
    fleet_model.ErrorClass.INTERRUPTED,
}

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
        self._settings = run.plan.settings
        self._tell = progress
        self._threads = threads or Workers()
        self._pending: collections.deque[fleet_model.Task] = collections.deque()
        self._running: dict[int, float] = {}  # number of the pair -> when it began
        self._busy: set[str] = set()
        self._limit = self._settings.max_parallel
        self._taken_s: list[float] = []
        self.unclean = False
        self.stopped_by = 0
        self._stopped_at = 0.0
        self._tried: list[int] = []
        self._broken: errors.PerfTuningError | None = None
        self._streak: list[fleet_model.Task] = []  # attempts that failed on end for no host's sake
        self._begun = self._seen = self._threads.now()
        self._said = ""
        for task in run.tasks:
            self._tried.append(task.attempts)
            if task.state == "planned":
                self._pending.append(task)
            elif task.state == "done" and task.seconds:
                self._taken_s.append(task.seconds)

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
        timed_out = False
        while not self._halted():
            timed_out = bool(self._pending) and not self._time_for_one()
            if not timed_out:
                self._begin_what_can()
            if not self._running:
                break
            if not self._hear(HEARTBEAT_S):
                self._say(self._said)  # so that the time left is seen to pass
        if self._pending and not timed_out and not self._halted():  # stacks stayed on their hosts
            self._give_up(
                f"{counted(len(self._pending), 'pair')} not measured: stacks stayed on their hosts"
            )
        if self._halted():
            return Ended.INTERRUPTED
        return Ended.TIME_LIMIT if self._pending else Ended.COMPLETE

    def _halted(self) -> bool:
        return bool(self.stopped_by) or self._broken is not None

    def _begin_what_can(self) -> None:
        while len(self._running) < self._limit and not self._halted():
            task = next((task for task in self._pending if not task.pair.hosts & self._busy), None)
            if task is None:
                break
            self._pending.remove(task)
            self._store.mark(self._run.run_id, task, "running")
            self._running[task.number] = self._threads.now()
            self._busy |= task.pair.hosts
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
        taken_s = now - self._running.pop(number)
        if self._lost():
            return True
        self._beat(now)
        if isinstance(outcome, run_store.TakenOverError):
            raise outcome
        if isinstance(outcome, errors.PerfTuningError):
            self._put_back(task)
            self._broken = self._broken or outcome
            return True
        if all(error.kind is not fleet_model.ErrorClass.NOT_REMOVED for error in outcome.errors):
            self._busy -= task.pair.hosts  # where a stack stayed it would disturb what is measured
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
        # Why it has no results; that something of it could not be removed is none of the reasons.
        kinds = {error.kind for error in outcome.errors} - {fleet_model.ErrorClass.NOT_REMOVED}
        if fleet_model.ErrorClass.INTERRUPTED in kinds or (self._halted() and not outcome.trials):
            self._put_back(task)
            for error in outcome.errors:
                if error.kind is not fleet_model.ErrorClass.INTERRUPTED:
                    self._say(
                        f"{_shown(task.pair)}: {one_line(error.reason, 300)}", important=True
                    )
            return
        if fleet_model.ErrorClass.QUOTA in kinds:
            self._too_many(task, outcome)
            return
        if not outcome.trials and (not self._taken_s or (kinds and kinds <= _OF_THE_CLOUD)):
            self._streak.append(task)
        else:
            self._streak.clear()
        measured = {trial.arm for trial in outcome.trials if trial.value is not None}
        whole = measured.issuperset(arm.name for arm in self._plan.arms)
        tries = self._tried[task.number] + self._settings.retries
        again = task.attempts < tries and not kinds <= _FINAL
        task.seconds = round(taken_s, 3)
        if outcome.trials and (whole or not again):
            self._taken_s.append(taken_s)
            self._store.finish(self._run.run_id, task, outcome, "done")
            faults = ""
            if outcome.errors:
                faults = f" with errors ({outcome.errors[0].kind.value})"
            self._say(f"{_shown(task.pair)} measured{faults}", important=bool(faults))
        else:
            self._failed(task, outcome, again)

    def _failed(
        self, task: fleet_model.Task, outcome: fleet_model.PairOutcome, again: bool
    ) -> None:
        reason = "no results"
        if outcome.errors:
            reason = one_line(outcome.errors[0], 300)
        later = ""
        if again:
            later = " and is tried again later"
            # Half a comparison is worth nothing once there is a whole one.
            self._store.finish(
                self._run.run_id, task, dataclasses.replace(outcome, trials=[]), "planned"
            )
            self._pending.append(task)
        else:
            self._store.finish(self._run.run_id, task, outcome, "failed")
        self._say(f"{_shown(task.pair)} failed{later} ({reason})", important=True)
        on_end = [failed.pair.hosts for failed in self._streak]
        if len(on_end) >= max(STREAK, _ROUNDS * self._limit) and not frozenset.intersection(
            *on_end
        ):
            self._give_up(
                f"{len(on_end)} attempts on end failed, over different hosts; the last one: {reason}"
            )
            for failed in self._streak:
                if failed.state == "failed":
                    self._put_back(failed)  # what made all of them fail is not theirs

    def _too_many(self, task: fleet_model.Task, outcome: fleet_model.PairOutcome) -> None:
        """Go on with fewer pairs at a time, since the quota does not allow what there was."""
        reason = next(
            error.reason for error in outcome.errors if error.kind is fleet_model.ErrorClass.QUOTA
        )
        reason = one_line(reason, 160)
        self._put_back(task)
        if not self._running:
            self._give_up(f"the project's quota leaves no room for a single pair: {reason}")
        elif self._limit > len(self._running):
            self._limit = len(self._running)
            self._say(
                f"quota: at most {counted(self._limit, 'pair')} at a time from now ({reason})",
                True,
            )

    def _put_back(self, task: fleet_model.Task) -> None:
        self._store.mark(self._run.run_id, task, "planned")
        self._pending.appendleft(task)

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
        if not self._running:
            return
        self._launcher.interrupt()
        if not self._lost():
            self._say(
                f"stopping: the stacks of {counted(len(self._running), 'pair')} are being removed",
                True,
            )
        stop_by = self._threads.now() + STOP_S
        while self._running and (left_s := stop_by - self._threads.now()) > 0:
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
        if self._running:
            self._say(
                f"{counted(len(self._running), 'pair')} could not be stopped: stacks are left",
                True,
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

    # -- time

    def _left_s(self) -> float:
        """Return the estimated seconds to the end, by the time of pairs so far or by the plan."""
        each_s, now = self._each_s(), self._threads.now()
        passed_s = [min(now - begun, each_s) for begun in self._running.values()]
        work_s = (len(self._pending) + len(self._running)) * each_s - sum(passed_s)
        at_once = len(self._run.hosts) // max(len(task.pair.hosts) for task in self._run.tasks)
        return max(0.0, work_s / max(1, min(self._limit, at_once)))

    def _each_s(self) -> float:
        if self._taken_s:
            return statistics.fmean(self._taken_s)
        return min(self._launcher.expected_s(self._plan), self._plan.time_limit_s)

    def _time_for_one(self) -> bool:
        limit_s = self._settings.time_limit_s
        return limit_s is None or self._threads.now() - self._begun + self._each_s() <= limit_s

    def _say(self, text: str, important: bool = False) -> None:
        self._said = text
        done = sum(task.state in ("done", "failed") for task in self._run.tasks)
        with contextlib.suppress(OSError):  # the reader has gone; the run goes on
            self._tell(
                session.Progress(done, len(self._run.tasks), self._left_s(), text, important)
            )


def _shown(pair: fleet_model.HostPair) -> str:
    if not pair.client:
        return "a pair where the scheduler puts it"
    if pair.client == pair.server:
        return f"{pair.client} alone"
    return f"{pair.client} with {pair.server}"
