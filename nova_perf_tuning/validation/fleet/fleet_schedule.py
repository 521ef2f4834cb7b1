# SPDX-License-Identifier: Apache-2.0
"""Which pair of a fleet run is measured next, what becomes of one that ended, and when to give up.

A schedule knows no clock, no thread, no database and no cloud. Each method is given the time on a
clock that only goes forward; ``fleet_run.py`` measures, stores and reports what is decided here.
"""

import collections
import dataclasses
import enum
import statistics
from collections.abc import Collection, Sequence
from typing import Final

from nova_perf_tuning.validation.measure import fleet_model

#: The run ends when so many attempts on end, over different hosts, failed for the cloud's sake, or
#: while no pair has worked.
STREAK: Final = 8
#: It ends no sooner than after so many attempts for each pair that is measured at a time, which
#: bridges what is short.
ROUNDS: Final = 2

#: A second attempt may help with all but these: what failed in the guest is a result, and a limit
#: was long enough.
_FINAL: Final = {fleet_model.ErrorClass.BENCHMARK_FAILED, fleet_model.ErrorClass.TIME_LIMIT}
#: What says nothing of the hosts of a pair.
_OF_THE_CLOUD: Final = {
    fleet_model.ErrorClass.API,
    fleet_model.ErrorClass.QUOTA,
    fleet_model.ErrorClass.INTERRUPTED,
}


