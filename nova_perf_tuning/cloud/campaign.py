"""Runs the pairs of a fleet: several at a time, each host in one at most, every outcome stored as it arrives.

One thread, the caller's, decides and writes to the database; each pair that is measured has a thread of its own.
What goes wrong with a pair stays with the pair. The run ends early only for what concerns all pairs: Ctrl-C, the
time limit, wrong credentials, a quota too small for a single pair, not one of the first pairs working, or a streak
of failures that are no host's.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.bench import output
from nova_perf_tuning.budget import session
from nova_perf_tuning.cloud import blame, model, pairing, run_store, stop_signals, workers

#: How often the owner says in the database that it is alive, in seconds; others wait ten times as long.
HEARTBEAT_S = 30.0
#: How long stacks may take to go after Ctrl-C, in seconds.
STOP_S = 600.0
#: The run ends when so many pairs failed and none has given a result.
HOPELESS = 8

#: A second attempt may help with all but these: what failed in the guest is a result, and a limit was long enough.
_FINAL = {model.ErrorClass.BENCHMARK_FAILED, model.ErrorClass.TIME_LIMIT}


class HopelessError(errors.PerfTuningError):
    """Going on makes no sense: no pair works (any more), or not even one fits the quota."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How a fleet is gone through.

    :ivar peers: how many different peers every host meets.
    :ivar max_parallel: pairs at a time.
    :ivar retries: further attempts for a pair that gave nothing, for errors that may pass.
    :ivar time_limit_s: no pair is begun that would not end by then; None: no limit.
    """

    peers: int = 2
    seed: int = 0
    max_parallel: int = 4
    retries: int = 1
    time_limit_s: float | None = None


class Campaign:
    """One run, new or taken up again."""

    def __init__(
        self,
        store: run_store.RunStore,
        launcher: model.PairLauncher,
        run: model.StoredRun,
        arms: Sequence[model.Arm],
        plan: model.MeasurePlan,
        settings: Settings,
        progress: Callable[[session.Progress], None] = lambda _: None,
        threads: workers.Workers | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        :param run: owned by this process, see :meth:`~.run_store.RunStore.claim`; nothing of it is left.
        :param progress: called from the caller's thread whenever a pair begins or ends.
        """
        self._store = store
        self._launcher = launcher
        self._run = run
        self._arms = arms
        self._plan = plan
        self._settings = settings
        self._tell = progress
        self._threads = threads or workers.Workers()
        self._tasks = {task.number: task for task in run.tasks}
        self._pending = collections.deque(task.number for task in run.tasks if task.state == "planned")
        self._running: dict[int, float] = {}
        self._busy: set[str] = set()
        #: Of the busy hosts, those on which a stack stayed, which would disturb what is measured there.
        self._held: set[str] = set()
        self._limit = settings.max_parallel
        self._out = dict(run.out)
        self._taken_s = [task.seconds for task in run.tasks if task.state == "done" and task.seconds]
        self._signals = stop_signals.StopSignals(self._threads.wake)
        self._cleanups = itertools.count(-1, -1)
        self._unclean = False
        self._tried = {task.number: task.attempts for task in run.tasks}
        self._broken: errors.PerfTuningError | None = None
        #: Attempts that failed on end for the cloud's sake.
        self._streak: list[model.Task] = []
        self._begun = self._seen = self._threads.now()
        self._said = ""
        self._unheard: BaseException | None = None

    def run(self) -> str:
        """Run what is left and return how it ended: ``complete``, ``interrupted`` or ``time limit``.

        All stacks of this run are removed when it returns or raises.
        SIGINT, SIGTERM and SIGHUP stop it; what removes stacks goes on until another one comes.

        :raises model.CloudError: nothing can be measured on this cloud (any more).
        :raises HopelessError: see there.
        :raises nova_perf_tuning.database.engine.DatabaseError: the database fails.
        """
        ended = "interrupted"
        with self._signals.heard():
            try:
                ended = self._go_through()
            finally:
                self._close("complete" if ended == "complete" else "interrupted")
        if self._broken is not None:
            raise self._broken
        return ended

    @property
    def stopped_by(self) -> int:
        """Return the number of the signal that stopped the run, 0 if none did."""
        return self._signals.first

    @property
    def unclean(self) -> bool:
        """Return whether stacks of this run may be left."""
        return self._unclean

    @property
    def unheard(self) -> BaseException | None:
        """Return what telling the progress raised first; a run is not lost because nobody can read of it."""
        return self._unheard

    # -- the loop

    def _go_through(self) -> str:
        timed_out = False
        while not self._halted():
            timed_out = not self._begin_what_can()
            if not self._running:
                break
            if not self._hear(HEARTBEAT_S):
                self._say(self._said)  # so that the time left is seen to pass
        if self._halted():
            return "interrupted"
        return "time limit" if timed_out and self._pending else "complete"

    def _halted(self) -> bool:
        return bool(self._signals.first) or self._broken is not None

    def _begin_what_can(self) -> bool:
        """Begin pairs while there are hosts and places for them; False when the time limit forbids it."""
        if self._pending and not self._time_for_one():
            return False
        if self._pending and not self._running and all(self._hosts(one) & self._held for one in self._pending):
            self._free_hosts()
        while len(self._running) < self._limit and not self._halted():
            number = next((one for one in self._pending if not self._hosts(one) & self._busy), None)
            if number is None:
                break
            self._pending.remove(number)
            self._begin(number)
        return True

    def _begin(self, number: int) -> None:
        task = self._tasks[number]
        self._store.begin(self._run.run_id, number)
        task.state = "running"
        self._running[number] = self._threads.now()
        self._busy |= self._hosts(number)
        self._threads.start(number, lambda: self._launcher.measure(task.pair, self._arms, self._plan))
        self._say(f"measuring {_shown(task.pair)}")

    def _free_hosts(self) -> None:
        """Remove the stacks that stayed on hosts; nothing runs now. The run ends where they cannot be removed."""
        try:
            if self._removed(lambda: bool(self._signals.first)) is not None:
                self._busy -= self._held
                self._held.clear()
        except model.CloudError as error:
            self._break(error)

    def _hear(self, limit_s: float) -> bool:
        """Wait for a pair to end and deal with it; False when none did."""
        ended = self._threads.wait(limit_s)
        self._beat()
        if ended is None or ended.number not in self._running:
            return False
        task = self._tasks[ended.number]
        taken_s = self._threads.now() - self._running.pop(ended.number)
        if isinstance(ended.error, errors.PerfTuningError):
            self._put_back(task)
            self._break(ended.error)
            return True
        outcome = ended.outcome or _accident(task.pair, ended.error)
        if any(one.kind is model.ErrorClass.NOT_REMOVED for one in outcome.errors):
            self._held |= self._hosts(ended.number)
        else:
            self._busy -= self._hosts(ended.number)
        if not outcome.seconds:
            outcome.seconds = {"measure": taken_s}
        self._settle(task, outcome)
        return True

    def _beat(self) -> None:
        """Say now and then that this process is alive."""
        now = self._threads.now()
        if now - self._seen >= HEARTBEAT_S:
            self._store.seen(self._run.run_id)
            self._seen = now

    # -- what becomes of a pair

    def _settle(self, task: model.Task, outcome: model.PairOutcome) -> None:
        kinds = blame.kinds(outcome.errors)
        if model.ErrorClass.INTERRUPTED in kinds or (self._halted() and not outcome.trials):
            self._put_back(task)
            for error in outcome.errors:
                if error.kind is not model.ErrorClass.INTERRUPTED:
                    self._say(f"{_shown(task.pair)}: {output.printable(error.reason, 300)}", important=True)
            return
        if model.ErrorClass.QUOTA in kinds:
            self._too_many(task, outcome)
            return
        if not outcome.trials and blame.is_the_clouds(outcome.errors):
            self._streak.append(task)
        else:
            self._streak.clear()
        if outcome.trials and not (self._lacking(outcome) and self._worth_another(task, outcome)):
            self._taken_s.append(sum(outcome.seconds.values()))
            self._finish(task, outcome, "done")
            faults = f" with errors ({outcome.errors[0].kind.value})" if outcome.errors else ""
            self._say(f"{_shown(task.pair)} measured{faults}", important=bool(faults))
        else:
            self._failed(task, outcome)

    def _lacking(self, outcome: model.PairOutcome) -> bool:
        """Return whether an arm has no figure at all."""
        measured = {one.arm for one in outcome.trials if one.value is not None}
        return any(arm.name not in measured for arm in self._arms)

    def _worth_another(self, task: model.Task, outcome: model.PairOutcome) -> bool:
        kinds = blame.kinds(outcome.errors)
        tried = task.attempts - self._tried.get(task.number, 0)
        return tried < self._settings.retries and not kinds <= _FINAL and not self._given_up(task.pair)

    def _failed(self, task: model.Task, outcome: model.PairOutcome) -> None:
        reason = f"{outcome.errors[0].kind.value}: {outcome.errors[0].reason}" if outcome.errors else "no results"
        reason = output.printable(reason, 300)
        pair = task.pair
        if self._worth_another(task, outcome):
            # Half a comparison is worth nothing once there is a whole one.
            self._finish(task, dataclasses.replace(outcome, trials=[]), "planned")
            self._pending.append(task.number)
            self._say(f"{_shown(pair)} failed and is tried again later ({reason})", True)
        else:
            self._finish(task, outcome, "failed")
            self._say(f"{_shown(pair)} failed ({reason})", important=True)
            failed = sum(one.state == "failed" for one in self._tasks.values())
            if failed >= HOPELESS and not any(one.state == "done" for one in self._tasks.values()):
                self._hopeless(
                    self._tasks.values(), f"the first {failed} pairs all failed, the last one with {reason}"
                )
                return
        if blame.cloud_fails(self._streak, self._limit):
            told = f"{len(self._streak)} attempts failed on end for what is no host's fault"
            self._hopeless(self._streak, f"{told}, the last one with {reason}")
            return
        for host, why in blame.bad_hosts(self._tasks.values(), self._out).items():
            self._take_out(host, why)

    def _hopeless(self, tasks: Iterable[model.Task], why: str) -> None:
        """End the run; leave pairs that failed to whoever resumes it: what made all of them fail is not theirs."""
        self._break(HopelessError(why))
        for task in {task.number: task for task in tasks}.values():
            if task.state == "failed" and not self._given_up(task.pair):
                self._put_back(task)

    def _too_many(self, task: model.Task, outcome: model.PairOutcome) -> None:
        """Go on with fewer pairs at a time, since the quota does not allow what there was."""
        reason = next(one.reason for one in outcome.errors if one.kind is model.ErrorClass.QUOTA)
        self._put_back(task)
        if not self._running:
            self._break(
                HopelessError(f"the project's quota leaves no room for a single pair: {output.printable(reason)}")
            )
        elif self._limit > len(self._running):
            self._limit = len(self._running)
            self._say(
                f"quota: at most {_pairs(self._limit)} at a time from now ({output.printable(reason)})", True
            )

    def _put_back(self, task: model.Task) -> None:
        self._store.put_back(self._run.run_id, task.number)
        task.state = "planned"
        self._pending.appendleft(task.number)

    def _finish(self, task: model.Task, outcome: model.PairOutcome, state: str) -> None:
        self._store.finish(self._run.run_id, task, outcome, state)

    def _given_up(self, pair: model.HostPair) -> bool:
        return bool(blame.names(pair) & set(self._out))

    def _take_out(self, host: str, reason: str) -> None:
        self._out[host] = reason
        left = [name for name in self._run.hosts if name not in self._out]
        met = [task.pair for task in self._tasks.values() if task.state != "dropped"]
        new = pairing.additional(left, met, self._settings.peers, self._settings.seed) if len(left) > 1 else []
        added = self._store.take_out(self._run.run_id, host, reason, new)
        for task in self._tasks.values():
            if task.state == "planned" and host in blame.names(task.pair):
                task.state = "dropped"
                self._pending.remove(task.number)
        for task in added:
            self._tasks[task.number] = task
            self._pending.append(task.number)
        again = f"; {_pairs(len(added))} more for its peers" if added else ""
        self._say(f"{host} is given up: {reason}{again}", important=True)

    # -- the end

    def _break(self, error: errors.PerfTuningError) -> None:
        self._broken = self._broken or error

    def _close(self, state: str) -> None:
        """Remove what is left, then say how the run ended; each whatever becomes of the other."""
        try:
            try:
                self._drain()
            finally:
                self._sweep()
        finally:
            self._store.end(self._run.run_id, state, leftovers=self.unclean)

    def _drain(self) -> None:
        """Interrupt what still runs, and wait until it has ended; what still arrives is stored."""
        if not self._running:
            return
        self._launcher.interrupt()
        self._say(f"stopping: the stacks of {_pairs(len(self._running))} are being removed", important=True)
        stop_by = self._threads.now() + STOP_S
        while self._running and not self._signals.again and (left_s := stop_by - self._threads.now()) > 0:
            try:
                self._hear(min(HEARTBEAT_S, left_s))
            except errors.PerfTuningError as error:  # the database; stacks go all the same
                self._break(error)

    def _sweep(self) -> None:
        """Remove what a pair could not remove itself; what is left then is said and remembered."""
        self._unclean = True
        if self._running:
            self._say(f"{_pairs(len(self._running))} could not be stopped: stacks are left", important=True)
            return
        try:
            names = self._removed(lambda: self._signals.again)
        except model.CloudError as error:
            self._say(f"stacks may be left: {output.printable(error, 300)}", important=True)
            return
        self._unclean = names is None
        if names:
            self._say(f"removed at the end: {', '.join(names)}", important=True)

    def _removed(self, enough: Callable[[], bool]) -> list[str] | None:
        """Remove the run's stacks and return their names, None if it was ``enough`` before that was done.

        In a thread, so that others still see that this process is alive, and signals are heard.

        :raises model.CloudError: something could not be removed.
        """
        names: list[str] = []

        def remove() -> model.PairOutcome:
            names.extend(self._launcher.cleanup(self._run.run_id))
            return model.PairOutcome(model.HostPair())

        if enough():
            return None
        number = next(self._cleanups)
        self._threads.start(number, remove)
        while (ended := self._threads.wait(HEARTBEAT_S)) is None or ended.number != number:
            if enough():
                return None
            with contextlib.suppress(errors.PerfTuningError):  # it may be the database that ends the run
                self._beat()
        if ended.error is not None:
            raise ended.error
        return names

    # -- time

    def left_s(self) -> float:
        """Return the estimated seconds to the end, by what pairs have taken so far, before that by their plan."""
        each_s = self._each_s()
        now = self._threads.now()
        passed_s = [min(now - begun, each_s) for begun in self._running.values()]
        work_s = (len(self._pending) + len(self._running)) * each_s - sum(passed_s)
        hosts = len(self._run.hosts) - len(self._out)
        return max(0.0, work_s / max(1, min(self._limit, hosts // 2)))

    def _each_s(self) -> float:
        if self._taken_s:
            return statistics.fmean(self._taken_s)
        return min(self._launcher.expected_s(self._arms, self._plan), self._plan.time_limit_s)

    def _time_for_one(self) -> bool:
        limit_s = self._settings.time_limit_s
        return limit_s is None or self._threads.now() - self._begun + self._each_s() <= limit_s

    def _say(self, text: str, important: bool = False) -> None:
        self._said = text
        states = collections.Counter(task.state for task in self._tasks.values())
        done = states["done"] + states["failed"]
        total = len(self._tasks) - states["dropped"]
        try:
            self._tell(session.Progress(done, total, self.left_s(), text, important))
        except (Exception, SystemExit) as error:  # rich ends the program where the reader has gone
            self._unheard = self._unheard or error

    def _hosts(self, number: int) -> set[str]:
        return blame.names(self._tasks[number].pair)


def _pairs(number: int) -> str:
    return "1 pair" if number == 1 else f"{number} pairs"


def _shown(pair: model.HostPair) -> str:
    return f"{pair.client} with {pair.server}" if pair.client != pair.server else f"{pair.client} alone"


def _accident(pair: model.HostPair, error: BaseException | None) -> model.PairOutcome:
    """Return the outcome of a pair whose thread broke: a fault of ours, but no reason to lose the run."""
    reason = f"internal error, please report: {type(error).__name__}: {output.printable(error or '', 300)}"
    return model.PairOutcome(pair, errors=[model.PairError(model.ErrorClass.STACK_FAILED, reason)])