class Fate(enum.Enum):
    """What becomes of a pair whose attempt has ended."""

    DONE = "it has results"
    FAILED = "it has none, and is not tried again"
    AGAIN = "it has none, and is tried again after the others"
    CUT_OFF = "the run ends: it is planned as if it had not been tried"
    NO_ROOM = "the quota was full: it is planned as if it had not been tried"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What follows from an attempt that has ended.

    :ivar is_lowered: from now on fewer pairs are measured at a time, see :attr:`PairSchedule.limit`.
    :ivar gives_up: going on makes no sense. With :attr:`Fate.NO_ROOM` not even one pair fits the
        quota, otherwise too many attempts have failed on end.
    :ivar on_end: number of these attempts.
    :ivar put_back: pairs that had failed in them: what made all fail is not theirs. They are
        planned again.
    """

    fate: Fate
    is_lowered: bool = False
    gives_up: bool = False
    on_end: int = 0
    put_back: tuple[fleet_model.Task, ...] = ()


class PairSchedule:
    """The pairs of one run, new or taken up again.

    :ivar pending: pairs that are still to be measured, the next ones first.
    :ivar running: number of each pair that is being measured -> when it began.
    :ivar limit: pairs at a time, at most.
    """

    def __init__(
        self,
        tasks: Sequence[fleet_model.Task],
        hosts: int,
        arms: Collection[str],
        settings: fleet_model.RunSettings,
        expected_s: float,
        now: float,
    ) -> None:
        """Begin with the pairs that are planned.

        :param tasks: all pairs of the run; what is ``done`` says how long a pair takes.
        :param hosts: number of hosts of the run.
        :param arms: a pair whose trials have a value in each of these is measured.
        :param expected_s: seconds that a pair takes as long as none has been measured.
        """
        self._arms = arms
        self._settings = settings
        self._expected_s = expected_s
        self._begun = now
        self.limit = settings.max_parallel
        self.pending: collections.deque[fleet_model.Task] = collections.deque()
        self.running: dict[int, float] = {}
        self._busy: set[str] = set()
        #: Numbers of the running pairs beside which another one ran at some moment.
        self._accompanied: set[int] = set()
        #: Seconds that each pair with results took.
        self._taken_s: list[float] = []
        #: Number of a pair -> attempts before this process had the run.
        self._tried: dict[int, int] = {}
        #: Attempts that failed on end for no host's sake.
        self._streak: list[tuple[fleet_model.Task, Fate]] = []
        for task in tasks:
            self._tried[task.number] = task.attempts
            if task.state == "planned":
                self.pending.append(task)
            elif task.state == "done" and task.seconds:
                self._taken_s.append(task.seconds)
        most_hosts = max(len(task.pair.hosts) for task in tasks)
        #: Pairs that have no host in common.
        self._apart = hosts // most_hosts

    # -- what is measured next

    def next_task(self) -> fleet_model.Task | None:
        """Return the first pair whose hosts are free; None when none may begin now."""
        if len(self.running) >= self.limit:
            return None
        for task in self.pending:
            if not task.pair.hosts & self._busy:
                return task
        return None

    def begin(self, task: fleet_model.Task, now: float) -> None:
        """Note that a pending pair is being measured from now on."""
        self.pending.remove(task)
        self._accompanied.discard(task.number)
        if self.running:
            self._accompanied.update(self.running, (task.number,))
        self.running[task.number] = now
        self._busy |= task.pair.hosts

    def is_out_of_time(self, now: float) -> bool:
        """Return whether a pair that began now would not end within the time limit."""
        limit_s = self._settings.time_limit_s
        if limit_s is None or not self.pending:
            return False
        return now - self._begun + self._each_s() > limit_s

    # -- what becomes of it

    def end(self, number: int, now: float) -> float:
        """Note that an attempt has ended; return how many seconds it took."""
        return now - self.running.pop(number)

    def put_back(self, task: fleet_model.Task) -> None:
        """Plan a pair as if it had not been tried, before all others."""
        self.pending.appendleft(task)

    def settle(
        self,
        task: fleet_model.Task,
        outcome: fleet_model.PairOutcome,
        taken_s: float,
        *,
        halted: bool,
    ) -> Decision:
        """Decide what becomes of a pair whose attempt has ended, by its outcome.

        :param task: as it was before this attempt.
        :param halted: the run ends: what has no results is not the pair's fault.
        """
        kinds = {error.kind for error in outcome.errors}
        if fleet_model.ErrorClass.NOT_REMOVED not in kinds:
            # Where a stack stayed it would disturb what is measured on these hosts.
            self._busy -= task.pair.hosts
        # That something could not be removed is no reason why there are no results.
        kinds.discard(fleet_model.ErrorClass.NOT_REMOVED)
        if fleet_model.ErrorClass.INTERRUPTED in kinds or (halted and not outcome.trials):
            self.put_back(task)
            return Decision(Fate.CUT_OFF)
        if fleet_model.ErrorClass.QUOTA in kinds:
            self.put_back(task)
            return self._too_many(was_alone=task.number not in self._accompanied)
        is_of_the_cloud = bool(kinds) and kinds <= _OF_THE_CLOUD
        is_of_no_host = not outcome.trials and (is_of_the_cloud or not self._taken_s)
        fate = self._fate(task, outcome, kinds)
        if fate is Fate.DONE:
            self._taken_s.append(taken_s)
        elif fate is Fate.AGAIN:
            self.pending.append(task)
        if not is_of_no_host:
            self._streak.clear()
            return Decision(fate)
        self._streak.append((task, fate))
        return self._on_end(fate)

    def _fate(
        self,
        task: fleet_model.Task,
        outcome: fleet_model.PairOutcome,
        kinds: Collection[fleet_model.ErrorClass],
    ) -> Fate:
        """Return the fate of a pair whose attempt was neither cut off nor without room."""
        measured = {trial.arm for trial in outcome.trials if trial.value is not None}
        is_whole = measured.issuperset(self._arms)
        tries = self._tried[task.number] + self._settings.retries
        may_help = any(kind not in _FINAL for kind in kinds)
        is_tried_again = may_help and task.attempts < tries
        if outcome.trials and (is_whole or not is_tried_again):
            return Fate.DONE
        if is_tried_again:
            return Fate.AGAIN
        return Fate.FAILED

    def _too_many(self, *, was_alone: bool) -> Decision:
        """Go on with fewer pairs at a time, since the quota does not allow what there was.

        Pairs that began together may each hold a part of the quota, so that none of them fits:
        only one that was alone from its begin to its end says that there is no room for any.
        """
        if was_alone:
            return Decision(Fate.NO_ROOM, gives_up=True)
        at_once = max(1, len(self.running))
        if self.limit <= at_once:
            return Decision(Fate.NO_ROOM)
        self.limit = at_once
        return Decision(Fate.NO_ROOM, is_lowered=True)

    def _on_end(self, fate: Fate) -> Decision:
        """Give up when too many attempts have failed on end and no host is in all of them."""
        hosts_of_each = [task.pair.hosts for task, _fate in self._streak]
        on_end = len(hosts_of_each)
        in_all = frozenset.intersection(*hosts_of_each)
        if on_end < max(STREAK, ROUNDS * self.limit) or in_all:
            return Decision(fate)
        failed = []
        for task, its_fate in self._streak:
            if its_fate is Fate.FAILED:
                failed.append(task)
                self.put_back(task)
        return Decision(fate, gives_up=True, on_end=on_end, put_back=tuple(failed))

    # -- time

    def left_s(self, now: float) -> float:
        """Return the estimated seconds to the end, by the time of pairs so far or by the plan."""
        each_s = self._each_s()
        passed_s = 0.0
        for begun in self.running.values():
            passed_s += min(now - begun, each_s)
        work_s = (len(self.pending) + len(self.running)) * each_s - passed_s
        at_once = max(1, min(self.limit, self._apart))
        return max(0.0, work_s / at_once)

    def _each_s(self) -> float:
        """Return how many seconds a pair takes."""
        if self._taken_s:
            return statistics.fmean(self._taken_s)
        return self._expected_s
